//! The messages to a session, and what goes before each.

use crate::Master;
use directory::Urgency;
use messages::ToClient;
use types::{Rule, SessionId};

impl Master {
    /// Sends an answer, and before it the invalidations that it depends on.
    pub fn reply(&mut self, session: SessionId, message: impl Into<ToClient>) {
        if self.sessions.client(session).is_none() {
            return;
        }
        self.flush_for_reply(session);
        self.out.send(session, message);
    }

    /// Sends what an answer to the session depends on.
    pub(crate) fn flush_for_reply(&mut self, session: SessionId) {
        if !self.config.broken.is(Rule::InvalidationsBeforeReply) {
            self.flush(session, Urgency::Worthwhile);
        }
    }

    /// Sends the session's invalidations.
    pub fn flush(&mut self, session: SessionId, urgency: Urgency) {
        let applied = self.pages.applied();
        let through = self.sessions.horizon(session, applied);
        for batch in self.invalidations.take(session, through, urgency) {
            self.out.send(session, batch);
        }
    }
}
