//! The shards of a node in a store of several: which of them its master serves.
//!
//! ```text
//!   not here --open: all logs have told what they hold--> served in this opening --> the node ends
//! ```
//! 1. A shard is served from its opening on. Before, its master judges nothing and writes nothing back.
//! 2. The deltas of all logs are applied in the order of their counts, each unless the page home has it
//!    (**CompareWithHome**). The Multicomputer paper (section 5) compares with the version in memory instead. That
//!    moves with every delta that is applied, and the logs send theirs in any order, so it would skip some.
//! 3. A transaction is judged in the opening that its coordinator knows, and in no other.
//! 4. A node that closes prepares nothing more, waits for what is prepared, and writes everything back
//!    (**CleanClose**). Then no log holds anything for its shards, and their next opening asks none.

use crate::Master;
use crate::ticket::Ticket;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use messages::{Openings, RecalledCommit};
use types::{NodeId, Opening, Position, Rule, Shard, TxnId, Vector, Version};

/// The shards that a master serves.
#[derive(Debug)]
pub(crate) enum Shards {
    /// All there are: the store has one node.
    All,
    /// The shards that are open, and in which opening.
    Opened(BTreeMap<Shard, Opening>),
}

impl Shards {
    pub(crate) fn new(has_peers: bool) -> Self {
        if has_peers { Self::Opened(BTreeMap::new()) } else { Self::All }
    }

    /// Whether all of these are served in these openings.
    pub(crate) fn serve(&self, openings: &Openings) -> bool {
        match self {
            Self::All => true,
            Self::Opened(opened) => openings.iter().all(|(shard, opening)| opened.get(shard) == Some(opening)),
        }
    }

    /// Whether all there are are served, as the store has one node.
    pub(crate) fn are_all(&self) -> bool {
        matches!(self, Self::All)
    }

    /// Whether a shard is served.
    pub(crate) fn serves(&self, shard: Shard) -> bool {
        match self {
            Self::All => true,
            Self::Opened(opened) => opened.contains_key(&shard),
        }
    }
}

impl Master {
    /// Opens a shard. Its counts through `through` were applied when its node wrote back last, and the logs hold these
    /// commits. In the MOB they have this position of the node's own log.
    pub fn open(
        &mut self,
        shard: Shard,
        opening: Opening,
        through: Version,
        position: Position,
        mut found: Vec<RecalledCommit>,
    ) {
        if !self.config.broken.is(Rule::CompareWithHome) {
            found.sort_unstable_by_key(|commit| commit.count);
        }
        for RecalledCommit { count, deltas, .. } in &found {
            for delta in deltas {
                self.pages.replay_delta(position, *count, delta);
            }
        }
        let last = found.iter().map(|commit| commit.count).max().unwrap_or_default();
        self.pages.resume_shard(shard, through.max(last).max(self.pages.newest_of(shard)));
        if let Shards::Opened(opened) = &mut self.shards {
            opened.insert(shard, opening);
        }
    }

    /// Whether the node closes, and prepares no more transactions. Its own coordinator takes no new ones, and says why.
    pub(crate) fn is_leaving(&self, ticket: &Ticket) -> bool {
        self.closing && self.config.has_peers && ticket.writes()
    }

    /// The shards that are served here, each with the count through which it is applied.
    pub fn served(&self) -> Vec<(Shard, Version)> {
        let Shards::Opened(opened) = &self.shards else { return Vec::new() };
        opened.keys().map(|&shard| (shard, self.pages.applied().of(shard))).collect()
    }

    /// Whether a shard is served.
    pub fn serves(&self, shard: Shard) -> bool {
        self.shards.serves(shard)
    }

    /// The counts through which each shard is written back that is served here: no log needs what it holds of these.
    pub fn home_through(&self) -> Vector {
        let home = self.pages.home_through();
        home.counts().iter().copied().filter(|(shard, _)| self.shards.serves(*shard)).collect()
    }

    /// The transactions of a coordinator that are prepared here and not applied, in order. Any other that has committed
    /// is applied.
    pub fn unapplied_of(&self, coordinator: NodeId) -> Vec<TxnId> {
        let mut unapplied: Vec<_> = self.pages.unapplied_of(coordinator).collect();
        unapplied.sort_unstable();
        unapplied
    }

    /// The link to a coordinator is lost. Transactions that wait here are forgotten, as it would ask again; prepared
    /// ones stay until it is back.
    pub fn lost_coordinator(&mut self, coordinator: NodeId) {
        self.take_waiting(|ticket| ticket.from.coordinator == coordinator);
    }
}
