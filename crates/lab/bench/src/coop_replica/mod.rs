//! The CoopReplica paper's experiments: its figure 2, and the reliability study that it planned (section 4) and could
//! not do.
//!
//! | module | duty |
//! |---|---|
//! | `reliability` | how long dirty data lasts, by the number of its copies |
//! | `chart` | the same as curves |
//! | `cost` | the same in short, for the demo |
//! | `throughput` | figure 2: write throughput with copies and without |
//! | `takeover` | how long it takes to bring home what a dead host has left |
//! | `house` | the processes of these two |

mod chart;
mod cost;
mod house;
mod reliability;
mod takeover;
mod throughput;

use crate::pace::{Pace, Part, Step};
use crate::{Place, Result, Row};
pub use chart::draw_reliability;
pub use cost::{CopiesCost, copies_cost};
pub use reliability::Lasting;
use reliability::reliability;
use std::path::Path;
use std::time::Duration;
pub use throughput::COOPREPLICA_FIGURE;

/// An experiment of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoopReplica {
    /// How long dirty data lasts.
    Reliability,
    /// Its figure 2.
    Throughput,
    /// How long it takes to bring home what a dead host has left.
    TakeOver,
}

impl CoopReplica {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Reliability, Self::Throughput, Self::TakeOver];

    /// Its part of the time: it takes this many seconds on a quiet machine.
    fn part(self, cycles: u32) -> Part {
        match self {
            Self::Reliability => (self.name().to_owned(), reliability::seconds(cycles)),
            Self::Throughput => (self.name().to_owned(), throughput::THROUGHPUT_S),
            Self::TakeOver => (self.name().to_owned(), takeover::TAKE_OVER_S),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Reliability => "reliability",
            Self::Throughput => "throughput",
            Self::TakeOver => "take-over",
        }
    }
}

/// The settings of the experiments.
#[derive(Clone, Copy, Debug)]
pub struct CoopReplicaOptions<'a> {
    /// Simulated cycles of failure and repairing for each kind of failure.
    pub cycles: u32,
    /// The size of the volumes that are measured, in MiB.
    pub volume_mib: u32,
    /// The disk of the holder's copies, if that should be another one than the rest has.
    pub holder_disk: Option<&'a Path>,
    /// The time that all of it may take: turns are fewer where they would take longer, and more if it is longer than
    /// usual.
    pub time: Duration,
}

/// A row of these experiments.
#[derive(Clone, Debug)]
pub enum ExperimentRow {
    /// Of the reliability study.
    Lasting(Lasting),
    /// Of what was measured.
    Measured(Box<Row>),
}

/// Runs experiments. `progress` hears what is being done, and an error of it ends all; `found` hears each row as soon
/// as it is known.
///
/// # Errors
/// Something does not start, or what was promised is not there; or those of `progress` and `found`.
pub fn coopreplica(
    experiments: &[CoopReplica],
    place: &Place,
    options: &CoopReplicaOptions<'_>,
    progress: &dyn Fn(&Step) -> Result<()>,
    found: &mut dyn FnMut(ExperimentRow) -> Result<()>,
) -> Result<()> {
    let parts = experiments.iter().map(|experiment| experiment.part(options.cycles)).collect();
    let pace = &Pace::new(options.time, parts, progress);
    let volume_mib = options.volume_mib.into();
    for experiment in experiments {
        pace.begin(experiment.name());
        let mut measured = |row| found(ExperimentRow::Measured(Box::new(row)));
        match experiment {
            CoopReplica::Throughput => {
                throughput::throughput(place, volume_mib, options.holder_disk, pace, &mut measured)?;
            }
            CoopReplica::TakeOver => takeover::take_overs(place, volume_mib, pace, &mut measured)?,
            CoopReplica::Reliability => {
                let say = |what: &str, done| {
                    pace.advance(done);
                    pace.say(what)
                };
                reliability(options.cycles, &say, |row| found(ExperimentRow::Lasting(row)))?;
            }
        }
    }
    Ok(())
}
