//! Where the shards of a store are, as a node of a store of several tells its clients.
//!
//! ```text
//!   client                              n1                            n2
//!     | Hello, Resume, Fetch{4/0} -----> |                             |
//!     | <----- Welcome, Placement ------ |                             |
//!     | <----- Resumed, Elsewhere{4/0} - |  page 4/0 is at n2          |
//!     | Hello, Resume, Fetch{4/0} -----------------------------------> |
//! ```
//! A client has a session with every node. It asks the node for a page that has its shard.

use crate::group::{ADDRESS_BYTES, TEXT_BYTES_MIN, get_address, put_address};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use framing::field::check_count;
use framing::{Field, Layout, Limits, Meta, Reader, WireError, messages};
use machine::Goodbye;
use types::limits::{NODES_MAX, SHARDS_MAX};
use types::{NodeId, Opening, PageId, Sharding};

/// A node of a store, and where it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAt {
    /// The node.
    pub node: NodeId,
    /// How often it has been started. Of two addresses the one of the later start is right.
    pub start: u64,
    /// Where clients reach it, as `host:port`; empty before its first start, and once it is no longer a member.
    pub address: String,
}

/// The node of a shard, in an opening. Of two the one with the higher opening is right.
pub type ShardAt = (NodeId, Opening);

/// The nodes of a store, and the node of each shard. A store of one node sends none. The nodes learn of changes at
/// different times, so their placements differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The nodes, those among them that are no longer members.
    pub nodes: Vec<NodeAt>,
    /// The node of each shard, in the order of the shards. Each is one of the nodes.
    pub shards: Vec<ShardAt>,
}

messages! {
    /// Another node than the one that was asked has the shard of a page. The asker does not become its holder.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Elsewhere {
        /// The page.
        pub page: PageId,
        /// The number of the fetch that this answers.
        pub number: u64,
    }
}

impl Placement {
    /// Refuses a placement that leaves a shard without a node, or does not name the node `own` that says it.
    pub fn check(&self, sharding: Sharding, own: Option<NodeId>) -> Result<(), Goodbye> {
        let most = self.nodes.iter().map(|node| usize::from(node.node.0)).max();
        let mut all = vec![false; most.map_or(0, |most| most + 1)];
        let is_new = |node: &NodeAt| !core::mem::replace(&mut all[usize::from(node.node.0)], true);
        let are_different = self.nodes.iter().all(is_new);
        let is_named = |node: NodeId| all.get(usize::from(node.0)).is_some_and(|is_named| *is_named);
        let is_whole = are_different
            && self.shards.len() == usize::from(sharding.shards().get())
            && self.shards.iter().all(|&(node, _)| is_named(node))
            && own.is_some_and(is_named);
        if !is_whole {
            let text = format!("expected a node for each of {} shards, got {self:?}", sharding.shards());
            return Err(Goodbye::malformed(text));
        }
        Ok(())
    }
}

/// The bytes of a node without its address.
const NODE_BYTES_MIN: usize = <(NodeId, u64)>::BYTES;

/// How many nodes and shards, then each node with its start and address, then each shard's node and opening.
impl Layout for Placement {
    const LIMITS: Limits = Limits::bytes(2 * u32::BYTES)
        .and_up_to(NODES_MAX * (NODE_BYTES_MIN + ADDRESS_BYTES) + SHARDS_MAX * ShardAt::BYTES);

    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count("nodes of a store", self.nodes.len(), NODES_MAX)?;
        check_count("shards of a store", self.shards.len(), SHARDS_MAX)?;
        (self.nodes.len() as u32, self.shards.len() as u32).put(meta);
        self.nodes.iter().try_for_each(|NodeAt { node, start, address }| {
            (*node, *start).put(meta);
            put_address(meta, address)
        })?;
        self.shards.iter().for_each(|shard| shard.put(meta));
        Ok(())
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (nodes, shards) = <(u32, u32)>::get("placement", reader)?;
        let (nodes, shards) = (nodes as usize, shards as usize);
        check_count("nodes of a store", nodes, NODES_MAX)?;
        check_count("shards of a store", shards, SHARDS_MAX)?;
        let node = |reader: &mut Reader<'_>| {
            let (node, start) = Field::get("node", reader)?;
            Ok(NodeAt { node, start, address: get_address(reader)? })
        };
        Ok(Self {
            nodes: reader.list(nodes, NODE_BYTES_MIN + TEXT_BYTES_MIN, node)?,
            shards: reader.list(shards, ShardAt::BYTES, |reader| ShardAt::get("node of a shard", reader))?,
        })
    }
}
