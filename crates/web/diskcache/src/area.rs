//! The file of records: places in it, pins that keep a segment from being begun again, and reads that are checked.

use crate::format::{CHUNK_BYTES, HEADER_BYTES, READ_BYTES_MAX, RecordHeader, UNIT};
use bytes::Bytes;
use crc32c::{crc32c, crc32c_append};
use std::fmt;
use std::io;
use std::sync::Arc;
use vfs::File;

/// The bits of a [`Place`] that are its size.
const SIZE_BITS: u32 = 24;

/// The largest record, in bytes.
pub(crate) const RECORD_BYTES_MAX: u64 = ((1 << SIZE_BITS) - 1) * UNIT;

/// The bytes that are read of a record at first. Most have no more.
const FIRST_BYTES: u64 = 32 * 1024;

/// A record's place in the file, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) at: u64,
    pub(crate) size: u64,
}

impl Place {
    /// As a number, which is never zero: a segment begins with its header.
    pub(crate) fn pack(self) -> u64 {
        ((self.at / UNIT) << SIZE_BITS) | (self.size / UNIT)
    }

    pub(crate) fn unpack(packed: u64) -> Option<Self> {
        (packed != 0).then_some(Self { at: (packed >> SIZE_BITS) * UNIT, size: packed % (1 << SIZE_BITS) * UNIT })
    }
}

/// While somebody has one beside its segment, that is not begun again.
pub(crate) type Pin = Arc<()>;

/// The file, as laid out in one epoch.
#[derive(Debug)]
pub(crate) struct Area {
    pub(crate) file: Arc<dyn File>,
    pub(crate) epoch: u64,
    /// Of this process, among those that have had the cache.
    pub(crate) life: u32,
    pub(crate) segment_bytes: u64,
}

/// Why a record is not read.
#[derive(Debug)]
pub enum ReadError {
    /// The bytes are not those that were written.
    Damaged,
    /// The system says so.
    Io(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged => f.write_str("a record is not what was written"),
            Self::Io(error) => write!(f, "a record cannot be read: {error}"),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Damaged => None,
            Self::Io(error) => Some(error),
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        // The file is shorter than it was.
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Damaged } else { Self::Io(error) }
    }
}

/// A record without its content.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) header: RecordHeader,
    pub(crate) key: Bytes,
    pub(crate) head: Bytes,
    /// Its content, if that has come with the rest.
    pub(crate) content: Option<Bytes>,
    crcs: Bytes,
}

impl Area {
    /// The bytes of a part of the file.
    pub(crate) fn read(&self, at: u64, bytes: u64) -> io::Result<Bytes> {
        let mut read = vec![0; bytes as usize];
        self.file.read_at(at, &mut read)?;
        Ok(read.into())
    }

    /// A record's header, if it is one of this epoch and generation.
    pub(crate) fn header(&self, at: u64, generation: u64) -> Option<RecordHeader> {
        let bytes = self.read(at, HEADER_BYTES).ok()?;
        let header = RecordHeader::decode(bytes.first_chunk()?, at)?;
        (header.epoch == self.epoch && header.generation == generation).then_some(header)
    }

    /// Reads a record of this generation, but for a large content.
    pub(crate) fn front(&self, place: Place, generation: u64) -> Result<Front, ReadError> {
        let mut bytes = self.read(place.at, place.size.min(FIRST_BYTES))?;
        let header = bytes.first_chunk().and_then(|first| RecordHeader::decode(first, place.at));
        let header = header.filter(|header| header.epoch == self.epoch && header.generation == generation);
        let header = header.filter(|header| header.size() == Some(place.size)).ok_or(ReadError::Damaged)?;
        let content_offset = header.content_offset().ok_or(ReadError::Damaged)?;
        if bytes.len() < content_offset as usize {
            bytes = self.read(place.at, content_offset)?;
        }
        let after_head = HEADER_BYTES as usize + usize::from(header.key_bytes) + header.head_bytes as usize;
        if crc32c(&bytes[HEADER_BYTES as usize..content_offset as usize]) != header.crc {
            return Err(ReadError::Damaged);
        }
        let key = bytes.slice(HEADER_BYTES as usize..HEADER_BYTES as usize + usize::from(header.key_bytes));
        let head = bytes.slice(HEADER_BYTES as usize + key.len()..after_head);
        let crcs = bytes.slice(after_head..content_offset as usize);
        let end = (content_offset + header.content_bytes) as usize;
        let content = (bytes.len() >= end).then(|| bytes.slice(content_offset as usize..end));
        if content.as_ref().is_some_and(|content| !is_content(content, &crcs)) {
            return Err(ReadError::Damaged);
        }
        Ok(Front { header, key, head, content, crcs })
    }

    /// The content of a record that was not read with the rest.
    pub(crate) fn extent(self: &Arc<Self>, place: Place, front: &Front, pin: Pin) -> Extent {
        let at = place.at + front.header.content_offset().unwrap_or_default();
        Extent { area: self.clone(), _pin: pin, at, bytes: front.header.content_bytes, crcs: front.crcs.clone() }
    }
}

/// Whether a content is that of these checksums, from its begin or from that of any chunk.
fn is_content(content: &[u8], crcs: &[u8]) -> bool {
    let chunks = content.chunks(CHUNK_BYTES as usize);
    chunks.zip(crcs.chunks(4)).all(|(chunk, crc)| crc32c(chunk).to_le_bytes() == *crc)
}

/// The checksums of a content that comes in pieces of any size.
#[derive(Debug, Default)]
pub(crate) struct Crcs {
    done: Vec<u8>,
    now: u32,
    bytes: u64,
}

impl Crcs {
    pub(crate) fn add(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            let room = CHUNK_BYTES - self.bytes % CHUNK_BYTES;
            let (now, later) = piece.split_at(piece.len().min(room as usize));
            self.now = crc32c_append(self.now, now);
            self.bytes += now.len() as u64;
            piece = later;
            if self.bytes.is_multiple_of(CHUNK_BYTES) {
                self.end_chunk();
            }
        }
    }

    fn end_chunk(&mut self) {
        self.done.extend_from_slice(&self.now.to_le_bytes());
        self.now = 0;
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        if !self.bytes.is_multiple_of(CHUNK_BYTES) {
            self.end_chunk();
        }
        self.done
    }
}

/// The content of a record on disk. While this is there its place is not written to.
#[derive(Debug)]
pub struct Extent {
    area: Arc<Area>,
    _pin: Pin,
    at: u64,
    bytes: u64,
    crcs: Bytes,
}

impl Extent {
    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes from one place in the content to another, at most [`READ_BYTES_MAX`] of them: those that are left are
    /// another call's. It waits for the disk.
    pub fn read(&self, from: u64, to: u64) -> Result<Bytes, ReadError> {
        let chunk = from / CHUNK_BYTES;
        let begin = chunk * CHUNK_BYTES;
        let to = to.min(self.bytes).min(begin + READ_BYTES_MAX);
        let end = to.next_multiple_of(CHUNK_BYTES).min(self.bytes);
        if from >= to {
            return Ok(Bytes::new());
        }
        let read = self.area.read(self.at + begin, end - begin)?;
        if !is_content(&read, self.crcs.get(chunk as usize * 4..).unwrap_or_default()) {
            return Err(ReadError::Damaged);
        }
        Ok(read.slice((from - begin) as usize..(to - begin) as usize))
    }

    /// All of it, piece by piece.
    pub fn read_all(&self) -> impl Iterator<Item = Result<Bytes, ReadError>> {
        (0..self.bytes).step_by(READ_BYTES_MAX as usize).map(|from| self.read(from, self.bytes))
    }
}
