//! How a volume is attached.

use super::copies::CopiesConfig;
use std::path::PathBuf;
use std::time::Duration;
use volume::Ack;

/// The least room for writes that are not home, in bytes.
pub const LOG_BYTES_MIN: u64 = 4 << 20;

/// The most.
pub const LOG_BYTES_MAX: u64 = 1 << 40;

/// A way to go on when the device of the cache fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheFailure {
    /// Dirty data goes home, and from then on everything does at once.
    WriteThrough,
    /// Requests are refused, and the attachment ends.
    Stop,
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
    /// The room for writes that are not home, in bytes.
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
    /// Attach although writes of another cache, or of this one, are lost by it.
    pub is_forced: bool,
    /// Attach with this cache's log alone, if it has what was not home, where holders do not answer that may have what it has lost.
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
            is_forced: false,
            accepts_own_log: false,
        }
    }
}
