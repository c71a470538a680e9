//! The serialisation server: gives each commit its place.
//!
//! A place is a vector of update counts, one for each master that the commit changes; a store of one node has a vector
//! of one. Counts are given to durable commits only, in the order of the log, and without gaps.
//!
//! 1. A count is given once, and every count is given.
//! 2. A given count is remembered until it is handed to the log ([`Sequencer::take_unlogged`]). After a crash before
//!    that, the order of the log gives the same counts again.

use crate::Placement;
use alloc::vec::Vec;
use types::{TxnId, Version};

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Sequencer {
    last: Version,
    unlogged: Vec<Placement>,
}

impl Sequencer {
    /// Goes on after a restart: everything through `last` was given before.
    pub(crate) fn resume(&mut self, last: Version) {
        self.last = last;
    }

    /// The place of a commit.
    pub(crate) fn place(&mut self, txn: TxnId) -> Version {
        self.last = self.last.next();
        self.unlogged.push(Placement { txn, version: self.last });
        self.last
    }

    /// The places that the log does not know yet, oldest first.
    pub(crate) fn take_unlogged(&mut self) -> Vec<Placement> {
        core::mem::take(&mut self.unlogged)
    }
}
