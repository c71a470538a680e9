//! Segments: the preallocated files of the ring, and the header block that says which generation a file is of.
//!
//! ```text
//!    0  magic "THORPSEG"       8  format u32, that of its frames | segment bytes u32
//!   16  log u64               whose it is
//!   24  generation u32, 0 u32        the number of the segment among all that were ever begun
//!   32  first flush u64       the first flush that begins in this segment
//!   40  first position u64    the first record of that flush
//!   48  needed u64            no record before this position is needed any more
//!   56  first offset u32      where that flush begins; the segment's length if none does
//!   60  CRC32C u32            of bytes 0..60
//!   64  zeros up to 4096
//! ```

use crate::frame::{FORMAT, FORMAT_OF_BEFORE};
use std::sync::Arc;
use vfs::{Aligned, BLOCK, Call, Doing, File, FileError, Files, How, On, Refused, fill};

/// The log that a segment belongs to: segments of another's are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogId(pub u64);

const MAGIC: [u8; 8] = *b"THORPSEG";

/// The fields of a segment's header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// The format of its frames.
    pub(crate) format: u8,
    /// The length of the file.
    pub(crate) segment_bytes: u32,
    /// The log that it belongs to.
    pub(crate) log: LogId,
    /// The segment's number among all that were ever begun, from 1.
    pub(crate) generation: u32,
    /// The first flush that begins in the segment (or in a later one, if none does).
    pub(crate) first_flush: u64,
    /// The first record of that flush.
    pub(crate) first_position: u64,
    /// No record before this position is needed any more.
    pub(crate) needed: u64,
    /// Where that flush begins.
    pub(crate) first_offset: u32,
}

impl SegmentHeader {
    /// The first bytes of the header block; the others are zero.
    pub(crate) fn encode(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&u32::from(self.format).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.segment_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.log.0.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.generation.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.first_flush.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.first_position.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.needed.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.first_offset.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header of some bytes: `Ok(None)` if they are none, an error with the format if it is a later one.
    pub(crate) fn decode(bytes: &[u8; 64]) -> Result<Option<Self>, u32> {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if bytes[0..8] != MAGIC || u32_at(60) != crc32c::crc32c(&bytes[..60]) {
            return Ok(None);
        }
        let format = u8::try_from(u32_at(8)).ok().filter(|format| matches!(*format, FORMAT_OF_BEFORE | FORMAT));
        Ok(Some(Self {
            format: format.ok_or(u32_at(8))?,
            segment_bytes: u32_at(12),
            log: LogId(u64_at(16)),
            generation: u32_at(24),
            first_flush: u64_at(32),
            first_position: u64_at(40),
            needed: u64_at(48),
            first_offset: u32_at(56),
        }))
    }
}

/// A file of the ring.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// Its name.
    pub(crate) name: String,
    /// Its length, in bytes: whole blocks.
    pub(crate) bytes: usize,
    /// Its header, if it has a valid one.
    pub(crate) header: Option<SegmentHeader>,
    /// The file.
    pub(crate) file: Arc<dyn File>,
}

/// The name of the segment that was made as the `number`th.
pub(crate) fn name_of(number: u64) -> String {
    format!("log-{number:04}.seg")
}

/// The number of a segment's name; `None` if it is another file's. In stores of formats 1 and 2 the names begin with
/// `safe`, and segments that are there keep their names.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix("log-").or_else(|| name.strip_prefix("safe-"))?.strip_suffix(".seg")?.parse().ok()
}

/// Whether a file of this name is a segment.
pub fn is_segment(name: &str) -> bool {
    number_of(name).is_some()
}

impl Segment {
    /// Makes a segment of `bytes` zeros. They are written, not only reserved: the first write to a block that was
    /// only reserved changes the file system's own tables, and the next sync has to wait for those too.
    pub(crate) fn create(files: &dyn Files, name: &str, bytes: usize) -> Result<Self, Refused> {
        let temporary = format!("{name}.tmp");
        let made = fill(files, &temporary, bytes).and_then(|()| {
            files.rename(&temporary, name).on(Call::Name)?;
            files.sync_dir().on(Call::SyncNew)?;
            files.open(name, How::Direct).on(Call::Open)
        });
        if made.is_err() {
            // A full disk needs the room back at once; after a crash the next start removes the file.
            for name in [&temporary, name] {
                let _ = files.remove(name);
            }
        }
        Ok(Self { name: name.to_owned(), bytes, header: None, file: made? })
    }

    /// Opens a segment and reads its header. A length that no segment can have is damage.
    pub(crate) fn open(files: &dyn Files, name: &str, how: How, log: LogId) -> Result<Self, FileError> {
        let path = || files.path(name);
        let file = files.open(name, how).doing("open", path)?;
        let bytes = file.size().doing("read the length of", path)?;
        let corrupt = |offset, what| FileError::Corrupt { file: path(), offset, what };
        if bytes < 2 * BLOCK as u64 || bytes > u64::from(u32::MAX) || bytes % BLOCK as u64 != 0 {
            let what = format!("expected a whole number of blocks of {BLOCK} bytes, got {bytes} bytes");
            return Err(corrupt(bytes, what));
        }
        let mut block = Aligned::zeroed(BLOCK);
        file.read_at(0, block.bytes_mut()).doing("read", path)?;
        let head = block.bytes().first_chunk().expect("a block is longer");
        let header = SegmentHeader::decode(head).map_err(|got| FileError::Format {
            file: path(),
            expected: u32::from(FORMAT),
            got,
        })?;
        if let Some(header) = header.filter(|h| u64::from(h.segment_bytes) != bytes) {
            return Err(corrupt(8, format!("the file has {bytes} bytes, its header says {}", header.segment_bytes)));
        }
        if let Some(header) = header.filter(|h| h.log != log) {
            return Err(corrupt(
                16,
                format!("expected a segment of log {:016x}, got one of {:016x}", log.0, header.log.0),
            ));
        }
        Ok(Self { name: name.to_owned(), bytes: bytes as usize, header, file })
    }
}
