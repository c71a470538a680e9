//! `thorp demo cluster`: a store of several nodes. Clients in two groups commit on its nodes, most of them on two at a
//! time, while each process is killed in turn, a shard moves, and all power is lost. In the end the account: is every
//! acknowledged commit there, and could a strictly serializable store have shown what was seen?
//!
//! ```text
//!   r  r    r  r        clients
//!   site-1  site-2      redirectors
//!    n1   n2   n3       nodes of the store, with 12 shards
//!        etcd           placement, leases, election
//! ```

use super::account::Checked;
use super::tell;
use crate::Result;
use crate::cli::DemoClusterArgs;
use crate::cluster::{Group, Roles};
use crate::crew::{Crew, now};
use crate::history::judge;
use crate::job::{Lists, Work, inspect};
use crate::nodes::{EtcdChoice, Leases, Lines, Node, Nodes};
use crate::output::{self, Output};
use crate::scratch::Scratch;
use crate::stopper::{Interrupt, end_processes_on};
use fixtures::Process;
use serde::Serialize;
use serde_json::json;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};
use thorp::Db;

const NODES: u32 = 3;
const ROLES: Roles = Roles { groups: 2, clients: 2, lease_ms: None, patience: Some(Duration::from_secs(8)) };

/// How long a node serves without etcd.
const LEASE: Duration = Duration::from_secs(2);

/// The lists that the clients read and append to, the share of appends, and the pause after each transaction.
const LISTS: u64 = 32;
const WRITES: f64 = 0.5;
const PAUSE_MS: Range<u64> = 3..15;

/// How long a process is away. Etcd is back before the leases of the nodes are over.
const AWAY: Duration = Duration::from_secs(1);

/// Commits by which the clients show at first that they work, and each of them that it is back.
const COMMITS_AT_FIRST: u64 = 400;
const SIGNS_OF_LIFE: u64 = 3;

/// How long anything may take that is going to happen, or something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn run(args: &DemoClusterArgs, output: &mut Output) -> Result {
    // An etcd that is missing is reported before a directory is made.
    let etcd = EtcdChoice::of(args.etcd.as_ref())?;
    // A second Ctrl-C would leave processes: the first is enough.
    let interrupt = Interrupt::watch_patiently()?;
    end_processes_on(interrupt.clone());
    let mut scratch = Scratch::new(args.dir.clone(), &std::env::temp_dir(), "demo")?;
    let shown = play(&etcd, scratch.path(), output).and_then(|account| {
        account.print(output)?;
        account.checked.judge()
    });
    shown.map_err(|why| {
        if interrupt.has_come() {
            return "interrupted: every process has ended".into();
        }
        scratch.keep();
        format!("{why}; the nodes' directories are left in {}", scratch.path().display()).into()
    })
}

fn play(etcd: &EtcdChoice, dir: &Path, output: &mut Output) -> Result<Account> {
    let leases = Leases { of_nodes: LEASE, of_groups_ms: None };
    let mut nodes = Nodes::start(dir, etcd, NODES, leases, Lines::Direct)?;
    nodes.await_serving(&Crew::default())?;
    let connect = |node| Db::builder().connect_within(PATIENCE).connect(nodes.addresses(node));
    let homes = (0..NODES as usize).map(connect).collect::<thorp::Result<Vec<_>>>()?;
    let lists = Lists::create_on(&homes, LISTS)?;
    drop(homes);
    let mut crew = Crew::default();
    let groups = Group::all_of(&nodes, &ROLES, &mut crew)?;
    let mut stage = Stage { nodes, groups, crew, account: Account::default() };
    tell(
        output,
        "Three nodes with 12 shards, their etcd, and two groups of two clients each. The clients append to lists,\n\
         which are spread over the shards; most commits of two lists are on two nodes.",
    )?;
    stage.work(output)?;
    tell(output, "\nEach process is killed with kill -9, is away for a second, and is started again.")?;
    for node in 0..NODES as usize {
        stage.kill_node(node, output)?;
    }
    stage.kill_etcd(output)?;
    for group in 0..ROLES.groups as usize {
        stage.kill_redirector(group, output)?;
    }
    tell(output, "\nA shard moves to another node while the clients commit.")?;
    stage.move_shard(output)?;
    stage.lose_power(output)?;
    stage.end(&lists)
}

/// The processes, and the account so far.
struct Stage {
    nodes: Nodes,
    groups: Vec<Group>,
    crew: Crew,
    account: Account,
}

impl Stage {
    fn work(&mut self, output: &mut Output) -> Result {
        let (since, members) = (now(), self.members());
        for &member in &members {
            let work = Work { pause_ms: Some(PAUSE_MS), ..Work::new(0..LISTS, WRITES, member as u64) };
            self.crew.work(member, &work)?;
        }
        self.crew.wait_commits(&members, COMMITS_AT_FIRST, PATIENCE)?;
        let median = self.crew.latencies(&members, since).millis(0.5);
        self.account.commit_ms_p50 = rounded(median);
        tell(output, format_args!("  {COMMITS_AT_FIRST} commits: {median:.1} ms in the median."))
    }

    fn members(&self) -> Vec<usize> {
        self.groups.iter().flat_map(|group| group.members.iter().copied()).collect()
    }

    fn kill_node(&mut self, node: usize, output: &mut Output) -> Result {
        let name = self.nodes.all[node].name.clone();
        let is_sequencers = self.nodes.sequencer()? == Some(node);
        let what = if is_sequencers { format!("{name}, with the sequencer") } else { name };
        self.kill(&what, output, |nodes| nodes.all[node].kill(), |nodes| nodes.all[node].start_again())
    }

    fn kill_etcd(&mut self, output: &mut Output) -> Result {
        if !self.nodes.has_own_etcd() {
            return tell(output, "  The etcd was started by others, and is not killed.");
        }
        self.kill("etcd", output, |nodes| nodes.kill_etcd().map(drop), Nodes::start_etcd)
    }

    /// Kills a process of the store, starts it again, and waits until all shards are served and all clients commit.
    fn kill(
        &mut self,
        what: &str,
        output: &mut Output,
        kill: impl FnOnce(&mut Nodes) -> Result,
        start_again: impl FnOnce(&mut Nodes) -> Result,
    ) -> Result {
        let spinner = output::spinner("broken");
        let since = now();
        kill(&mut self.nodes)?;
        self.crew.wait_for(AWAY)?;
        let meanwhile = self.crew.latencies(&self.members(), since).len();
        start_again(&mut self.nodes)?;
        let back = self.await_all()?;
        spinner.finish_and_clear();
        let millis = back.as_millis();
        let without = if meanwhile > 0 { format!("{meanwhile} commits without it; ") } else { String::new() };
        tell(output, format_args!("  {what}: {without}started again, all is back in {millis} ms."))?;
        self.account.killed.push(Killed { process: what.to_owned(), commits_meanwhile: meanwhile, back_ms: millis });
        Ok(())
    }

    /// Waits until all shards are served and every client commits. Returns how long that took.
    fn await_all(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        self.nodes.await_serving(&self.crew)?;
        self.await_clients(&self.members())?;
        Ok(begun.elapsed())
    }

    fn await_clients(&self, members: &[usize]) -> Result {
        members.iter().try_for_each(|&member| self.crew.wait_commits(&[member], SIGNS_OF_LIFE, PATIENCE))
    }

    fn kill_redirector(&mut self, group: usize, output: &mut Output) -> Result {
        let since = now();
        let (name, members) = (self.groups[group].name.clone(), self.groups[group].members.clone());
        self.redirector(group)?.kill()?;
        self.await_clients(&members)?;
        let firsts = members.iter().filter_map(|&member| self.crew.first_commit(member, since));
        let failover_ms = firsts.max().unwrap_or_default().as_millis();
        self.redirector(group)?.start_again()?;
        self.await_clients(&members)?;
        tell(
            output,
            format_args!(
                "  The redirector of {name}: a member takes over; after {failover_ms} ms all have committed again."
            ),
        )?;
        self.account.failover_ms_max = self.account.failover_ms_max.max(failover_ms);
        Ok(())
    }

    fn redirector(&mut self, group: usize) -> Result<&mut Process> {
        self.groups[group].redirector.as_mut().ok_or_else(|| "a group has no redirector".into())
    }

    fn move_shard(&mut self, output: &mut Output) -> Result {
        let (since, begun, to) = (now(), Instant::now(), NODES as usize - 1);
        let shard = self.nodes.move_to(to)?;
        self.nodes.await_moved(&self.crew, shard, to)?;
        let (took, name) = (begun.elapsed().as_millis(), self.nodes.all[to].name.clone());
        let members = self.members();
        self.await_clients(&members)?;
        let latencies = self.crew.latencies(&members, since);
        let (commits, most) = (latencies.len(), latencies.millis(1.0));
        tell(
            output,
            format_args!(
                "  Shard {} is at {name} after {took} ms; {commits} commits while it moved, {most:.1} ms at most.",
                shard.0
            ),
        )?;
        (self.account.move_ms, self.account.move_commit_ms_max) = (took, rounded(most));
        Ok(())
    }

    fn lose_power(&mut self, output: &mut Output) -> Result {
        tell(output, "\nAll power is lost: kill -9 to all nodes and to etcd.")?;
        self.nodes.lose_power(&self.crew, AWAY)?;
        let back = self.await_all()?;
        let millis = back.as_millis();
        tell(output, format_args!("  Started again, all is back in {millis} ms; the clients continue."))?;
        self.account.power_back_ms = millis;
        Ok(())
    }

    fn end(mut self, lists: &Lists) -> Result<Account> {
        let spinner = output::spinner("checking");
        let members = self.members();
        self.crew.rest(&members, PATIENCE)?;
        let db = Db::builder().connect_within(PATIENCE).connect(self.nodes.addresses(0))?;
        let crew = &self.crew;
        let (found, half_done) = inspect(lists, crew.visited(), &db)?;
        self.account.checked.half_done = half_done + crew.half_done();
        self.account.checked.acknowledged = crew.latencies(&members, 0).len();
        self.account.checked.verdict = judge(crew.events(), &found, None)?;
        spinner.finish_and_clear();
        self.nodes.all.iter_mut().try_for_each(Node::close)?;
        Ok(self.account)
    }
}

/// A process that was killed and started again.
#[derive(Serialize)]
struct Killed {
    process: String,
    /// Commits that began and were acknowledged without it.
    commits_meanwhile: usize,
    /// How long it took from its start until all shards were served and every client had committed.
    back_ms: u128,
}

/// The result.
#[derive(Default)]
struct Account {
    commit_ms_p50: f64,
    killed: Vec<Killed>,
    failover_ms_max: u128,
    move_ms: u128,
    move_commit_ms_max: f64,
    power_back_ms: u128,
    checked: Checked,
}

impl Account {
    fn print(&self, output: &mut Output) -> Result {
        let mut rows = vec![("commit_ms_p50", json!(self.commit_ms_p50))];
        if output.is_json() {
            rows.push(("killed", json!(self.killed)));
        } else {
            output.raw("")?;
        }
        rows.extend([
            ("back_ms_max", json!(self.killed.iter().map(|killed| killed.back_ms).max())),
            ("failover_ms_max", json!(self.failover_ms_max)),
            ("move_ms", json!(self.move_ms)),
            ("move_commit_ms_max", json!(self.move_commit_ms_max)),
            ("power_back_ms", json!(self.power_back_ms)),
        ]);
        rows.extend(self.checked.rows());
        output.table(&rows)
    }
}

fn rounded(figure: f64) -> f64 {
    (figure * 10.0).round() / 10.0
}
