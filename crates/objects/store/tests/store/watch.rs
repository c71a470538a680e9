//! Watchers: they learn of each change before anybody can see it, and when everybody can.

use crate::driver::{Driver, ROOT, count, invalidations, txn};
use messages::{Fetch, Hello, Intent, Ping, Promise, Resume, ToClient, ToServer, WATCH};
use std::time::Duration;
use store::{Config, SessionId};
use types::limits::WATCHERS_MAX;
use types::{ClientId, GoodbyeReason, PageId, TxnId, Version};

const LEASE: Duration = Duration::from_secs(2);

fn leased() -> Driver {
    Driver::with(Config { leased_spaces: vec![0], lease: LEASE, ..Config::default() })
}

pub(crate) fn hello(client: u64, features: u64) -> ToServer {
    ToServer::Hello(Hello { features, cluster: None, client: ClientId(client), epoch: client })
}

/// A watcher that has no lease yet.
fn join_watcher(driver: &mut Driver, session: u64) -> SessionId {
    let id = SessionId(session);
    driver.store.connected(driver.now, id);
    driver.say(id, hello(session, WATCH));
    driver.say(id, Resume { horizon: Version::ZERO.into(), pages: vec![], grants: vec![], last: true, missed: 0 });
    driver.run();
    let told = driver.take(id);
    let [ToClient::Welcome(welcome), ToClient::Resumed(_)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(welcome.features, WATCH);
    id
}

pub(crate) fn intents(messages: &[ToClient]) -> Vec<Intent> {
    let intent = |message: &ToClient| if let ToClient::Intent(intent) = message { Some(intent.clone()) } else { None };
    messages.iter().filter_map(intent).collect()
}

pub(crate) fn transactions(messages: &[ToClient]) -> Vec<u64> {
    intents(messages).iter().map(|intent| intent.txn.number).collect()
}

/// The watcher has a lease; gives what it heard before that.
pub(crate) fn lease(driver: &mut Driver, watcher: SessionId) -> Vec<ToClient> {
    driver.take(watcher);
    driver.say(watcher, Ping { nonce: 5 });
    let told = driver.take(watcher);
    let leased = told.iter().position(|message| matches!(message, ToClient::Leased(_)));
    told[..leased.unwrap_or_else(|| panic!("no lease: {told:?}"))].to_vec()
}

fn promise(driver: &mut Driver, watcher: SessionId, number: u64) {
    driver.say(watcher, Promise { txn: TxnId { client: ClientId(1), number } });
    driver.run();
}

/// A client of the store, and a watcher that has a lease.
fn beside_a_watcher() -> (Driver, SessionId, SessionId) {
    let mut driver = leased();
    let (own, watcher) = (driver.join(1, 1), join_watcher(&mut driver, 2));
    lease(&mut driver, watcher);
    driver.take(watcher);
    (driver, own, watcher)
}

#[test]
fn a_watcher_that_holds_nothing_hears_of_a_change_before_it_is_made_and_after() {
    let (mut driver, own, watcher) = beside_a_watcher();
    driver.say(own, txn(1, 1).write(ROOT, 7, 0, b"a").message());
    driver.run();
    let intent = Intent { txn: txn(1, 1).0.txn, pages: vec![(ROOT, [7].into_iter().collect())] };
    assert_eq!(driver.outcome(own), None);
    assert_eq!(intents(&driver.take(watcher)), [intent]);
    promise(&mut driver, watcher, 1);
    assert_eq!(count(&driver.outcome(own).expect("an outcome")), 1);
    driver.pass(Duration::from_millis(3));
    let told = invalidations(&driver.take(watcher));
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].txn, told[0].page, &told[0].data), (txn(1, 1).0.txn, ROOT, &None));
}

/// A redirector that has promised asks whenever those slots are read. A watcher's promise is over with the change.
#[test]
pub(crate) fn a_watcher_is_asked_for_each_commit() {
    let (mut driver, own, watcher) = beside_a_watcher();
    for number in 1..=3 {
        driver.say(own, txn(1, number).write(ROOT, 0, number - 1, b"a").message());
        driver.run();
        assert_eq!(transactions(&driver.take(watcher)), [number]);
        assert_eq!(driver.outcome(own), None);
        promise(&mut driver, watcher, number);
        assert_eq!(count(&driver.outcome(own).expect("an outcome")), number);
    }
}

#[test]
fn all_watchers_are_asked() {
    let (mut driver, own, first) = beside_a_watcher();
    let second = join_watcher(&mut driver, 3);
    lease(&mut driver, second);
    driver.say(own, txn(1, 1).write(ROOT, 0, 0, b"a").message());
    for watcher in [first, second] {
        assert_eq!(driver.outcome(own), None);
        promise(&mut driver, watcher, 1);
    }
    assert_eq!(count(&driver.outcome(own).expect("an outcome")), 1);
}

#[test]
fn a_watcher_hears_what_is_under_way_before_its_lease() {
    let mut driver = leased();
    let (own, watcher) = (driver.join(1, 1), join_watcher(&mut driver, 2));
    driver.say(own, txn(1, 1).write(ROOT, 0, 0, b"a").message());
    assert_eq!(transactions(&lease(&mut driver, watcher)), [1], "it is prepared, and not durable");
    // It does not wait for a promise, as there was no lease when it came.
    driver.run();
    assert_eq!(count(&driver.outcome(own).expect("an outcome")), 1);
    assert_eq!(transactions(&lease(&mut driver, watcher)), []);
    driver.pass(Duration::from_millis(3));
    // It hears again of a commit that waits for its promise, before it is given more.
    driver.say(own, txn(1, 2).write(ROOT, 0, 1, b"b").message());
    driver.take(watcher);
    assert_eq!(transactions(&lease(&mut driver, watcher)), [2]);
}

/// As long as it lasts, the watcher may have homes that answer without the change.
#[test]
fn the_lease_of_a_dead_watcher_is_waited_for() {
    for gone_before in [true, false] {
        let (mut driver, own, watcher) = beside_a_watcher();
        if gone_before {
            driver.hang_up(watcher);
        }
        driver.say(own, txn(1, 1).write(ROOT, 0, 0, b"a").message());
        driver.run();
        if !gone_before {
            driver.hang_up(watcher);
        }
        driver.pass(LEASE);
        assert_eq!(driver.outcome(own), None);
        driver.pass(LEASE / 50);
        assert_eq!(count(&driver.outcome(own).expect("an outcome")), 1);
    }
}

#[test]
fn a_space_that_is_not_leased_is_not_watched() {
    let (mut driver, own, watcher) = beside_a_watcher();
    driver.say(own, messages::Grant { space: 1, count: 1 });
    driver.run();
    driver.take(own);
    let page = PageId::new(1, 0);
    driver.fetch(own, page);
    assert_eq!(count(&driver.commit(own, &txn(1, 1).write(page, 0, 0, b"a"))), 1);
    driver.pass(Duration::from_millis(3));
    let told = driver.take(watcher);
    assert!(intents(&told).is_empty() && invalidations(&told).is_empty(), "{told:?}");
    // Where none is leased, there is no lease.
    let mut driver = Driver::new();
    let watcher = join_watcher(&mut driver, 2);
    let told = driver.ping(watcher);
    assert!(matches!(&told[..], [ToClient::Pong(_)]), "{told:?}");
}

/// It lives, as it asks for more of its lease, and every commit would wait for that.
#[test]
fn a_watcher_that_lives_and_never_promises_is_put_out() {
    let (mut driver, own, watcher) = beside_a_watcher();
    driver.say(own, txn(1, 1).write(ROOT, 0, 0, b"a").message());
    driver.run();
    driver.pass(LEASE / 2);
    lease(&mut driver, watcher);
    driver.pass(LEASE / 4);
    lease(&mut driver, watcher);
    assert_eq!((driver.outcome(own), driver.ended(watcher)), (None, None));
    driver.pass(LEASE / 4 + LEASE / 50);
    assert_eq!(driver.ended(watcher), Some(GoodbyeReason::Silent));
    assert_eq!(count(&driver.outcome(own).expect("an outcome")), 1);
    // Its last lease continues, as anybody's does that is gone, and then nobody's is waited for.
    for (number, waits) in [(2, true), (3, false)] {
        driver.say(own, txn(1, number).write(ROOT, 0, number - 1, b"b").message());
        driver.run();
        if waits {
            assert_eq!(driver.outcome(own), None);
            driver.pass(LEASE);
        }
        assert_eq!(count(&driver.outcome(own).expect("an outcome")), number);
    }
}

#[test]
fn there_are_so_many_watchers() {
    let mut driver = leased();
    for number in 0..WATCHERS_MAX as u64 {
        join_watcher(&mut driver, 10 + number);
    }
    let one_more = SessionId(9);
    driver.store.connected(driver.now, one_more);
    driver.say(one_more, hello(9, WATCH));
    assert_eq!(driver.ended(one_more), Some(GoodbyeReason::Full));
    driver.hang_up(SessionId(10));
    join_watcher(&mut driver, 8);
}

/// A watcher acknowledges nothing: what is remembered of changes does not wait for it.
#[test]
fn a_watcher_holds_up_no_pruning() {
    let (mut driver, own, watcher) = beside_a_watcher();
    driver.say(own, txn(1, 1).write(ROOT, 0, 0, b"a").message());
    promise(&mut driver, watcher, 1);
    driver.say(own, messages::Ack { through: Version(1).into() });
    assert_eq!(driver.store.status().pruned, Version(1).into());
}

#[test]
fn a_watcher_asks_for_nothing_else() {
    let fetch = ToServer::Fetch(Fetch { pages: vec![ROOT], at_least: Version::ZERO.into(), number: 0, follow: None });
    let held = messages::Held { page: ROOT, version: Version::ZERO };
    let resume = Resume { horizon: Version::ZERO.into(), pages: vec![held], grants: vec![], last: true, missed: 0 };
    for message in [fetch, txn(2, 1).write(ROOT, 0, 0, b"x").message(), ToServer::Resume(resume), hello(2, WATCH)] {
        let mut driver = leased();
        let watcher = join_watcher(&mut driver, 2);
        driver.say(watcher, message);
        assert_eq!(driver.ended(watcher), Some(GoodbyeReason::Malformed));
    }
}
