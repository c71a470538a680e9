//! Large commits over slow lines: they take the time that the line needs for them, in one session, and no request waits
//! for them but who has asked for them.
//!
//! Silence is half a second here, a fraction of what a large commit takes.

use database::{LocalStore, Recovered};
use fixtures::Emulator;
use net::{Host, ListenConfig, Listener, Machines, Runtime, UpstreamConfig};
use objects::{Anywhere, Db, Error};
use redirector::Redirector;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use types::ClientId;

const SILENCE: Duration = Duration::from_millis(500);

/// Of the line, in bytes per second, and one way.
const RATE: u64 = 2_000_000;
const ONE_WAY: Duration = Duration::from_millis(5);

/// The large object, in bytes.
const LARGE: usize = 6 << 20;

/// The time that the line needs for it.
fn line_time() -> Duration {
    Duration::from_secs_f64(LARGE as f64 / RATE as f64)
}

struct Server {
    dir: PathBuf,
    store: LocalStore,
    address: SocketAddr,
}

impl Server {
    fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("thorp-slow-line-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let dir = std::env::temp_dir().join(name);
        let config = store::Config { silence: SILENCE, ..store::Config::default() };
        let recovered = Recovered::read(&dir, &disk::Config::default(), config, |_| {}).unwrap();
        let store = recovered.start(None, &Runtime::start().unwrap());
        let config = ListenConfig::new(messages::SERVER, ([127, 0, 0, 1], 0).into());
        let address = store.host().listen(store.role(), config).unwrap();
        Self { dir, store, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A redirector whose store is at this address, and where its members reach it.
fn redirector(store: SocketAddr) -> (Arc<Host>, SocketAddr) {
    let listener = Listener::bind(ListenConfig::new(messages::SERVER, ([127, 0, 0, 1], 0).into())).unwrap();
    let address = listener.address();
    let config = redirector::Config {
        group: "site".into(),
        address: address.to_string(),
        silence: SILENCE,
        ..redirector::Config::default()
    };
    let mut machines = Machines::new();
    let (redirector, _) = machines.add(Redirector::new(config, ClientId(0x2ED)));
    let host = Host::start(machines, &Runtime::start().unwrap());
    host.connect(redirector, UpstreamConfig::new(messages::CLIENT, store.to_string()));
    host.listen_at(redirector, listener).unwrap();
    (host, address)
}

fn line_to(address: SocketAddr) -> Emulator {
    Emulator::start(address, ONE_WAY, Some(RATE)).unwrap()
}

fn connect(address: SocketAddr) -> Db {
    Db::builder().connect_within(Duration::from_secs(10)).connect(address.to_string()).unwrap()
}

/// Commits small transactions until told to stop; gives how long each took.
fn commit_small(db: &Db, stop: &AtomicBool) -> Vec<Duration> {
    let counter = db.transact(|tx| tx.create(Anywhere, &0_u64)).unwrap();
    let mut took = Vec::new();
    while !stop.load(SeqCst) {
        let begun = Instant::now();
        db.transact(|tx| tx.get(counter).and_then(|count| tx.put(counter, &(count + 1)))).unwrap();
        took.push(begun.elapsed());
    }
    took
}

/// One client commits much over a line; in the meantime it and another client commit little.
fn commit_over(line: &Emulator, large: &Db, other: &Db) {
    let (stop, begun) = (AtomicBool::new(false), Instant::now());
    thread::scope(|scope| {
        let small = [large, other].map(|db| scope.spawn(|| commit_small(db, &stop)));
        let done = large.transact(|tx| tx.create_bytes(Anywhere, &vec![7; LARGE]));
        let took = begun.elapsed();
        stop.store(true, SeqCst);
        done.unwrap();
        assert!(took < 2 * line_time(), "{took:?} for what the line carries in {:?}", line_time());
        for small in small {
            let mut small = small.join().unwrap();
            small.sort_unstable();
            // Ten round trips and a quantum, and again as much for a machine that is busy.
            let median = small[small.len() / 2];
            assert!(small.len() > 4 && median < Duration::from_millis(270), "{small:?}");
        }
    });
    let sent = line.tally().bytes_up as usize;
    assert!(sent < LARGE + LARGE / 4, "{sent} bytes were sent: something was sent twice");
}

#[test]
fn from_a_client_to_its_store() {
    let server = Server::start();
    let line = line_to(server.address);
    let (large, other) = (connect(line.address()), connect(line.address()));
    commit_over(&line, &large, &other);
    assert_eq!((large.stats().sessions, line.tally().connections), (1, 2), "{:?}", server.store.host().tally());
}

#[test]
fn from_a_redirector_to_its_store() {
    let server = Server::start();
    let line = line_to(server.address);
    let (_redirector, address) = redirector(line.address());
    let (large, other) = (connect(address), connect(address));
    commit_over(&line, &large, &other);
    assert_eq!((large.stats().sessions, line.tally().connections), (1, 1), "{:?}", server.store.host().tally());
}

#[test]
fn from_a_member_to_its_redirector() {
    let server = Server::start();
    let (redirector, address) = redirector(server.address);
    let line = line_to(address);
    let (large, other) = (connect(line.address()), connect(address));
    commit_over(&line, &large, &other);
    assert_eq!((large.stats().sessions, line.tally().connections), (1, 1), "{:?}", redirector.tally());
}

#[test]
fn patience_ends_the_wait_and_not_the_session() {
    let server = Server::start();
    let line = line_to(server.address);
    let patience = Duration::from_millis(300);
    let db = Db::builder().patience(patience).connect(line.address().to_string()).unwrap();
    let begun = Instant::now();
    let ended = db.transact(|tx| tx.create_bytes(Anywhere, &vec![7; LARGE]));
    let took = begun.elapsed();
    assert!(matches!(ended, Err(Error::OutcomeUnknown(_))), "{ended:?}");
    assert!(took >= patience && took < line_time() / 2, "{took:?}");
    // The rest of it is still on its way, and no request waits for that.
    db.transact(|tx| tx.create(Anywhere, &1_u64)).unwrap();
    assert!(begun.elapsed() < line_time());
    assert_eq!(db.stats().sessions, 1);
}

#[test]
fn a_line_that_carries_nothing_ends_the_session() {
    let server = Server::start();
    let (client, stalled) = (std::net::TcpListener::bind("127.0.0.1:0").unwrap(), Arc::new(AtomicBool::new(false)));
    let address = client.local_addr().unwrap();
    let (to, is_stalled) = (server.address, Arc::clone(&stalled));
    // Both ends continue as they are, and between them nothing comes through any more.
    thread::spawn(move || {
        for stream in client.incoming() {
            let (near, far) = (stream.unwrap(), std::net::TcpStream::connect(to).unwrap());
            for (from, to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                let is_stalled = Arc::clone(&is_stalled);
                thread::spawn(move || relay_until(from, to, &is_stalled));
            }
        }
    });
    let db = connect(address);
    db.transact(|tx| tx.create(Anywhere, &1_u64)).unwrap();
    stalled.store(true, SeqCst);
    let begun = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| db.transact(|tx| tx.create_bytes(Anywhere, &vec![7; LARGE])).unwrap());
        while db.stats().sessions < 2 {
            assert!(begun.elapsed() < 20 * SILENCE, "the session goes on");
            thread::yield_now();
        }
        stalled.store(false, SeqCst);
    });
}

/// Passes on what comes, unless nothing should come through: then it is read no more.
fn relay_until(mut from: std::net::TcpStream, mut to: std::net::TcpStream, is_stalled: &AtomicBool) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        if is_stalled.load(SeqCst) {
            // For good: the connection stays open, and nobody reads.
            loop {
                thread::park();
            }
        }
        if to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}
