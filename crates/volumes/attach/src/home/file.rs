//! The file or the device that a volume lives in.

use super::beside::{expect_alone, is_device};
use super::check::Checks;
use super::checked::{Checked, Together};
use super::error::HomeError;
use super::journal::{Complete, Journal};
use super::mark::{Left, MarkFile, Marked};
use super::ownership::Ownership;
use super::pieces::Pieces;
use super::runs::runs;
use super::sums::Opening;
use crate::extents::Blocks;
use machines::HomeState;
use machines::messages::holder::{Epoch, Extent, Stamp};
use machines::messages::home::{BlockSums, Run};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use vfs::{Doing, File, FileError, Files, How, Lock, Locking, random};

/// Runs that are told at a time.
const RUNS_MAX: usize = 16;

/// The home of a volume.
#[derive(Debug)]
pub(crate) struct FileHome {
    files: Arc<dyn Files>,
    name: String,
    /// The files beside it.
    beside: Arc<dyn Files>,
    file: Checked,
    size: AtomicU64,
    ownership: Ownership,
    /// The cache is no part of it any more.
    has_forgotten: AtomicBool,
    /// `None` if it was never attached, and is not to be.
    mark: Option<Box<Mutex<MarkFile>>>,
    journal: Journal,
    /// A journal is durable that is not wholly installed.
    is_unfinished: AtomicBool,
    /// Something is being written, or its blocks are being shared, or its size is changed, or it is released: one of
    /// these.
    writing: Mutex<()>,
    lock: Mutex<Option<Lock>>,
}

impl FileHome {
    /// Opens the home of this name, with the directory of the files beside it, and installs what a crash has left in
    /// its journal, if there is room. `volume` becomes its number if it has none yet; 0 if it is not to be attached.
    pub(crate) fn open(
        files: Arc<dyn Files>,
        name: &str,
        beside: Arc<dyn Files>,
        volume: u64,
        checks: &Checks,
    ) -> Result<Self, HomeError> {
        // The file itself is locked: it may have other names.
        let lock = files
            .lock(name, Locking::Alone)
            .doing("open", || files.path(name))?
            .ok_or_else(|| HomeError::InUse(files.path(name)))?;
        let file = files.open(name, How::Write).doing("open", || files.path(name))?;
        let size = file.size().doing("read the length of", || files.path(name))?;
        let path = files.path(name);
        let ownership = Ownership::read(&*beside, &format!("{name}.thorp"))?.unwrap_or_else(|| Ownership::none(volume));
        let mut mark = open_mark(&*beside, name, &ownership, &*file)?;
        let file = if is_device(&path) {
            Checked::bare(file, path.clone())
        } else {
            // One that was just made does not know how the file was left.
            let left = mark.as_ref().filter(|_| ownership.attachment != 0).map(|mark| mark.marked().left);
            // A look at it leaves no file there.
            let opening = Opening { makes: volume != 0, left, checks };
            Checked::open(file, path.clone(), &*beside, &format!("{name}.sums"), opening)?
        };
        if let Some(mark) = &mut mark {
            mark.check_left(file.raw(), file.is_damaged(), &path)?;
        }
        let mark = mark.map(|mark| Box::new(Mutex::new(mark)));
        let journal = Journal { files: beside.clone(), name: format!("{name}.journal"), volume: ownership.volume };
        let home = Self {
            files,
            name: name.to_owned(),
            beside,
            file,
            size: AtomicU64::new(size),
            ownership,
            has_forgotten: AtomicBool::new(false),
            mark,
            journal,
            is_unfinished: AtomicBool::new(true),
            writing: Mutex::new(()),
            lock: Mutex::new(Some(lock)),
        };
        match home.finish() {
            // Its owner's log has all of the journal, and needs no more to be read.
            Err(error) if error.is_full() => {}
            finished => finished?,
        }
        Ok(home)
    }

    /// Its size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size.load(Relaxed)
    }

    /// Changes its size, durably.
    pub(crate) fn resize(&self, size: u64) -> Result<(), HomeError> {
        if is_device(&self.path()) {
            return Err(HomeError::Device(self.path()));
        }
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.expect_own()?;
        self.file.resize(size)?;
        self.size.store(size, Relaxed);
        // The time of a detached home shows that it was changed.
        if self.ownership.is_dirty {
            self.remark(|marked| marked)?;
        }
        Ok(())
    }

    /// Its owner.
    pub(crate) fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// Records another owner, durably. `floor` is what is home of the log of a cache that it has no mark of.
    pub(crate) fn own(&mut self, ownership: Ownership, floor: Stamp) -> Result<(), FileError> {
        // The mark counts only for the cache that owns the volume, so the owner is written first.
        self.write_ownership(&ownership)?;
        let Ownership { epoch, cache, .. } = ownership;
        self.ownership = ownership;
        self.remark(|marked| {
            let mark = if marked.owner == cache { marked.mark } else { floor };
            Marked { epoch: Epoch(epoch), owner: cache, mark, ..marked }
        })
    }

    /// Says, durably, that the cache which it is attached with has nothing that is not here. From then on others may
    /// attach it.
    pub(crate) fn release(&self) -> Result<(), FileError> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        // The time of the last change, too: after a power failure it would be an earlier one.
        self.file.raw().sync_all().doing("sync", || self.path())?;
        self.file.close()?;
        self.write_mark(true, |marked| marked)?;
        let cache = if self.has_forgotten.load(Relaxed) { 0 } else { self.ownership.cache };
        self.write_ownership(&Ownership { cache, is_dirty: false, ..self.ownership.clone() })?;
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(())
    }

    /// Its generation, and its mark, which is no earlier than its last attachment.
    pub(crate) fn state(&self) -> HomeState {
        let marked = self.marked();
        let mark = marked.map_or(Stamp::ZERO, |marked| marked.mark);
        let mark = mark.max(Stamp::begin(Epoch(self.ownership.epoch)));
        HomeState { generation: marked.map_or(0, |marked| marked.generation), mark }
    }

    /// Its mark, if that is a position in the log of this cache.
    pub(crate) fn mark_of(&self, cache: u64) -> Option<Stamp> {
        self.marked().filter(|marked| marked.owner == cache).map(|marked| marked.mark)
    }

    fn marked(&self) -> Option<Marked> {
        let mark = self.mark.as_ref()?;
        Some(mark.lock().unwrap_or_else(PoisonError::into_inner).marked())
    }

    /// Writes its mark, durably, and how its file is now.
    fn write_mark(&self, is_closed: bool, change: impl FnOnce(Marked) -> Marked) -> Result<(), FileError> {
        let Some(mark) = &self.mark else { return Ok(()) };
        let left = Left::of(self.file.raw(), is_closed).doing("look at", || self.path())?;
        let mut mark = mark.lock().unwrap_or_else(PoisonError::into_inner);
        let marked = change(mark.marked());
        mark.write(Marked { left, ..marked })
    }

    fn remark(&self, change: impl FnOnce(Marked) -> Marked) -> Result<(), FileError> {
        self.write_mark(false, change)
    }

    /// Everything up to here is here, durably.
    fn mark(&self, through: Stamp) -> Result<(), FileError> {
        self.remark(|marked| Marked { mark: marked.mark.max(through), ..marked })
    }

    /// Says, durably, that the cache which it is attached with is no part of it from now on: there is nothing that is
    /// not here, or in the journal.
    pub(crate) fn forget_cache(&self) -> Result<(), FileError> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.has_forgotten.load(Relaxed) {
            self.write_ownership(&Ownership { cache: 0, ..self.ownership.clone() })?;
            self.has_forgotten.store(true, Relaxed);
        }
        Ok(())
    }

    /// Refuses what an operator wants once it was released: it may be another process's by now.
    fn expect_own(&self) -> Result<(), HomeError> {
        let is_own = self.lock.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if is_own { Ok(()) } else { Err(HomeError::Detached(self.path())) }
    }

    fn write_ownership(&self, ownership: &Ownership) -> Result<(), FileError> {
        ownership.write(&*self.beside, &format!("{}.thorp", self.name))
    }

    /// Reads whole blocks.
    pub(crate) fn read(&self, first: u32, into: &mut [u8]) -> Result<(), FileError> {
        self.file.read(first, into)
    }

    /// The checksums of blocks, as they are kept and as they are read now.
    pub(crate) fn scrub(&self, blocks: &Blocks) -> Result<Vec<BlockSums>, FileError> {
        self.file.scrub(blocks.start, blocks.len())
    }

    /// Restores a block that is damaged, if these are the bytes that were written there last. Returns whether it is
    /// sound.
    pub(crate) fn repair(&self, block: u32, bytes: &[u8]) -> Result<bool, FileError> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.finish()?;
        self.file.repair(block, bytes)
    }

    /// Writes everything through this write, durably. If it is not joined, a crash may leave any part of it.
    pub(crate) fn install(&self, through: Stamp, is_joined: bool, pieces: Pieces<'_>) -> Result<(), FileError> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.finish()?;
        if !is_joined {
            self.put(pieces)?;
            return self.mark(through);
        }
        let complete = self.journal.write(through, pieces)?;
        self.is_unfinished.store(true, Relaxed);
        self.finish_with(complete)
    }

    /// Makes another file with what is there, whose blocks both share until one changes them.
    pub(crate) fn share(&self, to: &Path) -> Result<(), HomeError> {
        if is_device(&self.path()) {
            return Err(HomeError::NoShare(self.path()));
        }
        expect_alone(to)?;
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.expect_own()?;
        self.finish()?;
        let to = to.to_str().ok_or_else(|| HomeError::NoName(to.to_owned()))?;
        match self.files.share(&self.name, to) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Err(HomeError::NoShare(self.path())),
            shared => Ok(shared.doing("share the blocks of the volume with", || to.into())?),
        }
    }

    /// Installs a journal that was not, or not wholly: nothing else may be written before, to home or to the journal;
    /// and who has not the log that it is of may read nothing before.
    pub(crate) fn finish(&self) -> Result<(), FileError> {
        if !self.is_unfinished.load(Relaxed) {
            return Ok(());
        }
        if let Some(complete) = self.journal.find()? {
            return self.finish_with(complete);
        }
        self.is_unfinished.store(false, Relaxed);
        Ok(())
    }

    fn finish_with(&self, complete: Complete) -> Result<(), FileError> {
        complete.install(&self.file)?;
        self.file.sync()?;
        // From now on an older cache is refused.
        self.mark(complete.through())?;
        complete.blank()?;
        self.is_unfinished.store(false, Relaxed);
        Ok(())
    }

    /// The runs of data and holes from the begin of an extent on: some of them, one at least.
    pub(crate) fn runs(&self, extent: Extent) -> Result<Vec<Run>, FileError> {
        runs(self.file.raw(), extent, RUNS_MAX).doing("look for holes in", || self.path())
    }

    fn put(&self, pieces: Pieces<'_>) -> Result<(), FileError> {
        let mut together = Together::default();
        pieces(&mut |piece| together.add(piece, &self.file))?;
        together.write(&self.file)?;
        self.file.sync()
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.files.path(&self.name)
    }
}

/// The mark of a home that was attached under one, or is about to be.
fn open_mark(
    beside: &dyn Files,
    home: &str,
    ownership: &Ownership,
    file: &dyn File,
) -> Result<Option<MarkFile>, HomeError> {
    let name = format!("{home}.mark");
    if ownership.attachment != 0 {
        let there = beside.open(&name, How::Read);
        if there.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Err(HomeError::NoMark(beside.path(&name)));
        }
        return Ok(Some(MarkFile::open(beside, &name, ownership.volume)?));
    }
    if ownership.volume == 0 {
        // A look at it leaves no file there.
        return Ok(None);
    }
    let left = Left::of(file, false).doing("look at", || beside.path(home))?;
    MarkFile::create(beside, &name, ownership.volume, Marked::new(random()?, left))?;
    beside.sync_dir().doing("sync", || beside.path(""))?;
    Ok(Some(MarkFile::open(beside, &name, ownership.volume)?))
}

#[cfg(test)]
mod tests {
    use super::super::pieces::Piece;
    use super::*;
    use crate::extents::BLOCK;
    use vfs::memory::{Dice, Fault, Memory};

    const BLOCKS: usize = 12;

    fn files() -> Memory {
        let files = Memory::default();
        files.open("disk", How::Create).unwrap().set_len((BLOCKS * BLOCK) as u64).unwrap();
        files.damage("disk", |_| ());
        files.sync_dir().unwrap();
        files
    }

    fn open(files: &Memory) -> FileHome {
        FileHome::open(Arc::new(files.clone()), "disk", Arc::new(files.clone()), 1, &Checks::default()).unwrap()
    }

    /// The first byte of each block.
    fn contents(files: &Memory) -> Vec<u8> {
        files.bytes("disk").chunks(BLOCK).map(|block| block[0]).collect()
    }

    /// No block is refused after a crash.
    fn expect_readable(home: &FileHome) {
        home.read(0, &mut vec![0; BLOCKS * BLOCK]).unwrap();
    }

    /// Writes `mark` to some blocks, and zeros to one.
    fn install(home: &FileHome, is_joined: bool, mark: u8) -> Result<(), FileError> {
        home.install(Stamp::ZERO, is_joined, &mut |put| {
            put(Piece::Bytes(u32::from(mark % 3), vec![mark; 3 * BLOCK].into()))?;
            put(Piece::Zeros { blocks: 6..7 + u32::from(mark % 2), is_hole: mark > 2 })?;
            put(Piece::Bytes(9, vec![mark; BLOCK].into()))
        })
    }

    fn after(mut contents: Vec<u8>, mark: u8) -> Vec<u8> {
        let first = usize::from(mark % 3);
        contents[first..first + 3].fill(mark);
        contents[6..7 + usize::from(mark % 2)].fill(0);
        contents[9] = mark;
        contents
    }

    #[test]
    fn what_is_joined_is_installed_whole_or_not_at_all() {
        let (mut dice, mut whole, mut none) = (Dice(7), 0, 0);
        for at in 0.. {
            let files = files();
            let home = open(&files);
            install(&home, false, 1).unwrap();
            install(&home, true, 2).unwrap();
            let before = contents(&files);
            files.plan(Some(Fault::Crash(at)));
            if install(&home, true, 3).is_ok() && install(&home, true, 4).is_ok() {
                assert!(at > 10 && whole > 10 && none > 10, "{at} {whole} {none}");
                return;
            }
            for _ in 0..20 {
                let left = files.after_power_failure(&mut dice);
                expect_readable(&open(&left));
                let (third, found) = (after(before.clone(), 3), contents(&left));
                let fourth = after(third.clone(), 4);
                assert!([&before, &third, &fourth].contains(&&found), "operation {at}: {found:?}");
                whole += u32::from(found != before);
                none += u32::from(found == before);
                // The journal that was installed is not installed again.
                install(&open(&left), false, 5).unwrap();
                let found = contents(&left);
                expect_readable(&open(&left.after_power_failure(&mut dice)));
                assert_eq!(contents(&left), found);
            }
        }
    }

    /// Where the file system shares blocks, home and the journal have one run between them, until the journal is made
    /// again.
    #[test]
    fn a_long_run_stays_in_its_place_when_the_journal_is_made_anew() {
        const RUN: usize = 1 << 20;
        let dir = std::env::temp_dir().join(format!("thorp-long-run-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let files = Arc::new(vfs::Directory::new(&dir));
        files.open("disk", How::Create).unwrap().set_len(4 * RUN as u64).unwrap();
        let home = FileHome::open(files.clone(), "disk", files, 1, &Checks::default()).unwrap();
        for (first, byte) in [(16, 7), (300, 8), (100, 9)] {
            home.install(Stamp::ZERO, true, &mut |put| {
                put(Piece::Bytes(first, vec![byte; RUN].into()))?;
                put(Piece::Bytes(900, vec![byte; BLOCK].into()))
            })
            .unwrap();
        }
        let bytes = std::fs::read(dir.join("disk")).unwrap();
        let at = |block: usize| bytes[block * BLOCK];
        assert_eq!([15, 16, 99, 100, 355, 356, 555, 556, 900].map(at), [0, 7, 7, 9, 9, 8, 8, 0, 9]);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_home_is_attached_once_and_says_whose_it_is() {
        let files = files();
        let mut home = open(&files);
        assert!(matches!(
            FileHome::open(Arc::new(files.clone()), "disk", Arc::new(files.clone()), 2, &Checks::default()),
            Err(HomeError::InUse(_))
        ));
        assert_eq!((home.ownership().volume, home.ownership().epoch), (1, 0));
        let ownership =
            Ownership { epoch: 1, cache: 3, is_dirty: true, place: "here".into(), ..home.ownership().clone() };
        home.own(ownership.clone(), Stamp::ZERO).unwrap();
        drop(home);
        assert_eq!(
            FileHome::open(Arc::new(files.clone()), "disk", Arc::new(files), 2, &Checks::default())
                .unwrap()
                .ownership(),
            &ownership
        );
    }

    /// Another process may have it by then: an operator's command that is late changes nothing.
    #[test]
    fn a_home_that_was_released_keeps_its_size() {
        let files = files();
        let home = open(&files);
        home.resize((4 * BLOCK) as u64).unwrap();
        home.release().unwrap();
        assert!(matches!(home.resize(BLOCK as u64), Err(HomeError::Detached(_))));
        assert!(matches!(home.share(Path::new("copy")), Err(HomeError::Detached(_))));
        assert_eq!(contents(&files).len(), 4);
    }
}
