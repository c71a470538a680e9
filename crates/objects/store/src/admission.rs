//! The questions before a commit's first phase: is it sound, is it new, is there room for it?
//!
//! 1. A transaction that is known, or under way, is answered and not begun again. If it is neither, a copy that was
//!    sent to an earlier incarnation has lapsed: another copy may have been refused since, which that incarnation knew.
//!    One that would write something else than the one under way is no copy, and no client of ours sends it. It is told
//!    that nobody knows: to the redirector that has passed it on, the outcome would say that this is what was written,
//!    and it would tell its members so (**SameWrites**).
//! 2. Room is found before anything is begun (see `room`).
//! 3. Requests that were taken in and are not logged yet are bounded in bytes, whatever they wait for: room, a page to
//!    be read, their turn.

use crate::coordinator::{ASKERS_MAX, Asker};
use crate::images::Waiter;
use crate::room::{Room, Waiting};
use crate::ticket::Ticket;
use crate::{SessionId, Store, form};
use alloc::format;
use alloc::vec::Vec;
use machine::Goodbye;
use messages::{AskOutcome, CommitRequest, Outcome};
use types::limits::TXN_BYTES_MAX;
use types::{ClientId, PageId, Refusal, Rule, Time, TxnId};

impl Store {
    /// A session wants a transaction committed.
    pub(crate) fn commit(&mut self, now: Time, from: SessionId, request: CommitRequest) -> Result<(), Goodbye> {
        self.admit_client(now, from, request.txn.client)?;
        form::check(&request, self.master.applied())?;
        self.outcomes.answered(request.txn.client, request.answered);
        if request.writes.is_empty() {
            self.commit_read_only(from, &request);
        } else if self.is_no_copy(&request) {
            self.reply_outcome(from, request.txn, Outcome::Unknown);
        } else if !self.answer_again(Asker { session: from, knows_writes: true }, request.txn) {
            self.take_in(now, from, request);
        }
        Ok(())
    }

    /// Whether a transaction of this identity is under way that writes something else.
    fn is_no_copy(&mut self, request: &CommitRequest) -> bool {
        if self.coordinator.askers(request.txn).is_none() || self.config.broken.is(Rule::SameWrites) {
            return false;
        }
        let waiting = self.parked.tickets().chain(self.turns.tickets()).chain(self.master.waiting_commits());
        let waiting = waiting.chain(self.leases.tickets()).map(|ticket| &ticket.request);
        let waiting = waiting.map(|request| (request.txn, &request.writes));
        let mut under_way = waiting.chain(self.coordinator.in_flight());
        under_way.any(|(txn, writes)| txn == request.txn && *writes != request.writes)
    }

    /// A session wants to know what became of a transaction.
    pub(crate) fn ask_outcome(&mut self, now: Time, from: SessionId, ask: AskOutcome) -> Result<(), Goodbye> {
        self.admit_client(now, from, ask.txn.client)?;
        let knows_writes = !self.sessions.is_group(from) || self.config.broken.is(Rule::TellAskers);
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
        let Some(askers) = self.coordinator.askers_mut(txn) else { return false };
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
        self.losses.has_come(now, &request);
        self.coordinator.begin(request.txn, Asker { session: from, knows_writes: true });
        self.charge(from, 1);
        let is_new = request.writes.iter().any(|delta| self.master.is_empty(delta.page));
        let takes_place = self.turns.is_kept_for(&request);
        let ticket = Ticket::new(from, request, self.config.limits.reads_per_commit);
        self.admit(now, Ticket { is_new, takes_place, ..ticket });
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
        let too_many_wait = self.parked.bytes() > TXN_BYTES_MAX.max(self.config.mob_bytes_limit);
        if outstanding >= self.config.limits.commits_per_session || !can_remember || too_many_wait {
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

    /// Goes on when there is room for the commit, and lets it wait behind the others when there is none; or where a
    /// place is kept for it.
    fn admit(&mut self, now: Time, ticket: Ticket) {
        let has_place = ticket.takes_place && self.turns.is_kept_for(&ticket.request);
        match self.room_for(ticket.need()) {
            Room::Now if !self.is_short_of_room() => self.prepare(now, ticket),
            Room::Never => self.refuse(now, &ticket, Refusal::StoreFull),
            Room::Now | Room::Later if has_place => self.await_room_in_place(now, ticket),
            Room::Now | Room::Later => self.parked.push(Waiting::Commit(ticket)),
        }
    }

    /// A page must be read to see whether the commit fits.
    pub(crate) fn await_page(&mut self, page: PageId, ticket: Ticket) {
        self.parked.begin_waiting(&ticket);
        self.master.read([(page, Waiter::Commit(ticket))], &mut self.out);
    }

    /// A page is there that was read to see whether the commit fits.
    pub(crate) fn admit_again(&mut self, now: Time, ticket: Ticket) {
        if let Some(ticket) = self.end_wait(now, ticket) {
            self.admit(now, ticket);
        }
    }

    /// The page or the turn that a commit has waited for is there. Returns it if it must continue.
    pub(crate) fn end_wait(&mut self, now: Time, ticket: Ticket) -> Option<Ticket> {
        self.parked.end_waiting(&ticket);
        if self.is_dropped(&ticket) {
            return None;
        }
        if self.closing {
            self.refuse(now, &ticket, Refusal::Closing);
            return None;
        }
        Some(ticket)
    }

    /// Counts a commit request to what its session has outstanding, or off it.
    pub(crate) fn charge(&mut self, session: SessionId, commits: isize) {
        if let Some(outstanding) = self.sessions.commits(session) {
            *outstanding = outstanding.saturating_add_signed(commits);
        }
    }
}
