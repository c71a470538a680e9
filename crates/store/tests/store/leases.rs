//! What a group with a lease is told before others can see it.

use crate::groups::join_group;
use crate::hands::{Hands, ROOT, txn};
use protocol::{Message, Ping};
use std::time::Duration;
use store::{Config, SessionId};

fn leased() -> Config {
    Config { leased_volumes: vec![0], mob_bytes_limit: 2000, ..Config::default() }
}

fn is_intent(message: &Message) -> bool {
    matches!(message, Message::Intent(_))
}

fn is_reply(message: &Message) -> bool {
    matches!(message, Message::CommitReply(_))
}

/// The MOB is filled: what comes next waits until it is written back.
fn fill(hands: &mut Hands) {
    let direct = hands.join(1, 1);
    hands.say(direct, txn(1, 1).write(ROOT, 5, 0, &[1; 1900]).message());
    hands.sync();
}

/// A group's session gets a lease; gives what it is told up to there.
fn lease(hands: &mut Hands, group: SessionId) -> Vec<Message> {
    hands.say(group, Message::Ping(Ping { nonce: 5 }));
    let told = hands.take(group);
    assert!(told.iter().any(|message| matches!(message, Message::Leased(_))), "a lease: {told:?}");
    told
}

#[test]
fn a_group_that_gets_its_lease_hears_of_its_own_commits_that_wait_for_room() {
    let mut hands = Hands::with(leased());
    let group = join_group(&mut hands, 2, 9, &[ROOT]);
    fill(&mut hands);
    hands.say(group, txn(7, 1).write(ROOT, 0, 0, &[2; 200]).message());
    let told = lease(&mut hands, group);
    assert!(!told.iter().any(is_reply), "it waits for room");
    let warned = told.iter().position(is_intent).expect("an intent");
    assert!(warned < told.iter().position(|message| matches!(message, Message::Leased(_))).unwrap());
    // It does not wait for a promise: whoever passed it on knows of it.
    hands.run();
    hands.pass(Duration::from_millis(1));
    assert!(hands.take(group).iter().any(is_reply));
}

#[test]
fn a_commit_of_an_earlier_session_of_the_group_waits_for_its_promise() {
    let mut hands = Hands::with(leased());
    let before = join_group(&mut hands, 2, 9, &[ROOT]);
    fill(&mut hands);
    hands.say(before, txn(7, 1).write(ROOT, 0, 0, &[2; 200]).message());
    // The trunk breaks, the store notices it later, and the member has left: the redirector does not send it again.
    let group = join_group(&mut hands, 3, 10, &[ROOT]);
    lease(&mut hands, group);
    hands.run();
    hands.pass(Duration::from_millis(1));
    assert!(hands.take(group).iter().any(is_intent), "the redirector hears of it");
    assert!(!hands.take(before).iter().any(is_reply), "and it waits for the promise");
}

/// A store is killed, and started anew with another configuration; gives how long a
/// commit waits there.
fn wait_after_restart(hands: &mut Hands, config: Config) -> Duration {
    hands.set_config(config);
    hands.crash();
    let (direct, start) = (hands.join(70, 70), hands.now);
    hands.say(direct, txn(70, 1).write(ROOT, 0, 0, b"x").message());
    loop {
        hands.run();
        if hands.outcome(direct).is_some() {
            return hands.now - start;
        }
        hands.pass(Duration::from_secs(1));
        hands.say(direct, Message::Ping(Ping { nonce: 1 }));
    }
}

fn gives_a_lease_of_a_minute() -> Hands {
    let mut hands = Hands::with(Config { lease: Duration::from_secs(60), ..leased() });
    let group = join_group(&mut hands, 2, 9, &[ROOT]);
    lease(&mut hands, group);
    hands
}

#[test]
fn a_store_with_shorter_leases_waits_for_the_longer_ones_of_before() {
    let mut hands = gives_a_lease_of_a_minute();
    let shorter = Config { lease: Duration::from_millis(100), ..leased() };
    let waited = wait_after_restart(&mut hands, shorter);
    assert!(waited >= Duration::from_secs(60), "{waited:?}");
}

#[test]
fn a_store_without_leases_waits_for_those_of_before_and_no_longer() {
    let mut hands = gives_a_lease_of_a_minute();
    let waited = wait_after_restart(&mut hands, Config::default());
    assert!(waited >= Duration::from_secs(60), "{waited:?}");
    // They are over, and the next life need not wait for them: its log says so since something was written back.
    hands.pass(Duration::from_secs(5));
    let again = wait_after_restart(&mut hands, Config::default());
    assert_eq!(again, Duration::ZERO);
}

#[test]
fn two_lives_later_a_long_lease_is_still_waited_for() {
    let mut hands = gives_a_lease_of_a_minute();
    hands.set_config(Config::default());
    hands.crash();
    hands.pass(Duration::from_secs(1));
    let waited = wait_after_restart(&mut hands, Config::default());
    assert!(waited >= Duration::from_secs(59), "{waited:?}");
}

#[test]
fn no_lease_is_given_before_the_log_says_so() {
    let mut hands = Hands::with(leased());
    hands.crash_in_recovery();
    let group = join_group(&mut hands, 2, 9, &[ROOT]);
    hands.say(group, Message::Ping(Ping { nonce: 5 }));
    let is_lease = |message: &Message| matches!(message, Message::Leased(_));
    assert!(!hands.take(group).iter().any(is_lease), "the record is not durable");
    hands.run();
    assert!(hands.take(group).iter().any(is_lease));
}
