//! The trees of a day: a few files with a value each, so that a merge of two is known.

use bytes::Bytes;
use sim::sites::Chunks;
use tree::{Attributes, ChunkHash, Content, Entry, Kind, Name, Path, Piece, write_directory};

pub(crate) const FILES: usize = 4;
pub(crate) const VALUES: u64 = 5;

/// The values of the files.
pub(crate) type Tree = [u64; FILES];

/// The changes from one tree to another, made to the head. None if the head has changed one of these files, too.
pub(crate) fn merge(base: Tree, head: Tree, new: Tree) -> Option<Tree> {
    let mut merged = head;
    for file in 0..FILES {
        if new[file] != base[file] {
            if head[file] != base[file] && head[file] != new[file] {
                return None;
            }
            merged[file] = new[file];
        }
    }
    Some(merged)
}

/// The path of a file.
pub(crate) fn path(file: usize) -> Path {
    Path::parse(["a", "b", "c", "d/x"][file].as_bytes()).unwrap()
}

fn name(name: &str) -> Name {
    Name::new(name.as_bytes()).unwrap()
}

/// The chunks of a tree: two small files, a large one, and one in a directory.
pub(crate) fn grow(tree: Tree) -> (ChunkHash, Chunks) {
    let mut chunks = Chunks::default();
    let file = |value: u64, is_large: bool, chunks: &mut Chunks| {
        let text = format!("{value}").repeat(if is_large { 700 } else { 3 });
        let (size, bytes) = (text.len() as u64, Bytes::from(text));
        let content = if is_large {
            let piece = Piece { hash: ChunkHash::of(&bytes), bytes: bytes.len() as u32 };
            chunks.0.insert(piece.hash, bytes);
            Content::Pieces(vec![piece])
        } else {
            Content::Inline(bytes)
        };
        Entry { kind: Kind::File { size, content, link: 0 }, attributes: Attributes::default() }
    };
    let below = file(tree[3], true, &mut chunks);
    let below = write_directory(&[(name("x"), below)], &mut chunks).unwrap();
    let directory = Entry { kind: Kind::Directory(below), attributes: Attributes::default() };
    let [a, b, c] = [(0, false), (1, false), (2, true)].map(|(at, is_large)| file(tree[at], is_large, &mut chunks));
    let entries = [(name("a"), a), (name("b"), b), (name("c"), c), (name("d"), directory)];
    let root = write_directory(&entries, &mut chunks).unwrap();
    (root, chunks)
}
