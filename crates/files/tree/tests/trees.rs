//! Trees in memory: what is written is read again, whatever the history was, and damage is refused.

mod memory;

use bytes::Bytes;
use memory::{Memory, directory, file, many, name, write};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::convert::Infallible;
use tree::{
    Attributes, Change, ChunkHash, Comparison, Content, Entry, Kind, Malformed, Name, Needed, Part, Path, Piece,
    ReadError, Sink, Time, Tree, Visitor, diff, limits, mark, pieces, walk, write_pieces,
};

fn attributes() -> impl Strategy<Value = Attributes> {
    let times = (any::<i64>(), 0..1_000_000_000_u32);
    let xattrs = prop::collection::btree_map("[a-z.]{1,20}", prop::collection::vec(any::<u8>(), 0..50), 0..3);
    (0..0o10000_u16, any::<u32>(), any::<u32>(), times, xattrs).prop_map(|(mode, uid, gid, time, xattrs)| Attributes {
        mode,
        uid,
        gid,
        modified: Time { seconds: time.0, nanoseconds: time.1 },
        xattrs: xattrs.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
    })
}

fn kind() -> impl Strategy<Value = Kind> {
    let inline = prop::collection::vec(any::<u8>(), 0..=limits::INLINE_BYTES_MAX);
    let piece = (any::<[u8; 32]>(), 1024..=limits::CHUNK_BYTES_MAX as u32);
    prop_oneof![
        (inline, any::<u64>()).prop_map(|(content, link)| Kind::File {
            size: content.len() as u64,
            content: Content::Inline(content.into()),
            link
        }),
        prop::collection::vec(piece, 1..5).prop_map(|pieces| {
            let pieces: Vec<_> = pieces.into_iter().map(|(hash, bytes)| Piece { hash: hash.into(), bytes }).collect();
            let size = pieces.iter().map(|piece| u64::from(piece.bytes)).sum();
            Kind::File { size, content: Content::Pieces(pieces), link: 0 }
        }),
        (any::<u64>(), prop::collection::vec(any::<[u8; 32]>(), 1..4)).prop_map(|(size, lists)| {
            Kind::File { size, content: Content::Lists(lists.into_iter().map(ChunkHash::from).collect()), link: 0 }
        }),
        any::<[u8; 32]>().prop_map(|hash| Kind::Directory(hash.into())),
        "[^\0]{1,100}".prop_map(|target| Kind::Symlink(target.into())),
    ]
}

fn listing() -> impl Strategy<Value = Vec<(Name, Entry)>> {
    let entry = (kind(), attributes()).prop_map(|(kind, attributes)| Entry { kind, attributes });
    let names = "[^/\0]{1,60}".prop_filter_map("a name", |text| Name::new(text.as_bytes()).ok());
    prop::collection::btree_map(names, entry, 0..40).prop_map(|entries| entries.into_iter().collect())
}

proptest! {
    #[test]
    fn what_is_written_is_read(entries in listing()) {
        let mut memory = Memory::default();
        let root = write(&entries, &mut memory);
        let tree = Tree::new(&memory, root);
        prop_assert_eq!(&tree.entries(root).unwrap(), &entries);
        for (name, entry) in &entries {
            let mut path = Path::ROOT;
            path.push(name.clone());
            prop_assert_eq!(tree.find(&path).unwrap(), Some(entry.clone()));
        }
    }

    /// Every node is the only encoding of its entries, so other bytes are refused or another directory.
    #[test]
    fn damage_is_refused_or_another_directory(entries in listing(), at in any::<prop::sample::Index>(), bit in 0..8) {
        let mut memory = Memory::default();
        let root = write(&entries, &mut memory);
        let bytes = memory.chunks[&root].clone();
        let at = at.index(bytes.len());
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 1_u8 << bit;
        let (mut cut, flipped) = (Memory::default(), Bytes::from(flipped));
        cut.chunks.insert(root, bytes.slice(..at));
        prop_assert!(matches!(Tree::new(&cut, root).entries(root), Err(ReadError::Malformed(..))));
        let mut other = Memory::default();
        other.chunks.insert(root, flipped.clone());
        if let Ok(read) = Tree::new(&other, root).entries(root) {
            prop_assert!(read != entries);
            let again = write(&read, &mut other);
            prop_assert_eq!(&other.chunks[&again], &flipped);
        }
    }
}

#[test]
fn a_large_directory_is_cut_and_a_change_is_small() {
    let (mut memory, count) = (Memory::default(), 100_000);
    let root = write(&many(count, None), &mut memory);
    let before: BTreeSet<ChunkHash> = memory.chunks.keys().copied().collect();
    assert!(before.len() > 400, "{} nodes", before.len());
    assert!(memory.chunks.values().all(|node| node.len() < limits::LEAF_BYTES_MAX + limits::NODE_BYTES));
    let changed = write(&many(count, Some(51_234)), &mut memory);
    let new: usize = memory.chunks.iter().filter(|(hash, _)| !before.contains(hash)).map(|(_, node)| node.len()).sum();
    assert!(changed != root && new < 400_000, "{new} bytes for one file of {count}");
    // An entry that is gone changes no other node either, wherever it stood.
    let mut fewer = many(count, None);
    fewer.remove(777);
    let before: BTreeSet<ChunkHash> = memory.chunks.keys().copied().collect();
    write(&fewer, &mut memory);
    assert!(memory.chunks.len() - before.len() <= 4, "{} new nodes", memory.chunks.len() - before.len());

    memory.reads.set(0);
    let tree = Tree::new(&memory, root);
    let found = tree.find(&Path::parse(b"image-099999.png").unwrap()).unwrap();
    assert_eq!(found, Some(file("content of 99999")));
    assert!(memory.reads.get() <= 3, "{} reads for a lookup", memory.reads.get());
    for missing in ["image-100000.png", "a", "zebra"] {
        assert_eq!(tree.find(&Path::parse(missing.as_bytes()).unwrap()).unwrap(), None);
    }
}

#[test]
fn differences_are_those_of_the_entries() {
    let mut memory = Memory::default();
    let shared = write(&many(3000, None), &mut memory);
    let inner = [(name("x"), file("1")), (name("y"), file("2"))];
    let inner_after = [(name("x"), file("1")), (name("y"), file("3")), (name("z"), file("4"))];
    let (inner, inner_after) = (write(&inner, &mut memory), write(&inner_after, &mut memory));
    let older = [
        (name("gone"), directory(inner)),
        (name("images"), directory(shared)),
        (name("was-file"), file("text")),
        (name("work"), directory(inner)),
    ];
    let newer = [
        (name("images"), directory(shared)),
        (name("was-file"), directory(inner)),
        (name("work"), directory(inner_after)),
    ];
    let (older, newer) = (write(&older, &mut memory), write(&newer, &mut memory));
    memory.reads.set(0);
    let mut found = Vec::new();
    diff(&memory, older, newer, &mut |path, change| found.push((path.to_string(), change))).unwrap();
    let expected = [
        ("gone", Change::Removed(directory(inner))),
        ("gone/x", Change::Removed(file("1"))),
        ("gone/y", Change::Removed(file("2"))),
        ("was-file", Change::Changed(file("text"), directory(inner))),
        ("was-file/x", Change::Added(file("1"))),
        ("was-file/y", Change::Added(file("2"))),
        ("work/y", Change::Changed(file("2"), file("3"))),
        ("work/z", Change::Added(file("4"))),
    ];
    assert_eq!(found, expected.map(|(path, change)| (path.to_owned(), change)));
    assert!(memory.reads.get() <= 6, "the shared directory is not read: {} reads", memory.reads.get());
    let paths =
        ["gone", "gone/x", "gone/z", "images", "images/image-000001.png", "was-file", "was-file/x", "was-file/z"];
    for path in paths.into_iter().chain(["work", "work/x", "work/y", "work/z", "work/y/below", "new", "."]) {
        let names = if path == "." { Path::ROOT } else { Path::parse(path.as_bytes()).unwrap() };
        let is_reported = found.iter().any(|(reported, _)| reported == path);
        let mut comparison = Comparison::new(&memory, Some(older), newer);
        assert_eq!(comparison.differs(&names), Ok(is_reported), "{path}");
        let is_there = Tree::new(&memory, newer).find(&names).unwrap().is_some();
        assert_eq!(Comparison::new(&memory, None, newer).differs(&names), Ok(is_there), "{path}");
    }
}

#[test]
fn paths_in_order_share_the_nodes_that_a_comparison_reads() {
    let mut memory = Memory::default();
    let names = |at: u32| format!("file-{at:05}");
    let all = |of: &str| (0..2000).map(|at| (name(&names(at)), file(&format!("{of}{at}")))).collect::<Vec<_>>();
    let [older, newer] = ["older", "newer"].map(|of| {
        let below = write(&all(of), &mut memory);
        write(&[(name("a"), directory(below))], &mut memory)
    });
    memory.reads.set(0);
    let mut comparison = Comparison::new(&memory, Some(older), newer);
    for at in 0..2000 {
        let path = Path::parse(format!("a/{}", names(at)).as_bytes()).unwrap();
        assert_eq!(comparison.differs(&path), Ok(true));
    }
    assert!(memory.reads.get() < 40, "{} reads", memory.reads.get());
}

#[test]
fn large_files_have_lists_and_all_chunks_are_marked() {
    let mut memory = Memory::default();
    let all: Vec<Piece> =
        (0..10_000_u32).map(|at| Piece { hash: ChunkHash::of(&at.to_le_bytes()), bytes: 1 << 20 }).collect();
    let size = 10_000 << 20;
    let content = write_pieces(all.clone(), &mut memory).unwrap();
    assert!(matches!(&content, Content::Lists(lists) if lists.len() == 3));
    assert_eq!(pieces(&memory, size, &content).unwrap(), all);
    assert!(matches!(pieces(&memory, size - 1, &content), Err(ReadError::Malformed(..))));
    assert!(matches!(pieces(&memory, size + 1, &content), Err(ReadError::Malformed(..))));

    let kind = Kind::File { size, content, link: 0 };
    let large = Entry { kind, attributes: Attributes::default() };
    let inner = write(&[(name("large"), large.clone())], &mut memory);
    let root = write(&[(name("a"), directory(inner)), (name("b"), large)], &mut memory);
    let mut marked = BTreeSet::new();
    mark(&memory, root, |hash, _| marked.insert(*hash)).unwrap();
    let mut expected: BTreeSet<ChunkHash> = memory.chunks.keys().copied().collect();
    expected.extend(all.iter().map(|piece| piece.hash));
    assert_eq!(marked, expected);

    memory.chunks.remove(&inner);
    assert_eq!(mark(&memory, root, |_, _| true), Err(ReadError::Source(inner)), "a chunk that is missing is no end");
}

/// A tree keeps its hashes, or every site would be uploaded again.
#[test]
fn hashes_are_golden() {
    let mut memory = Memory::default();
    let small = write(&[(name("index.html"), file("<p>"))], &mut memory);
    assert_eq!(small.to_string(), "4fa1970ead5addad9f1928825f0724960332f70e6f8c7b5a9e2b8f702d849368");
    let large = write(&many(5000, None), &mut memory);
    assert_eq!(large.to_string(), "6efd4c215add97a5f7ff1292470a7160c9b916897d1871b430cbc0306ff71a2f");
}

/// The chunks that a walk visits. It is given the chunks of a memory alone.
struct Visits<'a> {
    memory: &'a Memory,
    seen: Vec<(String, Part, bool)>,
    malformed: Vec<(String, ChunkHash)>,
}

impl Visitor for Visits<'_> {
    type Error = Infallible;

    fn chunk(&mut self, needed: Needed<'_>) -> Result<Option<Bytes>, Infallible> {
        let bytes = self.memory.chunks.get(&needed.hash).cloned();
        self.seen.push((needed.path.to_string(), needed.part, bytes.is_some()));
        Ok(bytes)
    }

    fn malformed(&mut self, needed: Needed<'_>, _: Malformed) -> Result<(), Infallible> {
        self.malformed.push((needed.path.to_string(), needed.hash));
        Ok(())
    }
}

#[test]
fn a_walk_names_paths_and_goes_on_behind_missing_chunks() {
    let mut memory = Memory::default();
    let piece = |content: &[u8], memory: &mut Memory| {
        let (hash, bytes) = (ChunkHash::of(content), content.len() as u32);
        memory.add(hash, Bytes::copy_from_slice(content)).unwrap();
        Piece { hash, bytes }
    };
    let of = |size: u32, content| Entry { kind: Kind::File { size: size.into(), content, link: 0 }, ..file("") };
    let one = piece(&[1; 1000], &mut memory);
    let small = of(1000, Content::Pieces(vec![one]));
    let lists = write_pieces(vec![one; 100], &mut memory).unwrap();
    let large = of(100_000, lists);
    let odd = piece(b"no node", &mut memory).hash;
    let inner = write(&[(name("large"), large), (name("text"), file("text"))], &mut memory);
    let lost = ChunkHash::of(b"lost");
    let entries = [
        (name("a"), directory(inner)),
        (name("b"), directory(lost)),
        (name("c"), small),
        (name("d"), directory(odd)),
        (name("e"), of(100_000, Content::Lists(vec![lost, odd]))),
        (name("f"), directory(inner)),
    ];
    let root = write(&entries, &mut memory);
    let visit = |root: ChunkHash, memory: &Memory| {
        let mut visits = Visits { memory, seen: Vec::new(), malformed: Vec::new() };
        let Ok(()) = walk(root, &mut visits);
        (visits.seen, visits.malformed)
    };
    let (mut seen, malformed) = visit(root, &memory);
    // A hundred pieces of a file are alike.
    seen.dedup();
    let is = |path: &str, part, is_there| (path.to_owned(), part, is_there);
    let expected = [
        is(".", Part::Directory, true),
        is("a", Part::Directory, true),
        is("a/large", Part::List, true),
        is("a/large", Part::Piece, true),
        is("b", Part::Directory, false),
        is("c", Part::Piece, true),
        is("d", Part::Directory, true),
        is("e", Part::List, false),
        is("e", Part::List, true),
        is("f", Part::Directory, true),
        is("f/large", Part::List, true),
        is("f/large", Part::Piece, true),
    ];
    assert_eq!(seen, expected);
    assert_eq!(malformed, [("d".to_owned(), odd), ("e".to_owned(), odd)]);
    // One of the nodes of a large directory is lost; the files of the others are found.
    let files: Vec<_> = (0..5000).map(|at| (name(&format!("{at:05}")), entries[2].1.clone())).collect();
    let root = write(&files, &mut memory);
    let (seen, _) = visit(root, &memory);
    let nodes = seen.iter().filter(|(_, part, _)| *part == Part::Directory).count();
    assert!(nodes > 3 && seen.len() == nodes + 5000, "{nodes} nodes");
    let leaf = memory.chunks.iter().find(|(_, bytes)| bytes.starts_with(b"D\0") && bytes.len() > 4000).unwrap().0;
    let leaf = *leaf;
    memory.chunks.remove(&leaf);
    let (seen, _) = visit(root, &memory);
    let lost = seen.iter().filter(|(_, _, is_there)| !is_there).collect::<Vec<_>>();
    assert_eq!(lost, [&is(".", Part::Directory, false)]);
    assert!(seen.len() > nodes && seen.len() < nodes + 5000, "{} of 5000 are visited", seen.len() - nodes);
}
