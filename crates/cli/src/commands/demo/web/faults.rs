//! The things that break, one after the other: each part is killed, and each is stopped for longer than a lease.

use super::super::pause;
use super::Site;
use crate::Result;
use crate::stopper::Interrupt;
use bench::Load;
use fixtures::Signal;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

/// How long a part is stopped: its lease is over long before.
const STOPPED: Duration = Duration::from_secs(3);

/// How long everything may take to continue.
const GO_ON_WITHIN: Duration = Duration::from_secs(40);

/// The pages from the cache of each proxy, and the updates, by which all is seen to continue.
const SIGNS_OF_LIFE: u64 = 5;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    KillProxy,
    KillWatcher,
    RestartDatabase,
    StopProxy,
    StopWatcher,
    CrashDatabase,
    KillShop,
    StopDatabase,
    StopShop,
}

impl Fault {
    /// In an order in which the first three show most.
    pub(super) const ALL: [Self; 9] = [
        Self::KillProxy,
        Self::KillWatcher,
        Self::RestartDatabase,
        Self::StopProxy,
        Self::StopWatcher,
        Self::CrashDatabase,
        Self::KillShop,
        Self::StopDatabase,
        Self::StopShop,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::KillProxy => "proxy and home killed",
            Self::KillWatcher => "watcher and hub killed",
            Self::RestartDatabase => "database restarted",
            Self::StopProxy => "proxy and home stopped",
            Self::StopWatcher => "watcher and hub stopped",
            Self::CrashDatabase => "database killed",
            Self::KillShop => "application killed",
            Self::StopDatabase => "database stopped",
            Self::StopShop => "application stopped",
        }
    }
}

/// The end of a fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken {
    pub(super) fault: Fault,
    /// From when the part was there again until both proxies had hits and an update was done.
    pub(super) went_on: Duration,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.went_on.as_secs_f64();
        write!(
            f,
            "  {:<26} hits on both proxies, and updates, {seconds:.1} s after it was there again",
            self.fault.name()
        )
    }
}

/// Breaks something, repairs it, and waits until everybody continues.
pub(super) fn play(fault: Fault, site: &mut Site, load: &Load, interrupt: &Interrupt) -> Result<Broken> {
    let stopped = || pause(STOPPED, interrupt);
    let watcher = || "there is no watcher".to_owned();
    match fault {
        Fault::KillProxy => site.proxies[0].start_again()?,
        Fault::KillWatcher => site.watcher.as_mut().ok_or_else(watcher)?.start_again()?,
        Fault::KillShop => site.shop.start_again()?,
        Fault::RestartDatabase => {
            site.database.shut_down()?;
            site.database.start_again()?;
        }
        Fault::CrashDatabase => {
            site.database.crash()?;
            site.database.start_again()?;
        }
        Fault::StopProxy => stop(|signal| site.proxies[1].signal(signal), stopped)?,
        Fault::StopWatcher => {
            let watcher = site.watcher.as_ref().ok_or_else(watcher)?;
            stop(|signal| watcher.signal(signal), stopped)?;
        }
        Fault::StopDatabase => stop(|signal| site.database.signal(signal), stopped)?,
        Fault::StopShop => stop(|signal| site.shop.signal(signal), stopped)?,
    }
    Ok(Broken { fault, went_on: wait_all(fault, load, interrupt)? })
}

fn stop(signal: impl Fn(Signal) -> Result, stopped: impl Fn()) -> Result {
    signal(Signal::STOP)?;
    stopped();
    signal(Signal::CONT)
}

/// Waits until the readers of each proxy have hits again, and updates are done.
fn wait_all(fault: Fault, load: &Load, interrupt: &Interrupt) -> Result<Duration> {
    let (begun, hits, updates) = (Instant::now(), load.hits_of_each(), load.updates());
    loop {
        let has_hits = load.hits_of_each().iter().zip(&hits).all(|(now, then)| *now >= then + SIGNS_OF_LIFE);
        if (has_hits && load.updates() >= updates + SIGNS_OF_LIFE) || interrupt.has_come() {
            return Ok(begun.elapsed());
        }
        if begun.elapsed() > GO_ON_WITHIN {
            let seconds = GO_ON_WITHIN.as_secs();
            return Err(format!("{}: hits and updates did not go on within {seconds} s", fault.name()).into());
        }
        thread::sleep(Duration::from_millis(20));
    }
}
