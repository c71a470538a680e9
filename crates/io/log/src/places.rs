//! The places of durable records, so that they can be read back while the log is written.
//!
//! ```text
//!   position --> generation, offset of its first frame --> the segment's file --> bytes
//!                                                         |
//!        begun again since? then they were another record's <--
//! ```
//! A reader holds no lock while it reads, and keeps no segment from being begun again. It looks once more when it has
//! read: a segment leaves this table before anything is written to it again, so bytes of a segment that is still here
//! are those of the record.

use crate::frame::{FRAME_BYTES_MIN, Frame, HEADER_BYTES};
use crate::segment::Segment;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use vfs::{BLOCK, Doing, File, FileError, Files, How};

/// A way to read a file; says whether it did.
type ReadAt = dyn Fn(&dyn File, u64, &mut [u8]) -> io::Result<bool>;

/// Where a record's first frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    /// Of its segment.
    pub(crate) generation: u32,
    /// Where the frame begins in the segment.
    pub(crate) offset: u32,
    /// The bytes of the record's body in it.
    pub(crate) part_bytes: u32,
}

/// A segment, to be read.
#[derive(Debug)]
struct Source {
    generation: u32,
    name: String,
    bytes: usize,
    /// It reads through the system's page cache: what was written a moment ago is often read again.
    file: Arc<dyn File>,
}

#[derive(Debug, Default)]
struct Table {
    /// The position of the first place.
    first: u64,
    places: VecDeque<RecordPlace>,
    /// The segments that are needed, in generation order.
    sources: VecDeque<Arc<Source>>,
}

/// The places of all records that are needed.
#[derive(Debug)]
pub(crate) struct Places {
    files: Arc<dyn Files>,
    table: RwLock<Table>,
}

impl Places {
    /// None yet.
    pub(crate) fn new(files: Arc<dyn Files>) -> Self {
        Self { files, table: RwLock::default() }
    }

    /// Begins with what a scan has found in the segments that are needed.
    pub(crate) fn begin(
        &self,
        live: &VecDeque<Segment>,
        found: &VecDeque<(u64, RecordPlace)>,
    ) -> Result<(), FileError> {
        let sources = live.iter().map(|segment| self.source(segment)).collect::<Result<_, _>>()?;
        let places = found.iter().map(|&(_, place)| place).collect();
        let first = found.front().map_or(0, |&(position, _)| position);
        *self.table_mut() = Table { first, places, sources };
        Ok(())
    }

    /// Adds the records of a flush, the first of which has this position, and the segments that it has begun.
    pub(crate) fn extend(&self, begun: &[Segment], first: u64, places: Vec<RecordPlace>) -> Result<(), FileError> {
        let sources = begun.iter().map(|segment| self.source(segment)).collect::<Result<Vec<_>, _>>()?;
        let mut table = self.table_mut();
        if table.places.is_empty() {
            table.first = first;
        }
        table.sources.extend(sources);
        table.places.extend(places);
        Ok(())
    }

    /// Forgets records before `needed`, and segments before that of this generation.
    pub(crate) fn release(&self, generation: u32, needed: u64) {
        let mut table = self.table_mut();
        let count = needed.saturating_sub(table.first).min(table.places.len() as u64);
        table.places.drain(..count as usize);
        table.first += count;
        while table.sources.front().is_some_and(|source| source.generation < generation) {
            table.sources.pop_front();
        }
    }

    /// See [`crate::Log::read`].
    pub(crate) fn read(&self, position: u64, from: usize, into: &mut [u8]) -> Result<bool, FileError> {
        self.read_by(position, from, into, &|file, at, into| file.read_at(at, into).map(|()| true))
    }

    /// See [`crate::Log::read_at_hand`].
    pub(crate) fn read_at_hand(&self, position: u64, from: usize, into: &mut [u8]) -> Result<bool, FileError> {
        self.read_by(position, from, into, &|file, at, into| file.read_at_hand(at, into))
    }

    fn read_by(&self, position: u64, from: usize, into: &mut [u8], read: &ReadAt) -> Result<bool, FileError> {
        let Some(mut place) = self.table().place(position) else { return Ok(false) };
        let first_generation = place.generation;
        let (mut skip, mut filled) = (from, 0);
        loop {
            let Some(source) = self.table().source(place.generation) else { return Ok(false) };
            let part = place.part_bytes as usize;
            if skip < part {
                let count = (part - skip).min(into.len() - filled);
                let at = place.offset as usize + HEADER_BYTES + skip;
                let is_read = read(&*source.file, at as u64, &mut into[filled..filled + count]);
                if !is_read.doing("read", || self.files.path(&source.name))? {
                    return Ok(false);
                }
                filled += count;
            }
            if filled == into.len() {
                return Ok(self.table().source(first_generation).is_some());
            }
            skip = skip.saturating_sub(part);
            let Some(next) = self.next_part(&source, place, position, read)? else { return Ok(false) };
            place = next;
        }
    }

    /// The frame in which a record continues: directly behind the last one, or at the beginning of the next segment.
    fn next_part(
        &self,
        source: &Source,
        place: RecordPlace,
        position: u64,
        read: &ReadAt,
    ) -> Result<Option<RecordPlace>, FileError> {
        let end = place.offset as usize + HEADER_BYTES + place.part_bytes as usize;
        let is_there = source.bytes.saturating_sub(end) >= FRAME_BYTES_MIN;
        let (generation, offset) = if is_there { (place.generation, end) } else { (place.generation + 1, BLOCK) };
        let Some(source) = self.table().source(generation) else { return Ok(None) };
        let mut header = [0; HEADER_BYTES];
        if !read(&*source.file, offset as u64, &mut header).doing("read", || self.files.path(&source.name))? {
            return Ok(None);
        }
        let goes_on =
            |frame: &Frame| frame.generation == generation && frame.position == position && !frame.record_begins;
        if let Some(frame) = Frame::decode(&header).filter(goes_on) {
            return Ok(Some(RecordPlace { generation, offset: offset as u32, part_bytes: frame.part_bytes }));
        }
        if self.table().source(place.generation).is_none() {
            return Ok(None);
        }
        let what = format!("expected record {position} to go on, found no frame of it");
        Err(FileError::Corrupt { file: self.files.path(&source.name), offset: offset as u64, what })
    }

    fn source(&self, segment: &Segment) -> Result<Arc<Source>, FileError> {
        let name = segment.name.clone();
        let file = self.files.open(&name, How::Read).doing("open", || self.files.path(&name))?;
        let generation = segment.header.map_or(0, |header| header.generation);
        Ok(Arc::new(Source { generation, name, bytes: segment.bytes, file }))
    }

    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn table_mut(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn place(&self, position: u64) -> Option<RecordPlace> {
        let index = position.checked_sub(self.first)?;
        self.places.get(usize::try_from(index).ok()?).copied()
    }

    fn source(&self, generation: u32) -> Option<Arc<Source>> {
        let index = self.sources.binary_search_by_key(&generation, |source| source.generation).ok()?;
        Some(self.sources[index].clone())
    }
}
