//! Rules that take code to break, and not only code that is left out: for tests of the checkers.

use crate::Client;
use crate::workspace::Workspace;
use messages::{At, Invalidation};
use types::{Rule, TxnId};

impl Client {
    /// Has another node coordinate the requests of one that is away, without [`Rule::OneCoordinator`].
    pub(crate) fn move_commits(&mut self) {
        if self.config.broken.is(Rule::OneCoordinator) {
            self.commits.move_to(self.nodes.live().next().unwrap_or(At::HOME));
        }
    }

    /// Lets an aborted transaction's writes into the cache, without [`Rule::DropWorkspace`].
    pub(crate) fn leave_traces(&mut self, workspace: &Workspace) {
        if !self.config.broken.is(Rule::DropWorkspace) {
            return;
        }
        for touched in workspace.pages().iter().filter(|touched| touched.has_writes()) {
            let Some(frame) = self.cache.get(touched.page) else { continue };
            let (prev, version) = (frame.version(), frame.version());
            let slots = touched.writes().iter().map(|change| change.slot).collect();
            self.cache.puncture(touched.page, &slots);
            let txn = TxnId { client: self.id, number: 0 };
            let data = Some(touched.writes().to_vec());
            self.cache.apply(&Invalidation { page: touched.page, prev, version, slots, txn, data });
        }
    }
}
