//! The journal of a home: the writes of one joined write-back, whole or not at all.
//!
//! ```text
//!   block 0    0  magic "THORPJNL" | 8  format u32 | entries u32
//!             16  volume u64 | 24  where the entries are u64
//!             32  CRC32C u32 of the entries | 0 u32
//!             40  the mark that it comes to: epoch u64, sequence u64, flush epoch u64
//!             64  CRC32C u32 of bytes 0..64
//!   block 1..     the bytes of each entry of kind 1, one after the other
//!   then          entries: first block u32 | blocks u32 | kind u32 (1 bytes, 2 hole, 3 zeros) | CRC32C u32 of the bytes
//! ```
//! All of it is written and then synced, once. A journal whose checksums are not all right was not durable, so nothing
//! of it has been installed, and it counts for nothing. A long run is not written once more to its place where the file
//! system can share blocks between files: both have it until the journal is made again. Before anything else is written
//! to the home the header is blanked, durably: an old journal must never be installed over what came later.

use super::checked::Checked;
use super::pieces::{Piece, Pieces};
use crate::extents::{BLOCK, Blocks};
use machines::messages::holder::{Epoch, FlushEpoch, Sequence, Stamp};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use vfs::{Doing, Fields, File, FileError, Files, How, Malformed};

const MAGIC: [u8; 8] = *b"THORPJNL";
const FORMAT: u32 = 2;
const CRC_AT: usize = 64;
const ENTRY_BYTES: usize = 16;

/// From so many bytes on the disk begins to write them, while more come.
const SYNC_BYTES: u64 = 4 << 20;

/// A run of this many bytes is not written again where its blocks can be shared: shorter ones would leave home in
/// pieces.
const SHARED_MIN: usize = 64 << 10;

const BYTES: u32 = 1;
const HOLE: u32 = 2;
const ZEROS: u32 = 3;

/// The journal of a home.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) name: String,
    pub(crate) volume: u64,
}

/// The header of a journal.
#[derive(Debug)]
struct Header {
    count: usize,
    /// Where the entries are, and their checksum.
    at: u64,
    crc: u32,
    through: Stamp,
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

/// A journal that is being written.
#[derive(Debug)]
pub(crate) struct Incomplete {
    file: Arc<dyn File>,
    at: u64,
    /// The disk has begun to write what is before this.
    handed_over: u64,
    entries: Vec<Entry>,
}

/// A journal that is durable.
#[derive(Debug)]
pub(crate) struct Complete {
    path: PathBuf,
    file: Arc<dyn File>,
    entries: Vec<Entry>,
    through: Stamp,
}

impl Journal {
    /// Makes writes durable, all of them, with the mark that they come to.
    pub(super) fn write(&self, through: Stamp, pieces: Pieces<'_>) -> Result<Complete, FileError> {
        let mut journal = self.begin()?;
        pieces(&mut |piece| self.put(&mut journal, &piece))?;
        self.complete(journal, through)
    }

    /// Begins to write one, in the place of whatever there was.
    pub(crate) fn begin(&self) -> Result<Incomplete, FileError> {
        let file = self.files.open(&self.name, How::Create).doing("create", || self.path())?;
        Ok(Incomplete { file, at: BLOCK as u64, handed_over: 0, entries: Vec::new() })
    }

    /// Writes a piece.
    pub(crate) fn put(&self, journal: &mut Incomplete, piece: &Piece) -> Result<(), FileError> {
        let entry = match piece {
            Piece::Bytes(first, bytes) => {
                journal.file.write_at(journal.at, bytes).doing("write", || self.path())?;
                journal.at += bytes.len() as u64;
                if journal.at - journal.handed_over >= SYNC_BYTES {
                    journal.file.begin_sync(journal.handed_over, journal.at - journal.handed_over);
                    journal.handed_over = journal.at;
                }
                let blocks = *first..first + (bytes.len() / BLOCK) as u32;
                Entry { blocks, kind: BYTES, crc: crc32c::crc32c(bytes) }
            }
            Piece::Zeros { blocks, is_hole } => {
                Entry { blocks: blocks.clone(), kind: if *is_hole { HOLE } else { ZEROS }, crc: 0 }
            }
        };
        journal.entries.push(entry);
        Ok(())
    }

    /// Makes it durable, with the mark that it comes to.
    pub(crate) fn complete(&self, journal: Incomplete, through: Stamp) -> Result<Complete, FileError> {
        let Incomplete { file, at, entries, .. } = journal;
        let table: Vec<u8> = entries.iter().flat_map(encode).collect();
        let header = self.header(entries.len(), at, crc32c::crc32c(&table), through);
        file.write_at(at, &table).doing("write", || self.path())?;
        file.write_at(0, &header).doing("write", || self.path())?;
        file.sync().doing("sync", || self.path())?;
        self.files.sync_dir().doing("sync", || self.files.path(""))?;
        Ok(Complete { path: self.path(), file, entries, through })
    }

    /// The journal that a crash has left, if it was durable.
    pub(crate) fn find(&self) -> Result<Option<Complete>, FileError> {
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
        let Some(Header { count, at, crc, through }) = self.decode_header(&read(0, BLOCK)?)? else { return Ok(None) };
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
        let complete = Complete { path: self.path(), file, entries, through };
        Ok(complete.is_whole(at)?.then_some(complete))
    }

    fn header(&self, count: usize, at: u64, crc: u32, through: Stamp) -> [u8; BLOCK] {
        let mut header = [0; BLOCK];
        header[0..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        header[12..16].copy_from_slice(&(count as u32).to_le_bytes());
        header[16..24].copy_from_slice(&self.volume.to_le_bytes());
        header[24..32].copy_from_slice(&at.to_le_bytes());
        header[32..36].copy_from_slice(&crc.to_le_bytes());
        header[40..48].copy_from_slice(&through.epoch.0.to_le_bytes());
        header[48..56].copy_from_slice(&through.sequence.0.to_le_bytes());
        header[56..64].copy_from_slice(&through.flush.0.to_le_bytes());
        let crc = crc32c::crc32c(&header[..CRC_AT]);
        header[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        header
    }

    /// The header, if that is one of this volume.
    fn decode_header(&self, bytes: &[u8]) -> Result<Option<Header>, FileError> {
        let mut fields = Fields::new(bytes[..CRC_AT + 4].to_vec().into());
        let decoded = (|| {
            let magic = fields.take(8)?;
            let (format, count) = (fields.u32()?, fields.u32()?);
            let (volume, at) = (fields.u64()?, fields.u64()?);
            let (crc, _) = (fields.u32()?, fields.u32()?);
            let (epoch, sequence, flush) = (Epoch(fields.u64()?), Sequence(fields.u64()?), FlushEpoch(fields.u64()?));
            let header = Header { count: count as usize, at, crc, through: Stamp { epoch, sequence, flush } };
            Ok::<_, Malformed>((magic, format, volume, header, fields.u32()?))
        })();
        let (magic, format, volume, header, own) = decoded.expect("there are so many bytes");
        if magic[..] != MAGIC {
            return Ok(None);
        }
        if format != FORMAT {
            return Err(FileError::Format { file: self.path(), expected: FORMAT, got: format });
        }
        if own != crc32c::crc32c(&bytes[..CRC_AT]) {
            return Ok(None);
        }
        if volume != self.volume {
            let what = format!("expected the journal of volume {:016x}, got that of {volume:016x}", self.volume);
            return Err(FileError::Corrupt { file: self.path(), offset: 16, what });
        }
        Ok(Some(header))
    }

    fn path(&self) -> PathBuf {
        self.files.path(&self.name)
    }
}

impl Incomplete {
    /// How many runs of blocks it has.
    pub(crate) fn runs(&self) -> usize {
        self.entries.len()
    }
}

impl Complete {
    /// The mark that it comes to.
    pub(crate) fn through(&self) -> Stamp {
        self.through
    }

    /// Writes everything that is in it to its place, in order. It is durable when that file is synced.
    pub(crate) fn install(&self, home: &Checked) -> Result<(), FileError> {
        home.expect(self.entries.iter().map(|entry| &entry.blocks))?;
        self.each(&mut |piece, at| match &piece {
            Piece::Bytes(_, bytes) if bytes.len() >= SHARED_MIN => home.share(&piece, &*self.file, at),
            _ => home.put(&piece),
        })
    }

    /// Returns everything that is in it, in order, each with its place in the journal.
    fn each(&self, give: &mut dyn FnMut(Piece, u64) -> Result<(), FileError>) -> Result<(), FileError> {
        let mut at = BLOCK;
        for entry in &self.entries {
            if entry.kind != BYTES {
                give(Piece::Zeros { blocks: entry.blocks.clone(), is_hole: entry.kind == HOLE }, at as u64)?;
                continue;
            }
            let mut bytes = vec![0; entry.bytes()];
            self.file.read_at(at as u64, &mut bytes).doing("read", || self.path.clone())?;
            give(Piece::Bytes(entry.blocks.start, bytes.into()), at as u64)?;
            at += entry.bytes();
        }
        Ok(())
    }

    /// It has been installed, durably, and is never to be installed again.
    pub(crate) fn blank(self) -> Result<(), FileError> {
        let blanked = self.file.write_at(0, &[0; BLOCK]).and_then(|()| self.file.sync());
        blanked.doing("write", || self.path.clone())
    }

    /// Whether all the bytes are those that were written; they end at `end`.
    fn is_whole(&self, end: u64) -> Result<bool, FileError> {
        let bytes = self.entries.iter().map(|entry| entry.bytes() as u64);
        if bytes.fold(BLOCK as u64, u64::saturating_add) != end {
            return Ok(false);
        }
        let (mut index, mut is_whole) = (0, true);
        self.each(&mut |piece, _| {
            if let Piece::Bytes(_, bytes) = piece {
                is_whole &= crc32c::crc32c(&bytes) == self.entries[index].crc;
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
