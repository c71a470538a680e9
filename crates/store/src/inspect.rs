//! What checkers look at. Nobody else needs to know.

use crate::{SessionId, Store};
use types::PageId;

impl Store {
    /// Whether the session is listed as a holder of the page, for checkers.
    pub fn lists(&self, session: SessionId, page: PageId) -> bool {
        self.master.holds(page, session)
    }

    /// Whether the session lives as far as the store is concerned, for checkers.
    pub fn believes_in(&self, session: SessionId) -> bool {
        self.sessions.client(session).is_some()
    }
}
