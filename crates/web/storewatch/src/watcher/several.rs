//! A watcher of a store of several nodes.

use super::tests::{leased, ms, welcome};
use super::*;
use messages::{Abandoned, Invalidation, Invalidations, NodeAt, Resumed, ShardAt};
use std::num::{NonZeroU16, NonZeroU32};
use types::{NodeId, Opening, PageId, Sharding, TxnId};

const TXN: TxnId = TxnId { client: ClientId(9), number: 1 };

fn sharding() -> Sharding {
    Sharding::new(NonZeroU16::new(2).unwrap(), NonZeroU32::MIN)
}

/// Three nodes, the last of which was not started yet, and the node and opening of each shard.
fn placement(shards: [(u16, u32); 2], third: &str) -> Placement {
    let address = |node: u16| if node == 2 { third.to_owned() } else { format!("n{node}:1") };
    let node_at = |node: u16| NodeAt { node: NodeId(node), start: 1, address: address(node) };
    let shard_at = |(node, opening)| -> ShardAt { (NodeId(node), Opening(opening)) };
    Placement { nodes: (0..3).map(node_at).collect(), shards: shards.map(shard_at).to_vec() }
}

struct Said {
    opened: Vec<(UpstreamId, String)>,
    ended: Vec<Port>,
    promised: Vec<(Port, TxnId)>,
    closed: usize,
}

fn said(watcher: &mut Watcher) -> Said {
    let mut said = Said { opened: vec![], ended: vec![], promised: vec![], closed: 0 };
    while let Some(output) = watcher.poll_output() {
        match output {
            Output::Open(upstream, at) => said.opened.push((upstream, at.addresses[0].clone())),
            Output::End(port, ..) => said.ended.push(port),
            Output::Close(_) => said.closed += 1,
            Output::Send(port, message, _) => {
                if let Ok(ToServer::Promise(Promise { txn })) = message.open() {
                    said.promised.push((port, txn));
                }
            }
            _ => {}
        }
    }
    said
}

fn effects(watcher: &mut Watcher) -> Vec<Effect> {
    std::iter::from_fn(|| watcher.poll_effect()).collect()
}

/// A node welcomes the watcher, which asks it for a lease at this time.
fn joined(watcher: &mut Watcher, now: Time, port: Port, node: u16, placed: &Placement) {
    watcher.connected(now, port);
    let at = watcher.find(port).unwrap();
    watcher.hear(now, at, Welcome { node: NodeId(node), sharding: sharding(), ..welcome(WATCH) }.into());
    watcher.hear(now, at, placed.clone().into());
    watcher.hear(now, at, Resumed { through: Version::ZERO.into(), dropped: Vec::new() }.into());
}

/// A watcher that has asked both nodes with shards for a lease, and the connection to the second.
fn asked() -> (Watcher, Port, At) {
    asked_without(Broken::NONE)
}

fn asked_without(broken: Broken<Rule>) -> (Watcher, Port, At) {
    let watcher = Watcher::without(ClientId(7), MARKED_MAX, broken);
    let (mut watcher, placed) = (watcher, placement([(0, 1), (1, 1)], ""));
    joined(&mut watcher, ms(1000), Port::SERVER, 0, &placed);
    let opened = said(&mut watcher).opened;
    let [(upstream, address)] = &opened[..] else { panic!("{opened:?}") };
    assert_eq!(address, "n1:1");
    let second = Port::Upstream(*upstream);
    joined(&mut watcher, ms(1100), second, 1, &placed);
    let at = watcher.find(second).unwrap();
    (watcher, second, at)
}

/// The same with both leases, and nothing marked.
fn watching() -> (Watcher, Port, At) {
    watching_without(Broken::NONE)
}

fn watching_without(broken: Broken<Rule>) -> (Watcher, Port, At) {
    let (mut watcher, second, at) = asked_without(broken);
    watcher.hear(ms(1100), At::HOME, leased(1));
    watcher.hear(ms(1100), at, leased(1));
    watcher.released(1);
    assert!(watcher.is_caught_up());
    effects(&mut watcher);
    said(&mut watcher);
    (watcher, second, at)
}

fn intent(number: u32) -> Intent {
    Intent { txn: TXN, pages: vec![(PageId::new(0, number), [5].into_iter().collect())] }
}

fn applied(number: u32) -> ToClient {
    let (page, slots) = (PageId::new(0, number), [5].into_iter().collect());
    let invalidation = Invalidation { page, prev: Version(0), version: Version(1), slots, txn: TXN, data: None };
    Invalidations { through: Version::ZERO.into(), items: vec![invalidation] }.into()
}

#[test]
fn the_hub_has_the_least_of_all_leases() {
    let (mut watcher, _, second) = asked();
    let is_lease = |effect: &Effect| matches!(effect, Effect::Lease(_));
    watcher.hear(ms(1100), At::HOME, leased(1));
    watcher.released(1);
    assert!(!effects(&mut watcher).iter().any(is_lease), "the second node tells nothing yet");
    assert_eq!((watcher.is_caught_up(), watcher.awaited(ms(1100)).count()), (false, 1));
    watcher.hear(ms(1100), second, leased(1));
    assert_eq!(effects(&mut watcher), [Effect::Lease(ms(2000)), Effect::Visible(1)], "the first ends first");
    assert_eq!(watcher.standing(ms(1999)), Standing::Watching);
    assert_eq!(watcher.standing(ms(2000)), Standing::Apart);
}

/// Only everything is marked: the others are asked as before.
#[test]
fn a_node_that_is_lost_costs_no_other_session() {
    let (mut watcher, second_port, second) = watching();
    watcher.disconnected(ms(1200), second_port);
    assert_eq!(effects(&mut watcher), [Effect::Update(2, vec![coherence::Dependency::ALL])]);
    watcher.hear(ms(1200), At::HOME, intent(0).into());
    assert_eq!(effects(&mut watcher).len(), 1);
    watcher.released(3);
    let Said { ended, promised, closed, .. } = said(&mut watcher);
    assert_eq!((ended, promised, closed), (vec![], vec![(Port::SERVER, TXN)], 0));
    watcher.released(2);
    assert!(!watcher.is_caught_up(), "until the node is back");
    joined(&mut watcher, ms(1300), second_port, 1, &placement([(0, 1), (1, 1)], ""));
    assert!(!watcher.is_caught_up(), "until it has given a lease");
    watcher.hear(ms(1310), second, leased(2));
    assert!(watcher.is_caught_up());
}

/// Its part at the other node is not applied yet.
#[test]
fn each_node_is_promised_its_part_and_unmarks_it() {
    let (mut watcher, second_port, second) = watching();
    watcher.hear(ms(1200), At::HOME, intent(0).into());
    watcher.hear(ms(1200), second, intent(1).into());
    assert_eq!(effects(&mut watcher).len(), 2);
    watcher.released(3);
    watcher.released(2);
    assert_eq!(said(&mut watcher).promised, [(second_port, TXN), (Port::SERVER, TXN)]);
    watcher.hear(ms(1201), At::HOME, applied(0));
    assert_eq!(effects(&mut watcher), [Effect::Visible(2)]);
    watcher.hear(ms(1202), second, applied(1));
    assert_eq!(effects(&mut watcher), [Effect::Visible(3)]);
}

/// Another master was busy. The watcher is asked again when the part is prepared again.
#[test]
fn a_part_that_is_released_is_unmarked_and_asked_for_again() {
    let (mut watcher, _, second) = watching();
    for update in 2..4 {
        watcher.hear(ms(1200), second, intent(1).into());
        watcher.released(update);
        assert_eq!(said(&mut watcher).promised.len(), 1);
        watcher.hear(ms(1201), second, Abandoned { txn: TXN }.into());
        assert_eq!(effects(&mut watcher).last(), Some(&Effect::Visible(update)));
    }
    assert_eq!(watcher.applied(), 0);
}

#[test]
fn a_node_whose_shards_have_moved_away_is_not_needed() {
    let (mut watcher, second_port, _) = watching();
    watcher.hear(ms(1200), At::HOME, placement([(0, 1), (0, 2)], "").into());
    effects(&mut watcher);
    watcher.disconnected(ms(1200), second_port);
    assert_eq!((effects(&mut watcher), watcher.standing(ms(1210))), (vec![], Standing::Watching));
}

/// The new node changes pages without a word until it has given a lease.
#[test]
fn a_shard_that_moves_to_an_unknown_node_needs_its_lease() {
    let (mut watcher, _, second) = watching();
    let moved = placement([(0, 1), (2, 2)], "n2:1");
    watcher.hear(ms(1200), second, moved.clone().into());
    assert_eq!(effects(&mut watcher), [Effect::Update(2, vec![coherence::Dependency::ALL])]);
    watcher.released(2);
    let opened = said(&mut watcher).opened;
    let [(upstream, _)] = &opened[..] else { panic!("{opened:?}") };
    // More of the leases of others does not help.
    watcher.handle_timeout(ms(1440));
    watcher.hear(ms(1450), At::HOME, leased(2));
    assert_eq!((effects(&mut watcher), watcher.is_caught_up()), (vec![], false));
    let third = Port::Upstream(*upstream);
    joined(&mut watcher, ms(1500), third, 2, &moved);
    let at = watcher.find(third).unwrap();
    watcher.hear(ms(1510), at, leased(1));
    assert_eq!(effects(&mut watcher), [Effect::Lease(ms(2440)), Effect::Visible(2)]);
}

/// News of an earlier opening comes late.
#[test]
fn an_earlier_place_of_a_shard_changes_nothing() {
    let (mut watcher, _, second) = watching();
    watcher.hear(ms(1200), At::HOME, placement([(0, 1), (0, 3)], "").into());
    watcher.hear(ms(1201), second, placement([(0, 1), (1, 1)], "").into());
    assert_eq!(watcher.needed, [At::HOME]);
}

#[test]
fn another_node_at_an_address_is_hung_up_on() {
    let (mut watcher, placed) = (Watcher::new(ClientId(7)), placement([(0, 1), (1, 1)], ""));
    joined(&mut watcher, ms(1000), Port::SERVER, 0, &placed);
    let second = Port::Upstream(said(&mut watcher).opened[0].0);
    watcher.connected(ms(1100), second);
    let at = watcher.find(second).unwrap();
    watcher.hear(ms(1100), at, Welcome { node: NodeId(2), sharding: sharding(), ..welcome(WATCH) }.into());
    assert_eq!(said(&mut watcher).ended, [second]);
    // A placement that names no node for a shard ends the session with the node that says it.
    let broken = Placement { shards: Vec::new(), ..placed };
    watcher.hear(ms(1100), At::HOME, broken.into());
    assert_eq!(said(&mut watcher).ended, [Port::SERVER]);
}

#[test]
fn another_store_at_the_address_of_the_first_node_is_watched_alone() {
    let (mut watcher, ..) = watching();
    watcher.disconnected(ms(1200), Port::SERVER);
    assert_eq!(Machine::way(&mut watcher, ms(1200), UpstreamId::ONLY).as_deref(), Some("n0:1"));
    watcher.connected(ms(1300), Port::SERVER);
    watcher.hear(ms(1300), At::HOME, Welcome { cluster: ClusterId(2), ..welcome(WATCH) }.into());
    watcher.hear(ms(1300), At::HOME, Resumed { through: Version::ZERO.into(), dropped: Vec::new() }.into());
    let Said { ended, closed, .. } = said(&mut watcher);
    assert_eq!((ended, closed, watcher.nodes.count()), (vec![], 2, 1));
    assert!(!watcher.is_caught_up());
    watcher.hear(ms(1310), At::HOME, leased(2));
    watcher.released(2);
    assert_eq!(watcher.standing(ms(1310)), Standing::Watching);
}

#[test]
fn a_watcher_that_leaves_hangs_up_on_all_nodes() {
    let (mut watcher, second_port, _) = watching();
    watcher.leave();
    assert_eq!(said(&mut watcher).ended, [Port::SERVER, second_port]);
    assert_eq!(watcher.poll_timeout(), None);
}

/// Without the rules the same events have what the tests above refuse.
#[test]
fn rules_that_are_taken_out_are_noticed() {
    let (mut watcher, _, second) = watching_without(Broken::rule(Rule::EachItsPart));
    watcher.hear(ms(1200), At::HOME, intent(0).into());
    watcher.hear(ms(1200), second, intent(1).into());
    effects(&mut watcher);
    watcher.hear(ms(1201), At::HOME, applied(0));
    assert_eq!(effects(&mut watcher).len(), 2, "the part of the second node is unmarked too early");

    let (mut watcher, _, second) = watching_without(Broken::rule(Rule::FollowMoves));
    watcher.hear(ms(1200), second, placement([(0, 1), (2, 2)], "n2:1").into());
    watcher.handle_timeout(ms(1440));
    watcher.hear(ms(1450), At::HOME, leased(2));
    let is_lease = |effect: &Effect| matches!(effect, Effect::Lease(_));
    assert!(effects(&mut watcher).iter().any(is_lease), "the third node has given no lease");
}
