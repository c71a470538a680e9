//! Redirectors: vouching, the worth of a member's pages, and leadership.

use crate::driver::{Driver, ROOT, count, invalidations, txn};
use messages::{
    AskOutcome, CommitReply, Departed, FindLeader, GROUP, Held, Hello, Lead, Leader, Outcome, Resume, Revalidate,
    Revalidated, ToClient, ToServer, WATCH,
};
use std::time::Duration;
use store::{Config, SessionId};
use types::limits::{
    ADDRESS_BYTES_MAX, GROUP_NAME_BYTES_MAX, GROUPS_MAX, PAGES_PER_MESSAGE_MAX, VOUCHED_PER_SESSION_MAX,
};
use types::{ClientId, GoodbyeReason, Incarnation, Limits, PageId, Refusal, TxnId, Vector, Version};

/// A redirector's hello.
pub(crate) fn group_hello(client: u64, epoch: u64) -> ToServer {
    ToServer::Hello(Hello { features: GROUP, cluster: None, client: ClientId(client), epoch })
}

/// A redirector's session that has said hello. The disk does nothing in the meantime.
fn greet_group(driver: &mut Driver, session: u64, redirector: u64) -> SessionId {
    let id = SessionId(session);
    driver.store.connected(driver.now, id);
    driver.say(id, group_hello(redirector, session));
    driver.take(id);
    id
}

/// A redirector's session that holds these pages. The disk does nothing in the meantime.
pub(crate) fn join_group(driver: &mut Driver, session: u64, redirector: u64, pages: &[PageId]) -> SessionId {
    let id = greet_group(driver, session, redirector);
    let pages = pages.iter().map(|&page| Held { page, version: Version::ZERO }).collect();
    driver.say(id, Resume { horizon: Version::ZERO.into(), pages, grants: vec![], last: true, missed: 0 });
    driver.take(id);
    id
}

fn ask(client: u64, number: u64) -> ToServer {
    ToServer::AskOutcome(AskOutcome { txn: TxnId { client: ClientId(client), number } })
}

fn departed(client: u64) -> ToServer {
    ToServer::Departed(Departed { client: ClientId(client) })
}

fn revalidate(horizon: u64, pages: &[(PageId, u64)]) -> ToServer {
    let pages = pages.iter().map(|&(page, version)| Held { page, version: Version(version) }).collect();
    ToServer::Revalidate(Revalidate { number: 7, horizon: Version(horizon).into(), pages })
}

fn lead(group: &str, epoch: u64, address: &str) -> ToServer {
    ToServer::Lead(Lead { group: group.into(), epoch, address: address.into() })
}

fn find(group: &str) -> ToServer {
    ToServer::FindLeader(FindLeader { group: group.into() })
}

fn leader(group: &str, epoch: u64, address: &str) -> ToClient {
    ToClient::Leader(Leader { group: group.into(), epoch, address: address.into() })
}

/// The store's answers, all disk work done.
fn answers(driver: &mut Driver, session: SessionId, message: ToServer) -> Vec<ToClient> {
    driver.take(session);
    driver.say(session, message);
    driver.run();
    driver.take(session)
}

fn outcomes(messages: &[ToClient]) -> Vec<Outcome> {
    let outcome = |message: &ToClient| match message {
        ToClient::CommitReply(CommitReply { outcome, .. }) => Some(outcome.clone()),
        _ => None,
    };
    messages.iter().filter_map(outcome).collect()
}

/// Time passes, and these sessions show that they live.
fn pass(driver: &mut Driver, duration: Duration, alive: &[SessionId]) {
    for _ in 0..60 {
        driver.pass(duration / 60);
        for &session in alive {
            driver.ping(session);
        }
    }
}

fn grace() -> Duration {
    Config::default().grace
}

#[test]
fn the_features_of_a_hello_that_both_know_are_agreed() {
    let mut driver = Driver::new();
    for (session, features, agreed) in [(1, GROUP, GROUP), (2, !0, GROUP), (3, !GROUP, WATCH), (4, !(GROUP | WATCH), 0)]
    {
        let id = SessionId(session);
        let hello = Hello { features, cluster: None, client: ClientId(session), epoch: 1 };
        driver.store.connected(driver.now, id);
        driver.say(id, hello);
        assert!(
            matches!(&driver.take(id)[..], [ToClient::Welcome(welcome)] if welcome.features == agreed),
            "{features}"
        );
    }
}

#[test]
fn a_group_asks_for_its_members() {
    let mut driver = Driver::new();
    let g = join_group(&mut driver, 1, 100, &[ROOT]);
    let (first, second) = (txn(1, 1).write(ROOT, 0, 0, b"x"), txn(2, 1).write(ROOT, 1, 0, b"y"));
    assert_eq!(count(&driver.commit(g, &first)), 1);
    assert_eq!(count(&driver.commit(g, &second)), 2);
    assert_eq!(driver.commit(g, &txn(2, 2).read(ROOT, 0, 1)), Outcome::Committed { pages: vec![] });
    assert_eq!(count(&outcomes(&answers(&mut driver, g, ask(1, 1)))[0]), 1);
    assert_eq!(invalidations(&driver.ping(g)), [], "the replies stand for the invalidations");
}

#[test]
fn a_message_of_redirectors_ends_a_plain_session() {
    let only_groups =
        [departed(1), revalidate(0, &[]), lead("x", 1, "a"), ask(2, 1), txn(2, 1).read(ROOT, 0, 0).message()];
    for message in only_groups {
        let mut driver = Driver::new();
        let a = driver.join(1, 1);
        driver.say(a, message.clone());
        assert_eq!(driver.ended(a), Some(GoodbyeReason::Malformed), "{message:?}");
    }
}

#[test]
fn a_message_that_no_redirector_sends_ends_its_session() {
    let many = vec![(ROOT, 0); PAGES_PER_MESSAGE_MAX + 1];
    let malformed = [
        ("too many pages", revalidate(0, &many)),
        ("a group without a name", lead("", 1, "a")),
        ("a long name", lead(&"x".repeat(GROUP_NAME_BYTES_MAX + 1), 1, "a")),
        ("no address", lead("x", 1, "")),
        ("a long address", lead("x", 1, &"a".repeat(ADDRESS_BYTES_MAX + 1))),
        ("epoch zero", lead("x", 0, "a")),
        ("an epoch that nobody could exceed", lead("x", u64::MAX, "a")),
        ("a search without a name", find("")),
        ("a search for a long name", find(&"x".repeat(GROUP_NAME_BYTES_MAX + 1))),
    ];
    for (name, message) in malformed {
        let mut driver = Driver::new();
        let g = join_group(&mut driver, 1, 100, &[]);
        driver.say(g, message);
        assert_eq!(driver.ended(g), Some(GoodbyeReason::Malformed), "{name}");
    }
}

#[test]
fn a_session_leads_one_group() {
    let mut driver = Driver::new();
    let g = join_group(&mut driver, 1, 100, &[]);
    answers(&mut driver, g, lead("x", 1, "a"));
    driver.say(g, lead("y", 1, "a"));
    assert_eq!(driver.ended(g), Some(GoodbyeReason::Malformed));
}

// Vouching. ------------------------------------------------------------------------------------------------

/// Whether the store still knows what became of the transaction that `client` committed first.
fn is_remembered(driver: &mut Driver, session: SessionId, client: u64) -> bool {
    let outcome = outcomes(&answers(driver, session, ask(client, 1))).remove(0);
    matches!(outcome, Outcome::Committed { .. })
}

#[test]
fn members_of_a_group_that_is_gone_have_the_grace_to_come_back() {
    for (duration, remembered) in [(grace() / 2, true), (grace(), false)] {
        let mut driver = Driver::new();
        let g = join_group(&mut driver, 1, 100, &[]);
        driver.commit(g, &txn(1, 1).write(ROOT, 0, 0, b"x"));
        pass(&mut driver, 2 * grace(), &[g]);
        driver.hang_up(g);
        driver.pass(duration);
        let again = join_group(&mut driver, 2, 101, &[]);
        assert_eq!(is_remembered(&mut driver, again, 1), remembered, "after {duration:?}");
    }
}

#[test]
fn a_member_that_has_departed_has_the_grace_to_come_back() {
    let mut driver = Driver::new();
    let g = join_group(&mut driver, 1, 100, &[]);
    driver.commit(g, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    driver.commit(g, &txn(2, 1).write(ROOT, 1, 0, b"y"));
    driver.say(g, departed(1));
    driver.say(g, departed(2));
    // Of whom the store has never heard, or has heard already, that is no news.
    driver.say(g, departed(9));
    driver.say(g, departed(1));
    pass(&mut driver, grace() / 2, &[g]);
    assert!(is_remembered(&mut driver, g, 2), "it comes back in time");
    pass(&mut driver, grace() / 2, &[g]);
    assert!(!is_remembered(&mut driver, g, 1));
    assert!(is_remembered(&mut driver, g, 2));
}

/// A client that has its own session and is vouched for, or is vouched for twice, is there until the last one ends,
/// whichever that is.
#[test]
fn a_client_that_moves_is_there_until_the_last_who_speaks_for_it_ends() {
    type Move = fn(&mut Driver) -> [SessionId; 2];
    let to_a_group: Move = |driver| [driver.join(1, 1), join_group(driver, 2, 100, &[])];
    let from_a_group: Move = |driver| {
        let g = join_group(driver, 2, 100, &[]);
        driver.say(g, ask(1, 1));
        [driver.join(1, 1), g]
    };
    let between_groups: Move = |driver| [join_group(driver, 1, 100, &[]), join_group(driver, 2, 101, &[])];
    for (name, start) in [("to", to_a_group), ("from", from_a_group), ("between", between_groups)] {
        for first_to_end in [0, 1] {
            let mut driver = Driver::new();
            let speakers = start(&mut driver);
            for speaker in speakers {
                driver.commit(speaker, &txn(1, 1).write(ROOT, 0, 0, b"x"));
            }
            let left = speakers[1 - first_to_end];
            driver.hang_up(speakers[first_to_end]);
            pass(&mut driver, 2 * grace(), &[left]);
            driver.hang_up(left);
            driver.pass(grace() / 2);
            let g = join_group(&mut driver, 3, 102, &[]);
            assert!(is_remembered(&mut driver, g, 1), "{name} {first_to_end}");
            driver.hang_up(g);
            driver.pass(grace());
            let g = join_group(&mut driver, 4, 103, &[]);
            assert!(!is_remembered(&mut driver, g, 1), "{name} {first_to_end}");
        }
    }
}

/// A departure that is told late, when the client is back by itself, means nothing for that session.
#[test]
fn a_late_departure_does_not_touch_a_clients_own_session() {
    let mut driver = Driver::new();
    let g = join_group(&mut driver, 1, 100, &[]);
    driver.commit(g, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    let own = driver.join(2, 1);
    let pages = driver.grant(own, 2);
    driver.say(g, departed(1));
    pass(&mut driver, 2 * grace(), &[g, own]);
    assert!(is_remembered(&mut driver, own, 1));
    assert_eq!(driver.ended(own), None);
    let other = driver.join(3, 3);
    assert!(!driver.grant(other, 2).contains(&pages[0]), "its grants are its own");
}

#[test]
fn a_group_vouches_for_so_many_and_then_for_the_latest() {
    let mut driver = Driver::new();
    let g = join_group(&mut driver, 1, 100, &[]);
    driver.commit(g, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    driver.commit(g, &txn(2, 1).write(ROOT, 1, 0, b"y"));
    for client in 1000..1000 + VOUCHED_PER_SESSION_MAX as u64 - 2 {
        driver.say(g, ask(client, 1));
    }
    driver.say(g, ask(1, 1));
    driver.say(g, ask(3, 1));
    assert_eq!(driver.ended(g), None);
    assert_eq!(driver.store.status().sessions[0].vouched, VOUCHED_PER_SESSION_MAX);
    pass(&mut driver, grace(), &[g]);
    assert!(is_remembered(&mut driver, g, 1), "named again, it is not the one");
    assert!(!is_remembered(&mut driver, g, 2));
}

/// A client is forgotten while its commit is under way. The state that is kept for the commit is kept for one more
/// grace.
#[test]
fn a_commit_that_outlives_its_clients_grace_is_remembered_for_another() {
    for (duration, remembered) in [(grace() / 2, true), (grace(), false)] {
        let mut driver = Driver::new();
        let g = join_group(&mut driver, 1, 100, &[]);
        driver.run();
        driver.say(g, txn(1, 1).write(ROOT, 0, 0, b"x").message());
        driver.hang_up(g);
        driver.now = driver.now + grace();
        driver.store.handle_timeout(driver.now);
        driver.run();
        driver.pass(duration);
        let g = join_group(&mut driver, 2, 101, &[]);
        assert_eq!(is_remembered(&mut driver, g, 1), remembered, "after {duration:?}");
    }
}

// Commits on two paths. ----------------------------------------------------------------------------------------------

/// A client moves while its request is on its way, and sends it again: whichever copy comes last, both paths are
/// answered, for nobody knows on which the client listens.
#[test]
fn a_copy_on_the_old_path_takes_no_answer_away() {
    for own_first in [true, false] {
        let mut driver = Driver::new();
        let (own, g, h) = (driver.join(1, 1), join_group(&mut driver, 2, 100, &[ROOT]), driver.join(3, 3));
        driver.fetch(own, ROOT);
        driver.fetch(h, ROOT);
        driver.take(g);
        let request = txn(1, 1).write(ROOT, 0, 0, b"x");
        for session in if own_first { [own, g] } else { [g, own] } {
            driver.say(session, request.message());
        }
        driver.run();
        for session in [own, g] {
            let told = driver.take(session);
            assert_eq!(outcomes(&told).len(), 1);
            assert_eq!(count(&outcomes(&told)[0]), 1);
            assert_eq!(
                invalidations(&driver.ping(session)),
                [],
                "it has sent the request: the reply stands for the invalidation"
            );
        }
        assert_eq!(invalidations(&driver.ping(h)).len(), 1);
        assert_eq!(driver.store.stats().commits, 1);
        assert!(driver.store.status().sessions.iter().all(|session| session.commits == 0));
    }
}

/// Its client has heard that it has no effect, on the new path: the copy on the old one must not give it one.
#[test]
pub(crate) fn a_copy_of_a_refused_request_is_refused() {
    // Nobody waits for what is being committed.
    let limits = Limits { commits_in_turn: 0, ..Limits::SHIPPED };
    let mut driver = Driver::with(Config { limits, ..Config::default() });
    let (own, g, h) = (driver.join(1, 1), join_group(&mut driver, 2, 100, &[]), driver.join(3, 3));
    driver.say(h, txn(3, 1).write(ROOT, 0, 0, b"theirs").message());
    let request = txn(1, 1).read(ROOT, 0, 0).write(ROOT, 5, 0, b"mine");
    driver.say(own, request.message());
    assert_eq!(driver.outcome(own), Some(Outcome::Refused(Refusal::Busy)));
    driver.run();
    // Were it judged again, it would be found stale by now. One that nobody got in the way of would commit.
    assert_eq!(driver.commit(g, &request), Outcome::Refused(Refusal::Busy));
    let beyond = PageId::new(0, 1);
    let early = txn(1, 2).write(beyond, 0, 0, b"x");
    assert_eq!(driver.commit(own, &early), Outcome::Refused(Refusal::NoSuchPage(beyond)));
    assert_eq!(driver.grant(h, 1), [beyond]);
    assert_eq!(driver.commit(g, &early), Outcome::Refused(Refusal::NoSuchPage(beyond)));
    // When the client says that it has the answer, the copy is of no interest to anyone.
    driver.commit(own, &txn(1, 3).read(ROOT, 7, 1).answered(3));
    assert_eq!(driver.commit(g, &early), Outcome::Unknown);
    assert_eq!(driver.value(own, beyond, 0), None);
}

/// The refusal is forgotten with the store's process, and with it every copy that was sent to that one; a commit is not
/// forgotten, and its copies are answered.
#[test]
pub(crate) fn a_copy_that_was_sent_before_a_restart_has_lapsed() {
    let mut driver = Driver::new();
    let beyond = PageId::new(0, 1);
    let own = driver.join(1, 1);
    let (done, early) = (txn(1, 1).write(ROOT, 0, 0, b"done").to(1), txn(1, 2).write(beyond, 0, 0, b"x"));
    assert!(matches!(driver.commit(own, &done), Outcome::Committed { .. }));
    assert_eq!(driver.commit(own, &early.clone().to(1)), Outcome::Refused(Refusal::NoSuchPage(beyond)));
    driver.crash();
    let (g, own) = (join_group(&mut driver, 2, 100, &[]), driver.join(3, 1));
    assert_eq!(driver.grant(own, 1), [beyond]);
    assert_eq!(driver.commit(g, &early.clone().to(1)), Outcome::Refused(Refusal::Lapsed(Incarnation(2))));
    assert!(matches!(driver.commit(g, &done), Outcome::Committed { .. }));
    // Its client still wants it, and says so.
    assert!(matches!(driver.commit(g, &early.clone().to(2)), Outcome::Committed { .. }));
    assert!(matches!(driver.commit(g, &early.to(1)), Outcome::Committed { .. }));
}

/// The group's session ends while a commit of it is under way, and the group comes back before the commit is durable,
/// with the same redirector or another: it is told by an invalidation, as it has no reply.
#[test]
fn a_commit_that_outlives_its_groups_session_is_told_to_the_next_one() {
    for redirector in [100, 101] {
        let mut driver = Driver::new();
        let g = join_group(&mut driver, 1, 100, &[ROOT]);
        driver.run();
        let request = txn(1, 1).write(ROOT, 0, 0, b"x");
        driver.say(g, request.message());
        driver.hang_up(g);
        let again = join_group(&mut driver, 2, redirector, &[ROOT]);
        driver.run();
        let told = invalidations(&driver.ping(again));
        assert_eq!(told.iter().map(|invalidation| invalidation.txn).collect::<Vec<_>>(), [request.0.txn]);
        assert_eq!(count(&driver.commit(again, &request)), 1, "and the copy has its outcome");
    }
}

/// The next session sends the request again before the first copy is durable: the reply stands for the invalidation. If
/// it only asks for the outcome, it does not know what its member has written, and its other members must hear that.
#[test]
pub(crate) fn a_reply_stands_for_the_invalidation_to_whom_has_the_request() {
    let request = txn(1, 1).write(ROOT, 3, 0, b"x");
    for (message, told) in [(request.message(), 0), (ask(1, 1), 1)] {
        let mut driver = Driver::new();
        let g = join_group(&mut driver, 1, 100, &[ROOT]);
        driver.run();
        driver.say(g, request.message());
        driver.hang_up(g);
        let again = join_group(&mut driver, 2, 101, &[ROOT]);
        driver.say(again, message);
        driver.run();
        // A session that is told by an invalidation is told before the answer.
        let received = driver.take(again);
        let answer = received.iter().position(|message| matches!(message, ToClient::CommitReply(_))).unwrap();
        assert_eq!(count(&outcomes(&received)[0]), 1);
        assert_eq!(invalidations(&received[..answer]).len(), told);
        assert!(invalidations(&received).iter().all(|invalidation| invalidation.slots.contains(3)));
        assert_eq!(invalidations(&[&received[answer..], &driver.ping(again)].concat()), []);
    }
    // A session that has the request and asks for the outcome too has it all the same.
    let mut driver = Driver::new();
    let g = join_group(&mut driver, 1, 100, &[ROOT]);
    driver.say(g, request.message());
    driver.say(g, ask(1, 1));
    driver.run();
    assert_eq!(outcomes(&driver.take(g)).len(), 1);
    assert_eq!(invalidations(&driver.ping(g)), []);
}

/// A request that writes something else comes under the identity of one under way: by another redirector, which would
/// tell its members of that as of what was committed. It is told that nobody knows, and learns of the commit by
/// invalidation.
#[test]
pub(crate) fn another_request_under_the_same_identity_is_no_copy() {
    let mut driver = Driver::new();
    let [one, other] = [1, 2].map(|session| join_group(&mut driver, session, 100 + session, &[ROOT]));
    driver.run();
    driver.say(one, txn(1, 1).write(ROOT, 3, 0, b"x").message());
    driver.say(other, txn(1, 1).write(ROOT, 3, 0, b"forged").message());
    driver.run();
    assert_eq!(count(&outcomes(&driver.take(one))[0]), 1);
    let mut received = driver.take(other);
    assert_eq!(outcomes(&received), [Outcome::Unknown]);
    received.extend(driver.ping(other));
    assert!(invalidations(&received).iter().any(|invalidation| invalidation.slots.contains(3)));
}

/// Sessions that ask for one commit are bounded, and the last to ask is answered.
#[test]
fn a_few_sessions_are_answered_for_one_commit() {
    let mut driver = Driver::new();
    let groups: Vec<_> = (1..=9).map(|session| join_group(&mut driver, session, 100 + session, &[])).collect();
    driver.run();
    for &g in &groups {
        driver.say(g, txn(1, 1).write(ROOT, 0, 0, b"x").message());
    }
    driver.run();
    let answered: Vec<_> = groups.iter().map(|&g| outcomes(&driver.take(g)).len()).collect();
    assert_eq!(answered, [0, 0, 0, 0, 0, 1, 1, 1, 1]);
    assert!(driver.store.status().sessions.iter().all(|session| session.commits == 0));
}

// Members that bring pages. ------------------------------------------------------------------------------------------

fn revalidated(messages: &[ToClient]) -> &Revalidated {
    match messages.last() {
        Some(ToClient::Revalidated(revalidated)) => revalidated,
        other => panic!("expected to be revalidated, got {other:?}"),
    }
}

#[test]
fn a_members_pages_are_compared_and_held() {
    let mut driver = Driver::new();
    let (a, g) = (driver.join(1, 1), join_group(&mut driver, 2, 100, &[]));
    let [old, new] = driver.grant(a, 2)[..] else { panic!("expected two pages") };
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    driver.commit(a, &txn(1, 2).write(ROOT, 7, 0, b"y"));
    driver.commit(a, &txn(1, 3).write(new, 1, 0, b"z"));
    let beyond = PageId::new(0, 77);
    let messages = answers(&mut driver, g, revalidate(0, &[(ROOT, 1), (old, 0), (new, 3), (beyond, 0)]));
    assert!(
        matches!(&messages[0], ToClient::Invalidations(batch) if batch.through == Version(3).into()),
        "{messages:?}"
    );
    let answer = revalidated(&messages);
    assert_eq!((answer.number, &answer.dropped[..]), (7, &[beyond][..]));
    assert_eq!(answer.items.len(), 1);
    let missed = &answer.items[0];
    assert_eq!((missed.page, missed.prev, missed.version), (ROOT, Version(1), Version(2)));
    assert_eq!(missed.slots, [7].into_iter().collect());
    assert_eq!((missed.txn.number, &missed.data), (0, &None));
    // From here on the group is notified of them like any holder.
    driver.commit(a, &txn(1, 4).write(old, 0, 0, b"x").write(ROOT, 1, 2, b"w"));
    assert_eq!(invalidations(&driver.ping(g)).len(), 2);
    assert!(!driver.store.lists(g, beyond));
}

/// The session is the whole group's: a forged message of one member does not end it.
#[test]
fn pages_that_a_member_has_made_up_are_dropped() {
    let mut driver = Driver::new();
    let (a, g) = (driver.join(1, 1), join_group(&mut driver, 2, 100, &[]));
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    for made_up in [revalidate(2, &[(ROOT, 1)]), revalidate(0, &[(ROOT, 2)])] {
        let messages = answers(&mut driver, g, made_up);
        assert_eq!(revalidated(&messages).dropped, [ROOT]);
        assert!(!driver.store.lists(g, ROOT));
    }
    let messages = answers(&mut driver, g, revalidate(9, &[]));
    assert_eq!(revalidated(&messages).dropped, []);
    assert_eq!(driver.ended(g), None);
}

/// The count that the member has heard counts like what its page shows.
#[test]
fn a_members_horizon_proves_as_much_as_its_pages() {
    let mut driver = Driver::new();
    let (a, g) = (driver.join(1, 1), join_group(&mut driver, 2, 100, &[]));
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    driver.commit(a, &txn(1, 2).write(ROOT, 7, 0, b"y"));
    let missed = revalidated(&answers(&mut driver, g, revalidate(1, &[(ROOT, 0)]))).items.clone();
    assert_eq!((missed[0].prev, missed[0].slots.clone()), (Version(0), [7].into_iter().collect()));
    let current = answers(&mut driver, g, revalidate(2, &[(ROOT, 0)]));
    assert_eq!(revalidated(&current).items, []);
}

/// Notices that wait for the group leave before the answer, as they say what its other members must hear first.
#[test]
fn an_answer_to_a_member_comes_after_all_invalidations() {
    let mut driver = Driver::new();
    let (a, g) = (driver.join(1, 1), join_group(&mut driver, 2, 100, &[ROOT]));
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    let messages = answers(&mut driver, g, revalidate(0, &[(ROOT, 0)]));
    assert!(
        matches!(&messages[..], [ToClient::Invalidations(batch), ToClient::Revalidated(answer)]
            if batch.through == Version(1).into() && batch.items.len() == 1 && answer.items.len() == 1),
        "{messages:?}"
    );
}

/// A page that the store can no longer compare is dropped: the group holds it only if it did before, for other members.
#[test]
fn a_page_that_a_member_drops_is_held_on_for_the_others() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let page = driver.grant(a, 1)[0];
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x").write(page, 0, 0, b"x"));
    driver.commit(a, &txn(1, 2).write(ROOT, 0, 1, b"y").write(page, 0, 1, b"y"));
    driver.crash();
    let g = join_group(&mut driver, 2, 100, &[]);
    driver.fetch(g, ROOT);
    let answer = answers(&mut driver, g, revalidate(0, &[(ROOT, 1), (page, 1)]));
    assert_eq!(revalidated(&answer).dropped, [ROOT, page]);
    assert_eq!(revalidated(&answer).items, []);
    assert!(driver.store.lists(g, ROOT), "another member holds it");
    assert!(!driver.store.lists(g, page));
}

#[test]
fn a_member_waits_until_its_group_has_joined() {
    let mut driver = Driver::new();
    let g = greet_group(&mut driver, 1, 100);
    driver.say(g, revalidate(0, &[]));
    assert_eq!(driver.ended(g), Some(GoodbyeReason::Malformed));
}

// Leadership. ---------------------------------------------------------------------------------------------------------

#[test]
fn anyone_may_ask_who_leads() {
    let mut driver = Driver::new();
    let (a, g) = (driver.join(1, 1), join_group(&mut driver, 2, 100, &[]));
    assert_eq!(answers(&mut driver, a, find("x")), [leader("x", 0, "")]);
    assert_eq!(answers(&mut driver, g, lead("x", 4, "here")), [leader("x", 4, "here")]);
    assert_eq!(answers(&mut driver, a, find("x")), [leader("x", 4, "here")]);
    assert_eq!(answers(&mut driver, a, find("y")), [leader("y", 0, "")]);
}

#[test]
fn of_two_who_lead_the_higher_epoch_lives() {
    let mut driver = Driver::new();
    let [old, new, late, lower] = [1, 2, 3, 4].map(|n| join_group(&mut driver, n, 100 + n, &[]));
    answers(&mut driver, old, lead("x", 1, "old"));
    driver.run();
    assert_eq!(answers(&mut driver, new, lead("x", 2, "new")), [leader("x", 2, "new")]);
    assert_eq!(driver.ended(old), Some(GoodbyeReason::Superseded));
    let last_words = driver.take(old);
    let [told, ToClient::Goodbye(goodbye)] = &last_words[..] else { panic!("{last_words:?}") };
    assert_eq!(*told, leader("x", 2, "new"), "its members are to find the way");
    assert_eq!(goodbye.text, "epoch 2 of group \"x\" has taken over, at new");
    // One epoch has one leader, and a lower one none: both are told who it is.
    for (loser, epoch) in [(late, 2), (lower, 1)] {
        let answer = answers(&mut driver, loser, lead("x", epoch, "loser"));
        assert!(matches!(&answer[..], [first, ToClient::Goodbye(_)] if *first == leader("x", 2, "new")), "{answer:?}");
        assert_eq!(driver.ended(loser), Some(GoodbyeReason::Superseded));
    }
    assert_eq!(driver.ended(new), None);
    pass(&mut driver, 2 * grace(), &[new]);
    assert_eq!(answers(&mut driver, new, find("x")), [leader("x", 2, "new")], "the end of the others is not its own");
    // The leader may continue with a higher epoch itself.
    assert_eq!(answers(&mut driver, new, lead("x", 3, "new")), [leader("x", 3, "new")]);
    assert_eq!(driver.ended(new), None);
}

#[test]
fn a_redirector_whose_link_was_lost_goes_on_with_its_epoch() {
    let mut driver = Driver::new();
    let g = join_group(&mut driver, 1, 100, &[]);
    answers(&mut driver, g, lead("x", 5, "here"));
    driver.hang_up(g);
    let a = driver.join(2, 1);
    assert_eq!(answers(&mut driver, a, find("x")), [leader("x", 5, "")], "its epoch is remembered in the meantime");
    let again = join_group(&mut driver, 3, 100, &[]);
    assert_eq!(answers(&mut driver, again, lead("x", 5, "there")), [leader("x", 5, "there")]);
    // It has come back before the store has noticed that it was gone.
    let once_more = join_group(&mut driver, 4, 100, &[]);
    assert_eq!(answers(&mut driver, once_more, lead("x", 5, "there")), [leader("x", 5, "there")]);
    assert_eq!(driver.ended(once_more), None);
}

#[test]
fn a_group_without_a_leader_is_forgotten_after_the_grace() {
    let mut driver = Driver::new();
    let (a, g) = (driver.join(1, 1), join_group(&mut driver, 2, 100, &[]));
    answers(&mut driver, g, lead("x", 5, "here"));
    pass(&mut driver, 2 * grace(), &[a, g]);
    driver.hang_up(g);
    pass(&mut driver, grace() / 2, &[a]);
    assert_eq!(answers(&mut driver, a, find("x")), [leader("x", 5, "")]);
    pass(&mut driver, grace() / 2, &[a]);
    assert_eq!(answers(&mut driver, a, find("x")), [leader("x", 0, "")]);
    let other = join_group(&mut driver, 3, 101, &[]);
    assert_eq!(answers(&mut driver, other, lead("x", 1, "there")), [leader("x", 1, "there")]);
}

/// Nothing of it survives a restart: the first claim counts, and a later one with a higher epoch.
#[test]
fn after_a_restart_the_first_claim_counts_until_a_higher_one_comes() {
    let mut driver = Driver::new();
    let g = join_group(&mut driver, 1, 100, &[]);
    answers(&mut driver, g, lead("x", 5, "here"));
    driver.crash();
    let old = join_group(&mut driver, 2, 99, &[]);
    assert_eq!(answers(&mut driver, old, lead("x", 4, "old")), [leader("x", 4, "old")]);
    let g = join_group(&mut driver, 3, 100, &[]);
    assert_eq!(answers(&mut driver, g, lead("x", 5, "here")), [leader("x", 5, "here")]);
    assert_eq!(driver.ended(old), Some(GoodbyeReason::Superseded));
}

/// Peers that claim one name after another: the store's memory is bounded, and the leader keeps its place.
#[test]
fn groups_without_a_leader_make_room() {
    let mut driver = Driver::new();
    let leads = join_group(&mut driver, 1, 100, &[]);
    answers(&mut driver, leads, lead("led", 1, "here"));
    let names: Vec<_> = (0..GROUPS_MAX as u64).map(|n| format!("gone {n}")).collect();
    for (session, name) in (2..).zip(&names) {
        let g = join_group(&mut driver, session, 101, &[]);
        answers(&mut driver, g, lead(name, 1, "there"));
        driver.hang_up(g);
        driver.now = driver.now + Duration::from_millis(1);
    }
    let epoch_of = |driver: &mut Driver, name: &str| match &answers(driver, leads, find(name))[..] {
        [ToClient::Leader(leader)] => leader.epoch,
        other => panic!("expected a leader, got {other:?}"),
    };
    assert_eq!(epoch_of(&mut driver, "led"), 1);
    assert_eq!(epoch_of(&mut driver, &names[0]), 0, "gone for longest");
    assert_eq!(epoch_of(&mut driver, &names[1]), 1);
    assert_eq!(epoch_of(&mut driver, names.last().expect("names")), 1);
}

// The operator's view. ---------------------------------------------------------------------------------------------

#[test]
fn the_status_says_how_each_session_stands() {
    let mut driver = Driver::new();
    let (a, g) = (driver.join(1, 1), join_group(&mut driver, 2, 100, &[]));
    driver.store.connected(driver.now, SessionId(3));
    let greeted = greet_group(&mut driver, 4, 104);
    driver.grant(a, 3);
    driver.fetch(g, ROOT);
    answers(&mut driver, g, lead("x", 5, "here"));
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    driver.commit(a, &txn(1, 2).write(ROOT, 0, 0, b"late"));
    driver.say(a, messages::Ack { through: Version(1).into() });
    driver.say(g, txn(7, 1).write(ROOT, 5, 0, b"y").message());
    driver.say(a, messages::Fetch { pages: vec![ROOT], at_least: Version(9).into(), number: 0, follow: None });
    let status = driver.store.status();
    assert_eq!((status.applied, status.pruned), (Version(1).into(), Vector::new()));
    assert_eq!(status.refusals.into_iter().collect::<Vec<_>>(), [("stale", 1)]);
    let [of_a, of_g, of_greeted] = &status.sessions[..] else { panic!("expected three: {:?}", status.sessions) };
    assert_eq!((of_a.session, of_a.client, &of_a.leads), (a, ClientId(1), &None));
    assert_eq!((of_a.pages, of_a.fetches, of_a.commits, of_a.invalidations), (3, 1, 0, 0));
    assert_eq!((of_a.acked.clone(), of_a.vouched), (Some(Version(1).into()), 0));
    let leads = Leader { group: "x".into(), epoch: 5, address: "here".into() };
    assert_eq!((of_g.session, of_g.client, &of_g.leads), (g, ClientId(100), &Some(leads)));
    assert_eq!((of_g.pages, of_g.fetches, of_g.commits, of_g.invalidations), (1, 0, 1, 1));
    assert_eq!((of_g.acked.clone(), of_g.vouched), (Some(Vector::new()), 1));
    assert_eq!((of_greeted.session, of_greeted.acked.clone()), (greeted, None));
    // A redirector that leads no longer is not named.
    let other = join_group(&mut driver, 5, 105, &[]);
    answers(&mut driver, other, lead("x", 6, "there"));
    let leaders: Vec<_> = driver.store.status().sessions.into_iter().filter_map(|session| session.leads).collect();
    assert_eq!(leaders, [Leader { group: "x".into(), epoch: 6, address: "there".into() }]);
}
