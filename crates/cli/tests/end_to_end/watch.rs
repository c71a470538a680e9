//! The watcher as an operator runs it, beside a real PostgreSQL.

#[expect(dead_code, reason = "it does more for the tests of the crate that it belongs to")]
#[path = "../../../web/pgwatch/tests/postgres/server.rs"]
mod server;

use crate::program::{Folder, command, thorp};
use coherence::{Dependency, Site, SiteConfig, SourceName};
use net::Runtime;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use server::{Postgres, Session, is_installed};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

const PATIENCE: Duration = Duration::from_secs(20);

/// A watcher's process that watches, and where its hub listens.
fn watcher(arguments: &[&str]) -> (Child, String) {
    let mut child = command()
        .args(["watch", "--json", "--until-stdin-closes"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut line = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let address = line()["listen"].as_str().unwrap().to_owned();
    while line()["state"] != "watching" {}
    // Nobody would read on: what it says later has to have room all the same.
    thread::spawn(move || lines.for_each(drop));
    (child, address)
}

/// A database of items, the folder and the name of the map of their dependencies, and the database as a word of a
/// command line.
fn items() -> (Postgres, Folder, String, String) {
    let (server, folder) = (Postgres::start(&[]), Folder::new());
    server.session().run("CREATE TABLE items (id int PRIMARY KEY, name text); INSERT INTO items VALUES (1, 'old')");
    let map = folder.write("map.toml", "[tables.\"public.items\"]\nrows = [\"item:{id}\"]\n");
    let database = words(&server.config());
    (server, folder, map, database)
}

/// The same for other tests, where PostgreSQL is installed.
pub(crate) fn database_of_items() -> Option<(Postgres, Folder, String, String)> {
    is_installed().then(items)
}

/// A database as a word of a command line.
fn words(config: &Config) -> String {
    let [Host::Unix(folder)] = config.get_hosts() else { panic!("it is on a socket") };
    format!("host={} port={} user=postgres dbname=postgres", folder.display(), config.get_ports()[0])
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(1));
    }
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

    let (mut first, address) = watcher(&[&database, "--map", &map, "--listen", "127.0.0.1:0"]);
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
    first.kill().unwrap();
    first.wait().unwrap();
    let (end, ended) = mpsc::channel();
    thread::spawn(move || end.send(writer.try_run("UPDATE items SET name = 'newer' WHERE id = 1")));
    until("the home's lease is over", || !stored.as_ref().unwrap().is_current());
    assert!(ended.try_recv().is_err(), "no commit is visible while a cache may answer");
    assert!(cache.ticket().is_none());

    let (mut second, _) = watcher(&[&database, "--map", &map, "--listen", &address]);
    ended.recv_timeout(PATIENCE).expect("the commit ends").expect("it succeeds");
    until("it is stored", || fill().is_some());
    drop(second.stdin.take());
    assert!(second.wait().unwrap().success());
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
    let (mut first, address) = watcher(&[&database, "--map", &map, "--listen", "127.0.0.1:0"]);
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
    let (longest, mut second) = thread::scope(|scope| {
        let writing = scope.spawn(|| commit_until(&is_over, &session));
        kill_process(Pid::from_child(&first), Signal::TERM).unwrap();
        assert!(first.wait().unwrap().success());
        assert!(!stored.is_current(), "no home answers when its watcher has handed over");
        let second = start();
        is_over.store(true, SeqCst);
        (writing.join().unwrap(), second)
    });
    println!("a commit took {longest:?} at the most while the watcher was started again");
    assert!(longest < SiteConfig::default().lease / 2, "{longest:?}");

    let stored = store();
    second.kill().unwrap();
    second.wait().unwrap();
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
    end(third);
}

/// Ends a watcher, and with it the wait of those that have not committed.
fn end(mut watcher: Child) {
    drop(watcher.stdin.take());
    assert!(watcher.wait().unwrap().success());
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
    let database = words(&server.config());
    forgotten.run("BEGIN; INSERT INTO items VALUES (1)");
    let process: Value = forgotten.process().parse::<i32>().unwrap().into();
    let start = |task: &[&str]| {
        let watch = ["watch", "--json", &database, "--map", &map];
        let mut child = command().args(watch).args(task).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        (child, lines.map(|line| serde_json::from_str::<Value>(&line).unwrap()))
    };
    let terminate = |child: &Child| {
        assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    };
    let (mut setup, mut lines) = start(&["--setup"]);
    assert_eq!(lines.next().unwrap()["awaited"][0]["process"], process);
    terminate(&setup);
    assert_eq!(setup.wait().unwrap().code(), Some(1));
    let left = "SELECT (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_event_trigger)
                + (SELECT count(*) FROM pg_publication) || current_setting('synchronous_standby_names')";
    assert_eq!(session.ask(left), "0", "nothing is left behind");
    session.run("INSERT INTO items VALUES (2)");

    let (mut setup, mut lines) = start(&["--setup"]);
    assert_eq!(lines.next().unwrap()["awaited"][0]["process"], process);
    forgotten.run("ROLLBACK");
    assert!(setup.wait().unwrap().success());

    forgotten.run("BEGIN; INSERT INTO items VALUES (1)");
    let (mut watcher, mut lines) = start(&["--listen", "127.0.0.1:0"]);
    let awaited = lines.find(|line| !line["awaited"].is_null() || !line["warning"].is_null()).unwrap();
    assert_eq!(awaited["tables"], serde_json::json!(["public.itemz"]), "{awaited}");
    let awaited = lines.find(|line| !line["awaited"].is_null()).unwrap();
    assert_eq!(awaited["awaited"][0]["process"], process, "{awaited}");
    forgotten.run("ROLLBACK");
    assert!(lines.any(|line| line["state"] == "watching"));
    terminate(&watcher);
    assert!(watcher.wait().unwrap().success());
}

/// A watcher for a hub elsewhere, and the states that it says.
fn watcher_for(hub: &str, arguments: &[&str]) -> (Child, Receiver<String>) {
    let mut child = command()
        .args(["watch", "--json", "--until-stdin-closes", "--hub", hub, "--source", "shop"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (say, said) = mpsc::channel();
    thread::spawn(move || {
        for line in lines {
            let line = serde_json::from_str::<Value>(&line).unwrap();
            // Nobody hears the last ones.
            let _ = line["state"].as_str().map(|state| say.send(state.to_owned()));
        }
    });
    (child, said)
}

fn says(said: &Receiver<String>, state: &str) {
    while said.recv_timeout(PATIENCE).expect("it says more") != state {}
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
    let (mut first, said) = watcher_for(&hub, &[&database, "--map", &map]);
    says(&said, "watching");
    let (mut second, said) = watcher_for(&hub, &[&database, "--map", &map]);
    says(&said, "apart");

    let signal = |name: &str, process: &Child| {
        let kill = Command::new("kill").args([&format!("-{name}"), &process.id().to_string()]).status();
        assert!(kill.unwrap().success());
    };
    signal("STOP", &first);
    // Its lease at the hub is over.
    thread::sleep(2 * SiteConfig::default().lease);
    let session = server.session();
    session.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active");
    says(&said, "watching");
    // It ends by itself, and not because nobody holds its input any more.
    let input = first.stdin.take();
    signal("CONT", &first);
    assert_eq!(first.wait().unwrap().code(), Some(1), "another one speaks for the database");
    drop(input);
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
    drop(second.stdin.take());
    assert!(second.wait().unwrap().success());
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
    let database = words(&server.config());
    thorp(["watch", &database, "--map", &map, "--setup"]).ok();
    let (mut first, address) = watcher(&[&database, "--map", &map, "--listen", "127.0.0.1:0"]);
    let runtime = Runtime::start().unwrap();
    let site = Site::start(&SiteConfig { hub: Some(address), ..SiteConfig::default() }, &runtime).unwrap();
    let (cache, item) = (site.cache(), [Dependency::new("item:1").unwrap()]);
    let tasks = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (mut stored, writer) = (None, server.session());
    until("it is stored", || {
        stored = tasks.block_on(async { cache.store(cache.ticket()?, &item).await.ok() });
        stored.as_ref().is_some_and(coherence::Claim::is_current)
    });
    first.kill().unwrap();
    first.wait().unwrap();
    thread::spawn(move || writer.try_run("UPDATE items SET name = 'new' WHERE id = 1"));
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    until("it waits", || server.session().ask(waits) == "1");
    server.crash();
    server.start_again();
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
