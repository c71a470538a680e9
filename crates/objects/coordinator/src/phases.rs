//! The phases of a commit.
//!
//! 1. *Prepare*: the master judges it. Prepared, its writes are in others' way until it is decided.
//! 2. *Sequence*: it gets its counts.
//! 3. *Log*: its record goes to the log with the counts. Its durability is the commit point: the commit is applied, and
//!    its counts shown to any other machine, no earlier (**LogBeforeReply**).
//! 4. *Decide*: the master applies it and tells every holder of the changed pages, but for those that get the reply.
//! 5. *Reply*: it is preceded by the invalidations of all earlier counts and stands for the invalidation of its own. To
//!    a redirector that has only asked for the outcome it stands for nothing, and comes behind that invalidation too:
//!    the member that gets the answer may ask its redirector for a page that it has written to (**HearBeforeAnswer**).

use crate::under_way::{Stage, UnderWay};
use crate::{Asker, CommitRecord, Coordinator, Hears, Output};
use alloc::vec::Vec;
use core::mem;
use messages::{Advance, CommitRequest, Decide, Outcome, Placed, Prepare, Sequence, Verdict, Vote};
use smallvec::SmallVec;
use types::{Refusal, Rule, Shard, TxnId};

impl Coordinator {
    /// A master has judged a transaction.
    pub fn voted(&mut self, vote: Vote) {
        let Vote { txn, verdict } = vote;
        let is_preparing = |of: &&mut UnderWay| matches!(of.stage, Stage::Preparing { .. });
        let Some(under_way) = self.under_way.get_mut(&txn).filter(is_preparing) else { return };
        let is_read_only = under_way.request.writes.is_empty();
        match verdict {
            Verdict::Prepared if is_read_only => self.end(txn, &Outcome::Committed { pages: Vec::new() }),
            Verdict::Refused(refusal) if is_read_only => self.end(txn, &Outcome::Refused(refusal)),
            Verdict::Refused(refusal) => {
                let request = under_way.request.clone();
                let outcome = self.judge_refused(&request, refusal);
                self.end(txn, &outcome);
            }
            Verdict::Withdrawn => self.has_withdrawn(txn),
            Verdict::Prepared => {
                under_way.stage = Stage::Sequencing;
                let mut shards: SmallVec<[Shard; 1]> = SmallVec::new();
                for shard in under_way.request.writes.iter().map(|delta| self.config.sharding.of(delta.page)) {
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
        under_way.stage = Stage::Logging(placed.counts.clone());
        let CommitRequest { answered, ref writes, .. } = *under_way.request;
        self.unlogged_bytes -= under_way.bytes;
        let record = CommitRecord { txn, counts: placed.counts.clone(), answered, deltas: writes.clone() };
        self.out.push_back(Output::Log(record));
    }

    /// A transaction's record is durable: it has committed.
    pub fn durable(&mut self, txn: TxnId) {
        let Some(under_way) = self.under_way.get_mut(&txn) else { return };
        let Stage::Logging(counts) = &mut under_way.stage else { return };
        let counts = mem::take(counts);
        under_way.stage = Stage::Deciding;
        // A session that has ended is told nothing, and what replaced it learns of the commit like anyone else.
        let is_replied = |asker: &&Asker| asker.knows_writes && self.sessions.contains_key(&asker.session);
        let replied = under_way.askers.iter().filter(is_replied).map(|asker| asker.session).collect();
        self.out.push_back(Output::Decide(Decide { txn, counts }, replied));
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

    /// Withdraws what all those have gone that waited for, and that is not prepared: its client sends it again.
    pub(crate) fn withdraw_unawaited(&mut self) {
        let Self { under_way, sessions, out, .. } = self;
        for (&txn, under_way) in under_way {
            let is_awaited = under_way.is_awaited(sessions);
            if let Stage::Preparing { is_withdrawn } = &mut under_way.stage
                && !is_awaited
                && !*is_withdrawn
            {
                *is_withdrawn = true;
                out.push_back(Output::Withdraw(txn));
            }
        }
    }

    /// The master has let go of a transaction. If it was sent again in the meantime, the master gets it again.
    fn has_withdrawn(&mut self, txn: TxnId) {
        let Some(under_way) = self.under_way.get_mut(&txn) else { return };
        let is_awaited = under_way.is_awaited(&self.sessions);
        if let Some(asker) = under_way.askers.first().filter(|_| is_awaited) {
            under_way.stage = Stage::Preparing { is_withdrawn: false };
            self.out.push_back(Output::Prepare(asker.session, Prepare(under_way.request.clone())));
        } else {
            self.unlogged_bytes -= under_way.bytes;
            self.under_way.remove(&txn);
        }
    }

    /// Ends a transaction that is not prepared.
    fn end(&mut self, txn: TxnId, outcome: &Outcome) {
        let Some(UnderWay { bytes, askers, .. }) = self.under_way.remove(&txn) else { return };
        self.unlogged_bytes -= bytes;
        self.count(outcome);
        for asker in askers {
            self.charge(asker.session, -1);
            self.reply(asker.session, txn, outcome.clone(), Hears::Worthwhile);
        }
    }

    /// Returns the outcome of a request that cannot commit now: refused, or unknown if it may be a copy of one that has
    /// committed and was forgotten. The outcome stands for every copy, but for `lapsed`, which is about this copy
    /// alone.
    pub(crate) fn judge_refused(&mut self, request: &CommitRequest, refusal: Refusal) -> Outcome {
        let broken = self.config.broken;
        // A stale request stays stale, and one from before a restart may be sent again.
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
        outcome
    }
}
