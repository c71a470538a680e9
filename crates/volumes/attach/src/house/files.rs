//! The files of one volume at its home.
//!
//! ```text
//!   0123456789abcdef.raw       the volume, byte for byte
//!   0123456789abcdef.mark      its epoch and its mark; a volume that has none was not wholly made, or is being removed
//!   0123456789abcdef.journal   a joined write-back, before it is installed
//!   0123456789abcdef.sums      a checksum for each block (`home/sums.rs`)
//!   0123456789abcdef.entry     the registry's entry of it, if home was told one (`entry.rs`)
//! ```
//! Steps are those of [`machines::Home`], and each is durable when it has returned. The mark is written before the
//! journal that came to it is blanked: a home that starts between the two finds the journal behind its mark, and lets
//! it go.

use super::entry;
use crate::extents::{BLOCK, Blocks};
use crate::home::{
    Checked, Checks, Incomplete, Journal, JournalFound, Left, MarkFile, Marked, Opening, Piece, Together,
};
use machines::Step;
use machines::messages::holder::{Content, Epoch, Extent, Stamp, VolumeId};
use std::fmt;
use std::sync::Arc;
use types::limits::VOLUME_JOURNAL_RUNS_MAX;
use vfs::{Doing, File, FileError, Files, How, random};

/// Why a file of a volume was not read or written.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The system refused it.
    File(FileError),
    /// A joined write-back is of more runs of blocks than a journal takes.
    JournalFull,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::JournalFull => {
                write!(f, "the write-back has more than {VOLUME_JOURNAL_RUNS_MAX} runs of blocks: join fewer flushes")
            }
        }
    }
}

impl From<FileError> for Trouble {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

/// The state of a volume as its files have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) size: u64,
    pub(super) epoch: Epoch,
    pub(super) owner: u64,
    pub(super) mark: Stamp,
    /// The number that is another one when its files are not those that were left.
    pub(super) generation: u64,
    /// The mark that its journal comes to, if that is whole and not installed.
    pub(super) journal: Option<Stamp>,
}

/// The particulars of a step, besides those that it names.
#[derive(Clone, Copy, Debug)]
pub(super) struct With {
    pub(super) through: Stamp,
    pub(super) owner: u64,
}

/// The files of a volume that is open.
#[derive(Debug)]
pub(super) struct VolumeFiles {
    name: String,
    files: Arc<dyn Files>,
    file: Arc<Checked>,
    mark: MarkFile,
    journal: Journal,
    /// Parts of the write-back under way that were not written yet.
    together: Together,
    /// The part of the write-back under way that was not handed to the disk yet.
    unsynced: Unsynced,
    /// The journal of the write-back under way.
    incomplete: Option<Incomplete>,
    /// The journal that is whole.
    complete: Option<JournalFound>,
}

pub(super) fn raw(volume: VolumeId) -> String {
    format!("{:016x}.raw", volume.0)
}

pub(super) fn mark(volume: VolumeId) -> String {
    format!("{:016x}.mark", volume.0)
}

pub(super) fn sums(volume: VolumeId) -> String {
    format!("{:016x}.sums", volume.0)
}

pub(super) fn journal(volume: VolumeId) -> String {
    format!("{:016x}.journal", volume.0)
}

/// The volume that a file is of, by its name.
pub(super) fn volume_of(name: &str) -> Option<VolumeId> {
    let (number, _) = name.split_once('.')?;
    let volume = VolumeId(u64::from_str_radix(number, 16).ok()?);
    [raw, mark, journal, sums, entry::name].iter().any(|of| of(volume) == name).then_some(volume)
}

/// Whether there is such a volume.
pub(super) fn exists(files: &dyn Files, volume: VolumeId) -> Result<bool, FileError> {
    match files.open(&mark(volume), How::Read) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).doing("open", || files.path(&mark(volume))),
    }
}

/// Makes a volume of zeros, durably.
pub(super) fn create(files: &dyn Files, volume: VolumeId, size: u64) -> Result<(), FileError> {
    let path = || files.path(&raw(volume));
    let file = files.open(&raw(volume), How::Create).doing("create", path)?;
    file.set_len(size).doing("extend", path)?;
    file.sync_all().doing("sync", path)?;
    finish_new(files, volume, &*file)
}

/// The last of what makes a volume: until its mark is there, there is none.
fn finish_new(files: &dyn Files, volume: VolumeId, file: &dyn File) -> Result<(), FileError> {
    let left = Left::of(file, true).doing("look at", || files.path(&raw(volume)))?;
    MarkFile::create(files, &mark(volume), volume.0, Marked::new(random()?, left))?;
    files.sync_dir().doing("sync", || files.path(""))
}

/// Removes a volume. One that is interrupted is no volume any more.
pub(super) fn remove(files: &dyn Files, volume: VolumeId) -> Result<(), FileError> {
    let remove = |name: String| match files.remove(&name) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).doing("remove", || files.path(&name)),
        _ => Ok(()),
    };
    remove(mark(volume))?;
    files.sync_dir().doing("sync", || files.path(""))?;
    remove(journal(volume))?;
    entry::names(volume).into_iter().try_for_each(remove)?;
    remove(sums(volume))?;
    remove(raw(volume))?;
    files.sync_dir().doing("sync", || files.path(""))
}

impl VolumeFiles {
    /// Opens the files of a volume that exists.
    pub(super) fn open(files: Arc<dyn Files>, volume: VolumeId, checks: &Checks) -> Result<(Self, Found), FileError> {
        let name = raw(volume);
        let mut mark = MarkFile::open(&*files, &mark(volume), volume.0)?;
        let file = files.open(&name, How::Write).doing("open", || files.path(&name))?;
        let size = file.size().doing("read the length of", || files.path(&name))?;
        let path = files.path(&name);
        let opening = Opening { makes: true, left: Some(mark.marked().left), checks };
        let file = Arc::new(Checked::open(file, path.clone(), &*files, &sums(volume), opening)?);
        mark.check_left(file.raw(), file.is_damaged(), &path)?;
        let Marked { epoch, owner, mark: stamp, generation, .. } = mark.marked();
        let journal = Journal { files: files.clone(), name: journal(volume), volume: volume.0 };
        let mut complete = journal.find()?;
        // It was installed, and the mark written: only its end was interrupted.
        if let Some(old) = complete.take_if(|it| it.through() <= stamp) {
            old.blank()?;
        }
        let journal_through = complete.as_ref().map(JournalFound::through);
        let found = Found { size, epoch, owner, mark: stamp, generation, journal: journal_through };
        let (together, unsynced, incomplete) = Default::default();
        Ok((Self { name, files, file, mark, journal, together, unsynced, incomplete, complete }, found))
    }

    /// The volume's file, for readers beside.
    pub(super) fn file(&self) -> Arc<Checked> {
        self.file.clone()
    }

    /// Leaves it, so that what happens to its file until it is opened again is noticed.
    pub(super) fn close(mut self) -> Result<(), FileError> {
        let path = || self.files.path(&self.name);
        if self.mark.marked().left.is_closed {
            return self.file.close();
        }
        // The time of the last change, too: after a power failure it would be an earlier one.
        self.file.raw().sync_all().doing("sync", path)?;
        self.file.close()?;
        let left = Left::of(self.file.raw(), true).doing("look at", path)?;
        self.mark.write(Marked { left, ..self.mark.marked() })
    }

    /// It is about to change: from now on its file may be another one than was left.
    fn touch(&mut self) -> Result<(), FileError> {
        let marked = self.mark.marked();
        if marked.left.is_closed {
            self.mark.write(Marked { left: Left { is_closed: false, ..marked.left }, ..marked })?;
        }
        Ok(())
    }

    /// Begins a write-back.
    pub(super) fn begin(&mut self, is_joined: bool) -> Result<(), Trouble> {
        self.touch()?;
        (self.together, self.unsynced) = Default::default();
        self.incomplete = if is_joined { Some(self.journal.begin()?) } else { None };
        Ok(())
    }

    /// Writes a part of the write-back under way.
    pub(super) fn put(&mut self, extent: Extent, content: &Content) -> Result<(), Trouble> {
        let blocks = blocks(extent);
        let piece = match content {
            Content::Data(bytes) => Piece::Bytes(blocks.start, bytes.clone()),
            Content::Trim => Piece::Zeros { blocks, is_hole: true },
            Content::Zero => Piece::Zeros { blocks, is_hole: false },
        };
        match &mut self.incomplete {
            Some(journal) if journal.runs() >= VOLUME_JOURNAL_RUNS_MAX => return Err(Trouble::JournalFull),
            Some(journal) => self.journal.put(journal, &piece)?,
            None => {
                let is_bytes = matches!(piece, Piece::Bytes(..));
                self.together.add(piece, &self.file)?;
                if let Some((at, len)) = is_bytes.then(|| self.unsynced.add(extent)).flatten() {
                    // The disk begins with what is there.
                    self.together.write(&self.file)?;
                    self.file.raw().begin_sync(at, len);
                }
            }
        }
        Ok(())
    }

    /// Does a step, durably: of a journal, with the mark that it comes to; of an epoch, with its owner.
    pub(super) fn step(&mut self, step: Step, With { through, owner }: With) -> Result<(), Trouble> {
        match step {
            Step::Journal => {
                if let Some(journal) = self.incomplete.take() {
                    self.complete = Some(self.journal.complete(journal, through)?);
                }
            }
            Step::Install => {
                self.touch()?;
                if let Some(journal) = &self.complete {
                    journal.install(&self.file)?;
                }
                self.together.write(&self.file)?;
                self.file.sync()?;
            }
            Step::Mark(mark) => {
                let marked = Marked { mark, left: self.left()?, ..self.mark.marked() };
                self.write_mark(marked)?;
            }
            Step::Fence(epoch) => {
                let marked = Marked { epoch, owner, ..self.mark.marked() };
                self.write_mark(marked)?;
            }
        }
        Ok(())
    }

    /// Its file as it is.
    fn left(&self) -> Result<Left, FileError> {
        Left::of(self.file.raw(), false).doing("look at", || self.files.path(&self.name))
    }

    /// Writes the mark, and lets the journal be empty.
    fn write_mark(&mut self, marked: Marked) -> Result<(), FileError> {
        self.mark.write(marked)?;
        self.incomplete = None;
        if let Some(journal) = self.complete.take() {
            journal.blank()?;
        }
        Ok(())
    }

    /// Makes another volume with the same contents, which shares their blocks with this one.
    pub(super) fn snapshot(&self, to: VolumeId) -> Result<(), FileError> {
        let path = || self.files.path(&raw(to));
        if exists(&*self.files, to)? {
            return Err(std::io::Error::from(std::io::ErrorKind::AlreadyExists)).doing("create", path);
        }
        self.files.share(&self.name, &raw(to)).doing("share the blocks of the volume with", path)?;
        let file = self.files.open(&raw(to), How::Read).doing("open", path)?;
        finish_new(&*self.files, to, &*file)
    }

    /// Changes its size, durably.
    pub(super) fn resize(&mut self, size: u64) -> Result<(), FileError> {
        self.touch()?;
        self.file.resize(size)?;
        self.mark.write(Marked { left: self.left()?, ..self.mark.marked() })
    }
}

/// From so many bytes on the disk begins to write what has come of a write-back, while more of it comes.
const SYNC_BYTES: u64 = 4 << 20;

/// The range of what was written and not handed to the disk, and how much of that was.
#[derive(Debug, Default)]
struct Unsynced {
    range: Option<(u64, u64)>,
    bytes: u64,
}

impl Unsynced {
    /// Adds an extent; gives the range that the disk should begin with, if there is enough of it. Where little of a
    /// range was written the rest of it is better left alone: others may read it.
    fn add(&mut self, Extent { offset, len }: Extent) -> Option<(u64, u64)> {
        let (from, to) = self.range.unwrap_or((offset, offset));
        let (from, to) = (from.min(offset), to.max(offset + len));
        (self.range, self.bytes) = (Some((from, to)), self.bytes + len);
        if self.bytes < SYNC_BYTES {
            return None;
        }
        let is_dense = to - from <= 2 * self.bytes;
        *self = Self::default();
        is_dense.then_some((from, to - from))
    }
}

/// The blocks of an extent of whole blocks.
fn blocks(extent: Extent) -> Blocks {
    (extent.offset / BLOCK as u64) as u32..((extent.offset + extent.len) / BLOCK as u64) as u32
}
