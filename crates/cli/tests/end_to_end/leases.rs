//! Leases by real clocks: one that a store gave before it was killed counts for the store that is started in its place,
//! however that is configured.

use crate::groups::{counter, eventually, get, put};
use crate::program::{Folder, program, serve_with, thorp};
use fixtures::{Process, lasting_address};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use thorp::Db;

/// How long the first store's leases last.
const LEASE: Duration = Duration::from_millis(2500);

/// The time that may come on top for a commit that waits for them: a clock that runs faster, and the load of a busy
/// machine.
const SLACK: Duration = Duration::from_secs(2);

/// How long a reader waits for its redirector's store before it tries again.
const PATIENCE: Duration = Duration::from_millis(300);

/// A line to an address that can go dead: messages arrive no more, and neither end is told.
struct Line {
    address: SocketAddr,
    is_dead: Arc<(Mutex<bool>, Condvar)>,
}

impl Line {
    fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, is_dead) = (listener.local_addr().unwrap(), Arc::default());
        let line = Self { address, is_dead: Arc::clone(&is_dead) };
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                await_life(&is_dead);
                // A peer that is not there is not reached.
                let Ok(far) = TcpStream::connect(to) else { continue };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let is_dead = Arc::clone(&is_dead);
                    thread::spawn(move || carry(from, to, &is_dead));
                }
            }
        });
        line
    }

    fn set_dead(&self, is_dead: bool) {
        *self.is_dead.0.lock().unwrap() = is_dead;
        self.is_dead.1.notify_all();
    }
}

fn await_life(is_dead: &(Mutex<bool>, Condvar)) {
    drop(is_dead.1.wait_while(is_dead.0.lock().unwrap(), |is_dead| *is_dead).unwrap());
}

fn carry(mut from: TcpStream, mut to: TcpStream, is_dead: &(Mutex<bool>, Condvar)) {
    let mut buffer = [0; 4096];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        await_life(is_dead);
        if to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    await_life(is_dead);
    // Either end may have continued its own.
    let _ = to.shutdown(Shutdown::Both);
}

fn start(folder: &Folder, listen: SocketAddr, leased: &[&str]) -> Process {
    serve_with(folder, &[&["--listen", &listen.to_string()], leased].concat())
}

fn start_redirector(store: SocketAddr) -> Process {
    program().group("site", store, &[]).unwrap().until("leads", "site").unwrap()
}

/// Transactions that the redirector has judged without asking the store.
fn validated(redirector: &Process) -> u64 {
    let told = thorp(["status", "--json", &redirector.address().to_string()]).ok();
    let told: Value = serde_json::from_str(&told).unwrap();
    told["counts"][0]["validated"].as_u64().unwrap_or_else(|| panic!("{told}"))
}

/// The values that a reader has seen, and when it began to look.
type Seen = Vec<(Instant, u64)>;

/// The group is cut off from its store, and continues reading under its lease. The store is killed and started again,
/// and somebody else changes what is read: that is acknowledged when nobody reads the old value any more, and not later
/// than the lease wants it.
#[track_caller]
fn a_lease_outlives_its_store(configured_then: &[&str]) {
    let (folder, listen) = (Folder::new(), lasting_address().unwrap());
    let mut store = start(&folder, listen, &["--leased", "0", "--lease-ms", &LEASE.as_millis().to_string()]);
    let line = Line::start(listen);
    let redirector = start_redirector(line.address);
    let reader = Db::builder().patience(PATIENCE).connect(redirector.address()).unwrap();
    let counter = counter(&reader);
    put(&reader, counter, 1);
    eventually("the group reads under a lease", || get(&reader, counter) == 1 && validated(&redirector) > 0);

    line.set_dead(true);
    store.kill().unwrap();
    let (is_over, seen) = (AtomicBool::new(false), Mutex::<Seen>::default());
    let (ready, committed) = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                let begun = Instant::now();
                // When its lease is over the redirector asks the store, which it does not reach.
                if let Ok(value) = reader.transact(|tx| tx.get(counter)) {
                    seen.lock().unwrap().push((begun, value));
                }
            }
        });
        store = start(&folder, listen, configured_then);
        let ready = Instant::now();
        eventually("the group reads in the meantime", || {
            seen.lock().unwrap().last().is_some_and(|(begun, _)| *begun > ready)
        });
        put(&Db::connect(listen).unwrap(), counter, 2);
        let committed = Instant::now();
        line.set_dead(false);
        let has_heard = || seen.lock().unwrap().last().is_some_and(|(_, value)| *value == 2);
        eventually("the group hears of it", has_heard);
        is_over.store(true, SeqCst);
        (ready, committed)
    });
    let took = committed - ready;
    println!("a store started again with {configured_then:?}: a commit after {took:?}");
    let stale: Vec<_> =
        seen.into_inner().unwrap().into_iter().filter(|(begun, value)| *begun > committed && *value < 2).collect();
    assert_eq!(stale, [], "read after the change was acknowledged");
    assert!(took < LEASE + SLACK, "a commit waited for {took:?}");
}

#[test]
fn a_store_that_is_started_again_with_shorter_leases_waits_for_the_older_ones() {
    a_lease_outlives_its_store(&["--leased", "0", "--lease-ms", "50"]);
}

#[test]
fn a_store_that_is_started_again_without_leases_waits_for_the_older_ones() {
    a_lease_outlives_its_store(&[]);
}
