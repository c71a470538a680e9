//! The settings of a store's disk.

use crate::error::DiskError;
use log::Limits;
use types::ClusterId;

/// The settings that a user may tune.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whether an empty or missing directory becomes a new store.
    pub create: bool,
    /// The data set. The directory of another data set is refused. If none is given, a new store draws one at random.
    /// All nodes of a store have the same.
    pub cluster: Option<ClusterId>,
    /// Whether the directory is only read: what would be written stays in memory, and is gone in the end.
    pub read_only: bool,
    /// The length of the log's segments, in bytes; a multiple of 4096. Holds for segments made from now on.
    pub segment_bytes: usize,
    /// The segments that a new log has.
    pub segments_min: usize,
    /// The segments that the log grows to ahead of need when write-back lags.
    pub segments_max: usize,
    /// How much of a flush is built in memory before it is written, in bytes; a multiple of 4096.
    pub flush_memory_bytes: usize,
    /// The page home's own cache, in bytes. The store has a cache of its own, so this need not be large.
    pub home_cache_bytes: usize,
    /// Threads that read pages.
    pub readers: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            create: true,
            cluster: None,
            read_only: false,
            segment_bytes: 64 << 20,
            segments_min: 2,
            segments_max: 16,
            flush_memory_bytes: 4 << 20,
            home_cache_bytes: 16 << 20,
            readers: 2,
        }
    }
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), DiskError> {
        let refuse = |what: &str| Err(DiskError::Config(what.to_owned()));
        if !self.segment_bytes.is_multiple_of(4096) || !(16 << 10..1 << 31).contains(&self.segment_bytes) {
            return refuse("a segment has a multiple of 4096 bytes, from 16 KiB to under 2 GiB");
        }
        if self.segments_min < 2 || self.segments_max < self.segments_min {
            return refuse("the log begins with two segments at least, and cannot end with fewer than it begins with");
        }
        if self.flush_memory_bytes == 0 || !self.flush_memory_bytes.is_multiple_of(4096) {
            return refuse("a flush is built in a multiple of 4096 bytes of memory");
        }
        if self.readers == 0 {
            return refuse("at least one thread reads pages");
        }
        Ok(())
    }

    /// How large the ring is.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            segment_bytes: self.segment_bytes,
            segments_max: self.segments_max,
            memory_bytes: self.flush_memory_bytes,
        }
    }
}
