//! Sweeps remove what is not used, and nothing else.

use super::{Disks, assert_has, chunk, hashes, large};
use crate::directory::TABLE;
use crate::limits::PAGE_CHUNKS;
use crate::{SMALL_BYTES_MAX, Swept};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs::{Files, How};

#[test]
fn a_sweep_removes_what_is_not_used() {
    let disks = Disks::new();
    let store = disks.open().unwrap();
    let small = (0..2 * PAGE_CHUNKS as u64 + 7).map(|seed| chunk(50, seed));
    let chunks: Vec<_> = small.chain((0..20).map(large)).collect();
    store.put(&chunks).unwrap();
    let (used, unused): (Vec<_>, Vec<_>) = chunks.into_iter().partition(|(hash, _)| hash.as_bytes()[31] < 128);
    let is_used: HashSet<_> = hashes(&used).into_iter().collect();
    let mut reports = Vec::new();
    let swept = store.sweep(|hash| is_used.contains(hash), |swept| reports.push(swept)).unwrap();
    let bytes = unused.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    assert_eq!(swept, Swept { chunks: unused.len() as u64, bytes, leftovers: 0 });
    assert!(reports.len() >= 4 && reports.is_sorted_by_key(|swept| swept.chunks) && reports.last() == Some(&swept));
    assert_eq!(store.missing(&hashes(&unused)).unwrap(), hashes(&unused));
    assert!(unused.iter().all(|(hash, _)| store.get(hash).unwrap().is_none()));
    assert_has(&store, &used, "used");
    assert_eq!(store.size().unwrap().0, used.len() as u64);
    assert_eq!(disks.files().len(), used.iter().filter(|(_, bytes)| bytes.len() > 50).count());
    assert_eq!(store.sweep(|hash| is_used.contains(hash), |_| {}).unwrap(), Swept::default(), "all was swept");
    store.put(&unused).unwrap();
    assert_has(&store, &unused, "put again");
}

#[test]
fn a_table_that_was_swept_gives_its_room_back() {
    let disks = Disks::new();
    let store = disks.open().unwrap();
    let chunks: Vec<_> = (0..1500).map(|seed| chunk(SMALL_BYTES_MAX, seed)).collect();
    chunks.chunks(100).for_each(|some| store.put(some).unwrap());
    let kept: Vec<_> = chunks.iter().step_by(100).cloned().collect();
    let is_used: HashSet<_> = hashes(&kept).into_iter().collect();
    let bytes = || disks.root().open(TABLE, How::Read).unwrap().disk_bytes().unwrap();
    let full = bytes();
    store.compact().unwrap();
    assert_eq!(bytes(), full, "nothing was swept");
    store.sweep(|hash| is_used.contains(hash), |_| {}).unwrap();
    assert!(bytes() > full / 2, "a table that gives room back by itself needs no compaction");
    store.compact().unwrap();
    assert!(bytes() < 4 << 20, "{} bytes are left of {full}", bytes());
    assert_has(&store, &kept, "kept");
    drop(store);
    assert_has(&disks.open().unwrap(), &kept, "opened again");
}

#[test]
fn a_sweep_removes_files_that_are_not_in_the_table_and_no_others() {
    let disks = Disks::new();
    let store = disks.open().unwrap();
    let (kept, lost) = (large(1), large(2));
    store.put(std::slice::from_ref(&kept)).unwrap();
    let (folder, name) = disks.place(&lost.0);
    folder.open(&name, How::Create).unwrap();
    folder.open("notes.txt", How::Create).unwrap();
    assert_eq!(store.missing(&[lost.0]).unwrap(), [lost.0], "a file alone is not a chunk");
    let swept = store.sweep(|_| true, |_| {}).unwrap();
    assert_eq!(swept, Swept { leftovers: 1, ..Swept::default() });
    assert_eq!(folder.names().iter().filter(|name| **name == "notes.txt").count(), 1);
    assert!(!folder.names().contains(&name));
    assert_has(&store, &[kept], "kept");
}

#[test]
fn chunks_are_removed_by_name_and_no_others() {
    let disks = Disks::new();
    let store = disks.open().unwrap();
    let chunks: Vec<_> = (0..20).map(|seed| chunk(50, seed)).chain((0..6).map(large)).collect();
    store.put(&chunks).unwrap();
    let (gone, kept) = (&chunks[15..23], [&chunks[..15], &chunks[23..]].concat());
    let names = [hashes(gone), hashes(gone), hashes(&[large(99)])].concat();
    let bytes = gone.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    assert_eq!(store.remove(&names).unwrap(), Swept { chunks: 8, bytes, leftovers: 0 });
    assert_eq!(store.missing(&hashes(gone)).unwrap(), hashes(gone));
    assert_has(&store, &kept, "kept");
    assert_eq!(store.remove(&names).unwrap(), Swept::default());
    assert_eq!(store.remove_leftovers().unwrap(), 0);
}

#[test]
fn a_damaged_chunk_is_swept_like_any_other() {
    let disks = Disks::new();
    let store = disks.open().unwrap();
    let chunk = large(1);
    store.put(std::slice::from_ref(&chunk)).unwrap();
    let (folder, name) = disks.place(&chunk.0);
    folder.damage(&name, |bytes| bytes[7] ^= 1);
    store.get(&chunk.0).unwrap_err();
    assert_eq!(store.sweep(|_| false, |_| {}).unwrap().chunks, 1);
    assert_eq!(store.get(&chunk.0).unwrap(), None);
    store.put(std::slice::from_ref(&chunk)).unwrap();
    assert_has(&store, &[chunk], "put again");
}

/// Chunks come and go while others read them: each read finds one or none, and none is called damaged.
#[test]
fn a_chunk_that_is_swept_while_it_is_read_is_not_damaged() {
    let disks = Disks::new();
    let store = disks.open().unwrap();
    let chunks: Vec<_> = (0..4).map(large).collect();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Ordering::SeqCst) {
                    for (hash, bytes) in &chunks {
                        assert!(store.get(hash).unwrap().is_none_or(|got| got == bytes));
                    }
                }
            });
        }
        for _ in 0..100 {
            store.put(&chunks).unwrap();
            store.sweep(|_| false, |_| {}).unwrap();
        }
        is_done.store(true, Ordering::SeqCst);
    });
}
