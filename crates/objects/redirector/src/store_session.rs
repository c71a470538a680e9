//! The session with the store: one for the whole group. How it begins, continues and ends is in `session`.
//!
//! 1. The horizon moves only in `Live`, and with everything that the store says: its answers come after the
//!    invalidations that they depend on, so a page or a commit of version `v` shows that all before `v` has been told.
//! 2. A request made while the session is not live waits for it, and goes out when it is.
//! 3. Before any other message goes out, what the store may forget has gone: the acknowledgement and the releases.

use crate::{Config, Redirector};
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use messages::{Ack, GROUP, Released, SessionLimits, ToServer, Upstream, Welcome};
use types::{GoodbyeReason, Horizon, PageId, Rule, Time, Vector};

#[derive(Debug, Default)]
pub(crate) struct StoreSession {
    /// How far it is, and what is known of the store. If there is none any more: why.
    pub(crate) up: Upstream<String>,
    /// The store's identity, as it has said.
    store: Option<Welcome>,
    /// The count that the store has been told the group has applied.
    acked: Vector,
    released: Vec<PageId>,
    down_since: Time,
}

impl StoreSession {
    pub(crate) fn is_live(&self) -> bool {
        self.up.is_live()
    }

    /// The redirector has learned of every change through here to what its group holds.
    pub(crate) fn horizon(&self) -> Horizon<'_> {
        self.up.horizon()
    }

    /// The facts about the store that members are told.
    ///
    /// # Panics
    /// Before the store has said who it is.
    pub(crate) fn store(&self) -> &Welcome {
        self.store.as_ref().expect("members are welcome when the store is reached")
    }

    /// Since when the store is not reached, or nobody was.
    pub(crate) fn down_since(&self) -> Time {
        self.down_since
    }

    /// Releases may have waited for a grant, which has come.
    pub(crate) fn releases_may_go(&mut self, now: Time) {
        if !self.released.is_empty() {
            self.up.piggyback_by(now);
        }
    }

    /// The greeting of a member that is welcome.
    pub(crate) fn welcome(&self, config: &Config) -> Welcome {
        let store = self.store();
        Welcome {
            features: GROUP,
            cluster: store.cluster,
            node: store.node,
            incarnation: store.incarnation,
            lineage: store.lineage.clone(),
            sharding: store.sharding,
            through: self.horizon().counts.clone(),
            limits: SessionLimits {
                fetches: config.limits.fetches_per_session as u32,
                commits: config.limits.commits_per_session as u32,
                silence_ms: u32::try_from(config.silence.as_millis()).unwrap_or(u32::MAX),
            },
        }
    }

    /// Everything through `through` has been heard.
    pub(crate) fn heard_through(&mut self, through: &Vector) {
        self.up.heard_through(through);
    }

    /// The group holds the page no longer: the store is told soon.
    pub(crate) fn release(&mut self, now: Time, page: PageId) {
        if self.is_live() {
            self.released.push(page);
            self.up.piggyback_by(now);
        }
    }

    /// The group has applied everything through `least`. If that is more than the store knows, it is told soon.
    fn acknowledge(&mut self, now: Time, least: &Vector) {
        if self.is_live() && !self.acked.reaches(least) {
            self.up.piggyback_by(now);
        }
    }

    /// The link is gone.
    fn link_is_gone(&mut self, now: Time) {
        if self.is_live() || self.down_since == Time::ZERO {
            self.down_since = now;
        }
        self.up.close();
        self.released.clear();
    }

    /// The store welcomes us.
    pub(crate) fn welcomed(&mut self, welcome: Welcome) {
        self.up.welcomed(&welcome);
        self.store = Some(welcome);
    }

    /// From now on it counts how long nobody can be a member who wants to.
    pub(crate) fn wait_from(&mut self, now: Time) {
        self.down_since = now;
    }
}

impl Redirector {
    /// Sends a message to the store, after the acknowledgement and the releases that are due.
    pub(crate) fn send_to_store(&mut self, now: Time, message: impl Into<ToServer>) {
        self.piggyback();
        self.upstream.up.sent(now);
        self.out.upstream(message);
    }

    /// Sends the acknowledgement and the releases alone, if no other message has gone out for this long.
    pub(crate) fn send_due(&mut self, now: Time) {
        if self.upstream.up.piggyback_is_due(now) {
            self.piggyback();
            self.upstream.up.sent(now);
        }
    }

    fn piggyback(&mut self) {
        if !self.upstream.up.piggyback() {
            return;
        }
        let least = self.least_acked();
        if self.upstream.acked.join(&least) {
            self.lease.prune(&least);
            self.out.upstream(Ack { through: least });
        }
        if self.grants.is_asked() && !self.config.broken.is(Rule::KeepGranted) {
            return;
        }
        let mut released = mem::take(&mut self.upstream.released);
        released.retain(|&page| self.is_unheld(page));
        for &page in &released {
            self.lease.forget(page, |txn| self.commits.is_on_its_way(txn));
        }
        for pages in released.chunks(self.config.limits.pages_per_message) {
            self.out.upstream(Released { pages: pages.to_vec() });
        }
    }

    /// The least counts that all members have applied, or without a member the redirector's horizon.
    fn least_acked(&self) -> Vector {
        let horizon = self.upstream.horizon().counts;
        self.members.least_acked().map_or_else(|| horizon.clone(), |least| least.met(horizon))
    }

    /// The group may have applied more than the store knows.
    pub(crate) fn acknowledge(&mut self, now: Time) {
        self.upstream.acknowledge(now, &self.least_acked());
    }

    pub(crate) fn hang_up(&mut self, now: Time, reason: GoodbyeReason, text: String) {
        self.upstream_is_down(now);
        self.out.hang_up(reason, text);
    }

    /// The link is gone, and with it every answer that was on its way.
    pub(crate) fn upstream_is_down(&mut self, now: Time) {
        self.upstream.link_is_gone(now);
        self.fetches.link_is_gone();
        self.commits.link_is_gone();
        self.grants.link_is_gone();
        self.revalidations.link_is_gone(self.config.broken);
        self.lease.link_is_gone();
    }

    /// Whether members are welcome.
    pub(crate) fn is_open(&self) -> bool {
        self.upstream.is_live() && self.leadership.is_open()
    }

    /// Tells the store, if it is reached, of the claim, or that we still lead.
    pub(crate) fn tell_claim(&mut self, now: Time) {
        if let Some(request) = self.leadership.request().filter(|_| self.upstream.is_live()) {
            self.send_to_store(now, request);
        }
    }

    /// When the members should be sent away, if the store is not reached until then.
    pub(crate) fn cut_off_at(&self) -> Option<Time> {
        let waits = !self.members.is_empty() && !self.is_open();
        waits.then_some(self.upstream.down_since() + self.config.silence)
    }
}
