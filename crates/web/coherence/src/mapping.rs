//! The memory of a version table as a file without a name, which its home maps to write and caches of other processes
//! map to read: the only unsafe code of this crate.
//!
//! 1. The file is sealed: nobody makes it shorter, so no reader runs into what is no longer there; and nobody but the
//!    home, which mapped it before, maps it to write. A reader takes no file without the first of these seals.
//! 2. Its words are read and written as atomics alone. A reader takes any value for possible: see
//!    [`Table::of_another`].
//!
//! [`Table::of_another`]: homes::Table::of_another
#![expect(
    unsafe_code,
    reason = "memory that processes share is mapped by a system call that no safe function stands for"
)]

use homes::Table;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::{NonNull, null_mut};
use std::slice;
use std::sync::atomic::AtomicU64;
use types::limits::TABLE_SLOTS_MAX;

/// The seals that a reader relies on.
const FIXED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// The mapped file of a table.
pub(crate) struct Mapping {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping is of the process, not of a thread, and what is in it is reached as atomics.
unsafe impl Send for Mapping {}
// SAFETY: likewise.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// A new file of this many words, all zero, mapped to write; and the file, for those that should read it.
    pub(crate) fn create(words: usize) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("thorp-table", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, (words * size_of::<AtomicU64>()) as u64)?;
        let mapping = Self::map(&file, words, ProtFlags::READ | ProtFlags::WRITE)?;
        fcntl_add_seals(&file, FIXED | SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
        Ok((mapping, file))
    }

    /// The file of another process, mapped to read.
    ///
    /// # Errors
    /// Why it is not to be read.
    pub(crate) fn open(file: &OwnedFd) -> Result<Self, String> {
        let seals = fcntl_get_seals(file).map_err(|error| format!("what it passes cannot be sealed: {error}"))?;
        if !seals.contains(FIXED) {
            return Err("the file that it passes is not sealed: it could become shorter".to_owned());
        }
        let size = fstat(file).map_err(|error| error.to_string())?.st_size as u64;
        let words = (size / size_of::<AtomicU64>() as u64) as usize;
        if words == 0 || words > Table::words(TABLE_SLOTS_MAX) {
            return Err(format!("the file that it passes has {size} bytes, which no table has"));
        }
        Self::map(file, words, ProtFlags::READ).map_err(|error| error.to_string())
    }

    fn map(file: &OwnedFd, words: usize, rights: ProtFlags) -> io::Result<Self> {
        let bytes = words * size_of::<AtomicU64>();
        // SAFETY: the system chooses the place, so no memory of this process is replaced. It begins at a page's
        // boundary, which is one of words.
        let start = unsafe { mmap(null_mut(), bytes, rights, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, words })
    }
}

impl AsRef<[AtomicU64]> for Mapping {
    #[inline]
    fn as_ref(&self) -> &[AtomicU64] {
        // SAFETY: so many words are mapped there until this is dropped, and the file that they are of stays as long as
        // it is: it is sealed. Every value of a word is one of an atomic. A reader's words are not written to by it:
        // the methods of a table that write are its home's alone.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped like this, and nothing borrows it any more.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.words * size_of::<AtomicU64>()) };
        debug_assert!(unmapped.is_ok(), "what was mapped can be unmapped");
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping").field("words", &self.words).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn a_reader_sees_what_the_home_writes_and_cannot_write_itself() {
        let (home, file) = Mapping::create(100).unwrap();
        let reader = Mapping::open(&file).unwrap();
        home.as_ref()[99].store(7, Relaxed);
        assert_eq!((reader.as_ref().len(), reader.as_ref()[99].load(Relaxed)), (100, 7));
        assert!(Mapping::map(&file, 100, ProtFlags::READ | ProtFlags::WRITE).is_err());
        assert!(ftruncate(&file, 8).is_err() && ftruncate(&file, 8000).is_err());
    }

    #[test]
    fn a_file_that_may_become_shorter_is_refused() {
        let open = memfd_create("open", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&open, 800).unwrap();
        assert!(Mapping::open(&open).unwrap_err().contains("not sealed"));
        let other = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        assert!(Mapping::open(&other).unwrap_err().contains("cannot be sealed"));
    }

    #[test]
    fn a_file_of_another_size_is_refused() {
        for bytes in [0, 7, (Table::words(TABLE_SLOTS_MAX) as u64 + 1) * 8] {
            let file = memfd_create("size", MemfdFlags::ALLOW_SEALING).unwrap();
            ftruncate(&file, bytes).unwrap();
            fcntl_add_seals(&file, FIXED).unwrap();
            assert!(Mapping::open(&file).unwrap_err().contains("no table"), "{bytes}");
        }
    }
}
