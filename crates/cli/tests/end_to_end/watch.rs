//! The watcher as an operator runs it, beside a real PostgreSQL.

#[expect(dead_code, reason = "it does more for the tests of the crate that it belongs to")]
#[path = "../../../web/pgwatch/tests/postgres/server.rs"]
mod server;

use crate::program::{Folder, spawn, start, thorp};
use coherence::{Dependency, Site, SiteConfig, SourceName};
use fixtures::{Process, until};
use net::Runtime;
use rustix::process::Signal;
use serde_json::Value;
use server::{Postgres, Session, is_installed};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{self};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// A watcher's process that watches, and where its hub listens.
fn watcher(arguments: &[&str]) -> (Process, String) {
    let process = start(&[&["watch"], arguments].concat()).until("state", "watching").unwrap();
    let address = process.address().to_string();
    (process, address)
}

/// A database of items, the folder and the name of the map of their dependencies, and the database as a word of a
/// command line.
fn items() -> (Postgres, Folder, String, String) {
    let (server, folder) = (Postgres::start(&[]), Folder::new());
    server.session().run("CREATE TABLE items (id int PRIMARY KEY, name text); INSERT INTO items VALUES (1, 'old')");
    let map = folder.write("map.toml", "[tables.\"public.items\"]\nrows = [\"item:{id}\"]\n");
    let database = server.words();
    (server, folder, map, database)
}

/// The same for other tests, where PostgreSQL is installed.
pub(crate) fn database_of_items() -> Option<(Postgres, Folder, String, String)> {
    is_installed().then(items)
}

#[test]
fn a_watcher_is_killed_and_replaced() {
    if !is_installed() {
        return;
    }
    let (server, _folder, map, database) = items();
    let task = |task: &str| thorp(["watch", &database, "--map", &map, task]);
    assert!(task("--check").error().contains("3 things are broken"));
    assert!(task("--setup").ok().contains("commits wait for the watcher from now on"));
    assert!(task("--check").ok().contains("it can be watched"));

    let (first, address) = watcher(&[&database, "--map", &map, "--listen", "127.0.0.1:0"]);
    let runtime = Runtime::start().unwrap();
    let site = Site::start(&SiteConfig { hub: Some(address.clone()), ..SiteConfig::default() }, &runtime).unwrap();
    let cache = site.cache();
    let item = [Dependency::new("item:1").unwrap()];
    // The home is in this process: nothing is waited for.
    let tasks = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let fill = || tasks.block_on(async { cache.store(cache.ticket()?, &item).await.ok() });
    let (mut stored, writer) = (None, server.session());
    until("it is stored", || {
        stored = fill();
        stored.is_some()
    });
    assert!(stored.as_ref().unwrap().is_current());
    writer.run("UPDATE items SET name = 'new' WHERE id = 1");
    assert!(!stored.as_ref().unwrap().is_current());

    until("it is stored", || {
        stored = fill();
        stored.is_some()
    });
    drop(first);
    let (end, ended) = mpsc::channel();
    thread::spawn(move || end.send(writer.try_run("UPDATE items SET name = 'newer' WHERE id = 1")));
    until("the home's lease is over", || !stored.as_ref().unwrap().is_current());
    assert!(ended.try_recv().is_err(), "no commit is visible while a cache may answer");
    assert!(cache.ticket().is_none());

    let (second, _) = watcher(&[&database, "--map", &map, "--listen", &address]);
    ended.recv_timeout(PATIENCE).expect("the commit ends").expect("it succeeds");
    until("it is stored", || fill().is_some());
    stop(second);
    until("the server has noticed", || task("--remove").code == Some(0));
    server.session().run("INSERT INTO items VALUES (2, 'there is no watcher')");
}

/// Commits one after the other until they are told to stop; gives the longest.
fn commit_until(stop: &AtomicBool, writer: &Session) -> Duration {
    let mut longest = Duration::ZERO;
    while !stop.load(SeqCst) {
        let begun = Instant::now();
        writer.run("UPDATE items SET name = 'again' WHERE id = 1");
        longest = longest.max(begun.elapsed());
    }
    longest
}

/// A watcher that is stopped hands over when no home has a lease any more. Of one that was killed it is unknown which
/// are out.
#[test]
fn a_watcher_that_is_started_again_holds_no_commit_for_as_long_as_a_lease() {
    if !is_installed() {
        return;
    }
    let (server, _folder, map, database) = items();
    thorp(["watch", &database, "--map", &map, "--setup"]).ok();
    let (first, address) = watcher(&[&database, "--map", &map, "--listen", "127.0.0.1:0"]);
    let start = || watcher(&[&database, "--map", &map, "--listen", &address]).0;
    let runtime = Runtime::start().unwrap();
    let site = Site::start(&SiteConfig { hub: Some(address.clone()), ..SiteConfig::default() }, &runtime).unwrap();
    let cache = site.cache();
    // Of another row than those that change.
    let other = [Dependency::new("item:2").unwrap()];
    let tasks = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let fill = || tasks.block_on(async { cache.store(cache.ticket()?, &other).await.ok() });
    let store = || {
        let mut stored = None;
        until("it is stored", || {
            stored = fill();
            stored.is_some()
        });
        stored.unwrap()
    };

    let stored = store();
    let (session, is_over) = (server.session(), AtomicBool::new(false));
    let (longest, second) = thread::scope(|scope| {
        let writing = scope.spawn(|| commit_until(&is_over, &session));
        assert!(first.end_by(Signal::TERM).unwrap().status.success());
        assert!(!stored.is_current(), "no home answers when its watcher has handed over");
        let second = start();
        is_over.store(true, SeqCst);
        (writing.join().unwrap(), second)
    });
    println!("a commit took {longest:?} at the most while the watcher was started again");
    assert!(longest < SiteConfig::default().lease / 2, "{longest:?}");

    let stored = store();
    drop(second);
    is_over.store(false, SeqCst);
    let (longest, third) = thread::scope(|scope| {
        let writing = scope.spawn(|| commit_until(&is_over, &session));
        let third = start();
        is_over.store(true, SeqCst);
        (writing.join().unwrap(), third)
    });
    println!("and {longest:?} when it was killed");
    assert!(longest >= SiteConfig::default().lease * 3 / 4, "{longest:?}");
    assert!(!stored.is_current());
    stop(third);
}

/// Ends a watcher, and with it the wait of those that have not committed.
fn stop(watcher: Process) {
    assert!(watcher.end().unwrap().status.success());
}

/// A transaction that somebody has forgotten holds up both the setting up and a watcher that begins; and a map may be
/// that of another database. Each is said by name.
#[test]
fn what_a_watcher_waits_for_is_said() {
    if !is_installed() {
        return;
    }
    let (server, folder) = (Postgres::start(&[]), Folder::new());
    let (session, forgotten) = (server.session(), server.session());
    session.run("CREATE TABLE items (id int PRIMARY KEY)");
    let rules = "[tables.\"public.items\"]\nrows = [\"item:{id}\"]\n[tables.\"public.itemz\"]\nrows = []\n";
    let map = folder.write("map.toml", rules);
    let database = server.words();
    forgotten.run("BEGIN; INSERT INTO items VALUES (1)");
    let process: Value = forgotten.process().parse::<i32>().unwrap().into();
    let watch = |task: &[&str]| spawn(&[&["watch", "--json", &database, "--map", &map], task].concat());
    let setup = watch(&["--setup"]);
    assert_eq!(setup.hear().unwrap()["awaited"][0]["process"], process);
    assert_eq!(setup.end_by(Signal::TERM).unwrap().status.code(), Some(1));
    let left = "SELECT (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_event_trigger)
                + (SELECT count(*) FROM pg_publication) || current_setting('synchronous_standby_names')";
    assert_eq!(session.ask(left), "0", "nothing is left behind");
    session.run("INSERT INTO items VALUES (2)");

    let setup = watch(&["--setup"]);
    assert_eq!(setup.hear().unwrap()["awaited"][0]["process"], process);
    forgotten.run("ROLLBACK");
    assert!(setup.ended().unwrap().status.success());

    forgotten.run("BEGIN; INSERT INTO items VALUES (1)");
    let watcher = watch(&["--listen", "127.0.0.1:0"]);
    let warned = watcher.hear_until(|line| !line["awaited"].is_null() || !line["warning"].is_null()).unwrap();
    assert_eq!(warned["tables"], serde_json::json!(["public.itemz"]), "{warned}");
    let awaited = watcher.hear_until(|line| !line["awaited"].is_null()).unwrap();
    assert_eq!(awaited["awaited"][0]["process"], process, "{awaited}");
    forgotten.run("ROLLBACK");
    watcher.hear_until(|line| line["state"] == "watching").unwrap();
    assert!(watcher.end_by(Signal::TERM).unwrap().status.success());
}

/// A watcher for a hub elsewhere, once it is in a state.
fn watcher_for(hub: &str, arguments: &[&str], state: &str) -> Process {
    start(&[&["watch", "--hub", hub, "--source", "shop"], arguments].concat()).until("state", state).unwrap()
}

/// Another one has got the slot, and speaks for the database at the hub: that one continues.
#[test]
fn a_watcher_that_was_stopped_does_not_take_its_place_back() {
    if !is_installed() {
        return;
    }
    let (server, _folder, map, database) = items();
    thorp(["watch", &database, "--map", &map, "--setup"]).ok();
    let (runtime, source) = (Runtime::start().unwrap(), SourceName::new("shop").unwrap());
    let (listen, sources) = (Some("127.0.0.1:0".parse().unwrap()), vec![source]);
    let site = Site::start(&SiteConfig { listen, sources, ..SiteConfig::default() }, &runtime).unwrap();
    let hub = site.address().unwrap().to_string();
    let first = watcher_for(&hub, &[&database, "--map", &map], "watching");
    let second = watcher_for(&hub, &[&database, "--map", &map], "apart");

    first.signal(Signal::STOP).unwrap();
    // Its lease at the hub is over.
    thread::sleep(2 * SiteConfig::default().lease);
    let session = server.session();
    session.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active");
    second.hear_until(|line| line["state"] == "watching").unwrap();
    // It ends by itself, and not because its input has ended.
    first.signal(Signal::CONT).unwrap();
    assert_eq!(first.ended().unwrap().status.code(), Some(1), "another one speaks for the database");
    let (cache, item) = (site.cache(), [Dependency::new("item:1").unwrap()]);
    let tasks = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for name in ["new", "newer"] {
        let mut stored = None;
        until("it is stored", || {
            stored = tasks.block_on(async { cache.store(cache.ticket()?, &item).await.ok() });
            stored.is_some()
        });
        session.run(&format!("UPDATE items SET name = '{name}' WHERE id = 1"));
        assert!(!stored.unwrap().is_current());
    }
    stop(second);
}

/// The watcher is killed with its hub, and the server crashes and is up again within the lease of a home: a commit that
/// has waited is visible then, and nobody has told of it.
#[test]
fn a_watcher_dies_with_its_server() {
    if !is_installed() {
        return;
    }
    let (mut server, folder) = (Postgres::start(&[]), Folder::new());
    server.session().run("CREATE TABLE items (id int PRIMARY KEY, name text); INSERT INTO items VALUES (1, 'old')");
    let map = folder.write("map.toml", "[tables.\"public.items\"]\nrows = [\"item:{id}\"]\n");
    let database = server.words();
    thorp(["watch", &database, "--map", &map, "--setup"]).ok();
    let (first, address) = watcher(&[&database, "--map", &map, "--listen", "127.0.0.1:0"]);
    let runtime = Runtime::start().unwrap();
    let site = Site::start(&SiteConfig { hub: Some(address), ..SiteConfig::default() }, &runtime).unwrap();
    let (cache, item) = (site.cache(), [Dependency::new("item:1").unwrap()]);
    let tasks = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (mut stored, writer) = (None, server.session());
    until("it is stored", || {
        stored = tasks.block_on(async { cache.store(cache.ticket()?, &item).await.ok() });
        stored.as_ref().is_some_and(coherence::Claim::is_current)
    });
    drop(first);
    thread::spawn(move || writer.try_run("UPDATE items SET name = 'new' WHERE id = 1"));
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    until("it waits", || server.session().ask(waits) == "1");
    server.crash().unwrap();
    server.start_again().unwrap();
    assert_eq!(server.session().ask("SELECT name FROM items"), "new", "visible, and nobody was told");
    assert!(!stored.unwrap().is_current());
}

#[test]
fn what_cannot_be_watched_is_said_in_a_line() {
    let folder = Folder::new();
    let map = folder.write("map.toml", "[tables.items]\nrows = []\n");
    let wrong = thorp(["watch", "postgres://nobody@127.0.0.1:1/none", "--map", &map, "--check"]).error();
    assert!(wrong.contains("schema.table"), "{wrong}");
    let nowhere = thorp(["watch", "postgres://nobody@127.0.0.1:1/none", "--check"]).error();
    assert!(nowhere.contains("the database"), "{nowhere}");
    assert_eq!(thorp(["watch", "mysql://shop", "--check"]).code, Some(2));
}
