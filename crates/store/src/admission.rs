//! What stands before a commit's first phase: is it sound, is it new, is there room for it?
//!
//! 1. A transaction that is known, or under way, is answered and not begun again. If it is neither, a copy that was sent
//!    to an earlier incarnation has lapsed: another copy may have been refused since, which that incarnation knew.
//! 2. Room is found before anything is begun: in the MOB and in the safe. While write-back makes some, or the safe grows,
//!    commits wait in their order; when neither can, they are refused. So a full MOB or safe slows commits down and fails
//!    none.

use crate::coordinator::{ASKERS_MAX, Asker};
use crate::work::commit_bytes_bound;
use crate::{SessionId, Store, form, mob};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use protocol::{AskOutcome, CommitRequest, Goodbye, Outcome};
use types::limits::{COMMITS_PER_SESSION_MAX, TXN_BYTES_MAX};
use types::{ClientId, Refusal, Rule, Time, TxnId};

/// Home images that are read for one commit to see whether it fits. Whoever fills so many pages to their limit at once
/// is told that the next one is full.
const READS_PER_COMMIT_MAX: u8 = 16;

/// What a commit leaves in the safe beside its record, in bytes: its part of a later `Placed`.
const PLACED_BYTES: u64 = 128;

/// A commit request that is not logged yet.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// The session that it came on.
    pub(crate) from: SessionId,
    pub(crate) request: CommitRequest,
    /// A bound of what it adds to the MOB.
    pub(crate) mob_bytes: usize,
    /// A bound of what it adds to the safe.
    pub(crate) safe_bytes: u64,
    /// How many more home images may be read for it.
    pub(crate) reads_left: u8,
}

impl Ticket {
    fn new(from: SessionId, request: CommitRequest) -> Self {
        Self {
            from,
            mob_bytes: request.writes.iter().map(mob::bytes_bound).sum(),
            safe_bytes: commit_bytes_bound(&request.writes) + PLACED_BYTES,
            reads_left: READS_PER_COMMIT_MAX,
            request,
        }
    }
}

/// Commits that wait for room, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    tickets: VecDeque<Ticket>,
    bytes: usize,
}

impl Parked {
    /// Whether commits wait for room.
    pub(crate) fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    fn push(&mut self, ticket: Ticket) {
        self.bytes += ticket.mob_bytes;
        self.tickets.push_back(ticket);
    }

    fn pop(&mut self) -> Option<Ticket> {
        let ticket = self.tickets.pop_front()?;
        self.bytes -= ticket.mob_bytes;
        Some(ticket)
    }
}

/// Whether there is room for a commit.
enum Room {
    Now,
    /// Write-back, or the disk, is about to make some.
    Later,
    /// None can be made.
    Never,
}

impl Store {
    /// A session wants a transaction committed.
    pub(crate) fn commit(&mut self, now: Time, from: SessionId, request: CommitRequest) -> Result<(), Goodbye> {
        self.admit_client(now, from, request.txn.client)?;
        form::check(&request, self.master.applied())?;
        self.outcomes.answered(request.txn.client, request.answered);
        if request.writes.is_empty() {
            self.commit_read_only(from, &request);
        } else if !self.answer_again(Asker { session: from, knows_writes: true }, request.txn) {
            self.take_in(now, from, request);
        }
        Ok(())
    }

    /// A session wants to know what became of a transaction.
    pub(crate) fn ask_outcome(&mut self, now: Time, from: SessionId, ask: AskOutcome) -> Result<(), Goodbye> {
        self.admit_client(now, from, ask.txn.client)?;
        let knows_writes = !self.sessions.is_group(from);
        if !self.answer_again(Asker { session: from, knows_writes }, ask.txn) {
            self.reply_outcome(from, ask.txn, Outcome::Unknown);
        }
        Ok(())
    }

    /// A transaction that writes nothing is validated once, and leaves no trace.
    fn commit_read_only(&mut self, from: SessionId, request: &CommitRequest) {
        let stale = self.master.stale(request);
        let outcome = if stale.is_empty() {
            Outcome::Committed { pages: Vec::new() }
        } else {
            Outcome::Refused(Refusal::Stale(stale))
        };
        self.count(&outcome);
        self.reply_outcome(from, request.txn, outcome);
    }

    /// Answers for a transaction whose outcome is known, or will be; says whether it is one.
    fn answer_again(&mut self, asker: Asker, txn: TxnId) -> bool {
        if self.config.broken.is(Rule::OneOutcome) {
            return false;
        }
        if let Some(outcome) = self.outcomes.get(txn) {
            self.reply_outcome(asker.session, txn, outcome);
            return true;
        }
        self.answer_also(asker, txn)
    }

    /// Answers one more session for a transaction, if it is under way.
    fn answer_also(&mut self, asker: Asker, txn: TxnId) -> bool {
        let Some(askers) = self.coordinator.askers(txn) else { return false };
        if let Some(known) = askers.iter_mut().find(|known| known.session == asker.session) {
            known.knows_writes |= asker.knows_writes;
            return true;
        }
        askers.retain(|asker| self.sessions.client(asker.session).is_some());
        let longest_ago = (askers.len() == ASKERS_MAX).then(|| askers.remove(0));
        askers.push(asker);
        self.charge(asker.session, 1);
        if let Some(longest_ago) = longest_ago {
            self.charge(longest_ago.session, -1);
        }
        true
    }

    /// Takes a request in unless something about it forbids that already.
    fn take_in(&mut self, now: Time, from: SessionId, request: CommitRequest) {
        if let Err(refusal) = self.check_request(from, &request) {
            return self.refuse_to(now, from, &request, refusal);
        }
        self.coordinator.begin(request.txn, Asker { session: from, knows_writes: true });
        self.charge(from, 1);
        self.admit(now, Ticket::new(from, request));
    }

    fn check_request(&mut self, from: SessionId, request: &CommitRequest) -> Result<(), Refusal> {
        if request.incarnation < self.incarnation && !self.config.broken.is(Rule::LapseWithStore) {
            return Err(Refusal::Lapsed(self.incarnation));
        }
        form::check_size(request)?;
        self.check_pages(request)?;
        if self.closing {
            return Err(Refusal::Closing);
        }
        let outstanding = self.sessions.commits(from).map_or(0, |commits| *commits);
        let can_remember = self.outcomes.has_room(request.txn.client, request.writes.len());
        let too_many_wait = self.parked.bytes > TXN_BYTES_MAX.max(self.config.mob_bytes_limit);
        if outstanding >= COMMITS_PER_SESSION_MAX || !can_remember || too_many_wait {
            return Err(Refusal::TooMany);
        }
        Ok(())
    }

    /// A page that does not exist can be read, and is empty; but it cannot be written to.
    fn check_pages(&self, request: &CommitRequest) -> Result<(), Refusal> {
        let absent = request.writes.iter().find(|delta| !self.grants.exists(delta.page));
        absent.map_or(Ok(()), |delta| Err(Refusal::NoSuchPage(delta.page)))
    }

    /// A session asks for a client: its own, or, if it is a group's, whomever it vouches for.
    fn admit_client(&mut self, now: Time, from: SessionId, client: ClientId) -> Result<(), Goodbye> {
        match self.sessions.client(from) {
            Some(own) if own == client => Ok(()),
            Some(_) if self.sessions.is_group(from) => {
                self.sessions.vouch(now, from, client);
                self.forget_clients(now);
                Ok(())
            }
            Some(own) => Err(Goodbye::malformed(format!("expected a transaction of {own:?}, got one of {client:?}"))),
            None => Ok(()),
        }
    }

    /// Goes on when there is room for the commit, and lets it wait behind the others when there is none.
    fn admit(&mut self, now: Time, ticket: Ticket) {
        match self.room_for(ticket.mob_bytes, ticket.safe_bytes) {
            Room::Now if self.parked.is_empty() => self.prepare(now, ticket),
            Room::Never => self.refuse(now, &ticket, Refusal::StoreFull),
            Room::Now | Room::Later => self.parked.push(ticket),
        }
    }

    /// A page was read to see whether the commit fits.
    pub(crate) fn admit_again(&mut self, now: Time, ticket: Ticket) {
        if self.closing {
            return self.refuse(now, &ticket, Refusal::Closing);
        }
        self.admit(now, ticket);
    }

    fn room_for(&mut self, mob_bytes: usize, safe_bytes: u64) -> Room {
        let (leased_mob_bytes, leased_safe_bytes) = self.leases.waiting_bytes();
        let waiting = self.master.mob().bytes() + self.coordinator.in_flight_bytes() + leased_mob_bytes;
        let fits_mob = waiting == 0 || waiting + mob_bytes <= self.config.mob_bytes_limit;
        let safe_bytes = safe_bytes + leased_safe_bytes;
        if fits_mob && self.safe.has_room(safe_bytes) {
            return Room::Now;
        }
        if self.writeback.is_home_full() {
            return Room::Never;
        }
        let stuck = self.coordinator.first_in_flight().is_none() && self.leases.is_idle() && !self.can_make_room();
        if stuck && !self.safe.make_room(safe_bytes, &mut self.out) { Room::Never } else { Room::Later }
    }

    /// Lets commits go on that waited for room. Those whose session is gone are dropped: nothing has begun for them,
    /// and their client sends them again.
    pub(crate) fn unpark(&mut self, now: Time) {
        while let Some(ticket) = self.parked.tickets.front() {
            let (mob_bytes, safe_bytes) = (ticket.mob_bytes, ticket.safe_bytes);
            let room = self.room_for(mob_bytes, safe_bytes);
            if matches!(room, Room::Later) && !self.closing {
                return;
            }
            let ticket = self.parked.pop().expect("just seen");
            let asked = self.coordinator.askers(ticket.request.txn);
            let is_there = |asker: &Asker| self.sessions.client(asker.session).is_some();
            let is_awaited = asked.is_some_and(|askers| askers.iter().any(is_there));
            match room {
                _ if !is_awaited => {
                    self.coordinator.end(ticket.request.txn);
                }
                _ if self.closing => self.refuse(now, &ticket, Refusal::Closing),
                Room::Never => self.refuse(now, &ticket, Refusal::StoreFull),
                Room::Now | Room::Later => self.prepare(now, ticket),
            }
        }
    }

    /// Counts a commit request to what its session has outstanding, or off it.
    pub(crate) fn charge(&mut self, session: SessionId, commits: isize) {
        if let Some(outstanding) = self.sessions.commits(session) {
            *outstanding = outstanding.saturating_add_signed(commits);
        }
    }
}
