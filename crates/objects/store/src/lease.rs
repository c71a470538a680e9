//! The lease of a node: how long the other nodes of its store let it speak (**AnswerWithinLease**).
//!
//! ```text
//!   serving --extended--> serving --its end, by the clock of the first event behind it--> over, for good
//! ```
//! 1. Every event passes `Store::is_over` before a role learns of it. So nothing that comes behind the lease's end is
//!    answered, however long the process was stopped. From then on the machine says goodbye, and nothing else.
//! 2. The end of a lease ends all sessions and links by name. The node is started again from its directory: another
//!    sequencer may have given counts in the meantime, and another opening of its shards may have begun.
//! 3. Answers that were given before are true, however late they arrive.
//!
//! A store without other nodes has no lease, and speaks for ever.

use crate::Store;
use ::machine::Goodbye;
use types::{GoodbyeReason, Rule, Time};

/// How long the node may speak.
#[derive(Debug, Default)]
pub(crate) struct NodeLease {
    /// The end, if there is a lease.
    until: Option<Time>,
    is_over: bool,
}

impl Store {
    /// The node has a lease that ends at this time, by the clock of its events. A lease that is over is not extended.
    pub fn extend_lease(&mut self, now: Time, until: Time) {
        if !self.is_over(now) {
            self.lease.until = Some(until);
        }
    }

    /// The node has lost its lease before its time.
    pub fn end_lease(&mut self, now: Time) {
        self.lease.until = Some(now);
        self.is_over(now);
    }

    /// When the node's lease ends, if it has one.
    pub(crate) fn lease_ends(&self) -> Option<Time> {
        self.lease.until
    }

    /// Whether the lease was found over.
    pub(crate) fn has_ended(&self) -> bool {
        self.lease.is_over
    }

    /// Whether the node's lease is over: then it says nothing more. Its sessions and links end with the first event
    /// after that.
    pub(crate) fn is_over(&mut self, now: Time) -> bool {
        let has_ended = self.lease.until.is_some_and(|until| now >= until);
        if has_ended && !self.lease.is_over && !self.config.broken.is(Rule::AnswerWithinLease) {
            self.lease.is_over = true;
            for session in self.sessions.all() {
                self.out.end(session, over());
            }
            for (_, port) in self.links.all() {
                self.out.end_port(port, over());
            }
            self.out.silence();
        }
        self.lease.is_over
    }
}

/// The goodbye of a node whose lease is over.
pub(crate) fn over() -> Goodbye {
    let text = "the lease of this node of the store is over: it serves again when it has another".into();
    Goodbye { reason: GoodbyeReason::CutOff, text }
}
