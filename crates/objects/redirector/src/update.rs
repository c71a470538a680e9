//! The news of a change, and its receivers: updates inside the group that committed, invalidations from outside
//! (BuddyCache paper, sections 3.2 and 4.4).
//!
//! 1. A change goes to every member that holds the page or is fetching it, and to nobody else.
//! 2. An invalidation makes every copy in the group incomplete; an update leaves it whole.
//! 3. All news of one event leaves in one batch for each member, before anything else that the event says to it.

use crate::Redirector;
use crate::members::Members;
use crate::outputs::Outputs;
use alloc::vec::Vec;
use directory::Urgency;
use messages::{At, Invalidation, Invalidations, ToClient};
use types::{Rule, SessionId, Time, Vector, Version};

impl Members {
    /// A page that the member holds has changed. One that is not compared yet is told when it is.
    fn tell(&mut self, now: Time, member: SessionId, invalidation: Invalidation) {
        self.streams.push(now, member, invalidation);
    }

    /// Sends a member its news through `horizon`, as far as that is urgent enough. One that is not compared yet is told
    /// of nothing: its invalidations are kept for it.
    fn flush(&mut self, member: SessionId, horizon: &Vector, urgency: Urgency, out: &mut Outputs) {
        if !self.is_joined(member) {
            return;
        }
        for batch in self.streams.take(member, horizon, urgency) {
            out.send(member, batch);
        }
    }

    /// The invalidations that were kept for a member while it was compared.
    pub(crate) fn take_kept(&mut self, member: SessionId, horizon: &Vector) -> Vec<Invalidations> {
        self.streams.take(member, horizon, Urgency::Worthwhile)
    }
}

impl Redirector {
    /// A node reports changes.
    pub(crate) fn invalidations(&mut self, now: Time, at: At, invalidations: &Invalidations) {
        for invalidation in invalidations.as_taken(self.nodes[at].horizon()) {
            self.tell(now, &invalidation, None);
        }
        self.nodes.heard_through(at, &invalidations.through);
    }

    /// The session with a node is being resumed: the changes since our horizon. They are news for those who know
    /// of all before it; those that are not compared yet are compared again.
    pub(crate) fn catch_up(&mut self, now: Time, at: At, invalidations: &Invalidations) {
        for invalidation in invalidations.as_taken(self.nodes[at].horizon()) {
            self.change(&invalidation);
            for &holder in self.holders.of(invalidation.page) {
                if self.members.is_joined(holder) && !self.config.broken.is(Rule::TellMissed) {
                    self.members.tell(now, holder, Invalidation::clone(&invalidation));
                }
            }
        }
    }

    /// A page has changed: every holder is told, but for the one that has it from the commit's reply.
    pub(crate) fn tell(&mut self, now: Time, invalidation: &Invalidation, committer: Option<SessionId>) {
        let page = invalidation.page;
        let was_granted = self.grants.has(page);
        self.change(invalidation);
        if was_granted {
            // Its member may be gone.
            self.release_if_unheld(now, page);
        }
        let only_whole = self.config.broken.is(Rule::TellMembers);
        for &holder in self.holders.of(page) {
            if Some(holder) != committer && (!only_whole || self.holders.has_whole(page, holder)) {
                self.members.tell(now, holder, invalidation.clone());
            }
        }
    }

    /// A change applied to the redirector's own knowledge of the page.
    fn change(&mut self, invalidation: &Invalidation) {
        let page = invalidation.page;
        if invalidation.data.is_none() {
            self.holders.unlist_all_whole(page);
            if !self.config.broken.is(Rule::SpoilCopies) {
                self.helps.spoil(page);
            }
            self.stats.invalidations += 1;
        } else {
            self.stats.updates += 1;
        }
        self.grants.lose(page);
        if invalidation.prev == Version::ZERO {
            self.absent.forget(page);
        }
        self.standby.apply(invalidation);
        let sharding = self.nodes.sharding();
        self.nodes.of_mut(page).lease.note(invalidation, sharding);
    }

    /// Sends the news of this event.
    pub(crate) fn flush_told(&mut self) {
        while let Some(member) = self.members.streams.pop_due(Time(u64::MAX)) {
            self.members.flush(member, self.nodes.horizon().counts, Urgency::Worthwhile, &mut self.out);
        }
    }

    /// Sends an answer, and before it the invalidations that it depends on.
    pub(crate) fn reply(&mut self, member: SessionId, message: impl Into<ToClient>) {
        self.members.flush(member, self.nodes.horizon().counts, Urgency::Worthwhile, &mut self.out);
        self.out.send(member, message);
    }

    /// Tells a member how far the redirector has heard, if it does not know.
    pub(crate) fn flush_all(&mut self, member: SessionId) {
        self.members.flush(member, self.nodes.horizon().counts, Urgency::All, &mut self.out);
    }
}
