//! *Recent*: the slots that changed after `pruned`, with their versions, and what they say of a transaction's reads.
//!
//! 1. Every slot that changed after `pruned`, the count of its page's shard, is here with its newest version.
//! 2. A slot is here at its newest version or not at all. Some at or below `pruned` may be left: changes are forgotten
//!    in the order in which they were told, and one shard may be ahead of another.
//!    If a shard moves away and back, what was known of its slots is forgotten (**ForgetMoved**): they may be newer.
//! 3. It never outgrows its limit: `pruned` is forced forward instead, and a laggard pays with aborts.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use messages::{ChangedSlot, PageReads, RecentChanges};
use smallvec::SmallVec;
use types::{Map, PageId, Shard, SlotNo, SlotSet, Vector, Version};

/// The changed slots of one page, in slot order.
type Slots = SmallVec<[(SlotNo, Version); 2]>;

/// The newest versions of what changed lately.
#[derive(Debug)]
pub struct Recent {
    pages: Map<PageId, Slots>,
    /// One entry for each change of a page, as they were told: what pruning walks along.
    order: VecDeque<(Shard, Version, PageId)>,
    slots: usize,
    limit: usize,
    pruned: Vector,
}

impl Recent {
    /// Remembers so many changed slots at most.
    pub fn new(limit: usize) -> Self {
        Self { pages: Map::default(), order: VecDeque::new(), slots: 0, limit, pruned: Vector::new() }
    }

    /// Every change after these counts is remembered.
    pub fn pruned(&self) -> &Vector {
        &self.pruned
    }

    /// The version of `slot` if it changed after `pruned`.
    pub fn version(&self, page: PageId, slot: SlotNo) -> Option<Version> {
        let slots = self.pages.get(&page)?;
        slots.binary_search_by_key(&slot, |(s, _)| *s).ok().map(|at| slots[at].1)
    }

    /// The slots of `page` that changed after `known`, which is not below `pruned`.
    pub fn changed_after(&self, page: PageId, known: Version) -> SlotSet {
        let slots = self.pages.get(&page).map_or(&[][..], |slots| slots);
        slots.iter().filter(|(_, version)| *version > known).map(|(slot, _)| *slot).collect()
    }

    /// `changed` slots of `page`, a page of this shard, are at `version`. The changes of a shard come in the order of
    /// their counts, but perhaps twice.
    pub fn note(&mut self, page: PageId, shard: Shard, version: Version, changed: impl Iterator<Item = SlotNo>) {
        if version <= self.pruned.of(shard) {
            return;
        }
        let slots = self.pages.entry(page).or_default();
        for slot in changed {
            match slots.binary_search_by_key(&slot, |(s, _)| *s) {
                Ok(at) => slots[at].1 = slots[at].1.max(version),
                Err(at) => {
                    slots.insert(at, (slot, version));
                    self.slots += 1;
                }
            }
        }
        self.order.push_back((shard, version, page));
        while self.slots.max(self.order.len()) > self.limit {
            let (shard, oldest, _) = *self.order.front().expect("what outgrew its limit is not empty");
            self.pruned.raise(shard, oldest);
            self.forget_pruned();
        }
    }

    /// Forgets everything through `through`.
    pub fn prune(&mut self, through: &Vector) {
        if self.pruned.join(through) {
            self.forget_pruned();
        }
    }

    /// The newest changes of a shard, `most` of them, in the order of their versions.
    pub fn of_shard(&self, shard: Shard, most: usize) -> RecentChanges {
        let mut pages: Vec<_> = self.order.iter().filter(|(of, ..)| *of == shard).map(|(_, _, page)| *page).collect();
        pages.sort_unstable();
        pages.dedup();
        let slots = |page| self.pages.get(&page).into_iter().flatten().map(move |&(slot, at)| ((page, slot), at));
        let mut pruned = self.pruned.of(shard);
        let mut changes: Vec<_> = pages.into_iter().flat_map(slots).filter(|(_, version)| *version > pruned).collect();
        changes.sort_unstable_by_key(|&(slot, version)| (version, slot));
        if let Some(cut) = changes.len().checked_sub(most).filter(|cut| *cut > 0) {
            pruned = changes[cut - 1].1;
            changes.retain(|(_, version)| *version > pruned);
        }
        RecentChanges { shard, pruned, changes }
    }

    /// A shard comes with these changes, in the order of their versions, and there are no others after `pruned`. If
    /// it was here before, [`Recent::forget_shard`] comes first.
    pub fn take_shard(&mut self, shard: Shard, pruned: Version, changes: &[ChangedSlot]) {
        self.pruned.raise(shard, pruned);
        for &((page, slot), version) in changes {
            self.note(page, shard, version, [slot].into_iter());
        }
    }

    /// Forgets the changes of a shard, which has been elsewhere.
    pub fn forget_shard(&mut self, shard: Shard) {
        let Self { order, pages, slots, .. } = self;
        order.retain(|&(of, _, page)| {
            if of == shard {
                *slots -= pages.remove(&page).map_or(0, |slots| slots.len());
            }
            of != shard
        });
    }

    fn forget_pruned(&mut self) {
        while let Some(&(shard, version, page)) = self.order.front()
            && version <= self.pruned.of(shard)
        {
            self.order.pop_front();
            let Some(slots) = self.pages.get_mut(&page) else { continue };
            let (before, pruned) = (slots.len(), self.pruned.of(shard));
            slots.retain(|(_, version)| *version > pruned);
            self.slots -= before - slots.len();
            if slots.is_empty() {
                self.pages.remove(&page);
            }
        }
    }
}

/// The slots of one page that are stale, given the page's version and the count through which changes may have been
/// forgotten.
pub fn stale_slots(reads: &PageReads, page: Version, recent: &Recent, pruned: Version) -> SlotSet {
    // No slot is newer than its page.
    if reads.evidence >= page {
        return SlotSet::new();
    }
    let mut exceptions = reads.exceptions.iter().copied().peekable();
    let mut evidence_of = |slot: SlotNo| {
        while exceptions.next_if(|(s, _)| *s < slot).is_some() {}
        exceptions.next_if(|(s, _)| *s == slot).map_or(reads.evidence, |(_, version)| version)
    };
    let mut is_stale = |slot: &SlotNo| {
        let evidence = evidence_of(*slot);
        match recent.version(reads.page, *slot) {
            Some(newest) => evidence < newest,
            None => evidence < pruned && evidence < page,
        }
    };
    reads.slots.iter().filter(&mut is_stale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    /// A shard changes elsewhere, and comes back. Its old changes are behind one of another shard, which is not pruned.
    #[test]
    fn a_shard_that_was_away_has_no_old_changes() {
        let mut recent = Recent::new(10);
        let (ours, other) = (PageId::new(0, 0), PageId::new(0, 1));
        recent.note(other, shard(1), Version(1), [0].into_iter());
        recent.note(ours, shard(0), Version(1), [3, 4].into_iter());
        recent.forget_shard(shard(0));
        recent.prune(&[(shard(0), Version(7))].into_iter().collect());
        assert_eq!((recent.version(ours, 3), recent.slots, recent.order.len()), (None, 1, 1));
        assert_eq!(recent.version(other, 0), Some(Version(1)));
    }

    /// The changes that go along are the newest ones.
    #[test]
    fn a_shard_takes_its_changes_along() {
        let mut recent = Recent::new(10);
        let (one, two, other) = (PageId::new(0, 0), PageId::new(0, 2), PageId::new(0, 1));
        recent.note(one, shard(0), Version(4), [3, 4].into_iter());
        recent.note(other, shard(1), Version(9), [0].into_iter());
        recent.note(two, shard(0), Version(5), [1].into_iter());
        recent.note(one, shard(0), Version(6), [3].into_iter());
        let all = [((one, 4), Version(4)), ((two, 1), Version(5)), ((one, 3), Version(6))];
        let told = RecentChanges { shard: shard(0), pruned: Version::ZERO, changes: all.to_vec() };
        assert_eq!(recent.of_shard(shard(0), 3), told);
        let RecentChanges { pruned, changes: newest, .. } = recent.of_shard(shard(0), 1);
        assert_eq!((pruned, &newest[..]), (Version(5), &all[2..]));

        let mut next = Recent::new(10);
        next.note(one, shard(0), Version(2), [7].into_iter());
        next.forget_shard(shard(0));
        next.take_shard(shard(0), pruned, &newest);
        assert_eq!((next.pruned().of(shard(0)), next.version(one, 3)), (Version(5), Some(Version(6))));
        assert_eq!((next.version(one, 7), next.version(one, 4)), (None, None));
        next.forget_shard(shard(0));
        next.take_shard(shard(0), Version(8), &[]);
        assert_eq!((next.version(one, 3), next.slots), (None, 0));
    }

    /// Page `n` is of shard `n % 2`.
    fn shard(number: u32) -> Shard {
        Shard((number % 2) as u16)
    }

    proptest! {
        /// An answer about a slot is exact above `pruned`, and the list stays within its limit.
        #[test]
        fn is_exact_above_pruned(
            steps in proptest::collection::vec((0..4u32, proptest::collection::btree_set(0..6u16, 1..4), 0..20u64), 1..80),
            limit in 1..12usize,
        ) {
            let (mut recent, mut model, mut counts) = (Recent::new(limit), BTreeMap::new(), [0; 2]);
            for (number, slots, lag) in steps {
                let (page, shard) = (PageId::new(0, number), shard(number));
                let count = &mut counts[usize::from(shard.0)];
                *count += 1;
                let version = Version(*count);
                recent.note(page, shard, version, slots.iter().copied());
                model.extend(slots.into_iter().map(|slot| ((number, slot), version)));
                let mut through = Vector::new();
                through.raise(shard, Version(count.saturating_sub(lag)));
                recent.prune(&through);
                prop_assert!(recent.slots <= limit && recent.order.len() <= limit);
                for number in 0..4 {
                    let pruned = recent.pruned().of(self::shard(number));
                    let mut changed = SlotSet::new();
                    for slot in 0..6 {
                        let newest = model.get(&(number, slot)).copied();
                        let found = recent.version(PageId::new(0, number), slot);
                        prop_assert!(found == newest || (found.is_none() && newest.is_none_or(|at| at <= pruned)));
                        if newest.is_some_and(|at| at > pruned) { changed.insert(slot); }
                    }
                    prop_assert_eq!(recent.changed_after(PageId::new(0, number), pruned), changed);
                }
            }
        }
    }
}
