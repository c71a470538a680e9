//! The lengths that a header may announce are those of the messages: the smallest message of each kind is let in, and
//! nothing shorter; the largest of each kind that has one is let in, and nothing longer.

mod common;

use bytes::Bytes;
use common::{encode, end_that_hears, key, page, reply, to_client, to_peer, to_server, txn};
use framing::{HEADER_BYTES, Header, Inbox, PIECE, WireError};
use machine::{Goodbye, Parcel, Status};
use messages::*;
use std::collections::HashSet;
use types::limits::*;
use types::*;

/// Of every kind of message the smallest.
fn smallest() -> Vec<Parcel> {
    let limits = SessionLimits { fetches: 0, commits: 0, silence_ms: 0 };
    let hello = Hello { features: 0, cluster: None, client: ClientId(5), epoch: 0 };
    let lead = Lead { group: String::new(), epoch: 0, address: String::new() };
    vec![
        to_server(hello),
        to_client(Welcome {
            features: 0,
            cluster: ClusterId(1),
            node: NodeId(1),
            incarnation: Incarnation(1),
            lineage: Lineage::new(vec![]),
            sharding: Sharding::ONE,
            through: Version(0).into(),
            limits,
        }),
        to_client(Goodbye { reason: GoodbyeReason::Malformed, text: String::new() }),
        to_server(Resume { horizon: Version(0).into(), pages: vec![], grants: vec![], last: true, missed: 0 }),
        to_client(Resumed { through: Version(0).into(), dropped: vec![] }),
        to_server(Ping { nonce: 0 }),
        to_client(Pong { nonce: 0 }),
        to_server(Fetch { pages: vec![], at_least: Version(0).into(), number: 0, follow: None }),
        to_client(empty_page(0)),
        to_client(LeftOut { page: page(1), number: 0, damage: None }),
        to_client(Placement { nodes: vec![], shards: vec![] }),
        to_client(Elsewhere { page: page(1), number: 0 }),
        to_client(Abandoned { txn: txn() }),
        to_server(Sync { number: 0 }),
        to_client(Synced { number: 0, shards: vec![] }),
        to_server(Released { pages: vec![] }),
        to_server(CommitRequest {
            txn: txn(),
            incarnation: Incarnation(1),
            answered: 0,
            reads: vec![],
            writes: vec![],
        }),
        to_server(AskOutcome { txn: txn() }),
        reply(Outcome::Unknown),
        to_client(Invalidations { through: Version(0).into(), items: vec![] }),
        to_server(Ack { through: Version(0).into() }),
        to_server(Grant { space: 0, count: 0 }),
        to_client(Granted { ranges: vec![] }),
        to_server(Reachable { address: String::new(), key: key(), eligible: String::new() }),
        to_client(help("", 0)),
        to_server(NoHelp { requester: ClientId(5), number: 0, pages: vec![] }),
        to_peer(PeerPage { requester: ClientId(5), through: Version(0).into(), page: empty_page(0) }),
        to_server(Arrived { pages: vec![] }),
        to_peer(PeerHello { client: ClientId(5), key: key() }),
        to_server(Revalidate { number: 0, horizon: Version(0).into(), pages: vec![] }),
        to_client(Revalidated { number: 0, items: vec![], dropped: vec![] }),
        to_server(Departed { client: ClientId(5) }),
        to_server(lead),
        to_server(FindLeader { group: String::new() }),
        to_client(Leader { group: String::new(), epoch: 0, address: String::new() }),
        to_client(members("", "", 0, 0)),
        to_client(Leased { nonce: 0, lease_ms: 0, spaces: vec![] }),
        to_client(Intent { txn: txn(), pages: vec![] }),
        to_server(Promise { txn: txn() }),
        Parcel::new(framing::Answer::from(Status { tables: vec![] })),
    ]
}

/// The largest message of each kind whose size the counts of what is in it bound. The others are bounded by what any
/// message may be.
fn largest() -> Vec<Parcel> {
    let pages: Vec<_> = (0..PAGES_PER_MESSAGE_MAX as u32).map(page).collect();
    let held: Vec<_> = pages.iter().map(|&page| Held { page, version: Version(1) }).collect();
    let ranges: Vec<_> = pages.iter().map(|&first| PageRange { first, count: 1 }).collect();
    let group = "g".repeat(GROUP_NAME_BYTES_MAX);
    let address = "a".repeat(ADDRESS_BYTES_MAX);
    let lives = (1..=LIVES_KEPT as u64).map(|at| (Life(at), all_shards())).collect();
    let limits = SessionLimits { fetches: 0, commits: 0, silence_ms: 0 };
    vec![
        to_client(Welcome {
            features: 0,
            cluster: ClusterId(1),
            node: NodeId(1),
            incarnation: Incarnation(1),
            lineage: Lineage::new(lives),
            sharding: Sharding::ONE,
            through: all_shards(),
            limits,
        }),
        to_client(Goodbye { reason: GoodbyeReason::Malformed, text: "x".repeat(GOODBYE_TEXT_BYTES_MAX) }),
        to_server(Resume { horizon: all_shards(), pages: held.clone(), grants: ranges.clone(), last: true, missed: 0 }),
        to_client(Resumed { through: all_shards(), dropped: (0..TXN_PAGES_MAX as u32).map(page).collect() }),
        to_server(Fetch { pages: pages.clone(), at_least: all_shards(), number: 0, follow: None }),
        to_client(empty_page(PAGES_BEHIND_MAX)),
        to_server(Released { pages: pages.clone() }),
        to_client(Granted { ranges }),
        to_server(Reachable { address: address.clone(), key: key(), eligible: address.clone() }),
        to_client(Help { through: all_shards(), ..help(&address, PAGES_PER_MESSAGE_MAX) }),
        to_server(Ack { through: all_shards() }),
        to_server(NoHelp { requester: ClientId(5), number: 0, pages: pages.clone() }),
        to_server(Arrived { pages: pages.iter().map(|&page| (page, 1)).collect() }),
        to_server(Revalidate { number: 0, horizon: all_shards(), pages: held }),
        to_server(Lead { group: group.clone(), epoch: 0, address: address.clone() }),
        to_server(FindLeader { group: group.clone() }),
        to_client(Leader { group: group.clone(), epoch: 0, address: address.clone() }),
        to_client(members(&group, &address, STORE_ADDRESSES_MAX, MEMBERS_MAX)),
        to_client(Leased { nonce: 0, lease_ms: 0, spaces: vec![1; LEASED_SPACES_MAX] }),
    ]
}

/// The largest vector.
fn all_shards() -> Vector {
    let mut vector = Vector::new();
    for shard in 0..SHARDS_MAX as u16 {
        vector.raise(Shard(shard), Version(1));
    }
    vector
}

fn empty_page(behind: usize) -> Page {
    let behind = (0..behind as u32).map(page).collect();
    Page { page: page(1), version: Version(0), number: 0, fresh: false, behind, image: Bytes::new() }
}

fn help(address: &str, pages: usize) -> Help {
    let pages = (0..pages as u32).map(page).collect();
    Help { requester: ClientId(5), number: 0, through: Version(0).into(), address: address.into(), key: key(), pages }
}

fn members(group: &str, address: &str, store: usize, members: usize) -> Members {
    let member = |client| Member { client: ClientId(client), address: address.into() };
    Members {
        group: group.into(),
        epoch: 0,
        address: address.into(),
        store: vec![address.into(); store],
        members: (0..members as u64).map(member).collect(),
    }
}

/// The header that the message's frame begins with; that of a large one stands inside of its first piece.
fn header_of(message: &Parcel) -> Header {
    let frame = encode(message);
    let parse = |frame: &[u8]| Header::parse(frame.first_chunk().expect("a frame begins with a header"));
    let header = parse(&frame).and_then(|header| match header.kind {
        PIECE => parse(&frame[header.frame_bytes() - header.body_bytes as usize..]),
        _ => Ok(header),
    });
    header.unwrap_or_else(|error| panic!("{error}"))
}

fn is_let_in(header: Header) -> bool {
    let end = if header.kind == PIECE { SERVER } else { end_that_hears(header.kind) };
    match Inbox::within_session(end).next(&mut &header.to_bytes()[..]) {
        // A large one belongs in pieces, which is seen after its lengths.
        Ok(_) | Err(WireError::Whole { .. }) => true,
        Err(WireError::Lengths { .. }) => false,
        Err(error) => panic!("{header:?}: {error}"),
    }
}

#[test]
fn nothing_shorter_than_the_smallest_message_is_let_in() {
    let mut kinds = HashSet::new();
    for message in smallest() {
        let header = header_of(&message);
        kinds.insert(header.kind);
        assert_eq!(encode(&message).len(), HEADER_BYTES + header.meta_bytes as usize, "{message:?} has a body");
        if let Some(meta_bytes) = header.meta_bytes.checked_sub(1) {
            assert!(!is_let_in(Header { meta_bytes, ..header }), "{message:?} of {meta_bytes} bytes");
        }
    }
    let missing: Vec<_> = (0..=u8::MAX).filter(|kind| SERVER.known(*kind).is_some() && !kinds.contains(kind)).collect();
    assert!(missing.is_empty(), "no smallest message of {missing:?}");
    assert!(is_let_in(Header { kind: PIECE, meta_bytes: 8, body_bytes: 1 }));
    assert!(!is_let_in(Header { kind: PIECE, meta_bytes: 7, body_bytes: 1 }));
}

#[test]
fn nothing_longer_than_the_largest_message_is_let_in() {
    for message in largest() {
        let header = header_of(&message);
        let meta_bytes = header.meta_bytes + 1;
        assert!(!is_let_in(Header { meta_bytes, ..header }), "{message:?} of {meta_bytes} bytes");
    }
}
