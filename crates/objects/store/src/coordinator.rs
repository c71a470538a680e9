//! The coordinator: takes a commit through its phases.
//!
//! ```text
//!   admitted --> prepare ~~> sequence --> log ~~~~~ durable --> reply --> distribute
//!                  | ^                     |           ^
//!            refused its turn           position   commit point
//! ```
//! 1. Validated and prepared in one step: from then on its writes are in others' way, so nothing comes between the
//!    judgement and the log, also when it waits for promises first (`leases`). A commit that meets it waits its turn
//!    (`turns`).
//! 2. A commit gets its count with its position in the log, so both have the same order. It is applied, and its count
//!    shown to any other machine, when its record is durable (`sequencer` has the argument).
//! 3. The reply is preceded by the invalidations of all earlier counts and stands for the invalidation of its own. To a
//!    redirector that has only asked for the outcome it stands for nothing, and comes behind that invalidation too.
//! 4. One identity is under way at most once. A request that is sent again in the meantime gets the first copy's
//!    outcome. Everyone who asked is answered: of a client that has moved between a group and the store the copy on the
//!    old path may come last, and nobody listens there any more.

use crate::ticket::Ticket;
use crate::validate::Verdict;
use crate::{CommitRecord, Position, Record, SessionId, Store};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use directory::Urgency;
use messages::{Advance, CommitReply, CommitRequest, Invalidation, Outcome};
use smallvec::SmallVec;
use types::{Delta, Map, Refusal, Rule, Time, TxnId};

/// A commit that is logged and not known to be durable.
#[derive(Debug)]
struct InFlight {
    position: Position,
    record: CommitRecord,
    mob_bytes: usize,
}

/// An asker for the outcome of a commit under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub(crate) session: SessionId,
    /// It knows what the commit writes, so that the reply can stand for the invalidation. A redirector that only asks
    /// for the outcome does not: it is its member that has the writes.
    pub(crate) knows_writes: bool,
}

/// In the order in which they asked.
pub(crate) type Askers = SmallVec<[Asker; 1]>;

/// Sessions that are answered for one commit: a client's old path, its new one, and some more. The one that asked
/// longest ago makes room.
pub(crate) const ASKERS_MAX: usize = 4;

/// The commits under way.
#[derive(Debug, Default)]
pub(crate) struct Coordinator {
    /// The sessions to answer, for every commit under way.
    under_way: Map<TxnId, Askers>,
    /// In the order of the log.
    in_flight: VecDeque<InFlight>,
    in_flight_bytes: usize,
    last_commit: Time,
}

impl Coordinator {
    /// A transaction is under way.
    pub(crate) fn begin(&mut self, txn: TxnId, asker: Asker) {
        self.under_way.insert(txn, Askers::from_buf([asker]));
    }

    /// A transaction is under way no longer; gives whom to tell.
    pub(crate) fn end(&mut self, txn: TxnId) -> Askers {
        self.under_way.remove(&txn).unwrap_or_default()
    }

    /// The sessions to answer for a transaction, if it is under way.
    pub(crate) fn askers(&self, txn: TxnId) -> Option<&Askers> {
        self.under_way.get(&txn)
    }

    /// The same, to add to them.
    pub(crate) fn askers_mut(&mut self, txn: TxnId) -> Option<&mut Askers> {
        self.under_way.get_mut(&txn)
    }

    /// The commits that are not durable, and what they write.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = (TxnId, &Vec<Delta>)> {
        self.in_flight.iter().map(|commit| (commit.record.txn, &commit.record.deltas))
    }

    /// The position of the first commit that is not durable.
    pub(crate) fn first_in_flight(&self) -> Option<Position> {
        self.in_flight.front().map(|commit| commit.position)
    }

    /// A bound of what the commits that are not durable will add to the MOB, in bytes.
    pub(crate) fn in_flight_bytes(&self) -> usize {
        self.in_flight_bytes
    }

    /// When the last commit became durable.
    pub(crate) fn last_commit(&self) -> Time {
        self.last_commit
    }

    fn push(&mut self, commit: InFlight) {
        self.in_flight_bytes += commit.mob_bytes;
        self.in_flight.push_back(commit);
    }

    /// Removes the oldest commit if it is durable.
    fn pop_through(&mut self, through: Position) -> Option<InFlight> {
        self.first_in_flight().filter(|first| *first <= through)?;
        let commit = self.in_flight.pop_front()?;
        self.in_flight_bytes -= commit.mob_bytes;
        Some(commit)
    }
}

impl Store {
    /// Prepare: the master judges it.
    pub(crate) fn prepare(&mut self, now: Time, mut ticket: Ticket) {
        match self.master.validate(&ticket.request) {
            Verdict::Met => self.await_turn(now, ticket),
            Verdict::Valid if self.stands_in_the_way(&ticket.request) || self.would_overtake(&ticket) => {
                self.await_turn(now, ticket);
            }
            Verdict::Valid => {
                self.leave_line(&ticket.request);
                self.master.prepare(ticket.request.txn, &ticket.request.writes);
                if let Some(ticket) = self.await_promises(now, ticket) {
                    self.log(now, ticket);
                }
            }
            Verdict::Refused(refusal) => {
                if let Refusal::Stale(stale) = &refusal {
                    self.lose(now, &ticket, stale);
                }
                self.refuse(now, &ticket, refusal);
            }
            Verdict::Await(page) if ticket.reads_left == 0 => self.refuse(now, &ticket, Refusal::PageFull(page)),
            Verdict::Await(page) => {
                ticket.reads_left -= 1;
                self.await_page(page, ticket);
            }
        }
    }

    /// Sequence and log: the commit gets its count, and the durability of its record is the commit point.
    pub(crate) fn log(&mut self, now: Time, ticket: Ticket) {
        let CommitRequest { txn, answered, writes, .. } = ticket.request;
        let record = CommitRecord { txn, count: self.sequencer.count(), answered, deltas: writes };
        let position = self.log.append(Record::Commit(record.clone()), &mut self.out);
        self.coordinator.push(InFlight { position, record, mob_bytes: ticket.mob_bytes });
        if self.config.broken.is(Rule::LogBeforeReply) {
            self.finish_through(now, position);
        }
    }

    /// Takes every commit that is durable through its last phases.
    pub(crate) fn finish_through(&mut self, now: Time, through: Position) {
        while let Some(commit) = self.coordinator.pop_through(through) {
            self.coordinator.last_commit = now;
            self.turns.make_way();
            let txn = commit.record.txn;
            let advances = self.master.advances(commit.record.count, &commit.record.deltas);
            let askers = self.coordinator.end(txn);
            let replied = self.reply_committed(&askers, txn, &advances);
            self.distribute(now, commit, advances, &replied);
            self.answer_askers(&askers, txn);
        }
    }

    /// Reply to those who have sent the request: says to whom that stands for the invalidation.
    fn reply_committed(&mut self, askers: &Askers, txn: TxnId, advances: &[Advance]) -> SmallVec<[SessionId; 1]> {
        self.stats.commits += 1;
        let hears_first = !self.config.broken.is(Rule::HearBeforeAnswer);
        let mut replied = SmallVec::new();
        for &Asker { session, knows_writes } in askers {
            self.charge(session, -1);
            // A session that has ended is told nothing, and what replaced it learns of the commit like anyone else.
            if (knows_writes || !hears_first) && self.sessions.client(session).is_some() {
                self.reply_outcome(session, txn, Outcome::Committed { pages: advances.to_vec() });
                replied.extend(knows_writes.then_some(session));
            }
        }
        replied
    }

    /// Answers those who have only asked. They hear first what was written, as of anybody's commit: the member that
    /// gets the answer may ask its redirector for a page that it has written to.
    fn answer_askers(&mut self, askers: &Askers, txn: TxnId) {
        let hears_first = !self.config.broken.is(Rule::HearBeforeAnswer);
        for asker in askers.iter().filter(|asker| !asker.knows_writes && hears_first) {
            let Some(outcome) = self.outcomes.get(txn) else { return };
            self.flush(asker.session, Urgency::All);
            self.reply_outcome(asker.session, txn, outcome);
        }
    }

    /// Distribute: the master applies it, and every holder of the changed pages is told, but for the one that has the
    /// reply; and every watcher.
    fn distribute(&mut self, now: Time, commit: InFlight, advances: Vec<Advance>, replied: &[SessionId]) {
        let CommitRecord { txn, count, answered, deltas } = commit.record;
        self.master.apply(commit.position, count, txn, &deltas);
        for (&Advance { page, prev, version }, delta) in advances.iter().zip(&deltas) {
            let slots = delta.slots();
            for &holder in self.master.holders(page) {
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
        for delta in &deltas {
            self.page_has_changed(delta.page);
        }
        self.outcomes.remember(txn, answered, advances);
        self.sessions.expect_back(now, txn.client);
    }

    /// Ends a transaction under way.
    pub(crate) fn refuse(&mut self, now: Time, ticket: &Ticket, refusal: Refusal) {
        let outcome = self.judge_refused(now, &ticket.request, refusal);
        for asker in self.coordinator.end(ticket.request.txn) {
            self.charge(asker.session, -1);
            self.reply_outcome(asker.session, ticket.request.txn, outcome.clone());
        }
    }

    /// Refuses a request before it is under way.
    pub(crate) fn refuse_to(&mut self, now: Time, session: SessionId, request: &CommitRequest, refusal: Refusal) {
        let outcome = self.judge_refused(now, request, refusal);
        self.reply_outcome(session, request.txn, outcome);
    }

    /// A request that cannot commit now is refused, unless it may be a copy of one that committed and was forgotten.
    /// Either answer stands for every copy, but that this one has lapsed says nothing of the next, which is judged when
    /// it comes.
    fn judge_refused(&mut self, now: Time, request: &CommitRequest, refusal: Refusal) -> Outcome {
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
            self.sessions.expect_back(now, request.txn.client);
        }
        self.count(&outcome);
        outcome
    }

    pub(crate) fn reply_outcome(&mut self, session: SessionId, txn: TxnId, outcome: Outcome) {
        self.reply(session, CommitReply { txn, outcome }, None);
    }

    pub(crate) fn count(&mut self, outcome: &Outcome) {
        match outcome {
            // A commit that writes is counted when it is durable.
            Outcome::Committed { .. } => self.stats.read_only += 1,
            Outcome::Refused(refusal) => self.count_refusal(refusal.name()),
            Outcome::Unknown => self.count_refusal("unknown"),
        }
    }

    fn count_refusal(&mut self, name: &'static str) {
        self.stats.refused += 1;
        *self.refusals.entry(name).or_default() += 1;
    }
}
