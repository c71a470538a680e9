//! Why either end has ended a session that this host had opened.

use crate::lock::{Lock, Rank};
use types::{GoodbyeReason, Map};

/// The reasons, by link, until the task that opens sessions has taken note.
#[derive(Debug)]
pub(crate) struct LastWords(Lock<Map<machine::Link, (GoodbyeReason, String)>>);

impl LastWords {
    pub(crate) fn new() -> Self {
        Self(Lock::new(Rank::LastWords, Map::default()))
    }

    /// One of the two ends has ended the session. The first word counts: the second is an answer to it.
    pub(crate) fn say(&self, link: machine::Link, reason: GoodbyeReason, text: &str) {
        // Nobody asks why a session was ended that the peer had opened.
        if matches!(link.port, machine::Port::Upstream(_)) {
            self.0.lock().entry(link).or_insert_with(|| (reason, text.to_owned()));
        }
    }

    /// Why the last session was ended, if one of its ends has done that. It is not told twice.
    pub(crate) fn take(&self, link: machine::Link) -> Option<(GoodbyeReason, String)> {
        self.0.lock().remove(&link)
    }
}
