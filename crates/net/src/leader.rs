//! Who flushes the log.
//!
//! ```text
//!   Idle --wanted--> Wanted --begin--> Leading --end--> Idle
//!                      ^                  | wanted
//!                      +------------------+
//! ```
//! 1. Between `wanted` from `Idle` and `end` to `Idle` exactly one thread leads, or is about to.
//! 2. What was queued before a call of `wanted` is in a flush that begins after that call.

use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

const IDLE: u8 = 0;
const LEADING: u8 = 1;
const WANTED: u8 = 2;

/// Who flushes the log. The disk has a leader of its own; this one spares a thread the way to the disk, and the relief
/// the word that a reader is away, only to find that another leads.
#[derive(Debug, Default)]
pub(crate) struct Leader(AtomicU8);

impl Leader {
    /// Something is queued. Says whether the caller is to lead.
    pub(crate) fn wanted(&self) -> bool {
        self.0.swap(WANTED, SeqCst) == IDLE
    }

    /// The leader begins a flush.
    pub(crate) fn begin(&self) {
        self.0.store(LEADING, SeqCst);
    }

    /// The leader has ended a flush. Says whether another is wanted; the caller leads on until it is not.
    pub(crate) fn end(&self) -> bool {
        self.0.compare_exchange(LEADING, IDLE, SeqCst, SeqCst).is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leads_and_none_is_forgotten() {
        let leader = Leader::default();
        assert!(leader.wanted());
        assert!(!leader.wanted(), "the first is about to");
        leader.begin();
        assert!(!leader.end());
        assert!(leader.wanted());
        leader.begin();
        assert!(!leader.wanted(), "another leads, who will hear of it");
        assert!(leader.end());
        leader.begin();
        assert!(!leader.end());
        assert!(leader.wanted());
    }
}
