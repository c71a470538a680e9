//! The members that hold each page, or may soon install it; and those of them that have it whole, without holes.

use crate::Redirector;
use alloc::vec::Vec;
use directory::Directory;
use types::{PageId, Rule, SessionId, Time};

#[derive(Debug, Default)]
pub(crate) struct Holders {
    held: Directory<SessionId>,
    whole: Directory<SessionId>,
}

impl Holders {
    /// The member holds the page from here on, or may soon install it.
    pub(crate) fn list(&mut self, page: PageId, member: SessionId) {
        self.held.list(page, member);
    }

    /// The member, which is listed, has the page whole.
    pub(crate) fn list_whole(&mut self, page: PageId, member: SessionId) {
        self.whole.list(page, member);
    }

    /// Whether the member has the page whole is no longer known.
    pub(crate) fn unlist_whole(&mut self, page: PageId, member: SessionId) {
        self.whole.release(page, member);
    }

    /// No copy of the page is known to be whole any more.
    pub(crate) fn unlist_all_whole(&mut self, page: PageId) {
        self.whole.forget_page(page);
    }

    /// The member holds the page no longer.
    pub(crate) fn release(&mut self, page: PageId, member: SessionId) {
        self.held.release(page, member);
        self.whole.release(page, member);
    }

    /// The member is gone; gives the pages that it held.
    pub(crate) fn forget(&mut self, member: SessionId) -> Vec<PageId> {
        self.whole.forget_holder(member);
        let pages = self.held.pages(member).collect();
        self.held.forget_holder(member);
        pages
    }

    /// The holders of the page.
    pub(crate) fn of(&self, page: PageId) -> &[SessionId] {
        self.held.holders(page)
    }

    /// Those that have it whole.
    pub(crate) fn whole_of(&self, page: PageId) -> &[SessionId] {
        self.whole.holders(page)
    }

    /// Whether the member holds the page.
    pub(crate) fn holds(&self, page: PageId, member: SessionId) -> bool {
        self.held.holds(page, member)
    }

    /// Whether the member has it whole.
    pub(crate) fn has_whole(&self, page: PageId, member: SessionId) -> bool {
        self.whole.holds(page, member)
    }

    /// The pages that the member holds.
    pub(crate) fn pages(&self, member: SessionId) -> impl Iterator<Item = PageId> + '_ {
        self.held.pages(member)
    }

    /// How many pages the member holds, and how many of them whole.
    pub(crate) fn count(&self, member: SessionId) -> (usize, usize) {
        (self.held.pages_held(member), self.whole.pages_held(member))
    }
}

impl Redirector {
    /// Tells the store of a page that nobody here holds, or is about to.
    pub(crate) fn release_if_unheld(&mut self, now: Time, page: PageId) {
        if self.is_unheld(page) {
            self.absent.forget(page);
            self.nodes.of_mut(page).session.release(now, page);
        }
    }

    /// Whether nobody here holds a page, or is about to. One that was granted is somebody's to fill, or will be.
    pub(crate) fn is_unheld(&self, page: PageId) -> bool {
        let is_fetched = self.nodes.of(page).fetches.is_under_way(page) && !self.config.broken.is(Rule::GroupRelease);
        let is_here = self.standby.holds(page) || self.grants.has(page);
        self.holders.of(page).is_empty() && !is_fetched && !is_here
    }
}
