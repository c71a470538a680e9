//! The intents that a group with a lease hears before others can see the changes.

use crate::driver::{Driver, ROOT, txn};
use crate::groups::join_group;
use messages::{Ping, ToClient};
use std::time::Duration;
use store::{Config, SessionId};

fn leased() -> Config {
    Config { leased_spaces: vec![0], mob_bytes_limit: 2000, ..Config::default() }
}

fn is_intent(message: &ToClient) -> bool {
    matches!(message, ToClient::Intent(_))
}

fn is_reply(message: &ToClient) -> bool {
    matches!(message, ToClient::CommitReply(_))
}

/// The MOB is filled: what comes next waits until it is written back.
fn fill(driver: &mut Driver) {
    let direct = driver.join(1, 1);
    driver.say(direct, txn(1, 1).write(ROOT, 5, 0, &[1; 1900]).message());
    driver.sync();
}

/// A group's session gets a lease; gives what it is told up to there.
fn lease(driver: &mut Driver, group: SessionId) -> Vec<ToClient> {
    driver.say(group, Ping { nonce: 5 });
    let told = driver.take(group);
    assert!(told.iter().any(|message| matches!(message, ToClient::Leased(_))), "a lease: {told:?}");
    told
}

#[test]
fn a_group_that_gets_its_lease_hears_of_its_own_commits_that_wait_for_room() {
    let mut driver = Driver::with(leased());
    let group = join_group(&mut driver, 2, 9, &[ROOT]);
    fill(&mut driver);
    driver.say(group, txn(7, 1).write(ROOT, 0, 0, &[2; 200]).message());
    let told = lease(&mut driver, group);
    assert!(!told.iter().any(is_reply), "it waits for room");
    let warned = told.iter().position(is_intent).expect("an intent");
    assert!(warned < told.iter().position(|message| matches!(message, ToClient::Leased(_))).unwrap());
    // It does not wait for a promise: the redirector that passed it on knows of it.
    driver.run();
    driver.pass(Duration::from_millis(1));
    assert!(driver.take(group).iter().any(is_reply));
}

#[test]
fn a_commit_of_an_earlier_session_of_the_group_waits_for_its_promise() {
    let mut driver = Driver::with(leased());
    let before = join_group(&mut driver, 2, 9, &[ROOT]);
    fill(&mut driver);
    driver.say(before, txn(7, 1).write(ROOT, 0, 0, &[2; 200]).message());
    // The upstream session breaks, the store notices it later, and the member has left: the redirector does not send it
    // again.
    let group = join_group(&mut driver, 3, 10, &[ROOT]);
    lease(&mut driver, group);
    driver.run();
    driver.pass(Duration::from_millis(1));
    assert!(driver.take(group).iter().any(is_intent), "the redirector hears of it");
    assert!(!driver.take(before).iter().any(is_reply), "and it waits for the promise");
}

/// A store is killed, and started again with another configuration; gives how long a
/// commit waits there.
fn wait_after_restart(driver: &mut Driver, config: Config) -> Duration {
    driver.set_config(config);
    driver.crash();
    let (direct, start) = (driver.join(70, 70), driver.now);
    driver.say(direct, txn(70, 1).write(ROOT, 0, 0, b"x").message());
    loop {
        driver.run();
        if driver.outcome(direct).is_some() {
            return driver.now - start;
        }
        driver.pass(Duration::from_secs(1));
        driver.say(direct, Ping { nonce: 1 });
    }
}

fn gives_a_lease_of_a_minute() -> Driver {
    let mut driver = Driver::with(Config { lease: Duration::from_secs(60), ..leased() });
    let group = join_group(&mut driver, 2, 9, &[ROOT]);
    lease(&mut driver, group);
    driver
}

#[test]
fn a_store_with_shorter_leases_waits_for_the_longer_ones_of_before() {
    let mut driver = gives_a_lease_of_a_minute();
    let shorter = Config { lease: Duration::from_millis(100), ..leased() };
    let waited = wait_after_restart(&mut driver, shorter);
    assert!(waited >= Duration::from_secs(60), "{waited:?}");
}

#[test]
fn a_store_without_leases_waits_for_those_of_before_and_no_longer() {
    let mut driver = gives_a_lease_of_a_minute();
    let waited = wait_after_restart(&mut driver, Config::default());
    assert!(waited >= Duration::from_secs(60), "{waited:?}");
    // They are over, and the next life need not wait for them: its log says so since something was written back.
    driver.pass(Duration::from_secs(5));
    let again = wait_after_restart(&mut driver, Config::default());
    assert_eq!(again, Duration::ZERO);
}

#[test]
fn two_lives_later_a_long_lease_is_still_waited_for() {
    let mut driver = gives_a_lease_of_a_minute();
    driver.set_config(Config::default());
    driver.crash();
    driver.pass(Duration::from_secs(1));
    let waited = wait_after_restart(&mut driver, Config::default());
    assert!(waited >= Duration::from_secs(59), "{waited:?}");
}

#[test]
fn no_lease_is_given_before_the_log_says_so() {
    let mut driver = Driver::with(leased());
    driver.crash_in_recovery();
    let group = join_group(&mut driver, 2, 9, &[ROOT]);
    driver.say(group, Ping { nonce: 5 });
    let is_lease = |message: &ToClient| matches!(message, ToClient::Leased(_));
    assert!(!driver.take(group).iter().any(is_lease), "the record is not durable");
    driver.run();
    assert!(driver.take(group).iter().any(is_lease));
}
