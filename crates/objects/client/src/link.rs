//! The links to the nodes of the store. The messages by which a node may forget, the acknowledgement and the releases,
//! leave before any other. A lost link takes with it everything that was under way.

use crate::Client;
use crate::nodes::Node;
use machine::{Goodbye, UpstreamId};
use messages::{At, Outcome, Ping, Released, ToServer};
use types::Time;

impl Client {
    /// Sends a message to a node, after the acknowledgement and the releases that are due.
    pub(crate) fn send(&mut self, now: Time, at: At, message: impl Into<ToServer>) {
        self.piggyback(at);
        let node = &mut self.nodes[at];
        node.session.up.sent(now);
        self.out.send(node.upstream, message);
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
        let Node { session, .. } = self.nodes.parts(at).0;
        if !session.up.piggyback() {
            return;
        }
        if let Some(ack) = session.take_ack() {
            self.out.send(upstream, ack);
        }
        let pages_per_message = self.config.limits.pages_per_message;
        for pages in self.take_released(at).chunks(pages_per_message) {
            self.out.send(upstream, Released { pages: pages.to_vec() });
        }
        if at == At::HOME {
            self.peers.say_arrived(pages_per_message, &mut self.out);
        }
    }

    /// Asks for a heartbeat.
    pub(crate) fn ping(&mut self, now: Time, at: At) {
        self.nodes[at].session.up.pinged(now);
        self.send(now, at, Ping { nonce: now.0 });
    }

    /// A heartbeat of a node: a message, or some bytes of one, or room for what is on its way there.
    pub fn heard(&mut self, now: Time, upstream: UpstreamId) {
        if let Some(at) = self.nodes.find(upstream) {
            self.nodes[at].session.up.heard(now);
        }
    }

    /// Returns the link up.
    pub(crate) fn hang_up(&mut self, at: At, why: Goodbye) {
        self.session_is_down(at);
        self.out.hang_up(self.nodes[at].upstream, why);
    }

    /// The link is gone, and with it every answer that was on its way.
    pub(crate) fn session_is_down(&mut self, at: At) {
        if at == At::HOME {
            if self.nodes[at].session.up.is_up() {
                self.group.lose(self.id, self.peers.eligible());
            }
            self.peers.link_is_gone();
        }
        self.nodes[at].session.up.close();
        self.nodes[at].session.asked = 0;
        for page in self.nodes[at].fetches.link_is_gone() {
            self.cache.pin(page, self.is_pinned(page));
        }
        self.allocator.link_is_gone(at);
        self.commits.link_is_gone(at);
        self.refuse_idle();
        #[cfg(feature = "mutants")]
        self.move_commits();
    }

    /// A node of several is away or is reached again: what need not wait for its coordinator is refused, if a node is
    /// reached that can take the next try.
    pub(crate) fn refuse_idle(&mut self) {
        if !self.nodes.are_several() || self.nodes.live().next().is_none() {
            return;
        }
        for (txn, taken) in self.commits.take_idle(|at| self.nodes[at].session.is_live()) {
            self.stats.refused += 1;
            self.allocator.give_back(&taken, &mut self.cache);
            if let Some(txn) = txn {
                self.txns.decide(txn, Ok(Outcome::NO_EFFECT), &mut self.out);
            }
        }
    }
}
