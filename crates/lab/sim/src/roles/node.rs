//! One node: its roles, its log, and what it says to others.

use super::scenario::Scenario;
use crate::violation::{Check, Violation};
use bytes::Bytes;
use coordinator::Coordinator;
use core::time::Duration;
use master::{EarlierLeases, InTurn, LogState, Master};
use messages::{Advance, CommitReply, Decide, Placed, Prepare, Release, Sequence, Vote};
use std::collections::{BTreeMap, VecDeque};
use types::{
    Broken, Incarnation, Limits, NodeId, ObjectId, PageId, Position, SessionId, Shard, Time, TxnId, Vector, Version,
};

/// A message between nodes.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Prepare(Prepare),
    Withdraw(TxnId),
    Release(Release),
    Decide(Decide),
    Vote(Vote),
    Applied(TxnId, Vec<Advance>),
    Sequence(Sequence),
    Placed(Placed),
}

/// The value of a slot as its master has it: who wrote it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    pub(crate) writer: TxnId,
}

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) coordinator: Coordinator,
    pub(crate) master: Master,
    /// The records that are not durable, oldest first.
    log: VecDeque<TxnId>,
    last: Position,
    /// The coordinators of the transactions that the master has or had.
    coordinators: BTreeMap<TxnId, usize>,
    /// The writes of prepared transactions, and what is applied of them.
    writes: BTreeMap<TxnId, Vec<ObjectId>>,
    pub(crate) values: BTreeMap<ObjectId, Value>,
}

/// A wish of a node: a message to a node, or to a sequencer, or an answer to an application.
#[derive(Debug)]
pub(crate) enum Wish {
    Tell(usize, Message),
    Sequence(Sequence),
    Reply(SessionId, CommitReply),
}

impl Node {
    pub(crate) fn new(scenario: &Scenario, number: usize, broken: Broken) -> Self {
        let (sharding, limits) = (scenario.sharding, Limits::SHIPPED);
        let config = coordinator::Config {
            node: NodeId(number as u16),
            incarnation: Incarnation(1),
            sharding,
            unlogged_bytes_max: 1 << 20,
            limits,
            broken,
        };
        let mut coordinator = Coordinator::new(config, Vec::new(), Vector::new());
        for shard in 0..sharding.shards().get() {
            coordinator.place(Shard(shard), NodeId(shard % scenario.nodes as u16));
        }
        let config = master::Config {
            sharding,
            has_peers: true,
            mob_bytes_limit: 1 << 24,
            cache_bytes_limit: 1 << 20,
            recent_limit: 1000,
            invalidation_delay: Duration::ZERO,
            leased_spaces: Vec::new(),
            lease: Duration::from_secs(2),
            grace: Duration::from_secs(60),
            references: |_, _| {},
            limits,
            broken,
        };
        let opened = master::Opened { next_pages: vec![(0, scenario.pages)], ..master::Opened::default() };
        let mut master = Master::new(config, opened);
        master.start(Time::ZERO, EarlierLeases::default());
        Self {
            coordinator,
            master,
            log: VecDeque::new(),
            last: Position(0),
            coordinators: BTreeMap::new(),
            writes: BTreeMap::new(),
            values: BTreeMap::new(),
        }
    }

    /// Whether a record is on its way to the disk.
    pub(crate) fn is_logging(&self) -> bool {
        !self.log.is_empty()
    }

    /// The oldest record is durable.
    pub(crate) fn flush(&mut self) {
        if let Some(txn) = self.log.pop_front() {
            self.coordinator.durable(txn);
        }
    }

    /// A message has come.
    ///
    /// # Errors
    /// If it says something that no node of ours would.
    pub(crate) fn handle(&mut self, now: Time, from: usize, message: Message) -> Check {
        let sender = NodeId(from as u16);
        match message {
            Message::Prepare(prepare) => {
                let request = &prepare.request;
                self.coordinators.insert(request.txn, from);
                let writes = request.writes.iter();
                let objects = writes.flat_map(|delta| {
                    delta.slots().iter().map(|slot| ObjectId::new(delta.page, slot)).collect::<Vec<_>>()
                });
                self.writes.entry(request.txn).or_default().extend(objects);
                self.master.prepare(now, SessionId(from as u64), prepare);
            }
            Message::Withdraw(txn) => self.master.withdraw(txn),
            Message::Release(release) => {
                self.writes.remove(&release.txn);
                self.master.release(now, release);
            }
            Message::Decide(decide) => {
                let decided = self.master.decide(now, decide, [].into_iter().collect());
                decided.map_err(|why| Violation { checker: "counts", text: why.text })?;
            }
            Message::Vote(vote) => self.coordinator.voted(sender, vote),
            Message::Applied(txn, moved) => self.coordinator.applied(sender, txn, moved),
            Message::Placed(placed) => self.coordinator.placed(&placed),
            Message::Sequence(_) => unreachable!("sequencers are elsewhere"),
        }
        Ok(())
    }

    /// Everything that the roles want said.
    pub(crate) fn wishes(&mut self, now: Time) -> Vec<Wish> {
        let log = LogState { is_tight: false, is_short: false, is_ahead: false };
        self.master.handle_timeout(now);
        self.master.follow_up(now, log);
        let mut wishes = Vec::new();
        while let Some(output) = self.master.poll_output() {
            match output {
                master::Output::Vote(vote) => {
                    let to = self.coordinators[&vote.txn];
                    if vote.verdict != messages::Verdict::Prepared {
                        self.writes.remove(&vote.txn);
                    }
                    wishes.push(Wish::Tell(to, Message::Vote(vote)));
                }
                master::Output::Applied(txn, moved) => {
                    let writes = self.writes.remove(&txn).unwrap_or_default();
                    self.values.extend(writes.into_iter().map(|object| (object, Value { writer: txn })));
                    wishes.push(Wish::Tell(self.coordinators[&txn], Message::Applied(txn, moved)));
                }
                other => unreachable!("a master without sessions wants {other:?}"),
            }
        }
        while let Some(output) = self.coordinator.poll_output() {
            use coordinator::Output;
            match output {
                Output::Prepare(at, _, prepare) => wishes.push(tell(at, Message::Prepare(prepare))),
                Output::Withdraw(at, txn) => wishes.push(tell(at, Message::Withdraw(txn))),
                Output::Release(at, release) => wishes.push(tell(at, Message::Release(release))),
                Output::Decide(at, decide, _) => wishes.push(tell(at, Message::Decide(decide))),
                Output::Sequence(sequence) => wishes.push(Wish::Sequence(sequence)),
                Output::Log(record) => {
                    self.last.0 += 1;
                    self.log.push_back(record.txn);
                }
                Output::Reply(to, reply, _) => wishes.push(Wish::Reply(to, reply)),
                Output::Keep(_) => {}
            }
        }
        wishes
    }

    /// A page's evidence for a reader of now: everything through here is in its values.
    pub(crate) fn evidence(&self, scenario: &Scenario, page: PageId) -> Version {
        self.master.applied().of(scenario.sharding.of(page))
    }

    /// Whether nothing is prepared, waits or is under way here.
    pub(crate) fn rests(&self) -> bool {
        // A place that is kept for a client is given up in its time.
        let waits = |in_line: InTurn<'_>| matches!(in_line, InTurn::Commit(_));
        self.log.is_empty() && self.master.prepared().next().is_none() && !self.master.in_turn().any(waits)
    }
}

fn tell(at: NodeId, message: Message) -> Wish {
    Wish::Tell(usize::from(at.0), message)
}

/// The value that everyone writes: what counts is who.
pub(crate) fn value() -> Bytes {
    Bytes::from_static(b"x")
}
