//! The coordinator: takes a commit through its phases.
//!
//! ```text
//!   admitted --> prepare --> log ~~~~~ durable --> sequence --> reply --> distribute
//!                   |         |           ^
//!                refused   position    commit point
//! ```
//! 1. Validated and logged in one step: nobody comes between the judgement and the place in the log.
//! 2. A count is only given to what is durable, in the order of the log.
//! 3. The reply is preceded by the notices of all earlier counts and stands for the notice of its own.
//! 4. One identity is under way at most once. Whoever sends it again meanwhile gets the first copy's outcome.

use crate::admission::Ticket;
use crate::images::Waiter;
use crate::validate::Verdict;
use crate::{CommitRecord, Position, Record, SessionId, Store};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use protocol::{Advance, CommitReply, CommitRequest, Message, Notice, Outcome};
use types::{Map, Refusal, Rule, Time, TxnId, Version};

/// A commit that is logged and has no place yet.
#[derive(Debug)]
struct InFlight {
    position: Position,
    record: CommitRecord,
    mob_bytes: usize,
}

/// The commits under way.
#[derive(Debug, Default)]
pub(crate) struct Coordinator {
    /// Whom to answer, for every commit under way.
    under_way: Map<TxnId, SessionId>,
    /// In the order of the log.
    in_flight: VecDeque<InFlight>,
    in_flight_bytes: usize,
    last_commit: Time,
}

impl Coordinator {
    /// A transaction is under way.
    pub(crate) fn begin(&mut self, txn: TxnId, session: SessionId) {
        self.under_way.insert(txn, session);
    }

    /// A transaction is under way no longer; gives whom to tell.
    pub(crate) fn end(&mut self, txn: TxnId) -> Option<SessionId> {
        self.under_way.remove(&txn)
    }

    /// Whom to answer for a transaction under way.
    pub(crate) fn session(&self, txn: TxnId) -> Option<SessionId> {
        self.under_way.get(&txn).copied()
    }

    /// From now on `session` is answered for a transaction, if it is under way; gives who was before.
    pub(crate) fn redirect(&mut self, txn: TxnId, session: SessionId) -> Option<SessionId> {
        Some(core::mem::replace(self.under_way.get_mut(&txn)?, session))
    }

    /// The position of the first commit without a place.
    pub(crate) fn first_in_flight(&self) -> Option<Position> {
        self.in_flight.front().map(|commit| commit.position)
    }

    /// A bound of what the commits without a place will add to the MOB, in bytes.
    pub(crate) fn in_flight_bytes(&self) -> usize {
        self.in_flight_bytes
    }

    /// When the last commit got its place.
    pub(crate) fn last_commit(&self) -> Time {
        self.last_commit
    }

    fn push(&mut self, commit: InFlight) {
        self.in_flight_bytes += commit.mob_bytes;
        self.in_flight.push_back(commit);
    }

    /// The oldest commit without a place, if it is durable.
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
            Verdict::Valid => self.log(now, ticket),
            Verdict::Refused(refusal) => self.refuse(&ticket, refusal),
            Verdict::Await(page) if ticket.reads_left == 0 => self.refuse(&ticket, Refusal::PageFull(page)),
            Verdict::Await(page) => {
                ticket.reads_left -= 1;
                self.master.read([(page, Waiter::Commit(ticket))], &mut self.out);
            }
        }
    }

    /// Log: its being durable is the commit point.
    fn log(&mut self, now: Time, ticket: Ticket) {
        let CommitRequest { txn, answered, writes, .. } = ticket.request;
        self.master.prepare(txn, &writes);
        self.log_placements();
        let record = CommitRecord { txn, answered, deltas: writes };
        let position = self.safe.append(Record::Commit(record.clone()), &mut self.out);
        self.coordinator.push(InFlight { position, record, mob_bytes: ticket.mob_bytes });
        if self.config.broken.is(Rule::LogBeforeReply) {
            self.finish_through(now, position);
        }
    }

    /// Takes every commit that is durable through its last phases.
    pub(crate) fn finish_through(&mut self, now: Time, through: Position) {
        while let Some(commit) = self.coordinator.pop_through(through) {
            self.coordinator.last_commit = now;
            let advances = self.sequence(&commit.record);
            let replied = self.reply_committed(&commit.record, &advances);
            self.distribute(now, commit, advances, replied);
        }
    }

    /// Sequence: gives it its place.
    fn sequence(&mut self, record: &CommitRecord) -> Vec<Advance> {
        let version = self.sequencer.place(record.txn);
        self.master.advances(version, &record.deltas)
    }

    /// Reply: says to whom, if its client is still there.
    fn reply_committed(&mut self, record: &CommitRecord, advances: &[Advance]) -> Option<SessionId> {
        let outcome = Outcome::Committed { pages: advances.to_vec() };
        self.count(&outcome);
        let session = self.coordinator.end(record.txn)?;
        self.charge(session, -1);
        self.sessions.client(session)?;
        self.reply_outcome(session, record.txn, outcome);
        Some(session)
    }

    /// Distribute: the master applies it, and everyone who holds what changed is told, but for who has the reply.
    fn distribute(&mut self, now: Time, commit: InFlight, advances: Vec<Advance>, replied: Option<SessionId>) {
        let CommitRecord { txn, answered, deltas } = commit.record;
        let version = advances.first().map_or(Version::ZERO, |advance| advance.version);
        self.master.apply(commit.position, version, txn, &deltas);
        for (&Advance { page, prev, version }, delta) in advances.iter().zip(&deltas) {
            for &holder in self.master.directory().holders(page) {
                if Some(holder) != replied {
                    let notice = Notice { page, prev, version, slots: delta.slots(), txn, data: None };
                    self.notices.push(now, holder, notice);
                }
            }
        }
        self.outcomes.remember(txn, answered, advances);
    }

    /// Hands the counts that were given since to the log: they ride on the flush of the next record.
    pub(crate) fn log_placements(&mut self) {
        let placements = self.sequencer.take_unlogged();
        if !placements.is_empty() {
            self.safe.append(Record::Placed(placements), &mut self.out);
        }
    }

    /// Ends a transaction under way.
    pub(crate) fn refuse(&mut self, ticket: &Ticket, refusal: Refusal) {
        let Some(session) = self.coordinator.end(ticket.request.txn) else { return };
        self.charge(session, -1);
        self.refuse_to(session, &ticket.request, refusal);
    }

    /// Refuses a request, unless it may be a copy of one that committed and was forgotten.
    pub(crate) fn refuse_to(&mut self, session: SessionId, request: &CommitRequest, refusal: Refusal) {
        let may_have_committed = self.outcomes.may_have_forgotten(request);
        let outcome = if may_have_committed { Outcome::Unknown } else { Outcome::Refused(refusal) };
        self.count(&outcome);
        self.reply_outcome(session, request.txn, outcome);
    }

    pub(crate) fn reply_outcome(&mut self, session: SessionId, txn: TxnId, outcome: Outcome) {
        self.reply(session, Message::CommitReply(CommitReply { txn, outcome }), None);
    }

    pub(crate) fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Committed { .. } => self.stats.commits += 1,
            Outcome::Refused(refusal) => self.count_refusal(refusal.name()),
            Outcome::Unknown => self.count_refusal("unknown"),
        }
    }

    fn count_refusal(&mut self, name: &'static str) {
        self.stats.refused += 1;
        *self.refusals.entry(name).or_default() += 1;
    }
}
