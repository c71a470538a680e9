//! Pages that no request waits for yet: they leave as the line has room for them.
//!
//! ```text
//!   named behind the first page of a fetch --+           +--in memory------+
//!                                            +--> queue -+                 +--> sent
//!   follows a page that was fetched ---------+           +--read from home-+
//! ```
//! 1. A prefetch takes a slow line seconds, and every message after it keeps its place behind it. So no more than about
//!    a quantum of it is read or is in the line's queue at a time (`Limits::ahead_bytes`). The rest waits until the
//!    driver says that the messages before it have left: messages until then go before it.
//! 2. A page leaves as it is by then, behind the invalidations of what has changed. The session is listed for it from
//!    then on; for one that follows another, from when it was announced.

use crate::Master;
use crate::images::Waiter;
use crate::outputs::Output;
use crate::queue::{Ahead, Queue};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use types::{ObjectPage, SessionId};

impl Master {
    /// Pages that one fetch leads to should be sent, and no request waits for them yet.
    pub(crate) fn send_ahead(&mut self, session: SessionId, pages: impl Into<VecDeque<Ahead>>) {
        if let Some(queue) = self.sessions.ahead(session) {
            queue.push(pages.into());
            self.send_queued(session);
        }
    }

    /// The messages on a session have left.
    pub fn has_room(&mut self, session: SessionId) {
        if let Some(queue) = self.sessions.ahead(session) {
            queue.has_left();
            self.send_queued(session);
        }
    }

    /// A page that should be sent ahead has been read.
    pub(crate) fn has_read_ahead(&mut self, session: SessionId, ahead: Ahead) {
        if let Some(queue) = self.sessions.ahead(session) {
            queue.end_reading(ahead);
            if let Some(image) = self.pages.image(ahead.page) {
                self.send_one_ahead(session, ahead, &image);
            }
            self.send_queued(session);
        }
    }

    /// Sends what may leave now, or has it read first.
    pub(crate) fn send_queued(&mut self, session: SessionId) {
        let (most, mut read) = (self.config.limits.ahead_bytes, Vec::new());
        while let Some(queue) = self.sessions.ahead(session)
            && let Some(ahead) = queue.next(most)
        {
            if let Some(image) = self.pages.image(ahead.page) {
                self.send_one_ahead(session, ahead, &image);
            } else {
                queue.begin_reading(ahead);
                read.push((ahead.page, Waiter::Ahead(session, ahead)));
            }
        }
        self.pages.read(read, &mut self.out);
        if self.sessions.ahead(session).is_some_and(Queue::wants_room) {
            self.out.push(Output::AwaitRoom(session));
        }
    }

    fn send_one_ahead(&mut self, session: SessionId, ahead: Ahead, image: &ObjectPage) {
        if let Some(queue) = self.sessions.ahead(session) {
            queue.send(ahead);
        }
        if !ahead.follows {
            self.list_named(session, ahead.page);
        }
        self.send_page(session, ahead.number, ahead.page, image, Vec::new());
    }
}
