//! Pages leave the cache when it is full, but the reads of running transactions still count.
//!
//! 1. The reads of a page that leaves are frozen with their evidence at that moment (`workspace.rs`).
//! 2. The store is told that a page is let go when the last running transaction that has read of it has ended. Until
//!    then it tells us of changes, so that a transaction which has read more than the cache holds sees one moment too.
//!    It is told once: a transaction that is doomed holds nothing any more, and when it ends the page may have been
//!    released already, and be on its way here again (**ReleaseOnce**).
//! 3. A page that was granted, and taken to be filled, stays until its commit has been decided (**KeepTaken**): others
//!    may fetch and read it like any page in the meantime.
//! 4. No release is on its way while the store owes us a grant. It may grant us the very page: the release, of an
//!    earlier generation of the page, would cross the grant and take it back, and we would not learn of the page's
//!    changes.
//! 5. A page that comes again is at least as recent as the one that left (**FetchAtLeast**): it may have reflected this
//!    client's own commits, which a master may not have applied yet that has the page's shard since.

use crate::Client;
use crate::workspace::Workspace;
use alloc::vec::Vec;
use core::mem;
use messages::{At, Held};
use types::{PageId, Rule, Time, Version};

impl Client {
    /// Lets pages go until the cache is within its bound. The store learns of it when no running transaction has read
    /// of the page: until then its changes still concern us.
    pub(crate) fn make_room(&mut self, now: Time) {
        while let Some(evicted) = self.cache.evict() {
            self.has_left(evicted.page, evicted.frame.newest());
            let is_read = self.txns.freeze(&evicted, self.nodes.horizon());
            let session = &mut self.nodes.of_mut(evicted.page).session;
            if is_read {
                session.keep(evicted.page);
            } else {
                session.release(now, evicted.page);
            }
        }
    }

    /// A page that reflected this change is not here any longer.
    pub(crate) fn has_left(&mut self, page: PageId, newest: Version) {
        self.gone.raise(self.nodes.horizon().sharding.of(page), newest);
    }

    /// A transaction reads no more: releases the evicted pages that were kept for it alone.
    pub(crate) fn let_go(&mut self, now: Time, workspace: &Workspace) {
        for touched in workspace.pages().iter().filter(|touched| touched.frozen().is_some()) {
            let page = touched.page;
            let is_listed = self.nodes.of(page).session.keeps(page) || self.config.broken.is(Rule::ReleaseOnce);
            if is_listed && !self.holds(page) {
                self.nodes.of_mut(page).session.release(now, page);
            }
        }
    }

    /// Whether the page's changes concern us.
    fn holds(&self, page: PageId) -> bool {
        let is_fetched = self.is_under_way(page) && !self.config.broken.is(Rule::ReleaseAfterFetch);
        let is_here = self.cache.find(page).is_some() || self.allocator.is_unused(page);
        is_here || is_fetched || self.txns.is_frozen(page)
    }

    /// Whether the page may not leave the cache. One that was taken to be filled stays, since a granted page that is
    /// released would be given to others; and so does one that somebody waits for.
    pub(crate) fn is_pinned(&self, page: PageId) -> bool {
        let is_taken = self.commits.taken().chain(self.txns.taken()).any(|taken| taken == page);
        (is_taken && !self.config.broken.is(Rule::KeepTaken)) || self.is_under_way(page)
    }

    /// Whether the page was asked for and has not come yet.
    pub(crate) fn is_under_way(&self, page: PageId) -> bool {
        self.nodes.of(page).fetches.is_under_way(page)
    }

    /// The pages of a node to be released now. Releases that waited for a grant may concern pages that are here again.
    pub(crate) fn take_released(&mut self, at: At) -> Vec<PageId> {
        let may_be_granted = self.allocator.is_asked(at) && !self.config.broken.is(Rule::KeepGranted);
        let session = &mut self.nodes[at].session;
        if session.released.is_empty() || may_be_granted {
            return Vec::new();
        }
        let mut released = mem::take(&mut session.released);
        released.retain(|&page| !self.holds(page));
        released
    }

    /// The pages that only running transactions still hold, by their reads of them.
    pub(crate) fn frozen_pages(&self) -> Vec<Held> {
        let frozen = self.txns.touched().filter_map(|touched| Some((touched.page, touched.frozen()?.version)));
        let gone = frozen.filter(|(page, _)| self.cache.find(*page).is_none());
        gone.map(|(page, version)| Held { page, version }).collect()
    }
}
