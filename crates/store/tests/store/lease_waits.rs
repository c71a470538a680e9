//! Leases: who waits for whom, and for how long.

use crate::groups::join_group;
use crate::hands::{Hands, count, txn};
use protocol::{Message, Promise};
use std::time::Duration;
use store::{Config, SessionId};
use types::{ClientId, PageId, TxnId};

const ROOT: PageId = PageId::new(0, 0);
const LEASE: Duration = Duration::from_secs(2);

fn leased() -> Hands {
    Hands::with(Config { leased_volumes: vec![0], lease: LEASE, ..Config::default() })
}

/// A client of the store, and a group that has a lease on what it holds.
fn beside_a_leased_group(hands: &mut Hands) -> [SessionId; 2] {
    let sessions = [hands.join(1, 1), join_group(hands, 2, 100, &[ROOT])];
    assert!(is_leased(&hands.ping(sessions[1])));
    sessions
}

fn is_leased(messages: &[Message]) -> bool {
    messages.iter().any(|message| matches!(message, Message::Leased(_)))
}

/// Asks for a commit that a lease stands in the way of, and says whether it waits.
fn waits(hands: &mut Hands, from: SessionId, number: u64) -> bool {
    hands.say(from, txn(1, number).write(ROOT, 0, 0, b"x").message());
    still_waits(hands, from)
}

fn still_waits(hands: &mut Hands, from: SessionId) -> bool {
    hands.run();
    let outcome = hands.outcome(from);
    outcome.is_none_or(|outcome| {
        assert_eq!(count(&outcome), 1);
        false
    })
}

#[test]
fn a_commit_waits_for_a_promise() {
    let mut hands = leased();
    let [own, g] = beside_a_leased_group(&mut hands);
    assert!(waits(&mut hands, own, 1));
    assert!(hands.take(g).iter().any(|message| matches!(message, Message::Intent(_))));
    hands.say(g, Message::Promise(Promise { txn: TxnId { client: ClientId(1), number: 1 } }));
    assert!(!still_waits(&mut hands, own));
}

/// The store's clock may be the faster one: by its holder's the lease may still last when it is over here.
#[test]
pub(crate) fn a_lease_is_counted_longer() {
    let mut hands = leased();
    let [own, _] = beside_a_leased_group(&mut hands);
    assert!(waits(&mut hands, own, 1));
    hands.pass(LEASE + Duration::from_millis(39));
    assert!(still_waits(&mut hands, own));
    hands.pass(Duration::from_millis(1));
    assert!(!still_waits(&mut hands, own));
}

/// Its redirector may not know yet that its session is gone: before the commit came, or while it waits.
#[test]
pub(crate) fn a_lease_outlives_its_session() {
    for gone_before in [true, false] {
        let mut hands = leased();
        let [own, g] = beside_a_leased_group(&mut hands);
        if gone_before {
            hands.hang_up(g);
        }
        assert!(waits(&mut hands, own, 1));
        if !gone_before {
            hands.hang_up(g);
        }
        hands.pass(LEASE);
        assert!(still_waits(&mut hands, own));
        hands.pass(LEASE / 50);
        assert!(!still_waits(&mut hands, own));
    }
}

/// Nor that the store was started anew, which knows of no lease that was given before.
#[test]
pub(crate) fn a_lease_outlives_the_store() {
    let mut hands = leased();
    beside_a_leased_group(&mut hands);
    hands.crash();
    let own = hands.join(3, 1);
    assert!(waits(&mut hands, own, 1));
    hands.pass(LEASE);
    assert!(still_waits(&mut hands, own));
    hands.pass(LEASE / 50);
    assert!(!still_waits(&mut hands, own));
}

/// Judged already, it could not be judged again: nobody may change what it has read before it commits.
#[test]
pub(crate) fn what_a_waiting_commit_has_read_is_not_written() {
    let mut hands = leased();
    let [own, g] = beside_a_leased_group(&mut hands);
    hands.say(own, txn(1, 1).read(ROOT, 1, 0).write(ROOT, 0, 0, b"x").message());
    let other = hands.join(3, 3);
    hands.say(other, txn(3, 1).read(ROOT, 2, 0).write(ROOT, 1, 0, b"y").message());
    hands.run();
    // Its own promise would let it go on, if it were its turn.
    for client in [3, 1] {
        hands.say(g, Message::Promise(Promise { txn: TxnId { client: ClientId(client), number: 1 } }));
        hands.run();
        assert_eq!(hands.outcome(other), None);
    }
    assert!(!still_waits(&mut hands, own));
}

/// As long as it had none it was not asked for promises.
#[test]
pub(crate) fn who_gets_a_lease_hears_of_what_is_about_to_change() {
    let mut hands = leased();
    let (own, g) = (hands.join(1, 1), join_group(&mut hands, 2, 100, &[ROOT]));
    hands.run();
    hands.say(own, txn(1, 1).write(ROOT, 0, 0, b"x").message());
    hands.take(g);
    hands.say(g, Message::Ping(protocol::Ping { nonce: 1 }));
    let told = hands.take(g);
    let intent = told.iter().position(|message| matches!(message, Message::Intent(_)));
    let lease = told.iter().position(|message| matches!(message, Message::Leased(_)));
    assert!(intent.is_some() && intent < lease, "{told:?}");
}
