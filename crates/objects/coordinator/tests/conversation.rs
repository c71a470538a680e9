//! Conversations with a coordinator whose master and sequencer are far away: their answers come late, or cross what the
//! coordinator has said since. In a node they answer at once, so the tests of `store` have none of this.

mod common;

use bytes::Bytes;
use common::commit;
use coordinator::{Asker, CommitRecord, Config, Coordinator, Hears, Output};
use messages::{Advance, CommitReply, CommitRequest, Decide, Outcome, PageReads, Placed, Release, Sequence, Vote};
use types::{
    Broken, ClientId, Delta, Incarnation, Limits, NodeId, PageId, Refusal, SessionId, Shard, Sharding, SlotChange,
    SlotSet, TxnId, Vector, Version,
};

const NODE: NodeId = NodeId(0);
const PAGE: PageId = PageId::new(0, 0);
const TXN: TxnId = TxnId { client: ClientId(1), number: 1 };
const OLD: SessionId = SessionId(1);
const NEW: SessionId = SessionId(2);

fn coordinator(unlogged_bytes_max: usize) -> Coordinator {
    let (incarnation, limits) = (Incarnation(1), Limits::SHIPPED);
    let config =
        Config { node: NODE, incarnation, sharding: Sharding::ONE, unlogged_bytes_max, limits, broken: Broken::NONE };
    let mut coordinator = Coordinator::new(config, Vec::new(), Vector::new());
    coordinator.connected(OLD);
    coordinator
}

fn request(number: u64, bytes: usize) -> CommitRequest {
    let slots = SlotSet::from_iter([0]);
    let value = Some(Bytes::from(vec![7; bytes]));
    CommitRequest {
        txn: TxnId { number, ..TXN },
        incarnation: Incarnation(1),
        answered: 1,
        reads: vec![PageReads { page: PAGE, slots, evidence: Version::ZERO, exceptions: Vec::new() }],
        writes: vec![Delta { page: PAGE, changes: vec![SlotChange { slot: 0, value }] }],
    }
}

fn wants(coordinator: &mut Coordinator) -> Vec<String> {
    common::wants(coordinator, word)
}

fn word(output: Output) -> String {
    match output {
        Output::GiveBack(txn) => format!("give back {}", txn.number),
        Output::Prepare(_, from, prepare) => format!("prepare {} for {}", prepare.request.txn.number, from.0),
        Output::Withdraw(_, txn) => format!("withdraw {}", txn.number),
        Output::Release(_, Release { txn }) => format!("release {}", txn.number),
        Output::Sequence(Sequence { txn, shards }) => format!("sequence {} in {shards:?}", txn.number),
        Output::Log(CommitRecord { txn, counts, .. }) => format!("log {} at {counts}", txn.number),
        Output::Decide(_, Decide { txn, counts }, replied) => {
            format!(
                "decide {} at {counts}, replied {:?}",
                txn.number,
                replied.iter().map(|it| it.0).collect::<Vec<_>>()
            )
        }
        Output::Reply(to, CommitReply { txn, outcome }, hears) => match (outcome, hears) {
            (Outcome::Committed { .. }, hears) => format!("{} committed, to {} behind {hears:?}", txn.number, to.0),
            (Outcome::Refused(refusal), _) => format!("{} {}, to {}", txn.number, refusal.name(), to.0),
            (Outcome::Unknown, _) => format!("{} unknown, to {}", txn.number, to.0),
        },
        Output::Keep(txn) => format!("keep {}", txn.client.0),
    }
}

fn placed() -> Placed {
    Placed { txn: TXN, counts: Vector::only(Version(5)) }
}

fn advance() -> Advance {
    Advance { page: PAGE, prev: Version::ZERO, version: Version(5) }
}

#[test]
fn a_commit_goes_through_its_phases() {
    let mut coordinator = coordinator(1000);
    commit(&mut coordinator, OLD, request(1, 10));
    assert_eq!(wants(&mut coordinator), ["prepare 1 for 1"]);
    coordinator.voted(NODE, Vote::prepared(TXN, Vector::new()));
    assert_eq!(wants(&mut coordinator), [format!("sequence 1 in {:?}", [Shard::ONLY])]);
    coordinator.placed(&placed());
    assert_eq!(wants(&mut coordinator), ["log 1 at v5"]);
    coordinator.durable(TXN);
    assert_eq!(wants(&mut coordinator), ["decide 1 at v5, replied [1]"]);
    coordinator.applied(NODE, TXN, vec![advance()]);
    assert_eq!(wants(&mut coordinator), ["1 committed, to 1 behind Earlier", "keep 1"]);
    // A copy has the same outcome, and so has a question.
    commit(&mut coordinator, OLD, request(1, 10));
    coordinator.ask_outcome(Asker { session: OLD, knows_writes: false }, TXN);
    let again = "1 committed, to 1 behind Worthwhile";
    assert_eq!(wants(&mut coordinator), [again, again]);
    assert_eq!(coordinator.outstanding(OLD), 0);
}

/// Answers that come twice, or for a phase that is over, change nothing.
#[test]
fn an_answer_counts_once() {
    let mut coordinator = coordinator(1000);
    commit(&mut coordinator, OLD, request(1, 10));
    coordinator.durable(TXN);
    coordinator.placed(&placed());
    wants(&mut coordinator);
    coordinator.voted(NODE, Vote::prepared(TXN, Vector::new()));
    wants(&mut coordinator);
    for late in [Vote::prepared(TXN, Vector::new()), Vote::refused(TXN, Refusal::Busy), Vote::withdrawn(TXN)] {
        coordinator.voted(NODE, late);
    }
    coordinator.durable(TXN);
    assert!(wants(&mut coordinator).is_empty());
    coordinator.placed(&placed());
    coordinator.placed(&Placed { txn: TXN, counts: Vector::only(Version(6)) });
    assert_eq!(wants(&mut coordinator), ["log 1 at v5"]);
}

/// Its client is gone before the master has prepared it. Nothing stays of it, and its memory is free.
#[test]
fn a_commit_that_nobody_waits_for_is_withdrawn() {
    let mut coordinator = coordinator(100);
    commit(&mut coordinator, OLD, request(1, 1000));
    wants(&mut coordinator);
    coordinator.disconnected(OLD);
    assert_eq!(wants(&mut coordinator), ["withdraw 1"]);
    coordinator.connected(NEW);
    commit(&mut coordinator, NEW, request(2, 1000));
    assert_eq!(wants(&mut coordinator), ["keep 1", "2 too_many, to 2"], "the master still has the first");
    coordinator.voted(NODE, Vote::withdrawn(TXN));
    commit(&mut coordinator, NEW, request(3, 1000));
    assert_eq!(wants(&mut coordinator), ["prepare 3 for 2"]);
}

/// The client is back with the same request before the master has answered.
#[test]
fn a_withdrawn_commit_that_is_sent_again_is_prepared_again() {
    let mut coordinator = coordinator(1000);
    commit(&mut coordinator, OLD, request(1, 10));
    coordinator.disconnected(OLD);
    coordinator.connected(NEW);
    commit(&mut coordinator, NEW, request(1, 10));
    assert_eq!(wants(&mut coordinator), ["prepare 1 for 1", "withdraw 1"]);
    coordinator.voted(NODE, Vote::withdrawn(TXN));
    assert_eq!(wants(&mut coordinator), ["prepare 1 for 2"]);
}

/// The master had prepared it when it was withdrawn: it commits, whether its client is back or not.
#[test]
fn a_commit_that_is_prepared_goes_on() {
    for is_back in [true, false] {
        let mut coordinator = coordinator(1000);
        commit(&mut coordinator, OLD, request(1, 10));
        coordinator.disconnected(OLD);
        wants(&mut coordinator);
        coordinator.connected(NEW);
        if is_back {
            commit(&mut coordinator, NEW, request(1, 10));
        }
        coordinator.voted(NODE, Vote::prepared(TXN, Vector::new()));
        coordinator.placed(&placed());
        coordinator.durable(TXN);
        wants(&mut coordinator);
        coordinator.applied(NODE, TXN, vec![advance()]);
        let reply = is_back.then_some("1 committed, to 2 behind Earlier");
        assert_eq!(wants(&mut coordinator), reply.into_iter().chain(["keep 1"]).collect::<Vec<_>>());
        // It asks when it is back.
        coordinator.ask_outcome(Asker { session: NEW, knows_writes: true }, TXN);
        assert_eq!(wants(&mut coordinator), ["1 committed, to 2 behind Worthwhile"]);
    }
}

/// A redirector that has only asked is no reader of the reply in place of the invalidation.
#[test]
fn who_does_not_know_the_writes_hears_of_them_first() {
    let mut coordinator = coordinator(1000);
    coordinator.connected(NEW);
    commit(&mut coordinator, OLD, request(1, 10));
    coordinator.ask_outcome(Asker { session: NEW, knows_writes: false }, TXN);
    coordinator.voted(NODE, Vote::prepared(TXN, Vector::new()));
    coordinator.placed(&placed());
    coordinator.durable(TXN);
    let decide = wants(&mut coordinator).pop();
    assert_eq!(decide.as_deref(), Some("decide 1 at v5, replied [1]"));
    coordinator.applied(NODE, TXN, vec![advance()]);
    let all = format!("1 committed, to 2 behind {:?}", Hears::All);
    assert_eq!(wants(&mut coordinator), ["1 committed, to 1 behind Earlier".to_owned(), "keep 1".to_owned(), all]);
}

/// A refusal that other copies might not get is kept for them; one of a read-only transaction is not.
#[test]
fn a_refusal_stands_for_every_copy() {
    let mut coordinator = coordinator(1000);
    commit(&mut coordinator, OLD, request(1, 10));
    wants(&mut coordinator);
    coordinator.voted(NODE, Vote::refused(TXN, Refusal::Busy));
    assert_eq!(wants(&mut coordinator), ["keep 1", "1 busy, to 1"]);
    commit(&mut coordinator, OLD, request(1, 10));
    assert_eq!(wants(&mut coordinator), ["1 busy, to 1"]);
    let read_only = CommitRequest { writes: Vec::new(), ..request(2, 0) };
    for _ in 0..2 {
        commit(&mut coordinator, OLD, read_only.clone());
        assert_eq!(wants(&mut coordinator), ["prepare 2 for 1"]);
        coordinator.voted(NODE, Vote::refused(read_only.txn, Refusal::Stale(Vec::new())));
        assert_eq!(wants(&mut coordinator), ["2 stale, to 1"]);
    }
    coordinator.close();
    commit(&mut coordinator, OLD, request(3, 10));
    assert_eq!(wants(&mut coordinator), ["keep 1", "3 closing, to 1"]);
}
