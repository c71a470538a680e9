//! A client that has lost several times in a row keeps its place in line until it comes again.

use crate::driver::{Driver, ROOT, Txn, count, invalidations, txn};
use messages::{Outcome, ToClient};
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
fn winner_and_loser(limits: Limits, losses: u64) -> (Driver, [SessionId; 2]) {
    let mut driver = Driver::with(Config { limits, ..Config::default() });
    let [winner, loser] = [1, 2].map(|number| driver.join(number, number));
    for number in 1..=3 {
        assert_eq!(count(&driver.commit(winner, &increment(1, number, number - 1))), number);
        if number > 3 - losses {
            driver.pass(AWAY);
            assert!(is_stale(&driver.commit(loser, &increment(2, number, number - 1))));
        }
    }
    driver.take(loser);
    (driver, [winner, loser])
}

#[test]
pub(crate) fn a_client_that_has_lost_often_goes_before_the_winner() {
    let (mut driver, [winner, loser]) = winner_and_loser(Limits::SHIPPED, 3);
    driver.say(winner, increment(1, 4, 3).message());
    driver.run();
    assert!(driver.outcome(winner).is_none());
    assert_eq!(count(&driver.commit(loser, &increment(2, 4, 3))), 4);
    assert!(is_stale(&driver.outcome(winner).expect("an outcome")));
    // It has won, and its losses are forgotten.
    assert_eq!(count(&driver.commit(winner, &increment(1, 5, 4))), 5);
}

/// A commit that does not write what a client has lost by waits for nobody.
#[test]
fn others_are_not_kept_waiting() {
    let (mut driver, [winner, _]) = winner_and_loser(Limits::SHIPPED, 3);
    let beside = txn(1, 4).read(ROOT, 0, 3).write(ROOT, 1, 3, b"x");
    assert_eq!(count(&driver.commit(winner, &beside)), 4);
}

#[test]
fn a_few_losses_keep_nothing() {
    let (mut driver, [winner, _]) = winner_and_loser(Limits::SHIPPED, 2);
    assert_eq!(count(&driver.commit(winner, &increment(1, 4, 3))), 4);
}

/// Twice as long as it took to come again; then its losses are forgotten.
#[test]
fn a_place_is_kept_for_a_short_time() {
    let (mut driver, [winner, loser]) = winner_and_loser(Limits::SHIPPED, 3);
    driver.say(winner, increment(1, 4, 3).message());
    driver.pass(AWAY);
    assert!(driver.outcome(winner).is_none());
    driver.pass(AWAY);
    assert_eq!(count(&driver.outcome(winner).expect("an outcome")), 4);
    assert!(is_stale(&driver.commit(loser, &increment(2, 4, 3))));
    assert_eq!(count(&driver.commit(winner, &increment(1, 5, 4))), 5);
}

/// A client that loses while its place is kept continues having it: it loses only to those before it.
#[test]
fn a_place_is_kept_over_another_loss() {
    let (mut driver, [winner, loser]) = winner_and_loser(Limits::SHIPPED, 3);
    assert!(is_stale(&driver.commit(loser, &increment(2, 4, 2))));
    driver.say(winner, increment(1, 4, 3).message());
    assert_eq!(count(&driver.commit(loser, &increment(2, 5, 3))), 4);
}

/// Two have lost as often: they go in the order in which they did, and the second learns of the first one's values.
#[test]
fn places_are_taken_in_order() {
    let (mut driver, [winner, first]) = winner_and_loser(Limits::SHIPPED, 3);
    let second = driver.join(3, 3);
    driver.fetch(second, ROOT);
    for number in 1..=3 {
        assert!(is_stale(&driver.commit(second, &increment(3, number, number - 1))));
    }
    driver.take(second);
    // The second one comes first.
    driver.say(second, increment(3, 4, 3).message());
    driver.say(winner, increment(1, 4, 3).message());
    assert_eq!(count(&driver.commit(first, &increment(2, 4, 3))), 4);
    let heard = driver.take(second);
    assert!(invalidations(&heard).iter().all(|invalidation| invalidation.data.is_some()), "{heard:?}");
    assert!(heard.iter().any(|message| matches!(message, ToClient::CommitReply(_))), "{heard:?}");
    assert_eq!(count(&driver.commit(second, &increment(3, 5, 4))), 5);
}

#[test]
fn of_so_many_clients_it_is_remembered() {
    let (mut driver, [winner, _]) = winner_and_loser(Limits { losers: 0, ..Limits::SHIPPED }, 3);
    assert_eq!(count(&driver.commit(winner, &increment(1, 4, 3))), 4);
}

/// With no place to be had in line none is kept.
#[test]
fn the_line_is_bounded() {
    let (mut driver, [winner, _]) = winner_and_loser(Limits { commits_in_turn: 0, ..Limits::SHIPPED }, 3);
    assert_eq!(count(&driver.commit(winner, &increment(1, 4, 3))), 4);
}

/// A store whose MOB has room for nothing large until it has been written back, and the sessions of a winner, of a
/// client whose place is kept, and of one that wants room.
fn short_of_room() -> (Driver, [SessionId; 3]) {
    let mut driver = Driver::with(Config { mob_bytes_limit: 4000, ..Config::default() });
    let [winner, loser, large] = [1, 2, 3].map(|number| driver.join(number, number));
    for number in 1..=3 {
        assert_eq!(count(&driver.commit(winner, &increment(1, number, number - 1))), number);
        driver.pass(AWAY);
        assert!(is_stale(&driver.commit(loser, &increment(2, number, number - 1))));
    }
    driver.say(large, txn(3, 1).write(ROOT, 1, 3, &[7; 5000]).message());
    (driver, [winner, loser, large])
}

/// It has come in time, and is not passed by those who came before it while its place was kept: not even when the time
/// is over, and there is room at last.
#[test]
fn a_client_that_comes_for_its_place_waits_for_room_there() {
    let (mut driver, [winner, loser, large]) = short_of_room();
    driver.say(winner, increment(1, 4, 3).message());
    driver.say(loser, increment(2, 4, 3).message());
    driver.now = driver.now + 3 * AWAY;
    driver.run();
    assert_eq!(count(&driver.outcome(loser).expect("an outcome")), 4);
    assert!(is_stale(&driver.outcome(winner).expect("an outcome")));
    assert_eq!(count(&driver.outcome(large).expect("an outcome")), 5);
}
