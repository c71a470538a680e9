//! The Multicomputer paper's experiments: its figures 4 to 7, with whole nodes of a store in virtual time.
//!
//! ```text
//!   machines: the paper's, today's --+
//!                                    +-- sim::multicomputer: a run for each seed --> figures: rows --> chart
//!   loads: scale-up, speed-up -------+
//! ```

mod chart;
mod figures;
mod machines;
mod runs;

use self::figures::WHOLE;
use self::runs::Runs;
use crate::pace::{Pace, Step};
use crate::{Result, Row};
pub use chart::draw as draw_multicomputer;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The figures of the paper that can be repeated.
pub const MULTICOMPUTER_FIGURES: RangeInclusive<u32> = 4..=7;

/// Repeats figures. `progress` is called with each step, and its error ends the run; `found` with each row.
///
/// # Errors
/// A run fails; and those of `progress` and `found`.
pub fn multicomputer(
    figures: &[u32],
    time: Duration,
    progress: &dyn Fn(&Step) -> Result<()>,
    found: &mut dyn FnMut(Row) -> Result<()>,
) -> Result<()> {
    // The figures of times, and those of the sequencer, come of the same runs.
    let loads = [("scale-up", [4, 6]), ("speed-up", [5, 7])].map(|(name, of)| {
        let asked: Vec<u32> = of.into_iter().filter(|figure| figures.contains(figure)).collect();
        (name, asked)
    });
    let loads: Vec<_> = loads.into_iter().filter(|(_, asked)| !asked.is_empty()).collect();
    let parts = loads.iter().map(|(name, asked)| ((*name).to_owned(), figures::seconds(&WHOLE, name, asked))).collect();
    let pace = Pace::new(time, parts, progress);
    for (name, asked) in &loads {
        pace.begin(name);
        let mut found = |row: Row| {
            let is_asked = asked.iter().any(|figure| figure.to_string() == row.figure);
            if is_asked { found(row) } else { Ok(()) }
        };
        let runs = Runs::new(&pace, figures::seconds(&WHOLE, name, asked));
        match *name {
            "scale-up" => figures::scale_up(&WHOLE, &runs, asked, &mut found)?,
            _ => figures::speed_up(&WHOLE, &runs, asked, &mut found)?,
        }
    }
    Ok(())
}
