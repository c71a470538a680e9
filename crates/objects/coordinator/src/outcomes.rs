//! Exactly once: what became of each transaction, for as long as its client may ask.
//!
//! 1. A committed transaction is answered with the same outcome however often it is sent.
//! 2. A refused one stays refused: its client may have moved and had the answer on its new path when a copy arrives on
//!    the old one. A change that made a read stale does so for ever, and a copy is found stale again; every other
//!    refusal is remembered, though not over a restart: after that the copies that were sent before have lapsed. The
//!    writes of a copy are not compared with those that were committed, which are not kept. No client of ours sends
//!    another request under the same identity, and one that does is told the outcome of the first. That deceives its
//!    sender alone: the invalidations of the first leave before such an answer, so a redirector that has passed the
//!    request on has learned of its count, and does not take it for what was written (**ReplyAhead**).
//! 3. An outcome that is forgotten before its client had it raises `forgotten`. A transaction whose evidence does not
//!    exclude that it has committed at or below those counts is answered *unknown*, never *refused*, and stays so
//!    answered like a refused one. A copy that has lapsed is not told that: it says so of all copies, and the next one
//!    may commit.

use crate::ClientOutcomes;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use messages::{Advance, CommitRequest, Outcome};
use types::{ClientId, Limits, Map, Sharding, TxnId, Vector};

#[derive(Debug, Default)]
struct Remembered {
    answered: u64,
    committed: BTreeMap<u64, Vec<Advance>>,
    pages: usize,
    /// The answers to requests that were not committed, and of which a copy might commit.
    refused: BTreeMap<u64, Outcome>,
}

impl Remembered {
    fn forget_answered(&mut self, answered: u64) {
        if answered > self.answered {
            self.answered = answered;
            while let Some(first) = self.committed.first_entry()
                && *first.key() < answered
            {
                self.pages -= first.remove().len();
            }
            self.refused = self.refused.split_off(&answered);
        }
    }
}

/// The outcomes of all clients.
#[derive(Debug)]
pub(crate) struct Outcomes {
    clients: Map<ClientId, Remembered>,
    forgotten: Vector,
    sharding: Sharding,
    limits: Limits,
}

impl Outcomes {
    /// Goes on with what the last checkpoint holds.
    pub(crate) fn restore(
        outcomes: Vec<ClientOutcomes>,
        forgotten: Vector,
        sharding: Sharding,
        limits: Limits,
    ) -> Self {
        let clients = outcomes.into_iter().map(|of| {
            let pages = of.committed.iter().map(|(_, advances)| advances.len()).sum();
            let committed = of.committed.into_iter().collect();
            (of.client, Remembered { answered: of.answered, committed, pages, ..Remembered::default() })
        });
        Self { clients: clients.collect(), forgotten, sharding, limits }
    }

    /// The outcome of a transaction, if it is known.
    pub(crate) fn get(&self, txn: TxnId) -> Option<Outcome> {
        let of = self.clients.get(&txn.client)?;
        if let Some(pages) = of.committed.get(&txn.number) {
            return Some(Outcome::Committed { pages: pages.clone() });
        }
        let refused = of.refused.get(&txn.number).cloned();
        refused.or_else(|| (txn.number < of.answered).then_some(Outcome::Unknown))
    }

    /// The client will never ask for a transaction below this number.
    pub(crate) fn answered(&mut self, client: ClientId, answered: u64) {
        if let Some(of) = self.clients.get_mut(&client) {
            of.forget_answered(answered);
        }
    }

    /// Whether one more outcome of this client can be remembered.
    pub(crate) fn has_room(&self, client: ClientId, pages: usize) -> bool {
        let Limits { outcomes_per_client, outcome_pages_per_client, .. } = self.limits;
        self.clients
            .get(&client)
            .is_none_or(|of| of.committed.len() < outcomes_per_client && of.pages + pages <= outcome_pages_per_client)
    }

    /// The transaction has committed.
    pub(crate) fn remember(&mut self, txn: TxnId, answered: u64, advances: Vec<Advance>) {
        let of = self.clients.entry(txn.client).or_default();
        of.forget_answered(answered);
        of.pages += advances.len();
        of.committed.insert(txn.number, advances);
    }

    /// The request was answered so, and a copy of it might commit. A client with more of these than it may have
    /// outstanding is not one of ours, and its oldest are forgotten.
    pub(crate) fn remember_refused(&mut self, request: &CommitRequest, outcome: &Outcome) {
        let of = self.clients.entry(request.txn.client).or_default();
        of.forget_answered(request.answered);
        of.refused.insert(request.txn.number, outcome.clone());
        if of.refused.len() > self.limits.outcomes_per_client {
            of.refused.pop_first();
        }
    }

    /// The client is gone for good.
    pub(crate) fn forget(&mut self, client: ClientId) {
        let Some(of) = self.clients.remove(&client) else { return };
        for advance in of.committed.values().flatten() {
            self.forgotten.raise(self.sharding.of(advance.page), advance.version);
        }
    }

    /// Whether the request may be a copy of one that committed and was forgotten: a commit moves the pages that it
    /// writes beyond the evidence that it came with.
    pub(crate) fn may_have_forgotten(&self, request: &CommitRequest) -> bool {
        !request.writes.is_empty()
            && request
                .reads
                .iter()
                .filter(|reads| request.writes.binary_search_by_key(&reads.page, |delta| delta.page).is_ok())
                .all(|reads| reads.evidence < self.forgotten.of(self.sharding.of(reads.page)))
    }

    /// The clients of whom something is known.
    pub(crate) fn clients(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.clients.keys().copied()
    }

    /// The highest counts of the outcomes that were forgotten before anyone asked for them.
    pub(crate) fn forgotten(&self) -> &Vector {
        &self.forgotten
    }

    /// Everything, as the home keeps it.
    pub(crate) fn to_checkpoint(&self) -> Vec<ClientOutcomes> {
        let of = |(&client, of): (&ClientId, &Remembered)| ClientOutcomes {
            client,
            answered: of.answered,
            committed: of.committed.iter().map(|(&number, pages)| (number, pages.clone())).collect(),
        };
        self.clients.iter().map(of).collect()
    }
}
