//! Where the nodes of the store are and which of them has which shard, as clients are told.
//!
//! 1. A client is welcome when every shard has its place and those of this node are open: there is a page to be read,
//!    and the counts at which this life of the process begins are known.
//! 2. A client that asks for a page of another node is told that it is elsewhere.
//! 3. A client that asks for all changes is answered for the shards that are served here.

use crate::{SessionId, Store};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use machine::Goodbye;
use messages::{Elsewhere, Fetch, NodeAt, Placement, Resume};
use types::limits::GRANTED_PAGES_MAX;
use types::{GoodbyeReason, NodeId, PageRange, Shard, Time};

/// The nodes of a store of several.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    /// Where each is, and after how many starts.
    addresses: BTreeMap<NodeId, (u64, String)>,
    /// Something has changed that clients may not know.
    is_news: bool,
    /// The last that all clients were told.
    told: Option<Placement>,
}

impl Nodes {
    /// Something has changed that clients may not know.
    pub(crate) fn have_changed(&mut self) {
        self.is_news = true;
    }
}

impl Store {
    /// A node, which may be this one, is reached by clients and by other nodes at this address, since it was started
    /// this often. Of two nodes the one with the higher number opens the link.
    pub fn node_is_at(&mut self, now: Time, node: NodeId, start: u64, address: &str) {
        let place = (start, String::from(address));
        if self.nodes.addresses.get(&node) != Some(&place) {
            self.nodes.addresses.insert(node, place);
            self.nodes.have_changed();
        }
        if node < self.config.node {
            self.open_link(now, node, address);
        }
        self.follow_up(now);
    }

    /// The shards whose places are known: the node that has each, and the one that it moves to if this is one of the
    /// two.
    pub fn shard_places(&self) -> Vec<(Shard, NodeId, Option<NodeId>)> {
        let all = (0..self.config.sharding.shards().get()).map(Shard);
        let place = |shard| {
            let comes = self.incoming.has(shard).then_some(self.config.node);
            Some((shard, self.coordinator.place_of(shard)?, comes.or_else(|| self.outgoing.goes_to(shard))))
        };
        all.filter_map(place).collect()
    }

    /// All nodes, with their addresses as far as they are known, and whether each is this one or can be reached.
    pub fn known_nodes(&self) -> Vec<(NodeId, String, bool)> {
        let node = |&node: &NodeId| {
            let (_, address) = self.nodes.addresses.get(&node).cloned().unwrap_or_default();
            (node, address, node == self.config.node || self.links.port(node).is_some())
        };
        self.config.members.iter().map(node).collect()
    }

    /// The place of every shard, if all are known.
    fn placement(&self) -> Option<Placement> {
        let all = 0..self.config.sharding.shards().get();
        let shards: Vec<_> = all.map(|shard| self.coordinator.shard_at(Shard(shard))).collect::<Option<_>>()?;
        let node_at = |&node: &NodeId| {
            let (start, address) = self.nodes.addresses.get(&node).cloned().unwrap_or_default();
            NodeAt { node, start, address }
        };
        Some(Placement { nodes: self.config.members.iter().map(node_at).collect(), shards })
    }

    /// Whether every shard has its place, and those that this node has are open.
    pub(crate) fn is_open(&self) -> bool {
        let mut all = (0..self.config.sharding.shards().get()).map(Shard);
        all.all(|shard| {
            let place = self.coordinator.place_of(shard);
            place.is_some_and(|node| node != self.config.node || self.master.serves(shard))
        })
    }

    /// Refuses a client as long as this node is not open.
    pub(crate) fn check_open(&self) -> Result<(), Goodbye> {
        if self.lives.is_named() {
            return Ok(());
        }
        let waits = self.opening().next().map(|(shard, _, nodes)| {
            let nodes: Vec<_> = nodes.iter().map(|node| format!("{}", node.0)).collect();
            format!("shard {} waits for the log of node {}", shard.0, nodes.join(", "))
        });
        let why = waits.unwrap_or_else(|| "it does not know where all shards are".into());
        Err(Goodbye { reason: GoodbyeReason::CutOff, text: format!("the node is not open yet: {why}") })
    }

    /// Tells a client where everything is.
    pub(crate) fn tell_placement(&mut self, to: SessionId) {
        if let Some(placement) = self.placement() {
            self.out.send(to, placement);
        }
    }

    /// Tells all clients, if that has changed.
    pub(crate) fn tell_placement_to_all(&mut self) {
        if !core::mem::take(&mut self.nodes.is_news) {
            return;
        }
        let placement = self.placement();
        if placement == self.nodes.told {
            return;
        }
        self.nodes.told = placement;
        for session in self.sessions.all() {
            if self.sessions.client(session).is_some() {
                self.tell_placement(session);
            }
        }
    }

    /// A session lists what it holds. A client that comes from a group does not know yet which node has which page: it
    /// lists the others' pages there as soon as it does.
    pub(crate) fn resumed(&mut self, now: Time, from: SessionId, resume: &Resume) -> Result<(), Goodbye> {
        if !self.config.has_peers() {
            return self.master.resumed(now, from, resume);
        }
        let own = self.config.node;
        let is_own = |shard| self.coordinator.place_of(shard) == Some(own);
        let is_there = |page| is_own(self.config.sharding.of(page));
        let horizon = resume.horizon.counts().iter().copied().filter(|(shard, _)| is_own(*shard)).collect();
        let pages = resume.pages.iter().copied().filter(|held| is_there(held.page)).collect();
        // One beyond what may be granted is for the master to refuse.
        let granted = resume.grants.iter().copied().flat_map(PageRange::pages).take(GRANTED_PAGES_MAX + 1);
        let grants = PageRange::join(granted.filter(|page| is_there(*page)));
        self.master.resumed(now, from, &Resume { horizon, pages, grants, ..*resume })
    }

    /// A session wants pages.
    pub(crate) fn fetch(&mut self, from: SessionId, mut fetch: Fetch) -> Result<(), Goodbye> {
        if self.config.has_peers() {
            let (own, number) = (self.config.node, fetch.number);
            let is_there = |page| self.coordinator.place_of(self.config.sharding.of(page)) == Some(own);
            let elsewhere: Vec<_> = fetch.pages.extract_if(.., |page| !is_there(*page)).collect();
            let is_over = fetch.pages.is_empty() && !elsewhere.is_empty();
            for page in elsewhere {
                self.master.reply(from, Elsewhere { page, number });
            }
            if is_over {
                return Ok(());
            }
        }
        self.master.fetch(from, fetch)
    }
}
