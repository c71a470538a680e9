//! A member that asks for what its store would end a session for, again and again. It loses its own session each time;
//! the others of its group commit and fetch on the one session that all of them are behind.

mod common;

use common::group::eventually;
use common::*;
use messages::{CommitRequest, Fetch, Held, PageReads, Resume, ToServer};
use net::{ListenConfig, UpstreamConfig};
use redirector::{Config, Redirector};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use store::Store;
use types::{ClientId, Delta, Incarnation, Limits, PageId, PageRange, SlotChange, TxnId, Version};

/// Pages that do not exist of which the store lists one session.
const ABSENT_PAGES: usize = 40;

const BAD: ClientId = ClientId(0xBAD);

/// A count that no store has come to.
const FUTURE: Version = Version(1 << 40);

/// A store, and the redirector of a group beside it.
fn group() -> (At<Store>, At<Redirector>, SocketAddr) {
    let limits = Limits { absent_pages: ABSENT_PAGES, ..Limits::SHIPPED };
    let store = store_with(store::Config { limits, ..store::Config::default() });
    let store = At::with_disk(store, MemoryDisk::new(), &runtime());
    let at = store.listen(ListenConfig::new(messages::SERVER, "127.0.0.1:0".parse().unwrap())).unwrap();
    let config = Config { group: "site".into(), address: "here".into(), ..Config::default() };
    let redirector = At::alone(Redirector::new(config, ClientId(0x2ED)), &runtime());
    let address = redirector.listen(ListenConfig::new(messages::SERVER, "127.0.0.1:0".parse().unwrap())).unwrap();
    redirector.connect(UpstreamConfig::new(messages::CLIENT, at.to_string()));
    redirector.wait_connected(PATIENCE).unwrap();
    (store, redirector, address)
}

fn resume(horizon: Version, pages: Vec<Held>, grants: Vec<PageRange>, last: bool) -> ToServer {
    ToServer::Resume(Resume { horizon: horizon.into(), pages, grants, last, missed: 0 })
}

fn commit(evidence: Version, written: u16) -> ToServer {
    let (page, slots) = (PageId::new(0, 0), [40].into_iter().collect());
    ToServer::Commit(CommitRequest {
        txn: TxnId { client: BAD, number: 1 },
        incarnation: Incarnation(1),
        answered: 0,
        reads: vec![PageReads { page, slots, evidence, exceptions: vec![] }],
        writes: vec![Delta { page, changes: vec![SlotChange { slot: written, value: None }] }],
    })
}

fn fetch(page: PageId, at_least: Version) -> ToServer {
    ToServer::Fetch(Fetch { pages: vec![page], at_least: at_least.into(), number: 1, follow: None })
}

/// One kind of bad request after the other: why the session ends, whether it has joined before, and what it says.
fn attacks() -> Vec<(&'static str, bool, Vec<ToServer>)> {
    let made_up = |number| PageId::new(9, number);
    let held = |number| Held { page: made_up(number), version: FUTURE };
    let range = |number| PageRange { first: made_up(number), count: 1024 };
    vec![
        ("malformed", true, vec![commit(Version::ZERO, 41)]),
        ("malformed", true, vec![commit(FUTURE, 40)]),
        ("malformed", true, vec![fetch(PageId::new(0, 0), FUTURE)]),
        // That may be of before a restore, which the member has not learned of.
        ("done", false, vec![resume(FUTURE, vec![], vec![], true)]),
        ("done", false, vec![resume(Version::ZERO, (0..4000).map(held).collect(), vec![], true)]),
        ("too_much", false, (0..65).map(|number| resume(Version::ZERO, vec![], vec![range(number)], false)).collect()),
        ("too_much", true, (0..=ABSENT_PAGES as u32).map(|number| fetch(made_up(number), Version::ZERO)).collect()),
    ]
}

/// Comes to the group and makes all of the bad requests.
fn attack(address: SocketAddr, epoch: &mut u64) {
    for (reason, joins, requests) in attacks() {
        *epoch += 1;
        let mut raw = Raw::greet(address, BAD, *epoch);
        if joins {
            raw.send(&resume(Version::ZERO, vec![], vec![], true));
        }
        for request in &requests {
            raw.send(request);
        }
        let (ended, text) = raw.goodbye();
        assert_eq!(ended, reason, "{text}");
    }
}

/// Ends what keeps the members busy, also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn forged_messages_of_one_member_are_its_own_affair() {
    let (_store, redirector, address) = group();
    let members = [(); 2].map(|()| connect(address));
    let (is_over, done) = (AtomicBool::new(false), [(); 2].map(|()| AtomicU64::new(0)));
    std::thread::scope(|scope| {
        let _over = Over(&is_over);
        for ((slot, member), done) in (1..).zip(&members).zip(&done) {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    put_surely(member, slot, b"undisturbed");
                    assert_eq!(get(member, slot).as_deref(), Some(&b"undisturbed"[..]));
                    done.fetch_add(1, Relaxed);
                }
            });
        }
        let mut epoch = 0;
        for _ in 0..3 {
            attack(address, &mut epoch);
            let so_far = done.each_ref().map(|done| done.load(Relaxed));
            eventually("the others go on", || {
                done.iter().zip(so_far).all(|(done, so_far)| done.load(Relaxed) > so_far)
            });
        }
    });
    let upstream_sessions = redirector.lock().machine().status().stats.upstream_sessions;
    assert_eq!(upstream_sessions, 1, "the session of the group was never lost");
    for member in &members {
        assert_eq!(member.lock().machine().stats().sessions, 1, "nor one of the others'");
    }
}
