//! The state of a session with a node of the store. [`messages::upstream`] has its phases and timers, and `sessions`
//! its course.

use crate::TxnError;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::mem;
use messages::{Ack, Phase, Upstream};
use types::{Horizon, PageId, Shard, Time, Vector};

/// The state that a session has begun with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brought {
    /// No page, no grant, and nothing learned of: there is nothing to be compared.
    Nothing,
    Something,
}

#[derive(Debug)]
pub(crate) struct Session {
    /// How far it is, and what is known of the store.
    pub(crate) up: Upstream<TxnError>,
    /// The latest changes in any batch. Those beyond the horizon came with a batch that was cut, and more will follow.
    pub(crate) told: Vector,
    pub(crate) brought: Brought,
    /// The other end is the redirector of a group, in a store of several nodes.
    pub(crate) is_of_several: bool,
    ack_is_due: bool,
    /// The last moment that the node was asked about in this session.
    pub(crate) asked: u64,
    /// Pages that have left, as far as the store was not told.
    pub(crate) released: Vec<PageId>,
    /// Pages that have left and that the store continues listing for us, for the reads of running transactions.
    kept: BTreeSet<PageId>,
}

impl Session {
    pub(crate) fn new() -> Self {
        Self::over(Upstream::default())
    }

    /// The session with another node of the same store.
    pub(crate) fn beside(&self) -> Self {
        Self::over(self.up.beside())
    }

    fn over(up: Upstream<TxnError>) -> Self {
        Self {
            up,
            told: Vector::new(),
            brought: Brought::Something,
            is_of_several: false,
            ack_is_due: false,
            asked: 0,
            released: Vec::new(),
            kept: BTreeSet::new(),
        }
    }

    /// We have learned of every change through here to what we hold.
    pub(crate) fn horizon(&self) -> Horizon<'_> {
        self.up.horizon()
    }

    /// The horizon moves, and the store learns of that soon; says whether it does.
    pub(crate) fn heard_through(&mut self, now: Time, through: &Vector) -> bool {
        let moves = self.up.heard_through(through);
        if moves {
            self.ack_is_due = true;
            self.up.acknowledge_by(now);
        }
        moves
    }

    /// With [`types::Rule::OwnHorizon`] taken out: the horizon moves to the highest of these counts in all shards.
    pub(crate) fn level_horizon(&mut self, through: &Vector) {
        let highest = through.counts().iter().map(|&(_, count)| count).max().unwrap_or_default();
        let mut level = Vector::new();
        for shard in 0..self.up.sharding().shards().get() {
            level.raise(Shard(shard), highest);
        }
        self.up.heard_through(&level);
    }

    /// The acknowledgement that is due.
    pub(crate) fn take_ack(&mut self) -> Option<Ack> {
        mem::take(&mut self.ack_is_due).then(|| Ack { through: self.horizon().counts.clone() })
    }

    pub(crate) fn is_live(&self) -> bool {
        self.up.is_live()
    }

    /// Whether pages may be asked for. A client that brings nothing to be compared has joined with its last resume,
    /// wherever that is on its way; until the session says how much may be asked for, that is one page.
    pub(crate) fn may_fetch(&self) -> bool {
        self.is_live() || (self.brought == Brought::Nothing && self.up.is_up())
    }

    /// The error of a call that needs the node, if there will never be a session with it.
    pub(crate) fn check(&self) -> Result<(), TxnError> {
        match self.up.phase() {
            Phase::Over(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// The page has left the cache, and the store should continue listing it for us.
    pub(crate) fn keep(&mut self, page: PageId) {
        self.kept.insert(page);
    }

    /// Whether the store lists the page for us although it has left the cache.
    pub(crate) fn keeps(&self, page: PageId) -> bool {
        self.kept.contains(&page)
    }

    /// The store does not list the page for us.
    pub(crate) fn is_unlisted(&mut self, page: PageId) {
        self.kept.remove(&page);
    }

    /// The store lists, of the pages that have left, these for us.
    pub(crate) fn keep_only(&mut self, pages: impl Iterator<Item = PageId>) {
        self.kept = pages.collect();
    }

    /// The page has left: the store is told soon.
    pub(crate) fn release(&mut self, now: Time, page: PageId) {
        self.kept.remove(&page);
        self.released.push(page);
        self.up.piggyback_by(now);
    }

    /// Releases may have waited for a grant, which has come.
    pub(crate) fn releases_may_go(&mut self, now: Time) {
        if !self.released.is_empty() {
            self.up.piggyback_by(now);
        }
    }

    /// When the other end is told that we live. The comparison of our pages may take longer than we may be silent: a
    /// redirector asks its store, which may be far away and its line busy.
    pub(crate) fn ping_at(&self) -> Option<Time> {
        let pings = matches!(self.up.phase(), Phase::Resuming | Phase::Live);
        pings.then(|| self.up.ping_at())
    }

    /// When something is due.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.up.next_due(self.ping_at())
    }
}
