//! The map against the standard library's, and what concurrency it promises.

use crate::scratch::elsewhere;
use objects::{Db, Error, Map, Result};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;

/// One operation on a map. Few enough keys that splits, joins and overwrites all happen, of lengths that make nodes of
/// few and of many entries.
#[derive(Clone, Debug)]
enum Op {
    Insert(String, Vec<u8>),
    Remove(String),
    Get(String),
    Contains(String),
    /// Shortens the value that is there to half of it, takes an empty one out, and puts this one where none is.
    Update(String, Vec<u8>),
    Range(Bound<String>, Bound<String>, bool),
    RemoveRange(Bound<String>, Bound<String>),
    Clear,
}

fn keys() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0..400u32).prop_map(|n| format!("key/{n}")),
        1 => (0..40u32).prop_map(|n| format!("{n}{}", "long".repeat(100))),
        1 => "[ab\u{0}]{0,3}",
    ]
}

fn values() -> impl Strategy<Value = Vec<u8>> {
    let of = |bytes: std::ops::Range<usize>| (any::<u8>(), bytes).prop_map(|(byte, bytes)| vec![byte; bytes]);
    prop_oneof![6 => of(0..40), 2 => of(400..600), 1 => of(3_000..6_000)]
}

fn bounds() -> impl Strategy<Value = Bound<String>> {
    prop_oneof![keys().prop_map(Bound::Included), keys().prop_map(Bound::Excluded), Just(Bound::Unbounded)]
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        40 => (keys(), values()).prop_map(|(key, value)| Op::Insert(key, value)),
        16 => keys().prop_map(Op::Remove),
        8 => keys().prop_map(Op::Get),
        8 => keys().prop_map(Op::Contains),
        16 => (keys(), values()).prop_map(|(key, value)| Op::Update(key, value)),
        4 => (bounds(), bounds(), any::<bool>()).prop_map(|(low, high, back)| Op::Range(low, high, back)),
        1 => (bounds(), bounds()).prop_map(|(low, high)| Op::RemoveRange(low, high)),
        1 => Just(Op::Clear),
    ]
}

type Model = BTreeMap<String, Vec<u8>>;

fn apply(tx: &mut objects::Tx, map: Map<String, Vec<u8>>, model: &mut Model, op: &Op) -> Result<()> {
    match op {
        Op::Insert(key, value) => assert_eq!(map.insert(tx, key, value)?, model.insert(key.clone(), value.clone())),
        Op::Remove(key) => assert_eq!(map.remove(tx, key)?, model.remove(key)),
        Op::Get(key) => assert_eq!(map.get(tx, key)?.as_ref(), model.get(key)),
        Op::Contains(key) => assert_eq!(map.contains_key(tx, key)?, model.contains_key(key)),
        Op::Update(key, value) => {
            let change = |old: Option<Vec<u8>>| match old {
                Some(old) if old.is_empty() => None,
                Some(old) => Some(old[..old.len() / 2].to_vec()),
                None => Some(value.clone()),
            };
            map.update(tx, key, change)?;
            if let Some(new) = change(model.remove(key)) {
                model.insert(key.clone(), new);
            }
        }
        Op::RemoveRange(low, high) => {
            let range = (low.clone(), high.clone());
            let before = model.len();
            model.retain(|key, _| !std::ops::RangeBounds::contains(&range, key));
            assert_eq!(map.remove_range::<_, String>(tx, range)?, before - model.len());
        }
        Op::Clear => {
            map.clear(tx)?;
            model.clear();
        }
        Op::Range(low, high, back) => {
            let range = (low.clone(), high.clone());
            let cursor = map.range::<String>(range.clone());
            let got = if *back { cursor.backwards() } else { cursor }.collect(tx)?;
            // The standard library panics where a range is upside down; ours is empty.
            let inside = |key: &String| std::ops::RangeBounds::contains(&range, key);
            let mut expected: Vec<_> = model.clone().into_iter().filter(|(key, _)| inside(key)).collect();
            if *back {
                expected.reverse();
            }
            assert_eq!(got, expected);
        }
    }
    Ok(())
}

fn check_whole(tx: &mut objects::Tx, map: Map<String, Vec<u8>>, model: &Model) -> Result<()> {
    assert_eq!(map.iter().collect(tx)?, model.clone().into_iter().collect::<Vec<_>>());
    assert_eq!(map.len(tx)?, model.len());
    assert_eq!(map.is_empty(tx)?, model.is_empty());
    assert_eq!(map.first(tx)?, model.first_key_value().map(|(k, v)| (k.clone(), v.clone())));
    assert_eq!(map.last(tx)?, model.last_key_value().map(|(k, v)| (k.clone(), v.clone())));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Transactions of random operations, some of them aborted: the map is the standard library's map.
    #[test]
    fn behaves_like_a_btree_map(
        transactions in proptest::collection::vec((proptest::collection::vec(ops(), 1..60), any::<bool>()), 1..12),
    ) {
        let db = Db::in_memory().unwrap();
        let map: Map<String, Vec<u8>> = db.transact(|tx| tx.map("map")).unwrap();
        let mut model = Model::new();
        for (ops, commit) in transactions {
            let mut after = model.clone();
            let ran = db.transact(|tx| {
                after.clone_from(&model);
                ops.iter().try_for_each(|op| apply(tx, map, &mut after, op))?;
                check_whole(tx, map, &after)?;
                if commit { Ok(()) } else { Err(Error::application("abort")) }
            });
            prop_assert_eq!(ran.is_ok(), commit);
            if commit {
                model = after;
            }
            db.transact(|tx| check_whole(tx, map, &model)).unwrap();
        }
    }
}

/// Two transactions that are open at the same time: both commit, the first time they are tried.
#[test]
fn inserts_into_different_leaves_do_not_conflict() {
    let db = Db::in_memory().unwrap();
    let map: Map<u32, u32> = db.transact(|tx| tx.map("numbers")).unwrap();
    db.transact(|tx| (0..1_000).try_for_each(|n| map.insert(tx, &(n * 10), &n).map(drop))).unwrap();
    let (mut outer, mut inner) = (0, 0);
    db.transact(|tx| {
        outer += 1;
        map.insert(tx, &5, &5)?;
        elsewhere(|| {
            db.transact(|other| {
                inner += 1;
                map.insert(other, &9_005, &5)
            })
        })?;
        map.insert(tx, &15, &15)
    })
    .unwrap();
    assert_eq!((outer, inner), (1, 1), "tries");
    assert_eq!(db.transact(|tx| map.len(tx)).unwrap(), 1_003);
}

/// The counterpart: a scan has read where another inserts, so it is doomed, sees so at its next step, and runs again.
#[test]
fn a_scan_sees_no_phantoms() {
    let db = Db::in_memory().unwrap();
    let map: Map<u32, u32> = db.transact(|tx| tx.map("numbers")).unwrap();
    db.transact(|tx| (0..100).try_for_each(|n| map.insert(tx, &(n * 10), &n).map(drop))).unwrap();
    let (mut tries, mut doomed) = (0, false);
    let count = db
        .transact(|tx| {
            tries += 1;
            let count = map.range(0..500).collect(tx)?.len();
            if tries == 1 {
                elsewhere(|| db.transact(|other| map.insert(other, &255, &0)))?;
                doomed = matches!(map.get(tx, &0), Err(Error::Doomed));
            }
            map.insert(tx, &10_000, &(count as u32))?;
            Ok(count)
        })
        .unwrap();
    assert_eq!((tries, doomed, count), (2, true, 51));
}

#[test]
fn a_key_that_is_too_long_is_refused() {
    let db = Db::in_memory().unwrap();
    let map: Map<String, String> = db.transact(|tx| tx.map("texts")).unwrap();
    let error = db.transact(|tx| map.insert(tx, &"x".repeat(1_100), &String::new())).unwrap_err();
    assert!(matches!(error, Error::KeyTooLong(1_102)), "{error}");
}

/// An action of a transaction between the steps of a cursor. Large values are objects of their own, which go with them.
#[derive(Clone, Debug)]
enum Between {
    Step,
    Insert(u32, usize),
    Remove(u32),
}

fn betweens() -> impl Strategy<Value = Between> {
    let bytes = prop_oneof![3 => 0..100usize, 1 => 300..600usize, 1 => 3_000..4_000usize];
    prop_oneof![
        3 => Just(Between::Step),
        2 => (0..200u32, bytes).prop_map(|(key, bytes)| Between::Insert(key, bytes)),
        2 => (0..200u32).prop_map(Between::Remove),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Each step of a cursor gives the next entry that there is, whatever has come and gone ahead of it and behind it.
    #[test]
    fn a_cursor_sees_what_is_there(
        keys in proptest::collection::btree_set(0..200u32, 0..120),
        betweens in proptest::collection::vec(betweens(), 1..120),
        backwards: bool,
    ) {
        let db = Db::in_memory().unwrap();
        db.transact(|tx| {
            let map: Map<u32, Vec<u8>> = tx.map("numbers")?;
            let mut model = BTreeMap::new();
            for &key in &keys {
                model.insert(key, vec![key as u8; key as usize * 20]);
                map.insert(tx, &key, &model[&key])?;
            }
            let mut cursor = if backwards { map.range(20..180).backwards() } else { map.range(20..180) };
            let (mut low, mut high) = (20, 180);
            for between in &betweens {
                match *between {
                    Between::Step if backwards => {
                        let expected = model.range(low..high).next_back().map(|(key, value)| (*key, value.clone()));
                        high = expected.as_ref().map_or(high, |(key, _)| *key);
                        assert_eq!(cursor.next(tx)?, expected);
                    }
                    Between::Step => {
                        let expected = model.range(low..high).next().map(|(key, value)| (*key, value.clone()));
                        low = expected.as_ref().map_or(low, |(key, _)| key + 1);
                        assert_eq!(cursor.next(tx)?, expected);
                    }
                    Between::Insert(key, bytes) => {
                        let value = vec![key as u8 ^ 1; bytes];
                        assert_eq!(map.insert(tx, &key, &value)?, model.insert(key, value));
                    }
                    Between::Remove(key) => assert_eq!(map.remove(tx, &key)?, model.remove(&key)),
                }
            }
            Ok(())
        }).unwrap();
    }
}

#[test]
fn a_cursor_of_another_transaction_is_refused() {
    let db = Db::in_memory().unwrap();
    let map: Map<u32, u32> = db.transact(|tx| tx.map("numbers")).unwrap();
    db.transact(|tx| (0..10).try_for_each(|key| map.insert(tx, &key, &key).map(drop))).unwrap();
    let mut cursor = map.iter();
    assert_eq!(db.transact(|tx| cursor.next(tx)).unwrap(), Some((0, 0)));
    let error = db.transact(|tx| cursor.next(tx)).unwrap_err();
    assert!(matches!(error, Error::CursorOfAnother), "{error}");
    let other = Db::in_memory().unwrap();
    assert!(matches!(other.transact(|tx| cursor.next(tx)), Err(Error::CursorOfAnother)));
}
