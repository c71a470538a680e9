//! What checkers look at. Nobody else needs to know.

use crate::{SessionId, Store};
use protocol::CommitRequest;
use types::{PageId, SlotSet, TxnId};

impl Store {
    /// Whether the session is listed as a holder of the page, for checkers.
    pub fn lists(&self, session: SessionId, page: PageId) -> bool {
        self.master.holds(page, session)
    }

    /// Whether the session lives as far as the store is concerned, for checkers.
    pub fn believes_in(&self, session: SessionId) -> bool {
        self.sessions.client(session).is_some()
    }

    /// The commits that wait their turn, for checkers.
    pub fn in_turn(&self) -> impl Iterator<Item = &CommitRequest> {
        self.turns.tickets().map(|ticket| &ticket.request)
    }

    /// What prepared transactions write, for checkers.
    pub fn prepared(&self) -> impl Iterator<Item = (PageId, TxnId, SlotSet)> + '_ {
        let on = |page| self.master.prepared(page).map(move |(txn, slots)| (page, txn, slots));
        self.master.prepared_pages().into_iter().flat_map(on)
    }
}
