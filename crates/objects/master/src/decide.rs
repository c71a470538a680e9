//! A transaction has committed: it is applied, and the holders of what it changes are told.

use crate::Master;
use crate::outputs::Output;
use crate::pages::Prepared;
use alloc::format;
use alloc::vec::Vec;
use machine::Goodbye;
use messages::{Abandoned, Advance, Decide, Invalidation, Release};
use smallvec::SmallVec;
use types::{NodeId, Rule, SessionId, Time, TxnId, Vector};

impl Master {
    /// A transaction that was prepared has committed, says the coordinator at this node. It is applied when all that
    /// come before it are. Every holder of the changed pages is told, and every watcher, but for the sessions to which
    /// the reply stands for the invalidation: these hear all earlier ones first.
    ///
    /// # Errors
    /// If a count is not above the last one that was applied, which ends the session of its coordinator.
    pub fn decide(
        &mut self,
        now: Time,
        coordinator: NodeId,
        decide: Decide,
        replied: SmallVec<[SessionId; 1]>,
    ) -> Result<(), Goodbye> {
        let Decide { txn, counts: all } = decide;
        let Some(prepared) = self.pages.undecided_txn(txn) else {
            self.acknowledge_again(coordinator, txn);
            return Ok(());
        };
        if prepared.writes().next().is_none() {
            self.release(now, Release { txn });
            return Ok(());
        }
        let (applied, mut counts) = (self.pages.applied(), Vector::new());
        for shard in prepared.writes().map(|delta| self.config.sharding.of(delta.page)) {
            if all.of(shard) <= applied.of(shard) {
                return Err(Goodbye::malformed(format!("expected counts of {txn:?} above {applied}, got {all}")));
            }
            counts.raise(shard, all.of(shard));
        }
        let may_go = self.is_next(&counts) || self.config.broken.is(Rule::ApplyInOrder);
        if let Some(prepared) = self.pages.prepared_txn(txn) {
            prepared.decided = Some((counts.clone(), replied));
        }
        let mut is_replied = false;
        if may_go {
            is_replied = self.apply(now, txn);
        } else {
            self.comes_early(txn, &counts);
        }
        if !is_replied {
            self.apply_early(now);
        }
        Ok(())
    }

    /// A decision is here already, or the transaction is not prepared. Then it is applied, or was prepared in an
    /// earlier opening, and this one has it, or gets it, from the log (**AcknowledgeAgain**).
    fn acknowledge_again(&mut self, coordinator: NodeId, txn: TxnId) {
        if self.pages.prepared_txn(txn).is_none() && !self.config.broken.is(Rule::AcknowledgeAgain) {
            self.out.push(Output::Applied(coordinator, txn, Vec::new()));
        }
    }

    /// A transaction that is prepared here leaves nothing.
    pub fn release(&mut self, now: Time, release: Release) {
        let Release { txn } = release;
        if self.pages.is_undecided(txn) {
            let prepared = self.pages.unprepare(txn);
            self.leases.forget(txn);
            if let Some(prepared) = prepared {
                self.tell_abandoned(txn, &prepared);
            }
            self.turns.make_way();
            self.apply_early(now);
        }
    }

    /// Watchers learn that a transaction changes nothing here: what they have marked for it would stay marked.
    fn tell_abandoned(&mut self, txn: TxnId, prepared: &Prepared) {
        let is_watched = prepared.writes().any(|delta| self.is_leased(delta.page));
        if is_watched && !self.config.broken.is(Rule::TellAbandoned) {
            for watcher in self.sessions.watchers().to_vec() {
                self.reply(watcher, Abandoned { txn });
            }
        }
    }

    /// Applies transactions that have waited for earlier counts, up to the next one whose reply stands for its
    /// invalidation: that reply leaves before its session learns any later count. Returns whether there was one.
    pub(crate) fn apply_early(&mut self, now: Time) -> bool {
        while let Some(txn) = self.take_next() {
            if self.apply(now, txn) {
                return true;
            }
        }
        false
    }

    /// Applies a transaction. Returns whether its reply stands for its invalidation to some session.
    fn apply(&mut self, now: Time, txn: TxnId) -> bool {
        self.turns.make_way();
        let Some(prepared) = self.pages.unprepare(txn) else { return false };
        let Some((counts, replied)) = &prepared.decided else { return false };
        for &(shard, _) in counts.counts() {
            self.moves.has_applied(shard);
        }
        for &session in replied {
            self.flush_for_reply(session);
        }
        let advances = self.pages.advances(counts, prepared.writes());
        self.pages.apply(prepared.position, counts, prepared.writes());
        self.writeback.has_committed(now);
        self.fetches.has_applied();
        self.distribute(now, txn, &prepared, &advances, replied);
        self.out.push(Output::Applied(prepared.coordinator, txn, advances));
        !replied.is_empty()
    }

    fn distribute(&mut self, now: Time, txn: TxnId, prepared: &Prepared, advances: &[Advance], replied: &[SessionId]) {
        for (&Advance { page, prev, version }, delta) in advances.iter().zip(prepared.writes()) {
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
        for delta in prepared.writes() {
            self.page_has_changed(delta.page);
        }
    }
}
