//! A store's disk while it runs: the log, which the appending threads also flush, and the threads that read and install
//! pages.

use crate::error::DiskError;
use crate::page_file::{Found, Home, Installed};
use crate::records::StoreRecords;
use log::{Durable, Log, LogId, Made, Scan};
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use store::{Checkpoint, DiskDone, DiskWork, HomeImage, Position};
use types::PageId;
use vfs::{Doing, FileError, Files, Lock, Patience, Pause, contain};

/// The disk of one store: [`machine::Disk`] over a directory.
///
/// Three kinds of threads meet here. A caller of [`machine::Disk::flush`] leads one flush of the queued appends. The
/// readers answer reads. The keeper installs pages, frees the log's segments and makes new ones; it flushes, too, when
/// a segment becomes free and nobody else has anything to write.
///
/// A panic of any of them ends the disk like a failed write.
pub struct RealDisk {
    shared: Arc<Shared>,
    reads: Option<Sender<Vec<PageId>>>,
    keeping: Option<Sender<Keeping>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    _lock: Lock,
}

/// The keeper's tasks.
enum Keeping {
    Install(Vec<HomeImage>, Checkpoint),
    ReadLog,
    Free(Position),
    MakeRoom(u64),
    Grow(String),
    /// A flush waits for what it needs.
    Retry,
}

/// Records of the log that are read before they are passed on.
const RECORDS_AT_A_TIME: usize = 64;

/// A listener to the work that the disk's own threads have done.
type OnDone = Box<dyn Fn(DiskDone) + Send + Sync>;

/// A listener to the failure of the disk.
type OnFailed = Box<dyn Fn(&str) + Send + Sync>;

/// The state that all threads share.
struct Shared {
    files: Arc<dyn Files>,
    log: Log<StoreRecords>,
    log_id: LogId,
    home: Box<dyn Home>,
    patience: Arc<Patience>,
    done: OnceLock<OnDone>,
    failed: OnceLock<OnFailed>,
    end: Once,
}

/// The parts that a disk is made of when its directory has been opened.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The directory.
    pub(crate) files: Arc<dyn Files>,
    /// How many threads read pages.
    pub(crate) readers: usize,
    /// The log, behind its last record.
    pub(crate) log: Log<StoreRecords>,
    /// The log's identity, which its segments name.
    pub(crate) log_id: LogId,
    /// The page home.
    pub(crate) home: Box<dyn Home>,
    /// Whether the home waits out what passes.
    pub(crate) patience: Arc<Patience>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RealDisk {
    /// Starts the threads over what was opened.
    pub(crate) fn start(parts: Parts, dir_lock: Lock) -> Result<Self, DiskError> {
        let Parts { files, readers, log, log_id, home, patience } = parts;
        patience.run(true);
        let (done, failed) = (OnceLock::new(), OnceLock::new());
        let shared = Arc::new(Shared { files, log, log_id, home, patience, done, failed, end: Once::new() });
        let (reads, to_read) = channel();
        let (keeping, to_keep) = channel();
        let mut disk = Self {
            shared: shared.clone(),
            reads: Some(reads),
            keeping: Some(keeping),
            threads: Mutex::default(),
            _lock: dir_lock,
        };
        let to_read = Arc::new(Mutex::new(to_read));
        for _ in 0..readers {
            let (shared, to_read) = (shared.clone(), to_read.clone());
            disk.spawn("disk-read", move || shared.run(|| shared.read_all(&to_read)))?;
        }
        disk.spawn("disk-keep", move || shared.run(|| shared.keep_all(&to_keep)))?;
        disk.grow_if_wanted();
        Ok(disk)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), DiskError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = thread.doing("start a thread for", || self.shared.files.path(""))?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Whether the log is written past the system's page cache.
    pub fn is_direct(&self) -> bool {
        self.shared.log.is_direct()
    }

    /// Ends the threads after what was submitted, and leaves a mark behind the last record, so that a later damage to
    /// it cannot pass for a torn tail. To drop a disk without this is like a crash: nothing that was durable is lost.
    pub fn close(mut self) -> Result<(), DiskError> {
        self.end_threads();
        let Shared { log, home, .. } = &*self.shared;
        if log.has_failed() {
            return Ok(());
        }
        match home.close(log.durable()) {
            // A page that is not written back is in the log.
            Err(error) if error.is_full() => {}
            closed => closed?,
        }
        log.mark();
        let mut flushed = Ok(());
        log.flush(self.shared.installs(), &mut |result| flushed = result.map(drop));
        Ok(flushed?)
    }

    fn end_threads(&mut self) {
        (self.reads, self.keeping) = (None, None);
        self.shared.patience.run(false);
        let this_thread = std::thread::current().id();
        // The last handle may go in a callback, on one of these threads, which cannot wait for its own end.
        for thread in lock(&self.threads).drain(..).filter(|thread| thread.thread().id() != this_thread) {
            // One that panicked has ended the disk, and has nothing more to do.
            let _ = thread.join();
        }
    }

    fn grow_if_wanted(&self) {
        if let Some(name) = self.shared.log.plan_segment() {
            self.keep(Keeping::Grow(name));
        }
    }

    fn keep(&self, work: Keeping) {
        // The keeper is gone only when it has panicked: then the disk has failed.
        if let Some(keeping) = &self.keeping {
            let _ = keeping.send(work);
        }
    }
}

impl Drop for RealDisk {
    fn drop(&mut self) {
        self.end_threads();
    }
}

impl fmt::Debug for RealDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealDisk").field("dir", &self.shared.files.path("")).finish_non_exhaustive()
    }
}

impl machine::Disk for RealDisk {
    type Work = DiskWork;
    type Done = DiskDone;

    fn submit(&self, work: DiskWork) -> bool {
        let is_append = matches!(work, DiskWork::Append(..));
        match work {
            DiskWork::Append(position, record) => self.shared.log.append(position.0, record),
            DiskWork::Read(pages) => {
                let _ = self.reads.as_ref().map(|reads| reads.send(pages));
            }
            DiskWork::Install(images, checkpoint) => self.keep(Keeping::Install(images, checkpoint)),
            DiskWork::ReadLog => self.keep(Keeping::ReadLog),
            DiskWork::Free(position) => self.keep(Keeping::Free(position)),
            DiskWork::MakeRoom(bytes) => self.keep(Keeping::MakeRoom(bytes)),
        }
        is_append
    }

    fn flush(&self, done: &mut dyn FnMut(DiskDone)) -> bool {
        let more = self.shared.flush(done);
        self.grow_if_wanted();
        if self.shared.log.take_newly_stuck() {
            self.keep(Keeping::Retry);
        }
        more
    }

    fn on_done(&self, done: Box<dyn Fn(DiskDone) + Send + Sync>) {
        assert!(self.shared.done.set(done).is_ok(), "registered once");
    }

    fn on_failed(&self, failed: Box<dyn Fn(&str) + Send + Sync>) {
        assert!(self.shared.failed.set(failed).is_ok(), "registered once");
    }
}

impl Shared {
    /// Leads one flush, if there is something to flush and nobody else does. Returns whether more was queued at its
    /// end.
    fn flush(&self, done: &mut dyn FnMut(DiskDone)) -> bool {
        self.log.flush(self.installs(), &mut |result| self.report(result, done))
    }

    /// Tries a flush again that waits, and those behind it.
    fn retry_flush(&self) {
        let done = &mut |done| self.tell(done);
        let mut more = self.log.retry(&mut |result| self.report(result, done));
        while more {
            more = self.flush(done);
        }
    }

    fn report(&self, result: Result<Durable, FileError>, done: &mut dyn FnMut(DiskDone)) {
        match result {
            Ok(Durable { through, bytes_free }) => {
                done(DiskDone::Durable { through: Position(through), log_bytes_free: bytes_free });
            }
            Err(error) => self.fail(error),
        }
    }

    /// How many installs the home has had, as far as the log can say it.
    fn installs(&self) -> u32 {
        u32::try_from(self.home.installs()).unwrap_or(u32::MAX)
    }

    /// Does the work of one of the disk's own threads.
    fn run(&self, work: impl FnOnce()) {
        if let Err(error) = contain(|| {
            work();
            Ok(())
        }) {
            self.fail(error);
        }
    }

    /// Everything ends: says so, once.
    fn fail(&self, error: FileError) {
        self.log.fail();
        if let Some(failed) = self.failed.get() {
            self.end.call_once(|| failed(&DiskError::from(error).to_string()));
        }
    }

    fn tell(&self, done: DiskDone) {
        if let Some(tell) = self.done.get() {
            tell(done);
        }
    }

    fn read_all(&self, reads: &Mutex<Receiver<Vec<PageId>>>) {
        loop {
            let received = lock(reads).recv();
            let Ok(pages) = received else { return };
            if self.log.has_failed() {
                continue;
            }
            match self.home.read(&pages) {
                Ok(found) => self.tell_found(found),
                Err(error) => self.fail(error),
            }
        }
    }

    /// Reports pages that were read. A damaged page is no failure of the disk, so only its readers get an error.
    fn tell_found(&self, found: Vec<(PageId, Found)>) {
        let mut whole = Vec::with_capacity(found.len());
        for (page, found) in found {
            match found {
                Ok(read) => whole.push((page, read)),
                Err(error) => self.tell(DiskDone::Damaged(page, error.to_string())),
            }
        }
        if !whole.is_empty() {
            self.tell(DiskDone::Pages(whole));
        }
    }

    fn keep_all(&self, work: &Receiver<Keeping>) {
        let mut pause = Pause::FIRST;
        let mut retry_at = None;
        loop {
            let is_stuck = self.log.is_stuck();
            if !is_stuck {
                (pause, retry_at) = (Pause::FIRST, None);
            }
            let until = is_stuck.then(|| *retry_at.get_or_insert_with(|| Instant::now() + pause.grow()));
            let received = match until {
                Some(until) => work.recv_timeout(until.saturating_duration_since(Instant::now())),
                None => work.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(work) => self.keep(work),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    retry_at = None;
                    self.retry_flush();
                }
            }
        }
    }

    fn keep(&self, work: Keeping) {
        if !self.log.has_failed() {
            let result = match work {
                Keeping::Install(images, checkpoint) => self.install(&images, checkpoint),
                Keeping::ReadLog => self.read_log(),
                Keeping::Free(position) => {
                    self.free(position);
                    Ok(())
                }
                Keeping::MakeRoom(bytes) => self.make_room(bytes),
                Keeping::Grow(name) => self.grow(&name),
                Keeping::Retry => Ok(()),
            };
            if let Err(error) = result {
                self.fail(error);
            }
        }
    }

    fn install(&self, images: &[HomeImage], checkpoint: Checkpoint) -> Result<(), FileError> {
        self.tell(match self.home.install(images, checkpoint, self.log.durable())? {
            Installed::Done => DiskDone::Installed,
            Installed::Full => DiskDone::HomeFull,
        });
        Ok(())
    }

    /// Reads the log as far as it is durable now. Nothing of it is freed in the meantime, as this thread does that.
    fn read_log(&self) -> Result<(), FileError> {
        let through = self.log.durable();
        let mut scan = Scan::<StoreRecords>::begin(self.files.clone(), self.log_id, 0)?;
        let (mut records, mut read) = (Vec::new(), 0);
        while read < through {
            let Some((position, record)) = scan.next_record()? else { return Err(scan.lacks(through)) };
            read = position;
            records.push((Position(position), record));
            if records.len() == RECORDS_AT_A_TIME {
                self.tell(DiskDone::Log { records: std::mem::take(&mut records), is_last: false });
            }
        }
        self.tell(DiskDone::Log { records, is_last: true });
        Ok(())
    }

    /// Frees what is before a position; if that frees a segment, it is flushed at once.
    fn free(&self, position: Position) {
        if self.log.free_before(position.0) {
            while self.flush(&mut |done| self.tell(done)) {}
        }
        self.tell(DiskDone::Freed { log_bytes_free: self.log.bytes_free() });
    }

    /// Makes segments until there is room for this many bytes, or as many as there may be.
    fn make_room(&self, bytes: u64) -> Result<(), FileError> {
        let mut pause = Pause::FIRST;
        loop {
            let planned = self.log.plan_segment_for(bytes);
            let Some(name) = planned else { break };
            match self.log.make_segment(&name)? {
                Made::Yes => {}
                // Nothing can continue before there is room, so nobody minds that the keeper waits.
                Made::NotNow if self.patience.wait(&mut pause) => {}
                Made::NoRoom | Made::NotNow => break,
            }
        }
        self.tell(DiskDone::Freed { log_bytes_free: self.log.bytes_free() });
        Ok(())
    }

    /// Makes a segment ahead of need.
    fn grow(&self, name: &str) -> Result<(), FileError> {
        if self.log.make_segment(name)? == Made::Yes {
            self.tell(DiskDone::Grown { log_bytes_free: self.log.bytes_free() });
        }
        Ok(())
    }
}
