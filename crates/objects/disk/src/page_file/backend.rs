//! The file under redb, by way of `vfs`'s file operations, so that the tests' faults reach it too.

use redb::StorageBackend;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::{Call, File, Patience, Verdict, judge};

/// The errors that the file has met: redb reports every error after the first one as "an earlier error".
#[derive(Debug, Default)]
pub(crate) struct Failure {
    full: AtomicBool,
    other: AtomicBool,
}

impl Failure {
    /// Whether the only trouble was that the disk had no room for a write.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire) && !self.other.load(Ordering::Acquire)
    }

    fn note<T>(&self, call: Call, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            let flag = if judge(call, error) == Verdict::NoRoom { &self.full } else { &self.other };
            flag.store(true, Ordering::Release);
        }
        result
    }
}

/// The file under redb. The directory's lock stands for all of its files, so there is no other here.
#[derive(Debug)]
pub(crate) struct Backend {
    file: Arc<dyn File>,
    failure: Arc<Failure>,
    patience: Arc<Patience>,
}

impl Backend {
    /// A database's file.
    pub(crate) fn new(file: Arc<dyn File>, failure: Arc<Failure>, patience: Arc<Patience>) -> Self {
        Self { file, failure, patience }
    }

    /// redb is of no use any more after an error: one that passes is waited out before redb learns of it.
    fn call<T>(&self, call: Call, run: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.failure.note(call, self.patience.wait_out(call, run))
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.call(Call::Read, || self.file.size())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.call(Call::Read, || self.file.read_at(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.call(Call::Write, || self.file.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.call(Call::Sync, || self.file.sync())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.call(Call::Write, || self.file.write_at(offset, data))
    }
}
