//! Handles that are closed, and transactions that are begun where none can be.

use crate::scratch::Scratch;
use crate::server::Server;
use objects::{Anywhere, Db, Error, wait_for};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn close_frees_the_directory_and_other_handles_hear_of_it_at_once() {
    let scratch = Scratch::new();
    let db = scratch.open();
    let object = db.transact(|tx| tx.create(Anywhere, &7_u64)).unwrap();
    let (other, running) = (db.clone(), db.clone());
    let (begun, has_begun) = channel();
    let (go_on, may_go_on) = channel();
    let caught = thread::spawn(move || {
        running.transact(|tx| {
            tx.put(object, &8)?;
            begun.send(()).unwrap();
            may_go_on.recv().unwrap();
            tx.get(object)
        })
    });
    has_begun.recv().unwrap();
    let start = Instant::now();
    db.close().unwrap();
    go_on.send(()).unwrap();
    assert!(matches!(caught.join().unwrap(), Err(Error::Closed)), "what was running fails");
    assert!(matches!(other.transact(|tx| tx.get(object)), Err(Error::Closed)));
    assert!(matches!(wait_for(other.transact_async(async |mut tx| tx.get(object).await)), Err(Error::Closed)));
    let again = scratch.open();
    assert_eq!(again.transact(|tx| tx.get(object)).unwrap(), 7);
    assert!(start.elapsed() < Duration::from_secs(10), "nobody has waited for his patience to end");
    assert!(matches!(other.close(), Err(Error::Closed)));
    again.close().unwrap();
}

#[test]
fn a_connection_is_closed_for_all_its_handles() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let db = Db::connect(server.address).unwrap();
    let other = db.clone();
    db.close().unwrap();
    assert!(matches!(other.transact(objects::Tx::names), Err(Error::Closed)));
}

#[test]
fn a_transaction_inside_of_another_is_refused_at_once() {
    let db = Db::in_memory().unwrap();
    let counter = db.transact(|tx| tx.create(Anywhere, &0_u64)).unwrap();
    let start = Instant::now();
    let add = |db: &Db| {
        db.transact(|tx| {
            let count = tx.get(counter)?;
            tx.put(counter, &(count + 1))
        })
    };
    let nested = db.transact(|tx| {
        tx.get(counter)?;
        add(&db)
    });
    assert!(matches!(nested, Err(Error::Nested)));
    let inside_async = wait_for(db.transact_async(async |mut tx| {
        tx.get(counter).await?;
        add(&db)
    }));
    assert!(matches!(inside_async, Err(Error::Nested)));
    let async_inside = wait_for(db.transact_async(async |mut tx| {
        tx.get(counter).await?;
        db.transact_async(async |mut tx| tx.put(counter, &7).await).await
    }));
    assert!(matches!(async_inside, Err(Error::Nested)));
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(db.transact(|tx| tx.get(counter)).unwrap(), 0, "nothing of it has taken effect");
}

/// Beside each other, on other threads, on other databases: transactions as ever.
#[test]
fn transactions_that_are_not_inside_of_each_other_are_not_refused() {
    let (db, elsewhere) = (Db::in_memory().unwrap(), Db::in_memory().unwrap());
    let counter = db.transact(|tx| tx.create(Anywhere, &0_u64)).unwrap();
    db.transact(|tx| {
        let there = elsewhere.transact(|tx| tx.create(Anywhere, &1_u64))?;
        thread::scope(|scope| scope.spawn(|| db.transact(|tx| tx.create(Anywhere, &1_u64)).map(drop)).join().unwrap())?;
        elsewhere.transact(|tx| tx.get(there))?;
        tx.put(counter, &1)
    })
    .unwrap();
    // In one task, poll by poll in turn.
    let body = || db.transact_async(async |mut tx| tx.create(Anywhere, &1_u64).await);
    wait_for(async {
        let (mut one, mut two, mut done) = (pin!(body()), pin!(body()), [false; 2]);
        poll_fn(|context| {
            for (done, body) in
                done.iter_mut().zip([one.as_mut() as std::pin::Pin<&mut dyn Future<Output = _>>, two.as_mut()])
            {
                if !*done && let Poll::Ready(created) = body.poll(context) {
                    created.unwrap();
                    *done = true;
                }
            }
            if done == [true; 2] { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    });
    // A panic in a body leaves no trace.
    thread::scope(|scope| {
        let panicked = scope.spawn(|| {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                db.transact(|_| -> objects::Result<()> { panic!("as it should") })
            }));
            caught.unwrap_err();
            db.transact(|tx| tx.get(counter))
        });
        assert_eq!(panicked.join().unwrap().unwrap(), 1);
    });
}
