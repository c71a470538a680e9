//! The file of a volume at its home, with a checksum for each block: what is read is what was written, or an error says
//! which block is not.
//!
//! A reader takes a block and its sum without a lock. Where they differ it looks once more while nobody writes: a
//! writer may have been between the two.

use super::pieces::{Piece, put};
use super::sums::{Opening, Sums, kept};
use crate::extents::{BLOCK, Blocks, sum_of};
use machines::messages::home::BlockSums;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vfs::{Doing, File, FileError, Files};

/// Pieces are written together from so many bytes on, or from so many pieces: their regions are marked at once.
const TOGETHER_BYTES: usize = 4 << 20;
const TOGETHER_MAX: usize = 1024;

/// The file.
#[derive(Debug)]
pub(crate) struct Checked {
    raw: Arc<dyn File>,
    path: PathBuf,
    /// Nothing of a device, whose writers nobody could tell.
    sums: Option<Box<Kept>>,
}

/// Its sums: for who writes, and for readers beside.
#[derive(Debug)]
struct Kept {
    sums: Mutex<Sums>,
    file: Arc<dyn File>,
    is_off: Arc<AtomicBool>,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sums of blocks; zeros if they are not looked at.
    fn of(&self, first: u32, blocks: usize) -> io::Result<Vec<u32>> {
        if self.is_off.load(Relaxed) { Ok(vec![0; blocks]) } else { kept(&*self.file, first, blocks) }
    }
}

impl Checked {
    /// A file without sums.
    pub(crate) fn bare(raw: Arc<dyn File>, path: PathBuf) -> Self {
        Self { raw, path, sums: None }
    }

    /// A file with its sums, which are in the file of this name; that is made if it is not there, or it has none.
    pub(crate) fn open(
        raw: Arc<dyn File>,
        path: PathBuf,
        files: &dyn Files,
        sums: &str,
        opening: Opening<'_>,
    ) -> Result<Self, FileError> {
        let sums = Sums::open(files, sums, raw.clone(), opening)?.map(|sums| {
            let (file, is_off) = sums.file();
            Box::new(Kept { sums: Mutex::new(sums), file, is_off })
        });
        Ok(Self { raw, path, sums })
    }

    /// The file as it is.
    pub(crate) fn raw(&self) -> &dyn File {
        &*self.raw
    }

    /// Whether blocks were found, when it was opened, that are not what was written there.
    pub(crate) fn is_damaged(&self) -> bool {
        self.with(|sums| sums.damaged() > 0).unwrap_or(false)
    }

    fn with<T>(&self, work: impl FnOnce(&mut Sums) -> T) -> Option<T> {
        self.sums.as_ref().map(|kept| work(&mut kept.lock()))
    }

    /// Reads whole blocks; an error if one is not what was written.
    pub(crate) fn read(&self, first: u32, into: &mut [u8]) -> Result<(), FileError> {
        if self.sums.is_none() {
            return self.read_raw(first, into);
        }
        let sums = self.read_with(first, into)?;
        let Some(at) = sums.iter().position(|sums| sums.is_damaged()) else { return Ok(()) };
        let block = first + at as u32;
        let BlockSums { kept, read } = sums[at];
        let what = format!(
            "block {block} of the volume is not what was written there (its checksum is {read:08x}, and was {kept:08x}): a \
             cache or a holder may have it (see `thorp volume scrub`); else restore it from a backup, or write it again"
        );
        Err(FileError::Corrupt { file: self.path.clone(), offset: u64::from(block) * BLOCK as u64, what })
    }

    /// The sums of whole blocks, as they were written and as they are read now.
    pub(crate) fn scrub(&self, first: u32, blocks: usize) -> Result<Vec<BlockSums>, FileError> {
        self.read_with(first, &mut vec![0; blocks * BLOCK])
    }

    fn read_with(&self, first: u32, into: &mut [u8]) -> Result<Vec<BlockSums>, FileError> {
        let sums = self.look(first, into)?;
        if !sums.iter().any(|sums| sums.is_damaged()) {
            return Ok(sums);
        }
        let _nobody_writes = self.sums.as_deref().map(Kept::lock);
        self.look(first, into)
    }

    fn read_raw(&self, first: u32, into: &mut [u8]) -> Result<(), FileError> {
        self.raw.read_at(u64::from(first) * BLOCK as u64, into).doing("read", || self.path.clone())
    }

    fn look(&self, first: u32, into: &mut [u8]) -> Result<Vec<BlockSums>, FileError> {
        self.read_raw(first, into)?;
        let blocks = into.chunks(BLOCK);
        let known = match &self.sums {
            Some(kept) => kept.of(first, blocks.len()).doing("read the checksums of", || self.path.clone())?,
            None => vec![0; blocks.len()],
        };
        Ok(blocks.zip(known).map(|(block, kept)| BlockSums { kept, read: sum_of(block) }).collect())
    }

    /// Blocks are about to be written: this is durable before the first of them is.
    pub(crate) fn expect<'a>(&self, blocks: impl IntoIterator<Item = &'a Blocks>) -> Result<(), FileError> {
        self.with(|sums| sums.expect(blocks)).unwrap_or(Ok(()))
    }

    /// Writes a piece that was expected to its place.
    pub(crate) fn put(&self, piece: &Piece) -> Result<(), FileError> {
        self.write(piece, |raw| put(raw, piece))
    }

    /// The same; where the file system can, its blocks are those that another file has there.
    pub(crate) fn share(&self, piece: &Piece, from: &dyn File, from_at: u64) -> Result<(), FileError> {
        let Blocks { start, end } = piece.blocks();
        let (at, len) = (u64::from(start) * BLOCK as u64, u64::from(end - start) * BLOCK as u64);
        self.write(piece, |raw| if raw.share_from(at, from, from_at, len)? { Ok(()) } else { put(raw, piece) })
    }

    fn write(&self, piece: &Piece, write: impl FnOnce(&dyn File) -> io::Result<()>) -> Result<(), FileError> {
        let mut sums = self.sums.as_deref().map(Kept::lock);
        if let Some(sums) = &mut sums {
            sums.begin(&piece.blocks())?;
        }
        let written = write(&*self.raw);
        if let Some(sums) = &mut sums {
            match (piece, &written) {
                (Piece::Bytes(first, bytes), Ok(())) => sums.set(*first, bytes),
                // Of one that has failed some may be there.
                _ => sums.forget(&piece.blocks()),
            }
        }
        written.doing("write", || self.path.clone())
    }

    /// Restores a block that is damaged, if these are the bytes that were written there last, by their checksum.
    /// Returns whether it is sound, durably.
    pub(crate) fn repair(&self, block: u32, bytes: &[u8]) -> Result<bool, FileError> {
        let kept = self.scrub(block, 1)?[0].kept;
        if kept == 0 || kept != sum_of(bytes) {
            return Ok(false);
        }
        let blocks = block..block + 1;
        self.expect([&blocks])?;
        self.put(&Piece::Bytes(block, bytes.to_vec().into()))?;
        self.sync()?;
        Ok(!self.scrub(block, 1)?[0].is_damaged())
    }

    /// Returns when everything that was written is durable.
    pub(crate) fn sync(&self) -> Result<(), FileError> {
        let synced = self.raw.sync().doing("sync", || self.path.clone());
        self.with(|sums| if synced.is_ok() { sums.synced() } else { sums.lost() });
        synced
    }

    /// Returns the file another size, durably.
    pub(crate) fn resize(&self, size: u64) -> Result<(), FileError> {
        let before = self.raw.size().doing("read the length of", || self.path.clone())?;
        self.with(|sums| sums.resize(before, size)).unwrap_or(Ok(()))?;
        self.raw.set_len(size).doing("resize", || self.path.clone())?;
        self.sync()
    }

    /// It is left as it is: all of it is durable, and the sums are for whoever opens it next, if nobody changes it in
    /// the meantime.
    pub(crate) fn close(&self) -> Result<(), FileError> {
        self.with(Sums::close).unwrap_or(Ok(()))
    }
}

/// Pieces that are written together.
#[derive(Debug, Default)]
pub(crate) struct Together {
    pieces: Vec<Piece>,
    bytes: usize,
}

impl Together {
    /// Adds a piece; writes all of them if they are enough.
    pub(crate) fn add(&mut self, piece: Piece, to: &Checked) -> Result<(), FileError> {
        if let Piece::Bytes(_, bytes) = &piece {
            self.bytes += bytes.len();
        }
        self.pieces.push(piece);
        if self.bytes < TOGETHER_BYTES && self.pieces.len() < TOGETHER_MAX { Ok(()) } else { self.write(to) }
    }

    /// Writes them.
    pub(crate) fn write(&mut self, to: &Checked) -> Result<(), FileError> {
        let Self { pieces, .. } = std::mem::take(self);
        let blocks: Vec<Blocks> = pieces.iter().map(Piece::blocks).collect();
        to.expect(&blocks)?;
        pieces.iter().try_for_each(|piece| to.put(piece))
    }
}
