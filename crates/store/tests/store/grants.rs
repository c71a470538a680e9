//! Pages to create objects in.

use crate::hands::{Hands, ROOT, notices, txn};
use protocol::{Fetch, Grant, LeftOut, Message, Outcome};
use std::time::Duration;
use store::Config;
use types::limits::GRANTED_PAGES_MAX;
use types::{ObjectPage, PageId, PageRange, Refusal, Version};

fn range(pages: &[PageId]) -> PageRange {
    PageRange { first: pages[0], count: pages.len() as u32 }
}

fn grace() -> Duration {
    Config::default().grace
}

#[test]
fn a_grant_is_told_when_it_is_durable() {
    let mut hands = Hands::new();
    let a = hands.join(1, 1);
    hands.say(a, Message::Grant(Grant { volume: 0, count: 2 }));
    assert_eq!(hands.take(a), []);
    hands.sync();
    assert!(matches!(&hands.take(a)[..], [Message::Granted(granted)] if granted.ranges.len() == 1));
    hands.crash();
    let a = hands.join(2, 1);
    assert_eq!(hands.grant(a, 1), [PageId::new(0, 3)], "never granted twice");
}

#[test]
fn granted_pages_are_neighbours_that_exist_and_are_held() {
    let mut hands = Hands::new();
    let (a, b) = (hands.join(1, 1), hands.join(2, 2));
    let pages = hands.grant(a, 3);
    assert_eq!(pages, [1, 2, 3].map(|number| PageId::new(0, number)));
    assert_eq!(hands.grant(b, 1), [PageId::new(0, 4)]);
    assert!(hands.store.lists(a, pages[2]) && !hands.store.lists(b, pages[2]));
    assert_eq!(hands.fetch(b, pages[0]).1.version, Version::ZERO);
    assert_eq!(hands.fetch(b, PageId::new(9, 0)).1.version, Version::ZERO, "page 0 exists from birth");
}

/// Whoever looks for something in a page that does not exist yet hears of its creation like anyone who holds it; who has
/// only been guessing that there is one does not.
#[test]
fn a_page_that_does_not_exist_is_empty_and_its_creation_is_told() {
    let mut hands = Hands::new();
    let (a, b) = (hands.join(1, 1), hands.join(2, 2));
    let (wanted, guessed) = (PageId::new(0, 1), PageId::new(0, 2));
    hands.say(a, Message::Fetch(Fetch { pages: vec![wanted, guessed], at_least: Version::ZERO, number: 7 }));
    let [Message::Page(empty), Message::LeftOut(guess)] = &hands.take(a)[..] else { panic!("expected two answers") };
    assert_eq!((empty.page, empty.version, &empty.image), (wanted, Version::ZERO, ObjectPage::empty().image()));
    assert_eq!(guess, &LeftOut { page: guessed, number: 7 });
    assert_eq!([wanted, guessed].map(|page| hands.store.lists(a, page)), [true, false]);

    // That there was nothing can be proved, until there is.
    let nothing = txn(1, 1).read(wanted, 3, 0);
    assert_eq!(hands.commit(a, &nothing), Outcome::Committed { pages: vec![] });
    hands.grant(b, 2);
    hands.commit(b, &txn(2, 1).write(wanted, 3, 0, b"x").write(guessed, 3, 0, b"y"));
    assert_eq!(
        notices(&hands.ping(a)).iter().map(|notice| (notice.page, notice.prev)).collect::<Vec<_>>(),
        [(wanted, Version::ZERO)]
    );
    let stale = vec![(wanted, [3].into_iter().collect())];
    assert_eq!(hands.commit(a, &nothing), Outcome::Refused(Refusal::Stale(stale)));
}

#[test]
fn unused_grants_of_a_client_that_is_gone_come_back_after_the_grace() {
    let mut hands = Hands::new();
    let (a, b) = (hands.join(1, 1), hands.join(2, 2));
    let pages = hands.grant(a, 4);
    hands.commit(a, &txn(1, 1).write(pages[1], 0, 0, b"x"));
    hands.hang_up(a);
    assert_eq!(hands.grant(b, 1), [PageId::new(0, 5)]);
    for _ in 0..60 {
        hands.pass(grace() / 60);
        hands.ping(b);
    }
    assert_eq!(hands.grant(b, 9)[..3], [pages[0], pages[2], pages[3]]);
    // The first client comes back late: the pages are another's now.
    let again = hands.greet(3, 1, 3);
    let (_, rejoined) = hands.rejoin(again, Version::ZERO, &[], &[range(&pages)]);
    assert_eq!(rejoined.dropped, pages, "three are another's, one is no grant any more");
}

#[test]
fn a_client_that_returns_in_time_keeps_its_grants() {
    let mut hands = Hands::new();
    let (a, b) = (hands.join(1, 1), hands.join(2, 2));
    let pages = hands.grant(a, 4);
    hands.hang_up(a);
    let again = hands.greet(3, 1, 3);
    let (notices, rejoined) = hands.rejoin(again, Version::ZERO, &[], &[range(&pages)]);
    assert_eq!((notices, rejoined.dropped), (vec![], vec![]));
    for _ in 0..60 {
        hands.pass(grace() / 30);
        hands.ping(b);
        hands.ping(again);
    }
    assert_eq!(hands.grant(b, 1), [PageId::new(0, 5)]);
}

#[test]
fn after_a_restart_grants_are_claimed_or_come_back() {
    let mut hands = Hands::new();
    let (a, b) = (hands.join(1, 1), hands.join(2, 2));
    let (of_a, of_b) = (hands.grant(a, 2), hands.grant(b, 2));
    hands.crash();
    let b = hands.greet(4, 2, 4);
    let (_, rejoined) = hands.rejoin(b, Version::ZERO, &[], &[range(&of_b)]);
    assert_eq!(rejoined.dropped, []);
    let first_new = PageId::new(0, 5);
    assert_eq!(hands.grant(b, 1), [first_new], "the unclaimed may still be claimed");
    for _ in 0..60 {
        hands.pass(grace() / 60);
        hands.ping(b);
    }
    assert_eq!(hands.grant(b, 2), of_a);
    assert!(!hands.grant(b, 2).contains(&ROOT));
}

#[test]
fn nobody_hoards_pages() {
    let mut hands = Hands::new();
    let a = hands.join(1, 1);
    let mut owned = 0;
    loop {
        match hands.grant(a, u32::MAX).len() {
            0 => break,
            more => owned += more,
        }
    }
    assert_eq!(owned, GRANTED_PAGES_MAX);
}

/// A client that came back too late writes to a page that was its own: whoever is granted pages next does not get it.
#[test]
fn a_spare_page_that_was_written_to_is_not_granted() {
    let mut hands = Hands::new();
    let a = hands.join(1, 1);
    let pages = hands.grant(a, 3);
    hands.hang_up(a);
    hands.pass(grace());
    let again = hands.join(2, 1);
    hands.commit(again, &txn(1, 1).write(pages[0], 0, 0, b"x"));
    hands.say(again, txn(1, 2).write(pages[1], 0, 0, b"y").message());
    assert_eq!(hands.grant(again, 2), [pages[2], PageId::new(0, 4)]);
}

/// A connection that breaks again and again between a grant and its answer costs the client nothing.
#[test]
fn a_grant_whose_answer_was_lost_comes_back() {
    let mut hands = Hands::new();
    let a = hands.join(1, 1);
    let pages = hands.grant(a, 3);
    hands.hang_up(a);
    let again = hands.join(2, 1);
    assert_eq!(hands.grant(again, 3), pages);
}
