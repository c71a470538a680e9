//! Random trees with real content, of names and contents so few that two of them have much in common.

use crate::memory::{Memory, name};
use bytes::{BufMut, Bytes};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tree::{Attributes, ChunkHash, Content, Entry, Kind, Name, Piece, Sink, write_directory};

/// A directory that was not written yet.
pub(crate) type Folder = BTreeMap<Name, Item>;

#[derive(Clone, Debug)]
pub(crate) enum Item {
    Inline(u8),
    Pieces(Vec<u8>),
    Lists(Vec<Vec<u8>>),
    Symlink(u8),
    Folder(Folder),
}

/// Two trees: independent ones, or one that is the other with some changes.
pub(crate) fn two_folders() -> impl Strategy<Value = (Folder, Folder)> {
    prop_oneof![
        (folder(), folder()),
        (folder(), folder()).prop_map(|(a, b)| (a.clone(), overlay(a, b))),
        (folder(), folder()).prop_map(|(a, b)| (overlay(a.clone(), b), a)),
    ]
}

fn folder() -> impl Strategy<Value = Folder> {
    let ids = || prop::collection::vec(0..20_u8, 1..4);
    let item = prop_oneof![
        (0..3_u8).prop_map(Item::Inline),
        ids().prop_map(Item::Pieces),
        prop::collection::vec(ids(), 1..4).prop_map(Item::Lists),
        (0..2_u8).prop_map(Item::Symlink),
    ];
    let item = item.prop_recursive(4, 60, 5, |item| names(item).prop_map(Item::Folder));
    names(item)
}

fn names(item: impl Strategy<Value = Item>) -> impl Strategy<Value = Folder> {
    prop::collection::btree_map("[a-e]".prop_map(|text| name(&text)), item, 0..5)
}

/// The first tree with what the second one has.
fn overlay(mut below: Folder, above: Folder) -> Folder {
    for (name, item) in above {
        let item = match (below.remove(&name), item) {
            (Some(Item::Folder(below)), Item::Folder(above)) => Item::Folder(overlay(below, above)),
            (_, item) => item,
        };
        below.insert(name, item);
    }
    below
}

/// Writes a tree with all its content.
pub(crate) fn write_folder(folder: &Folder, into: &mut Memory) -> ChunkHash {
    let entries: Vec<_> = folder.iter().map(|(name, item)| (name.clone(), write_item(item, into))).collect();
    write_directory(&entries, into).unwrap()
}

fn write_item(item: &Item, into: &mut Memory) -> Entry {
    let mut mode = 0o644;
    let kind = match item {
        Item::Inline(id) => {
            let content = Bytes::from(vec![*id; usize::from(*id)]);
            Kind::File { size: content.len() as u64, content: Content::Inline(content), link: 0 }
        }
        Item::Pieces(ids) => {
            let pieces: Vec<Piece> = ids.iter().map(|id| write_piece(*id, into)).collect();
            let size = pieces.iter().map(|piece| u64::from(piece.bytes)).sum();
            Kind::File { size, content: Content::Pieces(pieces), link: 0 }
        }
        Item::Lists(lists) => {
            let size = lists.iter().map(|ids| ids.len() as u64 * u64::from(PIECE_BYTES)).sum();
            let lists = lists.iter().map(|ids| write_list(ids, into)).collect();
            Kind::File { size, content: Content::Lists(lists), link: 0 }
        }
        Item::Symlink(id) => Kind::Symlink(vec![b'a' + id].into()),
        Item::Folder(folder) => {
            // Some changes of a directory change its attributes too.
            mode = 0o700 + (folder.len() % 2) as u16;
            Kind::Directory(write_folder(folder, into))
        }
    };
    Entry { kind, attributes: Attributes { mode, ..Attributes::default() } }
}

const PIECE_BYTES: u32 = 600;

fn write_piece(id: u8, into: &mut Memory) -> Piece {
    Piece { hash: add(vec![id; PIECE_BYTES as usize], into), bytes: PIECE_BYTES }
}

/// Writes a list of few pieces, which a writer would keep in the entry.
pub(crate) fn write_list(ids: &[u8], into: &mut Memory) -> ChunkHash {
    let mut bytes = vec![b'L', 0];
    bytes.put_u32_le(ids.len() as u32);
    for id in ids {
        let piece = write_piece(*id, into);
        bytes.put_slice(piece.hash.as_bytes());
        bytes.put_u32_le(piece.bytes);
    }
    add(bytes, into)
}

/// Adds any bytes as a chunk.
pub(crate) fn add(bytes: Vec<u8>, into: &mut Memory) -> ChunkHash {
    let hash = ChunkHash::of(&bytes);
    into.add(hash, bytes.into()).unwrap();
    hash
}

/// An index node above other nodes.
pub(crate) fn index(level: u8, below: &[(Name, ChunkHash)], into: &mut Memory) -> ChunkHash {
    let mut bytes = vec![b'D', level];
    bytes.put_u32_le(below.len() as u32);
    for (name, hash) in below {
        bytes.put_u8(name.as_bytes().len() as u8);
        bytes.put_slice(name.as_bytes());
        bytes.put_slice(hash.as_bytes());
    }
    add(bytes, into)
}
