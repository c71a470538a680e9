//! The names of what a transaction has read, by which other caches know what they depend on.

use objects::{Anywhere, Db, Map, OBJECTS_NAMED_MAX, Ref, Tx};
use std::collections::BTreeSet;

type Words = Map<u32, String>;

fn names(tx: &Tx) -> objects::Result<BTreeSet<String>> {
    Ok(tx.names_read()?.into_iter().collect())
}

#[test]
fn an_object_is_named_whether_it_is_there_or_not() {
    let db = Db::in_memory().unwrap();
    let [first, second] = [1, 2].map(|n: u32| db.transact(|tx| tx.create(Anywhere, &n)).unwrap());
    let read = |object: Ref<u32>| {
        db.transact(|tx| {
            let _ = tx.get(object);
            names(tx)
        })
    };
    assert_eq!(read(first).unwrap(), [first.id().name()].into());
    db.transact(|tx| tx.delete(second)).unwrap();
    assert_eq!(read(second).unwrap(), [second.id().name()].into());
    assert_eq!(db.transact(|tx| names(tx)).unwrap(), BTreeSet::new());
}

/// A writer names what it writes, as it has read it. So whatever changes what a reader has seen has a name in common
/// with it.
#[test]
fn what_changes_a_search_has_a_name_that_the_search_has() {
    let db = Db::in_memory().unwrap();
    let open = |tx: &mut Tx| tx.map::<u32, String>("words");
    let fill = |tx: &mut Tx| (0..500).try_for_each(|n| open(tx)?.insert(tx, &(2 * n), &format!("word {n}")).map(drop));
    db.transact(fill).unwrap();
    let insert = |key: u32| {
        db.transact(|tx| {
            open(tx)?.insert(tx, &key, &"new".to_owned())?;
            names(tx)
        })
    };
    let search = |look: &dyn Fn(&Words, &mut Tx) -> objects::Result<()>| {
        db.transact(|tx| {
            let words = open(tx)?;
            look(&words, tx)?;
            names(tx)
        })
    };
    for key in [1, 499, 997] {
        let absent = search(&|words, tx| words.get(tx, &key).map(|found| assert_eq!(found, None))).unwrap();
        let range = search(&|words, tx| words.range(key..key + 2).collect(tx).map(drop)).unwrap();
        let elsewhere = search(&|words, tx| words.get(tx, &((key + 500) % 1000)).map(drop)).unwrap();
        let inserted = insert(key).unwrap();
        assert!(!inserted.is_disjoint(&absent), "{key}: {inserted:?}, {absent:?}");
        assert!(!inserted.is_disjoint(&range), "{key}: {inserted:?}, {range:?}");
        assert_ne!(absent, elsewhere);
    }
}

#[test]
fn many_objects_of_a_page_are_named_by_their_page() {
    let db = Db::in_memory().unwrap();
    let first = db.transact(|tx| tx.create(Anywhere, &0_u32)).unwrap();
    let near = |tx: &mut Tx| (0..2 * OBJECTS_NAMED_MAX as u32).map(|n| tx.create(first, &n)).collect();
    let near: Vec<Ref<u32>> = db.transact(near).unwrap();
    let all = |tx: &mut Tx| near.iter().map(|&object| tx.get(object)).sum::<objects::Result<u32>>();
    let read = db.transact(|tx| {
        all(tx)?;
        names(tx)
    });
    assert_eq!(read.unwrap(), [first.id().page.name()].into());
}
