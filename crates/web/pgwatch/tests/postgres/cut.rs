//! A watcher whose network to the server is dead, while its hub and its homes live.

use crate::server::{Postgres, block_on, is_installed};
use crate::web::Web;
use crate::{MAP, PATIENCE, ends, until};
use pgwatch::{Patience, Watch, WatchConfig, WatchState, set_up};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(1);

/// A network between a watcher and its server that can die: from then on nothing passes, and nobody is told.
struct Relay {
    port: u16,
    is_dead: Arc<AtomicBool>,
}

impl Relay {
    fn to(server: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, is_dead) = (listener.local_addr().unwrap().port(), Arc::new(AtomicBool::new(false)));
        let dead = is_dead.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = UnixStream::connect(&server) else { continue };
                let (asks, answers) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (to_server, to_client) = (dead.clone(), dead.clone());
                thread::spawn(move || pass(asks, server, &to_server));
                thread::spawn(move || pass(answers, client, &to_client));
            }
        });
        Self { port, is_dead }
    }
}

/// Passes bytes on until one end is closed. While the network is dead they are lost, and nobody learns of an end.
fn pass(mut from: impl Read, mut to: impl Write, is_dead: &AtomicBool) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if !is_dead.load(Ordering::SeqCst) && to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
    while is_dead.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(10));
    }
}

/// The server gives the slot to the next watcher, whose commits continue; the first one and its homes know nothing of
/// it.
#[test]
fn no_home_answers_for_a_watcher_that_is_cut_off() {
    if !is_installed() {
        return;
    }
    let server = Postgres::start(&["wal_sender_timeout=500ms"]);
    let session = server.session();
    session.run("CREATE TABLE items (id int PRIMARY KEY, name text); INSERT INTO items VALUES (1, 'old')");
    let near = WatchConfig { lease: LEASE, others_lease: LEASE, ..server.watched(MAP) };
    block_on(set_up(&near, &mut Patience::endless())).unwrap();

    let relay = Relay::to(server.socket());
    let mut far = near.clone();
    far.database.config = tokio_postgres::Config::new();
    far.database.config.host("127.0.0.1").port(relay.port).user("postgres").dbname("postgres");
    let webs = [Web::leased(LEASE), Web::leased(LEASE)];
    let first = Watch::start(far, webs[0].updates(), webs[0].lease()).unwrap();
    assert!(first.wait_for(WatchState::Watching, PATIENCE), "{:?}", first.status());
    let second = Watch::start(near, webs[1].updates(), webs[1].lease()).unwrap();
    until("it stands by", || second.status().last_error.is_some());
    assert!(webs[1].ticket().is_none(), "a hub whose watcher has no slot gives no lease");

    let stored = webs[0].fill_soon("item:1");
    assert!(stored.is_current());
    relay.is_dead.store(true, Ordering::SeqCst);
    let (end, ended) = mpsc::channel();
    thread::spawn(move || end.send(session.try_run("UPDATE items SET name = 'new' WHERE id = 1")));
    ends(&ended);
    assert!(!stored.is_current(), "the commit is visible, and a home answers without it");
    assert!(second.wait_for(WatchState::Watching, PATIENCE), "{:?}", second.status());
    webs[1].fill_soon("item:1");
    until("the first one notices", || first.status().last_error.is_some());
    relay.is_dead.store(false, Ordering::SeqCst);
}
