//! Frames: what the log is made of. A frame is a header and (a part of) the body of one record.
//!
//! ```text
//!    0  magic "THRC"           4  format u8 | kind u8 | part u8 | flush bits u8
//!    8  position u64          the record's
//!   16  generation u32               the number of the segment among all that were ever begun
//!   20  witness u32           a number of whoever writes the log, the highest so far
//!   24  flush u64             the number of the flush among all that became durable, and one more
//!   32  needed u64            no record before this position is needed any more
//!   40  incarnation u32       of the process that wrote it
//!   44  offset u32            of this frame in its segment
//!   48  part bytes u32        of the body in this frame
//!   52  record bytes u32      of the whole body
//!   56  checksum u32          of the part of the body
//!   60  CRC32C u32            of bytes 0..60
//! ```
//! `generation` and `offset` make a header true in one place and for one generation only; `incarnation` and `flush`
//! make it part of one write only. The checksum of a body is `vfs::checksum`. In format 1 it is a CRC32C, which cannot
//! tell some bodies from older ones that lay in their place.

/// The length of a frame's header, in bytes: what every record takes beside its body, if it lies in one frame.
pub const HEADER_BYTES: usize = 64;

/// The least room in a segment that a frame is begun in.
pub(crate) const FRAME_BYTES_MIN: usize = 2 * HEADER_BYTES;

/// The format of segments that are begun now, and of their frames.
pub(crate) const FORMAT: u8 = 2;

/// Bodies have a CRC32C. A segment of this format is continued in it.
pub(crate) const FORMAT_OF_BEFORE: u8 = 1;

const MAGIC: [u8; 4] = *b"THRC";
/// The kind of a frame that belongs to no record.
pub(crate) const MARK: u8 = 0;

const BEGINS: u8 = 1;
const ENDS: u8 = 2;

/// A frame's header.
#[expect(clippy::struct_excessive_bools, reason = "four bits of the header, independent of one another")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The format of its segment.
    pub(crate) format: u8,
    /// The kind of its record; [`MARK`] if it has none.
    pub(crate) kind: u8,
    /// Whether the record begins in this frame.
    pub(crate) record_begins: bool,
    /// Whether the record ends in this frame.
    pub(crate) record_ends: bool,
    /// Whether this is its flush's first frame.
    pub(crate) flush_begins: bool,
    /// Whether this is its flush's last frame.
    pub(crate) flush_ends: bool,
    /// The record's position; of a mark, that of the last record before it.
    pub(crate) position: u64,
    /// The segment's generation.
    pub(crate) generation: u32,
    /// See [`crate::Log::flush`].
    pub(crate) witness: u32,
    /// The flush's number.
    pub(crate) flush: u64,
    /// No record before this position is needed any more.
    pub(crate) needed: u64,
    /// The incarnation of the process that wrote it.
    pub(crate) incarnation: u32,
    /// Where in the segment the frame begins.
    pub(crate) offset: u32,
    /// The bytes of the body in this frame.
    pub(crate) part_bytes: u32,
    /// The bytes of the whole body.
    pub(crate) record_bytes: u32,
    /// The checksum of the part of the body.
    pub(crate) body_sum: u32,
}

impl Frame {
    /// The header's bytes.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&[
            self.format,
            self.kind,
            bits(self.record_begins, self.record_ends),
            bits(self.flush_begins, self.flush_ends),
        ]);
        bytes[8..16].copy_from_slice(&self.position.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.generation.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.witness.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.flush.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.needed.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.offset.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.part_bytes.to_le_bytes());
        bytes[52..56].copy_from_slice(&self.record_bytes.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.body_sum.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header of some bytes, if they are one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<HEADER_BYTES>()?;
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let is_known = matches!(bytes[4], FORMAT_OF_BEFORE | FORMAT);
        if bytes[0..4] != MAGIC || !is_known || u32_at(60) != crc32c::crc32c(&bytes[..60]) {
            return None;
        }
        Some(Self {
            format: bytes[4],
            kind: bytes[5],
            record_begins: bytes[6] & BEGINS != 0,
            record_ends: bytes[6] & ENDS != 0,
            flush_begins: bytes[7] & BEGINS != 0,
            flush_ends: bytes[7] & ENDS != 0,
            position: u64_at(8),
            generation: u32_at(16),
            witness: u32_at(20),
            flush: u64_at(24),
            needed: u64_at(32),
            incarnation: u32_at(40),
            offset: u32_at(44),
            part_bytes: u32_at(48),
            record_bytes: u32_at(52),
            body_sum: u32_at(56),
        })
    }

    /// The checksum of a part of a body in a frame of its format.
    pub(crate) fn sum_of(&self, part: &[u8]) -> u32 {
        if self.format == FORMAT_OF_BEFORE { crc32c::crc32c(part) } else { vfs::checksum(part) }
    }
}

fn bits(begins: bool, ends: bool) -> u8 {
    (u8::from(begins) * BEGINS) | (u8::from(ends) * ENDS)
}
