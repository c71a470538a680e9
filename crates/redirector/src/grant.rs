//! Pages to create objects in: the store grants them to the group, the redirector hands them on.
//!
//! 1. One request is under way at a time; those of several members for one volume go together.
//! 2. Like a client (`room` there), the redirector releases nothing while the store owes it a grant.
//! 3. A granted page is one member's until something is created in it. A member that comes back says which it has; the
//!    others were lost on their way to it. Those, and the pages of a member that has departed, the store has back with the
//!    group's session.

use crate::Redirector;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::vec::Vec;
use protocol::{Goodbye, Grant, Granted, Message};
use types::limits::GRANTS_PER_SESSION_MAX;
use types::{ClientId, Map, PageId, PageRange, Rule, SessionId, Time};

/// A member that waits for pages.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    session: SessionId,
    grant: Grant,
}

/// Who has been granted what, and who waits.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// Pages that nothing was created in, and whose they are.
    unfilled: BTreeMap<PageId, ClientId>,
    waiting: VecDeque<Waiter>,
    /// How often each session waits.
    waits: Map<SessionId, usize>,
    /// What the store has been asked for.
    asked: Option<Grant>,
}

impl Grants {
    /// Whether the page was granted to this client, and nothing was created in it.
    pub(crate) fn is_of(&self, client: ClientId, page: PageId) -> bool {
        self.unfilled.get(&page) == Some(&client)
    }

    /// The page has changed, or it is somebody else's.
    pub(crate) fn lose(&mut self, page: PageId) {
        self.unfilled.remove(&page);
    }

    /// The client has come back, and of what it was granted it has these, in their order: it never heard of the rest.
    pub(crate) fn keep(&mut self, client: ClientId, claimed: &[PageId]) {
        self.unfilled.retain(|page, owner| *owner != client || claimed.binary_search(page).is_ok());
    }

    /// The client will not come back.
    pub(crate) fn depart(&mut self, client: ClientId) {
        self.unfilled.retain(|_, owner| *owner != client);
    }

    pub(crate) fn forget_waiter(&mut self, session: SessionId) {
        if self.waits.remove(&session).is_some() {
            self.waiting.retain(|waiter| waiter.session != session);
        }
    }

    /// One of the session's waits is over.
    fn has_waited(&mut self, session: SessionId) {
        if let Some(waits) = self.waits.get_mut(&session) {
            *waits = waits.saturating_sub(1);
        }
    }

    /// Whether the store owes us a grant.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    pub(crate) fn link_is_gone(&mut self) {
        self.asked = None;
    }

    /// Everything that was granted and not filled.
    pub(crate) fn all(&self) -> Vec<PageRange> {
        PageRange::join(self.unfilled.keys().copied())
    }
}

impl Redirector {
    /// From now on the group is told of the page's changes. What a member has read of an earlier life of it, while nobody
    /// here held it, is for the store to judge.
    fn judge_since_granted(&mut self, page: PageId) {
        if self.is_unheld(page) {
            self.lease.ask(page);
            self.lease.answered(page, self.trunk.horizon());
        }
    }

    /// A member wants pages.
    pub(crate) fn grant(&mut self, now: Time, from: SessionId, grant: Grant) -> Result<(), Goodbye> {
        let waits = self.grants.waits.entry(from).or_default();
        if *waits >= GRANTS_PER_SESSION_MAX {
            return Err(Goodbye::too_much(format!("expected at most {GRANTS_PER_SESSION_MAX} grants at a time")));
        }
        *waits += 1;
        self.grants.waiting.push_back(Waiter { session: from, grant });
        self.ask_for_grants(now);
        Ok(())
    }

    /// Asks the store for what the first in the line wants, and the others who want the like.
    pub(crate) fn ask_for_grants(&mut self, now: Time) {
        let Some(first) = self.grants.waiting.front() else { return };
        if !self.trunk.is_live() || self.grants.asked.is_some() {
            return;
        }
        let volume = first.grant.volume;
        let alike = self.grants.waiting.iter().filter(|waiter| waiter.grant.volume == volume);
        let count = alike.fold(0u32, |sum, waiter| sum.saturating_add(waiter.grant.count));
        let grant = Grant { volume, count: count.min(self.config.limits.pages_per_message as u32) };
        self.send_to_store(now, Message::Grant(grant));
        self.grants.asked = Some(grant);
    }

    /// The store has granted pages, or none if it has no more room.
    pub(crate) fn granted(&mut self, now: Time, granted: Granted) {
        let Some(asked) = self.grants.asked.take() else { return };
        let is_empty = granted.ranges.is_empty();
        let mut pages = granted.ranges.into_iter().flat_map(PageRange::pages).peekable();
        let waiting = core::mem::take(&mut self.grants.waiting);
        for waiter in waiting {
            let is_served = waiter.grant.volume == asked.volume && (is_empty || pages.peek().is_some());
            let client = self.members.client(waiter.session);
            match client {
                Some(client) if is_served => {
                    let share: Vec<_> = pages.by_ref().take(waiter.grant.count as usize).collect();
                    for &page in &share {
                        self.judge_since_granted(page);
                        self.grants.unfilled.insert(page, client);
                        self.held.list(page, waiter.session);
                    }
                    let ranges = PageRange::join(share);
                    self.grants.has_waited(waiter.session);
                    // A page may have had other lives: the member takes it for empty as of its horizon, which must be
                    // past the changes of these.
                    if !self.config.broken.is(Rule::HearBeforeGrant) {
                        self.flush_all(waiter.session);
                    }
                    self.reply(waiter.session, Message::Granted(Granted { ranges }));
                }
                Some(_) => self.grants.waiting.push_back(waiter),
                None => {}
            }
        }
        // Whoever wanted the rest is gone. The group does not hold what nobody has.
        let rest: Vec<_> = pages.collect();
        for page in rest {
            self.release_if_unheld(now, page);
        }
        self.trunk.releases_may_go(now);
        self.ask_for_grants(now);
    }
}
