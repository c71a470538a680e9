//! How far the holders are: the counts that they have acknowledged, and the least of them.

use alloc::collections::BTreeMap;
use core::hash::Hash;
use types::{Map, Shard, Vector, Version};

/// The acknowledged counts of all holders.
#[derive(Debug)]
pub struct Acks<H> {
    by_holder: Map<H, Vector>,
    shards: BTreeMap<Shard, Holders>,
}

/// The holders that have acknowledged a count of one shard.
#[derive(Debug, Default)]
struct Holders {
    /// How many are at each count.
    at: BTreeMap<Version, usize>,
    /// How many they are. The others are at zero.
    count: usize,
}

impl Holders {
    fn join(&mut self, count: Version) {
        *self.at.entry(count).or_default() += 1;
        self.count += 1;
    }

    fn leave(&mut self, count: Version) {
        let Some(holders) = self.at.get_mut(&count) else { return };
        *holders -= 1;
        self.count -= 1;
        if *holders == 0 {
            self.at.remove(&count);
        }
    }
}

impl<H> Default for Acks<H> {
    fn default() -> Self {
        Self { by_holder: Map::default(), shards: BTreeMap::new() }
    }
}

impl<H: Copy + Eq + Hash> Acks<H> {
    /// A holder begins here. It is at most once in.
    pub fn join(&mut self, holder: H, through: Vector) {
        self.leave(holder);
        for &(shard, count) in through.counts() {
            self.shards.entry(shard).or_default().join(count);
        }
        self.by_holder.insert(holder, through);
    }

    /// A holder has applied everything through `through`. One that has not joined says nothing by that.
    pub fn ack(&mut self, holder: H, through: &Vector) {
        let Some(acked) = self.by_holder.get_mut(&holder) else { return };
        for &(shard, count) in through.counts() {
            let before = acked.of(shard);
            if before < count {
                acked.raise(shard, count);
                let holders = self.shards.entry(shard).or_default();
                holders.leave(before);
                holders.join(count);
            }
        }
    }

    /// A holder does not count any more.
    pub fn leave(&mut self, holder: H) {
        for &(shard, count) in self.by_holder.remove(&holder).iter().flat_map(Vector::counts) {
            if let Some(holders) = self.shards.get_mut(&shard) {
                holders.leave(count);
            }
        }
    }

    /// The counts that one holder has acknowledged.
    pub fn of(&self, holder: H) -> Option<&Vector> {
        self.by_holder.get(&holder)
    }

    /// The counts that all of them have acknowledged; `None` without a holder.
    pub fn least(&self) -> Option<Vector> {
        if self.by_holder.is_empty() {
            return None;
        }
        let all_have = self.shards.iter().filter(|(_, holders)| holders.count == self.by_holder.len());
        Some(all_have.filter_map(|(&shard, holders)| Some((shard, *holders.at.first_key_value()?.0))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(counts: &[(u16, u64)]) -> Vector {
        let mut vector = Vector::new();
        for &(shard, count) in counts {
            vector.raise(Shard(shard), Version(count));
        }
        vector
    }

    #[test]
    fn the_least_is_over_those_who_are_there() {
        let mut acks = Acks::default();
        assert_eq!(acks.least(), None);
        acks.join('a', at(&[(0, 3)]));
        acks.join('b', at(&[(0, 5)]));
        acks.ack('c', &at(&[(0, 1)]));
        assert_eq!(acks.least(), Some(at(&[(0, 3)])));
        acks.ack('a', &at(&[(0, 9)]));
        acks.ack('b', &at(&[(0, 4)]));
        assert_eq!((acks.least(), acks.of('b')), (Some(at(&[(0, 5)])), Some(&at(&[(0, 5)]))));
        acks.leave('b');
        assert_eq!(acks.least(), Some(at(&[(0, 9)])));
        acks.leave('a');
        assert_eq!(acks.least(), None);
    }

    #[test]
    fn the_least_of_a_shard_is_zero_until_all_have_acknowledged_some() {
        let mut acks = Acks::default();
        acks.join('a', at(&[(0, 3), (2, 7)]));
        acks.join('b', at(&[(0, 4)]));
        assert_eq!(acks.least(), Some(at(&[(0, 3)])));
        acks.ack('b', &at(&[(2, 5)]));
        assert_eq!(acks.least(), Some(at(&[(0, 3), (2, 5)])));
        acks.join('b', at(&[]));
        assert_eq!(acks.least(), Some(Vector::new()));
        acks.leave('b');
        assert_eq!(acks.least(), Some(at(&[(0, 3), (2, 7)])));
    }
}
