//! A watcher's session with one node of its store, and the lease that it has there.

use messages::{Leased, Upstream};
use std::time::Duration;
use types::Time;
use types::limits::LEASE_DRIFT_PERMILLE;

/// How often a node that gives no lease is asked for one.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The session with a node, and the lease there.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) up: Upstream<String>,
    pub(crate) lease: Lease,
}

impl Node {
    /// The session with another node of the same store.
    pub(crate) fn beside(&self) -> Self {
        Self { up: self.up.beside(), lease: Lease::default() }
    }

    /// The session is over. The lease continues: the node waits for it.
    pub(crate) fn close(&mut self) {
        self.up.close();
        (self.lease.asked, self.lease.ask_at) = (None, None);
        (self.lease.is_given, self.lease.is_refused, self.lease.is_of_session) = (false, false, false);
    }

    /// Whether the node tells of each commit now: it gave a lease in this session, which lasts.
    pub(crate) fn is_leased(&self, now: Time) -> bool {
        self.up.is_live() && self.lease.is_of_session && now < self.lease.until
    }

    /// When the next ping is due.
    pub(crate) fn due(&self) -> Option<Time> {
        self.lease.ask_at.filter(|_| self.up.is_live())
    }
}

/// The lease at a node.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    pub(crate) until: Time,
    /// The last ping in this session, and whether a lease has come for it.
    asked: Option<(u64, Time)>,
    is_given: bool,
    /// None has come for the one before.
    pub(crate) is_refused: bool,
    /// One was given in this session. Before that the node told what is prepared there.
    is_of_session: bool,
    last_nonce: u64,
    ask_at: Option<Time>,
    pub(crate) spaces: Vec<u32>,
}

impl Lease {
    /// Asks for a lease, or for more of it. Returns the nonce of the ping.
    pub(crate) fn ask(&mut self, now: Time) -> u64 {
        self.is_refused = self.asked.is_some() && !self.is_given;
        self.last_nonce += 1;
        (self.asked, self.is_given, self.ask_at) = (Some((self.last_nonce, now)), false, None);
        self.last_nonce
    }

    /// A lease has come. Returns whether it is the answer to the last ping.
    pub(crate) fn is_given(&mut self, leased: Leased) -> bool {
        let is_answer = |&(nonce, _): &(u64, Time)| nonce == leased.nonce;
        let Some((_, asked)) = self.asked.filter(is_answer) else { return false };
        let length = Duration::from_millis(leased.lease_ms.into());
        let until = asked + length * 1000 / (1000 + LEASE_DRIFT_PERMILLE);
        self.until = self.until.max(until);
        (self.is_given, self.is_of_session, self.is_refused, self.spaces) = (true, true, false, leased.spaces);
        self.ask_at = Some(asked + length / 3);
        true
    }

    /// The node has answered a ping, and says what lease it gives, if any: the answer may pass that on a slow line.
    pub(crate) fn answered(&mut self, nonce: u64) {
        if let Some((_, asked)) = self.asked.filter(|(asked, _)| *asked == nonce) {
            self.ask_at.get_or_insert(asked + ASK_EVERY);
        }
    }
}
