//! How long a watcher answers for its slot, decided.
//!
//! A server that believes a watcher gone gives the slot to another one, and the first need not know: it may be cut off. So
//! the leases of the homes at its hub end within what it can prove.
//!
//! ```text
//!   the slot is got --ask--> the server says that it is ours --> the leases of homes end a lease after that was asked
//!                     ^                                     |
//!                     +-------------- three times a lease --+
//! ```
//! 1. The server is asked whether this watcher's own process has the slot. "Yes" is true of some moment after the question,
//!    so another watcher gets the slot later than that. A lease counts from the question (**LeaseFromProof**).
//! 2. A watcher that gets the slot confirms nothing for as long as a lease may go on that another one has given its hub by
//!    then, by a clock that may be faster (**OutlastLeases**).
//! 3. A watcher that has proved nothing for as long as a lease gives its connection up, and everything is marked: a hub
//!    elsewhere gives homes their leases without it.

use crate::rule::Rule;
use std::time::Duration;
use types::limits::LEASE_DRIFT_PERMILLE;
use types::{Broken, Time};

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
    broken: Broken<Rule>,
}

impl Slot {
    /// The slot was got at this time. Another watcher's hub may have given leases of `others`, which count from before.
    pub fn got(now: Time, lease: Duration, others: Duration, broken: Broken<Rule>) -> Self {
        let waits =
            if broken.is(Rule::OutlastLeases) { Duration::ZERO } else { others + others * LEASE_DRIFT_PERMILLE / 1000 };
        Self { lease, asked: None, proved: now, confirms_at: now + waits, broken }
    }

    /// Whether the server is to be asked: no question is under way.
    pub fn is_due(&self) -> bool {
        self.asked.is_none()
    }

    /// The server is about to be asked.
    pub fn ask(&mut self, now: Time) {
        self.asked = Some(now);
    }

    /// The server has answered that the slot is this watcher's. Gives when a hub's leases have to be over.
    pub fn proved(&mut self, now: Time) -> Time {
        let asked = self.asked.take().unwrap_or(self.proved);
        self.proved = if self.broken.is(Rule::LeaseFromProof) { now } else { asked };
        self.proved + self.lease
    }

    /// Whether nothing was proved for so long that another watcher may have the slot.
    pub fn is_doubtful(&self, now: Time) -> bool {
        now >= self.proved + self.lease
    }

    /// When it may begin to confirm.
    pub fn confirms_at(&self) -> Time {
        self.confirms_at
    }
}
