//! Changes by programs on this host. Names and attributes are published at once; content is private until its file is
//! closed.
//!
//! ```text
//!   kernel --change--> queue --> writer: newest revision, edits --publish--> store
//!                                writer <--the revision is here-- member;  then inodes, and the answer
//!   kernel --write---> draft --close: chunks--> store, queue
//! ```
//! - One thread makes all changes. Each starts from the newest revision and is a publish of its own, which the store
//!   merges with the publishes of others (rule CompareBase). After a conflict it starts again from the newer revision.
//! - A change is answered when its revision has arrived at this member, so a program reads what it has written.
//! - Programs on this host share a file that is being written, as on any disk. Other hosts see published content only.
//! - A file that cannot be published at its close keeps its content while programs have it open. After the last close
//!   it is set aside.
//!
//! | module | duty |
//! |---|---|
//! | `change` | the changes that the kernel asks for |
//! | `writer` | the thread that makes them |
//! | `names`, `content` | changes of names; of attributes and content |
//! | `edition` | edits of the newest revision, and their publish |
//! | `draft` | a file that is being written |
//! | `holders` | other descriptors of a file that is being closed |
//! | `scratch` | the directory for its content |
//! | `links` | the names of files that have several |

mod change;
mod content;
mod draft;
mod edition;
mod holders;
mod links;
mod names;
mod scratch;
mod writer;

pub(super) use change::{Asked, Change, Made, Permit};
pub(super) use draft::Draft;

use super::nodes::Place;
use super::views::Mounted;
use crate::error::FilesError;
use crate::line::lock;
use crate::locks::Lock;
use crate::sites::Sites;
use links::{HardLinks, link_of};
use scratch::Scratch;
use spread::messages::Token;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tree::{Edit, Entry, Name, Path};

/// How long changes that were asked for before are waited for when a mount ends, and how often is looked.
const END_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long a lock is kept for an open that comes back.
const KEPT_FOR: Duration = Duration::from_millis(500);

/// The settings of a mount that can be written.
#[derive(Clone, Debug)]
pub struct MountWrites {
    /// Where changes are published.
    pub sites: Arc<Sites>,
    /// The directory for files that are being written.
    pub dir: PathBuf,
    /// Set when the mount ends: `sites` waits for no server any longer.
    pub is_over: Arc<AtomicBool>,
    /// Receives what people should know: the files that could not be published, and where they are.
    pub reports: Sender<String>,
}

/// The changes of a mount.
#[derive(Debug)]
pub(super) struct Writes {
    sites: Arc<Sites>,
    scratch: Scratch,
    drafts: Mutex<Drafts>,
    links: Mutex<HardLinks>,
    /// Locks that were granted for an inode which had changed. The kernel looks its path up again, and comes back.
    kept: Mutex<Vec<(Instant, Lock)>>,
    queue: Sender<Change>,
    /// Held from a publish until the inodes are those of its revision.
    changing: Mutex<()>,
    is_over: Arc<AtomicBool>,
    reports: Sender<String>,
}

/// The files that are being written. One is here until no program has it open.
#[derive(Debug, Default)]
struct Drafts {
    by_inode: HashMap<u64, Arc<Draft>>,
    /// The drafts of new files, by directory and name.
    new: HashMap<(u64, Name), u64>,
}

/// The thread that makes changes. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Writing {
    mounted: Arc<Mounted>,
    thread: Option<JoinHandle<()>>,
}

impl Writes {
    /// Opens the directory, and returns the changes with the queue for the thread that makes them.
    pub(super) fn open(config: MountWrites) -> Result<(Self, Receiver<Change>), FilesError> {
        let MountWrites { sites, dir, is_over, reports } = config;
        let (queue, changes) = channel();
        let (scratch, left) = Scratch::open(&dir)?;
        for file in left {
            let note = "was being written when an earlier mount ended, and was not published";
            // The receiver may be gone: reports are optional.
            let _ = reports.send(format!("{} {note}", file.display()));
        }
        let (drafts, links, kept, changing) = (Mutex::default(), Mutex::default(), Mutex::default(), Mutex::default());
        Ok((Self { sites, scratch, drafts, links, kept, queue, changing, is_over, reports }, changes))
    }

    /// Asks for a change. It is answered later.
    pub(super) fn ask(&self, change: Change) {
        // Without its thread, the mount is over, and the kernel has ended the request.
        let _ = self.queue.send(change);
    }

    fn draft(&self, inode: u64) -> Option<Arc<Draft>> {
        lock(&self.drafts).by_inode.get(&inode).cloned()
    }

    fn new_at(&self, directory: u64, name: &Name) -> Option<Arc<Draft>> {
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

    /// The locks of paths that edits change, or that are above or below such a path.
    fn locks_of(&self, edits: &[Edit]) -> Vec<Token> {
        let drafts = lock(&self.drafts);
        let locks = drafts.by_inode.values().filter_map(|draft| draft.lock());
        let meets = |path: &Path, edit: &Edit| {
            let (one, other) = (path.names(), edit.path().names());
            one.starts_with(other) || other.starts_with(one)
        };
        locks.filter(|(path, _)| edits.iter().any(|edit| meets(path, edit))).map(|(_, token)| token).collect()
    }

    /// Whether this mount has a path locked.
    fn has_lock(&self, path: &Path) -> bool {
        let drafts = lock(&self.drafts);
        drafts.by_inode.values().filter_map(|draft| draft.lock()).any(|(locked, _)| locked == *path)
    }

    /// Keeps a lock for the next open of its path, for a moment.
    fn keep_lock(&self, granted: Lock) {
        lock(&self.kept).push((Instant::now(), granted));
    }

    /// Takes a lock that was kept.
    fn take_kept_lock(&self, path: &Path) -> Option<Lock> {
        let mut kept = lock(&self.kept);
        let at = kept.iter().position(|(_, kept)| kept.path() == path && !kept.is_over())?;
        Some(kept.swap_remove(at).1)
    }

    /// Releases kept locks whose open has not come back.
    fn release_kept_locks(&self) {
        lock(&self.kept).retain(|(since, _)| since.elapsed() < KEPT_FOR);
    }

    /// Gives up the locks, of which the store has ended one.
    fn locks_are_over(&self) {
        lock(&self.drafts).by_inode.values().for_each(|draft| draft.lock_is_over());
    }

    /// The disk of what is being written: the size of its blocks, all of them, and those that are free.
    pub(super) fn room(&self) -> io::Result<(u32, u64, u64)> {
        self.scratch.room()
    }
}

impl Mounted {
    /// The file that is being written at an inode.
    pub(super) fn draft(&self, inode: u64) -> Option<Arc<Draft>> {
        self.writes.as_ref()?.draft(inode)
    }

    /// The file of a name that no revision has.
    pub(super) fn new_at(&self, directory: u64, name: &Name) -> Option<Arc<Draft>> {
        self.writes.as_ref()?.new_at(directory, name)
    }

    /// How many names a file of the newest revision has.
    pub(super) fn count_names(&self, entry: &Entry) -> Option<u32> {
        let (writes, link) = (self.writes.as_ref()?, link_of(entry)?);
        let names = lock(&writes.links).names(&self.origin.source(), self.last()?.root, link).ok()?;
        Some((names.len() as u32).max(1))
    }

    /// The path of an inode, as it was known last.
    fn path_of(&self, inode: u64) -> Path {
        let place = lock(&self.nodes).get(inode).map(|node| node.place.clone());
        match place {
            Some(Place::In { directory, name, .. }) => self.path_in(directory, &name),
            Some(Place::Revision(_)) | None => Path::ROOT,
        }
    }

    /// The path of a name in a directory.
    fn path_in(&self, directory: u64, name: &Name) -> Path {
        let above = lock(&self.nodes).path(directory).map(|path| path.below).unwrap_or_default();
        let above = above.into_iter().fold(Path::ROOT, |path, (_, name)| path.join(&name));
        above.join(name)
    }

    /// Holds changes of this mount back.
    pub(super) fn without_changes<T>(&self, work: impl FnOnce() -> T) -> T {
        let _changing = self.writes.as_ref().map(|writes| lock(&writes.changing));
        work()
    }
}

impl Writing {
    /// Starts the thread.
    pub(super) fn start(mounted: &Arc<Mounted>, changes: Receiver<Change>) -> Result<Self, FilesError> {
        let writer = writer::Writer::new(mounted.clone()).map_err(FilesError::Thread)?;
        let thread = thread::Builder::new().name("mount-writer".to_owned());
        let thread = thread.spawn(move || writer.run(&changes)).map_err(FilesError::Thread)?;
        Ok(Self { mounted: mounted.clone(), thread: Some(thread) })
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let Some((writes, thread)) = self.mounted.writes.as_ref().zip(self.thread.take()) else { return };
        writes.ask(Change::End);
        // Files that were closed before are still published.
        let until = Instant::now() + END_WITHIN;
        while !thread.is_finished() && Instant::now() < until {
            thread::sleep(LOOK_EVERY);
        }
        writes.is_over.store(true, SeqCst);
        // A panic has no reader any longer.
        let _ = thread.join();
    }
}
