//! References to objects that were deleted: no object that came to be in their place is read or written by them.

use objects::{Anywhere, Db, Error, Map, Near, ObjectId, Ref, Result, Tx};
use serde::{Deserialize, Serialize};

/// More than there are free slots in a page.
const TRIES: usize = 1_024;

/// Creates objects until one has this place.
fn create_at(tx: &mut Tx, place: ObjectId, mut create: impl FnMut(&mut Tx, ObjectId) -> Result<ObjectId>) {
    let found = (0..TRIES).any(|_| create(tx, place).unwrap() == place);
    assert!(found, "the place of a deleted object is used again");
}

/// An object that stays, for others to lie beside: a page in which nothing is any more is not filled again before it is
/// granted again.
fn anchor(db: &Db) -> ObjectId {
    db.transact(|tx| tx.create(Anywhere, &"stays".to_owned())).unwrap().id()
}

fn is_gone<R>(result: Result<R>, place: ObjectId) {
    match result {
        Err(error @ Error::NoSuchObject(id)) => {
            assert_eq!(id, place);
            assert!(error.to_string().starts_with(&format!("object {place} is gone: it was deleted")), "{error}");
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("something was there"),
    }
}

/// Nothing is read, overwritten or deleted by a reference that dangles.
fn reaches_nothing(tx: &mut Tx, gone: Ref<String>) {
    let place = gone.id();
    is_gone(tx.get(gone), place);
    is_gone(tx.put(gone, &"overwritten".to_string()), place);
    is_gone(tx.put(gone, &"overwritten".repeat(20_000)), place);
    is_gone(tx.put_bytes(gone, b"overwritten"), place);
    is_gone(tx.delete(gone), place);
    assert_eq!(tx.get_bytes(gone).unwrap(), None);
    assert_eq!(tx.read(gone, <[u8]>::len).unwrap(), None);
}

#[test]
fn a_reference_does_not_reach_the_next_object_in_its_place() {
    let db = Db::in_memory().unwrap();
    for (before, after) in [(1, 1), (1, 50_000), (50_000, 1), (50_000, 50_000)] {
        let texts = ["a".repeat(before), "b".repeat(after)];
        let near = anchor(&db);
        let gone = db.transact(|tx| tx.create(near, &texts[0])).unwrap();
        db.transact(|tx| tx.delete(gone)).unwrap();
        let mut newer = None;
        db.transact(|tx| {
            create_at(tx, gone.id(), |tx, near| {
                let created = tx.create(near, &texts[1])?;
                newer = Some(created);
                Ok(created.id())
            });
            // In the transaction that created it, and in another one.
            reaches_nothing(tx, gone);
            Ok(())
        })
        .unwrap();
        let newer = newer.unwrap();
        assert_eq!(newer.id(), gone.id());
        assert_ne!(newer, gone);
        db.transact(|tx| {
            assert_eq!(tx.get(newer)?, texts[1]);
            reaches_nothing(tx, gone);
            assert_eq!(tx.get(newer)?, texts[1]);
            Ok(())
        })
        .unwrap();
    }
}

/// The slot of an object becomes that of a map's root, of a node or large value in a map, of a part of a large object.
#[test]
fn a_reference_does_not_reach_what_has_no_references() {
    let db = Db::in_memory().unwrap();
    let map: Map<u32, Vec<u8>> = db.transact(|tx| tx.map("map")).unwrap();
    let mut gone = Vec::new();
    db.transact(|tx| {
        gone.clear();
        for _ in 0..200 {
            gone.push(tx.create(map, &"x".repeat(20))?);
        }
        Ok(())
    })
    .unwrap();
    let places: Vec<ObjectId> = gone.iter().map(|gone| gone.id()).collect();
    db.transact(|tx| gone.iter().try_for_each(|&gone| tx.delete(gone))).unwrap();
    db.transact(|tx| {
        for number in 0..200 {
            map.insert(tx, &number, &vec![0; 10 * number as usize])?;
        }
        // Its head lies near it.
        tx.create_bytes(places[0], &vec![0; 200_000])?;
        Map::<u8, u8>::create(tx, places[0])?;
        Ok(())
    })
    .unwrap();
    db.transact(|tx| {
        for &gone in &gone {
            reaches_nothing(tx, gone);
        }
        for number in 0..200 {
            assert_eq!(map.get(tx, &number)?, Some(vec![0; 10 * number as usize]));
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn the_handle_of_a_deleted_map_does_not_reach_the_next_one() {
    let db = Db::in_memory().unwrap();
    let near = anchor(&db);
    let gone: Map<u32, u32> = db.transact(|tx| Map::create(tx, near)).unwrap();
    db.transact(|tx| tx.delete(gone.root())).unwrap();
    let mut newer = gone;
    db.transact(|tx| {
        create_at(tx, gone.id(), |tx, near| {
            newer = Map::create(tx, near)?;
            Ok(newer.id())
        });
        newer.insert(tx, &1, &1)
    })
    .unwrap();
    db.transact(|tx| {
        is_gone(gone.get(tx, &1), gone.id());
        is_gone(gone.insert(tx, &1, &2), gone.id());
        is_gone(gone.remove(tx, &1), gone.id());
        is_gone(gone.len(tx), gone.id());
        is_gone(gone.first(tx), gone.id());
        assert_eq!(newer.iter().collect(tx)?, [(1, 1)]);
        Ok(())
    })
    .unwrap();
}

/// A map keeps its identity when it grows over many nodes, and when it is one leaf again.
#[test]
fn a_map_that_grows_and_shrinks_is_still_the_same() {
    let db = Db::in_memory().unwrap();
    let map: Map<u32, Vec<u8>> = db.transact(|tx| Map::create(tx, Anywhere)).unwrap();
    db.transact(|tx| (0..500).try_for_each(|n| map.insert(tx, &n, &vec![1; 100]).map(drop))).unwrap();
    assert_eq!(db.transact(|tx| map.len(tx)).unwrap(), 500);
    db.transact(|tx| (0..500).try_for_each(|n| map.remove(tx, &n).map(drop))).unwrap();
    assert!(db.transact(|tx| map.is_empty(tx)).unwrap());
}

/// References are the same when they were kept: in a value, in a key, by a name, in text.
#[test]
fn a_reference_that_was_kept_is_as_good_as_new() {
    #[derive(Serialize, Deserialize)]
    struct Holder {
        part: Ref<String>,
        parts: Map<Ref<String>, u32>,
    }
    let db = Db::in_memory().unwrap();
    let (holder, part) = db
        .transact(|tx| {
            let part = tx.create(Anywhere, &"hub".to_string())?;
            let parts = Map::create(tx, part)?;
            parts.insert(tx, &part, &7)?;
            tx.set_root("part", part)?;
            Ok((tx.create(part, &Holder { part, parts })?, part))
        })
        .unwrap();
    let written = serde_json::to_string(&part).unwrap();
    let read: Ref<String> = serde_json::from_str(&written).unwrap();
    db.transact(|tx| {
        let Holder { part: kept, parts } = tx.get(holder)?;
        let (key, _) = parts.first(tx)?.expect("one was put in");
        let named = tx.root("part")?.expect("it has a name");
        for reference in [kept, key, named, read] {
            assert_eq!(reference, part);
            assert_eq!(tx.get(reference)?, "hub");
        }
        assert_eq!(parts.get(tx, &part)?, Some(7));
        Ok(())
    })
    .unwrap();
    db.transact(|tx| tx.delete(part)).unwrap();
    db.transact(|tx| {
        create_at(tx, part.id(), |tx, near| Ok(tx.create(near.near(), &"rim".to_string())?.id()));
        let Holder { part: kept, parts } = tx.get(holder)?;
        let (key, _) = parts.first(tx)?.expect("one was put in");
        let named = tx.root("part")?.expect("it has a name");
        for reference in [kept, key, named, read] {
            reaches_nothing(tx, reference);
        }
        Ok(())
    })
    .unwrap();
}
