//! The counts that a member can have learned of.
//!
//! 1. The store names a count only when it has applied all through there. So the highest of each shard that it has
//!    named to us is one that it will never take for made up.
//! 2. A member that has joined has learned of no higher one: its knowledge when it came was compared with the store,
//!    which told us of everything that it had applied before it answered; and everything that it has heard since has
//!    come by us.
//! 3. A higher one is made up. The store would end the session that names it, or wait for it for ever.

use crate::store_session::StoreSession;
use alloc::format;
use machine::Goodbye;
use messages::CommitRequest;
use types::{GoodbyeReason, Vector};

impl StoreSession {
    /// Refuses to continue with a member that has learned of counts which the store has not named.
    pub(crate) fn check_named(&self, counts: &Vector, what: &str) -> Result<(), Goodbye> {
        let named = self.up.named();
        if !named.reaches(counts) {
            return Err(Goodbye::malformed(format!("expected counts up to {named} in {what}, got {counts}")));
        }
        Ok(())
    }

    /// The same for a resumption. The member need not have made that up: a store's directory may have been restored
    /// from a copy, and the member may not have learned of that yet.
    pub(crate) fn check_brought(&self, counts: &Vector) -> Result<(), Goodbye> {
        self.check_named(counts, "a resumption")
            .map_err(|Goodbye { text, .. }| Goodbye { reason: GoodbyeReason::Done, text })
    }

    /// The same for a transaction's evidence.
    pub(crate) fn check_evidence(&self, request: &CommitRequest) -> Result<(), Goodbye> {
        let mut evidence = Vector::new();
        for reads in &request.reads {
            evidence.raise(self.up.sharding().of(reads.page), reads.newest());
        }
        self.check_named(&evidence, "a commit request")
    }
}
