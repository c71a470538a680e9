//! Merges of two trees with one base, compared with a merge of maps: the merged tree is, to the hash, the one that is
//! written from the merged map, and little is read for small changes.

mod memory;

use bytes::Bytes;
use memory::{Memory, directory, file, many, name, write};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tree::{
    Attributes, ChunkHash, Content, Entry, Growth, Kind, Merge, MergeError, Name, Path, ReadError, Sides, Sink, Time,
    limits, mark, merge,
};

/// A directory that was not written yet.
type Folder = BTreeMap<Name, Item>;

#[derive(Clone, Debug, PartialEq)]
enum Item {
    File { content: u8, mode: u16, time: i64, link: u64 },
    Folder { mode: u16, time: i64, below: Folder },
}

impl Item {
    /// The item as if it had no time.
    fn timeless(&self) -> Self {
        let mut item = self.clone();
        let (Self::File { time, .. } | Self::Folder { time, .. }) = &mut item;
        *time = 0;
        item
    }

    fn folder(&self) -> Option<&Folder> {
        if let Self::Folder { below, .. } = self { Some(below) } else { None }
    }

    fn link(&self) -> Option<u64> {
        if let Self::File { link: link @ 1.., .. } = self { Some(*link) } else { None }
    }

    fn entry(&self, into: &mut Memory) -> Entry {
        let (kind, mode, time) = match self {
            Self::File { content, mode, time, link } => {
                let content = Bytes::from(vec![*content; 3 * usize::from(*content)]);
                let size = content.len() as u64;
                (Kind::File { size, content: Content::Inline(content), link: *link }, mode, time)
            }
            Self::Folder { mode, time, below } => (Kind::Directory(write_folder(below, into)), mode, time),
        };
        let modified = Time { seconds: *time, nanoseconds: 0 };
        Entry { kind, attributes: Attributes { mode: *mode, modified, ..Attributes::default() } }
    }
}

fn write_folder(folder: &Folder, into: &mut Memory) -> ChunkHash {
    let entries: Vec<_> = folder.iter().map(|(name, item)| (name.clone(), item.entry(into))).collect();
    write(&entries, into)
}

/// A publisher's deed at a path: a file or a folder is made there or changed, or the item removed.
type Deed = (Vec<Name>, Option<Item>);

fn deeds(most: usize) -> impl Strategy<Value = Vec<Deed>> {
    let names = prop::collection::vec("[a-c]".prop_map(|text| name(&text)), 1..4);
    let link = prop_oneof![3 => Just(0_u64), 2 => 1..3_u64];
    let file = (0..3_u8, 0..2_u16, 0..2_i64, link)
        .prop_map(|(content, mode, time, link)| Some(Item::File { content, mode, time, link }));
    let folder = (0..2_u16, 0..2_i64).prop_map(|(mode, time)| Some(Item::Folder { mode, time, below: Folder::new() }));
    prop::collection::vec((names, prop_oneof![6 => file, 2 => folder, 3 => Just(None)]), 0..most)
}

fn act(folder: &mut Folder, (names, item): &Deed) {
    let Some((name, below)) = names.split_first() else { return };
    if !below.is_empty() {
        let empty = || Item::Folder { mode: 0, time: 0, below: Folder::new() };
        if let Item::Folder { below: inner, .. } = folder.entry(name.clone()).or_insert_with(empty) {
            act(inner, &(below.to_vec(), item.clone()));
        }
        return;
    }
    let before = folder.remove(name);
    let item = match (before, item.clone()) {
        (Some(Item::Folder { below, .. }), Some(Item::Folder { mode, time, .. })) => {
            Some(Item::Folder { mode, time, below })
        }
        (_, item) => item,
    };
    folder.extend(item.map(|item| (name.clone(), item)));
}

/// Gives all names of a hard-linked file what its first one has, as one file has it.
fn agree(folder: &mut Folder, files: &mut BTreeMap<u64, (u8, u16)>) {
    for item in folder.values_mut() {
        match item {
            Item::File { content, mode, link: link @ 1.., .. } => {
                (*content, *mode) = *files.entry(*link).or_insert((*content, *mode));
            }
            Item::File { .. } => {}
            Item::Folder { below, .. } => agree(below, files),
        }
    }
}

/// A base, and two trees that were made from it.
fn three() -> impl Strategy<Value = [Folder; 3]> {
    (deeds(14), deeds(5), deeds(5)).prop_map(|(base, head, new)| {
        let made = |from: &Folder, deeds: &[Deed]| {
            let mut folder = from.clone();
            for deed in deeds {
                act(&mut folder, deed);
            }
            agree(&mut folder, &mut BTreeMap::new());
            folder
        };
        let base = made(&Folder::new(), &base);
        let (head, new) = (made(&base, &head), made(&base, &new));
        [base, head, new]
    })
}

/// A merge of maps.
#[derive(Default)]
struct Naive {
    path: Path,
    conflicts: BTreeSet<Path>,
}

impl Naive {
    fn folders(&mut self, base: Option<&Folder>, head: &Folder, new: &Folder) -> Folder {
        let mut merged = Folder::new();
        for name in head.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
            let before = base.and_then(|base| base.get(name));
            self.path.push(name.clone());
            let item = self.item(before, head.get(name), new.get(name));
            self.path.pop();
            merged.extend(item.map(|item| (name.clone(), item)));
        }
        merged
    }

    fn item(&mut self, before: Option<&Item>, head: Option<&Item>, new: Option<&Item>) -> Option<Item> {
        let timeless = |item: Option<&Item>| item.map(Item::timeless);
        if new == before || head == new {
            return head.cloned();
        }
        if head == before {
            return new.cloned();
        }
        if let (Some(Item::Folder { mode, time, below }), Some(Item::Folder { mode: m, time: t, below: b })) =
            (head, new)
        {
            let before = before.filter(|before| before.folder().is_some());
            let (mode_before, time_before) = match before {
                Some(Item::Folder { mode, time, .. }) => (Some(mode), Some(time)),
                _ => (None, None),
            };
            let mode = match () {
                () if mode == m || Some(m) == mode_before => *mode,
                () if Some(mode) == mode_before => *m,
                () => {
                    self.conflicts.insert(self.path.clone());
                    *mode
                }
            };
            let time = match () {
                () if Some(t) == time_before => *time,
                () if Some(time) == time_before => *t,
                () => *time.max(t),
            };
            let below = self.folders(before.and_then(Item::folder), below, b);
            return Some(Item::Folder { mode, time, below });
        }
        if timeless(head) == timeless(new) || timeless(new) == timeless(before) {
            return head.cloned();
        }
        if timeless(head) != timeless(before) {
            self.conflicts.insert(self.path.clone());
        }
        new.cloned()
    }
}

/// Every path with its item; of a folder, only the attributes.
fn flat(folder: &Folder) -> BTreeMap<Path, Item> {
    fn add(folder: &Folder, at: &Path, to: &mut BTreeMap<Path, Item>) {
        for (name, item) in folder {
            let (path, mut item) = (at.join(name), item.timeless());
            if let Item::Folder { below, .. } = &mut item {
                add(&std::mem::take(below), &path, to);
            }
            to.insert(path, item);
        }
    }
    let mut all = BTreeMap::new();
    add(folder, &Path::ROOT, &mut all);
    all
}

/// The names at which links come apart: every two changes of the two sides are compared.
fn parted(base: &Folder, head: &Folder, new: &Folder) -> BTreeSet<Path> {
    let [base, head, new] = [base, head, new].map(flat);
    let only = |one: &BTreeMap<Path, Item>, other: &BTreeMap<Path, Item>| -> Vec<Path> {
        let paths = base.keys().chain(one.keys()).filter(|path| one.get(*path) != base.get(*path));
        paths.filter(|path| other.get(*path) == base.get(*path)).cloned().collect()
    };
    let is_file = |item: Option<&Item>| matches!(item, Some(Item::File { .. }));
    let link = |of: &BTreeMap<Path, Item>, path: &Path| of.get(path).and_then(Item::link);
    let mut parted = BTreeSet::new();
    for p in only(&head, &new) {
        for q in only(&new, &head) {
            let (p_now, p_was, q_now, q_was) = (link(&head, &p), link(&base, &p), link(&new, &q), link(&base, &q));
            let one_more = p_now.is_some() && p_now == q_was && is_file(new.get(&q));
            let other_more = q_now.is_some() && q_now == p_was && is_file(head.get(&p));
            let differ = p_now.is_some() && p_now == q_now && head.get(&p) != new.get(&q);
            if one_more || other_more || differ {
                parted.insert(q);
            }
        }
    }
    parted
}

/// The files of a folder and their bytes.
fn size(folder: &Folder) -> (i64, i64) {
    let files = flat(folder).into_values().filter_map(|item| match item {
        Item::File { content, .. } => Some(3 * i64::from(content)),
        Item::Folder { .. } => None,
    });
    files.fold((0, 0), |(files, bytes), size| (files + 1, bytes + size))
}

fn chunks_of(memory: &Memory, root: ChunkHash) -> BTreeSet<ChunkHash> {
    let mut chunks = BTreeSet::new();
    mark(memory, root, |hash, _| chunks.insert(*hash)).unwrap();
    chunks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn merged_trees_are_those_of_merged_maps([base, head, new] in three()) {
        let mut memory = Memory::default();
        let [a, b, c] = [&base, &head, &new].map(|folder| write_folder(folder, &mut memory));
        let sides = Sides { base: Some(a), head: b, new: c };
        let mut added = Memory::default();
        let merged = merge(&memory, sides, usize::MAX, &mut added).unwrap();
        let mut naive = Naive::default();
        let expected = naive.folders(Some(&base), &head, &new);
        let parted = parted(&base, &head, &new);
        match merged {
            Merge::Tree(root, growth) => {
                prop_assert!(naive.conflicts.is_empty() && parted.is_empty(), "{:?} {:?}", naive.conflicts, parted);
                let mut there: BTreeSet<ChunkHash> = added.chunks.keys().copied().collect();
                there.extend(chunks_of(&memory, b));
                there.extend(chunks_of(&memory, c));
                prop_assert_eq!(root, write_folder(&expected, &mut memory));
                prop_assert!(chunks_of(&memory, root).is_subset(&there));
                let (before, after) = (size(&head), size(&expected));
                let grown = Growth { files: after.0 - before.0, bytes: after.1 - before.1 };
                prop_assert_eq!(growth, grown);
                // The names of a hard-linked file have one content.
                let mut files = BTreeMap::new();
                for item in flat(&expected).into_values() {
                    if let Some(link) = item.link() {
                        let file = files.entry(link).or_insert(item.clone());
                        prop_assert_eq!(file, &item);
                    }
                }
            }
            Merge::Conflicts(paths) => {
                let paths: BTreeSet<Path> = paths.into_iter().collect();
                if naive.conflicts.is_empty() {
                    prop_assert!(!paths.is_empty() && paths.is_subset(&parted), "{:?} {:?}", paths, parted);
                } else {
                    prop_assert!(naive.conflicts.is_subset(&paths), "{:?} {:?}", paths, naive.conflicts);
                }
            }
        }
    }

    /// Without a base, what both have is the same, or a conflict.
    #[test]
    fn trees_without_a_base_are_united([_, head, new] in three()) {
        let mut memory = Memory::default();
        let [b, c] = [&head, &new].map(|folder| write_folder(folder, &mut memory));
        let merged = merge(&memory, Sides { base: None, head: b, new: c }, usize::MAX, &mut Memory::default()).unwrap();
        let mut naive = Naive::default();
        let expected = naive.folders(None, &head, &new);
        if let Merge::Tree(root, _) = merged {
            prop_assert_eq!(root, write_folder(&expected, &mut memory));
        } else {
            prop_assert!(!naive.conflicts.is_empty() || !parted(&Folder::new(), &head, &new).is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Directories that are cut into leaves are cut as if they had been written from scratch.
    #[test]
    fn large_directories_are_merged(
        count in 2000..6000_usize,
        changes in prop::collection::btree_map(0..2000_usize, (any::<bool>(), 0..3_u8), 1..60),
        shrinks in any::<bool>(),
    ) {
        let mut memory = Memory::default();
        let base: BTreeMap<Name, Entry> = many(count, None).into_iter().collect();
        let (mut head, mut new, mut expected) = (base.clone(), base.clone(), base.clone());
        if shrinks {
            // The head is one leaf, and so is the merged directory.
            for at in 100..count {
                let gone = name(&format!("image-{at:06}.png"));
                head.remove(&gone);
                expected.remove(&gone);
            }
        }
        for (at, (is_head, kind)) in changes.into_iter().filter(|(at, _)| !shrinks || *at < 100) {
            let side = if is_head { &mut head } else { &mut new };
            let (old, fresh) = (name(&format!("image-{at:06}.png")), name(&format!("image-{at:06}.pn")));
            for tree in [side, &mut expected] {
                match kind {
                    0 => drop(tree.insert(old.clone(), file("other"))),
                    1 => drop(tree.remove(&old)),
                    _ => drop(tree.insert(fresh.clone(), file("new"))),
                }
            }
        }
        let [base, head, new, expected] = [base, head, new, expected]
            .map(|tree| write(&tree.into_iter().collect::<Vec<_>>(), &mut memory));
        let merged = merge(&memory, Sides { base: Some(base), head, new }, 9, &mut Memory::default());
        prop_assert!(matches!(merged, Ok(Merge::Tree(root, _)) if root == expected), "{:?}", merged);
    }
}

fn path(text: &str) -> Path {
    Path::parse(text.as_bytes()).unwrap()
}

/// A site of 100,000 files in 200 directories.
fn site(memory: &mut Memory, changed: &[(usize, usize)]) -> ChunkHash {
    let directories = (0..200).map(|at| {
        let file = changed.iter().find(|(directory, _)| *directory == at).map(|(_, file)| *file);
        (name(&format!("{at:03}")), directory(write(&many(500, file), memory)))
    });
    let directories: Vec<_> = directories.collect();
    write(&directories, memory)
}

#[test]
fn small_changes_of_a_large_site_read_little() {
    let mut memory = Memory::default();
    let base = site(&mut memory, &[]);
    let (head, new) = (site(&mut memory, &[(7, 1), (9, 2)]), site(&mut memory, &[(8, 3)]));
    let expected = site(&mut memory, &[(7, 1), (8, 3), (9, 2)]);
    let mut added = Memory::default();
    memory.reads.set(0);
    let sides = Sides { base: Some(base), head, new };
    let merged = merge(&memory, sides, 9, &mut added);
    assert_eq!(merged, Ok(Merge::Tree(expected, Growth { files: 0, bytes: -5 })));
    assert!(memory.reads.get() < 20 && added.chunks.len() == 1, "{} reads", memory.reads.get());
}

#[test]
fn conflicts_are_listed_up_to_a_bound() {
    let mut memory = Memory::default();
    let of = |content: &str, memory: &mut Memory| {
        let below = write(&[(name("x"), file(content)), (name("y"), file(content))], memory);
        write(&[(name("a"), file(content)), (name("d"), directory(below))], memory)
    };
    let [base, head, new] = ["1", "2", "3"].map(|content| of(content, &mut memory));
    let sides = Sides { base: Some(base), head, new };
    let merged = |most: usize| merge(&memory, sides, most, &mut Memory::default()).unwrap();
    assert_eq!(merged(9), Merge::Conflicts(vec![path("a"), path("d/x"), path("d/y")]));
    assert_eq!(merged(2), Merge::Conflicts(vec![path("a"), path("d/x")]));
    // Changes that the head has already are no conflicts, and a publish that changes nothing has none.
    let same = |sides| merge(&memory, sides, 9, &mut Memory::default());
    assert_eq!(same(Sides { new: head, ..sides }), Ok(Merge::Tree(head, Growth::default())));
    assert_eq!(same(Sides { new: base, ..sides }), Ok(Merge::Tree(head, Growth::default())));
    assert_eq!(same(Sides { head: base, ..sides }), Ok(Merge::Tree(new, Growth::default())));
}

fn linked(content: &str, link: u64) -> Entry {
    let mut entry = file(content);
    if let Kind::File { link: number, .. } = &mut entry.kind {
        *number = link;
    }
    entry
}

/// A name that is added to a file of two names, while the other side changes the file: it would have the old content.
#[test]
fn a_new_name_of_a_changed_file_is_a_conflict() {
    let mut memory = Memory::default();
    let of = |list: &[(&str, &str, u64)], memory: &mut Memory| {
        let entries: Vec<_> = list.iter().map(|(text, content, link)| (name(text), linked(content, *link))).collect();
        write(&entries, memory)
    };
    let base = of(&[("a", "1", 5), ("b", "1", 5)], &mut memory);
    let named = of(&[("a", "1", 5), ("b", "1", 5), ("c", "1", 5)], &mut memory);
    let changed = of(&[("a", "2", 5), ("b", "2", 5)], &mut memory);
    let split = of(&[("a", "1", 0), ("b", "1", 0)], &mut memory);
    let fewer = of(&[("a", "1", 5)], &mut memory);
    let merged = |head, new| merge(&memory, Sides { base: Some(base), head, new }, 9, &mut Memory::default());
    let conflict = |paths: &[&str]| Ok(Merge::Conflicts(paths.iter().map(|text| path(text)).collect()));
    assert_eq!(merged(named, changed), conflict(&["a"]));
    assert_eq!(merged(changed, named), conflict(&["c"]));
    assert_eq!(merged(named, split), conflict(&["a"]));
    assert_eq!(merged(split, named), conflict(&["c"]));
    assert!(matches!(merged(named, fewer), Ok(Merge::Tree(..))), "a name that is gone harms no other");
}

#[test]
fn damaged_trees_are_errors() {
    let mut memory = Memory::default();
    let [base, head, new] = ["1", "2", "3"].map(|text| write(&[(name(text), file(text))], &mut memory));
    let garbage = ChunkHash::of(b"garbage");
    memory.add(garbage, Bytes::from_static(b"garbage")).unwrap();
    let missing = ChunkHash::of(b"missing");
    for (of, is_malformed) in [(garbage, true), (missing, false)] {
        for sides in [
            Sides { base: Some(of), head, new },
            Sides { base: Some(base), head: of, new },
            Sides { base: Some(base), head, new: of },
        ] {
            let merged = merge(&memory, sides, 9, &mut Memory::default());
            let expected = if is_malformed {
                matches!(&merged, Err(MergeError::Read(ReadError::Malformed(hash, _))) if *hash == of)
            } else {
                matches!(&merged, Err(MergeError::Read(ReadError::Source(hash))) if *hash == of)
            };
            assert!(expected, "{merged:?}");
        }
    }
}

#[test]
fn a_full_sink_is_an_error() {
    struct Full;
    impl Sink for Full {
        type Error = &'static str;

        fn add(&mut self, _: ChunkHash, _: Bytes) -> Result<(), &'static str> {
            Err("no room")
        }
    }
    let mut memory = Memory::default();
    let [base, head, new] =
        ["1", "2", "3"].map(|text| write(&[(name("0"), file("0")), (name(text), file(text))], &mut memory));
    let merged = merge(&memory, Sides { base: Some(base), head, new }, 9, &mut Full);
    assert_eq!(merged, Err(MergeError::Sink("no room")));
}

#[test]
fn directories_below_the_deepest_are_refused() {
    let mut memory = Memory::default();
    let mut trees = ["1", "2", "3"].map(|text| write(&[(name(text), file(text))], &mut memory));
    for depth in 1..=limits::DEPTH_MAX {
        trees = trees.map(|hash| write(&[(name("d"), directory(hash))], &mut memory));
        let [base, head, new] = trees;
        for sides in [Sides { base: Some(base), head, new }, Sides { base: Some(base), head: base, new }] {
            let merged = merge(&memory, sides, 9, &mut Memory::default());
            let is_merged = matches!(merged, Ok(Merge::Tree(..)));
            let is_refused = matches!(merged, Err(MergeError::Read(ReadError::Malformed(..))));
            assert!(if depth < limits::DEPTH_MAX { is_merged } else { is_refused }, "{depth}: {merged:?}");
        }
    }
}

/// Each directory names the next one twice, so the trees have more paths than anyone can compare.
#[test]
fn a_merge_of_endless_trees_ends() {
    let mut memory = Memory::default();
    let mut trees = ["1", "2", "3"].map(|text| write(&[(name(text), file(text))], &mut memory));
    for _ in 0..100 {
        trees = trees.map(|hash| write(&[(name("a"), directory(hash)), (name("b"), directory(hash))], &mut memory));
    }
    let [base, head, new] = trees;
    let merged = merge(&memory, Sides { base: Some(base), head, new }, 9, &mut Memory::default());
    assert_eq!(merged, Err(MergeError::TooMany));
}
