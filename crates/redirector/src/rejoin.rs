//! A member comes with what it holds: all of it is listed first, then the store compares it.
//!
//! ```text
//!   Rejoin{pages} ... Rejoin{last}      every page is listed: from here on its changes are kept for the member
//!        |  Revalidate{pages} ---------------> store
//!        |  <-- Notices, Revalidated --------
//!   what was missed, what was kept, Rejoined{horizon}
//! ```
//! A member that holds nothing is one of us at once. It may have heard of more than the redirector has; what it fetches
//! says how recent the answer must be.

use crate::Redirector;
use alloc::collections::BTreeMap;
use alloc::format;
use protocol::{Goodbye, Held, Message, Notices, Rejoin, Rejoined, Revalidate, Revalidated};
use types::limits::{GRANTED_PAGES_MAX, PAGES_PER_MESSAGE_MAX, TXN_PAGES_MAX};
use types::{PageId, PageRange, Rule, SessionId, Time, Version};

/// Messages of one rejoin: as many as its pages take.
const REJOINS_MAX: usize = TXN_PAGES_MAX.div_ceil(PAGES_PER_MESSAGE_MAX);

/// What the store has been asked.
#[derive(Debug)]
struct Question {
    session: SessionId,
    horizon: Version,
    pages: alloc::vec::Vec<Held>,
}

/// The questions to which there is no answer yet.
#[derive(Debug, Default)]
pub(crate) struct Revalidations {
    open: BTreeMap<u64, Question>,
    last: u64,
}

impl Revalidations {
    /// The pages that the store is comparing.
    pub(crate) fn pages(&self) -> impl Iterator<Item = PageId> + '_ {
        self.open.values().flat_map(|question| &question.pages).map(|held| held.page)
    }

    /// The member is gone.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.open.retain(|_, question| question.session != session);
    }

    /// The questions are asked again under other numbers: an answer to the old ones says nothing any more.
    pub(crate) fn link_is_gone(&mut self) {
        for question in core::mem::take(&mut self.open).into_values() {
            self.last += 1;
            self.open.insert(self.last, question);
        }
    }
}

impl Redirector {
    /// A member that is not welcome yet has told what it holds: it is listed when it is.
    pub(crate) fn keep_rejoin(&mut self, from: SessionId, rejoin: Rejoin) -> Result<(), Goodbye> {
        let Some(brought) = self.members.brought(from) else { return Ok(()) };
        if brought.len() >= REJOINS_MAX {
            return Err(Goodbye::too_much(format!("expected at most {REJOINS_MAX} messages of one rejoin")));
        }
        brought.push(rejoin);
        Ok(())
    }

    /// A member tells what it holds.
    pub(crate) fn rejoin(&mut self, now: Time, from: SessionId, rejoin: Rejoin) -> Result<(), Goodbye> {
        let (Some(client), Some(resuming)) = (self.members.client(from), self.members.resuming(from)) else {
            return Err(Goodbye::malformed("expected no rejoin after the last one".into()));
        };
        let grants: u64 = rejoin.grants.iter().map(|range| u64::from(range.count)).sum();
        let pages = resuming.pages.len() + rejoin.pages.len();
        if pages > TXN_PAGES_MAX || grants > GRANTED_PAGES_MAX as u64 {
            let text = format!(
                "expected at most {TXN_PAGES_MAX} pages and {GRANTED_PAGES_MAX} granted ones in a rejoin, got {pages} and \
                 {grants}"
            );
            return Err(Goodbye::too_much(text));
        }
        resuming.horizon = rejoin.horizon;
        for held in &rejoin.pages {
            self.held.list(held.page, from);
        }
        for page in rejoin.grants.iter().copied().flat_map(PageRange::pages) {
            if self.grants.is_of(client, page) {
                self.held.list(page, from);
                resuming.pages.push(Held { page, version: Version::ZERO });
                resuming.claimed.push(page);
            } else {
                resuming.dropped.push(page);
            }
        }
        resuming.pages.extend(rejoin.pages);
        if rejoin.last {
            resuming.claimed.sort_unstable();
            self.grants.keep(client, &resuming.claimed);
            self.compare(now, from);
        }
        Ok(())
    }

    /// Asks the store what has changed of all that a member brings.
    fn compare(&mut self, now: Time, session: SessionId) {
        let Some(resuming) = self.members.revalidate(session) else { return };
        let (pages, horizon) = (core::mem::take(&mut resuming.pages), resuming.horizon);
        if pages.is_empty() || self.config.broken.is(Rule::RevalidateMember) {
            return self.finish_rejoin(now, session);
        }
        resuming.questions_left = pages.len().div_ceil(PAGES_PER_MESSAGE_MAX);
        for held in &pages {
            if !self.is_known_to_others(held.page, session) {
                self.lease.ask(held.page);
            }
        }
        for pages in pages.chunks(PAGES_PER_MESSAGE_MAX) {
            self.revalidations.last += 1;
            let number = self.revalidations.last;
            self.revalidations.open.insert(number, Question { session, horizon, pages: pages.to_vec() });
            if self.trunk.is_live() {
                self.send_to_store(now, Message::Revalidate(Revalidate { number, horizon, pages: pages.to_vec() }));
            }
        }
    }

    /// Whether the group holds the page without this member, so that it is told of its changes already.
    fn is_known_to_others(&self, page: PageId, session: SessionId) -> bool {
        let mut others = self.held.holders(page).iter().filter(|holder| **holder != session);
        others.any(|other| self.members.is_joined(*other)) || self.standby.holds(page)
    }

    /// The session with the store is resumed: it is asked again.
    pub(crate) fn resend_revalidations(&mut self, now: Time) {
        let open: alloc::vec::Vec<_> = self
            .revalidations
            .open
            .iter()
            .map(|(&number, q)| Revalidate { number, horizon: q.horizon, pages: q.pages.clone() })
            .collect();
        for revalidate in open {
            self.send_to_store(now, Message::Revalidate(revalidate));
        }
    }

    /// The store has compared some of what a member brings.
    pub(crate) fn revalidated(&mut self, now: Time, revalidated: Revalidated) {
        let Some(question) = self.revalidations.open.remove(&revalidated.number) else { return };
        let session = question.session;
        let Some(resuming) = self.members.revalidating(session) else { return };
        let horizon = self.trunk.horizon();
        for held in &question.pages {
            self.lease.answered(held.page, horizon);
            // Whether the member has holes in it is not known: it will say so when it is asked for help.
            let has_changed = revalidated.items.iter().any(|item| item.page == held.page);
            if !has_changed && !revalidated.dropped.contains(&held.page) {
                self.whole.list(held.page, session);
            }
        }
        for item in revalidated.items.iter().filter(|item| item.prev == Version::ZERO) {
            self.grants.lose(item.page);
        }
        resuming.items.extend(revalidated.items);
        resuming.dropped.extend(revalidated.dropped);
        resuming.questions_left -= 1;
        if resuming.questions_left == 0 {
            self.finish_rejoin(now, session);
        }
    }

    /// All is compared: the member hears what it has missed, and its horizon moves again.
    fn finish_rejoin(&mut self, now: Time, session: SessionId) {
        let client = self.members.client(session);
        let Some(mut resumed) = self.members.join(session) else { return };
        // While it was compared a grant may have been lost, with the session that the store had given it to.
        let is_lost = |page: &PageId| client.is_none_or(|client| !self.grants.is_of(client, *page));
        resumed.dropped.extend(resumed.claimed.iter().copied().filter(is_lost));
        let (through, horizon) = (self.trunk.horizon(), resumed.horizon);
        for &page in &resumed.dropped {
            self.held.release(page, session);
            self.whole.release(page, session);
            self.release_if_unheld(now, page);
        }
        let missed = Notices { through: horizon, items: resumed.items };
        let kept = self.take_kept(session, horizon);
        for batch in core::iter::once(missed).chain(kept).filter(|batch| !batch.items.is_empty()) {
            self.out.send(session, Message::Notices(batch));
        }
        self.acks.join(session, horizon);
        self.streams.resume(session, through);
        self.out.send(session, Message::Rejoined(Rejoined { through, dropped: resumed.dropped }));
        self.tell_new_member(session);
    }
}
