//! The changes that a view of etcd means for the store of a node.

use crate::MembershipError;
use crate::keys::{Key, Keys};
use crate::records::{Drawn, OpeningRecord, SequencerRecord, text};
use crate::view::View;
use std::collections::{BTreeMap, BTreeSet};
use store::Store;
use types::{Epoch, NodeId, Opening, Shard, Time, Version};

/// Shards and the openings in which they are served from now on.
type Openings = BTreeMap<Shard, Opening>;

/// A change that a node's store learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Other nodes have these shards, each in an opening.
    Place(Vec<(Shard, NodeId, Opening)>),
    /// The store has this node.
    Member(NodeId),
    /// A node is reached at this address, since it was started this often.
    Address(NodeId, u64, String),
    /// These shards move here, each from a node.
    Incoming(Vec<(Shard, NodeId)>),
    /// These shards of this node move to other nodes.
    Outgoing(Vec<(Shard, NodeId)>),
    /// These shards open here: the logs of all nodes are asked.
    Open(Openings),
    /// A shard opens here that was closed in order at this count.
    OpenClosed(Shard, Opening, Version),
    /// This node is the sequencer, in this term.
    Sequence(Epoch),
    /// Another node is, in a new term.
    FollowSequencer(NodeId),
}

impl Change {
    /// Tells a store.
    pub(crate) fn tell(self, store: &mut Store, now: Time) {
        match self {
            Self::Place(places) => store.place(now, &places),
            Self::Member(node) => store.admit(now, node),
            Self::Address(node, start, address) => store.node_is_at(now, node, start, &address),
            Self::Incoming(moves) => store.set_incoming(now, &moves),
            Self::Outgoing(moves) => store.set_outgoing(now, &moves),
            Self::Open(openings) => store.open(now, &openings.into_iter().collect()),
            Self::OpenClosed(shard, opening, count) => store.open_closed(now, shard, opening, count),
            Self::Sequence(epoch) => store.sequence(now, epoch),
            Self::FollowSequencer(node) => store.follow_sequencer(now, node),
        }
    }
}

/// The changes that a node's store has learned in this run.
#[derive(Debug)]
pub(crate) struct Follower {
    keys: Keys,
    node: String,
    run: Drawn,
    placed: BTreeMap<Shard, (NodeId, Opening)>,
    members: BTreeSet<NodeId>,
    addresses: BTreeMap<NodeId, (u64, String)>,
    incoming: Vec<(Shard, NodeId)>,
    outgoing: Vec<(Shard, NodeId)>,
    /// The openings of this run that the store has learned of.
    opened: BTreeMap<Shard, Opening>,
    sequencer: Option<SequencerRecord>,
    /// The highest numbers that were seen.
    epoch: u32,
    openings: BTreeMap<Shard, OpeningRecord>,
}

impl Follower {
    /// The follower of a new run. The node has seen this epoch before.
    pub(crate) fn new(keys: Keys, node: &str, run: Drawn, epoch: u32) -> Self {
        Self {
            keys,
            node: node.to_owned(),
            run,
            placed: BTreeMap::new(),
            members: BTreeSet::new(),
            addresses: BTreeMap::new(),
            incoming: Vec::new(),
            outgoing: Vec::new(),
            opened: BTreeMap::new(),
            sequencer: None,
            epoch,
            openings: BTreeMap::new(),
        }
    }

    /// Returns the news in a view, in the order in which a store learns them.
    ///
    /// # Errors
    /// A number is lower than it was.
    pub(crate) fn learn(&mut self, view: &View) -> Result<Vec<Change>, MembershipError> {
        self.never_back(view)?;
        let mut changes = Vec::new();
        self.learn_members(view, &mut changes);
        self.learn_placement(view, &mut changes);
        self.learn_addresses(view, &mut changes);
        let before = changes.len();
        self.open(view, &mut changes);
        if changes.len() > before {
            // A shard that opens again while it moves begins to move again.
            self.outgoing.clear();
        }
        self.learn_moves(view, &mut changes);
        self.learn_sequencer(view, &mut changes);
        Ok(changes)
    }

    fn never_back(&mut self, view: &View) -> Result<(), MembershipError> {
        check_epoch(&self.keys, self.epoch, view)?;
        self.epoch = view.epoch();
        for (&shard, seen) in &self.openings {
            let found = view.openings.get(&shard).map_or(0, |opening| opening.value.opening);
            if found < seen.opening {
                let (key, seen_number) = (self.keys.of(Key::Opening(shard)), seen.opening.into());
                let raised = text(&OpeningRecord { closed: None, ..seen.clone() });
                return Err(MembershipError::WentBack { key, seen: seen_number, found: found.into(), raised });
            }
        }
        self.openings = view.openings.iter().map(|(&shard, opening)| (shard, opening.value.clone())).collect();
        Ok(())
    }

    fn learn_placement(&mut self, view: &View, changes: &mut Vec<Change>) {
        let mut places = Vec::new();
        for (&shard, placement) in &view.placement {
            // A shard that was never opened has its place all the same.
            let opening = view.openings.get(&shard).map_or(0, |opening| opening.value.opening);
            let Some(at) = view.number(&placement.value.node) else { continue };
            let place = (at, Opening(opening));
            if placement.value.node != self.node && self.placed.insert(shard, place) != Some(place) {
                places.push((shard, place.0, place.1));
            }
        }
        if !places.is_empty() {
            changes.push(Change::Place(places));
        }
    }

    fn learn_members(&mut self, view: &View, changes: &mut Vec<Change>) {
        changes.extend(view.members().into_iter().filter(|node| self.members.insert(*node)).map(Change::Member));
    }

    fn learn_addresses(&mut self, view: &View, changes: &mut Vec<Change>) {
        for (node, record) in &view.nodes {
            let (Some(number), Some(member)) = (view.number(node), view.members.get(node)) else { continue };
            let place = (member.value.start, record.value.address.clone());
            if self.addresses.get(&number) != Some(&place) {
                changes.push(Change::Address(number, place.0, place.1.clone()));
                self.addresses.insert(number, place);
            }
        }
    }

    fn learn_moves(&mut self, view: &View, changes: &mut Vec<Change>) {
        let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
        for (shard, from, to) in view.moves() {
            let (Some(at), Some(next)) = (view.number(from), view.number(to)) else { continue };
            if to == self.node {
                incoming.push((shard, at));
            } else if from == self.node {
                outgoing.push((shard, next));
            }
        }
        if outgoing != self.outgoing {
            changes.push(Change::Outgoing(outgoing.clone()));
            self.outgoing = outgoing;
        }
        if incoming != self.incoming {
            changes.push(Change::Incoming(incoming.clone()));
            self.incoming = incoming;
        }
    }

    /// The shards of the node open together at first, once all openings are this run's: so each log is read once.
    fn open(&mut self, view: &View, changes: &mut Vec<Change>) {
        let own: Vec<_> = view.shards_of(&self.node).map(|shard| (shard, view.openings.get(&shard))).collect();
        let is_own = |opening: &OpeningRecord| opening.run == self.run;
        let has_all = own.iter().all(|(_, opening)| opening.is_some_and(|opening| is_own(&opening.value)));
        if !has_all {
            return;
        }
        let mut asked = Openings::new();
        for (shard, opening) in own.into_iter().filter_map(|(shard, opening)| Some((shard, &opening?.value))) {
            let number = Opening(opening.opening);
            if self.opened.insert(shard, number) == Some(number) {
                continue;
            }
            match opening.closed() {
                Some(count) => changes.push(Change::OpenClosed(shard, number, count)),
                None => drop(asked.insert(shard, number)),
            }
        }
        if !asked.is_empty() {
            changes.push(Change::Open(asked));
        }
    }

    fn learn_sequencer(&mut self, view: &View, changes: &mut Vec<Change>) {
        let Some(sequencer) = view.sequencer.as_ref().map(|kept| &kept.value) else { return };
        if self.sequencer.as_ref() == Some(sequencer) {
            return;
        }
        self.sequencer = Some(sequencer.clone());
        if sequencer.run == self.run {
            changes.push(Change::Sequence(Epoch(sequencer.epoch)));
        } else if let Some(number) = view.number(&sequencer.node).filter(|_| sequencer.node != self.node) {
            changes.push(Change::FollowSequencer(number));
        }
    }
}

/// Refuses an epoch that is lower than one that was seen before.
pub(crate) fn check_epoch(keys: &Keys, seen: u32, view: &View) -> Result<(), MembershipError> {
    let found = view.epoch();
    if found >= seen {
        return Ok(());
    }
    let (key, raised) = (keys.of(Key::Epoch), seen.to_string());
    Err(MembershipError::WentBack { key, seen: seen.into(), found: found.into(), raised })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::{entry, keys, view};

    const RUN: Drawn = Drawn(0xA);

    fn follower() -> Follower {
        Follower::new(keys(), "n2", RUN, 3)
    }

    #[test]
    fn a_node_opens_its_shards_together_and_follows_the_others() {
        let mut n2 = follower();
        let at_first = [
            entry(Key::Node("n1"), r#"{"address":"a:1","run":"0000000000000001","opening":[],"waits_for":[]}"#),
            entry(Key::Node("n3"), r#"{"address":"a:3","run":"0000000000000003","opening":[],"waits_for":[]}"#),
            entry(Key::Opening(Shard(0)), r#"{"opening":5,"run":"0000000000000001"}"#),
            entry(Key::Opening(Shard(1)), r#"{"opening":2,"run":"000000000000000a"}"#),
            entry(Key::Epoch, "3"),
        ];
        // Shard 4 has no opening of this run yet, so shard 1 waits.
        // Shards that were never opened have their place.
        let never = |shard, node| (Shard(shard), NodeId(node), Opening(0));
        let expected = [
            Change::Member(NodeId(0)),
            Change::Member(NodeId(1)),
            Change::Member(NodeId(2)),
            Change::Place(vec![(Shard(0), NodeId(0), Opening(5)), never(2, 2), never(3, 0), never(5, 2)]),
            Change::Address(NodeId(0), 0, "a:1".into()),
            Change::Address(NodeId(2), 0, "a:3".into()),
        ];
        assert_eq!(n2.learn(&view(&at_first)).unwrap(), expected);
        assert_eq!(n2.learn(&view(&at_first)).unwrap(), []);
        let later = [
            entry(Key::Node("n1"), r#"{"address":"a:9","run":"0000000000000004","opening":[],"waits_for":[]}"#),
            entry(Key::Opening(Shard(0)), r#"{"opening":6,"run":"0000000000000004"}"#),
            entry(Key::Opening(Shard(1)), r#"{"opening":2,"run":"000000000000000a"}"#),
            entry(Key::Opening(Shard(4)), r#"{"opening":8,"run":"000000000000000a","closed":99}"#),
            entry(Key::Sequencer, r#"{"node":"n1","run":"0000000000000004","epoch":4}"#),
            entry(Key::Epoch, "4"),
        ];
        let expected = [
            Change::Place(vec![(Shard(0), NodeId(0), Opening(6))]),
            Change::Address(NodeId(0), 0, "a:9".into()),
            Change::OpenClosed(Shard(4), Opening(8), Version(99)),
            Change::Open([(Shard(1), Opening(2))].into_iter().collect()),
            Change::FollowSequencer(NodeId(0)),
        ];
        assert_eq!(n2.learn(&view(&later)).unwrap(), expected);
        assert_eq!(n2.learn(&view(&later)).unwrap(), []);
    }

    #[test]
    fn a_shard_that_is_taken_back_moves_again() {
        let mut n2 = follower();
        let opened = |number: u32| {
            let own = format!(r#"{{"opening":{number},"run":"000000000000000a","closed":9}}"#);
            [
                entry(Key::Opening(Shard(1)), &own),
                entry(Key::Opening(Shard(4)), r#"{"opening":1,"run":"000000000000000a"}"#),
                entry(Key::Placement(Shard(1)), r#"{"node":"n2","to":"n3"}"#),
                entry(Key::Placement(Shard(0)), r#"{"node":"n1","to":"n2"}"#),
                entry(Key::Epoch, "3"),
            ]
        };
        let first = n2.learn(&view(&opened(1))).unwrap();
        let moves = [Change::Outgoing(vec![(Shard(1), NodeId(2))]), Change::Incoming(vec![(Shard(0), NodeId(0))])];
        assert_eq!(first[first.len() - 2..], moves);
        assert_eq!(n2.learn(&view(&opened(1))).unwrap(), []);
        // It was closed, the other node was away, and it has its next opening here.
        let again = n2.learn(&view(&opened(2))).unwrap();
        let expected = [Change::OpenClosed(Shard(1), Opening(2), Version(9)), moves[0].clone()];
        assert_eq!(again, expected);
    }

    #[test]
    fn a_sequencer_serves_once_in_each_term() {
        let mut n2 = follower();
        let elected =
            [entry(Key::Sequencer, r#"{"node":"n2","run":"000000000000000a","epoch":4}"#), entry(Key::Epoch, "4")];
        assert_eq!(n2.learn(&view(&elected)).unwrap()[4..], [Change::Sequence(Epoch(4))]);
        assert_eq!(n2.learn(&view(&elected)).unwrap(), []);
        // The key is gone, and comes back with the next term.
        assert_eq!(n2.learn(&view(&[entry(Key::Epoch, "4")])).unwrap(), []);
        let again =
            [entry(Key::Sequencer, r#"{"node":"n2","run":"000000000000000a","epoch":5}"#), entry(Key::Epoch, "5")];
        assert_eq!(n2.learn(&view(&again)).unwrap(), [Change::Sequence(Epoch(5))]);
    }

    #[test]
    fn numbers_that_go_back_are_refused() {
        let older = follower().learn(&view(&[entry(Key::Epoch, "2")])).unwrap_err().to_string();
        assert!(older.contains("etcdctl put /thorp/main/epoch '3'"), "{older}");
        let mut n2 = follower();
        let opening = |number: u32| {
            let value = format!(r#"{{"opening":{number},"run":"0000000000000001"}}"#);
            view(&[entry(Key::Opening(Shard(0)), &value), entry(Key::Epoch, "3")])
        };
        n2.learn(&opening(6)).unwrap();
        let older = n2.learn(&opening(5)).unwrap_err().to_string();
        let raised = r#"etcdctl put /thorp/main/openings/0 '{"opening":6,"run":"0000000000000001"}'"#;
        assert!(older.contains(raised), "{older}");
        assert!(n2.learn(&view(&[entry(Key::Epoch, "3")])).is_err(), "it is gone");
    }
}
