//! Counts of what passes the connections of one host.

use crate::lock::{Lock, Rank};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of everything that passed a host's links since its start.
#[derive(Debug)]
pub struct Counters {
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) messages_in: AtomicU64,
    pub(crate) messages_out: AtomicU64,
    pub(crate) sessions: AtomicU64,
    pub(crate) peers: AtomicU64,
    pub(crate) flushes: AtomicU64,
    refusals: Lock<BTreeMap<&'static str, u64>>,
}

/// The counts at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Messages received.
    pub messages_in: u64,
    /// Messages sent, or queued to be.
    pub messages_out: u64,
    /// Sessions that were opened, on either end.
    pub sessions: u64,
    /// Connections with peers that were opened, on either end.
    pub peers: u64,
    /// Flushes of the log that this host's threads led.
    pub flushes: u64,
    /// Connections that were refused or ended by this host, by the reason's name.
    pub refusals: BTreeMap<&'static str, u64>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            bytes_in: AtomicU64::default(),
            bytes_out: AtomicU64::default(),
            messages_in: AtomicU64::default(),
            messages_out: AtomicU64::default(),
            sessions: AtomicU64::default(),
            peers: AtomicU64::default(),
            flushes: AtomicU64::default(),
            refusals: Lock::new(Rank::Refusals, BTreeMap::new()),
        }
    }
}

impl Counters {
    /// The counts now.
    pub fn tally(&self) -> Tally {
        let refusals = self.refusals.lock().clone();
        Tally {
            bytes_in: self.bytes_in.load(Relaxed),
            bytes_out: self.bytes_out.load(Relaxed),
            messages_in: self.messages_in.load(Relaxed),
            messages_out: self.messages_out.load(Relaxed),
            sessions: self.sessions.load(Relaxed),
            peers: self.peers.load(Relaxed),
            flushes: self.flushes.load(Relaxed),
            refusals,
        }
    }

    pub(crate) fn refused(&self, name: &'static str) {
        *self.refusals.lock().entry(name).or_default() += 1;
    }
}
