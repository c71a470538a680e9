//! A commit's way through the roles of the node, each of which says what it wants done.
//!
//! ```text
//!           Prepare              Vote           Sequence, Placed      durable          Decide
//!   coordinator --room--> master ----> coordinator ----> log ~~~~~~~~~~> coordinator ----> master --applied-->
//! ```
//! Each arrow is a message of `messages::roles`, and here a function call.
//!
//! 1. There is room in the log before the master judges a commit (`room`).
//! 2. A commit gets its counts with its position in the log, so both have the same order.

use crate::form;
use crate::{CommitRecord, DiskWork, Record, SessionId, Store};
use coordinator::{Asker, Hears};
use directory::Urgency;
use machine::Goodbye;
use master::NextPage;
use messages::{AskOutcome, CommitReply, CommitRequest, Verdict, Vote};
use types::{ClientId, Position, Rule, Time};

impl Store {
    /// A session wants a transaction committed.
    pub(crate) fn commit(&mut self, now: Time, from: SessionId, request: CommitRequest) -> Result<(), Goodbye> {
        self.admit_client(now, from, request.txn.client)?;
        form::check(&request, self.master.applied(), self.config.sharding)?;
        self.coordinator.commit(from, request);
        Ok(())
    }

    /// A session asks for the outcome of a transaction.
    pub(crate) fn ask_outcome(&mut self, now: Time, from: SessionId, ask: AskOutcome) -> Result<(), Goodbye> {
        self.admit_client(now, from, ask.txn.client)?;
        let knows_writes = !self.sessions.is_group(from) || self.config.broken.is(Rule::TellAskers);
        self.coordinator.ask_outcome(Asker { session: from, knows_writes }, ask.txn);
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

    /// Does what the roles want done. A message of the master leaves before an answer of the coordinator.
    /// Returns whether there was anything.
    pub(crate) fn carry_on(&mut self, now: Time) -> bool {
        let mut has_done = false;
        loop {
            if let Some(output) = self.master.poll_output() {
                self.do_for_master(now, output);
            } else if let Some(output) = self.coordinator.poll_output() {
                self.do_for_coordinator(now, output);
            } else {
                return has_done;
            }
            has_done = true;
        }
    }

    fn do_for_coordinator(&mut self, now: Time, output: coordinator::Output) {
        use coordinator::Output;
        match output {
            Output::Prepare(_, from, prepare) => self.admit(now, from, prepare),
            Output::Withdraw(_, txn) if self.room.withdraw(txn) => self.voted(Vote::withdrawn(txn)),
            Output::Withdraw(_, txn) => self.master.withdraw(txn),
            Output::Release(_, release) => self.master.release(now, release),
            Output::Sequence(sequence) => {
                let placed = self.sequencer.handle(sequence);
                self.coordinator.placed(&placed);
            }
            Output::Log(record) => self.log(now, record),
            Output::Decide(_, decide, replied) => {
                let decided = self.master.decide(now, decide, replied);
                debug_assert!(decided.is_ok(), "the sequencer is the node's own: {decided:?}");
            }
            Output::Reply(to, reply, hears) => self.reply_outcome(to, reply, hears),
            Output::Keep(client) => self.sessions.expect_back(now, client),
        }
    }

    fn do_for_master(&mut self, now: Time, output: master::Output) {
        use master::Output;
        match output {
            Output::Send(to, message) => self.out.send(to, message),
            Output::Grant(to, granted, next) => {
                let record = next.map(|NextPage { space, next }| Record::Grant { space, next });
                let after = record.map(|record| self.log.append(record, &mut self.out));
                self.out.send_after(to, granted, after);
            }
            Output::AwaitRoom(session) => self.out.await_room(session),
            Output::End(session, why) => self.end(now, session, why),
            Output::Vote(vote) => {
                if vote.verdict != Verdict::Prepared {
                    self.room.give_back(vote.txn);
                }
                self.voted(vote);
            }
            Output::Applied(txn, advances) => self.coordinator.applied(self.config.node, txn, advances),
            Output::Read(pages) => self.out.disk(DiskWork::Read(pages)),
            Output::Install(install) => self.install(now, install),
        }
    }

    /// The node's master has judged a transaction.
    pub(crate) fn voted(&mut self, vote: Vote) {
        self.coordinator.voted(self.config.node, vote);
    }

    /// Logs a commit. The durability of its record is the commit point.
    fn log(&mut self, now: Time, record: CommitRecord) {
        let txn = record.txn;
        self.room.give_back(txn);
        let position = self.log.append(Record::Commit(record), &mut self.out);
        self.master.logged(txn, position);
        self.in_flight.push(position, txn);
        if self.config.broken.is(Rule::LogBeforeReply) {
            self.finish_through(now, position);
        }
    }

    /// Takes every commit that is durable through its last phases.
    pub(crate) fn finish_through(&mut self, now: Time, through: Position) {
        while let Some(txn) = self.in_flight.pop_through(through) {
            self.coordinator.durable(txn);
            self.carry_on(now);
        }
    }

    /// Answers a session for the coordinator, behind the invalidations that the answer depends on.
    fn reply_outcome(&mut self, to: SessionId, reply: CommitReply, hears: Hears) {
        match hears {
            Hears::Earlier => return self.out.send(to, reply),
            Hears::Worthwhile => {}
            Hears::All => self.master.flush(to, Urgency::All),
        }
        self.master.reply(to, reply);
    }
}
