//! The options of a database before it is opened; everything has a default.

use std::net::SocketAddr;
use std::time::Duration;

/// The settings of a database.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Of the client: its cache, what it fetches ahead, its patience, its group.
    pub client: client::Config,
    /// Of a store in this process.
    pub store: store::Config,
    /// Of the disk of a store in this process. How large its log is follows from `log_bytes`.
    pub disk: disk::Config,
    /// The bytes that the log of a store in this process may grow to; without it, as much as the disk's own settings
    /// say, or more if the MOB needs that.
    pub log_bytes: Option<usize>,
    /// How long connecting continues when nobody answers.
    pub connect_within: Duration,
    /// Whether and how this process can be its group's redirector.
    pub eligible: Option<Eligible>,
    /// Whether it may then listen where others than this machine can reach.
    pub insecure: bool,
}

impl Config {
    /// The disk's settings, with the size of the log.
    pub fn disk_config(&self) -> disk::Config {
        let config = self.disk.clone();
        let whole = config.segment_bytes * config.segments_max;
        let bytes = self.log_bytes.unwrap_or(whole.max(disk::LOG_OVER_MOB * self.store.mob_bytes_limit));
        disk::Config { segment_bytes: (bytes / config.segments_max).next_multiple_of(4096), ..config }
    }
}

/// How a process is its group's redirector, should that be needed.
#[derive(Clone, Debug)]
pub struct Eligible {
    /// Where it listens: an address that the other members reach.
    pub listen: SocketAddr,
    /// The store's addresses, as one text.
    pub store: String,
}
