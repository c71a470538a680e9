//! The commits of a node's log that other masters may need, in a store of several nodes.
//!
//! ```text
//!   log    a {1: v5}   b {1: v6, 4: v2}   c {4: v3}        home   {1: v6, 4: v1}
//!          free        needed for shard 4 ...
//! ```
//! 1. Prepares are never logged, and a master keeps applied deltas in memory until it writes them back. So the log of
//!    the coordinator is the only durable place of a commit, until each of its shards says that it is written back.
//! 2. The log is freed in order, as far as nothing is needed (**FreeAfterHome**).

use alloc::collections::VecDeque;
use types::{Map, Position, Shard, TxnId, Vector, Version};

/// The commits, and how far each shard is written back.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    records: VecDeque<(Position, TxnId)>,
    counts: Map<TxnId, Vector>,
    home: Vector,
}

impl Kept {
    /// The log has a commit at this position, or is about to.
    pub(crate) fn push(&mut self, position: Position, txn: TxnId, counts: Vector) {
        self.records.push_back((position, txn));
        self.counts.insert(txn, counts);
    }

    /// The counts of a commit of the log.
    pub(crate) fn counts(&self, txn: TxnId) -> Option<&Vector> {
        self.counts.get(&txn)
    }

    /// Shards are written back through these counts.
    pub(crate) fn is_home(&mut self, through: &Vector) {
        if !self.home.join(through) {
            return;
        }
        while let Some((_, txn)) = self.records.front()
            && self.counts.get(txn).is_none_or(|counts| self.home.reaches(counts))
        {
            self.counts.remove(txn);
            self.records.pop_front();
        }
    }

    /// Whether a commit with this count is written back in its shard.
    pub(crate) fn has_home(&self, shard: Shard, count: Version) -> bool {
        self.home.of(shard) >= count
    }

    /// The position of the oldest commit that is needed.
    pub(crate) fn oldest(&self) -> Option<Position> {
        self.records.front().map(|(position, _)| *position)
    }
}
