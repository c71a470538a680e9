//! The bytes on disk. All numbers are little-endian.
//!
//! ```text
//!   segment   header (64) | record | record | ...      ... | table | footer (32)
//!   record    header (64) | key | head | a checksum for each 64 KiB of content | content | zeros
//! ```
//! A record begins at a multiple of 64 bytes. `docs/formats.md` has the fields.

use crc32c::{crc32c, crc32c_append};

/// The version of the format.
pub(crate) const FORMAT: u32 = 1;

/// Records begin at multiples of this, in bytes.
pub(crate) const UNIT: u64 = 64;

/// The bytes of content under one checksum.
pub(crate) const CHUNK_BYTES: u64 = 64 * 1024;

/// The most that one read gives, in bytes.
pub const READ_BYTES_MAX: u64 = 4 * CHUNK_BYTES;

/// The header of a segment, and that of a record.
pub(crate) const HEADER_BYTES: u64 = 64;

/// The last bytes of a segment that has a table.
pub(crate) const FOOTER_BYTES: u64 = 32;

/// The bytes of an entry of a table, beside the key.
const TABLE_ENTRY_BYTES: usize = 24;

const SEGMENT_MAGIC: u32 = u32::from_le_bytes(*b"THCS");
const RECORD_MAGIC: u32 = u32::from_le_bytes(*b"THCR");
const TABLE_MAGIC: u32 = u32::from_le_bytes(*b"THCT");

/// The record is of use after a start.
const IS_LASTING: u32 = 1;

/// Tells the records of one key apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Of two records with the same one the newer takes the place of the other.
    pub variant: u32,
    /// Records with another one leave when a record comes: all of a key have the same.
    pub kind: u32,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The header of a segment.
pub(crate) fn segment_header(epoch: u64, generation: u64) -> [u8; HEADER_BYTES as usize] {
    let mut bytes = [0; HEADER_BYTES as usize];
    bytes[..4].copy_from_slice(&SEGMENT_MAGIC.to_le_bytes());
    bytes[4..8].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[8..16].copy_from_slice(&epoch.to_le_bytes());
    bytes[16..24].copy_from_slice(&generation.to_le_bytes());
    let crc = crc32c(&bytes[..60]);
    bytes[60..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The generation of a segment of this epoch.
pub(crate) fn read_segment_header(bytes: &[u8; HEADER_BYTES as usize], epoch: u64) -> Option<u64> {
    let generation = u64_at(bytes, 16);
    (segment_header(epoch, generation) == *bytes).then_some(generation)
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) epoch: u64,
    /// Of the segment, in which those of an earlier one may stand behind this.
    pub(crate) generation: u64,
    /// Of the process that wrote it.
    pub(crate) life: u32,
    pub(crate) label: Label,
    pub(crate) is_lasting: bool,
    pub(crate) key_bytes: u16,
    pub(crate) head_bytes: u32,
    pub(crate) content_bytes: u64,
    /// Of the key, the head and the checksums of the content.
    pub(crate) crc: u32,
}

impl RecordHeader {
    /// The bytes for a record at that place in the file.
    pub(crate) fn encode(&self, at: u64) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &RECORD_MAGIC.to_le_bytes());
        put(4, &u32::from(self.is_lasting).to_le_bytes());
        put(8, &self.epoch.to_le_bytes());
        put(16, &self.generation.to_le_bytes());
        put(24, &self.label.variant.to_le_bytes());
        put(28, &self.label.kind.to_le_bytes());
        put(32, &self.content_bytes.to_le_bytes());
        put(40, &self.head_bytes.to_le_bytes());
        put(44, &self.key_bytes.to_le_bytes());
        put(48, &self.crc.to_le_bytes());
        put(52, &self.life.to_le_bytes());
        let crc = crc32c_append(crc32c(&bytes[..60]), &at.to_le_bytes());
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads one at that place in the file.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES as usize], at: u64) -> Option<Self> {
        let header = Self {
            epoch: u64_at(bytes, 8),
            generation: u64_at(bytes, 16),
            label: Label { variant: u32_at(bytes, 24), kind: u32_at(bytes, 28) },
            is_lasting: u32_at(bytes, 4) & IS_LASTING != 0,
            key_bytes: u16_at(bytes, 44),
            head_bytes: u32_at(bytes, 40),
            content_bytes: u64_at(bytes, 32),
            crc: u32_at(bytes, 48),
            life: u32_at(bytes, 52),
        };
        (header.encode(at) == *bytes).then_some(header)
    }

    /// The checksums of the content.
    pub(crate) fn chunks(&self) -> u64 {
        self.content_bytes.div_ceil(CHUNK_BYTES)
    }

    /// The bytes before the content; `None` for a header that nobody has written.
    pub(crate) fn content_offset(&self) -> Option<u64> {
        let front = HEADER_BYTES + u64::from(self.key_bytes) + u64::from(self.head_bytes);
        self.chunks().checked_mul(4)?.checked_add(front)
    }

    /// The bytes of the whole record.
    pub(crate) fn size(&self) -> Option<u64> {
        self.content_offset()?.checked_add(self.content_bytes)?.checked_next_multiple_of(UNIT)
    }
}

/// A record, as the table of its segment has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed<'a> {
    /// From the segment's begin, in bytes.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) life: u32,
    pub(crate) label: Label,
    pub(crate) is_lasting: bool,
    pub(crate) key: &'a [u8],
}

/// The room that a record takes in the table.
pub(crate) fn table_room(key_bytes: usize) -> u64 {
    (TABLE_ENTRY_BYTES + key_bytes) as u64
}

/// Adds a record to a table.
pub(crate) fn add_to_table(table: &mut Vec<u8>, listed: &Listed<'_>) {
    let Listed { offset, size, life, label, is_lasting, key } = *listed;
    for number in [(offset / UNIT) as u32, (size / UNIT) as u32, life, label.variant, label.kind] {
        table.extend_from_slice(&number.to_le_bytes());
    }
    table.extend_from_slice(&(key.len() as u16).to_le_bytes());
    table.extend_from_slice(&u16::from(is_lasting).to_le_bytes());
    table.extend_from_slice(key);
}

/// The records of a table whose checksum is right.
pub(crate) fn read_table(mut table: &[u8]) -> impl Iterator<Item = Listed<'_>> {
    std::iter::from_fn(move || {
        let (fixed, rest) = table.split_at_checked(TABLE_ENTRY_BYTES)?;
        let (key, behind) = rest.split_at_checked(u16_at(fixed, 20).into())?;
        table = behind;
        Some(Listed {
            offset: u64::from(u32_at(fixed, 0)) * UNIT,
            size: u64::from(u32_at(fixed, 4)) * UNIT,
            life: u32_at(fixed, 8),
            label: Label { variant: u32_at(fixed, 12), kind: u32_at(fixed, 16) },
            is_lasting: u16_at(fixed, 22) != 0,
            key,
        })
    })
}

/// The footer behind the table of a segment.
pub(crate) fn footer(epoch: u64, generation: u64, table: &[u8]) -> [u8; FOOTER_BYTES as usize] {
    footer_of(epoch, generation, table.len() as u32, crc32c(table))
}

fn footer_of(epoch: u64, generation: u64, table_bytes: u32, table_crc: u32) -> [u8; FOOTER_BYTES as usize] {
    let mut bytes = [0; FOOTER_BYTES as usize];
    bytes[..4].copy_from_slice(&TABLE_MAGIC.to_le_bytes());
    bytes[4..8].copy_from_slice(&table_bytes.to_le_bytes());
    bytes[8..16].copy_from_slice(&epoch.to_le_bytes());
    bytes[16..24].copy_from_slice(&generation.to_le_bytes());
    bytes[24..28].copy_from_slice(&table_crc.to_le_bytes());
    let crc = crc32c(&bytes[..28]);
    bytes[28..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The bytes and the checksum of the table that a footer is of, if it is that of a segment in this generation.
pub(crate) fn read_footer(bytes: &[u8; FOOTER_BYTES as usize], epoch: u64, generation: u64) -> Option<(u64, u32)> {
    let (table_bytes, table_crc) = (u32_at(bytes, 4), u32_at(bytes, 24));
    (footer_of(epoch, generation, table_bytes, table_crc) == *bytes).then_some((table_bytes.into(), table_crc))
}
