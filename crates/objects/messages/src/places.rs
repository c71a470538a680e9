//! Which node of the store has which page.

use alloc::vec;
use alloc::vec::Vec;
use types::{Opening, PageId, Shard, Sharding, Vector};

/// The place of a node among those that a client or redirector knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At(u16);

impl At {
    /// The first that has answered: the only node that a store of one has.
    pub const HOME: Self = Self(0);

    /// The node at this place in a list.
    pub fn new(place: usize) -> Self {
        Self(place as u16)
    }

    /// The first of them.
    pub fn first(count: usize) -> impl Iterator<Item = Self> {
        (0..count).map(Self::new)
    }

    /// The place in a list.
    pub fn place(self) -> usize {
        self.0.into()
    }
}

/// Which node has which shard.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Places {
    sharding: Option<Sharding>,
    /// By shard; empty while one node is known.
    at: Vec<At>,
    /// The opening of each shard at its node.
    openings: Vec<Opening>,
    /// How many nodes have a shard.
    nodes: usize,
}

impl Places {
    /// Each shard is at this node, in this opening, in the order of the shards.
    pub fn new(sharding: Sharding, places: Vec<(At, Opening)>) -> Self {
        let most = places.iter().map(|(at, _)| at.place()).max();
        let mut has_shards = vec![false; most.map_or(0, |most| most + 1)];
        for (at, _) in &places {
            has_shards[at.place()] = true;
        }
        let nodes = has_shards.into_iter().filter(|has_shards| *has_shards).count();
        let (at, openings) = places.into_iter().unzip();
        Self { sharding: Some(sharding), at, openings, nodes }
    }

    /// The place of a shard, if it is known in this opening or a later one.
    pub fn since(&self, shard: Shard, opening: Opening) -> Option<(At, Opening)> {
        let known = *self.openings.get(usize::from(shard.0))?;
        (known >= opening).then_some((self.at[usize::from(shard.0)], known))
    }

    /// Whether the store is known to have several nodes.
    pub fn are_known(&self) -> bool {
        self.sharding.is_some()
    }

    /// How many nodes have pages.
    pub fn nodes(&self) -> usize {
        self.nodes.max(1)
    }

    /// Whether a node has a shard.
    pub fn has_pages(&self, at: At) -> bool {
        !self.are_known() || self.at.contains(&at)
    }

    /// The node of a shard.
    pub fn of_shard(&self, shard: Shard) -> Option<At> {
        self.at.get(usize::from(shard.0)).copied()
    }

    /// The counts of a node's own shards, of these.
    pub fn own(&self, at: At, counts: &Vector) -> Vector {
        if !self.are_known() {
            return counts.clone();
        }
        let own = counts.counts().iter().copied().filter(|(shard, _)| self.of_shard(*shard) == Some(at));
        own.collect()
    }

    /// The node of a page.
    #[inline]
    pub fn of(&self, page: PageId) -> At {
        match self.sharding {
            Some(sharding) => self.at[usize::from(sharding.of(page).0)],
            None => At::HOME,
        }
    }
}
