//! The runs of one case, each with another seed, and their means.

use crate::experiment::Target;
use crate::pace::Pace;
use crate::{Result, Row};
use sim::multicomputer::{Disks, Hardware, Load, Outcome, Sequencer, run};
use std::cell::Cell;
use std::panic::catch_unwind;
use std::thread;
use std::time::Instant;

/// How often a case is run, each time with other pages.
const SEEDS: usize = 5;

/// A case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) nodes: usize,
    pub(super) sequencer: Sequencer,
    pub(super) hardware: Hardware,
    pub(super) load: Load,
}

impl Case {
    /// The seconds that a run takes a processor, about.
    pub(super) fn seconds(&self) -> f64 {
        let Load { transactions, operations, .. } = self.load;
        let nodes = self.nodes as f64;
        // All meet all. On slow links fewer messages leave together.
        let meeting = 0.1 + 5e-5 * nodes * nodes;
        let is_slow = matches!(self.hardware.disks, Disks::Shared { .. });
        let (each, of_node) = if is_slow { (40e-6, 3e-6) } else { (25e-6, 1.1e-6) };
        meeting + (each + of_node * nodes) * transactions as f64 * f64::from(operations)
    }
}

/// The runs of an experiment, which share its time.
pub(super) struct Runs<'a> {
    pace: &'a Pace<'a>,
    all_s: f64,
    done_s: Cell<f64>,
}

impl<'a> Runs<'a> {
    /// An experiment whose cases take this many seconds, each run once.
    pub(super) fn new(pace: &'a Pace<'a>, all_s: f64) -> Self {
        Self { pace, all_s, done_s: Cell::new(0.0) }
    }

    /// Runs a case as often as there is time, on all processors at the same time.
    pub(super) fn run(&self, case: &Case, what: &str) -> Result<Outcomes> {
        let (at_once, left_s) =
            (thread::available_parallelism().map_or(1, usize::from), self.all_s - self.done_s.get());
        let share = self.pace.part_left().mul_f64((case.seconds() / left_s.max(case.seconds())).min(1.0));
        let begun = Instant::now();
        let mut all: Vec<Outcome> = Vec::new();
        while all.is_empty() || all.len() < SEEDS && begun.elapsed() < share {
            self.pace.say(what)?;
            let next = all.len() as u64 + 1;
            let some: Vec<u64> = (next..=SEEDS as u64).take(at_once).collect();
            all.extend(
                thread::scope(|scope| {
                    let runs: Vec<_> = some.into_iter().map(|seed| scope.spawn(move || case.run(seed))).collect();
                    let ended = runs.into_iter().map(|run| run.join().ok().flatten());
                    ended.map(|outcome| outcome.ok_or_else(|| format!("{what}: a run has failed"))).collect::<Vec<_>>()
                })
                .into_iter()
                .collect::<std::result::Result<Vec<_>, _>>()?,
            );
        }
        self.done_s.set(self.done_s.get() + case.seconds());
        self.pace.advance(self.done_s.get() / self.all_s);
        Ok(Outcomes(all))
    }
}

impl Case {
    /// Runs it with a seed. Returns nothing if the run has failed.
    fn run(&self, seed: u64) -> Option<Outcome> {
        let load = Load { seed, ..self.load };
        catch_unwind(|| run(self.nodes, self.sequencer, &self.hardware, &load)).ok()
    }
}

/// The outcomes of a case, one for each seed.
#[derive(Clone, Debug)]
pub(super) struct Outcomes(Vec<Outcome>);

impl Outcomes {
    /// The mean of a figure.
    pub(super) fn mean(&self, of: impl Fn(&Outcome) -> f64) -> f64 {
        self.0.iter().map(of).sum::<f64>() / self.0.len() as f64
    }

    /// A row of the mean of a figure, with its deviation.
    pub(super) fn row(&self, figure: &str, case: String, unit: &'static str, of: impl Fn(&Outcome) -> f64) -> Row {
        let mean = self.mean(&of);
        let squares: f64 = self.0.iter().map(|outcome| (of(outcome) - mean).powi(2)).sum();
        let deviation = (self.0.len() > 1).then(|| (squares / (self.0.len() - 1) as f64).sqrt());
        let refused: u64 = self.0.iter().map(|outcome| outcome.retries).sum();
        let case = if refused > 0 { format!("{case} ({refused} refused)") } else { case };
        Row::new(figure, case, unit, mean).deviation(deviation)
    }

    /// A row of a figure over its mean in other runs.
    pub(super) fn over(
        &self,
        figure: &str,
        case: String,
        other: &Self,
        of: impl Fn(&Outcome) -> f64,
        target: Option<Target>,
    ) -> Row {
        let base = other.mean(&of);
        self.row(figure, case, "times", |outcome| of(outcome) / base).target(target)
    }
}
