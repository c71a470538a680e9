//! A panic of whatever thread ends the host, and no request waits for it in vain.

mod common;

use client::{Client, TxnError, Write};
use common::{
    At, MemoryDisk, PATIENCE, Raw, begin, connect_impatient, embedded, object, put, put_surely, runtime, store, wait,
};
use machine::Disk;
use messages::Outcome;
use net::{Host, HostEnd, ListenConfig};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::task::{Wake, Waker};
use std::thread;
use store::{DiskDone, DiskWork, Record, Store};
use types::ClientId;

/// A disk that panics where it is told to.
struct Panicking {
    disk: Arc<MemoryDisk>,
    at: AtomicU8,
}

const NOWHERE: u8 = 0;
/// At the next commit's record: the node's lock is held.
const SUBMIT: u8 = 1;
/// At the next flush, outside of the lock.
const FLUSH: u8 = 2;
/// At the record with which write-back begins, by the clock: on the thread that keeps the time.
const TIMER: u8 = 3;
/// When a thread of the disk's own gives the node what it has done, and the node wants more.
const REPORT: u8 = 4;

thread_local! {
    /// Whether this is a thread of the disk's own.
    static IS_DISKS: Cell<bool> = const { Cell::new(false) };
}

impl Panicking {
    fn new() -> Arc<Self> {
        Arc::new(Self { disk: MemoryDisk::new(), at: AtomicU8::new(NOWHERE) })
    }

    fn panic_at(&self, at: u8) {
        self.at.store(at, SeqCst);
    }
}

impl Disk for Panicking {
    type Work = DiskWork;
    type Done = DiskDone;

    fn submit(&self, work: DiskWork) -> bool {
        let is_commit = matches!(work, DiskWork::Append(_, Record::Commit(_)));
        let is_append = matches!(work, DiskWork::Append(..));
        let at = self.at.load(SeqCst);
        assert!(!is_commit || at != SUBMIT, "in the middle of an event");
        assert!(!is_append || is_commit || at != TIMER, "in the middle of a timeout");
        assert!(!IS_DISKS.get() || at != REPORT, "in the middle of a report");
        self.disk.submit(work)
    }

    fn flush(&self, done: &mut dyn FnMut(DiskDone)) -> bool {
        assert!(self.at.load(SeqCst) != FLUSH, "in the middle of a flush");
        self.disk.flush(done)
    }

    fn on_done(&self, done: Box<dyn Fn(DiskDone) + Send + Sync>) {
        self.disk.on_done(Box::new(move |work| {
            IS_DISKS.set(true);
            done(work);
        }));
    }

    fn on_failed(&self, failed: Box<dyn Fn(&str) + Send + Sync>) {
        self.disk.on_failed(failed);
    }
}

#[track_caller]
fn assert_ended(host: &Host, said: &str) {
    match host.wait_end_within(PATIENCE) {
        Some(HostEnd::Failed(why)) => assert!(why.contains(said) && why.contains("report it"), "{why}"),
        end => panic!("expected the host to have failed, got {end:?}"),
    }
    assert_eq!(host.tally().refusals["panicked"], 1);
}

/// A server with this disk, a client of it that has committed, and another session.
fn serve(disk: &Arc<Panicking>) -> (At<Store>, At<Client>, Raw) {
    let server = At::with_disk(store(), disk.clone(), &runtime());
    let address = server.listen(ListenConfig::new(messages::SERVER, "127.0.0.1:0".parse().unwrap())).unwrap();
    let host = connect_impatient(address);
    put_surely(&host, 1, b"x");
    let other = Raw::greet(address, ClientId(0x0E), 1);
    (server, host, other)
}

fn assert_ended_for_all(server: &Host, host: &Host, mut other: Raw, said: &str) {
    assert_ended(server, said);
    let (reason, text) = other.goodbye();
    assert_eq!(reason, "done");
    assert!(text.starts_with("it has stopped: ") && text.contains(said), "{text}");
    assert_eq!(host.end(), None, "another host on the same threads goes on");
}

/// On the reactor's threads, under the lock and without it: the commit that they were at is not acknowledged, other
/// sessions are told, new ones are not taken.
#[test]
fn a_panic_of_a_reader_ends_a_server() {
    for (at, said) in [(SUBMIT, "in the middle of an event"), (FLUSH, "in the middle of a flush")] {
        let disk = Panicking::new();
        let (server, host, other) = serve(&disk);
        disk.panic_at(at);
        let outcome = put(&host, 1, b"y");
        assert!(matches!(outcome, Ok(Outcome::Unknown) | Err(TxnError::Unreachable)), "{outcome:?}");
        assert_ended_for_all(&server, &host, other, said);
    }
}

/// The same on a thread of the application's, whose own store it is.
#[test]
fn a_panic_on_the_way_of_a_call_ends_an_embedded_store_and_not_the_thread() {
    for (at, said) in [(SUBMIT, "in the middle of an event"), (FLUSH, "in the middle of a flush")] {
        let disk = Panicking::new();
        let host = embedded(disk.clone(), &runtime());
        put_surely(&host, 1, b"x");
        disk.panic_at(at);
        // The flush may be that of something else, which comes before.
        assert!(matches!(put(&host, 1, b"y"), Ok(Outcome::Unknown) | Err(TxnError::Stopped(_))));
        assert_ended(&host, said);
        assert!(matches!(put(&host, 1, b"z"), Err(TxnError::Stopped(why)) if why.contains(said)));
    }
}

/// On threads that nobody's request is handled on: those who wait learn of it all the same.
#[test]
fn a_panic_of_the_timer_or_of_a_disk_thread_ends_a_server() {
    for (at, said) in [(TIMER, "in the middle of a timeout"), (REPORT, "in the middle of a report")] {
        let disk = Panicking::new();
        let (server, host, other) = serve(&disk);
        disk.panic_at(at);
        // Write-back follows this one, or is there already, and ends it.
        let _ = put(&host, 1, b"y");
        assert_ended_for_all(&server, &host, other, said);
    }
}

/// A front end's own call under the lock: what waits on another thread ends.
#[test]
fn a_panic_with_the_node_ends_it_before_anybody_goes_on() {
    let disk = MemoryDisk::new();
    let host = embedded(disk.clone(), &runtime());
    put_surely(&host, 1, b"x");
    disk.open_gate(false);
    let waiting = {
        let (host, before) = (host.clone(), disk.flushes());
        let waiting = thread::spawn(move || put(&host, 1, b"y"));
        disk.wait_flushes(before + 1);
        waiting
    };
    let panicking = host.clone();
    let panicked = thread::spawn(move || {
        let _client = panicking.lock();
        panic!("half way through a call");
    });
    panicked.join().unwrap_err();
    host.settle();
    assert_ended(&host, "among the errors of the thread that called");
    // The disk's leader comes too late.
    disk.open_gate(true);
    assert!(matches!(waiting.join().unwrap(), Ok(Outcome::Unknown)));
    assert!(matches!(put(&host, 1, b"z"), Err(TxnError::Stopped(_))));
}

/// The same by the driver: the call's own thread unwinds with its panic, and nobody calls the machine in between.
#[test]
fn a_panic_of_a_call_ends_the_machine_and_unwinds_its_thread() {
    for looks in [false, true] {
        let host = embedded(MemoryDisk::new(), &runtime());
        put_surely(&host, 1, b"x");
        let handle = host.handle();
        let panicked = thread::spawn(move || {
            if looks { handle.look(|_| panic!("half way")) } else { handle.call(|_| panic!("half way")) }
        });
        let panic = panicked.join().map(|(): ()| ()).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"half way"));
        assert_ended(&host, if looks { "among the errors of the thread that called" } else { "half way" });
        assert!(matches!(put(&host, 1, b"z"), Err(TxnError::Stopped(_))));
    }
}

struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        panic!("a waker of the application's");
    }
}

#[test]
fn a_panic_of_the_applications_waker_ends_nothing() {
    let disk = MemoryDisk::new();
    let host = embedded(disk, &runtime());
    put_surely(&host, 1, b"x");
    let (txn, bomb) = (begin(&host), Waker::from(Arc::new(Bomb)));
    wait(&host, txn, |client| {
        let written = client.write(host.now(), txn, object(1), b"y"[..].into())?;
        Ok((written != Write::Wait).then_some(()))
    })
    .unwrap();
    host.lock().machine().commit(host.now(), txn).unwrap();
    host.wake_on(txn, &bomb);
    host.wake_at(host.now(), &bomb);
    host.settle();
    let outcome = || host.lock().machine().outcome(txn).unwrap();
    let outcome = std::iter::from_fn(|| Some(outcome())).flatten().next();
    assert!(matches!(outcome, Some(Outcome::Committed { .. })), "{outcome:?}");
    put_surely(&host, 1, b"z");
    assert_eq!(host.end(), None);
}
