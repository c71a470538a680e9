//! Peers that do not keep to the protocol: each loses its session, by name, and nobody else invalidations.

use crate::driver::{Driver, ROOT, hello, txn};
use crate::groups::{group_hello, join_group};
use bytes::Bytes;
use messages::{
    Ack, Arrived, AskOutcome, CommitRequest, Departed, Fetch, FindLeader, Grant, Held, Lead, LeftOut, NoHelp, Outcome,
    PageReads, Ping, Reachable, Released, Resume, Revalidate, ToClient, ToServer,
};
use proptest::prelude::*;
use std::time::Duration;
use store::{Config, SessionId};
use types::limits::{
    ABSENT_PAGES_MAX, COMMITS_PER_SESSION_MAX, FETCHES_PER_SESSION_MAX, PAGES_PER_MESSAGE_MAX, TXN_BYTES_MAX,
};
use types::{
    ClientId, Delta, GoodbyeReason, Incarnation, ObjectPage, PageId, PageRange, Refusal, Shard, SlotChange, SlotSet,
    TxnId, Vector, Version,
};

/// The goodbye with which a joined session is ended for this message.
fn fault(message: ToServer) -> Option<GoodbyeReason> {
    let mut driver = Driver::new();
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    driver.say(a, message);
    driver.run();
    assert_eq!(driver.ping(b).len(), 1, "others go on");
    driver.ended(a)
}

#[test]
fn nothing_goes_before_hello() {
    let mut driver = Driver::new();
    let a = SessionId(1);
    driver.store.connected(driver.now, a);
    driver.say(a, Ping { nonce: 1 });
    assert_eq!(driver.ended(a), Some(GoodbyeReason::Malformed));
    assert!(driver.take(a).iter().all(|message| matches!(message, ToClient::Goodbye(_))));
}

#[test]
fn malformed_messages_end_their_session() {
    let mut cases = vec![
        ("a second hello", hello(1, 9)),
        ("an answer", ToServer::Ack(Ack { through: Version(1).into() })),
        (
            "a resumption after the last",
            ToServer::Resume(Resume {
                horizon: Version(0).into(),
                pages: vec![],
                grants: vec![],
                last: true,
                missed: 0,
            }),
        ),
        (
            "an empty fetch",
            ToServer::Fetch(Fetch { pages: vec![], at_least: Version(0).into(), number: 0, follow: None }),
        ),
        (
            "a huge fetch",
            ToServer::Fetch(Fetch {
                pages: vec![ROOT; PAGES_PER_MESSAGE_MAX + 1],
                at_least: Version(0).into(),
                number: 0,
                follow: None,
            }),
        ),
        ("a huge release", ToServer::Released(Released { pages: vec![ROOT; PAGES_PER_MESSAGE_MAX + 1] })),
        ("another's transaction", txn(2, 1).write(ROOT, 0, 0, b"x").message()),
        ("another's outcome", ToServer::AskOutcome(AskOutcome { txn: txn(2, 1).0.txn })),
        ("transaction zero", txn(1, 0).answered(0).write(ROOT, 0, 0, b"x").message()),
        ("answered beyond itself", txn(1, 1).answered(2).write(ROOT, 0, 0, b"x").message()),
        ("evidence of the future", txn(1, 1).write(ROOT, 0, 1, b"x").message()),
    ];
    let broken = |change: fn(&mut CommitRequest)| {
        let mut request = txn(1, 1).write(ROOT, 0, 0, b"x").write(ROOT, 1, 0, b"y").0;
        change(&mut request);
        ToServer::Commit(request)
    };
    cases.extend([
        ("a page read twice", broken(|request| request.reads.push(request.reads[0].clone()))),
        ("a page written twice", broken(|request| request.writes.push(request.writes[0].clone()))),
        ("changes out of order", broken(|request| request.writes[0].changes.reverse())),
        ("an empty delta", broken(|request| request.writes[0].changes.clear())),
        ("an impossible slot", broken(|request| request.writes[0].changes[1].slot = u16::MAX)),
        ("written and not read", broken(|request| request.reads[0].slots = SlotSet::new())),
        ("a page written and not read", broken(|request| request.reads.clear())),
        (
            "exceptions out of order",
            broken(|request| request.reads[0].exceptions = vec![(1, Version(0)), (0, Version(0))]),
        ),
        ("an exception of the future", broken(|request| request.reads[0].exceptions = vec![(1, Version(7))])),
    ]);
    for (name, message) in cases {
        assert_eq!(fault(message), Some(GoodbyeReason::Malformed), "{name}");
    }
}

#[test]
fn a_resume_cannot_claim_the_future_or_too_much() {
    let [empty, held] = [vec![], vec![Held { page: ROOT, version: Version(1) }]];
    let grants = vec![PageRange { first: ROOT, count: u32::MAX }; 3];
    let claim =
        |horizon, pages, grants| Resume { horizon: Version(horizon).into(), pages, grants, last: true, missed: 0 };
    let claims = [
        (claim(1, empty.clone(), vec![]), GoodbyeReason::Done),
        (claim(0, held, vec![]), GoodbyeReason::Done),
        (claim(0, empty, grants), GoodbyeReason::Malformed),
    ];
    for (claim, reason) in claims {
        let mut driver = Driver::new();
        let a = driver.greet(1, 1, 1);
        driver.say(a, claim);
        assert_eq!(driver.ended(a), Some(reason));
    }
}

#[test]
fn the_requests_outstanding_of_a_session_are_bounded() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let fetch = |count| {
        ToServer::Fetch(Fetch { pages: vec![ROOT; count], at_least: Version(9).into(), number: 0, follow: None })
    };
    driver.say(a, fetch(FETCHES_PER_SESSION_MAX + 5));
    assert_eq!(driver.take(a).len(), 5, "what a prefetch has no room for is left out");
    driver.say(a, fetch(1));
    assert_eq!(driver.ended(a), Some(GoodbyeReason::TooMuch));

    let b = driver.join(2, 2);
    let pages = driver.grant(b, COMMITS_PER_SESSION_MAX as u32 + 1);
    for (i, &page) in pages.iter().enumerate() {
        driver.say(b, txn(2, i as u64 + 1).write(page, 0, 0, b"x").message());
    }
    assert_eq!(driver.outcome(b), Some(Outcome::Refused(Refusal::TooMany)));
}

#[test]
fn pages_that_never_were_and_transactions_that_are_too_large_are_refused() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let beyond = PageId::new(0, 9);
    let refused = driver.commit(a, &txn(1, 1).write(beyond, 0, 0, b"x"));
    assert_eq!(refused, Outcome::Refused(Refusal::NoSuchPage(beyond)));
    let value = Bytes::from(vec![7; 60_000]);
    let pages: Vec<_> = (0..=TXN_BYTES_MAX / value.len()).map(|number| PageId::new(number as u32, 0)).collect();
    let mut large = txn(1, 2);
    for page in pages {
        large = large.read(page, 0, 0);
        large.0.writes.push(Delta { page, changes: vec![SlotChange { slot: 0, value: Some(value.clone()) }] });
    }
    assert_eq!(driver.commit(a, &large), Outcome::Refused(Refusal::TooLarge));
    assert_eq!(driver.ended(a), None);
}

/// A client that asks for pages that do not exist is listed for them. A client that makes them up without end begins
/// again with none.
#[test]
fn pages_that_are_made_up_are_held_within_a_bound() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let fetch =
        |page| ToServer::Fetch(Fetch { pages: vec![page], at_least: Version::ZERO.into(), number: 0, follow: None });
    // Of the one space pages that were never granted, of the others those that exist from birth.
    let made_up = (0..ABSENT_PAGES_MAX as u32).map(|n| PageId::new(n % 2 * n, 5 * ((n + 1) % 2) * n));
    for page in made_up {
        driver.say(a, fetch(page));
    }
    assert_eq!(driver.take(a).len(), ABSENT_PAGES_MAX);
    assert_eq!(driver.ended(a), None);
    driver.say(a, fetch(PageId::new(0, 9)));
    assert_eq!(driver.ended(a), Some(GoodbyeReason::TooMuch));
    let a = driver.greet(2, 1, 2);
    let (_, resumed) = driver.resume(a, Version::ZERO, &[(PageId::new(0, 9), 0)], &[]);
    assert_eq!(resumed.dropped, [PageId::new(0, 9)]);
    driver.say(a, fetch(PageId::new(0, 9)));
    assert_eq!(driver.ended(a), None);
}

/// A group is told that it holds too many, and which of its members is to blame it finds out itself.
#[test]
fn a_group_that_makes_up_pages_is_told() {
    let mut driver = Driver::new();
    let g = join_group(&mut driver, 1, 100, &[]);
    let fetch = |page, number| {
        ToServer::Fetch(Fetch { pages: vec![page], at_least: Version::ZERO.into(), number, follow: None })
    };
    for number in 1..=ABSENT_PAGES_MAX as u32 {
        driver.say(g, fetch(PageId::new(0, number), 0));
    }
    assert_eq!(driver.take(g).len(), ABSENT_PAGES_MAX);
    let (one_more, first) = (PageId::new(1, 1), PageId::new(0, 1));
    driver.say(g, fetch(one_more, 7));
    assert_eq!(driver.take(g), [ToClient::LeftOut(LeftOut { page: one_more, number: 7, damage: None })]);
    driver.say(g, Released { pages: vec![first] });
    driver.say(g, fetch(one_more, 8));
    assert!(matches!(&driver.take(g)[..], [ToClient::Page(page)] if page.page == one_more));
    assert_eq!(driver.ended(g), None);
}

fn page() -> impl Strategy<Value = PageId> {
    prop_oneof![4 => (0..2u32, 0..6u32), 1 => any::<(u32, u32)>()]
        .prop_map(|(space, number)| PageId::new(space, number))
}

fn counts() -> impl Strategy<Value = Vector> {
    (version(), prop_oneof![9 => Just(0), 1 => 0..3u16]).prop_map(|(count, shard)| {
        let mut counts = Vector::new();
        counts.raise(Shard(shard), count);
        counts
    })
}

fn version() -> impl Strategy<Value = Version> {
    prop_oneof![8 => 0..8u64, 1 => any::<u64>()].prop_map(Version)
}

fn slots() -> impl Strategy<Value = SlotSet> {
    proptest::collection::vec(prop_oneof![8 => 0..6u16, 1 => 0..1024u16], 0..6)
        .prop_map(|slots| slots.into_iter().collect())
}

fn change() -> impl Strategy<Value = SlotChange> {
    let len = prop_oneof![8 => 0..40usize, 1 => 0..66_000usize];
    (prop_oneof![20 => 0..6u16, 1 => any::<u16>()], proptest::option::of(len))
        .prop_map(|(slot, len)| SlotChange { slot, value: len.map(|len| Bytes::from(vec![7; len])) })
}

fn reads() -> impl Strategy<Value = PageReads> {
    (page(), slots(), version(), proptest::collection::vec((0..6u16, version()), 0..3))
        .prop_map(|(page, slots, evidence, exceptions)| PageReads { page, slots, evidence, exceptions })
}

/// A request that is often in order, so that it gets past the door.
fn request() -> impl Strategy<Value = CommitRequest> {
    let writes = proptest::collection::vec((page(), proptest::collection::vec(change(), 0..4)), 0..3);
    let parts = (1..3u64, 0..20u64, 0..4u64, proptest::collection::vec(reads(), 0..4), writes, any::<bool>());
    parts.prop_map(|(client, number, answered, mut reads, writes, tidy)| {
        let mut writes: Vec<_> = writes.into_iter().map(|(page, changes)| Delta { page, changes }).collect();
        if tidy {
            writes.sort_by_key(|delta| delta.page);
            writes.dedup_by_key(|delta| delta.page);
            for delta in &mut writes {
                delta.changes.sort_by_key(|change| change.slot);
                delta.changes.dedup_by_key(|change| change.slot);
                let slots = delta.changes.iter().map(|change| change.slot.min(1023)).collect();
                let evidence = reads.first().map_or(Version::ZERO, |reads| reads.evidence);
                reads.insert(0, PageReads { page: delta.page, slots, evidence, exceptions: vec![] });
            }
            reads.sort_by_key(|reads| reads.page);
            reads.dedup_by_key(|reads| reads.page);
        }
        CommitRequest {
            txn: TxnId { client: ClientId(client), number },
            incarnation: Incarnation(1),
            answered,
            reads,
            writes,
        }
    })
}

fn group() -> impl Strategy<Value = String> {
    prop_oneof![8 => "[xyz]", 1 => ".{0,80}"]
}

fn held() -> impl Strategy<Value = Vec<Held>> {
    proptest::collection::vec((page(), version()).prop_map(|(page, version)| Held { page, version }), 0..4)
}

/// The messages of redirectors, and those of members to them.
fn group_message() -> impl Strategy<Value = ToServer> {
    let epoch = prop_oneof![8 => 0..4u64, 1 => any::<u64>()];
    let client = || prop_oneof![8 => 1..9u64, 1 => any::<u64>()].prop_map(ClientId);
    let address = prop_oneof![8 => "[ab]", 1 => ".{0,300}"];
    let pages = || proptest::collection::vec(page(), 0..4);
    prop_oneof![
        4 => (any::<u64>(), counts(), held())
            .prop_map(|(number, horizon, pages)| ToServer::Revalidate(Revalidate { number, horizon, pages })),
        2 => client().prop_map(|client| ToServer::Departed(Departed { client })),
        2 => (client(), 0..20u64)
            .prop_map(|(client, number)| ToServer::AskOutcome(AskOutcome { txn: TxnId { client, number } })),
        3 => (group(), epoch, address)
            .prop_map(|(group, epoch, address)| ToServer::Lead(Lead { group, epoch, address })),
        2 => group().prop_map(|group| ToServer::FindLeader(FindLeader { group })),
        1 => prop_oneof![
            pages().prop_map(|pages| ToServer::NoHelp(NoHelp { requester: ClientId(1), number: 0, pages })),
            pages().prop_map(|pages| ToServer::Arrived(Arrived { pages: pages.iter().map(|&page| (page, 0)).collect() })),
            Just(ToServer::Reachable(Reachable::default())),
            (1..3u64, 0..9u64).prop_map(|(client, epoch)| group_hello(client, epoch)),
        ],
    ]
}

fn message() -> impl Strategy<Value = ToServer> {
    let pages = || proptest::collection::vec(page(), 0..6);
    let range = (page(), prop_oneof![8 => 0..5u32, 1 => any::<u32>()]);
    let ranges = proptest::collection::vec(range.prop_map(|(first, count)| PageRange { first, count }), 0..3);
    prop_oneof![
        8 => group_message(),
        12 => request().prop_map(ToServer::Commit),
        2 => (pages(), counts()).prop_map(|(pages, at_least)| ToServer::Fetch(Fetch { pages, at_least, number: 0 , follow: None})),
        2 => (counts(), held(), ranges, any::<bool>())
            .prop_map(|(horizon, pages, grants, last)| ToServer::Resume(Resume { horizon, pages, grants, last, missed: 0 })),
        1 => pages().prop_map(|pages| ToServer::Released(Released { pages })),
        1 => (0..3u32, prop_oneof![0..9u32, any::<u32>()]).prop_map(|(space, count)| ToServer::Grant(Grant { space, count })),
        1 => counts().prop_map(|through| ToServer::Ack(Ack { through })),
        1 => (1..3u64, 0..9u64).prop_map(|(client, epoch)| hello(client, epoch)),
        1 => (1..3u64, 0..20u64)
            .prop_map(|(client, number)| ToServer::AskOutcome(AskOutcome { txn: TxnId { client: ClientId(client), number } })),
        1 => any::<u64>().prop_map(|nonce| ToServer::Ping(Ping { nonce })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// For any messages of four peers, two of them redirectors, through crashes and write-back, the store stands, every
    /// page that it serves is one, and nothing is left outstanding.
    #[test]
    fn no_peer_can_break_the_store(says in proptest::collection::vec((1..5u64, message(), 0..8u8), 1..60)) {
        let mut driver = Driver::with(Config { mob_bytes_limit: 64 * 1024, recent_limit: 8, ..Config::default() });
        let mut sessions = [0; 5];
        let mut next = 1;
        for (client, message, then) in says {
            let mut session = SessionId(sessions[client as usize]);
            if session == SessionId(0) || driver.ended(session).is_some() {
                session =
                    if client > 2 { join_group(&mut driver, next, client, &[]) } else { driver.join(next, client) };
                sessions[client as usize] = next;
                next += 1;
            }
            driver.say(session, message);
            match then {
                0 => driver.run(),
                1 => driver.sync(),
                2 => driver.pass(Duration::from_secs(2)),
                3 => {
                    driver.crash();
                    sessions = [0; 5];
                }
                _ => {}
            }
        }
        driver.run();
        for session in driver.store.status().sessions {
            prop_assert_eq!(session.commits, 0, "{:?}", session);
            prop_assert!(session.vouched == 0 || session.client > ClientId(2), "{:?}", session);
        }
        let honest = driver.join(next, 9);
        for number in 0..6 {
            let page = PageId::new(0, number);
            driver.say(honest, Fetch { pages: vec![page], at_least: Version::ZERO.into(), number: 0 , follow: None});
            driver.run();
            for message in driver.take(honest) {
                if let ToClient::Page(page) = message {
                    prop_assert!(ObjectPage::parse(page.image).is_ok());
                }
            }
        }
    }
}
