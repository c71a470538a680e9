//! The file under redb, by way of `vfs`'s file operations, so that the tests' faults reach it too.

use redb::StorageBackend;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::{Call, File, Verdict, judge};

/// The errors that the file has met: redb reports every error after the first one as "an earlier error".
#[derive(Debug, Default)]
pub(crate) struct Failure {
    full: AtomicBool,
    lost: AtomicBool,
}

impl Failure {
    /// Whether a write found no room, and nothing worse has happened.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire) && !self.is_lost()
    }

    /// Whether a write or a sync has failed: the file's pages in memory may differ from those on the disk, so nothing
    /// that is read from it says what is durable.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    fn note<T>(&self, call: Call, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            match judge(call, error) {
                Verdict::NoRoom => self.full.store(true, Ordering::Release),
                Verdict::Fails if call != Call::Read => self.lost.store(true, Ordering::Release),
                Verdict::Fails | Verdict::Passes => {}
            }
        }
        result
    }
}

/// The file under redb. The directory's lock stands for all of its files, so there is no other here.
#[derive(Debug)]
pub(crate) struct Backend {
    file: Arc<dyn File>,
    failure: Arc<Failure>,
}

impl Backend {
    /// A database's file.
    pub(crate) fn new(file: Arc<dyn File>, failure: Arc<Failure>) -> Self {
        Self { file, failure }
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.failure.note(Call::Read, self.file.size())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.failure.note(Call::Read, self.file.read_at(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.failure.note(Call::Write, self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.failure.note(Call::Sync, self.file.sync())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.failure.note(Call::Write, self.file.write_at(offset, data))
    }
}
