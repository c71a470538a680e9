//! A commit's way through the roles of the node.
//!
//! ```text
//!                 Prepare        vote           Sequence, Placed      durable          Decide
//!   coordinator ----------> master ----> coordinator ----> log ~~~~~~~~~~> coordinator ----> master --applied-->
//! ```
//! Each arrow is a message of `messages::roles`, and here a function call.
//!
//! 1. Validated and prepared in one step: from then on its writes are in others' way, so nothing comes between the
//!    judgement and the log, also when it waits for promises first (`leases`). A commit that meets it waits its turn
//!    (`turns`).
//! 2. A commit gets its count with its position in the log, so both have the same order.

use crate::form;
use crate::ticket::Ticket;
use crate::validate::Verdict;
use crate::{CommitRecord, Record, SessionId, Store};
use alloc::sync::Arc;
use coordinator::{Asker, Hears, Output};
use directory::Urgency;
use machine::Goodbye;
use messages::{Advance, AskOutcome, CommitReply, CommitRequest, Decide, Invalidation, Prepare, Vote};
use types::{ClientId, Delta, Position, Refusal, Rule, Time, TxnId};

impl Store {
    /// A session wants a transaction committed.
    pub(crate) fn commit(&mut self, now: Time, from: SessionId, request: CommitRequest) -> Result<(), Goodbye> {
        self.admit_client(now, from, request.txn.client)?;
        form::check(&request, self.master.applied())?;
        self.coordinator.commit(from, request);
        self.carry_on(now);
        Ok(())
    }

    /// A session wants to know what became of a transaction.
    pub(crate) fn ask_outcome(&mut self, now: Time, from: SessionId, ask: AskOutcome) -> Result<(), Goodbye> {
        self.admit_client(now, from, ask.txn.client)?;
        let knows_writes = !self.sessions.is_group(from) || self.config.broken.is(Rule::TellAskers);
        self.coordinator.ask_outcome(Asker { session: from, knows_writes }, ask.txn);
        self.carry_on(now);
        Ok(())
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
            Some(own) => {
                let text = alloc::format!("expected a transaction of {own:?}, got one of {client:?}");
                Err(Goodbye::malformed(text))
            }
            None => Ok(()),
        }
    }

    /// Does what the coordinator wants done.
    fn carry_on(&mut self, now: Time) {
        while let Some(output) = self.coordinator.poll_output() {
            match output {
                Output::Prepare(from, Prepare(request)) => self.judge(now, from, request),
                Output::Sequence(sequence) => {
                    let placed = self.sequencer.handle(sequence);
                    self.coordinator.placed(&placed);
                }
                Output::Log(record) => self.log(now, record),
                Output::Decide(decide, replied) => self.decide(now, decide, &replied),
                Output::Reply(to, reply, hears) => self.reply_outcome(to, reply, hears),
                Output::Keep(client) => self.sessions.expect_back(now, client),
            }
        }
    }

    /// The master judges a transaction. One that writes nothing is validated once, and leaves no trace.
    fn judge(&mut self, now: Time, from: SessionId, request: Arc<CommitRequest>) {
        if request.writes.is_empty() {
            let stale = self.master.stale(&request);
            let verdict = if stale.is_empty() { Ok(()) } else { Err(Refusal::Stale(stale)) };
            return self.vote(now, request.txn, verdict);
        }
        // A page that does not exist can be read, and is empty; but it cannot be written to.
        if let Some(absent) = request.writes.iter().find(|delta| !self.grants.exists(delta.page)) {
            return self.vote(now, request.txn, Err(Refusal::NoSuchPage(absent.page)));
        }
        self.losses.has_come(now, &request);
        let is_new = request.writes.iter().any(|delta| self.master.is_empty(delta.page));
        let takes_place = self.turns.is_kept_for(&request);
        let ticket = Ticket::new(from, request, self.config.limits.reads_per_commit);
        self.admit(now, Ticket { is_new, takes_place, ..ticket });
    }

    /// There is room for a transaction: the master validates and prepares it, or lets it wait.
    pub(crate) fn prepare(&mut self, now: Time, mut ticket: Ticket) {
        match self.master.validate(&ticket.request) {
            Verdict::Met => self.await_turn(now, ticket),
            Verdict::Valid if self.stands_in_the_way(&ticket.request) || self.would_overtake(&ticket) => {
                self.await_turn(now, ticket);
            }
            Verdict::Valid => {
                self.leave_line(&ticket.request);
                self.master.prepare(&ticket);
                if let Some(ticket) = self.await_promises(now, ticket) {
                    self.vote(now, ticket.request.txn, Ok(()));
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

    /// The master refuses a transaction.
    pub(crate) fn refuse(&mut self, now: Time, ticket: &Ticket, refusal: Refusal) {
        self.vote(now, ticket.request.txn, Err(refusal));
    }

    /// The master tells the coordinator its verdict.
    pub(crate) fn vote(&mut self, now: Time, txn: TxnId, verdict: Result<(), Refusal>) {
        self.coordinator.voted(Vote { txn, verdict });
        self.carry_on(now);
    }

    /// Logs a commit. The durability of its record is the commit point.
    fn log(&mut self, now: Time, record: CommitRecord) {
        let txn = record.txn;
        let position = self.log.append(Record::Commit(record), &mut self.out);
        self.master.logged(txn, position);
        self.in_flight.push(position, txn);
        if self.config.broken.is(Rule::LogBeforeReply) {
            self.finish_through(now, position);
        }
    }

    /// Takes every commit that is durable through its last phases.
    pub(crate) fn finish_through(&mut self, now: Time, through: Position) {
        while let Some(txn) = self.in_flight.pop_through(now, through) {
            self.coordinator.durable(txn);
            self.carry_on(now);
        }
    }

    /// The master applies a transaction that has committed. Every holder of the changed pages is told, but for those
    /// that are replied to; and every watcher.
    fn decide(&mut self, now: Time, decide: Decide, replied: &[SessionId]) {
        let Decide { txn, count } = decide;
        self.turns.make_way();
        let Some(prepared) = self.master.decided(txn) else { return };
        if !self.config.broken.is(Rule::InvalidationsBeforeReply) {
            replied.iter().for_each(|&session| self.flush(session, Urgency::Worthwhile));
        }
        let deltas = &prepared.request.writes;
        let advances = self.master.advances(count, deltas);
        self.master.apply(prepared.position, count, deltas);
        self.distribute(now, txn, deltas, &advances, replied);
        self.coordinator.applied(txn, advances);
    }

    fn distribute(&mut self, now: Time, txn: TxnId, deltas: &[Delta], advances: &[Advance], replied: &[SessionId]) {
        for (&Advance { page, prev, version }, delta) in advances.iter().zip(deltas) {
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
        for delta in deltas {
            self.page_has_changed(delta.page);
        }
    }

    /// Answers a session for the coordinator, behind the invalidations that the answer depends on.
    fn reply_outcome(&mut self, to: SessionId, reply: CommitReply, hears: Hears) {
        match hears {
            Hears::Earlier => return self.out.send(to, reply),
            Hears::Worthwhile => {}
            Hears::All => self.flush(to, Urgency::All),
        }
        self.reply(to, reply, None);
    }
}
