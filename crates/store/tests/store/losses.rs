//! Who has lost several times in a row keeps its place in line until it comes again.

use crate::hands::{Hands, ROOT, Txn, count, notices, txn};
use protocol::{Message, Outcome};
use std::time::Duration;
use store::{Config, SessionId};
use types::{Limits, Refusal};

/// How long a client that has lost takes to come again.
const AWAY: Duration = Duration::from_millis(40);

/// Increments slot 0, which it knows as of this count.
pub(crate) fn increment(client: u64, number: u64, known: u64) -> Txn {
    txn(client, number).write(ROOT, 0, known, &number.to_le_bytes())
}

fn is_stale(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused(Refusal::Stale(_)))
}

/// A winner, whose fourth transaction is next and knows count 3, and a client that has lost to it so many times.
fn winner_and_loser(limits: Limits, losses: u64) -> (Hands, [SessionId; 2]) {
    let mut hands = Hands::with(Config { limits, ..Config::default() });
    let [winner, loser] = [1, 2].map(|number| hands.join(number, number));
    for number in 1..=3 {
        assert_eq!(count(&hands.commit(winner, &increment(1, number, number - 1))), number);
        if number > 3 - losses {
            hands.pass(AWAY);
            assert!(is_stale(&hands.commit(loser, &increment(2, number, number - 1))));
        }
    }
    hands.take(loser);
    (hands, [winner, loser])
}

#[test]
pub(crate) fn who_has_lost_often_goes_before_who_has_won() {
    let (mut hands, [winner, loser]) = winner_and_loser(Limits::SHIPPED, 3);
    hands.say(winner, increment(1, 4, 3).message());
    hands.run();
    assert!(hands.outcome(winner).is_none());
    assert_eq!(count(&hands.commit(loser, &increment(2, 4, 3))), 4);
    assert!(is_stale(&hands.outcome(winner).expect("an outcome")));
    // It has won, and its losses are forgotten.
    assert_eq!(count(&hands.commit(winner, &increment(1, 5, 4))), 5);
}

/// What does not write what it has lost by waits for nobody.
#[test]
fn others_are_not_kept_waiting() {
    let (mut hands, [winner, _]) = winner_and_loser(Limits::SHIPPED, 3);
    let beside = txn(1, 4).read(ROOT, 0, 3).write(ROOT, 1, 3, b"x");
    assert_eq!(count(&hands.commit(winner, &beside)), 4);
}

#[test]
fn a_few_losses_keep_nothing() {
    let (mut hands, [winner, _]) = winner_and_loser(Limits::SHIPPED, 2);
    assert_eq!(count(&hands.commit(winner, &increment(1, 4, 3))), 4);
}

/// Twice as long as it took to come again; then its losses are forgotten.
#[test]
fn a_place_is_kept_for_a_short_time() {
    let (mut hands, [winner, loser]) = winner_and_loser(Limits::SHIPPED, 3);
    hands.say(winner, increment(1, 4, 3).message());
    hands.pass(AWAY);
    assert!(hands.outcome(winner).is_none());
    hands.pass(AWAY);
    assert_eq!(count(&hands.outcome(winner).expect("an outcome")), 4);
    assert!(is_stale(&hands.commit(loser, &increment(2, 4, 3))));
    assert_eq!(count(&hands.commit(winner, &increment(1, 5, 4))), 5);
}

/// Who loses while its place is kept goes on having it: it loses only to those before it.
#[test]
fn a_place_is_kept_over_another_loss() {
    let (mut hands, [winner, loser]) = winner_and_loser(Limits::SHIPPED, 3);
    assert!(is_stale(&hands.commit(loser, &increment(2, 4, 2))));
    hands.say(winner, increment(1, 4, 3).message());
    assert_eq!(count(&hands.commit(loser, &increment(2, 5, 3))), 4);
}

/// Two have lost as often: they go in the order in which they did, and the second hears of the first one's values.
#[test]
fn places_are_taken_in_order() {
    let (mut hands, [winner, first]) = winner_and_loser(Limits::SHIPPED, 3);
    let second = hands.join(3, 3);
    hands.fetch(second, ROOT);
    for number in 1..=3 {
        assert!(is_stale(&hands.commit(second, &increment(3, number, number - 1))));
    }
    hands.take(second);
    // The second one comes first.
    hands.say(second, increment(3, 4, 3).message());
    hands.say(winner, increment(1, 4, 3).message());
    assert_eq!(count(&hands.commit(first, &increment(2, 4, 3))), 4);
    let heard = hands.take(second);
    assert!(notices(&heard).iter().all(|notice| notice.data.is_some()), "{heard:?}");
    assert!(heard.iter().any(|message| matches!(message, Message::CommitReply(_))), "{heard:?}");
    assert_eq!(count(&hands.commit(second, &increment(3, 5, 4))), 5);
}

#[test]
fn of_so_many_clients_it_is_remembered() {
    let (mut hands, [winner, _]) = winner_and_loser(Limits { losers: 0, ..Limits::SHIPPED }, 3);
    assert_eq!(count(&hands.commit(winner, &increment(1, 4, 3))), 4);
}

/// With no place to be had in line none is kept.
#[test]
fn the_line_is_bounded() {
    let (mut hands, [winner, _]) = winner_and_loser(Limits { commits_in_turn: 0, ..Limits::SHIPPED }, 3);
    assert_eq!(count(&hands.commit(winner, &increment(1, 4, 3))), 4);
}

/// A store whose MOB has room for nothing large until it has been written back, and the sessions of a winner, of a client
/// whose place is kept, and of one that wants room.
fn short_of_room() -> (Hands, [SessionId; 3]) {
    let mut hands = Hands::with(Config { mob_bytes_limit: 4000, ..Config::default() });
    let [winner, loser, large] = [1, 2, 3].map(|number| hands.join(number, number));
    for number in 1..=3 {
        assert_eq!(count(&hands.commit(winner, &increment(1, number, number - 1))), number);
        hands.pass(AWAY);
        assert!(is_stale(&hands.commit(loser, &increment(2, number, number - 1))));
    }
    hands.say(large, txn(3, 1).write(ROOT, 1, 3, &[7; 5000]).message());
    (hands, [winner, loser, large])
}

/// It has come in time, and is not passed by those who came before it while its place was kept: not even when the time
/// is over, and there is room at last.
#[test]
fn who_comes_for_its_place_waits_for_room_there() {
    let (mut hands, [winner, loser, large]) = short_of_room();
    hands.say(winner, increment(1, 4, 3).message());
    hands.say(loser, increment(2, 4, 3).message());
    hands.now = hands.now + 3 * AWAY;
    hands.run();
    assert_eq!(count(&hands.outcome(loser).expect("an outcome")), 4);
    assert!(is_stale(&hands.outcome(winner).expect("an outcome")));
    assert_eq!(count(&hands.outcome(large).expect("an outcome")), 5);
}
