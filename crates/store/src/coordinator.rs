//! The coordinator: takes a commit through its phases.
//!
//! ```text
//!   request --> prepare --> log ~~~~~ durable --> sequence --> reply --> distribute
//!                  |         |           ^
//!               refused   position    commit point
//! ```
//! 1. Validated and logged in one step: nobody comes between the judgement and the place in the log.
//! 2. A count is only given to what is durable, in the order of the log.
//! 3. The reply is preceded by the notices of all earlier counts and stands for the notice of its own.
//! 4. One identity is under way at most once. Whoever sends it again meanwhile gets the first copy's outcome.

use crate::mob;
use crate::notices::Urgency;
use crate::sessions::Fault;
use crate::validate::Verdict;
use crate::{CommitRecord, Position, Record, SessionId, Store, form, images::Waiter};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use protocol::{Advance, AskOutcome, CommitReply, CommitRequest, Message, Notice, Outcome};
use types::limits::{COMMITS_PER_SESSION_MAX, TXN_BYTES_MAX};
use types::{ClientId, Map, Refusal, Rule, Time, TxnId, Version};

/// Home images that are read for one commit to see whether it fits. Whoever fills so many pages to their limit at once
/// is told that the next one is full.
const READS_PER_COMMIT_MAX: u8 = 16;

/// What a commit leaves in the safe beside its record, in bytes: its part of a later `Placed`.
const PLACED_BYTES: u64 = 128;

/// A commit request that is not logged yet.
#[derive(Debug)]
pub(crate) struct Ticket {
    request: CommitRequest,
    mob_bytes: usize,
    safe_bytes: u64,
    reads_left: u8,
}

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
    /// Waiting for room, oldest first.
    parked: VecDeque<Ticket>,
    parked_bytes: usize,
    /// In the order of the log.
    in_flight: VecDeque<InFlight>,
    in_flight_bytes: usize,
    last_commit: Time,
}

impl Coordinator {
    /// The position of the first commit without a place.
    pub(crate) fn first_in_flight(&self) -> Option<Position> {
        self.in_flight.front().map(|in_flight| in_flight.position)
    }

    /// Whether commits wait for room.
    pub(crate) fn is_pressed(&self) -> bool {
        !self.parked.is_empty()
    }

    /// When the last commit got its place.
    pub(crate) fn last_commit(&self) -> Time {
        self.last_commit
    }

    fn park(&mut self, ticket: Ticket) {
        self.parked_bytes += ticket.mob_bytes;
        self.parked.push_back(ticket);
    }

    fn unpark(&mut self) -> Option<Ticket> {
        let ticket = self.parked.pop_front()?;
        self.parked_bytes -= ticket.mob_bytes;
        Some(ticket)
    }
}

/// Whether there is room for a commit.
enum Room {
    Now,
    /// Write-back is about to make some.
    Later,
    /// None can be made.
    Never,
}

impl Store {
    /// A session wants a transaction committed.
    pub(crate) fn commit(&mut self, now: Time, from: SessionId, request: CommitRequest) -> Result<(), Fault> {
        self.check_client(from, request.txn.client)?;
        form::check(&request, self.master.applied())?;
        self.outcomes.answered(request.txn.client, request.answered);
        if request.writes.is_empty() {
            self.commit_read_only(from, &request);
        } else if !self.answer_again(from, request.txn) {
            self.take_in(now, from, request);
        }
        Ok(())
    }

    /// A session wants to know what became of a transaction.
    pub(crate) fn ask_outcome(&mut self, from: SessionId, ask: AskOutcome) -> Result<(), Fault> {
        self.check_client(from, ask.txn.client)?;
        if !self.answer_again(from, ask.txn) {
            self.reply_outcome(from, ask.txn, Outcome::Unknown);
        }
        Ok(())
    }

    /// A transaction that writes nothing is validated once, and leaves no trace.
    fn commit_read_only(&mut self, from: SessionId, request: &CommitRequest) {
        let stale = self.master.stale(request);
        let outcome = match self.check_pages(request) {
            Err(refusal) => Outcome::Refused(refusal),
            Ok(()) if !stale.is_empty() => Outcome::Refused(Refusal::Stale(stale)),
            Ok(()) => Outcome::Committed { pages: Vec::new() },
        };
        self.count(&outcome);
        self.reply_outcome(from, request.txn, outcome);
    }

    /// Answers for a transaction whose outcome is known, or will be; says whether it is one.
    fn answer_again(&mut self, from: SessionId, txn: TxnId) -> bool {
        if self.config.broken.is(Rule::OneOutcome) {
            return false;
        }
        if let Some(outcome) = self.outcomes.get(txn) {
            self.reply_outcome(from, txn, outcome);
            return true;
        }
        let Some(session) = self.coordinator.under_way.get_mut(&txn) else { return false };
        let before = core::mem::replace(session, from);
        self.charge(before, -1);
        self.charge(from, 1);
        true
    }

    /// Takes a request in unless something about it forbids that already.
    fn take_in(&mut self, now: Time, from: SessionId, request: CommitRequest) {
        if let Err(refusal) = self.check_request(from, &request) {
            return self.refuse_to(from, &request, refusal);
        }
        self.coordinator.under_way.insert(request.txn, from);
        self.charge(from, 1);
        let safe_bytes = Record::Commit(CommitRecord { txn: request.txn, answered: 0, deltas: Vec::new() });
        let deltas = request.writes.iter().map(|delta| 16 + 8 * delta.changes.len() + delta.value_bytes());
        let ticket = Ticket {
            mob_bytes: request.writes.iter().map(mob::bytes_bound).sum(),
            safe_bytes: safe_bytes.bytes_bound() + deltas.sum::<usize>() as u64 + PLACED_BYTES,
            request,
            reads_left: READS_PER_COMMIT_MAX,
        };
        self.admit(now, ticket);
    }

    fn check_request(&mut self, from: SessionId, request: &CommitRequest) -> Result<(), Refusal> {
        form::check_size(request)?;
        self.check_pages(request)?;
        if self.closing {
            return Err(Refusal::Closing);
        }
        let outstanding = self.sessions.commits(from).map_or(0, |commits| *commits);
        let has_room = self.outcomes.has_room(request.txn.client, request.writes.len());
        let parked = self.coordinator.parked_bytes > TXN_BYTES_MAX.max(self.config.mob_bytes_limit);
        if outstanding >= COMMITS_PER_SESSION_MAX || !has_room || parked {
            return Err(Refusal::TooMany);
        }
        Ok(())
    }

    fn check_pages(&self, request: &CommitRequest) -> Result<(), Refusal> {
        let missing = request.reads.iter().find(|reads| !self.grants.exists(reads.page));
        missing.map_or(Ok(()), |reads| Err(Refusal::NoSuchPage(reads.page)))
    }

    /// Goes on when there is room for the commit, and lets it wait behind the others when there is none.
    fn admit(&mut self, now: Time, ticket: Ticket) {
        match self.room_for(&ticket) {
            Room::Now if !self.coordinator.is_pressed() => self.prepare(now, ticket),
            Room::Never => self.refuse(&ticket, Refusal::StoreFull),
            Room::Now | Room::Later => self.coordinator.park(ticket),
        }
    }

    fn room_for(&self, ticket: &Ticket) -> Room {
        let waiting = self.master.mob().bytes() + self.coordinator.in_flight_bytes;
        let fits_mob = waiting == 0 || waiting + ticket.mob_bytes <= self.config.mob_bytes_limit;
        if fits_mob && self.safe.has_room(ticket.safe_bytes) {
            return Room::Now;
        }
        let stuck = self.coordinator.in_flight.is_empty() && !self.can_make_room();
        if stuck || self.writeback.is_home_full() { Room::Never } else { Room::Later }
    }

    /// Lets commits go on that waited for room. Those whose session is gone are dropped: nothing has begun for them,
    /// and their client sends them again.
    pub(crate) fn unpark(&mut self, now: Time) {
        while let Some(ticket) = self.coordinator.parked.front() {
            let room = self.room_for(ticket);
            if matches!(room, Room::Later) && !self.closing {
                return;
            }
            let ticket = self.coordinator.unpark().expect("just seen");
            let txn = ticket.request.txn;
            let session = self.coordinator.under_way.get(&txn).copied();
            match room {
                _ if session.is_none_or(|session| self.sessions.client(session).is_none()) => {
                    self.coordinator.under_way.remove(&txn);
                }
                _ if self.closing => self.refuse(&ticket, Refusal::Closing),
                Room::Never => self.refuse(&ticket, Refusal::StoreFull),
                Room::Now | Room::Later => self.prepare(now, ticket),
            }
        }
    }

    /// A page was read to see whether the commit fits.
    pub(crate) fn resume_commit(&mut self, now: Time, ticket: Ticket) {
        if self.closing {
            return self.refuse(&ticket, Refusal::Closing);
        }
        self.admit(now, ticket);
    }

    // The five phases. -------------------------------------------------------------------------------------------------

    /// Prepare: the master judges it.
    fn prepare(&mut self, now: Time, mut ticket: Ticket) {
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
        self.coordinator.in_flight_bytes += ticket.mob_bytes;
        self.coordinator.in_flight.push_back(InFlight { position, record, mob_bytes: ticket.mob_bytes });
        if self.config.broken.is(Rule::LogBeforeReply) {
            self.finish_through(now, position);
        }
    }

    /// Takes every commit that is durable through its last phases.
    pub(crate) fn finish_through(&mut self, now: Time, through: Position) {
        while self.coordinator.first_in_flight().is_some_and(|first| first <= through) {
            let commit = self.coordinator.in_flight.pop_front().expect("just seen");
            self.coordinator.in_flight_bytes -= commit.mob_bytes;
            self.coordinator.last_commit = now;
            let version = self.sequencer.place(commit.record.txn);
            let advances = self.master.advances(version, &commit.record.deltas);
            let replied = self.reply_committed(&commit, &advances);
            self.distribute(now, version, &commit, advances, replied);
        }
    }

    /// Reply: says to whom, if its client is still there.
    fn reply_committed(&mut self, commit: &InFlight, advances: &[Advance]) -> Option<SessionId> {
        let txn = commit.record.txn;
        let outcome = Outcome::Committed { pages: advances.to_vec() };
        self.count(&outcome);
        let session = self.coordinator.under_way.remove(&txn)?;
        self.charge(session, -1);
        self.sessions.client(session)?;
        self.reply_outcome(session, txn, outcome);
        Some(session)
    }

    /// Distribute: the master applies it, and everyone who holds what changed is told, but for who has the reply.
    fn distribute(
        &mut self,
        now: Time,
        version: Version,
        commit: &InFlight,
        advances: Vec<Advance>,
        replied: Option<SessionId>,
    ) {
        let CommitRecord { txn, answered, deltas } = &commit.record;
        self.master.apply(commit.position, version, *txn, deltas);
        for (advance, delta) in advances.iter().zip(deltas) {
            let &Advance { page, prev, version } = advance;
            for &holder in self.master.directory().holders(page) {
                if Some(holder) != replied {
                    let notice = Notice { page, prev, version, slots: delta.slots(), txn: *txn, data: None };
                    self.notices.push(now, holder, notice);
                }
            }
        }
        self.outcomes.remember(*txn, *answered, advances);
    }

    // What the phases share. -------------------------------------------------------------------------------------------

    /// Hands the counts that were given since to the log: they ride on the flush of the next record.
    pub(crate) fn log_placements(&mut self) {
        let placements = self.sequencer.take_unlogged();
        if !placements.is_empty() {
            self.safe.append(Record::Placed(placements), &mut self.out);
        }
    }

    fn refuse(&mut self, ticket: &Ticket, refusal: Refusal) {
        let Some(session) = self.coordinator.under_way.remove(&ticket.request.txn) else { return };
        self.charge(session, -1);
        self.refuse_to(session, &ticket.request, refusal);
    }

    fn refuse_to(&mut self, session: SessionId, request: &CommitRequest, refusal: Refusal) {
        let outcome = match refusal {
            _ if self.outcomes.may_have_forgotten(request) => Outcome::Unknown,
            refusal => Outcome::Refused(refusal),
        };
        self.count(&outcome);
        self.reply_outcome(session, request.txn, outcome);
    }

    fn reply_outcome(&mut self, session: SessionId, txn: TxnId, outcome: Outcome) {
        self.reply(session, Message::CommitReply(CommitReply { txn, outcome }), None);
    }

    /// Sends an answer, and before it the notices that it depends on.
    pub(crate) fn reply(&mut self, session: SessionId, message: Message, after: Option<Position>) {
        if self.sessions.client(session).is_none() {
            return;
        }
        if !self.config.broken.is(Rule::NoticesBeforeReply) {
            self.flush(session, Urgency::Worthwhile);
        }
        self.out.send_after(session, message, after);
    }

    /// Sends the session's notices.
    pub(crate) fn flush(&mut self, session: SessionId, urgency: Urgency) {
        let through = self.sessions.horizon(session, self.master.applied());
        for batch in self.notices.take(session, through, urgency) {
            self.out.send(session, Message::Notices(batch));
        }
    }

    fn charge(&mut self, session: SessionId, commits: isize) {
        if let Some(outstanding) = self.sessions.commits(session) {
            *outstanding = outstanding.saturating_add_signed(commits);
        }
    }

    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Committed { .. } => self.stats.commits += 1,
            Outcome::Refused(_) | Outcome::Unknown => self.stats.refused += 1,
        }
    }

    fn check_client(&self, from: SessionId, client: ClientId) -> Result<(), Fault> {
        match self.sessions.client(from) {
            Some(own) if own != client => {
                Err(Fault::malformed(format!("expected a transaction of {own:?}, got one of {client:?}")))
            }
            _ => Ok(()),
        }
    }
}
