//! Spaces keep names and objects apart within one store; all else they share.

use crate::raw::{read, write};
use crate::scratch::{Scratch, elsewhere};
use crate::server::{Redirector, Server};
use database::{Config, Database, block_on};
use objects::{Anywhere, Caller, Db, Error, Map, ObjectId, Ref, references};
use std::sync::Barrier;
use types::limits::SPACES_MAX;
use types::{CATALOG_SPACE, PageId};

/// Returns the root `who` a value of its own.
fn sign(db: &Db, value: &str) -> Ref<String> {
    let sign = |tx: &mut objects::Tx| {
        let object = tx.create(Anywhere, &value.to_owned())?;
        tx.set_root("who", object)?;
        Ok(object)
    };
    db.transact(sign).unwrap()
}

fn who(db: &Db) -> Option<String> {
    db.transact(|tx| tx.root("who")?.map(|object| tx.get(object)).transpose()).unwrap()
}

fn names(db: &Db) -> Vec<String> {
    db.spaces().unwrap().into_iter().map(|space| space.name).collect()
}

/// `main` and `plans` are on one store.
fn are_apart(main: &Db, plans: &Db) {
    assert_eq!((who(main), who(plans)), (None, None));
    sign(plans, "plans");
    assert_eq!((who(main), who(plans).as_deref()), (None, Some("plans")));
    let (in_main, in_plans) = (sign(main, "main"), sign(plans, "plans again"));
    assert_eq!((who(main).as_deref(), who(plans).as_deref()), (Some("main"), Some("plans again")));
    assert_eq!((in_main.id().page.space, in_plans.id().page.space), (0, 1));
    let map = |db: &Db| db.transact(|tx| tx.map::<u32, String>("map")).unwrap();
    let (of_main, of_plans) = (map(main), map(plans));
    assert_ne!(of_main, of_plans);
    main.transact(|tx| of_main.insert(tx, &1, &"main".to_owned())).unwrap();
    assert_eq!(plans.transact(|tx| of_plans.get(tx, &1)).unwrap(), None);
    plans.transact(|tx| tx.remove_root("who")).unwrap();
    assert_eq!((who(main).as_deref(), who(plans)), (Some("main"), None));
    assert_eq!((names(main), names(plans)), (vec!["main".into(), "plans".into()], vec!["main".into(), "plans".into()]));
}

#[test]
fn names_are_apart_in_memory_and_in_a_directory() {
    let scratch = Scratch::new();
    for main in [Db::in_memory().unwrap(), scratch.open()] {
        are_apart(&main, &main.space("plans").unwrap());
        main.close().unwrap();
    }
    let plans = Scratch::builder().space("plans").create(false).open(scratch.path()).unwrap();
    assert_eq!(who(&plans), None);
    assert_eq!(who(&plans.space("main").unwrap()).as_deref(), Some("main"));
    plans.close().unwrap();
}

#[test]
fn names_are_apart_behind_a_server_and_in_a_group() {
    for with_group in [false, true] {
        let scratch = Scratch::new();
        let server = Server::start(&scratch);
        let redirector = with_group.then(|| Redirector::start(&server));
        let address = redirector.as_ref().map_or(server.address, |redirector| redirector.address);
        are_apart(&Db::connect(address).unwrap(), &Db::builder().space("plans").connect(address).unwrap());
        let awaited = block_on(Db::builder().space("plans").create(false).connect_async(address));
        assert_eq!(who(&awaited.unwrap()), None);
    }
}

#[test]
fn spaces_are_there_when_the_store_is_opened_again() {
    let scratch = Scratch::new();
    let db = scratch.open();
    for number in 0..40 {
        sign(&db.space(&format!("space-{number}")).unwrap(), &number.to_string());
    }
    let spaces = db.spaces().unwrap();
    db.close().unwrap();
    let db = Scratch::builder().create(false).open(scratch.path()).unwrap();
    assert_eq!(db.spaces().unwrap(), spaces);
    for number in 0..40 {
        assert_eq!(who(&db.space(&format!("space-{number}")).unwrap()), Some(number.to_string()));
    }
    db.close().unwrap();
}

#[test]
fn clients_that_make_a_space_at_once_make_one() {
    const CLIENTS: usize = 8;
    for with_group in [false, true] {
        let scratch = Scratch::new();
        let server = Server::start(&scratch);
        let redirector = with_group.then(|| Redirector::start(&server));
        let address = redirector.as_ref().map_or(server.address, |redirector| redirector.address);
        let start = Barrier::new(CLIENTS);
        let space_of = |client: usize| {
            let db = Db::connect(address).unwrap();
            start.wait();
            // Each makes one with the others, and one of its own.
            let ours = sign(&db.space("ours").unwrap(), "all").id().page.space;
            (ours, sign(&db.space(&format!("own-{client}")).unwrap(), "one").id().page.space)
        };
        let made: Vec<(u32, u32)> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(move || space_of(client))).collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let mut numbers: Vec<u32> = made.iter().map(|(_, own)| *own).chain([made[0].0]).collect();
        numbers.sort_unstable();
        assert!(made.iter().all(|(ours, _)| *ours == made[0].0), "{made:?}");
        assert_eq!(numbers, (1..=CLIENTS as u32 + 1).collect::<Vec<_>>());
    }
}

#[test]
fn a_space_that_is_not_there_is_refused_and_not_made() {
    let scratch = Scratch::new();
    scratch.open().close().unwrap();
    let refused = |name: &str| Scratch::builder().space(name).create(false).open(scratch.path()).unwrap_err();
    let error = refused("plans");
    assert!(matches!(&error, Error::NoSuchSpace(name) if name == "plans"), "{error}");
    assert_eq!(error.caller(), Some(Caller::Correct));
    let error = refused("no name");
    assert!(matches!(&error, Error::SpaceName(name) if name == "no name"), "{error}");
    let db = scratch.open();
    assert_eq!(names(&db), ["main"]);
    assert!(matches!(db.space("7"), Err(Error::SpaceName(_))));
    assert!(matches!(db.transact(|_| db.space("plans")), Err(Error::Nested)));
    for number in 1..SPACES_MAX {
        db.space(&format!("n{number}")).unwrap();
    }
    assert!(matches!(db.space("one-more"), Err(Error::TooManySpaces)));
    db.space("n7").unwrap();
    db.close().unwrap();
    // A bad name is refused before anything is made or opened.
    let bare = Scratch::new();
    assert!(matches!(Db::builder().space("").open(bare.path()), Err(Error::SpaceName(_))));
    assert!(!bare.path().exists());
}

/// The one that looks has the catalog in its cache, and may not have learned of the change.
#[test]
fn a_space_is_found_as_soon_as_another_client_has_made_it() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let looking = Db::builder().create(false).connect(server.address).unwrap();
    let making = Db::connect(server.address).unwrap();
    for number in 0..20 {
        let name = format!("n{number}");
        assert!(matches!(looking.space(&name), Err(Error::NoSuchSpace(_))));
        elsewhere(|| making.space(&name)).unwrap();
        looking.space(&name).unwrap();
    }
    // The catalog comes with the session, and a name that is in it needs no proof.
    let stats = Db::builder().space("n0").create(false).connect(server.address).unwrap().stats();
    assert_eq!((stats.fetches, stats.commit_requests), (1, 0), "{stats:?}");
}

#[test]
fn a_transaction_reaches_several_spaces_and_commits_in_all() {
    let scratch = Scratch::new();
    let main = scratch.open();
    let plans = main.space("plans").unwrap();
    let plan = sign(&plans, "a shed");
    let link = main.transact(|tx| tx.create(Anywhere, &plan)).unwrap();
    // By a handle on one space, an object of the other; what is near it lies with it, a map and its leaves, too.
    let (note, notes) = main
        .transact(|tx| {
            let plan = tx.get(link)?;
            tx.put(plan, &"a larger shed".to_owned())?;
            let notes: Map<u32, String> = Map::create(tx, plan)?;
            (0..200).try_for_each(|key| notes.insert(tx, &key, &"note ".repeat(100)).map(drop))?;
            Ok((tx.create(plan, &1_u8)?, notes))
        })
        .unwrap();
    assert_eq!((note.id().page.space, notes.id().page.space), (1, 1));
    assert_eq!(who(&plans).as_deref(), Some("a larger shed"));
    let error = main.transact(|tx| {
        let plan = tx.get(link)?;
        tx.put(plan, &"no shed".to_owned())?;
        tx.set_root("who", plan)?;
        Err::<(), _>(Error::application("never mind"))
    });
    assert!(matches!(error, Err(Error::Application(_))));
    assert_eq!((who(&main), who(&plans).as_deref()), (None, Some("a larger shed")));
    // A root may name an object of another space; deleted there, it is gone here.
    main.transact(|tx| tx.set_root("who", plan)).unwrap();
    assert_eq!(who(&main).as_deref(), Some("a larger shed"));
    plans.transact(|tx| tx.delete(plan)).unwrap();
    assert!(matches!(main.transact(|tx| tx.get(plan)), Err(Error::NoSuchObject(_))));
    main.close().unwrap();
}

/// All of a large object lies in the object's space, whichever handle it was written by.
#[test]
fn a_large_object_lies_in_one_space() {
    let scratch = Scratch::new();
    let main = scratch.open();
    let plans = main.space("plans").unwrap();
    let small = plans.transact(|tx| tx.create_bytes(Anywhere, b"small")).unwrap();
    let written = [vec![1; 300_000], vec![2; 900_000]];
    let beside = main.transact(|tx| tx.create_bytes(small, &written[0])).unwrap();
    for bytes in &written {
        main.transact(|tx| tx.put_bytes(small, bytes)).unwrap();
    }
    main.close().unwrap();
    let database = Database::open(scratch.path(), &Config::default()).unwrap();
    for (object, chunks) in [(beside, 5), (small, 15)] {
        let mut parts = Vec::new();
        references(&read(&database, object.id()).unwrap(), &mut |head| parts.push(head));
        let list = read(&database, parts[0]).unwrap();
        // The format of parts: a byte, then the ids of the chunks.
        parts.extend(list[1..].chunks_exact(10).map(|id| {
            let number = |at: usize| u32::from_le_bytes(id[at..at + 4].try_into().unwrap());
            ObjectId::new(PageId::new(number(0), number(4)), u16::from_le_bytes([id[8], id[9]]))
        }));
        assert_eq!(parts.len(), 1 + chunks);
        assert!(parts.iter().all(|part| part.page.space == 1), "{parts:?}");
    }
    database.close().unwrap();
}

/// The catalog is a slot that any client can write.
#[test]
fn a_catalog_that_is_none_is_refused_and_the_main_space_is_not() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let hostile = Database::connect(&server.address.to_string(), &Config::default()).unwrap();
    let catalog = ObjectId::root(CATALOG_SPACE);
    let twice = [1, 1, 0, 0, 0, 1, b'x', 2, 0, 0, 0, 1, b'x'];
    for (bytes, why) in [(&twice[..], "have one name"), (&[1, 9], "ends within a space"), (&[], "is empty")] {
        write(&hostile, catalog, bytes);
        let error = Db::builder().space("x").connect(server.address).unwrap_err();
        assert!(
            matches!(&error, Error::Damaged { object, what, .. } if *object == catalog && what.contains(why)),
            "{error}"
        );
        assert_eq!(error.caller(), Some(Caller::Repair));
        let main = Db::connect(server.address).unwrap();
        assert!(main.spaces().is_err());
        sign(&main, "main");
    }
    write(&hostile, catalog, &[2]);
    let error = Db::builder().space("x").connect(server.address).unwrap_err();
    assert!(matches!(&error, Error::Open(text) if text.contains("in format 2")), "{error}");
    // A page that is full of something else has no room for the catalog.
    write(&hostile, catalog, &[1]);
    for slot in 1..40 {
        write(&hostile, ObjectId::new(catalog.page, slot), &[7; 1000]);
    }
    for slot in 40..120 {
        write(&hostile, ObjectId::new(catalog.page, slot), &[7; 10]);
    }
    let error = Db::connect(server.address).unwrap().space(&"n".repeat(64)).unwrap_err();
    assert!(matches!(&error, Error::Damaged { what, .. } if what.contains("something else")), "{error}");
}
