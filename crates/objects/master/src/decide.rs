//! A transaction has committed: it is applied, and the holders of what it changes are told.

use crate::Master;
use crate::outputs::Output;
use messages::{Advance, Decide, Invalidation};
use types::{Delta, SessionId, Time, TxnId};

impl Master {
    /// Applies a transaction that was prepared. Every holder of the changed pages is told, and every watcher, but for
    /// the sessions to which the reply stands for the invalidation: these hear all earlier ones first.
    pub fn decide(&mut self, now: Time, decide: Decide, replied: &[SessionId]) {
        let Decide { txn, counts } = decide;
        self.turns.make_way();
        let Some(prepared) = self.pages.decided(txn) else { return };
        for &session in replied {
            self.flush_for_reply(session);
        }
        let deltas = &prepared.request.writes;
        let advances = self.pages.advances(&counts, deltas);
        self.pages.apply(prepared.position, &counts, deltas);
        self.writeback.has_committed(now);
        self.fetches.has_applied();
        self.distribute(now, txn, deltas, &advances, replied);
        self.out.push(Output::Applied(txn, advances));
    }

    fn distribute(&mut self, now: Time, txn: TxnId, deltas: &[Delta], advances: &[Advance], replied: &[SessionId]) {
        for (&Advance { page, prev, version }, delta) in advances.iter().zip(deltas) {
            let slots = delta.slots();
            for &holder in self.pages.holders(page) {
                if !replied.contains(&holder) {
                    // A holder with a lease should have the new values at hand as well, and so is one that waits with a
                    // commit that they make stale, and will come again; others may never want them.
                    let wants_data = self.has_lease_on(holder, page) || self.turns.waits_for(holder, page, &slots);
                    let data = wants_data.then(|| delta.changes.clone());
                    let invalidation = Invalidation { page, prev, version, slots: slots.clone(), txn, data };
                    self.invalidations.push(now, holder, invalidation);
                }
            }
            let is_watched = self.is_leased(page);
            for &watcher in self.sessions.watchers().iter().filter(|_| is_watched) {
                let invalidation = Invalidation { page, prev, version, slots: slots.clone(), txn, data: None };
                self.invalidations.push(now, watcher, invalidation);
            }
        }
        for delta in deltas {
            self.page_has_changed(delta.page);
        }
    }
}
