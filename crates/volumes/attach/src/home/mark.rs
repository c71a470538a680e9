//! The file beside a volume that says which epoch its home has learned of last, and through which write all is there.
//!
//! ```text
//!   two slots of 4096 bytes, written in turn:
//!    0  magic "THORPMRK" | 8  format u32 | 0 u32
//!   16  volume u64 | 24  revision u64, the later slot counts
//!   32  epoch u64 | 40  its owner u64
//!   48  mark: epoch u64, sequence u64, flush epoch u64
//!   72  generation u64
//!   80  the volume's file as it was left: its identity u64, when it was changed u64, whether nobody has it open u64
//!  104  CRC32C u32 of bytes 0..104
//! ```
//! It is written with each write-back, so it is one write and one sync, and nothing that a rename would cost besides. A
//! slot that was interrupted has no right checksum, and the other one counts.
//!
//! A home of one host has the same file. Its owner is the cache that the volume is attached with, and its mark's
//! sequence is a position in the log of that cache.

use crate::extents::BLOCK;
use machines::messages::holder::{Epoch, FlushEpoch, Sequence, Stamp};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::{Doing, Fields, File, FileError, Files, How, Malformed, random};

const MAGIC: [u8; 8] = *b"THORPMRK";
const FORMAT: u32 = 2;
const CRC_AT: usize = 104;

/// A home's state, as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marked {
    pub(crate) epoch: Epoch,
    /// The owner of that epoch, or the cache of a volume of one host; 0 if the volume was never attached.
    pub(crate) owner: u64,
    pub(crate) mark: Stamp,
    /// A number that is drawn again whenever the volume's file is not the one that was left.
    pub(crate) generation: u64,
    pub(crate) left: Left,
}

/// The file of a volume, as it was left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// The number by which it is told from another one; 0 if nobody knows.
    pub(crate) identity: u64,
    /// When it was changed last; 0 if nobody knows.
    pub(crate) modified: u64,
    /// Whether nobody has it open: it has not changed since.
    pub(crate) is_closed: bool,
}

impl Left {
    /// As a file is now.
    pub(crate) fn of(file: &dyn File, is_closed: bool) -> io::Result<Self> {
        let (identity, modified) = (file.identity()?.unwrap_or(0), file.modified()?.unwrap_or(0));
        Ok(Self { identity, modified, is_closed })
    }

    /// Whether a file is the one that was left, by its identity, and by its time if it was closed. Of one that was
    /// open, the checksums tell whether its blocks are (`sums.rs`).
    pub(crate) fn is(self, file: &dyn File) -> io::Result<bool> {
        let now = Self::of(file, self.is_closed)?;
        Ok(now.identity == self.identity && (now.modified == self.modified || !self.is_closed))
    }
}

impl Marked {
    /// Of a volume that was just made.
    pub(crate) fn new(generation: u64, left: Left) -> Self {
        Self { epoch: Epoch(0), owner: 0, mark: Stamp::ZERO, generation, left }
    }
}

/// The file.
#[derive(Debug)]
pub(crate) struct MarkFile {
    file: Arc<dyn File>,
    path: PathBuf,
    volume: u64,
    revision: u64,
    marked: Marked,
}

impl MarkFile {
    /// Makes it.
    pub(crate) fn create(files: &dyn Files, name: &str, volume: u64, marked: Marked) -> Result<(), FileError> {
        let path = || files.path(name);
        let mut file = Self {
            file: files.open(name, How::Create).doing("create", path)?,
            path: path(),
            volume,
            revision: 0,
            marked,
        };
        file.file.write_at(0, &[0; 2 * BLOCK]).doing("write", path)?;
        file.write(marked)
    }

    /// Opens it.
    pub(crate) fn open(files: &dyn Files, name: &str, volume: u64) -> Result<Self, FileError> {
        let path = || files.path(name);
        let file = files.open(name, How::Write).doing("open", path)?;
        let mut slots = [0; 2 * BLOCK];
        let len = file.size().doing("read the length of", path)?.min(slots.len() as u64) as usize;
        file.read_at(0, &mut slots[..len]).doing("read", path)?;
        let mut newest: Option<(u64, Marked)> = None;
        for slot in slots.chunks_exact(BLOCK) {
            if let Some(got) = format_of(slot).filter(|&got| got != FORMAT) {
                return Err(FileError::Format { file: path(), expected: FORMAT, got });
            }
            let Ok((of, revision, marked)) = decode(slot) else { continue };
            if of == volume && newest.is_none_or(|(newest, _)| newest < revision) {
                newest = Some((revision, marked));
            }
        }
        let what = || format!("expected the mark of volume {volume:016x} with its checksum, got something else");
        let corrupt = || FileError::Corrupt { file: path(), offset: 0, what: what() };
        let (revision, marked) = newest.ok_or_else(corrupt)?;
        Ok(Self { file, path: path(), volume, revision, marked })
    }

    /// Draws another generation if the volume's file is not the one that was left, or has blocks that were not written
    /// there: owners and caches remember the generation.
    pub(crate) fn check_left(&mut self, file: &dyn File, is_damaged: bool, path: &Path) -> Result<(), FileError> {
        let look = || path.to_owned();
        let before = self.marked.left;
        let left = Left::of(file, false).doing("look at", look)?;
        if is_damaged || !before.is(file).doing("look at", look)? {
            return self.write(Marked { generation: random()?, left, ..self.marked });
        }
        // It is not compared once more.
        let is_judged = !before.is_closed && before != left;
        if is_judged { self.write(Marked { left, ..self.marked }) } else { Ok(()) }
    }

    /// The state that it says.
    pub(crate) fn marked(&self) -> Marked {
        self.marked
    }

    /// Writes it, durably.
    pub(crate) fn write(&mut self, marked: Marked) -> Result<(), FileError> {
        let revision = self.revision + 1;
        let at = revision % 2 * BLOCK as u64;
        let written = self.file.write_at(at, &encode(self.volume, revision, marked)).and_then(|()| self.file.sync());
        written.doing("write", || self.path.clone())?;
        (self.revision, self.marked) = (revision, marked);
        Ok(())
    }
}

fn encode(volume: u64, revision: u64, marked: Marked) -> [u8; CRC_AT + 4] {
    let Marked { epoch, owner, mark, generation, left } = marked;
    let Left { identity, modified, is_closed } = left;
    let mut bytes = [0; CRC_AT + 4];
    bytes[0..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    let fields = [volume, revision, epoch.0, owner, mark.epoch.0, mark.sequence.0, mark.flush.0];
    let fields = fields.into_iter().chain([generation, identity, modified, is_closed.into()]);
    for (into, field) in bytes[16..CRC_AT].chunks_exact_mut(8).zip(fields) {
        into.copy_from_slice(&field.to_le_bytes());
    }
    let crc = crc32c::crc32c(&bytes[..CRC_AT]);
    bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The format of a slot that is one.
fn format_of(slot: &[u8]) -> Option<u32> {
    slot.starts_with(&MAGIC).then(|| u32::from_le_bytes([slot[8], slot[9], slot[10], slot[11]]))
}

/// The volume, the revision and the state of a slot.
fn decode(slot: &[u8]) -> Result<(u64, u64, Marked), Malformed> {
    let mut fields = Fields::new(slot[..CRC_AT + 4].to_vec().into());
    let magic = fields.take(8)?;
    fields.take(8)?;
    let (volume, revision) = (fields.u64()?, fields.u64()?);
    let (epoch, owner) = (Epoch(fields.u64()?), fields.u64()?);
    let (of, sequence, flush) = (Epoch(fields.u64()?), Sequence(fields.u64()?), FlushEpoch(fields.u64()?));
    let (generation, identity, modified) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let left = Left { identity, modified, is_closed: fields.u64()? != 0 };
    if magic[..] != MAGIC || fields.u32()? != crc32c::crc32c(&slot[..CRC_AT]) {
        return Err(Malformed);
    }
    let mark = Stamp { epoch: of, sequence, flush };
    Ok((volume, revision, Marked { epoch, owner, mark, generation, left }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::memory::{Dice, Fault, Memory};

    fn marked(number: u64) -> Marked {
        let mark = Stamp { epoch: Epoch(number), sequence: Sequence(number + 1), flush: FlushEpoch(number + 2) };
        let left = Left { identity: number + 5, modified: number + 6, is_closed: number % 2 == 1 };
        Marked { epoch: Epoch(number + 3), owner: number + 4, mark, generation: number + 7, left }
    }

    #[test]
    fn a_mark_has_its_golden_bytes() {
        let bytes = encode(0x0102, 5, marked(1));
        let hex = bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        assert_eq!(
            hex,
            "54484f52504d524b020000000000000002010000000000000500000000000000040000000000000005000000000000000100000000\
             000000020000000000000003000000000000000800000000000000060000000000000007000000000000000100000000000000e3f4\
             2633"
        );
    }

    #[test]
    fn an_interrupted_write_leaves_the_mark_of_before() {
        let mut dice = Dice(3);
        for at in 0..12 {
            let files = Memory::default();
            MarkFile::create(&files, "m", 7, marked(0)).unwrap();
            files.sync_dir().unwrap();
            let mut file = MarkFile::open(&files, "m", 7).unwrap();
            file.write(marked(1)).unwrap();
            files.plan(Some(Fault::Crash(at)));
            let last = (2..99).take_while(|&number| file.write(marked(number)).is_ok()).last().unwrap_or(1);
            for _ in 0..8 {
                let left = files.after_power_failure(&mut dice);
                let found = MarkFile::open(&left, "m", 7).unwrap().marked();
                assert!([last, last + 1].map(marked).contains(&found), "operation {at}: {found:?}");
            }
        }
    }

    #[test]
    fn the_mark_of_another_volume_and_a_damaged_one_are_refused() {
        let files = Memory::default();
        MarkFile::create(&files, "m", 7, marked(0)).unwrap();
        assert!(matches!(MarkFile::open(&files, "m", 8), Err(FileError::Corrupt { .. })));
        files.damage("m", |bytes| bytes[BLOCK + 40] ^= 1);
        assert!(matches!(MarkFile::open(&files, "m", 7), Err(FileError::Corrupt { .. })));
    }
}
