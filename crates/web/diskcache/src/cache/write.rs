//! The writer of a cache: what was put goes to the open segment, and then to the next that nobody reads.

use super::{DiskCache, State, Trouble, Writer, lock};
use crate::area::Place;
use crate::index::Held;
use crate::record::{Opened, Record, Source};
use crate::removals::Position;
use crate::writer::{OpenSegment, WriteError};
use std::io;
use std::mem;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};
use vfs::{Call, Verdict, judge};

/// The most that is written again of a segment that is begun again, in bytes: it is in memory in the meantime.
const AGAIN_BYTES_MAX: u64 = 16 << 20;

/// The steps that a record is given: a place in the open segment, the next segment and a place there, the first one and
/// a place there.
const TRIES: usize = 5;

/// How long a disk that has refused a write is left alone.
const PAUSE: Duration = Duration::from_secs(1);

impl<C> DiskCache<C> {
    /// Writes what is put, until it is stopped. It is for one thread.
    pub fn run(&self) {
        loop {
            if self.write_next() {
                continue;
            }
            let mut state = lock(&self.state);
            while state.queue.is_empty() && !state.is_stopping {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.queue.is_empty() {
                break;
            }
        }
        self.end();
    }

    /// Writes the table of the segment that is open: the next start is quicker.
    fn end(&self) {
        let writer = lock(&self.writer);
        let area = lock(&self.state).area.clone();
        if let Some(open) = &writer.open {
            // Without it the start looks at each record.
            let _ = open.end(&area);
        }
    }

    /// Writes the next record; `false` if none waits. It is for those that have no thread for it.
    pub fn write_next(&self) -> bool {
        let mut writer = lock(&self.writer);
        let (held, record) = {
            let mut state = lock(&self.state);
            loop {
                let Some(next) = state.queue.pop_front() else { return false };
                let Some(held) = next.upgrade() else { continue };
                if let Some(record) = state.unwritten.get(&Arc::as_ptr(&held).addr()) {
                    break (held.clone(), record.clone());
                }
            }
        };
        let written = self.write(&mut writer, &held, &record);
        let segment = writer.open.as_ref().map_or(0, OpenSegment::number);
        let mut state = lock(&self.state);
        let is_wanted = state.take_unwritten(&held).is_some() && held.is_listed();
        let mut gone = None;
        let refused = match written {
            Ok(place) if is_wanted => {
                state.index.set_place(&held, segment, Some(place));
                self.counters.written.fetch_add(1, Relaxed);
                None
            }
            Ok(_) => None,
            Err(error) => {
                gone = state.index.unlist(&held);
                self.counters.not_written.fetch_add(1, Relaxed);
                error
            }
        };
        // Behind the lock: a claim that ends here tells the home.
        drop(state);
        drop((gone, held, record));
        if let Some(error) = refused {
            self.refused(&mut writer, error);
        }
        self.changed.notify_all();
        true
    }

    /// Writes a record to the open segment, or to the next one.
    fn write(&self, writer: &mut Writer, held: &Held<C>, record: &Record) -> Result<Place, Option<WriteError>> {
        if writer.paused_until.is_some_and(|until| Instant::now() < until) {
            return Err(None);
        }
        let writing = record.writing(held.label);
        let mut last = Ok(());
        // The next segment, and after an error the first of all: its blocks are there.
        for _ in 0..TRIES {
            let area = lock(&self.state).area.clone();
            let place = writer.open.as_ref().and_then(|open| open.place(&area, &writing));
            let (Some(place), Some(open)) = (place, &mut writer.open) else {
                if let Err(error) = self.begin_next(writer) {
                    if let WriteError::Io(error) = &error {
                        self.tell_write(writer, error);
                    }
                    last = Err(error);
                    writer.last = self.segments() - 1;
                }
                continue;
            };
            lock(&self.state).position =
                Position { life: area.life, generation: open.generation(), at: place.at + place.size };
            match open.write(&area, place, &writing, record.content.read_all()) {
                Ok(()) => {
                    writer.paused_until = None;
                    return Ok(place);
                }
                Err(WriteError::Io(error)) => {
                    self.tell_write(writer, &error);
                    let Some(open) = &writer.open else { break };
                    let is_first = open.is_empty();
                    // Its records stay; nothing is behind them.
                    let _ = open.end(&area);
                    writer.open = None;
                    if is_first {
                        writer.last = self.segments() - 1;
                    }
                    last = Err(WriteError::Io(error));
                }
                Err(error @ WriteError::Content(_)) => return Err(Some(error)),
            }
        }
        Err(last.err())
    }

    fn segments(&self) -> usize {
        lock(&self.state).index.segments.len()
    }

    /// Ends the open segment and begins the next that nobody reads.
    fn begin_next(&self, writer: &mut Writer) -> Result<(), WriteError> {
        let area = lock(&self.state).area.clone();
        if let Some(open) = writer.open.take() {
            open.end(&area)?;
        }
        let count = self.segments();
        for number in (1..=count).map(|step| (writer.last + step) % count) {
            if let Some(generation) = self.vacate(number) {
                writer.last = number;
                writer.open = Some(OpenSegment::begin(&area, number, generation)?);
                writer.begun_since_refusal += 1;
                if writer.begun_since_refusal > count {
                    self.told.write.store(false, Relaxed);
                }
                return Ok(());
            }
        }
        Err(io::Error::from(io::ErrorKind::ResourceBusy).into())
    }

    /// Takes all records out of a segment, and has those written again that were used; gives its next generation.
    /// `None` if it is being read.
    fn vacate(&self, number: usize) -> Option<u64> {
        let is_pinned = |state: &State<C>| Arc::strong_count(&state.index.segments[number].pin) > 1;
        let mut used = {
            let state = lock(&self.state);
            if is_pinned(&state) {
                return None;
            }
            let mut held = inside(&state, number);
            held.retain(|held| held.uses() > 0);
            held
        };
        used.sort_by_key(|held| std::cmp::Reverse(held.uses()));
        let (mut again, mut left) = (Vec::new(), AGAIN_BYTES_MAX.min(lock(&self.state).area.segment_bytes / 2));
        for held in used {
            let Some(rest) = held.place().and_then(|place| left.checked_sub(place.size)) else { continue };
            if let Some(record) = self.load(&held) {
                left = rest;
                again.push((held, record));
            }
        }
        let mut state = lock(&self.state);
        if is_pinned(&state) {
            return None;
        }
        for (held, record) in again {
            // One that has left in the meantime is not brought back.
            if held.is_listed() {
                held.count_down();
                state.index.set_place(&held, number, None);
                state.add_unwritten(&held, Arc::new(record));
                state.queue.push_front(Arc::downgrade(&held));
            }
        }
        let gone = inside(&state, number);
        for held in &gone {
            state.index.unlist(held);
        }
        let generation = state.generation;
        state.generation += 1;
        let segment = &mut state.index.segments[number];
        let before = mem::replace(&mut segment.generation, generation);
        segment.held = Vec::new();
        state.is_full |= before > 0;
        drop(state);
        // Behind the lock.
        drop(gone);
        Some(generation)
    }

    /// A record with its content in memory.
    fn load(&self, held: &Arc<Held<C>>) -> Option<Record> {
        let Opened { key, head, content } = self.open_record(held).ok()?;
        let pieces = content.read_all().collect::<Result<Vec<_>, _>>();
        let pieces = pieces.map_err(|error| self.lose(held, error)).ok()?;
        Some(Record { key, head, content: Source::Memory(pieces), is_lasting: true })
    }

    /// A record was not written.
    fn refused(&self, writer: &mut Writer, error: WriteError) {
        match error {
            WriteError::Io(_) => writer.paused_until = Some(Instant::now() + PAUSE),
            WriteError::Content(error) => self.tell_read(error),
        }
    }

    /// A write was refused. The record may find room elsewhere.
    fn tell_write(&self, writer: &mut Writer, error: &io::Error) {
        writer.begun_since_refusal = 0;
        // That all segments are being read is no trouble of the disk's.
        if error.kind() == io::ErrorKind::ResourceBusy || self.told.write.swap(true, Relaxed) {
            return;
        }
        let is_full = judge(Call::Write, error) == Verdict::NoRoom;
        (self.report)(if is_full {
            Trouble::Full
        } else {
            Trouble::Write(io::Error::new(error.kind(), error.to_string()))
        });
    }
}

/// The records in a segment.
fn inside<C>(state: &State<C>, number: usize) -> Vec<Arc<Held<C>>> {
    let begin = number as u64 * state.area.segment_bytes;
    let range = begin..begin + state.area.segment_bytes;
    let held = state.index.segments[number].held.iter().filter_map(Weak::upgrade);
    let is_inside = |held: &Arc<Held<C>>| held.place().is_some_and(|place| range.contains(&place.at));
    held.filter(|held| held.is_listed() && is_inside(held)).collect()
}
