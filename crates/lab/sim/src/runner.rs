//! Many seeds: spread over threads, summed up in the order of the seeds.

use crate::cluster;
use crate::reorder;
use crate::run::{self, Report};
use crate::scenario::{Day, Race};
use crate::trace::mix;
use crate::volumes;
use core::fmt;
use core::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use types::Broken;

/// The kind of run that a seed draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Whole nodes, with faults.
    #[default]
    Nodes,
    /// Whole nodes with a store of several shards.
    Shards,
    /// The same, steered towards one kind of race.
    Steered(Race),
    /// Several nodes that are one store, with faults.
    Cluster,
    /// Two masters' streams, out of order.
    Reorder,
    /// A volume with its owners, holders, home and registry.
    Volumes,
}

impl Kind {
    /// Runs one seed.
    pub fn run_seed(self, seed: u64, broken: Broken, readable: bool) -> Report {
        match self {
            Self::Nodes => run::run_seed(seed, Day::default(), broken, readable),
            Self::Shards => run::run_seed(seed, Day { has_shards: true, ..Day::default() }, broken, readable),
            Self::Steered(race) => run::run_seed(seed, Day { race: Some(race), ..Day::default() }, broken, readable),
            Self::Cluster => cluster::run_seed(seed, broken, readable),
            Self::Reorder => reorder::run_seed(seed, broken, readable),
            // Its rules are others, and all stand.
            Self::Volumes => volumes::run_seed(seed, Broken::NONE, readable),
        }
    }

    /// The words of the command line for it, before a seed.
    fn option(self) -> String {
        match self {
            Self::Nodes => String::new(),
            Self::Shards => "--shards ".into(),
            Self::Steered(race) => format!("--race {} ", race.name()),
            Self::Cluster => "--cluster ".into(),
            Self::Reorder => "--reorder ".into(),
            Self::Volumes => "--volumes ".into(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nodes => "nodes",
            Self::Shards => "shards",
            Self::Steered(race) => race.name(),
            Self::Cluster => "cluster",
            Self::Reorder => "reorder",
            Self::Volumes => "volumes",
        })
    }
}

/// How seeds are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kind of run.
    pub kind: Kind,
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
        Self { kind: Kind::Nodes, threads, broken: Broken::NONE, stop_at_first: false }
    }
}

/// The result of many seeds.
#[derive(Debug, Default)]
pub struct Summary {
    /// The kind of run.
    pub kind: Kind,
    /// Seeds that were run.
    pub seeds: u64,
    /// Transactions that were acknowledged as committed.
    pub commits: u64,
    /// Transactions whose outcome is unknown to those who asked for it.
    pub unknown: u64,
    /// The reports of the seeds that found something, in the order of the seeds.
    pub failures: Vec<Report>,
    /// The hash of all traces, in the order of the seeds.
    pub hash: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failures {
            let violation = failure.violation.as_ref().expect("a failure has one");
            writeln!(f, "{} seed {}: {violation}", self.kind, failure.seed)?;
            writeln!(f, "  replay it: cargo xtask sim {}--seed {} --trace", self.kind.option(), failure.seed)?;
        }
        let (seeds, commits, unknown, violations) = (self.seeds, self.commits, self.unknown, self.failures.len());
        write!(
            f,
            "{:<7} {seeds} seeds, {commits} commits, {unknown} unknown, {violations} violations, trace {:016x}",
            self.kind, self.hash
        )
    }
}

/// Runs `count` seeds from `first` on. `progress` hears how many are done, from this thread.
pub fn run_seeds(first: u64, count: u64, options: &Options, progress: impl FnMut(u64)) -> Summary {
    let Options { kind, threads, broken, stop_at_first } = *options;
    let reports =
        run_each(first..first + count, threads, stop_at_first, |seed| kind.run_seed(seed, broken, false), progress);
    sum_up(reports, options)
}

/// Runs each of these seeds, in any order; if `stop_at_first`, none that comes after one that has found something.
pub(crate) fn run_each(
    seeds: Range<u64>,
    threads: usize,
    stop_at_first: bool,
    run: impl Fn(u64) -> Report + Sync,
    mut progress: impl FnMut(u64),
) -> Vec<Report> {
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let (sender, receiver) = mpsc::channel();
    let mut reports = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let (sender, next, stop, run, end) = (sender.clone(), &next, &stop, &run, seeds.end);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let report = run(seed);
                    let found = report.violation.is_some();
                    stop.fetch_or(found && stop_at_first, Ordering::Relaxed);
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
    reports.sort_unstable_by_key(|report| report.seed);
    reports
}

/// Sums up in the order of the seeds; up to the first failure only, if the others were not all run.
fn sum_up(reports: Vec<Report>, options: &Options) -> Summary {
    let mut summary = Summary { kind: options.kind, ..Summary::default() };
    for report in reports {
        summary.seeds += 1;
        summary.commits += report.commits;
        summary.unknown += report.unknown;
        summary.hash = mix(summary.hash, report.hash);
        if report.violation.is_some() {
            summary.failures.push(report);
            if options.stop_at_first {
                break;
            }
        }
    }
    summary
}
