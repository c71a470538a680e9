//! Sessions that begin, resume, fall silent and are fenced off.

use crate::driver::{CLUSTER, Driver, ROOT, count, hello, invalidations, txn};
use messages::{Ack, Held, Hello, Released, Resume, ToClient, ToServer};
use std::time::Duration;
use store::{Config, SessionId};
use types::limits::SESSIONS_MAX;
use types::{ClientId, ClusterId, GoodbyeReason, PageId, Version};

fn greeted(driver: &mut Driver, session: u64, hello: Hello) -> Option<GoodbyeReason> {
    let id = SessionId(session);
    driver.store.connected(driver.now, id);
    driver.say(id, hello);
    driver.ended(id)
}

#[test]
fn a_hello_is_checked() {
    let mut driver = Driver::new();
    let good = Hello { features: 0, cluster: Some(CLUSTER), client: ClientId(1), epoch: 1 };
    let stranger = Hello { cluster: Some(ClusterId(8)), ..good.clone() };
    assert_eq!(greeted(&mut driver, 2, stranger), Some(GoodbyeReason::WrongCluster));
    assert_eq!(greeted(&mut driver, 3, good), None);
    assert!(
        matches!(&driver.take(SessionId(3))[..], [ToClient::Welcome(w)] if w.cluster == CLUSTER && w.features == 0)
    );
    let said = driver.take(SessionId(2));
    assert!(matches!(&said[..], [ToClient::Goodbye(g)] if g.reason == GoodbyeReason::WrongCluster));
}

#[test]
fn of_two_sessions_of_one_client_the_higher_epoch_lives() {
    let mut driver = Driver::new();
    let old = driver.greet(1, 1, 5);
    let new = driver.greet(2, 1, 6);
    assert_eq!(driver.ended(old), Some(GoodbyeReason::Superseded));
    assert_eq!(driver.ended(new), None);
    // The old one is fenced off, even when the new one is gone.
    driver.hang_up(new);
    let late = driver.greet(3, 1, 5);
    assert_eq!(driver.ended(late), Some(GoodbyeReason::Superseded));
    assert_eq!(driver.ping(old), []);
}

#[test]
fn a_full_node_takes_no_more_sessions() {
    let mut driver = Driver::new();
    for session in 0..SESSIONS_MAX as u64 {
        driver.store.connected(driver.now, SessionId(session));
    }
    let one_more = SessionId(SESSIONS_MAX as u64);
    driver.store.connected(driver.now, one_more);
    driver.run();
    assert_eq!(driver.ended(one_more), Some(GoodbyeReason::Full));
}

#[test]
fn a_silent_session_is_dead_and_a_ping_is_a_sign_of_life() {
    let mut driver = Driver::new();
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    driver.fetch(a, ROOT);
    for _ in 0..12 {
        driver.pass(Duration::from_secs(1));
        driver.ping(b);
    }
    assert_eq!(driver.ended(a), Some(GoodbyeReason::Silent));
    assert_eq!(driver.ended(b), None);
    assert!(!driver.store.lists(a, ROOT), "the dead hold nothing");
}

#[test]
fn a_released_page_is_told_about_no_more() {
    let mut driver = Driver::new();
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    driver.fetch(b, ROOT);
    driver.say(b, Released { pages: vec![ROOT] });
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    assert_eq!(invalidations(&driver.ping(b)), []);
}

/// Unchanged pages stay, changed ones are made known slot by slot, pages that never were are dropped.
#[test]
fn a_resumed_session_learns_what_it_has_missed() {
    let mut driver = Driver::new();
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    let page = driver.grant(a, 1)[0];
    driver.fetch(b, ROOT);
    driver.fetch(b, page);
    driver.hang_up(b);
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    driver.commit(a, &txn(1, 2).write(ROOT, 7, 0, b"y"));
    let again = driver.greet(3, 2, 3);
    let beyond = PageId::new(0, 77);
    let (missed, resumed) = driver.resume(again, Version::ZERO, &[(ROOT, 0), (page, 0), (beyond, 0)], &[]);
    assert_eq!(resumed.through, Version(2).into());
    assert_eq!(resumed.dropped, [beyond]);
    assert_eq!(missed.len(), 1);
    assert_eq!((missed[0].page, missed[0].prev, missed[0].version), (ROOT, Version(0), Version(2)));
    assert_eq!(missed[0].slots, [0, 7].into_iter().collect());
    // From here on it is told like anyone else.
    driver.commit(a, &txn(1, 3).write(page, 0, 0, b"z"));
    assert_eq!(invalidations(&driver.ping(again)).len(), 1);
}

/// A horizon beyond a page's version proves as much: only what came after it is news.
#[test]
fn a_resumed_session_is_not_told_what_it_has_heard() {
    let mut driver = Driver::new();
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    driver.hang_up(b);
    driver.commit(a, &txn(1, 2).write(ROOT, 7, 0, b"y"));
    let again = driver.greet(3, 2, 3);
    let (missed, _) = driver.resume(again, Version(1), &[(ROOT, 0)], &[]);
    assert_eq!((missed[0].prev, missed[0].version), (Version(0), Version(2)));
    assert_eq!(missed[0].slots, [7].into_iter().collect());
}

/// Nobody refetches what did not change, also when the store has forgotten who changed what.
#[test]
fn beyond_pruned_pages_are_compared_by_version() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let page = driver.grant(a, 1)[0];
    driver.commit(a, &txn(1, 1).write(page, 0, 0, b"x"));
    driver.commit(a, &txn(1, 2).write(ROOT, 0, 0, b"x"));
    driver.commit(a, &txn(1, 3).write(ROOT, 0, 2, b"y"));
    driver.crash();
    let again = driver.greet(2, 1, 2);
    let (missed, resumed) = driver.resume(again, Version(1), &[(ROOT, 2), (page, 1)], &[]);
    assert_eq!((missed, resumed.dropped), (vec![], vec![ROOT]));
    assert!(driver.store.lists(again, page) && !driver.store.lists(again, ROOT));
}

/// The horizon of a session that resumes does not move before everything that it holds is listed, whatever it asks in
/// the meantime.
#[test]
fn a_horizon_waits_for_the_last_of_the_resume() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let page = driver.grant(a, 1)[0];
    let b = driver.greet(2, 2, 1);
    let held = |page, last| {
        let pages = vec![Held { page, version: Version::ZERO }];
        ToServer::Resume(Resume { horizon: Version::ZERO.into(), pages, grants: vec![], last, missed: 0 })
    };
    driver.say(b, held(ROOT, false));
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x").write(page, 0, 0, b"y"));
    let meanwhile = driver.ping(b);
    assert_eq!(invalidations(&meanwhile).len(), 1, "listed pages are told about");
    assert!(matches!(&meanwhile[0], ToClient::Invalidations(batch) if batch.through == Version::ZERO.into()));
    driver.say(b, held(page, true));
    let messages = driver.take(b);
    assert_eq!(invalidations(&messages).iter().map(|invalidation| invalidation.page).collect::<Vec<_>>(), [page]);
    assert!(matches!(messages.last(), Some(ToClient::Resumed(resumed)) if resumed.through == Version(1).into()));
}

/// A member that re-joins with an old session's acknowledgement: it says nothing about what the new one has heard.
#[test]
fn an_acknowledgement_before_the_resume_does_not_prune() {
    let mut driver = Driver::new();
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    driver.hang_up(a);
    driver.hang_up(b);
    let again = driver.greet(3, 2, 3);
    driver.say(again, Ack { through: Version(1).into() });
    let (missed, resumed) = driver.resume(again, Version::ZERO, &[(ROOT, 0)], &[]);
    assert_eq!((missed.len(), resumed.dropped), (1, vec![]));
}

/// Duplicate after resume: the committer's reply is lost with the connection. It is notified of its own commit like of
/// any other's, and a copy of the request has the outcome of the first.
#[test]
fn a_lost_reply_is_made_good_by_the_resume() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    let request = txn(1, 1).write(ROOT, 0, 0, b"x");
    driver.say(a, request.message());
    driver.hang_up(a);
    driver.sync();
    let again = driver.greet(2, 1, 2);
    let (missed, _) = driver.resume(again, Version::ZERO, &[(ROOT, 0)], &[]);
    assert_eq!((missed[0].prev, missed[0].version), (Version(0), Version(1)));
    assert_eq!(count(&driver.commit(again, &request)), 1);
    assert_eq!(invalidations(&driver.ping(again)), []);
}

/// The commit becomes durable when the new session is there already: it is told by an invalidation, as it has no reply.
#[test]
fn a_commit_that_outlives_its_session_is_told_to_the_next_one() {
    let mut driver = Driver::new();
    let a = driver.join(1, 1);
    driver.say(a, txn(1, 1).write(ROOT, 0, 0, b"x").message());
    driver.hang_up(a);
    let again = SessionId(2);
    driver.store.connected(driver.now, again);
    driver.say(again, hello(1, 2));
    let pages = vec![Held { page: ROOT, version: Version::ZERO }];
    driver.say(again, Resume { horizon: Version::ZERO.into(), pages, grants: vec![], last: true, missed: 0 });
    assert_eq!(invalidations(&driver.take(again)), []);
    driver.run();
    assert_eq!(invalidations(&driver.ping(again)).len(), 1);
}

#[test]
fn a_fetch_waits_for_the_count_that_it_asks_for() {
    let mut driver = Driver::new();
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    driver.say(b, messages::Fetch { pages: vec![ROOT], at_least: Version(2).into(), number: 0, follow: None });
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    assert_eq!(driver.take(b), []);
    driver.commit(a, &txn(1, 2).write(ROOT, 0, 1, b"y"));
    assert!(matches!(&driver.take(b)[..], [ToClient::Page(page)] if page.version == Version(2)));
}

/// Somebody who only listens still learns how far it has heard everything, and *recent* can be pruned.
#[test]
fn a_ping_moves_the_horizon_of_a_quiet_session() {
    let mut driver = Driver::with(Config::default());
    let (a, b) = (driver.join(1, 1), driver.join(2, 2));
    driver.commit(a, &txn(1, 1).write(ROOT, 0, 0, b"x"));
    let answers = driver.ping(b);
    let [ToClient::Invalidations(batch), ToClient::Pong(_)] = &answers[..] else { panic!("got {answers:?}") };
    assert_eq!(batch.through, Version(1).into());
}
