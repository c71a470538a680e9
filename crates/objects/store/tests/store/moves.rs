//! A shard that moves: from the node, and to it. Shard 0 is at the node, shard 1 at its peer.

use crate::driver::{Driver, txn};
use crate::nodes::{LINK, PEER, link, opened, opened_leased, page};
use bytes::Bytes;
use messages::{
    CloseShard, CommitRequest, CopiedPage, CopyPages, Fetch, Grant, Held, ListPages, NotCopied, Outcome, PagesListed,
    Prepare, RecentChanges, Serving, ShardClosed, ToClient, ToNode, Verdict, Vote,
};
use std::time::Duration;
use store::{ClosedShard, Progress, SessionId};
use types::{NodeId, ObjectPage, Opening, Refusal, Shard, SlotChange, TxnId, Vector, Version};

const MOVED: Shard = Shard(0);
const COMING: Shard = Shard(1);

/// A node whose shard moves to its peer, and a client that has written to it.
fn leaving() -> (Driver, SessionId) {
    leaving_from(opened())
}

pub(crate) fn leaving_from(mut driver: Driver) -> (Driver, SessionId) {
    let session = driver.join(1, 1);
    let outcome = driver.commit(session, &txn(1, 1).to(9).write(page(0), 0, 0, b"old"));
    assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
    driver.store.set_outgoing(driver.now, &[(MOVED, PEER)]);
    driver.run();
    driver.said_on(LINK);
    (driver, session)
}

/// The same, where the shard is about to close. It waits for a transaction that the peer coordinates.
fn closing() -> (Driver, SessionId, TxnId) {
    let (mut driver, session) = leaving();
    let request = txn(7, 1).to(9).write(page(0), 1, 0, b"other").0;
    let (other, openings) = (request.txn, [(MOVED, Opening(1))].into_iter().collect());
    driver.hear(LINK, Prepare { request: request.into(), among: messages::Among::Alone, openings });
    driver.hear(LINK, CloseShard { shard: MOVED });
    assert_eq!(driver.store.closed_to_move().count(), 0, "something is prepared");
    (driver, session, other)
}

fn listed(said: &[ToNode]) -> (Vec<Held>, Version) {
    let [ToNode::PagesListed(PagesListed { shard: MOVED, through, is_last: true, pages })] = said else {
        panic!("expected a list: {said:?}")
    };
    (pages.clone(), *through)
}

fn closed(said: &[ToNode]) -> Option<ShardClosed> {
    said.iter().find_map(|said| if let ToNode::ShardClosed(closed) = said { Some(closed.clone()) } else { None })
}

/// Both nodes serve while pages are copied: each list names what was written back since the last.
#[test]
fn pages_are_copied_while_their_shard_is_served() {
    let (mut driver, session) = leaving();
    let (pages, through) = listed(&driver.hear(LINK, ListPages { shard: MOVED, above: Version::ZERO }));
    let [Held { page: listed_page, version }] = pages[..] else { panic!("{pages:?}") };
    assert_eq!((listed_page, through), (page(0), version));
    driver.hear(LINK, CopyPages { shard: MOVED, pages: vec![page(0)] });
    driver.run();
    let said = driver.said_on(LINK);
    let copied = said.iter().find_map(|said| if let ToNode::CopiedPage(copied) = said { Some(copied) } else { None });
    let CopiedPage { image, .. } = copied.unwrap_or_else(|| panic!("{said:?}"));
    assert_eq!(ObjectPage::parse(image.clone()).unwrap().get(0), Some(&b"old"[..]));
    assert!(listed(&driver.hear(LINK, ListPages { shard: MOVED, above: through })).0.is_empty());

    // Later commits are written back at once: the node does not wait until it is idle.
    let outcome = driver.commit(session, &txn(1, 2).to(9).write(page(0), 0, through.0, b"new"));
    assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
    driver.run();
    driver.said_on(LINK);
    let (pages, _) = listed(&driver.hear(LINK, ListPages { shard: MOVED, above: through }));
    assert!(pages.len() == 1 && pages[0].version > through, "{pages:?}");
}

/// Nothing is prepared in a shard that closes. It is closed when earlier transactions are over and written back, and is
/// not served until its next opening.
#[test]
fn a_shard_closes_in_order() {
    let (mut driver, session) = leaving();
    // The peer coordinates a commit that is prepared here.
    let request = txn(7, 1).to(9).write(page(0), 1, 0, b"other").0;
    let openings = [(MOVED, Opening(1))].into_iter().collect();
    let prepare = Prepare { request: request.into(), among: messages::Among::AtOnce { writes: true }, openings };
    let said = driver.hear(LINK, prepare.clone());
    assert!(matches!(&said[..], [ToNode::Vote(Vote { verdict: Verdict::Prepared, .. })]), "{said:?}");
    assert_eq!(closed(&driver.hear(LINK, CloseShard { shard: MOVED })), None, "something is prepared");

    // Commits that come in the meantime wait at their coordinator.
    let known = driver.store.applied().of(MOVED).0;
    driver.say(session, txn(1, 2).to(9).write(page(0), 2, known, b"new").message());
    driver.run();
    assert_eq!(driver.outcome(session), None);
    let TxnId { client, number } = prepare.request.txn;
    let later = CommitRequest { txn: TxnId { client, number: number + 1 }, ..(*prepare.request).clone() };
    let said = driver.hear(LINK, Prepare { request: later.into(), ..prepare.clone() });
    assert!(matches!(&said[..], [ToNode::Vote(Vote { verdict: Verdict::Moving, .. })]), "{said:?}");
    let read = driver.fetch(session, page(0)).1;
    assert_eq!(read.page, page(0), "it can be read");

    let said = driver.hear(LINK, messages::Release { txn: prepare.request.txn });
    let ShardClosed { opening, count, next_pages, .. } = closed(&said).expect("it is closed");
    assert_eq!((opening, count), (Opening(1), driver.store.applied().of(MOVED)));
    assert!(next_pages.contains(&(0, 2)), "{next_pages:?}");
    assert!(!driver.store.serves(MOVED));
    let waiting: Vec<_> = driver.store.closed_to_move().collect();
    assert!(matches!(&waiting[..], [ClosedShard { shard: MOVED, opening: Opening(1), .. }]), "{waiting:?}");
    assert_eq!(
        closed(&driver.hear(LINK, CloseShard { shard: MOVED })).map(|closed| closed.count),
        Some(count),
        "again"
    );

    // It stays after all, in its next opening.
    driver.store.open_closed(driver.now, MOVED, Opening(2), count);
    driver.run();
    assert_eq!(driver.store.closed_to_move().count(), 0);
    let outcome = driver.outcome(session);
    assert!(matches!(outcome, Some(Outcome::Committed { .. })), "{outcome:?}");
    let said = driver.said_on(LINK);
    assert!(said.contains(&Serving { shard: MOVED }.into()), "{said:?}");
    // A coordinator that asks in the old opening will learn of the new one.
    let said = driver.hear(LINK, prepare);
    assert!(matches!(&said[..], [ToNode::Vote(Vote { verdict: Verdict::Moving, .. })]), "{said:?}");
}

/// A commit that was made before the move is judged by what has changed since it read.
#[test]
fn a_shard_brings_along_what_has_changed_lately() {
    let mut driver = coming();
    driver.hear(LINK, list(&[(page(1), 8)], 8));
    driver.hear(LINK, CopiedPage { page: page(1), version: Version(8), image: image("eight") });
    driver.run();
    assert_eq!(asked(&mut driver), [CloseShard { shard: COMING }.into()]);
    driver.hear(LINK, RecentChanges { shard: COMING, pruned: Version(4), changes: vec![((page(1), 0), Version(8))] });
    driver.hear(LINK, ShardClosed { shard: COMING, opening: Opening(1), count: Version(8), next_pages: vec![] });
    driver.hear(LINK, list(&[], 8));
    driver.run();
    driver.store.open_closed(driver.now, COMING, Opening(2), Version(8));
    driver.run();
    let session = driver.join(1, 1);
    let stale = driver.commit(session, &txn(1, 1).to(9).write(page(1), 0, 5, b"stale"));
    assert!(matches!(stale, Outcome::Refused(Refusal::Stale(_))), "{stale:?}");
    let outcome = driver.commit(session, &txn(1, 2).to(9).write(page(1), 1, 5, b"new"));
    assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
    let unknown = driver.commit(session, &txn(1, 3).to(9).write(page(1), 2, 3, b"stale"));
    assert!(matches!(unknown, Outcome::Refused(Refusal::Stale(_))), "it may have changed: {unknown:?}");
}

#[test]
fn changes_of_other_shards_end_the_link() {
    for changes in [
        vec![((page(0), 0), Version(8))],
        vec![((page(1), 0), Version(4))],
        vec![((page(1), 0), Version(8)), ((page(1), 1), Version(7))],
    ] {
        let mut driver = coming();
        let said = driver.hear(LINK, RecentChanges { shard: COMING, pruned: Version(4), changes });
        assert!(matches!(&said[..], [ToNode::Goodbye(_), ..]), "{said:?}");
    }
}

/// A node has a shard for the second time. The changes that it saw there the first time are old by now.
#[test]
pub(crate) fn a_shard_that_comes_back_is_judged_by_what_has_changed_elsewhere() {
    let (mut driver, session) = leaving();
    let old = driver.store.applied().of(MOVED);
    driver.hear(LINK, CloseShard { shard: MOVED });
    driver.store.place(driver.now, &[(MOVED, PEER, Opening(2))]);
    driver.store.set_incoming(driver.now, &[(MOVED, PEER)]);
    driver.run();
    let through = Version(old.0 + 7);
    let newer =
        PagesListed { shard: MOVED, through, is_last: true, pages: vec![Held { page: page(0), version: through }] };
    driver.hear(LINK, newer);
    driver.hear(LINK, CopiedPage { page: page(0), version: through, image: image("newer") });
    driver.run();
    driver.hear(LINK, ShardClosed { shard: MOVED, opening: Opening(2), count: through, next_pages: vec![] });
    driver.hear(LINK, PagesListed { shard: MOVED, through, is_last: true, pages: vec![] });
    driver.run();
    driver.store.open_closed(driver.now, MOVED, Opening(3), through);
    driver.run();
    let outcome = driver.commit(session, &txn(1, 2).to(9).write(page(0), 0, old.0, b"stale"));
    assert!(matches!(outcome, Outcome::Refused(Refusal::Stale(_))), "{outcome:?}");
}

/// The move is called off while the shard is about to close, and begins again. The target may not have noticed, and
/// waits for the close.
#[test]
fn a_shard_that_moves_again_closes_for_who_has_asked() {
    let (mut driver, session, other) = closing();
    let known = driver.store.applied().of(MOVED).0;
    driver.say(session, txn(1, 2).to(9).write(page(0), 2, known, b"new").message());
    driver.run();
    assert_eq!(driver.outcome(session), None);
    driver.store.set_outgoing(driver.now, &[]);
    driver.run();
    let outcome = driver.outcome(session);
    assert!(matches!(outcome, Some(Outcome::Committed { .. })), "{outcome:?}");
    driver.hear(LINK, messages::Release { txn: other });
    driver.store.set_outgoing(driver.now, &[(MOVED, PEER)]);
    driver.run();
    assert!(closed(&driver.said_on(LINK)).is_some());
}

/// The target of the move changes after the close. The next target may ask before this node knows it.
#[test]
fn a_closed_shard_that_moves_elsewhere_is_told_to_who_has_asked() {
    let (mut driver, _) = leaving();
    driver.hear(LINK, CloseShard { shard: MOVED });
    assert_eq!(driver.store.closed_to_move().count(), 1);
    driver.store.set_outgoing(driver.now, &[(MOVED, NodeId(7))]);
    assert!(closed(&driver.hear(LINK, CloseShard { shard: MOVED })).is_none(), "it moves elsewhere");
    driver.store.set_outgoing(driver.now, &[(MOVED, PEER)]);
    driver.run();
    assert!(closed(&driver.said_on(LINK)).is_some());
}

/// A node that lists the pages again has begun again.
#[test]
fn a_shard_is_served_while_its_pages_are_copied_again() {
    let (mut driver, _, other) = closing();
    driver.hear(LINK, ListPages { shard: MOVED, above: Version::ZERO });
    driver.hear(LINK, messages::Release { txn: other });
    assert_eq!(driver.store.closed_to_move().count(), 0);
    assert!(closed(&driver.hear(LINK, CloseShard { shard: MOVED })).is_some());
}

/// A shard would be closed for as long as the coordinator of what is prepared there is away.
#[test]
fn a_shard_is_served_while_the_node_that_it_moves_to_is_away() {
    let (mut driver, session, _) = closing();
    let known = driver.store.applied().of(MOVED).0;
    driver.say(session, txn(1, 2).to(9).write(page(0), 2, known, b"new").message());
    driver.run();
    assert_eq!(driver.outcome(session), None);
    driver.store.link_is_down(driver.now, LINK);
    driver.run();
    let outcome = driver.outcome(session);
    assert!(matches!(outcome, Some(Outcome::Committed { .. })), "{outcome:?}");
}

/// Clients that ask for a page that has moved are told so, those among them that wait for a count.
#[test]
fn a_shard_that_has_moved_leaves_nothing() {
    let (mut driver, session) = leaving();
    let closed = closed(&driver.hear(LINK, CloseShard { shard: MOVED })).expect("nothing is prepared");
    let at_least = [(MOVED, closed.count.next())].into_iter().collect();
    driver.say(session, Fetch { pages: vec![page(0)], at_least, number: 3, follow: None });
    driver.say(session, Grant { space: 0, count: 1 });
    driver.run();
    assert_eq!(driver.take(session), [], "neither is decided here");
    driver.store.place(driver.now, &[(MOVED, PEER, Opening(2))]);
    driver.run();
    let told = driver.take(session);
    let is_elsewhere = |said: &ToClient| matches!(said, ToClient::Elsewhere(elsewhere) if elsewhere.page == page(0));
    let has_nothing = |said: &ToClient| matches!(said, ToClient::Granted(granted) if granted.ranges.is_empty());
    assert!(told.iter().any(is_elsewhere) && told.iter().any(has_nothing), "{told:?}");
    assert!(told.iter().any(|said| matches!(said, ToClient::Placement(_))), "{told:?}");
    assert_eq!(driver.store.applied(), &Vector::new());
    assert_eq!(driver.store.closed_to_move().count(), 0);
}

fn image(value: &'static str) -> Bytes {
    let change = SlotChange { slot: 0, value: Some(value.into()) };
    ObjectPage::empty().with(&[change]).unwrap().image().clone()
}

fn list(pages: &[(types::PageId, u64)], through: u64) -> ToNode {
    let pages = pages.iter().map(|&(page, version)| Held { page, version: Version(version) }).collect();
    PagesListed { shard: COMING, through: Version(through), is_last: true, pages }.into()
}

/// A node to which shard 1 moves. It has asked for the first list.
fn coming() -> Driver {
    coming_to(opened())
}

fn coming_to(mut driver: Driver) -> Driver {
    driver.said_on(LINK);
    driver.store.set_incoming(driver.now, &[(COMING, PEER)]);
    driver.run();
    assert_eq!(driver.said_on(LINK), [ListPages { shard: COMING, above: Version::ZERO }.into()]);
    driver
}

/// The node's messages to its peer, without those about its own write-back.
fn asked(driver: &mut Driver) -> Vec<ToNode> {
    driver.said_on(LINK).into_iter().filter(|said| !matches!(said, ToNode::Home(_))).collect()
}

/// A shard opens with everything that was written back as it closed, and with what was granted of it.
#[test]
pub(crate) fn a_shard_arrives_with_all_that_its_master_had_as_it_closed() {
    let mut driver = coming();
    assert_eq!(driver.hear(LINK, list(&[(page(1), 5)], 6)), [CopyPages { shard: COMING, pages: vec![page(1)] }.into()]);
    driver.hear(LINK, CopiedPage { page: page(1), version: Version(5), image: image("five") });
    driver.run();
    assert_eq!(asked(&mut driver), [CloseShard { shard: COMING }.into()], "few pages are left");
    let closed = ShardClosed { shard: COMING, opening: Opening(1), count: Version(8), next_pages: vec![(0, 9)] };
    assert_eq!(driver.hear(LINK, closed), [ListPages { shard: COMING, above: Version(6) }.into()]);
    assert_eq!(driver.store.arrived().count(), 0, "it lacks what was written back since");
    driver.hear(LINK, list(&[(page(1), 8)], 8));
    driver.hear(LINK, CopiedPage { page: page(1), version: Version(8), image: image("eight") });
    assert_eq!(driver.store.arrived().count(), 0, "it is not on the disk yet");
    driver.run();
    assert_eq!(driver.store.arrived().collect::<Vec<_>>(), [(COMING, Opening(1), Version(8))]);
    let (_, progress) = driver.store.incoming().next().unwrap();
    assert_eq!(*progress, Progress { copied: 2, listed: 2, trouble: None });

    driver.store.open_closed(driver.now, COMING, Opening(2), Version(8));
    driver.run();
    let session = driver.join(1, 1);
    assert_eq!(driver.value(session, page(1), 0), Some(b"eight".to_vec()));
    let stale = driver.commit(session, &txn(1, 1).to(9).write(page(1), 0, 5, b"stale"));
    assert!(matches!(stale, Outcome::Refused(Refusal::Stale(_))), "{stale:?}");
    // It is there after a restart, too.
    driver.crash();
    link(&mut driver, &[]);
    driver.store.open_closed(driver.now, MOVED, Opening(2), Version(1));
    driver.store.open_closed(driver.now, COMING, Opening(3), Version(8));
    driver.run();
    let session = driver.join(2, 1);
    assert_eq!(driver.value(session, page(1), 0), Some(b"eight".to_vec()));
    let granted = driver.grant(session, 1);
    assert!(granted.iter().all(|page| page.number >= 9), "pages below were granted before: {granted:?}");
}

/// The master serves a shard until the sites that go with it are here. Before it closes, pages that were
/// written back in the meantime are copied.
#[test]
pub(crate) fn a_shard_is_not_closed_before_its_sites_are_here() {
    let mut driver = coming();
    driver.store.set_complete(driver.now, [].into());
    driver.hear(LINK, list(&[(page(1), 5)], 6));
    driver.hear(LINK, CopiedPage { page: page(1), version: Version(5), image: image("five") });
    driver.run();
    assert_eq!(asked(&mut driver), [], "it waits");
    driver.store.set_complete(driver.now, [MOVED].into());
    driver.run();
    assert_eq!(asked(&mut driver), [], "another shard is complete");
    driver.store.set_complete(driver.now, [COMING].into());
    driver.run();
    assert_eq!(asked(&mut driver), [ListPages { shard: COMING, above: Version(6) }.into()]);
    assert_eq!(driver.hear(LINK, list(&[], 7)), [CloseShard { shard: COMING }.into()]);
}

/// A redirector may judge by a lease of the last master until that has run out.
#[test]
pub(crate) fn leases_of_the_last_master_outlast_a_move() {
    let mut driver = coming_to(opened_leased());
    // Those of its own life before are over.
    driver.pass(Duration::from_secs(3));
    driver.store.open_closed(driver.now, COMING, Opening(2), Version(8));
    driver.run();
    let session = driver.join(1, 1);
    driver.say(session, txn(1, 1).to(9).write(page(1), 0, 8, b"new").message());
    driver.run();
    assert_eq!(driver.outcome(session), None, "it waits");
    driver.pass(Duration::from_secs(3));
    driver.run();
    assert!(matches!(driver.outcome(session), Some(Outcome::Committed { .. })));
}

/// A node that is stopped copies no more.
#[test]
fn a_node_that_closes_does_not_wait_for_shards_to_arrive() {
    let mut driver = coming();
    driver.store.close(driver.now);
    assert_eq!(driver.hear(LINK, list(&[(page(1), 5)], 6)), []);
    driver.run();
    assert!(driver.is_closed());
}

/// Pages are copied once, even if the link is lost in between.
#[test]
fn copies_are_kept() {
    let mut driver = coming();
    driver.hear(LINK, list(&[(page(1), 5)], 6));
    driver.hear(LINK, CopiedPage { page: page(1), version: Version(5), image: image("five") });
    driver.run();
    asked(&mut driver);
    driver.store.link_is_down(driver.now, LINK);
    link(&mut driver, &[]);
    driver.run();
    let said = driver.hear(LINK, list(&[(page(1), 5)], 6));
    assert_eq!(said, [CloseShard { shard: COMING }.into()]);
    // It is opened again where it was, and begins again.
    let closed = ShardClosed { shard: COMING, opening: Opening(1), count: Version(6), next_pages: vec![] };
    driver.hear(LINK, closed);
    driver.hear(LINK, list(&[], 6));
    assert_eq!(driver.store.arrived().count(), 1);
    driver.store.place(driver.now, &[(COMING, PEER, Opening(2))]);
    assert_eq!(driver.store.arrived().count(), 0);
    driver.run();
    assert_eq!(asked(&mut driver), [ListPages { shard: COMING, above: Version::ZERO }.into()]);
}

/// An unreadable page stops the move, with the reason. A malformed image ends the link.
#[test]
fn a_page_that_cannot_be_copied_is_named() {
    let mut driver = coming();
    driver.hear(LINK, list(&[(page(1), 5)], 6));
    driver.hear(LINK, NotCopied { page: page(1), why: Some("it is torn".into()) });
    driver.pass(Duration::from_secs(5));
    let (_, progress) = driver.store.incoming().next().unwrap();
    assert_eq!(progress.trouble.as_deref(), Some("page 0/0 cannot be read: it is torn"));
    assert_eq!(driver.store.arrived().count(), 0);

    let mut driver = coming();
    driver.hear(LINK, list(&[(page(1), 5)], 6));
    let damaged = CopiedPage { page: page(1), version: Version(5), image: Bytes::from_static(b"no page") };
    let said = driver.hear(LINK, damaged);
    assert!(said.iter().any(|said| matches!(said, ToNode::Goodbye(_))), "its link ends: {said:?}");
}
