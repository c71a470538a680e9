//! A client and a store in one process.

use client::{Client, Created, TxnError};
use node::{Node, Output};
use protocol::Outcome;
use std::time::Duration;
use store::{Checkpoint, DiskDone, DiskWork, Opened, Store};
use types::{ClientId, ClusterId, Incarnation, Life, Time};

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
    let client = Client::new(client::Config::default(), ClientId(1));
    Node::with_store(store, Some(client))
}

#[test]
fn a_process_that_was_stopped_for_long_goes_on() {
    let mut node = embedded();
    let sessions = |node: &mut Node| node.client().expect("it has one").stats().sessions;

    node.start(Time::ZERO);
    serve(&mut node, Time::ZERO);
    assert_eq!(sessions(&mut node), 1);

    // The store looks around first, and takes the client for dead.
    let later = Time::ZERO + Duration::from_secs(60);
    node.store().expect("it has one").handle_timeout(later);
    node.settle(later);
    assert_eq!(sessions(&mut node), 2, "the session has begun anew");
}

/// A life that is told, and then lost in a crash, is one that the store never heard of itself.
#[test]
fn nobody_is_welcomed_before_the_life_is_in_the_log() {
    let mut node = embedded();
    node.start(Time::ZERO);
    node.settle(Time::ZERO);
    assert!(!node.client().expect("it has one").is_live(), "its record is not durable");
    serve(&mut node, Time::ZERO);
    assert!(node.client().expect("it has one").is_live());
}

/// Both have something to say to each other, which waits for the log, when they begin anew: it belonged to the session
/// that is gone, and whoever heard it in the next would take the other for broken, and begin anew without end.
#[test]
fn nothing_of_an_earlier_session_is_heard_in_the_next() {
    let mut node = embedded();
    node.start(Time::ZERO);
    serve(&mut node, Time::ZERO);
    let client = node.client().expect("it has one");
    let txn = client.begin();
    assert_eq!(client.create(Time::ZERO, txn, 1, None, b"a"[..].into()), Ok(Created::Wait));
    node.settle(Time::ZERO);
    let outputs: Vec<_> = std::iter::from_fn(|| node.poll_output()).collect();
    let Some(&Output::Disk(DiskWork::Append(through, _))) = outputs.last() else { panic!("a grant is logged") };

    let later = Time::ZERO + Duration::from_secs(60);
    node.client().expect("it has one").handle_timeout(later);
    node.settle(later);
    node.disk(later, DiskDone::Durable { through, log_bytes_free: 1 << 30 });
    serve(&mut node, later);
    assert_eq!(node.client().expect("it has one").stats().sessions, 2);
}

/// Carries out appends at once, as a disk that never fails.
fn serve(node: &mut Node, now: Time) {
    node.settle(now);
    while let Some(output) = node.poll_output() {
        if let Output::Disk(DiskWork::Append(through, _)) = output {
            node.disk(now, DiskDone::Durable { through, log_bytes_free: 1 << 30 });
            node.settle(now);
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
    let client = node.client().expect("it has one");
    let [commits, waits] = [client.begin(), client.begin()];
    assert_eq!(client.create(now, commits, 1, None, b"a"[..].into()), Ok(Created::Wait));
    serve(&mut node, now);
    let client = node.client().expect("it has one");
    assert!(matches!(client.create(now, commits, 1, None, b"a"[..].into()), Ok(Created::Object(_))));
    client.commit(now, commits).expect("it runs");
    node.settle(now);
    assert_eq!(node.client().expect("it has one").outcome(commits), Ok(None), "its record is not durable");

    node.stop(WHY.to_owned());
    node.settle(now);
    let outputs: Vec<_> = std::iter::from_fn(|| node.poll_output()).collect();
    assert!(outputs.iter().any(|output| matches!(output, Output::Wake(txn) if *txn == commits)), "{outputs:?}");
    let client = node.client().expect("it has one");
    assert_eq!(client.outcome(commits), Ok(Some(Outcome::Unknown)), "it may be durable");
    assert_eq!(client.check(waits), Err(stopped()));
    let later = client.begin();
    assert_eq!(client.create(now, later, 1, None, b"a"[..].into()), Err(stopped()));
    // The disk's last words, and the time that passes, change nothing.
    node.disk(now, DiskDone::Freed { log_bytes_free: 0 });
    let later = now + Duration::from_secs(60);
    node.handle_timeout(later);
    serve(&mut node, later);
    assert_eq!(node.client().expect("it has one").check(waits), Err(stopped()));
}
