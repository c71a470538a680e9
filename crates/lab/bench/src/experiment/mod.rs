//! The BuddyCache paper's experiments (section 6): the paper's figures, its analytical model with our parameters, ours.
//!
//! ```text
//!   costs         what things take without a distance, measured on this machine      --> model (equations 1 to 6)
//!     |                                                                                     |
//!     +--> virtual_time   the real nodes over laid-out distances: whole curves   --> figures: rows and charts
//!     |                                                                                     |
//!   real          store, redirector and clients on TCP, the distance emulated: a sample ----+
//! ```
//! A transaction is one traversal of one composite part, at the end of a random way down the assemblies: that alone
//! fits the paper's times. How many pages that is, and why, is in `docs/experiments.md`.

mod chart;
mod cold;
mod cold_rows;
mod costs;
mod failover;
mod figures;
mod group;
mod hot;
mod hot_rows;
mod lan;
mod members;
mod model;
mod module;
mod null_request;
mod real;
mod row;
mod sample_rows;
mod tables;
mod vcache;
mod virtual_time;
mod worker;

use crate::machine::Watch;
use crate::pace::{Pace, Part, Step};
use crate::{Place, Result};
pub use chart::draw;
use costs::{Baseline, Lab};
use figures::Bench;
use module::Built;
use real::Store;
pub(crate) use row::Target;
pub use row::{HEAD, Row};
use std::cell::OnceCell;
use std::time::Duration;
use workloads::oo7::Size;

/// A module whose parts fill four pages, so that a transaction fetches 1.6: about as many as when these experiments
/// were first run, before values carried the names of their types.
const SMALL_PARTS: Size = Size { atomic_parts: 100, ..Size::MEDIUM };

/// The part of the time in which the costs of this machine are measured, and its seconds on a quiet one.
const COSTS: (&str, f64) = ("costs", 15.0);

/// One experiment of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// A figure, 7 to 12.
    Figure(u32),
    /// A table, 1 or 2.
    Table(u32),
    /// A group without its redirector.
    Failover,
}

impl Experiment {
    /// All of them, in the paper's order.
    pub const ALL: [Self; 9] = [
        Self::Table(1),
        Self::Table(2),
        Self::Figure(7),
        Self::Figure(8),
        Self::Figure(9),
        Self::Figure(10),
        Self::Figure(11),
        Self::Figure(12),
        Self::Failover,
    ];

    /// Its part of the time: it takes this many seconds on a quiet machine of two processors.
    fn part(self) -> Part {
        let seconds = match self {
            Self::Table(1) => 40.0,
            Self::Figure(9) => 15.0,
            Self::Table(_) | Self::Failover => 10.0,
            Self::Figure(7) => 180.0,
            Self::Figure(8 | 11) => 20.0,
            Self::Figure(10) => 400.0,
            Self::Figure(_) => 170.0,
        };
        (self.name(), seconds)
    }

    fn name(self) -> String {
        match self {
            Self::Table(number) => format!("table {number}"),
            Self::Figure(number) => format!("figure {number}"),
            Self::Failover => "failover".to_owned(),
        }
    }
}

/// Runs experiments, with fewer transactions where they would not end within `time`. `progress` hears what is being
/// done, and an error of it ends all; `found` hears each row as soon as it is known.
///
/// # Errors
/// Something does not start; or those of `progress` and `found`.
pub fn experiment(
    experiments: &[Experiment],
    place: &Place,
    time: Duration,
    progress: &dyn Fn(&Step) -> Result<()>,
    found: &mut dyn FnMut(Row) -> Result<()>,
) -> Result<()> {
    let parts = [(COSTS.0.to_owned(), COSTS.1)].into_iter().chain(experiments.iter().map(|it| it.part())).collect();
    let pace = &Pace::new(time, parts, progress);
    let machine = OnceCell::new();
    for experiment in experiments {
        let machine = || made(&machine, || Machine::measure(place, pace));
        if *experiment != Experiment::Failover {
            machine()?;
        }
        pace.begin(&experiment.name());
        let watch = Watch::begin();
        let rows = match experiment {
            Experiment::Table(1) => tables::fetch_and_commit(&machine()?.lab, place, pace)?,
            Experiment::Table(_) => tables::peer_fetch(&machine()?.lab, pace)?,
            Experiment::Figure(number) => machine()?.figures.rows(*number)?,
            // Over distances that are given, and without any cost of this machine.
            Experiment::Failover => {
                pace.say("end redirectors in virtual time")?;
                failover::rows()?
            }
        };
        let others = watch.others_percent();
        rows.into_iter().map(|row| row.beside(others)).try_for_each(&mut *found)?;
    }
    Ok(())
}

/// The measurements of this machine, and the results made of them.
struct Machine<'a> {
    lab: Lab,
    figures: Figures<'a>,
}

impl<'a> Machine<'a> {
    fn measure(place: &'a Place, pace: &'a Pace<'a>) -> Result<Self> {
        pace.begin(COSTS.0);
        pace.say("make a store")?;
        let lab = Lab::start(place)?;
        let baseline = Baseline::measure(&lab, place, pace)?;
        let (bench, small, own) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        let (store, leased_store) = (OnceCell::new(), OnceCell::new());
        Ok(Self { lab, figures: Figures { baseline, place, pace, bench, small, own, store, leased_store } })
    }
}

/// The inputs of figures, made when the first one needs them.
struct Figures<'a> {
    baseline: Baseline,
    place: &'a Place,
    pace: &'a Pace<'a>,
    bench: OnceCell<Bench<'a>>,
    small: OnceCell<Built>,
    own: OnceCell<Built>,
    store: OnceCell<Store>,
    leased_store: OnceCell<Store>,
}

impl<'a> Figures<'a> {
    fn rows(&self, figure: u32) -> Result<Vec<Row>> {
        let bench = self.bench()?;
        bench.set_share(self.pace.affordable());
        let mut rows = match figure {
            7 => bench.cold_bars(7, 40)?,
            8 => bench.cold_bars(8, 80)?,
            9 => bench.cold_curves()?,
            10 => bench.hot_bars(10, 40)?,
            11 => bench.hot_bars(11, 80)?,
            12 => bench.hot_curves()?,
            other => return Err(format!("the paper's experiments have no figure {other}").into()),
        };
        match figure {
            7 => {
                rows.extend(bench.cold_of_other_parts("OO7's own parts", 7, 40, self.own()?)?);
                rows.extend(bench.cold_of_other_parts("small parts", 7, 40, self.small()?)?);
            }
            8 => rows.extend(bench.cold_of_other_parts("small parts", 8, 80, self.small()?)?),
            _ => {}
        }
        if bench.measured() < cold::TRANSACTIONS {
            let note = format!("{} transactions", bench.measured());
            rows = rows.into_iter().map(|row| row.noted(&note)).collect();
        }
        // These say of how many they are by themselves.
        match figure {
            7 => rows.extend(bench.cold_sample(self.store()?)?),
            10 => rows.extend(bench.hot_sample(self.store()?, self.leased_store()?)?),
            _ => {}
        }
        Ok(rows)
    }

    fn bench(&self) -> Result<&Bench<'a>> {
        made(&self.bench, || {
            self.pace.say("build OO7 in virtual time")?;
            Ok(Bench::new(self.baseline.clone(), Built::new(Size::BUDDYCACHE)?, self.pace))
        })
    }

    /// The module of small parts.
    fn small(&self) -> Result<&Built> {
        made(&self.small, || {
            self.pace.say("build OO7 of small parts in virtual time")?;
            Built::new(SMALL_PARTS)
        })
    }

    /// The module as OO7 has it: its parts fill eight pages.
    fn own(&self) -> Result<&Built> {
        made(&self.own, || {
            self.pace.say("build OO7 with its own parts in virtual time")?;
            Built::new(Size::MEDIUM)
        })
    }

    fn store(&self) -> Result<&Store> {
        made(&self.store, || {
            self.pace.say("build OO7 in a store")?;
            Store::start(self.place, Size::BUDDYCACHE)
        })
    }

    fn leased_store(&self) -> Result<&Store> {
        made(&self.leased_store, || {
            self.pace.say("build OO7 in a store that leases")?;
            Store::start_leased(self.place, Size::BUDDYCACHE)
        })
    }
}

/// The value of a cell, made now if it is empty.
fn made<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    if let Some(made) = cell.get() {
        return Ok(made);
    }
    let new = make()?;
    Ok(cell.get_or_init(|| new))
}

#[cfg(test)]
mod tests;
