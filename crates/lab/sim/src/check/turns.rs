//! A commit that waits its turn at the store is not overtaken, nor is a client that should come for it: no commit that
//! came later and writes what it has read is prepared in the meantime.

use crate::violation::{Check, ensure};
use std::collections::BTreeSet;
use store::{InTurn, Store};
use types::{ClientId, PageId, SlotSet, Time, TxnId};

/// A commit that waits its turn, and its reads.
#[derive(Debug)]
struct Waiter {
    client: ClientId,
    /// Its commit; `None` if that should come.
    txn: Option<TxnId>,
    reads: Vec<(PageId, SlotSet)>,
    /// Until when its place is kept, if its commit should come.
    until: Option<Time>,
}

impl Waiter {
    fn new(waits: InTurn<'_>) -> Self {
        match waits {
            InTurn::Commit(request) => {
                let reads = request.reads.iter().map(|reads| (reads.page, reads.slots.clone())).collect();
                Self { client: request.txn.client, txn: Some(request.txn), reads, until: None }
            }
            InTurn::Kept(client, slots, until) => Self { client, txn: None, reads: slots.to_vec(), until: Some(until) },
        }
    }

    /// The identity of its place, also beside one that its client has given up and been given again since.
    fn place(&self) -> (ClientId, Option<TxnId>, Option<Time>) {
        (self.client, self.txn, self.until)
    }

    /// Whether this is the transaction's own place.
    fn is_of(&self, txn: TxnId) -> bool {
        self.client == txn.client && self.txn.is_none_or(|own| own == txn)
    }

    fn has_read(&self, page: PageId, slots: &SlotSet) -> bool {
        self.reads.iter().any(|(read, seen)| *read == page && seen.intersects(slots))
    }
}

/// The commits that waited and those that were prepared when the store was looked at last.
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
        // A place that is kept may stand for other slots by now: its client has lost once more.
        let waits_still = |waiter: &Waiter, page, writes: &SlotSet| {
            let mut same = waiting.iter().filter(|still| still.place() == waiter.place());
            same.any(|still| still.has_read(page, writes))
        };
        let mut prepared = BTreeSet::new();
        for (page, txn, writes) in store.prepared() {
            prepared.insert(txn);
            if self.prepared.contains(&txn) {
                continue;
            }
            let mut before = self.waiting.iter().take_while(|waiter| !waiter.is_of(txn));
            let overtaken = before.find(|waiter| waiter.has_read(page, &writes) && waits_still(waiter, page, &writes));
            ensure(overtaken.is_none(), "turns", || {
                format!("{txn:?} is prepared and writes what {overtaken:?}, in line for longer, has read on {page}")
            })?;
        }
        (self.waiting, self.prepared) = (waiting, prepared);
        Ok(())
    }
}
