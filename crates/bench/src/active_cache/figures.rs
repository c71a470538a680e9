//! From runs to rows: figures 8 to 12.

use super::cluster::{Cluster, STOCK, Scheme};
use super::run::{Outcome, ROOM_FOR_ALL, Trace};
use super::strain::Strain;
use crate::experiment::Target;
use crate::sample::median;
use crate::{Result, Row};
use shop::{Popularity, Reads};
use std::cell::OnceCell;
use std::time::Duration;

/// Updates a second beyond the paper's traces, to see where it ends.
const BEYOND: [u32; 2] = [25, 100];

/// The bytes that all pages take in a cache, about: figure 10 is of shares of this.
const ALL_PAGES_BYTES: usize = 4 << 20;

/// The shares of the pages that a cache has room for, in percent.
const ROOMS: [usize; 5] = [2, 5, 10, 25, 100];

/// The dependencies of a page.
const DEPENDENCIES: [u32; 6] = [1, 5, 20, 50, 100, 200];

/// Pairs of busy threads on the back end.
const LOADS: [u32; 4] = [0, 1, 4, 16];

/// Each case is measured so often, in turns with those that it is compared with, each time for a part of its time: a machine
/// with other work to do is not as fast at all times. Figures are medians, and ratios are medians of each round's own.
const ROUNDS: u32 = 3;

/// A scheme under a trace, in each round.
struct Run {
    scheme: Scheme,
    trace: u32,
    outcomes: Vec<Outcome>,
}

impl Run {
    fn median(&self, figure: impl Fn(&Outcome) -> f64) -> f64 {
        median(self.outcomes.iter().map(figure).collect())
    }

    fn pages_per_s(&self) -> f64 {
        self.median(Outcome::pages_per_s)
    }

    /// How many times as many pages a second as in another one.
    fn over(&self, other: &Self) -> f64 {
        let rounds = self.outcomes.iter().zip(&other.outcomes);
        median(rounds.map(|(own, other)| own.pages_per_s() / other.pages_per_s()).collect())
    }
}

pub(super) struct Figures<'a> {
    cluster: Cluster,
    length: Duration,
    progress: &'a dyn Fn(&str) -> Result<()>,
    traces: OnceCell<Vec<Run>>,
}

impl<'a> Figures<'a> {
    pub(super) fn new(cluster: Cluster, length: Duration, progress: &'a dyn Fn(&str) -> Result<()>) -> Self {
        Self { cluster, length, progress, traces: OnceCell::new() }
    }

    fn run(&self, scheme: Scheme, trace: &Trace) -> Result<Outcome> {
        self.cluster.run(scheme, trace, ROOM_FOR_ALL, self.length / ROUNDS)
    }

    /// All schemes under traces 1 to 5: figures 8 and 9 are of the same runs.
    fn traces(&self) -> Result<&[Run]> {
        if let Some(runs) = self.traces.get() {
            return Ok(runs);
        }
        let mut runs = Vec::new();
        // With and without a cache in turns; then the scheme for which everything is started anew.
        for schemes in [&[Scheme::NoCache, Scheme::DependencyLists][..], &[Scheme::InvalidateAll]] {
            let cases: Vec<_> = (1..=5).flat_map(|trace| schemes.iter().map(move |scheme| (*scheme, trace))).collect();
            runs.extend(self.in_turns(&cases, Trace::number)?);
        }
        Ok(self.traces.get_or_init(|| runs))
    }

    /// Measures cases in turns, in several rounds.
    fn in_turns(&self, cases: &[(Scheme, u32)], trace: impl Fn(u32) -> Trace) -> Result<Vec<Run>> {
        let run = |&(scheme, trace): &(Scheme, u32)| Run { scheme, trace, outcomes: Vec::new() };
        let mut runs: Vec<_> = cases.iter().map(run).collect();
        for round in 1..=ROUNDS {
            for run in &mut runs {
                (self.progress)(&format!("trace {}, {}, round {round}", run.trace, run.scheme.name()))?;
                run.outcomes.push(self.run(run.scheme, &trace(run.trace))?);
            }
        }
        Ok(runs)
    }

    fn of(runs: &[Run], scheme: Scheme, trace: u32) -> Result<&Run> {
        Ok(runs.iter().find(|run| run.scheme == scheme && run.trace == trace).ok_or("a run is missing")?)
    }

    /// Figure 8.
    pub(super) fn throughput(&self) -> Result<Vec<Row>> {
        let runs = self.traces()?;
        let mut rows = Vec::new();
        let mut best: f64 = 0.0;
        for scheme in Scheme::ALL {
            for trace in 1..=5 {
                let run = Self::of(runs, scheme, trace)?;
                let case = format!("{}, trace {trace}", scheme.name());
                // The paper's is what dependency lists hold at high rates of updates.
                let paper = (scheme == Scheme::DependencyLists && trace == 5).then_some(14_000.0);
                let row = Row::new("8", case, "pages/s", run.pages_per_s()).paper(paper);
                rows.push(row.curve_at(scheme.name(), trace.into()));
                best = best.max(run.over(Self::of(runs, Scheme::NoCache, trace)?));
            }
        }
        rows.push(Row::new("8", "best case over no cache", "times", best).paper(8.8).target(Target::AtLeast(8.8)));
        let first = Self::of(runs, Scheme::DependencyLists, 1)?;
        let held = Self::of(runs, Scheme::DependencyLists, 5)?.over(first);
        rows.push(Row::new("8", "dependency lists, trace 5 over trace 1", "times", held).target(Target::AtLeast(0.9)));
        let [plain, cached] = [(Scheme::NoCache, 4.0), (Scheme::DependencyLists, 1.2)].map(|(scheme, paper)| {
            let run = Self::of(runs, scheme, 1)?;
            let case = format!("{}, response time", scheme.name());
            Ok::<_, crate::Error>(Row::new("8", case, "ms", run.median(Outcome::response_ms)).paper(paper))
        });
        rows.extend([plain?, cached?]);
        // Trace 1 again, as it is now, and then more updates than the paper's.
        let cases = [1, BEYOND[0], BEYOND[1]].map(|trace| (Scheme::DependencyLists, trace));
        let beyond = |trace| match trace {
            1 => Trace::number(1),
            updates_per_s => Trace { updates_per_s: updates_per_s.into(), ..Trace::number(5) },
        };
        let runs = self.in_turns(&cases, beyond)?;
        for run in &runs[1..] {
            let case = format!("dependency lists, {} updates/s over trace 1", run.trace);
            rows.push(Row::new("8", case, "times", run.over(&runs[0])));
        }
        Ok(rows)
    }

    /// Figure 9.
    pub(super) fn misses(&self) -> Result<Vec<Row>> {
        let runs = self.traces()?;
        let mut rows = Vec::new();
        for scheme in [Scheme::InvalidateAll, Scheme::DependencyLists] {
            for trace in 1..=5 {
                let misses = Self::of(runs, scheme, trace)?.median(Outcome::misses_per_mille);
                let case = format!("{}, trace {trace}", scheme.name());
                rows.push(Row::new("9", case, "misses/1000", misses).curve_at(scheme.name(), trace.into()));
            }
        }
        Ok(rows)
    }

    /// Figure 10: trace 6, with less room than there are pages.
    pub(super) fn cache_sizes(&self) -> Result<Vec<Row>> {
        let (trace, mut rows) = (Trace::zipf(), Vec::new());
        let mut add = |share: usize, outcome: &Outcome| {
            let case = if share == 0 { "no cache".to_owned() } else { format!("room for {share} % of the pages") };
            rows.push(Row::new("10", case, "pages/s", outcome.pages_per_s()).curve_at("Zipf", share as u64));
        };
        for share in ROOMS {
            (self.progress)(&format!("caches of {share} %"))?;
            let bytes = ALL_PAGES_BYTES * share / 100;
            let outcome = self.cluster.run(Scheme::DependencyLists, &trace, bytes, self.length)?;
            if share == ROOMS[0] {
                add(0, &self.cluster.run(Scheme::NoCache, &trace, bytes, self.length)?);
            }
            add(share, &outcome);
        }
        Ok(rows)
    }

    /// Figure 11: pages that are made of more and more items, and no larger for it.
    pub(super) fn dependencies(&self) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for of in DEPENDENCIES {
            (self.progress)(&format!("{of} dependencies of a page"))?;
            let reads = Reads { best_of: Some(of), ..Reads::default() };
            let trace = Trace { reads, popularity: Popularity::Uniform, ..Trace::number(5) };
            let outcome = self.cluster.run(Scheme::DependencyLists, &trace, ROOM_FOR_ALL, self.length)?;
            let case = format!("{of} of {} items are what a page depends on", STOCK.items);
            rows.push(Row::new("11", case, "pages/s", outcome.pages_per_s()).curve_at("pages/s", of.into()));
        }
        Ok(rows)
    }

    /// Figure 12: trace 5, while the back end has other work to do.
    pub(super) fn loads(&self) -> Result<Vec<Row>> {
        let (mut rows, mut ratios) = (Vec::new(), Vec::new());
        for pairs in LOADS {
            (self.progress)(&format!("{pairs} busy threads on the back end"))?;
            let _strain = Strain::start(&self.cluster.cores, pairs)?;
            let runs = self.in_turns(&[(Scheme::NoCache, 5), (Scheme::DependencyLists, 5)], Trace::number)?;
            for run in &runs {
                let case = format!("{}, load {pairs}", run.scheme.name());
                rows.push(Row::new("12", case, "pages/s", run.pages_per_s()).curve_at(run.scheme.name(), pairs.into()));
            }
            ratios.push(runs[1].over(&runs[0]));
        }
        let idle = ratios.first().copied().unwrap_or_default();
        let loaded = ratios.iter().copied().fold(0.0, f64::max);
        rows.push(Row::new("12", "over no cache, idle back end", "times", idle).paper(8.5));
        let row = Row::new("12", "over no cache, loaded back end", "times", loaded).paper(21.9);
        rows.push(row.target(Target::AtLeast(21.9)));
        Ok(rows)
    }
}
