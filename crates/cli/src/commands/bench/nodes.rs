//! A store of three nodes: commits on one node and on two, clients in opposite roles, a node that is killed and stays
//! away, its return, and shards that move; the sequencer by itself; and a start of all nodes after a kill of all.

use crate::Result;
use crate::crew::Crew;
use crate::nodes::{EtcdChoice, Leases, Lines, Node, Nodes};
use bench::{AtNode, Line, Sample, drop_cached, node_commits, opposite_roles, read_all, sequencer};
use membership::EtcdUrl;
use std::fs::create_dir_all;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// How long a node serves without etcd.
const LEASE: Duration = Duration::from_secs(2);

/// The bounds. Commits on other nodes' shards resume a second after the lease, and on a node's own ten seconds after
/// its restart. While shards move no commit is refused, and the 99th percentile is three times what it was.
const BEYOND_LEASE_MAX: Duration = Duration::from_secs(1);
const RESTART_MAX: Duration = Duration::from_secs(10);
const MOVE_P99_MAX: f64 = 3.0;

/// The bound of recovery: the rate at which the logs come back, over that at which the files are read.
const OVER_READ_MIN: f64 = 0.5;

/// How long commits are measured before shards move, and at least in the meantime.
const BEFORE: Duration = Duration::from_secs(5);

/// The clients that commit while shards move.
const MOVERS: usize = 4;

pub(super) fn measure(
    dir: &Path,
    etcd: &EtcdChoice,
    gib: f64,
    progress: &dyn Fn(&str),
    found: &mut dyn FnMut(Line) -> Result,
) -> Result {
    progress("start three nodes");
    let leases = Leases { of_nodes: LEASE, of_groups_ms: None };
    let mut nodes = Nodes::start(dir, etcd, 3, leases, Lines::Direct)?;
    nodes.await_serving(&Crew::default())?;
    let sequencer_at = nodes.sequencer()?.ok_or("all nodes serve and there is no sequencer")?;
    let [home, other] = [1, 2].map(|next| (sequencer_at + next) % nodes.all.len());
    let [at_home, at_other] = [home, other].map(|node| nodes.all[node].address().to_string());
    progress("ask the sequencer");
    let member = nodes.add_member("application", sequencer_at)?;
    let node = &nodes.all[sequencer_at];
    found(sequencer(&node.address().to_string(), node.id(), member)?)?;
    progress("commit on one node and on two");
    // A node for as long as the others are measured.
    let application = AtNode::of(nodes.join(dir, "application")?)?;
    found(node_commits(dir, &application, [&at_home, &at_other])?)?;
    progress("commit in opposite roles");
    found(opposite_roles([&at_home, &at_other])?)?;
    progress("kill the sequencer's node");
    found(kill(&mut nodes, sequencer_at, &at_home)?)?;
    nodes.await_serving(&Crew::default())?;
    progress("fill shards");
    AtNode::new(&at_home)?.fill((gib * f64::from(1 << 30)) as u64)?;
    progress("move them");
    found(move_shards(&nodes, home, &at_home, gib)?)?;
    drop((application, nodes));
    found(recover(dir, etcd, gib, progress)?)
}

/// All nodes are killed with `gib` in their logs that is not written back, and started again: how long that takes,
/// against reading the files.
fn recover(dir: &Path, etcd: &EtcdChoice, gib: f64, progress: &dyn Fn(&str)) -> Result<Line> {
    const TURNS: usize = 3;
    let (dir, mib) = (dir.join("recovered"), (gib * 1024.0).ceil());
    create_dir_all(&dir)?;
    let etcd = match etcd {
        EtcdChoice::Started(program) => EtcdChoice::Started(program.clone()),
        EtcdChoice::Running(url) => {
            EtcdChoice::Running(EtcdUrl { name: format!("{}-recovered", url.name), ..url.clone() })
        }
    };
    let leases = Leases { of_nodes: LEASE, of_groups_ms: None };
    // Room for everything in memory, so that nothing is written back and the logs keep it all.
    let options = ["--mob-mib", &format!("{}", mib + 64.0)];
    let mut nodes = Nodes::start_with(&dir, &etcd, 3, leases, Lines::Direct, &options)?;
    nodes.await_serving(&Crew::default())?;
    progress("fill the logs");
    let part = (gib * f64::from(1 << 30)) as u64 / 3;
    let addresses: Vec<_> = nodes.all.iter().map(|node| node.address().to_string()).collect();
    thread::scope(|scope| {
        let fill = move |address: &String| AtNode::new(address)?.fill(part);
        let start = |address| scope.spawn(move || fill(address).map_err(|error| error.to_string()));
        let threads: Vec<_> = addresses.iter().map(start).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no client panics"))
    })?;
    let dirs: Vec<_> = nodes.all.iter().map(|node| dir.join(&node.name)).collect();
    let (mut reads, mut recoveries, mut bytes) = (Sample::default(), Sample::default(), 0);
    for _ in 0..TURNS {
        progress("read the files");
        nodes.all.iter_mut().try_for_each(Node::kill)?;
        // Without this the nodes would wait for the leases of the killed processes.
        thread::sleep(2 * LEASE);
        dirs.iter().try_for_each(|dir| drop_cached(dir))?;
        bytes = reads.time(|| dirs.iter().map(|dir| read_all(dir)).sum::<bench::Result<usize>>())?;
        progress("recover");
        dirs.iter().try_for_each(|dir| drop_cached(dir))?;
        let begun = Instant::now();
        nodes.all.iter_mut().try_for_each(Node::start_again)?;
        nodes.await_serving(&Crew::default())?;
        recoveries.push(begun.elapsed());
    }
    let rate = |bytes: f64, times: &Sample| bytes / f64::from(1 << 20) / (times.millis(0.5) / 1000.0);
    // The directories have room for later records, too.
    let (read, recovered) = (rate(bytes as f64, &reads), rate(part as f64 * 3.0, &recoveries));
    Ok(Line::new("recovered-nodes")
        .figure("gib", gib)
        .figure("seconds", recoveries.millis(0.5) / 1000.0)
        .figure("mib_per_s", recovered)
        .figure("read_mib_per_s", read)
        .figure("over_read", recovered / read)
        .figure("target", OVER_READ_MIN)
        .flag("met", recovered / read >= OVER_READ_MIN))
}

/// Kills a node: how long commits on another node's shards pause while it stays away, and how long those on its own
/// take to resume after its restart.
fn kill(nodes: &mut Nodes, victim: usize, at_home: &str) -> Result<Line> {
    let own = nodes.all[victim].address().to_string();
    let (elsewhere, there) = (AtNode::new(at_home)?, AtNode::new(&own)?);
    elsewhere.commit()?;
    there.commit()?;
    let killed = Instant::now();
    nodes.all[victim].kill()?;
    elsewhere.commit()?;
    // The first may have had its count before.
    elsewhere.commit()?;
    let resumed = killed.elapsed();
    thread::sleep((2 * LEASE).saturating_sub(resumed));
    let started = Instant::now();
    nodes.all[victim].start_again()?;
    there.commit()?;
    let restarted = started.elapsed();
    let seconds_max = (LEASE + BEYOND_LEASE_MAX).as_secs_f64();
    Ok(Line::new("killed-node")
        .figure("lease_s", LEASE.as_secs_f64())
        .figure("others_resume_s", resumed.as_secs_f64())
        .figure("others_target_s", seconds_max)
        .figure("own_resume_s", restarted.as_secs_f64())
        .figure("own_target_s", RESTART_MAX.as_secs_f64())
        .flag("met", resumed.as_secs_f64() <= seconds_max && restarted <= RESTART_MAX))
}

/// All shards of a node move to the others, while clients commit on them.
fn move_shards(nodes: &Nodes, from: usize, address: &str, gib: f64) -> Result<Line> {
    let clients = (0..MOVERS).map(|_| AtNode::new(address)).collect::<bench::Result<Vec<_>>>()?;
    let phase = |is_over: &AtomicBool| {
        let work = |client: &AtNode| {
            let mut waits = Sample::default();
            while !is_over.load(Relaxed) {
                waits.time(|| client.commit())?;
            }
            Ok::<_, bench::Error>(waits)
        };
        thread::scope(|scope| {
            let start = |client| scope.spawn(move || work(client).map_err(|error| error.to_string()));
            let threads: Vec<_> = clients.iter().map(start).collect();
            let mut all = Sample::default();
            for thread in threads {
                all.extend(&thread.join().expect("no client panics")?);
            }
            Ok::<_, crate::Error>(all)
        })
    };
    let during = |wait: &(dyn Fn() -> Result + Sync)| {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let committing = scope.spawn(|| phase(&is_over).map_err(|error| error.to_string()));
            let waited = wait();
            is_over.store(true, Relaxed);
            let sample = committing.join().expect("no client panics")?;
            waited.map(|()| sample)
        })
    };
    let pause = || {
        thread::sleep(BEFORE);
        Ok(())
    };
    let before = during(&pause)?;
    let refused = || clients.iter().map(AtNode::refused).sum::<u64>();
    let (refused_before, begun) = (refused(), Instant::now());
    nodes.drain(from)?;
    let meanwhile = during(&|| nodes.await_drained(from))?;
    let (took, refused) = (begun.elapsed(), refused() - refused_before);
    let over = meanwhile.millis(0.99) / before.millis(0.99);
    Ok(Line::new("move")
        .figure("gib", gib)
        .figure("seconds", took.as_secs_f64())
        .count("commits", meanwhile.len() as u64)
        .count("refused", refused)
        .figure("before_ms_p99", before.millis(0.99))
        .figure("meanwhile_ms_p99", meanwhile.millis(0.99))
        .figure("meanwhile_ms_max", meanwhile.millis(1.0))
        .figure("p99_over_before", over)
        .figure("p99_target", MOVE_P99_MAX)
        .flag("met", refused == 0 && over <= MOVE_P99_MAX))
}
