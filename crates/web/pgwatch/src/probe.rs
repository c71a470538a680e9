//! Looks now and then whether a commit has waited for the watcher.
//!
//! Nothing in the stream says so, and no session may ask what another one has set. But a commit that waits is invisible
//! until it is confirmed: one that a snapshot has before is a commit whose session does not wait
//! (`synchronous_commit`), or whose wait was cancelled. So a commit is held back until a snapshot that was taken behind
//! it is there: a fraction of a millisecond, once a second.

use crate::lsn::Xid;
use crate::snapshot::Snapshot;
use std::time::Duration;
use tokio::time::Instant;

/// The pause between two.
const PAUSE: Duration = Duration::from_secs(1);

/// The looks of one connection.
pub(crate) struct Probe {
    /// Commits of transactions before this one may have been confirmed by another watcher.
    since: u64,
    /// The commit that is looked for.
    held: Option<Xid>,
    due: Instant,
}

impl Probe {
    /// For a connection that has got the slot when this was the number of the next transaction.
    pub(crate) fn new(since: u64) -> Self {
        Self { since, held: None, due: Instant::now() }
    }

    /// A commit was heard, of which nothing is confirmed. Returns whether it should be looked for.
    pub(crate) fn begin(&mut self, committed: Xid) -> bool {
        let is_ours = committed.0.wrapping_sub(self.since as u32).cast_signed() >= 0;
        if !is_ours || self.held.is_some() || Instant::now() < self.due {
            return false;
        }
        (self.held, self.due) = (Some(committed), Instant::now() + PAUSE);
        true
    }

    /// Whether nothing may be confirmed.
    pub(crate) fn is_under_way(&self) -> bool {
        self.held.is_some()
    }

    /// A snapshot was taken. Returns whether the commit was visible, which nobody had confirmed.
    pub(crate) fn end(&mut self, snapshot: &Snapshot) -> bool {
        self.held.take().is_some_and(|held| snapshot.has(held))
    }
}
