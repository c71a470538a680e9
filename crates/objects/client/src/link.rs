//! The link to the store: before any other message goes out on it, those have gone by which the store may forget, the
//! acknowledgement and the releases; and with it goes everything that was under way.

use crate::Client;
use machine::Goodbye;
use messages::{Ping, Released, ToServer};
use types::Time;

impl Client {
    /// Sends a message, after the acknowledgement and the releases that are due.
    pub(crate) fn send(&mut self, now: Time, message: impl Into<ToServer>) {
        self.piggyback();
        self.session.up.sent(now);
        self.out.send(message);
    }

    /// Sends the acknowledgement and the releases alone, if no other message has gone out for this long.
    pub(crate) fn send_due(&mut self, now: Time) {
        if self.session.up.piggyback_is_due(now) {
            self.piggyback();
            self.session.up.sent(now);
        }
    }

    fn piggyback(&mut self) {
        if !self.session.up.piggyback() {
            return;
        }
        if let Some(ack) = self.session.take_ack() {
            self.out.send(ack);
        }
        let pages_per_message = self.config.limits.pages_per_message;
        for pages in self.take_released().chunks(pages_per_message) {
            self.out.send(Released { pages: pages.to_vec() });
        }
        self.peers.say_arrived(pages_per_message, &mut self.out);
    }

    /// Asks for a heartbeat.
    pub(crate) fn ping(&mut self, now: Time) {
        self.session.up.pinged(now);
        self.send(now, Ping { nonce: now.0 });
    }

    /// A heartbeat of the store: a message, or some bytes of one, or room for what is on its way there.
    pub fn heard(&mut self, now: Time) {
        self.session.up.heard(now);
    }

    /// Returns the link up.
    pub(crate) fn hang_up(&mut self, why: Goodbye) {
        self.session_is_down();
        self.out.hang_up(why);
    }

    /// The link is gone, and with it every answer that was on its way.
    pub(crate) fn session_is_down(&mut self) {
        if self.session.up.is_up() {
            self.group.lose(self.id, self.peers.eligible());
        }
        self.session.up.close();
        for page in self.fetches.link_is_gone() {
            self.cache.pin(page, self.is_pinned(page));
        }
        self.peers.link_is_gone();
        self.allocator.link_is_gone();
        self.commits.link_is_gone();
    }
}
