//! A walk over the chunks of a tree that knows the path of each, and goes on behind chunks that cannot be read.

use crate::entry::{Content, Entry, Kind};
use crate::hash::ChunkHash;
use crate::limits::DEPTH_MAX;
use crate::name::{Name, Path};
use crate::node::{Node, read_list};
use crate::read::{named, read_level};
use crate::source::Malformed;
use alloc::rc::Rc;
use alloc::vec::Vec;
use bytes::Bytes;

/// The part of a tree that a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// A node of a directory. Everything below it is found through it.
    Directory,
    /// A list of the pieces of a file.
    List,
    /// A piece of a file's content.
    Piece,
}

impl Part {
    /// Each part once.
    pub const ALL: [Self; 3] = [Self::Directory, Self::List, Self::Piece];
}

/// A chunk, as a tree needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed<'a> {
    /// The chunk.
    pub hash: ChunkHash,
    /// The part that it is.
    pub part: Part,
    /// The path of the directory or file.
    pub path: &'a Path,
}

/// The caller's side of a walk.
pub trait Visitor {
    /// The reason why a walk ends early.
    type Error;

    /// Visits a chunk. Returns its bytes, or none for a chunk that the walk does not look into.
    ///
    /// # Errors
    /// The reason to end the walk.
    fn chunk(&mut self, needed: Needed<'_>) -> Result<Option<Bytes>, Self::Error>;

    /// Reports a node or list whose bytes, as they were returned, cannot be one.
    ///
    /// # Errors
    /// The reason to end the walk.
    fn malformed(&mut self, needed: Needed<'_>, why: Malformed) -> Result<(), Self::Error>;
}

/// The steps of a walk that are left, the next one last.
enum Step {
    Node { directory: Rc<Path>, hash: ChunkHash, level: Option<u8> },
    Entry { directory: Rc<Path>, name: Name, entry: Entry },
}

/// Visits the chunks of a tree in the order of its paths: a directory before its entries. A chunk that a tree needs at
/// several places is visited at each of them.
///
/// # Errors
/// Errors of the visitor.
pub fn walk<V: Visitor>(root: ChunkHash, visitor: &mut V) -> Result<(), V::Error> {
    let mut left = Vec::from([Step::Node { directory: Rc::new(Path::ROOT), hash: root, level: None }]);
    while let Some(step) = left.pop() {
        match step {
            Step::Node { directory, hash, level } => {
                let needed = Needed { hash, part: Part::Directory, path: &directory };
                let Some(bytes) = visitor.chunk(needed)? else { continue };
                match read_level(bytes, level) {
                    Ok(Node::Index { level, below }) => {
                        let node =
                            |(_, hash)| Step::Node { directory: directory.clone(), hash, level: Some(level - 1) };
                        left.extend(below.into_iter().rev().map(node));
                    }
                    Ok(Node::Leaf(entries)) => {
                        let step = |(name, entry)| Step::Entry { directory: directory.clone(), name, entry };
                        left.extend(entries.into_iter().rev().map(step));
                    }
                    Err(why) => visitor.malformed(needed, why)?,
                }
            }
            Step::Entry { directory, name, entry } => {
                let path = directory.join(&name);
                match entry.directory() {
                    Some(hash) if path.names().len() > DEPTH_MAX => {
                        let needed = Needed { hash, part: Part::Directory, path: &path };
                        visitor.malformed(needed, Malformed("directories too deep"))?;
                    }
                    Some(hash) => left.push(Step::Node { directory: Rc::new(path), hash, level: None }),
                    None => walk_file(&path, &entry, visitor)?,
                }
            }
        }
    }
    Ok(())
}

/// Visits the chunks of a file.
fn walk_file<V: Visitor>(path: &Path, entry: &Entry, visitor: &mut V) -> Result<(), V::Error> {
    let has_lists = matches!(&entry.kind, Kind::File { content: Content::Lists(_), .. });
    let part = if has_lists { Part::List } else { Part::Piece };
    for hash in named(entry) {
        let needed = Needed { hash, part, path };
        let Some(bytes) = visitor.chunk(needed)?.filter(|_| has_lists) else { continue };
        match read_list(bytes) {
            Ok(pieces) => {
                for piece in pieces {
                    visitor.chunk(Needed { hash: piece.hash, part: Part::Piece, path })?;
                }
            }
            Err(why) => visitor.malformed(needed, why)?,
        }
    }
    Ok(())
}
