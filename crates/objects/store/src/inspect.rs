//! The view that checkers have of a client. No other code uses it.

use crate::turns::InLine;
use crate::{SessionId, Store};
use messages::CommitRequest;
use types::{ClientId, PageId, SlotSet, Time, TxnId, Version};

/// A commit that waits its turn, or a client that should come for it.
#[derive(Clone, Copy, Debug)]
pub enum InTurn<'a> {
    /// A commit, and whether anybody waits for it: if not, it is given up when its turn comes.
    Commit(&'a CommitRequest, bool),
    /// A client whose place is kept, what it has lost by, and until when.
    Kept(ClientId, &'a [(PageId, SlotSet)], Time),
}

impl Store {
    /// Whether the session is listed as a holder of the page, for checkers.
    pub fn lists(&self, session: SessionId, page: PageId) -> bool {
        self.master.holds(page, session)
    }

    /// Whether the page exists, for checkers.
    pub fn has_page(&self, page: PageId) -> bool {
        self.grants.exists(page)
    }

    /// Whether the session lives as far as the store is concerned, for checkers.
    pub fn has_session(&self, session: SessionId) -> bool {
        self.sessions.client(session).is_some()
    }

    /// Whether the outcome of some commit was forgotten before its client had it, for checkers.
    pub fn has_forgotten(&self) -> bool {
        self.coordinator.forgotten() > Version::ZERO
    }

    /// The commits that wait their turn, in order, for checkers.
    pub fn in_turn(&self) -> impl Iterator<Item = InTurn<'_>> {
        self.turns.line().map(|waiter| match waiter {
            InLine::Commit(ticket) => InTurn::Commit(&ticket.request, self.coordinator.is_awaited(ticket.request.txn)),
            InLine::Kept(kept) => InTurn::Kept(kept.client, &kept.slots, kept.until),
        })
    }

    /// The writes of prepared transactions, for checkers.
    pub fn prepared(&self) -> impl Iterator<Item = (PageId, TxnId, SlotSet)> + '_ {
        let on = |page| self.master.prepared(page).map(move |(txn, slots)| (page, txn, slots));
        self.master.prepared_pages().into_iter().flat_map(on)
    }
}
