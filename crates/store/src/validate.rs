//! Is every slot that was read still the newest?
//!
//! A slot read with evidence `e` is current
//! 1. iff `e >=` its version in *recent*, if it is there;
//! 2. else iff `e >= pruned` or `e >=` the page's version: it did not change after `pruned`, so whoever has heard
//!    everything through there, or through the page's last change, has heard of its last change.
//!
//! A prepared transaction's writes stand in the way of who has read those slots. Its reads stand in nobody's way: on
//! one node the log's order is the order of the counts, so whoever comes after it in the log is serial after it. For
//! the same reason a read-only transaction is not hindered at all: it is serial before everything that has no count yet.

use crate::recent::Recent;
use alloc::vec::Vec;
use protocol::{CommitRequest, PageReads};
use smallvec::SmallVec;
use types::{Delta, Map, ObjectPage, PageId, Refusal, SlotNo, SlotSet, TxnId, Version};

/// The slots of one page that are stale, given the page's version.
pub(crate) fn stale_slots(reads: &PageReads, page: Version, recent: &Recent, prune_check: bool) -> SlotSet {
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

/// What one prepared transaction does to one page.
#[derive(Debug)]
struct Lock {
    txn: TxnId,
    writes: SlotSet,
    image_bytes: usize,
}

/// The pages that prepared transactions will change.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    pages: Map<PageId, SmallVec<[Lock; 1]>>,
}

impl Locks {
    /// The transaction is prepared: from here on its writes stand in the way of others.
    pub(crate) fn lock(&mut self, txn: TxnId, deltas: &[Delta]) {
        for delta in deltas {
            let lock = Lock { txn, writes: delta.slots(), image_bytes: image_bytes_bound(delta) };
            self.pages.entry(delta.page).or_default().push(lock);
        }
    }

    /// The transaction has its place.
    pub(crate) fn unlock(&mut self, txn: TxnId, deltas: &[Delta]) {
        for delta in deltas {
            let Some(locks) = self.pages.get_mut(&delta.page) else { continue };
            locks.retain(|lock| lock.txn != txn);
            if locks.is_empty() {
                self.pages.remove(&delta.page);
            }
        }
    }

    /// Whether a prepared transaction writes to the page.
    pub(crate) fn is_locked(&self, page: PageId) -> bool {
        self.pages.contains_key(&page)
    }

    /// Whether a prepared transaction writes what this one has read.
    pub(crate) fn conflict(&self, request: &CommitRequest) -> bool {
        !self.pages.is_empty()
            && request.reads.iter().any(|reads| {
                let locks = self.pages.get(&reads.page).map_or(&[][..], |locks| locks);
                locks.iter().any(|lock| lock.writes.intersects(&reads.slots))
            })
    }

    /// The most that prepared transactions will add to the page's image, in bytes.
    pub(crate) fn image_bytes_bound(&self, page: PageId) -> usize {
        self.pages.get(&page).map_or(0, |locks| locks.iter().map(|lock| lock.image_bytes).sum())
    }
}

/// The most that a delta adds to a page's image, in bytes: its values, and entries for all slots through its last.
pub(crate) fn image_bytes_bound(delta: &Delta) -> usize {
    let slots = delta.changes.iter().rev().find(|change| change.value.is_some());
    delta.value_bytes() + ObjectPage::cost(0) * slots.map_or(0, |change| usize::from(change.slot) + 1)
}

/// What validation says.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Everything that was read is current, and what is written fits.
    Valid,
    /// It is not to be, and this is why.
    Refused(Refusal),
    /// Whether what is written fits depends on this page's home image, which is not in memory.
    Await(PageId),
}

/// Pages with stale slots.
pub(crate) type Stale = Vec<(PageId, SlotSet)>;
