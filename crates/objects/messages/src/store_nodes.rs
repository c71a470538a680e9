//! The nodes of a store to an end that has a session with each of them: a client, or a group's redirector.
//!
//! 1. The first node that has answered is the *home*. In a store of one node there is no other.
//! 2. A page has one node: the one that has its shard. Everything about the page is said there.
//! 3. A commit goes to one node, which coordinates it (**OneCoordinator**). Its number says to which ([`TxnId::at`]),
//!    so it is sent there on every way: by redirectors and by its client itself.

use crate::places::{At, Places};
use crate::{Placement, ShardAt, Upstream};
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut, Index, IndexMut};
use machine::UpstreamId;
use types::{NodeId, PageId, Shard, Sharding, TxnId};

/// A node of the store, with what its session needs.
#[derive(Debug)]
pub struct StoreNode<T> {
    /// Its number in the store, once it has welcomed this end or another node has named it.
    pub id: Option<NodeId>,
    /// The connection to it.
    pub upstream: UpstreamId,
    /// Where it is, as the store's nodes have said.
    pub address: String,
    /// The number of its start that the address is of.
    start: u64,
    with: T,
}

impl<T> Deref for StoreNode<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.with
    }
}

impl<T> DerefMut for StoreNode<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.with
    }
}

/// A change of the connections to nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The session with the node is over, and this connection with it.
    Close(At, UpstreamId),
    /// There should be a connection to a node at this address.
    Open(UpstreamId, String),
}

/// All nodes that this end knows.
#[derive(Debug)]
pub struct StoreNodes<T> {
    list: Vec<StoreNode<T>>,
    places: Places,
    /// How often a shard has had another place or another opening.
    revision: u64,
    /// The last number that was given to a connection.
    last_upstream: u64,
}

impl<T> StoreNodes<T> {
    /// The home alone.
    pub fn new(home: T) -> Self {
        let home = StoreNode { id: None, upstream: UpstreamId::ONLY, address: String::new(), start: 0, with: home };
        Self { list: alloc::vec![home], places: Places::default(), revision: 0, last_upstream: 0 }
    }

    /// All, the home first.
    pub fn all(&self) -> impl Iterator<Item = At> + use<T> {
        At::first(self.list.len())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Whether the store is known to have several nodes.
    pub fn are_several(&self) -> bool {
        self.places.are_known()
    }

    /// The node at the other end of a connection, unless that was closed.
    pub fn find(&self, upstream: UpstreamId) -> Option<At> {
        // They are numbered as nodes are added, until one of them is opened again.
        let first = usize::try_from(upstream.0).ok().filter(|&first| first < self.list.len()).map(At::new);
        let is_it = |at: &At| self[*at].upstream == upstream;
        first.filter(is_it).or_else(|| self.all().find(is_it))
    }

    /// The node of this number in the store.
    pub fn find_id(&self, id: NodeId) -> Option<At> {
        self.all().find(|&at| self[at].id == Some(id))
    }

    /// The node of a page.
    #[inline]
    pub fn of(&self, page: PageId) -> &StoreNode<T> {
        &self[self.places.of(page)]
    }

    /// The node of a page, to change.
    #[inline]
    pub fn of_mut(&mut self, page: PageId) -> &mut StoreNode<T> {
        let at = self.places.of(page);
        &mut self[at]
    }

    /// The node that coordinates a transaction; none, if the store has no such node.
    pub fn coordinator_of(&self, txn: TxnId) -> Option<At> {
        if self.are_several() { self.find_id(txn.coordinator()) } else { Some(At::HOME) }
    }

    /// Which node has which shard.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// How often a shard has had another place or another opening.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// A node, and which node has which shard.
    pub fn parts(&mut self, at: At) -> (&mut T, &Places) {
        (&mut self.list[at.place()].with, &self.places)
    }

    /// Nodes and shards are where a node says, as far as no later start or opening is known. `beside` makes the session
    /// with a node that is new here, given the home's. Returns the connections that are over, and those to be opened.
    pub fn place(&mut self, sharding: Sharding, placement: &Placement, beside: impl Fn(&T) -> T) -> Vec<Change> {
        let mut changes = Vec::new();
        for told in &placement.nodes {
            let at = self.find_id(told.node).unwrap_or_else(|| self.add(told.node, beside(&self[At::HOME])));
            if told.start < self[at].start || self[at].address == told.address {
                continue;
            }
            // The driver opens the session with the home, and asks where to look for it.
            if at != At::HOME {
                self.close(at, &mut changes);
                if !told.address.is_empty() {
                    changes.push(Change::Open(self[at].upstream, told.address.clone()));
                }
            }
            self[at].start = told.start;
            self[at].address.clone_from(&told.address);
        }
        let place_of = |(shard, &(id, opening)): (_, &ShardAt)| {
            let known = self.places.since(shard, opening);
            known.unwrap_or_else(|| (self.find_id(id).unwrap_or(At::HOME), opening))
        };
        let told = || (0..).map(Shard).zip(&placement.shards);
        if told().all(|(shard, &(_, opening))| self.places.since(shard, opening).is_some()) {
            return changes;
        }
        let places = Places::new(sharding, told().map(place_of).collect());
        self.revision += u64::from(places != self.places);
        self.places = places;
        changes
    }

    fn close(&mut self, at: At, changes: &mut Vec<Change>) {
        if !self[at].address.is_empty() {
            changes.push(Change::Close(at, self[at].upstream));
            self[at].upstream = self.next_upstream();
        }
    }

    fn add(&mut self, id: NodeId, with: T) -> At {
        let (at, upstream) = (At::new(self.list.len()), self.next_upstream());
        self.list.push(StoreNode { id: Some(id), upstream, address: String::new(), start: 0, with });
        at
    }

    /// The number of the next connection. None is used again.
    fn next_upstream(&mut self) -> UpstreamId {
        self.last_upstream += 1;
        UpstreamId(self.last_upstream)
    }

    /// Each node says the counts of its own shards from now on, which the home's session has said so far.
    pub fn share_counts<E>(&mut self, up: impl Fn(&mut T) -> &mut Upstream<E>) {
        let Self { list, places, .. } = self;
        let Some((home, others)) = list.split_first_mut() else { return };
        for (at, other) in (1..).map(At::new).zip(others) {
            up(&mut other.with).take_counts(up(&mut home.with), |counts| places.own(at, counts));
        }
        up(&mut home.with).keep_counts(|counts| places.own(At::HOME, counts));
    }

    /// The home's session says the counts of all shards from now on, which each node has said so far.
    pub fn gather_counts<E>(&mut self, up: impl Fn(&mut T) -> &mut Upstream<E>) {
        let Some((home, others)) = self.list.split_first_mut() else { return };
        for other in others {
            up(&mut home.with).add_counts(up(&mut other.with));
        }
    }

    /// Forgets all nodes but the home. Returns the connections to them.
    pub fn forget_others<E>(&mut self, up: impl Fn(&mut T) -> &mut Upstream<E>) -> Vec<UpstreamId> {
        self.places = Places::default();
        self.list[At::HOME.place()].start = 0;
        let mut others: Vec<_> = self.list.drain(1..).collect();
        for other in &mut others {
            // A node knows the sessions that it has had with this end, and takes no older one.
            up(&mut self.list[0].with).comes_after(up(&mut other.with));
        }
        others.into_iter().map(|node| node.upstream).collect()
    }
}

impl<T> Index<At> for StoreNodes<T> {
    type Output = StoreNode<T>;

    fn index(&self, at: At) -> &StoreNode<T> {
        &self.list[at.place()]
    }
}

impl<T> IndexMut<At> for StoreNodes<T> {
    fn index_mut(&mut self, at: At) -> &mut StoreNode<T> {
        &mut self.list[at.place()]
    }
}
