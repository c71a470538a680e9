//! A node of a store of two, and what the other one says. Shard 0 is at the node, shard 1 at its peer.

use crate::driver::{CLUSTER, Driver, Txn, txn};
use machine::{Machine, Parcel, Port, UpstreamId};
use messages::{
    Advance, AskOutcome, Fetch, Home, NodeHello, Outcome, Placed, Prepare, Recall, Recalled, RecalledCommit, Sequence,
    Sync, ToClient, ToNode, ToServer, Unapplied, Verdict, Vote,
};
use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;
use store::{Config, DiskWork, Record, SessionId};
use types::{
    ClusterId, Delta, Epoch, GoodbyeReason, NodeId, Opening, PageId, Shard, Sharding, SlotChange, TxnId, Vector,
    Version,
};

pub(crate) const OWN: NodeId = NodeId(0);
pub(crate) const PEER: NodeId = NodeId(1);
pub(crate) const LINK: Port = Port::FromNode(SessionId(1));
const TXN: TxnId = TxnId { client: types::ClientId(1), number: 1 };

pub(crate) fn sharding() -> Sharding {
    Sharding::new(NonZeroU16::new(2).unwrap(), NonZeroU32::MIN)
}

/// The page of space 0 that is in this shard.
pub(crate) fn page(shard: u16) -> PageId {
    let mut pages = (0..2).map(|number| PageId::new(0, number));
    pages.find(|page| sharding().of(*page) == Shard(shard)).expect("there are two")
}

pub(crate) fn openings(shard: u16, opening: u32) -> messages::Openings {
    [(Shard(shard), Opening(opening))].into_iter().collect()
}

fn vector(counts: &[(u16, u64)]) -> Vector {
    counts.iter().map(|&(shard, count)| (Shard(shard), Version(count))).collect()
}

fn commit(shard: u16, count: u64, value: &'static str) -> RecalledCommit {
    let change = SlotChange { slot: 0, value: Some(value.into()) };
    let deltas = vec![Delta { page: page(shard), changes: vec![change] }];
    RecalledCommit { shard: Shard(shard), count: Version(count), deltas }
}

/// A node that has a link to its peer, and has not opened its shard. It gives the counts itself.
pub(crate) fn linked() -> Driver {
    linked_with(1 << 30)
}

/// The same with a log of this many bytes.
fn linked_with(log_bytes: u64) -> Driver {
    linked_over(Config::default(), log_bytes)
}

fn linked_over(config: Config, log_bytes: u64) -> Driver {
    let config = Config { node: OWN, members: vec![OWN, PEER], sharding: sharding(), ..config };
    let mut driver = Driver::with_log(config, log_bytes);
    driver.has_logged(Record::Grant { space: 0, next: 2 });
    driver.crash();
    link(&mut driver, &[]);
    driver
}

fn hello() -> NodeHello {
    NodeHello { cluster: CLUSTER, node: PEER, to: OWN }
}

/// The peer has opened a link. Returns what the node says first.
fn say_hello(driver: &mut Driver) -> Vec<ToNode> {
    driver.store.link_is_up(LINK);
    driver.hear(LINK, hello())
}

/// The link is there, and the peer has these transactions prepared. Returns what the node says about them.
pub(crate) fn link(driver: &mut Driver, undecided: &[TxnId]) -> Vec<ToNode> {
    driver.store.place(driver.now, &[(Shard(1), PEER, Opening(1))]);
    driver.store.sequence(driver.now, Epoch(1));
    let first = say_hello(driver);
    assert!(matches!(&first[..], [ToNode::NodeHello(_), ToNode::Unapplied(_), ToNode::Home(_), ..]), "{first:?}");
    driver.hear(LINK, ToNode::Unapplied(Unapplied { is_last: true, txns: undecided.to_vec() }))
}

/// The same, and its shard is open.
pub(crate) fn opened() -> Driver {
    open_with(linked())
}

/// The same with leases on space 0.
pub(crate) fn opened_leased() -> Driver {
    open_with(linked_over(Config { leased_spaces: vec![0], ..Config::default() }, 1 << 30))
}

fn open_with(mut driver: Driver) -> Driver {
    driver.store.open(driver.now, &openings(0, 1));
    driver.run();
    tell(&mut driver, vec![], true);
    driver
}

/// The peer tells what its log holds for shard 0.
fn tell(driver: &mut Driver, commits: Vec<RecalledCommit>, is_last: bool) {
    driver.hear(LINK, ToNode::Recalled(Recalled { openings: openings(0, 1), commits, is_last }));
}

/// A client commits a change of both shards. The peer prepares it, and the log has it.
fn log_on_both(driver: &mut Driver) -> SessionId {
    let session = driver.join(1, 1);
    driver.said_on(LINK);
    let request: Txn = txn(1, 1).to(9).write(page(0), 0, 0, b"new").write(page(1), 0, 0, b"new");
    driver.say(session, request.message());
    let [ToNode::Prepare(Prepare { openings, .. })] = &driver.said_on(LINK)[..] else { panic!("it asks its peer") };
    assert_eq!(*openings, self::openings(1, 1));
    driver.hear(LINK, ToNode::Vote(Vote::prepared(TXN, Vector::new())));
    assert!(driver.work().any(|work| matches!(work, DiskWork::Append(..))), "it is on its way to the log");
    session
}

/// A node can learn from etcd who is elected before the elected one does. It asks once.
#[test]
pub(crate) fn counts_asked_for_before_the_election_is_known_are_given_after_it() {
    let config = Config { node: OWN, members: vec![OWN, PEER], sharding: sharding(), ..Config::default() };
    let mut driver = Driver::with_log(config, 1 << 30);
    say_hello(&mut driver);
    let ask = || ToNode::Sequence(Sequence { txn: TXN, shards: [Shard(1)].into_iter().collect() });
    assert_eq!(driver.hear(LINK, ask()), []);
    driver.store.sequence(driver.now, Epoch(2));
    let placed = |count| ToNode::Placed(Placed { txn: TXN, counts: vector(&[(1, count)]) });
    let first = Epoch(2).first().0;
    assert_eq!(driver.said_on(LINK), [placed(first)]);
    assert_eq!(driver.hear(LINK, ask()), [placed(first + 1)]);
}

/// A request that was lost with its link is not answered on the next: the peer asks again.
#[test]
pub(crate) fn counts_asked_for_on_a_lost_link_are_not_given() {
    let config = Config { node: OWN, members: vec![OWN, PEER], sharding: sharding(), ..Config::default() };
    let mut driver = Driver::with_log(config, 1 << 30);
    say_hello(&mut driver);
    driver.hear(LINK, ToNode::Sequence(Sequence { txn: TXN, shards: [Shard(1)].into_iter().collect() }));
    driver.store.link_is_down(driver.now, LINK);
    say_hello(&mut driver);
    driver.store.sequence(driver.now, Epoch(2));
    assert_eq!(driver.said_on(LINK), []);
}

#[test]
pub(crate) fn a_shard_opens_when_every_log_has_told() {
    let mut driver = linked();
    driver.store.open(driver.now, &openings(0, 1));
    assert_eq!(driver.said_on(LINK), [ToNode::Recall(Recall { openings: openings(0, 1) })]);
    driver.run();
    assert!(!driver.store.serves(Shard(0)), "its own log is not enough");
    tell(&mut driver, vec![commit(0, 7, "seven"), commit(0, 5, "five")], false);
    // The link is lost, and with it the rest: everything is told again.
    driver.store.link_is_down(driver.now, LINK);
    link(&mut driver, &[]);
    tell(&mut driver, vec![commit(0, 7, "seven")], false);
    assert!(!driver.store.serves(Shard(0)), "there is more");
    tell(&mut driver, vec![commit(0, 5, "five")], true);
    assert!(driver.store.serves(Shard(0)));
    assert_eq!(driver.store.changes(page(0)), commit(0, 7, "seven").deltas[0].changes);
    assert_eq!(driver.store.applied(), &vector(&[(0, 7)]));
}

#[test]
pub(crate) fn a_record_on_its_way_to_the_log_is_told() {
    let mut driver = opened();
    log_on_both(&mut driver);
    // The peer was restarted, and opens its shard again.
    assert!(driver.hear(LINK, ToNode::Recall(Recall { openings: openings(1, 2) })).is_empty());
    assert!(!driver.work().any(|work| matches!(work, DiskWork::ReadLog)), "it waits for the record");
    driver.run();
    let said = driver.said_on(LINK);
    let told = said.iter().find_map(|message| match message {
        ToNode::Recalled(recalled) => Some(recalled.clone()),
        _ => None,
    });
    let first = Epoch(1).first().0;
    let commits = vec![commit(1, first, "new")];
    assert_eq!(told, Some(Recalled { openings: openings(1, 2), commits, is_last: true }), "{said:?}");
}

#[test]
pub(crate) fn a_node_that_is_back_knows_what_it_has_committed_from_its_log() {
    let mut driver = opened();
    log_on_both(&mut driver);
    driver.sync();
    driver.crash();
    let other = TxnId { number: 2, ..TXN };
    let said = link(&mut driver, &[TXN, other]);
    let (decided, released) = (said.len(), &said[..]);
    let [ToNode::Decide(decide), ToNode::Release(release)] = released else { panic!("{decided}: {said:?}") };
    assert_eq!((decide.txn, release.txn), (TXN, other));
    assert_eq!(decide.counts.of(Shard(1)), Epoch(1).first());
}

#[test]
pub(crate) fn the_log_keeps_what_another_shard_has_not_written_back() {
    let mut driver = opened();
    log_on_both(&mut driver);
    driver.run();
    driver.hear(LINK, ToNode::Applied(messages::Applied { txn: TXN }));
    driver.pass(Duration::from_secs(2));
    let holds = |driver: &Driver| driver.has_record(|record| matches!(record, Record::Commit(_)));
    assert!(driver.home(page(0)).is_some(), "its own shard is written back");
    assert!(holds(&driver), "shard 1 is not");
    driver.hear(LINK, ToNode::Home(Home { through: vector(&[(1, Epoch(1).first().0)]) }));
    driver.run();
    driver.pass(Duration::from_secs(2));
    assert!(!holds(&driver), "both have written it back");
}

/// Commits wait while the log is full of records that the peer has not written back.
#[test]
fn a_log_that_another_node_needs_makes_commits_wait() {
    let mut driver = open_with(linked_with(64 * 1024));
    let session = driver.join(1, 1);
    driver.said_on(LINK);
    let value = [7; 2000];
    let mut number = 0;
    loop {
        number += 1;
        let both =
            txn(1, number).to(9).write(page(0), number as u16, 0, &value).write(page(1), number as u16, 0, &value);
        driver.say(session, both.message());
        if !driver.said_on(LINK).iter().any(|said| matches!(said, ToNode::Prepare(_))) {
            break;
        }
        let txn = TxnId { number, ..TXN };
        driver.hear(LINK, ToNode::Vote(Vote::prepared(txn, Vector::new())));
        driver.run();
        driver.hear(LINK, ToNode::Applied(messages::Applied { txn }));
        assert!(matches!(driver.outcome(session), Some(Outcome::Committed { .. })), "commit {number}");
        driver.pass(Duration::from_secs(2));
        driver.run();
    }
    assert!((3..16).contains(&number), "{number} commits fill the log");
    (0..3).for_each(|_| driver.pass(Duration::from_secs(2)));
    assert_eq!(driver.outcome(session), None);
    let mut said = driver.hear(LINK, ToNode::Home(Home { through: vector(&[(1, Epoch(1).first().0 + number)]) }));
    driver.run();
    said.extend(driver.said_on(LINK));
    assert!(said.iter().any(|said| matches!(said, ToNode::Prepare(_))), "the commit that waited is prepared: {said:?}");
}

#[test]
fn a_commit_on_several_nodes_is_answered_when_its_record_is_durable() {
    let mut driver = opened();
    let session = log_on_both(&mut driver);
    assert_eq!(driver.outcome(session), None);
    driver.run();
    let said = driver.said_on(LINK);
    assert!(matches!(&said[..], [ToNode::Decide(_)]), "the peer has yet to apply it: {said:?}");
    let count = Epoch(1).first();
    let mut moved = [0, 1].map(|shard| Advance { page: page(shard), prev: count.before(), version: count });
    moved.sort_unstable_by_key(|moved| moved.page);
    assert_eq!(driver.outcome(session), Some(Outcome::Committed { pages: moved.to_vec() }));
    driver.hear(LINK, ToNode::Applied(messages::Applied { txn: TXN }));
    assert_eq!(driver.outcome(session), None, "it is answered once");
    driver.say(session, AskOutcome { txn: TXN });
    assert_eq!(driver.outcome(session), Some(Outcome::Committed { pages: moved.to_vec() }));
}

/// Has the peer's transaction prepared, which writes to the node's own shard.
fn prepare_for_peer(driver: &mut Driver) -> TxnId {
    let Txn(request) = txn(2, 1).write(page(0), 1, 0, b"x");
    let (among, txn) = (messages::Among::AtOnce { writes: true }, request.txn);
    driver.hear(LINK, Prepare { request: request.into(), among, openings: openings(0, 1) });
    txn
}

/// The peer has answered its client, and its decision is on the way.
#[test]
pub(crate) fn a_shard_is_named_when_what_was_prepared_there_is_applied() {
    let mut driver = opened();
    let session = driver.join(1, 1);
    driver.fetch(session, page(0));
    let txn = prepare_for_peer(&mut driver);
    let named = |said: &[ToClient]| -> Vec<_> {
        let word = |message: &ToClient| match message {
            ToClient::Synced(synced) => Some((synced.number, synced.shards.clone())),
            ToClient::Invalidations(_) => Some((0, vec![])),
            _ => None,
        };
        said.iter().filter_map(word).collect()
    };
    driver.say(session, Sync { number: 1 });
    assert_eq!(named(&driver.take(session)), [(1, vec![])]);
    driver.hear(LINK, messages::Decide { txn, counts: vector(&[(0, 9)]) });
    driver.run();
    assert_eq!(named(&driver.take(session)), [(0, vec![]), (1, vec![Shard(0)])], "behind the change");
    driver.say(session, Sync { number: 2 });
    assert_eq!(named(&driver.take(session)), [(2, vec![Shard(0)])]);
}

#[test]
fn a_session_has_a_bounded_number_of_questions_that_wait() {
    let mut driver = opened();
    let session = driver.join(1, 1);
    let txn = prepare_for_peer(&mut driver);
    (1..=20).for_each(|number| driver.say(session, Sync { number }));
    driver.take(session);
    driver.hear(LINK, messages::Decide { txn, counts: vector(&[(0, 9)]) });
    driver.run();
    let number = |message: &ToClient| if let ToClient::Synced(synced) = message { Some(synced.number) } else { None };
    let answered: Vec<_> = driver.take(session).iter().filter_map(number).collect();
    let expected: Vec<_> = (1..=15).chain([20]).collect();
    assert_eq!(answered, expected, "the last serves those whose place it has taken");
}

/// A client may know a count from the reply of another node, before the decision is here.
#[test]
fn evidence_of_what_is_prepared_is_not_of_the_future() {
    let mut driver = opened();
    let session = driver.join(1, 1);
    prepare_for_peer(&mut driver);
    let request = |number| txn(1, number).to(9).read(page(0), 1, 9);
    driver.say(session, request(1).message());
    assert_eq!(driver.ended(session), None);
    driver.hear(LINK, messages::Release { txn: TxnId { client: types::ClientId(2), number: 1 } });
    driver.say(session, request(2).message());
    assert_eq!(driver.ended(session), Some(GoodbyeReason::Malformed));
}

/// Both shards have written the commit back, the peer's word that it has applied it was lost with the link, and the
/// coordinator is restarted.
#[test]
fn an_outcome_outlives_its_record() {
    let mut driver = opened();
    log_on_both(&mut driver);
    driver.run();
    driver.hear(LINK, ToNode::Home(Home { through: vector(&[(1, Epoch(1).first().0)]) }));
    driver.pass(Duration::from_secs(2));
    assert!(driver.home(page(0)).is_some(), "everything is written back");
    driver.crash();
    link(&mut driver, &[]);
    driver.store.open(driver.now, &openings(0, 2));
    driver.run();
    driver.hear(LINK, Recalled { openings: openings(0, 2), commits: vec![], is_last: true });
    let session = driver.join(2, 1);
    driver.say(session, AskOutcome { txn: TXN });
    assert!(matches!(driver.outcome(session), Some(Outcome::Committed { .. })));
}

/// The node is stopped while the peer's transaction is prepared. It closes when that is decided and written back, and
/// its shard opens again without a question.
#[test]
pub(crate) fn a_shard_closes_when_nothing_is_prepared_and_all_is_written_back() {
    let mut driver = opened();
    let txn = prepare_for_peer(&mut driver);
    driver.store.close(driver.now);
    driver.run();
    assert!(!driver.is_closed(), "it waits for the decision");
    let Txn(late) = self::txn(2, 2).write(page(0), 2, 0, b"x");
    let among = messages::Among::AtOnce { writes: true };
    let said = driver.hear(LINK, Prepare { request: late.into(), among, openings: openings(0, 1) });
    assert!(matches!(&said[..], [.., ToNode::Vote(Vote { verdict: Verdict::Busy, .. })]), "{said:?}");
    driver.hear(LINK, messages::Decide { txn, counts: vector(&[(0, 9)]) });
    driver.run();
    assert!(driver.is_closed());
    assert_eq!(driver.store.closed_shards(), [(Shard(0), Version(9))]);
    driver.crash();
    driver.store.open_closed(driver.now, Shard(0), Opening(2), Version(9));
    assert!(driver.store.serves(Shard(0)));
    assert_eq!(driver.store.applied(), &vector(&[(0, 9)]));
}

/// The answer of a node that was asked before the link was lost would lack what was told on it.
#[test]
fn an_answer_that_was_begun_on_a_lost_link_is_not_ended_on_the_next() {
    let mut driver = opened();
    driver.hear(LINK, ToNode::Recall(Recall { openings: openings(1, 2) }));
    driver.store.link_is_down(driver.now, LINK);
    link(&mut driver, &[]);
    driver.run();
    assert!(driver.said_on(LINK).is_empty(), "nobody has asked on this link");
    driver.hear(LINK, ToNode::Recall(Recall { openings: openings(1, 2) }));
    driver.run();
    assert!(matches!(&driver.said_on(LINK)[..], [ToNode::Recalled(_)]));
}

/// A part of a commit is asked for in the opening that its coordinator knows. In any other it is not judged.
#[test]
fn a_part_is_judged_in_the_opening_that_is_meant() {
    let mut driver = opened();
    let part = |number: u64, opening: u32| {
        let Txn(request) = txn(2, number).write(page(0), 1, 0, b"x");
        let among = messages::Among::AtOnce { writes: true };
        ToNode::Prepare(Prepare { request: request.into(), among, openings: openings(0, opening) })
    };
    let verdict = |said: Vec<ToNode>| match &said[..] {
        [ToNode::Vote(vote)] => format!("{:?}", vote.verdict),
        other => panic!("{other:?}"),
    };
    assert_eq!(verdict(driver.hear(LINK, part(1, 2))), "Busy");
    assert_eq!(verdict(driver.hear(LINK, part(1, 1))), "Prepared");
}

/// A peer that decides what cannot be loses its link, and nothing else happens.
#[test]
fn a_decision_below_what_is_applied_ends_the_link() {
    let mut driver = opened();
    let Txn(request) = txn(2, 1).write(page(0), 1, 0, b"x");
    let (among, txn) = (messages::Among::AtOnce { writes: true }, request.txn);
    driver.hear(LINK, ToNode::Prepare(Prepare { request: request.into(), among, openings: openings(0, 1) }));
    let said = driver.hear(LINK, ToNode::Decide(messages::Decide { txn, counts: Vector::new() }));
    let reasons: Vec<_> = said.iter().filter_map(message_reason).collect();
    assert_eq!(reasons, [GoodbyeReason::Malformed; 2]);
    // It is undecided still, and its coordinator learns of it on the next link.
    let first = say_hello(&mut driver);
    assert_eq!(first[1], ToNode::Unapplied(Unapplied { is_last: true, txns: vec![txn] }));
}

fn message_reason(message: &ToNode) -> Option<GoodbyeReason> {
    if let ToNode::Goodbye(why) = message { Some(why.reason) } else { None }
}

/// After a restart a node is not the sequencer.
#[test]
fn a_sequencer_serves_in_its_own_life() {
    let mut driver = opened();
    let sequence = || ToNode::Sequence(Sequence { txn: TXN, shards: [Shard(1)].into_iter().collect() });
    let counts = Vector::from_iter([(Shard(1), Epoch(1).first())]);
    assert_eq!(driver.hear(LINK, sequence()), [ToNode::Placed(Placed { txn: TXN, counts })]);
    driver.crash();
    say_hello(&mut driver);
    assert!(driver.hear(LINK, sequence()).is_empty());
}

/// Commits whose sequencer is at the peer ask it together, when it has answered those before. If it changes or its link
/// is lost, they are all asked for again.
#[test]
fn commits_ask_the_sequencer_of_another_node_together_when_it_has_answered() {
    let mut driver = opened();
    driver.store.follow_sequencer(driver.now, PEER);
    let session = driver.join(1, 1);
    driver.said_on(LINK);
    let wants = |driver: &mut Driver, slot: u16| {
        let request = txn(1, u64::from(slot)).to(9).write(page(0), slot, 0, b"new");
        driver.say(session, request.message());
    };
    let asked = |said: Vec<ToNode>| -> Vec<u64> {
        let number = |message| if let ToNode::Sequence(sequence) = message { Some(sequence.txn.number) } else { None };
        said.into_iter().filter_map(number).collect()
    };
    let placed = |number, count| {
        let counts = vector(&[(0, Epoch(1).first().0 + count)]);
        ToNode::Placed(Placed { txn: TxnId { number, ..TXN }, counts })
    };
    wants(&mut driver, 1);
    assert_eq!(asked(driver.said_on(LINK)), [1]);
    wants(&mut driver, 2);
    wants(&mut driver, 3);
    assert_eq!(asked(driver.said_on(LINK)), [] as [u64; 0]);
    assert_eq!(asked(driver.hear(LINK, placed(1, 1))), [2, 3]);
    wants(&mut driver, 4);
    assert_eq!(asked(driver.hear(LINK, placed(2, 2))), [] as [u64; 0]);
    driver.store.follow_sequencer(driver.now, PEER);
    assert_eq!(asked(driver.said_on(LINK)), [3, 4], "of its next term");
    driver.store.link_is_down(driver.now, LINK);
    assert_eq!(asked(say_hello(&mut driver)), [3, 4], "on the next link");
    assert_eq!(asked(driver.hear(LINK, placed(3, 3))), [] as [u64; 0]);
    wants(&mut driver, 5);
    assert_eq!(asked(driver.hear(LINK, placed(4, 4))), [5]);
}

/// The peer is gone. Its part of a commit is refused at once, and commits on other shards continue.
#[test]
fn commits_on_the_shards_of_a_node_that_is_away_are_refused_as_busy() {
    let mut driver = opened();
    let session = driver.join(1, 1);
    driver.store.link_is_down(driver.now, LINK);
    let on_both = txn(1, 1).to(9).write(page(0), 0, 0, b"new").write(page(1), 0, 0, b"new");
    assert_eq!(driver.commit(session, &on_both), Outcome::Refused(types::Refusal::Busy));
    let on_own = txn(1, 2).to(9).write(page(0), 0, 0, b"new");
    assert!(matches!(driver.commit(session, &on_own), Outcome::Committed { .. }));
}

/// Nothing of a connection counts that does not begin with the hello of another member of this store.
#[test]
fn a_link_begins_with_a_hello_of_another_member() {
    let reason = |said: &[ToNode]| said.iter().find_map(message_reason);
    let others = [
        NodeHello { cluster: ClusterId(8), ..hello() },
        NodeHello { node: NodeId(7), ..hello() },
        NodeHello { node: OWN, ..hello() },
        NodeHello { to: PEER, ..hello() },
    ];
    let mut driver = opened();
    let two = Port::FromNode(SessionId(2));
    let said: Vec<_> = others.map(|hello| reason(&driver.hear(two, hello))).into();
    let malformed = Some(GoodbyeReason::Malformed);
    assert_eq!(said, [Some(GoodbyeReason::WrongCluster), malformed, malformed, malformed]);
    assert_eq!(reason(&driver.hear(two, Recall { openings: openings(1, 2) })), malformed);
    assert_eq!(driver.said_on(LINK), [], "the link is as it was");
    // At the address of node 1 another one listens.
    let dialed = Port::Upstream(UpstreamId(0));
    driver.store.link_is_up(dialed);
    assert!(matches!(&driver.said_on(dialed)[..], [ToNode::NodeHello(NodeHello { to: OWN, .. })]));
    assert_eq!(reason(&driver.hear(dialed, hello())), malformed);
}

/// Of two nodes the one with the higher number opens the link: once for each address.
#[test]
fn a_link_is_opened_again_when_its_node_is_elsewhere() {
    let config = Config { node: PEER, members: vec![OWN, PEER], sharding: sharding(), ..Config::default() };
    let mut driver = Driver::with(config);
    let mut opened = |address: &str, node| {
        driver.store.node_is_at(driver.now, node, 0, address);
        driver.run();
        driver.opened.clone()
    };
    let [first, second] = [0, 1 << 16].map(UpstreamId);
    assert_eq!(opened("there:1", OWN), [(first, "there:1".into())]);
    assert_eq!(opened("there:1", OWN), [(first, "there:1".into())]);
    assert_eq!(opened("here:1", PEER), [(first, "there:1".into())]);
    assert_eq!(opened("there:2", OWN), [(second, "there:2".into())]);
}

/// The peer has lost its link without a word, and opens another one.
#[test]
fn a_new_link_takes_the_place_of_the_last() {
    let mut driver = opened();
    let two = Port::FromNode(SessionId(2));
    let said = driver.hear(two, hello());
    assert!(matches!(&said[..], [ToNode::NodeHello(_), ToNode::Unapplied(_), ToNode::Home(_)]), "{said:?}");
    assert_eq!(driver.said_on(LINK).iter().find_map(message_reason), Some(GoodbyeReason::Superseded));
    // Messages on the last link, and its end, have no effect.
    driver.hear(LINK, Recall { openings: openings(1, 2) });
    driver.store.link_is_down(driver.now, LINK);
    driver.hear(two, Recall { openings: openings(1, 2) });
    driver.run();
    assert!(matches!(&driver.said_on(two)[..], [ToNode::Recalled(_)]));
}

/// The process was stopped beyond its lease, and runs on. The node says goodbye, and nothing else.
#[test]
pub(crate) fn a_node_whose_lease_is_over_answers_nothing() {
    let mut driver = opened();
    let session = driver.join(1, 1);
    let until = driver.now + Duration::from_secs(5);
    driver.store.extend_lease(driver.now, until);
    let fetch = |driver: &mut Driver| {
        let fetch = Fetch { pages: vec![page(0)], at_least: Vector::new(), number: 1, follow: None };
        Machine::handle(&mut driver.store, driver.now, Port::Session(session), Parcel::new(ToServer::from(fetch)));
        driver.run();
        driver.take(session)
    };
    assert!(fetch(&mut driver).iter().any(|message| matches!(message, ToClient::Page(_))), "the lease lasts");
    driver.said_on(LINK);
    driver.now = until;
    let said = fetch(&mut driver);
    assert!(matches!(&said[..], [ToClient::Goodbye(why)] if why.reason == GoodbyeReason::CutOff), "{said:?}");
    assert_eq!(driver.ended(session), Some(GoodbyeReason::CutOff));
    assert_eq!(driver.said_on(LINK).iter().find_map(message_reason), Some(GoodbyeReason::CutOff));
    // A lease that is over is over: the node begins again from its directory.
    driver.store.extend_lease(driver.now, until + Duration::from_secs(5));
    let sequence = ToNode::Sequence(Sequence { txn: TXN, shards: [Shard(1)].into_iter().collect() });
    Machine::handle(&mut driver.store, driver.now, LINK, Parcel::new(sequence));
    assert!(driver.said_on(LINK).is_empty(), "nor does its sequencer");
    Machine::connected(&mut driver.store, driver.now, Port::Session(SessionId(9)));
    driver.run();
    assert_eq!(driver.ended(SessionId(9)), Some(GoodbyeReason::CutOff));
}
