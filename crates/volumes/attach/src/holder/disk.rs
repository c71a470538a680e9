//! A holder's disk: its log, and the threads that read it, free it, make it larger and try again what was stuck.

use super::end::End;
use super::machine::{Room, Whose, Work, WorkDone};
use super::record::{Entries, read_copy};
use crate::extents::BLOCK;
use log::{Durable, Log, Made};
use machine::Disk;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vfs::{Doing, FileError, Lock, Pause, contain};

/// How long to wait before making the log larger again when the disk has had no room for that.
const GROW_AGAIN: Duration = Duration::from_secs(1);

/// The disk of a holder.
pub(super) struct HolderDisk {
    shared: Arc<Shared>,
    reads: Option<Sender<(Whose, u64)>>,
    keeping: Option<Sender<Keeping>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    _lock: Lock,
}

/// How large a log should be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// The bytes to keep free, if the disk has room for twice as many.
    pub(super) free_wanted: u64,
    /// The most bytes that it may have.
    pub(super) bytes_max: u64,
}

/// The bytes that the file system of a directory has for files, if it says so.
pub(super) fn disk_free(dir: &Path) -> Option<u64> {
    let of = rustix::fs::statvfs(dir).ok()?;
    Some(of.f_bavail.saturating_mul(of.f_frsize))
}

/// The length of new segments of a log that can come to `reach` bytes. The log is freed by whole segments, so a few
/// long ones would leave a small disk no room for copies.
pub(super) fn segment_bytes(reach: u64) -> u64 {
    (reach / 32).clamp(1 << 20, 64 << 20).next_multiple_of(BLOCK as u64)
}

/// The keeper's tasks.
enum Keeping {
    Free(u64),
    /// There is less free than there should be.
    Grow,
    /// A flush waits for what it needs.
    Retry,
}

type OnDone = Box<dyn Fn(WorkDone) + Send + Sync>;
type OnFailed = Box<dyn Fn(&str) + Send + Sync>;

struct Shared {
    log: Log<Entries>,
    log_end: End,
    size: Size,
    /// The bytes of its files, of the longest one, and of the next one.
    bytes: AtomicU64,
    segment_max: AtomicU64,
    segment_next: AtomicU64,
    /// The bytes to keep free on the disk as it is.
    free_wanted: AtomicU64,
    /// Where its files are.
    dir: PathBuf,
    /// The log lacks room, and the disk has had none for another file.
    is_full: AtomicBool,
    /// Everything through this position is known to be durable.
    through: AtomicU64,
    done: OnceLock<OnDone>,
    failed: OnceLock<OnFailed>,
    end: Once,
}

impl HolderDisk {
    /// Starts the threads.
    pub(super) fn start(
        log: Log<Entries>,
        log_end: End,
        lock: Lock,
        size: Size,
        dir: &Path,
    ) -> Result<Self, FileError> {
        let (bytes, through) = (AtomicU64::new(log.bytes()), AtomicU64::new(log.durable()));
        let segment_max = AtomicU64::new(log.segment_bytes_max() as u64);
        let shared = Arc::new(Shared {
            log,
            log_end,
            size,
            bytes,
            segment_max,
            segment_next: AtomicU64::default(),
            free_wanted: AtomicU64::default(),
            dir: dir.to_owned(),
            is_full: AtomicBool::new(false),
            through,
            done: OnceLock::new(),
            failed: OnceLock::new(),
            end: Once::new(),
        });
        shared.fit();
        let (reads, to_read) = channel();
        let (keeping, to_keep) = channel();
        let disk = Self {
            shared: shared.clone(),
            reads: Some(reads),
            keeping: Some(keeping),
            threads: Mutex::default(),
            _lock: lock,
        };
        let reading = shared.clone();
        disk.spawn("holder-read", move || reading.run(|| reading.read_all(&to_read)))?;
        disk.spawn("holder-keep", move || shared.run(|| shared.keep_all(&to_keep)))?;
        Ok(disk)
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), FileError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = thread.doing("start a thread for", || name.into())?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// The room that there is.
    pub(super) fn room(&self) -> Room {
        self.shared.room(self.shared.log.bytes_free())
    }

    /// The bytes that its files have.
    pub(super) fn bytes(&self) -> u64 {
        self.shared.bytes.load(Relaxed)
    }

    /// Whether the log lacks room, and the file system has none for another file.
    pub(super) fn is_full(&self) -> bool {
        self.shared.is_full.load(Relaxed)
    }

    /// The bytes that they can come to, of those that they may have: the disk has no room for more, if it says so.
    pub(super) fn bytes_within_reach(&self) -> u64 {
        if self.is_full() { self.bytes() } else { self.shared.reach() }
    }

    /// Leaves a mark behind the last entry, so that a later damage to it cannot pass for a torn tail. Without this it
    /// is like a crash: nothing that was durable is lost.
    pub(super) fn mark(&self) {
        self.shared.log.mark();
        self.shared.log.flush(0, &mut |_| {});
    }

    /// Nothing is counted any more, for this reason.
    pub(super) fn end(&self, why: &str) {
        self.shared.end(why);
    }

    /// Whether nothing is counted any more.
    pub(super) fn has_ended(&self) -> bool {
        self.shared.log.has_failed()
    }

    fn keep(&self, work: Keeping) {
        // The keeper is gone only when it has panicked: then the disk has failed.
        let _ = self.keeping.as_ref().map(|keeping| keeping.send(work));
    }
}

impl Drop for HolderDisk {
    fn drop(&mut self) {
        (self.reads, self.keeping) = (None, None);
        let this_thread = std::thread::current().id();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        // The last handle may go in a callback, on one of these threads, which cannot wait for its own end.
        for thread in threads.drain(..).filter(|thread| thread.thread().id() != this_thread) {
            // One that panicked has ended the disk, and has nothing more to do.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for HolderDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HolderDisk").field("bytes", &self.shared.bytes).finish_non_exhaustive()
    }
}

impl Disk for HolderDisk {
    type Work = Work;
    type Done = WorkDone;

    fn submit(&self, work: Work) -> bool {
        match work {
            Work::Append(position, entry) => {
                self.shared.log.append(position, entry);
                return true;
            }
            Work::Read(whose, position) => {
                let _ = self.reads.as_ref().map(|reads| reads.send((whose, position)));
            }
            Work::Free(position, is_awaited) => {
                self.shared.log.free_with_next(position);
                // Not here: it waits for a flush that is under way.
                if is_awaited {
                    self.keep(Keeping::Free(position));
                }
            }
        }
        false
    }

    fn flush(&self, done: &mut dyn FnMut(WorkDone)) -> bool {
        let mut is_short = false;
        let more = self.shared.log.flush(0, &mut |result| is_short |= self.shared.report(result, done));
        if is_short {
            self.keep(Keeping::Grow);
        }
        if self.shared.log.take_newly_stuck() {
            self.keep(Keeping::Retry);
        }
        more
    }

    fn on_done(&self, done: OnDone) {
        assert!(self.shared.done.set(done).is_ok(), "registered once");
    }

    fn on_failed(&self, failed: OnFailed) {
        assert!(self.shared.failed.set(failed).is_ok(), "registered once");
    }
}

impl Shared {
    fn room(&self, free: u64) -> Room {
        let (total, next) = (self.bytes.load(Relaxed), self.segment_next.load(Relaxed));
        let may_grow = total + next <= self.size.bytes_max && !self.is_full.load(Relaxed);
        Room { free, total, may_grow, segment: self.segment_max.load(Relaxed) }
    }

    /// The bytes that its files can come to, by what they may have and the disk has.
    fn reach(&self) -> u64 {
        let bytes = self.bytes.load(Relaxed);
        let free = disk_free(&self.dir).unwrap_or(u64::MAX);
        bytes.saturating_add(free).min(self.size.bytes_max.max(bytes))
    }

    /// Fits the length of the next segment, and the room to keep free, to the disk as it is. Returns whether that
    /// segment may be made, and whether the disk has room for it.
    fn fit(&self) -> (bool, bool) {
        let reach = self.reach();
        let segment = segment_bytes(reach);
        self.log.set_segment_bytes(segment as usize);
        self.segment_next.store(segment, Relaxed);
        self.free_wanted.store(self.size.free_wanted.min(reach / 2), Relaxed);
        let has_room = disk_free(&self.dir).is_none_or(|free| free >= segment);
        (self.bytes.load(Relaxed) + segment <= self.size.bytes_max, has_room)
    }

    /// Reports a flush. Returns whether less is free than there should be.
    fn report(&self, result: Result<Durable, FileError>, done: &mut dyn FnMut(WorkDone)) -> bool {
        match result {
            Ok(Durable { through, bytes_free }) => {
                let room = self.room(bytes_free);
                // A flush without entries has freed something. Nobody would learn of it as one that is durable already.
                let is_new = self.through.fetch_max(through, Relaxed) < through;
                if is_new {
                    self.log_end.note(through);
                }
                done(if is_new { WorkDone::Durable(through, room) } else { WorkDone::Room(through, room) });
                bytes_free < self.free_wanted.load(Relaxed) && room.may_grow
            }
            Err(error) => {
                self.fail(&error);
                false
            }
        }
    }

    fn run(&self, work: impl FnOnce()) {
        let ran = contain(|| {
            work();
            Ok(())
        });
        if let Err(error) = ran {
            self.fail(&error);
        }
    }

    /// Everything ends: says so, once.
    fn fail(&self, error: &FileError) {
        self.end(&error.to_string());
    }

    fn end(&self, why: &str) {
        self.log.fail();
        if let Some(failed) = self.failed.get() {
            self.end.call_once(|| failed(why));
        }
    }

    fn tell(&self, done: WorkDone) {
        if let Some(tell) = self.done.get() {
            tell(done);
        }
    }

    fn read_all(&self, reads: &Receiver<(Whose, u64)>) {
        while let Ok((whose, position)) = reads.recv() {
            // A copy that cannot be read is none: another holder may have it, and who asks says what is missing.
            let entry = read_copy(&self.log, position).ok().flatten();
            self.tell(WorkDone::Read(whose, entry));
        }
    }

    fn keep_all(&self, work: &Receiver<Keeping>) {
        let (mut pause, mut retry_at, mut grow_at) = (Pause::FIRST, None, Some(Instant::now()));
        loop {
            if !self.log.is_stuck() {
                (pause, retry_at) = (Pause::FIRST, None);
            } else if retry_at.is_none() {
                retry_at = Some(Instant::now() + pause.grow());
            }
            let due = retry_at.into_iter().chain(grow_at).min();
            let received = match due {
                Some(due) => work.recv_timeout(due.saturating_duration_since(Instant::now())),
                None => work.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let now = Instant::now();
            match received {
                Err(RecvTimeoutError::Disconnected) => return,
                Ok(Keeping::Free(position)) => self.free(position),
                Ok(Keeping::Grow) => grow_at = grow_at.or(Some(now)),
                Ok(Keeping::Retry) | Err(RecvTimeoutError::Timeout) => {}
            }
            if retry_at.is_some_and(|at| at <= now) {
                retry_at = None;
                self.retry();
            }
            if grow_at.is_some_and(|at| at <= now) {
                match self.grow() {
                    Ok(is_enough) => grow_at = (!is_enough).then(|| now + GROW_AGAIN),
                    Err(error) => return self.fail(&error),
                }
            }
        }
    }

    /// Frees what is before a position; if that frees a segment, it is flushed at once, ahead of a flush that waits for
    /// one.
    fn free(&self, position: u64) {
        if self.log.free_before(position) {
            if self.log.is_stuck() {
                self.retry();
            }
            while self.flush() {}
        }
        self.tell_room();
    }

    /// With the position behind which there is so much: a flush that ends in the meantime may be notified of first.
    fn tell_room(&self) {
        let Durable { through, bytes_free } = self.log.stands();
        self.tell(WorkDone::Room(through, self.room(bytes_free)));
    }

    fn retry(&self) {
        let mut more = self.log.retry(&mut |result| self.tell_flushed(result));
        while more {
            more = self.flush();
        }
    }

    fn flush(&self) -> bool {
        self.log.flush(0, &mut |result| self.tell_flushed(result))
    }

    fn tell_flushed(&self, result: Result<Durable, FileError>) {
        let _is_short = self.report(result, &mut |done| self.tell(done));
    }

    /// Makes segments until enough is free, or the log may have no more. Returns whether that was possible on this
    /// disk.
    fn grow(&self) -> Result<bool, FileError> {
        loop {
            let (may_grow, has_room) = self.fit();
            let plan = || self.log.plan_segment_for(self.free_wanted.load(Relaxed));
            let Some(name) = may_grow.then(plan).flatten() else {
                // The log has room, so a full disk does no harm, unless the next copies take that room again.
                let is_full = self.is_full.load(Relaxed) && !has_room && !self.has_plenty();
                self.has_disk_full(is_full);
                return Ok(!is_full);
            };
            let made = if has_room { self.log.make_segment(&name)? } else { Made::NoRoom };
            if made != Made::Yes {
                self.has_disk_full(made == Made::NoRoom);
                // The next flush would free the entries that nobody needs, and an idle log has none.
                self.free(0);
                return Ok(false);
            }
            self.has_disk_full(false);
            self.bytes.store(self.log.bytes(), Relaxed);
            self.segment_max.store(self.log.segment_bytes_max() as u64, Relaxed);
            self.tell_room();
        }
    }

    /// Whether the log has two segments more free than it needs.
    fn has_plenty(&self) -> bool {
        self.log.bytes_free() >= self.free_wanted.load(Relaxed) + 2 * self.segment_max.load(Relaxed)
    }

    /// The disk is full, or it has room again: a log that cannot become larger has to make do with what it has.
    fn has_disk_full(&self, is_full: bool) {
        if is_full {
            self.log.disk_is_full();
        }
        if self.is_full.swap(is_full, Relaxed) != is_full {
            self.tell_room();
        }
    }
}
