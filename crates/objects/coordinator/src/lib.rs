//! The coordinator role: takes commits through their phases, and remembers their outcomes.
//!
//! ```text
//!   CommitRequest --> room ~~> Prepare ~~> Votes -> Sequence ~~> Placed --> log ~~> durable --> Decide ~~> applied
//!                      |                     |                    |                    |                      |
//!                refused: reply        refused: reply          position        commit point: reply, or here if its own
//!                                                                              master has it alone
//! ```
//! # How it is called
//! [`Coordinator::new`], then [`Coordinator::recovered`] for each commit that the log held. From then on, in any order:
//! [`Coordinator::connected`], [`Coordinator::commit`], [`Coordinator::ask_outcome`], [`Coordinator::reserved`],
//! [`Coordinator::not_reserved`], [`Coordinator::voted`], [`Coordinator::placed`], [`Coordinator::sequence_again`],
//! [`Coordinator::durable`], [`Coordinator::applied`], [`Coordinator::serving`], [`Coordinator::disconnected`]; and
//! after each of them [`Coordinator::poll_output`] until it returns nothing.
//!
//! # Files
//! | file | what it knows or does |
//! |---|---|
//! | `admission` | a request before its first phase: sound and new |
//! | `phases` | prepare, sequence, log, decide, reply |
//! | `under_way`, `askers` | how far a commit is, and who is answered for it |
//! | `parts` | which master judges which part of a transaction |
//! | `peers` | links that are lost and found, shards that are opened again |
//! | `outcomes` | the outcome of each transaction |
//! | `records` | what a commit leaves in the log and in a checkpoint |
#![no_std]

extern crate alloc;

mod admission;
mod askers;
mod outcomes;
mod parts;
mod peers;
mod phases;
mod records;
mod under_way;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
pub use askers::Asker;
use messages::{Advance, CommitReply, Decide, Outcome, Prepare, Release, Sequence};
use outcomes::Outcomes;
use parts::Masters;
pub use records::{ClientOutcomes, CommitRecord};
use smallvec::SmallVec;
use types::{
    Broken, ClientId, Incarnation, Limits, Map, NodeId, Opening, Rule, SessionId, Shard, Sharding, TxnId, Vector,
};
use under_way::UnderWay;

/// The settings of a coordinator.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Its node.
    pub node: NodeId,
    /// The incarnation of its process. Requests that were sent to an earlier one are refused as `lapsed`.
    pub incarnation: Incarnation,
    /// Which pages have counts in common.
    pub sharding: Sharding,
    /// Memory that requests may take which are not logged yet, in bytes.
    pub unlogged_bytes_max: usize,
    /// How much is kept for each client and each session.
    pub limits: Limits,
    /// The rule that is taken out, in tests of the checkers.
    pub broken: Broken,
}

/// An action that the coordinator wants done.
#[derive(Debug)]
pub enum Output {
    /// Free the room that is kept for the record of a transaction, or stop its wait for room: there will be no record.
    GiveBack(TxnId),
    /// Have the master at this node judge a transaction, or a part of it, that came on this session.
    Prepare(NodeId, SessionId, Prepare),
    /// The master at this node may let go of it, unless it is prepared; [`Coordinator::voted`] says so.
    Withdraw(NodeId, TxnId),
    /// The master at this node forgets what it has prepared.
    Release(NodeId, Release),
    /// Get a place for it.
    Sequence(Sequence),
    /// Append its record to the log. [`Coordinator::durable`] says when that is durable.
    Log(CommitRecord),
    /// Have it applied at this node; [`Coordinator::applied`] answers. To these sessions the reply stands for the
    /// invalidation: before it they hear all earlier ones, and this one never.
    Decide(NodeId, Decide, SmallVec<[SessionId; 1]>),
    /// Answer a session.
    Reply(SessionId, CommitReply, Hears),
    /// The outcome of a transaction is kept for its client, which may come back for it.
    Keep(TxnId),
}

/// The invalidations that a session hears before a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hears {
    /// The invalidations of all earlier counts. The master has sent them before it applied the commit.
    Earlier,
    /// The invalidations that are worth a message of their own.
    Worthwhile,
    /// All invalidations.
    All,
}

/// The figures of a coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Commits since the start that wrote something.
    pub commits: u64,
    /// Read-only transactions validated since the start.
    pub read_only: u64,
    /// Refused commits since the start.
    pub refused: u64,
}

/// The machine.
#[derive(Debug)]
pub struct Coordinator {
    config: Config,
    masters: Masters,
    out: VecDeque<Output>,
    /// The sessions past hello, and how many commit requests each has outstanding.
    sessions: Map<SessionId, usize>,
    under_way: Map<TxnId, UnderWay>,
    /// Memory that requests take which are not logged yet, in bytes.
    unlogged_bytes: usize,
    outcomes: Outcomes,
    closing: bool,
    stats: Stats,
    refusals: BTreeMap<&'static str, u64>,
}

impl Coordinator {
    /// A coordinator with the outcomes of a checkpoint, and with the highest counts of those that were forgotten before
    /// their clients had them.
    pub fn new(config: Config, outcomes: Vec<ClientOutcomes>, forgotten: Vector) -> Self {
        Self {
            masters: Masters::new(config.sharding, config.node),
            out: VecDeque::new(),
            sessions: Map::default(),
            under_way: Map::default(),
            unlogged_bytes: 0,
            outcomes: Outcomes::restore(outcomes, forgotten, config.sharding, config.limits),
            closing: false,
            stats: Stats::default(),
            refusals: BTreeMap::new(),
            config,
        }
    }

    /// The log held this commit, which has moved its pages so.
    pub fn recovered(&mut self, txn: TxnId, answered: u64, advances: Vec<Advance>) {
        self.outcomes.remember(txn, answered, advances);
    }

    /// A shard is at this node in this opening, unless a later one is known. A store of one node has no openings.
    pub fn place(&mut self, shard: Shard, at: NodeId, opening: Opening) {
        if self.masters.place(shard, at, opening) {
            self.ask_again_for(|part| part.touches(shard));
        }
    }

    /// The node of a shard in a store of several, if that is known.
    pub fn place_of(&self, shard: Shard) -> Option<NodeId> {
        self.masters.place_of(shard)
    }

    /// The node of a shard, and its opening there.
    pub fn shard_at(&self, shard: Shard) -> Option<(NodeId, Opening)> {
        self.masters.shard_at(shard)
    }

    /// A session has said hello.
    pub fn connected(&mut self, session: SessionId) {
        self.sessions.insert(session, 0);
    }

    /// A session has ended.
    pub fn disconnected(&mut self, session: SessionId) {
        if self.sessions.remove(&session).is_some_and(|outstanding| outstanding > 0) {
            self.withdraw_unawaited();
        }
    }

    /// Whether no commit is under way.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Refuses new commits from here on, and those whose shards move.
    pub fn close(&mut self) {
        self.closing = true;
        self.refuse_awaiting();
    }

    /// The client will not come back for what is kept for it.
    pub fn forget(&mut self, client: ClientId) {
        self.outcomes.forget(client);
    }

    /// The next action that the coordinator wants done.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// Commit requests that a session has outstanding.
    pub fn outstanding(&self, session: SessionId) -> usize {
        self.sessions.get(&session).copied().unwrap_or_default()
    }

    /// The clients with known outcomes.
    pub fn clients(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.outcomes.clients()
    }

    /// The highest counts of those outcomes that were forgotten before their clients had them.
    pub fn forgotten(&self) -> &Vector {
        self.outcomes.forgotten()
    }

    /// The outcomes that clients may still ask for, as a checkpoint keeps them.
    pub fn to_checkpoint(&self) -> Vec<ClientOutcomes> {
        self.outcomes.to_checkpoint()
    }

    /// The figures.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Refused commits since the start, by the reason's name.
    pub fn refusals(&self) -> &BTreeMap<&'static str, u64> {
        &self.refusals
    }

    /// Answers a session. A reply that stands for an invalidation goes before answers that were given and have not
    /// left: those would show the commit's count first (**ReplyFirst**).
    fn reply(&mut self, to: SessionId, txn: TxnId, outcome: Outcome, hears: Hears) {
        let reply = Output::Reply(to, CommitReply { txn, outcome }, hears);
        let stands = |output: &&Output| matches!(output, Output::Reply(_, _, Hears::Earlier));
        if hears == Hears::Earlier && !self.config.broken.is(Rule::ReplyFirst) {
            let behind = self.out.iter().take_while(stands).count();
            self.out.insert(behind, reply);
        } else {
            self.out.push_back(reply);
        }
    }

    fn count(&mut self, outcome: &Outcome) {
        let name = match outcome {
            // A commit that writes is counted when it is durable.
            Outcome::Committed { .. } => {
                self.stats.read_only += 1;
                return;
            }
            Outcome::Refused(refusal) => refusal.name(),
            Outcome::Unknown => "unknown",
        };
        self.stats.refused += 1;
        *self.refusals.entry(name).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Refusal;

    fn coordinator() -> Coordinator {
        let config = Config {
            node: NodeId(0),
            incarnation: Incarnation(1),
            sharding: Sharding::ONE,
            unlogged_bytes_max: 0,
            limits: Limits::SHIPPED,
            broken: Broken::NONE,
        };
        Coordinator::new(config, Vec::new(), Vector::new())
    }

    /// An answer that has yet to leave would show the counts of commits whose replies come behind it.
    #[test]
    fn replies_that_stand_for_invalidations_leave_first_and_in_their_order() {
        let mut coordinator = coordinator();
        let mut reply = |number, outcome, hears| {
            coordinator.reply(SessionId(1), TxnId { client: ClientId(1), number }, outcome, hears);
        };
        reply(1, Outcome::Refused(Refusal::Busy), Hears::Worthwhile);
        reply(2, Outcome::Committed { pages: Vec::new() }, Hears::Earlier);
        reply(3, Outcome::Committed { pages: Vec::new() }, Hears::Earlier);
        let outputs = core::iter::from_fn(|| coordinator.poll_output());
        let numbers = outputs.filter_map(|output| match output {
            Output::Reply(_, reply, _) => Some(reply.txn.number),
            _ => None,
        });
        assert_eq!(numbers.collect::<Vec<_>>(), [2, 3, 1]);
    }
}
