//! Pages that nobody waits for yet: they leave as the line has room for them.
//!
//! ```text
//!   named behind the first page of a fetch --+           +--in memory------+
//!                                            +--> queue -+                 +--> sent
//!   follows a page that was fetched ---------+           +--read from home-+
//! ```
//! 1. What is prefetched takes a slow line seconds, and whatever is said after it keeps its place behind it. So no more than
//!    about a quantum of it is read or stands in the line's queue at a time (`Limits::ahead_bytes`). The rest waits until
//!    the driver says that what was said has left: what is said until then goes before it.
//! 2. A page leaves as it is by then, behind the notices of what has changed. The session is listed for it from then on;
//!    for one that follows another, from when it was announced.
//! 3. Fetches take turns, by bytes: what a scan is about to read does not hold up the neighbours of a small page, for which
//!    somebody may be waiting by then.
//! 4. Pages that somebody waits for do not hold it up for good: after some quanta of them one leaves all the same.

use crate::images::Waiter;
use crate::{SessionId, Store};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use types::{ObjectPage, PageId};

/// How many times as much may leave of pages that somebody waits for before one leaves that nobody does.
const PASSED_BY: usize = 4;

/// A page that nobody waits for yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    pub(crate) page: PageId,
    /// The fetch that it answers.
    pub(crate) number: u64,
    /// It follows another page: the session is listed for it.
    pub(crate) follows: bool,
    /// A bound of its size when it was asked for.
    pub(crate) bytes: usize,
}

/// The pages that are to be sent ahead to one session.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// By fetch: what has left of it, in bytes, from where the queue was when it came on; and how many came before it.
    fetches: BTreeMap<(u64, u64), VecDeque<Ahead>>,
    /// Where the fetch was of which a page left last.
    at: u64,
    came: u64,
    /// How many pages are still to be sent that follow others.
    following: usize,
    /// What is being read of them, in bytes.
    reading: usize,
    /// What was sent of them since the line had room last, in bytes.
    sent: usize,
    /// What was sent since one of them left last of pages that somebody waits for, in bytes.
    passed_by: usize,
    awaits_room: bool,
}

impl Queue {
    /// Takes what one fetch leads to.
    fn push(&mut self, pages: VecDeque<Ahead>) {
        if !pages.is_empty() {
            self.came += 1;
            self.following += pages.iter().filter(|ahead| ahead.follows).count();
            self.fetches.insert((self.at, self.came), pages);
        }
    }

    /// The next page that may leave now, if so many bytes may be under way.
    fn next(&mut self, most: usize) -> Option<Ahead> {
        if self.reading + self.sent >= most && self.passed_by < PASSED_BY * most {
            return None;
        }
        let ((at, came), mut pages) = self.fetches.pop_first()?;
        let next = pages.pop_front().expect("a fetch is here as long as some of it is");
        if !pages.is_empty() {
            self.fetches.insert((at + next.bytes as u64, came), pages);
        }
        (self.at, self.passed_by) = (at, 0);
        Some(next)
    }

    /// A page leaves.
    fn send(&mut self, ahead: Ahead) {
        self.sent += ahead.bytes;
        // Like what is being read, it may be an earlier session's.
        self.following = self.following.saturating_sub(ahead.follows.into());
    }

    /// How many pages are still to be sent that follow others.
    pub(crate) fn following(&self) -> usize {
        self.following
    }

    /// Whether the driver is to say when there is room: once, and only if that is what is waited for.
    fn wants_room(&mut self) -> bool {
        let wants = !self.fetches.is_empty() && self.sent > 0;
        wants && !core::mem::replace(&mut self.awaits_room, true)
    }

    /// A page of so many bytes leaves that somebody waits for.
    pub(crate) fn pass(&mut self, bytes: usize) {
        self.passed_by = if self.fetches.is_empty() { 0 } else { self.passed_by + bytes };
    }
}

impl Store {
    /// Pages that one fetch leads to are to be sent, and nobody waits for them yet.
    pub(crate) fn send_ahead(&mut self, session: SessionId, pages: impl Into<VecDeque<Ahead>>) {
        if let Some(queue) = self.sessions.ahead(session) {
            queue.push(pages.into());
            self.send_queued(session);
        }
    }

    /// What was said on a session has left.
    pub fn has_room(&mut self, session: SessionId) {
        if let Some(queue) = self.sessions.ahead(session) {
            (queue.sent, queue.awaits_room) = (0, false);
            self.send_queued(session);
        }
    }

    /// A page that is to be sent ahead has been read.
    pub(crate) fn has_read_ahead(&mut self, session: SessionId, ahead: Ahead) {
        if let Some(queue) = self.sessions.ahead(session) {
            // An embedded client's next session has the same number: this may be of an earlier one.
            queue.reading = queue.reading.saturating_sub(ahead.bytes);
            if let Some(image) = self.master.image(ahead.page) {
                self.send_one_ahead(session, ahead, &image);
            }
            self.send_queued(session);
        }
    }

    /// Sends what may leave now, or has it read first.
    fn send_queued(&mut self, session: SessionId) {
        let (most, mut read) = (self.config.limits.ahead_bytes, Vec::new());
        while let Some(queue) = self.sessions.ahead(session)
            && let Some(ahead) = queue.next(most)
        {
            if let Some(image) = self.master.image(ahead.page) {
                self.send_one_ahead(session, ahead, &image);
            } else {
                queue.reading += ahead.bytes;
                read.push((ahead.page, Waiter::Ahead(session, ahead)));
            }
        }
        self.master.read(read, &mut self.out);
        if self.sessions.ahead(session).is_some_and(Queue::wants_room) {
            self.out.await_room(session);
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
