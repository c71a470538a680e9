//! The phases of a commit.
//!
//! 1. *Reserve*: there is room for its record in the log, so that it need not wait once it is in others' way.
//! 2. *Prepare*: the masters of its pages judge it. Prepared, it is in others' way until it is decided. Several masters
//!    are asked at once. If one of them is busy, all let go of it, and are asked again in the order of their shards,
//!    where it may wait. A master at which it has only read is told when it has committed (**ReleaseReaders**).
//! 3. *Sequence*: it gets its counts, each above the highest that a master has seen (**CountAboveVotes**): a sequencer
//!    whose term is over does no harm.
//! 4. *Log*: its record goes to the log with the counts. Its durability is the commit point: the commit is applied, and
//!    its counts shown to any other machine, no earlier (**LogBeforeReply**).
//! 5. *Reply*, if other masters have prepared it: the decision is on its way to them.
//! 6. *Decide*: the masters apply it and tell every holder of the changed pages, but for those that get the next
//!    reply.
//! 7. *Reply*, if the coordinator's own master had it alone: it is preceded by the invalidations of all earlier
//!    counts and stands for the invalidation of its own. To a redirector that has only asked for the outcome a
//!    reply stands for nothing, and comes behind that invalidation too: the member that gets the answer may ask its
//!    redirector for a page that it has written to (**HearBeforeAnswer**).

use crate::parts::{Next, are_above, in_order};
use crate::under_way::{Deciding, Stage, UnderWay};
use crate::{Asker, CommitRecord, Coordinator, Hears, Output};
use alloc::vec::Vec;
use core::mem;
use messages::{Advance, CommitRequest, Decide, Outcome, Placed, Prepare, Release, Sequence, Verdict, Vote};
use smallvec::SmallVec;
use types::{NodeId, Refusal, Rule, TxnId, Vector};

impl Coordinator {
    /// Asks masters for the parts that should be asked for now.
    pub(crate) fn ask_masters(&mut self, txn: TxnId) {
        let Some(under_way) = self.under_way.get_mut(&txn) else { return };
        let Some(asker) = under_way.askers.first() else { return };
        let among = under_way.parts.among(!under_way.request.writes.is_empty());
        let session = asker.session;
        let mut is_any_away = false;
        for (master, request, openings) in under_way.parts.ask() {
            if self.masters.is_away(master) {
                is_any_away = true;
            } else {
                self.out.push_back(Output::Prepare(master, session, Prepare { request, among, openings }));
            }
        }
        if is_any_away {
            self.fail_away(txn);
        }
    }

    /// The master at this node has judged a transaction, or its part of it.
    pub fn voted(&mut self, by: NodeId, vote: Vote) {
        let Vote { txn, verdict, highest } = vote;
        let is_preparing = |of: &&mut UnderWay| matches!(of.stage, Stage::Preparing { .. });
        let Some(under_way) = self.under_way.get_mut(&txn).filter(is_preparing) else { return };
        if !under_way.parts.judged(by, verdict) {
            return;
        }
        under_way.floor.join(&highest);
        let next = under_way.parts.next();
        self.go_on(txn, next);
    }

    /// Takes a transaction further whose masters have answered.
    pub(crate) fn go_on(&mut self, txn: TxnId, next: Next) {
        match next {
            Next::Wait => {}
            Next::MeetObstacles => self.meet_obstacles(txn),
            Next::AskMore => self.ask_next(txn),
            Next::Count => self.all_are_prepared(txn),
        }
    }

    fn all_are_prepared(&mut self, txn: TxnId) {
        let Some(under_way) = self.under_way.get_mut(&txn) else { return };
        if under_way.request.writes.is_empty() {
            self.end(txn, &Outcome::Committed { pages: Vec::new() });
        } else {
            under_way.stage = Stage::Sequencing;
            self.sequence(txn);
        }
    }

    /// One more master has prepared a transaction. The next one is asked, unless it was withdrawn.
    fn ask_next(&mut self, txn: TxnId) {
        let Some(under_way) = self.under_way.get_mut(&txn) else { return };
        if under_way.stage == (Stage::Preparing { is_withdrawn: true }) {
            self.release(txn);
            self.has_withdrawn(txn);
        } else {
            self.ask_masters(txn);
        }
    }

    /// Some master has not prepared a transaction, and the others let go of it. If one of them refuses it, it ends. If
    /// a shard of it moves, it waits until the shard has moved. If a master was busy, all are asked again in the order
    /// of their shards.
    fn meet_obstacles(&mut self, txn: TxnId) {
        self.release(txn);
        let Some(under_way) = self.under_way.get_mut(&txn) else { return };
        let refusals = under_way.parts.obstacles().filter_map(|verdict| match verdict {
            Verdict::Refused(refusal) => Some(refusal.clone()),
            Verdict::Prepared | Verdict::Busy | Verdict::Moving | Verdict::Withdrawn => None,
        });
        let request = under_way.request.clone();
        match refusals.reduce(both) {
            Some(refusal) if request.writes.is_empty() => self.end(txn, &Outcome::Refused(refusal)),
            Some(refusal) => {
                let outcome = self.judge_refused(&request, refusal);
                self.end(txn, &outcome);
            }
            None if under_way.stage == (Stage::Preparing { is_withdrawn: true }) => self.has_withdrawn(txn),
            None if under_way.parts.moving().next().is_some() && !self.closing => self.await_move(txn),
            // A master has no room, and the transaction would hold up others until it has: its client comes again.
            None if under_way.parts.is_in_turn() => {
                let outcome = self.judge_refused(&request, Refusal::Busy);
                self.end(txn, &outcome);
            }
            None => {
                (under_way.parts, under_way.floor) = (self.masters.in_turn(&request), Vector::new());
                self.ask_masters(txn);
            }
        }
    }

    /// The masters that have prepared a transaction let go of it.
    fn release(&mut self, txn: TxnId) {
        let Some(under_way) = self.under_way.get(&txn) else { return };
        if !under_way.request.writes.is_empty() {
            let releases = under_way.parts.prepared().into_iter();
            self.out.extend(releases.map(|(master, _)| Output::Release(master, Release { txn })));
        }
    }

    fn sequence(&mut self, txn: TxnId) {
        let Some(under_way) = self.under_way.get(&txn) else { return };
        let shards = in_order(under_way.request.writes.iter().map(|delta| self.masters.shard_of(delta.page)));
        self.out.push_back(Output::Sequence(Sequence { txn, shards }));
    }

    /// Another sequencer serves: it is asked for the places that the last one has not given, or not well.
    pub fn sequence_again(&mut self) {
        let waiting = self.under_way.iter().filter(|(_, of)| of.stage == Stage::Sequencing);
        let mut waiting: Vec<_> = waiting.map(|(&txn, _)| txn).collect();
        waiting.sort_unstable();
        for txn in waiting {
            self.sequence(txn);
        }
    }

    /// The sequencer has given a transaction its place. A sequencer whose term is over may give a place
    /// that a master has seen taken: the next one is asked instead.
    pub fn placed(&mut self, placed: &Placed) {
        let txn = placed.txn;
        let Some(under_way) = self.under_way.get_mut(&txn).filter(|of| of.stage == Stage::Sequencing) else { return };
        if !are_above(&placed.counts, &under_way.floor) && !self.config.broken.is(Rule::CountAboveVotes) {
            return;
        }
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
        // A session that has ended is told nothing, and what replaced it learns of the commit like anyone else. The
        // reply comes from this node, so it stands for the invalidation where this node alone has one to send.
        let is_own = under_way.parts.alone() == Some(self.masters.own());
        let is_replied = |asker: &&Asker| is_own && asker.knows_writes && self.sessions.contains_key(&asker.session);
        let replied: SmallVec<_> = under_way.askers.iter().filter(is_replied).map(|asker| asker.session).collect();
        let mut masters = SmallVec::new();
        for (master, writes) in under_way.parts.prepared() {
            if writes {
                masters.push(master);
                let decide = Decide { txn, counts: counts.clone() };
                self.out.push_back(Output::Decide(master, decide, replied.clone()));
            } else if !self.config.broken.is(Rule::ReleaseReaders) {
                self.out.push_back(Output::Release(master, Release { txn }));
            }
        }
        under_way.stage = Stage::Deciding(Deciding { counts, masters, is_answered: false });
        if !is_own {
            self.answer(txn, Vec::new());
        }
    }

    /// The master at this node has applied a transaction, and says how the pages have moved if it had it alone.
    pub fn applied(&mut self, by: NodeId, txn: TxnId, advances: Vec<Advance>) {
        let Some(under_way) = self.under_way.get_mut(&txn) else { return };
        let Stage::Deciding(deciding) = &mut under_way.stage else { return };
        let Some(at) = deciding.masters.iter().position(|&master| master == by) else { return };
        deciding.masters.swap_remove(at);
        if deciding.masters.is_empty() {
            self.answer(txn, advances);
            self.under_way.remove(&txn);
        }
    }

    /// Answers all who have asked for a transaction that has committed, unless that was done. If its masters have
    /// not said how it has moved its pages, the counts say it.
    fn answer(&mut self, txn: TxnId, mut advances: Vec<Advance>) {
        let Self { masters, under_way, .. } = self;
        let Some(UnderWay { request, askers, stage: Stage::Deciding(deciding), .. }) = under_way.get_mut(&txn) else {
            return;
        };
        if mem::replace(&mut deciding.is_answered, true) {
            return;
        }
        if advances.len() < request.writes.len() {
            advances = masters.as_counted(request, &deciding.counts);
        }
        let (answered, askers) = (request.answered, mem::take(askers));
        self.stats.commits += 1;
        let hears_first = !self.config.broken.is(Rule::HearBeforeAnswer);
        for &Asker { session, knows_writes } in &askers {
            self.charge(session, -1);
            if (knows_writes || !hears_first) && self.sessions.contains_key(&session) {
                self.reply(session, txn, Outcome::Committed { pages: advances.clone() }, Hears::Earlier);
            }
        }
        self.outcomes.remember(txn, answered, advances);
        self.out.push_back(Output::Keep(txn));
        for asker in askers.iter().filter(|asker| !asker.knows_writes && hears_first) {
            let Some(outcome) = self.outcomes.get(txn) else { return };
            self.reply(asker.session, txn, outcome, Hears::All);
        }
    }

    /// Answers for a transaction that others were answered for, if its masters have yet to apply it: its client was
    /// forgotten, and is back. Returns whether it is one of these.
    pub(crate) fn tell_decided(&mut self, asker: Asker, txn: TxnId) -> bool {
        let Some(UnderWay { request, stage: Stage::Deciding(deciding), .. }) = self.under_way.get(&txn) else {
            return false;
        };
        if !deciding.is_answered {
            return false;
        }
        let pages = self.masters.as_counted(request, &deciding.counts);
        self.reply(asker.session, txn, Outcome::Committed { pages }, Hears::All);
        true
    }

    /// Withdraws what all those have gone that waited for, and that is not prepared: its client sends it again.
    pub(crate) fn withdraw_unawaited(&mut self) {
        let Self { under_way, sessions, out, .. } = self;
        let mut not_begun = SmallVec::<[TxnId; 4]>::new();
        for (&txn, under_way) in under_way.iter_mut().filter(|(_, of)| !of.is_awaited(sessions)) {
            match &mut under_way.stage {
                Stage::Reserving | Stage::Awaiting => not_begun.push(txn),
                Stage::Preparing { is_withdrawn } if !*is_withdrawn => {
                    *is_withdrawn = true;
                    out.extend(under_way.parts.asked().map(|master| Output::Withdraw(master, txn)));
                }
                _ => {}
            }
        }
        for txn in not_begun {
            self.drop_unprepared(txn);
        }
    }

    /// Forgets a transaction that is prepared nowhere. Returns what was known of it.
    fn drop_unprepared(&mut self, txn: TxnId) -> Option<UnderWay> {
        let under_way = self.under_way.remove(&txn)?;
        self.unlogged_bytes -= under_way.bytes;
        if !under_way.request.writes.is_empty() {
            self.out.push_back(Output::GiveBack(txn));
        }
        Some(under_way)
    }

    /// The masters have let go of a transaction. If it was sent again in the meantime, they get it again.
    fn has_withdrawn(&mut self, txn: TxnId) {
        let Some(under_way) = self.under_way.get_mut(&txn) else { return };
        if under_way.is_awaited(&self.sessions) {
            self.ask_anew(txn);
        } else {
            self.drop_unprepared(txn);
        }
    }

    /// Asks all masters for a transaction that none of them has.
    pub(crate) fn ask_anew(&mut self, txn: TxnId) {
        let Some(under_way) = self.under_way.get_mut(&txn) else { return };
        under_way.stage = Stage::Preparing { is_withdrawn: false };
        (under_way.parts, under_way.floor) = (self.masters.at_once(&under_way.request), Vector::new());
        self.ask_masters(txn);
    }

    /// Ends a transaction that is not prepared.
    pub(crate) fn end(&mut self, txn: TxnId, outcome: &Outcome) {
        let Some(UnderWay { askers, .. }) = self.drop_unprepared(txn) else { return };
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
            self.out.push_back(Output::Keep(request.txn));
        }
        outcome
    }
}

/// The refusal of a transaction that two masters refuse: a client that has read something stale learns of all of it.
fn both(one: Refusal, other: Refusal) -> Refusal {
    match (one, other) {
        (Refusal::Stale(mut one), Refusal::Stale(other)) => {
            one.extend(other);
            one.sort_unstable_by_key(|(page, _)| *page);
            Refusal::Stale(one)
        }
        (Refusal::Stale(stale), _) | (_, Refusal::Stale(stale)) => Refusal::Stale(stale),
        (one, _) => one,
    }
}
