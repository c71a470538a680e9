//! What is broken, how it is mended, and what the others must be able to do meanwhile.

use super::PATIENCE;
use crate::Result;
use crate::cast::Cast;
use crate::crew::{Signal, now};
use bench::{Redirector, Sample, Server};
use std::time::{Duration, Instant};

/// Commits by which those who are not concerned show that they are not, and others that they are back.
const SIGNS_OF_LIFE: u64 = 10;

/// Longer than anybody may be silent without being taken for dead.
const LONG: Duration = Duration::from_millis(2500);

/// One thing that is broken, and mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The store is killed, and started again.
    KillStore,
    /// A member is stopped for long, and goes on.
    StopMember,
    /// A redirector is killed, and started again at once.
    ReplaceRedirector,
    /// A redirector is killed; a member takes over, until there is one again.
    KillRedirector,
    /// A redirector hangs; a member takes over, and it finds that out.
    StopRedirector,
    /// A member is killed; another one comes.
    KillMember,
    /// A group's line is cut, for long.
    CutSite,
}

/// What it has cost.
#[derive(Clone, Debug, Default)]
pub(super) struct Toll {
    /// The longest start of a store over what was left.
    pub(super) restart_max: Duration,
    /// The longest time from a redirector's end to the end of a commit of one of its members that began afterwards:
    /// when it was killed, which shows at once, and when it hung, which shows by its silence.
    pub(super) failover_killed_max: Duration,
    pub(super) failover_hung_max: Duration,
    /// Commits of everybody else while a member was stopped, and for as long before.
    pub(super) beside_stopped: Sample,
    pub(super) beside_running: Sample,
}

impl Fault {
    /// All that there can be.
    pub(super) fn all(groups: usize, can_cut: bool) -> Vec<Self> {
        let mut faults = vec![Self::KillStore];
        if groups > 0 {
            faults.extend([Self::StopMember, Self::ReplaceRedirector, Self::KillRedirector]);
            faults.extend([Self::StopRedirector, Self::KillMember]);
        }
        faults.extend(can_cut.then_some(Self::CutSite));
        faults
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::KillStore => "kill the store",
            Self::StopMember => "stop a member",
            Self::ReplaceRedirector => "replace a redirector",
            Self::KillRedirector => "kill a redirector",
            Self::StopRedirector => "stop a redirector",
            Self::KillMember => "kill a member",
            Self::CutSite => "cut a site off",
        }
    }

    /// Whether it is a SIGKILL.
    pub(super) fn kills(self) -> bool {
        !matches!(self, Self::StopMember | Self::CutSite)
    }

    /// Breaks it, sees that the others go on, mends it, sees that all are back.
    pub(super) fn inflict(self, cast: &mut Cast, group: usize, toll: &mut Toll) -> Result {
        let told = match self {
            Self::KillStore => kill_store(cast, toll),
            Self::StopMember => stop_member(cast, group, toll),
            Self::ReplaceRedirector => end_redirector(cast, group, toll, Ending::Killed, false),
            Self::KillRedirector => end_redirector(cast, group, toll, Ending::Killed, true),
            Self::StopRedirector => end_redirector(cast, group, toll, Ending::Stopped, true),
            Self::KillMember => kill_member(cast, group),
            Self::CutSite => cut_site(cast, group),
        };
        told.map_err(|error| format!("{}: {error}", self.name()).into())
    }
}

fn kill_store(cast: &mut Cast, toll: &mut Toll) -> Result {
    let start = Instant::now();
    cast.server.kill()?;
    cast.server = Server::start(&cast.options)?;
    toll.restart_max = toll.restart_max.max(start.elapsed());
    Ok(())
}

/// The last one, which cannot take over.
fn victim(cast: &Cast, group: usize) -> usize {
    *cast.groups[group].members.last().expect("a group has members")
}

fn stop_member(cast: &mut Cast, group: usize, toll: &mut Toll) -> Result {
    let victim = victim(cast, group);
    let (others, since) = (cast.others(&[victim]), now());
    cast.crew.wait_for(LONG)?;
    toll.beside_running.extend(&cast.crew.latencies(&others, since));
    let since = now();
    cast.crew.signal(victim, Signal::STOP)?;
    cast.crew.wait_for(LONG)?;
    cast.crew.wait_commits(&others, SIGNS_OF_LIFE, PATIENCE)?;
    toll.beside_stopped.extend(&cast.crew.latencies(&others, since));
    cast.crew.signal(victim, Signal::CONT)?;
    cast.crew.wait_commits(&[victim], SIGNS_OF_LIFE, PATIENCE)
}

/// How a redirector ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Killed,
    Stopped,
}

fn end_redirector(cast: &mut Cast, group: usize, toll: &mut Toll, ending: Ending, without: bool) -> Result {
    let group = &mut cast.groups[group];
    let (redirector, since) = (group.redirector.as_mut().ok_or("a group has no redirector")?, now());
    match ending {
        Ending::Killed => redirector.kill()?,
        Ending::Stopped => redirector.signal(Signal::STOP)?,
    }
    if without {
        for &member in &group.members {
            cast.crew.wait_commits(&[member], SIGNS_OF_LIFE, PATIENCE)?;
        }
        let firsts = group.members.iter().filter_map(|&member| cast.crew.first_commit(member, since));
        let max = match ending {
            Ending::Killed => &mut toll.failover_killed_max,
            Ending::Stopped => &mut toll.failover_hung_max,
        };
        *max = firsts.fold(*max, Duration::max);
    }
    if ending == Ending::Stopped {
        redirector.signal(Signal::CONT)?;
        cast.crew.wait_commits(&group.members, SIGNS_OF_LIFE, PATIENCE)?;
        redirector.kill()?;
    }
    group.redirector = Some(Redirector::start(&group.options)?);
    cast.crew.wait_commits(&group.members, SIGNS_OF_LIFE, PATIENCE)
}

fn kill_member(cast: &mut Cast, group: usize) -> Result {
    let victim = victim(cast, group);
    cast.crew.kill(victim)?;
    let others = cast.others(&[victim]);
    if !others.is_empty() {
        cast.crew.wait_commits(&others, SIGNS_OF_LIFE, PATIENCE)?;
    }
    let new = cast.crew.hire(&cast.groups[group].ordinary)?;
    *cast.groups[group].members.last_mut().expect("a group has members") = new;
    Ok(())
}

fn cut_site(cast: &mut Cast, group: usize) -> Result {
    let members = cast.groups[group].members.clone();
    let others = cast.others(&members);
    cast.lab.cut(group, true)?;
    cast.crew.wait_for(LONG)?;
    if !others.is_empty() {
        cast.crew.wait_commits(&others, SIGNS_OF_LIFE, PATIENCE)?;
    }
    cast.lab.cut(group, false)?;
    for member in members {
        cast.crew.wait_commits(&[member], SIGNS_OF_LIFE, PATIENCE)?;
    }
    Ok(())
}
