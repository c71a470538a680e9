//! Members that wait for grants. They take turns: a member that waits for much, in many spaces, is in the line
//! once, and behind the others again when it has been given something.

use alloc::collections::VecDeque;
use messages::Grant;
use types::{ClientId, Map, SessionId};

/// A member that waits for pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) session: SessionId,
    pub(crate) client: ClientId,
    pub(crate) grant: Grant,
}

/// Those that wait.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Each once, the one whose turn it is first.
    turns: VecDeque<SessionId>,
    /// The requests of each that waits, in its order.
    waiting: Map<SessionId, VecDeque<Waiter>>,
}

impl Line {
    /// For how many grants the session waits.
    pub(crate) fn len(&self, session: SessionId) -> usize {
        self.waiting.get(&session).map_or(0, VecDeque::len)
    }

    pub(crate) fn push(&mut self, waiter: Waiter) {
        let waits = self.waiting.entry(waiter.session).or_default();
        if waits.is_empty() {
            self.turns.push_back(waiter.session);
        }
        waits.push_back(waiter);
    }

    /// The next request of each that waits, in their turn.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = Waiter> + '_ {
        self.turns.iter().filter_map(|session| self.waiting.get(session)?.front().copied())
    }

    /// The session has got its next request.
    pub(crate) fn has_waited(&mut self, session: SessionId) {
        let Some(waits) = self.waiting.get_mut(&session) else { return };
        waits.pop_front();
        let has_more = !waits.is_empty();
        self.turns.retain(|other| *other != session);
        if has_more {
            self.turns.push_back(session);
        } else {
            self.waiting.remove(&session);
        }
    }

    /// The session is gone.
    pub(crate) fn forget(&mut self, session: SessionId) {
        if self.waiting.remove(&session).is_some() {
            self.turns.retain(|other| *other != session);
        }
    }
}
