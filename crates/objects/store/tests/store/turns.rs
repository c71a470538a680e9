//! A commit that meets a prepared one waits its turn.

use crate::driver::{Driver, ROOT, Txn, count, invalidations, txn};
use crate::groups::join_group;
use crate::losses::increment;
use messages::{Outcome, Ping, Promise, ToClient};
use std::time::Duration;
use store::{Config, SessionId};
use types::{ClientId, Limits, Refusal, TxnId};

const LEASE: Duration = Duration::from_secs(2);

/// A store whose commits to `ROOT` wait for this group's promises, and sessions of the clients 1 to 4.
fn beside_a_leased_group(limits: Limits) -> (Driver, SessionId, [SessionId; 4]) {
    let mut driver = Driver::with(Config { limits, ..leasing() });
    let (group, clients) = group_and_clients(&mut driver);
    (driver, group, clients)
}

fn leasing() -> Config {
    Config { leased_spaces: vec![0], lease: LEASE, ..Config::default() }
}

fn group_and_clients(driver: &mut Driver) -> (SessionId, [SessionId; 4]) {
    let group = join_group(driver, 9, 100, &[ROOT]);
    driver.say(group, Ping { nonce: 1 });
    let clients = [1, 2, 3, 4].map(|number| driver.join(number, number));
    driver.run();
    (group, clients)
}

/// A client's first transaction: it writes slot 0 and has read it.
fn writer(client: u64) -> Txn {
    txn(client, 1).write(ROOT, 0, 0, b"x")
}

fn promise(driver: &mut Driver, group: SessionId, client: u64) {
    driver.say(group, Promise { txn: TxnId { client: ClientId(client), number: 1 } });
    driver.run();
}

fn is_refused_as_stale(driver: &mut Driver, session: SessionId) -> bool {
    matches!(driver.outcome(session), Some(Outcome::Refused(Refusal::Stale(_))))
}

#[test]
fn it_is_judged_when_the_one_before_has_its_place() {
    let (mut driver, group, [first, second, third, _]) = beside_a_leased_group(Limits::SHIPPED);
    driver.say(first, writer(1).read(ROOT, 1, 0).message());
    // It has read what the first writes, and will be stale; the other one writes what the first has read, and will not.
    driver.say(second, writer(2).message());
    driver.say(third, txn(3, 1).write(ROOT, 1, 0, b"y").message());
    driver.run();
    assert!([first, second, third].iter().all(|&session| driver.outcome(session).is_none()));
    promise(&mut driver, group, 1);
    assert_eq!(count(&driver.outcome(first).expect("an outcome")), 1);
    assert!(is_refused_as_stale(&mut driver, second));
    promise(&mut driver, group, 3);
    assert_eq!(count(&driver.outcome(third).expect("an outcome")), 2);
}

/// A later commit does not write what a waiting one has read, though nothing else is in its way.
#[test]
pub(crate) fn nobody_overtakes_it() {
    let (mut driver, group, [first, second, third, fourth]) = beside_a_leased_group(Limits::SHIPPED);
    driver.say(first, writer(1).read(ROOT, 1, 0).message());
    driver.say(second, txn(2, 1).read(ROOT, 2, 0).write(ROOT, 1, 0, b"y").message());
    driver.say(third, txn(3, 1).write(ROOT, 2, 0, b"z").message());
    // One that only reads what the second writes has its place before it.
    driver.say(fourth, txn(4, 1).read(ROOT, 1, 0).write(ROOT, 3, 0, b"z").message());
    promise(&mut driver, group, 3);
    promise(&mut driver, group, 4);
    assert!(driver.outcome(third).is_none());
    assert_eq!(count(&driver.outcome(fourth).expect("an outcome")), 1);
    promise(&mut driver, group, 1);
    promise(&mut driver, group, 2);
    assert_eq!(count(&driver.outcome(second).expect("an outcome")), 3);
    promise(&mut driver, group, 3);
    assert_eq!(count(&driver.outcome(third).expect("an outcome")), 4);
}

/// When its turn comes others wait for room that came later: it goes before them.
#[test]
fn nobody_overtakes_it_who_has_waited_for_room() {
    let mut driver = Driver::with(Config { mob_bytes_limit: 4000, ..leasing() });
    let (group, [first, second, third, fourth]) = group_and_clients(&mut driver);
    driver.say(first, writer(1).read(ROOT, 1, 0).message());
    driver.say(second, txn(2, 1).write(ROOT, 1, 0, b"y").message());
    driver.say(third, txn(3, 1).write(ROOT, 2, 0, &[7; 5000]).message());
    driver.say(fourth, txn(4, 1).write(ROOT, 1, 0, b"z").message());
    for client in [1, 2, 3] {
        promise(&mut driver, group, client);
    }
    assert_eq!(count(&driver.outcome(second).expect("an outcome")), 2);
    assert_eq!(count(&driver.outcome(third).expect("an outcome")), 3);
    assert!(is_refused_as_stale(&mut driver, fourth));
}

/// Nor does who comes for a place that was kept behind it, while it waits for room.
#[test]
fn nobody_comes_before_it_for_a_later_place() {
    let mut driver = Driver::with(Config { mob_bytes_limit: 4000, ..leasing() });
    let lose = |driver: &mut Driver, loser, number| {
        driver.say(loser, increment(2, number, 0).message());
        driver.run();
        assert!(is_refused_as_stale(driver, loser));
    };
    let [winner, loser, third, fourth, fifth] = [1, 2, 3, 4, 5].map(|number| driver.join(number, number));
    assert_eq!(count(&driver.commit(winner, &increment(1, 1, 0))), 1);
    for number in [1, 2] {
        lose(&mut driver, loser, number);
    }
    let group = join_group(&mut driver, 9, 100, &[ROOT]);
    driver.say(group, Ping { nonce: 1 });
    driver.run();
    driver.say(third, txn(3, 1).read(ROOT, 0, 1).write(ROOT, 1, 0, b"x").message());
    driver.say(fourth, txn(4, 1).write(ROOT, 0, 1, &[7; 2500]).message());
    lose(&mut driver, loser, 3);
    // Its place is kept. When the turn of the fourth has come, another one has taken the room.
    driver.say(fifth, txn(5, 1).write(ROOT, 2, 1, &[7; 1500]).message());
    driver.say(group, Promise { txn: TxnId { client: ClientId(3), number: 1 } });
    driver.sync();
    driver.say(loser, increment(2, 4, 1).message());
    for client in [5, 4] {
        promise(&mut driver, group, client);
    }
    assert_eq!(count(&driver.outcome(fourth).expect("an outcome")), 4);
    assert!(is_refused_as_stale(&mut driver, loser));
}

/// It lacks room when its turn has come, and then its client is gone: those behind it do not wait for that room.
#[test]
fn one_that_lacks_room_holds_up_nobody_when_its_client_is_gone() {
    let mut driver = Driver::with(Config { mob_bytes_limit: 4000, ..leasing() });
    let [first, second, third, fourth] = [1, 2, 3, 4].map(|number| driver.join(number, number));
    let group = join_group(&mut driver, 9, 100, &[ROOT]);
    driver.say(group, Ping { nonce: 1 });
    driver.run();
    driver.say(first, txn(1, 1).read(ROOT, 0, 0).write(ROOT, 1, 0, b"x").message());
    driver.say(second, txn(2, 1).write(ROOT, 0, 0, &[7; 2500]).message());
    driver.say(third, txn(3, 1).write(ROOT, 2, 0, &[7; 1500]).message());
    promise(&mut driver, group, 1);
    driver.hang_up(second);
    promise(&mut driver, group, 3);
    assert_eq!(driver.grant(fourth, 1).len(), 1);
}

#[test]
fn so_many_wait_and_no_more() {
    let (mut driver, group, [first, second, third, _]) =
        beside_a_leased_group(Limits { commits_in_turn: 1, ..Limits::SHIPPED });
    driver.say(first, writer(1).message());
    driver.say(second, writer(2).message());
    assert_eq!(driver.commit(third, &writer(3)), Outcome::Refused(Refusal::Busy));
    promise(&mut driver, group, 1);
    assert!(is_refused_as_stale(&mut driver, second));
}

#[test]
fn one_that_is_sent_again_while_it_waits_waits_once_and_everybody_is_answered() {
    let (mut driver, group, [first, second, ..]) = beside_a_leased_group(Limits::SHIPPED);
    driver.say(first, writer(1).read(ROOT, 1, 0).message());
    let waiting = txn(2, 1).write(ROOT, 1, 0, b"y");
    driver.say(second, waiting.message());
    // Its client resumes: what came on the session that has ended waits for the new one.
    driver.hang_up(second);
    let resumed = driver.join(12, 2);
    driver.say(resumed, waiting.message());
    promise(&mut driver, group, 1);
    promise(&mut driver, group, 2);
    assert_eq!(count(&driver.outcome(resumed).expect("an outcome")), 2);
}

#[test]
fn one_that_nobody_waits_for_is_dropped() {
    let (mut driver, group, [first, second, third, _]) = beside_a_leased_group(Limits::SHIPPED);
    driver.say(first, writer(1).read(ROOT, 1, 0).message());
    driver.say(second, txn(2, 1).write(ROOT, 1, 0, b"y").message());
    driver.hang_up(second);
    promise(&mut driver, group, 1);
    // Its slot is free, and it has left no outcome: its client sends it again.
    driver.say(third, txn(3, 1).write(ROOT, 1, 0, b"z").message());
    promise(&mut driver, group, 3);
    assert_eq!(count(&driver.outcome(third).expect("an outcome")), 2);
}

#[test]
fn a_store_that_closes_lets_nobody_wait() {
    let (mut driver, group, [first, second, ..]) = beside_a_leased_group(Limits::SHIPPED);
    driver.say(first, writer(1).message());
    driver.say(second, writer(2).message());
    driver.store.close(driver.now);
    driver.run();
    assert_eq!(driver.outcome(second), Some(Outcome::Refused(Refusal::Closing)));
    promise(&mut driver, group, 1);
    assert_eq!(count(&driver.outcome(first).expect("an outcome")), 1);
    driver.run();
    assert!(driver.is_closed());
}

/// No longer than the prepared one waits, and that is a lease at most.
#[test]
fn a_group_that_does_not_promise_delays_it_by_a_lease() {
    let (mut driver, _, [first, second, ..]) = beside_a_leased_group(Limits::SHIPPED);
    driver.say(first, writer(1).message());
    driver.say(second, writer(2).message());
    driver.pass(LEASE + LEASE / 50);
    assert_eq!(count(&driver.outcome(first).expect("an outcome")), 1);
    assert!(is_refused_as_stale(&mut driver, second));
}

/// A group gets its lease: what its members wait for is contested there from the beginning.
#[test]
fn a_group_that_gets_its_lease_hears_of_its_own_commits_in_turn() {
    let (mut driver, _, [first, ..]) = beside_a_leased_group(Limits::SHIPPED);
    driver.say(first, writer(1).message());
    let other = join_group(&mut driver, 8, 200, &[ROOT]);
    let own = TxnId { client: ClientId(7), number: 1 };
    driver.say(other, txn(7, 1).write(ROOT, 0, 0, b"y").message());
    driver.take(other);
    driver.say(other, Ping { nonce: 1 });
    let told = driver.take(other);
    let intents = told.iter().filter_map(|message| match message {
        ToClient::Intent(intent) => Some(intent.txn),
        _ => None,
    });
    assert!(intents.collect::<Vec<_>>().contains(&own), "{told:?}");
}

/// It comes again, and need not fetch first the values that the winner has at hand.
#[test]
fn a_commit_that_has_waited_in_vain_is_told_the_new_values() {
    let mut driver = Driver::new();
    let [first, second, third] = [1, 2, 3].map(|number| driver.join(number, number));
    for session in [second, third] {
        driver.fetch(session, ROOT);
    }
    driver.say(first, writer(1).message());
    driver.say(second, writer(2).message());
    driver.run();
    let told = invalidations(&driver.take(second));
    assert!(matches!(&told[..], [invalidation] if invalidation.data.is_some()), "{told:?}");
    // A holder that does not wait may never want them.
    assert!(invalidations(&driver.ping(third)).iter().all(|invalidation| invalidation.data.is_none()));
}
