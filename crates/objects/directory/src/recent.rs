//! *Recent*: the slots that changed after `pruned`, with their versions, and what they say of a transaction's reads.
//!
//! 1. Every slot that changed after `pruned` is here with its newest version.
//! 2. Nothing here is at or below `pruned`.
//! 3. It never outgrows its limit: `pruned` is forced forward instead, and a laggard pays with aborts.

use alloc::collections::VecDeque;
use messages::PageReads;
use smallvec::SmallVec;
use types::{Map, PageId, SlotNo, SlotSet, Version};

/// The changed slots of one page, in slot order.
type Slots = SmallVec<[(SlotNo, Version); 2]>;

/// The newest versions of what changed lately.
#[derive(Debug)]
pub struct Recent {
    pages: Map<PageId, Slots>,
    /// One entry for each change of a page, in count order: what pruning walks along.
    order: VecDeque<(Version, PageId)>,
    slots: usize,
    limit: usize,
    pruned: Version,
}

impl Recent {
    /// Remembers so many changed slots at most.
    pub fn new(limit: usize) -> Self {
        Self { pages: Map::default(), order: VecDeque::new(), slots: 0, limit, pruned: Version::ZERO }
    }

    /// Nothing at or below this count is remembered.
    pub fn pruned(&self) -> Version {
        self.pruned
    }

    /// The version of `slot` if it changed after `pruned`.
    pub fn version(&self, page: PageId, slot: SlotNo) -> Option<Version> {
        let slots = self.pages.get(&page)?;
        slots.binary_search_by_key(&slot, |(s, _)| *s).ok().map(|at| slots[at].1)
    }

    /// The slots of `page` that changed after `known`, which is not below `pruned`.
    pub fn changed_after(&self, page: PageId, known: Version) -> SlotSet {
        debug_assert!(known >= self.pruned);
        let slots = self.pages.get(&page).map_or(&[][..], |slots| slots);
        slots.iter().filter(|(_, version)| *version > known).map(|(slot, _)| *slot).collect()
    }

    /// `changed` slots of `page` are at `version`, as is told in the order of the counts, but perhaps twice.
    pub fn note(&mut self, page: PageId, version: Version, changed: impl Iterator<Item = SlotNo>) {
        if version <= self.pruned {
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
        self.order.push_back((version, page));
        while self.slots.max(self.order.len()) > self.limit {
            let oldest = self.order.front().expect("what outgrew its limit is not empty").0;
            self.prune(oldest);
        }
    }

    /// Forgets everything through `through`.
    pub fn prune(&mut self, through: Version) {
        self.pruned = self.pruned.max(through);
        while self.order.front().is_some_and(|(version, _)| *version <= through) {
            let (_, page) = self.order.pop_front().expect("just seen");
            let Some(slots) = self.pages.get_mut(&page) else { continue };
            let before = slots.len();
            slots.retain(|(_, version)| *version > through);
            self.slots -= before - slots.len();
            if slots.is_empty() {
                self.pages.remove(&page);
            }
        }
    }
}

/// The slots of one page that are stale, given the page's version.
pub fn stale_slots(reads: &PageReads, page: Version, recent: &Recent, prune_check: bool) -> SlotSet {
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
            None => prune_check && evidence < recent.pruned() && evidence < page,
        }
    };
    reads.slots.iter().filter(&mut is_stale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        /// An answer about a slot is exact above `pruned` and nothing below, and the list stays within its limit.
        #[test]
        fn is_exact_above_pruned(
            steps in proptest::collection::vec((0..4u32, proptest::collection::btree_set(0..6u16, 1..4), 0..20u64), 1..80),
            limit in 1..12usize,
        ) {
            let (mut recent, mut model) = (Recent::new(limit), BTreeMap::new());
            for (i, (number, slots, lag)) in steps.into_iter().enumerate() {
                let (version, page) = (Version(i as u64 + 1), PageId::new(0, number));
                recent.note(page, version, slots.iter().copied());
                model.extend(slots.into_iter().map(|slot| ((number, slot), version)));
                recent.prune(Version(version.0.saturating_sub(lag)));
                prop_assert!(recent.slots <= limit && recent.order.len() <= limit);
                for number in 0..4 {
                    let mut changed = SlotSet::new();
                    for slot in 0..6 {
                        let newest = model.get(&(number, slot)).copied().filter(|v| *v > recent.pruned());
                        prop_assert_eq!(recent.version(PageId::new(0, number), slot), newest);
                        if newest.is_some() { changed.insert(slot); }
                    }
                    prop_assert_eq!(recent.changed_after(PageId::new(0, number), recent.pruned()), changed);
                }
            }
        }
    }
}
