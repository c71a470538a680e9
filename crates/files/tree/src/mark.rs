//! The chunks of a tree, for collection, uploads and verification.

use crate::entry::{Content, Entry, Kind};
use crate::hash::ChunkHash;
use crate::node::{Node, read_list};
use crate::read::{named, node};
use crate::source::{ReadError, Source};
use crate::walk::Part;
use alloc::vec::Vec;

/// Calls `is_new` with every chunk of a tree and the part of the tree that it is, before the chunk is read. A chunk for
/// which it returns false is not read, and neither is anything below it.
///
/// A chunk can be several parts: a file may have the bytes of a node. As a piece, nothing is below it.
///
/// # Errors
/// Errors of the source, and malformed nodes.
pub fn mark<S: Source>(
    source: &S,
    root: ChunkHash,
    mut is_new: impl FnMut(&ChunkHash, Part) -> bool,
) -> Result<(), ReadError<S::Error>> {
    let mut left = Vec::from([(root, None)]);
    while let Some((hash, level)) = left.pop() {
        if !is_new(&hash, Part::Directory) {
            continue;
        }
        match node(source, hash, level)? {
            Node::Index { level, below } => left.extend(below.iter().map(|(_, hash)| (*hash, Some(level - 1)))),
            Node::Leaf(entries) => {
                for (_, entry) in &entries {
                    mark_entry(source, entry, &mut is_new)?;
                    left.extend(entry.directory().map(|hash| (hash, None)));
                }
            }
        }
    }
    Ok(())
}

/// Marks the content of a file.
fn mark_entry<S: Source>(
    source: &S,
    entry: &Entry,
    is_new: &mut impl FnMut(&ChunkHash, Part) -> bool,
) -> Result<(), ReadError<S::Error>> {
    let Kind::File { content, .. } = &entry.kind else { return Ok(()) };
    let has_lists = matches!(content, Content::Lists(_));
    let part = if has_lists { Part::List } else { Part::Piece };
    for hash in &named(entry) {
        if is_new(hash, part) && has_lists {
            let bytes = source.chunk(hash).map_err(ReadError::Source)?;
            let pieces = read_list(bytes).map_err(|why| ReadError::Malformed(*hash, why))?;
            for piece in pieces {
                is_new(&piece.hash, Part::Piece);
            }
        }
    }
    Ok(())
}
