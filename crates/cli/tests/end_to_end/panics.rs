//! A process panics, as it would at an error of Thorp's own: here because a test asks for it.

use crate::program::{Folder, Ran, serve, spawn, thorp};
use crate::raw::Raw;
use fixtures::Process;
use messages::{Lineage, Member, Members, Resumed, SessionLimits, ToClient, ToServer, Welcome};
use net::PANICS_AT;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use thorp::{Db, Error};
use types::{ClusterId, Incarnation, NodeId, Sharding, Version};

/// Long enough for anything that is going to happen on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts a server; gives its address, too.
fn start(words: &[&str]) -> (Process, String) {
    let process = spawn(words);
    let line = process.line().unwrap();
    assert!(line.starts_with("ready: "), "{line}");
    let address = line.split([' ', ',']).find(|word| word.starts_with("127.")).unwrap().trim().to_owned();
    (process, address)
}

/// Has the server panic while it handles a message; gives its answer to the sender.
fn panic_at(address: &str) -> String {
    Raw::greet(address.parse().unwrap(), PANICS_AT, 1).goodbye().1
}

/// The process ends by itself, and says what has happened and what to do.
#[track_caller]
fn assert_ends(process: Process, do_what: &str) {
    let ran = Ran::from(process.ended().unwrap());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let last = ran.stderr.lines().last().unwrap();
    assert!(last.starts_with("thorp: a part of it panicked ('as it was asked to')"), "{last}");
    assert!(last.contains("please report it") && last.ends_with(do_what), "{last}");
}

#[test]
fn a_store_that_panics_ends_says_why_and_loses_nothing() {
    let folder = Folder::new();
    let (child, address) = start(&["serve", "--listen", "127.0.0.1:0", "--dir", &folder.file("store")]);
    thorp(["put", "a", "1", "--server", &address]).ok();
    let said = panic_at(&address);
    assert!(said.contains("it has stopped: a part of it panicked"), "{said}");
    assert_ends(child, "what was acknowledged is safe: start it again");
    // Nobody holds the directory.
    let again = serve(&folder);
    assert_eq!(thorp(["get", "a", "--server", &again.address().to_string()]).ok(), "1\n");
}

#[test]
fn a_redirector_that_panics_ends_and_says_why() {
    let folder = Folder::new();
    let store = serve(&folder);
    let at = store.address().to_string();
    let (child, address) = start(&["group", "--name", "site", "--store", &at, "--listen", "127.0.0.1:0"]);
    let said = panic_at(&address);
    assert!(said.contains("it has stopped: a part of it panicked"), "{said}");
    assert_ends(child, "what was committed is safe at the store: start it again");
    thorp(["put", "a", "1", "--server", &at]).ok();
}

/// A store that welcomes its one client and never sends a page. It reports the first fetch, and says what has the
/// client panic when it is let.
fn store_that_makes_panic(let_it: Receiver<()>) -> (SocketAddr, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = channel();
    thread::spawn(move || {
        let mut raw = Raw::<ToServer>::over(listener.accept().unwrap().0);
        loop {
            match raw.next() {
                Some(ToServer::Hello(_)) => raw.send(&welcome()),
                Some(ToServer::Resume(_)) => {
                    raw.send(&ToClient::Resumed(Resumed { through: Version(0).into(), dropped: vec![] }));
                }
                Some(ToServer::Fetch(_)) => break,
                Some(_) => {}
                None => panic!("it has asked for nothing"),
            }
        }
        tell.send(()).unwrap();
        let_it.recv().unwrap();
        let member = Member { client: PANICS_AT, address: String::new() };
        let (group, address) = ("site".into(), String::new());
        raw.send(&ToClient::Members(Members { group, epoch: 1, address, store: vec![], members: vec![member] }));
        // The panic ends the client, and with it the connection.
        while raw.next().is_some() {}
    });
    (address, told)
}

fn welcome() -> ToClient {
    ToClient::Welcome(Welcome {
        features: 0,
        cluster: ClusterId(1),
        node: NodeId(0),
        incarnation: Incarnation(1),
        lineage: Lineage::default(),
        sharding: Sharding::ONE,
        through: Version(0).into(),
        limits: SessionLimits { fetches: 100, commits: 100, silence_ms: 10_000 },
    })
}

/// On an application's own thread, which reads the socket while it waits for a page: it has an error and continues, and
/// so has another that waits for the first one.
#[test]
fn a_client_that_panics_on_a_thread_that_waits_ends_and_the_threads_go_on() {
    let (go, let_it) = channel();
    let (address, told) = store_that_makes_panic(let_it);
    let db = Db::connect(address).unwrap();
    let (end, ends) = channel();
    for _ in 0..2 {
        let (db, end) = (db.clone(), end.clone());
        thread::spawn(move || end.send(db.transact(|tx| tx.root::<u64>("counter"))));
    }
    told.recv_timeout(PATIENCE).unwrap();
    go.send(()).unwrap();
    for _ in 0..2 {
        let ended = ends.recv_timeout(PATIENCE).expect("nobody waits for ever");
        assert!(matches!(&ended, Err(Error::Stopped(why)) if why.contains("as it was asked to")), "{ended:?}");
    }
    let start = Instant::now();
    assert!(matches!(db.transact(|tx| tx.root::<u64>("counter")), Err(Error::Stopped(_))));
    assert!(start.elapsed() < Duration::from_secs(1), "it says so at once");
}
