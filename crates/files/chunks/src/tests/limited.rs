//! A disk that is full once its room is taken.

use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use vfs::{File, Files, How, Lock, Locking};

/// Bytes of a block of the disk.
const BLOCK: u64 = 4096;

/// A disk that has only so much room. Like most file systems it gives a file room for the blocks that are written, not
/// for its length.
#[derive(Clone, Debug)]
pub(super) struct Room(Arc<Mutex<Blocks>>);

#[derive(Debug)]
struct Blocks {
    left: u64,
    of: HashMap<PathBuf, HashSet<u64>>,
}

impl Room {
    pub(super) fn new(bytes: u64) -> Self {
        Self(Arc::new(Mutex::new(Blocks { left: bytes, of: HashMap::new() })))
    }

    pub(super) fn set(&self, bytes: u64) {
        self.0.lock().unwrap().left = bytes;
    }

    /// Takes room for a range of a file, or refuses as a full disk does.
    fn take(&self, file: &Path, at: u64, len: usize) -> io::Result<()> {
        let mut blocks = self.0.lock().unwrap();
        let Blocks { left, of } = &mut *blocks;
        let of = of.entry(file.to_owned()).or_default();
        for block in at / BLOCK..(at + len as u64).div_ceil(BLOCK) {
            if !of.contains(&block) {
                if *left < BLOCK {
                    return Err(Errno::NOSPC.into());
                }
                *left -= BLOCK;
                of.insert(block);
            }
        }
        Ok(())
    }

    /// Frees the room of a file behind a length.
    fn free(&self, file: &Path, len: u64) {
        let mut blocks = self.0.lock().unwrap();
        let Blocks { left, of } = &mut *blocks;
        let of = of.entry(file.to_owned()).or_default();
        let before = of.len();
        of.retain(|block| *block < len.div_ceil(BLOCK));
        *left += (before - of.len()) as u64 * BLOCK;
    }

    fn rename(&self, from: &Path, to: &Path) {
        self.free(to, 0);
        let of = &mut self.0.lock().unwrap().of;
        let blocks = of.remove(from).unwrap_or_default();
        of.insert(to.to_owned(), blocks);
    }
}

/// Files on a disk that has only so much room.
#[derive(Debug)]
pub(super) struct Limited {
    pub(super) files: Arc<dyn Files>,
    pub(super) room: Room,
}

#[derive(Debug)]
struct LimitedFile {
    file: Arc<dyn File>,
    path: PathBuf,
    room: Room,
}

impl Files for Limited {
    fn path(&self, name: &str) -> PathBuf {
        self.files.path(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.files.list()
    }

    fn open(&self, name: &str, how: How) -> io::Result<Arc<dyn File>> {
        let path = self.path(name);
        if how == How::Create {
            self.room.free(&path, 0);
        }
        Ok(Arc::new(LimitedFile { file: self.files.open(name, how)?, path, room: self.room.clone() }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.room.rename(&self.path(from), &self.path(to));
        self.files.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.room.free(&self.path(name), 0);
        self.files.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.files.sync_dir()
    }

    fn lock(&self, name: &str, locking: Locking) -> io::Result<Option<Lock>> {
        self.files.lock(name, locking)
    }
}

impl File for LimitedFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_at(at, into)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.room.take(&self.path, at, bytes.len())?;
        self.file.write_at(at, bytes)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.room.free(&self.path, len);
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}
