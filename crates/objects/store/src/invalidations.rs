//! The messages to a session, and what goes before each.

use crate::{Position, SessionId, Store};
use directory::Urgency;
use messages::ToClient;
use types::Rule;

impl Store {
    /// Sends an answer, and before it the invalidations that it depends on.
    pub(crate) fn reply(&mut self, session: SessionId, message: impl Into<ToClient>, after: Option<Position>) {
        if self.sessions.client(session).is_none() {
            return;
        }
        if !self.config.broken.is(Rule::InvalidationsBeforeReply) {
            self.flush(session, Urgency::Worthwhile);
        }
        self.out.send_after(session, message, after);
    }

    /// Sends the session's invalidations.
    pub(crate) fn flush(&mut self, session: SessionId, urgency: Urgency) {
        let applied = self.master.through();
        let through = self.sessions.horizon(session, &applied);
        for batch in self.invalidations.take(session, through, urgency) {
            self.out.send(session, batch);
        }
    }
}
