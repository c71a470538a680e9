//! The older of two directories: its nodes, and lookups in it. Leaves are read only for a name that is looked up.

use crate::entry::Entry;
use crate::hash::ChunkHash;
use crate::name::Name;
use crate::node::Node;
use crate::read::node;
use crate::source::{Malformed, ReadError, Source};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// A directory whose index nodes were read.
pub(crate) struct Older {
    root: ChunkHash,
    /// All nodes of the directory.
    nodes: BTreeSet<ChunkHash>,
    /// The leaves, each with the first name in it.
    leaves: Vec<(Name, ChunkHash)>,
    /// The leaf that was read last. Lookups come in the order of names, so one is enough.
    open: Option<(ChunkHash, Vec<(Name, Entry)>)>,
}

impl Older {
    /// Reads the index nodes of a directory.
    ///
    /// # Errors
    /// Errors of the source, and malformed nodes.
    pub(crate) fn open<S: Source>(source: &S, root: ChunkHash) -> Result<Self, ReadError<S::Error>> {
        let mut older = Self { root, nodes: BTreeSet::from([root]), leaves: Vec::new(), open: None };
        let mut left = Vec::from([(root, None)]);
        while let Some((hash, level)) = left.pop() {
            match node(source, hash, level)? {
                Node::Leaf(entries) => {
                    older.leaves.extend(entries.first().map(|(first, _)| (first.clone(), hash)));
                    older.open = Some((hash, entries));
                }
                Node::Index { level, below } => {
                    if !below.iter().all(|(_, hash)| older.nodes.insert(*hash)) {
                        return Err(ReadError::Malformed(hash, Malformed("a node that its directory names twice")));
                    }
                    match level {
                        1 => older.leaves.extend(below),
                        _ => left.extend(below.into_iter().rev().map(|(_, hash)| (hash, Some(level - 1)))),
                    }
                }
            }
        }
        Ok(older)
    }

    /// The topmost node.
    pub(crate) fn root(&self) -> ChunkHash {
        self.root
    }

    /// All nodes of the directory.
    pub(crate) fn nodes(&self) -> &BTreeSet<ChunkHash> {
        &self.nodes
    }

    /// The leaves, each with the first name in it.
    pub(crate) fn leaves(&self) -> &[(Name, ChunkHash)] {
        &self.leaves
    }

    /// Whether the directory has a node.
    pub(crate) fn has_node(&self, hash: &ChunkHash) -> bool {
        self.nodes.contains(hash)
    }

    /// The entry of a name.
    ///
    /// # Errors
    /// Errors of the source, and malformed nodes.
    pub(crate) fn find<S: Source>(&mut self, source: &S, name: &Name) -> Result<Option<&Entry>, ReadError<S::Error>> {
        let behind = self.leaves.partition_point(|(first, _)| first <= name);
        let Some((_, leaf)) = behind.checked_sub(1).and_then(|at| self.leaves.get(at)) else { return Ok(None) };
        if self.open.as_ref().is_none_or(|(hash, _)| hash != leaf) {
            let level = (*leaf != self.root).then_some(0);
            if let Node::Leaf(entries) = node(source, *leaf, level)? {
                self.open = Some((*leaf, entries));
            }
        }
        let entries = self.open.as_ref().map_or(&[][..], |(_, entries)| entries);
        let found = entries.binary_search_by(|(other, _)| other.cmp(name)).ok();
        Ok(found.and_then(|at| entries.get(at)).map(|(_, entry)| entry))
    }
}
