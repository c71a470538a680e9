//! The counts that a member can have learned of.
//!
//! 1. The store names a count only when it has applied all through there. So the highest of each shard that it has
//!    named to us is one that it will never take for made up.
//! 2. A member that has joined has learned of no higher one: its knowledge when it came was compared with the store,
//!    which told us of everything that it had applied before it answered; and everything that it has heard since has
//!    come by us.
//! 3. The counts of a node that is away are *believed*, and compared when it is reached.
//! 4. A higher one is made up. The store would end the session that names it, or wait for it for ever.

use crate::Redirector;
use crate::nodes::Nodes;
use alloc::format;
use machine::Goodbye;
use messages::{At, CommitRequest};
use types::{GoodbyeReason, Shard, Time, Vector, Version};

impl Nodes {
    /// Refuses to continue with a member that has learned of counts which the store has not named.
    pub(crate) fn check_named(&self, counts: &Vector, believed: &Vector, what: &str) -> Result<(), Goodbye> {
        let named = self.named().joined(believed);
        if !named.reaches(counts) {
            return Err(Goodbye::malformed(format!("expected counts up to {named} in {what}, got {counts}")));
        }
        Ok(())
    }

    /// The same for a resumption. The member need not have made that up: a store's directory may have been restored
    /// from a copy, and the member may not have learned of that yet.
    pub(crate) fn check_brought(&self, counts: &Vector) -> Result<(), Goodbye> {
        self.check_named(counts, &Vector::new(), "a resumption")
            .map_err(|Goodbye { text, .. }| Goodbye { reason: GoodbyeReason::Done, text })
    }

    /// The same for a transaction's evidence.
    pub(crate) fn check_evidence(&self, request: &CommitRequest, believed: &Vector) -> Result<(), Goodbye> {
        let mut evidence = Vector::new();
        for reads in &request.reads {
            evidence.raise(self.sharding().of(reads.page), reads.newest());
        }
        self.check_named(&evidence, believed, "a commit request")
    }
}

impl Redirector {
    /// A node is reached: the counts of its shards that were believed are compared with what it has named.
    pub(crate) fn check_believed(&mut self, now: Time, at: At) {
        let named = self.nodes.named();
        for session in self.members.all() {
            let believed = self.members.believed(session);
            let own = self.nodes.places().own(at, &believed);
            if own == Vector::new() {
                continue;
            }
            if let Err(why) = self.nodes.check_brought(&own) {
                self.end(now, session, why);
            } else {
                let is_checked = |shard: Shard| named.of(shard) >= believed.of(shard) && own.of(shard) > Version::ZERO;
                let left = believed.counts().iter().copied().filter(|(shard, _)| !is_checked(*shard));
                self.members.believe(session, left.collect());
            }
        }
    }
}
