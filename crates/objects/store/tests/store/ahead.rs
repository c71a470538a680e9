//! Pages that no request waits for yet, and a line that is full.

use crate::driver::{Driver, invalidations, txn};
use messages::{Fetch, ToClient};
use store::Config;
use types::{Limits, PageId, SessionId, Version};

/// Pages 1 to 4 and 5 hold an object each; a page ahead fills a line.
fn full() -> (Driver, SessionId, SessionId) {
    let limits = Limits { ahead_bytes: 100, ..Limits::SHIPPED };
    let mut driver = Driver::with(Config { limits, ..Config::default() });
    let writer = driver.join(1, 1);
    driver.grant(writer, 5);
    for number in 1..=5 {
        driver.commit(writer, &txn(1, number.into()).write(PageId::new(0, number), 0, 0, &[b'x'; 100]));
    }
    let reader = driver.join(2, 2);
    driver.lines_are_full = true;
    (driver, reader, writer)
}

fn fetch(driver: &mut Driver, session: SessionId, pages: impl IntoIterator<Item = u32>) {
    let pages = pages.into_iter().map(|page| PageId::new(0, page)).collect();
    driver.say(session, Fetch { pages, at_least: Version::ZERO.into(), number: 7, follow: None });
}

fn pages(messages: &[ToClient]) -> Vec<u32> {
    let page = |message: &ToClient| if let ToClient::Page(page) = message { Some(page.page.number) } else { None };
    messages.iter().filter_map(page).collect()
}

#[test]
fn a_page_that_somebody_waits_for_does_not_wait_for_others() {
    let (mut driver, reader, _) = full();
    fetch(&mut driver, reader, 1..=4);
    assert_eq!(pages(&driver.take(reader)), [1, 2], "the first is wanted, and one more fills the line");
    fetch(&mut driver, reader, [5]);
    assert_eq!(pages(&driver.take(reader)), [5]);
    driver.empty_lines();
    assert_eq!(pages(&driver.take(reader)), [3, 4]);
}

#[test]
fn a_page_that_waits_for_the_line_leaves_as_it_is_by_then() {
    let (mut driver, reader, writer) = full();
    fetch(&mut driver, reader, 1..=3);
    driver.take(reader);
    assert!(!driver.store.lists(reader, PageId::new(0, 3)), "it is told of no change before it has the page");
    driver.commit(writer, &txn(1, 6).write(PageId::new(0, 3), 0, 5, b"y"));
    driver.empty_lines();
    let messages = driver.take(reader);
    assert!(invalidations(&messages).is_empty(), "{messages:?}");
    let [ToClient::Page(page)] = &messages[..] else { panic!("expected a page, got {messages:?}") };
    assert_eq!((page.page, page.version), (PageId::new(0, 3), Version(6)));
    assert!(driver.store.lists(reader, page.page));
}

#[test]
fn pages_without_end_do_not_hold_up_what_nobody_waits_for() {
    let (mut driver, reader, _) = full();
    fetch(&mut driver, reader, 1..=3);
    driver.take(reader);
    for _ in 0..5 {
        fetch(&mut driver, reader, [5]);
    }
    let came = pages(&driver.take(reader));
    assert!(came.contains(&3) && came.iter().filter(|page| **page == 5).count() == 5, "{came:?}");
}

#[test]
fn pages_that_are_not_in_memory_are_read_as_the_line_takes_them() {
    let (mut driver, ..) = full();
    driver.store.close(driver.now);
    driver.run();
    assert!(driver.is_closed());
    driver.crash();
    let reader = driver.join(2, 2);
    fetch(&mut driver, reader, 1..=4);
    driver.run();
    let mut came = pages(&driver.take(reader));
    assert_eq!(came, [1, 2], "the first, and one that fills the line");
    for _ in 0..2 {
        driver.empty_lines();
        driver.lines_are_full = true;
        driver.run();
        came.extend(pages(&driver.take(reader)));
    }
    assert_eq!(came, [1, 2, 3, 4]);
}

#[test]
fn fetches_take_turns() {
    let (mut driver, reader, _) = full();
    fetch(&mut driver, reader, 1..=4);
    fetch(&mut driver, reader, [5, 2, 1]);
    assert_eq!(pages(&driver.take(reader)), [1, 2, 5]);
    driver.empty_lines();
    assert_eq!(pages(&driver.take(reader)), [2, 3, 1, 4]);
}
