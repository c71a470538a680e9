//! The answer to an operator: how far the store is, and how each of its sessions stands.

use crate::{SessionId, Store};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use protocol::Leader;
use types::{ClientId, Version};

/// How a store stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The count through which updates are applied: what the horizon of a cache can be at most.
    pub applied: Version,
    /// Changes after this count are known slot by slot; a client that has heard less pays with aborts.
    pub pruned: Version,
    /// Every session past hello, in the order in which they came.
    pub sessions: Vec<SessionStatus>,
    /// Refused commits since the start, by the reason's name.
    pub refusals: BTreeMap<&'static str, u64>,
}

/// How one session stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    /// The session.
    pub session: SessionId,
    /// The session's owner: a client, or a redirector.
    pub client: ClientId,
    /// The group that it leads.
    pub leads: Option<Leader>,
    /// For how many other clients it speaks.
    pub vouched: usize,
    /// The count that it has acknowledged; none before it has listed what it holds.
    pub acked: Option<Version>,
    /// Pages that it is listed for.
    pub pages: usize,
    /// Pages that it waits for.
    pub fetches: usize,
    /// Commit requests whose outcome it waits for.
    pub commits: usize,
    /// Notices that wait for its next batch.
    pub notices: usize,
}

impl Store {
    /// How the store stands.
    pub fn status(&self) -> Status {
        Status {
            applied: self.master.applied(),
            pruned: self.master.pruned(),
            sessions: self.sessions.all().into_iter().filter_map(|session| self.session_status(session)).collect(),
            refusals: self.refusals.clone(),
        }
    }

    fn session_status(&self, session: SessionId) -> Option<SessionStatus> {
        let state = self.sessions.state(session)?;
        Some(SessionStatus {
            session,
            client: state.client,
            leads: self.leaders.led_by(session),
            vouched: state.vouched,
            acked: state.acked,
            pages: self.master.pages_held(session),
            fetches: state.fetches,
            commits: state.commits,
            notices: self.notices.waiting(session),
        })
    }
}
