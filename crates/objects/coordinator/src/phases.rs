//! The phases of a commit.
//!
//! 1. *Prepare*: the master judges it. Prepared, its writes are in others' way until it is decided.
//! 2. *Sequence*: it gets its count.
//! 3. *Log*: its record goes to the log with the count. That this is durable is the commit point: it is applied, and its
//!    count shown to any other machine, no earlier (**LogBeforeReply**).
//! 4. *Decide*: the master applies it and tells every holder of the changed pages, but for those that get the reply.
//! 5. *Reply*: it is preceded by the invalidations of all earlier counts and stands for the invalidation of its own. To
//!    a redirector that has only asked for the outcome it stands for nothing, and comes behind that invalidation too:
//!    the member that gets the answer may ask its redirector for a page that it has written to (**HearBeforeAnswer**).

use crate::admission::memory_bytes;
use crate::{Asker, CommitRecord, Coordinator, Hears, Output, UnderWay};
use alloc::vec::Vec;
use messages::{Advance, CommitRequest, Decide, Outcome, Placed, Sequence, Vote};
use smallvec::SmallVec;
use types::{Refusal, Rule, Shard, TxnId, Version};

/// How far a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The master has it.
    Preparing,
    /// The sequencer has it.
    Sequencing,
    /// The log has it, with this count.
    Logging(Version),
    /// It is durable, and the master applies it.
    Deciding,
}

impl Coordinator {
    /// A master has judged a transaction.
    pub fn voted(&mut self, vote: Vote) {
        let Vote { txn, verdict } = vote;
        let Some(under_way) = self.under_way.get_mut(&txn).filter(|of| of.stage == Stage::Preparing) else { return };
        if under_way.request.writes.is_empty() {
            let outcome = verdict.map_or_else(Outcome::Refused, |()| Outcome::Committed { pages: Vec::new() });
            self.count(&outcome);
            return self.end(txn, |_, _| outcome);
        }
        match verdict {
            Err(refusal) => self.end(txn, |coordinator, request| coordinator.judge_refused(request, refusal)),
            Ok(()) => {
                let Some(under_way) = self.under_way.get_mut(&txn) else { return };
                under_way.stage = Stage::Sequencing;
                let mut shards: SmallVec<[Shard; 1]> = SmallVec::new();
                for shard in under_way.request.writes.iter().map(|delta| delta.page.shard()) {
                    if let Err(at) = shards.binary_search(&shard) {
                        shards.insert(at, shard);
                    }
                }
                self.out.push_back(Output::Sequence(Sequence { txn, shards }));
            }
        }
    }

    /// The sequencer has given a transaction its place.
    pub fn placed(&mut self, placed: &Placed) {
        let txn = placed.txn;
        let Some(under_way) = self.under_way.get_mut(&txn).filter(|of| of.stage == Stage::Sequencing) else { return };
        let count = placed.counts.of(Shard::ONLY);
        under_way.stage = Stage::Logging(count);
        let request = &under_way.request;
        self.unlogged_bytes -= memory_bytes(request);
        let record = CommitRecord { txn, count, answered: request.answered, deltas: request.writes.clone() };
        self.out.push_back(Output::Log(record));
    }

    /// A transaction's record is durable: it has committed.
    pub fn durable(&mut self, txn: TxnId) {
        let Some(under_way) = self.under_way.get_mut(&txn) else { return };
        let Stage::Logging(count) = under_way.stage else { return };
        under_way.stage = Stage::Deciding;
        // A session that has ended is told nothing, and what replaced it learns of the commit like anyone else.
        let is_replied = |asker: &&Asker| asker.knows_writes && self.sessions.contains_key(&asker.session);
        let replied = under_way.askers.iter().filter(is_replied).map(|asker| asker.session).collect();
        self.out.push_back(Output::Decide(Decide { txn, count }, replied));
    }

    /// The master has applied a transaction, which has moved its pages so.
    pub fn applied(&mut self, txn: TxnId, advances: Vec<Advance>) {
        let Some(UnderWay { request, askers, .. }) = self.under_way.remove(&txn) else { return };
        self.stats.commits += 1;
        let hears_first = !self.config.broken.is(Rule::HearBeforeAnswer);
        for &Asker { session, knows_writes } in &askers {
            self.charge(session, -1);
            if (knows_writes || !hears_first) && self.sessions.contains_key(&session) {
                self.reply(session, txn, Outcome::Committed { pages: advances.clone() }, Hears::Earlier);
            }
        }
        self.outcomes.remember(txn, request.answered, advances);
        self.out.push_back(Output::Keep(txn.client));
        for asker in askers.iter().filter(|asker| !asker.knows_writes && hears_first) {
            let Some(outcome) = self.outcomes.get(txn) else { return };
            self.reply(asker.session, txn, outcome, Hears::All);
        }
    }

    /// Gives up a transaction that its master has not prepared, if all sessions have ended that waited for it: its
    /// client sends it again. Returns whether it did.
    pub fn give_up(&mut self, txn: TxnId) -> bool {
        let is_given_up = !self.is_awaited(txn);
        if is_given_up && let Some(UnderWay { request, .. }) = self.under_way.remove(&txn) {
            self.unlogged_bytes -= memory_bytes(&request);
        }
        is_given_up
    }

    /// Ends a transaction that is not prepared, with this outcome.
    fn end(&mut self, txn: TxnId, outcome: impl FnOnce(&mut Self, &CommitRequest) -> Outcome) {
        let Some(UnderWay { request, askers, .. }) = self.under_way.remove(&txn) else { return };
        self.unlogged_bytes -= memory_bytes(&request);
        let outcome = outcome(self, &request);
        for asker in askers {
            self.charge(asker.session, -1);
            self.reply(asker.session, txn, outcome.clone(), Hears::Worthwhile);
        }
    }

    /// A request that cannot commit now is refused, unless it may be a copy of one that committed and was forgotten.
    /// Either answer stands for every copy, but that this one has lapsed says nothing of the next, which is judged when
    /// it comes.
    pub(crate) fn judge_refused(&mut self, request: &CommitRequest, refusal: Refusal) -> Outcome {
        let broken = self.config.broken;
        // A stale request stays so, and a lapsed one may be sent again.
        let might_commit = !matches!(refusal, Refusal::Stale(_) | Refusal::Lapsed(_));
        let may_have_committed = self.outcomes.may_have_forgotten(request) && !broken.is(Rule::AnswerUnknown);
        let says_lapsed = matches!(refusal, Refusal::Lapsed(_)) && !broken.is(Rule::LapseAlone);
        let is_unknown = may_have_committed && !says_lapsed;
        let outcome = if is_unknown { Outcome::Unknown } else { Outcome::Refused(refusal) };
        if !broken.is(Rule::StayRefused) {
            if might_commit {
                self.outcomes.remember_refused(request, &outcome);
            }
            self.out.push_back(Output::Keep(request.txn.client));
        }
        self.count(&outcome);
        outcome
    }
}
