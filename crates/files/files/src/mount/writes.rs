//! The files that programs on this host are writing, and the queue of their changes.
//!
//! Programs on this host share a file that is being written, as on any disk. Other hosts see published content only.
//! A file that cannot be published at its close keeps its content while programs have it open. After the last close it
//! is set aside.
//!
//! | module | duty |
//! |---|---|
//! | `change` | the changes that the kernel asks for |
//! | `draft` | a file that is being written |
//! | `holders` | other descriptors of a file that is being closed |
//! | `scratch` | the directory for its content |
//! | `target` | where changes go: to the store, or to the private tree |
//! | `links` | the names of files that have several |

mod change;
mod draft;
mod holders;
mod links;
mod scratch;
mod target;

pub(super) use change::{Asked, Change, Made, Owner, Permit};
pub(super) use draft::{Draft, Snapshot};
pub(super) use holders::has_writer;
pub(super) use links::{HardLinks, link_of};
pub(super) use target::Target;

use crate::error::FilesError;
use crate::line::lock;
use crate::locks::Lock;
use crate::mount::private::OpenRequest;
use crate::sites::{ConnectSites, Sites};
use fuser::Errno;
use scratch::Scratch;
use spread::messages::Token;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tree::{Edit, Name, Path};

/// How long a lock is kept for an open that comes back.
pub(super) const KEPT_FOR: Duration = Duration::from_millis(500);

/// When changes of a mount are published.
#[derive(Clone)]
pub enum Publishes {
    /// At once, each by itself.
    Each(Arc<Sites>),
    /// Together, when that is asked for. The store is needed only then.
    Together(ConnectSites),
}

/// The settings of a mount that can be written.
#[derive(Clone, Debug)]
pub struct MountWrites {
    /// When and where changes are published.
    pub publishes: Publishes,
    /// The directory for files that are being written, and for private changes.
    pub dir: PathBuf,
    /// Set when the mount ends: `sites` waits for no server any longer.
    pub is_over: Arc<AtomicBool>,
    /// Receives what people should know: the files that could not be published, and where they are.
    pub reports: Sender<String>,
}

/// The changes of a mount.
#[derive(Debug)]
pub(super) struct Writes {
    pub(super) target: Target,
    pub(super) scratch: Scratch,
    pub(super) drafts: Mutex<Drafts>,
    pub(super) links: Mutex<HardLinks>,
    /// Locks that were granted for an inode which had changed. The kernel looks its path up again, and comes back.
    kept: Mutex<Vec<(Instant, Lock)>>,
    queue: Sender<Change>,
    /// Held from a publish until the inodes are those of its revision.
    pub(super) changing: Mutex<()>,
    pub(super) is_over: Arc<AtomicBool>,
    pub(super) reports: Sender<String>,
}

/// The files that are being written. One is here until no program has it open.
#[derive(Debug, Default)]
pub(super) struct Drafts {
    pub(super) by_inode: HashMap<u64, Arc<Draft>>,
    /// The drafts of new files, by directory and name.
    pub(super) new: HashMap<(u64, Name), u64>,
}

impl Writes {
    /// Opens the directory, and returns the changes with the queue for the thread that makes them.
    pub(super) fn open(config: MountWrites, target: Target) -> Result<(Self, Receiver<Change>), FilesError> {
        let MountWrites { dir, is_over, reports, .. } = config;
        let (queue, changes) = channel();
        let (scratch, left) = Scratch::open(&dir)?;
        for file in left {
            let note = "was being written when an earlier mount ended, and was not published";
            // The receiver may be gone: reports are optional.
            let _ = reports.send(format!("{} {note}", file.display()));
        }
        let (drafts, links, kept, changing) = (Mutex::default(), Mutex::default(), Mutex::default(), Mutex::default());
        Ok((Self { target, scratch, drafts, links, kept, queue, changing, is_over, reports }, changes))
    }

    /// Begins what a command has asked for at `.thorp/publish`.
    pub(super) fn begin(&self, open: &Arc<OpenRequest>, request: &[u8]) -> Result<(), Errno> {
        match &self.target {
            Target::Private(branch, connect) => open.begin(request, branch.clone(), connect.clone()),
            Target::Store(_) => Err(Errno::EPERM),
        }
    }

    /// Asks for a change. It is answered later.
    pub(super) fn ask(&self, change: Change) {
        // Without its thread, the mount is over, and the kernel has ended the request.
        let _ = self.queue.send(change);
    }

    pub(super) fn draft(&self, inode: u64) -> Option<Arc<Draft>> {
        lock(&self.drafts).by_inode.get(&inode).cloned()
    }

    pub(super) fn new_at(&self, directory: u64, name: &Name) -> Option<Arc<Draft>> {
        let drafts = lock(&self.drafts);
        let inode = drafts.new.get(&(directory, name.clone()))?;
        drafts.by_inode.get(inode).cloned()
    }

    /// The files in a directory that no revision has.
    pub(super) fn new_in(&self, directory: u64) -> Vec<(Name, u64)> {
        let drafts = lock(&self.drafts);
        let in_it = drafts.new.iter().filter(|((of, _), _)| *of == directory);
        in_it.map(|((_, name), inode)| (name.clone(), *inode)).collect()
    }

    /// The locks of paths that edits change.
    pub(super) fn locks_of(&self, edits: &[Edit]) -> Vec<Token> {
        let drafts = lock(&self.drafts);
        let locks = drafts.by_inode.values().filter_map(|draft| draft.lock());
        locks.filter(|(path, _)| edits.iter().any(|edit| changes(edit, path))).map(|(_, token)| token).collect()
    }

    /// Whether this mount has a path locked.
    pub(super) fn has_lock(&self, path: &Path) -> bool {
        let drafts = lock(&self.drafts);
        drafts.by_inode.values().filter_map(|draft| draft.lock()).any(|(locked, _)| locked == *path)
    }

    /// Keeps a lock for the next open of its path, for a moment.
    pub(super) fn keep_lock(&self, granted: Lock) {
        lock(&self.kept).push((Instant::now(), granted));
    }

    /// Takes a lock that was kept.
    pub(super) fn take_kept_lock(&self, path: &Path) -> Option<Lock> {
        let mut kept = lock(&self.kept);
        let at = kept.iter().position(|(_, kept)| kept.path() == path && !kept.is_over())?;
        Some(kept.swap_remove(at).1)
    }

    /// Releases kept locks whose open has not come back.
    pub(super) fn release_kept_locks(&self) {
        lock(&self.kept).retain(|(since, _)| since.elapsed() < KEPT_FOR);
    }

    /// Gives up locks of which the store has ended one.
    pub(super) fn locks_are_over(&self, locks: &[Token]) {
        lock(&self.drafts).by_inode.values().for_each(|draft| draft.give_up_lock(locks));
    }

    /// The disk of what is being written: the size of its blocks, all of them, and those that are free.
    pub(super) fn room(&self) -> io::Result<(u32, u64, u64)> {
        self.scratch.room()
    }
}

impl fmt::Debug for Publishes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Each(_) => "Each",
            Self::Together(_) => "Together",
        })
    }
}

/// Whether an edit changes what is at a path: a directory that gets other attributes keeps its entries.
fn changes(edit: &Edit, path: &Path) -> bool {
    match edit {
        Edit::Directory(directory, _) => path == directory,
        Edit::Set(above, _) | Edit::Remove(above) => path.names().starts_with(above.names()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tree::Attributes;

    #[test]
    fn an_edit_changes_what_it_sets_or_removes_with_all_below_it() {
        let path = |text: &str| Path::parse(text.as_bytes()).unwrap();
        let changed = |edit: &Edit| ["a", "a/b", "a/b/c", "ab"].map(|at| changes(edit, &path(at)));
        assert_eq!(changed(&Edit::Remove(path("a/b"))), [false, true, true, false]);
        assert_eq!(changed(&Edit::Directory(path("a"), Attributes::default())), [true, false, false, false]);
    }
}
