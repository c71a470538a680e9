//! Is every slot that was read still the newest?
//!
//! A slot read with evidence `e` is current
//! 1. iff `e >=` its version in *recent*, if it is there;
//! 2. else iff `e >= pruned` or `e >=` the page's version: it did not change after `pruned`, so a client that has heard
//!    everything through there, or through the page's last change, has learned of its last change.
//!
//! A prepared transaction's writes are in the way of a commit that has read those slots, which waits (see `turns`).
//! Its reads are in nobody's way: on one node the log's order is the order of the counts, so a commit that comes
//! after it in the log is serial after it. For the same reason a read-only transaction is not hindered at all: it is
//! serial before everything that has no count yet.

use alloc::vec::Vec;
use messages::CommitRequest;
use smallvec::SmallVec;
use types::{Delta, Map, ObjectPage, PageId, Refusal, SlotSet, TxnId};

/// The effect of one prepared transaction on one page.
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
    /// The transaction is prepared: from here on its writes are in the way of others.
    pub(crate) fn lock(&mut self, txn: TxnId, deltas: &[Delta]) {
        for delta in deltas {
            let lock = Lock { txn, writes: delta.slots(), image_bytes: image_bytes_bound(delta) };
            self.pages.entry(delta.page).or_default().push(lock);
        }
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
