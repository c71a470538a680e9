//! Watchers at a node of a store of two: shard 0 is at the node, shard 1 at its peer.

use crate::driver::{Driver, txn};
use crate::moves::leaving_from;
use crate::nodes::{LINK, OWN, PEER, link, opened, opened_leased, page};
use crate::watch::{hello, intents, lease, transactions};
use messages::{
    Abandoned, Among, CloseShard, Placement, Prepare, Promise, Release, Resume, ToClient, ToNode, Verdict, Vote, WATCH,
};
use std::time::Duration;
use store::SessionId;
use types::{Opening, Shard, Vector, Version};

const OPENED: [(Shard, Opening); 1] = [(Shard(0), Opening(1))];

/// A watcher that has no lease yet. Returns what the node has said about the shards.
fn join_watcher(driver: &mut Driver, session: SessionId) -> Placement {
    driver.store.connected(driver.now, session);
    driver.say(session, hello(session.0, WATCH));
    driver.say(session, Resume { horizon: Version::ZERO.into(), pages: vec![], grants: vec![], last: true, missed: 0 });
    driver.run();
    let told = driver.take(session);
    let [ToClient::Welcome(welcome), ToClient::Placement(placement), ToClient::Resumed(_)] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!((welcome.features, welcome.node), (WATCH, OWN));
    placement.clone()
}

/// A node that has outlasted the leases of its own earlier life, and a watcher that has a lease there.
fn watched() -> (Driver, SessionId) {
    let mut driver = opened_leased();
    driver.pass(Duration::from_secs(3));
    watch(driver)
}

fn watch(mut driver: Driver) -> (Driver, SessionId) {
    let watcher = SessionId(2);
    join_watcher(&mut driver, watcher);
    lease(&mut driver, watcher);
    driver.take(watcher);
    (driver, watcher)
}

#[test]
fn a_watcher_learns_where_the_shards_are_before_it_has_a_lease() {
    let mut driver = opened();
    let placement = join_watcher(&mut driver, SessionId(1));
    assert_eq!(placement.shards, [(OWN, Opening(1)), (PEER, Opening(1))]);
}

/// The peer asks its own sessions of the watcher.
#[test]
fn a_node_asks_for_the_pages_of_its_own_shards() {
    let (mut driver, watcher) = watched();
    let client = driver.join(1, 1);
    driver.said_on(LINK);
    let request = txn(1, 1).write(page(0), 0, 0, b"new").write(page(1), 0, 0, b"new");
    driver.say(client, request.message());
    driver.hear(LINK, ToNode::Vote(Vote::prepared(request.0.txn, Vector::new())));
    driver.run();
    let asked = intents(&driver.take(watcher));
    assert_eq!(asked.len(), 1);
    assert_eq!((asked[0].txn, &asked[0].pages[..]), (request.0.txn, &[(page(0), [0].into_iter().collect())][..]));
    assert_eq!(driver.outcome(client), None, "the node has not voted");
    driver.say(watcher, Promise { txn: request.0.txn });
    driver.run();
    let said = driver.said_on(LINK);
    assert!(said.iter().any(|said| matches!(said, ToNode::Decide(_))), "{said:?}");
}

/// Its coordinator has a transaction released when another master is busy. The promise for it counts no more.
#[test]
pub(crate) fn a_watcher_learns_that_a_transaction_was_released() {
    let (mut driver, watcher) = watched();
    let request = txn(7, 1).to(9).write(page(0), 1, 0, b"other").0;
    let (txn, openings) = (request.txn, OPENED.into_iter().collect());
    let prepare = Prepare { request: request.into(), among: Among::AtOnce { writes: true }, openings };
    for _ in 0..2 {
        assert!(driver.hear(LINK, prepare.clone()).is_empty(), "the vote waits for the watcher");
        assert_eq!(intents(&driver.take(watcher)).len(), 1);
        driver.say(watcher, Promise { txn });
        driver.run();
        let said = driver.said_on(LINK);
        assert!(matches!(&said[..], [ToNode::Vote(Vote { verdict: Verdict::Prepared, .. })]), "{said:?}");
        driver.hear(LINK, Release { txn });
        assert_eq!(driver.take(watcher), [Abandoned { txn }.into()]);
    }
    // So does one that waits for the promise.
    driver.hear(LINK, prepare);
    driver.hear(LINK, Release { txn });
    let told = driver.take(watcher);
    assert_eq!((transactions(&told), told.last()), (vec![1], Some(&Abandoned { txn }.into())));
}

/// Its coordinator is away and back. A vote that comes then would answer what it has asked on the new link.
#[test]
pub(crate) fn a_transaction_without_a_vote_is_released_with_the_link() {
    let (mut driver, watcher) = watched();
    let request = txn(7, 1).to(9).write(page(0), 1, 0, b"other").0;
    let (txn, openings) = (request.txn, OPENED.into_iter().collect());
    let prepare = Prepare { request: request.into(), among: Among::Alone, openings };
    assert!(driver.hear(LINK, prepare.clone()).is_empty(), "the vote waits for the watcher");
    driver.take(watcher);
    driver.store.link_is_down(driver.now, LINK);
    driver.run();
    link(&mut driver, &[]);
    driver.said_on(LINK);
    driver.say(watcher, Promise { txn });
    driver.run();
    assert_eq!(driver.said_on(LINK), []);
    assert_eq!(driver.take(watcher), [Abandoned { txn }.into()]);
}

/// The new node waits for leases that were given before the close, and for no later ones.
#[test]
pub(crate) fn a_node_that_has_closed_a_shard_gives_no_lease_before_it_has_told_its_place() {
    let mut driver = opened_leased();
    driver.pass(Duration::from_secs(3));
    let (mut driver, watcher) = watch(leaving_from(driver).0);
    driver.hear(LINK, CloseShard { shard: Shard(0) });
    assert_eq!(driver.store.closed_to_move().count(), 1);
    driver.take(watcher);
    let told = driver.ping(watcher);
    assert!(matches!(&told[..], [ToClient::Pong(_)]), "{told:?}");
    driver.store.place(driver.now, &[(Shard(0), PEER, Opening(2))]);
    driver.run();
    let told = driver.take(watcher);
    assert!(matches!(&told[..], [ToClient::Placement(_)]), "{told:?}");
    lease(&mut driver, watcher);
}
