//! A commit's way through the roles of the node, each of which says what it wants done.
//!
//! ```text
//!           room, Prepare        Vote           Sequence, Placed      durable          Decide
//!   coordinator --------> master ----> coordinator ----> log ~~~~~~~~~~> coordinator ----> master --applied-->
//! ```
//! Each arrow is a message of `messages::roles`, and a function call between roles of the same node (`peers`).
//!
//! 1. There is room in the log before the master judges a commit (`room`).
//! 2. A commit gets its counts with its position in the log, so both have the same order.

use crate::form;
use crate::{CommitRecord, DiskWork, Record, SessionId, Store};
use coordinator::{Asker, Hears};
use directory::Urgency;
use machine::Goodbye;
use master::{NextPage, Origin};
use messages::{Applied, AskOutcome, CommitReply, CommitRequest, ToNode, Withdraw};
use types::{ClientId, Position, Rule, Time};

impl Store {
    /// A session wants a transaction committed.
    pub(crate) fn commit(&mut self, now: Time, from: SessionId, request: CommitRequest) -> Result<(), Goodbye> {
        self.admit_client(now, from, request.txn.client)?;
        form::check(&request, &self.master, self.config.sharding)?;
        if let Some(request) = self.coordinator.commit(from, request) {
            self.reserve(from, request);
        }
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
            Output::GiveBack(txn) => self.room.give_back(txn),
            Output::Prepare(at, from, prepare) if at == self.config.node => {
                self.master.prepare(now, Origin { coordinator: at, session: Some(from) }, prepare);
            }
            Output::Prepare(at, _, prepare) => self.tell(now, at, ToNode::Prepare(prepare)),
            Output::Withdraw(at, txn) => self.tell(now, at, ToNode::Withdraw(Withdraw { txn })),
            Output::Release(at, release) => self.tell(now, at, ToNode::Release(release)),
            Output::Sequence(sequence) => self.want_counts(sequence),
            Output::Log(record) => self.log(now, record),
            Output::Decide(at, decide, replied) if at == self.config.node => {
                let decided = self.master.decide(now, at, decide, replied);
                debug_assert!(decided.is_ok(), "it was counted above what the master has seen: {decided:?}");
            }
            Output::Decide(at, decide, _) => self.tell(now, at, ToNode::Decide(decide)),
            Output::Reply(to, reply, hears) => self.reply_outcome(to, reply, hears),
            Output::Keep(txn) => self.sessions.expect_back(now, txn.client),
        }
    }

    fn do_for_master(&mut self, now: Time, output: master::Output) {
        use master::Output;
        match output {
            Output::Send(to, message) => self.out.send(to, message),
            Output::Grant(to, granted, next) => {
                if let Some(NextPage { space, next }) = next {
                    self.last_grant = self.log.append(Record::Grant { space, next }, &mut self.out);
                }
                // Pages of a grant that did not reach its client are granted again, perhaps before their record is
                // durable.
                self.out.send_after(to, granted, Some(self.last_grant));
            }
            Output::AwaitRoom(session) => self.out.await_room(session),
            Output::End(session, why) => self.end(now, session, why),
            Output::Vote(to, vote) if to == self.config.node => self.coordinator.voted(to, vote),
            Output::Vote(to, vote) => self.tell(now, to, ToNode::Vote(vote)),
            Output::Applied(to, txn, advances) if to == self.config.node => {
                self.coordinator.applied(to, txn, advances);
            }
            Output::Applied(to, txn, _) => self.tell(now, to, ToNode::Applied(Applied { txn })),
            Output::Serving(shard) => self.tell_serving(now, shard),
            Output::Copied(to, copied) => self.tell(now, to, ToNode::CopiedPage(copied)),
            Output::NotCopied(to, page) => self.tell(now, to, ToNode::NotCopied(page)),
            Output::Read(pages) => self.out.disk(DiskWork::Read(pages)),
            Output::Install(install) => self.install(now, install),
        }
    }

    /// Logs a commit. The durability of its record is the commit point.
    fn log(&mut self, now: Time, record: CommitRecord) {
        let txn = record.txn;
        self.room.give_back(txn);
        let counts = self.config.has_peers().then(|| record.counts.clone());
        let position = self.log.append(Record::Commit(record), &mut self.out);
        if let Some(counts) = counts {
            self.kept.push(position, txn, counts);
        }
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
