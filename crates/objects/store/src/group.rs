//! A group's session: one for all members of a redirector, which asks on it for each client that it vouches for.
//!
//! Only a session that said so in its hello is a group's. On any other one a group's messages are a fault.

use crate::{SessionId, Store};
use machine::Goodbye;
use messages::Departed;
use types::Time;

impl Store {
    /// Whether a message that only a redirector sends has come from one.
    pub(crate) fn check_group(&self, from: SessionId) -> Result<(), Goodbye> {
        if self.sessions.is_group(from) {
            return Ok(());
        }
        Err(Goodbye::malformed("expected this only on a session whose hello says that it is a group's".into()))
    }

    /// A member has left its group for good. If nobody else speaks for it, its grace begins.
    pub(crate) fn departed(&mut self, now: Time, from: SessionId, departed: Departed) -> Result<(), Goodbye> {
        self.check_group(from)?;
        self.sessions.departed(now, from, departed.client);
        self.forget_clients(now);
        Ok(())
    }
}
