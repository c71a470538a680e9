//! The few things that this crate asks of a file system. They go through a trait because the tests have a second one,
//! in memory, which fails when it is told to and forgets what was not synced.

use crate::aligned::{Aligned, BLOCK};
use rustix::fs::{FlockOperation, OFlags};
use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open file.
pub(crate) trait File: fmt::Debug + Send + Sync {
    /// Its length, in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Fills `into` with the bytes from `at` on; an error if the file ends before.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `at`.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts or extends the file; new bytes are zero.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Returns when everything that was written is durable.
    fn sync(&self) -> io::Result<()>;
    /// Whether reads and writes pass by the system's page cache.
    fn is_direct(&self) -> bool {
        false
    }
    /// Whether who reads it waits for a device, and could do other work meanwhile.
    fn waits_for_device(&self) -> bool {
        false
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// To be read.
    Read,
    /// To be read and written.
    Write,
    /// To be read and written in whole blocks, past the page cache where the file system allows that.
    Direct,
    /// Made anew, empty, in the place of whatever was there.
    Create,
}

/// Keeps the directory locked until it is dropped.
pub(crate) type Lock = Box<dyn fmt::Debug + Send + Sync>;

/// The files of one directory.
pub(crate) trait Files: fmt::Debug + Send + Sync {
    /// Where the file of this name is, for a person; of the empty name, the directory.
    fn path(&self, name: &str) -> PathBuf;
    /// The names in the directory, in order; `NotFound` if there is no such directory.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens a file.
    fn open(&self, name: &str, how: How) -> io::Result<Arc<dyn File>>;
    /// Gives a file another name, in the place of whatever had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Returns when all creations, renames and removals are durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// Locks the directory by this file, which is made if `sign`, and then says who holds the lock; `None` if another
    /// process has it.
    fn lock(&self, name: &str, sign: bool) -> io::Result<Option<Lock>>;
}

/// Reads a whole small file; an error if it has more than `limit` bytes.
pub(crate) fn read_small(files: &dyn Files, name: &str, limit: u64) -> io::Result<Vec<u8>> {
    let file = files.open(name, How::Read)?;
    let len = file.len()?;
    if len > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("expected at most {limit} bytes, got {len}")));
    }
    let mut bytes = vec![0; len as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Puts a whole small file in its place, at once and durably: whatever happens, either the old or the new one is there.
pub(crate) fn replace_small(files: &dyn Files, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = format!("{name}.tmp");
    let file = files.open(&temporary, How::Create)?;
    file.write_at(0, bytes)?;
    file.sync()?;
    files.rename(&temporary, name)?;
    files.sync_dir()
}

/// A directory of the operating system.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    /// The files of `dir`.
    pub(crate) fn new(dir: &Path) -> Self {
        Self(dir.to_owned())
    }
}

impl Files for Directory {
    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.0.clone() } else { self.0.join(name) }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        let mut names = fs::read_dir(&self.0)?.map(name).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn open(&self, name: &str, how: How) -> io::Result<Arc<dyn File>> {
        let path = self.path(name);
        let mut options = fs::OpenOptions::new();
        options.read(true);
        match how {
            How::Read => {}
            How::Write => {
                options.write(true);
            }
            How::Create => {
                options.write(true).create(true).truncate(true);
            }
            How::Direct => {
                if let Some(file) = open_direct(&path) {
                    return Ok(Arc::new(Real { file, direct: true }));
                }
                options.write(true);
            }
        }
        Ok(Arc::new(Real { file: options.open(path)?, direct: false }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        fs::File::open(&self.0)?.sync_all()
    }

    fn lock(&self, name: &str, sign: bool) -> io::Result<Option<Lock>> {
        let mut file =
            fs::OpenOptions::new().read(true).write(sign).create(sign).truncate(false).open(self.path(name))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        if sign {
            file.set_len(0)?;
            writeln!(file, "{}", std::process::id())?;
        }
        Ok(Some(Box::new(file)))
    }
}

/// Opens a file past the page cache, and tries it: some file systems take the flag and refuse the first read.
fn open_direct(path: &Path) -> Option<fs::File> {
    let flag = OFlags::DIRECT.bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).write(true).custom_flags(flag).open(path).ok()?;
    let mut block = Aligned::zeroed(BLOCK);
    file.read_exact_at(block.bytes_mut(), 0).ok()?;
    Some(file)
}

/// A file of the operating system.
#[derive(Debug)]
struct Real {
    file: fs::File,
    direct: bool,
}

impl File for Real {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, at)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn is_direct(&self) -> bool {
        self.direct
    }

    fn waits_for_device(&self) -> bool {
        true
    }
}

/// The process that signed the lock file.
pub(crate) fn lock_holder(path: &Path) -> Option<u32> {
    let mut text = String::new();
    fs::File::open(path).ok()?.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
