//! Commits against notices, acknowledgements, copies of themselves and each other.

use crate::hands::{Hands, ROOT, count, notices, txn};
use protocol::{Ack, AskOutcome, Message, Outcome};
use std::time::Duration;
use store::{Config, DiskWork};
use types::{ClientId, Incarnation, PageId, Refusal, TxnId, Version};

fn is_stale(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused(Refusal::Stale(_)))
}

#[test]
fn a_commit_is_acknowledged_when_it_is_durable_and_not_before() {
    let mut hands = Hands::new();
    let a = hands.join(1, 1);
    hands.say(a, txn(1, 1).write(ROOT, 0, 0, b"x").message());
    assert_eq!(hands.outcome(a), None);
    hands.sync();
    assert_eq!(count(&hands.outcome(a).unwrap()), 1);
    assert_eq!(hands.value(a, ROOT, 0).unwrap(), b"x");
}

#[test]
fn a_stale_read_is_refused_and_named() {
    let mut hands = Hands::new();
    let (a, b) = (hands.join(1, 1), hands.join(2, 2));
    assert_eq!(count(&hands.commit(a, &txn(1, 1).write(ROOT, 3, 0, b"x"))), 1);
    let refused = hands.commit(b, &txn(2, 1).read(ROOT, 2, 0).write(ROOT, 3, 0, b"y"));
    let Outcome::Refused(Refusal::Stale(stale)) = refused else { panic!("expected stale, got {refused:?}") };
    assert_eq!(stale, [(ROOT, [3].into_iter().collect())]);
    assert_eq!(hands.store.refusals().iter().collect::<Vec<_>>(), [(&"stale", &1)], "counted by name");
    // Another slot of the same page is no conflict.
    assert_eq!(count(&hands.commit(b, &txn(2, 2).write(ROOT, 2, 0, b"y"))), 2);
}

#[test]
fn a_read_only_transaction_is_validated_and_leaves_no_trace() {
    let mut hands = Hands::new();
    let a = hands.join(1, 1);
    hands.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    let records = hands.log_records();
    assert_eq!(hands.commit(a, &txn(1, 2).read(ROOT, 0, 1)), Outcome::Committed { pages: vec![] });
    assert!(is_stale(&hands.commit(a, &txn(1, 3).read(ROOT, 0, 0))));
    assert_eq!(hands.log_records(), records);
    let stats = hands.store.stats();
    assert_eq!((stats.commits, stats.read_only, stats.refused), (1, 1, 1), "each counted as what it is");
}

#[test]
fn every_holder_is_told_but_the_committer_whose_reply_stands_for_it() {
    let mut hands = Hands::new();
    let (a, b, c) = (hands.join(1, 1), hands.join(2, 2), hands.join(3, 3));
    hands.fetch(a, ROOT);
    hands.fetch(b, ROOT);
    hands.commit(a, &txn(1, 1).write(ROOT, 4, 0, b"x"));
    hands.pass(Duration::from_millis(3));
    let told = notices(&hands.take(b));
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].prev, told[0].version), (Version(0), Version(1)));
    assert_eq!(told[0].slots, [4].into_iter().collect());
    assert_eq!(hands.take(a), []);
    assert_eq!(hands.take(c), []);
}

/// Load reply against invalidation: the notices that a page depends on go before it.
#[test]
fn a_reply_never_overtakes_its_notices() {
    let mut hands = Hands::new();
    let (a, b) = (hands.join(1, 1), hands.join(2, 2));
    let other = hands.grant(a, 1)[0];
    hands.fetch(b, ROOT);
    hands.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x").write(other, 0, 0, b"y"));
    let (before, page) = hands.fetch(b, other);
    assert_eq!(page.version, Version(1));
    assert_eq!(before.iter().map(|notice| notice.page).collect::<Vec<_>>(), [ROOT]);
    // The reply to a commit is preceded by everything before its own count, and by nothing of its own.
    hands.commit(a, &txn(1, 2).write(ROOT, 0, 1, b"z"));
    hands.say(b, txn(2, 1).write(other, 1, 1, b"w").message());
    hands.run();
    let messages = hands.take(b);
    assert_eq!(notices(&messages).iter().map(|notice| notice.version).collect::<Vec<_>>(), [Version(2)]);
    assert!(matches!(&messages[..], [Message::Notices(batch), Message::CommitReply(_)] if batch.through == Version(2)));
}

#[test]
fn a_batch_waits_no_longer_than_the_delay() {
    let mut hands = Hands::with(Config { notice_delay: Duration::from_millis(5), ..Config::default() });
    let (a, b) = (hands.join(1, 1), hands.join(2, 2));
    hands.fetch(b, ROOT);
    hands.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    hands.pass(Duration::from_millis(4));
    assert_eq!(hands.take(b), []);
    hands.pass(Duration::from_millis(1));
    assert_eq!(notices(&hands.take(b)).len(), 1);
}

/// Acknowledgement against commit request: the acknowledgement overtakes nothing, since evidence travels with the
/// commit. Once all have acknowledged, *recent* is pruned, and what was read before is still found stale.
#[test]
fn an_acknowledgement_that_overtakes_a_commit_request_does_not_validate_it() {
    let mut hands = Hands::new();
    let (a, b) = (hands.join(1, 1), hands.join(2, 2));
    hands.fetch(b, ROOT);
    hands.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    let old = txn(2, 1).write(ROOT, 0, 0, b"y");
    hands.say(a, Message::Ack(Ack { through: Version(1) }));
    hands.say(b, Message::Ack(Ack { through: Version(1) }));
    assert!(is_stale(&hands.commit(b, &old)));
    // A slot that did not change is refused below `pruned` too, for nobody knows: the page's version says it may have.
    assert!(is_stale(&hands.commit(b, &txn(2, 2).write(ROOT, 5, 0, b"y"))));
    assert_eq!(count(&hands.commit(b, &txn(2, 3).write(ROOT, 5, 1, b"y"))), 2);
}

/// *Recent* outgrows its bound: the laggard pays with an abort, and only where the page has changed.
#[test]
fn a_laggard_beyond_pruned_proves_itself_by_page_version() {
    let mut hands = Hands::with(Config { recent_limit: 2, ..Config::default() });
    let (a, b) = (hands.join(1, 1), hands.join(2, 2));
    let pages = hands.grant(a, 2);
    hands.commit(a, &txn(1, 1).write(pages[0], 0, 0, b"x"));
    for number in 2..8 {
        let evidence = if number == 2 { 0 } else { number - 1 };
        hands.commit(a, &txn(1, number).write(ROOT, 0, evidence, b"x"));
    }
    assert!(is_stale(&hands.commit(b, &txn(2, 1).read(ROOT, 9, 3))));
    assert_eq!(hands.commit(b, &txn(2, 2).read(pages[0], 0, 1)), Outcome::Committed { pages: vec![] });
    assert_eq!(hands.commit(b, &txn(2, 3).read(pages[1], 0, 0)), Outcome::Committed { pages: vec![] });
}

#[test]
fn what_a_prepared_transaction_writes_is_in_the_way_and_what_it_reads_is_not() {
    let mut hands = Hands::new();
    let [a, b, c] = [1, 2, 3].map(|number| hands.join(number, number));
    hands.say(a, txn(1, 1).read(ROOT, 1, 0).write(ROOT, 0, 0, b"x").message());
    hands.say(b, txn(2, 1).write(ROOT, 0, 0, b"y").message());
    assert_eq!(hands.outcome(b), None, "it waits its turn");
    // Serial after the first, as it is in the log.
    hands.say(c, txn(3, 1).write(ROOT, 1, 0, b"y").message());
    // Serial before it: it has no count yet.
    hands.say(c, txn(3, 2).read(ROOT, 0, 0).message());
    assert_eq!(hands.outcome(c), Some(Outcome::Committed { pages: vec![] }));
    hands.sync();
    assert_eq!(count(&hands.outcome(a).unwrap()), 1);
    assert_eq!(count(&hands.outcome(c).unwrap()), 2);
    // When the first has its place, what it has read is stale.
    assert!(matches!(hands.outcome(b), Some(Outcome::Refused(Refusal::Stale(_)))));
}

/// A commit retried while its first copy is being prepared: one commit, one outcome, to the one who asked last.
#[test]
fn a_commit_retried_while_its_first_copy_is_under_way_commits_once() {
    let mut hands = Hands::new();
    let a = hands.join(1, 1);
    let request = txn(1, 1).write(ROOT, 0, 0, b"x");
    hands.say(a, request.message());
    hands.hang_up(a);
    let again = hands.join(2, 1);
    // Joining did the disk's work, so this one is known by its outcome; the next is still under way.
    assert_eq!(count(&hands.commit(again, &request)), 1);
    let next = txn(1, 2).write(ROOT, 0, 1, b"y");
    hands.say(again, next.message());
    hands.say(again, next.message());
    hands.say(again, Message::AskOutcome(AskOutcome { txn: next.0.txn }));
    assert_eq!(hands.work().filter(|work| matches!(work, DiskWork::Append(..))).count(), 2, "a place and a commit");
    hands.run();
    assert_eq!(count(&hands.outcome(again).unwrap()), 2);
    assert_eq!(count(&hands.commit(again, &next)), 2);
}

#[test]
fn an_answered_outcome_is_forgotten_and_an_unknown_one_is_unknown() {
    let mut hands = Hands::new();
    let a = hands.join(1, 1);
    let first = txn(1, 1).write(ROOT, 0, 0, b"x");
    hands.commit(a, &first);
    hands.commit(a, &txn(1, 2).write(ROOT, 0, 1, b"y").answered(2));
    assert_eq!(hands.commit(a, &first), Outcome::Unknown);
    hands.say(a, Message::AskOutcome(AskOutcome { txn: TxnId { client: ClientId(1), number: 9 } }));
    assert_eq!(hands.outcome(a), Some(Outcome::Unknown));
}

/// A client that was away for too long: its commit is not remembered, and is not called refused either.
#[test]
fn a_forgotten_commit_is_unknown_and_never_refused() {
    let mut hands = Hands::new();
    let a = hands.join(1, 1);
    let request = txn(1, 1).write(ROOT, 0, 0, b"x");
    hands.commit(a, &request);
    hands.hang_up(a);
    hands.pass(Config::default().grace);
    let again = hands.join(2, 1);
    assert_eq!(hands.commit(again, &request), Outcome::Unknown);
    // One that read after that cannot have been forgotten: it is refused for what it is.
    hands.commit(again, &txn(1, 2).write(ROOT, 0, 1, b"y"));
    assert!(is_stale(&hands.commit(again, &txn(1, 3).write(ROOT, 0, 1, b"z"))));
}

/// What nobody knows is said once and for all: the reply stands for every copy, and its client listens for no other. That one
/// copy has lapsed says nothing of the next.
#[test]
pub(crate) fn what_is_unknown_has_no_effect_after_that() {
    let mut hands = Hands::new();
    let a = hands.join(1, 1);
    let done = txn(1, 1).write(ROOT, 0, 0, b"x");
    hands.commit(a, &done);
    hands.hang_up(a);
    hands.pass(Config::default().grace);
    let b = hands.join(2, 2);
    let beyond = PageId::new(0, 1);
    let early = txn(2, 1).write(beyond, 0, 0, b"y");
    assert_eq!(hands.commit(b, &early), Outcome::Unknown, "there is no such page, and it may have been there");
    assert_eq!(hands.grant(b, 1), [beyond]);
    assert_eq!(hands.commit(b, &early), Outcome::Unknown);
    assert_eq!(hands.value(b, beyond, 0), None);

    hands.crash();
    let a = hands.join(3, 1);
    assert_eq!(hands.commit(a, &done.clone().to(1)), Outcome::Refused(Refusal::Lapsed(Incarnation(2))));
    assert_eq!(hands.commit(a, &done.to(2)), Outcome::Unknown);
}
