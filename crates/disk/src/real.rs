//! A store's disk while it runs: the queue of appends that whoever flushes makes durable, and the threads that read and
//! install pages.

use crate::error::{DiskError, Doing};
use crate::files::{Files, Lock};
use crate::home::{Home, Installed};
use crate::open::Config;
use crate::safe::segment::Segment;
use crate::safe::{Batch, Ring};
use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::thread::JoinHandle;
use store::{Checkpoint, DiskDone, DiskWork, HomeImage, Position};
use types::PageId;

/// The disk of one store: [`node::Disk`] over a directory.
///
/// Three kinds of threads meet here. Whoever calls [`node::Disk::flush`] leads one flush of the queued appends. The
/// readers answer reads. The keeper installs pages, frees the safe's segments and makes new ones; it flushes, too, when
/// a segment becomes free and nobody else has anything to write.
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
    flushing: bool,
    /// A write has failed: nothing is done any more.
    failed: bool,
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
        let shared = Arc::new(Shared { files, config, queue, ring, home, done, failed, end: Once::new() });
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
            disk.spawn("disk-read", move || shared.read_all(&to_read))?;
        }
        disk.spawn("disk-keep", move || shared.keep_all(&to_keep))?;
        disk.grow_if_wanted();
        Ok(disk)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), DiskError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = thread.doing("start a thread for", || self.shared.files.path(""))?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Whether the safe is written past the system's page cache.
    pub fn is_direct(&self) -> bool {
        lock(&self.shared.ring).is_direct()
    }

    /// Ends the threads after what was submitted, and leaves a mark behind the last record, so that a later damage to it
    /// cannot pass for a torn tail. To drop a disk without this is like a crash: nothing that was durable is lost.
    pub fn close(mut self) -> Result<(), DiskError> {
        self.end_threads();
        if lock(&self.shared.queue).failed {
            return Ok(());
        }
        self.shared.home.close(self.shared.durable())?;
        lock(&self.shared.queue).mark = true;
        let mut error = Ok(());
        self.shared.flush_once(&mut |_| {}, &mut |e| error = Err(e));
        error
    }

    fn end_threads(&mut self) {
        (self.reads, self.keeping) = (None, None);
        let this_thread = std::thread::current().id();
        // The last handle may go in a callback, on one of these threads, which cannot wait for its own end.
        for thread in lock(&self.threads).drain(..).filter(|thread| thread.thread().id() != this_thread) {
            // A thread that panicked has said so, and has nothing more to do.
            let _ = thread.join();
        }
    }

    fn grow_if_wanted(&self) {
        if let Some(name) = lock(&self.shared.ring).plan_segment() {
            self.keep(Keeping::Grow(name));
        }
    }

    fn keep(&self, work: Keeping) {
        // The keeper is gone only when a panic took it away; then nothing more is installed, as after a failure.
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
        let mut ring = lock(&self.ring);
        let result = ring.flush(&batch);
        let (through, safe_bytes_free) = (ring.durable(), ring.bytes_free());
        drop(ring);
        match result {
            Ok(()) => done(DiskDone::Durable { through, safe_bytes_free }),
            Err(error) => {
                lock(&self.queue).failed = true;
                failed(error);
            }
        }
        let mut queue = lock(&self.queue);
        queue.flushing = false;
        !queue.failed && !queue.is_empty()
    }

    fn take_batch(&self) -> Option<Batch> {
        let mut queue = lock(&self.queue);
        if queue.flushing || queue.failed || queue.is_empty() {
            return None;
        }
        (queue.flushing, queue.mark) = (true, false);
        let needed = queue.batch.needed;
        Some(Batch { records: std::mem::take(&mut queue.batch.records), needed, installs: self.home.installs() })
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
        lock(&self.ring).durable().0
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
        while let Ok(work) = work.recv() {
            if self.has_failed() {
                continue;
            }
            let result = match work {
                Keeping::Install(images, checkpoint) => self.install(&images, checkpoint),
                Keeping::Free(position) => self.free(position),
                Keeping::MakeRoom(bytes) => self.make_room(bytes),
                Keeping::Grow(name) => self.grow(&name),
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
        let frees = lock(&self.ring).is_unneeded(position.0);
        {
            let mut queue = lock(&self.queue);
            queue.batch.needed = queue.batch.needed.max(position.0);
            queue.mark |= frees;
        }
        let mut result = Ok(());
        if frees {
            while self.flush_once(&mut |done| self.tell(done), &mut |error| result = Err(error)) {}
        }
        let safe_bytes_free = lock(&self.ring).bytes_free();
        self.tell(DiskDone::Freed { safe_bytes_free });
        result
    }

    /// Makes segments until there is room for so many bytes, or as many as there may be.
    fn make_room(&self, bytes: u64) -> Result<(), DiskError> {
        loop {
            let planned = lock(&self.ring).plan_segment_for(bytes);
            let Some(name) = planned else { break };
            if !self.make_segment(&name)? {
                break;
            }
        }
        let safe_bytes_free = lock(&self.ring).bytes_free();
        self.tell(DiskDone::Freed { safe_bytes_free });
        Ok(())
    }

    /// Makes a segment ahead of need.
    fn grow(&self, name: &str) -> Result<(), DiskError> {
        if self.make_segment(name)? {
            let safe_bytes_free = lock(&self.ring).bytes_free();
            self.tell(DiskDone::Grown { safe_bytes_free });
        }
        Ok(())
    }

    /// Makes a segment; says whether the disk had room for it. A full disk is no failure here: the safe stays as large as
    /// it is.
    fn make_segment(&self, name: &str) -> Result<bool, DiskError> {
        match Segment::create(&*self.files, name, self.config.segment_bytes) {
            Ok(segment) => {
                lock(&self.ring).add(segment);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(false),
            Err(error) => Err(error).doing("create", || self.files.path(name)),
        }
    }
}
