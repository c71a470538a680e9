//! Pages that nobody waits for yet, and a line that is full.

use crate::hands::{Hands, notices, txn};
use protocol::{Fetch, Message};
use store::Config;
use types::{Limits, PageId, SessionId, Version};

/// Pages 1 to 4 and 5 hold an object each; a page ahead fills a line.
fn full() -> (Hands, SessionId, SessionId) {
    let limits = Limits { ahead_bytes: 100, ..Limits::SHIPPED };
    let mut hands = Hands::with(Config { limits, ..Config::default() });
    let writer = hands.join(1, 1);
    hands.grant(writer, 5);
    for number in 1..=5 {
        hands.commit(writer, &txn(1, number.into()).write(PageId::new(0, number), 0, 0, &[b'x'; 100]));
    }
    let reader = hands.join(2, 2);
    hands.lines_are_full = true;
    (hands, reader, writer)
}

fn fetch(hands: &mut Hands, session: SessionId, pages: impl IntoIterator<Item = u32>) {
    let pages = pages.into_iter().map(|page| PageId::new(0, page)).collect();
    hands.say(session, Message::Fetch(Fetch { pages, at_least: Version::ZERO, number: 7, follow: None }));
}

fn pages(messages: &[Message]) -> Vec<u32> {
    let page = |message: &Message| if let Message::Page(page) = message { Some(page.page.number) } else { None };
    messages.iter().filter_map(page).collect()
}

#[test]
fn a_page_that_somebody_waits_for_does_not_wait_for_others() {
    let (mut hands, reader, _) = full();
    fetch(&mut hands, reader, 1..=4);
    assert_eq!(pages(&hands.take(reader)), [1, 2], "the first is wanted, and one more fills the line");
    fetch(&mut hands, reader, [5]);
    assert_eq!(pages(&hands.take(reader)), [5]);
    hands.empty_lines();
    assert_eq!(pages(&hands.take(reader)), [3, 4]);
}

#[test]
fn what_waits_for_the_line_leaves_as_it_is_by_then() {
    let (mut hands, reader, writer) = full();
    fetch(&mut hands, reader, 1..=3);
    hands.take(reader);
    assert!(!hands.store.lists(reader, PageId::new(0, 3)), "it is told of no change before it has the page");
    hands.commit(writer, &txn(1, 6).write(PageId::new(0, 3), 0, 5, b"y"));
    hands.empty_lines();
    let messages = hands.take(reader);
    assert!(notices(&messages).is_empty(), "{messages:?}");
    let [Message::Page(page)] = &messages[..] else { panic!("expected a page, got {messages:?}") };
    assert_eq!((page.page, page.version), (PageId::new(0, 3), Version(6)));
    assert!(hands.store.lists(reader, page.page));
}

#[test]
fn pages_without_end_do_not_hold_up_what_nobody_waits_for() {
    let (mut hands, reader, _) = full();
    fetch(&mut hands, reader, 1..=3);
    hands.take(reader);
    for _ in 0..5 {
        fetch(&mut hands, reader, [5]);
    }
    let came = pages(&hands.take(reader));
    assert!(came.contains(&3) && came.iter().filter(|page| **page == 5).count() == 5, "{came:?}");
}

#[test]
fn what_is_not_in_memory_is_read_as_the_line_takes_it() {
    let (mut hands, ..) = full();
    hands.store.close(hands.now);
    hands.run();
    assert!(hands.is_closed());
    hands.crash();
    let reader = hands.join(2, 2);
    fetch(&mut hands, reader, 1..=4);
    hands.run();
    let mut came = pages(&hands.take(reader));
    assert_eq!(came, [1, 2], "the first, and one that fills the line");
    for _ in 0..2 {
        hands.empty_lines();
        hands.lines_are_full = true;
        hands.run();
        came.extend(pages(&hands.take(reader)));
    }
    assert_eq!(came, [1, 2, 3, 4]);
}

#[test]
fn fetches_take_turns() {
    let (mut hands, reader, _) = full();
    fetch(&mut hands, reader, 1..=4);
    fetch(&mut hands, reader, [5, 2, 1]);
    assert_eq!(pages(&hands.take(reader)), [1, 2, 5]);
    hands.empty_lines();
    assert_eq!(pages(&hands.take(reader)), [2, 3, 1, 4]);
}
