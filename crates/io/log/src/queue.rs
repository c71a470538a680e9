//! Group commit: records queue up until a thread leads a flush of all that are there.
//!
//! ```text
//!   append --> [ queue ] --whoever flushes first leads--> ring --> durable: the leader reports it
//!                  ^                                        |
//!                  +---- what comes in the meantime waits         +--lacks what passes, or room--> stuck, until retried
//! ```
//! 1. One thread leads at a time, and it reports what has become durable before the next one can lead: reports come in
//!    the order of the log.
//! 2. After a failure, or a panic of the leader, nothing is written any more. The ring, which the panic may have left
//!    half changed, is locked for good by then.

use crate::places::Places;
use crate::records::Records;
use crate::ring::{Batch, Limits, Ring};
use crate::scan::Scan;
use crate::segment::{LogId, Segment};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vfs::{Doing, FileError, Files, Verdict, contain};

/// The records that a flush has made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durable {
    /// The last record that is.
    pub through: u64,
    /// Room for records, in bytes.
    pub bytes_free: u64,
}

impl Durable {
    fn of<R: Records>(ring: &Ring<R>) -> Self {
        Self { through: ring.durable(), bytes_free: ring.bytes_free() }
    }
}

/// Whether a segment was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// It is part of the ring.
    Yes,
    /// The disk has no room for it.
    NoRoom,
    /// The system lacks something else.
    NotNow,
}

/// The flush of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flush {
    None,
    UnderWay,
    /// It waits for what it needs, until it is retried: what comes in the meantime waits behind it.
    Stuck,
}

/// The records that wait to be flushed.
#[derive(Debug)]
struct Queue<T> {
    records: Vec<(u64, T)>,
    needed: u64,
    /// A mark is wanted even if there are no records.
    mark: bool,
    flush: Flush,
    /// A flush is stuck, and nobody has asked for that yet.
    newly_stuck: bool,
    /// A write has failed: nothing is done any more.
    failed: bool,
}

impl<T> Queue<T> {
    fn is_empty(&self) -> bool {
        self.records.is_empty() && !self.mark
    }
}

/// A log that is written.
#[derive(Debug)]
pub struct Log<R: Records> {
    files: Arc<dyn Files>,
    /// The length of segments that are made from now on.
    segment_bytes: AtomicUsize,
    queue: Mutex<Queue<R::Record>>,
    ring: Mutex<Ring<R>>,
    places: Option<Arc<Places>>,
}

impl<R: Records> Log<R> {
    /// Makes the first segments of a new log.
    pub fn create(files: &dyn Files, log: LogId, limits: Limits, segments: usize) -> Result<(), FileError> {
        Ring::<R>::create(files, log, limits, segments)
    }

    /// Goes on where a finished scan has found the tail. `incarnation` is higher than that of every process before, and
    /// is durable elsewhere by now.
    pub fn resume(
        files: Arc<dyn Files>,
        log: LogId,
        limits: Limits,
        incarnation: u32,
        scan: &Scan<R>,
    ) -> Result<Self, FileError> {
        let ring = Ring::resume(files.clone(), log, limits, incarnation, scan)?;
        let queue = Queue {
            records: Vec::new(),
            needed: ring.needed(),
            mark: false,
            flush: Flush::None,
            newly_stuck: false,
            failed: false,
        };
        let places = ring.places();
        Ok(Self {
            files,
            segment_bytes: AtomicUsize::new(limits.segment_bytes),
            queue: Mutex::new(queue),
            ring: Mutex::new(ring),
            places,
        })
    }

    /// Queues a record, at the position behind the last one. Where nothing is written any more it is dropped.
    pub fn append(&self, position: u64, record: R::Record) {
        let mut queue = self.queue();
        if !queue.failed {
            queue.records.push((position, record));
        }
    }

    /// The next flush writes a mark if there are no records: behind it, damage to the last one cannot pass for a torn
    /// tail.
    pub fn mark(&self) {
        self.queue().mark = true;
    }

    /// The next flush makes known that no record before `position` is needed. Returns whether that frees a segment:
    /// then it is worth a flush, which writes a mark if nothing is queued, for the thread that waits for room may have
    /// nothing to append.
    pub fn free_before(&self, position: u64) -> bool {
        self.free_with_next(position);
        let needed = self.queue().needed;
        let frees = self.ring().is_unneeded(needed);
        self.queue().mark |= frees;
        frees
    }

    /// The same without a word on whether that frees anything: it is known with the next flush, whose end this does not
    /// wait for.
    pub fn free_with_next(&self, position: u64) {
        let mut queue = self.queue();
        queue.needed = queue.needed.max(position);
    }

    /// Leads one flush, if there is something to flush and nobody else does, and reports what became of it, unless it
    /// is stuck. Returns whether more was queued at its end.
    ///
    /// `witness` is a number that only grows: [`Scan::witness`] gives the highest that became durable. A store says
    /// there how many installs its page home has had, so that a home that is older than the log is found out.
    pub fn flush(&self, witness: u32, report: &mut dyn FnMut(Result<Durable, FileError>)) -> bool {
        let Some(batch) = self.take_batch(witness) else { return false };
        self.lead(|ring| ring.flush(batch), report)
    }

    /// Tries a flush again that is stuck; says whether more was queued at its end. Records that are no longer needed
    /// are freed first: it may be what the flush waits for.
    pub fn retry(&self, report: &mut dyn FnMut(Result<Durable, FileError>)) -> bool {
        let needed = {
            let mut queue = self.queue();
            if queue.flush != Flush::Stuck || queue.failed {
                return false;
            }
            (queue.flush, queue.mark) = (Flush::UnderWay, false);
            queue.needed
        };
        let go_on = |ring: &mut Ring<R>| {
            ring.free_ahead(needed)?;
            ring.go_on()
        };
        self.lead(go_on, report)
    }

    fn lead(
        &self,
        flush: impl FnOnce(&mut Ring<R>) -> Result<bool, FileError>,
        report: &mut dyn FnMut(Result<Durable, FileError>),
    ) -> bool {
        let result = contain(|| {
            let mut ring = self.ring();
            let is_done = flush(&mut ring)?;
            Ok(is_done.then(|| Durable::of(&ring)))
        });
        let is_stuck = matches!(result, Ok(None));
        if result.is_err() {
            self.fail();
        }
        if let Some(result) = result.transpose() {
            report(result);
        }
        let mut queue = self.queue();
        queue.flush = if is_stuck { Flush::Stuck } else { Flush::None };
        queue.newly_stuck = is_stuck;
        !queue.failed && !is_stuck && !queue.is_empty()
    }

    fn take_batch(&self, witness: u32) -> Option<Batch<R::Record>> {
        let mut queue = self.queue();
        if queue.flush != Flush::None || queue.failed || queue.is_empty() {
            return None;
        }
        (queue.flush, queue.mark) = (Flush::UnderWay, false);
        Some(Batch { records: std::mem::take(&mut queue.records), needed: queue.needed, witness })
    }

    /// Fills `into` with bytes of a durable record's body, from the `from`th on. Returns whether they are the record's:
    /// not if it was no longer needed before they were all read. Waits for no flush.
    ///
    /// Nothing is checked that the record's own bytes do not say: a frame's checksum is of more than is read here.
    ///
    /// # Panics
    /// If records of this kind are not read back ([`Records::READ_BACK`]).
    pub fn read(&self, position: u64, from: usize, into: &mut [u8]) -> Result<bool, FileError> {
        self.places.as_ref().expect("its records are read back").read(position, from, into)
    }

    /// The same if nobody has to wait for a device; says whether it was read.
    ///
    /// # Panics
    /// See [`Log::read`].
    pub fn read_at_hand(&self, position: u64, from: usize, into: &mut [u8]) -> Result<bool, FileError> {
        self.places.as_ref().expect("its records are read back").read_at_hand(position, from, into)
    }

    /// Whether a flush waits to be retried.
    pub fn is_stuck(&self) -> bool {
        let queue = self.queue();
        queue.flush == Flush::Stuck && !queue.failed
    }

    /// Whether a flush waits to be retried, and nobody has been told so by this yet.
    pub fn take_newly_stuck(&self) -> bool {
        std::mem::take(&mut self.queue().newly_stuck)
    }

    /// Nothing is written any more.
    pub fn fail(&self) {
        let mut queue = self.queue();
        queue.failed = true;
        queue.records = Vec::new();
    }

    /// Whether nothing is written any more.
    pub fn has_failed(&self) -> bool {
        self.queue().failed
    }

    /// The last record that is durable.
    pub fn durable(&self) -> u64 {
        self.ring().durable()
    }

    /// The last record that is durable, and the room that there is behind it.
    pub fn stands(&self) -> Durable {
        Durable::of(&self.ring())
    }

    /// Room for records, in bytes.
    pub fn bytes_free(&self) -> u64 {
        self.ring().bytes_free()
    }

    /// The bytes of all of its segments.
    pub fn bytes(&self) -> u64 {
        self.ring().bytes()
    }

    /// Whether writes pass by the system's page cache.
    pub fn is_direct(&self) -> bool {
        self.ring().is_direct()
    }

    /// The name of a segment that should be made now, so that no flush has to wait for it. It is asked for once.
    pub fn plan_segment(&self) -> Option<String> {
        self.ring().plan_segment()
    }

    /// The name of a segment that should be made so that there is room for this many bytes.
    pub fn plan_segment_for(&self, bytes: u64) -> Option<String> {
        self.ring().plan_segment_for(bytes)
    }

    /// Makes a segment that was planned. That it cannot be had is no failure: the log stays as large as it is.
    pub fn make_segment(&self, name: &str) -> Result<Made, FileError> {
        match Segment::create(&*self.files, name, self.segment_bytes.load(Relaxed)) {
            Ok(segment) => {
                self.ring().add(segment);
                Ok(Made::Yes)
            }
            Err(refused) => match refused.verdict() {
                Verdict::Passes => Ok(Made::NotNow),
                Verdict::NoRoom => {
                    self.ring().has_full_disk();
                    Ok(Made::NoRoom)
                }
                Verdict::Fails => Err(refused).doing("create", || self.files.path(name)),
            },
        }
    }

    /// Sets the length of segments that are made from now on: whole blocks, less than 4 GiB.
    pub fn set_segment_bytes(&self, bytes: usize) {
        self.segment_bytes.store(bytes, Relaxed);
        self.ring().set_segment_bytes(bytes);
    }

    /// The length of the longest segment, in bytes.
    pub fn segment_bytes_max(&self) -> usize {
        self.ring().segment_bytes_max()
    }

    /// Records that the disk has no room for another segment: until there is one more, the last free one is a reserve.
    pub fn disk_is_full(&self) {
        self.ring().has_full_disk();
    }

    fn queue(&self) -> MutexGuard<'_, Queue<R::Record>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After a panic of the thread that had the ring, no thread has it again: that is a panic, too, and contained like
    /// the first.
    fn ring(&self) -> MutexGuard<'_, Ring<R>> {
        self.ring.lock().expect("no thread has panicked with the log")
    }
}
