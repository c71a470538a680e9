//! A page of the page home is damaged: only what it holds cannot be read, and what is whole is copied out.

use crate::groups::{start_redirector, status};
use crate::program::{Folder, serve, serve_with, thorp};
use fixtures::lasting_address;
use std::fs;
use thorp::{Anywhere, Caller, Db, Ref};

/// Objects of a store, each of its own root, large enough that few share a page.
const OBJECTS: u8 = 40;

/// The one whose page is damaged.
const DAMAGED: u8 = 17;

fn value(number: u8) -> String {
    format!("object {number:03} ").repeat(250)
}

fn root(number: u8) -> String {
    format!("object-{number}")
}

fn create_all(db: &Db) -> Vec<Ref<String>> {
    let create = |tx: &mut thorp::Tx| {
        (0..OBJECTS)
            .map(|number| {
                let object = tx.create(Anywhere, &value(number))?;
                tx.set_root(&root(number), object)?;
                Ok(object)
            })
            .collect()
    };
    db.transact(create).unwrap()
}

/// Flips a bit in each copy of an object's value that the file holds.
fn damage(file: &str, number: u8) {
    let (mut bytes, telling) = (fs::read(file).unwrap(), value(number));
    let places: Vec<_> =
        (0..bytes.len() - telling.len()).filter(|&at| bytes[at..].starts_with(telling.as_bytes())).collect();
    assert!(!places.is_empty(), "the object is home");
    for &at in &places {
        bytes[at + 100] ^= 4;
    }
    fs::write(file, bytes).unwrap();
}

fn read(db: &Db, object: Ref<String>) -> thorp::Result<String> {
    db.transact(|tx| tx.get(object))
}

/// The objects that can be read. The others fail by the name of the page, and say what to do.
fn readable(db: &Db, objects: &[Ref<String>]) -> Vec<u8> {
    let whole = |number: u8| match read(db, objects[usize::from(number)]) {
        Ok(found) => {
            assert_eq!(found, value(number));
            true
        }
        Err(error) => {
            assert_eq!(error.caller(), Some(Caller::Repair), "{error}");
            let text = error.to_string();
            assert!(["page ", "home.redb", "checksum", "--salvage"].iter().all(|word| text.contains(word)), "{text}");
            false
        }
    };
    (0..OBJECTS).filter(|&number| whole(number)).collect()
}

#[test]
fn one_damaged_page_costs_what_it_holds_and_can_be_left_behind() {
    let folder = Folder::new();
    let dir = folder.file("store");
    let db = Db::open(&dir).unwrap();
    let objects = create_all(&db);
    db.close().unwrap();
    damage(&folder.file("store/home.redb"), DAMAGED);

    let mut store = serve(&folder);
    let db = Db::connect(store.address()).unwrap();
    let whole = readable(&db, &objects);
    assert!(!whole.contains(&DAMAGED) && whole.len() >= usize::from(OBJECTS) - 4, "{whole:?}");

    // The store serves others, groups and new commits, but rejects commits that change the page.
    let redirector = start_redirector(&store, &[]);
    let member = Db::connect(redirector.address()).unwrap();
    assert_eq!(readable(&member, &objects), whole);
    let other = objects[usize::from(whole[0])];
    member.transact(|tx| tx.put(other, &"changed".to_owned())).unwrap();
    db.transact(|tx| tx.put(other, &value(whole[0]))).unwrap();
    let refused = db.transact(|tx| tx.put(objects[usize::from(DAMAGED)], &"changed".to_owned())).unwrap_err();
    assert_eq!(refused.caller(), Some(Caller::Repair), "{refused}");

    // A transaction that has met it can still use other pages.
    db.transact(|tx| {
        assert!(tx.get(objects[usize::from(DAMAGED)]).is_err());
        tx.get(other)
    })
    .unwrap();

    // Operators see it.
    let status = status(store.address()).unwrap();
    assert_eq!(status["store"][0]["pages_damaged"], 1, "{status}");
    assert!(status["damaged_pages"][0]["why"].as_str().unwrap().contains("home.redb"), "{status}");
    drop(redirector);
    store.kill().unwrap();

    // The same in a store that is opened inside of a process.
    let db = Db::open(&dir).unwrap();
    assert_eq!(readable(&db, &objects), whole);
    db.close().unwrap();

    let found = thorp(["doctor", "--dir", &dir]);
    assert!(found.code == Some(1) && found.stdout.contains("--salvage"), "{found:?}");
    let new = folder.file("new");
    let salvaged = thorp(["doctor", "--dir", &dir, "--salvage", &new]).ok();
    assert!(salvaged.contains("lost: page ") && salvaged.contains("1 pages are lost"), "{salvaged}");
    assert!(thorp(["doctor", "--dir", &dir, "--salvage", &new]).error().contains("remove it"));
    thorp(["doctor", "--dir", &new]).ok();
    let db = Db::open(&new).unwrap();
    for &number in &whole {
        assert_eq!(read(&db, objects[usize::from(number)]).unwrap(), value(number));
        assert_eq!(db.transact(|tx| tx.root::<String>(&root(number))).unwrap(), Some(objects[usize::from(number)]));
    }
    // The lost ones are gone, and nothing else takes their place.
    let more = create_all(&db);
    assert!(more.iter().all(|object| !objects.contains(object)));
    assert!(matches!(read(&db, objects[usize::from(DAMAGED)]), Err(thorp::Error::NoSuchObject(_))));
    db.close().unwrap();
}

/// A client that has the page in its cache reads it, and changes it before the damage is found. That change is in the
/// log or set aside, and it is copied out.
#[test]
fn a_salvage_keeps_what_was_committed_last() {
    let folder = Folder::new();
    let listen = lasting_address().unwrap();
    let db = Db::open(folder.file("store")).unwrap();
    let objects = create_all(&db);
    db.close().unwrap();
    let mut store = serve_with(&folder, &["--listen", &listen.to_string()]);
    let db = Db::connect(listen).unwrap();
    assert_eq!(readable(&db, &objects).len(), usize::from(OBJECTS));
    store.kill().unwrap();
    damage(&folder.file("store/home.redb"), DAMAGED);

    store.start_again().unwrap();
    assert_eq!(readable(&db, &objects).len(), usize::from(OBJECTS), "it is in the cache");
    for number in [0, usize::from(DAMAGED)] {
        db.transact(|tx| tx.put(objects[number], &"committed last".to_owned())).unwrap();
    }
    store.kill().unwrap();
    let new = folder.file("new");
    let salvaged = thorp(["doctor", "--dir", &folder.file("store"), "--salvage", &new]).ok();
    assert!(salvaged.contains("but for 1 objects"), "{salvaged}");
    let db = Db::open(&new).unwrap();
    for number in [0, usize::from(DAMAGED)] {
        assert_eq!(read(&db, objects[number]).unwrap(), "committed last");
    }
}
