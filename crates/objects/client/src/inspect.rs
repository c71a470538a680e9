//! The view that checkers have of a client. No other code uses it.

use crate::Client;
use cache::Cache;
use messages::At;
use types::{Horizon, Life, PageId};

impl Client {
    /// The cache, for checkers.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The counts through which the client has learned of every change to what it holds, for checkers.
    pub fn horizon(&self) -> Horizon<'_> {
        self.nodes.horizon()
    }

    /// The latest life of the store that the client knows of, for checkers.
    pub fn life(&self) -> Option<Life> {
        self.nodes[At::HOME].session.up.life()
    }

    /// The pages that the client was granted and would create objects in next, for checkers.
    pub fn unused_grants(&self) -> impl Iterator<Item = PageId> {
        self.allocator.unused()
    }

    /// Whether the client's sessions are resumed, for checkers: from then on the store knows what the client holds.
    pub fn is_live(&self) -> bool {
        self.nodes.all().all(|at| self.nodes[at].session.is_live())
    }
}
