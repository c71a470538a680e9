//! The files of a directory of the operating system.

use crate::aligned::{Aligned, BLOCK};
use crate::files::{File, Files, How, Lock};
use rustix::fs::{FlockOperation, OFlags};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory of the operating system.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// The files of `dir`.
    pub fn new(dir: &Path) -> Self {
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
    fn size(&self) -> io::Result<u64> {
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
pub fn lock_holder(path: &Path) -> Option<u32> {
    let mut text = String::new();
    fs::File::open(path).ok()?.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
