//! The language between a member of the crew and its leader: a line of JSON each.

use crate::history::Event;
use crate::job::Work;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::iter::Sum;

/// An order to a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Works so from its next transaction on.
    Work(Work),
    /// Rests after its current transaction.
    Rest,
}

/// A report of a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Word {
    /// It is connected, and waits for orders.
    Ready,
    /// An operation of the member, for the history.
    Event(Event),
    /// It came by this many things that somebody's transaction had left half done.
    HalfDone(u64),
    /// It rests: because it was told to, or because it has done everything that it was told to do.
    Rests(Counts),
}

/// The counts of a member's client since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) cached_reads: u64,
    pub(crate) pages_fetched: u64,
    pub(crate) pages_from_peers: u64,
    pub(crate) aborts: u64,
}

impl From<thorp::Stats> for Counts {
    fn from(stats: thorp::Stats) -> Self {
        Self {
            cached_reads: stats.hits,
            pages_fetched: stats.pages_fetched,
            pages_from_peers: stats.pages_from_peers,
            aborts: stats.refused + stats.doomed,
        }
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            cached_reads: sum.cached_reads + one.cached_reads,
            pages_fetched: sum.pages_fetched + one.pages_fetched,
            pages_from_peers: sum.pages_from_peers + one.pages_from_peers,
            aborts: sum.aborts + one.aborts,
        })
    }
}

/// The machine's monotonic clock, in nanoseconds: one for all its processes.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
