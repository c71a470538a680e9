//! Conversations with the master of two shards in a store of several nodes, whose transactions come from several
//! coordinators.

use bytes::Bytes;
use core::time::Duration;
use master::{Config, EarlierLeases, HomePage, Kind, LogState, Master, Opened, Origin, Output};
use messages::{
    Among, CommitRequest, Decide, Openings, PageReads, Prepare, RecalledCommit, Release, Resume, ToClient, Verdict,
};
use std::cell::Cell;
use std::num::{NonZeroU16, NonZeroU32};
use std::panic;
use std::sync::Arc;
use types::{
    Broken, ClientId, Delta, Incarnation, Limits, NodeId, Opening, PageId, Position, Rule, SessionId, Shard, Sharding,
    SlotChange, SlotSet, Time, TxnId, Vector, Version,
};

const NOW: Time = Time(1);
const COORDINATOR: NodeId = NodeId(1);
const READER: SessionId = SessionId(2);

thread_local! {
    /// The rule that is taken out of the masters of a test.
    static TAKEN_OUT: Cell<Broken> = const { Cell::new(Broken::NONE) };
}

fn sharding() -> Sharding {
    Sharding::new(NonZeroU16::new(2).unwrap(), NonZeroU32::MIN)
}

/// The page of space 0 that is in this shard. That of shard 1 comes first.
fn page(shard: u16) -> PageId {
    (0..2)
        .map(|number| PageId::new(0, number))
        .find(|&page| sharding().of(page) == Shard(shard))
        .expect("there are two")
}

/// Both shards, in the opening in which they are served.
fn openings() -> Openings {
    [(Shard(0), Opening(1)), (Shard(1), Opening(1))].into_iter().collect()
}

fn txn(number: u64) -> TxnId {
    TxnId { client: ClientId(number), number: 1 }
}

fn vector(counts: &[(u16, u64)]) -> Vector {
    let mut vector = Vector::new();
    for &(shard, count) in counts {
        vector.raise(Shard(shard), Version(count));
    }
    vector
}

fn config(has_peers: bool) -> Config {
    Config {
        sharding: sharding(),
        has_peers,
        mob_bytes_limit: 1 << 20,
        cache_bytes_limit: 1 << 20,
        recent_limit: 1000,
        invalidation_delay: Duration::ZERO,
        leased_spaces: Vec::new(),
        lease: Duration::from_secs(2),
        grace: Duration::from_secs(60),
        references: |_, _| {},
        limits: Limits::SHIPPED,
        broken: TAKEN_OUT.get(),
    }
}

/// A master, and the words for what it has said since.
struct Peer {
    master: Master,
}

impl Peer {
    /// A reader holds both pages, so that it is told of each change.
    fn new(has_peers: bool) -> Self {
        let config = config(has_peers);
        let mut master = Master::new(config, Opened { next_pages: vec![(0, 2)], ..Opened::default() });
        master.start(NOW, EarlierLeases::default());
        master.connected(READER, ClientId(99), Kind::Client);
        let none = Resume { horizon: Vector::new(), pages: vec![], grants: vec![], last: true, missed: 0 };
        master.resumed(NOW, READER, &none).unwrap();
        if has_peers {
            for (shard, opening) in openings() {
                master.open(shard, opening, Version::ZERO, Position(0), Vec::new());
            }
        }
        let mut peer = Self { master };
        for shard in [0, 1] {
            let fetch = messages::Fetch { pages: vec![page(shard)], at_least: Vector::new(), number: 1, follow: None };
            peer.master.fetch(READER, fetch).unwrap();
        }
        peer.says();
        peer
    }

    /// Votes, applied transactions and notices to the reader.
    fn says(&mut self) -> Vec<String> {
        let log = LogState { is_tight: false, is_short: false, is_ahead: false };
        self.master.follow_up(NOW, log);
        self.master.flush(READER, directory::Urgency::Worthwhile);
        let word = |output| match output {
            Output::Vote(_, vote) => Some(match vote.verdict {
                Verdict::Prepared => format!("{} prepared above {}", vote.txn.client.0, vote.highest),
                Verdict::Refused(refusal) => format!("{} {}", vote.txn.client.0, refusal.name()),
                Verdict::Busy => format!("{} busy", vote.txn.client.0),
                Verdict::Moving => format!("{} moving", vote.txn.client.0),
                Verdict::Withdrawn => format!("{} withdrawn", vote.txn.client.0),
            }),
            Output::Applied(_, txn, moved) => {
                let versions: Vec<_> = moved.iter().map(|moved| moved.version.0).collect();
                Some(format!("{} applied at {versions:?}", txn.client.0))
            }
            Output::Send(READER, ToClient::Invalidations(batch)) => {
                let items: Vec<_> = batch.items.iter().map(|item| item.txn.client.0).collect();
                Some(format!("told of {items:?} through {}", batch.through))
            }
            _ => None,
        };
        let said: Vec<_> = std::iter::from_fn(|| self.master.poll_output()).collect();
        said.into_iter().filter_map(word).collect()
    }

    /// Has a transaction judged that reads slots of these shards' pages, and writes to some.
    fn prepare(&mut self, number: u64, reads: &[(u16, u16)], writes: &[(u16, u16)], among: Among) -> Vec<String> {
        let evidence = |page| self.master.applied().of(sharding().of(page));
        let mut request = CommitRequest {
            txn: txn(number),
            incarnation: Incarnation(1),
            answered: 1,
            reads: Vec::new(),
            writes: Vec::new(),
        };
        for &(shard, slot) in reads {
            let (page, slots) = (page(shard), SlotSet::from_iter([slot]));
            request.reads.push(PageReads { page, slots, evidence: evidence(page), exceptions: Vec::new() });
        }
        for &(shard, slot) in writes {
            let value = Some(Bytes::from_static(b"x"));
            request.writes.push(Delta { page: page(shard), changes: vec![SlotChange { slot, value }] });
        }
        request.reads.sort_unstable_by_key(|reads| reads.page);
        request.writes.sort_unstable_by_key(|delta| delta.page);
        let openings = openings();
        let from = Origin { coordinator: COORDINATOR, session: None };
        self.master.prepare(NOW, from, Prepare { request: Arc::new(request), among, openings });
        self.says()
    }

    fn decide(&mut self, number: u64, counts: &[(u16, u64)]) -> Vec<String> {
        let decide = Decide { txn: txn(number), counts: vector(counts) };
        self.master.decide(NOW, COORDINATOR, decide, [].into_iter().collect()).unwrap();
        self.says()
    }

    fn release(&mut self, number: u64) -> Vec<String> {
        self.master.release(NOW, Release { txn: txn(number) });
        self.says()
    }
}

const AT_ONCE: Among = Among::AtOnce { writes: true };
const IN_TURN: Among = Among::InTurn { writes: true, is_held: false };
const HELD: Among = Among::InTurn { writes: true, is_held: true };
const READ_ONLY: Among = Among::AtOnce { writes: false };

#[test]
fn decisions_are_applied_in_the_order_of_their_counts() {
    let mut peer = Peer::new(true);
    for number in [1, 2, 3] {
        let slot = number as u16;
        assert_eq!(peer.prepare(number, &[], &[(0, slot)], Among::Alone), [format!("{number} prepared above v0")]);
    }
    assert!(peer.decide(3, &[(0, 3)]).is_empty(), "1 and 2 may come before it");
    assert_eq!(peer.prepare(4, &[], &[(0, 4)], Among::Alone), ["4 prepared above v3"]);
    assert_eq!(peer.decide(1, &[(0, 1)]), ["1 applied at [1]", "told of [1] through v1"]);
    let rest = ["2 applied at [2]", "3 applied at [3]", "told of [2, 3] through v3"];
    assert_eq!(peer.decide(2, &[(0, 2)]), rest);
}

/// 2 was given a count, and its coordinator has lost it. No other transaction can have it.
#[test]
fn a_gap_is_void_once_what_was_prepared_behind_it_is_decided() {
    let mut peer = Peer::new(true);
    for number in [1, 2, 3] {
        peer.prepare(number, &[], &[(0, number as u16)], Among::Alone);
    }
    assert!(peer.decide(3, &[(0, 3)]).is_empty());
    // One that is prepared later has a count above 3: it is not waited for.
    peer.prepare(4, &[], &[(0, 4)], Among::Alone);
    assert_eq!(peer.decide(1, &[(0, 1)]), ["1 applied at [1]", "told of [1] through v1"]);
    assert_eq!(peer.release(2), ["3 applied at [3]", "told of [3] through v3"]);
    assert_eq!(peer.decide(4, &[(0, 4)]), ["4 applied at [4]", "told of [4] through v4"]);
}

/// Counts of a new sequencer are far above those before.
#[test]
fn the_counts_of_a_later_epoch_follow() {
    let mut peer = Peer::new(true);
    peer.prepare(1, &[], &[(0, 1)], Among::Alone);
    let first = types::Epoch(2).first().0;
    let applied = [format!("1 applied at [{first}]"), format!("told of [1] through v{first}")];
    assert_eq!(peer.decide(1, &[(0, first)]), applied);
}

/// A transaction on two shards is applied when it is the first in both.
#[test]
fn a_transaction_waits_for_the_gap_of_each_of_its_shards() {
    let mut peer = Peer::new(true);
    peer.prepare(1, &[], &[(0, 1)], Among::Alone);
    peer.prepare(2, &[], &[(0, 2), (1, 2)], Among::Alone);
    peer.prepare(3, &[], &[(1, 3)], Among::Alone);
    assert!(peer.decide(3, &[(1, 2)]).is_empty(), "2 may come before it");
    assert!(peer.decide(2, &[(0, 2), (1, 1)]).is_empty(), "1 may come before it");
    let told = "told of [1, 2, 2, 3] through {0: v2, 1: v2}";
    assert_eq!(peer.decide(1, &[(0, 1)]), ["1 applied at [1]", "2 applied at [1, 2]", "3 applied at [2]", told]);
}

#[test]
fn what_a_prepared_transaction_has_read_is_not_written() {
    let mut peer = Peer::new(true);
    assert_eq!(peer.prepare(1, &[(0, 1)], &[], AT_ONCE), ["1 prepared above v0"]);
    assert_eq!(peer.prepare(2, &[], &[(0, 1)], AT_ONCE), ["2 busy"]);
    assert_eq!(peer.prepare(3, &[(0, 1)], &[(1, 1)], AT_ONCE), ["3 prepared above v0"], "readers do not meet");
    assert!(peer.prepare(4, &[], &[(0, 1)], IN_TURN).is_empty(), "it waits");
    assert!(peer.release(1).is_empty());
    assert_eq!(peer.release(3), ["4 prepared above v0"]);
    // With one node the order of the log is the order of the counts, and nothing is locked.
    let mut alone = Peer::new(false);
    alone.prepare(1, &[(0, 1)], &[(1, 1)], Among::Alone);
    assert_eq!(alone.prepare(2, &[], &[(0, 1)], Among::Alone), ["2 prepared above v0"]);
}

/// The prepared transaction may be acknowledged before it is applied here.
#[test]
fn a_read_only_transaction_waits_for_prepared_writes() {
    let mut peer = Peer::new(true);
    peer.prepare(1, &[], &[(0, 1)], Among::Alone);
    assert!(peer.prepare(2, &[(0, 1)], &[], READ_ONLY).is_empty(), "it waits, for it has prepared nothing anywhere");
    assert_eq!(peer.prepare(3, &[(0, 2)], &[], READ_ONLY), ["3 prepared above v0"]);
    let stale = ["1 applied at [1]", "2 stale", "told of [1] through v1"];
    assert_eq!(peer.decide(1, &[(0, 1)]), stale);
    // It left nothing that a writer would meet.
    assert_eq!(peer.prepare(4, &[], &[(0, 2)], AT_ONCE), ["4 prepared above v1"]);
    // With one node a commit is applied before it is acknowledged, and a reader is serial before it.
    let mut alone = Peer::new(false);
    alone.prepare(1, &[], &[(0, 1)], Among::Alone);
    assert_eq!(alone.prepare(2, &[(0, 1)], &[], Among::Alone), ["2 prepared above v0"]);
}

/// A coordinator that asks in the order of shards may come twice for one transaction.
#[test]
fn the_parts_of_a_transaction_are_one() {
    let mut peer = Peer::new(true);
    assert_eq!(peer.prepare(1, &[(0, 1)], &[(0, 1)], IN_TURN), ["1 prepared above v0"]);
    assert_eq!(peer.prepare(1, &[(1, 1)], &[(1, 1)], HELD), ["1 prepared above v0"]);
    assert_eq!(peer.prepare(2, &[(1, 1)], &[(1, 1)], AT_ONCE), ["2 busy"]);
    assert_eq!(peer.decide(1, &[(0, 1), (1, 1)]).len(), 2);
    assert_eq!(peer.prepare(2, &[(1, 1)], &[(1, 1)], AT_ONCE), ["2 prepared above {1: v1}"]);
    assert_eq!(peer.release(2), Vec::<String>::new());
    assert_eq!(peer.prepare(3, &[(0, 1), (1, 1)], &[(0, 1), (1, 1)], AT_ONCE).len(), 1);
}

/// Counts of shards that it has not written to here are other masters' to apply.
#[test]
fn only_the_counts_of_what_it_has_written_are_applied() {
    let mut peer = Peer::new(true);
    peer.prepare(1, &[(1, 1)], &[(0, 1)], AT_ONCE);
    assert_eq!(peer.decide(1, &[(0, 1), (1, 7), (9, 3)]), ["1 applied at [1]", "told of [1] through v1"]);
    assert_eq!(*peer.master.applied(), vector(&[(0, 1)]));
}

/// 2 waits for what 1 has prepared. If 1 waited behind it with its next part, both would wait for ever.
#[test]
fn a_transaction_that_is_held_goes_before_those_in_line() {
    let mut peer = Peer::new(true);
    assert_eq!(peer.prepare(1, &[(0, 1)], &[(0, 1)], IN_TURN), ["1 prepared above v0"]);
    assert!(peer.prepare(2, &[(0, 1), (1, 1)], &[], READ_ONLY).is_empty());
    assert!(peer.prepare(3, &[(1, 1)], &[(1, 1)], Among::Alone).is_empty(), "it waits behind 2");
    assert_eq!(peer.prepare(1, &[(1, 1)], &[(1, 1)], HELD), ["1 prepared above v0"]);
    let said = peer.decide(1, &[(0, 1), (1, 1)]);
    assert_eq!(said[0], "1 applied at [1, 1]");
    assert_eq!(said[1..3], ["2 stale", "3 stale"]);
}

/// 2 is decided behind a gap, which 1 may have to fill. If 1 waited for what 2 has written, both would wait for ever.
#[test]
fn nobody_waits_for_a_decision_that_waits() {
    let mut peer = Peer::new(true);
    peer.prepare(1, &[(0, 1)], &[(0, 1)], IN_TURN);
    peer.prepare(2, &[(0, 2), (1, 2)], &[(0, 2), (1, 2)], AT_ONCE);
    assert!(peer.prepare(3, &[(1, 2)], &[], READ_ONLY).is_empty(), "2 is not decided");
    assert_eq!(peer.decide(2, &[(0, 2), (1, 1)]), ["3 stale"], "1 may come before 2");
    assert_eq!(peer.prepare(1, &[(1, 2)], &[(1, 2)], HELD), ["1 stale"]);
    // The master names it on a new link, as it is not applied.
    assert_eq!(peer.master.unapplied_of(COORDINATOR), [txn(1), txn(2)]);
    // Its reads are free: a later commit is behind it.
    assert_eq!(peer.prepare(4, &[(0, 3)], &[(0, 3)], AT_ONCE), ["4 prepared above v2"]);
    assert_eq!(peer.release(1), ["2 applied at [1, 2]", "told of [2, 2] through {0: v2, 1: v1}"]);
}

#[test]
fn a_decision_is_taken_once_and_above_all_others() {
    let mut peer = Peer::new(true);
    peer.prepare(1, &[], &[(0, 1)], Among::Alone);
    peer.prepare(2, &[], &[(0, 2)], Among::Alone);
    assert_eq!(peer.decide(1, &[(0, 1)]).len(), 2);
    assert_eq!(peer.decide(1, &[(0, 1)]), ["1 applied at []"], "told again");
    assert_eq!(peer.decide(7, &[(0, 9)]), ["7 applied at []"], "of an earlier opening");
    for forged in [vector(&[]), vector(&[(0, 1)]), vector(&[(1, 1)])] {
        let decide = Decide { txn: txn(2), counts: forged };
        assert!(peer.master.decide(NOW, COORDINATOR, decide, [].into_iter().collect()).is_err());
    }
    assert_eq!(peer.decide(2, &[(0, 2)]).len(), 2, "it is still prepared");
}

/// The page home has the page at version 4. The logs hold 3, which is written back, 5 and 6.
#[test]
fn a_shard_opens_with_what_its_home_lacks_in_the_order_of_the_counts() {
    let home = vec![HomePage { page: page(0), version: Version(4), bytes: 100 }];
    let opened = Opened { pages: home, next_pages: vec![(0, 2)], ..Opened::default() };
    let mut master = Master::new(config(true), opened);
    master.start(NOW, EarlierLeases::default());
    assert!(!master.serves(Shard(0)));
    let commit = |count: u64, slot: u16, value: &'static str| RecalledCommit {
        shard: Shard(0),
        count: Version(count),
        deltas: vec![Delta { page: page(0), changes: vec![SlotChange { slot, value: Some(value.into()) }] }],
    };
    let found = vec![commit(6, 1, "six"), commit(3, 2, "three"), commit(5, 1, "five"), commit(5, 3, "too")];
    master.open(Shard(0), Opening(1), Version(2), Position(1), found);
    let changes = [(1, "six"), (3, "too")].map(|(slot, value)| SlotChange { slot, value: Some(value.into()) });
    assert_eq!(master.changes(page(0)), changes);
    assert_eq!((master.applied(), master.home_through()), (&vector(&[(0, 6)]), vector(&[(0, 4)])));
    assert!(master.serves(Shard(0)) && !master.serves(Shard(1)));
}

/// The transactions of a lost coordinator go, but for the prepared ones.
#[test]
fn a_lost_coordinator_leaves_what_is_prepared() {
    let mut peer = Peer::new(true);
    peer.prepare(1, &[], &[(0, 1)], AT_ONCE);
    assert!(peer.prepare(2, &[(0, 1)], &[(0, 1)], IN_TURN).is_empty(), "it waits");
    peer.master.lost_coordinator(NOW, COORDINATOR);
    assert_eq!(peer.master.unapplied_of(COORDINATOR), [txn(1)]);
    assert!(peer.master.unapplied_of(NodeId(7)).is_empty());
    assert_eq!(peer.release(1), [""; 0], "nobody waits any more");
}

const NOTICED_BY: [(Rule, fn()); 8] = [
    (Rule::AcknowledgeAgain, a_decision_is_taken_once_and_above_all_others),
    (Rule::CompareWithHome, a_shard_opens_with_what_its_home_lacks_in_the_order_of_the_counts),
    (Rule::WaitUndecided, nobody_waits_for_a_decision_that_waits),
    (Rule::HeldPasses, a_transaction_that_is_held_goes_before_those_in_line),
    (Rule::ApplyInOrder, decisions_are_applied_in_the_order_of_their_counts),
    (Rule::VoidBehindPrepared, a_gap_is_void_once_what_was_prepared_behind_it_is_decided),
    (Rule::PrepareReads, what_a_prepared_transaction_has_read_is_not_written),
    (Rule::ReadersMeetPrepared, a_read_only_transaction_waits_for_prepared_writes),
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
