//! A directory that is written again with some of its entries changed.
//!
//! Cuts depend on entries alone, and each node begins behind a cut. So where a new leaf begins with an old one, and no
//! entry of the old leaf changes, both are the same: the old leaf is neither read nor written.

use crate::entry::Entry;
use crate::hash::ChunkHash;
use crate::limits::NODE_BYTES;
use crate::name::Name;
use crate::node::{Item, Node, OpenNode, leaf_size, write_directory, write_nodes};
use crate::older::Older;
use crate::read::node;
use crate::source::{Malformed, NewNodes, ReadError, Sink, Source};
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// A name with its new entry, or without one if it is removed.
pub(crate) type Changed = (Name, Option<Entry>);

/// The reason why a directory cannot be written again.
pub(crate) enum RewriteError<E, K> {
    Read(ReadError<E>),
    Sink(K),
}

impl<E, K> From<ReadError<E>> for RewriteError<E, K> {
    fn from(error: ReadError<E>) -> Self {
        Self::Read(error)
    }
}

/// Writes a directory again with changes, which are sorted by name, and returns its new node. The sink receives the
/// nodes that the older directory does not have.
///
/// # Errors
/// Errors of the source and the sink, and malformed nodes.
pub(crate) fn rewrite<S: Source, K: Sink>(
    source: &S,
    older: &Older,
    changes: &[Changed],
    sink: &mut K,
) -> Result<ChunkHash, RewriteError<S::Error, K::Error>> {
    let sink = &mut NewNodes { nodes: older.nodes(), sink };
    if !stays_large(source, older, changes)? {
        let mut entries = Vec::new();
        for leaf in leaves(older, changes) {
            entries.extend(leaf.changed(source)?);
        }
        if older.leaves().is_empty() {
            entries = with_changes(Vec::new(), changes);
        }
        return write_directory(&entries, sink).map_err(RewriteError::Sink);
    }
    let (mut below, mut open) = (Vec::with_capacity(older.leaves().len() + 1), OpenNode::default());
    for leaf in leaves(older, changes) {
        if open.is_empty() && leaf.changes.is_empty() {
            below.push(Item::node(Cow::Borrowed(leaf.first), leaf.hash));
            continue;
        }
        for (name, entry) in leaf.changed(source)? {
            open.push(Item::entry(Cow::Owned(name), &entry));
            if open.is_complete() {
                below.push(open.end(sink).map_err(RewriteError::Sink)?);
            }
        }
    }
    if !open.is_empty() {
        below.push(open.end(sink).map_err(RewriteError::Sink)?);
    }
    write_nodes(1, below, sink).map_err(RewriteError::Sink)
}

/// Whether the leaves without changes are too large for one node, so that the directory is still cut.
fn stays_large<S: Source>(source: &S, older: &Older, changes: &[Changed]) -> Result<bool, ReadError<S::Error>> {
    let (mut count, mut bytes) = (0, 0);
    for leaf in leaves(older, changes).filter(|leaf| leaf.changes.is_empty()) {
        let chunk = source.chunk(&leaf.hash).map_err(ReadError::Source)?;
        let size = leaf_size(chunk).map_err(|why| ReadError::Malformed(leaf.hash, why))?;
        (count, bytes) = (count + size.0, bytes + size.1);
        // A single entry is not cut, however large it is.
        if count > 1 && bytes > NODE_BYTES {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A leaf of the older directory, and the changes of the names that it has or would have.
struct Leaf<'a> {
    first: &'a Name,
    /// The first name of the leaf behind it.
    next: Option<&'a Name>,
    hash: ChunkHash,
    changes: &'a [Changed],
}

fn leaves<'a>(older: &'a Older, changes: &'a [Changed]) -> impl Iterator<Item = Leaf<'a>> {
    let (leaves, mut left) = (older.leaves(), changes);
    leaves.iter().enumerate().map(move |(at, (first, hash))| {
        let next = leaves.get(at + 1).map(|(next, _)| next);
        let count = next.map_or(left.len(), |next| left.partition_point(|(name, _)| name < next));
        let (changes, behind) = left.split_at(count);
        left = behind;
        Leaf { first, next, hash: *hash, changes }
    })
}

impl Leaf<'_> {
    /// Its entries with the changes.
    fn changed<S: Source>(&self, source: &S) -> Result<Vec<(Name, Entry)>, ReadError<S::Error>> {
        let malformed = |why| ReadError::Malformed(self.hash, Malformed(why));
        let Node::Leaf(entries) = node(source, self.hash, None)? else {
            return Err(malformed("a node of another level"));
        };
        // Leaves around it are taken by the names in their indexes, so those must be right.
        let is_first = entries.first().is_some_and(|(name, _)| name == self.first);
        let is_before = self.next.is_none_or(|next| entries.last().is_some_and(|(name, _)| name < next));
        if is_first && is_before {
            Ok(with_changes(entries, self.changes))
        } else {
            Err(malformed("a node with other names than in its index"))
        }
    }
}

/// Entries with changes, both sorted by name.
fn with_changes(entries: Vec<(Name, Entry)>, changes: &[Changed]) -> Vec<(Name, Entry)> {
    if changes.is_empty() {
        return entries;
    }
    let (mut after, mut before) = (Vec::with_capacity(entries.len() + changes.len()), entries.into_iter().peekable());
    for (name, entry) in changes {
        while let Some(entry) = before.next_if(|(other, _)| other < name) {
            after.push(entry);
        }
        before.next_if(|(other, _)| other == name);
        after.extend(entry.clone().map(|entry| (name.clone(), entry)));
    }
    after.extend(before);
    after
}
