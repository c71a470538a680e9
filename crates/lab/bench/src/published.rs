//! Published files: a store, groups and servers that follow a site, each a process as its user would run it.
//!
//! | figure | file |
//! |---|---|
//! | bytes and messages of a small update | `update.rs` |
//! | a hundred files a second | `burst.rs` |
//! | a large update by way of relays | `spread.rs` |
//! | new content over slow lines | `ahead.rs` |
//! | publishes of few changes, over a walk of the directory | `publish.rs` |
//! | the first publish, over rsync | `first.rs` |
//! | a rollback at every server | `rollback.rs` |
//! | a server that was killed | `restart.rs` |
//! | requests, over those to nginx | `hits.rs` |
//! | publishes during a collection | `collection.rs` |
//! | reads of a mounted site, over those of local files | `mount.rs` |
//!
//! Publishes whose duration is a figure are made by the program, as a user would make them; the others by the library,
//! in this process.

mod ahead;
mod burst;
mod collection;
mod copies;
mod directory;
pub(crate) mod farm;
mod first;
mod hits;
mod mount;
mod publish;
mod restart;
mod rollback;
mod spread;
mod update;
mod watch;

use crate::{Line, Place, Result};
use std::time::Duration;

/// Below so many files, figures are measured once, for a shorter time.
const TRIAL_FILES: u64 = 1000;

/// The name of all lines.
const CASE: &str = "files";

/// The size of the sites that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteSizes {
    /// Files of the largest directories.
    pub files: u64,
    /// Servers that follow a site.
    pub members: usize,
}

impl SiteSizes {
    /// Sizes with which all figures are measured within minutes.
    pub const USUAL: Self = Self { files: 20_000, members: 10 };

    /// The files of a directory that needs no more than this many.
    fn files_up_to(self, most: u64) -> u64 {
        self.files.min(most)
    }

    /// Whether the sites are so small that only whether everything works can be of interest.
    fn is_trial(self) -> bool {
        self.files < TRIAL_FILES
    }

    /// How often a figure is measured.
    fn rounds(self, rounds: u64) -> u64 {
        if self.is_trial() { 1 } else { rounds }
    }

    /// How long a figure is measured.
    fn during(self, time: Duration) -> Duration {
        if self.is_trial() { time / 10 } else { time }
    }
}

/// A figure of published files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteFigure {
    /// The bytes and messages of a small update.
    Update,
    /// A hundred files a second.
    Burst,
    /// A large update by way of relays.
    Spread,
    /// New content over slow lines.
    Ahead,
    /// Publishes of few changes.
    Publish,
    /// The first publish.
    First,
    /// A rollback.
    Rollback,
    /// A server that was killed.
    Restart,
    /// Requests, over those to nginx.
    Hits,
    /// Publishes during a collection.
    Collection,
    /// Reads of a mounted site.
    Mount,
}

impl SiteFigure {
    /// Every figure, in the order of their lines.
    const ALL: [Self; 11] = [
        Self::Update,
        Self::Burst,
        Self::Spread,
        Self::Ahead,
        Self::Publish,
        Self::First,
        Self::Rollback,
        Self::Restart,
        Self::Hits,
        Self::Collection,
        Self::Mount,
    ];
}

/// Measures one figure, or all of them.
pub(crate) fn measure(
    place: &Place,
    sizes: SiteSizes,
    only: Option<SiteFigure>,
    progress: &dyn Fn(&str),
    found: &mut dyn FnMut(Line) -> Result<()>,
) -> Result<()> {
    for figure in SiteFigure::ALL.into_iter().filter(|figure| only.is_none_or(|only| only == *figure)) {
        match figure {
            SiteFigure::Update => update::measure(place, sizes, progress, found)?,
            SiteFigure::Burst => found(burst::measure(place, sizes, progress)?)?,
            SiteFigure::Spread => spread::measure(place, sizes, progress, found)?,
            SiteFigure::Ahead => found(ahead::measure(place, sizes, progress)?)?,
            SiteFigure::Publish => publish::measure(place, sizes, progress, found)?,
            SiteFigure::First => found(first::measure(place, sizes, progress)?)?,
            SiteFigure::Rollback => found(rollback::measure(place, sizes, progress)?)?,
            SiteFigure::Restart => found(restart::measure(place, sizes, progress)?)?,
            SiteFigure::Hits => hits::measure(place, sizes, progress, found)?,
            SiteFigure::Collection => found(collection::measure(place, sizes, progress)?)?,
            SiteFigure::Mount => mount::measure(place, sizes, progress, found)?,
        }
    }
    Ok(())
}

/// The line of a figure.
fn line(figure: &str) -> Line {
    Line::new(CASE).word("figure", figure)
}
