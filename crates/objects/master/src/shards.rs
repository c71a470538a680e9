//! The shards of a node in a store of several: which of them its master serves.
//!
//! ```text
//!   not here --open: all logs have told what they hold--> served in this opening --> the node ends
//!                                                         |            ^      \-------> closed, and moved (`moves`)
//!                                                         +--closing --+
//! ```
//! 1. A shard is served from its opening on. Before, its master judges nothing and writes nothing back.
//! 2. The deltas of all logs are applied in the order of their counts, each unless the page home has it
//!    (**CompareWithHome**). The Multicomputer paper (section 5) compares with the version in memory instead. That
//!    moves with every delta that is applied, and the logs send theirs in any order, so it would skip some.
//! 3. A transaction is judged in the opening that its coordinator knows, and in no other.
//! 4. A node that closes prepares nothing more, waits for what is prepared, and writes everything back
//!    (**CleanClose**). Then no log holds anything for its shards, and their next opening asks none.

use crate::Master;
use crate::outputs::Output;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use messages::{Openings, RecalledCommit, RecentChanges, Release};
use types::{NodeId, Opening, Position, Rule, Shard, Time, TxnId, Vector, Version};

/// The shards that a master serves.
#[derive(Debug)]
pub(crate) enum Shards {
    /// All there are: the store has one node.
    All,
    /// The shards that are open, and in which opening.
    Opened { served: BTreeMap<Shard, Opening>, closing: BTreeSet<Shard> },
}

impl Shards {
    pub(crate) fn new(has_peers: bool) -> Self {
        if has_peers { Self::Opened { served: BTreeMap::new(), closing: BTreeSet::new() } } else { Self::All }
    }

    /// Whether all of these are served in these openings.
    pub(crate) fn serve(&self, openings: &Openings) -> bool {
        match self {
            Self::All => true,
            Self::Opened { served, .. } => openings.iter().all(|(shard, opening)| served.get(shard) == Some(opening)),
        }
    }

    /// Whether `applied` reaches these counts in the shards that are served. A session may name others, which move.
    pub(crate) fn reach(&self, applied: &Vector, counts: &Vector) -> bool {
        counts.counts().iter().all(|&(shard, count)| count <= applied.of(shard) || !self.serves(shard))
    }

    /// Whether transactions are judged on a shard in this opening.
    pub(crate) fn judges(&self, shard: Shard, opening: Opening) -> bool {
        match self {
            Self::All => true,
            Self::Opened { served, closing } => served.get(&shard) == Some(&opening) && !closing.contains(&shard),
        }
    }

    /// Whether any of these is about to close.
    pub(crate) fn is_closing(&self, openings: &Openings) -> bool {
        openings.iter().any(|(shard, _)| self.closes(*shard))
    }

    /// Whether a shard is about to close.
    pub(crate) fn closes(&self, shard: Shard) -> bool {
        matches!(self, Self::Opened { closing, .. } if closing.contains(&shard))
    }

    /// The shards that are about to close.
    pub(crate) fn closing(&self) -> impl Iterator<Item = Shard> + '_ {
        let closing = match self {
            Self::Opened { closing, .. } => Some(closing),
            Self::All => None,
        };
        closing.into_iter().flatten().copied()
    }

    /// Sets whether a shard is about to close.
    pub(crate) fn set_closing(&mut self, shard: Shard, is_closing: bool) {
        let Self::Opened { served, closing } = self else { return };
        if is_closing && served.contains_key(&shard) {
            closing.insert(shard);
        } else {
            closing.remove(&shard);
        }
    }

    /// Ends the service of a shard. Returns the opening in which it was served.
    pub(crate) fn remove(&mut self, shard: Shard) -> Option<Opening> {
        let Self::Opened { served, closing } = self else { return None };
        closing.remove(&shard);
        served.remove(&shard)
    }

    /// Whether all there are are served, as the store has one node.
    pub(crate) fn are_all(&self) -> bool {
        matches!(self, Self::All)
    }

    /// Whether a shard is served.
    pub(crate) fn serves(&self, shard: Shard) -> bool {
        match self {
            Self::All => true,
            Self::Opened { served, .. } => served.contains_key(&shard),
        }
    }
}

impl Master {
    /// Opens a shard that was closed in order at this count, with what had changed there lately.
    pub fn open_closed(&mut self, opening: Opening, count: Version, recent: &RecentChanges) {
        self.pages.take_recent(recent, count);
        self.serve_shard(recent.shard, opening, count);
    }

    /// The slots of a shard that have changed lately.
    pub fn recent_changes(&self, shard: Shard) -> RecentChanges {
        self.pages.recent_changes(shard)
    }

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
        let count = through.max(last).max(self.pages.newest_of(shard));
        self.pages.forget_recent(shard, count);
        self.serve_shard(shard, opening, count);
    }

    fn serve_shard(&mut self, shard: Shard, opening: Opening, count: Version) {
        self.pages.resume_shard(shard, count);
        if let Shards::Opened { served, .. } = &mut self.shards {
            served.insert(shard, opening);
        }
        self.out.push(Output::Serving(shard));
    }

    /// Whether the node closes, and prepares no more transactions. Its own coordinator takes no new ones, and says why.
    pub(crate) fn is_closing_down(&self) -> bool {
        self.closing && self.config.has_peers
    }

    /// The shards that are served here, each with the count through which it is applied.
    pub fn served(&self) -> Vec<(Shard, Version)> {
        let Shards::Opened { served, .. } = &self.shards else { return Vec::new() };
        served.keys().map(|&shard| (shard, self.pages.applied().of(shard))).collect()
    }

    /// Whether any shard is served that is not about to close.
    pub fn serves_any(&self) -> bool {
        match &self.shards {
            Shards::All => true,
            Shards::Opened { served, closing } => served.keys().any(|shard| !closing.contains(shard)),
        }
    }

    /// Whether a shard is served.
    pub fn serves(&self, shard: Shard) -> bool {
        self.shards.serves(shard)
    }

    /// Whether a transaction is prepared that writes to a shard, and is not applied. In a store of one node nothing
    /// of it was acknowledged.
    pub fn has_unapplied(&self, shard: Shard) -> bool {
        self.config.has_peers && self.pages.writes_to(shard).next().is_some()
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

    /// The link to a coordinator is lost. Transactions that wait here are forgotten, as it would ask again. Prepared
    /// transactions that still wait for promises are forgotten too: on the next link their vote would answer another
    /// question (**ReleaseUnvoted**). The other prepared ones stay until the coordinator is back.
    pub fn lost_coordinator(&mut self, now: Time, coordinator: NodeId) {
        self.take_waiting(|ticket| ticket.from.coordinator == coordinator);
        if !self.config.broken.is(Rule::ReleaseUnvoted) {
            for txn in self.leases.waiting_for(coordinator) {
                self.release(now, Release { txn });
            }
        }
    }
}
