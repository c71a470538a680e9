//! What is broken, how it is mended, and what the others must be able to do meanwhile.

use super::PATIENCE;
use super::membership::await_groups;
use super::plan::Round;
use super::progress::Trouble;
use crate::Result;
use crate::cast::Cast;
use crate::crew::{Signal, now};
use crate::lab::Cut;
use bench::{Redirector, Sample, Server};
use serde::{Serialize, Serializer};
use std::time::{Duration, Instant};

/// Commits by which those who are not concerned show that they are not, and others that they are back.
const SIGNS_OF_LIFE: u64 = 3;

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
    /// A group's line is a black hole, in one direction or both.
    CutSite(Cut),
    /// None but what is different about the lines.
    OnlyLines,
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
    /// All that there can be where lines can be cut so.
    pub(super) fn all(groups: usize, cuts: &[Cut]) -> Vec<Self> {
        let mut faults = vec![Self::KillStore];
        if groups > 0 {
            faults.extend([Self::StopMember, Self::ReplaceRedirector, Self::KillRedirector]);
            faults.extend([Self::StopRedirector, Self::KillMember]);
        }
        faults.extend(cuts.iter().map(|&cut| Self::CutSite(cut)));
        faults.extend((!cuts.is_empty()).then_some(Self::OnlyLines));
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
            Self::CutSite(Cut::Both) => "cut a site off",
            Self::CutSite(Cut::FromSite) => "drop what a site sends",
            Self::CutSite(Cut::ToSite) => "drop what is sent to a site",
            Self::OnlyLines => "change the lines",
        }
    }

    /// Whether it is a SIGKILL.
    pub(super) fn kills(self) -> bool {
        !matches!(self, Self::StopMember | Self::CutSite(_) | Self::OnlyLines)
    }

    /// Whom it cuts off from the store, for a while.
    fn concerned(self, cast: &Cast, group: usize) -> Vec<usize> {
        match self {
            Self::KillStore => cast.members(),
            Self::StopMember | Self::KillMember => vec![victim(cast, group)],
            Self::ReplaceRedirector | Self::KillRedirector | Self::StopRedirector | Self::CutSite(_) => {
                cast.groups[group].members.clone()
            }
            Self::OnlyLines => Vec::new(),
        }
    }
}

impl Round {
    /// Breaks what is to be broken, sees that the others go on, mends it, sees that all are back.
    pub(super) fn inflict(&self, cast: &mut Cast, toll: &mut Toll) -> Result<Trouble> {
        let (fault, group, broken_for) = (self.fault, self.group, self.broken_for);
        if fault == Fault::StopMember {
            run_beside(cast, group, broken_for, toll)?;
        }
        let (members, from) = (fault.concerned(cast, group), now());
        let mended = match fault {
            Fault::KillStore => kill_store(cast, toll),
            Fault::StopMember => stop_member(cast, group, broken_for, toll),
            Fault::ReplaceRedirector => end_redirector(cast, group, toll, Ending::Killed, false),
            Fault::KillRedirector => end_redirector(cast, group, toll, Ending::Killed, true),
            Fault::StopRedirector => end_redirector(cast, group, toll, Ending::Stopped, true),
            Fault::KillMember => kill_member(cast, group),
            Fault::CutSite(cut) => cut_site(cast, group, cut, broken_for),
            Fault::OnlyLines => cast.crew.wait_for(broken_for).map(|()| now()),
        };
        let told = mended.and_then(|mended| {
            let returns = await_groups(cast, mended)?;
            for &member in cast.members().iter().filter(|member| members.contains(member)) {
                cast.crew.wait_commits(&[member], SIGNS_OF_LIFE, PATIENCE)?;
            }
            Ok((mended, returns))
        });
        let (mended, returns) = told.map_err(|error| format!("{}: {error}", fault.name()))?;
        Ok(Trouble { fault, members, from, mended, returns, over: now() })
    }
}

/// By its name.
impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

// Each of those that break and mend gives when what was broken was there again.

fn kill_store(cast: &mut Cast, toll: &mut Toll) -> Result<u64> {
    let start = Instant::now();
    cast.server.kill()?;
    cast.server = Server::start(&cast.options)?;
    toll.restart_max = toll.restart_max.max(start.elapsed());
    Ok(now())
}

/// The last one, which cannot take over.
fn victim(cast: &Cast, group: usize) -> usize {
    *cast.groups[group].members.last().expect("a group has members")
}

/// Takes down what commits of the others take while the member still runs that will be stopped.
fn run_beside(cast: &Cast, group: usize, time: Duration, toll: &mut Toll) -> Result {
    let (others, since) = (cast.others(&[victim(cast, group)]), now());
    cast.crew.wait_for(time)?;
    toll.beside_running.extend(&cast.crew.latencies(&others, since));
    Ok(())
}

fn stop_member(cast: &mut Cast, group: usize, broken_for: Duration, toll: &mut Toll) -> Result<u64> {
    let victim = victim(cast, group);
    let (others, since) = (cast.others(&[victim]), now());
    cast.crew.signal(victim, Signal::STOP)?;
    cast.crew.wait_for(broken_for)?;
    go_on(cast, &others)?;
    toll.beside_stopped.extend(&cast.crew.latencies(&others, since));
    cast.crew.signal(victim, Signal::CONT)?;
    Ok(now())
}

/// Waits until others than those that are concerned have gone on.
fn go_on(cast: &Cast, others: &[usize]) -> Result {
    if others.is_empty() { Ok(()) } else { cast.crew.wait_commits(others, SIGNS_OF_LIFE, PATIENCE) }
}

/// How a redirector ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Killed,
    Stopped,
}

fn end_redirector(cast: &mut Cast, group: usize, toll: &mut Toll, ending: Ending, without: bool) -> Result<u64> {
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
    Ok(now())
}

fn kill_member(cast: &mut Cast, group: usize) -> Result<u64> {
    let victim = victim(cast, group);
    cast.crew.kill(victim)?;
    go_on(cast, &cast.others(&[victim]))?;
    let new = cast.crew.hire(&cast.groups[group].ordinary)?;
    *cast.groups[group].members.last_mut().expect("a group has members") = new;
    Ok(now())
}

fn cut_site(cast: &mut Cast, group: usize, cut: Cut, broken_for: Duration) -> Result<u64> {
    let others = cast.others(&cast.groups[group].members);
    cast.lab.cut(group, cut)?;
    cast.crew.wait_for(broken_for)?;
    go_on(cast, &others)?;
    cast.lab.rejoin(group)?;
    Ok(now())
}
