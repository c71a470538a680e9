//! Pages of the home that cannot be read.

use crate::driver::{Driver, ROOT, count, txn};
use messages::{Fetch, LeftOut, Outcome, ToClient};
use std::time::Duration;
use store::{Config, SessionId};
use types::{PageId, Refusal, Version};

const BACK_HOME: Duration = Duration::from_secs(2);

/// A store with an object in each of some pages, all home and none in memory: the first of them is damaged.
fn damaged(config: &Config) -> (Driver, SessionId, Vec<PageId>) {
    let mut driver = Driver::with(config.clone());
    let a = driver.join(1, 1);
    let mut pages = vec![ROOT];
    pages.extend(driver.grant(a, 3));
    for (number, &page) in (1..).zip(&pages) {
        driver.commit(a, &txn(1, number).write(page, 0, 0, b"home"));
    }
    driver.pass(BACK_HOME);
    assert!(pages.iter().all(|&page| driver.home(page).is_some()), "all are home");
    driver.damaged.push(ROOT);
    driver.crash();
    let a = driver.join(2, 1);
    (driver, a, pages)
}

fn fetch(driver: &mut Driver, session: SessionId, pages: &[PageId]) -> Vec<ToClient> {
    driver.take(session);
    driver.say(session, Fetch { pages: pages.to_vec(), at_least: Version::ZERO.into(), number: 7, follow: None });
    driver.run();
    driver.take(session)
}

fn is_told(message: &ToClient, page: PageId) -> bool {
    let damage = Some("bad checksum".to_owned());
    *message == ToClient::LeftOut(LeftOut { page, number: 7, damage })
}

#[test]
fn only_the_read_of_a_damaged_page_fails() {
    let (mut driver, a, pages) = damaged(&Config::default());
    // A demand fetch gets the reason, also the second time. A prefetched page is left out.
    for _ in 0..2 {
        let answers = fetch(&mut driver, a, &[ROOT]);
        assert!(matches!(&answers[..], [told] if is_told(told, ROOT)), "{answers:?}");
    }
    let answers = fetch(&mut driver, a, &[pages[1], ROOT]);
    let left_out = ToClient::LeftOut(LeftOut { page: ROOT, number: 7, damage: None });
    assert!(answers.contains(&left_out), "{answers:?}");
    assert!(!driver.store.lists(a, ROOT), "who did not get it does not hold it");
    assert_eq!(driver.value(a, pages[2], 0).unwrap(), b"home");
    let status = driver.store.status();
    assert_eq!(status.damaged, [(ROOT, "bad checksum".to_owned())]);
    assert_eq!(driver.store.stats().pages_damaged, 1);
    // Fetches that were answered so do not count as outstanding.
    assert!(status.sessions.iter().all(|session| session.fetches == 0), "{status:?}");
}

#[test]
fn a_page_that_was_to_be_sent_ahead_is_left_out_when_its_read_finds_the_damage() {
    let (mut driver, a, pages) = damaged(&Config::default());
    let answers = fetch(&mut driver, a, &[pages[1], ROOT, pages[2]]);
    assert!(answers.contains(&ToClient::LeftOut(LeftOut { page: ROOT, number: 7, damage: None })), "{answers:?}");
    let sent = answers.iter().filter(|answer| matches!(answer, ToClient::Page(_))).count();
    assert_eq!(sent, 2, "{answers:?}");
}

/// A transaction that only writes the page commits, because the damage is not known yet. Write-back finds it.
#[test]
fn what_was_committed_to_a_damaged_page_is_set_aside_and_holds_nothing_up() {
    let (mut driver, a, pages) = damaged(&Config::default());
    let version = count(&driver.commit(a, &txn(1, 11).write(ROOT, 1, 4, b"later")));
    driver.commit(a, &txn(1, 12).write(pages[1], 1, 4, b"other"));
    driver.pass(BACK_HOME);
    driver.pass(BACK_HOME);
    let [aside] = driver.aside() else { panic!("expected one page, got {:?}", driver.aside()) };
    assert_eq!((aside.page, aside.version, aside.changes.len()), (ROOT, Version(version), 1));
    assert_eq!(driver.home(pages[1]).unwrap().0, Version(version + 1), "the other page went home");
    assert_eq!(driver.log_records(), 1, "the log is free");
    assert_eq!(driver.home(ROOT).unwrap().0, Version(1), "nothing was installed over the damage");

    // From then on the page takes no changes; others do, and the store closes.
    let refused = Outcome::Refused(Refusal::PageDamaged(ROOT));
    assert_eq!(driver.commit(a, &txn(1, 13).write(ROOT, 2, 4, b"refused")), refused);
    driver.commit(a, &txn(1, 14).write(pages[2], 1, 4, b"other"));
    driver.pass(BACK_HOME);
    driver.crash();

    // Still damaged after a restart: still aside, also in checkpoints that other pages bring.
    let a = driver.join(3, 1);
    driver.commit(a, &txn(1, 15).write(pages[3], 1, 4, b"other"));
    driver.pass(BACK_HOME);
    driver.pass(BACK_HOME);
    assert_eq!(driver.aside().len(), 1);
    assert_eq!(driver.log_records(), 1, "the log is free again");

    // Once the image can be read, both are there.
    driver.damaged.clear();
    driver.crash();
    let a = driver.join(4, 1);
    assert_eq!(driver.value(a, ROOT, 0).unwrap(), b"home");
    assert_eq!(driver.value(a, ROOT, 1).unwrap(), b"later");
    driver.pass(BACK_HOME);
    driver.pass(BACK_HOME);
    assert_eq!(driver.aside(), []);
    assert_eq!(driver.home(ROOT).unwrap().0, Version(version));
    driver.store.close(driver.now);
    driver.run();
    assert!(driver.is_closed());
}

/// The image is whole when it is read once more: what was set aside is missing in it, so it is not served.
#[test]
fn a_page_stays_damaged_until_the_restart() {
    let (mut driver, a, _) = damaged(&Config::default());
    driver.commit(a, &txn(1, 11).write(ROOT, 1, 4, b"later"));
    driver.pass(BACK_HOME);
    driver.damaged.clear();
    let answers = fetch(&mut driver, a, &[ROOT]);
    assert!(matches!(&answers[..], [told] if is_told(told, ROOT)), "{answers:?}");
}

/// Near the page's limit a commit waits for the image, to see whether it fits.
#[test]
fn a_commit_that_waits_for_a_damaged_page_is_refused() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let large = vec![7; types::limits::PAGE_BYTES_MAX * 3 / 4];
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, &large));
    driver.pass(BACK_HOME);
    driver.damaged.push(ROOT);
    driver.crash();
    let a = driver.join(2, 1);
    let outcome = driver.commit(a, &txn(1, 2).write(ROOT, 1, 1, &large));
    assert_eq!(outcome, Outcome::Refused(Refusal::PageDamaged(ROOT)));
}
