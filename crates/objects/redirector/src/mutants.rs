//! Rules that take code to break, and not only code that is left out: for tests of the checkers.

use crate::Redirector;
use messages::{CommitRequest, Invalidation};
use types::{Rule, SessionId, Time, Version};

impl Redirector {
    /// Passes on the changes of a transaction before it is known whether it commits, without [`Rule::UpdateOnCommit`].
    pub(crate) fn tell_early(&mut self, now: Time, from: SessionId, request: &CommitRequest) {
        if !self.config.broken.is(Rule::UpdateOnCommit) {
            return;
        }
        for delta in &request.writes {
            let version = self.nodes.horizon().of(delta.page).next();
            let data = Some(delta.changes.clone());
            let (page, slots, txn) = (delta.page, delta.slots(), request.txn);
            self.tell(now, &Invalidation { page, prev: Version::ZERO, version, slots, txn, data }, Some(from));
        }
    }
}
