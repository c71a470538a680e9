//! The nodes of the store: a session with each, and the pages that are under way there.
//!
//! ```text
//!   home   Welcome, Placement{n0 n1 n2}       n0  session, pages of its shards under way
//!   n1     session opened by the placement    n1  the same
//!   n2     ...                                n2
//! ```
//! 1. The first node that has answered is the client's *home*. In a store of one node there is no other.
//! 2. A page has one node: the one that has its shard. Everything about the page is said there.
//! 3. A commit goes to one node, which coordinates it, and is sent again to that node alone (**OneCoordinator**).
//! 4. The horizon has the counts of all shards. The session with a node moves those of its shards.

use crate::Config;
use crate::fetch::Fetches;
use crate::places::{At, Places};
use crate::session::Session;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};
use machine::UpstreamId;
use messages::ToClient;
use types::{Horizon, NodeId, PageId, Sharding, Time, Vector};

/// A node of the store.
#[derive(Debug)]
pub(crate) struct Node {
    /// Its number in the store, once it has welcomed the client or another one has named it.
    pub(crate) id: Option<NodeId>,
    /// The connection to it.
    pub(crate) upstream: UpstreamId,
    /// Where it is, as the store's nodes have said last.
    pub(crate) address: String,
    pub(crate) session: Session,
    pub(crate) fetches: Fetches,
}

/// All nodes that the client knows.
#[derive(Debug)]
pub(crate) struct Nodes {
    list: Vec<Node>,
    places: Places,
    /// The counts of all shards, of which every change has been learned to what the client holds.
    horizon: Vector,
    /// The last number that was given to a connection.
    last_upstream: u64,
}

impl Nodes {
    pub(crate) fn new(config: &Config) -> Self {
        let home = Node {
            id: None,
            upstream: UpstreamId::ONLY,
            address: String::new(),
            session: Session::new(),
            fetches: Fetches::new(config),
        };
        Self { list: alloc::vec![home], places: Places::default(), horizon: Vector::new(), last_upstream: 0 }
    }

    /// All, the client's home first.
    pub(crate) fn all(&self) -> impl Iterator<Item = At> + use<> {
        At::first(self.list.len())
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// Whether the store has several nodes.
    pub(crate) fn are_several(&self) -> bool {
        self.places.are_known()
    }

    /// The node at the other end of a connection, unless that was closed.
    pub(crate) fn find(&self, upstream: UpstreamId) -> Option<At> {
        self.all().find(|&at| self[at].upstream == upstream)
    }

    /// The node of this number in the store.
    pub(crate) fn find_id(&self, id: NodeId) -> Option<At> {
        self.all().find(|&at| self[at].id == Some(id))
    }

    /// The node of a page.
    #[inline]
    pub(crate) fn of(&self, page: PageId) -> &Node {
        &self[self.places.of(page)]
    }

    /// The node of a page, to change.
    #[inline]
    pub(crate) fn of_mut(&mut self, page: PageId) -> &mut Node {
        let at = self.places.of(page);
        &mut self[at]
    }

    /// Which node has which shard.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// A node, and which node has which shard.
    pub(crate) fn parts(&mut self, at: At) -> (&mut Node, &Places) {
        (&mut self.list[at.place()], &self.places)
    }

    /// The nodes with which there is a session that is resumed, the client's home first.
    pub(crate) fn live(&self) -> impl Iterator<Item = At> {
        self.all().filter(|&at| self[at].session.is_live())
    }

    /// The node that coordinates the next commit: the client's home, or another one while that is away.
    pub(crate) fn coordinator(&self) -> At {
        self.live().next().unwrap_or(At::HOME)
    }

    /// Every change through here has been learned of that concerns what the client holds.
    #[inline]
    pub(crate) fn horizon(&self) -> Horizon<'_> {
        Horizon { counts: &self.horizon, sharding: self[At::HOME].session.up.sharding() }
    }

    /// Moves the horizon by the counts of a node, which gets an acknowledgement soon. Returns whether it moves.
    pub(crate) fn heard_through(&mut self, now: Time, at: At, through: &Vector) -> bool {
        let moves = self[at].session.heard_through(now, through);
        if moves {
            self.horizon.join(through);
        }
        moves
    }

    /// A message of a node names counts of its shards. Those of others are theirs to say.
    pub(crate) fn hear_of(&mut self, at: At, message: &ToClient) {
        let (node, places) = self.parts(at);
        let named = message.newest_named(node.session.up.sharding());
        if !places.are_known() {
            return node.session.up.hear_of(&named);
        }
        let own = named.counts().iter().copied().filter(|(shard, _)| places.of_shard(*shard) == Some(at));
        node.session.up.hear_of(&own.collect());
    }

    /// The knowledge of a node was forgotten: the horizon is what the others have said.
    pub(crate) fn forget_horizon(&mut self) {
        self.horizon = Vector::new();
        for node in &self.list {
            self.horizon.join(node.session.up.horizon().counts);
        }
    }

    /// Each shard is at this node from now on.
    pub(crate) fn place(&mut self, sharding: Sharding, at: Vec<At>) {
        self.places = Places::new(sharding, at);
    }

    /// A node that another one has named. The client has no session with it yet.
    pub(crate) fn add(&mut self, id: NodeId, config: &Config) -> At {
        let at = At::new(self.list.len());
        let session = self[At::HOME].session.beside();
        let (upstream, address, fetches) = (self.next_upstream(), String::new(), Fetches::new(config));
        self.list.push(Node { id: Some(id), upstream, address, session, fetches });
        at
    }

    /// The number of the next connection. None is used again.
    pub(crate) fn next_upstream(&mut self) -> UpstreamId {
        self.last_upstream += 1;
        UpstreamId(self.last_upstream)
    }

    /// Forgets the nodes of a store when another store answers at the client's home. Returns the connections to them.
    pub(crate) fn forget_others(&mut self) -> Vec<UpstreamId> {
        self.places = Places::default();
        self.list.drain(1..).map(|node| node.upstream).collect()
    }
}

impl Index<At> for Nodes {
    type Output = Node;

    fn index(&self, at: At) -> &Node {
        &self.list[at.place()]
    }
}

impl IndexMut<At> for Nodes {
    fn index_mut(&mut self, at: At) -> &mut Node {
        &mut self.list[at.place()]
    }
}
