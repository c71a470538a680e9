//! A set of slots of one page: a bitmap, as it travels in read sets and invalidations.

use crate::SlotNo;
use crate::limits::SLOTS_MAX;
use core::fmt;
use smallvec::SmallVec;

/// A set of slots. Two words are in place: a page of 100-byte objects rarely has more than 128.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct SlotSet {
    /// Bit `s % 64` of word `s / 64` says whether slot `s` is in; the last word is never zero.
    words: SmallVec<[u64; 2]>,
}

impl SlotSet {
    /// The empty set.
    pub fn new() -> Self {
        Self { words: SmallVec::new() }
    }

    /// Puts `slot` in; says whether it is new.
    ///
    /// # Panics
    /// If `slot` is not below [`SLOTS_MAX`].
    pub fn insert(&mut self, slot: SlotNo) -> bool {
        let (word, bit) = Self::place(slot);
        assert!(usize::from(slot) < SLOTS_MAX, "slot {slot} of a page with {SLOTS_MAX}");
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Takes `slot` out; says whether it was in.
    pub fn remove(&mut self, slot: SlotNo) -> bool {
        let (word, bit) = Self::place(slot);
        let Some(w) = self.words.get_mut(word) else { return false };
        let was_in = *w & bit != 0;
        *w &= !bit;
        self.trim();
        was_in
    }

    /// Whether `slot` is in.
    #[inline]
    pub fn contains(&self, slot: SlotNo) -> bool {
        let (word, bit) = Self::place(slot);
        self.words.get(word).is_some_and(|w| w & bit != 0)
    }

    /// Whether no slot is in.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How many slots are in.
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// The slots, in order.
    pub fn iter(&self) -> impl Iterator<Item = SlotNo> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            core::iter::successors((word != 0).then_some(word), |w| Some(w & (w - 1)).filter(|&w| w != 0))
                .map(move |w| (i * 64) as SlotNo + w.trailing_zeros() as SlotNo)
        })
    }

    /// Whether the two sets share a slot.
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Whether all of `other` is in it.
    pub fn contains_all(&self, other: &Self) -> bool {
        let word = |at: usize| self.words.get(at).copied().unwrap_or(0);
        other.words.iter().enumerate().all(|(at, slots)| slots & !word(at) == 0)
    }

    /// Puts all of `other` in.
    pub fn union_with(&mut self, other: &Self) {
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (a, b) in self.words.iter_mut().zip(&other.words) {
            *a |= b;
        }
    }

    /// The bitmap, least slot first, without trailing zero words.
    pub fn as_words(&self) -> &[u64] {
        &self.words
    }

    /// The set of a bitmap; `None` if it names a slot that no page can have.
    pub fn from_words(words: &[u64]) -> Option<Self> {
        let mut set = Self { words: SmallVec::from_slice(words) };
        set.trim();
        (set.words.len() * 64 <= SLOTS_MAX).then_some(set)
    }

    #[inline]
    fn place(slot: SlotNo) -> (usize, u64) {
        (usize::from(slot) / 64, 1 << (slot % 64))
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

impl FromIterator<SlotNo> for SlotSet {
    fn from_iter<I: IntoIterator<Item = SlotNo>>(slots: I) -> Self {
        let mut set = Self::new();
        for slot in slots {
            set.insert(slot);
        }
        set
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        /// After any operations, a slot set is the ordered set of the same numbers.
        #[test]
        fn behaves_like_a_set(ops in proptest::collection::vec((any::<bool>(), 0..SLOTS_MAX as SlotNo), 0..200)) {
            let (mut set, mut model) = (SlotSet::new(), BTreeSet::new());
            for (insert, slot) in ops {
                if insert {
                    prop_assert_eq!(set.insert(slot), model.insert(slot));
                } else {
                    prop_assert_eq!(set.remove(slot), model.remove(&slot));
                }
                prop_assert_eq!(set.contains(slot), model.contains(&slot));
                prop_assert_eq!(set.is_empty(), model.is_empty());
            }
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.len(), model.len());
            prop_assert_eq!(SlotSet::from_words(set.as_words()), Some(set));
        }
    }

    #[test]
    fn a_bitmap_with_an_impossible_slot_is_refused() {
        assert_eq!(SlotSet::from_words(&[0; 40]), Some(SlotSet::new()));
        let mut words = [0; SLOTS_MAX / 64 + 1];
        words[SLOTS_MAX / 64] = 1;
        assert_eq!(SlotSet::from_words(&words), None);
    }
}
