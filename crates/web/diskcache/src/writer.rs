//! Records on their way to the disk: the segment that is written to, and the one that is next.

use crate::area::{Area, Crcs, Place, ReadError};
use crate::format::{
    FOOTER_BYTES, HEADER_BYTES, Label, Listed, RecordHeader, UNIT, add_to_table, footer, segment_header, table_room,
};
use crate::recover::Last;
use bytes::Bytes;
use crc32c::crc32c;
use std::io;

/// The largest record that is written in one go.
const BUFFER_BYTES_MAX: u64 = 256 * 1024;

/// A record as it is written.
#[derive(Debug)]
pub(crate) struct Writing<'a> {
    pub(crate) label: Label,
    pub(crate) is_lasting: bool,
    pub(crate) key: &'a [u8],
    pub(crate) head: &'a [u8],
    pub(crate) content_bytes: u64,
}

impl Writing<'_> {
    fn header(&self, area: &Area, generation: u64, crc: u32) -> RecordHeader {
        RecordHeader {
            epoch: area.epoch,
            generation,
            life: area.life,
            label: self.label,
            is_lasting: self.is_lasting,
            key_bytes: self.key.len() as u16,
            head_bytes: self.head.len() as u32,
            content_bytes: self.content_bytes,
            crc,
        }
    }

    /// The bytes that it takes on disk.
    pub(crate) fn size(&self) -> u64 {
        let front = HEADER_BYTES + self.key.len() as u64 + self.head.len() as u64;
        (front + 4 * self.content_bytes.div_ceil(crate::format::CHUNK_BYTES) + self.content_bytes)
            .next_multiple_of(UNIT)
    }

    /// The bytes that a segment needs for it alone.
    pub(crate) fn needs(&self) -> u64 {
        HEADER_BYTES + self.size() + table_room(self.key.len()) + FOOTER_BYTES
    }
}

/// Why a record was not written.
#[derive(Debug)]
pub(crate) enum WriteError {
    Io(io::Error),
    /// Its content, which is that of another record, was not read.
    Content(ReadError),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The segment that is written to.
#[derive(Debug)]
pub(crate) struct OpenSegment(Last);

impl OpenSegment {
    /// Begins a segment.
    pub(crate) fn begin(area: &Area, number: usize, generation: u64) -> io::Result<Self> {
        area.file.write_at(number as u64 * area.segment_bytes, &segment_header(area.epoch, generation))?;
        Ok(Self(Last { number, generation, offset: HEADER_BYTES, table: Vec::new() }))
    }

    /// Goes on with the one that an earlier process has begun.
    pub(crate) fn resume(last: Last) -> Self {
        Self(last)
    }

    pub(crate) fn number(&self) -> usize {
        self.0.number
    }

    /// Whether nothing was written to it.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.offset == HEADER_BYTES
    }

    /// The place for a record, if there is room.
    pub(crate) fn place(&self, area: &Area, writing: &Writing<'_>) -> Option<Place> {
        let Last { number, offset, table, .. } = &self.0;
        let size = writing.size();
        let needed = offset + size + table.len() as u64 + table_room(writing.key.len()) + FOOTER_BYTES;
        let at = *number as u64 * area.segment_bytes + offset;
        (needed <= area.segment_bytes).then_some(Place { at, size })
    }

    pub(crate) fn generation(&self) -> u64 {
        self.0.generation
    }

    /// Writes a record at the place that it was given. The content is there before the header is: a process that is
    /// killed leaves no header of a record that is not whole.
    pub(crate) fn write(
        &mut self,
        area: &Area,
        place: Place,
        writing: &Writing<'_>,
        content: impl Iterator<Item = Result<Bytes, ReadError>>,
    ) -> Result<(), WriteError> {
        let front_bytes = (HEADER_BYTES as usize) + writing.key.len() + writing.head.len();
        let content_at = front_bytes as u64 + 4 * writing.content_bytes.div_ceil(crate::format::CHUNK_BYTES);
        let is_small = place.size <= BUFFER_BYTES_MAX;
        let (mut crcs, mut kept, mut at) = (Crcs::default(), Vec::new(), place.at + content_at);
        for piece in content {
            let piece = piece.map_err(WriteError::Content)?;
            crcs.add(&piece);
            if is_small {
                kept.extend_from_slice(&piece);
            } else {
                area.file.write_at(at, &piece)?;
                at += piece.len() as u64;
            }
        }
        let mut front = vec![0; HEADER_BYTES as usize];
        front.reserve(place.size.min(BUFFER_BYTES_MAX) as usize);
        for part in [writing.key, writing.head, &crcs.finish()] {
            front.extend_from_slice(part);
        }
        let header = writing.header(area, self.0.generation, crc32c(&front[HEADER_BYTES as usize..]));
        front[..HEADER_BYTES as usize].copy_from_slice(&header.encode(place.at));
        front.extend_from_slice(&kept);
        if is_small {
            // The last record of the file is read with all of its bytes, too.
            front.resize(place.size as usize, 0);
        }
        area.file.write_at(place.at, &front)?;
        let offset = place.at % area.segment_bytes;
        let Writing { label, is_lasting, key, .. } = *writing;
        add_to_table(&mut self.0.table, &Listed { offset, size: place.size, life: area.life, label, is_lasting, key });
        self.0.offset = offset + place.size;
        Ok(())
    }

    /// Writes its table: a start then needs not look at each record.
    pub(crate) fn end(&self, area: &Area) -> io::Result<()> {
        let Last { number, generation, table, .. } = &self.0;
        let end = (*number as u64 + 1) * area.segment_bytes - FOOTER_BYTES;
        let bytes = [table, &footer(area.epoch, *generation, table)[..]].concat();
        area.file.write_at(end - table.len() as u64, &bytes)
    }
}
