//! Any messages of members and a store, in any order: a redirector does not panic, and does not go in circles.

use bytes::Bytes;
use machine::Goodbye;
use machine::UpstreamId;
use messages::*;
use proptest::collection::vec;
use proptest::prelude::*;
use redirector::{Config, Output, Redirector};
use std::time::Duration;
use types::*;

#[derive(Clone, Debug)]
enum Event {
    Connect(u64),
    Gone(u64),
    Says(u64, ToServer),
    Upstream(bool),
    Store(ToClient),
    Wait(u64),
}

fn page() -> impl Strategy<Value = PageId> {
    (0..2u32, 0..4u32).prop_map(|(space, number)| PageId::new(space, number))
}

fn pages() -> impl Strategy<Value = Vec<PageId>> {
    vec(page(), 0..4)
}

fn version() -> impl Strategy<Value = Version> {
    (0..6u64).prop_map(Version)
}

fn counts() -> impl Strategy<Value = Vector> {
    version().prop_map(Vector::only)
}

fn client() -> impl Strategy<Value = ClientId> {
    (0..4u64).prop_map(ClientId)
}

fn txn() -> impl Strategy<Value = TxnId> {
    (client(), 0..3u64).prop_map(|(client, number)| TxnId { client, number })
}

fn slots() -> impl Strategy<Value = SlotSet> {
    vec(0..3u16, 1..3).prop_map(|slots| slots.into_iter().collect())
}

fn fetched() -> impl Strategy<Value = Page> {
    let image = prop_oneof![Just(ObjectPage::empty().image().clone()), Just(Bytes::from_static(b"no page"))];
    (page(), version(), 0..3u64, any::<bool>(), image).prop_map(|(page, version, number, fresh, image)| Page {
        page,
        version,
        number,
        fresh,
        behind: Vec::new(),
        image,
    })
}

fn invalidation() -> impl Strategy<Value = Invalidation> {
    let data = proptest::option::of(Just(vec![SlotChange { slot: 0, value: Some(Bytes::from_static(b"x")) }]));
    (page(), version(), version(), slots(), txn(), data)
        .prop_map(|(page, prev, version, slots, txn, data)| Invalidation { page, prev, version, slots, txn, data })
}

fn held() -> impl Strategy<Value = Vec<Held>> {
    vec((page(), version()).prop_map(|(page, version)| Held { page, version }), 0..4)
}

fn ranges() -> impl Strategy<Value = Vec<PageRange>> {
    vec((page(), 0..3u32).prop_map(|(first, count)| PageRange { first, count }), 0..3)
}

fn of_member() -> impl Strategy<Value = ToServer> {
    let hello = (client(), 0..3u64)
        .prop_map(|(client, epoch)| ToServer::Hello(Hello { features: 0, cluster: None, client, epoch }));
    let reads = (page(), slots(), version()).prop_map(|(page, slots, evidence)| PageReads {
        page,
        slots,
        evidence,
        exceptions: Vec::new(),
    });
    let delta = page().prop_map(|page| Delta { page, changes: vec![SlotChange { slot: 1, value: None }] });
    prop_oneof![
        3 => hello,
        3 => (counts(), held(), ranges(), any::<bool>())
            .prop_map(|(horizon, pages, grants, last)| ToServer::Resume(Resume { horizon, pages, grants, last, missed: 0 })),
        4 => (pages(), counts(), 0..3u64)
            .prop_map(|(pages, at_least, number)| ToServer::Fetch(Fetch { pages, at_least, number, follow: None })),
        2 => pages().prop_map(|pages| ToServer::Released(Released { pages })),
        3 => (txn(), vec(reads, 0..2), vec(delta, 0..2)).prop_map(|(txn, reads, writes)| {
            ToServer::Commit(CommitRequest { txn, incarnation: Incarnation(1), answered: 0, reads, writes })
        }),
        1 => txn().prop_map(|txn| ToServer::AskOutcome(AskOutcome { txn })),
        1 => counts().prop_map(|through| ToServer::Ack(Ack { through })),
        1 => (0..2u32, 0..9u32).prop_map(|(space, count)| ToServer::Grant(Grant { space, count })),
        1 => "[a-z]{0,3}".prop_map(|address| ToServer::Reachable(Reachable { eligible: address.clone(), address, ..Reachable::default() })),
        2 => (client(), 0..3u64, pages())
            .prop_map(|(requester, number, pages)| ToServer::NoHelp(NoHelp { requester, number, pages })),
        1 => (client(), counts(), fetched())
            .prop_map(|(requester, through, page)| ToServer::PeerPage(PeerPage { requester, through, page })),
        2 => vec((page(), 0..3u64), 0..3).prop_map(|pages| ToServer::Arrived(Arrived { pages })),
        1 => Just(ToServer::Ping(Ping { nonce: 1 })),
    ]
}

fn of_store() -> impl Strategy<Value = ToClient> {
    let welcome = counts().prop_map(|through| {
        ToClient::Welcome(Welcome {
            features: GROUP,
            cluster: ClusterId(1),
            node: NodeId(0),
            incarnation: Incarnation(1),
            lineage: Lineage::default(),
            sharding: Sharding::ONE,
            through,
            limits: SessionLimits { fetches: 2, commits: 2, silence_ms: 1500 },
        })
    });
    let advance = (page(), version(), version()).prop_map(|(page, prev, version)| Advance { page, prev, version });
    prop_oneof![
        4 => welcome,
        4 => (counts(), pages()).prop_map(|(through, dropped)| ToClient::Resumed(Resumed { through, dropped })),
        4 => (prop_oneof![0..3u64, Just(u64::MAX)], "(site)?", "(here)?").prop_map(|(epoch, group, address)| {
            ToClient::Leader(Leader { group, epoch, address })
        }),
        2 => (counts(), vec(invalidation(), 0..3)).prop_map(|(through, items)| ToClient::Invalidations(Invalidations { through, items })),
        3 => fetched().prop_map(ToClient::Page),
        1 => page().prop_map(|page| ToClient::LeftOut(LeftOut { page, number: 0, damage: None })),
        2 => (txn(), vec(advance, 0..2)).prop_map(|(txn, pages)| {
            ToClient::CommitReply(CommitReply { txn, outcome: Outcome::Committed { pages } })
        }),
        1 => ranges().prop_map(|ranges| ToClient::Granted(Granted { ranges })),
        2 => (0..4u64, vec(invalidation(), 0..2), pages())
            .prop_map(|(number, items, dropped)| ToClient::Revalidated(Revalidated { number, items, dropped })),
        1 => (any::<u64>(), any::<u32>())
            .prop_map(|(nonce, lease_ms)| ToClient::Leased(Leased { nonce, lease_ms, spaces: vec![0] })),
        1 => (txn(), page(), slots())
            .prop_map(|(txn, page, slots)| ToClient::Intent(Intent { txn, pages: vec![(page, slots)] })),
        1 => Just(ToClient::Goodbye(Goodbye { reason: GoodbyeReason::Superseded, text: "other".into() })),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (0..5u64).prop_map(Event::Connect),
        1 => (0..5u64).prop_map(Event::Gone),
        12 => (0..5u64, of_member()).prop_map(|(session, message)| Event::Says(session, message)),
        2 => any::<bool>().prop_map(Event::Upstream),
        8 => of_store().prop_map(Event::Store),
        2 => (0..40_000u64).prop_map(Event::Wait),
    ]
}

/// The highest count that a message of the store names.
fn named_in(message: &ToClient) -> Version {
    let of_invalidations = |items: &[Invalidation]| items.iter().map(|invalidation| invalidation.version).max();
    let newest = match message {
        ToClient::Invalidations(batch) => of_invalidations(&batch.items).max(Some(batch.through.of(Shard::ONLY))),
        ToClient::Revalidated(revalidated) => of_invalidations(&revalidated.items),
        ToClient::Resumed(resumed) => Some(resumed.through.of(Shard::ONLY)),
        ToClient::Page(page) => Some(page.version),
        ToClient::CommitReply(CommitReply { outcome: Outcome::Committed { pages }, .. }) => {
            pages.iter().map(|advance| advance.version).max()
        }
        _ => None,
    };
    newest.unwrap_or_default()
}

/// Whether a store that has named counts through here would end the session for the message, or never answer it.
fn is_punished(message: &ToServer, named: Version) -> bool {
    match message {
        ToServer::Fetch(fetch) => fetch.at_least.of(Shard::ONLY) > named || fetch.pages.is_empty(),
        ToServer::Commit(request) => {
            let exceptions = request.reads.iter().flat_map(|reads| &reads.exceptions).map(|(_, version)| *version);
            let newest = request.reads.iter().map(|reads| reads.evidence).chain(exceptions).max();
            request.check_form().is_err() || newest.is_some_and(|newest| newest > named)
        }
        ToServer::Resume(resume) => resume.horizon.of(Shard::ONLY) > named,
        ToServer::Ack(ack) => ack.through.of(Shard::ONLY) > named,
        _ => false,
    }
}

/// A redirector that leads, and three members.
fn ready() -> Vec<Event> {
    let limits = SessionLimits { fetches: 2, commits: 2, silence_ms: 1500 };
    let welcome = Welcome {
        features: GROUP,
        cluster: ClusterId(1),
        node: NodeId(0),
        incarnation: Incarnation(1),
        lineage: Lineage::default(),
        sharding: Sharding::ONE,
        through: Version::ZERO.into(),
        limits,
    };
    let leader = |epoch, address: &str| {
        Event::Store(ToClient::Leader(Leader { group: "site".into(), epoch, address: address.into() }))
    };
    let mut events = vec![
        Event::Upstream(true),
        Event::Store(ToClient::Welcome(welcome)),
        Event::Store(ToClient::Resumed(Resumed { through: Version(2).into(), dropped: Vec::new() })),
        leader(0, ""),
        leader(1, "here"),
    ];
    for member in 0..3 {
        let hello = Hello { features: 0, cluster: None, client: ClientId(member), epoch: 0 };
        let resume =
            Resume { horizon: Version::ZERO.into(), pages: Vec::new(), grants: Vec::new(), last: true, missed: 0 };
        events.extend([
            Event::Connect(member),
            Event::Says(member, ToServer::Hello(hello)),
            Event::Says(member, ToServer::Resume(resume)),
        ]);
    }
    events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_order_of_messages_breaks_it(
        events in vec(event(), 1..120),
        cache in prop_oneof![Just(0usize), Just(9000)],
        retained in prop_oneof![Just(0usize), Just(1 << 20)],
    ) {
        let config = Config {
            group: "site".into(),
            address: "here".into(),
            cache_bytes_limit: cache,
            retained_bytes_limit: retained,
            ..Config::default()
        };
        let (mut redirector, mut now) = (Redirector::new(config, ClientId(99)), Time(1_000_000_000));
        // The driver never uses a number again.
        let (mut sessions, mut last) = ([None; 5], 0);
        let mut named = Version::ZERO;
        for event in ready().into_iter().chain(events) {
            match event {
                Event::Connect(place) => {
                    last += 1;
                    if let Some(old) = sessions[place as usize].replace(SessionId(last)) {
                        redirector.disconnected(now, old);
                    }
                    redirector.connected(now, SessionId(last));
                }
                Event::Gone(place) => {
                    if let Some(session) = sessions[place as usize].take() {
                        redirector.disconnected(now, session);
                    }
                }
                Event::Says(place, message) => {
                    if let Some(session) = sessions[place as usize] {
                        redirector.handle(now, session, message);
                    }
                }
                Event::Upstream(true) => redirector.upstream_connected(now, UpstreamId::ONLY),
                Event::Upstream(false) => redirector.upstream_disconnected(now, UpstreamId::ONLY),
                Event::Store(message) => {
                    named = named.max(named_in(&message));
                    redirector.from_store(now, UpstreamId::ONLY, message);
                }
                Event::Wait(ms) => {
                    now = now + Duration::from_millis(ms);
                    redirector.handle_timeout(now);
                }
            }
            let outputs: Vec<_> = std::iter::from_fn(|| redirector.poll_output()).take(10_000).collect();
            prop_assert!(outputs.len() < 10_000);
            for output in &outputs {
                let is_punished = matches!(output, Output::Upstream(_, message) if is_punished(message, named));
                prop_assert!(!is_punished, "the store would end the session of the group for {output:?}");
            }
            // Work that is due is done by one call, and does not stay due.
            for _ in 0..20 {
                if redirector.poll_timeout().is_some_and(|due| due <= now) {
                    redirector.handle_timeout(now);
                }
            }
            prop_assert!(redirector.poll_timeout().is_none_or(|due| due > now), "time does not pass");
            let _ = redirector.status();
        }
    }
}
