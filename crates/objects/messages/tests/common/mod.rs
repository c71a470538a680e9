//! The helpers of the tests in this folder: messages of every kind, and both ways through the bytes.
#![allow(dead_code, unreachable_pub, reason = "each test uses some of it")]

use bytes::Bytes;
use framing::{Answer, Batch, Codec, Header, Inbox, NODE, OPERATOR, Outbox, PIECE};
use machine::{Cell, Goodbye, Parcel, Status, Table};
use messages::*;
use std::num::{NonZeroU16, NonZeroU32};
use types::limits::PIECE_BYTES_MAX;
use types::*;

/// The number of the message of this name.
pub fn number(name: &str) -> u8 {
    let is_it = |number: &u8| {
        [SERVER, CLIENT, PEER, OPERATOR].iter().any(|end| end.known(*number).is_some_and(|it| it.name == name))
    };
    (0..=u8::MAX).find(is_it).expect("the family has such a message")
}

/// The message's frame.
pub fn encode(message: &Parcel) -> Vec<u8> {
    let mut out = Outbox::new(speaker_of(message));
    out.push(message).unwrap();
    drain(&mut out)
}

/// One piece of the message with this number.
pub fn piece(number: u64, part: &[u8]) -> Vec<u8> {
    let header = Header { kind: PIECE, meta_bytes: 8, body_bytes: part.len() as u32 };
    [&header.to_bytes()[..], &number.to_le_bytes(), part].concat()
}

/// A frame in pieces of the largest size.
pub fn in_pieces(number: u64, frame: &[u8]) -> Vec<u8> {
    frame.chunks(PIECE_BYTES_MAX).flat_map(|part| piece(number, part)).collect()
}

/// Everything that is on its way, as it leaves.
pub fn drain(out: &mut Outbox) -> Vec<u8> {
    let (mut bytes, expected) = (Vec::new(), out.bytes());
    while !out.is_empty() {
        let mut batch = Batch::default();
        out.next(&mut batch);
        assert!(batch.chunks().all(|chunk| !chunk.is_empty()));
        bytes.extend(batch.chunks().flatten());
    }
    assert_eq!(bytes.len(), expected);
    bytes
}

pub fn to_server(message: impl Into<ToServer>) -> Parcel {
    Parcel::new(message.into())
}

pub fn to_client(message: impl Into<ToClient>) -> Parcel {
    Parcel::new(message.into())
}

pub fn to_peer(message: impl Into<ToPeer>) -> Parcel {
    Parcel::new(message.into())
}

/// The end that hears it.
pub fn reader_of(message: &Parcel) -> &'static dyn Codec {
    match (message.get::<ToServer>(), message.get::<ToClient>(), message.get::<Answer>()) {
        (Some(_), ..) => SERVER,
        (_, Some(_), _) => CLIENT,
        (.., Some(_)) => OPERATOR,
        (None, None, None) => PEER,
    }
}

/// The end that says it.
pub fn speaker_of(message: &Parcel) -> &'static dyn Codec {
    match (message.get::<ToServer>(), message.get::<ToClient>()) {
        (Some(_), _) => CLIENT,
        (_, Some(_)) => SERVER,
        (None, None) if message.get::<Answer>().is_some() => NODE,
        (None, None) => PEER,
    }
}

/// The end that hears messages of this kind; any of them if several do.
pub fn end_that_hears(kind: u8) -> &'static dyn Codec {
    let hears = |end: &&dyn Codec| end.known(kind).is_some_and(|known| known.limits.is_some());
    [SERVER, CLIENT, PEER, OPERATOR].into_iter().find(hears).expect("somebody hears it")
}

pub fn page(number: u32) -> PageId {
    PageId::new(2, number)
}

pub fn txn() -> TxnId {
    TxnId { client: ClientId(0xC11E), number: 9 }
}

pub fn change(slot: SlotNo, value: &'static [u8]) -> SlotChange {
    SlotChange { slot, value: Some(Bytes::from_static(value)) }
}

pub fn deleted(slot: SlotNo) -> SlotChange {
    SlotChange { slot, value: None }
}

pub fn reply(outcome: Outcome) -> Parcel {
    to_client(CommitReply { txn: txn(), outcome })
}

pub fn commit() -> Parcel {
    to_server(CommitRequest {
        txn: txn(),
        incarnation: Incarnation(5),
        answered: 8,
        reads: vec![
            PageReads {
                page: page(1),
                slots: [0, 65].into_iter().collect(),
                evidence: Version(7),
                exceptions: vec![(65, Version(9))],
            },
            PageReads { page: page(4), slots: [2].into_iter().collect(), evidence: Version(7), exceptions: vec![] },
        ],
        writes: vec![
            Delta { page: page(1), changes: vec![change(0, b"abc"), deleted(65)] },
            Delta { page: page(4), changes: vec![change(2, b"")] },
        ],
    })
}

pub fn invalidation(number: u32, data: Option<Vec<SlotChange>>) -> Invalidation {
    let slots = [1].into_iter().collect();
    Invalidation { page: page(number), prev: Version(3), version: Version(5), slots, txn: txn(), data }
}

pub fn invalidations() -> Parcel {
    let items = vec![invalidation(1, None), invalidation(2, Some(vec![change(1, b"xy")]))];
    to_client(Invalidations { through: Version(6).into(), items })
}

pub fn key() -> PeerKey {
    PeerKey::new(std::array::from_fn(|at| 0xA0 + at as u8))
}

pub fn welcome() -> Parcel {
    to_client(Welcome {
        features: GROUP,
        cluster: ClusterId(0xC1),
        node: NodeId(3),
        incarnation: Incarnation(2),
        lineage: Lineage::new(vec![(Life(0xA), Version(3).into()), (Life(0xB), Version(4).into())]),
        sharding: Sharding::new(NonZeroU16::new(5).unwrap(), NonZeroU32::new(64).unwrap()),
        through: Version(77).into(),
        limits: SessionLimits { fetches: 10, commits: 11, silence_ms: 1500 },
    })
}

pub fn help() -> Parcel {
    let (number, through, address) = (6, Version(77).into(), "10.0.0.7:4096".into());
    to_client(Help { requester: ClientId(5), number, through, address, key: key(), pages: vec![page(1), page(2)] })
}

pub fn revalidated() -> Parcel {
    let items = vec![invalidation(1, Some(vec![change(1, b"xy")]))];
    to_client(Revalidated { number: 4, items, dropped: vec![page(2)] })
}

pub fn members() -> Parcel {
    let member = |client, address: &str| Member { client: ClientId(client), address: address.into() };
    to_client(Members {
        group: "site".into(),
        epoch: 3,
        address: "c:9".into(),
        store: vec!["a:1".into(), "b:1".into()],
        members: vec![member(5, "c:9"), member(6, "")],
    })
}

pub fn status() -> Parcel {
    let store = Table {
        name: "store".into(),
        columns: vec!["applied".into(), "store".into()],
        rows: vec![vec![Cell::Count(77), Cell::Text("a:1".into())], vec![Cell::Nothing, Cell::Count(u64::MAX)]],
    };
    let empty = Table { name: "sessions".into(), columns: vec!["session".into()], rows: vec![] };
    Parcel::new(Answer::from(Status { tables: vec![store, empty] }))
}

/// One message of every kind that groups have.
fn of_groups() -> Vec<Parcel> {
    let image = Bytes::from_static(b"O\x01\0\0");
    let peer_page = Page { page: page(1), version: Version(3), number: 6, fresh: false, behind: Vec::new(), image };
    let (group, address) = ("site".to_owned(), "c:9".to_owned());
    vec![
        to_server(Reachable { address: "10.0.0.7:4096".into(), key: key(), eligible: String::new() }),
        help(),
        to_server(NoHelp { requester: ClientId(5), number: 6, pages: vec![page(1)] }),
        to_peer(PeerPage { requester: ClientId(5), through: Version(77).into(), page: peer_page }),
        to_server(Arrived { pages: vec![(page(1), 6), (page(2), 7)] }),
        to_peer(PeerHello { client: ClientId(5), key: key() }),
        to_server(Revalidate {
            number: 4,
            horizon: Version(77).into(),
            pages: vec![Held { page: page(1), version: Version(5) }],
        }),
        revalidated(),
        to_server(Departed { client: ClientId(5) }),
        to_server(Lead { group: group.clone(), epoch: 3, address: address.clone() }),
        to_server(FindLeader { group: group.clone() }),
        to_client(Leader { group, epoch: 3, address }),
        members(),
        to_client(Leased { nonce: 1, lease_ms: 2000, spaces: vec![2] }),
        to_client(Intent { txn: txn(), pages: vec![(page(1), [0, 64].into_iter().collect())] }),
        to_server(Promise { txn: txn() }),
    ]
}

/// One message of every kind, and of every outcome.
pub fn samples() -> Vec<Parcel> {
    let range = PageRange { first: page(16), count: 8 };
    let hello = Hello { features: GROUP, cluster: None, client: ClientId(5), epoch: 6 };
    let mut samples = vec![
        to_server(hello.clone()),
        to_server(Hello { cluster: Some(ClusterId(0xC1)), ..hello }),
        welcome(),
        to_client(Goodbye { reason: GoodbyeReason::Malformed, text: "größe".into() }),
        to_server(Resume {
            horizon: Version(77).into(),
            pages: vec![Held { page: page(1), version: Version(5) }],
            grants: vec![range],
            last: true,
            missed: 9,
        }),
        to_client(Resumed { through: Version(78).into(), dropped: vec![page(1), page(2)] }),
        to_server(Ping { nonce: 1 }),
        to_client(Pong { nonce: 1 }),
        to_server(Fetch {
            pages: vec![page(1), page(2)],
            at_least: Version(3).into(),
            number: 7,
            follow: Some(Follow { slot: 5, bytes: 0x3890 }),
        }),
        to_client(Page {
            page: page(1),
            version: Version(3),
            number: 7,
            fresh: true,
            behind: vec![page(2)],
            image: Bytes::from_static(b"O\x01\0\0"),
        }),
        to_client(LeftOut { page: page(1), number: 7, damage: None }),
        to_client(Placement {
            nodes: vec![NodeAt { node: NodeId(2), start: 4, address: "n2:7411".into() }],
            shards: vec![(NodeId(2), Opening(7))],
        }),
        to_client(Elsewhere { page: page(1), number: 7 }),
        to_server(Released { pages: vec![page(1)] }),
        commit(),
        to_server(AskOutcome { txn: txn() }),
        reply(Outcome::Committed { pages: vec![Advance { page: page(1), prev: Version(3), version: Version(5) }] }),
        reply(Outcome::Unknown),
        reply(Outcome::Refused(Refusal::Stale(vec![(page(1), [0, 64].into_iter().collect())]))),
        reply(Outcome::Refused(Refusal::Busy)),
        reply(Outcome::Refused(Refusal::StoreFull)),
        reply(Outcome::Refused(Refusal::PageFull(page(1)))),
        reply(Outcome::Refused(Refusal::TooLarge)),
        reply(Outcome::Refused(Refusal::NoSuchPage(page(1)))),
        reply(Outcome::Refused(Refusal::TooMany)),
        reply(Outcome::Refused(Refusal::Closing)),
        reply(Outcome::Refused(Refusal::Lapsed(Incarnation(5)))),
        invalidations(),
        to_server(Ack { through: Version(77).into() }),
        to_server(Grant { space: 2, count: 8 }),
        to_client(Granted { ranges: vec![range] }),
    ];
    samples.extend(of_groups());
    samples.push(status());
    samples
}

/// Feeds `bytes` in pieces of `piece` bytes and gives the messages that come of it.
pub fn decode(reader: &'static dyn Codec, bytes: &[u8], piece: usize) -> Result<Vec<Parcel>, framing::WireError> {
    let mut inbox = Inbox::within_session(reader);
    let mut messages = Vec::new();
    for mut piece in bytes.chunks(piece) {
        while let Some(message) = inbox.next(&mut piece)? {
            messages.push(message);
        }
    }
    Ok(messages)
}
