//! `.thorp` at the root of a mount: what no revision has.
//!
//! ```text
//!   .thorp/status     the site, its revision, and for how long there may have been a newer one, as JSON
//!   .thorp/publish    the file by which commands ask to publish private changes, if there can be some
//!   .thorp/newest     a link to the newest revision: at/17
//!   .thorp/at/17/     revision 17, while it is kept here; an open file or directory of it keeps it
//! ```
//! It is not listed, so a copy of the site is without it. A site that has an entry of this name shows that instead.

use super::attributes;
use super::handles::Listed;
use super::nodes::{AT, NEWEST, PUBLISH, ROOT, STATUS, THORP};
use super::views::{Mounted, NoAnswer, Wait};
use crate::line::lock;
use bytes::Bytes;
use fuser::{FileAttr, FileType};
use serde_json::json;
use spread::{Opened, Revision, Visit};
use std::collections::BTreeMap;
use tree::Name;

/// The name of the directory at the root.
const NAME: &str = ".thorp";

/// The directories and files that are there always: the number, the directory, the name and the kind.
const ALWAYS: [(u64, u64, &str, FileType); 5] = [
    (THORP, ROOT, NAME, FileType::Directory),
    (AT, THORP, "at", FileType::Directory),
    (STATUS, THORP, "status", FileType::RegularFile),
    (NEWEST, THORP, "newest", FileType::Symlink),
    (PUBLISH, THORP, "publish", FileType::RegularFile),
];

/// The permissions of the file for requests: for the owner of the mount alone.
const PUBLISH_MODE: u16 = 0o600;

/// Whether an inode is one of these, but no revision.
pub(super) fn is_special(inode: u64) -> bool {
    ALWAYS.iter().any(|(number, ..)| *number == inode)
}

impl Mounted {
    /// The inode of a name in a directory that is none of a revision's. A revision is found by its number.
    pub(super) fn special(&self, directory: u64, name: &[u8]) -> Result<FileAttr, NoAnswer> {
        if directory == AT {
            let number = std::str::from_utf8(name).ok().and_then(|text| text.parse::<u64>().ok());
            let number = number.filter(|number| number.to_string().as_bytes() == name);
            let kept = self.kept()?.into_iter().rev().find(|it| Some(it.number.count) == number);
            let revision = kept.ok_or(NoAnswer::NOT_FOUND)?;
            let inode = lock(&self.nodes).enter_revision(revision.number);
            return Ok(attributes::of_directory(inode, &self.top()));
        }
        let is_it = |it: &&(u64, u64, &str, FileType)| it.1 == directory && it.2.as_bytes() == name;
        let (inode, ..) = ALWAYS.iter().filter(|it| self.shows(it.0)).find(is_it).ok_or(NoAnswer::NOT_FOUND)?;
        self.special_attributes(*inode)
    }

    /// The attributes of an inode that is none of a revision's.
    pub(super) fn special_attributes(&self, inode: u64) -> Result<FileAttr, NoAnswer> {
        let (.., kind) = ALWAYS.into_iter().find(|(number, ..)| *number == inode).ok_or(NoAnswer::STALE)?;
        Ok(match kind {
            FileType::Directory => attributes::of_directory(inode, &self.top()),
            FileType::Symlink => {
                attributes::of_special(inode, kind, self.newest_link(Wait::default())?.len() as u64, &self.top())
            }
            FileType::RegularFile if inode == PUBLISH => {
                FileAttr { perm: PUBLISH_MODE, ..attributes::of_special(inode, kind, 0, &self.top()) }
            }
            // Read without a look at its size, as it changes at any time.
            kind => attributes::of_special(inode, kind, 0, &self.top()),
        })
    }

    /// The target of `newest`.
    pub(super) fn newest_link(&self, wait: Wait) -> Result<String, NoAnswer> {
        Ok(format!("at/{}", self.origin.of_site(self.newest(wait)?.revision.number).count))
    }

    /// The content of `status`.
    pub(super) fn status(&self) -> Result<Bytes, NoAnswer> {
        let visit = Visit { navigates: true, is_last: true, ..Visit::default() };
        let opened = self.origin.open(visit, true).map_err(|not_read| self.failed(not_read))?;
        let (revision, stale) = match opened {
            Opened::View { revision, stale, .. } => (Some(self.origin.of_site(revision.number).count), stale),
            _ => (None, None),
        };
        let mut status = json!({
            "site": self.origin.site().as_str(),
            "revision": revision,
            "stale_seconds": stale.map(|stale| stale.as_secs()),
        });
        if let Some(private) = self.origin.private() {
            let conflicts: Vec<String> = private.conflicts.iter().map(ToString::to_string).collect();
            status["private_changes"] = json!(private.changes);
            status["conflicts"] = json!(conflicts);
        }
        Ok(format!("{status}\n").into())
    }

    /// The entries of a directory that is none of a revision's.
    pub(super) fn list_special(&self, directory: u64) -> Result<Vec<Listed>, NoAnswer> {
        if directory == AT {
            let (kept, nodes) = (self.kept()?, lock(&self.nodes));
            let listed = |revision: Revision| {
                let (number, inode) = (revision.number, nodes.number_of_revision(revision.number));
                Listed::Special(number.count.to_string().into(), inode, FileType::Directory)
            };
            // A site that was removed and made again begins with 1 again: the newer one of a number is found by it.
            let by_count: BTreeMap<u64, Revision> = kept.into_iter().map(|it| (it.number.count, it)).collect();
            return Ok(by_count.into_values().map(listed).collect());
        }
        let in_it = ALWAYS.into_iter().filter(|(inode, above, ..)| *above == directory && self.shows(*inode));
        Ok(in_it.map(|(inode, _, name, kind)| Listed::Special(name.into(), inode, kind)).collect())
    }

    /// Whether there is one of these.
    fn shows(&self, inode: u64) -> bool {
        inode != PUBLISH || self.origin.private().is_some()
    }

    /// The directory above one that is none of a revision's.
    pub(super) fn above_special(directory: u64) -> u64 {
        ALWAYS.into_iter().find(|(number, ..)| *number == directory).map_or(ROOT, |(_, above, ..)| above)
    }

    fn kept(&self) -> Result<Vec<Revision>, NoAnswer> {
        self.origin.kept().map_err(|error| self.failed(error.into()))
    }
}

/// Whether a name at the root is that of the directory.
pub(super) fn is_name(name: &Name) -> bool {
    name.as_bytes() == NAME.as_bytes()
}
