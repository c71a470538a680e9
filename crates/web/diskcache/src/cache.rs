//! The cache as its users have it.

mod write;

use crate::area::{Area, Pin, Place, RECORD_BYTES_MAX, ReadError};
use crate::directory::{self, Marker, OpenError, RECORDS};
use crate::format::Label;
use crate::index::{Held, Index};
use crate::record::{Opened, Record, Source};
use crate::recover::recover;
use crate::removals::{Position, Removals};
use crate::writer::OpenSegment;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::mem;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;
use vfs::{Files, How, Lock};

/// Segments of a cache of the usual size, and the largest usual one.
const SEGMENTS: u64 = 64;
const SEGMENT_BYTES_USUAL: u64 = 32 << 20;

/// Segments that there are at least: one is written to, one begun again.
const SEGMENTS_MIN: u64 = 4;

/// The least room beside the largest content in a segment: for key and head.
const FRONT_BYTES: u64 = 128 * 1024;

/// The settings of a cache.
#[derive(Clone, Debug)]
pub struct Config {
    /// The most that it takes on disk, in bytes.
    pub bytes: u64,
    /// The largest content.
    pub content_bytes_max: u64,
    /// The most that waits in memory to be written, in bytes.
    pub unwritten_bytes_max: u64,
    /// The thing that it is a cache of, in one line. Records of another thing are dropped at a start.
    pub of: String,
}

impl Config {
    /// The largest content that there is room for in a cache of this many bytes.
    pub fn content_bytes_max_of(bytes: u64) -> u64 {
        (bytes / SEGMENTS_MIN / 4096 * 4096).saturating_sub(FRONT_BYTES)
    }

    /// The bytes of a segment, in a cache that keeps those that it has if they do.
    fn segment_bytes(&self, has: Option<u64>) -> Result<u64, OpenError> {
        let least = self.content_bytes_max.saturating_add(FRONT_BYTES).next_multiple_of(4096);
        let needed = least.saturating_mul(SEGMENTS_MIN);
        if self.bytes < needed {
            return Err(OpenError::TooSmall { bytes: self.bytes, needed });
        }
        let does = |bytes: &u64| *bytes >= least && self.bytes / bytes >= SEGMENTS_MIN && bytes.is_multiple_of(4096);
        let usual = (self.bytes / SEGMENTS).min(SEGMENT_BYTES_USUAL) / 4096 * 4096;
        Ok(has.filter(does).unwrap_or(usual.max(least)))
    }
}

/// Why a record that was found is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It has left in the meantime.
    Gone,
    /// The disk has not given it back. It is not tried again.
    Unreadable,
}

/// The trouble with a disk. It is told once; of writes again when all segments were written in turn in the meantime.
#[derive(Debug)]
pub enum Trouble {
    /// It is full: less is kept than might be.
    Full,
    /// It takes no writes.
    Write(io::Error),
    /// It does not give back what was written.
    Read(ReadError),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("it is full, and keeps less than it may: make room"),
            Self::Write(error) => write!(f, "it takes no writes: {error}"),
            Self::Read(error) => error.fmt(f),
        }
    }
}

/// How much is in a cache, and what has happened since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Records.
    pub records: usize,
    /// The bytes that they take on disk.
    pub bytes: u64,
    /// Records that were written, those among them that were written again.
    pub written: u64,
    /// Records that were to be written, and were not.
    pub not_written: u64,
    /// Records that were not read back.
    pub unreadable: u64,
}

#[derive(Debug, Default)]
struct Counters {
    written: AtomicU64,
    not_written: AtomicU64,
    unreadable: AtomicU64,
}

/// The troubles that were told.
#[derive(Debug, Default)]
struct Told {
    write: AtomicBool,
    read: AtomicBool,
}

/// Records that have left, to be dropped behind the locks of the one who has them.
pub type Displaced<C> = Vec<Arc<Held<C>>>;

/// Where trouble is notified of.
type Report = Box<dyn Fn(Trouble) + Send + Sync>;

/// The part that users and writer share.
#[derive(Debug)]
struct State<C> {
    index: Index<C>,
    area: Arc<Area>,
    /// Records that are listed and not written, by the addresses of their entries.
    unwritten: HashMap<usize, Arc<Record>>,
    unwritten_bytes: u64,
    /// In the order in which they are written. An entry's address is another's only when it is gone from here.
    queue: VecDeque<Weak<Held<C>>>,
    /// The end of everything that was ever written.
    position: Position,
    /// The next one.
    generation: u64,
    /// Whether segments are begun again: for a record that comes others leave.
    is_full: bool,
    is_off: bool,
    is_stopping: bool,
}

impl<C> State<C> {
    fn add_unwritten(&mut self, held: &Arc<Held<C>>, record: Arc<Record>) {
        self.unwritten_bytes += record.memory();
        self.unwritten.insert(Arc::as_ptr(held).addr(), record);
    }

    fn take_unwritten(&mut self, held: &Arc<Held<C>>) -> Option<Arc<Record>> {
        let record = self.unwritten.remove(&Arc::as_ptr(held).addr())?;
        self.unwritten_bytes -= record.memory();
        Some(record)
    }

    /// Forgets what was to be written of entries that have left.
    fn forget(&mut self, gone: &[Arc<Held<C>>]) {
        for held in gone {
            self.take_unwritten(held);
        }
    }
}

/// The writer's part.
#[derive(Debug)]
struct Writer {
    open: Option<OpenSegment>,
    /// The segment that was begun last.
    last: usize,
    paused_until: Option<Instant>,
    /// As many segments have been begun since a write was refused.
    begun_since_refusal: usize,
}

/// A cache in a directory.
pub struct DiskCache<C> {
    files: Arc<dyn Files>,
    _lock: Lock,
    unwritten_bytes_max: u64,
    state: Mutex<State<C>>,
    /// There is something to write, or room for more.
    changed: Condvar,
    writer: Mutex<Writer>,
    removals: Mutex<Removals>,
    report: Report,
    told: Told,
    counters: Counters,
}

impl<C> fmt::Debug for DiskCache<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskCache").field("dir", &self.files.path("")).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C> DiskCache<C> {
    /// Whether a directory can be opened as a cache, as far as that shows without opening it.
    pub fn check(files: &dyn Files, config: &Config) -> Result<(), OpenError> {
        let marker = directory::check(files)?;
        config.segment_bytes(marker.map(|marker| marker.segment_bytes)).map(drop)
    }

    /// Opens a directory, and finds the records that are there. `hash` is that of a key.
    pub fn open(
        files: Arc<dyn Files>,
        config: &Config,
        hash: &dyn Fn(&[u8]) -> u64,
        report: impl Fn(Trouble) + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let failed = |name: &str| {
            let path = files.path(name);
            move |source| OpenError::Io { path, source }
        };
        let (lock, found) = directory::open(&*files)?;
        let segment_bytes = config.segment_bytes(found.as_ref().map(|marker| marker.segment_bytes))?;
        let kept = found.filter(|marker| marker.of == config.of && marker.segment_bytes == segment_bytes);
        let is_kept = kept.is_some();
        let marker = match kept {
            Some(marker) => next_life(&*files, marker).map_err(failed(""))?,
            None => begin_anew(&*files, &config.of, segment_bytes).map_err(failed(""))?,
        };
        let names = files.list().map_err(failed(""))?;
        let is_there = |name: &str| names.iter().any(|other| other == name);
        let how = if is_there(RECORDS) { How::Write } else { How::Create };
        let file = files.open(RECORDS, how).map_err(failed(RECORDS))?;
        let segments = config.bytes / segment_bytes;
        if file.size().map_err(failed(RECORDS))? > segments * segment_bytes {
            file.set_len(segments * segment_bytes).map_err(failed(RECORDS))?;
        }
        let area = Arc::new(Area { file, epoch: marker.epoch, life: marker.life, segment_bytes });
        let mut index = Index::new(segments as usize);
        let mut last = None;
        if is_kept {
            // Without the notes nothing tells which records must not come back.
            let removed = Removals::read(&*files).map_err(failed(directory::REMOVED))?;
            let oldest;
            (oldest, last) = recover(&area, &mut index, &removed, hash);
            Removals::shorten(&*files, &removed, oldest, &*area.file).map_err(failed(directory::REMOVED))?;
        }
        let removals = Removals::open(&*files).map_err(failed(directory::REMOVED))?;
        let is_full = index.segments.iter().all(|segment| segment.generation > 0);
        let life = marker.life;
        let position = last.as_ref().map_or(Position { life, ..Position::default() }, |last| Position {
            life,
            generation: last.generation,
            at: last.number as u64 * segment_bytes + last.offset,
        });
        // The first segment to be begun is the one behind the last, or the first of all.
        let number = last.as_ref().map_or(segments as usize - 1, |last| last.number);
        let state = State {
            index,
            area,
            unwritten: HashMap::new(),
            unwritten_bytes: 0,
            queue: VecDeque::new(),
            position,
            generation: first_generation(life),
            is_full,
            is_off: false,
            is_stopping: false,
        };
        let writer =
            Writer { open: last.map(OpenSegment::resume), last: number, paused_until: None, begun_since_refusal: 0 };
        Ok(Self {
            files,
            _lock: lock,
            unwritten_bytes_max: config.unwritten_bytes_max,
            state: Mutex::new(state),
            changed: Condvar::new(),
            writer: Mutex::new(writer),
            removals: Mutex::new(removals),
            report: Box::new(report),
            told: Told::default(),
            counters: Counters::default(),
        })
    }

    /// Takes a record in, to be written later; gives those that it displaces. The claim comes back if there is no
    /// room: the record is too large, or too much waits already.
    pub fn put(&self, hash: u64, label: Label, record: Record, claim: C) -> Result<Displaced<C>, C> {
        let mut state = lock(&self.state);
        if !self.has_room(&state, label, &record) {
            self.counters.not_written.fetch_add(1, Relaxed);
            return Err(claim);
        }
        let held = Arc::new(Held::new(hash, label, Some(claim)));
        Ok(self.add(&mut state, &held, record))
    }

    /// Takes a record in again that has left for want of room.
    pub fn put_again(&self, held: &Arc<Held<C>>, record: Record) -> Displaced<C> {
        let mut state = lock(&self.state);
        if held.is_listed() || !self.has_room(&state, held.label, &record) {
            return Vec::new();
        }
        self.add(&mut state, held, record)
    }

    fn has_room(&self, state: &State<C>, label: Label, record: &Record) -> bool {
        let waiting = state.unwritten_bytes;
        let writing = record.writing(label);
        let fits = u16::try_from(record.key.len()).is_ok()
            && writing.size() <= RECORD_BYTES_MAX
            && writing.needs() <= state.area.segment_bytes;
        fits && !state.is_off && (waiting == 0 || waiting + record.memory() <= self.unwritten_bytes_max)
    }

    fn add(&self, state: &mut State<C>, held: &Arc<Held<C>>, record: Record) -> Vec<Arc<Held<C>>> {
        held.set_place(None);
        let gone = state.index.list(held);
        state.forget(&gone);
        state.add_unwritten(held, Arc::new(record));
        state.queue.push_back(Arc::downgrade(held));
        self.changed.notify_all();
        gone
    }

    /// Waits until as much as this may be put, or not longer than until then.
    pub fn wait_for_room(&self, bytes: u64, until: Instant) -> bool {
        let mut state = lock(&self.state);
        while state.unwritten_bytes > 0 && state.unwritten_bytes + bytes > self.unwritten_bytes_max {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        !state.is_off
    }

    /// Whether there is a record whose key has this hash.
    pub fn has(&self, hash: u64) -> bool {
        lock(&self.state).index.find(hash).next().is_some()
    }

    /// The records whose keys have this hash.
    pub fn find(&self, hash: u64) -> Vec<Arc<Held<C>>> {
        lock(&self.state).index.find(hash).cloned().collect()
    }

    /// All records. Those that come in the meantime may be among them or not.
    pub fn all(&self) -> Vec<Arc<Held<C>>> {
        lock(&self.state).index.all().cloned().collect()
    }

    /// Whether for each record that comes others leave.
    pub fn is_full(&self) -> bool {
        lock(&self.state).is_full
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        lock(&self.state).index.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How much is in it.
    pub fn size(&self) -> Size {
        let state = lock(&self.state);
        Size {
            records: state.index.len(),
            bytes: state.index.bytes(),
            written: self.counters.written.load(Relaxed),
            not_written: self.counters.not_written.load(Relaxed),
            unreadable: self.counters.unreadable.load(Relaxed),
        }
    }

    /// Reads a record, but for a large content. It waits for the disk.
    pub fn open_record(&self, held: &Arc<Held<C>>) -> Result<Opened, Missing> {
        let (area, pin, generation, place) = {
            let state = lock(&self.state);
            if !held.is_listed() {
                return Err(Missing::Gone);
            }
            if let Some(record) = state.unwritten.get(&Arc::as_ptr(held).addr()) {
                let Record { key, head, content, .. } = Record::clone(record);
                return Ok(Opened { key, head, content });
            }
            let place = held.place().ok_or(Missing::Gone)?;
            let segment = &state.index.segments[(place.at / state.area.segment_bytes) as usize];
            (state.area.clone(), segment.pin.clone(), segment.generation, place)
        };
        read(&area, pin, generation, place, held).map_err(|error| {
            self.lose(held, error);
            Missing::Unreadable
        })
    }

    /// A record was not read back: it is none.
    pub fn lose(&self, held: &Arc<Held<C>>, error: ReadError) {
        self.counters.unreadable.fetch_add(1, Relaxed);
        self.remove(held);
        self.tell_read(error);
    }

    /// Takes a record out.
    pub fn remove(&self, held: &Arc<Held<C>>) -> Option<Arc<Held<C>>> {
        let mut state = lock(&self.state);
        state.take_unwritten(held);
        state.index.unlist(held)
    }

    /// Takes out all records whose keys have this hash; gives them, to be dropped behind other locks.
    pub fn remove_all_of(&self, hash: u64) -> Vec<Arc<Held<C>>> {
        let mut state = lock(&self.state);
        let gone = state.index.take(hash, |_| true);
        state.forget(&gone);
        gone
    }

    /// Takes out what a newer record displaces that is not in here.
    pub fn displace(&self, hash: u64, label: Label) -> Vec<Arc<Held<C>>> {
        let mut state = lock(&self.state);
        let gone = state.index.displace(hash, label);
        state.forget(&gone);
        gone
    }

    /// Records of these keys that were put before this do not come back with a start. It waits for the disk.
    ///
    /// # Errors
    /// They may come back.
    pub fn forbid<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        let mut removals = lock(&self.removals);
        let position = lock(&self.state).position;
        removals.note(&*self.files, keys, position)
    }

    /// Takes out everything.
    pub fn clear(&self) -> Vec<Arc<Held<C>>> {
        let mut state = lock(&self.state);
        let gone = state.index.clear();
        state.forget(&gone);
        gone
    }

    /// Removes everything, and is a cache of another thing from now on. Where that cannot be written down it stays
    /// empty. It waits for the disk.
    pub fn begin_anew(&self, of: &str) {
        // First: nothing is written in the meantime.
        let mut writer = lock(&self.writer);
        let mut removals = lock(&self.removals);
        let area = lock(&self.state).area.clone();
        let begun = begin_anew(&*self.files, of, area.segment_bytes)
            .and_then(|marker| Ok((marker, Removals::open(&*self.files)?)));
        let mut state = lock(&self.state);
        let gone = state.index.clear();
        state.forget(&gone);
        for segment in &mut state.index.segments {
            (segment.generation, segment.held) = (0, Vec::new());
        }
        writer.open = None;
        match begun {
            Ok((marker, new)) => {
                *removals = new;
                let Marker { epoch, life, .. } = marker;
                state.area = Arc::new(Area { file: area.file.clone(), epoch, life, ..*area });
                (state.is_full, state.generation) = (false, first_generation(life));
                state.position = Position { life, ..Position::default() };
            }
            Err(error) => {
                state.is_off = true;
                (self.report)(Trouble::Write(error));
            }
        }
        drop(state);
        // Behind the locks.
        drop(gone);
    }

    /// Has [`DiskCache::run`] end when all is written.
    pub fn stop(&self) {
        lock(&self.state).is_stopping = true;
        self.changed.notify_all();
    }

    fn tell_read(&self, error: ReadError) {
        if !self.told.read.swap(true, Relaxed) {
            (self.report)(Trouble::Read(error));
        }
    }
}

/// The generations of a life are behind all of those before, also those that a power failure has left no trace of.
fn first_generation(life: u32) -> u64 {
    u64::from(life) << 32
}

/// Writes down that another process has it now.
fn next_life(files: &dyn Files, marker: Marker) -> io::Result<Marker> {
    let marker = Marker { life: marker.life.saturating_add(1), ..marker };
    marker.write(files)?;
    Ok(marker)
}

/// Writes down that a cache begins again.
fn begin_anew(files: &dyn Files, of: &str, segment_bytes: u64) -> io::Result<Marker> {
    let marker = Marker::new(of, segment_bytes)?;
    Removals::clear(files)?;
    marker.write(files)?;
    Ok(marker)
}

fn read<C>(area: &Arc<Area>, pin: Pin, generation: u64, place: Place, held: &Held<C>) -> Result<Opened, ReadError> {
    let mut front = area.front(place, generation)?;
    if front.header.label != held.label {
        return Err(ReadError::Damaged);
    }
    let (key, head) = (mem::take(&mut front.key), mem::take(&mut front.head));
    let content = if let Some(content) = front.content.take() {
        Source::Memory(vec![content])
    } else {
        let extent = area.extent(place, &front, pin);
        // Of one that another process has written, and that a crash may have cut, nothing is given before all is known
        // to be there.
        if !held.is_checked() {
            extent.read_all().try_for_each(|read| read.map(drop))?;
        }
        Source::Disk(Arc::new(extent))
    };
    held.set_checked();
    Ok(Opened { key, head, content })
}
