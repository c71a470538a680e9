//! A client and a store in one process.

use client::{Client, Created, TxnError};
use machine::{Event, Node, RoleId, Said};
use messages::Outcome;
use std::time::Duration;
use store::{Checkpoint, DiskDone, DiskWork, Opened, Position, Store};
use types::{ClientId, ClusterId, Incarnation, Life, Time};

const STORE: RoleId = RoleId(0);
const CLIENT: RoleId = RoleId(1);

fn embedded() -> Node {
    let opened = Opened {
        cluster: ClusterId(1),
        incarnation: Incarnation(1),
        life: Life(1),
        checkpoint: Checkpoint::default(),
        pages: Vec::new(),
        log_bytes_free: 1 << 30,
    };
    let store = Store::new(store::Config::default(), opened);
    let mut node = Node::new();
    assert_eq!(node.add(store), STORE);
    assert_eq!(node.add(Client::new(client::Config::default(), ClientId(1))), CLIENT);
    node.link(CLIENT, STORE);
    node
}

fn client(node: &mut Node) -> &mut Client {
    node.find_mut().expect("it has one")
}

/// The actions that the machines want done now.
fn wanted(node: &mut Node, now: Time) -> Vec<Said> {
    std::iter::from_fn(|| node.poll(now)).map(|(_, said)| said).collect()
}

#[test]
fn a_process_that_was_stopped_for_long_goes_on() {
    let mut node = embedded();
    let sessions = |node: &mut Node| client(node).stats().sessions;

    node.start(Time::ZERO);
    serve(&mut node, Time::ZERO);
    assert_eq!(sessions(&mut node), 1);

    // The store looks around first, and takes the client for dead.
    let later = Time::ZERO + Duration::from_secs(60);
    node.tell(later, STORE, Event::Timeout);
    wanted(&mut node, later);
    assert_eq!(sessions(&mut node), 2, "the session has begun again");
}

/// A life that is told, and then lost in a crash, is one that the store never learned of itself.
#[test]
fn nobody_is_welcomed_before_the_life_is_in_the_log() {
    let mut node = embedded();
    node.start(Time::ZERO);
    let started = wanted(&mut node, Time::ZERO);
    assert!(!client(&mut node).is_live(), "its record is not durable");
    serve_all(&mut node, started, Time::ZERO);
    assert!(client(&mut node).is_live());
}

/// Both have something to say to each other, which waits for the log, when they begin again: it belonged to the session
/// that is gone, and an end that heard it in the next would take the other for broken, and begin again without end.
#[test]
fn nothing_of_an_earlier_session_is_heard_in_the_next() {
    let mut node = embedded();
    node.start(Time::ZERO);
    serve(&mut node, Time::ZERO);
    let txn = client(&mut node).begin();
    assert_eq!(client(&mut node).create(Time::ZERO, txn, 1, None, b"a"[..].into()), Ok(Created::Wait));
    let outputs = wanted(&mut node, Time::ZERO);
    let through = outputs.last().and_then(appended).expect("a grant is logged");

    let later = Time::ZERO + Duration::from_secs(60);
    node.tell(later, CLIENT, Event::Timeout);
    let outputs = wanted(&mut node, later);
    node.tell(later, STORE, durable(through));
    serve_all(&mut node, outputs, later);
    serve(&mut node, later);
    assert_eq!(client(&mut node).stats().sessions, 2);
}

/// The position of the record that should be appended, if that is what is wanted.
fn appended(said: &Said) -> Option<Position> {
    let Said::Disk(work) = said else { return None };
    match work.get() {
        Some(&DiskWork::Append(position, _)) => Some(position),
        _ => None,
    }
}

fn durable(through: Position) -> Event {
    Event::Disk(machine::DiskDone::new(DiskDone::Durable { through, log_bytes_free: 1 << 30 }))
}

/// Carries out appends at once, as a disk that never fails.
fn serve(node: &mut Node, now: Time) {
    let outputs = wanted(node, now);
    serve_all(node, outputs, now);
}

fn serve_all(node: &mut Node, outputs: Vec<Said>, now: Time) {
    let mut outputs = std::collections::VecDeque::from(outputs);
    while let Some(said) = outputs.pop_front() {
        if let Some(through) = appended(&said) {
            node.tell(now, STORE, durable(through));
            outputs.extend(wanted(node, now));
        }
    }
}

#[test]
fn a_disk_that_fails_ends_every_transaction_at_once() {
    const WHY: &str = "cannot sync the log: Input/output error";
    let (mut node, now) = (embedded(), Time::ZERO);
    let stopped = || TxnError::Stopped(WHY.to_owned());
    node.start(now);
    serve(&mut node, now);
    let [commits, waits] = [(); 2].map(|()| client(&mut node).begin());
    assert_eq!(client(&mut node).create(now, commits, 1, None, b"a"[..].into()), Ok(Created::Wait));
    serve(&mut node, now);
    assert!(matches!(client(&mut node).create(now, commits, 1, None, b"a"[..].into()), Ok(Created::Object(_))));
    client(&mut node).commit(now, commits).expect("it runs");
    wanted(&mut node, now);
    assert_eq!(client(&mut node).outcome(commits), Ok(None), "its record is not durable");

    node.stop(WHY);
    let outputs = wanted(&mut node, now);
    assert!(outputs.iter().any(|said| matches!(said, Said::Wake(waiter) if *waiter == commits.into())), "{outputs:?}");
    let client = client(&mut node);
    assert_eq!(client.outcome(commits), Ok(Some(Outcome::Unknown)), "it may be durable");
    assert_eq!(client.check(waits), Err(stopped()));
    let later = client.begin();
    assert_eq!(client.create(now, later, 1, None, b"a"[..].into()), Err(stopped()));
    // The disk's last words, and the time that passes, change nothing.
    node.tell(now, STORE, Event::Disk(machine::DiskDone::new(DiskDone::Freed { log_bytes_free: 0 })));
    let later = now + Duration::from_secs(60);
    node.handle_timeout(later);
    serve(&mut node, later);
    assert_eq!(self::client(&mut node).check(waits), Err(stopped()));
}
