//! Which lives of its process have made a store what it is, so that a client that remembers one of them finds out
//! whether this store continues from there.
//!
//! ```text
//!   the store        A ---- 90 ---- B ---- 140 ---- C        lineage: A from 0, B from 90, C from 140
//!   a copy of it     A ---- 80 ---- D                        lineage: A from 0, D from 80
//! ```
//! A copy that is put in a store's place has its cluster's identity, and counts its changes from where it was made:
//! count 85 is one change here and another there. A client that has learned of 85 in life A is right with the store,
//! and not with the copy; one that has learned of 75 is right with both; and one that has heard anything in life B
//! knows nothing of the copy (**KnowLineage**).

use alloc::vec::Vec;
use types::limits::LIVES_KEPT;
use types::{Life, Vector};

/// The latest lives of a store's process, oldest first, each with the counts of changes at which it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage(Vec<(Life, Vector)>);

impl Lineage {
    /// One of these lives, the latest of them if they are too many.
    pub fn new(mut lives: Vec<(Life, Vector)>) -> Self {
        lives.drain(..lives.len().saturating_sub(LIVES_KEPT));
        Self(lives)
    }

    /// The lives, oldest first.
    pub fn lives(&self) -> &[(Life, Vector)] {
        &self.0
    }

    /// A new life begins at these counts of changes.
    #[must_use]
    pub fn with(&self, life: Life, at: Vector) -> Self {
        Self::new(self.0.iter().cloned().chain([(life, at)]).collect())
    }

    /// The life that the store is in. A store that is open has one.
    pub fn current(&self) -> Option<Life> {
        self.0.last().map(|(life, _)| *life)
    }

    /// Whether this is one of the lives.
    pub fn knows(&self, life: Life) -> bool {
        self.0.iter().any(|(known, _)| *known == life)
    }

    /// Returns the counts at which the store parted from another of these lineages, later commits of which it has not
    /// seen. If the two have no life in common, its latest life began there. `None` if it has seen all of them.
    pub fn parted_from(&self, other: &Self) -> Option<&Vector> {
        let latest_common = self.0.iter().rposition(|(life, _)| other.knows(*life));
        let next = latest_common.map_or(self.0.last(), |at| self.0.get(at + 1));
        next.map(|(_, began)| began)
    }

    /// Whether the store continues from where one was who has learned of its changes through `heard`, in this life or
    /// before.
    pub fn continues(&self, life: Life, heard: &Vector) -> bool {
        let Some(at) = self.0.iter().position(|(known, _)| *known == life) else { return false };
        self.0.get(at + 1).is_none_or(|(_, ended)| ended.reaches(heard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Shard, Version};

    const A: Life = Life(0xA);
    const B: Life = Life(0xB);
    const C: Life = Life(0xC);
    const D: Life = Life(0xD);

    fn only(count: u64) -> Vector {
        Vector::only(Version(count))
    }

    #[test]
    fn a_copy_does_not_continue_what_came_after_it_was_made() {
        let at_first = Lineage::default().with(A, only(0));
        let store = at_first.with(B, only(90)).with(C, only(140));
        let copy = at_first.with(D, only(80));
        for (life, heard, by_store, by_copy) in [
            (A, 75, true, true),
            (A, 80, true, true),
            (A, 85, true, false),
            (B, 90, true, false),
            (C, 999, true, false),
        ] {
            assert_eq!(store.continues(life, &only(heard)), by_store, "{life:?} {heard}");
            assert_eq!(copy.continues(life, &only(heard)), by_copy, "{life:?} {heard}");
        }
        assert!(!store.continues(B, &only(141)), "nobody can have heard that");
        assert_eq!(copy.current(), Some(D));
        assert_eq!(copy.parted_from(&store), Some(&only(80)));
        assert_eq!(copy.with(C, only(95)).parted_from(&at_first), Some(&only(80)), "restarts since do not count");
        assert_eq!(Lineage::default().with(D, only(7)).parted_from(&store), Some(&only(7)), "nothing in common");
        assert_eq!(store.parted_from(&store), None);
    }

    #[test]
    fn one_shard_that_went_further_is_enough_to_tell_a_copy() {
        let at = |counts: [u64; 2]| {
            let mut vector = only(counts[0]);
            vector.raise(Shard(1), Version(counts[1]));
            vector
        };
        let copy = Lineage::default().with(A, at([0, 0])).with(D, at([80, 20]));
        assert!(copy.continues(A, &at([80, 20])));
        assert!(!copy.continues(A, &at([10, 21])));
    }

    #[test]
    fn the_oldest_lives_are_forgotten() {
        let lives = |count: u64| (1..=count).fold(Lineage::default(), |lineage, n| lineage.with(Life(n), only(n)));
        let many = lives(LIVES_KEPT as u64 + 3);
        assert_eq!(many.lives().len(), LIVES_KEPT);
        assert!(!many.continues(Life(3), &only(3)), "who remembers only that begins again");
        assert!(many.continues(Life(4), &only(5)));
    }
}
