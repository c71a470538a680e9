//! The ActiveCache paper's experiments (section 4): its figures, and ours beside them.
//!
//! ```text
//!   readers ---> five proxies --->  two shops ---> PostgreSQL        one half of the processors | the other half
//!   writers ---------------------->     |              |
//!                    hub, watcher ----------------------
//! ```
//! The paper has eight machines for the data-center and eight for its clients. Here it is one machine, so its
//! processors are parted: readers and proxies have one half, applications, database, watcher and the load on the back
//! end the other.
//!
//! | module | duty |
//! |---|---|
//! | `chart` | the figures as pictures |
//! | `cluster` | the processes |
//! | `figures` | from runs to rows |
//! | `looked_up` | figures 6 and 7: a lookup that needs the home's processor, and one that does not |
//! | `run` | one load on one set of caches |
//! | `strain` | the load on the back end |

mod chart;
mod cluster;
mod figures;
mod looked_up;
mod run;
mod strain;

use crate::pace::{Pace, Part, Step};
use crate::{Place, Result, Row};
pub use chart::draw as draw_active_cache;
use cluster::Cluster;
use figures::Figures;
use std::cell::OnceCell;
use std::time::Duration;
pub use strain::strain;

/// The paper's figures.
pub const ACTIVE_CACHE_FIGURES: std::ops::RangeInclusive<u32> = 6..=12;

/// Runs experiments, each case for `length`, or shorter where that would not end within `time`. `progress` hears before
/// each case what is about to be done, and an error of it ends all; `found` hears each row as soon as it is known.
/// Nothing of what was started is left at the end.
///
/// # Errors
/// PostgreSQL is not installed, or something does not start; or those of `progress` and `found`.
pub fn active_cache(
    figures: &[u32],
    place: &Place,
    length: Duration,
    time: Duration,
    progress: &dyn Fn(&Step) -> Result<()>,
    found: &mut dyn FnMut(Row) -> Result<()>,
) -> Result<()> {
    let pace = &Pace::new(time, parts(figures, length), progress);
    // Signals are not the program's while it is being loaded, so it is before there is something to lose; or it is not
    // there.
    let _ = fabric::Shim::load();
    let made = OnceCell::new();
    for figure in figures {
        let rows = if *figure <= 7 {
            pace.begin(&figure.to_string());
            looked_up::rows(*figure, place, pace)?
        } else {
            if made.get().is_none() {
                pace.say("making a shop")?;
                let cluster = Cluster::open(place)?;
                made.set(Figures::new(cluster, length, pace)).map_err(|_| "the shop was made twice")?;
            }
            let figures = made.get().ok_or("there is no shop")?;
            match figure {
                8 => figures.throughput()?,
                9 => figures.misses()?,
                10 => figures.cache_sizes()?,
                11 => figures.dependencies()?,
                12 => figures.loads()?,
                other => return Err(format!("the ActiveCache paper has no experiment in figure {other}").into()),
            }
        };
        rows.into_iter().try_for_each(&mut *found)?;
    }
    Ok(())
}

/// The parts of these figures, with the seconds that each takes on a quiet machine where a case is measured for
/// `length`.
fn parts(figures: &[u32], length: Duration) -> Vec<Part> {
    let has = |figure| figures.contains(&figure);
    let mut parts = Vec::new();
    // So many cases, and so many seconds beside what is measured.
    let mut add = |name: &str, cases: u32, seconds: f64| {
        parts.push((name.to_owned(), (cases * length).as_secs_f64() + seconds));
    };
    if has(6) {
        add("6", 0, 8.0);
    }
    if has(7) {
        add("7", 0, 8.0);
    }
    if has(8) || has(9) {
        add(figures::TRACES[0], 10, 30.0);
        add(figures::TRACES[1], 5, 20.0);
    }
    if has(8) {
        add(figures::BEYOND_TRACES, 3, 15.0);
        add(figures::PLACED, 6, 25.0);
    }
    if has(10) {
        add("10", 6, 10.0);
    }
    if has(11) {
        add("11", 6, 20.0);
    }
    if has(12) {
        for pairs in figures::LOADS {
            // A loaded back end takes long until it is steady, for each case.
            add(&figures::loaded(pairs), 4, 5.0 + f64::from(4 * pairs));
        }
    }
    parts
}
