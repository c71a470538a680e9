//! A node of a store of two, and its clients: when it takes them, and how they learn where everything is.

use crate::driver::Driver;
use crate::nodes::{LINK, OWN, PEER, linked, opened, openings, page, sharding};
use messages::{Elsewhere, Fetch, Grant, NodeAt, Page, Placement, Recalled, ToClient};
use store::SessionId;
use types::{GoodbyeReason, Opening, PageId, Shard, Vector};

/// A session that has said hello. Returns what the node has said, the welcome first.
fn greeted(driver: &mut Driver, session: u64) -> Vec<ToClient> {
    let session = driver.greet(session, 1, session);
    driver.take(session)
}

fn placement(start: u64, peer: &str) -> Placement {
    let node_at = |node, start, address: &str| NodeAt { node, start, address: address.into() };
    let shards = vec![(OWN, Opening(1)), (PEER, Opening(1))];
    Placement { nodes: vec![node_at(OWN, 0, "own:1"), node_at(PEER, start, peer)], shards }
}

/// A node is of no use to a client before its shards are open, and cannot say yet at which counts its life begins.
#[test]
fn a_client_is_welcome_when_the_shards_of_the_node_are_open() {
    let mut driver = linked();
    driver.store.open(driver.now, &openings(0, 1));
    driver.run();
    let early = driver.greet(1, 1, 1);
    assert_eq!(driver.ended(early), Some(GoodbyeReason::CutOff));
    driver.hear(LINK, Recalled { openings: openings(0, 1), commits: vec![], is_last: true });
    driver.run();
    assert!(matches!(&greeted(&mut driver, 2)[..], [ToClient::Welcome(_), ToClient::Placement(_)]));
}

/// The address of a node is news to those who are there.
#[test]
fn clients_are_told_where_the_nodes_are() {
    let mut driver = opened();
    driver.store.node_is_at(driver.now, OWN, 0, "own:1");
    driver.store.node_is_at(driver.now, PEER, 0, "peer:1");
    driver.run();
    let told = greeted(&mut driver, 1);
    assert_eq!(told[1..], [placement(0, "peer:1").into()]);
    driver.store.node_is_at(driver.now, PEER, 0, "peer:1");
    driver.run();
    assert_eq!(driver.take(SessionId(1)), [], "it is there still");
    driver.store.node_is_at(driver.now, PEER, 1, "peer:2");
    driver.run();
    assert_eq!(driver.take(SessionId(1)), [placement(1, "peer:2").into()]);
    driver.store.place(driver.now, &[(Shard(0), PEER, Opening(9))]);
    driver.run();
    let moved = Placement { shards: vec![(PEER, Opening(9)), (PEER, Opening(1))], ..placement(1, "peer:2") };
    assert_eq!(driver.take(SessionId(1)), [moved.into()]);
}

/// A page of another node is not an empty one.
#[test]
fn a_page_of_another_node_is_elsewhere() {
    let mut driver = opened();
    let session = driver.join(1, 1);
    let pages = vec![page(1), page(0)];
    driver.say(session, Fetch { pages, at_least: Vector::new(), number: 7, follow: None });
    driver.run();
    let said = driver.take(session);
    let [ToClient::Elsewhere(elsewhere), ToClient::Page(Page { page: found, .. })] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!((*elsewhere, *found), (Elsewhere { page: page(1), number: 7 }, page(0)));
}

/// A node grants pages of its own shards, and a client that has been granted some does not get them twice.
#[test]
fn a_node_grants_pages_of_its_own_shards() {
    let mut driver = opened();
    let session = driver.join(1, 1);
    let granted: Vec<PageId> = [3, 2].into_iter().flat_map(|count| driver.grant(session, count)).collect();
    assert!(granted.iter().all(|page| sharding().of(*page) == Shard(0)), "{granted:?}");
    let numbers: Vec<_> = granted.iter().map(|page| page.number).collect();
    let first = numbers[0];
    assert_eq!(numbers, [first, first + 2, first + 4, first + 6, first + 8]);
    // Another space begins at its own first page.
    driver.say(session, Grant { space: 9, count: 1 });
    driver.run();
    assert!(driver.take(session).iter().any(|message| matches!(message, ToClient::Granted(_))));
}
