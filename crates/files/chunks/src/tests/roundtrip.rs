//! Chunks that are put come back, of every length, over restarts, and from several threads.

use super::{Disks, Temporary, assert_has, chunk, hashes, large};
use crate::{CHUNK_BYTES_MAX, ChunkError, Chunks, Condition, SMALL_BYTES_MAX};
use tree::ChunkHash;

#[test]
fn chunks_of_every_length_come_back_over_restarts() {
    let lengths =
        [0, 1, SMALL_BYTES_MAX - 1, SMALL_BYTES_MAX, SMALL_BYTES_MAX + 1, CHUNK_BYTES_MAX - 1, CHUNK_BYTES_MAX];
    let chunks: Vec<_> = lengths.iter().map(|&bytes| chunk(bytes, 1)).collect();
    let dir = Temporary::new("lengths");
    let store = Chunks::open(dir.path()).unwrap();
    assert_eq!(store.missing(&hashes(&chunks)).unwrap(), hashes(&chunks));
    assert_eq!(store.get(&chunks[1].0).unwrap(), None);
    store.put(&chunks).unwrap();
    let bytes: usize = lengths.iter().sum();
    assert_has(&store, &chunks, "at once");
    drop(store);
    let store = Chunks::open(dir.path()).unwrap();
    assert_has(&store, &chunks, "after a restart");
    assert_eq!(store.size().unwrap(), (lengths.len() as u64, bytes as u64));
    let is_file = |(hash, _): &&(ChunkHash, _)| {
        let name = hash.to_string();
        dir.path().join(&name[..2]).join(&name[2..]).is_file()
    };
    assert_eq!(chunks.iter().filter(is_file).count(), 3, "the large ones are files");
}

#[test]
fn missing_chunks_are_listed_in_order_and_once() {
    let disks = Disks::new();
    let store = disks.open().unwrap();
    let [a, b, c] = [large(1), chunk(10, 2), chunk(20, 3)];
    store.put(std::slice::from_ref(&b)).unwrap();
    assert_eq!(store.missing(&[c.0, a.0, b.0, c.0, a.0]).unwrap(), [c.0, a.0]);
    assert_eq!(store.missing(&[]).unwrap(), []);
}

#[test]
fn a_batch_with_a_wrong_or_too_large_chunk_is_refused_as_a_whole() {
    let disks = Disks::new();
    let store = disks.open().unwrap();
    let good = [large(1), chunk(10, 2)];
    let (name, other) = (large(3).0, large(4));
    let wrong = [good[0].clone(), good[1].clone(), (name, other.1)];
    match store.put(&wrong) {
        Err(ChunkError::Mismatch { expected, got }) => assert_eq!((expected, got), (name, other.0)),
        result => panic!("{result:?}"),
    }
    let wrong = [good[0].clone(), good[1].clone(), chunk(CHUNK_BYTES_MAX + 1, 5)];
    match store.put(&wrong) {
        Err(ChunkError::TooLarge { bytes, .. }) => assert_eq!(bytes, CHUNK_BYTES_MAX + 1),
        result => panic!("{result:?}"),
    }
    assert_eq!(store.missing(&hashes(&good)).unwrap(), hashes(&good));
    assert_eq!((store.size().unwrap(), disks.files().len()), ((0, 0), 0));
}

#[test]
fn a_chunk_that_is_there_is_not_written_again() {
    let disks = Disks::new();
    let store = disks.open().unwrap();
    let chunks = [large(1), chunk(10, 2), large(1), chunk(10, 2)];
    store.put(&chunks).unwrap();
    let size = store.size().unwrap();
    assert_eq!(size.0, 2, "each counts once");
    let (folder, _) = disks.place(&chunks[0].0);
    folder.plan(None);
    let before = disks.root().bytes("small.redb");
    store.put(&chunks).unwrap();
    assert_eq!(folder.operations(), 0, "the file was written again");
    assert!(disks.root().bytes("small.redb") == before, "the table was written again");
    assert_eq!(store.size().unwrap(), size);
}

#[test]
fn a_walk_visits_every_chunk_once_over_several_pages() {
    let disks = Disks::new();
    let store = disks.open().unwrap();
    let mut chunks: Vec<_> = (0..2 * crate::limits::PAGE_CHUNKS as u64).map(|seed| chunk(9, seed)).collect();
    chunks.extend((0..10).map(large));
    store.put(&chunks).unwrap();
    let (mut visited, mut whole) = (Vec::new(), 0);
    store.for_each(|hash, bytes| visited.push((*hash, bytes))).unwrap();
    store.verify(|_, condition| whole += u64::from(condition == Condition::Whole)).unwrap();
    let mut expected: Vec<_> = chunks.iter().map(|(hash, bytes)| (*hash, bytes.len() as u64)).collect();
    expected.sort();
    visited.sort();
    assert!(visited == expected);
    assert_eq!(whole, store.size().unwrap().0);
}

#[test]
fn threads_read_and_sweep_while_others_write() {
    let dir = Temporary::new("threads");
    let store = Chunks::open(dir.path()).unwrap();
    let kept: Vec<_> = (0..8).flat_map(|seed| [large(seed), chunk(100, seed)]).collect();
    store.put(&kept).unwrap();
    let is_kept: std::collections::HashSet<_> = hashes(&kept).into_iter().collect();
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            let (store, kept, is_kept) = (&store, &kept, &is_kept);
            scope.spawn(move || {
                for round in 0..6 {
                    let seed = thread * 1000 + round;
                    let own = [large(seed), chunk(100, seed), large(77 + round)];
                    store.put(&own).unwrap();
                    assert_has(store, kept, "beside writers");
                    for (hash, bytes) in &own {
                        // Another thread may have swept it; it is never damaged.
                        assert!(store.get(hash).unwrap().is_none_or(|got| got == bytes));
                    }
                    if thread == 1 {
                        store.sweep(|hash| is_kept.contains(hash), |_| {}).unwrap();
                    }
                }
            });
        }
    });
    store.sweep(|hash| is_kept.contains(hash), |_| {}).unwrap();
    assert_eq!(store.size().unwrap().0, kept.len() as u64);
    store.verify(|hash, condition| assert_eq!(condition, Condition::Whole, "{hash}")).unwrap();
}
