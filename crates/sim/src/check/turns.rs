//! Who waits its turn at the store is not overtaken: nothing that came later and writes what it has read is prepared
//! meanwhile.

use crate::violation::{Check, ensure};
use protocol::CommitRequest;
use std::collections::BTreeSet;
use store::Store;
use types::{PageId, SlotSet, TxnId};

/// A commit that waits its turn, and what it has read.
#[derive(Debug)]
struct Waiter {
    txn: TxnId,
    reads: Vec<(PageId, SlotSet)>,
}

impl Waiter {
    fn new(request: &CommitRequest) -> Self {
        let reads = request.reads.iter().map(|reads| (reads.page, reads.slots.clone()));
        Self { txn: request.txn, reads: reads.collect() }
    }

    fn has_read(&self, page: PageId, slots: &SlotSet) -> bool {
        self.reads.iter().any(|(read, seen)| *read == page && seen.intersects(slots))
    }
}

/// Who waited and what was prepared when the store was looked at last.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// In the order in which they came.
    waiting: Vec<Waiter>,
    prepared: BTreeSet<TxnId>,
}

impl Turns {
    /// Holds what has been prepared since against those that waited before it then, and wait still.
    pub(crate) fn look(&mut self, store: &Store) -> Check {
        let waiting: Vec<_> = store.in_turn().map(Waiter::new).collect();
        let waits_still = |waiter: &&Waiter| waiting.iter().any(|still| still.txn == waiter.txn);
        let mut prepared = BTreeSet::new();
        for (page, txn, writes) in store.prepared() {
            prepared.insert(txn);
            if self.prepared.contains(&txn) {
                continue;
            }
            let mut before = self.waiting.iter().take_while(|waiter| waiter.txn != txn).filter(waits_still);
            let overtaken = before.find(|waiter| waiter.has_read(page, &writes)).map(|waiter| waiter.txn);
            ensure(overtaken.is_none(), "turns", || {
                format!("{txn:?} is prepared and writes what {overtaken:?} has read on {page}, which waits for longer")
            })?;
        }
        (self.waiting, self.prepared) = (waiting, prepared);
        Ok(())
    }
}
