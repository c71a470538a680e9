//! The journal of a home: the writes of one joined write-back, whole or not at all.
//!
//! ```text
//!   block 0    0  magic "THORPJNL" | 8  format u32 | entries u32
//!             16  volume u64 | 24  where the entries are u64
//!             32  CRC32C u32 of the entries | CRC32C u32 of bytes 0..36
//!   block 1..     the bytes of each entry of kind 1, one after the other
//!   then          entries: first block u32 | blocks u32 | kind u32 (1 bytes, 2 hole, 3 zeros) | CRC32C u32 of the bytes
//! ```
//! All of it is written and then synced, once. A journal whose checksums are not all right was not durable, so nothing of
//! it has been installed, and it counts for nothing. Before anything else is written to the home the header is blanked,
//! durably: an old journal must never be installed over what came later.

use super::pieces::{Piece, Pieces};
use crate::extents::{BLOCK, Blocks};
use std::io;
use std::sync::Arc;
use vfs::{Doing, Fields, File, FileError, Files, How, Malformed};

const MAGIC: [u8; 8] = *b"THORPJNL";
const FORMAT: u32 = 1;
const ENTRY_BYTES: usize = 16;
const BYTES: u32 = 1;
const HOLE: u32 = 2;
const ZEROS: u32 = 3;

/// The journal of a home.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) files: Arc<dyn Files>,
    pub(super) name: String,
    pub(super) volume: u64,
}

/// A run of blocks in a journal.
#[derive(Clone, Debug)]
struct Entry {
    blocks: Blocks,
    kind: u32,
    crc: u32,
}

impl Entry {
    fn bytes(&self) -> usize {
        if self.kind == BYTES { self.blocks.len() * BLOCK } else { 0 }
    }
}

/// A journal that is durable.
#[derive(Debug)]
pub(super) struct Complete<'a> {
    journal: &'a Journal,
    file: Arc<dyn File>,
    entries: Vec<Entry>,
}

impl Journal {
    /// Makes writes durable, all of them.
    pub(super) fn write(&self, pieces: Pieces<'_>) -> Result<Complete<'_>, FileError> {
        let file = self.files.open(&self.name, How::Create).doing("create", || self.path())?;
        let (mut at, mut entries) = (BLOCK, Vec::new());
        pieces(&mut |piece| {
            let entry = match piece {
                Piece::Bytes(first, bytes) => {
                    file.write_at(at as u64, bytes).doing("write", || self.path())?;
                    at += bytes.len();
                    let blocks = first..first + (bytes.len() / BLOCK) as u32;
                    Entry { blocks, kind: BYTES, crc: crc32c::crc32c(bytes) }
                }
                Piece::Zeros { blocks, is_hole } => Entry { blocks, kind: if is_hole { HOLE } else { ZEROS }, crc: 0 },
            };
            entries.push(entry);
            Ok(())
        })?;
        let table: Vec<u8> = entries.iter().flat_map(encode).collect();
        let header = self.header(entries.len(), at, crc32c::crc32c(&table));
        file.write_at(at as u64, &table).doing("write", || self.path())?;
        file.write_at(0, &header).doing("write", || self.path())?;
        file.sync().doing("sync", || self.path())?;
        self.files.sync_dir().doing("sync", || self.files.path(""))?;
        Ok(Complete { journal: self, file, entries })
    }

    /// The journal that a crash has left, if it was durable.
    pub(super) fn find(&self) -> Result<Option<Complete<'_>>, FileError> {
        let file = match self.files.open(&self.name, How::Write) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).doing("open", || self.path()),
        };
        let size = file.size().doing("read the length of", || self.path())?;
        let read = |at: u64, len: usize| {
            let mut bytes = vec![0; len];
            file.read_at(at, &mut bytes).doing("read", || self.path()).map(|()| bytes)
        };
        if size < BLOCK as u64 {
            return Ok(None);
        }
        let Some((count, at, crc)) = self.decode_header(&read(0, BLOCK)?)? else { return Ok(None) };
        if (count as u64 * ENTRY_BYTES as u64).checked_add(at).is_none_or(|end| end > size) {
            return Ok(None);
        }
        let table = read(at, count * ENTRY_BYTES)?;
        if crc32c::crc32c(&table) != crc {
            return Ok(None);
        }
        let Ok(entries) = table.chunks_exact(ENTRY_BYTES).map(decode).collect::<Result<Vec<_>, _>>() else {
            return Ok(None);
        };
        let complete = Complete { journal: self, file, entries };
        Ok(complete.is_whole(at)?.then_some(complete))
    }

    fn header(&self, count: usize, at: usize, crc: u32) -> [u8; BLOCK] {
        let mut header = [0; BLOCK];
        header[0..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        header[12..16].copy_from_slice(&(count as u32).to_le_bytes());
        header[16..24].copy_from_slice(&self.volume.to_le_bytes());
        header[24..32].copy_from_slice(&(at as u64).to_le_bytes());
        header[32..36].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32c::crc32c(&header[..36]);
        header[36..40].copy_from_slice(&crc.to_le_bytes());
        header
    }

    /// How many entries there are, where, and their checksum; `None` if that is no header of this volume.
    fn decode_header(&self, bytes: &[u8]) -> Result<Option<(usize, u64, u32)>, FileError> {
        let mut fields = Fields::new(bytes[..40].to_vec().into());
        let decoded = (|| {
            let magic = fields.take(8)?;
            let (format, count) = (fields.u32()?, fields.u32()?);
            let (volume, at) = (fields.u64()?, fields.u64()?);
            Ok::<_, Malformed>((magic, format, count, volume, at, fields.u32()?, fields.u32()?))
        })();
        let (magic, format, count, volume, at, crc, own) = decoded.expect("there are so many bytes");
        if magic[..] != MAGIC || own != crc32c::crc32c(&bytes[..36]) {
            return Ok(None);
        }
        if format > FORMAT {
            return Err(FileError::Format { file: self.path(), expected: FORMAT, got: format });
        }
        if volume != self.volume {
            let what = format!("expected the journal of volume {:016x}, got that of {volume:016x}", self.volume);
            return Err(FileError::Corrupt { file: self.path(), offset: 16, what });
        }
        Ok(Some((count as usize, at, crc)))
    }

    fn path(&self) -> std::path::PathBuf {
        self.files.path(&self.name)
    }
}

impl Complete<'_> {
    /// Gives all that is in it, in order.
    pub(super) fn each(&self, put: &mut dyn FnMut(Piece<'_>) -> Result<(), FileError>) -> Result<(), FileError> {
        let (mut at, mut bytes) = (BLOCK, Vec::new());
        for entry in &self.entries {
            if entry.kind != BYTES {
                put(Piece::Zeros { blocks: entry.blocks.clone(), is_hole: entry.kind == HOLE })?;
                continue;
            }
            bytes.resize(entry.bytes(), 0);
            self.file.read_at(at as u64, &mut bytes).doing("read", || self.journal.path())?;
            at += bytes.len();
            put(Piece::Bytes(entry.blocks.start, &bytes))?;
        }
        Ok(())
    }

    /// It has been installed, durably, and is never to be installed again.
    pub(super) fn blank(self) -> Result<(), FileError> {
        let blanked = self.file.write_at(0, &[0; BLOCK]).and_then(|()| self.file.sync());
        blanked.doing("write", || self.journal.path())
    }

    /// Whether all the bytes are those that were written; they end at `end`.
    fn is_whole(&self, end: u64) -> Result<bool, FileError> {
        let bytes = self.entries.iter().map(|entry| entry.bytes() as u64);
        if bytes.fold(BLOCK as u64, u64::saturating_add) != end {
            return Ok(false);
        }
        let (mut index, mut is_whole) = (0, true);
        self.each(&mut |piece| {
            if let Piece::Bytes(_, bytes) = piece {
                is_whole &= crc32c::crc32c(bytes) == self.entries[index].crc;
            }
            index += 1;
            Ok(())
        })?;
        Ok(is_whole)
    }
}

fn encode(entry: &Entry) -> [u8; ENTRY_BYTES] {
    let Entry { blocks, kind, crc } = entry;
    let mut bytes = [0; ENTRY_BYTES];
    for (at, field) in [blocks.start, blocks.end - blocks.start, *kind, *crc].into_iter().enumerate() {
        bytes[4 * at..4 * at + 4].copy_from_slice(&field.to_le_bytes());
    }
    bytes
}

fn decode(bytes: &[u8]) -> Result<Entry, Malformed> {
    let mut fields = Fields::new(bytes.to_vec().into());
    let (first, count, kind, crc) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let end =
        first.checked_add(count).filter(|_| count > 0 && matches!(kind, BYTES | HOLE | ZEROS)).ok_or(Malformed)?;
    Ok(Entry { blocks: first..end, kind, crc })
}
