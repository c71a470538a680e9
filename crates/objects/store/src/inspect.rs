//! The view that checkers have of a store. No other code uses it.

use crate::{SessionId, Store};
use alloc::vec::Vec;
use master::InTurn;
use types::{PageId, SlotChange, SlotSet, TxnId, Vector};

impl Store {
    /// Whether the session is listed as a holder of the page, for checkers.
    pub fn lists(&self, session: SessionId, page: PageId) -> bool {
        self.master.lists(session, page)
    }

    /// Whether the page exists, for checkers.
    pub fn has_page(&self, page: PageId) -> bool {
        self.master.has_page(page)
    }

    /// Whether the session lives as far as the store is concerned, for checkers.
    pub fn has_session(&self, session: SessionId) -> bool {
        self.sessions.client(session).is_some()
    }

    /// Whether the outcome of some commit was forgotten before its client had it, for checkers.
    pub fn has_forgotten(&self) -> bool {
        *self.coordinator.forgotten() != Vector::new()
    }

    /// The commits that wait their turn, in order, for checkers.
    pub fn in_turn(&self) -> impl Iterator<Item = InTurn<'_>> {
        self.master.in_turn()
    }

    /// The changes of a page that are not written back, for checkers.
    pub fn changes(&self, page: PageId) -> Vec<SlotChange> {
        self.master.changes(page)
    }

    /// The counts through which updates are applied, for checkers.
    pub fn applied(&self) -> &Vector {
        self.master.applied()
    }

    /// The writes of prepared transactions, for checkers.
    pub fn prepared(&self) -> impl Iterator<Item = (PageId, TxnId, SlotSet)> + '_ {
        self.master.prepared()
    }
}
