//! The sequencer role, the serialization server of the Multicomputer paper (section 3): it gives each commit its place,
//! a count in each shard that the commit writes to.
//!
//! ```text
//!   Sequence{a, shards 1 2} --> [ 0: 7, 1: 4, 2: 9 ] --> Placed{a, 1: 5, 2: 10}
//! ```
//! It remembers the last count of each shard, and nothing of a transaction. It neither waits nor refuses.
//!
//! 1. A commit is counted before its record is passed to the log, and the record carries the count
//!    (**CountsInRecord**). With one coordinator the order of counts is the order of its log, without gaps.
//! 2. A count is known outside of the store only when the record is durable. A crash can lose the last records, and
//!    their counts are given again to other commits. That is sound because everything that names a count is made of
//!    applied commits, and a commit is applied when its record is durable (**LogBeforeReply**):
//!    - replies, invalidations to holders and watchers, pages, and each `through`;
//!    - the checkpoint, and the images that are written back with it;
//!    - the end of the earlier life in a lineage, which counts what was recovered.
//!
//!    A lease's promises are asked for and given before the commit is counted, and name its transaction. The count in
//!    an `Incarnation` covers commits that are not durable yet, but their records are in front of it in the log.
//! 3. Each count of an epoch is above all counts of earlier epochs (**EpochInCount**).
#![no_std]

use messages::{Placed, Sequence};
use types::{Broken, Epoch, Rule, Vector};

/// The counts that were given.
#[derive(Debug, Default)]
pub struct Sequencer {
    epoch: Epoch,
    last: Vector,
    broken: Broken,
}

impl Sequencer {
    /// A sequencer in its term, that has given no count; `broken` is the rule that is taken out, in tests of the
    /// checkers.
    pub fn new(epoch: Epoch, broken: Broken) -> Self {
        Self { epoch, last: Vector::new(), broken }
    }

    /// Continues after a restart: counts through `last` may have been given.
    pub fn resume(&mut self, last: &Vector) {
        self.last.join(last);
    }

    /// Gives a transaction its place.
    pub fn handle(&mut self, sequence: Sequence) -> Placed {
        let first = if self.broken.is(Rule::EpochInCount) { Epoch::default().first() } else { self.epoch.first() };
        let mut counts = Vector::new();
        for shard in sequence.shards {
            let count = first.max(self.last.of(shard).next());
            self.last.raise(shard, count);
            counts.raise(shard, count);
        }
        Placed { txn: sequence.txn, counts }
    }

    /// The last count that was given in each shard.
    pub fn last(&self) -> &Vector {
        &self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{ClientId, Shard, TxnId, Version};

    fn place(sequencer: &mut Sequencer, shards: &[u16]) -> Vector {
        let txn = TxnId { client: ClientId(1), number: 1 };
        let placed = sequencer.handle(Sequence { txn, shards: shards.iter().map(|&shard| Shard(shard)).collect() });
        assert_eq!(placed.txn, txn);
        placed.counts
    }

    fn vector(counts: &[(u16, u64)]) -> Vector {
        let mut vector = Vector::new();
        for &(shard, count) in counts {
            vector.raise(Shard(shard), Version(count));
        }
        vector
    }

    #[test]
    fn each_shard_is_counted_by_itself() {
        let mut sequencer = Sequencer::default();
        assert_eq!(place(&mut sequencer, &[0]), vector(&[(0, 1)]));
        assert_eq!(place(&mut sequencer, &[0, 2]), vector(&[(0, 2), (2, 1)]));
        assert_eq!(place(&mut sequencer, &[2]), vector(&[(2, 2)]));
        assert_eq!(*sequencer.last(), vector(&[(0, 2), (2, 2)]));
    }

    #[test]
    fn counts_of_a_later_epoch_are_above_all_earlier_ones() {
        let mut deposed = Sequencer::new(Epoch(1), Broken::NONE);
        deposed.resume(&vector(&[(0, (1 << 44) - 2)]));
        let before = place(&mut deposed, &[0]);
        let mut next = Sequencer::new(Epoch(2), Broken::NONE);
        let after = place(&mut next, &[0]);
        assert!(after.of(Shard(0)) > before.of(Shard(0)));
        assert_eq!((after, before), (vector(&[(0, (2 << 44) + 1)]), vector(&[(0, (1 << 44) + 1)])));
        // It continues behind the counts that it learns of.
        next.resume(&vector(&[(0, (2 << 44) + 9)]));
        assert_eq!(place(&mut next, &[0]), vector(&[(0, (2 << 44) + 10)]));
    }
}
