//! Directories as nodes: leaves of entries, and index nodes above them where a directory is large.
//!
//! ```text
//!   leaf   'D' 0     count u32   entry *                  sorted by name
//!   index  'D' level count u32   (name bytes u8, first name, hash) *
//!   list   'L' 0     count u32   piece *                  of a large file
//! ```
//! A node ends behind a name whose hash says so, one in 128 on average, or when it is large. So a directory is a
//! function of its entries, whatever its history was, and a changed entry changes one node of each level.

use crate::entry::{Content, Entry, Piece};
use crate::fields::{decode_entry, encode_entry, get, get_hash, get_name, get_pieces, put_piece};
use crate::hash::ChunkHash;
use crate::limits::{LEAF_BYTES_MAX, LIST_PIECES_MAX, NODE_BYTES, PIECES_MAX};
use crate::name::Name;
use crate::source::{Malformed, Sink};
use alloc::borrow::Cow;
use alloc::vec::Vec;
use bytes::{Buf, BufMut, Bytes};

const DIRECTORY: u8 = b'D';
const LIST: u8 = b'L';
const HEAD_BYTES: usize = 6;

/// The bits of a name's hash that are zero where a node ends.
const CUT_BITS: u32 = 7;

/// A node of a directory, as it was read.
#[derive(Debug, PartialEq, Eq)]
pub enum Node {
    /// Entries, by name.
    Leaf(Vec<(Name, Entry)>),
    /// The first name in each node below, and the node. The level of each is one less.
    Index {
        /// The height above the leaves, from 1.
        level: u8,
        /// The nodes.
        below: Vec<(Name, ChunkHash)>,
    },
}

impl Node {
    /// Reads a node from its chunk.
    ///
    /// # Errors
    /// Bytes that cannot be a node of a directory.
    pub fn read(bytes: Bytes) -> Result<Self, Malformed> {
        read_node(bytes)
    }

    /// Checks the level of a node below an index node, where no leaf is empty; none for the topmost node.
    /// Otherwise a few index nodes could name one empty leaf so often that a reader would not end.
    pub(crate) fn check_level(&self, level: Option<u8>) -> Result<(), Malformed> {
        let own = match self {
            Self::Leaf(_) => 0,
            Self::Index { level, .. } => *level,
        };
        match level {
            Some(level) if level != own => Err(Malformed("a node of another level")),
            Some(_) if matches!(self, Self::Leaf(entries) if entries.is_empty()) => {
                Err(Malformed("an empty leaf under an index"))
            }
            _ => Ok(()),
        }
    }
}

/// An item of a node that is being written.
pub(crate) struct Item<'a> {
    bytes: Vec<u8>,
    name: Cow<'a, Name>,
}

impl<'a> Item<'a> {
    /// An entry of a leaf.
    pub(crate) fn entry(name: Cow<'a, Name>, entry: &Entry) -> Self {
        let mut bytes = Vec::new();
        encode_entry(&mut bytes, &name, entry);
        Self { bytes, name }
    }

    /// A node below an index node, with the first name in it.
    pub(crate) fn node(first: Cow<'a, Name>, hash: ChunkHash) -> Self {
        let mut bytes = Vec::with_capacity(1 + first.as_bytes().len() + ChunkHash::BYTES);
        bytes.put_u8(first.as_bytes().len() as u8);
        bytes.put_slice(first.as_bytes());
        bytes.put_slice(hash.as_bytes());
        Self { bytes, name: first }
    }

    /// Whether a node of this level ends behind the item: the first bytes of its name's hash decide. Each level looks
    /// at bits of its own.
    fn is_end(&self, level: u8) -> bool {
        let hash = ChunkHash::of(self.name.as_bytes());
        let hash = hash.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
        let shift = (u32::from(level) * CUT_BITS).min(u64::BITS - CUT_BITS);
        (hash >> shift).trailing_zeros() >= CUT_BITS
    }
}

/// Writes a directory, and returns the name of its topmost node.
///
/// `entries` must be sorted by name, each name once.
///
/// # Errors
/// Errors of the sink.
pub fn write_directory<S: Sink>(entries: &[(Name, Entry)], sink: &mut S) -> Result<ChunkHash, S::Error> {
    debug_assert!(entries.is_sorted_by(|(a, _), (b, _)| a < b), "a directory's names are sorted");
    let items = entries.iter().map(|(name, entry)| Item::entry(Cow::Borrowed(name), entry));
    write_nodes(0, items.collect(), sink)
}

/// Writes the items of a level into nodes, and those above them. Returns the topmost node.
///
/// # Errors
/// Errors of the sink.
pub(crate) fn write_nodes<S: Sink>(
    mut level: u8,
    mut items: Vec<Item<'_>>,
    sink: &mut S,
) -> Result<ChunkHash, S::Error> {
    loop {
        let total: usize = items.iter().map(|item| item.bytes.len()).sum();
        if total <= NODE_BYTES || items.len() == 1 {
            return add_node(level, &items, sink);
        }
        let mut above = Vec::new();
        for node in cut(&items, level) {
            let hash = add_node(level, node, sink)?;
            above.push(Item::node(node[0].name.clone(), hash));
        }
        items = above;
        level += 1;
    }
}

/// Cuts the items of a level into nodes.
fn cut<'a, 'b>(items: &'b [Item<'a>], level: u8) -> Vec<&'b [Item<'a>]> {
    let (mut nodes, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (at, item) in items.iter().enumerate() {
        bytes += item.bytes.len();
        if is_cut(level, at + 1 - start, bytes, item) && at + 1 < items.len() {
            nodes.push(&items[start..=at]);
            (start, bytes) = (at + 1, 0);
        }
    }
    nodes.push(&items[start..]);
    nodes
}

/// Whether a node ends behind an item, with which it has this many items and bytes.
fn is_cut(level: u8, count: usize, bytes: usize, item: &Item<'_>) -> bool {
    // Two items at least: names that were chosen to end every node would have no end of levels.
    count > 1 && (item.is_end(level) || bytes >= LEAF_BYTES_MAX)
}

/// A leaf that is being written.
#[derive(Default)]
pub(crate) struct OpenNode<'a> {
    items: Vec<Item<'a>>,
    bytes: usize,
}

impl<'a> OpenNode<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn push(&mut self, item: Item<'a>) {
        self.bytes += item.bytes.len();
        self.items.push(item);
    }

    /// Whether it ends here if others follow.
    pub(crate) fn is_complete(&self) -> bool {
        self.items.last().is_some_and(|last| is_cut(0, self.items.len(), self.bytes, last))
    }

    /// Writes it, and begins the next one. Returns its item in the node above.
    ///
    /// # Errors
    /// Errors of the sink.
    pub(crate) fn end<S: Sink>(&mut self, sink: &mut S) -> Result<Item<'a>, S::Error> {
        let hash = add_node(0, &self.items, sink)?;
        let first = self.items.swap_remove(0).name;
        self.items.clear();
        self.bytes = 0;
        Ok(Item::node(first, hash))
    }
}

fn add_node<S: Sink>(level: u8, items: &[Item<'_>], sink: &mut S) -> Result<ChunkHash, S::Error> {
    let total: usize = items.iter().map(|item| item.bytes.len()).sum();
    let mut bytes = Vec::with_capacity(HEAD_BYTES + total);
    bytes.put_slice(&[DIRECTORY, level]);
    bytes.put_u32_le(items.len() as u32);
    for item in items {
        bytes.put_slice(&item.bytes);
    }
    add(bytes, sink)
}

fn add<S: Sink>(bytes: Vec<u8>, sink: &mut S) -> Result<ChunkHash, S::Error> {
    let hash = ChunkHash::of(&bytes);
    sink.add(hash, bytes.into())?;
    Ok(hash)
}

/// The content of a file of these pieces, whose lists are written if there are many.
///
/// # Errors
/// Errors of the sink.
pub fn write_pieces<S: Sink>(pieces: Vec<Piece>, sink: &mut S) -> Result<Content, S::Error> {
    if pieces.len() <= PIECES_MAX {
        return Ok(Content::Pieces(pieces));
    }
    let list = |pieces: &[Piece]| {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + pieces.len() * (ChunkHash::BYTES + 4));
        bytes.put_slice(&[LIST, 0]);
        bytes.put_u32_le(pieces.len() as u32);
        for piece in pieces {
            put_piece(&mut bytes, piece);
        }
        add(bytes, sink)
    };
    pieces.chunks(LIST_PIECES_MAX).map(list).collect::<Result<_, _>>().map(Content::Lists)
}

/// Reads a node of a directory.
pub(crate) fn read_node(mut bytes: Bytes) -> Result<Node, Malformed> {
    let (level, count) = read_head(&mut bytes, DIRECTORY)?;
    let node = if level == 0 {
        let mut entries: Vec<(Name, Entry)> = Vec::new();
        for _ in 0..count {
            let (name, entry) = decode_entry(&mut bytes)?;
            if entries.last().is_some_and(|(last, _)| *last >= name) {
                return Err(Malformed("names out of order"));
            }
            entries.push((name, entry));
        }
        Node::Leaf(entries)
    } else {
        if count == 0 {
            return Err(Malformed("an index of no nodes"));
        }
        let mut below: Vec<(Name, ChunkHash)> = Vec::new();
        for _ in 0..count {
            let name = get_name(&mut bytes)?;
            if below.last().is_some_and(|(last, _)| *last >= name) {
                return Err(Malformed("names out of order"));
            }
            below.push((name, get_hash(&mut bytes)?));
        }
        Node::Index { level, below }
    };
    if bytes.is_empty() { Ok(node) } else { Err(Malformed("bytes behind its end")) }
}

/// The number of a leaf's entries, and their bytes.
pub(crate) fn leaf_size(mut bytes: Bytes) -> Result<(usize, usize), Malformed> {
    match read_head(&mut bytes, DIRECTORY)? {
        (0, count) => Ok((count, bytes.len())),
        _ => Err(Malformed("a node of another level")),
    }
}

/// Whether a chunk could be a node of a tree. Content can look like one, too.
pub fn is_node(bytes: &Bytes) -> bool {
    match bytes.first() {
        Some(&DIRECTORY) => read_node(bytes.clone()).is_ok(),
        Some(&LIST) => read_list(bytes.clone()).is_ok(),
        _ => false,
    }
}

/// Reads a list of pieces.
pub(crate) fn read_list(mut bytes: Bytes) -> Result<Vec<Piece>, Malformed> {
    let (_, count) = read_head(&mut bytes, LIST)?;
    if count == 0 || count > LIST_PIECES_MAX {
        return Err(Malformed("a list of no pieces, or of too many"));
    }
    let pieces = get_pieces(&mut bytes, count)?;
    if bytes.is_empty() { Ok(pieces) } else { Err(Malformed("bytes behind its end")) }
}

fn read_head(bytes: &mut Bytes, kind: u8) -> Result<(u8, usize), Malformed> {
    let mut head = get(bytes, HEAD_BYTES)?;
    if head.get_u8() != kind {
        return Err(Malformed("another kind of chunk"));
    }
    Ok((head.get_u8(), head.get_u32_le() as usize))
}
