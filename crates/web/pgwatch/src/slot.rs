//! How long a watcher answers for its slot, decided.
//!
//! A server that believes a watcher gone gives the slot to another one, and the first need not know: it may be cut off.
//! So the leases of the homes at its hub end within what it can prove.
//!
//! ```text
//!   the slot is got --ask--> the server says that it is ours --> the leases of homes end a lease after that was asked
//!                     ^                                     |
//!                     +-------------- three times a lease --+
//! ```
//! 1. The server is asked whether this watcher's own process has the slot. "Yes" is true of some moment after the
//!    question, so another watcher gets the slot later than that. A lease counts from the question
//!    (**LeaseFromProof**).
//! 2. A watcher that gets the slot confirms nothing for as long as a lease may continue that another one has given its
//!    hub by then, by a clock that may be faster (**OutlastLeases**).
//! 3. Unless the one before has said that they are over. Watchers leave words in the server's log, which the next one
//!    hears in its stream: one that gets the slot says so, before its hub gives any lease; one that is told to end
//!    gives none any more, continues to confirm, and says that it has ended when the last ones are over
//!    (**EndAfterLeases**), while it still has the slot. So if the last word before a watcher's own is of an end, no
//!    lease is out (**EndOfTheLast**). Of a watcher that died there is none; and a word that is behind what was
//!    confirmed since is not heard again.
//! 4. A watcher that has proved nothing for as long as a lease gives its connection up, and everything is marked: a hub
//!    elsewhere gives homes their leases without it.

use crate::rule::Rule;
use std::time::Duration;
use types::limits::LEASE_DRIFT_PERMILLE;
use types::{Broken, Time};

/// A word that a watcher leaves in the server's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// It has got the slot.
    Begun,
    /// All leases are over that its hub has given.
    Ended,
}

/// The questions of one connection that has got the slot.
#[derive(Debug)]
pub struct Slot {
    /// How long an answer stands.
    lease: Duration,
    /// The last question, if its answer is still to come.
    asked: Option<Time>,
    /// When the last question was asked that was answered, or when the slot was got.
    proved: Time,
    /// Before this nothing is confirmed.
    confirms_at: Time,
    /// When the last lease is over that the hub was given.
    leased_until: Time,
    /// It should end, and gives no lease any more.
    is_leaving: bool,
    /// The last word that was heard, before its own.
    last: Option<Word>,
    /// Its own was heard.
    has_begun: bool,
    broken: Broken<Rule>,
}

impl Slot {
    /// The slot was got at this time. Another watcher's hub may have given leases of `others`, which count from before.
    pub fn got(now: Time, lease: Duration, others: Duration, broken: Broken<Rule>) -> Self {
        let waits =
            if broken.is(Rule::OutlastLeases) { Duration::ZERO } else { others + others * LEASE_DRIFT_PERMILLE / 1000 };
        let (leased_until, is_leaving, last, has_begun) = (now, false, None, false);
        Self {
            lease,
            asked: None,
            proved: now,
            confirms_at: now + waits,
            leased_until,
            is_leaving,
            last,
            has_begun,
            broken,
        }
    }

    /// Whether the server should be asked: no question is under way.
    pub fn is_due(&self) -> bool {
        self.asked.is_none()
    }

    /// The server is about to be asked.
    pub fn ask(&mut self, now: Time) {
        self.asked = Some(now);
    }

    /// The server has answered that the slot is this watcher's. Gives when a hub's leases have to be over, if it may
    /// give any.
    pub fn proved(&mut self, now: Time) -> Option<Time> {
        let asked = self.asked.take().unwrap_or(self.proved);
        self.proved = if self.broken.is(Rule::LeaseFromProof) { now } else { asked };
        if self.is_leaving {
            return None;
        }
        self.leased_until = self.leased_until.max(self.proved + self.lease);
        Some(self.leased_until)
    }

    /// A word of a watcher has come in the stream: this one's own, or another one's. Returns whether it is known by
    /// that that no lease is out which it did not give itself.
    pub fn heard(&mut self, word: Word, is_own: bool) -> bool {
        if self.has_begun {
            return false;
        }
        if !is_own {
            let is_kept = word == Word::Begun && self.broken.is(Rule::EndOfTheLast);
            self.last = if is_kept { self.last } else { Some(word) };
            return false;
        }
        self.has_begun = true;
        let is_alone = self.last == Some(Word::Ended);
        if is_alone {
            self.confirms_at = Time::ZERO;
        }
        is_alone
    }

    /// The watcher should end: its hub gets no lease any more.
    pub fn leave(&mut self) {
        self.is_leaving = true;
    }

    /// When it may say that it has ended, if it should end.
    pub fn ends_at(&self) -> Option<Time> {
        let over = self.leased_until.max(self.confirms_at);
        let ends_at = if self.broken.is(Rule::EndAfterLeases) { Time::ZERO } else { over };
        self.is_leaving.then_some(ends_at)
    }

    /// Whether nothing was proved for this long that another watcher may have the slot.
    pub fn is_doubtful(&self, now: Time) -> bool {
        now >= self.proved + self.lease
    }

    /// When it may begin to confirm.
    pub fn confirms_at(&self) -> Time {
        self.confirms_at
    }
}
