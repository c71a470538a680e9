//! The few things that a log and a page home ask of a file system. They go through a trait because the tests have a
//! second one, in memory, which fails when it is told to and forgets what was not synced.

use crate::errno::{Call, On, Refused};
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// An open file.
pub trait File: fmt::Debug + Send + Sync {
    /// Its length, in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Fills `into` with the bytes from `at` on; an error if the file ends before.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
    /// The same if all of them are at hand, as the system's page cache has them; says whether they were. Nobody waits
    /// for a device; `into` may be changed all the same.
    fn read_at_hand(&self, at: u64, into: &mut [u8]) -> io::Result<bool> {
        self.read_at(at, into).map(|()| true)
    }
    /// Writes all of `bytes` at `at`.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Has a range of another file stand here, too, without writing it again: both share its blocks until one changes
    /// them. Says whether that is done; where the file system cannot, or not there, nothing is.
    fn share_from(&self, at: u64, from: &dyn File, from_at: u64, len: u64) -> io::Result<bool> {
        let _ = (at, from, from_at, len);
        Ok(false)
    }
    /// Its descriptor, if it is a file of the system.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Cuts or extends the file; new bytes are zero.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Returns when everything that was written is durable.
    fn sync(&self) -> io::Result<()>;
    /// The same, and what is known of the file besides, such as when it was last changed.
    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }
    /// Has the system begin to make a range durable, and waits for nothing: a later [`File::sync`] has less to wait
    /// for. Advice.
    fn begin_sync(&self, at: u64, len: u64) {
        let _ = (at, len);
    }
    /// Makes a range within the file read as zeros, without writing them where the file system can. If `is_hole` the
    /// range takes no room any more, where it can that.
    fn zero(&self, at: u64, len: u64, is_hole: bool) -> io::Result<()> {
        let _ = is_hole;
        write_zeros(self, at, len)
    }
    /// Where the run of data, or the hole, that `at` lies in ends, and whether it is a hole. A file system that does
    /// not know says that all is data.
    fn run_at(&self, at: u64) -> io::Result<(u64, bool)> {
        let _ = at;
        Ok((self.size()?, false))
    }
    /// The bytes that it takes on its disk: fewer than its length where it has holes.
    fn disk_bytes(&self) -> io::Result<u64> {
        self.size()
    }
    /// When its content was last changed, by whomever, in nanoseconds from 1970 on by the clock of this host; `None` if
    /// nobody knows.
    fn modified(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
    /// A number by which it is told from another file that takes its place, such as a copy of it; `None` if nobody
    /// knows.
    fn identity(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
    /// Whether reads and writes pass by the system's page cache.
    fn is_direct(&self) -> bool {
        false
    }
    /// Whether who reads it waits for a device, and could do other work in the meantime.
    fn waits_for_device(&self) -> bool {
        false
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// To be read.
    Read,
    /// To be read in whole blocks, past the page cache where the file system allows that: for what is read once, and
    /// would only push out of the cache what is read again.
    ReadDirect,
    /// To be read and written.
    Write,
    /// To be read and written in whole blocks, past the page cache where the file system allows that.
    Direct,
    /// Made again, empty, in the place of a file that was there.
    Create,
}

/// Keeps the directory locked until it is dropped.
pub type Lock = Box<dyn fmt::Debug + Send + Sync>;

/// The others that a lock excludes, and its effect on the locked file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// Excludes all others. The file is made if it is missing, and records this process
    /// ([`lock_holder`](crate::lock_holder)).
    Signed,
    /// Excludes all others. The file stays as it is.
    Alone,
    /// Excludes those that would be alone. The file stays as it is.
    Shared,
}

/// The files of one directory.
pub trait Files: fmt::Debug + Send + Sync {
    /// Where the file of this name is, for a person; of the empty name, the directory.
    fn path(&self, name: &str) -> PathBuf;
    /// The names in the directory, in order; `NotFound` if there is no such directory.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens a file.
    fn open(&self, name: &str, how: How) -> io::Result<Arc<dyn File>>;
    /// Returns a file another name, in the place of a file that had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Makes a file that has the contents of another one, durably, and shares their blocks with it until one of the two
    /// changes them; an error if the file system cannot.
    fn share(&self, from: &str, to: &str) -> io::Result<()> {
        let _ = (from, to);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Returns when all creations, renames and removals are durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// Locks a file; `None` if another process has a lock that excludes this one.
    fn lock(&self, name: &str, locking: Locking) -> io::Result<Option<Lock>>;
}

/// Reads a whole small file; an error if it has more than `limit` bytes.
pub fn read_small(files: &dyn Files, name: &str, limit: u64) -> io::Result<Vec<u8>> {
    let file = files.open(name, How::Read)?;
    let len = file.size()?;
    if len > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("expected at most {limit} bytes, got {len}")));
    }
    let mut bytes = vec![0; len as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Puts a whole small file in its place, at once and durably: whatever happens, either the old or the new one is there.
pub fn replace_small(files: &dyn Files, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = format!("{name}.tmp");
    let file = files.open(&temporary, How::Create)?;
    file.write_at(0, bytes)?;
    file.sync()?;
    files.rename(&temporary, name)?;
    files.sync_dir()
}

/// Writes zeros as any other bytes.
pub(crate) fn write_zeros(file: &(impl File + ?Sized), at: u64, len: u64) -> io::Result<()> {
    const RUN: u64 = 1 << 20;
    let zeros = vec![0; RUN.min(len) as usize];
    let mut runs = (at..at + len).step_by(RUN as usize).map(|from| (from, RUN.min(at + len - from)));
    runs.try_for_each(|(from, run)| file.write_at(from, &zeros[..run as usize]))
}

/// Makes a file of zeros.
pub fn fill(files: &dyn Files, name: &str, bytes: usize) -> Result<(), Refused> {
    const RUN: usize = 1 << 20;
    let file = files.open(name, How::Create).on(Call::Open)?;
    let zeros = vec![0; RUN.min(bytes)];
    for at in (0..bytes).step_by(RUN) {
        file.write_at(at as u64, &zeros[..RUN.min(bytes - at)]).on(Call::Write)?;
    }
    file.sync().on(Call::SyncNew)
}
