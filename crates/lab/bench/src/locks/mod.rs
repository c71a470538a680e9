//! The Publish paper's experiments: its figures 3 to 6, with the real machines in virtual time; and the models with
//! 50 processes, which the paper left for later (`processes`).
//!
//! ```text
//!   arrivals --> reader: member and visitors --+
//!                                              +-- one shared line -- scene: a run --> figures: rows --> chart
//!                writer: publisher ------------+                      closed_forms -------^
//! ```
//! The three models are settings of one site: publish consistency (PC), callbacks (AFS), sequential consistency (SC).

mod arrivals;
mod chart;
mod closed_forms;
mod figures;
mod processes;
mod reader;
mod scene;
mod writer;

use self::figures::{CASES, Cases};
use crate::pace::{Pace, Part, Step};
use crate::{Place, Result, Row};
pub use chart::draw as draw_publish;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The figures of the paper that can be repeated.
pub const PUBLISH_FIGURES: RangeInclusive<u32> = 3..=6;

/// An experiment of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishExperiment {
    /// A figure, 3 to 6.
    Figure(u32),
    /// The models with 50 processes.
    Processes,
}

impl PublishExperiment {
    /// Every experiment, in the order of the rows.
    pub fn all() -> Vec<Self> {
        PUBLISH_FIGURES.map(Self::Figure).chain([Self::Processes]).collect()
    }

    /// Its part of the time.
    fn part(self) -> Part {
        match self {
            Self::Figure(figure) => (figure.to_string(), SECONDS[(figure - PUBLISH_FIGURES.start()) as usize]),
            Self::Processes => ("processes".to_owned(), processes::PROCESSES_S),
        }
    }
}

/// The seconds that each takes on two quiet processors.
const SECONDS: [f64; 4] = [25.0, 230.0, 50.0, 60.0];

/// Repeats experiments. `progress` is called with each step, and its error ends the run; `found` with each row.
///
/// # Errors
/// A process does not start or answer; and those of `progress` and `found`.
pub fn publish(
    experiments: &[PublishExperiment],
    place: &Place,
    time: Duration,
    progress: &dyn Fn(&Step) -> Result<()>,
    found: &mut dyn FnMut(Row) -> Result<()>,
) -> Result<()> {
    let parts: Vec<Part> = experiments.iter().map(|experiment| experiment.part()).collect();
    let pace = Pace::new(time, parts, progress);
    for experiment in experiments {
        pace.begin(&experiment.part().0);
        match experiment {
            PublishExperiment::Figure(3) => figures::messages(&Cases::new(&pace, CASES[0]), found)?,
            PublishExperiment::Figure(4) => figures::cameras(&Cases::new(&pace, CASES[1]), found)?,
            PublishExperiment::Figure(5) => figures::tickers(&Cases::new(&pace, CASES[2]), found)?,
            PublishExperiment::Figure(_) => figures::over_publishing(&Cases::new(&pace, CASES[3]), found)?,
            PublishExperiment::Processes => processes::processes(place, &pace, found)?,
        }
    }
    Ok(())
}
