//! The status of a redirector.

use crate::Redirector;
use alloc::string::String;
use alloc::vec::Vec;
use cache::Cache;
use messages::{At, Leader, Phase};
use types::{ClientId, Horizon, PageId, SessionId, Vector};

/// The counts of a redirector since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sessions with the store that were opened.
    pub upstream_sessions: u64,
    /// Pages that members wanted.
    pub wanted: u64,
    /// Pages that came from the standby cache.
    pub from_standby: u64,
    /// Pages that came from other members.
    pub from_peers: u64,
    /// Pages that the store sent.
    pub from_store: u64,
    /// Pages that were wanted while a fetch of them was under way.
    pub coalesced: u64,
    /// Fetch messages sent to the store: each is one round trip.
    pub fetches: u64,
    /// Pages that members were asked to send to others.
    pub helps: u64,
    /// Pages that a member was asked for and did not have whole.
    pub refused_help: u64,
    /// Pages that a member was asked for and did not send in time.
    pub late_help: u64,
    /// Pages between members that came by way of the redirector.
    pub relayed: u64,
    /// Commit requests of members.
    pub commits: u64,
    /// Read-only transactions that were validated here, under a lease.
    pub validated: u64,
    /// Changed pages that members were notified of with the new values.
    pub updates: u64,
    /// Changed pages that members were notified of without.
    pub invalidations: u64,
}

/// How a redirector stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The group's name.
    pub group: String,
    /// Where members reach the redirector.
    pub address: String,
    /// The epoch in which it leads the group, if it does.
    pub epoch: Option<u64>,
    /// The other redirector that led the group when the store was asked last.
    pub leader: Option<Leader>,
    /// Whether the store is reached.
    pub is_live: bool,
    /// Why it never will be, if it will not.
    pub over: Option<String>,
    /// The count through which everything has been heard.
    pub horizon: Vector,
    /// The members, by their sessions.
    pub members: Vec<MemberStatus>,
    /// Fetches from the store that are outstanding.
    pub fetches: usize,
    /// Pages on their way between members.
    pub helps: usize,
    /// Commits whose outcome is not known, and the bytes of values that are kept for them.
    pub commits: (usize, usize),
    /// Pages in the standby cache, and their bytes.
    pub standby: (usize, usize),
    /// The counts since the start.
    pub stats: Stats,
}

/// How a member stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// The member, once it has said who it is.
    pub client: Option<ClientId>,
    /// Where it would be reached as the group's redirector; empty if it is not eligible.
    pub eligible: String,
    /// Whether everything that it holds has been compared.
    pub is_joined: bool,
    /// The counts through which it has applied everything.
    pub acked: Vector,
    /// Pages that it holds, or may soon install.
    pub held: usize,
    /// Those of them that it has whole.
    pub whole: usize,
    /// Pages that it was asked for and has not sent.
    pub asked: usize,
}

impl Redirector {
    /// How the redirector stands.
    pub fn status(&self) -> Status {
        let member = |session: SessionId| {
            let (held, whole) = self.holders.count(session);
            MemberStatus {
                client: self.members.client(session),
                eligible: self.members.eligible(session).into(),
                is_joined: self.members.is_joined(session),
                acked: self.members.acked(session).cloned().unwrap_or_default(),
                held,
                whole,
                asked: self.helps.load(session),
            }
        };
        let over =
            if let Phase::Over(why) = self.nodes[At::HOME].session.up.phase() { Some(why.clone()) } else { None };
        Status {
            group: self.config.group.clone(),
            address: self.config.address.clone(),
            epoch: self.leadership.epoch(),
            leader: self.leadership.other().cloned(),
            is_live: self.nodes.is_reached(),
            over,
            horizon: self.nodes.horizon().counts.clone(),
            members: self.members.all().into_iter().map(member).collect(),
            fetches: self.nodes.all().map(|at| self.nodes[at].fetches.len()).sum(),
            helps: self.helps.len(),
            commits: (self.commits.len(), self.commits.bytes()),
            standby: self.standby.size(),
            stats: self.stats,
        }
    }

    /// Where the first node of the group is, as the nodes have said; nothing while there is one, or none has.
    pub(crate) fn home_address(&self) -> Option<String> {
        Some(self.nodes[At::HOME].address.clone()).filter(|address| !address.is_empty())
    }

    /// Where members reach the redirector.
    pub fn address(&self) -> &str {
        &self.config.address
    }

    /// The counts through which the redirector has learned of everything, for checkers.
    pub fn horizon(&self) -> Horizon<'_> {
        self.nodes.horizon()
    }

    /// Whether the sessions with the nodes are resumed, for checkers: from then on the store knows what the group
    /// holds.
    pub fn is_live(&self) -> bool {
        self.nodes.all().all(|at| self.nodes[at].session.is_live())
    }

    /// The standby cache, if there is one, for checkers.
    pub fn standby_cache(&self) -> Option<&Cache> {
        self.standby.cache()
    }

    /// Whether the member is listed as a holder of the page, for checkers.
    pub fn lists(&self, session: SessionId, page: PageId) -> bool {
        self.holders.holds(page, session)
    }

    /// Whether the member has joined as far as the redirector is concerned, for checkers.
    pub fn has_session(&self, session: SessionId) -> bool {
        self.members.is_joined(session)
    }
}
