//! The other nodes of a store, and the messages on the links to them.
//!
//! ```text
//!   n0                                  n1
//!    | <---- Unapplied, Home ---- ----> |      first on each link, in both directions
//!    | <---- Recall ------------------- |      if n1 opens shards
//!    | ---- Prepare ...                 |      once n1 has said what it has prepared for n0
//! ```
//! 1. A link keeps its order. Messages that were on their way when it was lost never arrive, and both ends know.
//! 2. A role says where its message goes. A message to the node itself is a function call.

use crate::Store;
use crate::questions::Questions;
use ::machine::Goodbye;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use master::Origin;
use messages::nodes::UNAPPLIED_PER_MESSAGE_MAX;
use messages::{Home, Prepare, Recall, Sequence, Serving, ToNode, Unapplied, Vote};
use types::limits::SHARDS_MAX;
use types::{Epoch, NodeId, Opening, Shard, Time, TxnId};

/// Transactions that a master may have prepared of one coordinator, whose memory bounds them well below.
const UNAPPLIED_MAX: usize = 1 << 20;

/// Questions of a node that opens shards: one for those of its start, and one for each that moves to it.
const QUESTIONS_MAX: usize = SHARDS_MAX;

/// The other nodes.
#[derive(Debug)]
pub(crate) struct Peers {
    /// The transactions that masters have not applied, as far as they have said on this link.
    unapplied: BTreeMap<NodeId, Vec<TxnId>>,
    /// The node whose sequencer is asked.
    sequencer: NodeId,
    /// The counts that other nodes asked for before this one has learned that it is elected: they may learn it first.
    early: BTreeMap<NodeId, Vec<Sequence>>,
    /// The counts that this node asks another one for.
    questions: Questions,
}

impl Peers {
    pub(crate) fn new(own: NodeId) -> Self {
        let questions = Questions::default();
        Self { unapplied: BTreeMap::new(), sequencer: own, early: BTreeMap::new(), questions }
    }
}

impl Store {
    /// There is a link to another node.
    pub(crate) fn node_linked(&mut self, now: Time, node: NodeId) {
        let unapplied = self.master.unapplied_of(node);
        let mut parts = unapplied.chunks(UNAPPLIED_PER_MESSAGE_MAX).peekable();
        loop {
            let txns = parts.next().map(<[TxnId]>::to_vec).unwrap_or_default();
            let is_last = parts.peek().is_none();
            self.tell(now, node, ToNode::Unapplied(Unapplied { is_last, txns }));
            if is_last {
                break;
            }
        }
        self.tell(now, node, ToNode::Home(Home { through: self.master.home_through() }));
        self.recall_from(now, node);
        if node == self.peers.sequencer {
            self.sequence_again();
        }
        self.follow_up(now);
    }

    /// The link to another node is lost.
    pub(crate) fn node_lost(&mut self, now: Time, node: NodeId) {
        self.peers.unapplied.remove(&node);
        self.peers.early.remove(&node);
        self.coordinator.lost(node);
        self.master.lost_coordinator(now, node);
        self.openings.lost(node);
        self.incoming.lost(node);
        self.outgoing_lost(node);
        self.follow_up(now);
    }

    /// Another node has said something. If no node of ours would say that, the link ends.
    pub(crate) fn hear_node(&mut self, now: Time, from: NodeId, message: ToNode) {
        if let Err(why) = self.heed(now, from, message) {
            self.end_link(now, from, why);
        }
        self.follow_up(now);
    }

    /// Each of these shards is at this node in this opening, as far as the store's configuration says.
    pub fn place(&mut self, now: Time, places: &[(Shard, NodeId, Opening)]) {
        for &(shard, at, opening) in places {
            self.coordinator.place(shard, at, opening);
            self.incoming.opened(shard, opening);
            let is_elsewhere = self.coordinator.place_of(shard) != Some(self.config.node);
            if is_elsewhere && (self.master.serves(shard) || self.outgoing.has(shard)) {
                self.outgoing.remove(shard);
                self.master.forget_shard(shard);
            }
        }
        self.nodes.have_changed();
        self.follow_up(now);
    }

    /// The store has another node. It is a member from before it is given anything to coordinate on.
    pub fn admit(&mut self, now: Time, node: NodeId) {
        if !self.config.members.contains(&node) {
            self.config.members.push(node);
            self.coordinator.lost(node);
            self.nodes.have_changed();
            self.follow_up(now);
        }
    }

    /// Another sequencer serves.
    pub fn follow_sequencer(&mut self, now: Time, at: NodeId) {
        self.peers.sequencer = at;
        self.sequence_again();
        self.follow_up(now);
    }

    /// The sequencer is asked for everything that it has not answered.
    fn sequence_again(&mut self) {
        self.peers.questions.forget();
        self.coordinator.sequence_again();
    }

    /// This node's sequencer serves in a term of its own.
    pub fn sequence(&mut self, now: Time, epoch: Epoch) {
        self.sequencer = Some(sequencer::Sequencer::new(epoch, self.config.broken));
        self.follow_sequencer(now, self.config.node);
        for (node, early) in core::mem::take(&mut self.peers.early) {
            for sequence in early {
                self.hear_node(now, node, ToNode::Sequence(sequence));
            }
        }
    }

    /// Says something to a node, which may be its own. Without a link the message is lost.
    pub(crate) fn tell(&mut self, now: Time, to: NodeId, message: ToNode) {
        if to == self.config.node {
            let done = self.heed(now, to, message);
            debug_assert!(done.is_ok(), "a node takes its own word: {done:?}");
        } else if let Some(port) = self.links.port(to) {
            self.out.say(port, message);
        }
    }

    /// A transaction wants its counts from the sequencer.
    pub(crate) fn want_counts(&mut self, sequence: Sequence) {
        match &mut self.sequencer {
            Some(sequencer) if self.peers.sequencer == self.config.node => {
                let placed = sequencer.handle(sequence);
                self.coordinator.placed(&placed);
            }
            _ => self.peers.questions.wait(sequence),
        }
    }

    /// Asks for the counts that transactions want, unless questions are under way.
    pub(crate) fn ask_for_counts(&mut self, now: Time) {
        for sequence in self.peers.questions.take() {
            self.tell(now, self.peers.sequencer, ToNode::Sequence(sequence));
        }
    }

    /// Tells the logs of all nodes how far the shards of this one are written back.
    pub(crate) fn tell_home(&mut self) {
        if !self.config.has_peers() {
            return;
        }
        let home = self.master.home_through();
        self.kept.is_home(&home);
        for (_, port) in self.links.all() {
            self.out.say(port, ToNode::Home(Home { through: home.clone() }));
        }
    }

    /// Tells the coordinators of all nodes that a shard is served here.
    pub(crate) fn tell_serving(&mut self, now: Time, shard: Shard) {
        for node in self.config.members.clone() {
            self.tell(now, node, ToNode::Serving(Serving { shard }));
        }
    }

    /// Another node's coordinator has a transaction judged. If a later opening of one of its shards is known here, the
    /// coordinator will learn of it too.
    fn prepare(&mut self, now: Time, from: NodeId, prepare: Prepare) {
        let is_over = |&(shard, opening): &(Shard, Opening)| {
            self.coordinator.shard_at(shard).is_some_and(|(_, known)| known > opening)
        };
        if prepare.openings.iter().any(is_over) {
            self.tell(now, from, ToNode::Vote(Vote::moving(prepare.request.txn)));
        } else {
            self.master.prepare(now, Origin { coordinator: from, session: None }, prepare);
        }
    }

    fn heed(&mut self, now: Time, from: NodeId, message: ToNode) -> Result<(), Goodbye> {
        match message {
            ToNode::Prepare(prepare) => self.prepare(now, from, prepare),
            ToNode::Withdraw(withdraw) => self.master.withdraw(withdraw.txn),
            ToNode::Release(release) => self.master.release(now, release),
            ToNode::Decide(decide) => {
                // Nothing of it is in this log; it holds back what comes from now on, until it is written back.
                self.master.logged(decide.txn, self.log.last());
                return self.master.decide(now, from, decide, [].into_iter().collect());
            }
            ToNode::Vote(vote) => self.coordinator.voted(from, vote),
            ToNode::Applied(applied) => self.coordinator.applied(from, applied.txn, Vec::new()),
            ToNode::Sequence(sequence) => {
                if let Some(sequencer) = &mut self.sequencer {
                    let placed = sequencer.handle(sequence);
                    self.tell(now, from, ToNode::Placed(placed));
                } else if from != self.config.node {
                    // It asks no other node, and not again.
                    let early = self.peers.early.entry(from).or_default();
                    if early.len() >= UNAPPLIED_MAX {
                        let text = format!("expected at most {UNAPPLIED_MAX} requests for counts before an election");
                        return Err(Goodbye::too_much(text));
                    }
                    early.push(sequence);
                }
            }
            ToNode::Placed(placed) => {
                self.peers.questions.answered(placed.txn);
                self.coordinator.placed(&placed);
            }
            ToNode::Unapplied(Unapplied { is_last, txns }) => {
                let all = self.peers.unapplied.entry(from).or_default();
                all.extend(txns);
                if all.len() > UNAPPLIED_MAX {
                    return Err(Goodbye::too_much(format!(
                        "expected at most {UNAPPLIED_MAX} transactions that are not applied"
                    )));
                }
                if is_last {
                    let (all, kept) = (core::mem::take(all), &self.kept);
                    self.coordinator.found(from, &all, |txn| kept.counts(txn).cloned());
                }
            }
            ToNode::Recall(_) if self.openings.questions_of(from) >= QUESTIONS_MAX => {
                return Err(Goodbye::too_much(format!("expected at most {QUESTIONS_MAX} questions at a time")));
            }
            ToNode::Recall(Recall { openings }) => self.recalled_by(from, openings),
            ToNode::Recalled(recalled) => self.recalled(now, from, recalled),
            // The driver ends the link, and has begun it.
            ToNode::Goodbye(_) | ToNode::NodeHello(_) => {}
            ToNode::ListPages(list) => self.list_pages(now, from, &list),
            ToNode::PagesListed(listed) => self.pages_listed(from, listed),
            ToNode::CopyPages(copy) => self.master.copy_pages(from, copy.pages),
            ToNode::CopiedPage(copied) => return self.page_copied(from, copied),
            ToNode::NotCopied(page) => self.page_not_copied(from, page),
            ToNode::CloseShard(close) => self.close_shard(now, from, close.shard),
            ToNode::ShardClosed(closed) => self.shard_closed(now, from, closed),
            ToNode::RecentChanges(recent) => return self.recent_changes(from, recent),
            ToNode::Serving(serving) => self.coordinator.serving(serving.shard),
            ToNode::Home(home) => {
                self.kept.is_home(&home.through);
                self.free_home();
            }
        }
        Ok(())
    }
}
