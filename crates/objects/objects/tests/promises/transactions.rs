//! The promises of transactions, over one store in a directory and over a server.

use crate::relay::Relay;
use crate::scratch::{Scratch, elsewhere};
use crate::server::Server;
use machine::RoleId;
use objects::{Anywhere, Db, Error, Map, Ref, Result, Tx, wait_for};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

const ACCOUNTS: u32 = 8;
const THREADS: u32 = 4;
const TRANSFERS: u32 = 100;

fn open_accounts(db: &Db) -> Vec<Ref<i64>> {
    db.transact(|tx| (0..ACCOUNTS).map(|_| tx.create(Anywhere, &100_i64)).collect()).unwrap()
}

/// Threads move money between few accounts; each also looks at all of them, and never sees money on its way.
fn transfer_all(dbs: &[Db], accounts: &[Ref<i64>]) {
    let moved = AtomicU32::new(0);
    thread::scope(|scope| {
        for (thread, db) in dbs.iter().enumerate() {
            let moved = &moved;
            scope.spawn(move || {
                for i in 0..TRANSFERS {
                    let from = accounts[(i * 7 + thread as u32 * 3) as usize % accounts.len()];
                    let to = accounts[(i * 5 + thread as u32 + 1) as usize % accounts.len()];
                    db.transact(|tx| transfer(tx, from, to, 1)).unwrap();
                    moved.fetch_add(1, Relaxed);
                    if i % 16 == 0 {
                        assert_eq!(db.transact(|tx| sum(tx, accounts)).unwrap(), i64::from(ACCOUNTS) * 100);
                    }
                }
            });
        }
    });
    assert_eq!(moved.into_inner(), THREADS * TRANSFERS);
    assert_eq!(dbs[0].transact(|tx| sum(tx, accounts)).unwrap(), i64::from(ACCOUNTS) * 100);
}

fn transfer(tx: &mut Tx, from: Ref<i64>, to: Ref<i64>, amount: i64) -> Result<()> {
    let have = tx.get(from)?;
    tx.put(from, &(have - amount))?;
    let have = tx.get(to)?;
    tx.put(to, &(have + amount))
}

fn sum(tx: &mut Tx, accounts: &[Ref<i64>]) -> Result<i64> {
    accounts.iter().map(|&account| tx.get(account)).sum()
}

#[test]
fn transfers_by_threads_of_one_database_keep_the_sum() {
    let scratch = Scratch::new();
    let db = scratch.open();
    let accounts = open_accounts(&db);
    transfer_all(&vec![db; THREADS as usize], &accounts);
    let db = scratch.open();
    assert_eq!(db.transact(|tx| sum(tx, &accounts)).unwrap(), i64::from(ACCOUNTS) * 100);
}

#[test]
fn transfers_by_clients_of_a_server_keep_the_sum() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let dbs: Vec<Db> = (0..THREADS).map(|_| Db::connect(server.address).unwrap()).collect();
    let accounts = open_accounts(&dbs[0]);
    transfer_all(&dbs, &accounts);
    server.store.host().close(RoleId::ONLY);
}

/// Every increment counts: none is made on a value that is no longer the newest.
#[test]
fn no_update_is_lost() {
    let db = Db::in_memory().unwrap();
    let counter = db.transact(|tx| tx.create(Anywhere, &0_u64)).unwrap();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..200 {
                    db.transact(|tx| {
                        let count = tx.get(counter)?;
                        tx.put(counter, &(count + 1))
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(db.transact(|tx| tx.get(counter)).unwrap(), u64::from(THREADS) * 200);
}

/// The same with futures, on one thread and moved between threads.
#[test]
fn futures_do_the_same() {
    let db = Db::in_memory().unwrap();
    let counter = db.transact(|tx| tx.create(Anywhere, &0_u64)).unwrap();
    let work = || {
        let db = db.clone();
        async move {
            for _ in 0..100 {
                db.transact_async(async |mut tx| {
                    let count = tx.get(counter).await?;
                    tx.put(counter, &(count + 1)).await
                })
                .await
                .unwrap();
            }
        }
    };
    let threads: Vec<_> = (0..THREADS).map(|_| work()).map(|work| thread::spawn(|| wait_for(work))).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(db.transact(|tx| tx.get(counter)).unwrap(), u64::from(THREADS) * 100);
}

/// A doomed transaction says so at every step, also for what is cached, and whatever its body makes of that, only the
/// run that saw the newest state counts.
#[test]
fn a_doomed_transaction_says_so_at_every_call() {
    let db = Db::in_memory().unwrap();
    let (counter, other) = db.transact(|tx| Ok((tx.create(Anywhere, &0_u64)?, tx.create(Anywhere, &0_u64)?))).unwrap();
    let mut tries = 0;
    let seen = db
        .transact(|tx| {
            tries += 1;
            let seen = tx.get(counter)?;
            if tries == 1 {
                elsewhere(|| db.transact(|inner| inner.put(counter, &7)))?;
                assert!(matches!(tx.get(counter), Err(Error::Doomed)), "a cached read");
                assert!(matches!(tx.get(other), Err(Error::Doomed)), "a read of what did not change");
                assert!(matches!(tx.put(other, &1), Err(Error::Doomed)));
                assert!(matches!(tx.create(other, &1), Err(Error::Doomed)));
                assert!(matches!(tx.delete(other), Err(Error::Doomed)));
                assert!(matches!(tx.map::<u8, u8>("map"), Err(Error::Doomed)));
                return Ok(seen);
            }
            if tries == 2 {
                elsewhere(|| db.transact(|inner| inner.put(counter, &8)))?;
                return Err(Error::application("made of what was not the newest"));
            }
            Ok(seen)
        })
        .unwrap();
    assert_eq!((tries, seen), (3, 8));
}

/// From its second read on a value is at hand without the lock, in whatever page and beside whatever was written; with
/// all of it in the cache, and with pages leaving all the time.
#[test]
fn a_second_read_gives_the_newest_value_that_the_transaction_knows() {
    let scratch = Scratch::new();
    for db in [Db::in_memory().unwrap(), scratch.open()] {
        read_again_beside_writes(&db);
    }
}

fn read_again_beside_writes(db: &Db) {
    let value = |n: u64, turn: u64| (n + turn, vec![n as u8; 1000]);
    let objects: Vec<Ref<(u64, Vec<u8>)>> =
        db.transact(|tx| (0..1500).map(|n| tx.create(Anywhere, &value(n, 0))).collect()).unwrap();
    let numbered = || (0..).zip(objects.iter().copied());
    let look = |tx: &mut Tx, turn: u64| {
        for (n, object) in numbered() {
            let read = tx.get(object);
            match n % 100 {
                0 if turn > 1 => assert!(matches!(read, Err(Error::NoSuchObject(_))), "object {n}"),
                50 => assert_eq!(read?, value(n, turn)),
                _ => assert_eq!(read?, value(n, 0)),
            }
        }
        Ok(())
    };
    db.transact(|tx| {
        for turn in 0..4 {
            for (n, object) in numbered() {
                match n % 100 {
                    0 if turn == 2 => tx.delete(object)?,
                    50 if turn > 0 => tx.put(object, &value(n, turn))?,
                    _ => {}
                }
            }
            // The second look puts it at hand, the third finds it there.
            (0..3).try_for_each(|_| look(tx, turn))?;
        }
        Ok(())
    })
    .unwrap();
    db.transact(|tx| look(tx, 3)).unwrap();
}

/// A value in the cache is no way around the end of a transaction.
#[test]
fn a_value_at_hand_is_refused_after_the_end() {
    let db = Db::in_memory().unwrap();
    let [counter, other] = db.transact(|tx| Ok([tx.create(Anywhere, &0_u64)?, tx.create(Anywhere, &0_u64)?])).unwrap();
    let read = |tx: &mut Tx| (0..3).try_for_each(|_| tx.get(counter).and(tx.get(other)).map(drop));
    let mut tries = 0;
    db.transact(|tx| {
        tries += 1;
        read(tx)?;
        if tries == 1 {
            elsewhere(|| db.transact(|inner| inner.put(counter, &7)))?;
            assert!(matches!(tx.get(other), Err(Error::Doomed)), "what did not change");
            assert!(matches!(tx.get(counter), Err(Error::Doomed)), "what changed");
        }
        tx.get(counter)
    })
    .unwrap();
    assert_eq!(tries, 2);
    let ended = db.transact_async(async |mut tx| {
        for _ in 0..3 {
            tx.get(counter).await?;
        }
        Ok(tx)
    });
    let mut ended = wait_for(ended).unwrap();
    assert!(matches!(wait_for(ended.get(counter)), Err(Error::Ended)));
}

#[test]
fn an_aborted_transaction_leaves_no_trace() {
    let db = Db::in_memory().unwrap();
    let map: Map<u32, u32> = db.transact(|tx| tx.map("map")).unwrap();
    let mut created = None;
    let aborted = db.transact(|tx| {
        map.insert(tx, &1, &1)?;
        created = Some(tx.create(Anywhere, &1_u64)?);
        Err::<(), _>(Error::application("no"))
    });
    assert_eq!(aborted.unwrap_err().to_string(), "no");
    assert_eq!(db.transact(|tx| map.len(tx)).unwrap(), 0);
    let created = created.unwrap();
    assert!(matches!(db.transact(|tx| tx.get(created)), Err(Error::NoSuchObject(id)) if id == created.id()));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        db.transact(|tx| -> Result<()> {
            map.insert(tx, &2, &2)?;
            std::panic::resume_unwind(Box::new("in the middle of a transaction"))
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(db.transact(|tx| map.len(tx)).unwrap(), 0);
}

/// Roots that two create at once: one of them is tried again, and both are there.
#[test]
fn names_are_given_by_many_at_once() {
    let scratch = Scratch::new();
    let db = scratch.open();
    thread::scope(|scope| {
        for i in 0..THREADS {
            let db = &db;
            scope.spawn(move || {
                db.transact(|tx| {
                    let root = tx.create(Anywhere, &i)?;
                    tx.set_root(&format!("root {i}"), root)
                })
                .unwrap();
            });
        }
    });
    drop(db);
    let db = scratch.open();
    let names = db.transact(Tx::names).unwrap();
    assert_eq!(names, ["root 0", "root 1", "root 2", "root 3"]);
    db.transact(|tx| tx.remove_root("root 2")).unwrap();
    assert_eq!(db.transact(|tx| tx.root::<u32>("root 2")).unwrap(), None);
    let root = db.transact(|tx| tx.root::<u32>("root 3")).unwrap().unwrap();
    assert_eq!(db.transact(|tx| tx.get(root)).unwrap(), 3);
}

#[test]
fn a_store_that_cannot_be_opened_is_reported_in_one_line() {
    let scratch = Scratch::new();
    let db = scratch.open();
    let error = Scratch::builder().open(scratch.path()).unwrap_err().to_string();
    assert!(error.contains("in use"), "{error}");
    db.close().unwrap();
    let error = Scratch::builder().create(false).open(scratch.path().join("nothing")).unwrap_err().to_string();
    assert!(error.starts_with("there is no store in"), "{error}");
    let other = Scratch::new();
    std::fs::create_dir_all(other.path()).unwrap();
    std::fs::write(other.path().join("letter.txt"), "dear store").unwrap();
    let error = Db::open(other.path()).unwrap_err().to_string();
    assert!(error.contains("is not a store: it holds 'letter.txt'"), "{error}");
}

/// Something listens, and it is no Thorp server.
#[test]
fn another_kind_of_server_is_named_as_such() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        // A connection that is closed with something unread is reset, and the answer with it.
        stream.read_exact(&mut [0; 56]).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let error = Db::connect(address).unwrap_err().to_string();
    assert!(error.contains("is not a Thorp store") && error.ends_with("check the address and the port"), "{error}");
    answer.join().unwrap();
}

#[test]
fn a_server_that_cannot_be_reached_is_reported() {
    let text = |opened: Result<Db>| opened.unwrap_err().to_string();
    let words = |text: String, words: &[&str]| assert!(words.iter().all(|word| text.contains(word)), "{text}");
    words(text(Db::connect("store:7411,nonsense")), &["'nonsense' is not an address", "HOST:PORT"]);
    words(text(Db::builder().group("").connect("127.0.0.1:9")), &["not a name of a group"]);
    let listen = |address: &str| address.parse().unwrap();
    let eligible = |address| Db::builder().eligible(listen(address), "127.0.0.1:9");
    words(text(eligible("127.0.0.1:0").connect("127.0.0.1:9")), &["needs the group's name"]);
    words(text(eligible("0.0.0.0:0").group("site").insecure(true).connect("127.0.0.1:9")), &["members can reach"]);
    words(text(eligible("192.0.2.1:1").group("site").connect("127.0.0.1:9")), &["neither encrypted nor authenticated"]);
}

/// Every object lies in a page of its own: without reading ahead each would cost a round trip.
#[test]
fn reading_ahead_takes_one_round_trip() {
    const OBJECTS: u64 = 40;
    let scratch = Scratch::new();
    let db = scratch.open();
    let objects: Vec<_> =
        db.transact(|tx| (0..OBJECTS).map(|i| tx.create_bytes(Anywhere, &[i as u8; 8_000])).collect()).unwrap();
    db.close().unwrap();
    let db = Scratch::builder().prefetch_pages(1).open(scratch.path()).unwrap();
    db.transact(|tx| {
        tx.read_ahead(objects.iter().map(|object| object.id()))?;
        for (i, &object) in objects.iter().enumerate() {
            assert_eq!(tx.read(object, |bytes| bytes[0])?, Some(i as u8));
        }
        Ok(())
    })
    .unwrap();
    let stats = db.stats();
    assert_eq!((stats.fetches, stats.pages_fetched, stats.prefetch_hits), (1, OBJECTS, OBJECTS));
}

/// The store's answer to the fetch is the proof that the transaction's reads are current.
#[test]
fn a_transaction_that_fetched_and_only_read_commits_without_a_round_trip() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let object = Db::connect(server.address).unwrap().transact(|tx| tx.create(Anywhere, &7_u64)).unwrap();
    let asked = |db: &Db| {
        assert_eq!(db.transact(|tx| tx.get(object)).unwrap(), 7);
        let stats = db.stats();
        (stats.fetches, stats.commit_requests, stats.commits, stats.commits_fresh)
    };
    // The names are fetched with the session.
    let db = Db::connect(server.address).unwrap();
    assert_eq!(asked(&db), (2, 0, 1, 1));
    assert_eq!(asked(&db), (2, 1, 2, 1), "what is cached is proved at the store");
    let db = Db::builder().commit_fresh(false).connect(server.address).unwrap();
    assert_eq!(asked(&db), (2, 1, 1, 0));
}

/// The waiting thread reads the socket itself, and learns from nobody else that the connection has ended.
#[test]
fn a_commit_on_its_way_when_the_connection_ends_is_not_waited_for_forever() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let relay = Relay::start(server.address);
    let patience = Duration::from_millis(100);
    let db = Db::builder().patience(patience).connect(relay.address).unwrap();
    let counter = db.transact(|tx| tx.create(Anywhere, &1_u64)).unwrap();
    relay.fall_silent();
    thread::scope(|scope| {
        let commit = scope.spawn(|| db.transact(|tx| tx.put(counter, &2)));
        relay.wait_until_swallowed();
        relay.cut();
        commit.join().unwrap().unwrap_err();
    });
}

/// One of them reads the socket for all: whichever it is, no answer is left lying.
#[test]
fn threads_that_share_a_client_all_hear_their_answers() {
    let scratch = Scratch::new();
    let server = Server::start(&scratch);
    let db = Db::connect(server.address).unwrap();
    let counters: Vec<Ref<u32>> = db.transact(|tx| (0..THREADS).map(|_| tx.create(Anywhere, &0)).collect()).unwrap();
    thread::scope(|scope| {
        for &counter in &counters {
            let db = &db;
            scope.spawn(move || {
                for count in 1..=TRANSFERS {
                    db.transact(|tx| tx.put(counter, &count)).unwrap();
                }
            });
        }
    });
    for counter in counters {
        assert_eq!(db.transact(|tx| tx.get(counter)).unwrap(), TRANSFERS);
    }
}

/// A long transaction loses to short ones every time, until they let it go first.
#[test]
fn a_long_transaction_has_its_turn_among_short_ones() {
    let db = Db::in_memory().unwrap();
    let counter = db.transact(|tx| tx.create(Anywhere, &0_u64)).unwrap();
    let (stop, together) = (AtomicBool::new(false), Barrier::new(4));
    let increment = |think: Duration| {
        let add = |count: u64| {
            thread::sleep(think);
            count + 1
        };
        db.transact(|tx| tx.get(counter).and_then(|count| tx.put(counter, &add(count)))).unwrap();
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                together.wait();
                while !stop.load(SeqCst) {
                    increment(Duration::ZERO);
                }
            });
        }
        together.wait();
        let start = Instant::now();
        (0..3).for_each(|_| increment(Duration::from_millis(20)));
        let took = start.elapsed();
        stop.store(true, SeqCst);
        assert!(took < Duration::from_secs(5), "{took:?}");
    });
}
