//! Transactions that the application begins and ends itself.

use crate::scratch::Scratch;
use crate::server::Server;
use objects::{Anywhere, Caller, Db, Error, Map, Ref, wait_for};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// In memory, in a directory, over a server.
fn everywhere(check: impl Fn(&Db)) {
    check(&Db::in_memory().unwrap());
    let scratch = Scratch::new();
    let db = scratch.open();
    check(&db);
    db.close().unwrap();
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    check(&Db::connect(server.address).unwrap());
}

fn value(db: &Db, object: Ref<u64>) -> u64 {
    db.transact(|tx| tx.get(object)).unwrap()
}

#[test]
fn a_commit_takes_effect_as_a_whole_and_says_its_version() {
    everywhere(|db| {
        let mut tx = db.begin().unwrap();
        let one = tx.create(Anywhere, &1_u64).unwrap();
        let far = tx.create_bytes(Anywhere, &vec![7; 300_000]).unwrap();
        let parts: Map<String, u64> = tx.map("parts").unwrap();
        parts.insert(&mut tx, "one", &1).unwrap();
        assert!(matches!(db.transact(|tx| tx.get(one)), Err(Error::NoSuchObject(_))), "not before the commit");
        let created = tx.commit().unwrap().version.expect("it has changed something");
        assert_eq!(value(db, one), 1);
        assert_eq!(db.transact(|tx| tx.get_bytes(far)).unwrap().unwrap().len(), 300_000);
        assert_eq!(db.transact(|tx| parts.get(tx, "one")).unwrap(), Some(1));

        let mut tx = db.begin().unwrap();
        tx.put(one, &2).unwrap();
        let changed = tx.commit().unwrap().version.unwrap();
        assert!(changed > created, "{changed:?} comes after {created:?}");

        let mut tx = db.begin().unwrap();
        assert_eq!(tx.get(one).unwrap(), 2);
        assert_eq!(tx.commit().unwrap().version, None, "it has only read");
        assert_eq!(db.begin().unwrap().commit().unwrap().version, None, "it has done nothing");
    });
}

#[test]
fn an_aborted_or_dropped_transaction_has_no_effect() {
    everywhere(|db| {
        let object = db.transact(|tx| tx.create(Anywhere, &1_u64)).unwrap();
        let mut tx = db.begin().unwrap();
        tx.put(object, &2).unwrap();
        assert_eq!(tx.get(object).unwrap(), 2);
        tx.abort();
        assert_eq!(value(db, object), 1);

        let mut tx = db.begin().unwrap();
        tx.put(object, &3).unwrap();
        let created = tx.create(object, &4_u64).unwrap();
        drop(tx);
        assert_eq!(value(db, object), 1);
        assert!(matches!(db.transact(|tx| tx.get(created)), Err(Error::NoSuchObject(_))));
    });
}

/// Of two that have read what the other writes, the first to commit wins; the other learns of it and can be begun
/// again.
#[test]
fn the_second_to_commit_is_told_of_the_conflict() {
    everywhere(|db| {
        let object = db.transact(|tx| tx.create(Anywhere, &1_u64)).unwrap();
        let (mut first, mut second) = (db.begin().unwrap(), db.begin().unwrap());
        for tx in [&mut first, &mut second] {
            let read = tx.get(object).unwrap();
            tx.put(object, &(read + 1)).unwrap();
        }
        first.commit().unwrap();
        let lost = second.commit().unwrap_err();
        assert!(matches!(lost, Error::Doomed | Error::Refused(_)), "{lost}");
        assert_eq!(lost.caller(), Some(Caller::Retry));
        assert_eq!(value(db, object), 2, "it has no effect");

        let mut again = db.begin().unwrap();
        let read = again.get(object).unwrap();
        again.put(object, &(read + 1)).unwrap();
        again.commit().unwrap();
        assert_eq!(value(db, object), 3);
    });
}

/// A transaction whose reads another one has changed since hears so at its next operation, and never sees a mixture.
#[test]
fn a_doomed_transaction_says_so() {
    let db = Db::in_memory().unwrap();
    let [one, two] = db.transact(|tx| Ok([tx.create(Anywhere, &1_u64)?, tx.create(Anywhere, &1_u64)?])).unwrap();
    let mut tx = db.begin().unwrap();
    assert_eq!(tx.get(one).unwrap(), 1);
    db.transact(|tx| tx.put(one, &2).and_then(|()| tx.put(two, &2))).unwrap();
    let mixed = tx.get(two);
    assert!(matches!(mixed, Err(Error::Doomed)), "{mixed:?}");
    assert!(matches!(tx.commit(), Err(Error::Doomed)));
}

#[test]
fn none_begins_when_the_database_is_closed_and_what_runs_ends() {
    let scratch = Scratch::new();
    let db = scratch.open();
    let object = db.transact(|tx| tx.create(Anywhere, &1_u64)).unwrap();
    let (mut reading, mut writing) = (db.begin().unwrap(), db.begin().unwrap());
    writing.put(object, &2).unwrap();
    let other = db.clone();
    db.close().unwrap();
    assert!(matches!(other.begin(), Err(Error::Closed)));
    assert!(matches!(other.begin_async(), Err(Error::Closed)));
    assert!(matches!(reading.get(object), Err(Error::Closed)));
    assert!(matches!(writing.commit(), Err(Error::Closed)));
    let again = scratch.open();
    assert_eq!(value(&again, object), 1);
    again.close().unwrap();
}

/// Threads begin, write and commit while another one closes: each commit that was acknowledged is there, each other one
/// hears that the database is closed or closing, and the close does not wait for those who stand still.
#[test]
fn transactions_that_begin_while_the_database_is_closing_end() {
    let scratch = Scratch::new();
    let db = scratch.open();
    let objects: Vec<Ref<u64>> = db.transact(|tx| (0..3).map(|_| tx.create(Anywhere, &0_u64)).collect()).unwrap();
    let mut still = db.begin().unwrap();
    still.put(objects[0], &u64::MAX).unwrap();
    let (committed, has_committed) = channel();
    let start = Instant::now();
    let acknowledged: Vec<u64> = thread::scope(|scope| {
        let run = |object: Ref<u64>| {
            let (db, committed) = (db.clone(), committed.clone());
            scope.spawn(move || {
                let mut acknowledged = 0;
                for count in 1.. {
                    let done = db.begin().and_then(|mut tx| {
                        tx.put(object, &count)?;
                        tx.commit()
                    });
                    match done {
                        Ok(_) => {
                            acknowledged = count;
                            committed.send(()).unwrap();
                        }
                        Err(error) => {
                            let is_closing = matches!(error.caller(), Some(Caller::Reconnect | Caller::Retry));
                            assert!(is_closing, "{error}");
                            if matches!(error, Error::Closed) {
                                return acknowledged;
                            }
                        }
                    }
                }
                unreachable!("the loop ends with the database")
            })
        };
        let running: Vec<_> = objects[1..].iter().map(|&object| run(object)).collect();
        (0..10).for_each(|_| has_committed.recv().unwrap());
        db.clone().close().unwrap();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(matches!(still.commit(), Err(Error::Closed)));
    assert!(start.elapsed() < Duration::from_secs(20), "nobody waits for patience to end");
    let again = scratch.open();
    assert_eq!(value(&again, objects[0]), 0);
    for (&object, acknowledged) in objects[1..].iter().zip(acknowledged) {
        assert!(value(&again, object) >= acknowledged, "{acknowledged} were acknowledged");
    }
    again.close().unwrap();
}

#[test]
fn none_begins_inside_of_a_closure() {
    let db = Db::in_memory().unwrap();
    let object = db.transact(|tx| tx.create(Anywhere, &1_u64)).unwrap();
    let nested = db.transact(|tx| {
        tx.get(object)?;
        db.begin().map(drop)
    });
    assert!(matches!(nested, Err(Error::Nested)));
    // The other way round they stand beside each other.
    let mut tx = db.begin().unwrap();
    db.transact(|tx| tx.put(object, &2)).unwrap();
    assert_eq!(tx.get(object).unwrap(), 2);
    tx.commit().unwrap();
}

#[test]
fn as_futures_they_do_the_same() {
    everywhere(|db| {
        wait_for(async {
            let mut tx = db.begin_async()?;
            let object = tx.create(Anywhere, &1_u64).await?;
            assert!(tx.commit().await?.version.is_some());
            let mut dropped = db.begin_async()?;
            dropped.put(object, &2).await?;
            drop(dropped.commit());
            let (mut first, mut second) = (db.begin_async()?, db.begin_async()?);
            assert_eq!(first.get(object).await?, 1, "a commit that nobody awaits is an abort");
            first.put(object, &3).await?;
            let read = second.get(object).await?;
            second.put(object, &(read + 10)).await?;
            first.commit().await?;
            assert_eq!(second.commit().await.unwrap_err().caller(), Some(Caller::Retry));
            assert_eq!(db.transact_async(async |mut tx| tx.get(object).await).await?, 3);
            Ok::<(), Error>(())
        })
        .unwrap();
    });
}
