//! The redirector's promises to its members and its store, where a conversation would be too long to read.

use machine::UpstreamId;
use messages::*;
use redirector::{Config, Output, Redirector};
use types::limits::{GRANTED_PAGES_MAX, GRANTS_PER_SESSION_MAX, NOTICES_PER_MESSAGE_MAX, PAGES_PER_MESSAGE_MAX};
use types::*;

const NOW: Time = Time(1_000_000_000);

fn drain(redirector: &mut Redirector) -> Vec<Output> {
    std::iter::from_fn(|| redirector.poll_output()).collect()
}

/// A redirector that leads, and has learned of everything through 10.
fn leading() -> Redirector {
    let config = Config { group: "site".into(), address: "here".into(), ..Config::default() };
    let mut redirector = Redirector::new(config, ClientId(99));
    redirector.upstream_connected(NOW, UpstreamId::ONLY);
    let welcome = Welcome {
        features: GROUP,
        cluster: ClusterId(1),
        node: NodeId(0),
        incarnation: Incarnation(1),
        lineage: Lineage::default(),
        sharding: Sharding::ONE,
        through: Version(10).into(),
        limits: SessionLimits { fetches: 1024, commits: 1024, silence_ms: 1500 },
    };
    let leader =
        |epoch, address: &str| ToClient::Leader(Leader { group: "site".into(), epoch, address: address.into() });
    let resumed = ToClient::Resumed(Resumed { through: Version(10).into(), dropped: vec![] });
    for message in [ToClient::Welcome(welcome), resumed, leader(0, ""), leader(1, "here")] {
        redirector.from_store(NOW, UpstreamId::ONLY, message);
    }
    drain(&mut redirector);
    redirector
}

/// A member that has said hello.
fn greet(redirector: &mut Redirector, session: u64, client: u64) -> SessionId {
    let (session, client) = (SessionId(session), ClientId(client));
    redirector.connected(NOW, session);
    let hello = Hello { features: 0, cluster: None, client, epoch: 1 };
    redirector.handle(NOW, session, ToServer::Hello(hello));
    session
}

/// A member that brings `count` pages at version 5.
fn bring(redirector: &mut Redirector, session: SessionId, horizon: Version, count: u32) {
    let pages: Vec<_> = (0..count).map(|number| Held { page: PageId::new(0, number), version: Version(5) }).collect();
    for resume in Resume::split(&horizon.into(), &pages, &[], 0, &Limits::SHIPPED) {
        redirector.handle(NOW, session, ToServer::Resume(resume));
    }
}

fn questions(outputs: Vec<Output>) -> Vec<Revalidate> {
    let question =
        |output| if let Output::Upstream(_, ToServer::Revalidate(question)) = output { Some(question) } else { None };
    outputs.into_iter().filter_map(question).collect()
}

#[test]
fn a_member_with_more_changed_pages_than_a_message_has_invalidations_resumes() {
    let mut redirector = leading();
    let member = greet(&mut redirector, 1, 7);
    let count = NOTICES_PER_MESSAGE_MAX + PAGES_PER_MESSAGE_MAX;
    bring(&mut redirector, member, Version(5), count as u32);
    let changed = |held: &Held| Invalidation {
        page: held.page,
        prev: held.version,
        version: Version(9),
        slots: [0].into_iter().collect(),
        txn: Invalidation::SEVERAL,
        data: None,
    };
    for question in questions(drain(&mut redirector)) {
        let items = question.pages.iter().map(changed).collect();
        let answer = Revalidated { number: question.number, items, dropped: vec![] };
        redirector.from_store(NOW, UpstreamId::ONLY, ToClient::Revalidated(answer));
    }
    let (mut told, mut resumed) = (0, false);
    for output in drain(&mut redirector) {
        match output {
            Output::Send { message: ToClient::Invalidations(batch), .. } => {
                assert!(
                    batch.items.len() <= NOTICES_PER_MESSAGE_MAX,
                    "{} invalidations in a message",
                    batch.items.len()
                );
                assert_eq!(batch.through, Version(5).into(), "the horizon moves when all is told");
                told += batch.items.len();
            }
            Output::Send { message: ToClient::Resumed(last), .. } => {
                assert_eq!((told, &last.through), (count, &Version(10).into()));
                resumed = true;
            }
            _ => {}
        }
    }
    assert!(resumed, "the member has joined");
}

/// The reasons for which members were sent away.
fn ended(redirector: &mut Redirector) -> Vec<GoodbyeReason> {
    let reason = |output| if let Output::End { reason, .. } = output { Some(reason) } else { None };
    drain(redirector).into_iter().filter_map(reason).collect()
}

#[test]
fn a_resume_is_bounded_over_all_its_messages() {
    let unfinished =
        |grants| ToServer::Resume(Resume { horizon: Version(5).into(), pages: vec![], grants, last: false, missed: 0 });
    let empty = |space| move |number| PageRange { first: PageId::new(space, number), count: 0 };
    let claiming = |space| unfinished((0..PAGES_PER_MESSAGE_MAX as u32).map(empty(space)).collect());
    // While the store is not reached what a member brings is kept.
    let config = || Config { group: "site".into(), address: "here".into(), ..Config::default() };
    for mut redirector in [leading(), Redirector::new(config(), ClientId(99))] {
        let member = greet(&mut redirector, 1, 7);
        for _ in 0..1000 {
            redirector.handle(NOW, member, unfinished(vec![]));
        }
        assert_eq!(ended(&mut redirector), [], "there is nothing in them");
        let most = GRANTED_PAGES_MAX / PAGES_PER_MESSAGE_MAX;
        for space in 0..most as u32 {
            redirector.handle(NOW, member, claiming(space));
        }
        assert_eq!(ended(&mut redirector), []);
        redirector.handle(NOW, member, claiming(0));
        assert_eq!(ended(&mut redirector), [GoodbyeReason::TooMuch]);
    }
}

#[test]
fn grants_that_a_member_waits_for_are_bounded() {
    let mut redirector = leading();
    let [one, other] = [(1, 7), (2, 8)].map(|(session, client)| greet(&mut redirector, session, client));
    for member in [one, other] {
        bring(&mut redirector, member, Version::ZERO, 0);
    }
    let grant = ToServer::Grant(Grant { space: 1, count: 1 });
    for _ in 0..GRANTS_PER_SESSION_MAX {
        redirector.handle(NOW, one, grant.clone());
    }
    assert_eq!(ended(&mut redirector), []);
    redirector.handle(NOW, other, grant.clone());
    redirector.handle(NOW, one, grant);
    assert_eq!(ended(&mut redirector), [GoodbyeReason::TooMuch]);
    let granted = Granted { ranges: vec![PageRange { first: PageId::new(1, 1), count: 1 }] };
    redirector.from_store(NOW, UpstreamId::ONLY, ToClient::Granted(granted));
    let served = drain(&mut redirector);
    let is_served =
        |output: &Output| matches!(output, Output::Send { to, message: ToClient::Granted(_) } if *to == other);
    assert!(served.iter().any(is_served), "the other waits for nobody: {served:?}");
}
