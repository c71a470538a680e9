//! The behaviour of a store when something is full.

use crate::driver::{Driver, ROOT, Txn, count, txn};
use bytes::Bytes;
use messages::{Grant, Outcome, ToClient, ToServer};
use std::time::Duration;
use store::{Config, DiskWork};
use types::limits::{GRANTS_PER_SESSION_MAX, PAGE_BYTES_MAX, TXN_BYTES_MAX};
use types::{Delta, GoodbyeReason, Refusal, SlotChange};

const VALUE: [u8; 1000] = [7; 1000];

/// A full MOB lets commits wait until write-back has made room, and fails none.
#[test]
fn a_full_mob_slows_commits_down() {
    let mut driver = Driver::with(Config { mob_bytes_limit: 8 * 1024, ..Config::default() });
    let a = driver.join(1, 1);
    let pages = driver.grant(a, 30);
    for (i, &page) in pages.iter().enumerate() {
        driver.say(a, txn(1, i as u64 + 1).write(page, 0, 0, &VALUE).message());
    }
    driver.sync();
    assert!(driver.work().any(|work| matches!(work, DiskWork::Install(..))), "write-back has begun");
    assert!(driver.store.stats().mob_bytes <= 8 * 1024);
    assert!(driver.store.stats().commits < 30);
    driver.run();
    assert_eq!(driver.store.stats().commits, 30);
    driver.crash();
    let a = driver.join(2, 1);
    assert!(pages.iter().all(|&page| driver.value(a, page, 0).unwrap() == VALUE));
}

/// Likewise for a full log. Each page is written again and again, so that what is freed is really home.
#[test]
fn a_full_log_slows_commits_down() {
    let mut driver = Driver::with_log(Config::default(), 64 * 1024);
    let a = driver.join(1, 1);
    let pages = driver.grant(a, 5);
    for number in 1..=200_u64 {
        let evidence = number.saturating_sub(5);
        let request = txn(1, number).write(pages[number as usize % 5], 0, evidence, &VALUE).answered(number);
        assert_eq!(count(&driver.commit(a, &request)), number);
    }
    driver.crash();
    let a = driver.join(2, 1);
    assert!(pages.iter().all(|&page| driver.value(a, page, 0).unwrap() == VALUE));
}

/// No room at home: commits are accepted for as long as log and MOB have room, then refused before anything is
/// begun; when there is room again they continue, and nothing is lost.
#[test]
fn a_full_store_refuses_and_goes_on_when_there_is_room() {
    let mut driver = Driver::with_log(Config::default(), 64 * 1024);
    let a = driver.join(1, 1);
    let pages = driver.grant(a, 100);
    driver.home_pages = 0;
    let mut accepted = 0;
    let refused = loop {
        let number = accepted as u64 + 1;
        match driver.commit(a, &txn(1, number).write(pages[accepted], 0, 0, &VALUE)) {
            Outcome::Committed { .. } => accepted += 1,
            refused => break refused,
        }
    };
    assert_eq!(refused, Outcome::Refused(Refusal::StoreFull));
    assert!(accepted > 10, "the log had room for some: {accepted}");
    assert_eq!(driver.grant(a, 1), [], "no new pages either");
    driver.home_pages = usize::MAX;
    driver.pass(Duration::from_secs(2));
    assert_eq!(count(&driver.commit(a, &txn(1, 99).write(pages[99], 0, 0, &VALUE))), accepted as u64 + 1);
    driver.crash();
    let a = driver.join(2, 1);
    assert!(pages[..accepted].iter().all(|&page| driver.value(a, page, 0).unwrap() == VALUE));
}

#[test]
fn a_transaction_that_the_log_can_never_hold_is_refused_at_once() {
    let mut driver = Driver::with_log(Config::default(), 32 * 1024);
    let a = driver.join(1, 1);
    let refused = driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, &vec![7; 30_000]));
    assert_eq!(refused, Outcome::Refused(Refusal::StoreFull));
    assert_eq!(count(&driver.commit(a, &txn(1, 2).write(ROOT, 0, 0, b"x"))), 1);
}

/// Nothing in the log is needed any more, and still it is too small: it grows, as far as it may.
#[test]
fn a_transaction_that_the_log_can_grow_for_waits_for_that() {
    let mut driver = Driver::with_log(Config::default(), 32 * 1024);
    driver.log_bytes_max = 64 * 1024;
    let a = driver.join(1, 1);
    let too_large = txn(1, 1).write(ROOT, 0, 0, &vec![7; 60_000]);
    assert_eq!(driver.commit(a, &too_large), Outcome::Refused(Refusal::StoreFull));
    assert_eq!(count(&driver.commit(a, &txn(1, 2).write(ROOT, 0, 0, &vec![7; 30_000]))), 1);
    // A commit that was refused has not spoken for those after it: the disk is asked again.
    assert_eq!(driver.commit(a, &txn(1, 3).write(ROOT, 0, 1, &vec![7; 60_000])), Outcome::Refused(Refusal::StoreFull));
    driver.log_bytes_max = 128 * 1024;
    assert_eq!(count(&driver.commit(a, &txn(1, 4).write(ROOT, 0, 1, &vec![7; 60_000]))), 2);
}

#[test]
fn a_transaction_larger_than_the_mob_goes_alone() {
    let mut driver = Driver::with(Config { mob_bytes_limit: 8 * 1024, ..Config::default() });
    let a = driver.join(1, 1);
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    assert_eq!(count(&driver.commit(a, &txn(1, 2).write(ROOT, 1, 1, &vec![7; 30_000]))), 2);
}

fn delete(mut txn: Txn, slot: u16) -> Txn {
    txn.0.writes[0].changes.push(SlotChange { slot, value: None });
    txn.0.writes[0].changes.sort_by_key(|change| change.slot);
    txn
}

/// A page never passes its limit: refused before it is logged, by what the page really holds, wherever its image is.
#[test]
fn a_page_that_would_pass_its_limit_is_refused() {
    let mut driver = Driver::new();
    let mut a = driver.join(1, 1);
    let large = vec![7; PAGE_BYTES_MAX - 2000];
    let full = Outcome::Refused(Refusal::PageFull(ROOT));
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, &large));
    for session in 2..5 {
        assert_eq!(driver.commit(a, &txn(1, session * 2).write(ROOT, 1, 1, &[7; 3000])), full);
        // In the MOB, at home and in memory, at home only.
        match session {
            2 => driver.pass(Duration::from_secs(2)),
            _ => driver.crash(),
        }
        a = driver.join(session, 1);
    }
    // The bound says that this cannot fit, the page says that it does.
    let moved = delete(txn(1, 20).write(ROOT, 1, 1, &large).read(ROOT, 0, 1), 0);
    assert_eq!(count(&driver.commit(a, &moved)), 2);
    assert_eq!(driver.value(a, ROOT, 1).unwrap(), large);
    driver.pass(Duration::from_secs(2));
    assert_eq!(driver.value(a, ROOT, 0), None);
}

#[test]
fn prepared_writes_count_for_the_limit_of_a_page() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    driver.say(a, txn(1, 1).write(ROOT, 0, 0, &vec![7; 40_000]).message());
    assert_eq!(
        driver.commit(a, &txn(1, 2).write(ROOT, 1, 0, &vec![7; 40_000])),
        Outcome::Refused(Refusal::PageFull(ROOT))
    );
}

#[test]
fn a_slot_that_is_written_again_and_again_does_not_fill_its_page() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    for number in 1..200 {
        assert_eq!(
            count(&driver.commit(a, &txn(1, number).write(ROOT, 0, number - 1, &VALUE).answered(number))),
            number
        );
    }
}

/// A driver whose log is full for a moment: commits wait for write-back.
fn full_for_a_moment() -> (Driver, [store::SessionId; 2]) {
    let mut driver = Driver::with_log(Config::default(), 64 * 1024);
    let [a, b] = [1, 2].map(|number| driver.join(number, number));
    let pages = driver.grant(a, 60);
    for (i, &page) in pages.iter().enumerate() {
        driver.say(a, txn(1, i as u64 + 1).write(page, 0, 0, &VALUE).message());
    }
    driver.sync();
    assert!(driver.store.stats().commits < 60, "the log is full");
    driver.take(a);
    (driver, [a, b])
}

fn grant(space: u32) -> ToServer {
    ToServer::Grant(Grant { space, count: 3 })
}

/// A client that is notified of no pages takes the store for full: as long as write-back makes room it waits.
#[test]
fn a_grant_waits_while_the_log_is_full_for_a_moment() {
    let (mut driver, [a, _]) = full_for_a_moment();
    driver.say(a, grant(0));
    assert_eq!(driver.take(a), []);
    driver.run();
    assert_eq!(driver.store.stats().commits, 60);
    let granted: Vec<_> = driver.take(a).into_iter().filter(|m| matches!(m, ToClient::Granted(_))).collect();
    assert!(matches!(&granted[..], [ToClient::Granted(granted)] if granted.ranges[0].count == 3), "{granted:?}");
}

#[test]
fn a_grant_that_waits_ends_with_its_session_and_with_the_store() {
    let (mut driver, [a, b]) = full_for_a_moment();
    driver.say(a, grant(0));
    driver.hang_up(a);
    driver.say(b, grant(0));
    driver.store.close(driver.now);
    driver.run();
    let is_granted = |message: &ToClient| matches!(message, ToClient::Granted(_));
    assert!(!driver.take(a).iter().any(is_granted) && !driver.take(b).iter().any(is_granted));
}

#[test]
fn the_grants_that_a_session_waits_for_are_bounded() {
    let (mut driver, [a, _]) = full_for_a_moment();
    for space in 0..GRANTS_PER_SESSION_MAX as u32 {
        driver.say(a, grant(space));
    }
    assert_eq!(driver.ended(a), None);
    driver.say(a, grant(0));
    assert_eq!(driver.ended(a), Some(GoodbyeReason::TooMuch));
}

/// Whether a page has room for a commit can depend on its image, which is not in memory: what waits for it is bounded.
#[test]
fn commits_that_wait_for_a_page_are_bounded_in_bytes() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, &vec![7; PAGE_BYTES_MAX - 2000]));
    driver.pass(Duration::from_secs(2));
    driver.crash();
    let a = driver.join(2, 1);
    let pages = driver.grant(a, 1000);
    let value = Bytes::from(vec![7; 60_000]);
    let large = |number| {
        let mut large = txn(1, number).write(ROOT, 1, 1, &[7; 3000]);
        for &page in &pages {
            large = large.read(page, 0, 0);
            let changes = vec![SlotChange { slot: 0, value: Some(value.clone()) }];
            large.0.writes.push(Delta { page, changes });
        }
        large
    };
    let waits = 1 + TXN_BYTES_MAX as u64 / 60_000_000;
    for number in 2..2 + waits {
        driver.say(a, large(number).message());
        assert_eq!(driver.outcome(a), None, "commit {number} waits for the page");
    }
    driver.say(a, large(2 + waits).message());
    assert_eq!(driver.outcome(a), Some(Outcome::Refused(Refusal::TooMany)));
    driver.run();
    assert_eq!(driver.outcome(a), Some(Outcome::Refused(Refusal::PageFull(ROOT))));
    // A commit that has waited is counted off again.
    assert_eq!(count(&driver.commit(a, &txn(1, 99).write(pages[0], 0, 0, b"x"))), 2);
}

/// New pages leave some room, so that a client that has filled the store up can delete.
#[test]
fn a_full_store_takes_what_deletes() {
    let mut driver = Driver::with_log(Config::default(), 64 * 1024);
    let a = driver.join(1, 1);
    let pages = driver.grant(a, 1000);
    driver.home_pages = 0;
    let mut accepted = 0;
    while let Outcome::Committed { .. } = {
        let number = accepted as u64 + 1;
        driver.commit(a, &txn(1, number).write(pages[accepted], 0, 0, b"x").answered(number))
    } {
        accepted += 1;
    }
    assert!(accepted > 50, "the log had room for some: {accepted}");
    for (at, &page) in pages[..10].iter().enumerate() {
        let evidence = at as u64 + 1;
        let deletes = delete(txn(1, 2000 + at as u64).write(page, 1, evidence, b"").read(page, 0, evidence), 0);
        count(&driver.commit(a, &deletes));
    }
}
