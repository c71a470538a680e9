//! How a volume is attached.

use super::copies::CopiesConfig;
use crate::home::CheckProgress;
use machines::Ack;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The least room for writes that are not written back, in bytes.
pub const LOG_BYTES_MIN: u64 = 4 << 20;

/// The most.
pub const LOG_BYTES_MAX: u64 = 1 << 40;

/// A way to continue when the device of the cache fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheFailure {
    /// Dirty data goes home, and from then on everything does at once.
    WriteThrough,
    /// Requests are refused, and the attachment ends.
    Stop,
}

/// A listener for the making of a log, which takes long on a slow disk. The default one does nothing.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn Fn(u64, u64) + Send + Sync>>);

impl Progress {
    /// Calls `told` with the bytes that have been made, and with those of the whole log.
    pub fn new(told: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(told)))
    }

    /// So many of these bytes have been made.
    pub(super) fn tell(&self, made: u64, of: u64) {
        if let Some(told) = &self.0 {
            told(made, of);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Progress").finish_non_exhaustive()
    }
}

/// How a volume is attached.
#[derive(Clone, Debug)]
pub struct AttachConfig {
    /// Its home: a raw file or a block device.
    pub home: PathBuf,
    /// The directory of the files beside the home, if that is not its own. A device needs one, as `/dev` forgets them.
    pub beside: Option<PathBuf>,
    /// The directory of its cache, which is made if it is not there.
    pub cache: PathBuf,
    /// The room for writes that are not written back, in bytes.
    pub log_bytes: u64,
    /// The room for clean blocks, in bytes.
    pub clean_bytes: u64,
    /// When a write is answered.
    pub ack: Ack,
    /// A write is home before it is as old as this.
    pub age_max: Duration,
    /// Its copies, if it is a volume of several hosts.
    pub copies: Option<CopiesConfig>,
    /// When the device of the cache fails.
    pub cache_failure: CacheFailure,
    /// Is told how much of the log has been made.
    pub progress: Progress,
    /// Is told of the check of a home of this host that may not be as it was left.
    pub checks: CheckProgress,
    /// Attach although writes of another cache, or of this one, are lost by it.
    pub is_forced: bool,
    /// Attach with this cache's log alone, if it has what was not written back, where holders do not answer that may
    /// have what it has lost.
    pub accepts_own_log: bool,
}

impl AttachConfig {
    /// The usual settings.
    pub fn new(home: PathBuf, cache: PathBuf) -> Self {
        let (log_bytes, clean_bytes) = (1 << 30, 4 << 30);
        let age_max = Duration::from_secs(10);
        Self {
            home,
            beside: None,
            cache,
            log_bytes,
            clean_bytes,
            ack: Ack::Flush,
            age_max,
            copies: None,
            cache_failure: CacheFailure::WriteThrough,
            progress: Progress::default(),
            checks: CheckProgress::default(),
            is_forced: false,
            accepts_own_log: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attached, create_home};
    use std::sync::{Mutex, PoisonError};

    #[test]
    fn the_making_of_a_log_is_told() {
        let dir = std::env::temp_dir().join(format!("thorp-progress-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        create_home(&dir.join("disk"), 1 << 20).unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let telling = told.clone();
        let tell = move |made, of| telling.lock().unwrap_or_else(PoisonError::into_inner).push((made, of));
        let config = AttachConfig {
            log_bytes: 8 << 20,
            progress: Progress::new(tell),
            ..AttachConfig::new(dir.join("disk"), dir.join("cache"))
        };
        drop(Attached::attach(&config).unwrap());
        let told = told.lock().unwrap();
        assert!(told.len() > 2 && told.is_sorted(), "{told:?}");
        assert_eq!(told.last(), Some(&(8 << 20, 8 << 20)));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
