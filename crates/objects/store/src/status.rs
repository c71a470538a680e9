//! The answer to an operator: how far the store is, and how each of its sessions stands.

use crate::{SessionId, Store};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use master::SessionState;
use messages::Leader;
use types::{ClientId, PageId, Vector};

/// How a store stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The counts through which updates are applied: what the horizon of a cache can be at most.
    pub applied: Vector,
    /// Changes after these counts are known slot by slot; a client that has heard less pays with aborts.
    pub pruned: Vector,
    /// Every session past hello, in the order in which they came.
    pub sessions: Vec<SessionStatus>,
    /// Refused commits since the start, by the reason's name.
    pub refusals: BTreeMap<&'static str, u64>,
    /// The pages that could not be read since the start, in order, and why.
    pub damaged: Vec<(PageId, String)>,
    /// Every space in which pages were granted, or that is leased, in the order of their numbers.
    pub spaces: Vec<SpaceStatus>,
}

/// How one space stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceStatus {
    /// Its number.
    pub space: u32,
    /// Pages that exist in it: those that were ever granted.
    pub pages: u32,
    /// Whether groups have leases on it.
    pub is_leased: bool,
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
    /// Whether it is a watcher's, for which commits of leased spaces wait.
    pub is_watcher: bool,
    /// For how many other clients it speaks.
    pub vouched: usize,
    /// The counts that it has acknowledged; none before it has listed what it holds.
    pub acked: Option<Vector>,
    /// Pages that it is listed for.
    pub pages: usize,
    /// Pages that it waits for.
    pub fetches: usize,
    /// Commit requests whose outcome it waits for.
    pub commits: usize,
    /// Notices that wait for its next batch.
    pub invalidations: usize,
}

impl Store {
    /// How the store stands.
    pub fn status(&self) -> Status {
        Status {
            applied: self.master.applied().clone(),
            pruned: self.master.pruned().clone(),
            sessions: self
                .sessions
                .all_but(self.own_client)
                .into_iter()
                .filter_map(|session| self.session_status(session))
                .collect(),
            refusals: self.refusals().clone(),
            damaged: self.master.damaged().map(|(page, why)| (page, String::from(why))).collect(),
            spaces: self.spaces().into_iter().map(|(space, pages)| self.space_status(space, pages)).collect(),
        }
    }

    /// Every space, and how many pages it has.
    fn spaces(&self) -> BTreeMap<u32, u32> {
        let leased = self.config.leased_spaces.iter().map(|&space| (space, 0));
        leased.chain(self.master.next_pages()).collect()
    }

    fn space_status(&self, space: u32, pages: u32) -> SpaceStatus {
        SpaceStatus { space, pages, is_leased: self.config.leased_spaces.contains(&space) }
    }

    fn session_status(&self, session: SessionId) -> Option<SessionStatus> {
        let client = self.sessions.client(session)?;
        let SessionState { acked, pages, fetches, invalidations } = self.master.session(session)?;
        Some(SessionStatus {
            session,
            client,
            leads: self.leaders.led_by(session),
            is_watcher: self.sessions.is_watcher(session),
            vouched: self.sessions.vouched(session),
            acked,
            pages,
            fetches,
            commits: self.coordinator.outstanding(session),
            invalidations,
        })
    }
}
