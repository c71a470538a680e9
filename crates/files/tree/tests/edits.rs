//! Edits between two trees: applied to the older one they are the newer one, they are short, and damage is refused.

mod memory;
mod random;

use bytes::Bytes;
use memory::{Memory, directory, file, many, name, write};
use proptest::prelude::*;
use random::{add, index, two_folders, write_folder};
use std::collections::BTreeSet;
use tree::limits::NODE_BYTES;
use tree::{
    ApplyError, Attributes, ChunkHash, Content, Edit, Edits, Entry, Kind, Name, Path, Piece, ReadError, Sink, Tree,
    diff, limits, mark,
};

fn between(memory: &Memory, older: ChunkHash, newer: ChunkHash) -> Option<Edits> {
    Edits::between(memory, older, newer, usize::MAX, usize::MAX).unwrap()
}

/// The edits as a receiver has them, applied with the older tree alone. Returns the nodes that are new.
fn received(memory: &Memory, edits: &Edits, older: ChunkHash, newer: ChunkHash) -> Memory {
    let decoded = Edits::decode(edits.encode().into()).unwrap();
    assert_eq!(&decoded, edits);
    let (mut at_receiver, mut new) = (Memory::default(), Memory::default());
    mark(memory, older, |hash, _| at_receiver.chunks.insert(*hash, memory.chunks[hash].clone()).is_none()).unwrap();
    assert_eq!(decoded.apply(&at_receiver, older, &mut new), Ok(newer));
    new
}

fn path(text: &str) -> Path {
    Path::parse(text.as_bytes()).unwrap()
}

fn mode(mode: u16) -> Attributes {
    Attributes { mode, ..Attributes::default() }
}

proptest! {
    #[test]
    fn edits_between_trees_turn_one_into_the_other((a, b) in two_folders()) {
        let mut memory = Memory::default();
        let (older, newer) = (write_folder(&a, &mut memory), write_folder(&b, &mut memory));
        let edits = between(&memory, older, newer).unwrap();
        prop_assert_eq!(edits.list().is_empty(), older == newer);
        let mut there = received(&memory, &edits, older, newer).chunks;

        // The older tree, the new nodes and the content of the edits have every chunk of the newer tree.
        mark(&memory, older, |hash, _| there.insert(*hash, Bytes::new()).is_none()).unwrap();
        for hash in edits.content() {
            there.insert(hash, Bytes::new());
        }
        let mut missing = BTreeSet::new();
        mark(&memory, newer, |hash, _| {
            let is_new = !there.contains_key(hash) && missing.insert(*hash);
            is_new || memory.chunks[hash].starts_with(b"D")
        }).unwrap();
        prop_assert!(missing.is_empty(), "{:?} are missing", missing);
    }

    #[test]
    fn damage_is_refused_or_another_list((a, b) in two_folders(), flip in 1..=255_u8) {
        let mut memory = Memory::default();
        let (older, newer) = (write_folder(&a, &mut memory), write_folder(&b, &mut memory));
        let edits = between(&memory, older, newer).unwrap();
        let encoded = edits.encode();
        for at in 0..encoded.len() {
            let mut flipped = encoded.clone();
            flipped[at] ^= flip;
            for damaged in [encoded[..at].to_vec(), flipped] {
                if let Ok(other) = Edits::decode(damaged.clone().into()) {
                    prop_assert!(other != edits);
                    prop_assert_eq!(other.encode(), damaged);
                }
            }
        }
    }

    #[test]
    fn bytes_without_sense_are_refused(bytes in prop::collection::vec(0..6_u8, 0..60)) {
        if let Ok(edits) = Edits::decode(bytes.clone().into()) {
            prop_assert_eq!(edits.encode(), bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Names come and go in a directory with index nodes, also at the ends of its leaves.
    #[test]
    fn large_directories_round_trip(
        count in 0..6000_usize,
        changes in prop::collection::btree_map(0..6000_usize, 0..3_u8, 0..40),
        cut in 0..6000_usize,
    ) {
        let (mut memory, before) = (Memory::default(), many(count, None));
        let mut after: Vec<(Name, Entry)> = before.clone();
        for (at, kind) in changes.iter().rev().filter(|(at, _)| **at < count) {
            match kind {
                0 => after[*at].1 = file("other"),
                1 => drop(after.remove(*at)),
                _ => after.insert(*at, (name(&format!("image-{at:06}.pn")), file("new"))),
            }
        }
        after.truncate(cut.max(count.saturating_sub(900)));
        let (older, newer) = (write(&before, &mut memory), write(&after, &mut memory));
        let edits = between(&memory, older, newer).unwrap();
        received(&memory, &edits, older, newer);
        // A directory that is new or gone.
        let empty = write(&[], &mut memory);
        let [older, newer] = [older, empty].map(|hash| write(&[(name("all"), directory(hash))], &mut memory));
        let fewer = between(&memory, older, newer).filter(|edits| edits.list().len() <= 1000);
        prop_assert_eq!(fewer.is_some(), count <= 1000);
        if let Some(edits) = fewer {
            received(&memory, &edits, older, newer);
        }
    }
}

#[test]
fn all_kinds_of_changes_are_one_edit_each() {
    let mut memory = Memory::default();
    let inner = write(&[(name("x"), file("1")), (name("y"), file("2"))], &mut memory);
    let inner_after = write(&[(name("x"), file("1")), (name("y"), file("3"))], &mut memory);
    let empty = write(&[], &mut memory);
    let with_mode = |hash, bits| Entry { kind: Kind::Directory(hash), attributes: mode(bits) };
    let older = [
        (name("attributes"), with_mode(inner, 0o755)),
        (name("both"), with_mode(inner, 0o755)),
        (name("gone"), directory(inner)),
        (name("is-directory"), file("text")),
        (name("is-empty"), file("text")),
        (name("is-file"), directory(inner)),
        (name("same"), directory(inner)),
        (name("work"), directory(inner)),
    ];
    let newer = [
        (name("attributes"), with_mode(inner, 0o700)),
        (name("both"), with_mode(inner_after, 0o700)),
        (name("is-directory"), directory(inner)),
        (name("is-empty"), directory(empty)),
        (name("is-file"), file("text")),
        (name("same"), directory(inner)),
        (name("work"), directory(inner_after)),
    ];
    let (older, newer) = (write(&older, &mut memory), write(&newer, &mut memory));
    let edits = between(&memory, older, newer).unwrap();
    let expected = [
        Edit::Directory(path("attributes"), mode(0o700)),
        Edit::Directory(path("both"), mode(0o700)),
        Edit::Set(path("both/y"), file("3")),
        Edit::Remove(path("gone")),
        Edit::Directory(path("is-directory"), mode(0o755)),
        Edit::Set(path("is-directory/x"), file("1")),
        Edit::Set(path("is-directory/y"), file("2")),
        Edit::Directory(path("is-empty"), mode(0o755)),
        Edit::Set(path("is-file"), file("text")),
        Edit::Set(path("work/y"), file("3")),
    ];
    assert_eq!(edits.list(), expected);
    received(&memory, &edits, older, newer);
    let back = between(&memory, newer, older).unwrap();
    received(&memory, &back, newer, older);
    assert_eq!(between(&memory, older, older), Some(Edits::default()));
}

#[test]
fn a_changed_file_is_a_short_list_however_large_its_directory_is() {
    let (mut memory, count) = (Memory::default(), 10_000);
    let [older, newer] = [None, Some(7777)].map(|changed| {
        let all = write(&many(count, changed), &mut memory);
        let other = write(&many(100, None), &mut memory);
        write(&[(name("all"), directory(all)), (name("other"), directory(other))], &mut memory)
    });
    memory.reads.set(0);
    let edits = Edits::between(&memory, older, newer, 1, 100).unwrap().unwrap();
    assert_eq!(memory.reads.get(), 2 * 3, "the root, an index node and a leaf, in both trees");
    assert_eq!(edits.list(), [Edit::Set(path("all/image-007777.png"), file("changed"))]);
    let encoded = edits.encode().len();
    assert_eq!(encoded, 3 + (1 + 3) + (1 + 16) + 24 + 17 + "changed".len(), "path, attributes and content");
    let new = received(&memory, &edits, older, newer);
    assert!(new.chunks.len() <= 4, "{} nodes are new", new.chunks.len());
    assert!(Edits::between(&memory, older, newer, 0, 1000).unwrap().is_none());
    assert!(Edits::between(&memory, older, newer, 1, encoded).unwrap().is_some());
    assert!(Edits::between(&memory, older, newer, 1, encoded - 1).unwrap().is_none());
}

#[test]
fn a_change_of_a_large_directory_reads_and_writes_a_few_nodes() {
    let (mut memory, count) = (Memory::default(), 20_000);
    let [older, newer] = [None, Some(count / 2)].map(|changed| write(&many(count, changed), &mut memory));
    let nodes = memory.chunks.len();
    let edits = between(&memory, older, newer).unwrap();
    let mut made = Memory::default();
    memory.reads.set(0);
    assert_eq!(edits.apply(&memory, older, &mut made).unwrap(), newer);
    assert!(nodes > 100 && made.chunks.len() == 2, "{} of {nodes} nodes were written", made.chunks.len());
    assert!(memory.reads.get() < 15, "{} of {nodes} nodes were read", memory.reads.get());
}

/// A directory shrinks to one entry that is larger than a node, and grows again.
#[test]
fn an_entry_that_is_larger_than_a_node_is_not_cut() {
    let large = |byte: u8| {
        let content = Content::Lists(vec![ChunkHash::of(&[byte]); 1 + NODE_BYTES / ChunkHash::BYTES]);
        Entry { kind: Kind::File { size: 1 << 50, content, link: 0 }, attributes: Attributes::default() }
    };
    let mut memory = Memory::default();
    let entries: Vec<_> = (0..9).map(|at| (name(&format!("file-{at}")), large(at))).collect();
    let trees = [&entries[..], &entries[8..], &entries[..1], &entries[4..], &[]].map(|some| write(some, &mut memory));
    for older in trees {
        for newer in trees {
            let edits = between(&memory, older, newer).unwrap();
            assert_eq!(edits.apply(&memory, older, &mut Memory::default()).unwrap(), newer);
        }
    }
}

/// The nodes that two directories share are skipped, however many nodes one of them has in between.
#[test]
fn only_nodes_that_differ_are_read() {
    let mut memory = Memory::default();
    let mut leaf = |names: [&str; 2]| {
        let entries = names.map(|text| (name(text), file(text)));
        (name(names[0]), write(&entries, &mut memory))
    };
    let [ab, cd, ef, eg] = [leaf(["a", "b"]), leaf(["c", "d"]), leaf(["e", "f"]), leaf(["e", "g"])];
    let mut index = |level, below: &[&(Name, ChunkHash)]| {
        let below: Vec<_> = below.iter().map(|it| (*it).clone()).collect();
        (below[0].0.clone(), index(level, &below, &mut memory))
    };
    let (with, without) = (index(1, &[&ab, &cd, &ef]), index(1, &[&ab, &ef]));
    let (changed, later) = (index(1, &[&ab, &cd, &eg]), index(1, &[&cd, &ef]));
    let [high_with, high_changed] = [index(2, &[&with]), index(2, &[&changed])];
    for (one, other, count, reads) in [
        (&with, &without, 2, 2 + 1),
        (&with, &later, 2, 2 + 1),
        (&with, &changed, 2, 2 + 2),
        (&high_with, &high_changed, 2, 4 + 2),
        (&high_with, &without, 2, 3 + 1),
    ] {
        for (older, newer) in [(one.1, other.1), (other.1, one.1)] {
            memory.reads.set(0);
            let mut found = 0;
            diff(&memory, older, newer, &mut |_, _| found += 1).unwrap();
            assert_eq!((found, memory.reads.get()), (count, reads), "{older} {newer}");
        }
    }
}

#[test]
fn a_directory_that_is_on_no_path_is_not_read() {
    let mut memory = Memory::default();
    let inner = write(&[(name("x"), file("1"))], &mut memory);
    let other = write(&[(name("x"), file("2"))], &mut memory);
    let root = [(name("gone"), directory(other)), (name("kept"), directory(other)), (name("work"), directory(inner))];
    let older = write(&root, &mut memory);
    memory.chunks.remove(&other);
    let list =
        [Edit::Remove(path("gone")), Edit::Directory(path("kept"), mode(0o700)), Edit::Set(path("work/x"), file("3"))];
    let (edits, mut new) = (Edits::new(list.to_vec()).unwrap(), Memory::default());
    let newer = edits.apply(&memory, older, &mut new).unwrap();
    memory.chunks.append(&mut new.chunks);
    let kept = Tree::new(&memory, newer).find(&path("kept")).unwrap().unwrap();
    assert_eq!(kept, Entry { kind: Kind::Directory(other), attributes: mode(0o700) });
    let inside = Edits::new(vec![Edit::Set(path("kept/x"), file("3"))]).unwrap();
    assert_eq!(inside.apply(&memory, older, &mut new), Err(ApplyError::Read(ReadError::Source(other))));
}

#[test]
fn a_comparison_ends_when_there_are_too_many_edits() {
    let (mut memory, count) = (Memory::default(), 200_000);
    let empty = write(&[], &mut memory);
    let all = write(&many(count, None), &mut memory);
    let both: Vec<_> = ["a", "b"].map(|text| (name(text), directory(all))).into();
    let root = write(&both, &mut memory);
    for (count_max, bytes_max) in [(1000, usize::MAX), (usize::MAX, 128 * 1024), (usize::MAX, usize::MAX)] {
        memory.reads.set(0);
        assert_eq!(Edits::between(&memory, empty, root, count_max, bytes_max), Ok(None));
        assert!(memory.reads.get() < 50, "{} reads", memory.reads.get());
    }
    let gone = between(&memory, root, empty).unwrap();
    assert_eq!(gone.list(), [Edit::Remove(path("a")), Edit::Remove(path("b"))]);
}

/// Two forms of one directory, each named twice by the next, and so on: no edit would ever end the comparison.
#[test]
fn a_directory_that_is_cut_otherwise_is_no_edit() {
    let mut memory = Memory::default();
    let mut older = write(&[(name("x"), file("1"))], &mut memory);
    let mut newer = index(1, &[(name("x"), older)], &mut memory);
    for _ in 0..100 {
        [older, newer] = [older, newer]
            .map(|hash| write(&[(name("a"), directory(hash)), (name("b"), directory(hash))], &mut memory));
    }
    assert_eq!(between(&memory, older, newer), None);
    // Index nodes that name one node twice, down to an empty leaf, would be read without end too.
    for lowest in [write(&[], &mut memory), write(&[(name("a"), file("1"))], &mut memory)] {
        let twice = |level, hash, memory: &mut Memory| index(level, &[(name("a"), hash), (name("b"), hash)], memory);
        let hostile = (1..=255).fold(lowest, |hash, level| twice(level, hash, &mut memory));
        assert!(matches!(Edits::between(&memory, older, hostile, 9, 999), Err(ReadError::Malformed(..))));
        assert!(matches!(Tree::new(&memory, hostile).entries(hostile), Err(ReadError::Malformed(..))));
    }
}

#[test]
fn an_index_that_names_its_nodes_wrongly_is_refused() {
    let mut memory = Memory::default();
    let leaf = write(&[(name("m"), file("1"))], &mut memory);
    let before = write(&[(name("a"), file("1")), (name("z"), file("1"))], &mut memory);
    let older = write(&[(name("a"), file("1"))], &mut memory);
    for below in [vec![(name("b"), leaf)], vec![(name("z"), leaf)], vec![(name("a"), before), (name("m"), leaf)]] {
        let newer = index(1, &below, &mut memory);
        let found = Edits::between(&memory, older, newer, 9, 999);
        assert!(matches!(found, Err(ReadError::Malformed(hash, _)) if hash == leaf), "{found:?}");
    }
}

#[test]
fn directories_below_the_deepest_are_refused() {
    let mut memory = Memory::default();
    let mut trees = ["1", "2"].map(|text| write(&[(name("x"), file(text))], &mut memory));
    for depth in 1..=limits::DEPTH_MAX {
        trees = trees.map(|hash| write(&[(name("d"), directory(hash))], &mut memory));
        let found = Edits::between(&memory, trees[0], trees[1], 9, usize::MAX);
        if depth < limits::DEPTH_MAX {
            received(&memory, &found.unwrap().unwrap(), trees[0], trees[1]);
        } else {
            assert!(matches!(found, Err(ReadError::Malformed(..))));
        }
    }
}

#[test]
fn lists_that_no_comparison_makes_are_refused() {
    let (set, remove) = (|text| Edit::Set(path(text), file("1")), |text| Edit::Remove(path(text)));
    let deep = |count: usize| path(&"d/".repeat(count));
    for (list, why) in [
        (vec![remove("")], "an edit of the root, or too deep"),
        (vec![Edit::Remove(deep(limits::DEPTH_MAX + 1))], "an edit of the root, or too deep"),
        (vec![set("b"), set("a")], "edits out of order"),
        (vec![set("a"), set("a")], "edits out of order"),
        (vec![set("a"), set("a/b")], "an edit below an entry that is set or removed"),
        (vec![remove("a"), set("a/b/c")], "an edit below an entry that is set or removed"),
        (vec![Edit::Set(path("a"), directory(ChunkHash::of(b"")))], "a directory that is set like a file"),
    ] {
        assert_eq!(Edits::new(list).unwrap_err().to_string(), why);
    }
    assert!(Edits::new(vec![Edit::Remove(deep(limits::DEPTH_MAX))]).is_ok());
    assert!(Edits::new(vec![remove("a"), set("a-b"), Edit::Directory(path("b"), mode(0)), set("b/c")]).is_ok());

    // A path that shares less than it could has another form already.
    let edits = Edits::new(vec![remove("a/b"), remove("a/c")]).unwrap();
    let mut encoded = edits.encode();
    assert_eq!(encoded, [2, 0, 1, 1, b'a', 1, b'b', 2, 1, 0, 1, b'c']);
    encoded.splice(7.., [2, 0, 1, 1, b'a', 1, b'c']);
    assert!(Edits::decode(encoded.into()).is_err());
}

/// A few bytes for each edit would be a long path for each.
#[test]
fn decoded_paths_are_bounded() {
    let long = "n".repeat(limits::NAME_BYTES_MAX);
    let names = |count: usize| {
        let above = (0..count).fold(Path::ROOT, |path, _| path.join(&name(&long)));
        (0..1000_usize).map(move |at| Edit::Remove(above.join(&name(&format!("{at:04}"))))).collect::<Vec<_>>()
    };
    assert!(Edits::new(names(10)).is_ok());
    assert!(Edits::new(names(20)).is_err());
    let mut more = names(0);
    more.push(Edit::Remove(path("a")));
    assert!(Edits::new(more).is_err(), "more than 1000");
    let mut encoded = Edits::new(names(0)).unwrap().encode();
    encoded.extend([2, 0, 0, 1, b'a']);
    assert!(Edits::decode(encoded.into()).is_err());
}

#[test]
fn edits_for_another_tree_are_refused() {
    struct Full;
    impl Sink for Full {
        type Error = &'static str;

        fn add(&mut self, _: ChunkHash, _: Bytes) -> Result<(), &'static str> {
            Err("no room")
        }
    }
    let mut memory = Memory::default();
    let older = write(&[(name("a"), file("1"))], &mut memory);
    for (edit, wrong) in [("a/b/c", "a"), ("b/c", "b")] {
        let edits = Edits::new(vec![Edit::Set(path(edit), file("2"))]).unwrap();
        let error = edits.apply(&memory, older, &mut Memory::default()).unwrap_err();
        assert_eq!(error, ApplyError::NotDirectory(path(wrong)));
    }
    let edits = Edits::new(vec![Edit::Set(path("b"), file("2"))]).unwrap();
    assert_eq!(edits.apply(&memory, older, &mut Full), Err(ApplyError::Sink("no room")));
    let garbage = add(b"garbage".to_vec(), &mut memory);
    let error = edits.apply(&memory, garbage, &mut Memory::default()).unwrap_err();
    assert!(matches!(error, ApplyError::Read(ReadError::Malformed(hash, _)) if hash == garbage));
    // An entry that was removed already stays removed.
    let edits = Edits::new(vec![Edit::Remove(path("b"))]).unwrap();
    assert_eq!(edits.apply(&memory, older, &mut Memory::default()), Ok(older));
}

/// Edits keep their bytes, or stores and members of two versions would not understand each other.
#[test]
fn bytes_are_golden() {
    let piece = Piece { hash: ChunkHash::of(b"piece"), bytes: 1000 };
    let list = ChunkHash::of(b"list");
    let of = |size, content| Entry { kind: Kind::File { size, content, link: 0 }, attributes: mode(0o644) };
    let xattrs = vec![(Bytes::from_static(b"user.k"), Bytes::from_static(b"v"))];
    let edits = Edits::new(vec![
        Edit::Directory(path("docs"), Attributes { xattrs, ..mode(0o755) }),
        Edit::Set(path("docs/a.html"), file("<p>")),
        Edit::Set(path("docs/film"), of(5 << 30, Content::Lists(vec![list]))),
        Edit::Remove(path("docs/old/b.html")),
        Edit::Set(path("image"), of(1000, Content::Pieces(vec![piece]))),
    ])
    .unwrap();
    assert_eq!(edits.content().collect::<Vec<_>>(), [list, piece.hash]);
    let encoded = edits.encode();
    let parts = [
        // A directory: the kind, names that are shared, names above its own; its name; mode, owner, time, attributes.
        "010000 04646f6373 ed01 0000000000000000 000000000000000000000000 0100 0600757365722e6b 010076",
        // A file with its content.
        "000100 06612e68746d6c a401 0000000000000000 000000000000000000000000 0000",
        "00 0300000000000000 0000000000000000 3c703e",
        // A file of one list.
        "000100 0466696c6d a401 0000000000000000 000000000000000000000000 0000",
        "02 0000004001000000 0000000000000000 0100",
        "0ffec6f74130be3227428d6017134054844b3119d901860a36dfb786940a9fa6",
        "020101 036f6c64 06622e68746d6c",
        // A file of one piece.
        "000000 05696d616765 a401 0000000000000000 000000000000000000000000 0000",
        "01 e803000000000000 0000000000000000 0100",
        "394cfefbec18b6774d5650fdd741678b8246f82592479f236a3b5e25e7e5a6c7 e8030000",
    ];
    let golden = parts.concat().replace(' ', "");
    let golden: Vec<u8> =
        (0..golden.len()).step_by(2).map(|at| u8::from_str_radix(&golden[at..at + 2], 16).unwrap()).collect();
    assert_eq!(encoded, golden);
    assert_eq!(Edits::decode(encoded.into()).unwrap(), edits);
}
