//! A full disk refuses puts, and nothing else.

use super::limited::{Limited, Room};
use super::{Disks, assert_has, chunk, hashes, large};
use crate::{ChunkError, Chunks, Condition};
use bytes::Bytes;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tree::ChunkHash;
use vfs::Files;

fn open(disks: &Disks, room: &Room) -> Result<Chunks, ChunkError> {
    let limited = |files: &vfs::memory::Memory| -> Arc<dyn Files> {
        Arc::new(Limited { files: Arc::new(files.clone()), room: room.clone() })
    };
    Chunks::open_in(limited(disks.root()), &|name| Ok(limited(&disks.0[name])), &|_| unreachable!("it has no bucket"))
}

/// Chunks that make the table and the folders grow.
fn batch(seed: u64) -> Vec<(ChunkHash, Bytes)> {
    (0..30).flat_map(|at| [chunk(30_000, seed + at), large(seed + at)]).collect()
}

#[test]
fn a_put_without_room_is_refused_and_works_once_there_is_room() {
    let mut refused = 0;
    for left in [0, 500, 5000, 33_000, 40_000, 500_000, 1_000_000, 2_000_000] {
        let (disks, room) = (Disks::new(), Room::new(64 << 20));
        let store = open(&disks, &room).unwrap();
        let (first, second) = (batch(100), batch(200));
        store.put(&first).unwrap();
        let files = disks.files();
        room.set(left);
        match store.put(&second) {
            Err(ChunkError::NoRoom { .. }) => {
                refused += 1;
                assert_eq!(store.missing(&hashes(&second)).unwrap(), hashes(&second));
                assert_eq!(disks.files(), files, "{left} bytes left: files without use fill the disk");
            }
            Err(error) => panic!("{left} bytes left: {error}"),
            Ok(()) => assert_has(&store, &second, "there was room"),
        }
        assert_has(&store, &first, "on a full disk");
        store.verify(|hash, condition| assert_eq!(condition, Condition::Whole, "{hash}")).unwrap();
        room.set(64 << 20);
        store.put(&second).unwrap();
        assert_has(&store, &second, "with room");
        drop(store);
        let store = open(&disks, &room).unwrap();
        assert_has(&store, &[first, second].concat(), "after a restart");
    }
    assert!(refused >= 6, "{refused}");
}

#[test]
fn a_full_disk_can_be_swept_and_opened() {
    let (disks, room) = (Disks::new(), Room::new(64 << 20));
    let store = open(&disks, &room).unwrap();
    let (first, second) = (batch(100), batch(200));
    store.put(&[first.clone(), second.clone()].concat()).unwrap();
    room.set(0);
    // Killed: the next start repairs the table on a full disk.
    std::mem::forget(store);
    let disks = disks.map(vfs::memory::Memory::after_kill);
    let store = open(&disks, &room).unwrap();
    assert_has(&store, &first, "on a full disk");
    let used = hashes(&second);
    let swept = store.sweep(|hash| used.contains(hash), |_| {}).unwrap();
    assert_eq!(swept.chunks, first.len() as u64);
    assert_has(&store, &second, "used");
    store.put(&first[..10]).unwrap();
    assert_has(&store, &first[..10], "in the room that the sweep made");
}

/// The table of many chunks that fill a disk to the last byte.
fn filled(bytes: usize) -> (Disks, Room, Chunks, Vec<(ChunkHash, Bytes)>) {
    let (disks, room) = (Disks::new(), Room::new(24 << 20));
    let store = open(&disks, &room).unwrap();
    let mut put = Vec::new();
    for count in [100, 10, 1] {
        loop {
            let first = put.len() as u64;
            let batch: Vec<_> = (first..first + count).map(|seed| chunk(bytes, seed)).collect();
            match store.put(&batch) {
                Ok(()) => put.extend(batch),
                Err(ChunkError::NoRoom { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    room.set(0);
    assert!(put.len() > 1000, "{}", put.len());
    (disks, room, store, put)
}

#[test]
fn a_disk_that_the_table_filled_can_be_swept() {
    for (kept, bytes) in [(0, 1800), (1, 1800), (2, 1800), (2, 5000), (2, 14_000)] {
        let (disks, room, store, put) = filled(bytes);
        let used: HashSet<_> =
            hashes(&put).into_iter().filter(|hash| kept > 0 && hash.as_bytes()[9] % 3 < kept).collect();
        let swept = store.sweep(|hash| used.contains(hash), |_| {}).unwrap();
        assert_eq!(swept.chunks as usize, put.len() - used.len());
        let (used, unused): (Vec<_>, Vec<_>) = put.into_iter().partition(|(hash, _)| used.contains(hash));
        assert_has(&store, &used, "used");
        store.put(&unused[..100]).unwrap();
        std::mem::forget(store);
        let disks = disks.map(vfs::memory::Memory::after_kill);
        assert_has(&open(&disks, &room).unwrap(), &used, "after a kill on a full disk");
    }
}

#[test]
fn a_disk_that_the_table_filled_can_be_opened_after_a_kill() {
    let (disks, room, store, put) = filled(5000);
    std::mem::forget(store);
    let disks = disks.map(vfs::memory::Memory::after_kill);
    let store = open(&disks, &room).unwrap();
    assert_has(&store, &put, "after a kill");
    assert_eq!(store.put(&batch(9)).unwrap_err().name(), "no-room");
    assert_has(&store, &put, "after a refused put");
}

#[test]
fn readers_do_not_notice_a_full_disk() {
    let (disks, room) = (Disks::new(), Room::new(64 << 20));
    let store = open(&disks, &room).unwrap();
    let first = batch(100);
    store.put(&first).unwrap();
    room.set(100_000);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_done.load(Ordering::SeqCst) {
                    assert_has(&store, &first, "beside a refused put");
                }
            });
        }
        for seed in 1..30 {
            // The table alone is written.
            let small: Vec<_> = (0..200).map(|at| chunk(30_000, seed * 1000 + at)).collect();
            assert_eq!(store.put(&small).unwrap_err().name(), "no-room");
        }
        is_done.store(true, Ordering::SeqCst);
    });
}
