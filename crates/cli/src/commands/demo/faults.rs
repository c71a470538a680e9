//! Things break while everybody reads and writes: a member is stopped, a redirector is killed and replaced, the store
//! is killed.

use super::buddy::Groups;
use super::{EVERYBODYS_WRITES, PATIENCE, Stage, tell};
use crate::Result;
use crate::crew::{Signal, now};
use crate::output::{self, Output};
use bench::Sample;
use std::time::{Duration, Instant};

/// How long the member is stopped: for longer than it may be silent.
const STOPPED: Duration = Duration::from_secs(3);

/// Commits by which clients show that they continue.
const SIGNS_OF_LIFE: u64 = 12;

/// The cost of the faults.
pub(super) struct Faults {
    /// Commits of everybody else while a member was stopped.
    pub(super) beside_stopped: Sample,
    /// From the end of the redirector to the first commit of each of its members that began afterwards: the longest.
    pub(super) failover: Duration,
    pub(super) restart: Duration,
    pub(super) restart_records: u64,
}

pub(super) fn play(stage: &mut Stage, groups: &mut Groups, output: &mut Output) -> Result<Faults> {
    let all = groups.members();
    for (seed, &member) in (1000..).zip(&all) {
        stage.crew.work(member, &stage.work(None, EVERYBODYS_WRITES, seed))?;
    }
    stage.crew.wait_commits(&all, SIGNS_OF_LIFE, PATIENCE)?;
    let beside_stopped = stop_a_member(stage, groups, output)?;
    let failover = kill_a_redirector(stage, groups, output)?;
    let (restart, restart_records) = kill_the_store(stage, &all, output)?;
    stage.crew.rest(&all, PATIENCE)?;
    Ok(Faults { beside_stopped, failover, restart, restart_records })
}

fn stop_a_member(stage: &mut Stage, groups: &Groups, output: &mut Output) -> Result<Sample> {
    let victim = groups.site.members[2];
    let others: Vec<_> = groups.members().into_iter().filter(|&member| member != victim).collect();
    let (crew, since) = (&stage.crew, now());
    crew.signal(victim, Signal::STOP)?;
    tell(output, "  SIGSTOP to a reader at the site.")?;
    let spinner = output::spinner("working beside it");
    crew.wait_for(STOPPED)?;
    spinner.finish_and_clear();
    let latencies = crew.latencies(&others, since);
    crew.signal(victim, Signal::CONT)?;
    crew.wait_commits(&[victim], SIGNS_OF_LIFE, PATIENCE)?;
    let (commits, median, most) = (latencies.len(), latencies.millis(0.5), latencies.millis(1.0));
    tell(
        output,
        format_args!("    The others commit {commits} times: {median:.1} ms in the median, {most:.1} at most."),
    )?;
    tell(output, "    SIGCONT: it catches up, and commits again.")?;
    Ok(latencies)
}

fn kill_a_redirector(stage: &mut Stage, groups: &mut Groups, output: &mut Output) -> Result<Duration> {
    let (group, since) = (&mut groups.site, now());
    group.redirector.kill()?;
    tell(output, "  kill -9 to the site's redirector.")?;
    for &member in &group.members {
        stage.crew.wait_commits(&[member], SIGNS_OF_LIFE / 3, PATIENCE)?;
    }
    let firsts = group.members.iter().filter_map(|&member| stage.crew.first_commit(member, since));
    let failover = firsts.max().unwrap_or_default();
    let millis = failover.as_millis();
    tell(output, format_args!("    A member takes over; after {millis} ms all three have committed again."))?;
    group.redirector.start_again()?;
    stage.crew.wait_commits(&group.members, SIGNS_OF_LIFE, PATIENCE)?;
    tell(output, "    A new redirector leads the group; the members have come back to it with their caches.")?;
    Ok(failover)
}

fn kill_the_store(stage: &mut Stage, all: &[usize], output: &mut Output) -> Result<(Duration, u64)> {
    stage.server.kill()?;
    tell(output, "  kill -9 to the store.")?;
    let start = Instant::now();
    stage.server.start_again()?;
    let restart = start.elapsed();
    stage.crew.wait_commits(all, SIGNS_OF_LIFE, PATIENCE)?;
    let records = stage.server.ready()["recovery"]["records"].as_u64().unwrap_or(0);
    let seconds = restart.as_secs_f64();
    tell(output, format_args!("    Restarted in {seconds:.2} s from {records} records; everybody goes on."))?;
    Ok((restart, records))
}
