//! A crash at every disk operation of a short workload, with everything that a disk may keep of what was not synced.
//!
//! The workload is the same each time, so operation `n` is the same operation until the crash. After it the store
//! recovers, the applications continue, and everything is checked as at the end of any other run. Some runs crash a
//! second time, a few operations later: while the store is still recovering.

use crate::crash_point::{CrashPoint, UnderWay};
use crate::rng::Rng;
use crate::run::guarded;
use crate::scenario::Scenario;
use crate::store_run::Run;
use crate::violation::{Check, Violation};
use core::fmt;
use types::Broken;

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
        let mut run = Run::of(scenario, rng, false);
        run.scene.crashes = crashes.iter().copied().collect();
        let verdict = guarded(|| work(&mut run));
        self.runs += u64::from(!crashes.is_empty());
        if let Err(violation) = verdict {
            self.failures.push((crashes.to_vec(), violation));
        }
        (run.disk_operations, run.scene.under_way)
    }
}

fn work(run: &mut Run) -> Check {
    run.begin()?;
    run.weather()?;
    run.settle_down()?;
    run.audit()?;
    run.close()
}
