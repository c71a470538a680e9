//! The order in which pages are sent ahead to one session, and how many at a time (see `ahead`).
//!
//! 1. Fetches take turns, by bytes: what a scan is about to read does not hold up the pages beside a small one, for
//!    which somebody may be waiting by then.
//! 2. Pages that somebody waits for do not hold these up for good: after some quanta of them one leaves all the same.

use alloc::collections::{BTreeMap, VecDeque};
use types::PageId;

/// How many times as much may leave of pages that somebody waits for before one leaves that nobody does.
const PASSED_BY: usize = 4;

/// A page that no request waits for yet.
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

/// The pages that should be sent ahead to one session.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// By fetch: what has left of it, in bytes, from where the queue was when it came on; and how many came before it.
    fetches: BTreeMap<(u64, u64), VecDeque<Ahead>>,
    /// Where the fetch was of which a page left last.
    at: u64,
    came: u64,
    /// How many pages are still to be sent that follow others.
    following: usize,
    /// The bytes of them that are being read.
    reading: usize,
    /// The bytes of them that were sent since the line had room last.
    sent: usize,
    /// The bytes of pages that somebody waits for, sent since one of them left last.
    passed_by: usize,
    awaits_room: bool,
}

impl Queue {
    /// Takes the pages that one fetch leads to.
    pub(crate) fn push(&mut self, pages: VecDeque<Ahead>) {
        if !pages.is_empty() {
            self.came += 1;
            self.following += pages.iter().filter(|ahead| ahead.follows).count();
            self.fetches.insert((self.at, self.came), pages);
        }
    }

    /// The next page that may leave now, if so many bytes may be under way.
    pub(crate) fn next(&mut self, most: usize) -> Option<Ahead> {
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

    /// A page is read before it leaves.
    pub(crate) fn begin_reading(&mut self, ahead: Ahead) {
        self.reading += ahead.bytes;
    }

    /// It has been read.
    pub(crate) fn end_reading(&mut self, ahead: Ahead) {
        // An embedded client's next session has the same number: this may be of an earlier one.
        self.reading = self.reading.saturating_sub(ahead.bytes);
    }

    /// A page leaves.
    pub(crate) fn send(&mut self, ahead: Ahead) {
        self.sent += ahead.bytes;
        // Like what is being read, it may be an earlier session's.
        self.following = self.following.saturating_sub(ahead.follows.into());
    }

    /// How many pages are still to be sent that follow others.
    pub(crate) fn following(&self) -> usize {
        self.following
    }

    /// Whether the driver should say when there is room: once, and only if that is what is waited for.
    pub(crate) fn wants_room(&mut self) -> bool {
        let wants = !self.fetches.is_empty() && self.sent > 0;
        wants && !core::mem::replace(&mut self.awaits_room, true)
    }

    /// The messages that were sent have left the line.
    pub(crate) fn has_left(&mut self) {
        (self.sent, self.awaits_room) = (0, false);
    }

    /// A page of this many bytes leaves that somebody waits for.
    pub(crate) fn pass(&mut self, bytes: usize) {
        self.passed_by = if self.fetches.is_empty() { 0 } else { self.passed_by + bytes };
    }
}
