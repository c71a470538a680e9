//! The links: when a message that leaves a node arrives at another.

use super::Hardware;
use core::time::Duration;
use types::Time;

/// A link of each node out, and one in. Each carries one message at a time, and the receiver's begins as soon as the
/// first bytes are there.
#[derive(Debug)]
pub(super) struct Links {
    out_free: Vec<Time>,
    in_free: Vec<Time>,
    wire: Duration,
    bytes_per_second: f64,
}

impl Links {
    pub(super) fn new(nodes: usize, hardware: &Hardware) -> Self {
        let Hardware { wire, link_bytes_per_second: bytes_per_second, .. } = *hardware;
        Self { out_free: vec![Time::ZERO; nodes], in_free: vec![Time::ZERO; nodes], wire, bytes_per_second }
    }

    /// The time that a link carries so many bytes.
    fn carries(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_second)
    }

    /// A message leaves a node. Returns when its first byte is at the other's link.
    pub(super) fn leave(&mut self, now: Time, from: usize, bytes: u64) -> Time {
        let begins = self.out_free[from].max(now);
        self.out_free[from] = begins + self.carries(bytes);
        begins + self.wire
    }

    /// Its first byte is at the other's link. Returns when its last one has arrived.
    pub(super) fn arrive(&mut self, now: Time, to: usize, bytes: u64) -> Time {
        self.in_free[to] = self.in_free[to].max(now) + self.carries(bytes);
        self.in_free[to]
    }
}
