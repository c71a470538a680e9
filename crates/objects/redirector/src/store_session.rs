//! The session with a node of the store: one for the whole group. How it begins, continues and ends is in `session`.
//!
//! 1. The horizon moves only in `Live`, and with everything that the store says: its answers come after the
//!    invalidations that they depend on, so a page or a commit of version `v` shows that all before `v` has been told.
//! 2. A request made while the session is not live waits for it, and goes out when it is.
//! 3. Before any other message goes out, what the store may forget has gone: the acknowledgement and the releases.

use crate::Redirector;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use messages::{Ack, At, CommitReply, Outcome, Released, ToServer, Upstream, Welcome};
use types::{GoodbyeReason, PageId, Rule, Time, Vector};

#[derive(Debug, Default)]
pub(crate) struct StoreSession {
    /// The course of the session, and the facts known about the node. If it is over: why.
    pub(crate) up: Upstream<String>,
    /// The node's identity, as it has said.
    store: Option<Welcome>,
    /// The counts that the node has been told the group has applied.
    acked: Vector,
    released: Vec<PageId>,
}

impl StoreSession {
    /// The session with another node of the same store.
    pub(crate) fn beside(&self) -> Self {
        Self { up: self.up.beside(), ..Self::default() }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.up.is_live()
    }

    /// The facts about the store that the node has told.
    ///
    /// # Panics
    /// Before it has.
    pub(crate) fn store(&self) -> &Welcome {
        self.store.as_ref().expect("members are welcome when a node is reached")
    }

    /// The store is another than the one that was known.
    pub(crate) fn begin_anew(&mut self) {
        let mut up = mem::take(&mut self.up);
        up.forget_store();
        *self = Self { up, ..Self::default() };
    }

    /// Releases may have waited for a grant, which has come.
    pub(crate) fn releases_may_go(&mut self, now: Time) {
        if !self.released.is_empty() {
            self.up.piggyback_by(now);
        }
    }

    /// The group holds the page no longer: the node is told soon.
    pub(crate) fn release(&mut self, now: Time, page: PageId) {
        if self.is_live() {
            self.released.push(page);
            self.up.piggyback_by(now);
        }
    }

    /// The members have applied these counts, which the node is told soon.
    fn acknowledge(&mut self, now: Time, least: &Vector) {
        if self.is_live() && !self.acked.reaches(least) {
            self.up.acknowledge_by(now);
        }
    }

    /// The link is gone.
    pub(crate) fn link_is_gone(&mut self) {
        self.up.close();
        self.released.clear();
    }

    /// The node welcomes us.
    pub(crate) fn welcomed(&mut self, welcome: Welcome) {
        self.up.welcomed(&welcome);
        self.store = Some(welcome);
    }
}

impl Redirector {
    /// Sends a message to a node, after the acknowledgement and the releases that are due.
    pub(crate) fn send_to(&mut self, now: Time, at: At, message: impl Into<ToServer>) {
        self.piggyback(at);
        self.nodes[at].session.up.sent(now);
        self.out.upstream(self.nodes[at].upstream, message);
    }

    /// Sends the acknowledgement and the releases alone, if no other message has gone out for this long.
    pub(crate) fn send_due(&mut self, now: Time, at: At) {
        if self.nodes[at].session.up.piggyback_is_due(now) {
            self.piggyback(at);
            self.nodes[at].session.up.sent(now);
        }
    }

    fn piggyback(&mut self, at: At) {
        let upstream = self.nodes[at].upstream;
        if !self.nodes[at].session.up.piggyback() {
            return;
        }
        let least = self.nodes.places().own(at, &self.least_acked());
        let node = &mut self.nodes[at];
        if node.session.acked.join(&least) {
            node.lease.prune(&least);
            self.out.upstream(upstream, Ack { through: least });
        }
        if self.grants.is_asked(at) && !self.config.broken.is(Rule::KeepGranted) {
            return;
        }
        let mut released = mem::take(&mut self.nodes[at].session.released);
        released.retain(|&page| self.is_unheld(page));
        for &page in &released {
            self.nodes[at].lease.forget(page, |txn| self.commits.is_on_its_way(txn));
        }
        for pages in released.chunks(self.config.limits.pages_per_message) {
            self.out.upstream(upstream, Released { pages: pages.to_vec() });
        }
    }

    /// The least counts that all members have applied, or without a member the redirector's horizon.
    fn least_acked(&self) -> Vector {
        let horizon = self.nodes.horizon().counts;
        self.members.least_acked().map_or_else(|| horizon.clone(), |least| least.met(horizon))
    }

    /// The group may have applied more than the nodes know.
    pub(crate) fn acknowledge(&mut self, now: Time) {
        let least = self.least_acked();
        for at in self.nodes.all() {
            let (node, places) = self.nodes.parts(at);
            if places.are_known() {
                node.session.acknowledge(now, &places.own(at, &least));
            } else {
                node.session.acknowledge(now, &least);
            }
        }
    }

    pub(crate) fn hang_up(&mut self, now: Time, at: At, reason: GoodbyeReason, text: String) {
        let upstream = self.nodes[at].upstream;
        self.upstream_is_down(now, at);
        self.out.hang_up(upstream, reason, text);
    }

    /// The link to a node is gone, and with it every answer that was on its way.
    pub(crate) fn upstream_is_down(&mut self, now: Time, at: At) {
        self.nodes.link_is_gone(now, at);
        let places = self.nodes.places();
        self.commits.link_is_gone(at);
        self.grants.link_is_gone(at, |page| places.of(page) == at);
        self.revalidations.link_is_gone(at, self.config.broken);
        if self.nodes.choose_coordinator() {
            self.welcome_again();
        }
        self.refuse_idle();
    }

    /// Whether a transaction without writes waits for the node that coordinates it: not while that is away and another
    /// is reached, where its member can try again.
    pub(crate) fn is_awaited(&self, coordinator: At) -> bool {
        self.nodes[coordinator].session.is_live() || !self.nodes.is_reached()
    }

    /// A node is away or is reached again: transactions without writes that need not wait are refused.
    pub(crate) fn refuse_idle(&mut self) {
        for txn in self.commits.idle(|at| !self.is_awaited(at)) {
            let member = self.commits.refuse(txn, &mut self.nodes);
            if let Some(member) = member.filter(|member| self.members.client(*member).is_some()) {
                self.reply(member, CommitReply { txn, outcome: Outcome::NO_EFFECT });
            }
        }
    }

    /// The store is reached in another life: members learn that before any message of that life.
    pub(crate) fn welcome_again(&mut self) {
        for session in self.members.all() {
            if self.members.is_welcome(session) {
                self.out.send(session, self.nodes.welcome(&self.config));
            }
        }
    }

    /// Tells the node that decides who leads of the claim, or that we lead.
    pub(crate) fn tell_arbiter(&mut self, now: Time) {
        if let Some(at) = self.nodes.arbiter() {
            self.tell_claim(now, at);
        }
    }

    /// Tells a node of the claim, or that we lead.
    pub(crate) fn tell_claim(&mut self, now: Time, at: At) {
        if let Some(request) = self.leadership.request() {
            self.send_to(now, at, request);
        }
    }

    /// Whether members are welcome.
    pub(crate) fn is_open(&self) -> bool {
        self.nodes.is_reached() && self.leadership.is_open()
    }

    /// When the members should be sent away, if no node is reached until then.
    pub(crate) fn cut_off_at(&self) -> Option<Time> {
        let waits = !self.members.is_empty() && !self.is_open();
        waits.then_some(self.nodes.down_since() + self.config.silence)
    }
}
