//! A store's disk while it runs: the queue of appends that whoever flushes makes durable, and the threads that read and
//! install pages.

use crate::errno::Verdict;
use crate::error::{DiskError, Doing, contain};
use crate::files::{Files, Lock};
use crate::home::{Home, Installed};
use crate::log::segment::Segment;
use crate::log::{Batch, Ring};
use crate::open::Config;
use crate::patience::{Patience, Pause};
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use store::{Checkpoint, DiskDone, DiskWork, HomeImage, Position};
use types::PageId;

/// The disk of one store: [`node::Disk`] over a directory.
///
/// Three kinds of threads meet here. Whoever calls [`node::Disk::flush`] leads one flush of the queued appends. The
/// readers answer reads. The keeper installs pages, frees the log's segments and makes new ones; it flushes, too, when
/// a segment becomes free and nobody else has anything to write.
///
/// A panic of any of them ends the disk like a failed write. The ring, which it may have left half changed, is locked for
/// good by then.
pub struct RealDisk {
    shared: Arc<Shared>,
    reads: Option<Sender<Vec<PageId>>>,
    keeping: Option<Sender<Keeping>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    _lock: Lock,
}

/// What the keeper does.
enum Keeping {
    Install(Vec<HomeImage>, Checkpoint),
    Free(Position),
    MakeRoom(u64),
    Grow(String),
    /// A flush waits for what it needs.
    Retry,
}

/// Who hears of the work that the disk's own threads have done.
type OnDone = Box<dyn Fn(DiskDone) + Send + Sync>;

/// Who hears that the disk has failed.
type OnFailed = Box<dyn Fn(&str) + Send + Sync>;

/// What all threads share.
struct Shared {
    files: Arc<dyn Files>,
    config: Config,
    queue: Mutex<Queue>,
    ring: Mutex<Ring>,
    home: Home,
    patience: Arc<Patience>,
    done: OnceLock<OnDone>,
    failed: OnceLock<OnFailed>,
    end: Once,
}

/// What waits to be flushed.
#[derive(Default)]
struct Queue {
    batch: Batch,
    /// A mark is wanted even if there are no records.
    mark: bool,
    flush: Flush,
    /// A flush is stuck, and the keeper has not been told yet.
    retry: bool,
    /// A write has failed: nothing is done any more.
    failed: bool,
}

/// The flush of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Flush {
    #[default]
    None,
    UnderWay,
    /// It waits for what it needs, and the keeper tries it again: what comes meanwhile waits behind it.
    Stuck,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.batch.records.is_empty() && !self.mark
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RealDisk {
    /// Starts the threads over what was opened.
    pub(crate) fn start(
        files: Arc<dyn Files>,
        config: Config,
        ring: Ring,
        home: Home,
        dir_lock: Lock,
    ) -> Result<Self, DiskError> {
        let queue = Queue { batch: Batch { needed: ring.needed(), ..Batch::default() }, ..Queue::default() };
        let readers = config.readers;
        let (queue, ring) = (Mutex::new(queue), Mutex::new(ring));
        let (done, failed) = (OnceLock::new(), OnceLock::new());
        let patience = home.patience();
        patience.run(true);
        let shared = Arc::new(Shared { files, config, queue, ring, home, patience, done, failed, end: Once::new() });
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
        self.shared.ring().is_direct()
    }

    /// Ends the threads after what was submitted, and leaves a mark behind the last record, so that a later damage to it
    /// cannot pass for a torn tail. To drop a disk without this is like a crash: nothing that was durable is lost.
    pub fn close(mut self) -> Result<(), DiskError> {
        self.end_threads();
        if lock(&self.shared.queue).failed {
            return Ok(());
        }
        match self.shared.home.close(self.shared.durable()) {
            // What is not home is in the log.
            Err(error) if error.is_full() => {}
            closed => closed?,
        }
        lock(&self.shared.queue).mark = true;
        let mut error = Ok(());
        self.shared.flush_once(&mut |_| {}, &mut |e| error = Err(e));
        error
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
        if let Some(name) = self.shared.ring().plan_segment() {
            self.keep(Keeping::Grow(name));
        }
    }

    fn keep(&self, work: Keeping) {
        // The keeper is gone only when it has panicked: then the disk has failed.
        let _ = self.keeping.as_ref().map(|keeping| keeping.send(work));
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

impl node::Disk for RealDisk {
    fn submit(&self, work: DiskWork) {
        match work {
            DiskWork::Append(position, record) => lock(&self.shared.queue).batch.records.push((position, record)),
            DiskWork::Read(pages) => {
                let _ = self.reads.as_ref().map(|reads| reads.send(pages));
            }
            DiskWork::Install(images, checkpoint) => self.keep(Keeping::Install(images, checkpoint)),
            DiskWork::Free(position) => self.keep(Keeping::Free(position)),
            DiskWork::MakeRoom(bytes) => self.keep(Keeping::MakeRoom(bytes)),
        }
    }

    fn flush(&self, done: &mut dyn FnMut(DiskDone)) -> bool {
        let more = self.shared.flush_once(done, &mut |error| self.shared.fail(&error));
        self.grow_if_wanted();
        if std::mem::take(&mut lock(&self.shared.queue).retry) {
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
    /// Leads one flush, if there is something to flush and nobody else does. Says whether more was queued at its end.
    fn flush_once(&self, done: &mut dyn FnMut(DiskDone), failed: &mut dyn FnMut(DiskError)) -> bool {
        let Some(batch) = self.take_batch() else { return false };
        self.lead(|ring| ring.flush(batch), done, failed)
    }

    /// Tries a flush again that waits; says whether more was queued at its end.
    fn retry_flush(&self) -> bool {
        {
            let mut queue = lock(&self.queue);
            if queue.flush != Flush::Stuck || queue.failed {
                return false;
            }
            queue.flush = Flush::UnderWay;
        }
        self.lead(Ring::go_on, &mut |done| self.tell(done), &mut |error| self.fail(&error))
    }

    fn lead(
        &self,
        flush: impl FnOnce(&mut Ring) -> Result<bool, DiskError>,
        done: &mut dyn FnMut(DiskDone),
        failed: &mut dyn FnMut(DiskError),
    ) -> bool {
        let result = contain(|| {
            let mut ring = self.ring();
            Ok((flush(&mut ring)?, ring.durable(), ring.bytes_free()))
        });
        let is_stuck = matches!(result, Ok((false, ..)));
        match result {
            Ok((true, through, log_bytes_free)) => done(DiskDone::Durable { through, log_bytes_free }),
            Ok(_) => {}
            Err(error) => {
                lock(&self.queue).failed = true;
                failed(error);
            }
        }
        let mut queue = lock(&self.queue);
        queue.flush = if is_stuck { Flush::Stuck } else { Flush::None };
        queue.retry = is_stuck;
        !queue.failed && !is_stuck && !queue.is_empty()
    }

    fn take_batch(&self) -> Option<Batch> {
        let mut queue = lock(&self.queue);
        if queue.flush != Flush::None || queue.failed || queue.is_empty() {
            return None;
        }
        (queue.flush, queue.mark) = (Flush::UnderWay, false);
        let needed = queue.batch.needed;
        Some(Batch { records: std::mem::take(&mut queue.batch.records), needed, installs: self.home.installs() })
    }

    /// Does the work of one of the disk's own threads.
    fn run(&self, work: impl FnOnce()) {
        if let Err(error) = contain(|| {
            work();
            Ok(())
        }) {
            self.fail(&error);
        }
    }

    /// The log. After a panic of whoever had it, nobody has it again: that is a panic, too, and contained like the first.
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().expect("no thread has panicked with the log")
    }

    /// Everything ends: says so, once.
    fn fail(&self, error: &DiskError) {
        lock(&self.queue).failed = true;
        if let Some(failed) = self.failed.get() {
            self.end.call_once(|| failed(&error.to_string()));
        }
    }

    fn has_failed(&self) -> bool {
        lock(&self.queue).failed
    }

    fn tell(&self, done: DiskDone) {
        if let Some(tell) = self.done.get() {
            tell(done);
        }
    }

    fn durable(&self) -> u64 {
        self.ring().durable().0
    }

    fn read_all(&self, reads: &Mutex<Receiver<Vec<PageId>>>) {
        loop {
            let received = lock(reads).recv();
            let Ok(pages) = received else { return };
            if self.has_failed() {
                continue;
            }
            match self.home.read(&pages) {
                Ok(found) => self.tell(DiskDone::Pages(found)),
                Err(error) => self.fail(&error),
            }
        }
    }

    fn keep_all(&self, work: &Receiver<Keeping>) {
        let mut pause = Pause::FIRST;
        let mut retry_at = None;
        loop {
            let is_stuck = lock(&self.queue).flush == Flush::Stuck;
            if !is_stuck {
                (pause, retry_at) = (Pause::FIRST, None);
            }
            let until = is_stuck.then(|| *retry_at.get_or_insert_with(|| Instant::now() + pause.next()));
            let received = match until {
                Some(until) => work.recv_timeout(until.saturating_duration_since(Instant::now())),
                None => work.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(work) => self.keep(work),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    retry_at = None;
                    let mut more = self.retry_flush();
                    while more {
                        more = self.flush_once(&mut |done| self.tell(done), &mut |error| self.fail(&error));
                    }
                }
            }
        }
    }

    fn keep(&self, work: Keeping) {
        if !self.has_failed() {
            let result = match work {
                Keeping::Install(images, checkpoint) => self.install(&images, checkpoint),
                Keeping::Free(position) => self.free(position),
                Keeping::MakeRoom(bytes) => self.make_room(bytes),
                Keeping::Grow(name) => self.grow(&name),
                Keeping::Retry => Ok(()),
            };
            if let Err(error) = result {
                self.fail(&error);
            }
        }
    }

    fn install(&self, images: &[HomeImage], checkpoint: Checkpoint) -> Result<(), DiskError> {
        self.tell(match self.home.install(images, checkpoint, self.durable())? {
            Installed::Done => DiskDone::Installed,
            Installed::Full => DiskDone::HomeFull,
        });
        Ok(())
    }

    /// The next flush makes known that nothing before `position` is needed. If that frees a segment and nothing is
    /// queued, a mark is flushed for it: whoever waits for room may have nothing to append before there is some.
    fn free(&self, position: Position) -> Result<(), DiskError> {
        let frees = self.ring().is_unneeded(position.0);
        {
            let mut queue = lock(&self.queue);
            queue.batch.needed = queue.batch.needed.max(position.0);
            queue.mark |= frees;
        }
        let mut result = Ok(());
        if frees {
            while self.flush_once(&mut |done| self.tell(done), &mut |error| result = Err(error)) {}
        }
        let log_bytes_free = self.ring().bytes_free();
        self.tell(DiskDone::Freed { log_bytes_free });
        result
    }

    /// Makes segments until there is room for so many bytes, or as many as there may be.
    fn make_room(&self, bytes: u64) -> Result<(), DiskError> {
        let mut pause = Pause::FIRST;
        loop {
            let planned = self.ring().plan_segment_for(bytes);
            let Some(name) = planned else { break };
            match self.make_segment(&name)? {
                Made::Yes => {}
                // Nothing can go on before there is room, so nobody minds that the keeper waits.
                Made::NotNow if self.patience.wait(&mut pause) => {}
                Made::NoRoom | Made::NotNow => break,
            }
        }
        let log_bytes_free = self.ring().bytes_free();
        self.tell(DiskDone::Freed { log_bytes_free });
        Ok(())
    }

    /// Makes a segment ahead of need.
    fn grow(&self, name: &str) -> Result<(), DiskError> {
        if self.make_segment(name)? == Made::Yes {
            let log_bytes_free = self.ring().bytes_free();
            self.tell(DiskDone::Grown { log_bytes_free });
        }
        Ok(())
    }

    /// Makes a segment. That it cannot be had is no failure here: the log stays as large as it is.
    fn make_segment(&self, name: &str) -> Result<Made, DiskError> {
        match Segment::create(&*self.files, name, self.config.segment_bytes) {
            Ok(segment) => {
                self.ring().add(segment);
                Ok(Made::Yes)
            }
            Err(refused) => match refused.verdict() {
                Verdict::Passes => Ok(Made::NotNow),
                Verdict::NoRoom => Ok(Made::NoRoom),
                Verdict::Fails => Err(refused).doing("create", || self.files.path(name)),
            },
        }
    }
}

/// Whether a segment was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Yes,
    NoRoom,
    /// The system lacks something else.
    NotNow,
}
