//! The settings of an owner.

use crate::rule::Rule;
use core::time::Duration;
use types::Broken;

/// The lease of a volume's owner, unless the volume is made with another one.
pub const LEASE: Duration = Duration::from_secs(6);

/// A holder that is lost for longer is replaced.
pub const REPLACE_AFTER: Duration = Duration::from_secs(30);

/// When a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// When W copies of it are counted.
    Write,
    /// At once. A flush is answered when W copies are counted of everything that was written before it.
    Flush,
}

/// A way to continue with fewer than W copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Degraded {
    /// A write is answered when it is written back.
    WriteThrough,
    /// Writes are refused.
    Refuse,
}

/// The settings of an owner.
#[derive(Clone, Copy, Debug)]
pub struct OwnerConfig {
    /// W: the copies of which a write's answer tells, the own one among them; at most
    /// [`VOLUME_COPIES_MAX`](types::limits::VOLUME_COPIES_MAX).
    pub copies: u8,
    /// The holders that there should be: at least W - 1.
    pub holders: u8,
    /// When writes are answered.
    pub ack: Ack,
    /// With fewer than W copies.
    pub degraded: Degraded,
    /// The size of the volume.
    pub size: u64,
    /// The room that dirty writes may take in the own log.
    pub log_bytes: u64,
    /// The room that each takes there besides its contents.
    pub record_bytes: u64,
    /// The share of that room, in thousandths, from which on dirty data goes home without waiting for its age.
    pub dirty_permille: u16,
    /// A dirty write is home before it is as old as this: it begins to go there at half of it.
    pub age_max: Duration,
    /// Flush epochs are joined while they take no more than this in the log: as much as home's journal takes. None are
    /// joined if it is zero.
    pub join_bytes: u64,
    /// The wait before home is tried again when it has failed, and before anything else that is due and was in vain.
    pub retry: Duration,
    /// A holder that does not count what it was sent within this time is considered lost: sooner, if it has been faster
    /// by far.
    pub silence: Duration,
    /// But not within this time.
    pub silence_min: Duration,
    /// A holder that is lost for longer is struck from the registry, as soon as nothing rests on it alone.
    pub strike_after: Duration,
    /// A holder that is lost for longer is replaced.
    pub replace_after: Duration,
    /// The rate at which a holder that takes the place of another one is sent what it has to catch up with.
    pub back_bytes_per_second: u64,
    /// The bytes of the own log that are read at a time for a holder that is behind.
    pub read_bytes: u64,
    /// The rule that is taken out, if any.
    pub broken: Broken<Rule>,
}

impl OwnerConfig {
    /// The usual settings of a volume of this size with one copy, in a log with this room.
    pub fn new(size: u64, log_bytes: u64) -> Self {
        Self {
            copies: 1,
            holders: 0,
            ack: Ack::Flush,
            degraded: Degraded::WriteThrough,
            size,
            log_bytes,
            record_bytes: 512,
            dirty_permille: 500,
            age_max: Duration::from_secs(10),
            join_bytes: 64 << 20,
            retry: Duration::from_secs(1),
            silence: Duration::from_secs(5),
            silence_min: Duration::from_millis(500),
            strike_after: Duration::from_millis(500),
            replace_after: REPLACE_AFTER,
            back_bytes_per_second: 64 << 20,
            read_bytes: 1 << 20,
            broken: Broken::NONE,
        }
    }
}
