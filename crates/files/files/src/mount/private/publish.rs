//! A publish of private changes: those at a path and below it become one revision of the site.

use super::branch::{Branch, Staged};
use super::changes::Change;
use crate::error::FilesError;
use crate::line::lock;
use crate::origin::{Origin, Sessions};
use crate::sites::{Difference, EditedTree, Sites};
use spread::Number;
use std::thread;
use std::time::{Duration, Instant};
use tree::Path;

/// How often changes are made again that a newer revision has overtaken.
const ATTEMPTS: usize = 20;

/// How long a revision that was published is waited for, and how often is looked.
const HERE_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The settings of a publish of private changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::mount) struct PrivatePublish {
    /// Whether private entries replace what the site has changed, too.
    pub(in crate::mount) overwrites: bool,
    pub(in crate::mount) note: String,
    /// Whether to wait until no server shows an older revision without saying so.
    pub(in crate::mount) waits: bool,
}

/// The revision that a publish has made, and how many changes it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mount) struct PrivatePublished {
    pub(in crate::mount) revision: u64,
    pub(in crate::mount) changes: usize,
}

impl Branch {
    /// Publishes the private changes at a path and below it, all or nothing (rule OneSwitch). Returns none if there is
    /// no change. `on` is called with the bytes of each chunk that is sent, and may end the publish.
    pub(in crate::mount) fn publish(
        &self,
        sites: &Sites,
        at: &Path,
        settings: &PrivatePublish,
        on: &mut dyn FnMut(u64) -> Result<(), FilesError>,
    ) -> Result<Option<PrivatePublished>, FilesError> {
        let _one = lock(&self.publishing);
        on(0)?;
        let mut overtaken = None;
        for _ in 0..ATTEMPTS {
            let Some(Staged { base, root, nodes, growth, content, changes }) = self.stage(at, settings.overwrites)?
            else {
                return Ok(None);
            };
            self.send(&content, sites.depot(), on)?;
            // The last chance to end it.
            on(0)?;
            let (note, waits, locks) = (settings.note.clone(), settings.waits, Vec::new());
            let edited = EditedTree { root, nodes: &nodes, growth, note, waits, locks };
            let error = match sites.publish_edited(self.site(), base, edited) {
                Ok(revision) => {
                    self.wait_for(|number| number >= revision.number)?;
                    return Ok(Some(PrivatePublished { revision: revision.number.count, changes }));
                }
                Err(error) => error,
            };
            match error {
                FilesError::Overtaken { head, .. } | FilesError::Conflict { head, .. } => {
                    self.wait_for(|number| number.count >= head)?;
                }
                FilesError::NotKept { .. } => self.wait_for(|number| number > base.number)?,
                error => return Err(error),
            }
            overtaken = Some(error);
        }
        Err(overtaken.unwrap_or(FilesError::Interrupted))
    }

    /// Waits until a revision of the site is here and taken up, but not for ever.
    fn wait_for(&self, is_here: impl Fn(Number) -> bool) -> Result<(), FilesError> {
        let until = Instant::now() + HERE_WITHIN;
        loop {
            self.current()?;
            if self.base().is_some_and(|base| is_here(base.number)) || Instant::now() >= until {
                return Ok(());
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// The private changes at a path and below it, in their order.
    pub(in crate::mount) fn differences(&self, at: &Path) -> Vec<(Path, Difference)> {
        let mut differences = Vec::new();
        self.look(at, &mut |path: &Path, change: &Change, is_conflict| {
            let difference = match (&change.base, &change.own) {
                _ if is_conflict => Difference::Conflict,
                (None, _) => Difference::Added,
                (_, None) => Difference::Removed,
                (Some(_), Some(_)) => Difference::Changed,
            };
            differences.push((path.clone(), difference));
        });
        differences
    }
}
