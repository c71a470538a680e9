//! The figures of a master, and the view that checkers have of it.

use crate::Master;
use crate::sessions::SessionState;
use crate::turns::InLine;
use alloc::vec::Vec;
use messages::CommitRequest;
use types::{ClientId, PageId, SessionId, SlotChange, SlotSet, Time, TxnId, Vector};

/// The figures of a master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Pages sent since the start.
    pub pages_sent: u64,
    /// Bytes of deltas that wait for write-back.
    pub mob_bytes: u64,
    /// Pages that were ever granted.
    pub pages: u64,
    /// Of these, those that clients have to create objects in, and have not yet.
    pub pages_granted: u64,
    /// And those that were emptied, or given back, and will be granted again first.
    pub pages_spare: u64,
    /// Bytes of cached page images.
    pub cache_bytes: u64,
    /// Pages that could not be read since the start.
    pub pages_damaged: u64,
}

/// A commit that waits its turn, or a client that should come for it.
#[derive(Clone, Copy, Debug)]
pub enum InTurn<'a> {
    /// A commit.
    Commit(&'a CommitRequest),
    /// A client whose place is kept, what it has lost by, and until when.
    Kept(ClientId, &'a [(PageId, SlotSet)], Time),
}

impl Master {
    /// The figures.
    pub fn stats(&self) -> Stats {
        Stats {
            pages_sent: self.pages_sent,
            mob_bytes: self.pages.mob().bytes() as u64,
            pages: self.grants.count() as u64,
            pages_granted: self.grants.owned_count() as u64,
            pages_spare: self.grants.spare_count() as u64,
            cache_bytes: self.pages.cache_bytes() as u64,
            pages_damaged: self.pages.damaged().count() as u64,
        }
    }

    /// Changes after these counts are known slot by slot.
    pub fn pruned(&self) -> &Vector {
        self.pages.pruned()
    }

    /// The pages that could not be read since the start, in order, and why.
    pub fn damaged(&self) -> impl Iterator<Item = (PageId, &str)> {
        self.pages.damaged()
    }

    /// Every space's `next`, in order.
    pub fn next_pages(&self) -> Vec<(u32, u32)> {
        self.grants.next_pages()
    }

    /// How a session stands.
    pub fn session(&self, session: SessionId) -> Option<SessionState> {
        let pages = self.pages.pages_held(session);
        self.sessions.state(session, pages, self.invalidations.waiting(session))
    }

    /// Whether the session is listed as a holder of the page, for checkers.
    pub fn lists(&self, session: SessionId, page: PageId) -> bool {
        self.pages.holds(page, session)
    }

    /// Whether the page exists, for checkers.
    pub fn has_page(&self, page: PageId) -> bool {
        self.grants.exists(page)
    }

    /// The changes of a page that are not written back, for checkers.
    pub fn changes(&self, page: PageId) -> Vec<SlotChange> {
        self.pages.mob().changes(page)
    }

    /// The commits that wait their turn, in order, for checkers.
    pub fn in_turn(&self) -> impl Iterator<Item = InTurn<'_>> {
        self.turns.line().map(|waiter| match waiter {
            InLine::Commit(ticket) => InTurn::Commit(&ticket.request),
            InLine::Kept(kept) => InTurn::Kept(kept.client, &kept.slots, kept.until),
        })
    }

    /// The writes of prepared transactions, for checkers.
    pub fn prepared(&self) -> impl Iterator<Item = (PageId, TxnId, SlotSet)> + '_ {
        let on = |page| self.pages.prepared(page).map(move |(txn, slots)| (page, txn, slots));
        self.pages.prepared_pages().into_iter().flat_map(on)
    }
}
