//! Vectors: one count for each shard of a store.

use crate::{Shard, Version};
use core::fmt;
use smallvec::SmallVec;

/// A count for each shard of a store: how far a cache, a stream or a master is. The shards that it does not list have
/// count zero. One shard takes no allocation.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Vector {
    /// In the order of the shards; no count is zero.
    counts: SmallVec<[(Shard, Version); 1]>,
}

impl Vector {
    /// The vector of zeros.
    pub fn new() -> Self {
        Self::default()
    }

    /// The vector of a store with one shard.
    pub fn only(count: Version) -> Self {
        let mut vector = Self::new();
        vector.raise(Shard::ONLY, count);
        vector
    }

    /// Returns the count of a shard.
    #[inline]
    pub fn of(&self, shard: Shard) -> Version {
        self.place(shard).map_or(Version::ZERO, |at| self.counts[at].1)
    }

    /// The shards whose count is not zero, in order, and their counts.
    pub fn counts(&self) -> &[(Shard, Version)] {
        &self.counts
    }

    /// How many counts were given in all shards, those of earlier epochs aside: a figure for people.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count.number()).sum()
    }

    /// Raises the count of a shard to this one if it is lower. Returns whether it was.
    pub fn raise(&mut self, shard: Shard, count: Version) -> bool {
        self.raise_at(self.place(shard), shard, count)
    }

    fn raise_at(&mut self, place: Result<usize, usize>, shard: Shard, count: Version) -> bool {
        match place {
            Ok(at) if self.counts[at].1 >= count => return false,
            Ok(at) => self.counts[at].1 = count,
            Err(_) if count == Version::ZERO => return false,
            Err(at) => self.counts.insert(at, (shard, count)),
        }
        true
    }

    /// Raises each count to the other vector's if it is lower. Returns whether one was.
    pub fn join(&mut self, other: &Self) -> bool {
        let (mut rises, mut from) = (false, 0);
        for &(shard, count) in &other.counts {
            let place = self.place_from(from, shard);
            rises |= self.raise_at(place, shard, count);
            from = place.map_or_else(|at| at, |at| at + 1);
        }
        rises
    }

    /// Returns the vector with the higher of both counts for each shard.
    #[must_use]
    pub fn joined(mut self, other: &Self) -> Self {
        self.join(other);
        self
    }

    /// Returns the vector with the lower of both counts for each shard.
    #[must_use]
    pub fn met(mut self, other: &Self) -> Self {
        self.counts.retain(|(shard, count)| {
            *count = other.of(*shard).min(*count);
            *count > Version::ZERO
        });
        self
    }

    /// Returns whether no count is lower than the other vector's.
    pub fn reaches(&self, other: &Self) -> bool {
        let mut from = 0;
        other.counts.iter().all(|&(shard, count)| {
            let place = self.place_from(from, shard);
            from = place.unwrap_or_else(|at| at);
            place.map_or(Version::ZERO, |at| self.counts[at].1) >= count
        })
    }

    fn place(&self, shard: Shard) -> Result<usize, usize> {
        match self.counts.last() {
            // Counts mostly come in order.
            Some(&(last, _)) if last < shard => Err(self.counts.len()),
            Some(_) => self.counts.binary_search_by_key(&shard, |&(of, _)| of),
            None => Err(0),
        }
    }

    /// The place of a shard behind all those before `from`: that place itself, as a rule, where two vectors have the
    /// same shards.
    fn place_from(&self, from: usize, shard: Shard) -> Result<usize, usize> {
        match self.counts.get(from) {
            Some(&(of, _)) if of < shard => {
                let rest = self.counts[from + 1..].binary_search_by_key(&shard, |&(of, _)| of);
                rest.map(|at| from + 1 + at).map_err(|at| from + 1 + at)
            }
            Some(&(of, _)) if of == shard => Ok(from),
            Some(_) | None => Err(from),
        }
    }
}

/// The highest of these counts for each shard.
impl FromIterator<(Shard, Version)> for Vector {
    fn from_iter<I: IntoIterator<Item = (Shard, Version)>>(counts: I) -> Self {
        let mut vector = Self::new();
        for (shard, count) in counts {
            vector.raise(shard, count);
        }
        vector
    }
}

/// The vector of a store with one shard.
impl From<Version> for Vector {
    fn from(count: Version) -> Self {
        Self::only(count)
    }
}

impl fmt::Debug for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.counts[..] {
            [] => fmt::Debug::fmt(&Version::ZERO, f),
            [(Shard::ONLY, count)] => fmt::Debug::fmt(count, f),
            counts => f.debug_map().entries(counts.iter().map(|(shard, count)| (shard.0, count))).finish(),
        }
    }
}

impl fmt::Display for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::format;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn vector(counts: &BTreeMap<u16, u64>) -> Vector {
        let mut vector = Vector::new();
        // The order in which shards come makes no difference.
        for (&shard, &count) in counts.iter().rev() {
            vector.raise(Shard(shard), Version(count));
        }
        vector
    }

    proptest! {
        #[test]
        fn is_a_map_without_zeros(
            a in proptest::collection::btree_map(0..5u16, 0..4u64, 0..5),
            b in proptest::collection::btree_map(0..5u16, 0..4u64, 0..5),
        ) {
            let (of_a, of_b) = (vector(&a), vector(&b));
            let count = |counts: &BTreeMap<u16, u64>, shard| counts.get(&shard).copied().unwrap_or(0);
            let listed: Vec<_> = of_a.counts().iter().map(|(shard, count)| (shard.0, count.0)).collect();
            let positive: Vec<_> = a.iter().map(|(s, c)| (*s, *c)).filter(|(_, count)| *count > 0).collect();
            prop_assert_eq!(listed, positive);
            prop_assert_eq!(of_a.reaches(&of_b), (0..5).all(|shard| count(&a, shard) >= count(&b, shard)));
            let mut both = of_a.clone();
            prop_assert_eq!(both.join(&of_b), !of_a.reaches(&of_b));
            let lower = of_a.met(&of_b);
            prop_assert!(lower.counts().iter().all(|(_, count)| *count > Version::ZERO));
            for shard in 0..5 {
                prop_assert_eq!(both.of(Shard(shard)).0, count(&a, shard).max(count(&b, shard)));
                prop_assert_eq!(lower.of(Shard(shard)).0, count(&a, shard).min(count(&b, shard)));
            }
        }
    }

    #[test]
    fn one_shard_takes_no_allocation_and_reads_as_a_count() {
        let mut vector = Vector::only(Version(5));
        assert!(!vector.counts.spilled());
        assert_eq!((format!("{vector}"), format!("{}", Vector::new())), ("v5".into(), "v0".into()));
        vector.raise(Shard(3), Version(7));
        assert_eq!(format!("{vector}"), "{0: v5, 3: v7}");
    }
}
