//! A group's promise counts for the commits that follow soon.

use crate::driver::{Driver, ROOT, count, txn};
use crate::groups::join_group;
use messages::{Intent, Ping, Promise, Released, ToClient};
use store::{Config, SessionId};
use types::{ClientId, TxnId};

/// A client of the store, and a group that has promised for its first commit, of slot 0.
fn beside_a_promise() -> (Driver, SessionId, SessionId) {
    let mut driver = Driver::with(Config { leased_spaces: vec![0], ..Config::default() });
    let group = join_group(&mut driver, 9, 100, &[ROOT]);
    let own = driver.join(1, 1);
    renew(&mut driver, group);
    driver.say(own, txn(1, 1).write(ROOT, 0, 0, b"a").message());
    promise(&mut driver, group, 1);
    assert_eq!(count(&driver.outcome(own).expect("an outcome")), 1);
    driver.ping(group);
    // That was more of its lease: it promises once more.
    driver.say(own, txn(1, 2).write(ROOT, 0, 1, b"b").message());
    assert_eq!(intents(&driver.take(group)).len(), 1);
    promise(&mut driver, group, 2);
    assert_eq!(count(&driver.outcome(own).expect("an outcome")), 2);
    (driver, own, group)
}

/// The group is given more of its lease; gives what it is told before that.
fn renew(driver: &mut Driver, group: SessionId) -> Vec<Intent> {
    driver.take(group);
    driver.say(group, Ping { nonce: 5 });
    let told = driver.take(group);
    let leased = told.iter().position(|message| matches!(message, ToClient::Leased(_))).expect("a lease");
    intents(&told[..leased])
}

fn intents(messages: &[ToClient]) -> Vec<Intent> {
    let intents = messages.iter().filter_map(|message| match message {
        ToClient::Intent(intent) => Some(intent.clone()),
        _ => None,
    });
    intents.collect()
}

fn promise(driver: &mut Driver, group: SessionId, number: u64) {
    driver.say(group, Promise { txn: TxnId { client: ClientId(1), number } });
    driver.run();
}

#[test]
fn a_commit_that_follows_and_changes_no_more_need_not_wait() {
    let (mut driver, own, group) = beside_a_promise();
    assert_eq!(count(&driver.commit(own, &txn(1, 3).write(ROOT, 0, 2, b"c"))), 3);
    assert!(intents(&driver.take(group)).is_empty());
    // Another slot was not promised.
    driver.say(own, txn(1, 4).write(ROOT, 1, 3, b"c").message());
    assert_eq!(intents(&driver.take(group)).len(), 1);
    promise(&mut driver, group, 4);
    assert_eq!(count(&driver.outcome(own).expect("an outcome")), 4);
}

#[test]
pub(crate) fn more_of_the_lease_ends_what_was_promised() {
    let (mut driver, own, group) = beside_a_promise();
    renew(&mut driver, group);
    driver.say(own, txn(1, 3).write(ROOT, 0, 2, b"c").message());
    driver.run();
    assert_eq!(driver.outcome(own), None);
    // A promise that the group is asked for before it is given more counts for the commit that waits, and for no other.
    assert_eq!(renew(&mut driver, group).len(), 1);
    promise(&mut driver, group, 3);
    assert_eq!(count(&driver.outcome(own).expect("an outcome")), 3);
    driver.say(own, txn(1, 4).write(ROOT, 0, 3, b"d").message());
    driver.run();
    assert_eq!(driver.outcome(own), None);
}

/// One that counts on a promise is told like any other when the promise ends.
#[test]
fn a_commit_that_counts_on_a_promise_is_told_before_it_ends() {
    let (mut driver, own, group) = beside_a_promise();
    driver.say(own, txn(1, 3).write(ROOT, 0, 2, b"c").message());
    let told = renew(&mut driver, group);
    assert_eq!(
        told.iter().map(|intent| intent.txn.number).collect::<Vec<_>>(),
        [3],
        "it is prepared, and not durable yet"
    );
}

#[test]
pub(crate) fn a_page_that_the_group_lets_go_of_is_promised_anew() {
    let (mut driver, own, group) = beside_a_promise();
    driver.say(group, Released { pages: vec![ROOT] });
    driver.fetch(group, ROOT);
    driver.say(own, txn(1, 3).write(ROOT, 0, 2, b"c").message());
    driver.run();
    assert_eq!(driver.outcome(own), None);
}
