//! The serialisation server: gives each commit its count.
//!
//! With several masters it would be a vector of counts, one for each that the commit changes; a store of one node has a
//! vector of one. Counts are given to durable commits only, in the order of the log, and without gaps.
//!
//! 1. A count is given once, and every count is given.
//! 2. A given count is remembered until it is handed to the log ([`Sequencer::take_unlogged`]). After a crash before
//!    that, the order of the log gives the same counts again.

use crate::Counted;
use alloc::vec::Vec;
use types::{TxnId, Version};

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Sequencer {
    last: Version,
    unlogged: Vec<Counted>,
}

impl Sequencer {
    /// Goes on after a restart: everything through `last` was given before.
    pub(crate) fn resume(&mut self, last: Version) {
        self.last = last;
    }

    /// The count of a commit: the next one.
    pub(crate) fn count(&mut self, txn: TxnId) -> Version {
        self.last = self.last.next();
        self.unlogged.push(Counted { txn, version: self.last });
        self.last
    }

    /// The counts that the log does not know yet, oldest first.
    pub(crate) fn take_unlogged(&mut self) -> Vec<Counted> {
        core::mem::take(&mut self.unlogged)
    }
}
