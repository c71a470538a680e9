//! What a group has promised counts for the commits that follow soon.

use crate::groups::join_group;
use crate::hands::{Hands, ROOT, count, txn};
use protocol::{Intent, Message, Ping, Promise, Released};
use store::{Config, SessionId};
use types::{ClientId, TxnId};

/// A client of the store, and a group that has promised for its first commit, of slot 0.
fn beside_a_promise() -> (Hands, SessionId, SessionId) {
    let mut hands = Hands::with(Config { leased_volumes: vec![0], ..Config::default() });
    let group = join_group(&mut hands, 9, 100, &[ROOT]);
    let own = hands.join(1, 1);
    renew(&mut hands, group);
    hands.say(own, txn(1, 1).write(ROOT, 0, 0, b"a").message());
    promise(&mut hands, group, 1);
    assert_eq!(count(&hands.outcome(own).expect("an outcome")), 1);
    hands.ping(group);
    // That was more of its lease: it promises once more.
    hands.say(own, txn(1, 2).write(ROOT, 0, 1, b"b").message());
    assert_eq!(intents(&hands.take(group)).len(), 1);
    promise(&mut hands, group, 2);
    assert_eq!(count(&hands.outcome(own).expect("an outcome")), 2);
    (hands, own, group)
}

/// The group is given more of its lease; gives what it is told before that.
fn renew(hands: &mut Hands, group: SessionId) -> Vec<Intent> {
    hands.take(group);
    hands.say(group, Message::Ping(Ping { nonce: 5 }));
    let told = hands.take(group);
    let leased = told.iter().position(|message| matches!(message, Message::Leased(_))).expect("a lease");
    intents(&told[..leased])
}

fn intents(messages: &[Message]) -> Vec<Intent> {
    let intents = messages.iter().filter_map(|message| match message {
        Message::Intent(intent) => Some(intent.clone()),
        _ => None,
    });
    intents.collect()
}

fn promise(hands: &mut Hands, group: SessionId, number: u64) {
    hands.say(group, Message::Promise(Promise { txn: TxnId { client: ClientId(1), number } }));
    hands.run();
}

#[test]
fn who_follows_and_changes_no_more_need_not_wait() {
    let (mut hands, own, group) = beside_a_promise();
    assert_eq!(count(&hands.commit(own, &txn(1, 3).write(ROOT, 0, 2, b"c"))), 3);
    assert!(intents(&hands.take(group)).is_empty());
    // Another slot was not promised.
    hands.say(own, txn(1, 4).write(ROOT, 1, 3, b"c").message());
    assert_eq!(intents(&hands.take(group)).len(), 1);
    promise(&mut hands, group, 4);
    assert_eq!(count(&hands.outcome(own).expect("an outcome")), 4);
}

#[test]
pub(crate) fn more_of_the_lease_ends_what_was_promised() {
    let (mut hands, own, group) = beside_a_promise();
    renew(&mut hands, group);
    hands.say(own, txn(1, 3).write(ROOT, 0, 2, b"c").message());
    hands.run();
    assert_eq!(hands.outcome(own), None);
    // What the group is asked for before it is given more counts for the one that waits, and for no other.
    assert_eq!(renew(&mut hands, group).len(), 1);
    promise(&mut hands, group, 3);
    assert_eq!(count(&hands.outcome(own).expect("an outcome")), 3);
    hands.say(own, txn(1, 4).write(ROOT, 0, 3, b"d").message());
    hands.run();
    assert_eq!(hands.outcome(own), None);
}

/// One that counts on a promise is told like any other when the promise ends.
#[test]
fn who_counts_on_a_promise_is_told_before_it_ends() {
    let (mut hands, own, group) = beside_a_promise();
    hands.say(own, txn(1, 3).write(ROOT, 0, 2, b"c").message());
    let told = renew(&mut hands, group);
    assert_eq!(
        told.iter().map(|intent| intent.txn.number).collect::<Vec<_>>(),
        [3],
        "it is prepared, and not durable yet"
    );
}

#[test]
pub(crate) fn a_page_that_the_group_lets_go_of_is_promised_anew() {
    let (mut hands, own, group) = beside_a_promise();
    hands.say(group, Message::Released(Released { pages: vec![ROOT] }));
    hands.fetch(group, ROOT);
    hands.say(own, txn(1, 3).write(ROOT, 0, 2, b"c").message());
    hands.run();
    assert_eq!(hands.outcome(own), None);
}
