//! The thread that tells the kernel what a switch has changed.
//!
//! The kernel looks names up under the lock of their directory, and takes the same lock to forget one. So no thread
//! that answers the kernel may notify it, and a name that was looked up before a switch is forgotten after it.

use super::threads::{LOOK_EVERY, Threads, Woken};
use super::views::{Mounted, UNREAD};
use crate::error::FilesError;
use crate::line::lock;
use fuser::{INodeNo, Notifier};
use spread::Revision;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use tree::{Change, Kind, Name, Path, diff};

/// Starts the thread. It ends with the others of the mount.
pub(super) fn start(mounted: &Arc<Mounted>, notifier: Notifier, threads: &mut Threads) -> io::Result<()> {
    let mut told = Told { mounted: mounted.clone(), notifier, revision: None };
    threads.follow("mount-switches", mounted, Woken::Switched, move || {
        told.look();
        LOOK_EVERY
    })
}

/// The revision whose names the kernel may have.
struct Told {
    mounted: Arc<Mounted>,
    notifier: Notifier,
    revision: Option<Revision>,
}

/// The names, directories and files that the kernel may know, and that a switch changes.
#[derive(Debug, Default)]
struct Changed {
    /// Names, by directory.
    names: Vec<(u64, Name)>,
    /// Directories with other attributes.
    directories: Vec<u64>,
    /// Files that the newer revision does not have.
    files: HashSet<u64>,
}

impl Told {
    fn look(&mut self) {
        self.mounted.look_for_newest();
        let mounted = self.mounted.clone();
        // The inodes are those of the newest revision while this mount makes no changes.
        let switch = mounted.without_changes(|| {
            let newer = mounted.last().filter(|newest| self.revision != Some(*newest))?;
            // Its tree is compared with that of the next one.
            mounted.origin.begin(newer.number)?;
            let older = self.revision.replace(newer)?;
            Some((older, newer, mounted.changed(older, newer)))
        });
        if let Some((older, newer, changed)) = switch {
            self.tell(older, newer, changed);
        }
        if let Err(error) = self.mounted.origin.tidy() {
            self.mounted.trouble("unused content could not be removed", &error);
        }
    }

    fn tell(&self, older: Revision, newer: Revision, changed: Result<Changed, FilesError>) {
        match changed {
            Ok(changed) if self.mounted.origin.is_lazy() => {
                // The kernel asks for each name at each use. Lookups may be waiting, which keep their directories
                // locked.
                self.mounted.move_sessions(older, newer, &changed.files);
            }
            Ok(changed) => {
                self.forget(&changed.names);
                for directory in changed.directories {
                    let _ = self.notifier.inval_inode(INodeNo(directory), -1, 0);
                }
                self.mounted.move_sessions(older, newer, &changed.files);
            }
            Err(why) => {
                self.mounted.trouble(UNREAD, &why);
                if !self.mounted.origin.is_lazy() {
                    let all = lock(&self.mounted.nodes).names();
                    self.forget(&all);
                }
            }
        }
        self.mounted.origin.end(older.number);
    }

    /// Has the kernel forget names. An error means as a rule that it does not know the name, and has no consequence.
    fn forget(&self, names: &[(u64, Name)]) {
        for (directory, name) in names {
            let _ = self.notifier.inval_entry(INodeNo(*directory), OsStr::from_bytes(name.as_bytes()));
        }
    }
}

impl Mounted {
    /// Finds the differences between two revisions that the kernel may know.
    fn changed(&self, older: Revision, newer: Revision) -> Result<Changed, FilesError> {
        let mut changed = Changed::default();
        let mut report = |path: &Path, change: Change| {
            let Some((name, above)) = path.names().split_last() else { return };
            let nodes = lock(&self.nodes);
            let Some(directory) = nodes.find(above) else { return };
            let number = |entry| nodes.number(directory, name, entry);
            match &change {
                Change::Changed(before, after) if before.directory().is_some() && after.directory().is_some() => {
                    changed.directories.extend(number(after));
                    return;
                }
                Change::Changed(before, _) | Change::Removed(before) => {
                    if let Kind::File { .. } = before.kind {
                        changed.files.extend(number(before));
                    }
                }
                Change::Added(_) => {}
            }
            // The kernel has what this mount has made: a directory that is forgotten loses the path to it.
            let is_own = match &change {
                Change::Changed(_, after) | Change::Added(after) => nodes.is_own(directory, name, after),
                Change::Removed(_) => false,
            };
            if is_own || self.new_at(directory, name).is_some() {
                return;
            }
            changed.names.push((directory, name.clone()));
        };
        diff(&self.origin.source(), older.root, newer.root, &mut report)?;
        Ok(changed)
    }

    /// Lets go of a revision for those open files that the newer one has too.
    fn move_sessions(&self, older: Revision, newer: Revision, changed: &HashSet<u64>) {
        for file in self.handles.files().into_iter().filter(|file| !changed.contains(&file.inode)) {
            if self.origin.begin(newer.number).is_some() {
                let moved = file.moved(older.number, newer.number);
                self.origin.end(if moved { older.number } else { newer.number });
            }
        }
    }
}
