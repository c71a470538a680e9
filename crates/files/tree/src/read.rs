//! Reading a tree: lookups of names and paths, lists of directories, and the pieces of files.

use crate::entry::{Content, Entry, Kind, Piece};
use crate::hash::ChunkHash;
use crate::name::{Name, Path};
use crate::node::{Node, read_list, read_node};
use crate::source::{Malformed, ReadError, Source};
use alloc::vec::Vec;
use bytes::Bytes;
use core::borrow::Borrow;

/// A tree, read from a source of chunks.
#[derive(Clone, Copy, Debug)]
pub struct Tree<S> {
    source: S,
    root: ChunkHash,
}

impl<S: Source> Tree<S> {
    /// The tree below the topmost node of a directory.
    pub fn new(source: S, root: ChunkHash) -> Self {
        Self { source, root }
    }

    /// The entry at a path; none for a path that is not there, and for the root, which has no entry.
    ///
    /// # Errors
    /// Errors of the source, and malformed nodes.
    pub fn find(&self, path: &Path) -> Result<Option<Entry>, ReadError<S::Error>> {
        let (mut directory, mut found) = (Some(self.root), None);
        for name in path.names() {
            let Some(node) = directory else { return Ok(None) };
            found = find_name(&self.source, node, name)?;
            let Some(entry) = &found else { return Ok(None) };
            directory = entry.directory();
        }
        Ok(found)
    }

    /// The directory's node at a path, if there is a directory.
    ///
    /// # Errors
    /// Errors of the source, and malformed nodes.
    pub fn directory(&self, path: &Path) -> Result<Option<ChunkHash>, ReadError<S::Error>> {
        if path.names().is_empty() {
            return Ok(Some(self.root));
        }
        Ok(self.find(path)?.and_then(|entry| entry.directory()))
    }

    /// The entries of a directory, by name.
    ///
    /// # Errors
    /// Errors of the source, and malformed nodes.
    pub fn entries(&self, directory: ChunkHash) -> Result<Vec<(Name, Entry)>, ReadError<S::Error>> {
        entries(&self.source, directory)
    }

    /// The pieces of a file that has them, in order.
    ///
    /// # Errors
    /// Errors of the source, malformed lists, and lists that are not of this size.
    pub fn pieces(&self, size: u64, content: &Content) -> Result<Vec<Piece>, ReadError<S::Error>> {
        pieces(&self.source, size, content)
    }
}

/// Reads a node, which must be of a level if one is given.
pub(crate) fn node<S: Source>(source: &S, hash: ChunkHash, level: Option<u8>) -> Result<Node, ReadError<S::Error>> {
    let bytes = source.chunk(&hash).map_err(ReadError::Source)?;
    read_level(bytes, level).map_err(|why| ReadError::Malformed(hash, why))
}

/// Reads a node from its bytes, which must be of a level if one is given.
pub(crate) fn read_level(bytes: Bytes, level: Option<u8>) -> Result<Node, Malformed> {
    let node = read_node(bytes)?;
    node.check_level(level)?;
    Ok(node)
}

pub(crate) fn find_name<S: Source>(
    source: &S,
    directory: ChunkHash,
    name: &Name,
) -> Result<Option<Entry>, ReadError<S::Error>> {
    find(directory, name, |hash| node(source, *hash, None))
}

/// The entry of a name in a directory, whose nodes `read` returns: decoded each time, or once and shared.
///
/// # Errors
/// Errors of `read`, and nodes where they cannot be.
pub fn find<N: Borrow<Node>, E>(
    directory: ChunkHash,
    name: &Name,
    mut read: impl FnMut(&ChunkHash) -> Result<N, ReadError<E>>,
) -> Result<Option<Entry>, ReadError<E>> {
    let (mut at, mut level) = (directory, None);
    loop {
        let node = read(&at)?;
        let node: &Node = node.borrow();
        node.check_level(level).map_err(|why| ReadError::Malformed(at, why))?;
        match node {
            Node::Leaf(entries) => {
                let found = entries.binary_search_by(|(other, _)| other.cmp(name));
                return Ok(found.ok().map(|at| entries[at].1.clone()));
            }
            Node::Index { level: own, below } => {
                let behind = below.partition_point(|(first, _)| first <= name);
                let Some((_, hash)) = behind.checked_sub(1).and_then(|at| below.get(at)) else { return Ok(None) };
                (at, level) = (*hash, Some(own - 1));
            }
        }
    }
}

/// The entries of a directory, by name.
fn entries<S: Source>(source: &S, directory: ChunkHash) -> Result<Vec<(Name, Entry)>, ReadError<S::Error>> {
    let (mut entries, mut left) = (Vec::<(Name, Entry)>::new(), Vec::from([(directory, None)]));
    while let Some((hash, level)) = left.pop() {
        match node(source, hash, level)? {
            Node::Leaf(more) => {
                let is_behind = match (entries.last(), more.first()) {
                    (Some((last, _)), Some((first, _))) => last < first,
                    _ => true,
                };
                if !is_behind {
                    return Err(ReadError::Malformed(hash, Malformed("names out of order")));
                }
                entries.extend(more);
            }
            Node::Index { level, below } => {
                left.extend(below.into_iter().rev().map(|(_, hash)| (hash, Some(level - 1))));
            }
        }
    }
    Ok(entries)
}

/// The nodes of directories that a node names: those of its directory, and those of the directories below.
///
/// # Errors
/// Bytes that are no node of a directory.
pub fn nodes_below(bytes: Bytes) -> Result<Vec<ChunkHash>, Malformed> {
    Ok(match read_node(bytes)? {
        Node::Leaf(entries) => entries.iter().filter_map(|(_, entry)| entry.directory()).collect(),
        Node::Index { below, .. } => below.into_iter().map(|(_, hash)| hash).collect(),
    })
}

/// The pieces of a file that has them, in order.
///
/// # Errors
/// Errors of the source, malformed lists, and lists that are not of this size.
pub fn pieces<S: Source>(source: &S, size: u64, content: &Content) -> Result<Vec<Piece>, ReadError<S::Error>> {
    let lists = match content {
        Content::Inline(_) => return Ok(Vec::new()),
        Content::Pieces(pieces) => return Ok(pieces.clone()),
        Content::Lists(lists) => lists,
    };
    let (mut pieces, mut sum) = (Vec::new(), 0);
    for hash in lists {
        let bytes = source.chunk(hash).map_err(ReadError::Source)?;
        let list = read_list(bytes).map_err(|why| ReadError::Malformed(*hash, why))?;
        sum += list.iter().map(|piece| u64::from(piece.bytes)).sum::<u64>();
        if sum > size {
            return Err(ReadError::Malformed(*hash, Malformed("a file of more pieces than its size")));
        }
        pieces.extend(list);
    }
    match lists.last() {
        Some(last) if sum != size => {
            Err(ReadError::Malformed(*last, Malformed("a file of fewer pieces than its size")))
        }
        _ => Ok(pieces),
    }
}

/// The chunks that an entry names itself, in order: its node, its pieces, or its lists.
pub fn named(entry: &Entry) -> Vec<ChunkHash> {
    match &entry.kind {
        Kind::Directory(hash) => Vec::from([*hash]),
        Kind::File { content: Content::Pieces(pieces), .. } => pieces.iter().map(|piece| piece.hash).collect(),
        Kind::File { content: Content::Lists(lists), .. } => lists.clone(),
        Kind::File { content: Content::Inline(_), .. } | Kind::Symlink(_) => Vec::new(),
    }
}
