//! Shards that open: what all logs hold for them is collected, and then they are served.
//!
//! ```text
//!   n1, which opens shard 4                      n0, n1, n2: every node's log
//!      | Recall{4, opening 7} ---------------------> | gives up what was prepared for 4 in opening 6 or earlier
//!      |                                             | waits for records that are on their way to its disk
//!      |                                             | reads its log
//!      | <---- Recalled{count v5, deltas} ... -------|
//!      | all have answered: applies them, and serves
//! ```
//! 1. A master logs nothing of a prepared transaction. A commit is in the log of its coordinator, and nowhere else
//!    until the shard has written it back. So a shard opens when all have answered (**AwaitAllLogs**), and no node logs
//!    a commit of an earlier opening after its answer (**FencePrepared**, **AwaitAppended**).
//! 2. A node that is away is asked when it is back. Opening can be interrupted anywhere, and begun again.

use crate::{DiskWork, Position, Record, Store};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use messages::nodes::RECALLED_PER_MESSAGE_MAX;
use messages::{Openings, Recall, Recalled, RecalledCommit, RecentChanges, ToNode};
use types::limits::PIECE_BYTES_MAX;
use types::{Delta, NodeId, Opening, Rule, Shard, Time, Version};

/// The bytes of a change in a message, its value aside, at most.
const CHANGE_BYTES: usize = 16;

/// Shards of this node that are opened together.
#[derive(Debug)]
struct Batch {
    openings: Openings,
    /// The nodes that have not told everything, and what each has told so far.
    awaited: BTreeMap<NodeId, Vec<RecalledCommit>>,
    found: Vec<RecalledCommit>,
}

/// A question of a node that opens shards.
#[derive(Debug)]
struct Question {
    /// The node; none if the link to it was lost.
    from: Option<NodeId>,
    openings: Openings,
    /// The records through here must be durable first.
    after: Position,
}

/// The shards that open, here and elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Opens {
    batches: Vec<Batch>,
    questions: VecDeque<Question>,
    /// The log is read for the first question.
    is_reading: bool,
}

impl Opens {
    /// The link to a node is lost: it asks again when it is back, and tells everything again.
    pub(crate) fn lost(&mut self, node: NodeId) {
        for batch in &mut self.batches {
            batch.awaited.entry(node).and_modify(Vec::clear);
        }
        // The log may be under way for the first. A part of the answer is lost, so the rest is not sent.
        for question in self.questions.iter_mut().filter(|question| question.from == Some(node)) {
            question.from = None;
        }
    }

    /// The questions of a node that are not answered.
    pub(crate) fn questions_of(&self, node: NodeId) -> usize {
        self.questions.iter().filter(|question| question.from == Some(node)).count()
    }

    /// The shards that wait for logs, and for whose.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (Shard, Opening, BTreeSet<NodeId>)> + '_ {
        self.batches.iter().flat_map(|batch| {
            let awaited: BTreeSet<_> = batch.awaited.keys().copied().collect();
            batch.openings.iter().map(move |&(shard, opening)| (shard, opening, awaited.clone()))
        })
    }
}

impl Store {
    /// Shards of this node open: they are served when the logs of all nodes have told what they hold for them.
    pub fn open(&mut self, now: Time, openings: &Openings) {
        let awaited = self.config.members.iter().map(|&node| (node, Vec::new())).collect();
        for &(shard, opening) in openings {
            self.coordinator.place(shard, self.config.node, opening);
        }
        self.nodes.have_changed();
        self.openings.batches.push(Batch { openings: openings.clone(), awaited, found: Vec::new() });
        for node in self.config.members.clone() {
            self.tell(now, node, ToNode::Recall(Recall { openings: openings.clone() }));
        }
        self.follow_up(now);
    }

    /// A shard of this node opens that was closed in order at this count: no log is asked.
    pub fn open_closed(&mut self, now: Time, shard: Shard, opening: Opening, count: Version) {
        self.coordinator.place(shard, self.config.node, opening);
        let recent = if let Some(recent) = self.incoming.remove(shard) {
            self.outlast_leases(now);
            recent
        } else if self.outgoing.remove(shard) {
            self.master.recent_changes(shard)
        } else {
            RecentChanges::unknown(shard)
        };
        // Clients learn of the move before any count of the shard.
        self.nodes.have_changed();
        self.tell_placement_to_all();
        self.master.open_closed(opening, count, &recent);
        self.tell_home();
        self.follow_up(now);
    }

    /// The shards that are not served yet, and the nodes whose logs they wait for.
    pub fn opening(&self) -> impl Iterator<Item = (Shard, Opening, BTreeSet<NodeId>)> + '_ {
        self.openings.waiting()
    }

    /// Whether a shard is served here.
    pub fn serves(&self, shard: Shard) -> bool {
        self.master.serves(shard)
    }

    /// A node is back: it is asked what it has not told.
    pub(crate) fn recall_from(&mut self, now: Time, node: NodeId) {
        let waiting = self.openings.batches.iter().filter(|batch| batch.awaited.contains_key(&node));
        for openings in waiting.map(|batch| batch.openings.clone()).collect::<Vec<_>>() {
            self.tell(now, node, ToNode::Recall(Recall { openings }));
        }
    }

    /// A node opens shards, and asks what the log of this node holds for them.
    pub(crate) fn recalled_by(&mut self, from: NodeId, openings: Openings) {
        self.coordinator.fence(from, &openings);
        let is_awaited = !self.config.broken.is(Rule::AwaitAppended);
        let after = if is_awaited { self.log.last() } else { Position(0) };
        self.openings.questions.push_back(Question { from: Some(from), openings, after });
        self.read_log();
    }

    /// Reads the log for the first question, if everything is durable that it asks for.
    pub(crate) fn read_log(&mut self) {
        let first = self.openings.questions.front();
        let is_due = first.is_some_and(|question| self.log.is_durable(question.after));
        if is_due && !self.openings.is_reading {
            self.openings.is_reading = true;
            self.out.disk(DiskWork::ReadLog);
        }
    }

    /// The log was read, or a part of it.
    pub(crate) fn has_read_log(&mut self, now: Time, records: Vec<(Position, Record)>, is_last: bool) {
        let Some(Question { from, openings, .. }) = self.openings.questions.front() else { return };
        if let Some(from) = *from {
            let openings = openings.clone();
            self.answer(now, from, &openings, records, is_last);
        }
        if is_last {
            self.openings.is_reading = false;
            self.openings.questions.pop_front();
            self.read_log();
        }
    }

    fn answer(&mut self, now: Time, to: NodeId, openings: &Openings, records: Vec<(Position, Record)>, is_last: bool) {
        let found: Vec<_> = records.into_iter().flat_map(|(_, record)| self.concerning(record, openings)).collect();
        let (mut commits, mut bytes) = (Vec::new(), 0);
        for commit in found {
            // A large commit goes alone, so that a message is no larger than a transaction may be.
            let of_delta = |delta: &Delta| delta.value_bytes() + CHANGE_BYTES * delta.changes.len();
            let more: usize = commit.deltas.iter().map(of_delta).sum();
            if bytes + more > PIECE_BYTES_MAX || commits.len() == RECALLED_PER_MESSAGE_MAX {
                let (openings, commits) = (openings.clone(), core::mem::take(&mut commits));
                self.tell(now, to, ToNode::Recalled(Recalled { openings, commits, is_last: false }));
                bytes = 0;
            }
            bytes += more;
            commits.push(commit);
        }
        if is_last || !commits.is_empty() {
            self.tell(now, to, ToNode::Recalled(Recalled { openings: openings.clone(), commits, is_last }));
        }
    }

    /// A record of the log, as far as it concerns shards that open.
    fn concerning(&self, record: Record, openings: &Openings) -> Vec<RecalledCommit> {
        let Record::Commit(commit) = record else { return Vec::new() };
        let is_meant = |shard: Shard| openings.iter().any(|(opened, _)| *opened == shard);
        let counts = commit.counts.counts().iter();
        let meant = counts.filter(|&&(shard, count)| is_meant(shard) && !self.kept.has_home(shard, count));
        let of_shard = |&(shard, count)| {
            let is_its = |delta: &&Delta| self.config.sharding.of(delta.page) == shard;
            RecalledCommit { shard, count, deltas: commit.deltas.iter().filter(is_its).cloned().collect() }
        };
        meant.map(of_shard).collect()
    }

    /// A node has told what its log holds for shards that open here.
    pub(crate) fn recalled(&mut self, now: Time, from: NodeId, recalled: Recalled) {
        let Recalled { openings, commits, is_last } = recalled;
        let Some(at) = self.openings.batches.iter().position(|batch| batch.openings == openings) else { return };
        let batch = &mut self.openings.batches[at];
        let Some(told) = batch.awaited.get_mut(&from) else { return };
        told.extend(commits);
        if is_last {
            batch.found.extend(batch.awaited.remove(&from).into_iter().flatten());
            if batch.awaited.is_empty() || self.config.broken.is(Rule::AwaitAllLogs) {
                let batch = self.openings.batches.remove(at);
                self.open_up(now, batch);
            }
        }
    }

    fn open_up(&mut self, now: Time, batch: Batch) {
        let mut found: BTreeMap<Shard, Vec<RecalledCommit>> = BTreeMap::new();
        for commit in batch.found {
            found.entry(commit.shard).or_default().push(commit);
        }
        for (shard, opening) in batch.openings {
            let through = self.recovery.applied(shard);
            self.master.open(shard, opening, through, self.log.last(), found.remove(&shard).unwrap_or_default());
        }
        self.carry_on(now);
        self.tell_home();
    }
}
