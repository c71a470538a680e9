//! Leases: which commits wait for which groups, and for how long.

use crate::driver::{Driver, count, txn};
use crate::groups::join_group;
use messages::{Promise, ToClient};
use std::time::Duration;
use store::{Config, SessionId};
use types::{ClientId, PageId, TxnId};

const ROOT: PageId = PageId::new(0, 0);
const LEASE: Duration = Duration::from_secs(2);

fn leased() -> Driver {
    Driver::with(Config { leased_spaces: vec![0], lease: LEASE, ..Config::default() })
}

/// A client of the store, and a group that has a lease on what it holds.
fn beside_a_leased_group(driver: &mut Driver) -> [SessionId; 2] {
    let sessions = [driver.join(1, 1), join_group(driver, 2, 100, &[ROOT])];
    assert!(is_leased(&driver.ping(sessions[1])));
    sessions
}

fn is_leased(messages: &[ToClient]) -> bool {
    messages.iter().any(|message| matches!(message, ToClient::Leased(_)))
}

/// Asks for a commit that a lease is in the way of, and says whether it waits.
fn waits(driver: &mut Driver, from: SessionId, number: u64) -> bool {
    driver.say(from, txn(1, number).write(ROOT, 0, 0, b"x").message());
    still_waits(driver, from)
}

fn still_waits(driver: &mut Driver, from: SessionId) -> bool {
    driver.run();
    let outcome = driver.outcome(from);
    outcome.is_none_or(|outcome| {
        assert_eq!(count(&outcome), 1);
        false
    })
}

#[test]
fn a_commit_waits_for_a_promise() {
    let mut driver = leased();
    let [own, g] = beside_a_leased_group(&mut driver);
    assert!(waits(&mut driver, own, 1));
    assert!(driver.take(g).iter().any(|message| matches!(message, ToClient::Intent(_))));
    driver.say(g, Promise { txn: TxnId { client: ClientId(1), number: 1 } });
    assert!(!still_waits(&mut driver, own));
}

/// The store's clock may be the faster one: by its holder's the lease may still last when it is over here.
#[test]
pub(crate) fn a_lease_is_counted_longer() {
    let mut driver = leased();
    let [own, _] = beside_a_leased_group(&mut driver);
    assert!(waits(&mut driver, own, 1));
    driver.pass(LEASE + Duration::from_millis(39));
    assert!(still_waits(&mut driver, own));
    driver.pass(Duration::from_millis(1));
    assert!(!still_waits(&mut driver, own));
}

/// Its redirector may not know yet that its session is gone: before the commit came, or while it waits.
#[test]
pub(crate) fn a_lease_outlives_its_session() {
    for gone_before in [true, false] {
        let mut driver = leased();
        let [own, g] = beside_a_leased_group(&mut driver);
        if gone_before {
            driver.hang_up(g);
        }
        assert!(waits(&mut driver, own, 1));
        if !gone_before {
            driver.hang_up(g);
        }
        driver.pass(LEASE);
        assert!(still_waits(&mut driver, own));
        driver.pass(LEASE / 50);
        assert!(!still_waits(&mut driver, own));
    }
}

/// Nor that the store was started again, which knows of no lease that was given before.
#[test]
pub(crate) fn a_lease_outlives_the_store() {
    let mut driver = leased();
    beside_a_leased_group(&mut driver);
    driver.crash();
    let own = driver.join(3, 1);
    assert!(waits(&mut driver, own, 1));
    driver.pass(LEASE);
    assert!(still_waits(&mut driver, own));
    driver.pass(LEASE / 50);
    assert!(!still_waits(&mut driver, own));
}

/// Judged already, it could not be judged again: nobody may change what it has read before it commits.
#[test]
pub(crate) fn the_reads_of_a_waiting_commit_are_not_written() {
    let mut driver = leased();
    let [own, g] = beside_a_leased_group(&mut driver);
    driver.say(own, txn(1, 1).read(ROOT, 1, 0).write(ROOT, 0, 0, b"x").message());
    let other = driver.join(3, 3);
    driver.say(other, txn(3, 1).read(ROOT, 2, 0).write(ROOT, 1, 0, b"y").message());
    driver.run();
    // Its own promise would let it continue, if it were its turn.
    for client in [3, 1] {
        driver.say(g, Promise { txn: TxnId { client: ClientId(client), number: 1 } });
        driver.run();
        assert_eq!(driver.outcome(other), None);
    }
    assert!(!still_waits(&mut driver, own));
}

/// As long as it had none it was not asked for promises.
#[test]
pub(crate) fn a_group_that_gets_a_lease_hears_of_what_is_about_to_change() {
    let mut driver = leased();
    let (own, g) = (driver.join(1, 1), join_group(&mut driver, 2, 100, &[ROOT]));
    driver.run();
    driver.say(own, txn(1, 1).write(ROOT, 0, 0, b"x").message());
    driver.take(g);
    driver.say(g, messages::Ping { nonce: 1 });
    let told = driver.take(g);
    let intent = told.iter().position(|message| matches!(message, ToClient::Intent(_)));
    let lease = told.iter().position(|message| matches!(message, ToClient::Leased(_)));
    assert!(intent.is_some() && intent < lease, "{told:?}");
}
