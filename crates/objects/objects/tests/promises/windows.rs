//! Large objects through caches of every size: the page that a read needs next stays until it was read, and none is
//! fetched again and again.

use crate::scratch::Scratch;
use crate::server::Server;
use objects::{Anywhere, Db, Ref, Result};
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

const KIB: usize = 1 << 10;

fn value(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i / 251) as u8 ^ (i as u8).wrapping_mul(31)).collect()
}

/// Reads an object with a cold cache of this size; gives how many pages came, and by how many fetches.
fn read(address: SocketAddr, cache_bytes: usize, prefetch_pages: u32, object: Ref<[u8]>, bytes: usize) -> (u64, u64) {
    let db = Db::builder().cache_bytes(cache_bytes).prefetch_pages(prefetch_pages).connect(address).unwrap();
    // A client asks for the page that every application reads first when it connects. It is not of this reading, and
    // has come when the root has been read.
    assert_eq!(db.transact(|tx| tx.root::<u8>("none")).unwrap(), None);
    let before = db.stats();
    assert!(db.transact(|tx| tx.get_bytes(object)).unwrap() == Some(value(bytes)));
    let after = db.stats();
    (after.pages_fetched - before.pages_fetched, after.fetches - before.fetches)
}

/// Runs a test that may not come to its end where that is what it finds.
fn within(limit: Duration, test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = channel();
    let running = thread::spawn(move || {
        test();
        // The one who waits may have given up.
        let _ = done.send(());
    });
    let in_time = is_done.recv_timeout(limit).is_ok() || running.is_finished();
    assert!(in_time, "it has not come to its end within {limit:?}");
    running.join().unwrap();
}

#[test]
fn a_large_object_is_fetched_once_through_any_cache() {
    within(Duration::from_secs(120), || {
        let scratch = Scratch::new();
        let server = Server::start_with(&scratch, 6 << 20);
        let db = Db::connect(server.address).unwrap();
        for bytes in [241 * KIB, 4096 * KIB] {
            let object = db.transact(|tx| tx.create_bytes(Anywhere, &value(bytes))).unwrap();
            let (pages, _) = read(server.address, 64 << 20, 0, object, bytes);
            for cache_bytes in [0, 1, 64 * KIB, 100 * KIB, 256 * KIB, 1024 * KIB, 3000 * KIB, 64 << 20] {
                for prefetch_pages in [0, 16] {
                    let (fetched, fetches) = read(server.address, cache_bytes, prefetch_pages, object, bytes);
                    let most = pages + pages / 5;
                    assert!(
                        fetched <= most && fetches <= most,
                        "{bytes} bytes with a cache of {cache_bytes} and prefetching {prefetch_pages}: {pages} pages, \
                         {fetched} fetched by {fetches} fetches",
                    );
                }
            }
        }
    });
}

/// Small objects, too, and what is said to be read ahead: none drives out what the transaction is about to read.
#[test]
fn reading_ahead_fetches_no_page_twice() {
    within(Duration::from_secs(120), || {
        let scratch = Scratch::new();
        let server = Server::start(&scratch);
        let db = Db::connect(server.address).unwrap();
        let create = |bytes: usize| db.transact(|tx| tx.create_bytes(Anywhere, &value(bytes)));
        let objects: Vec<Ref<[u8]>> = (0..60).map(|i| create(5_000 + i * 400).unwrap()).collect();
        for cache_bytes in [0, 30 * KIB, 200 * KIB, 64 << 20] {
            let client = Db::builder().cache_bytes(cache_bytes).connect(server.address).unwrap();
            client
                .transact(|tx| {
                    for window in objects.chunks(12) {
                        tx.read_ahead(window.iter().map(|object| object.id()))?;
                        window.iter().try_for_each(|&object| tx.get_bytes(object).map(drop))?;
                    }
                    Ok(())
                })
                .unwrap();
            let fetched = client.stats().pages_fetched;
            assert!(fetched <= 60 + 60 / 5, "a cache of {cache_bytes}: {fetched} pages for 60");
        }
    });
}

/// Two that read at the same time through a cache which has no room for either do not drive each other's pages out.
#[test]
fn two_readers_share_a_cache_that_is_too_small() {
    within(Duration::from_secs(120), || {
        let scratch = Scratch::new();
        let server = Server::start_with(&scratch, 6 << 20);
        let db = Db::builder().cache_bytes(64 * KIB).connect(server.address).unwrap();
        let create = || db.transact(|tx| tx.create_bytes(Anywhere, &value(1000 * KIB)));
        let objects: Vec<Ref<[u8]>> = (0..4).map(|_| create().unwrap()).collect();
        let before = db.stats().pages_fetched;
        thread::scope(|scope| {
            let read = |object| {
                move |db: &Db| -> Result<bool> {
                    db.transact(|tx| tx.read(object, |v| v.len() == 1000 * KIB)).map(|same| same == Some(true))
                }
            };
            let readers: Vec<_> = objects
                .iter()
                .map(|&object| {
                    scope.spawn({
                        let db = &db;
                        move || read(object)(db)
                    })
                })
                .collect();
            for reader in readers {
                assert!(reader.join().unwrap().unwrap());
            }
        });
        let fetched = db.stats().pages_fetched - before;
        assert!(fetched <= 4 * 18 + 4 * 18 / 5, "{fetched} pages for four objects of 18");
    });
}
