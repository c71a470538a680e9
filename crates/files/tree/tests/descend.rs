//! Descents beside an older tree: missing chunks are fetched, each once, and shared parts are not looked at.

mod memory;
mod random;

use bytes::Bytes;
use memory::{Memory, directory, file, many, name, write};
use proptest::prelude::*;
use random::{add, index, two_folders, write_folder, write_list};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use tree::{
    Attributes, ChunkHash, Content, Descent, Entry, Kind, Name, Part, Parts, Piece, ReadError, Source, Step, descend,
    limits, mark,
};

type Chunks = BTreeSet<ChunkHash>;

/// A store that has some of the chunks.
struct Partial<'a> {
    all: &'a Memory,
    there: RefCell<Chunks>,
    read: RefCell<Vec<ChunkHash>>,
    asked: Cell<usize>,
    questions: Cell<usize>,
}

/// The sum of some rounds.
#[derive(Default)]
struct Sum {
    lacks: Vec<ChunkHash>,
    relies: Chunks,
    rounds: usize,
}

impl Source for Partial<'_> {
    type Error = ChunkHash;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, ChunkHash> {
        assert!(self.there.borrow().contains(hash), "{hash:?} is read, and not there");
        self.read.borrow_mut().push(*hash);
        self.all.chunk(hash)
    }
}

impl<'a> Partial<'a> {
    fn new(all: &'a Memory, there: Chunks) -> Self {
        let (read, asked, questions) = <_>::default();
        Self { all, there: there.into(), read, asked, questions }
    }

    fn round(&self, steps: Vec<Step>, budget: usize) -> Result<Descent, ReadError<ChunkHash>> {
        let mut has = |hashes: &[ChunkHash]| {
            assert!(!hashes.is_empty() && hashes.len() <= 4096, "{} in a question", hashes.len());
            self.asked.set(self.asked.get() + hashes.len());
            self.questions.set(self.questions.get() + 1);
            Ok(hashes.iter().map(|hash| self.there.borrow().contains(hash)).collect())
        };
        descend(self, &mut has, steps, budget)
    }

    /// Fetches the missing chunks, in as many rounds as it takes.
    fn fetch(&self, newer: ChunkHash, older: Option<ChunkHash>, budget: usize) -> Sum {
        let (mut steps, mut sum) = (vec![Step::root(newer, older)], Sum::default());
        while !steps.is_empty() {
            let Descent { lacks, relies, waits } = self.round(steps, budget).unwrap();
            sum.rounds += 1;
            assert!(sum.rounds < 100_000, "the rounds do not end");
            assert!(relies.iter().all(|hash| self.there.borrow().contains(hash)));
            assert_eq!(relies.iter().collect::<BTreeSet<_>>().len(), relies.len(), "each once");
            for hash in &lacks {
                assert!(self.there.borrow_mut().insert(*hash), "{hash:?} is fetched, and there");
            }
            sum.lacks.extend(lacks);
            sum.relies.extend(relies);
            steps = waits;
        }
        sum
    }

    fn reads(&self) -> usize {
        self.read.borrow().len()
    }
}

fn chunks_of(memory: &Memory, root: ChunkHash) -> Chunks {
    let mut parts = BTreeSet::new();
    mark(memory, root, |hash, part| parts.insert((*hash, part))).unwrap();
    parts.into_iter().map(|(hash, _)| hash).collect()
}

fn of_pieces(hashes: &[ChunkHash]) -> Entry {
    let pieces: Vec<Piece> = hashes.iter().map(|hash| Piece { hash: *hash, bytes: 1000 }).collect();
    let size = 1000 * pieces.len() as u64;
    let kind = Kind::File { size, content: Content::Pieces(pieces), link: 0 };
    Entry { kind, attributes: Attributes::default() }
}

fn of_lists(lists: Vec<ChunkHash>) -> Entry {
    let kind = Kind::File { size: 0, content: Content::Lists(lists), link: 0 };
    Entry { kind, attributes: Attributes::default() }
}

/// A directory of files with a chunk each; the `changed` one has another.
fn with_chunks(count: usize, changed: Option<usize>) -> Vec<(Name, Entry)> {
    let content = |at: usize| ChunkHash::of(format!("{at} {}", changed == Some(at)).as_bytes());
    (0..count).map(|at| (name(&format!("image-{at:06}.png")), of_pieces(&[content(at)]))).collect()
}

proptest! {
    #[test]
    fn everything_missing_is_fetched_once(
        (a, b) in two_folders(),
        with_older in any::<bool>(),
        part in prop::collection::vec(any::<bool>(), 1..50),
        budget in prop_oneof![1..20_usize, Just(usize::MAX)],
    ) {
        let mut memory = Memory::default();
        let (older, newer) = (write_folder(&a, &mut memory), write_folder(&b, &mut memory));
        let (of_a, of_b) = (chunks_of(&memory, older), chunks_of(&memory, newer));
        let mut there = of_a.clone();
        there.extend(of_b.iter().zip(part.iter().cycle()).filter(|(_, is_there)| **is_there).map(|(hash, _)| *hash));
        let store = Partial::new(&memory, there.clone());
        let sum = store.fetch(newer, with_older.then_some(older), budget);
        prop_assert!(store.there.borrow().is_superset(&of_b));
        let missing: Chunks = of_b.difference(&there).copied().collect();
        prop_assert_eq!(sum.lacks.len(), missing.len());
        prop_assert_eq!(sum.lacks.iter().copied().collect::<Chunks>(), missing);
        prop_assert!(sum.relies.is_subset(&of_b));
        let covered = |hash: &ChunkHash| {
            sum.relies.contains(hash) || sum.lacks.contains(hash) || (with_older && of_a.contains(hash))
        };
        prop_assert!(of_b.iter().all(covered));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn large_directories_are_fetched_once(
        count in 0..4000_usize,
        gone in prop::collection::btree_set(0..4000_usize, 0..40),
        changed in 0..4000_usize,
        budget in prop_oneof![1..9_usize, Just(usize::MAX)],
    ) {
        let (mut memory, mut after) = (Memory::default(), with_chunks(count, Some(changed)));
        let older = write(&with_chunks(count, None), &mut memory);
        for at in gone.iter().rev().filter(|at| **at < count) {
            after.remove(*at);
        }
        let newer = write(&after, &mut memory);
        let (of_a, of_b) = (chunks_of(&memory, older), chunks_of(&memory, newer));
        let store = Partial::new(&memory, of_a.clone());
        let sum = store.fetch(newer, Some(older), budget);
        prop_assert_eq!(sum.lacks.iter().copied().collect::<Chunks>(), of_b.difference(&of_a).copied().collect());
        prop_assert!(sum.relies.is_subset(&sum.lacks.iter().copied().collect()), "all else is found in the older tree");
        if budget == usize::MAX {
            prop_assert!(store.asked.get() <= 2 * sum.lacks.len());
        }
    }
}

#[test]
fn a_descent_into_directories_looks_for_no_content() {
    let mut all = Memory::default();
    let write_below = |changed, all: &mut Memory| {
        let mut files = with_chunks(30, changed);
        files.push((name("large"), of_pieces(&[ChunkHash::of(b"1"), ChunkHash::of(b"2")])));
        let below = write(&files, all);
        write(&[(name("a"), directory(below)), (name("b"), of_pieces(&[ChunkHash::of(b"b")]))], all)
    };
    let (older, newer) = (write_below(None, &mut all), write_below(Some(7), &mut all));
    let nodes = |root| {
        let mut nodes = Chunks::new();
        mark(&all, root, |hash, part| part == Part::Directory && nodes.insert(*hash)).unwrap();
        nodes
    };
    let store = Partial::new(&all, nodes(older));
    let (mut steps, mut lacks) = (vec![Step::root_of(Parts::Directories, newer, Some(older))], Chunks::new());
    while !steps.is_empty() {
        let found = store.round(steps, usize::MAX).unwrap();
        store.there.borrow_mut().extend(&found.lacks);
        lacks.extend(found.lacks);
        steps = found.waits;
    }
    assert_eq!(lacks, nodes(newer).difference(&nodes(older)).copied().collect());
}

#[test]
fn an_unchanged_tree_is_not_read() {
    let mut memory = Memory::default();
    let root = write(&with_chunks(3000, None), &mut memory);
    let store = Partial::new(&memory, chunks_of(&memory, root));
    assert_eq!(store.round(vec![Step::root(root, Some(root))], usize::MAX), Ok(Descent::default()));
    assert_eq!((store.reads(), store.asked.get()), (0, 0));
}

#[test]
fn the_way_to_a_changed_file_is_read_and_nothing_else() {
    fn level(depth: u32, changed: bool, memory: &mut Memory) -> ChunkHash {
        let entries: Vec<_> = if depth == 0 {
            with_chunks(10, changed.then_some(7))
        } else {
            let below = |at: u32, memory: &mut Memory| level(depth - 1, changed && at == 3, memory);
            let mut all: Vec<_> = (0..10).map(|at| (name(&format!("d{at}")), directory(below(at, memory)))).collect();
            all.push((name("file"), file(&format!("{depth}"))));
            all
        };
        write(&entries, memory)
    }
    let mut memory = Memory::default();
    let [older, newer] = [false, true].map(|changed| level(4, changed, &mut memory));
    let mut there = chunks_of(&memory, older);
    let piece = ChunkHash::of(b"7 true");

    let store = Partial::new(&memory, there.clone());
    let sum = store.fetch(newer, Some(older), usize::MAX);
    assert_eq!((sum.lacks.len(), sum.lacks[5], sum.rounds), (6, piece, 6));
    assert_eq!(store.reads(), 2 * 5, "the nodes on the path, in both trees");

    there.extend(chunks_of(&memory, newer).into_iter().filter(|hash| *hash != piece));
    let store = Partial::new(&memory, there);
    let found = store.round(vec![Step::root(newer, Some(older))], usize::MAX).unwrap();
    assert_eq!((&found.lacks[..], found.relies.len(), found.waits), (&[piece][..], 5, vec![]));
    assert_eq!((store.reads(), store.asked.get()), (2 * 5, 6));
}

#[test]
fn of_a_large_directory_the_changed_leaf_is_read() {
    let (mut memory, count) = (Memory::default(), 100_000);
    let older = write(&with_chunks(count, None), &mut memory);
    let newer = write(&with_chunks(count, Some(51_234)), &mut memory);
    let store = Partial::new(&memory, chunks_of(&memory, older));
    let sum = store.fetch(newer, Some(older), usize::MAX);
    assert!(sum.lacks.len() <= 5, "{} are fetched", sum.lacks.len());
    // The older directory's index nodes are read in each round, and one leaf of it.
    let index_nodes = chunks_of(&memory, older).iter().filter(|hash| is_index(&memory, hash)).count();
    assert!(store.reads() <= sum.rounds * (index_nodes + 1) + sum.lacks.len(), "{} reads", store.reads());
    assert!(store.asked.get() <= 2 * sum.lacks.len(), "{} are asked for", store.asked.get());
}

fn is_index(memory: &Memory, hash: &ChunkHash) -> bool {
    memory.chunks.get(hash).is_some_and(|bytes| bytes[0] == b'D' && bytes[1] > 0)
}

#[test]
fn small_files_need_nothing_of_the_older_tree() {
    let mut memory = Memory::default();
    let older = write(&many(100, None), &mut memory);
    let newer = write(&many(100, Some(7)), &mut memory);
    let store = Partial::new(&memory, memory.chunks.keys().copied().collect());
    let found = store.round(vec![Step::root(newer, Some(older))], usize::MAX).unwrap();
    assert_eq!(found, Descent { relies: vec![newer], ..Descent::default() });
    assert_eq!(store.reads(), 1);
}

#[test]
fn the_budget_bounds_a_round() {
    let mut memory = Memory::default();
    let directories = |of: &str, memory: &mut Memory| {
        let inner = |at: usize, memory: &mut Memory| {
            let piece = ChunkHash::of(format!("{of} {at}").as_bytes());
            write(&[(name("file"), of_pieces(&[piece]))], memory)
        };
        let all: Vec<_> =
            (0..500).map(|at| (name(&format!("directory-{at:03}")), directory(inner(at, memory)))).collect();
        write(&all, memory)
    };
    let [older, newer] = ["a", "b"].map(|of| directories(of, &mut memory));
    let store = Partial::new(&memory, memory.chunks.keys().copied().chain(chunks_of(&memory, older)).collect());
    let (mut steps, mut lacks) = (vec![Step::root(newer, Some(older))], 0);
    while !steps.is_empty() {
        let before = store.reads();
        let found = store.round(steps, 20).unwrap();
        // A step may read its own node, and a leaf of the older tree.
        assert!(store.reads() - before <= 21, "{} reads", store.reads() - before);
        assert!(found.waits.is_empty() || store.reads() - before >= 20);
        lacks += found.lacks.len();
        steps = found.waits;
    }
    assert_eq!((lacks, store.reads()), (500, 2 * 501));
    let store = Partial::new(&memory, memory.chunks.keys().copied().collect());
    store.round(vec![Step::root(newer, None)], usize::MAX).unwrap();
    assert!(store.questions.get() <= 3, "{} questions", store.questions.get());
}

/// Each directory names two others, which both name the same two, and so on: there are 2^200 paths.
#[test]
fn a_subtree_that_is_named_from_everywhere_is_looked_at_once() {
    let mut memory = Memory::default();
    let piece = ChunkHash::of(b"piece");
    let mut pair = ["a", "b"].map(|text| write(&[(name(text), of_pieces(&[piece]))], &mut memory));
    for _ in 0..200 {
        let [a, b] = pair.map(directory);
        pair = ["a", "b"].map(|text| {
            let entries = [(name("a"), a.clone()), (name("b"), b.clone()), (name("file"), file(text))];
            write(&entries, &mut memory)
        });
    }
    let (root, nodes) = (pair[0], 401);
    let older = write(&[], &mut memory);
    let all: Chunks = memory.chunks.keys().copied().collect();
    for (there, budget, reads_max) in [
        (all.clone(), usize::MAX, nodes),
        (all.clone(), 1, 2 * nodes),
        (Chunks::new(), usize::MAX, nodes),
        (Chunks::new(), 1, 2 * nodes),
    ] {
        let store = Partial::new(&memory, there);
        let sum = store.fetch(root, None, budget);
        assert!(sum.lacks.contains(&piece) && store.reads() <= reads_max, "{} reads", store.reads());
    }
    // The nodes of one directory can be as entangled.
    let mut pair = ["a", "b"].map(|text| write(&[(name(text), of_pieces(&[piece]))], &mut memory));
    for level in 1..=200 {
        let [a, b] = pair;
        pair = ["b", "c"].map(|text| index(level, &[(name("a"), a), (name(text), b)], &mut memory));
    }
    for budget in [1, usize::MAX] {
        let store = Partial::new(&memory, Chunks::new());
        let sum = store.fetch(pair[0], None, budget);
        assert!(sum.lacks.contains(&piece) && store.reads() <= 2 * nodes, "{} reads", store.reads());
    }
    // The older tree is read beside it, and no more often.
    let store = Partial::new(&memory, all);
    store.fetch(root, Some(older), usize::MAX);
    assert!(store.reads() <= 2 * nodes);
}

#[test]
fn lists_are_steps_and_their_pieces_are_those_of_the_older_list() {
    let mut memory = Memory::default();
    let lists = |ids: &[&[u8]], memory: &mut Memory| {
        let lists = ids.iter().map(|ids| write_list(ids, memory)).collect();
        write(&[(name("film"), of_lists(lists))], memory)
    };
    let older = lists(&[&[1, 2, 3], &[4, 5]], &mut memory);
    let there = chunks_of(&memory, older);
    let newer = lists(&[&[1, 2, 9], &[4, 5]], &mut memory);
    let list = write_list(&[1, 2, 9], &mut memory);
    let store = Partial::new(&memory, there);
    let first = store.round(vec![Step::root(newer, Some(older))], usize::MAX).unwrap();
    assert_eq!((&first.lacks[..], first.waits.len()), (&[newer][..], 1));
    store.there.borrow_mut().insert(newer);
    let second = store.round(first.waits, usize::MAX).unwrap();
    assert_eq!((&second.lacks[..], second.waits.len()), (&[list][..], 1), "a missing list is waited for");
    assert_eq!(store.round(second.waits.clone(), usize::MAX).unwrap().waits, second.waits, "and waited for again");
    store.there.borrow_mut().insert(list);
    store.asked.set(0);
    let third = store.round(second.waits, usize::MAX).unwrap();
    assert_eq!(third.lacks, [ChunkHash::of(&[9; 600])]);
    assert_eq!((third.waits, store.asked.get()), (vec![], 2), "the list, and the new piece");
}

/// A file of the older tree has the bytes of a node. That is no reason to believe that what the node names is there.
#[test]
fn content_that_looks_like_a_node_is_none() {
    let mut memory = Memory::default();
    let piece = ChunkHash::of(b"below");
    let node = write(&[(name("file"), of_pieces(&[piece]))], &mut memory);
    let list = add([&b"L\0\x01\0\0\0"[..], piece.as_bytes(), &[1, 0, 0, 0]].concat(), &mut memory);
    for (before, after) in [
        (of_pieces(&[node]), directory(node)),
        (of_lists(vec![node]), directory(node)),
        (of_pieces(&[list]), of_lists(vec![list])),
    ] {
        let [older, newer] = [before, after].map(|entry| write(&[(name("x"), entry)], &mut memory));
        let store = Partial::new(&memory, memory.chunks.keys().copied().collect());
        assert_eq!(store.fetch(newer, Some(older), usize::MAX).lacks, [piece]);
    }
    // In one tree, a chunk is content first and a node behind it.
    for entry in [directory(node), of_lists(vec![list])] {
        let newer = write(&[(name("x"), of_pieces(&[node, list])), (name("y"), entry)], &mut memory);
        for there in [memory.chunks.keys().copied().collect(), Chunks::new()] {
            assert!(Partial::new(&memory, there).fetch(newer, None, usize::MAX).lacks.contains(&piece));
        }
    }
}

#[test]
fn chunks_that_are_no_nodes_are_refused() {
    let mut memory = Memory::default();
    let leaf = write(&[(name("a"), file("1"))], &mut memory);
    let empty = write(&[], &mut memory);
    let list = write_list(&[1], &mut memory);
    let garbage = add(b"garbage".to_vec(), &mut memory);
    let of_leaf = index(1, &[(name("a"), leaf)], &mut memory);
    let deep = (0..limits::DEPTH_MAX).fold(leaf, |hash, _| write(&[(name("d"), directory(hash))], &mut memory));
    let twice = index(1, &[(name("a"), leaf), (name("b"), leaf)], &mut memory);
    let file_of = |lists, memory: &mut Memory| write(&[(name("f"), of_lists(lists))], memory);
    for (newer, older, wrong) in [
        (garbage, None, garbage),
        (list, None, list),
        (write(&[(name("d"), directory(list))], &mut memory), None, list),
        (file_of(vec![garbage], &mut memory), None, garbage),
        (file_of(vec![leaf], &mut memory), None, leaf),
        (index(2, &[(name("a"), leaf)], &mut memory), None, leaf),
        (index(1, &[(name("a"), empty)], &mut memory), None, empty),
        (deep, None, leaf),
        (of_leaf, Some(garbage), garbage),
        (of_leaf, Some(twice), twice),
    ] {
        let store = Partial::new(&memory, memory.chunks.keys().copied().collect());
        let error = store.round(vec![Step::root(newer, older)], usize::MAX).unwrap_err();
        assert!(matches!(error, ReadError::Malformed(hash, _) if hash == wrong), "{error:?}");
    }
    let store = Partial::new(&memory, Chunks::from([deep]));
    let mut failing = |_: &[ChunkHash]| Err(leaf);
    assert_eq!(descend(&store, &mut failing, vec![Step::root(deep, None)], 9), Err(ReadError::Source(leaf)));
    // An answer that is too short says that nothing is there.
    let mut short = |_: &[ChunkHash]| Ok(Vec::new());
    let found = descend(&store, &mut short, vec![Step::root(deep, None)], 9).unwrap();
    assert_eq!((found.lacks, found.waits), (vec![deep], vec![Step::root(deep, None)]));
}
