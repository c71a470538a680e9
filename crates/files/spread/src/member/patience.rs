//! How long a member waits for a lease before it leaves a server.
//!
//! A server that answers "not yet" has lost its own upstream, and the member leaves it soon. A server that does not
//! answer may be far away: the member stays until its lease ends, and while a chunk may be crossing a slow line.

use core::time::Duration;
use types::Time;

/// How long a chunk may take to cross the line: the largest one, at 300 kbit/s.
const CHUNK_WITHIN: Duration = Duration::from_secs(120);

/// The questions for a lease that have no answer.
#[derive(Debug)]
pub(super) struct Patience {
    length: Duration,
    /// When the first of them was asked.
    since: Option<Time>,
    is_put_off: bool,
}

impl Patience {
    pub(super) fn new(length: Duration) -> Self {
        Self { length, since: None, is_put_off: false }
    }

    /// A lease is asked for.
    pub(super) fn asks(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// The server answers that it grants none yet.
    pub(super) fn put_off(&mut self) {
        self.is_put_off = true;
    }

    /// The server says something else, or is gone.
    pub(super) fn rest(&mut self) {
        (self.since, self.is_put_off) = (None, false);
    }

    /// When the server is left, where a lease runs until `until` and chunks were asked for or not.
    pub(super) fn ends(&self, until: Time, waits_for_chunks: bool) -> Option<Time> {
        let since = self.since?;
        let silent = if waits_for_chunks { since + CHUNK_WITHIN } else { since + self.length };
        Some(if self.is_put_off { since + self.length } else { silent.max(until) })
    }
}
