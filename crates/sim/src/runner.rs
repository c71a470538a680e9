//! Many seeds: spread over threads, summed up in the order of the seeds.

use crate::run::{Report, run_seed};
use crate::trace::mix;
use core::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use types::Broken;

/// How seeds are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads to spread the seeds over. The summary does not depend on it.
    pub threads: usize,
    /// The rule that is taken out of the roles.
    pub broken: Broken,
    /// Stop at the first violation: seeds after it are not run.
    pub stop_at_first: bool,
}

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { threads, broken: Broken::NONE, stop_at_first: false }
    }
}

/// What came of many seeds.
#[derive(Debug, Default)]
pub struct Summary {
    /// Seeds that were run.
    pub seeds: u64,
    /// Transactions that were acknowledged as committed.
    pub commits: u64,
    /// The reports of the seeds that found something, in the order of the seeds.
    pub failures: Vec<Report>,
    /// The hash of all traces, in the order of the seeds.
    pub hash: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failures {
            let violation = failure.violation.as_ref().expect("a failure has one");
            writeln!(f, "seed {}: {violation}", failure.seed)?;
            writeln!(f, "  replay it: cargo xtask sim --seed {} --trace", failure.seed)?;
        }
        let (seeds, commits, violations) = (self.seeds, self.commits, self.failures.len());
        write!(f, "{seeds} seeds, {commits} commits, {violations} violations, trace {:016x}", self.hash)
    }
}

/// Runs `count` seeds from `first` on. `progress` hears how many are done, from this thread.
pub fn run_seeds(first: u64, count: u64, options: &Options, mut progress: impl FnMut(u64)) -> Summary {
    let (next, stop) = (AtomicU64::new(first), AtomicBool::new(false));
    let (sender, receiver) = mpsc::channel();
    let mut reports = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            let (sender, next, stop) = (sender.clone(), &next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let report = run_seed(seed, options.broken, false);
                    let found = report.violation.is_some();
                    stop.fetch_or(found && options.stop_at_first, Ordering::Relaxed);
                    // The receiver is gone only when this scope is.
                    let _ = sender.send(report);
                }
            });
        }
        drop(sender);
        for report in receiver {
            reports.push(report);
            progress(reports.len() as u64);
        }
    });
    sum_up(reports, options.stop_at_first)
}

/// Sums up in the order of the seeds; up to the first failure only, if the others were not all run.
fn sum_up(mut reports: Vec<Report>, stop_at_first: bool) -> Summary {
    reports.sort_unstable_by_key(|report| report.seed);
    let mut summary = Summary::default();
    for report in reports {
        summary.seeds += 1;
        summary.commits += report.commits;
        summary.hash = mix(summary.hash, report.hash);
        if report.violation.is_some() {
            summary.failures.push(report);
            if stop_at_first {
                break;
            }
        }
    }
    summary
}
