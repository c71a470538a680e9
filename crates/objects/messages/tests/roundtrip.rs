//! Any message is the same after its way through the bytes, however the bytes come.

mod common;

use bytes::Bytes;
use common::{decode, encode, reader_of, samples, speaker_of, to_client, to_peer, to_server};
use framing::{Batch, Inbox, Outbox};
use machine::{Cell, Goodbye, Parcel, Status, Table};
use messages::*;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use std::num::{NonZeroU16, NonZeroU32};
use types::limits::{
    ADDRESS_BYTES_MAX, GROUP_NAME_BYTES_MAX, LIVES_KEPT, MEMBERS_MAX, PAGE_BYTES_MAX, PAGES_BEHIND_MAX,
    PAGES_PER_MESSAGE_MAX, SHARDS_MAX, SLOT_BYTES_MAX, SLOTS_MAX, STORE_ADDRESSES_MAX, TXN_PAGES_MAX,
};
use types::*;

fn page() -> impl Strategy<Value = PageId> {
    any::<(u32, u32)>().prop_map(|(space, number)| PageId::new(space, number))
}

fn pages() -> impl Strategy<Value = Vec<PageId>> {
    vec(page(), 0..20)
}

fn version() -> impl Strategy<Value = Version> {
    any::<u64>().prop_map(Version)
}

fn vector() -> impl Strategy<Value = Vector> {
    let counts = vec((any::<u16>(), any::<u64>()), 0..4);
    counts.prop_map(|counts| {
        let mut vector = Vector::new();
        for (shard, count) in counts {
            vector.raise(Shard(shard), Version(count));
        }
        vector
    })
}

fn txn() -> impl Strategy<Value = TxnId> {
    any::<(u64, u64)>().prop_map(|(client, number)| TxnId { client: ClientId(client), number })
}

fn slot() -> impl Strategy<Value = SlotNo> {
    0..SLOTS_MAX as SlotNo
}

fn slots() -> impl Strategy<Value = SlotSet> {
    btree_set(slot(), 0..30).prop_map(|slots| slots.into_iter().collect())
}

fn ranges() -> impl Strategy<Value = Vec<PageRange>> {
    vec((page(), any::<u32>()).prop_map(|(first, count)| PageRange { first, count }), 0..5)
}

fn value() -> impl Strategy<Value = Bytes> {
    let len = prop_oneof![8 => 0..200usize, 1 => 1000..1050usize, 1 => Just(SLOT_BYTES_MAX)];
    (len, any::<u8>()).prop_map(|(len, byte)| Bytes::from(vec![byte; len]))
}

fn changes(count_min: usize) -> impl Strategy<Value = Vec<SlotChange>> {
    btree_map(slot(), proptest::option::of(value()), count_min..6)
        .prop_map(|changes| changes.into_iter().map(|(slot, value)| SlotChange { slot, value }).collect())
}

fn reads() -> impl Strategy<Value = Vec<PageReads>> {
    let exceptions = btree_map(slot(), version(), 0..4).prop_map(|map| map.into_iter().collect());
    let of_page = (slots(), version(), exceptions);
    btree_map(page(), of_page, 0..6).prop_map(|map| {
        let reads = |(page, (slots, evidence, exceptions))| PageReads { page, slots, evidence, exceptions };
        map.into_iter().map(reads).collect()
    })
}

fn writes() -> impl Strategy<Value = Vec<Delta>> {
    btree_map(page(), changes(1), 0..4)
        .prop_map(|map| map.into_iter().map(|(page, changes)| Delta { page, changes }).collect())
}

fn invalidation() -> impl Strategy<Value = Invalidation> {
    (page(), version(), version(), slots(), txn(), proptest::option::of(changes(0)))
        .prop_map(|(page, prev, version, slots, txn, data)| Invalidation { page, prev, version, slots, txn, data })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let advance = (page(), version(), version()).prop_map(|(page, prev, version)| Advance { page, prev, version });
    prop_oneof![
        vec(advance, 0..9).prop_map(|pages| Outcome::Committed { pages }),
        vec((page(), slots()), 0..9).prop_map(|pages| Outcome::Refused(Refusal::Stale(pages))),
        page().prop_map(|page| Outcome::Refused(Refusal::PageFull(page))),
        page().prop_map(|page| Outcome::Refused(Refusal::NoSuchPage(page))),
        any::<u64>().prop_map(|number| Outcome::Refused(Refusal::Lapsed(Incarnation(number)))),
        Just(Outcome::Unknown),
    ]
}

fn lineage() -> impl Strategy<Value = Lineage> {
    vec((any::<u64>().prop_map(Life), vector()), 0..=LIVES_KEPT).prop_map(Lineage::new)
}

fn sharding() -> impl Strategy<Value = Sharding> {
    (1..=SHARDS_MAX as u16, any::<NonZeroU32>())
        .prop_map(|(shards, extent)| Sharding::new(NonZeroU16::new(shards).unwrap(), extent))
}

fn session() -> impl Strategy<Value = Parcel> {
    let held = (page(), version()).prop_map(|(page, version)| Held { page, version });
    prop_oneof![
        (any::<u64>(), any::<Option<u64>>(), any::<u64>(), any::<u64>()).prop_map(
            |(features, cluster, client, epoch)| {
                let (cluster, client) = (cluster.map(ClusterId), ClientId(client));
                to_server(Hello { features, cluster, client, epoch })
            }
        ),
        (any::<(u16, u64, u64, u64)>(), lineage(), sharding(), vector(), any::<(u32, u32, u32)>()).prop_map(
            |((node, features, cluster, incarnation), lineage, sharding, through, (fetches, commits, silence_ms))| {
                to_client(Welcome {
                    features,
                    cluster: ClusterId(cluster),
                    node: NodeId(node),
                    incarnation: Incarnation(incarnation),
                    lineage,
                    sharding,
                    through,
                    limits: SessionLimits { fetches, commits, silence_ms },
                })
            }
        ),
        ".{0,50}".prop_map(|text| to_client(Goodbye { reason: GoodbyeReason::Full, text })),
        (vector(), vec(held, 0..20), ranges(), any::<bool>())
            .prop_map(|(horizon, pages, grants, last)| to_server(Resume { horizon, pages, grants, last, missed: 0 })),
        (vector(), pages()).prop_map(|(through, dropped)| to_client(Resumed { through, dropped })),
    ]
}

fn follow() -> impl Strategy<Value = Option<Follow>> {
    proptest::option::of((any::<u16>(), 1..u32::MAX).prop_map(|(slot, bytes)| Follow { slot, bytes }))
}

fn fetched() -> impl Strategy<Value = Page> {
    let image = vec(any::<u8>(), 0..300).prop_map(Bytes::from);
    (page(), version(), any::<u64>(), any::<bool>(), image).prop_map(|(page, version, number, fresh, image)| Page {
        page,
        version,
        number,
        fresh,
        behind: Vec::new(),
        image,
    })
}

fn address() -> impl Strategy<Value = String> {
    "[a-zß0-9.:]{0,40}"
}

fn group_name() -> impl Strategy<Value = String> {
    "[a-zß]{0,30}"
}

fn client() -> impl Strategy<Value = ClientId> {
    any::<u64>().prop_map(ClientId)
}

fn key() -> impl Strategy<Value = PeerKey> {
    any::<[u8; PeerKey::BYTES]>().prop_map(PeerKey::new)
}

fn help_message() -> impl Strategy<Value = Parcel> {
    let help = (client(), any::<u64>(), vector(), address(), key(), pages());
    prop_oneof![
        (address(), key(), address()).prop_map(|(address, key, eligible)| to_server(Reachable {
            address,
            key,
            eligible
        })),
        help.prop_map(|(requester, number, through, address, key, pages)| {
            to_client(Help { requester, number, through, address, key, pages })
        }),
        (client(), any::<u64>(), pages()).prop_map(|(requester, number, pages)| to_server(NoHelp {
            requester,
            number,
            pages
        })),
        (client(), vector(), fetched()).prop_map(|(requester, through, page)| to_peer(PeerPage {
            requester,
            through,
            page: Page { fresh: false, ..page },
        })),
        vec((page(), any::<u64>()), 0..20).prop_map(|pages| to_server(Arrived { pages })),
        (client(), key()).prop_map(|(client, key)| to_peer(PeerHello { client, key })),
    ]
}

fn group_message() -> impl Strategy<Value = Parcel> {
    let held = (page(), version()).prop_map(|(page, version)| Held { page, version });
    let member = (client(), address()).prop_map(|(client, address)| Member { client, address });
    prop_oneof![
        (any::<u64>(), vector(), vec(held, 0..20)).prop_map(|(number, horizon, pages)| to_server(Revalidate {
            number,
            horizon,
            pages
        })),
        (any::<u64>(), vec(invalidation(), 0..5), pages())
            .prop_map(|(number, items, dropped)| to_client(Revalidated { number, items, dropped })),
        client().prop_map(|client| to_server(Departed { client })),
        (group_name(), any::<u64>(), address()).prop_map(|(group, epoch, address)| to_server(Lead {
            group,
            epoch,
            address
        })),
        group_name().prop_map(|group| to_server(FindLeader { group })),
        (group_name(), any::<u64>(), address()).prop_map(|(group, epoch, address)| to_client(Leader {
            group,
            epoch,
            address
        })),
        (group_name(), any::<u64>(), address(), vec(address(), 0..4), vec(member, 0..20)).prop_map(
            |(group, epoch, address, store, members)| { to_client(Members { group, epoch, address, store, members }) }
        ),
    ]
}

fn lease_message() -> impl Strategy<Value = Parcel> {
    prop_oneof![
        (any::<u64>(), any::<u32>(), vec(any::<u32>(), 0..5)).prop_map(|(nonce, lease_ms, spaces)| to_client(Leased {
            nonce,
            lease_ms,
            spaces
        })),
        (txn(), vec((page(), slots()), 0..5)).prop_map(|(txn, pages)| to_client(Intent { txn, pages })),
        txn().prop_map(|txn| to_server(Promise { txn })),
    ]
}

fn status() -> impl Strategy<Value = Parcel> {
    let cell = prop_oneof![Just(Cell::Nothing), any::<u64>().prop_map(Cell::Count), address().prop_map(Cell::Text),];
    let table = (address(), vec(address(), 1..6)).prop_flat_map(move |(name, columns)| {
        let rows = vec(vec(cell.clone(), columns.len()), 0..6);
        rows.prop_map(move |rows| Table { name: name.clone(), columns: columns.clone(), rows })
    });
    vec(table, 0..5).prop_map(|tables| Parcel::new(framing::Answer::from(Status { tables })))
}

fn message() -> impl Strategy<Value = Parcel> {
    prop_oneof![
        1 => lease_message(),
        3 => session(),
        3 => help_message(),
        3 => group_message(),
        1 => status(),
        1 => (pages(), vector(), any::<u64>(), follow())
            .prop_map(|(pages, at_least, number, follow)| to_server(Fetch { pages, at_least, number, follow })),
        1 => (fetched(), vec(page(), 0..=PAGES_BEHIND_MAX))
            .prop_map(|(page, behind)| to_client(Page { behind, ..page })),
        1 => (page(), any::<u64>(), proptest::option::of("[a-z]{1,20}"))
            .prop_map(|(page, number, damage)| to_client(LeftOut { page, number, damage })),
        1 => (vec((any::<u16>(), any::<u64>(), address()), 0..4), vec(any::<(u16, u32)>(), 0..9)).prop_map(
            |(nodes, shards)| {
                let node = |(node, start, address)| NodeAt { node: NodeId(node), start, address };
                let shard = |(node, opening)| (NodeId(node), Opening(opening));
                let nodes = nodes.into_iter().map(node).collect();
                to_client(Placement { nodes, shards: shards.into_iter().map(shard).collect() })
            }
        ),
        1 => (page(), any::<u64>()).prop_map(|(page, number)| to_client(Elsewhere { page, number })),
        1 => txn().prop_map(|txn| to_client(Abandoned { txn })),
        1 => any::<u64>().prop_map(|number| to_server(Sync { number })),
        1 => (any::<u64>(), vec(any::<u16>(), 0..9)).prop_map(|(number, shards)| {
            to_client(Synced { number, shards: shards.into_iter().map(Shard).collect() })
        }),
        1 => pages().prop_map(|pages| to_server(Released { pages })),
        3 => (txn(), any::<[u64; 2]>(), reads(), writes()).prop_map(|(txn, [incarnation, answered], reads, writes)| {
            to_server(CommitRequest { txn, incarnation: Incarnation(incarnation), answered, reads, writes })
        }),
        2 => (txn(), outcome()).prop_map(|(txn, outcome)| to_client(CommitReply { txn, outcome })),
        2 => (vector(), vec(invalidation(), 0..5))
            .prop_map(|(through, items)| to_client(Invalidations { through, items })),
        1 => ranges().prop_map(|ranges| to_client(Granted { ranges })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_message_comes_through(message in message(), piece in 1..100_000usize) {
        let frame = encode(&message);
        prop_assert_eq!(decode(reader_of(&message), &frame, piece)?, [message]);
    }

    /// However the writes are cut, what leaves is what was taken.
    #[test]
    fn a_batch_leaves_in_whatever_parts(messages in vec(message(), 1..16), cuts in vec(1..5000usize, 1..50)) {
        let mut cuts = cuts.into_iter().cycle();
        for end in [CLIENT, SERVER, PEER] {
            let (mut out, mut whole) = (Outbox::new(end), Outbox::new(end));
            for message in messages.iter().filter(|message| speaker_of(message).reader() == end.reader()) {
                out.push(message).unwrap();
                whole.push(message).unwrap();
            }
            let (mut sent, mut batch) = (Vec::new(), Batch::default());
            while !(out.is_empty() && batch.is_empty()) {
                if batch.is_empty() {
                    out.next(&mut batch);
                }
                let bytes: Vec<u8> = batch.chunks().flatten().copied().take(cuts.next().unwrap()).collect();
                batch.consume(bytes.len());
                sent.extend(bytes);
            }
            prop_assert_eq!(sent, common::drain(&mut whole));
        }
    }
}

#[test]
fn every_kind_comes_through_byte_by_byte() {
    for message in samples() {
        assert_eq!(decode(reader_of(&message), &encode(&message), 1), Ok(vec![message]));
    }
}

#[test]
fn messages_at_their_limits_come_through() {
    let many: Vec<PageId> = (0..PAGES_PER_MESSAGE_MAX as u32).map(|number| PageId::new(1, number)).collect();
    let reads = |page| PageReads { page, slots: SlotSet::new(), evidence: Version(1), exceptions: vec![] };
    let all = (0..TXN_PAGES_MAX as u32).map(|number| PageId::new(1, number));
    let text = |bytes| "x".repeat(bytes);
    let (address, requester, number) = (text(ADDRESS_BYTES_MAX), ClientId(1), u64::MAX);
    let held = many.iter().map(|&page| Held { page, version: Version(1) }).collect();
    let member = |client| Member { client: ClientId(client as u64), address: text(ADDRESS_BYTES_MAX) };
    for message in [
        to_client(Help {
            requester,
            number,
            through: Version(1).into(),
            address: address.clone(),
            key: common::key(),
            pages: many.clone(),
        }),
        to_server(NoHelp { requester, number, pages: many.clone() }),
        to_server(Arrived { pages: many.iter().map(|&page| (page, number)).collect() }),
        to_server(Reachable { address: address.clone(), key: common::key(), eligible: address.clone() }),
        to_server(Revalidate { number, horizon: Version(1).into(), pages: held }),
        to_client(Revalidated { number, items: vec![], dropped: many.clone() }),
        to_server(Lead { group: text(GROUP_NAME_BYTES_MAX), epoch: 1, address: address.clone() }),
        to_client(Members {
            group: text(GROUP_NAME_BYTES_MAX),
            epoch: 1,
            address: address.clone(),
            store: vec![address; STORE_ADDRESSES_MAX],
            members: (0..MEMBERS_MAX).map(member).collect(),
        }),
        to_server(Fetch { pages: many.clone(), at_least: Version(0).into(), number, follow: None }),
        to_server(Released { pages: many }),
        to_client(Page {
            page: PageId::new(1, 1),
            version: Version(1),
            number: 7,
            fresh: true,
            behind: vec![PageId::new(1, 1); PAGES_BEHIND_MAX],
            image: vec![7; PAGE_BYTES_MAX].into(),
        }),
        to_server(CommitRequest {
            txn: common::txn(),
            incarnation: Incarnation(1),
            answered: 0,
            reads: all.map(reads).collect(),
            writes: vec![],
        }),
    ] {
        assert!(decode(reader_of(&message), &encode(&message), 10_000) == Ok(vec![message]));
    }
}

#[test]
fn a_message_that_no_end_would_take_is_not_sent() {
    let pages = vec![PageId::new(1, 1); PAGES_PER_MESSAGE_MAX + 1];
    let image = Bytes::from(vec![0; PAGE_BYTES_MAX + 1]);
    let write = |number| Delta {
        page: PageId::new(1, number),
        changes: vec![SlotChange { slot: 0, value: Some(Bytes::from_static(&[7; 60_000])) }],
    };
    let (requester, number, address) = (ClientId(1), 7, "x".repeat(ADDRESS_BYTES_MAX + 1));
    let member = Member { client: requester, address: String::new() };
    let page = Page {
        page: PageId::new(1, 1),
        version: Version(1),
        number,
        fresh: false,
        behind: Vec::new(),
        image: image.clone(),
    };
    let members = |store, members| {
        let (group, address) = (String::new(), String::new());
        to_client(Members { group, epoch: 1, address, store, members })
    };
    for (message, reason) in [
        (to_server(Fetch { pages: pages.clone(), at_least: Version(0).into(), number, follow: None }), "count"),
        (
            to_client(Help {
                requester,
                number,
                through: Version(1).into(),
                address: String::new(),
                key: common::key(),
                pages: pages.clone(),
            }),
            "count",
        ),
        (to_server(NoHelp { requester, number, pages: pages.clone() }), "count"),
        (to_server(Arrived { pages: pages.iter().map(|&page| (page, number)).collect() }), "count"),
        (to_client(Revalidated { number, items: vec![], dropped: pages }), "count"),
        (to_peer(PeerPage { requester, through: Version(1).into(), page }), "count"),
        (to_server(Reachable { address, ..Reachable::default() }), "count"),
        (to_server(FindLeader { group: "x".repeat(GROUP_NAME_BYTES_MAX + 1) }), "count"),
        (members(vec![String::new(); STORE_ADDRESSES_MAX + 1], vec![]), "count"),
        (members(vec![], vec![member; MEMBERS_MAX + 1]), "count"),
        (
            to_client(Page {
                page: PageId::new(1, 1),
                version: Version(1),
                number: 7,
                fresh: true,
                behind: Vec::new(),
                image,
            }),
            "count",
        ),
        (
            to_server(CommitRequest {
                txn: common::txn(),
                incarnation: Incarnation(1),
                answered: 0,
                reads: vec![],
                writes: (0..1500).map(write).collect(),
            }),
            "too_large",
        ),
    ] {
        let mut out = Outbox::new(speaker_of(&message));
        let goodbye = out.codec().goodbye(Goodbye { reason: GoodbyeReason::Done, text: "enough".into() });
        out.push(&goodbye).unwrap();
        assert_eq!(out.push(&message).map_err(framing::WireError::name), Err(reason));
        assert_eq!(common::drain(&mut out), encode(&goodbye), "a message that is not sent leaves no trace");
    }
}

#[test]
fn a_large_image_is_shared_on_its_way_out_and_received_in_place() {
    let image = Bytes::from(vec![7; 40_000]);
    let page = PageId::new(1, 1);
    let message =
        to_client(Page { page, version: Version(1), number: 7, fresh: true, behind: Vec::new(), image: image.clone() });
    let (mut out, mut batch) = (Outbox::new(SERVER), Batch::default());
    out.push(&message).unwrap();
    out.next(&mut batch);
    assert!(batch.chunks().any(|chunk| chunk.as_ptr() == image.as_ptr()), "not copied");

    let (frame, mut inbox) = (encode(&message), Inbox::within_session(CLIENT));
    let (mut head, tail) = frame.split_at(100);
    assert_eq!(inbox.next(&mut head), Ok(None));
    let body = inbox.direct().expect("much is missing");
    assert_eq!(body.capacity() - body.len(), tail.len());
    body.extend_from_slice(tail);
    assert_eq!(inbox.next(&mut &[][..]), Ok(Some(message)));
}

#[test]
fn a_long_goodbye_is_cut_between_characters() {
    let text = "ü".repeat(1000);
    let frame = encode(&to_client(Goodbye { reason: GoodbyeReason::Done, text }));
    let got = decode(CLIENT, &frame, 1000).unwrap();
    assert_eq!(got, [to_client(Goodbye { reason: GoodbyeReason::Done, text: "ü".repeat(512) })]);
}
