//! Members that ask for all changes that they have not heard yet ([`messages::sync`]). The nodes are asked, and the
//! answer of each is passed on behind what it has said before.
//!
//! ```text
//!   member                        redirector                              node
//!     | Sync{7} ------------------> | waits -- Sync{12} -----------------> |
//!     |                             | asked  <- Invalidations, Synced{12} - |
//!     | <- Invalidations, Synced{7} |
//! ```
//! A node is asked one question at a time, which serves all members that have asked before it. A node that is away is
//! asked when it is back, and all are asked again when shards have moved.

use crate::Redirector;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::mem;
use messages::{At, Sync, Synced};
use types::{GoodbyeReason, SessionId, Time};

/// The members that wait for the answer of one node, each with the number of its own question.
#[derive(Debug, Default)]
pub(crate) struct NodeSyncs {
    /// The number of the question that is under way, and for whom it is.
    asked: Option<(u64, BTreeMap<SessionId, u64>)>,
    /// The members that have asked since.
    waiting: BTreeMap<SessionId, u64>,
}

impl NodeSyncs {
    /// A member has asked.
    fn add(&mut self, member: SessionId, number: u64) {
        self.waiting.insert(member, number);
    }

    /// The link is gone, and the answer with it.
    pub(crate) fn link_is_gone(&mut self) {
        for (member, number) in self.asked.take().into_iter().flat_map(|(_, members)| members) {
            self.waiting.entry(member).or_insert(number);
        }
    }

    fn forget(&mut self, member: SessionId) {
        self.waiting.remove(&member);
        if let Some((_, members)) = &mut self.asked {
            members.remove(&member);
        }
    }
}

/// The questions of the members.
#[derive(Debug, Default)]
pub(crate) struct Syncs {
    /// The last question of each.
    members: BTreeMap<SessionId, u64>,
    /// The number of the last question to a node.
    last: u64,
}

impl Redirector {
    /// A member wants everything told that has committed.
    pub(crate) fn sync(&mut self, now: Time, from: SessionId, sync: Sync) {
        self.syncs.members.insert(from, sync.number);
        for at in self.nodes.all() {
            self.nodes[at].syncs.add(from, sync.number);
            self.ask_for_members(now, at);
        }
    }

    /// Asks a node for those that wait, unless it is away or an answer is under way.
    pub(crate) fn ask_for_members(&mut self, now: Time, at: At) {
        let node = &mut self.nodes[at];
        if !node.session.is_live() || node.syncs.asked.is_some() || node.syncs.waiting.is_empty() {
            return;
        }
        self.syncs.last += 1;
        let number = self.syncs.last;
        node.syncs.asked = Some((number, mem::take(&mut node.syncs.waiting)));
        self.send_to(now, at, Sync { number });
    }

    /// A node has told everything that had committed on some shards.
    pub(crate) fn synced(&mut self, now: Time, at: At, synced: Synced) {
        let most = self.nodes.sharding().shards().get();
        let members = match self.nodes[at].syncs.asked.take() {
            Some((number, members)) if number == synced.number && synced.shards.iter().all(|shard| shard.0 < most) => {
                members
            }
            asked => {
                let asked = asked.map(|(number, _)| number);
                let text = format!("expected the answer to question {asked:?} for {most} shards, got {synced:?}");
                return self.hang_up(now, at, GoodbyeReason::Malformed, text);
            }
        };
        let places = self.nodes.places();
        let is_its = |shard: &_| places.of_shard(*shard).unwrap_or(At::HOME) == at;
        let shards: Vec<_> = synced.shards.into_iter().filter(is_its).collect();
        for (member, number) in members {
            self.flush_all(member);
            self.out.send(member, Synced { number, shards: shards.clone() });
        }
        self.ask_for_members(now, at);
    }

    /// Shards have moved: the nodes are asked again for all members that have asked before.
    pub(crate) fn sync_again(&mut self, now: Time) {
        for at in self.nodes.all() {
            for (&member, &number) in &self.syncs.members {
                self.nodes[at].syncs.add(member, number);
            }
            self.ask_for_members(now, at);
        }
    }

    /// A member is gone.
    pub(crate) fn forget_syncs(&mut self, member: SessionId) {
        if self.syncs.members.remove(&member).is_some() {
            for at in self.nodes.all() {
                self.nodes[at].syncs.forget(member);
            }
        }
    }
}
