//! The questions before a commit's first phase: is it sound, is it new?
//!
//! 1. A transaction whose outcome is known, or that is under way, is answered and not begun again. Otherwise a copy
//!    that was sent to an earlier incarnation is refused as `lapsed`: that incarnation may have refused another copy
//!    since.
//! 2. A request under the identity of a transaction under way, with other writes, comes from no client of ours. Its
//!    answer is `unknown`. The redirector that forwarded it would take the outcome for that of its own writes, and tell
//!    its members so (**SameWrites**).
//! 3. Requests that are not logged yet are bounded in bytes, whatever they wait for.

use crate::under_way::{Stage, UnderWay, memory_bytes};
use crate::{Asker, Coordinator, Hears};
use alloc::sync::Arc;
use messages::{CommitRequest, Outcome};
use smallvec::smallvec;
use types::limits::{TXN_BYTES_MAX, TXN_PAGES_MAX};
use types::{Delta, Refusal, Rule, SessionId, TxnId, Vector};

impl Coordinator {
    /// A session wants a transaction committed. Returns it if it is new and writes: then it waits for room in the log,
    /// until [`Coordinator::reserved`] or [`Coordinator::not_reserved`] is called.
    #[must_use]
    pub fn commit(&mut self, from: SessionId, request: CommitRequest) -> Option<Arc<CommitRequest>> {
        self.outcomes.answered(request.txn.client, request.answered);
        let asker = Asker { session: from, knows_writes: true };
        if self.is_no_copy(&request) {
            self.reply(from, request.txn, Outcome::Unknown, Hears::Worthwhile);
        } else if request.writes.is_empty() {
            // It leaves no trace, so a copy is judged again, unless the first one still is.
            if !self.answer_also(asker, request.txn) {
                let txn = request.txn;
                self.begin(asker, request, Stage::Preparing { is_withdrawn: false });
                self.ask_masters(txn);
            }
        } else if !self.answer_again(asker, request.txn) {
            match self.check(from, &request) {
                Ok(()) => return Some(self.begin(asker, request, Stage::Reserving)),
                Err(refusal) => {
                    let outcome = self.judge_refused(&request, refusal);
                    self.count(&outcome);
                    self.reply(from, request.txn, outcome, Hears::Worthwhile);
                }
            }
        }
        None
    }

    /// A session asks for the outcome of a transaction.
    pub fn ask_outcome(&mut self, asker: Asker, txn: TxnId) {
        if !self.answer_again(asker, txn) {
            self.reply(asker.session, txn, Outcome::Unknown, Hears::Worthwhile);
        }
    }

    /// Whether a transaction of this identity is under way that writes something else.
    fn is_no_copy(&self, request: &CommitRequest) -> bool {
        let under_way = self.under_way.get(&request.txn);
        let differs = under_way.is_some_and(|under_way| under_way.request.writes != request.writes);
        differs && !self.config.broken.is(Rule::SameWrites)
    }

    /// Answers for a transaction whose outcome is known, or will be. Returns whether it is one of these.
    fn answer_again(&mut self, asker: Asker, txn: TxnId) -> bool {
        let known = self.outcomes.get(txn).filter(|_| !self.config.broken.is(Rule::OneOutcome));
        if let Some(outcome) = known {
            self.reply(asker.session, txn, outcome, Hears::Worthwhile);
            return true;
        }
        self.tell_decided(asker, txn) || self.answer_also(asker, txn)
    }

    fn check(&self, from: SessionId, request: &CommitRequest) -> Result<(), Refusal> {
        let Self { config, .. } = self;
        if request.incarnation < config.incarnation && !config.broken.is(Rule::LapseWithStore) {
            return Err(Refusal::Lapsed(config.incarnation));
        }
        check_size(request)?;
        if self.closing {
            return Err(Refusal::Closing);
        }
        let can_remember = self.outcomes.has_room(request.txn.client, request.writes.len());
        let too_many_wait = self.unlogged_bytes > config.unlogged_bytes_max;
        if self.outstanding(from) >= config.limits.commits_per_session || !can_remember || too_many_wait {
            return Err(Refusal::TooMany);
        }
        Ok(())
    }

    /// Begins with a transaction.
    fn begin(&mut self, asker: Asker, request: CommitRequest, stage: Stage) -> Arc<CommitRequest> {
        let (bytes, request) = (memory_bytes(&request), Arc::new(request));
        self.unlogged_bytes += bytes;
        self.charge(asker.session, 1);
        let under_way = UnderWay {
            bytes,
            stage,
            parts: self.masters.at_once(&request),
            floor: Vector::new(),
            askers: smallvec![asker],
            request: request.clone(),
        };
        self.under_way.insert(request.txn, under_way);
        request
    }

    /// There is room in the log for a transaction.
    pub fn reserved(&mut self, txn: TxnId) {
        let is_meant = |of: &&mut UnderWay| of.stage == Stage::Reserving;
        if let Some(under_way) = self.under_way.get_mut(&txn).filter(is_meant) {
            under_way.stage = Stage::Preparing { is_withdrawn: false };
            self.ask_masters(txn);
        }
    }

    /// There will be no room in the log for a transaction.
    pub fn not_reserved(&mut self, txn: TxnId, why: Refusal) {
        if let Some(under_way) = self.under_way.get(&txn).filter(|of| of.stage == Stage::Reserving) {
            let request = under_way.request.clone();
            let outcome = self.judge_refused(&request, why);
            self.end(txn, &outcome);
        }
    }
}

/// Refuses a transaction that is larger than one may be.
fn check_size(request: &CommitRequest) -> Result<(), Refusal> {
    let pages = request.reads.len();
    let bytes: usize = request.writes.iter().map(Delta::value_bytes).sum();
    if pages > TXN_PAGES_MAX || bytes > TXN_BYTES_MAX { Err(Refusal::TooLarge) } else { Ok(()) }
}
