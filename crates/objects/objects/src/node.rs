//! The nodes of a map in their objects: the root, which says what the map is a map of, and those below it.

use crate::format::Kind;
use crate::kinds::{Kinds, Mismatch};
use crate::stamp::INTERNAL;
use crate::tree::{TreeNode, View};
use crate::tx::Missing;
use crate::value::{self, Target, Wanted};
use crate::{Error, Mode, Ref, Result, Tx};
use types::ObjectId;

/// A tree deeper than this is damaged: it would hold more than any store.
pub(crate) const DEPTH_MAX: usize = 32;

/// The root of a map, and what the map is considered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root {
    object: Ref<()>,
    kinds: Kinds,
}

impl Root {
    pub(crate) const fn new(object: Ref<()>, kinds: Kinds) -> Self {
        Self { object, kinds }
    }

    pub(crate) fn id(self) -> ObjectId {
        self.object.id()
    }

    fn target(self, node: ObjectId) -> Target {
        if node == self.id() { self.object.into() } else { node.into() }
    }

    fn wanted(self, node: ObjectId) -> Wanted {
        if node == self.id() { Wanted { kind: Kind::Map, name: self.kinds.name } } else { Wanted::NODE }
    }

    /// The node in a node's object. That of the root says first what the map is a map of.
    #[inline]
    fn node_in(self, node: ObjectId, bytes: &[u8]) -> Result<&[u8]> {
        if node != self.id() {
            return Ok(bytes);
        }
        self.kinds.node_in(bytes).map_err(|mismatch| match mismatch {
            Mismatch::Damaged => Error::damaged(node, "it does not say what it is a map of"),
            Mismatch::Other(stored) => Error::wrong_kind(format!("object {node}"), stored, (self.kinds.name)(), None),
        })
    }

    /// The object of a node.
    fn object(self, id: ObjectId, node: &TreeNode) -> Vec<u8> {
        if id == self.id() { root_object(self.kinds, node) } else { node_object(node) }
    }
}

/// Shows a node to `see`; `None` if it is the root of a map that nothing was put in yet. The root is checked to be the
/// one that is meant; below it every node belongs to the map.
pub(crate) async fn look<M: Mode, R>(
    tx: &mut Tx<M>,
    root: Root,
    node: ObjectId,
    see: impl FnOnce(View<'_>) -> Option<R>,
) -> Result<Option<R>> {
    let seen = tx.fetch(root.target(node), root.wanted(node), |bytes| {
        let node = root.node_in(node, bytes)?;
        Ok::<_, Error>(View::parse(node).and_then(see))
    });
    match seen.await?.transpose()? {
        Some(Some(seen)) => Ok(Some(seen)),
        Some(None) => Err(Error::damaged(node, "it is not a node of a map")),
        None if node == root.id() && is_directory(node) => Ok(None),
        None => Err(Error::NoSuchObject(node)),
    }
}

pub(crate) async fn load_node<M: Mode>(tx: &mut Tx<M>, root: Root, node: ObjectId) -> Result<TreeNode> {
    match tx
        .fetch(node, root.wanted(node), |bytes| root.node_in(node, bytes).map(TreeNode::parse))
        .await?
        .transpose()?
    {
        Some(Some(node)) => Ok(node),
        Some(None) => Err(Error::damaged(node, "it is not a node of a map")),
        None if is_directory(node) => Ok(TreeNode::EMPTY),
        None => Err(Error::NoSuchObject(node)),
    }
}

pub(crate) async fn load_inner<M: Mode>(tx: &mut Tx<M>, root: Root, id: ObjectId) -> Result<TreeNode> {
    let node = load_node(tx, root, id).await?;
    if node.leaf { Err(Error::damaged(id, "it is a leaf of a map where an inner node should be")) } else { Ok(node) }
}

pub(crate) async fn store_node<M: Mode>(tx: &mut Tx<M>, root: Root, id: ObjectId, node: &TreeNode) -> Result<()> {
    tx.store(id, root.object(id, node), Missing::IsCreated).await
}

pub(crate) async fn create_node<M: Mode>(tx: &mut Tx<M>, near: Option<ObjectId>, node: &TreeNode) -> Result<ObjectId> {
    tx.add(near, node_object(node), INTERNAL).await
}

fn node_object(node: &TreeNode) -> Vec<u8> {
    let mut bytes = value::inline(Kind::Node, node.bytes());
    node.push_bytes(&mut bytes);
    bytes
}

/// The object of a map's root node.
pub(crate) fn root_object(kinds: Kinds, node: &TreeNode) -> Vec<u8> {
    let kinds = kinds.to_bytes();
    let mut bytes = value::inline(Kind::Map, kinds.len() + node.bytes());
    bytes.extend_from_slice(&kinds);
    node.push_bytes(&mut bytes);
    bytes
}

/// The directory of roots is there from the space's birth, without having been created: its free slot is the empty
/// map.
fn is_directory(root: ObjectId) -> bool {
    root == ObjectId::root(root.page.space)
}
