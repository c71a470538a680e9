//! A member that asks for what the store would end a session for, again and again, beside one that works. Store,
//! redirector and honest member are processes of their own; this one is the hostile member.

use crate::groups::{counter, put, start_redirector};
use crate::program::{Folder, serve, thorp};
use crate::raw::Raw;
use fixtures::Process;
use messages::{CommitRequest, Fetch, PageReads, Resume, ToClient, ToServer};
use serde_json::Value;
use std::net::SocketAddr;
use std::process::Command;
use thorp::Db;
use types::{ClientId, Delta, Incarnation, PageId, PageRange, SlotChange, TxnId, Version};

/// The name by which the test runs its honest member in a process of its own.
const MEMBER_OF: &str = "THORP_TEST_HONEST_MEMBER_OF";

const HOSTILE: ClientId = ClientId(0xBAD);

/// A count that no store has come to.
const FUTURE: Version = Version(1 << 40);

/// How often all of it is tried, and commits of the honest member that follow each time.
const ROUNDS: u64 = 5;
const COMMITS: u64 = 20;

fn resume(horizon: Version, grants: Vec<PageRange>, last: bool) -> ToServer {
    ToServer::Resume(Resume { horizon: horizon.into(), pages: vec![], grants, last, missed: 0 })
}

fn commit(evidence: Version, written: u16) -> ToServer {
    let (page, slots) = (PageId::new(0, 0), [40].into_iter().collect());
    ToServer::Commit(CommitRequest {
        txn: TxnId { client: HOSTILE, number: 1 },
        incarnation: Incarnation(1),
        answered: 0,
        reads: vec![PageReads { page, slots, evidence, exceptions: vec![] }],
        writes: vec![Delta { page, changes: vec![SlotChange { slot: written, value: None }] }],
    })
}

/// One session's requests after the other's: why it ends, and its last message. It has joined before, or joins in vain.
fn attacks() -> Vec<(&'static str, Vec<ToServer>)> {
    let joined = || resume(Version::ZERO, vec![], true);
    let fetch = Fetch { pages: vec![PageId::new(0, 0)], at_least: FUTURE.into(), number: 1, follow: None };
    let claim = |number| resume(Version::ZERO, vec![PageRange { first: PageId::new(9, number), count: 1024 }], false);
    vec![
        ("malformed", vec![joined(), commit(Version::ZERO, 41)]),
        ("malformed", vec![joined(), commit(FUTURE, 40)]),
        ("malformed", vec![joined(), ToServer::Fetch(fetch)]),
        // Nobody has made that up for sure: the store may have been restored from a copy.
        ("done", vec![resume(FUTURE, vec![], true)]),
        ("too_much", (0..65).map(claim).collect()),
    ]
}

/// Comes to the group and makes all of the bad requests.
fn attack(redirector: SocketAddr, round: u64) {
    for (epoch, (expected, requests)) in (10 * round..).zip(attacks()) {
        let mut raw = Raw::greet(redirector, HOSTILE, epoch);
        assert!(matches!(raw.next(), Some(ToClient::Welcome(_))), "it is let in again");
        for request in &requests {
            raw.send(request);
        }
        let (reason, text) = raw.goodbye();
        assert_eq!(reason, expected, "{text}");
    }
}

/// A member in a process of its own, which commits until it is killed and says so each time.
struct Honest(Process);

impl Honest {
    fn start(redirector: SocketAddr) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["hostile::an_honest_member", "--exact", "--nocapture", "--quiet"]);
        command.env(MEMBER_OF, redirector.to_string());
        Self(Process::spawn(command, "the member").unwrap())
    }

    /// Waits until it has committed so often; gives how many sessions it has had by then.
    fn await_commits(&mut self, wanted: u64) -> u64 {
        loop {
            let line = self.0.line().unwrap();
            let Some(told) = line.trim_end().strip_prefix("committed ") else { continue };
            let (commits, sessions) = told.split_once(", sessions ").expect("two numbers");
            if commits.parse::<u64>().unwrap() >= wanted {
                return sessions.parse().unwrap();
            }
        }
    }
}

/// The process that [`Honest`] runs; on its own there is nothing to do.
#[test]
fn an_honest_member() {
    let Ok(redirector) = std::env::var(MEMBER_OF) else { return };
    let db = Db::connect(redirector).unwrap();
    let counter = counter(&db);
    for count in 1.. {
        put(&db, counter, count);
        println!("committed {count}, sessions {}", db.stats().sessions);
    }
}

/// A number in the first row of a table of how it stands.
fn count(address: SocketAddr, table: &str, column: &str) -> u64 {
    let told = thorp(["status", "--json", &address.to_string()]).ok();
    let told: Value = serde_json::from_str(&told).unwrap();
    told[table][0][column].as_u64().unwrap_or_else(|| panic!("a number {column} in {table} of {told}"))
}

#[test]
fn forged_messages_of_one_process_cost_the_others_of_its_group_nothing() {
    let folder = Folder::new();
    let store = serve(&folder);
    let redirector = start_redirector(&store, &[]);
    let mut honest = Honest::start(redirector.address());
    for round in 0..ROUNDS {
        attack(redirector.address(), round);
        // Reports up to now may be from before the attack.
        let so_far = count(store.address(), "store", "commits");
        assert_eq!(honest.await_commits(so_far + COMMITS), 1, "it never loses its session");
    }
    assert_eq!(count(redirector.address(), "counts", "upstream_sessions"), 1, "the group never loses its own");
}
