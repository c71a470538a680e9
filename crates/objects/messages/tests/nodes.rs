//! The messages between nodes: through the bytes and back, and damaged.

use bytes::Bytes;
use framing::{Batch, HEADER_BYTES, Inbox, Outbox, WireError};
use machine::{Goodbye, Parcel};
use messages::nodes::CODEC;
use messages::*;
use proptest::prelude::*;
use types::*;

const TXN: TxnId = TxnId { client: ClientId(0xC11E), number: 9 };

fn page(number: u32) -> PageId {
    PageId::new(2, number)
}

fn vector(counts: &[(u16, u64)]) -> Vector {
    counts.iter().map(|&(shard, count)| (Shard(shard), Version(count))).collect()
}

fn openings() -> Openings {
    [(Shard(1), Opening(7)), (Shard(4), Opening(2))].into_iter().collect()
}

fn deltas() -> Vec<Delta> {
    let value = |bytes| Some(Bytes::from_static(bytes));
    let changes = vec![SlotChange { slot: 0, value: value(b"one") }, SlotChange { slot: 3, value: None }];
    vec![Delta { page: page(1), changes }]
}

fn request() -> CommitRequest {
    let reads = PageReads {
        page: page(1),
        slots: [0, 3].into_iter().collect(),
        evidence: Version(6),
        exceptions: vec![(3, Version(7))],
    };
    CommitRequest { txn: TXN, incarnation: Incarnation(3), answered: 8, reads: vec![reads], writes: deltas() }
}

fn vote(verdict: Verdict) -> Vote {
    Vote { txn: TXN, verdict, highest: vector(&[(1, 5), (4, 6)]) }
}

/// One of each kind, and of each verdict and way of asking.
fn samples() -> Vec<ToNode> {
    let prepare = |among| Prepare { request: request().into(), among, openings: openings() };
    let commit = RecalledCommit { shard: Shard(4), count: Version(6), deltas: deltas() };
    let held = Held { page: page(1), version: Version(5) };
    vec![
        NodeHello { cluster: ClusterId(0xC1), node: NodeId(2), to: NodeId(1) }.into(),
        Goodbye { reason: GoodbyeReason::Done, text: "bye".into() }.into(),
        prepare(Among::Alone).into(),
        prepare(Among::AtOnce { writes: true }).into(),
        prepare(Among::AtOnce { writes: false }).into(),
        prepare(Among::InTurn { writes: true, is_held: true }).into(),
        prepare(Among::InTurn { writes: false, is_held: false }).into(),
        Withdraw { txn: TXN }.into(),
        Release { txn: TXN }.into(),
        Decide { txn: TXN, counts: vector(&[(1, 5), (4, 6)]) }.into(),
        vote(Verdict::Prepared).into(),
        vote(Verdict::Busy).into(),
        vote(Verdict::Moving).into(),
        vote(Verdict::Withdrawn).into(),
        vote(Verdict::Refused(Refusal::Stale(vec![(page(1), [0].into_iter().collect())]))).into(),
        vote(Verdict::Refused(Refusal::StoreFull)).into(),
        Applied { txn: TXN }.into(),
        Sequence { txn: TXN, shards: [Shard(1), Shard(4)].into_iter().collect() }.into(),
        Placed { txn: TXN, counts: vector(&[(1, 5)]) }.into(),
        Unapplied { is_last: true, txns: vec![TXN] }.into(),
        Recall { openings: openings() }.into(),
        Recalled { openings: openings(), commits: vec![commit], is_last: false }.into(),
        Home { through: vector(&[(1, 5)]) }.into(),
        ListPages { shard: Shard(4), above: Version(3) }.into(),
        PagesListed { shard: Shard(4), through: Version(6), is_last: true, pages: vec![held] }.into(),
        CopyPages { shard: Shard(4), pages: vec![page(1), page(2)] }.into(),
        CopiedPage { page: page(1), version: Version(5), image: Bytes::from_static(b"O\x01\0\0") }.into(),
        NotCopied { page: page(1), why: Some("it is torn".into()) }.into(),
        CloseShard { shard: Shard(4) }.into(),
        Serving { shard: Shard(4) }.into(),
        RecentChanges { shard: Shard(4), pruned: Version(3), changes: vec![((PageId::new(0, 1), 2), Version(4))] }
            .into(),
        ShardClosed { shard: Shard(4), opening: Opening(2), count: Version(6), next_pages: vec![(2, 9)] }.into(),
    ]
}

fn encode(message: &ToNode) -> Vec<u8> {
    let (mut out, mut bytes) = (Outbox::new(CODEC), Vec::new());
    out.push(&Parcel::new(message.clone())).unwrap();
    while !out.is_empty() {
        let mut batch = Batch::default();
        out.next(&mut batch);
        bytes.extend(batch.chunks().flatten());
    }
    bytes
}

fn decode(bytes: &[u8], piece: usize) -> Result<Vec<ToNode>, WireError> {
    let mut inbox = Inbox::within_session(CODEC);
    let mut heard = Vec::new();
    for mut part in bytes.chunks(piece) {
        while let Some(message) = inbox.next(&mut part)? {
            heard.push(message.expect());
        }
    }
    Ok(heard)
}

#[test]
fn every_kind_comes_through() {
    for message in samples() {
        for piece in [1, 7, 1000] {
            assert_eq!(decode(&encode(&message), piece), Ok(vec![message.clone()]));
        }
    }
}

proptest! {
    /// A damaged message is refused, or read as a different one. Nothing else happens.
    #[test]
    fn damage_is_refused_or_read_as_another_message(
        sample in 0..22usize,
        at in any::<prop::sample::Index>(),
        by in 1..=255u8,
    ) {
        let mut bytes = encode(&samples()[sample]);
        let at = HEADER_BYTES + at.index(bytes.len() - HEADER_BYTES);
        bytes[at] ^= by;
        if let Ok(heard) = decode(&bytes, 1000) {
            prop_assert!(heard.len() <= 1);
        }
    }
}
