//! From runs to rows: figures 8 to 12.

use super::cluster::{Cluster, STOCK, Scheme};
use super::run::{Outcome, ROOM_FOR_ALL, Trace};
use super::strain::Strain;
use crate::experiment::Target;
use crate::pace::Pace;
use crate::sample::median;
use crate::shop::{Popularity, Reads};
use crate::{Result, Row};
use std::cell::OnceCell;
use std::time::{Duration, Instant};

/// Updates a second beyond the paper's traces, to see where it ends.
const BEYOND: [u32; 2] = [25, 100];

/// The bytes that all pages take in a cache, about: figure 10 is of shares of this.
const ALL_PAGES_BYTES: usize = 4 << 20;

/// The shares of the pages that a cache has room for, in percent.
const ROOMS: [usize; 5] = [2, 5, 10, 25, 100];

/// The dependencies of a page.
const DEPENDENCIES: [u32; 6] = [1, 5, 20, 50, 100, 200];

/// Pairs of busy threads on the back end.
pub(super) const LOADS: [u32; 4] = [0, 1, 4, 16];

/// Each case is measured so often, in turns with those that it is compared with, each time for a part of its time: a
/// machine with other work to do is not as fast at all times. Figures are medians, and ratios are medians of each
/// round's own.
const ROUNDS: u32 = 3;

/// The shortest time for which a case is measured, however little of it there is.
const LENGTH_MIN: Duration = Duration::from_millis(300);

/// The parts of the work: traces with and without a cache, those that invalidate everything, and those of more updates.
pub(super) const TRACES: [&str; 2] = ["traces", "traces, invalidate all"];
pub(super) const BEYOND_TRACES: &str = "beyond the traces";
pub(super) const PLACED: &str = "homes beside the applications";

/// The paper's placement of homes, in each way of looking them up.
const HOMES: [(Scheme, &str); 2] = [
    (Scheme::HomesByTcp, "homes beside the applications, TCP"),
    (Scheme::HomesByFabric, "homes beside the applications, libfabric on TCP"),
];

/// The part of figure 12 with this many pairs of busy threads.
pub(super) fn loaded(pairs: u32) -> String {
    format!("load {pairs}")
}

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

    /// The same in each round.
    fn rounds(&self) -> Vec<f64> {
        self.outcomes.iter().map(Outcome::pages_per_s).collect()
    }

    /// The share of the machine that others took in the meantime.
    fn others(&self) -> Option<f64> {
        let others: Vec<f64> = self.outcomes.iter().filter_map(|outcome| outcome.others).collect();
        (!others.is_empty()).then(|| others.iter().sum::<f64>() / others.len() as f64)
    }

    /// Why it is no measurement, if it is none.
    fn failure(&self) -> Option<String> {
        self.outcomes.iter().find_map(Outcome::failure)
    }

    /// A row of it.
    fn row(&self, figure: &str, case: String, unit: &'static str, ours: f64) -> Row {
        let row = match self.failure() {
            Some(why) => Row::missing(figure, case, unit, why),
            None => Row::new(figure, case, unit, ours),
        };
        row.beside(self.others())
    }

    /// A row of it over another one.
    fn row_over(&self, other: &Self, figure: &str, case: impl Into<String>) -> Row {
        match other.failure() {
            Some(why) => Row::missing(figure, case, "times", why).beside(other.others()),
            None => self.row(figure, case.into(), "times", self.over(other)).baseline(&other.rounds()),
        }
    }

    /// How many times as many pages a second as in another one.
    fn over(&self, other: &Self) -> f64 {
        let rounds = self.outcomes.iter().zip(&other.outcomes);
        median(rounds.map(|(own, other)| own.pages_per_s() / other.pages_per_s()).collect())
    }
}

impl Outcome {
    /// A row of a case that has run once.
    fn row(&self, figure: &str, case: String) -> Row {
        let row = match self.failure() {
            Some(why) => Row::missing(figure, case, "pages/s", why),
            None => Row::new(figure, case, "pages/s", self.pages_per_s()),
        };
        row.beside(self.others)
    }
}

pub(super) struct Figures<'a> {
    cluster: Cluster,
    length: Duration,
    pace: &'a Pace<'a>,
    traces: OnceCell<Vec<Run>>,
}

impl<'a> Figures<'a> {
    pub(super) fn new(cluster: Cluster, length: Duration, pace: &'a Pace<'a>) -> Self {
        Self { cluster, length, pace, traces: OnceCell::new() }
    }

    /// All schemes under traces 1 to 5: figures 8 and 9 are of the same runs.
    fn traces(&self) -> Result<&[Run]> {
        if let Some(runs) = self.traces.get() {
            return Ok(runs);
        }
        let mut runs = Vec::new();
        // With and without a cache in turns; then the scheme for which everything is started again.
        let schemes = [&[Scheme::NoCache, Scheme::DependencyLists][..], &[Scheme::InvalidateAll]];
        for (schemes, part) in schemes.into_iter().zip(TRACES) {
            self.pace.begin(part);
            let cases: Vec<_> = (1..=5).flat_map(|trace| schemes.iter().map(move |scheme| (*scheme, trace))).collect();
            runs.extend(self.in_turns(&cases, Trace::number)?);
        }
        Ok(self.traces.get_or_init(|| runs))
    }

    /// Measures cases in turns, in several rounds, within the time of the part.
    fn in_turns(&self, cases: &[(Scheme, u32)], trace: impl Fn(u32) -> Trace) -> Result<Vec<Run>> {
        let run = |&(scheme, trace): &(Scheme, u32)| Run { scheme, trace, outcomes: Vec::new() };
        let mut runs: Vec<_> = cases.iter().map(run).collect();
        let mut lengths = Lengths::new(self.pace, self.length / ROUNDS, ROUNDS as usize * cases.len());
        for round in 1..=ROUNDS {
            // Two say whether it comes out again.
            if round > 2 && self.pace.part_left().is_zero() {
                break;
            }
            for run in &mut runs {
                self.pace.say(format!("trace {}, {}, round {round}", run.trace, run.scheme.name()))?;
                let measure = |length| self.cluster.run(run.scheme, &trace(run.trace), ROOM_FOR_ALL, length);
                run.outcomes.push(lengths.next(measure)?);
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
        let mut best = None;
        for scheme in Scheme::ALL {
            for trace in 1..=5 {
                let run = Self::of(runs, scheme, trace)?;
                let case = format!("{}, trace {trace}", scheme.name());
                // The paper's is what dependency lists hold at high rates of updates.
                let paper = (scheme == Scheme::DependencyLists && trace == 5).then_some(14_000.0);
                let row = run.row("8", case, "pages/s", run.pages_per_s()).paper(paper);
                rows.push(row.curve_at(scheme.name(), trace.into()));
                let row = run.row_over(Self::of(runs, Scheme::NoCache, trace)?, "8", "best case over no cache");
                if best.as_ref().is_none_or(|best: &Row| best.ours() < row.ours()) {
                    best = Some(row);
                }
            }
        }
        rows.extend(best.map(|best| best.paper(8.8).target(Target::AtLeast(8.8))));
        let first = Self::of(runs, Scheme::DependencyLists, 1)?;
        let held = Self::of(runs, Scheme::DependencyLists, 5)?;
        let held = held.row_over(first, "8", "dependency lists, trace 5 over trace 1");
        rows.push(held.target(Target::AtLeast(0.9)));
        let [plain, cached] = [(Scheme::NoCache, 4.0), (Scheme::DependencyLists, 1.2)].map(|(scheme, paper)| {
            let run = Self::of(runs, scheme, 1)?;
            let case = format!("{}, response time", scheme.name());
            Ok::<_, crate::Error>(run.row("8", case, "ms", run.median(Outcome::response_ms)).paper(paper))
        });
        rows.extend([plain?, cached?]);
        // Trace 1 again, as it is now, and then more updates than the paper's.
        let cases = [1, BEYOND[0], BEYOND[1]].map(|trace| (Scheme::DependencyLists, trace));
        let beyond = |trace| match trace {
            1 => Trace::number(1),
            updates_per_s => Trace { updates_per_s: updates_per_s.into(), ..Trace::number(5) },
        };
        self.pace.begin(BEYOND_TRACES);
        let runs = self.in_turns(&cases, beyond)?;
        for run in &runs[1..] {
            let case = format!("dependency lists, {} updates/s over trace 1", run.trace);
            rows.push(run.row_over(&runs[0], "8", case));
        }
        rows.extend(self.placed()?);
        Ok(rows)
    }

    /// Figure 8 with homes as the paper places them: one beside each application, which all proxies look up.
    fn placed(&self) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        self.pace.begin(PLACED);
        let schemes: Vec<_> = [Scheme::DependencyLists].into_iter().chain(placements().map(|(it, _)| it)).collect();
        let cases: Vec<_> = [1, 5].into_iter().flat_map(|trace| schemes.iter().map(move |it| (*it, trace))).collect();
        let runs = self.in_turns(&cases, Trace::number)?;
        for (scheme, place) in placements() {
            for trace in [1, 5] {
                let (inside, run) = (Self::of(&runs, Scheme::DependencyLists, trace)?, Self::of(&runs, scheme, trace)?);
                rows.push(run.row("8", format!("{}, trace {trace}", scheme.name()), "pages/s", run.pages_per_s()));
                rows.push(run.row_over(inside, "8", format!("over homes in the proxies, trace {trace}, {place}")));
            }
        }
        if let Err(why) = fabric::Shim::load() {
            let case = format!("{}, trace 1", Scheme::HomesByFabric.name());
            rows.push(Row::missing("8", case, "pages/s", why.to_string()));
        }
        Ok(rows)
    }

    /// Figure 9.
    pub(super) fn misses(&self) -> Result<Vec<Row>> {
        let runs = self.traces()?;
        let mut rows = Vec::new();
        for scheme in [Scheme::InvalidateAll, Scheme::DependencyLists] {
            for trace in 1..=5 {
                let run = Self::of(runs, scheme, trace)?;
                let (case, misses) =
                    (format!("{}, trace {trace}", scheme.name()), run.median(Outcome::misses_per_mille));
                rows.push(run.row("9", case, "misses/1000", misses).curve_at(scheme.name(), trace.into()));
            }
        }
        Ok(rows)
    }

    /// Figure 10: trace 6, with less room than there are pages.
    pub(super) fn cache_sizes(&self) -> Result<Vec<Row>> {
        let (trace, mut rows) = (Trace::zipf(), Vec::new());
        let mut add = |share: usize, outcome: &Outcome| {
            let case = if share == 0 { "no cache".to_owned() } else { format!("room for {share} % of the pages") };
            let row = outcome.row("10", case);
            rows.push(row.curve_at("Zipf", share as u64));
        };
        self.pace.begin("10");
        let mut lengths = Lengths::new(self.pace, self.length, 1 + ROOMS.len());
        for share in ROOMS {
            self.pace.say(format!("caches of {share} %"))?;
            let bytes = ALL_PAGES_BYTES * share / 100;
            let mut run = |scheme| lengths.next(|length| self.cluster.run(scheme, &trace, bytes, length));
            let outcome = run(Scheme::DependencyLists)?;
            if share == ROOMS[0] {
                add(0, &run(Scheme::NoCache)?);
            }
            add(share, &outcome);
        }
        Ok(rows)
    }

    /// Figure 11: pages that are made of more and more items, and no larger for it.
    pub(super) fn dependencies(&self) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        self.pace.begin("11");
        let mut lengths = Lengths::new(self.pace, self.length, DEPENDENCIES.len());
        for of in DEPENDENCIES {
            self.pace.say(format!("{of} dependencies of a page"))?;
            let reads = Reads { best_of: Some(of), ..Reads::default() };
            let trace = Trace { reads, popularity: Popularity::Uniform, ..Trace::number(5) };
            let run = |length| self.cluster.run(Scheme::DependencyLists, &trace, ROOM_FOR_ALL, length);
            let outcome = lengths.next(run)?;
            let case = format!("{of} of {} items are what a page depends on", STOCK.items);
            let row = outcome.row("11", case);
            rows.push(row.curve_at("pages/s", of.into()));
        }
        Ok(rows)
    }

    /// Figure 12: trace 5, while the back end has other work to do.
    pub(super) fn loads(&self) -> Result<Vec<Row>> {
        let (mut rows, mut ratios) = (Vec::new(), Vec::new());
        let schemes: Vec<_> =
            [Scheme::NoCache, Scheme::DependencyLists].into_iter().chain(placements().map(|(it, _)| it)).collect();
        for pairs in LOADS {
            self.pace.begin(&loaded(pairs));
            let runs = self.beside(pairs, &schemes)?;
            for run in &runs {
                let case = format!("{}, load {pairs}", run.scheme.name());
                let row = run.row("12", case, "pages/s", run.pages_per_s());
                rows.push(row.curve_at(run.scheme.name(), pairs.into()));
            }
            let case = if pairs == 0 { "over no cache, idle back end" } else { "over no cache, loaded back end" };
            ratios.push(runs[1].row_over(&runs[0], "12", case));
            for (run, place) in runs[2..].iter().zip(HOMES.map(|(_, place)| place)) {
                rows.push(run.row_over(&runs[0], "12", format!("over no cache, load {pairs}, {place}")));
            }
        }
        // The idle back end is the first, and no load.
        let mut ratios = ratios.into_iter();
        rows.extend(ratios.next().map(|idle| idle.paper(8.5)));
        let most = ratios.reduce(|most, next| if next.ours() > most.ours() { next } else { most });
        rows.extend(most.map(|loaded| loaded.paper(21.9).target(Target::AtLeast(21.9))));
        Ok(rows)
    }

    /// Trace 5 in turns, beside so many pairs of busy threads on the back end.
    fn beside(&self, pairs: u32, schemes: &[Scheme]) -> Result<Vec<Run>> {
        let start = || Strain::start(&self.cluster.program, pairs);
        let _strain = self.cluster.cores.run_on_servers(start)?;
        self.in_turns(&schemes.iter().map(|scheme| (*scheme, 5)).collect::<Vec<_>>(), Trace::number)
    }
}

/// Those placements of homes beside the applications that this machine can run.
fn placements() -> impl Iterator<Item = (Scheme, &'static str)> {
    let has_fabric = fabric::Shim::load().is_ok();
    HOMES.into_iter().filter(move |(scheme, _)| has_fabric || *scheme != Scheme::HomesByFabric)
}

/// How long the cases of a part are measured: as long as they should be, or as there is time.
struct Lengths<'a> {
    pace: &'a Pace<'a>,
    usual: Duration,
    cases: usize,
    done: usize,
    /// The time that the last case took beside its measurement.
    beside: Duration,
}

impl<'a> Lengths<'a> {
    fn new(pace: &'a Pace<'a>, usual: Duration, cases: usize) -> Self {
        Self { pace, usual, cases, done: 0, beside: Duration::ZERO }
    }

    /// The next case.
    fn next<T>(&mut self, measure: impl FnOnce(Duration) -> Result<T>) -> Result<T> {
        let share = self.pace.part_left() / (self.cases - self.done).max(1) as u32;
        let length = share.saturating_sub(self.beside).clamp(LENGTH_MIN.min(self.usual), self.usual);
        let begun = Instant::now();
        let measured = measure(length)?;
        self.beside = begun.elapsed().saturating_sub(length);
        self.done += 1;
        self.pace.advance(self.done as f64 / self.cases as f64);
        Ok(measured)
    }
}
