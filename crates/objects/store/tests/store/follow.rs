//! Pages that follow the one that was fetched.

use crate::driver::{Driver, hello, txn};
use messages::{Fetch, Follow, GROUP, Hello, Released, Resume, ToClient, ToServer};
use store::{Config, DiskWork};
use types::{ObjectId, PageId, SessionId, Version};

/// In these tests an object is the numbers of the pages whose first slots it refers to, and bytes above them for size.
fn references(object: &[u8], found: &mut dyn FnMut(ObjectId)) {
    for &number in object.iter().filter(|&&number| number < 32) {
        found(ObjectId::new(PageId::new(0, number.into()), 0));
    }
}

fn driver() -> (Driver, SessionId, Vec<PageId>) {
    let mut driver = Driver::with(Config { references, ..Config::default() });
    let writer = driver.join(1, 1);
    let pages = driver.grant(writer, 9);
    (driver, writer, pages)
}

/// Page 1 refers to 4 and 2, 2 to 3, 3 to 1; 4 is large.
fn chain() -> (Driver, SessionId) {
    let (mut driver, writer, pages) = driver();
    let large = [255; 1000];
    let objects: [(PageId, &[u8]); 4] =
        [(pages[0], &[4, 2]), (pages[1], &[3, 9, 40]), (pages[2], &[1]), (pages[3], &large)];
    for (number, (page, object)) in (1..).zip(objects) {
        driver.commit(writer, &txn(1, number).write(page, 0, 0, object));
    }
    (driver, writer)
}

fn fetch(driver: &mut Driver, session: SessionId, page: u32, bytes: u32) {
    let (pages, follow) = (vec![PageId::new(0, page)], Some(Follow { slot: 0, bytes }));
    driver.take(session);
    driver.say(session, Fetch { pages, at_least: Version::ZERO.into(), number: 7, follow });
}

/// The numbers of the pages that came, and of those that were announced behind them.
fn pages(messages: &[ToClient]) -> Vec<(u32, Vec<u32>)> {
    let page = |message: &ToClient| match message {
        ToClient::Page(page) => Some((page.page.number, page.behind.iter().map(|page| page.number).collect())),
        _ => None,
    };
    messages.iter().filter_map(page).collect()
}

#[test]
fn pages_that_an_object_refers_to_follow_the_nearest_first() {
    let (mut driver, _) = chain();
    let reader = driver.join(2, 2);
    fetch(&mut driver, reader, 1, 10_000);
    let came = pages(&driver.take(reader));
    assert_eq!(came, [(1, vec![2, 4, 3]), (2, vec![]), (4, vec![]), (3, vec![])], "9 has nothing in it, 40 is no page");
    assert!([1, 2, 3, 4].iter().all(|&number| driver.store.lists(reader, PageId::new(0, number))));
}

#[test]
fn no_more_follows_than_there_is_room_for() {
    let (mut driver, _) = chain();
    let reader = driver.join(2, 2);
    fetch(&mut driver, reader, 1, 200);
    assert_eq!(pages(&driver.take(reader)), [(1, vec![2, 3]), (2, vec![]), (3, vec![])]);
    let other = driver.join(3, 3);
    fetch(&mut driver, other, 1, 1);
    assert_eq!(pages(&driver.take(other)), [(1, vec![])]);
}

/// Its receiver may have let go of it, and not have been heard yet.
#[test]
pub(crate) fn a_page_that_a_session_holds_does_not_follow() {
    let (mut driver, _) = chain();
    let reader = driver.join(2, 2);
    driver.fetch(reader, PageId::new(0, 2));
    fetch(&mut driver, reader, 1, 200);
    assert_eq!(pages(&driver.take(reader)), [(1, vec![])]);
    driver.say(reader, Released { pages: vec![PageId::new(0, 1), PageId::new(0, 2)] });
    fetch(&mut driver, reader, 1, 200);
    assert_eq!(pages(&driver.take(reader)), [(1, vec![2, 3]), (2, vec![]), (3, vec![])]);
}

#[test]
fn a_following_page_is_read_if_it_is_not_in_memory() {
    let (mut driver, _) = chain();
    driver.store.close(driver.now);
    driver.run();
    assert!(driver.is_closed());
    driver.crash();
    let reader = driver.join(2, 2);
    fetch(&mut driver, reader, 1, 200);
    assert!(driver.do_first(|work| matches!(work, DiskWork::Read(..))));
    assert_eq!(pages(&driver.take(reader)), [(1, vec![2])], "what 2 refers to is not known before it is read");
    assert!(driver.do_first(|work| matches!(work, DiskWork::Read(..))));
    assert_eq!(pages(&driver.take(reader)), [(2, vec![])]);
}

#[test]
fn nothing_follows_before_all_is_listed_nor_to_a_group() {
    let (mut driver, _) = chain();
    let coming = driver.greet(2, 2, 2);
    fetch(&mut driver, coming, 1, 10_000);
    assert_eq!(pages(&driver.take(coming)), [(1, vec![])]);
    let group = SessionId(3);
    driver.store.connected(driver.now, group);
    let ToServer::Hello(member) = hello(3, 1) else { unreachable!("it is one") };
    driver.say(group, Hello { features: GROUP, ..member });
    driver.say(group, Resume { horizon: Version::ZERO.into(), pages: vec![], grants: vec![], last: true, missed: 0 });
    fetch(&mut driver, group, 1, 10_000);
    assert_eq!(pages(&driver.take(group)), [(1, vec![])]);
}
