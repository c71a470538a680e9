//! Conversations with a coordinator whose transactions are on the shards of several nodes.

mod common;

use bytes::Bytes;
use common::commit;
use coordinator::{Asker, CommitRecord, Config, Coordinator, Output};
use messages::{
    Advance, Among, CommitReply, CommitRequest, Decide, Outcome, PageReads, Placed, Prepare, Sequence, Vote,
};
use std::cell::Cell;
use std::num::{NonZeroU16, NonZeroU32};
use std::panic;
use types::{
    Broken, ClientId, Delta, Incarnation, Limits, NodeId, Opening, PageId, Refusal, Rule, SessionId, Shard, Sharding,
    SlotChange, SlotSet, TxnId, Vector, Version,
};

const TXN: TxnId = TxnId { client: ClientId(1), number: 1 };
const OWN: NodeId = NodeId(0);
const PEER: NodeId = NodeId(1);
const SESSION: SessionId = SessionId(1);

thread_local! {
    /// The rule that is taken out of the coordinators of a test.
    static TAKEN_OUT: Cell<Broken> = const { Cell::new(Broken::NONE) };
}

fn sharding() -> Sharding {
    Sharding::new(NonZeroU16::new(4).unwrap(), NonZeroU32::MIN)
}

/// The page of space 0 that is in this shard.
fn page(shard: u16) -> PageId {
    (0..4)
        .map(|number| PageId::new(0, number))
        .find(|&page| sharding().of(page) == Shard(shard))
        .expect("there are four")
}

/// A coordinator at the node of the shards 0 and 2. Its peer has 1 and 3.
fn coordinator() -> Coordinator {
    let (incarnation, limits, broken) = (Incarnation(1), Limits::SHIPPED, TAKEN_OUT.get());
    let config = Config { node: OWN, incarnation, sharding: sharding(), unlogged_bytes_max: 1000, limits, broken };
    let mut coordinator = Coordinator::new(config, Vec::new(), Vector::new());
    for shard in 0..4 {
        coordinator.place(Shard(shard), if shard % 2 == 0 { OWN } else { PEER }, Opening(1));
    }
    coordinator.connected(SESSION);
    coordinator
}

/// A transaction that reads pages of these shards, and writes to some of them.
fn request(reads: &[u16], writes: &[u16]) -> CommitRequest {
    let in_order = |shards: &[u16]| {
        let mut pages: Vec<_> = shards.iter().map(|&shard| page(shard)).collect();
        pages.sort_unstable();
        pages
    };
    let read =
        |page| PageReads { page, slots: SlotSet::from_iter([0]), evidence: Version::ZERO, exceptions: Vec::new() };
    let change = SlotChange { slot: 0, value: Some(Bytes::from_static(b"x")) };
    CommitRequest {
        txn: TXN,
        incarnation: Incarnation(1),
        answered: 1,
        reads: in_order(reads).into_iter().map(read).collect(),
        writes: in_order(writes).into_iter().map(|page| Delta { page, changes: vec![change.clone()] }).collect(),
    }
}

fn vector(counts: &[(u16, u64)]) -> Vector {
    let mut vector = Vector::new();
    for &(shard, count) in counts {
        vector.raise(Shard(shard), Version(count));
    }
    vector
}

/// The shards of some pages, in order.
fn shards(pages: impl Iterator<Item = PageId>) -> Vec<u16> {
    let mut shards: Vec<_> = pages.map(|page| sharding().of(page).0).collect();
    shards.sort_unstable();
    shards
}

fn wants(coordinator: &mut Coordinator) -> Vec<String> {
    common::wants(coordinator, word)
}

fn word(output: Output) -> String {
    match output {
        Output::GiveBack(_) => "give back".into(),
        Output::Prepare(at, _, Prepare { request, among, .. }) => {
            let reads = shards(request.reads.iter().map(|reads| reads.page));
            let writes = shards(request.writes.iter().map(|delta| delta.page));
            let how = match among {
                Among::Alone => "alone".into(),
                Among::AtOnce { writes } => format!("at once, {writes}"),
                Among::InTurn { is_held, .. } => format!("in turn, {}", if is_held { "held" } else { "first" }),
            };
            format!("n{}: prepare {reads:?} {writes:?} {how}", at.0)
        }
        Output::Withdraw(at, _) => format!("n{}: withdraw", at.0),
        Output::Release(at, _) => format!("n{}: release", at.0),
        Output::Sequence(Sequence { shards, .. }) => {
            format!("sequence {:?}", shards.iter().map(|shard| shard.0).collect::<Vec<_>>())
        }
        Output::Log(CommitRecord { counts, .. }) => format!("log {counts}"),
        Output::Decide(at, Decide { counts, .. }, replied) => format!("n{}: decide {counts} {}", at.0, replied.len()),
        Output::Reply(_, CommitReply { outcome, .. }, _) => match outcome {
            Outcome::Committed { pages } => format!("committed {:?}", shards(pages.iter().map(|moved| moved.page))),
            Outcome::Refused(Refusal::Stale(stale)) => {
                format!("stale {:?}", shards(stale.iter().map(|(page, _)| *page)))
            }
            Outcome::Refused(refusal) => refusal.name().into(),
            Outcome::Unknown => "unknown".into(),
        },
        Output::Keep(_) => "keep".into(),
    }
}

fn prepared(highest: &[(u16, u64)]) -> Vote {
    Vote::prepared(TXN, vector(highest))
}

fn moved(shard: u16, version: u64) -> Advance {
    Advance { page: page(shard), prev: Version::ZERO, version: Version(version) }
}

fn stale(shard: u16) -> Vote {
    Vote::refused(TXN, Refusal::Stale(vec![(page(shard), SlotSet::from_iter([0]))]))
}

#[test]
fn a_commit_on_two_nodes_goes_through_its_phases() {
    let mut coordinator = coordinator();
    commit(&mut coordinator, SESSION, request(&[0, 1, 3], &[0, 3]));
    let asked = ["n0: prepare [0] [0] at once, true", "n1: prepare [1, 3] [3] at once, true"];
    assert_eq!(wants(&mut coordinator), asked);
    coordinator.voted(PEER, prepared(&[(3, 8)]));
    assert!(wants(&mut coordinator).is_empty(), "one vote is to come");
    coordinator.voted(OWN, prepared(&[(0, 4)]));
    assert_eq!(wants(&mut coordinator), ["sequence [0, 3]"]);
    coordinator.placed(&Placed { txn: TXN, counts: vector(&[(0, 5), (3, 9)]) });
    assert_eq!(wants(&mut coordinator), ["log {0: v5, 3: v9}"]);
    coordinator.durable(TXN);
    let decides = ["n0: decide {0: v5, 3: v9} 0", "n1: decide {0: v5, 3: v9} 0"];
    assert_eq!(wants(&mut coordinator), ["committed [0, 3]", decides[0], decides[1], "keep"]);
    assert_eq!(coordinator.outstanding(SESSION), 0);
    coordinator.applied(PEER, TXN, vec![]);
    coordinator.applied(PEER, TXN, vec![]);
    assert!(!coordinator.is_idle(), "the other one applies it still");
    coordinator.applied(OWN, TXN, vec![moved(0, 5)]);
    assert!(coordinator.is_idle() && wants(&mut coordinator).is_empty());
}

/// A client was gone for so long that its outcomes are forgotten, and is back before a master has applied its commit.
#[test]
fn a_commit_that_is_decided_is_answered_again_until_it_is_applied() {
    let mut coordinator = both_prepared();
    coordinator.placed(&counted());
    coordinator.durable(TXN);
    wants(&mut coordinator);
    coordinator.forget(TXN.client);
    assert!(coordinator.commit(SESSION, request(&[0, 1], &[0, 1])).is_none(), "it does not begin again");
    assert_eq!(wants(&mut coordinator), ["committed [0, 1]"]);
    coordinator.applied(OWN, TXN, vec![]);
    coordinator.applied(PEER, TXN, vec![]);
    assert!(coordinator.is_idle() && wants(&mut coordinator).is_empty());
}

#[test]
fn a_commit_on_one_shard_asks_its_master_alone() {
    let mut coordinator = coordinator();
    commit(&mut coordinator, SESSION, request(&[1, 3], &[3]));
    assert_eq!(wants(&mut coordinator), ["n1: prepare [1, 3] [3] alone"]);
    coordinator.voted(OWN, prepared(&[]));
    assert!(wants(&mut coordinator).is_empty(), "the other node was not asked");
    coordinator.voted(PEER, prepared(&[]));
    assert_eq!(wants(&mut coordinator), ["sequence [3]"]);
}

/// With [`Rule::ReleaseReaders`] taken out, a master would hold the reads for ever.
#[test]
fn a_master_that_was_only_read_from_is_released_once_it_has_committed() {
    let mut coordinator = coordinator();
    commit(&mut coordinator, SESSION, request(&[0, 1], &[0]));
    wants(&mut coordinator);
    coordinator.voted(OWN, prepared(&[]));
    coordinator.voted(PEER, prepared(&[]));
    coordinator.placed(&Placed { txn: TXN, counts: vector(&[(0, 5)]) });
    assert_eq!(wants(&mut coordinator), ["sequence [0]", "log v5"]);
    coordinator.durable(TXN);
    assert_eq!(wants(&mut coordinator), ["committed [0]", "n0: decide v5 0", "n1: release", "keep"]);
}

#[test]
fn a_read_only_transaction_is_judged_in_one_round() {
    let mut coordinator = coordinator();
    commit(&mut coordinator, SESSION, request(&[0, 1], &[]));
    assert_eq!(wants(&mut coordinator), ["n0: prepare [0] [] at once, false", "n1: prepare [1] [] at once, false"]);
    coordinator.voted(OWN, prepared(&[]));
    coordinator.voted(PEER, stale(1));
    assert_eq!(wants(&mut coordinator), ["stale [1]"], "nothing was prepared, so nothing is released");
}

/// A refusal ends it, whatever the others say. The client learns of everything that was stale.
#[test]
fn a_refused_part_releases_the_others() {
    let mut coordinator = coordinator();
    commit(&mut coordinator, SESSION, request(&[0, 1], &[0, 1]));
    wants(&mut coordinator);
    coordinator.voted(PEER, stale(1));
    assert!(wants(&mut coordinator).is_empty(), "the other may have prepared it");
    coordinator.voted(OWN, prepared(&[]));
    assert_eq!(wants(&mut coordinator), ["n0: release", "keep", "stale [1]"]);
    let mut coordinator = self::coordinator();
    commit(&mut coordinator, SESSION, request(&[0, 1], &[0, 1]));
    wants(&mut coordinator);
    coordinator.voted(OWN, stale(0));
    coordinator.voted(PEER, stale(1));
    assert_eq!(wants(&mut coordinator), ["keep", "stale [0, 1]"]);
}

/// The order of the shards is the order of the parts, and a node is asked as often as its shards take turns with
/// others.
#[test]
fn busy_masters_are_asked_in_the_order_of_shards() {
    let mut coordinator = coordinator();
    commit(&mut coordinator, SESSION, request(&[0, 1, 2], &[0, 1, 2]));
    let asked = ["n0: prepare [0, 2] [0, 2] at once, true", "n1: prepare [1] [1] at once, true"];
    assert_eq!(wants(&mut coordinator), asked);
    coordinator.voted(OWN, prepared(&[(0, 3), (2, 7)]));
    coordinator.voted(PEER, Vote::busy(TXN));
    assert_eq!(wants(&mut coordinator), ["n0: release", "n0: prepare [0] [0] in turn, first"]);
    coordinator.voted(OWN, prepared(&[(0, 3)]));
    assert_eq!(wants(&mut coordinator), ["n1: prepare [1] [1] in turn, held"]);
    coordinator.voted(OWN, prepared(&[(0, 99)]));
    coordinator.voted(PEER, prepared(&[(1, 5)]));
    assert_eq!(wants(&mut coordinator), ["n0: prepare [2] [2] in turn, held"]);
    coordinator.voted(OWN, Vote::refused(TXN, Refusal::Busy));
    assert_eq!(wants(&mut coordinator), ["n0: release", "n1: release", "keep", "busy"]);
}

/// A sequencer whose term is over gives counts that others had. The next one is asked when it is known.
#[test]
fn a_count_that_a_master_has_seen_is_not_taken() {
    let mut coordinator = coordinator();
    commit(&mut coordinator, SESSION, request(&[0, 1], &[0, 1]));
    wants(&mut coordinator);
    coordinator.voted(OWN, prepared(&[(0, 4)]));
    coordinator.voted(PEER, prepared(&[(1, 9)]));
    wants(&mut coordinator);
    coordinator.placed(&Placed { txn: TXN, counts: vector(&[(0, 5), (1, 9)]) });
    assert!(wants(&mut coordinator).is_empty());
    coordinator.sequence_again();
    assert_eq!(wants(&mut coordinator), ["sequence [0, 1]"]);
    coordinator.placed(&Placed { txn: TXN, counts: vector(&[(0, 6), (1, 10)]) });
    assert_eq!(wants(&mut coordinator), ["log {0: v6, 1: v10}"]);
    coordinator.sequence_again();
    assert!(wants(&mut coordinator).is_empty());
}

/// The client is gone before all have voted.
#[test]
fn a_withdrawn_commit_leaves_nothing_at_any_master() {
    let mut coordinator = coordinator();
    commit(&mut coordinator, SESSION, request(&[0, 1], &[0, 1]));
    wants(&mut coordinator);
    coordinator.voted(OWN, prepared(&[]));
    coordinator.disconnected(SESSION);
    assert_eq!(wants(&mut coordinator), ["n1: withdraw"]);
    coordinator.voted(PEER, Vote::withdrawn(TXN));
    assert_eq!(wants(&mut coordinator), ["n0: release"]);
    // The same, but the client is back by then: all masters are asked again.
    let mut coordinator = self::coordinator();
    commit(&mut coordinator, SESSION, request(&[0, 1], &[0, 1]));
    coordinator.disconnected(SESSION);
    coordinator.connected(SessionId(2));
    coordinator.ask_outcome(Asker { session: SessionId(2), knows_writes: true }, TXN);
    wants(&mut coordinator);
    coordinator.voted(OWN, prepared(&[]));
    coordinator.voted(PEER, Vote::withdrawn(TXN));
    let again = ["n0: release", "n0: prepare [0] [0] at once, true", "n1: prepare [1] [1] at once, true"];
    assert_eq!(wants(&mut coordinator), again);
}

/// Its client is gone while the masters are asked in turn: those that come later are not asked.
#[test]
fn a_withdrawn_commit_takes_no_more_turns() {
    let mut coordinator = coordinator();
    commit(&mut coordinator, SESSION, request(&[0, 1], &[0, 1]));
    coordinator.voted(OWN, Vote::busy(TXN));
    coordinator.voted(PEER, Vote::busy(TXN));
    wants(&mut coordinator);
    coordinator.disconnected(SESSION);
    assert_eq!(wants(&mut coordinator), ["n0: withdraw"]);
    coordinator.voted(OWN, prepared(&[]));
    assert_eq!(wants(&mut coordinator), ["n0: release"]);
}

/// A transaction of the shards 0 and 1 that both masters have prepared.
fn both_prepared() -> Coordinator {
    let mut coordinator = coordinator();
    commit(&mut coordinator, SESSION, request(&[0, 1], &[0, 1]));
    wants(&mut coordinator);
    coordinator.voted(OWN, prepared(&[]));
    coordinator.voted(PEER, prepared(&[]));
    assert_eq!(wants(&mut coordinator), ["sequence [0, 1]"]);
    coordinator
}

fn counted() -> Placed {
    Placed { txn: TXN, counts: vector(&[(0, 5), (1, 7)]) }
}

/// With [`Rule::FencePrepared`] taken out it would commit, and the master that has forgotten it would never apply it.
#[test]
fn what_was_prepared_in_an_earlier_opening_does_not_commit() {
    let mut coordinator = both_prepared();
    coordinator.fence(PEER, &[(Shard(1), Opening(2))].into_iter().collect());
    let again = ["n0: release", "n0: prepare [0] [0] in turn, first"];
    assert_eq!(wants(&mut coordinator), again, "it is asked for once more");
    coordinator.placed(&counted());
    assert!(wants(&mut coordinator).is_empty(), "the place was another attempt's");
    coordinator.voted(OWN, prepared(&[]));
    assert_eq!(wants(&mut coordinator), ["n1: prepare [1] [1] in turn, held"]);
}

/// Its record is on its way to the log, which tells it to the master that opens.
#[test]
fn what_is_being_logged_commits_whatever_is_opened() {
    let mut coordinator = both_prepared();
    coordinator.placed(&counted());
    coordinator.fence(PEER, &[(Shard(1), Opening(2))].into_iter().collect());
    coordinator.durable(TXN);
    let decides = ["n0: decide {0: v5, 1: v7} 0", "n1: decide {0: v5, 1: v7} 0"];
    let [own, peer] = decides;
    assert_eq!(wants(&mut coordinator), ["committed [0, 1]", "log {0: v5, 1: v7}", own, peer, "keep"]);
}

/// A transaction of the shards 0 and 1, of which the second moves.
fn moving() -> Coordinator {
    let mut coordinator = coordinator();
    commit(&mut coordinator, SESSION, request(&[0, 1], &[0, 1]));
    wants(&mut coordinator);
    coordinator.voted(OWN, prepared(&[]));
    coordinator.voted(PEER, Vote::moving(TXN));
    assert_eq!(wants(&mut coordinator), ["n0: release"], "it holds nothing");
    coordinator
}

/// With [`Rule::AskWhenServed`] taken out it would wait for ever.
#[test]
fn a_transaction_whose_shard_moves_is_asked_for_again_when_it_is_served() {
    let at_once = ["n0: prepare [0] [0] at once, true", "n1: prepare [1] [1] at once, true"];
    let mut coordinator = moving();
    coordinator.serving(Shard(2));
    assert!(wants(&mut coordinator).is_empty(), "it waits for another shard");
    coordinator.serving(Shard(1));
    assert_eq!(wants(&mut coordinator), at_once);
    coordinator.voted(OWN, prepared(&[]));
    coordinator.voted(PEER, prepared(&[]));
    assert_eq!(wants(&mut coordinator), ["sequence [0, 1]"]);
}

#[test]
fn a_transaction_whose_shard_moves_follows_it() {
    let mut coordinator = moving();
    coordinator.place(Shard(1), OWN, Opening(1));
    assert!(wants(&mut coordinator).is_empty(), "that is no news");
    coordinator.place(Shard(1), OWN, Opening(2));
    assert_eq!(wants(&mut coordinator), ["n0: prepare [0, 1] [0, 1] alone"]);

    // The shard's next place is known before its last master has answered.
    let mut coordinator = self::coordinator();
    commit(&mut coordinator, SESSION, request(&[1], &[1]));
    coordinator.place(Shard(1), OWN, Opening(2));
    wants(&mut coordinator);
    coordinator.voted(PEER, Vote::moving(TXN));
    assert_eq!(wants(&mut coordinator), ["n0: prepare [1] [1] alone"]);
}

#[test]
fn a_transaction_whose_shard_moves_waits_no_longer_than_somebody_can_tell() {
    let mut coordinator = moving();
    coordinator.lost(PEER);
    assert_eq!(wants(&mut coordinator), ["n0: prepare [0] [0] at once, true"]);
    coordinator.voted(OWN, prepared(&[]));
    assert_eq!(wants(&mut coordinator), ["n0: release", "n0: prepare [0] [0] in turn, first"]);
    coordinator.voted(OWN, prepared(&[]));
    assert_eq!(wants(&mut coordinator), ["n0: release", "keep", "busy"]);

    let mut coordinator = moving();
    coordinator.close();
    assert_eq!(wants(&mut coordinator), ["keep", "closing"]);

    let mut coordinator = moving();
    coordinator.disconnected(SESSION);
    assert_eq!(wants(&mut coordinator), [""; 0]);
    assert!(coordinator.is_idle());
}

#[test]
fn a_node_that_is_lost_is_as_good_as_busy_until_it_is_found() {
    let mut coordinator = coordinator();
    commit(&mut coordinator, SESSION, request(&[0, 1], &[0, 1]));
    coordinator.voted(PEER, prepared(&[]));
    wants(&mut coordinator);
    coordinator.lost(PEER);
    assert!(wants(&mut coordinator).is_empty(), "its own master has not answered");
    coordinator.voted(OWN, prepared(&[]));
    assert_eq!(wants(&mut coordinator), ["n0: release", "n0: prepare [0] [0] in turn, first"]);
    coordinator.voted(OWN, prepared(&[]));
    assert_eq!(wants(&mut coordinator), ["n0: release", "keep", "busy"]);
    // The master has it prepared still, and learns that nothing comes of it.
    coordinator.found(PEER, &[TXN], |_| None);
    assert_eq!(wants(&mut coordinator), ["n1: release"]);
    commit(&mut coordinator, SESSION, CommitRequest { txn: TxnId { number: 2, ..TXN }, ..request(&[1], &[1]) });
    assert_eq!(wants(&mut coordinator), ["n1: prepare [1] [1] alone"]);
}

/// A transaction that has its counts does not depend on links.
#[test]
fn what_is_counted_is_decided_when_the_node_is_back() {
    let mut coordinator = both_prepared();
    coordinator.lost(PEER);
    coordinator.placed(&counted());
    coordinator.found(PEER, &[TXN], |_| None);
    assert_eq!(wants(&mut coordinator), ["log {0: v5, 1: v7}"], "it is under way");
    coordinator.durable(TXN);
    coordinator.lost(PEER);
    wants(&mut coordinator);
    coordinator.applied(OWN, TXN, vec![moved(0, 5)]);
    coordinator.found(PEER, &[TXN], |_| Some(vector(&[(0, 5), (1, 7)])));
    assert_eq!(wants(&mut coordinator), ["n1: decide {0: v5, 1: v7} 0"], "the first word of it was lost");
    // The next time it is decided there: it was applied.
    coordinator.lost(PEER);
    coordinator.found(PEER, &[], |_| Some(vector(&[(0, 5), (1, 7)])));
    assert!(coordinator.is_idle());
}

#[test]
fn a_commit_waits_for_room_before_any_master_is_asked() {
    let mut coordinator = coordinator();
    let new = coordinator.commit(SESSION, request(&[0, 1], &[0, 1])).expect("it is new");
    assert_eq!(new.txn, TXN);
    assert!(coordinator.commit(SESSION, request(&[0, 1], &[0, 1])).is_none(), "a copy waits with it");
    assert!(wants(&mut coordinator).is_empty());
    // Its client goes, and the wait for room ends.
    coordinator.disconnected(SESSION);
    assert!(matches!(coordinator.poll_output(), Some(Output::GiveBack(TXN))));
    coordinator.reserved(TXN);
    assert!(wants(&mut coordinator).is_empty());
    coordinator.connected(SESSION);
    assert!(coordinator.commit(SESSION, request(&[0, 1], &[0, 1])).is_some());
    coordinator.not_reserved(TXN, Refusal::StoreFull);
    assert_eq!(wants(&mut coordinator), ["keep", "store_full"]);
}

const NOTICED_BY: [(Rule, fn()); 4] = [
    (Rule::AskWhenServed, a_transaction_whose_shard_moves_is_asked_for_again_when_it_is_served),
    (Rule::FencePrepared, what_was_prepared_in_an_earlier_opening_does_not_commit),
    (Rule::ReleaseReaders, a_master_that_was_only_read_from_is_released_once_it_has_committed),
    (Rule::CountAboveVotes, a_count_that_a_master_has_seen_is_not_taken),
];

#[test]
fn a_rule_that_is_taken_out_is_noticed() {
    for (rule, test) in NOTICED_BY {
        TAKEN_OUT.set(Broken::rule(rule));
        assert!(panic::catch_unwind(test).is_err(), "nobody notices that {rule:?} is gone");
        TAKEN_OUT.set(Broken::NONE);
        test();
    }
}
