//! The thread that makes the changes of programs on this host. Names and attributes are published at once; content is
//! private until its file is closed.
//!
//! ```text
//!   kernel --change--> queue --> writer: newest revision, edits --publish--> store
//!                                writer <--the revision is here-- member;  then inodes, and the answer
//!   kernel --write---> draft --close: chunks--> store, queue
//! ```
//! - Each change starts from the newest revision and is a publish of its own, which the store merges with the publishes
//!   of others (rule CompareBase). After a conflict it starts again from the newer revision.
//! - A change is answered when its revision has arrived at this member, so a program reads what it has written.
//!
//! | module | duty |
//! |---|---|
//! | `names` | changes of names |
//! | `content` | changes of attributes and content |
//! | `edition` | edits of the newest revision, and their publish |

mod content;
mod edition;
mod names;

use self::edition::{Edition, Stop};
use super::handles::{Handle, OpenContent, OpenFile};
use super::requests::{GENERATION, attributes_for};
use super::views::{Mounted, NoAnswer, Wait};
use super::writes::{Change, KEPT_FOR, Permit, Writes};
use crate::error::FilesError;
use crate::line::lock;
use bytes::Bytes;
use chunks::ChunkError;
use fuser::{Errno, FileAttr, FileHandle, FopenFlags};
use spread::{Number, Revision};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use types::Time;

/// How long changes that were asked for before are waited for when a mount ends, and how often is looked.
const END_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How often an edit is made again that newer revisions have overtaken.
const ATTEMPTS: usize = 20;

/// How long a revision is waited for.
const HERE_WITHIN: Duration = Duration::from_secs(10);

/// How long to wait before a look without news.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The thread that makes changes. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Writing {
    mounted: Arc<Mounted>,
    thread: Option<JoinHandle<()>>,
}

/// The thread's own.
struct Writer {
    pub(super) mounted: Arc<Mounted>,
    /// For waits.
    runtime: Runtime,
}

impl Writer {
    pub(super) fn new(mounted: Arc<Mounted>) -> io::Result<Self> {
        Ok(Self { mounted, runtime: Builder::new_current_thread().enable_time().build()? })
    }

    pub(super) fn run(self, changes: &Receiver<Change>) {
        let mounted = self.mounted.clone();
        let Some(writes) = &mounted.writes else { return };
        loop {
            let change = changes.recv_timeout(KEPT_FOR);
            writes.release_kept_locks();
            let change = match change {
                Ok(Change::End) | Err(RecvTimeoutError::Disconnected) => return self.end(writes),
                Err(RecvTimeoutError::Timeout) => continue,
                Ok(change) => change,
            };
            let _changing = lock(&writes.changing);
            self.make(writes, change);
        }
    }

    fn make(&self, writes: &Writes, change: Change) {
        match change {
            Change::Make { directory, name, made, owner, reply } => {
                match self.make_name(writes, directory, &name, &made, owner) {
                    Ok((ttl, attr)) => reply.entry_with_ttls(&attributes_for(&attr), &ttl, &attr, GENERATION),
                    Err(error) => reply.error(error),
                }
            }
            Change::Remove { directory, name, is_directory, reply } => {
                match self.remove(writes, directory, &name, is_directory) {
                    Ok(()) => reply.ok(),
                    Err(error) => reply.error(error),
                }
            }
            Change::Rename { from, to, flags, reply } => match self.rename(writes, &from, &to, flags) {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(error),
            },
            Change::Link { inode, directory, name, reply } => match self.link(writes, inode, directory, &name) {
                Ok((ttl, attr)) => reply.entry_with_ttls(&attributes_for(&attr), &ttl, &attr, GENERATION),
                Err(error) => reply.error(error),
            },
            Change::Set { inode, asked, reply } => match self.set(writes, inode, &asked) {
                Ok(attr) => reply.attr(&attributes_for(&attr), &attr),
                Err(error) => reply.error(error),
            },
            Change::Xattr { inode, name, value, flags, reply } => {
                match self.set_xattr(writes, inode, &name, value.as_ref(), flags) {
                    Ok(()) => reply.ok(),
                    Err(error) => reply.error(error),
                }
            }
            // The earlier open was closed in between, and the lock released.
            Change::Create { directory, name, mode, owner, permit: Permit::Held, reply }
                if !writes.has_lock(&self.mounted.path_in(directory, &name)) =>
            {
                self.mounted.create(directory, name, mode, owner, reply);
            }
            Change::Create { directory, name, mode, owner, permit, reply } => {
                match self.create(writes, directory, &name, mode, owner, permit) {
                    Ok((ttl, attr, handle)) => {
                        reply.created(&ttl, &attr, GENERATION, FileHandle(handle), FopenFlags::FOPEN_KEEP_CACHE);
                    }
                    Err(error) => reply.error(error),
                }
            }
            Change::Open { inode, permit: Permit::Held, reply }
                if writes.draft(inode).is_none_or(|draft| draft.lock().is_none()) =>
            {
                self.mounted.open_written(inode, reply);
            }
            Change::Open { inode, permit, reply } => match self.open(writes, inode, permit) {
                Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::FOPEN_KEEP_CACHE),
                Err(error) => reply.error(error),
            },
            Change::Close { inode, content, reply } => match self.close(writes, inode, content) {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(error),
            },
            Change::Release { inode } => self.release(writes, inode),
            Change::End => {}
        }
    }

    /// Makes edits of the newest revision, and publishes them. Edits that a newer revision has overtaken are made
    /// again. Returns what `stage` returns, and the revision that has the edits, which is here.
    pub(super) fn publish<T>(
        &self,
        writes: &Writes,
        mut stage: impl FnMut(&mut Edition<'_>) -> Result<T, Stop>,
    ) -> Result<(T, Revision), Errno> {
        let mut since = None;
        for _ in 0..ATTEMPTS {
            let base = match self.mounted.newest(Wait { since, is_over: false }) {
                Ok(viewed) => viewed.revision,
                Err(NoAnswer::Later(of)) => {
                    since = Some(of);
                    self.rest();
                    continue;
                }
                Err(why) => return Err(why.error()),
            };
            let mut edition = Edition::of(&self.mounted, writes, base);
            let staged = match stage(&mut edition) {
                Ok(staged) => staged,
                Err(Stop::Error(error)) => return Err(error),
                Err(Stop::Again) => {
                    self.rest();
                    continue;
                }
            };
            if !edition.has_edits() {
                return Ok((staged, base));
            }
            match edition.publish() {
                Ok(revision) => return Ok((staged, self.wait_for(|number| number >= revision.number)?)),
                Err(FilesError::Overtaken { head, .. } | FilesError::Conflict { head, .. }) => {
                    self.wait_for(|number| number.count >= head)?;
                }
                Err(FilesError::NotKept { .. }) => self.rest(),
                // Without its lock, the path is compared all the same.
                Err(FilesError::LockOver(_)) => {}
                Err(error) => return Err(self.refused(&error)),
            }
        }
        Err(Errno::EBUSY)
    }

    /// Waits until a revision is here.
    pub(super) fn wait_for(&self, is_here: impl Fn(Number) -> bool) -> Result<Revision, Errno> {
        let until = Instant::now() + HERE_WITHIN;
        let mut since: Option<Time> = None;
        loop {
            match self.mounted.newest(Wait { since, is_over: false }) {
                Ok(viewed) if is_here(viewed.revision.number) => return Ok(viewed.revision),
                Ok(_) => {}
                Err(NoAnswer::Later(of)) => since = Some(of),
                Err(why) => return Err(why.error()),
            }
            if Instant::now() >= until {
                self.mounted.trouble("a change was published, and has not come back", &FilesError::Interrupted);
                return Err(Errno::ETIMEDOUT);
            }
            self.rest();
        }
    }

    /// Waits for news of the member, or a moment.
    fn rest(&self) {
        // After the timeout, the caller looks again without news.
        let _ = self.runtime.block_on(async { timeout(AGAIN_AFTER, self.mounted.origin.news()).await });
    }

    /// The error for a program whose change was not published.
    pub(super) fn refused(&self, error: &FilesError) -> Errno {
        self.mounted.report(format!("a change could not be published: {error}"));
        match error {
            FilesError::ServerFull(_) | FilesError::Chunks(ChunkError::NoRoom { .. }) => Errno::ENOSPC,
            FilesError::Unwritable(_, why) if why.kind() == io::ErrorKind::StorageFull => Errno::ENOSPC,
            FilesError::TooLarge(..) => Errno::EFBIG,
            FilesError::NoPath(_) => Errno::ENOENT,
            _ => Errno::EIO,
        }
    }

    /// A name that this mount has made, for the kernel: for how long it may know it, and its attributes.
    pub(super) fn shown(&self, attr: FileAttr) -> (Duration, FileAttr) {
        let current = self.mounted.last();
        let ttl = current.map_or(Duration::ZERO, |it| self.mounted.known_for(it, super::nodes::Top::Newest));
        (ttl, attr)
    }

    /// Opens a file that no revision has.
    pub(super) fn open_new(&self, inode: u64, is_written: bool) -> u64 {
        let file = OpenFile::new(inode, 0, OpenContent::Bytes(Bytes::new()), None, false);
        let file = if is_written { file.written() } else { file };
        self.mounted.handles.add(Handle::File(Arc::new(file)))
    }
}

impl Writing {
    /// Starts the thread.
    pub(super) fn start(mounted: &Arc<Mounted>, changes: Receiver<Change>) -> Result<Self, FilesError> {
        let writer = Writer::new(mounted.clone()).map_err(FilesError::Thread)?;
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
