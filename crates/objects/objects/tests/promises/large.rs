//! Values of every size, over every border that the way they are stored has.

use crate::scratch::Scratch;
use objects::{Anywhere, Db, Error, Ref, Result, Tx};
use proptest::prelude::*;
use std::collections::BTreeMap;

const PAGE: usize = 8 * 1024;
const INLINE: usize = 32 * 1024 - 64;
const CHUNK: usize = 60 * 1024;

/// Bytes that differ from place to place, so that a chunk in the wrong place shows.
fn value(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|i| (i / 251) as u8 ^ (i as u8).wrapping_mul(31) ^ seed).collect()
}

/// Sizes around every border.
fn borders() -> Vec<usize> {
    let around = |border: usize| (border.saturating_sub(2)..border + 3).collect::<Vec<_>>();
    let mut sizes: Vec<usize> = [0, PAGE, INLINE, CHUNK, 2 * CHUNK, 5 * CHUNK].into_iter().flat_map(around).collect();
    sizes.dedup();
    sizes
}

#[test]
fn every_border_size_comes_back_after_reopening() {
    let scratch = Scratch::new();
    let sizes = borders();
    let db = scratch.open();
    let objects: Vec<Ref<[u8]>> =
        sizes.iter().map(|&bytes| db.transact(|tx| tx.create_bytes(Anywhere, &value(bytes, 1))).unwrap()).collect();
    db.close().unwrap();
    let db = scratch.open();
    for (&object, &bytes) in objects.iter().zip(&sizes) {
        assert_eq!(db.transact(|tx| tx.get_bytes(object)).unwrap(), Some(value(bytes, 1)), "{bytes} bytes");
    }
    // Each takes the size of its counterpart from the other end: everything grows or shrinks over a border.
    for (&object, &bytes) in objects.iter().zip(sizes.iter().rev()) {
        db.transact(|tx| tx.put_bytes(object, &value(bytes, 2))).unwrap();
    }
    drop(db);
    let db = scratch.open();
    for (&object, &bytes) in objects.iter().zip(sizes.iter().rev()) {
        assert_eq!(db.transact(|tx| tx.get_bytes(object)).unwrap(), Some(value(bytes, 2)), "{bytes} bytes");
    }
    db.close().unwrap();
}

#[test]
fn the_largest_object_and_one_byte_more() {
    const LARGEST: usize = 64 << 20;
    let db = Db::in_memory().unwrap();
    let large = value(LARGEST, 3);
    let object = db.transact(|tx| tx.create_bytes(Anywhere, &large)).unwrap();
    assert!(db.transact(|tx| tx.read(object, |bytes| bytes == large)).unwrap().unwrap());
    let error = db.transact(|tx| tx.put_bytes(object, &vec![0; LARGEST + 1])).unwrap_err().to_string();
    assert_eq!(error, "an object of 67108865 bytes is larger than the limit of 64 MiB");
}

/// The log begins small, and grows for what does not fit: everything before was written home, so nothing else would
/// make room.
#[test]
fn a_commit_that_the_log_has_no_room_for_yet_is_not_refused() {
    let scratch = Scratch::new();
    let db = scratch.open();
    db.transact(|tx| tx.create_bytes(Anywhere, &value(400_000, 1))).unwrap();
    for bytes in [1_600_000, 5_000_000] {
        let object = db.transact(|tx| tx.create_bytes(Anywhere, &value(bytes, 2))).unwrap();
        assert_eq!(db.transact(|tx| tx.get_bytes(object)).unwrap(), Some(value(bytes, 2)));
    }
    let error = db.transact(|tx| tx.create_bytes(Anywhere, &value(17 << 20, 3))).unwrap_err();
    assert!(error.to_string().contains("the store is full"), "{error}");
}

/// Saving one value again and again must not eat the store: the pages stay the same.
#[test]
fn a_rewrite_stays_in_its_pages() {
    let db = Db::in_memory().unwrap();
    let object = db.transact(|tx| tx.create_bytes(Anywhere, &value(4 * CHUNK, 0))).unwrap();
    let next_page = |db: &Db| db.transact(|tx| tx.create_bytes(Anywhere, &value(PAGE, 0))).unwrap().id().page.number;
    let before = next_page(&db);
    for seed in 1..20 {
        db.transact(|tx| tx.put_bytes(object, &value(4 * CHUNK, seed))).unwrap();
    }
    assert!(next_page(&db) - before <= 2);
}

/// Objects of one page that grow until their page has no room: the values move out, and stay readable.
#[test]
fn a_full_page_lets_its_objects_grow_elsewhere() {
    let scratch = Scratch::new();
    let db = scratch.open();
    let objects = db
        .transact(|tx| {
            let first = tx.create_bytes(Anywhere, b"0")?;
            let others = (1..20).map(|i| tx.create_bytes(first, &[i])).collect::<Result<Vec<_>>>()?;
            Ok([vec![first], others].concat())
        })
        .unwrap();
    assert!(objects.iter().all(|object| object.id().page == objects[0].id().page), "they began in one page");
    for (i, &object) in objects.iter().enumerate() {
        db.transact(|tx| tx.put_bytes(object, &value(5_000, i as u8))).unwrap();
    }
    drop(db);
    let db = scratch.open();
    for (i, &object) in objects.iter().enumerate() {
        assert_eq!(db.transact(|tx| tx.get_bytes(object)).unwrap(), Some(value(5_000, i as u8)));
    }
}

/// Two clients grow objects of one page, neither knowing of the other's growth: the commit that finds the page full is
/// tried again, and moves its value out.
#[test]
fn growth_that_others_did_not_see_is_tried_again() {
    let db = Db::in_memory().unwrap();
    let objects = db
        .transact(|tx| {
            let first = tx.create_bytes(Anywhere, b"0")?;
            (0..8).map(|i| tx.create_bytes(first, &[i])).collect::<Result<Vec<_>>>()
        })
        .unwrap();
    std::thread::scope(|scope| {
        for (i, &object) in objects.iter().enumerate() {
            let db = &db;
            scope.spawn(move || {
                for round in 1..6 {
                    db.transact(|tx| tx.put_bytes(object, &value(round * 5_000, i as u8))).unwrap();
                }
            });
        }
    });
    for (i, &object) in objects.iter().enumerate() {
        assert_eq!(db.transact(|tx| tx.get_bytes(object)).unwrap(), Some(value(25_000, i as u8)));
    }
}

#[derive(Clone, Debug)]
enum Op {
    Create(usize),
    Put(usize, usize),
    Delete(usize),
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..200usize, 2 => 0..PAGE, 2 => proptest::sample::select(borders()), 1 => 0..4 * CHUNK]
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => sizes().prop_map(Op::Create),
        4 => (any::<usize>(), sizes()).prop_map(|(which, bytes)| Op::Put(which, bytes)),
        1 => any::<usize>().prop_map(Op::Delete),
    ]
}

type Model = BTreeMap<Ref<[u8]>, Vec<u8>>;

fn apply(tx: &mut Tx, model: &mut Model, op: &Op, seed: u8) -> Result<()> {
    let pick = |which: usize| model.keys().nth(which % model.len().max(1)).copied();
    match *op {
        Op::Create(bytes) => {
            let near = pick(bytes);
            let object = tx.create_bytes(near, &value(bytes, seed))?;
            assert!(model.insert(object, value(bytes, seed)).is_none(), "a reference is given once");
        }
        Op::Put(which, bytes) => {
            if let Some(object) = pick(which) {
                tx.put_bytes(object, &value(bytes, seed))?;
                model.insert(object, value(bytes, seed));
            }
        }
        Op::Delete(which) => {
            if let Some(object) = pick(which) {
                tx.delete(object)?;
                model.remove(&object);
                assert_eq!(tx.get_bytes(object)?, None);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Transactions of random operations, some of them aborted, and the directory closed and opened now and then: the
    /// store holds what the model holds.
    #[test]
    fn objects_are_what_was_last_put(
        transactions in proptest::collection::vec((proptest::collection::vec(ops(), 1..12), 0..10u8), 1..10),
    ) {
        let scratch = Scratch::new();
        let mut db = scratch.open();
        let mut model = Model::new();
        for (i, (ops, fate)) in transactions.into_iter().enumerate() {
            let mut after = model.clone();
            let ran = db.transact(|tx| {
                after.clone_from(&model);
                ops.iter().try_for_each(|op| apply(tx, &mut after, op, i as u8))?;
                if fate == 0 { Err(Error::application("abort")) } else { Ok(()) }
            });
            if fate == 0 {
                prop_assert!(matches!(ran, Err(Error::Application(_))));
            } else {
                ran.unwrap();
                model = after;
            }
            if fate <= 2 {
                db.close().unwrap();
                db = scratch.open();
            }
            for (&object, value) in &model {
                let same = db.transact(|tx| tx.read(object, |bytes| bytes == value)).unwrap();
                prop_assert_eq!(same, Some(true), "{}", object);
            }
        }
    }
}
