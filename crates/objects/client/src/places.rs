//! Which node of the store has which page.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use types::{PageId, Shard, Sharding};

/// The place of a node among those that the client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At(u16);

impl At {
    /// The client's home: the only node that a store of one has.
    pub(crate) const HOME: Self = Self(0);

    pub(crate) fn new(place: usize) -> Self {
        Self(place as u16)
    }

    /// The first of them.
    pub(crate) fn first(count: usize) -> impl Iterator<Item = Self> {
        (0..count).map(Self::new)
    }

    pub(crate) fn place(self) -> usize {
        self.0.into()
    }
}

/// Which node has which shard.
#[derive(Debug, Default)]
pub(crate) struct Places {
    sharding: Option<Sharding>,
    /// By shard; empty while the client knows of one node.
    at: Vec<At>,
    /// How many nodes have a shard.
    nodes: usize,
}

impl Places {
    pub(crate) fn new(sharding: Sharding, at: Vec<At>) -> Self {
        let nodes = at.iter().map(|at| at.0).collect::<BTreeSet<_>>().len();
        Self { sharding: Some(sharding), at, nodes }
    }

    /// Whether the client knows of several nodes.
    pub(crate) fn are_known(&self) -> bool {
        self.sharding.is_some()
    }

    /// How many nodes have pages.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.max(1)
    }

    /// The node of a shard.
    pub(crate) fn of_shard(&self, shard: Shard) -> Option<At> {
        self.at.get(usize::from(shard.0)).copied()
    }

    /// The node of a page.
    #[inline]
    pub(crate) fn of(&self, page: PageId) -> At {
        match self.sharding {
            Some(sharding) => self.at[usize::from(sharding.of(page).0)],
            None => At::HOME,
        }
    }
}
