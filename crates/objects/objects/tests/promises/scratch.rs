//! A directory for one test, gone with it.

use objects::{Builder, Db};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("thorp-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        Self(std::env::temp_dir().join(name))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Settings under which a small test passes every border: pages are evicted, the MOB is written back, the log goes
    /// round.
    pub(crate) fn builder() -> Builder {
        Db::builder().cache_bytes(1 << 20).store_cache_bytes(1 << 20).mob_bytes(1 << 20).log_bytes(16 << 20)
    }

    pub(crate) fn open(&self) -> Db {
        Self::builder().open(&self.0).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs something on a thread of its own, as another user of the database does: not inside of the transaction whose
/// body asks for it.
pub(crate) fn elsewhere<R: Send>(run: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}
