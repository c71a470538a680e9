//! Is every slot that was read still the newest?
//!
//! A slot read with evidence `e` is current
//! 1. iff `e >=` its version in *recent*, if it is there;
//! 2. else iff `e >= pruned` or `e >=` the page's version: it did not change after `pruned`, so a client that has heard
//!    everything through there, or through the page's last change, has learned of its last change.
//!
//! A prepared transaction's writes are in the way of a commit that has read those slots, which waits (see `turns`).
//!
//! In a store of one node its reads are not in the way of writers: the log's order is the order of the counts, so a
//! commit that comes after it in the log is serial after it. For the same reason a read-only transaction is not
//! hindered at all: it is serial before everything that has no count yet.
//!
//! With other nodes the order in which one master prepares two transactions and the order of their counts may differ,
//! and a prepared transaction may be acknowledged before it is applied here. So a prepared transaction's reads are in
//! the way of writers (**PrepareReads**), and a read-only transaction waits for its writes (**ReadersMeetPrepared**).
//!
//! A transaction that is decided and waits for earlier counts (`early`) keeps none waiting: those counts may belong to
//! transactions that wait for others. A read of what it writes is stale, as it will be when it is applied
//! (**WaitUndecided**).

use alloc::vec::Vec;
use messages::{CommitRequest, PageReads};
use smallvec::SmallVec;
use types::{Delta, Map, ObjectPage, PageId, Refusal, SlotSet, TxnId, Version};

/// The effect of one prepared transaction on one page.
#[derive(Debug)]
struct Lock {
    txn: TxnId,
    writes: SlotSet,
    image_bytes: usize,
    /// The version that the page will have, if that is decided and not applied.
    decided: Option<Version>,
}

/// The pages that prepared transactions will change, and what they have read in a store of several nodes.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    pages: Map<PageId, SmallVec<[Lock; 1]>>,
    reads: Map<PageId, SmallVec<[(TxnId, SlotSet); 1]>>,
}

impl Locks {
    /// The transaction is prepared: from here on its writes are in the way of others.
    pub(crate) fn lock(&mut self, txn: TxnId, deltas: &[Delta]) {
        for delta in deltas {
            let (writes, image_bytes) = (delta.slots(), image_bytes_bound(delta));
            let lock = Lock { txn, writes, image_bytes, decided: None };
            self.pages.entry(delta.page).or_default().push(lock);
        }
    }

    /// The transaction is prepared in a store of several nodes: its reads are in the way of writers.
    pub(crate) fn lock_reads(&mut self, txn: TxnId, reads: &[PageReads]) {
        for PageReads { page, slots, .. } in reads {
            self.reads.entry(*page).or_default().push((txn, slots.clone()));
        }
    }

    /// Its reads are no longer in the way of writers.
    pub(crate) fn unlock_reads(&mut self, txn: TxnId, reads: &[PageReads]) {
        if self.reads.is_empty() {
            return;
        }
        for PageReads { page, .. } in reads {
            let Some(locks) = self.reads.get_mut(page) else { continue };
            locks.retain(|(of, _)| *of != txn);
            if locks.is_empty() {
                self.reads.remove(page);
            }
        }
    }

    /// Whether a prepared transaction has read what this one writes.
    pub(crate) fn reads_conflict(&self, request: &CommitRequest) -> bool {
        !self.reads.is_empty()
            && request.writes.iter().any(|delta| {
                let locks = self.reads.get(&delta.page).map_or(&[][..], |locks| locks);
                let is_other =
                    |(txn, slots): &(TxnId, SlotSet)| *txn != request.txn && slots.intersects(&delta.slots());
                locks.iter().any(is_other)
            })
    }

    /// The transaction is decided, and will bring the page to this version.
    pub(crate) fn decide(&mut self, txn: TxnId, page: PageId, version: Version) {
        let locks = self.pages.get_mut(&page).into_iter().flatten();
        locks.filter(|lock| lock.txn == txn).for_each(|lock| lock.decided = Some(version));
    }

    /// The slots that were read and that a decided transaction is about to change.
    pub(crate) fn about_to_change(&self, reads: &PageReads) -> SlotSet {
        let locks = self.pages.get(&reads.page).map_or(&[][..], |locks| locks);
        let mut slots = SlotSet::new();
        for (lock, version) in locks.iter().filter_map(|lock| Some((lock, lock.decided?))) {
            let both = lock.writes.iter().filter(|&slot| reads.slots.contains(slot));
            slots.union_with(&both.filter(|&slot| reads.evidence_of(slot) < version).collect());
        }
        slots
    }

    /// The transaction has its count.
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

    /// The pages that prepared transactions write to, in order.
    pub(crate) fn pages(&self) -> Vec<PageId> {
        let mut pages: Vec<_> = self.pages.keys().copied().collect();
        pages.sort_unstable();
        pages
    }

    /// The prepared transactions that write to the page, and to which slots.
    pub(crate) fn on(&self, page: PageId) -> impl Iterator<Item = (TxnId, SlotSet)> + '_ {
        self.pages.get(&page).into_iter().flatten().map(|lock| (lock.txn, lock.writes.clone()))
    }

    /// Whether a prepared transaction that is not decided writes what this one has read.
    pub(crate) fn conflict(&self, request: &CommitRequest) -> bool {
        !self.pages.is_empty()
            && request.reads.iter().any(|reads| {
                let locks = self.pages.get(&reads.page).map_or(&[][..], |locks| locks);
                let is_other = |lock: &&Lock| lock.txn != request.txn && lock.decided.is_none();
                locks.iter().filter(is_other).any(|lock| lock.writes.intersects(&reads.slots))
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

/// The verdict of validation.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Everything that was read is current, and what is written fits.
    Valid,
    /// It is not to be, and this is why.
    Refused(Refusal),
    /// It has read what a prepared transaction writes.
    Met,
    /// Whether what is written fits depends on this page's home image, which is not in memory.
    Await(PageId),
}

/// Pages with stale slots.
pub(crate) type Stale = Vec<(PageId, SlotSet)>;
