//! How sessions end, and how long what is kept for clients is kept when they do not come back.

use crate::{SessionId, Store};
use alloc::format;
use alloc::vec::Vec;
use machine::Goodbye;
use types::{GoodbyeReason, Shard, Time, Version};

impl Store {
    /// Ends a session, telling the peer why.
    pub(crate) fn end(&mut self, now: Time, session: SessionId, why: Goodbye) {
        self.forget_session(now, session);
        self.out.end(session, why);
    }

    /// Nothing of the session stays but what its client may come back for.
    pub(crate) fn forget_session(&mut self, now: Time, session: SessionId) {
        self.sessions.disconnect(now, session);
        self.coordinator.disconnected(session);
        self.master.disconnected(session);
        self.leaders.session_ended(now + self.config.grace, session);
        self.forget_clients(now);
    }

    /// Ends the sessions that gave no heartbeat for too long. All are looked at, a few times in that time.
    pub(crate) fn end_silent(&mut self, now: Time) {
        if self.sweep.is_none_or(|sweep| now < sweep) {
            return;
        }
        let silence = self.config.silence;
        for session in self.sessions.silent_for(now, silence) {
            let text = format!("expected a heartbeat within {silence:?}");
            self.end(now, session, Goodbye { reason: GoodbyeReason::Silent, text });
        }
        self.sweep = (self.sessions.len() > 0).then_some(now + silence / 4);
    }

    /// Lets go of clients whose grace is over, and of those beyond the bound: asked wherever one may have gone.
    pub(crate) fn forget_clients(&mut self, now: Time) {
        while let Some(client) = self.sessions.pop_forgotten(now) {
            self.coordinator.forget(client);
            self.master.forget(client);
        }
    }

    /// Once everything is written back: ends all sessions, and says that the process may stop.
    pub(crate) fn finish_closing(&mut self, now: Time) {
        // The masters of other nodes would wait for its decisions until it is back.
        let is_awaited = self.config.has_peers() && !self.coordinator.is_idle();
        if !self.closing || self.closed || is_awaited || !self.is_written_back() {
            return;
        }
        self.closed = true;
        for session in self.sessions.all() {
            let text = "the store is closing down".into();
            self.end(now, session, Goodbye { reason: GoodbyeReason::Done, text });
        }
        self.out.closed();
    }

    /// The shards that are closed in order, and at which count: no log holds anything that they have not written back.
    pub fn closed_shards(&self) -> Vec<(Shard, Version)> {
        if self.closed && self.master.is_at_rest() { self.master.served() } else { Vec::new() }
    }
}
