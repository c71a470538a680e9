//! Commits against invalidations, acknowledgements, copies of themselves and each other.

use crate::driver::{Driver, ROOT, count, invalidations, txn};
use messages::{Ack, AskOutcome, Outcome, ToClient};
use std::time::Duration;
use store::{Config, DiskWork};
use types::{ClientId, Incarnation, PageId, Refusal, TxnId, Version};

fn is_stale(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused(Refusal::Stale(_)))
}

#[test]
fn a_commit_is_acknowledged_when_it_is_durable_and_not_before() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    driver.say(a, txn(1, 1).write(ROOT, 0, 0, b"x").message());
    assert_eq!(driver.outcome(a), None);
    driver.sync();
    assert_eq!(count(&driver.outcome(a).unwrap()), 1);
    assert_eq!(driver.value(a, ROOT, 0).unwrap(), b"x");
}

#[test]
fn a_stale_read_is_refused_and_named() {
    let mut driver = Driver::new();
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    assert_eq!(count(&driver.commit(a, &txn(1, 1).write(ROOT, 3, 0, b"x"))), 1);
    let refused = driver.commit(b, &txn(2, 1).read(ROOT, 2, 0).write(ROOT, 3, 0, b"y"));
    let Outcome::Refused(Refusal::Stale(stale)) = refused else { panic!("expected stale, got {refused:?}") };
    assert_eq!(stale, [(ROOT, [3].into_iter().collect())]);
    assert_eq!(driver.store.refusals().iter().collect::<Vec<_>>(), [(&"stale", &1)], "counted by name");
    // Another slot of the same page is no conflict.
    assert_eq!(count(&driver.commit(b, &txn(2, 2).write(ROOT, 2, 0, b"y"))), 2);
}

#[test]
fn a_read_only_transaction_is_validated_and_leaves_no_trace() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    let records = driver.log_records();
    assert_eq!(driver.commit(a, &txn(1, 2).read(ROOT, 0, 1)), Outcome::Committed { pages: vec![] });
    assert!(is_stale(&driver.commit(a, &txn(1, 3).read(ROOT, 0, 0))));
    assert_eq!(driver.log_records(), records);
    let stats = driver.store.stats();
    assert_eq!((stats.commits, stats.read_only, stats.refused), (1, 1, 1), "each counted as what it is");
}

#[test]
fn every_holder_is_told_but_the_committer_whose_reply_stands_for_it() {
    let mut driver = Driver::new();
    let (a, b, c) = (driver.join(1, 1), driver.join(2, 2), driver.join(3, 3));
    driver.fetch(a, ROOT);
    driver.fetch(b, ROOT);
    driver.commit(a, &txn(1, 1).write(ROOT, 4, 0, b"x"));
    driver.pass(Duration::from_millis(3));
    let told = invalidations(&driver.take(b));
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].prev, told[0].version), (Version(0), Version(1)));
    assert_eq!(told[0].slots, [4].into_iter().collect());
    assert_eq!(driver.take(a), []);
    assert_eq!(driver.take(c), []);
}

/// Load reply against invalidation: the invalidations that a page depends on go before it.
#[test]
fn a_reply_never_overtakes_its_invalidations() {
    let mut driver = Driver::new();
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    let other = driver.grant(a, 1)[0];
    driver.fetch(b, ROOT);
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x").write(other, 0, 0, b"y"));
    let (before, page) = driver.fetch(b, other);
    assert_eq!(page.version, Version(1));
    assert_eq!(before.iter().map(|invalidation| invalidation.page).collect::<Vec<_>>(), [ROOT]);
    // The reply to a commit is preceded by everything before its own count, and by nothing of its own.
    driver.commit(a, &txn(1, 2).write(ROOT, 0, 1, b"z"));
    driver.say(b, txn(2, 1).write(other, 1, 1, b"w").message());
    driver.run();
    let messages = driver.take(b);
    assert_eq!(
        invalidations(&messages).iter().map(|invalidation| invalidation.version).collect::<Vec<_>>(),
        [Version(2)]
    );
    assert!(
        matches!(&messages[..], [ToClient::Invalidations(batch), ToClient::CommitReply(_)] if batch.through == Version(2).into())
    );
}

#[test]
fn a_batch_waits_no_longer_than_the_delay() {
    let mut driver = Driver::with(Config { invalidation_delay: Duration::from_millis(5), ..Config::default() });
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    driver.fetch(b, ROOT);
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    driver.pass(Duration::from_millis(4));
    assert_eq!(driver.take(b), []);
    driver.pass(Duration::from_millis(1));
    assert_eq!(invalidations(&driver.take(b)).len(), 1);
}

/// Acknowledgement against commit request: the acknowledgement overtakes nothing, since evidence travels with the
/// commit. Once all have acknowledged, *recent* is pruned, and what was read before is still found stale.
#[test]
fn an_acknowledgement_that_overtakes_a_commit_request_does_not_validate_it() {
    let mut driver = Driver::new();
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    driver.fetch(b, ROOT);
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    let old = txn(2, 1).write(ROOT, 0, 0, b"y");
    driver.say(a, Ack { through: Version(1).into() });
    driver.say(b, Ack { through: Version(1).into() });
    assert!(is_stale(&driver.commit(b, &old)));
    // A slot that did not change is refused below `pruned` too, for nobody knows: the page's version says it may have.
    assert!(is_stale(&driver.commit(b, &txn(2, 2).write(ROOT, 5, 0, b"y"))));
    assert_eq!(count(&driver.commit(b, &txn(2, 3).write(ROOT, 5, 1, b"y"))), 2);
}

/// *Recent* outgrows its bound: the laggard pays with an abort, and only where the page has changed.
#[test]
fn a_laggard_beyond_pruned_proves_itself_by_page_version() {
    let mut driver = Driver::with(Config { recent_limit: 2, ..Config::default() });
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    let pages = driver.grant(a, 2);
    driver.commit(a, &txn(1, 1).write(pages[0], 0, 0, b"x"));
    for number in 2..8 {
        let evidence = if number == 2 { 0 } else { number - 1 };
        driver.commit(a, &txn(1, number).write(ROOT, 0, evidence, b"x"));
    }
    assert!(is_stale(&driver.commit(b, &txn(2, 1).read(ROOT, 9, 3))));
    assert_eq!(driver.commit(b, &txn(2, 2).read(pages[0], 0, 1)), Outcome::Committed { pages: vec![] });
    assert_eq!(driver.commit(b, &txn(2, 3).read(pages[1], 0, 0)), Outcome::Committed { pages: vec![] });
}

#[test]
fn a_prepared_transactions_writes_are_in_the_way_and_its_reads_are_not() {
    let mut driver = Driver::new();
    let [a, b, c] = [1, 2, 3].map(|number| driver.join(number, number));
    driver.say(a, txn(1, 1).read(ROOT, 1, 0).write(ROOT, 0, 0, b"x").message());
    driver.say(b, txn(2, 1).write(ROOT, 0, 0, b"y").message());
    assert_eq!(driver.outcome(b), None, "it waits its turn");
    // Serial after the first, as it is in the log.
    driver.say(c, txn(3, 1).write(ROOT, 1, 0, b"y").message());
    // Serial before it: it has no count yet.
    driver.say(c, txn(3, 2).read(ROOT, 0, 0).message());
    assert_eq!(driver.outcome(c), Some(Outcome::Committed { pages: vec![] }));
    driver.sync();
    assert_eq!(count(&driver.outcome(a).unwrap()), 1);
    assert_eq!(count(&driver.outcome(c).unwrap()), 2);
    // When the first has its place, what it has read is stale.
    assert!(matches!(driver.outcome(b), Some(Outcome::Refused(Refusal::Stale(_)))));
}

/// A commit retried while its first copy is being prepared: one commit, one outcome, to the one who asked last.
#[test]
fn a_commit_retried_while_its_first_copy_is_under_way_commits_once() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let request = txn(1, 1).write(ROOT, 0, 0, b"x");
    driver.say(a, request.message());
    driver.hang_up(a);
    let again = driver.join(2, 1);
    // Joining did the disk's work, so this one is known by its outcome; the next is still under way.
    assert_eq!(count(&driver.commit(again, &request)), 1);
    let next = txn(1, 2).write(ROOT, 0, 1, b"y");
    driver.say(again, next.message());
    driver.say(again, next.message());
    driver.say(again, AskOutcome { txn: next.0.txn });
    assert_eq!(driver.work().filter(|work| matches!(work, DiskWork::Append(..))).count(), 1, "one commit");
    driver.run();
    assert_eq!(count(&driver.outcome(again).unwrap()), 2);
    assert_eq!(count(&driver.commit(again, &next)), 2);
}

#[test]
fn an_answered_outcome_is_forgotten_and_an_unknown_one_is_unknown() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let first = txn(1, 1).write(ROOT, 0, 0, b"x");
    driver.commit(a, &first);
    driver.commit(a, &txn(1, 2).write(ROOT, 0, 1, b"y").answered(2));
    assert_eq!(driver.commit(a, &first), Outcome::Unknown);
    driver.say(a, AskOutcome { txn: TxnId { client: ClientId(1), number: 9 } });
    assert_eq!(driver.outcome(a), Some(Outcome::Unknown));
}

/// A client that was away for too long: its commit is not remembered, and is not called refused either.
#[test]
fn a_forgotten_commit_is_unknown_and_never_refused() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let request = txn(1, 1).write(ROOT, 0, 0, b"x");
    driver.commit(a, &request);
    driver.hang_up(a);
    driver.pass(Config::default().grace);
    let again = driver.join(2, 1);
    assert_eq!(driver.commit(again, &request), Outcome::Unknown);
    // One that read after that cannot have been forgotten: it is refused for what it is.
    driver.commit(again, &txn(1, 2).write(ROOT, 0, 1, b"y"));
    assert!(is_stale(&driver.commit(again, &txn(1, 3).write(ROOT, 0, 1, b"z"))));
}

/// An unknown outcome is said once and for all: the reply stands for every copy, and its client listens for no other.
/// That one copy has lapsed says nothing of the next.
#[test]
pub(crate) fn a_request_of_unknown_outcome_has_no_effect_after_that() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let done = txn(1, 1).write(ROOT, 0, 0, b"x");
    driver.commit(a, &done);
    driver.hang_up(a);
    driver.pass(Config::default().grace);
    let b = driver.join(2, 2);
    let beyond = PageId::new(0, 1);
    let early = txn(2, 1).write(beyond, 0, 0, b"y");
    assert_eq!(driver.commit(b, &early), Outcome::Unknown, "there is no such page, and it may have been there");
    assert_eq!(driver.grant(b, 1), [beyond]);
    assert_eq!(driver.commit(b, &early), Outcome::Unknown);
    assert_eq!(driver.value(b, beyond, 0), None);

    driver.crash();
    let a = driver.join(3, 1);
    assert_eq!(driver.commit(a, &done.clone().to(1)), Outcome::Refused(Refusal::Lapsed(Incarnation(2))));
    assert_eq!(driver.commit(a, &done.to(2)), Outcome::Unknown);
}
