//! The files of a directory of the operating system.

use crate::aligned::{Aligned, BLOCK};
use crate::error::{Doing, FileError};
use crate::files::{File, Files, How, Lock, Locking, write_zeros};
use rustix::fs::{
    Access, Advice, AtFlags, CWD, FallocateFlags, FlockOperation, Mode, OFlags, SeekFrom, accessat, fadvise,
};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::fs;
use std::io::{self, IoSliceMut, Read, Write};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Makes a directory where there is none. Not those above it: a path that is wrong further up would leave directories
/// behind that nobody asked for, and one below a file system that is not mounted would fill up the disk that is there
/// instead.
///
/// # Errors
/// It cannot be made; if the one above it is missing the error names that.
pub fn make_directory(dir: &Path) -> Result<(), FileError> {
    find_directory_above(dir)?;
    let made = fs::create_dir(dir).or_else(|error| match error.kind() {
        // The directory's owner is seen when it is opened.
        _ if dir.is_dir() => Ok(()),
        io::ErrorKind::AlreadyExists => {
            Err(io::Error::other("that is a file, and a directory is needed: name another"))
        }
        _ => Err(error),
    });
    made.doing("create", || dir.to_owned())
}

/// Finds the directory that one is in, or would be: what is wrong with a path is seen like this before anybody is asked
/// for more.
///
/// # Errors
/// It is missing.
pub fn find_directory_above(dir: &Path) -> Result<(), FileError> {
    let found = match dir.parent().filter(|above| !above.as_os_str().is_empty()) {
        Some(above) if !above.is_dir() => {
            let text = format!("there is no directory '{}'; make it, mount it, or check the path", above.display());
            Err(io::Error::other(text))
        }
        _ => Ok(()),
    };
    found.doing("create", || dir.to_owned())
}

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
            How::ReadDirect => {
                if let Some(file) = open_direct(&path, false) {
                    return Ok(Arc::new(Real { file, direct: true }));
                }
            }
            How::Write => {
                options.write(true);
            }
            How::Create => {
                options.write(true).create(true).truncate(true);
            }
            How::Direct => {
                if let Some(file) = open_direct(&path, true) {
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

    fn share(&self, from: &str, to: &str) -> io::Result<()> {
        let (source, path) = (fs::File::open(self.path(from))?, self.path(to));
        let above =
            fs::File::open(path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
        // It is for no more users than the other, and has no name until it is whole: whatever interrupts this leaves
        // nothing.
        let mode = Mode::from_raw_mode(source.metadata()?.mode() & 0o777);
        let made = rustix::fs::openat(&above, ".", OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, mode);
        let made = made.map_err(cannot_share)?;
        rustix::fs::ioctl_ficlone(&made, &source).map_err(cannot_share)?;
        rustix::fs::fsync(&made)?;
        let made = format!("/proc/self/fd/{}", made.as_raw_fd());
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        rustix::fs::linkat(CWD, made, &above, name, AtFlags::SYMLINK_FOLLOW)?;
        above.sync_all()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        fs::File::open(&self.0)?.sync_all()
    }

    fn lock(&self, name: &str, locking: Locking) -> io::Result<Option<Lock>> {
        let sign = locking == Locking::Signed;
        let mut file =
            fs::OpenOptions::new().read(true).write(sign).create(sign).truncate(false).open(self.path(name))?;
        let operation = match locking {
            Locking::Signed | Locking::Alone => FlockOperation::NonBlockingLockExclusive,
            Locking::Shared => FlockOperation::NonBlockingLockShared,
        };
        match rustix::fs::flock(&file, operation) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        if sign {
            file.set_len(0)?;
            writeln!(file, "{}", std::process::id())?;
        }
        Ok(Some(Box::new(Locked(file))))
    }
}

fn cannot_share(error: Errno) -> io::Error {
    match error {
        Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL | Errno::ISDIR => io::Error::new(
            io::ErrorKind::Unsupported,
            "the file system cannot share blocks between files (XFS and btrfs can)",
        ),
        error => error.into(),
    }
}

/// A file that is locked. To close it would not be enough: a process that is being started may still have it, too.
#[derive(Debug)]
struct Locked(fs::File);

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// Opens a file past the page cache, and tries it: some file systems take the flag and refuse the first read.
fn open_direct(path: &Path, write: bool) -> Option<fs::File> {
    let flag = OFlags::DIRECT.bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).write(write).custom_flags(flag).open(path).ok()?;
    let mut block = Aligned::zeroed(BLOCK);
    file.read_exact_at(block.bytes_mut(), 0).ok()?;
    Some(file)
}

/// The numbers by which Linux tells the file systems that can share blocks between files.
const XFS: rustix::fs::FsWord = 0x5846_5342;
const BTRFS: rustix::fs::FsWord = 0x9123_683E;

/// A file of the operating system.
#[derive(Debug)]
struct Real {
    file: fs::File,
    direct: bool,
}

impl File for Real {
    fn size(&self) -> io::Result<u64> {
        let metadata = self.file.metadata()?;
        // A block device has a length of 0; its end tells.
        let is_device = metadata.file_type().is_block_device();
        if is_device { Ok(rustix::fs::seek(&self.file, SeekFrom::End(0))?) } else { Ok(metadata.len()) }
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, at)
    }

    fn read_at_hand(&self, at: u64, into: &mut [u8]) -> io::Result<bool> {
        if self.direct {
            return Ok(false);
        }
        let wanted = into.len();
        match preadv2(&self.file, &mut [IoSliceMut::new(into)], at, ReadWriteFlags::NOWAIT) {
            Ok(read) => Ok(read == wanted),
            Err(Errno::AGAIN | Errno::INTR | Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    fn share_from(&self, at: u64, from: &dyn File, from_at: u64, len: u64) -> io::Result<bool> {
        let Some(from) = from.descriptor() else { return Ok(false) };
        // Elsewhere the call copies, which a writer who has the bytes in memory does as well.
        let shares = |fd: BorrowedFd<'_>| Ok::<_, Errno>([XFS, BTRFS].contains(&rustix::fs::fstatfs(fd)?.f_type));
        if !shares(self.file.as_fd())? || !shares(from)? {
            return Ok(false);
        }
        let (mut from_at, mut at, end) = (from_at, at, at + len);
        while at < end {
            let left = (end - at) as usize;
            match rustix::fs::copy_file_range(from, Some(&mut from_at), &self.file, Some(&mut at), left) {
                // The caller writes all of it.
                Ok(0) | Err(Errno::XDEV | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => return Ok(false),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn begin_sync(&self, at: u64, len: u64) {
        // The advice that a range is not needed has the system write it out before it could let go of it. Where it does
        // not take the advice there is more to sync in the end.
        let _ = fadvise(&self.file, at, NonZeroU64::new(len), Advice::DontNeed);
    }

    fn zero(&self, at: u64, len: u64, is_hole: bool) -> io::Result<()> {
        let how = if is_hole { FallocateFlags::PUNCH_HOLE } else { FallocateFlags::ZERO_RANGE };
        match rustix::fs::fallocate(&self.file, how | FallocateFlags::KEEP_SIZE, at, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(self, at, len),
            done => Ok(done?),
        }
    }

    fn run_at(&self, at: u64) -> io::Result<(u64, bool)> {
        let size = self.size()?;
        match rustix::fs::seek(&self.file, SeekFrom::Data(at)) {
            Ok(data) if data > at => Ok((data, true)),
            Ok(_) => Ok((rustix::fs::seek(&self.file, SeekFrom::Hole(at))?, false)),
            // There is no data behind it.
            Err(Errno::NXIO) if at < size => Ok((size, true)),
            Err(Errno::NXIO) => Ok((at, true)),
            Err(Errno::INVAL) => Ok((size, false)),
            Err(error) => Err(error.into()),
        }
    }

    fn disk_bytes(&self) -> io::Result<u64> {
        // The system counts in these, whatever the blocks of the file system are.
        Ok(self.file.metadata()?.blocks() * 512)
    }

    fn modified(&self) -> io::Result<Option<u64>> {
        let metadata = self.file.metadata()?;
        let nanoseconds =
            (metadata.mtime() as u64).wrapping_mul(1_000_000_000).wrapping_add(metadata.mtime_nsec() as u64);
        // A device's time is that of its name.
        Ok(metadata.is_file().then_some(nanoseconds))
    }

    fn identity(&self) -> io::Result<Option<u64>> {
        let metadata = self.file.metadata()?;
        // The number of a removed file is given again, but not with the same time.
        let born = metadata.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let born = born.map_or(0, |at| at.as_nanos() as u64);
        Ok(metadata.is_file().then(|| metadata.ino().rotate_left(40) ^ born))
    }

    fn is_direct(&self) -> bool {
        self.direct
    }

    fn waits_for_device(&self) -> bool {
        true
    }
}

/// Returns whether this process may write in a directory. A path that cannot be examined counts as writable: opening it
/// reports the error.
pub fn can_write(dir: &Path) -> bool {
    let looked = accessat(CWD, dir, Access::WRITE_OK, AtFlags::EACCESS);
    !matches!(looked, Err(Errno::ROFS | Errno::ACCESS | Errno::PERM))
}

/// The process that signed the lock file.
pub fn lock_holder(path: &Path) -> Option<u32> {
    let mut text = String::new();
    fs::File::open(path).ok()?.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each lock is of an open file of its own, as those of several processes are.
    #[test]
    fn a_file_is_locked_alone_or_with_other_readers() {
        let dir = std::env::temp_dir().join(format!("thorp-vfs-locks-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let files = Directory::new(&dir);
        let lock = |locking| files.lock("lock", locking).unwrap();
        let signed = lock(Locking::Signed).unwrap();
        assert_eq!(lock_holder(&files.path("lock")), Some(std::process::id()));
        assert!([Locking::Signed, Locking::Alone, Locking::Shared].into_iter().all(|locking| lock(locking).is_none()));
        drop(signed);
        let alone = lock(Locking::Alone).unwrap();
        assert!([Locking::Signed, Locking::Alone, Locking::Shared].into_iter().all(|locking| lock(locking).is_none()));
        drop(alone);
        let readers = [lock(Locking::Shared).unwrap(), lock(Locking::Shared).unwrap()];
        assert!([Locking::Signed, Locking::Alone].into_iter().all(|locking| lock(locking).is_none()));
        drop(readers);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_is_read_directly_is_read_where_that_cannot_be_had_too() {
        let dir = std::env::temp_dir().join(format!("thorp-vfs-directory-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let files = Directory::new(&dir);
        let blocks: Vec<u8> = (0..3 * BLOCK).map(|i| (i / 7) as u8).collect();
        for (name, bytes) in [("blocks", &blocks[..]), ("short", &blocks[..10])] {
            fs::write(dir.join(name), bytes).unwrap();
        }
        let file = files.open("blocks", How::ReadDirect).unwrap();
        let mut read = Aligned::zeroed(2 * BLOCK);
        file.read_at(BLOCK as u64, read.bytes_mut()).unwrap();
        assert_eq!(read.bytes(), &blocks[BLOCK..]);
        assert!(file.write_at(0, read.bytes()).is_err(), "it was opened to be read");
        // Less than a block cannot be read past the page cache.
        let file = files.open("short", How::ReadDirect).unwrap();
        let mut read = [0; 10];
        file.read_at(0, &mut read).unwrap();
        assert_eq!((file.is_direct(), &read[..]), (false, &blocks[..10]));
        assert_eq!(files.open("none", How::ReadDirect).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::remove_dir_all(&dir).unwrap();
    }
}
