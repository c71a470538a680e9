//! The disk of homes: threads that do the work on the files of volumes.
//!
//! ```text
//!   work of a volume --> its line --> one writer at a time, in order
//!   reads            --> one line --> readers
//! ```
//! What changes a volume is done in the order in which it was given, so a mark never overtakes what it covers. Reads
//! wait for none of that. Nothing here ends the process: a home that is full or fails says so, and is tried again.

use super::files::{self, Found, VolumeFiles, With};
use super::{entry, inventory};
use crate::extents::BLOCK;
use crate::home::{Checked, Checks, runs};
use bytes::Bytes;
use machine::{Disk, Done as AnyDone};
use machines::Step;
use machines::messages::holder::{Epoch, Extent, VolumeId};
use machines::messages::home::{BlockSums, Homes, Keep, NotDone, Put, Run};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use types::limits::VOLUME_RUNS_PER_ANSWER_MAX;
use types::{Position, SessionId, said};
use vfs::{FileError, Files};

/// Threads that change volumes, and threads that read them.
const WRITERS: usize = 4;
const READERS: usize = 8;

/// The work of a volume that a writer does before it is another volume's turn.
const TURN_MAX: usize = 256;

const NOT_OPEN: &str = "the volume is not open at its home";

/// The number of a write-back in the life of a home's process: what is left of an earlier one is told by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteNumber(pub(super) u64);

/// Work.
#[derive(Debug)]
pub(super) enum Work {
    /// On a volume, in order.
    Ordered(VolumeId, Ordered),
    /// A read of a session, under the number of its question.
    Read(SessionId, VolumeId, u64, Extent),
    /// The same for the checksums of whole blocks.
    Scrub(SessionId, VolumeId, u64, Extent),
    /// The same for holes.
    Map(SessionId, VolumeId, u64, Extent),
    /// A session wants the registry's entry, under the number of its question.
    Recall(SessionId, VolumeId, u64),
    /// A session wants to know of homes, from this one on.
    List(SessionId, VolumeId),
}

/// Work on a volume that is done in order.
#[derive(Debug)]
pub(super) enum Ordered {
    /// Open its files; make it first, with this size, if that is given.
    Open(Option<u64>),
    /// Close them.
    Close,
    /// A write-back begins.
    Begin(WriteNumber, bool),
    /// A part of it, from a session.
    Put(WriteNumber, SessionId, Put),
    /// A step of home's.
    Step(Step, With),
    /// Keep the registry's entry for a session.
    Keep(SessionId, Keep),
    /// Another size.
    Resize(u64),
    /// Another volume with the same contents.
    Snapshot(VolumeId),
    /// Close and remove them.
    Remove,
    /// Remove them for a session, which nobody has open; if nothing was written to them for this many seconds.
    Discard(SessionId, u64),
}

/// The outcome of work.
#[derive(Debug)]
pub(super) enum Done {
    /// A volume is open, or is not, and why.
    Opened(VolumeId, Result<Found, NotDone>),
    /// A part of a write-back is off the window of its session.
    Took(SessionId, u64),
    /// A write-back has failed.
    Failed(VolumeId, WriteNumber, String),
    /// A step is done, or has failed.
    Stepped(VolumeId, Step, Result<(), String>),
    /// A command is done, or has failed.
    Changed(VolumeId, Result<(), String>),
    /// The registry's entry is kept for a session, or is not.
    Kept(SessionId, Result<(), NotDone>),
    /// The registry's entry, or nothing.
    Recalled(SessionId, u64, Bytes),
    /// The bytes of a read, or why there are none.
    Read(SessionId, u64, Result<Bytes, String>),
    /// The checksums of blocks, or why there are none.
    Scrubbed(SessionId, u64, Result<Vec<BlockSums>, String>),
    /// The runs of a volume, or none.
    Mapped(SessionId, u64, Vec<Run>),
    /// Homes, or why they cannot be told.
    Listed(SessionId, Result<Homes, NotDone>),
    /// The files of a home are removed for a session, or are not.
    Discarded(SessionId, Result<(), NotDone>),
}

impl AnyDone for Done {
    fn durable(&self) -> Option<Position> {
        None
    }
}

type Tell = Box<dyn Fn(Done) + Send + Sync>;

/// The disk.
pub(super) struct HomeDisk {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    files: Arc<dyn Files>,
    checks: Checks,
    tell: OnceLock<Tell>,
    queue: Mutex<Queue>,
    /// There is something for a writer, or for a reader.
    write: Condvar,
    read: Condvar,
    /// The open volumes: a writer takes one out while it works on it.
    volumes: Mutex<HashMap<VolumeId, Open>>,
    /// Their files, for readers.
    readable: Mutex<HashMap<VolumeId, Arc<Checked>>>,
    /// Blocks that were found to be other than what was written, each time.
    damaged: Arc<AtomicU64>,
}

#[derive(Default)]
struct Queue {
    lines: HashMap<VolumeId, VecDeque<Ordered>>,
    /// Volumes with a line that no writer is at, in their order.
    ready: VecDeque<VolumeId>,
    /// Volumes that a writer is at.
    taken: HashSet<VolumeId>,
    reads: VecDeque<Work>,
    is_ended: bool,
}

/// A volume that is open.
struct Open {
    files: VolumeFiles,
    /// The write-back under way, and why it has failed, if it has.
    writing: Option<(WriteNumber, Option<String>)>,
}

impl HomeDisk {
    /// Begins to work on the files of a directory.
    pub(super) fn start(files: Arc<dyn Files>, checks: Checks) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared {
            files,
            checks,
            tell: OnceLock::new(),
            queue: Mutex::default(),
            write: Condvar::new(),
            read: Condvar::new(),
            volumes: Mutex::default(),
            readable: Mutex::default(),
            damaged: Arc::default(),
        });
        let disk = Arc::new(Self { shared, threads: Mutex::default() });
        (0..WRITERS).try_for_each(|_| disk.spawn("home-write", Shared::write))?;
        (0..READERS).try_for_each(|_| disk.spawn("home-read", Shared::read))?;
        Ok(disk)
    }

    /// Counts the blocks that were found to be other than what was written.
    pub(super) fn damaged(&self) -> Arc<AtomicU64> {
        self.shared.damaged.clone()
    }

    fn spawn(&self, name: &str, run: fn(&Shared)) -> io::Result<()> {
        let shared = self.shared.clone();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || run(&shared))?;
        lock(&self.threads).push(thread);
        Ok(())
    }
}

impl Disk for HomeDisk {
    type Work = Work;
    type Done = Done;

    fn submit(&self, work: Work) -> bool {
        let mut queue = lock(&self.shared.queue);
        match work {
            Work::Ordered(volume, work) => {
                queue.lines.entry(volume).or_default().push_back(work);
                // A writer that is at it finds this, too: the others are not to be woken for that.
                if queue.offer(volume) {
                    self.shared.write.notify_one();
                }
            }
            read @ (Work::Read(..) | Work::Scrub(..) | Work::Map(..) | Work::Recall(..) | Work::List(..)) => {
                queue.reads.push_back(read);
                self.shared.read.notify_one();
            }
        }
        false
    }

    fn flush(&self, _: &mut dyn FnMut(Done)) -> bool {
        false
    }

    fn on_done(&self, done: Tell) {
        assert!(self.shared.tell.set(done).is_ok(), "registered once");
    }

    fn on_failed(&self, _: Box<dyn Fn(&str) + Send + Sync>) {}
}

impl Drop for HomeDisk {
    fn drop(&mut self) {
        lock(&self.shared.queue).is_ended = true;
        self.shared.write.notify_all();
        self.shared.read.notify_all();
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            // The last handle may continue one of them.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
        // Sessions may have had them open to the end.
        let volumes: Vec<VolumeId> = lock(&self.shared.volumes).keys().copied().collect();
        for volume in volumes {
            self.shared.close(volume);
        }
    }
}

impl Open {
    /// A step; one of a write-back of which a part could not be written has failed with that.
    fn step(&mut self, step: Step, with: With) -> Result<(), String> {
        match &self.writing {
            Some((_, Some(text))) if matches!(step, Step::Journal | Step::Install) => Err(text.clone()),
            _ => self.files.step(step, with).map_err(|trouble| trouble.to_string()),
        }
    }
}

impl Queue {
    /// Lets a writer have a volume, if none is at it and there is something to do. Returns whether a writer is needed
    /// for that.
    fn offer(&mut self, volume: VolumeId) -> bool {
        let waits = self.lines.get(&volume).is_some_and(|line| !line.is_empty());
        let is_new = waits && !self.taken.contains(&volume) && !self.ready.contains(&volume);
        if is_new {
            self.ready.push_back(volume);
        }
        is_new
    }
}

impl Shared {
    fn tell(&self, done: Done) {
        if let Some(tell) = self.tell.get() {
            tell(done);
        }
    }

    /// A writer's thread.
    fn write(&self) {
        loop {
            let (volume, work) = {
                let is_idle = |queue: &mut Queue| queue.ready.is_empty() && !queue.is_ended;
                let queue = self.write.wait_while(lock(&self.queue), is_idle);
                let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
                if queue.is_ended {
                    return;
                }
                let Some(volume) = queue.ready.pop_front() else { continue };
                queue.taken.insert(volume);
                let line = queue.lines.entry(volume).or_default();
                (volume, line.drain(..line.len().min(TURN_MAX)).collect::<Vec<_>>())
            };
            for work in work {
                self.work(volume, work);
            }
            let mut queue = lock(&self.queue);
            queue.taken.remove(&volume);
            if queue.lines.get(&volume).is_some_and(VecDeque::is_empty) {
                queue.lines.remove(&volume);
            }
            // For this thread, which looks next.
            queue.offer(volume);
        }
    }

    fn work(&self, volume: VolumeId, work: Ordered) {
        match work {
            Ordered::Open(size) => {
                let opened = contained(|| self.open(volume, size)).unwrap_or_else(|text| Err(NotDone::Failed(text)));
                self.tell(Done::Opened(volume, opened));
            }
            Ordered::Close => self.close(volume),
            Ordered::Begin(number, is_joined) => {
                let begun = self.with(volume, |open| {
                    open.writing = Some((number, None));
                    open.files.begin(is_joined).map_err(|trouble| trouble.to_string())
                });
                self.check(volume, number, begun);
            }
            Ordered::Put(number, session, put) => {
                let done = self.with(volume, |open| {
                    if open.writing != Some((number, None)) {
                        return Ok(());
                    }
                    open.files.put(put.extent, &put.content).map_err(|trouble| trouble.to_string())
                });
                self.tell(Done::Took(session, put.cost()));
                self.check(volume, number, done);
            }
            Ordered::Step(step, with) => {
                let done = self.with(volume, |open| open.step(step, with));
                self.tell(Done::Stepped(volume, step, done));
            }
            Ordered::Keep(session, keep) => {
                let kept = contained(|| entry::keep(&*self.files, volume, &keep).map_err(|error| error.to_string()));
                self.tell(Done::Kept(session, kept.and_then(|kept| kept).map_err(NotDone::Failed)));
            }
            Ordered::Resize(size) => {
                let done = self.with(volume, |open| open.files.resize(size).map_err(|error| error.to_string()));
                self.tell(Done::Changed(volume, done));
            }
            Ordered::Snapshot(to) => {
                let done = self.with(volume, |open| open.files.snapshot(to).map_err(|error| error.to_string()));
                self.tell(Done::Changed(volume, done));
            }
            Ordered::Remove => {
                self.close(volume);
                let removed = contained(|| files::remove(&*self.files, volume).map_err(|error| error.to_string()));
                self.tell(Done::Changed(volume, removed.and_then(|removed| removed)));
            }
            Ordered::Discard(session, unwritten_s) => {
                let discarded = contained(|| inventory::discard(&*self.files, volume, unwritten_s));
                let discarded = discarded.unwrap_or_else(|text| Err(NotDone::Failed(text)));
                self.tell(Done::Discarded(session, discarded));
            }
        }
    }

    fn open(&self, volume: VolumeId, create: Option<u64>) -> Result<Found, NotDone> {
        let failed = |error: FileError| NotDone::Failed(error.to_string());
        let exists = files::exists(&*self.files, volume).map_err(failed)?;
        match create {
            None if !exists => return Err(NotDone::NoVolume),
            Some(size) if !exists => files::create(&*self.files, volume, size).map_err(failed)?,
            _ => {}
        }
        let (files, found) = VolumeFiles::open(self.files.clone(), volume, &self.checks).map_err(failed)?;
        // One that was just made like this counts as made: its maker may have asked twice.
        if create.is_some_and(|size| found.size != size || found.epoch != Epoch(0)) {
            return Err(NotDone::Exists);
        }
        lock(&self.readable).insert(volume, files.file());
        lock(&self.volumes).insert(volume, Open { files, writing: None });
        Ok(found)
    }

    fn close(&self, volume: VolumeId) {
        lock(&self.readable).remove(&volume);
        let closed = lock(&self.volumes).remove(&volume);
        // One that cannot say how it was left has not: the next start takes its file as it is.
        let _ = contained(|| closed.map(|open| open.files.close()));
    }

    /// Works on an open volume, which nobody else does in the meantime.
    fn with(&self, volume: VolumeId, work: impl FnOnce(&mut Open) -> Result<(), String>) -> Result<(), String> {
        let taken = lock(&self.volumes).remove(&volume);
        let Some(mut open) = taken else { return Err(NOT_OPEN.to_owned()) };
        let done = contained(|| work(&mut open)).and_then(|done| done);
        lock(&self.volumes).insert(volume, open);
        done
    }

    /// Reports a write-back that has failed, once.
    fn check(&self, volume: VolumeId, number: WriteNumber, done: Result<(), String>) {
        if let Err(text) = done {
            if let Some(open) = lock(&self.volumes).get_mut(&volume) {
                open.writing = Some((number, Some(text.clone())));
            }
            self.tell(Done::Failed(volume, number, text));
        }
    }

    /// A reader's thread.
    fn read(&self) {
        loop {
            let work = {
                let is_idle = |queue: &mut Queue| queue.reads.is_empty() && !queue.is_ended;
                let queue = self.read.wait_while(lock(&self.queue), is_idle);
                let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
                if queue.is_ended {
                    return;
                }
                queue.reads.pop_front()
            };
            match work {
                Some(Work::Read(session, volume, id, extent)) => {
                    self.tell(Done::Read(session, id, self.bytes(volume, extent)));
                }
                Some(Work::Scrub(session, volume, id, extent)) => {
                    self.tell(Done::Scrubbed(session, id, self.scrub(volume, extent)));
                }
                Some(Work::Map(session, volume, id, extent)) => {
                    self.tell(Done::Mapped(session, id, self.runs(volume, extent)));
                }
                Some(Work::Recall(session, volume, id)) => {
                    // One that cannot be read is notified of as none.
                    let entry = contained(|| entry::recall(&*self.files, volume).ok().flatten()).ok().flatten();
                    self.tell(Done::Recalled(session, id, entry.unwrap_or_default().into()));
                }
                Some(Work::List(session, from)) => self.tell(Done::Listed(session, self.list(from))),
                Some(Work::Ordered(..)) | None => {}
            }
        }
    }

    fn list(&self, from: VolumeId) -> Result<Homes, NotDone> {
        let listed = contained(|| inventory::list(&*self.files, from).map_err(|error| error.to_string()));
        listed.and_then(|listed| listed).map_err(NotDone::Failed)
    }

    fn file(&self, volume: VolumeId) -> Option<Arc<Checked>> {
        lock(&self.readable).get(&volume).cloned()
    }

    /// Bytes of a volume, which are read and checked in whole blocks.
    fn bytes(&self, volume: VolumeId, Extent { offset, len }: Extent) -> Result<Bytes, String> {
        let file = self.file(volume).ok_or(NOT_OPEN)?;
        let (first, ahead) = (offset / BLOCK as u64, offset as usize % BLOCK);
        let mut bytes = vec![0; (ahead + len as usize).next_multiple_of(BLOCK)];
        let first = u32::try_from(first).map_err(|_| "a read behind the end of any volume")?;
        file.read(first, &mut bytes).map_err(|error| {
            if let FileError::Corrupt { .. } = error {
                self.damaged.fetch_add(1, Relaxed);
            }
            error.to_string()
        })?;
        Ok(Bytes::from(bytes).slice(ahead..ahead + len as usize))
    }

    fn scrub(&self, volume: VolumeId, Extent { offset, len }: Extent) -> Result<Vec<BlockSums>, String> {
        let file = self.file(volume).ok_or(NOT_OPEN)?;
        let first = u32::try_from(offset / BLOCK as u64).map_err(|_| "a scrub behind the end of any volume")?;
        let sums = file.scrub(first, len as usize / BLOCK).map_err(|error| error.to_string())?;
        self.damaged.fetch_add(sums.iter().filter(|sums| sums.is_damaged()).count() as u64, Relaxed);
        Ok(sums)
    }

    fn runs(&self, volume: VolumeId, extent: Extent) -> Vec<Run> {
        let runs = self.file(volume).map(|file| runs(file.raw(), extent, VOLUME_RUNS_PER_ANSWER_MAX));
        runs.and_then(Result::ok).unwrap_or_default()
    }
}

/// Works; a panic is a failure like any other.
fn contained<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    ran.map_err(|panic| {
        format!("home panicked ('{}'), which is an error of Thorp's own: please report it", said(&*panic))
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
