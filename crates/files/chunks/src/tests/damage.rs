//! Flipped bits, cut files and missing files are found, reported and repaired by another `put`; bytes that were not put
//! are never returned.

use super::{Disks, assert_has, chunk, hashes, large};
use crate::limits::PAGE_CHUNKS;
use crate::{CHUNK_BYTES_MAX, ChunkError, Condition};
use bytes::Bytes;
use tree::ChunkHash;
use vfs::Files;
use vfs::memory::Dice;

/// Asserts that one chunk is damaged, that the others are whole, and that `put` repairs it.
fn found_and_repaired(disks: &Disks, chunks: &[(ChunkHash, Bytes)], damaged: &ChunkHash, file: &str, case: &str) {
    // A new process: nothing of the table is in memory.
    let store = disks.open().unwrap();
    let others: Vec<_> = chunks.iter().filter(|(hash, _)| hash != damaged).cloned().collect();
    match store.get(damaged) {
        Err(ChunkError::Damaged { hash, path }) => {
            assert_eq!(&hash, damaged, "{case}");
            assert!(path.to_string_lossy().contains(file), "{case}: {}", path.display());
        }
        result => panic!("{case}: {result:?}"),
    }
    assert_has(&store, &others, case);
    let mut reported = Vec::new();
    store.verify(|hash, condition| reported.push((*hash, condition))).unwrap();
    let count = |wanted| reported.iter().filter(|(_, condition)| *condition == wanted).count();
    assert_eq!((count(Condition::Whole), count(Condition::Damaged)), (others.len(), 1), "{case}");
    assert!(reported.contains(&(*damaged, Condition::Damaged)), "{case}");
    assert_eq!(store.missing(&hashes(chunks)).unwrap(), [*damaged], "{case}");
    let size = store.size().unwrap();
    store.put(chunks).unwrap();
    assert_has(&store, chunks, case);
    assert_eq!(store.size().unwrap(), size, "{case}");
    drop(store);
    assert_has(&disks.open().unwrap(), chunks, case);
}

fn chunks() -> Vec<(ChunkHash, Bytes)> {
    vec![large(1), chunk(CHUNK_BYTES_MAX, 2), chunk(3000, 3), chunk(3000, 4), chunk(1, 5), chunk(20_000, 6)]
}

fn stored() -> (Disks, Vec<(ChunkHash, Bytes)>) {
    let (disks, chunks) = (Disks::new(), chunks());
    disks.open().unwrap().put(&chunks).unwrap();
    (disks, chunks)
}

#[test]
fn a_damaged_file_is_found_and_repaired() {
    type Damage = fn(&mut Vec<u8>);
    let kinds: [(&str, Damage); 5] = [
        ("first bit", |bytes| bytes[0] ^= 1),
        ("last bit", |bytes| *bytes.last_mut().unwrap() ^= 0x80),
        ("cut", |bytes| bytes.truncate(bytes.len() - 1)),
        ("empty", Vec::clear),
        ("longer", |bytes| bytes.push(0)),
    ];
    for (case, damage) in kinds {
        let (disks, chunks) = stored();
        let hash = chunks[1].0;
        let (folder, name) = disks.place(&hash);
        folder.damage(&name, damage);
        found_and_repaired(&disks, &chunks, &hash, &name, case);
    }
}

#[test]
fn a_missing_file_is_found_and_repaired() {
    let (disks, chunks) = stored();
    let hash = chunks[0].0;
    let (folder, name) = disks.place(&hash);
    folder.remove(&name).unwrap();
    found_and_repaired(&disks, &chunks, &hash, &name, "missing");
}

#[test]
fn a_damaged_value_of_the_table_is_found_and_repaired() {
    for which in [2, 3, 5] {
        for at in [0, 17, usize::MAX] {
            let (disks, chunks) = stored();
            let (hash, bytes) = &chunks[which];
            disks.root().damage("small.redb", |file| {
                let places: Vec<_> = (0..file.len()).filter(|&place| file[place..].starts_with(bytes)).collect();
                assert!(!places.is_empty());
                for place in places {
                    file[place + at.min(bytes.len() - 1)] ^= 4;
                }
            });
            found_and_repaired(&disks, &chunks, hash, "small.redb", &format!("value {which}, byte {at}"));
        }
    }
}

#[test]
fn the_damage_is_found_by_verify_without_a_read() {
    let (disks, chunks) = stored();
    let (folder, name) = disks.place(&chunks[0].0);
    folder.damage(&name, |bytes| bytes[100] ^= 1);
    let store = disks.open().unwrap();
    assert_eq!(store.missing(&hashes(&chunks)).unwrap(), [], "nobody has read it yet");
    let mut damaged = Vec::new();
    store.verify(|hash, condition| damaged.extend((condition == Condition::Damaged).then_some(*hash))).unwrap();
    assert_eq!(damaged, [chunks[0].0]);
    assert_eq!(store.missing(&hashes(&chunks)).unwrap(), damaged);
}

/// Wherever a bit of the table's file is flipped: bytes that were not put are never returned, and nothing panics.
#[test]
fn a_flipped_bit_anywhere_in_the_table_gives_no_wrong_bytes() {
    let (disks, chunks) = stored();
    let table = disks.root().bytes("small.redb");
    // The places that are in use, and some of the others.
    let used: Vec<_> = (0..table.len()).filter(|&at| table[at] != 0 || at % 4096 == 9).collect();
    let mut dice = Dice(11);
    let (mut refused, mut hurt) = (0, 0);
    for _ in 0..300 {
        let (at, bit) = (used[dice.roll(used.len() as u64) as usize], dice.roll(8));
        let disks = disks.map(vfs::memory::Memory::after_kill);
        disks.root().damage("small.redb", |bytes| bytes[at] ^= 1 << bit);
        let Ok(store) = disks.open() else {
            refused += 1;
            continue;
        };
        for (hash, bytes) in &chunks {
            match store.get(hash) {
                Ok(Some(got)) => assert!(got == bytes, "bit {bit} of byte {at}"),
                Ok(None) | Err(_) => hurt += 1,
            }
        }
        let mut damaged = 0;
        let verified = store.verify(|_, condition| damaged += u64::from(condition == Condition::Damaged));
        let _ = (verified.is_ok(), store.size(), store.missing(&hashes(&chunks)), store.put(&chunks));
    }
    assert!(hurt > 20, "{refused} refused, {hurt} chunks hurt");
}

/// Chunks are passed over, or walked again without end, if the last name of a page is damaged.
#[test]
fn a_walk_notices_damaged_names() {
    for (change, what) in [(0x50_u8, "can be found"), (0x80, "out of order")] {
        let disks = Disks::new();
        let mut chunks: Vec<_> = (0..PAGE_CHUNKS as u64 * 3 / 2).map(|seed| chunk(9, seed)).collect();
        disks.open().unwrap().put(&chunks).unwrap();
        chunks.sort();
        let name = chunks[PAGE_CHUNKS - 1].0;
        assert_eq!(name.as_bytes()[0] & 0xd0, 0x80, "{name:?}: choose other seeds");
        disks.root().damage("small.redb", |file| {
            let places: Vec<_> = (0..file.len()).filter(|&at| file[at..].starts_with(name.as_bytes())).collect();
            assert!(!places.is_empty());
            for at in places {
                file[at] ^= change;
            }
        });
        let store = disks.open().unwrap();
        let error = store.verify(|_, _| {}).unwrap_err();
        assert!(error.name() == "damaged" && error.to_string().contains(what), "{error}");
    }
}

#[test]
fn a_table_that_is_cut_or_is_something_else_is_refused_by_name() {
    let (disks, _) = stored();
    for keep in [0, 1, 100, 4096, 20_000] {
        let disks = disks.map(vfs::memory::Memory::after_kill);
        disks.root().damage("small.redb", |bytes| bytes.truncate(keep));
        let error = disks.open().map(drop).unwrap_err();
        assert!(error.name() == "damaged" && error.to_string().contains("small.redb"), "{keep}: {error}");
    }
    disks.root().damage("small.redb", |bytes| bytes.fill(b'x'));
    assert_eq!(disks.open().map(drop).unwrap_err().name(), "damaged");
}
