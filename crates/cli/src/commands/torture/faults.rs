//! The faults, how each is repaired, and what the others must be able to do in the meantime.

use super::PATIENCE;
use super::fault::Fault;
use super::membership::await_groups;
use super::plan::Round;
use super::progress::Trouble;
use crate::Result;
use crate::cluster::{Cluster, Store};
use crate::crew::{Signal, now};
use crate::lab::Cut;
use bench::Sample;
use serde::{Serialize, Serializer};
use std::time::{Duration, Instant};

/// Commits by which those who are not concerned show that they are not, and others that they are back.
const SIGNS_OF_LIFE: u64 = 3;

/// The cost of the faults.
#[derive(Clone, Debug, Default)]
pub(super) struct FaultCosts {
    /// The longest start of a store over what was left.
    pub(super) restart_max: Duration,
    /// The longest time until all nodes of a store served all shards, once what was broken was there again.
    pub(super) serving_max: Duration,
    /// The longest time from a redirector's end to the end of a commit of one of its members that began afterwards:
    /// when it was killed, which shows at once, and when it hung, which shows by its silence.
    pub(super) failover_killed_max: Duration,
    pub(super) failover_hung_max: Duration,
    /// Commits of everybody else while a member was stopped, and for as long before.
    pub(super) beside_stopped: Sample,
    pub(super) beside_running: Sample,
}

impl Round {
    /// Breaks what should be broken, sees that the others continue, repairs it, sees that all are back.
    pub(super) fn inflict(&self, cluster: &mut Cluster, costs: &mut FaultCosts) -> Result<Trouble> {
        let (fault, group, broken_for) = (self.fault, self.group, self.broken_for);
        if fault == Fault::StopMember {
            run_beside(cluster, group, broken_for, costs)?;
        }
        let (members, from) = (concerned(fault, cluster, group), now());
        let mended = match fault {
            Fault::KillStore => kill_store(cluster, costs),
            Fault::StopMember => stop_member(cluster, group, broken_for, costs),
            Fault::ReplaceRedirector => end_redirector(cluster, group, costs, Ending::Killed, false),
            Fault::KillRedirector => end_redirector(cluster, group, costs, Ending::Killed, true),
            Fault::StopRedirector => end_redirector(cluster, group, costs, Ending::Stopped, true),
            Fault::KillMember => kill_member(cluster, group),
            Fault::CutSite(cut) => cut_site(cluster, group, cut, broken_for),
            Fault::OnlyLines => cluster.crew.wait_for(broken_for).map(|()| now()),
            Fault::Node(fault) => fault.inflict(cluster, broken_for).inspect(|mended| {
                costs.serving_max = costs.serving_max.max(Duration::from_nanos(now() - mended));
            }),
        };
        let told = mended.and_then(|mended| {
            // Without the nodes there is no group that members could be in.
            let are_there = if matches!(fault, Fault::Node(_)) { now() } else { mended };
            let returns = await_groups(cluster, are_there)?;
            for &member in cluster.members().iter().filter(|member| members.contains(member)) {
                cluster.crew.wait_commits(&[member], SIGNS_OF_LIFE, PATIENCE)?;
            }
            Ok((mended, returns))
        });
        let (mended, returns) = told.map_err(|error| format!("{}: {error}", fault.name()))?;
        Ok(Trouble { fault, members, from, mended, returns, over: now() })
    }
}

/// By its name, with the nodes that were drawn.
impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Node(fault) => serializer.collect_str(&format_args!("{} {:?}", self.name(), fault.nodes())),
            _ => serializer.serialize_str(self.name()),
        }
    }
}

// Each of those that break and repair gives when what was broken was there again.

fn kill_store(cluster: &mut Cluster, costs: &mut FaultCosts) -> Result<u64> {
    let Store::Single(_, server) = &mut cluster.store else { return Err("the store has several nodes".into()) };
    let start = Instant::now();
    server.kill()?;
    server.start_again()?;
    costs.restart_max = costs.restart_max.max(start.elapsed());
    Ok(now())
}

/// The last one, which cannot take over.
fn victim(cluster: &Cluster, group: usize) -> usize {
    *cluster.groups[group].members.last().expect("a group has members")
}

/// Takes down what commits of the others take while the member still runs that will be stopped.
fn run_beside(cluster: &Cluster, group: usize, time: Duration, costs: &mut FaultCosts) -> Result {
    let (others, since) = (cluster.others(&[victim(cluster, group)]), now());
    cluster.crew.wait_for(time)?;
    costs.beside_running.extend(&cluster.crew.latencies(&others, since));
    Ok(())
}

fn stop_member(cluster: &mut Cluster, group: usize, broken_for: Duration, costs: &mut FaultCosts) -> Result<u64> {
    let victim = victim(cluster, group);
    let (others, since) = (cluster.others(&[victim]), now());
    cluster.crew.signal(victim, Signal::STOP)?;
    cluster.crew.wait_for(broken_for)?;
    go_on(cluster, &others)?;
    costs.beside_stopped.extend(&cluster.crew.latencies(&others, since));
    cluster.crew.signal(victim, Signal::CONT)?;
    Ok(now())
}

/// Waits until others than those that are concerned have continued.
fn go_on(cluster: &Cluster, others: &[usize]) -> Result {
    if others.is_empty() { Ok(()) } else { cluster.crew.wait_commits(others, SIGNS_OF_LIFE, PATIENCE) }
}

/// How a redirector ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Killed,
    Stopped,
}

fn end_redirector(
    cluster: &mut Cluster,
    group: usize,
    costs: &mut FaultCosts,
    ending: Ending,
    without: bool,
) -> Result<u64> {
    let group = &mut cluster.groups[group];
    let (redirector, since) = (group.redirector.as_mut().ok_or("a group has no redirector")?, now());
    match ending {
        Ending::Killed => redirector.kill()?,
        Ending::Stopped => redirector.signal(Signal::STOP)?,
    }
    if without {
        for &member in &group.members {
            cluster.crew.wait_commits(&[member], SIGNS_OF_LIFE, PATIENCE)?;
        }
        let firsts = group.members.iter().filter_map(|&member| cluster.crew.first_commit(member, since));
        let max = match ending {
            Ending::Killed => &mut costs.failover_killed_max,
            Ending::Stopped => &mut costs.failover_hung_max,
        };
        *max = firsts.fold(*max, Duration::max);
    }
    if ending == Ending::Stopped {
        redirector.signal(Signal::CONT)?;
        cluster.crew.wait_commits(&group.members, SIGNS_OF_LIFE, PATIENCE)?;
    }
    redirector.start_again()?;
    Ok(now())
}

fn kill_member(cluster: &mut Cluster, group: usize) -> Result<u64> {
    let victim = victim(cluster, group);
    cluster.crew.kill(victim)?;
    go_on(cluster, &cluster.others(&[victim]))?;
    let new = cluster.crew.hire(&cluster.groups[group].ordinary)?;
    *cluster.groups[group].members.last_mut().expect("a group has members") = new;
    Ok(now())
}

fn cut_site(cluster: &mut Cluster, group: usize, cut: Cut, broken_for: Duration) -> Result<u64> {
    let others = cluster.others(&cluster.groups[group].members);
    cluster.lab.cut(group, cut)?;
    cluster.crew.wait_for(broken_for)?;
    go_on(cluster, &others)?;
    cluster.lab.resume(group)?;
    Ok(now())
}

/// The members that a fault cuts off from the store, for a while.
fn concerned(fault: Fault, cluster: &Cluster, group: usize) -> Vec<usize> {
    match fault {
        // Any client may want a page of the node that is away.
        Fault::Node(fault) if fault.concerns_clients() => cluster.members(),
        Fault::OnlyLines | Fault::Node(_) => Vec::new(),
        Fault::KillStore => cluster.members(),
        Fault::StopMember | Fault::KillMember => vec![victim(cluster, group)],
        Fault::ReplaceRedirector | Fault::KillRedirector | Fault::StopRedirector | Fault::CutSite(_) => {
            cluster.groups[group].members.clone()
        }
    }
}
