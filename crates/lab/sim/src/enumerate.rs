//! A crash at every disk operation of a short workload, with everything that a disk may keep of what was not synced.
//!
//! The workload is the same each time, so operation `n` is the same operation until the crash. After it the store
//! recovers, the applications continue, and everything is checked as at the end of any other run. Some runs crash a
//! second time, a few operations later: while the store is still recovering.

use crate::rng::Rng;
use crate::run::guarded;
use crate::scenario::Scenario;
use crate::violation::{Check, Violation};
use crate::world::World;
use core::fmt;
use std::collections::VecDeque;
use types::Broken;

/// Where a crash is put, and what the disk keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashPoint {
    /// Right after this disk operation, counted from 1: work that is submitted, and work that is done.
    pub operation: u64,
    /// So many of the unsynced appends are there nevertheless, if there are as many.
    pub appends: usize,
    /// The install that is under way, if there is one, is there.
    pub install: bool,
}

/// The work that was under way when a crash came.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnderWay {
    pub(crate) appends: usize,
    pub(crate) install: bool,
}

impl UnderWay {
    /// All that may be left of it, from nothing on.
    fn survivals(self) -> impl Iterator<Item = (bool, usize)> {
        let installs = 1 + usize::from(self.install);
        [false, true].into_iter().take(installs).flat_map(move |install| (0..=self.appends).map(move |n| (install, n)))
    }
}

/// The result of the enumeration.
#[derive(Debug, Default)]
pub struct Enumeration {
    /// Disk operations of the workload.
    pub operations: u64,
    /// Runs, each with one crash or two.
    pub runs: u64,
    /// The violations that were found, and the crashes before each.
    pub failures: Vec<(Vec<CrashPoint>, Violation)>,
}

impl fmt::Display for Enumeration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (crashes, violation) in &self.failures {
            writeln!(f, "after {crashes:?}: {violation}")?;
        }
        let (operations, runs, violations) = (self.operations, self.runs, self.failures.len());
        write!(f, "{operations} disk operations, {runs} crashes, {violations} violations")
    }
}

/// Crashes at every disk operation of the workload that `seed` draws, once with each thing that the disk may keep;
/// `broken` is the rule that is taken out.
pub fn enumerate_crashes(seed: u64, broken: Broken) -> Enumeration {
    let mut found = Enumeration::default();
    found.operations = found.run(seed, broken, &[]).0;
    for operation in 1..=found.operations {
        let (_, under_way) = found.run(seed, broken, &[CrashPoint { operation, appends: 0, install: false }]);
        for (install, appends) in under_way.survivals().skip(1) {
            found.run(seed, broken, &[CrashPoint { operation, appends, install }]);
        }
        for later in 1..=4 {
            let first = CrashPoint { operation, appends: under_way.appends, install: true };
            let second = CrashPoint { operation: operation + later, appends: later as usize % 2, install: false };
            found.run(seed, broken, &[first, second]);
        }
    }
    found
}

impl Enumeration {
    /// Runs the workload with crashes; gives its disk operations and what was under way at the first crash.
    fn run(&mut self, seed: u64, broken: Broken, crashes: &[CrashPoint]) -> (u64, UnderWay) {
        let mut rng = Rng::new(seed);
        let scenario = Scenario::short(&mut rng, broken);
        let mut world = World::of(scenario, rng, false);
        world.crashes = crashes.iter().copied().collect::<VecDeque<_>>();
        let verdict = guarded(|| work(&mut world));
        self.runs += u64::from(!crashes.is_empty());
        if let Err(violation) = verdict {
            self.failures.push((crashes.to_vec(), violation));
        }
        (world.disk_operations, world.under_way)
    }
}

fn work(world: &mut World) -> Check {
    world.begin()?;
    world.weather()?;
    world.settle_down()?;
    world.audit()?;
    world.close()
}
