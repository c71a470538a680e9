//! Pages to create objects in.

use crate::driver::{Driver, ROOT, hello, invalidations, txn};
use messages::{Fetch, Grant, LeftOut, Outcome, Resume, ToClient};
use std::time::Duration;
use store::{Config, Record, SessionId, SpaceStatus};
use types::limits::GRANTED_PAGES_MAX;
use types::{ObjectPage, PageId, PageRange, Refusal, Shard, Vector, Version};

fn range(pages: &[PageId]) -> PageRange {
    PageRange { first: pages[0], count: pages.len() as u32 }
}

fn grace() -> Duration {
    Config::default().grace
}

#[test]
fn a_grant_is_told_when_it_is_durable() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    driver.say(a, Grant { space: 0, count: 2 });
    assert_eq!(driver.take(a), []);
    driver.sync();
    assert!(matches!(&driver.take(a)[..], [ToClient::Granted(granted)] if granted.ranges.len() == 1));
    driver.crash();
    let a = driver.join(2, 1);
    assert_eq!(driver.grant(a, 1), [PageId::new(0, 3)], "never granted twice");
}

/// Pages that were on their way to a session that is lost are granted again, and are in no log yet.
#[test]
fn pages_that_are_granted_again_are_told_when_they_are_durable() {
    let mut driver = Driver::new();
    let lost = driver.join(1, 1);
    driver.say(lost, Grant { space: 0, count: 2 });
    let again = SessionId(2);
    driver.store.connected(driver.now, again);
    driver.say(again, hello(1, 2));
    driver.say(again, Resume { horizon: Vector::new(), pages: vec![], grants: vec![], last: true, missed: 0 });
    driver.say(again, Grant { space: 0, count: 2 });
    let granted = |driver: &mut Driver| {
        driver.take(again).into_iter().find_map(|message| match message {
            ToClient::Granted(granted) => Some(granted.ranges),
            _ => None,
        })
    };
    assert_eq!(granted(&mut driver), None);
    driver.sync();
    assert_eq!(granted(&mut driver), Some(vec![PageRange { first: PageId::new(0, 1), count: 2 }]));
}

#[test]
fn the_status_counts_the_pages_of_each_space() {
    let mut driver = Driver::with(Config { leased_spaces: vec![7], ..Config::default() });
    let a = driver.join(1, 1);
    driver.say(a, Grant { space: 7, count: 2 });
    driver.grant(a, 5);
    let spaces =
        [SpaceStatus { space: 0, pages: 6, is_leased: false }, SpaceStatus { space: 7, pages: 3, is_leased: true }];
    assert_eq!(driver.store.status().spaces, spaces);
    driver.crash();
    assert_eq!(driver.store.status().spaces, spaces, "and again after a restart");
}

#[test]
fn granted_pages_are_peers_that_exist_and_are_held() {
    let mut driver = Driver::new();
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    let pages = driver.grant(a, 3);
    assert_eq!(pages, [1, 2, 3].map(|number| PageId::new(0, number)));
    assert_eq!(driver.grant(b, 1), [PageId::new(0, 4)]);
    assert!(driver.store.lists(a, pages[2]) && !driver.store.lists(b, pages[2]));
    assert_eq!(driver.fetch(b, pages[0]).1.version, Version::ZERO);
    assert_eq!(driver.fetch(b, PageId::new(9, 0)).1.version, Version::ZERO, "page 0 exists from birth");
}

/// A client that looks for something in a page that does not exist yet learns of its creation like any holder; one that
/// has only been guessing that there is such a page does not.
#[test]
fn a_page_that_does_not_exist_is_empty_and_its_creation_is_told() {
    let mut driver = Driver::new();
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    let (wanted, guessed) = (PageId::new(0, 1), PageId::new(0, 2));
    driver.say(a, Fetch { pages: vec![wanted, guessed], at_least: Version::ZERO.into(), number: 7, follow: None });
    let [ToClient::Page(empty), ToClient::LeftOut(guess)] = &driver.take(a)[..] else { panic!("expected two answers") };
    assert_eq!((empty.page, empty.version, &empty.image), (wanted, Version::ZERO, ObjectPage::empty().image()));
    assert_eq!(guess, &LeftOut { page: guessed, number: 7, damage: None });
    assert_eq!([wanted, guessed].map(|page| driver.store.lists(a, page)), [true, false]);

    // That there was nothing can be proved, until there is.
    let nothing = txn(1, 1).read(wanted, 3, 0);
    assert_eq!(driver.commit(a, &nothing), Outcome::Committed { pages: vec![] });
    driver.grant(b, 2);
    driver.commit(b, &txn(2, 1).write(wanted, 3, 0, b"x").write(guessed, 3, 0, b"y"));
    assert_eq!(
        invalidations(&driver.ping(a))
            .iter()
            .map(|invalidation| (invalidation.page, invalidation.prev))
            .collect::<Vec<_>>(),
        [(wanted, Version::ZERO)]
    );
    let stale = vec![(wanted, [3].into_iter().collect())];
    assert_eq!(driver.commit(a, &nothing), Outcome::Refused(Refusal::Stale(stale)));
}

#[test]
fn unused_grants_of_a_client_that_is_gone_come_back_after_the_grace() {
    let mut driver = Driver::new();
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    let pages = driver.grant(a, 4);
    driver.commit(a, &txn(1, 1).write(pages[1], 0, 0, b"x"));
    driver.hang_up(a);
    assert_eq!(driver.grant(b, 1), [PageId::new(0, 5)]);
    for _ in 0..60 {
        driver.pass(grace() / 60);
        driver.ping(b);
    }
    assert_eq!(driver.grant(b, 9)[..3], [pages[0], pages[2], pages[3]]);
    // The first client comes back late: the pages are another's now.
    let again = driver.greet(3, 1, 3);
    let (_, resumed) = driver.resume(again, Version::ZERO, &[], &[range(&pages)]);
    assert_eq!(resumed.dropped, pages, "three are another's, one is no grant any more");
}

#[test]
fn a_client_that_returns_in_time_keeps_its_grants() {
    let mut driver = Driver::new();
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    let pages = driver.grant(a, 4);
    driver.hang_up(a);
    let again = driver.greet(3, 1, 3);
    let (invalidations, resumed) = driver.resume(again, Version::ZERO, &[], &[range(&pages)]);
    assert_eq!((invalidations, resumed.dropped), (vec![], vec![]));
    for _ in 0..60 {
        driver.pass(grace() / 30);
        driver.ping(b);
        driver.ping(again);
    }
    assert_eq!(driver.grant(b, 1), [PageId::new(0, 5)]);
}

#[test]
fn after_a_restart_grants_are_claimed_or_come_back() {
    let mut driver = Driver::new();
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    let (of_a, of_b) = (driver.grant(a, 2), driver.grant(b, 2));
    driver.crash();
    let b = driver.greet(4, 2, 4);
    let (_, resumed) = driver.resume(b, Version::ZERO, &[], &[range(&of_b)]);
    assert_eq!(resumed.dropped, []);
    let first_new = PageId::new(0, 5);
    assert_eq!(driver.grant(b, 1), [first_new], "the unclaimed may still be claimed");
    for _ in 0..60 {
        driver.pass(grace() / 60);
        driver.ping(b);
    }
    assert_eq!(driver.grant(b, 2), of_a);
    assert!(!driver.grant(b, 2).contains(&ROOT));
}

#[test]
fn nobody_hoards_pages() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let mut owned = 0;
    loop {
        match driver.grant(a, u32::MAX).len() {
            0 => break,
            more => owned += more,
        }
    }
    assert_eq!(owned, GRANTED_PAGES_MAX);
}

/// A client that came back too late writes to a page that was its own: the next grant does not include it.
#[test]
fn a_spare_page_that_was_written_to_is_not_granted() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let pages = driver.grant(a, 3);
    driver.hang_up(a);
    driver.pass(grace());
    let again = driver.join(2, 1);
    driver.commit(again, &txn(1, 1).write(pages[0], 0, 0, b"x"));
    driver.say(again, txn(1, 2).write(pages[1], 0, 0, b"y").message());
    assert_eq!(driver.grant(again, 8)[..2], [pages[2], PageId::new(0, 4)]);
}

/// A connection that breaks again and again between a grant and its answer costs the client nothing.
#[test]
fn a_grant_whose_answer_was_lost_comes_back() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let pages = driver.grant(a, 3);
    driver.hang_up(a);
    let again = driver.join(2, 1);
    assert_eq!(driver.grant(again, 3), pages);
}

/// After the grace unclaimed pages come back, and no request waits for all pages of the store to be looked at.
#[test]
fn unclaimed_pages_of_a_large_store_come_back_as_they_are_wanted() {
    let mut driver = Driver::new();
    driver.has_logged(Record::Grant { space: 0, next: u32::MAX });
    driver.crash();
    let a = driver.join(1, 1);
    driver.hang_up(a);
    driver.pass(grace());
    let a = driver.join(2, 1);
    let first: Vec<_> = (1..=3).map(|number| PageId::new(0, number)).collect();
    assert_eq!(driver.grant(a, 3), first);
    for (at, &page) in first.iter().enumerate() {
        driver.commit(a, &txn(1, at as u64 + 1).write(page, 0, 0, b"x"));
    }
    assert_eq!(driver.grant(a, 2), [PageId::new(0, 4), PageId::new(0, 5)]);
}

/// A page becomes empty before it is written back: it is granted again at once, behind everything that has changed in
/// it, and continues from the version that it had.
#[test]
pub(crate) fn an_emptied_page_is_granted_again_with_its_version() {
    let mut driver = Driver::new();
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    let pages = driver.grant(a, 2);
    driver.commit(a, &txn(1, 1).write(pages[0], 0, 0, b"x").write(pages[1], 0, 0, b"y"));
    driver.commit(a, &txn(1, 2).delete(pages[0], 0, 1));
    let emptied = driver.store.status().applied.of(Shard::ONLY);
    driver.say(b, Grant { space: 0, count: 1 });
    driver.sync();
    let [ToClient::Invalidations(told), ToClient::Granted(granted)] = &driver.take(b)[..] else {
        panic!("expected two messages")
    };
    assert_eq!((told.through.of(Shard::ONLY), &granted.ranges[..]), (emptied, &[range(&pages[..1])][..]));
    assert_eq!(driver.fetch(b, pages[0]).1.version, emptied);
    let filled = driver.commit(b, &txn(2, 1).write(pages[0], 0, emptied.0, b"z"));
    let Outcome::Committed { pages: moved } = filled else { panic!("expected a commit, got {filled:?}") };
    assert_eq!(moved[0].prev, emptied);
    assert_eq!(driver.grant(a, 1), [PageId::new(0, 3)], "it is filled again");
}

/// As long as the home has objects of a page, or the log may have to bring one back, it is not empty.
#[test]
fn a_page_with_an_object_anywhere_is_not_granted() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let pages = driver.grant(a, 3);
    driver.commit(a, &txn(1, 1).write(pages[0], 0, 0, b"x").write(pages[1], 0, 0, b"y").write(pages[1], 1, 0, b"z"));
    driver.pass(Duration::from_secs(2));
    driver.commit(a, &txn(1, 2).delete(pages[0], 0, 1).delete(pages[1], 0, 1));
    assert_eq!(driver.grant(a, 1), [PageId::new(0, 4)], "the object is at home still, and one of the other's");
    driver.pass(Duration::from_secs(2));
    assert_eq!(driver.grant(a, 2), [pages[0]], "half of what is wanted is enough");
    // A prepared write counts as well.
    driver.commit(a, &txn(1, 3).write(pages[0], 0, 2, b"x"));
    driver.commit(a, &txn(1, 4).delete(pages[0], 0, 3));
    driver.say(a, txn(1, 5).write(pages[0], 5, 3, b"w").message());
    assert_eq!(driver.grant(a, 1), [PageId::new(0, 5)]);
}

/// Emptied pages are found again after a restart, and a client that was granted one before keeps it if nobody wrote to
/// it.
#[test]
fn emptied_pages_are_found_after_a_restart() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let pages = driver.grant(a, 3);
    driver.commit(a, &pages.iter().fold(txn(1, 1), |txn, &page| txn.write(page, 0, 0, b"x")));
    driver.commit(a, &txn(1, 2).delete(pages[0], 0, 1).delete(pages[1], 0, 1));
    assert_eq!(driver.grant(a, 1), [pages[0]]);
    let horizon = driver.store.status().applied.of(Shard::ONLY);
    driver.crash();
    let a = driver.greet(2, 1, 2);
    let (_, resumed) = driver.resume(a, horizon, &[], &[range(&pages[..1])]);
    assert_eq!(resumed.dropped, []);
    for _ in 0..60 {
        driver.pass(grace() / 30);
        driver.ping(a);
    }
    assert_eq!(driver.grant(a, 8)[..2], [pages[1], PageId::new(0, 4)]);
}
