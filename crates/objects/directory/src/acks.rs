//! How far the holders are: the counts that they have acknowledged, and the least of them.

use alloc::collections::BTreeMap;
use core::hash::Hash;
use types::{Map, Version};

/// The acknowledged counts of all holders.
#[derive(Debug)]
pub struct Acks<H> {
    by_holder: Map<H, Version>,
    /// How many are at each count.
    counts: BTreeMap<Version, usize>,
}

impl<H> Default for Acks<H> {
    fn default() -> Self {
        Self { by_holder: Map::default(), counts: BTreeMap::new() }
    }
}

impl<H: Copy + Eq + Hash> Acks<H> {
    /// A holder begins here. It is at most once in.
    pub fn join(&mut self, holder: H, through: Version) {
        self.leave(holder);
        self.by_holder.insert(holder, through);
        *self.counts.entry(through).or_default() += 1;
    }

    /// A holder has applied everything through `through`. One that has not joined says nothing by that.
    pub fn ack(&mut self, holder: H, through: Version) {
        if self.by_holder.get(&holder).is_some_and(|acked| *acked < through) {
            self.join(holder, through);
        }
    }

    /// A holder does not count any more.
    pub fn leave(&mut self, holder: H) {
        let Some(acked) = self.by_holder.remove(&holder) else { return };
        let count = self.counts.get_mut(&acked).expect("a holder's count is listed");
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&acked);
        }
    }

    /// The version that one holder has acknowledged.
    pub fn of(&self, holder: H) -> Option<Version> {
        self.by_holder.get(&holder).copied()
    }

    /// The version that all of them have acknowledged; `None` if there is nobody.
    pub fn least(&self) -> Option<Version> {
        self.counts.first_key_value().map(|(version, _)| *version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_over_those_who_are_there() {
        let mut acks = Acks::default();
        assert_eq!(acks.least(), None);
        acks.join('a', Version(3));
        acks.join('b', Version(5));
        acks.ack('c', Version(1));
        assert_eq!(acks.least(), Some(Version(3)));
        acks.ack('a', Version(9));
        acks.ack('b', Version(4));
        assert_eq!((acks.least(), acks.of('b')), (Some(Version(5)), Some(Version(5))));
        acks.leave('b');
        assert_eq!(acks.least(), Some(Version(9)));
        acks.leave('a');
        assert_eq!(acks.least(), None);
    }
}
