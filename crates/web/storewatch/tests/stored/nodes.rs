//! The nodes of a store: the links between them, and the facts that they look up in one place, each at some time.

use super::Stored;
use machine::{Port, UpstreamId};
use messages::{Openings, ToNode};
use sim::Processes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store::{ClosedShard, Store};
use types::{Epoch, NodeId, Opening, SessionId, Shard, Time};

/// The nodes, by the names of their processes, and which shard is where.
pub(crate) struct Nodes {
    names: &'static [&'static str],
    openings: Vec<Opening>,
    /// The node of each shard.
    at: Vec<usize>,
    moves: BTreeMap<Shard, usize>,
    /// How often any of this has changed, and what each node has looked up.
    revision: u64,
    known: Vec<u64>,
    epoch: u32,
    sequencer: usize,
    /// The sequencer's process has lived since it was elected.
    is_elected: bool,
    known_epochs: Vec<u32>,
    up: BTreeSet<usize>,
    /// The nodes that look nothing up.
    deaf: BTreeSet<usize>,
    /// The node that others' messages take long to reach.
    slow: Option<usize>,
    linked: BTreeMap<(usize, usize), SessionId>,
    links: u64,
    packets: VecDeque<(usize, Port, ToNode)>,
}

impl Nodes {
    /// None of them is up. There are as many shards as nodes, and the last node begins without any.
    pub(crate) fn new(names: &'static [&'static str]) -> Self {
        let count = names.len();
        Self {
            names,
            openings: vec![Opening(0); count],
            at: (0..count).map(|shard| shard % (count - 1)).collect(),
            moves: BTreeMap::new(),
            revision: 0,
            known: vec![0; count],
            epoch: 0,
            sequencer: 0,
            is_elected: false,
            known_epochs: vec![0; count],
            up: BTreeSet::new(),
            deaf: BTreeSet::new(),
            slow: None,
            linked: BTreeMap::new(),
            links: 0,
            packets: VecDeque::new(),
        }
    }

    fn call<R>(&self, world: &mut Processes, node: usize, call: impl FnOnce(&mut Store, Time) -> R) -> Option<R> {
        world.call(self.names[node], |stored: &mut Stored, now| call(stored.store(), now))
    }

    /// The process of a node has started.
    pub(crate) fn start(&mut self, world: &mut Processes, node: usize) {
        self.up.insert(node);
        self.known_epochs[node] = 0;
        let own: Vec<_> =
            (0..).map(Shard).zip(&self.at).filter(|(_, at)| **at == node).map(|(shard, _)| shard).collect();
        let openings: Openings = own.into_iter().map(|shard| (shard, self.open(shard, node))).collect();
        let names = self.names;
        self.call(world, node, |store, now| {
            if !openings.is_empty() {
                store.open(now, &openings);
            }
            for (other, name) in names.iter().enumerate() {
                store.node_is_at(now, id(other), 0, name);
            }
        });
        self.look_up(world, node);
    }

    fn open(&mut self, shard: Shard, node: usize) -> Opening {
        self.revision += 1;
        self.at[usize::from(shard.0)] = node;
        let opening = &mut self.openings[usize::from(shard.0)];
        opening.0 += 1;
        *opening
    }

    /// The process of a node has ended.
    pub(crate) fn crashed(&mut self, world: &mut Processes, node: usize) {
        self.up.remove(&node);
        self.is_elected &= self.sequencer != node;
        self.packets.retain(|(to, ..)| *to != node);
        for other in 0..self.names.len() {
            self.cut(world, node, other);
        }
    }

    /// A shard begins to move, or one that moves stays.
    pub(crate) fn begin_or_end_move(&mut self, shard: u64, to: u64) {
        let (shard, to) = (Shard(shard as u16), to as usize);
        self.revision += 1;
        if self.moves.remove(&shard).is_none() && self.at[usize::from(shard.0)] != to {
            self.moves.insert(shard, to);
        }
    }

    /// A node looks nothing up from now on, or does so again.
    pub(crate) fn turn_deaf(&mut self, node: u64) {
        if !self.deaf.remove(&(node as usize)) {
            self.deaf.insert(node as usize);
        }
    }

    /// Messages to this node take long from now on, or no longer.
    pub(crate) fn turn_slow(&mut self, node: u64) {
        self.slow = if self.slow.is_some() { None } else { Some(node as usize) };
    }

    /// All nodes look up what they do not know, and are reached.
    pub(crate) fn calm(&mut self) {
        self.slow = None;
        self.deaf.clear();
    }

    /// Each node with its shards and those that it waits for.
    pub(crate) fn describe(&self, world: &mut Processes) -> String {
        let of_node = |node: usize| {
            let state = self.call(world, node, |store, _| {
                let serves: Vec<_> =
                    (0..self.at.len() as u16).map(Shard).filter(|shard| store.serves(*shard)).collect();
                let (opening, prepared) = (store.opening().collect::<Vec<_>>(), store.prepared().collect::<Vec<_>>());
                let (closed, coming) = (store.closed_to_move().collect::<Vec<_>>(), store.incoming().count());
                format!(
                    "serves {serves:?}, opens {opening:?}, prepared {prepared:?}, closed {closed:?}, coming {coming}"
                )
            });
            format!("{node}: {state:?}")
        };
        let all: Vec<_> = (0..self.names.len()).map(of_node).collect();
        let (linked, moves) = (&self.linked, &self.moves);
        format!("{all:#?} linked {linked:?}, moves {moves:?}, sequencer {} in {}", self.sequencer, self.epoch)
    }

    /// The link of two nodes is lost, with everything on its way.
    pub(crate) fn cut(&mut self, world: &mut Processes, one: usize, other: usize) {
        let (one, other) = (one.min(other), one.max(other));
        self.collect(world);
        let Some(link) = self.linked.remove(&(one, other)) else { return };
        for (node, peer) in [(one, other), (other, one)] {
            let port = port(node, peer, link);
            self.packets.retain(|(to, on, _)| (*to, *on) != (node, port));
            self.call(world, node, |store, now| store.link_is_down(now, port));
        }
    }

    /// Nodes come a step further with what they have to say to each other, and to look up.
    pub(crate) fn serve(&mut self, world: &mut Processes) {
        for one in 0..self.names.len() {
            for other in one + 1..self.names.len() {
                self.link(world, one, other);
            }
            if self.up.contains(&one) && !self.deaf.contains(&one) && world.draw(8) == 0 {
                self.learn(world, one);
            }
        }
        if !self.is_elected {
            let up: Vec<_> = self.up.iter().copied().collect();
            if let Some(&node) = up.get(world.draw(self.names.len() as u64) as usize) {
                (self.epoch, self.sequencer, self.is_elected) = (self.epoch + 1, node, true);
                let epoch = Epoch(self.epoch);
                self.known_epochs[node] = self.epoch;
                self.call(world, node, |store, now| store.sequence(now, epoch));
            }
        }
        let slow = self.slow.filter(|_| world.draw(16) > 0);
        for _ in 0..=world.draw(4) {
            self.collect(world);
            let (later, now) = self.packets.drain(..).partition(|(to, ..)| Some(*to) == slow);
            self.packets = later;
            self.deliver(world, now);
        }
    }

    fn deliver(&mut self, world: &mut Processes, packets: VecDeque<(usize, Port, ToNode)>) {
        for (to, port, message) in packets {
            if !matches!(message, ToNode::Goodbye(_)) {
                self.call(world, to, |store, now| store.hear_link(now, port, message));
                continue;
            }
            // A node has ended the link.
            let peers = 0..self.names.len();
            let is_it = |&peer: &usize| {
                let link = self.linked.get(&(to.min(peer), to.max(peer)));
                link.is_some_and(|&link| self::port(to, peer, link) == port)
            };
            if let Some(peer) = peers.into_iter().find(is_it) {
                self.cut(world, to, peer);
            }
        }
    }

    /// The messages of the nodes are on their way.
    fn collect(&mut self, world: &mut Processes) {
        for node in self.up.clone() {
            let said = world.call(self.names[node], |stored: &mut Stored, _| stored.said()).unwrap_or_default();
            for (at, message) in said {
                let is_it = |(&(one, other), &link): (&(usize, usize), &SessionId)| {
                    let peer = if one == node { other } else { one };
                    ((one == node || other == node) && port(node, peer, link) == at).then_some((peer, link))
                };
                if let Some((peer, link)) = self.linked.iter().find_map(is_it) {
                    self.packets.push_back((peer, port(peer, node, link), message));
                }
            }
        }
    }

    fn link(&mut self, world: &mut Processes, one: usize, other: usize) {
        let are_up = self.up.contains(&one) && self.up.contains(&other);
        if are_up && !self.linked.contains_key(&(one, other)) && world.draw(4) == 0 {
            self.links += 1;
            let link = SessionId(self.links);
            self.linked.insert((one, other), link);
            for (node, peer) in [(one, other), (other, one)] {
                self.call(world, node, |store, _| store.link_is_up(port(node, peer, link)));
            }
        }
    }

    /// A node looks up what it does not know, and takes the next openings of shards that have arrived or that stay.
    fn learn(&mut self, world: &mut Processes, node: usize) {
        if self.known[node] != self.revision {
            self.look_up(world, node);
        }
        if self.known_epochs[node] < self.epoch {
            self.known_epochs[node] = self.epoch;
            let sequencer = id(self.sequencer);
            self.call(world, node, |store, now| store.follow_sequencer(now, sequencer));
        }
        let (arrived, closed) = self
            .call(world, node, |store, _| {
                (store.arrived().collect::<Vec<_>>(), store.closed_to_move().collect::<Vec<_>>())
            })
            .unwrap_or_default();
        for (shard, opening, count) in arrived {
            let is_as_seen = self.openings[usize::from(shard.0)] == opening;
            if is_as_seen && self.moves.get(&shard) == Some(&node) {
                self.moves.remove(&shard);
                let next = self.open(shard, node);
                self.call(world, node, |store, now| store.open_closed(now, shard, next, count));
            }
        }
        for ClosedShard { shard, opening, count, .. } in closed {
            let is_as_seen = self.openings[usize::from(shard.0)] == opening;
            let comes_not = self.moves.get(&shard).is_none_or(|to| !self.up.contains(to));
            if is_as_seen && self.at[usize::from(shard.0)] == node && comes_not {
                let next = self.open(shard, node);
                self.call(world, node, |store, now| store.open_closed(now, shard, next, count));
            }
        }
    }

    fn look_up(&mut self, world: &mut Processes, node: usize) {
        let all = (0..).map(Shard).zip(self.at.iter().zip(&self.openings));
        let others = all.filter(|&(_, (&at, &opening))| at != node && opening > Opening(0));
        let places: Vec<_> = others.map(|(shard, (&at, &opening))| (shard, id(at), opening)).collect();
        let is_own = |shard: Shard| self.at[usize::from(shard.0)] == node;
        let leaving = self.moves.iter().filter(|(shard, _)| is_own(**shard));
        let leaving: Vec<_> = leaving.map(|(&shard, &to)| (shard, id(to))).collect();
        let coming = self.moves.iter().filter(|(shard, to)| **to == node && !is_own(**shard));
        let coming: Vec<_> = coming.map(|(&shard, _)| (shard, id(self.at[usize::from(shard.0)]))).collect();
        self.known[node] = self.revision;
        self.call(world, node, |store, now| {
            store.place(now, &places);
            store.set_outgoing(now, &leaving);
            store.set_incoming(now, &coming);
        });
    }
}

fn id(node: usize) -> NodeId {
    NodeId(node as u16)
}

/// The port at which a node has this link to a peer. The node with the higher number has opened it.
fn port(node: usize, peer: usize, link: SessionId) -> Port {
    if node > peer { Port::Upstream(UpstreamId(peer as u64)) } else { Port::FromNode(link) }
}
