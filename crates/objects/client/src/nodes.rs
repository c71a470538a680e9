//! The nodes of the store: a session with each, and the pages that are under way there ([`messages::store_nodes`]).
//!
//! ```text
//!   home   Welcome, Placement{n0 n1 n2}       n0  session, pages of its shards under way
//!   n1     session opened by the placement    n1  the same
//!   n2     ...                                n2
//! ```
//! The horizon has the counts of all shards. The session with a node moves those of its shards. A member of a group has
//! a session with its redirector alone, which moves them all.

use crate::Config;
use crate::fetch::Fetches;
use crate::session::Session;
use core::ops::{Deref, DerefMut};
use messages::{At, StoreNodes, ToClient};
use types::{Horizon, NodeId, Time, Vector};

/// The session with a node, and the pages that are under way there.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) session: Session,
    pub(crate) fetches: Fetches,
}

/// All nodes that the client knows.
#[derive(Debug)]
pub(crate) struct Nodes {
    known: StoreNodes<Node>,
    /// The counts of all shards, of which every change has been learned to what the client holds.
    horizon: Vector,
}

impl Nodes {
    pub(crate) fn new(config: &Config) -> Self {
        let known = StoreNodes::new(Node { session: Session::new(), fetches: Fetches::new(config) });
        Self { known, horizon: Vector::new() }
    }

    /// The session with the home may be one with the redirector of a group, in a store of several nodes.
    pub(crate) fn may_be_several(&self) -> bool {
        self.are_several() || self[At::HOME].session.is_of_several
    }

    /// The nodes with which there is a session that is resumed, the client's home first.
    pub(crate) fn live(&self) -> impl Iterator<Item = At> {
        self.all().filter(|&at| self[at].session.is_live())
    }

    /// The node that coordinates the next commit: the client's home, or another one while that is away or has no shard:
    /// it may be about to leave the store.
    pub(crate) fn coordinator(&self) -> NodeId {
        let with_shards = self.live().find(|&at| self.places().has_pages(at));
        let at = with_shards.or_else(|| self.live().next()).unwrap_or(At::HOME);
        self[at].id.unwrap_or(NodeId(0))
    }

    /// Every change through here has been learned of that concerns what the client holds.
    #[inline]
    pub(crate) fn horizon(&self) -> Horizon<'_> {
        Horizon { counts: &self.horizon, sharding: self[At::HOME].session.up.sharding() }
    }

    /// Moves the horizon by the counts of a node's own shards, and the node gets an acknowledgement soon. Returns
    /// whether it moves. A node may name a count of a shard that has moved away from it, or is about to move there.
    pub(crate) fn heard_through(&mut self, now: Time, at: At, through: &Vector) -> bool {
        let through = self.places().own(at, through);
        let moves = self[at].session.heard_through(now, &through);
        if moves {
            self.horizon.join(&through);
        }
        moves
    }

    /// A message of a node names counts of its shards. Those of others are theirs to say.
    pub(crate) fn hear_of(&mut self, at: At, message: &ToClient) {
        let (node, places) = self.parts(at);
        let named = places.own(at, &message.newest_named(node.session.up.sharding()));
        node.session.up.hear_of(&named);
    }

    /// The knowledge of a node was forgotten: the horizon is what the others have said.
    pub(crate) fn forget_horizon(&mut self) {
        self.horizon = self.all().map(|at| self[at].session.horizon().counts).fold(Vector::new(), Vector::joined);
    }
}

impl Deref for Nodes {
    type Target = StoreNodes<Node>;

    fn deref(&self) -> &Self::Target {
        &self.known
    }
}

impl DerefMut for Nodes {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.known
    }
}
