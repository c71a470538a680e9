//! The state that a crash leaves.

use crate::driver::{Driver, ROOT, count, invalidations, txn};
use messages::{AskOutcome, CommitRequest, Grant, Outcome, Ping, ToClient, ToServer};
use std::time::Duration;
use store::{Config, Counted, DiskDone, DiskWork, Record, UncountedCommit};
use types::{PageId, Refusal, Version};

#[test]
fn acknowledged_commits_survive_and_those_not_durable_do_not() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"kept"));
    let lost = txn(1, 2).write(ROOT, 1, 0, b"lost");
    driver.say(a, lost.message());
    driver.crash();
    let a = driver.join(2, 1);
    assert_eq!(driver.value(a, ROOT, 0).unwrap(), b"kept");
    assert_eq!(driver.value(a, ROOT, 1), None);
    driver.say(a, AskOutcome { txn: lost.0.txn });
    assert_eq!(driver.outcome(a), Some(Outcome::Unknown));
}

/// No client has learned of a count whose record is lost, so another commit can get it.
#[test]
fn a_count_that_was_lost_is_given_again() {
    let mut driver = Driver::new();
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    driver.fetch(b, ROOT);
    let requests = [txn(1, 1).write(ROOT, 0, 0, b"x"), txn(1, 2).write(ROOT, 1, 0, b"y")];
    for request in &requests {
        driver.say(a, request.message());
    }
    assert!(driver.do_first(|work| matches!(work, DiskWork::Append(..))));
    let first = driver.outcome(a).unwrap();
    assert_eq!(count(&first), 1);
    assert!(driver.take(a).is_empty());
    driver.say(b, Ping { nonce: 1 });
    let heard = driver.take(b);
    assert_eq!(invalidations(&heard).iter().map(|change| change.version).collect::<Vec<_>>(), [Version(1)]);
    driver.crash();
    let a = driver.join(3, 1);
    assert_eq!(driver.commit(a, &requests[0]), first);
    assert_eq!(count(&driver.commit(a, &txn(1, 3).write(ROOT, 2, 1, b"z"))), 2);
    assert_eq!(count(&driver.commit(a, &txn(1, 2).write(ROOT, 1, 2, b"y"))), 3);
}

/// A record that comes again after it was written back has the count that it had.
#[test]
pub(crate) fn a_commit_has_the_count_of_its_record() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let request = txn(1, 1).write(ROOT, 0, 0, b"x");
    let outcome = driver.commit(a, &request);
    driver.now = driver.now + Duration::from_secs(2);
    driver.store.handle_timeout(driver.now);
    assert!(driver.do_first(|work| matches!(work, DiskWork::Install(..))));
    driver.crash();
    let a = driver.join(2, 1);
    assert_eq!(driver.commit(a, &request), outcome);
    assert_eq!(driver.fetch(a, ROOT).1.version, Version(1));
    assert_eq!(count(&driver.commit(a, &txn(1, 2).write(ROOT, 0, 1, b"y"))), 2);
}

/// A log of format 3: the commits that have no count get it at the first start, and keep it wherever that ends.
#[test]
fn commits_of_an_earlier_format_are_counted_once() {
    for operations in 0.. {
        let mut driver = Driver::new();
        for number in 1..=4 {
            let CommitRequest { txn, answered, writes: deltas, .. } =
                txn(1, number).write(ROOT, number as u16, 0, b"x").0;
            driver.has_logged(Record::Uncounted(UncountedCommit { txn, answered, deltas }));
            if number == 2 {
                driver.has_logged(Record::Counts(vec![Counted { txn: self::txn(1, 1).0.txn, version: Version(1) }]));
            }
        }
        driver.crash_in_recovery();
        driver.now = driver.now + Duration::from_secs(2);
        driver.store.handle_timeout(driver.now);
        let done = (0..operations).take_while(|_| driver.do_first(|_| true)).count();
        driver.crash();
        let a = driver.join(1, 1);
        for number in 1..=4 {
            driver.say(a, AskOutcome { txn: txn(1, number).0.txn });
            assert_eq!(count(&driver.outcome(a).unwrap()), number, "after {operations} operations");
        }
        assert_eq!(count(&driver.commit(a, &txn(1, 5).write(ROOT, 0, 4, b"y"))), 5, "after {operations} operations");
        if done < operations {
            assert!(operations > 3, "the records were written back");
            break;
        }
    }
}

#[test]
fn an_outcome_is_remembered_when_its_record_is_freed() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let request = txn(1, 1).write(ROOT, 0, 0, b"x");
    let outcome = driver.commit(a, &request);
    driver.pass(Duration::from_secs(2));
    assert_eq!(driver.home(ROOT).unwrap().0, Version(1));
    assert_eq!(driver.log_records(), 1);
    driver.crash();
    let a = driver.join(2, 1);
    assert_eq!(driver.commit(a, &request), outcome);
    assert_eq!(driver.value(a, ROOT, 0).unwrap(), b"x");
    assert_eq!(count(&driver.commit(a, &txn(1, 2).write(ROOT, 0, 1, b"y"))), 2);
}

/// A crash after any piece of disk work, while write-back is under way and commits continue: nothing acknowledged is
/// lost, no count is given twice, and a copy of each request has the outcome that its first copy had.
#[test]
fn a_crash_at_every_disk_operation() {
    for operations in 0.. {
        let mut driver = Driver::new();
        let a = driver.join(1, 1);
        let pages = driver.grant(a, 3);
        let mut acknowledged = Vec::new();
        let mut left = operations;
        'work: for round in 0..4u64 {
            for (i, &page) in pages.iter().enumerate() {
                let number = round * 3 + i as u64 + 1;
                let evidence = if round == 0 { 0 } else { number - 3 };
                let request = txn(1, number).write(page, 0, evidence, &number.to_le_bytes());
                driver.say(a, request.message());
                while driver.work().next().is_some() {
                    if left == 0 {
                        break 'work;
                    }
                    left -= 1;
                    driver.do_first(|_| true);
                }
                acknowledged.push((request, driver.outcome(a).unwrap()));
            }
            driver.now = driver.now + Duration::from_secs(2);
            driver.store.handle_timeout(driver.now);
        }
        let finished = left > 0;
        driver.crash();
        let a = driver.join(2, 1);
        for (i, page) in pages.iter().enumerate() {
            let last = acknowledged.iter().rev().find(|(request, _)| request.0.writes[0].page == *page);
            let value = driver.value(a, *page, 0).map(|value| u64::from_le_bytes(value.try_into().unwrap()));
            let expected = last.map(|(request, _)| request.0.txn.number);
            // The one that was under way may have made it.
            let under_way = acknowledged.len() % 3 == i;
            assert!(value == expected || (under_way && value == Some(acknowledged.len() as u64 + 1)), "{operations}");
        }
        for (request, outcome) in &acknowledged {
            assert_eq!(driver.commit(a, request), *outcome, "{operations}");
        }
        let fresh = driver.commit(a, &txn(1, 99).write(ROOT, 0, 0, b"x"));
        assert!(count(&fresh) > acknowledged.len() as u64, "{operations}");
        if finished {
            assert!(operations > 20, "the loop ends when the whole workload is done");
            break;
        }
    }
}

#[test]
fn recovery_that_is_interrupted_begins_again() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let outcome = driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    for _ in 0..3 {
        driver.crash_in_recovery();
    }
    driver.crash();
    let a = driver.join(2, 1);
    assert_eq!(driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x")), outcome);
    assert_eq!(driver.store.stats().recovered_commits, 1);
}

/// An image that was read before an install and arrives after it is no longer the page.
#[test]
fn an_old_image_that_arrives_after_an_install_is_read_again() {
    let mut driver = Driver::with(Config { cache_bytes_limit: 0, ..Config::default() });
    let a = driver.join(1, 1);
    let other = driver.grant(a, 1)[0];
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"old").write(other, 0, 0, b"other"));
    driver.pass(Duration::from_secs(2));
    let old = driver.home(ROOT);
    // The image is in memory when the batch is made, and is not any more when a fetch asks for it.
    driver.fetch(a, ROOT);
    driver.commit(a, &txn(1, 2).write(ROOT, 0, 1, b"new"));
    driver.now = driver.now + Duration::from_secs(2);
    driver.store.handle_timeout(driver.now);
    driver.sync();
    let fetch = |page: PageId| {
        ToServer::Fetch(messages::Fetch { pages: vec![page], at_least: Version::ZERO.into(), number: 0, follow: None })
    };
    driver.say(a, fetch(other));
    assert!(driver.do_first(|work| matches!(work, DiskWork::Read(_))));
    driver.say(a, fetch(ROOT));
    assert!(driver.do_first(|work| matches!(work, DiskWork::Install(..))));
    driver.take(a);
    driver.store.disk(driver.now, DiskDone::Pages(vec![(ROOT, old)]));
    driver.run();
    let pages = driver.take(a).into_iter().filter_map(|message| match message {
        ToClient::Page(page) => Some((page.version, page.image)),
        _ => None,
    });
    assert_eq!(pages.collect::<Vec<_>>(), [driver.home(ROOT).unwrap()]);
}

/// A record on its way to the log gets there before the process ends, also where nothing can be brought home.
#[test]
fn closing_waits_until_the_log_is_durable() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    driver.home_pages = 0;
    driver.now = driver.now + Duration::from_secs(2);
    driver.store.handle_timeout(driver.now);
    driver.say(a, Grant { space: 0, count: 1 });
    driver.store.close(driver.now);
    assert!(driver.do_first(|work| matches!(work, DiskWork::Append(..))));
    assert!(driver.do_first(|work| matches!(work, DiskWork::Install(..))));
    assert!(!driver.is_closed(), "a grant is still on its way");
    driver.run();
    assert!(driver.is_closed());
}

#[test]
fn closing_writes_everything_home_and_ends_all_sessions() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    driver.say(a, txn(1, 2).write(ROOT, 1, 0, b"y").message());
    driver.store.close(driver.now);
    driver.say(a, txn(1, 3).write(ROOT, 2, 0, b"z").message());
    assert_eq!(driver.outcome(a), Some(Outcome::Refused(Refusal::Closing)));
    assert!(!driver.is_closed());
    driver.run();
    assert_eq!(count(&driver.outcome(a).unwrap()), 2);
    assert!(driver.is_closed());
    assert!(driver.ended(a).is_some());
    assert_eq!(driver.home(ROOT).unwrap().0, Version(2));
    assert_eq!(driver.log_records(), 1);
    driver.crash();
    assert_eq!(driver.store.stats().recovered_commits, 0);
}
