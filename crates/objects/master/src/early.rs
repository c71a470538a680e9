//! Decisions that come early: the order in which they are applied.
//!
//! ```text
//!   applied    decided        prepared
//!   5          8              a, b         6 and 7 belong to a or b, which were prepared before 8 came, or to nobody
//!   5          7 (a), 8       b            6 belongs to b or to nobody
//!   5          7, 8                        b was released: 6 is void, and 7 and 8 are applied
//! ```
//! 1. The decisions of a shard are applied in the order of their counts (**ApplyInOrder**), each once.
//! 2. A count without a durable record is a *void*. The sequencer gives a count of a shard only to a transaction that
//!    is prepared there. So when a decision comes behind a gap, the counts in the gap were given to transactions that
//!    are prepared at that moment, or are void. When all of these are decided or released, the rest of the gap is void
//!    (**VoidBehindPrepared**).
//! 3. A transaction is applied when it is the first in each of its shards here. All its counts are from one sequencer,
//!    so two transactions follow on each other in the same order in all shards that they have in common.
//!
//! With one coordinator there are no gaps: counts come in the order of its log.

use crate::Master;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use types::{Rule, Shard, TxnId, Vector, Version};

/// A decision that waits for earlier ones.
#[derive(Debug)]
struct Waiting {
    txn: TxnId,
    /// The transactions that may have the counts before it.
    before: Vec<TxnId>,
}

/// The decisions that are not applied.
#[derive(Debug, Default)]
pub(crate) struct Early {
    shards: BTreeMap<Shard, BTreeMap<Version, Waiting>>,
}

impl Early {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// The highest count of a shard that was decided and is not applied.
    pub(crate) fn highest(&self, shard: Shard) -> Version {
        self.shards.get(&shard).and_then(|waiting| waiting.last_key_value()).map_or(Version::ZERO, |(&count, _)| count)
    }

    fn insert(&mut self, shard: Shard, count: Version, waiting: Waiting) {
        self.shards.entry(shard).or_default().insert(count, waiting);
    }

    fn remove(&mut self, counts: &Vector) {
        for &(shard, count) in counts.counts() {
            let Some(waiting) = self.shards.get_mut(&shard) else { continue };
            waiting.remove(&count);
            if waiting.is_empty() {
                self.shards.remove(&shard);
            }
        }
    }

    /// The first decision of each shard.
    fn firsts(&self) -> impl Iterator<Item = (Shard, Version, &Waiting)> {
        self.shards
            .iter()
            .filter_map(|(&shard, waiting)| waiting.first_key_value().map(|(&count, waiting)| (shard, count, waiting)))
    }
}

impl Master {
    /// Whether nothing can come before these counts.
    pub(crate) fn is_next(&self, counts: &Vector) -> bool {
        let applied = self.pages.applied();
        self.early.is_empty() && counts.counts().iter().all(|&(shard, count)| count == applied.of(shard).next())
    }

    /// A decision comes behind a gap, or behind another one that does.
    pub(crate) fn comes_early(&mut self, txn: TxnId, counts: &Vector) {
        self.pages.decide_early(txn, counts);
        self.turns.make_way();
        for &(shard, count) in counts.counts() {
            let before = self.pages.undecided(shard).collect();
            self.early.insert(shard, count, Waiting { txn, before });
        }
    }

    /// The next decision that can be applied.
    pub(crate) fn take_next(&mut self) -> Option<TxnId> {
        if self.early.is_empty() {
            return None;
        }
        let applied = self.pages.applied();
        let is_void = |waiting: &Waiting| {
            self.config.broken.is(Rule::VoidBehindPrepared)
                || !waiting.before.iter().any(|&before| self.pages.is_undecided(before))
        };
        let mut ready = Vector::new();
        for (shard, count, waiting) in self.early.firsts() {
            if count == applied.of(shard).next() || is_void(waiting) {
                ready.raise(shard, count);
            }
        }
        let (txn, counts) = self.early.firsts().find_map(|(_, _, waiting)| {
            let counts = self.pages.counts_of(waiting.txn)?;
            let is_ready = counts.counts().iter().all(|&(shard, count)| ready.of(shard) == count);
            is_ready.then(|| (waiting.txn, counts.clone()))
        })?;
        self.early.remove(&counts);
        Some(txn)
    }
}
