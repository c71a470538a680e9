//! How an attached volume stands, as its process tells and others read it. The names of its fields are those of the
//! status; those of its gauges and counters are the names of its metrics, too.

use crate::scrub::ScrubReport;
use serde::{Deserialize, Serialize};

/// An attached volume. A field that another version does not tell has its default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveVolume {
    /// Why it is not attached yet, and how far that has come. There are no figures then.
    pub attaching: Option<String>,
    /// Its name or its home's, for people.
    pub volume: String,
    /// Where clients come.
    pub listen: Vec<String>,
    /// Where its home is.
    pub home: String,
    /// The figures that go up and down.
    #[serde(flatten)]
    pub gauges: VolumeGauges,
    /// The figures that only grow.
    #[serde(flatten)]
    pub counters: VolumeCounters,
    /// The holders of its copies.
    pub holders: Vec<LiveCopies>,
    /// Why there are fewer copies than there should be, if there are.
    pub degraded: Option<String>,
    /// The copies that it began without, and that may have been of what was promised.
    pub gone_without: Option<String>,
    /// The trouble with home, while it lasts.
    pub home_trouble: Option<String>,
    /// The trouble with the registry, while it lasts.
    pub registry_trouble: Option<String>,
    /// The trouble with the cache, while it lasts.
    pub cache_trouble: Option<String>,
    /// The last read that has failed, if none has succeeded since.
    pub read_error: Option<String>,
    /// How long ago that was.
    pub read_error_age_s: Option<f64>,
    /// Why nothing works any more.
    pub failed: Option<String>,
    /// Its scrubs, if it has a schedule.
    pub scrub: Option<LiveScrub>,
}

/// The scrubs of an attached volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveScrub {
    /// The interval.
    pub every_s: u64,
    /// The time until the next run.
    pub next_s: u64,
    /// The bytes that the run under way has compared.
    pub running_bytes: Option<u64>,
    /// The time since the last run ended.
    pub last_s: Option<u64>,
    /// The last run.
    pub last: Option<ScrubReport>,
}

/// Figures that go up and down.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, and a figure")]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeGauges {
    /// Its size in bytes.
    pub size: u64,
    /// The number of this attachment.
    pub attachment: u64,
    /// How long it has been attached.
    pub attached_s: u64,
    /// The bytes that writes which are not written back take in the log.
    pub dirty_bytes: u64,
    /// The room for them.
    pub dirty_bytes_max: u64,
    /// How many such writes there are.
    pub dirty_writes: usize,
    /// How old the oldest of them is.
    pub dirty_age_s: Option<f64>,
    /// The clean blocks that are cached.
    pub clean_blocks: usize,
    /// The room for them.
    pub clean_blocks_max: usize,
    /// Clients' connections.
    pub connections: usize,
    /// Requests that wait for their answer.
    pub requests_waiting: usize,
    /// The copies that a write should have, that of this host among them.
    pub copies: u8,
    /// Whether there are fewer to be had.
    pub is_degraded: bool,
    /// Whether requests are answered: with a registry, only while its lease lasts.
    pub is_leased: bool,
    /// The holders that have everything that is not written back.
    pub holders_whole: usize,
    /// Whether home does not take what goes there.
    pub has_home_trouble: bool,
    /// Whether the cache's disk does not take what goes there.
    pub has_cache_trouble: bool,
    /// Whether nothing works any more.
    pub has_failed: bool,
    /// The interval of its scrubs; 0 without a schedule.
    pub scrub_every_s: u64,
    /// The time until the next scrub.
    pub scrub_next_s: u64,
    /// The time since the last scrub ended; 0 if there was none.
    pub scrub_last_s: u64,
    /// The differences that it found.
    pub scrub_differences: u64,
    /// How many of them it repaired.
    pub scrub_repaired: u64,
    /// Whether it left some, or did not come to its end.
    pub has_scrub_trouble: bool,
}

/// Figures that only grow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeCounters {
    /// Blocks that were read, and found among the writes that are not written back,
    pub read_blocks_dirty: u64,
    /// among the clean blocks,
    pub read_blocks_clean: u64,
    /// and at home.
    pub read_blocks_home: u64,
    /// Blocks that were written, trimmed and zeroed.
    pub written_blocks: u64,
    /// Write-backs that have ended.
    pub write_backs: u64,
    /// Requests that clients have made.
    pub requests: u64,
    /// Those that made no sense.
    pub requests_refused: u64,
    /// Those that failed.
    pub requests_failed: u64,
    /// Requests that were not carried out, as their clients had hung up.
    pub requests_given_up: u64,
}

/// A holder of its copies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveCopies {
    /// Its name, or its partition's number.
    pub name: String,
    /// Its partition.
    pub partition: String,
    /// Its address, if the registry has it.
    pub address: Option<String>,
    /// How it stands.
    pub state: String,
    /// The bytes of copies that it takes beyond those that it was sent.
    pub room: u64,
    /// Whether its disk is full, as it says.
    pub is_disk_full: bool,
}
