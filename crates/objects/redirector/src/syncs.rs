//! Members that ask for all changes that they have not heard yet ([`messages::sync`]). The nodes are asked, and the
//! answer of each is passed on behind what it has said before.
//!
//! ```text
//!   member                        redirector                              node
//!     | Sync{7} ------------------> | waits -- Sync{12} -----------------> |
//!     |                             | asked  <- Invalidations, Synced{12} - |
//!     | <- Invalidations, Synced{7} |
//! ```
//! A node is asked the next question when it has answered the last one, perhaps for a part of its shards: it names
//! others when they have settled. A question serves all members that have asked before it. A node that is away is
//! asked when it is back, and all are asked again when shards have moved.

use crate::Redirector;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use core::mem;
use messages::{At, Sync, Synced};
use types::{GoodbyeReason, SessionId, Shard, Time};

/// Questions to one node that are not answered for all of its shards. One more takes over the last, and serves its
/// members as well.
const ASKED_MAX: usize = 16;

/// A question to a node.
#[derive(Debug)]
struct Asked {
    /// The members that it is for, each with the number of its own question.
    members: BTreeMap<SessionId, u64>,
    /// The shards that the node has named.
    settled: BTreeSet<Shard>,
}

/// The members that wait for the answers of one node.
#[derive(Debug, Default)]
pub(crate) struct NodeSyncs {
    /// The questions that are not answered, or for some shards, by number.
    asked: BTreeMap<u64, Asked>,
    /// Whether the last question has no answer yet.
    is_under_way: bool,
    /// The members that have asked since, each with the number of its own question.
    waiting: BTreeMap<SessionId, u64>,
}

impl NodeSyncs {
    /// A member has asked.
    fn add(&mut self, member: SessionId, number: u64) {
        self.waiting.insert(member, number);
    }

    /// The members that the next question is for, if it should be asked now.
    fn next(&mut self) -> Option<BTreeMap<SessionId, u64>> {
        if self.is_under_way || self.waiting.is_empty() {
            return None;
        }
        self.is_under_way = true;
        let mut members = mem::take(&mut self.waiting);
        if self.asked.len() >= ASKED_MAX
            && let Some((_, last)) = self.asked.pop_last()
        {
            for (member, number) in last.members {
                members.entry(member).or_insert(number);
            }
        }
        Some(members)
    }

    /// The link is gone, and the answers with it.
    pub(crate) fn link_is_gone(&mut self) {
        self.is_under_way = false;
        // The number of a member's later question serves its earlier one.
        for (member, number) in mem::take(&mut self.asked).into_values().rev().flat_map(|asked| asked.members) {
            self.waiting.entry(member).or_insert(number);
        }
    }

    fn forget(&mut self, member: SessionId) {
        self.waiting.remove(&member);
        for asked in self.asked.values_mut() {
            asked.members.remove(&member);
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

    /// Asks a node for those that wait, unless it is away or the last question has no answer.
    pub(crate) fn ask_for_members(&mut self, now: Time, at: At) {
        let node = &mut self.nodes[at];
        if !node.session.is_live() {
            return;
        }
        let Some(members) = node.syncs.next() else { return };
        self.syncs.last += 1;
        let number = self.syncs.last;
        node.syncs.asked.insert(number, Asked { members, settled: BTreeSet::new() });
        self.send_to(now, at, Sync { number });
    }

    /// A node has told everything that had committed on some shards.
    pub(crate) fn synced(&mut self, now: Time, at: At, synced: Synced) {
        let Synced { number, shards } = synced;
        let (last, most) = (self.syncs.last, self.nodes.sharding().shards().get());
        if number > last || shards.iter().any(|shard| shard.0 >= most) {
            let text = format!("expected an answer to question {last} at most, for {most} shards, got {number}");
            return self.hang_up(now, at, GoodbyeReason::Malformed, text);
        }
        let places = self.nodes.places();
        let is_its = |shard: &_| places.of_shard(*shard).unwrap_or(At::HOME) == at;
        let shards: Vec<_> = shards.into_iter().filter(is_its).collect();
        let its = (0..most).map(Shard).filter(is_its).collect::<BTreeSet<_>>();
        let syncs = &mut self.nodes[at].syncs;
        syncs.is_under_way &= syncs.asked.last_key_value().is_some_and(|(&last, _)| last > number);
        let mut members = BTreeMap::new();
        if let Some(asked) = syncs.asked.get_mut(&number) {
            asked.settled.extend(&shards);
            if asked.settled.is_superset(&its) {
                members = syncs.asked.remove(&number).map(|asked| asked.members).unwrap_or_default();
            } else {
                members.clone_from(&asked.members);
            }
        }
        for (member, number) in members.into_iter().filter(|_| !shards.is_empty()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_asked_a_bounded_number_of_questions() {
        let mut syncs = NodeSyncs::default();
        let most = ASKED_MAX as u64;
        for number in 1..=most + 1 {
            syncs.add(SessionId(number), number);
            let members = syncs.next().expect("the last has an answer for some shards");
            syncs.asked.insert(number, Asked { members, settled: BTreeSet::new() });
            syncs.add(SessionId(0), number);
            assert!(syncs.next().is_none(), "it has no answer yet");
            syncs.forget(SessionId(0));
            syncs.is_under_way = false;
        }
        assert_eq!(syncs.asked.len(), ASKED_MAX);
        let (_, last) = syncs.asked.last_key_value().expect("there are some");
        assert_eq!(last.members, [most, most + 1].map(|number| (SessionId(number), number)).into());
    }
}
