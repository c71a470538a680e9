//! A watcher beside a real server: what is promised, and each hole with what becomes of it.

mod cut;
mod guard;
mod server;
mod standby;
mod tls;
mod turn;
mod web;
mod windows;

use coherence::{NotStored, Update};
use pgwatch::{
    Patience, Running, SetupError, Severity, Watch, WatchConfig, WatchState, check, guard, missing_tables, remove,
    renew_slot, running, set_up,
};
use server::{Postgres, Session, block_on, is_installed};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use web::Web;

const PATIENCE: Duration = Duration::from_secs(20);

/// So long a commit is watched that must not end.
const HELD: Duration = Duration::from_millis(300);

const MAP: &str = "[tables.\"public.items\"]\nrows = [\"item:{id}\"]\nwhole = [\"items\"]\n";

/// Every commit waits for one more standby, which never comes: so a commit stays between its confirmation and its
/// being visible for as long as a test likes.
const HOLD: &str = "FIRST 2 (thorp_watch, nobody)";
const LET_GO: &str = "FIRST 1 (thorp_watch)";

/// A server with a table that is set up and watched, and a home.
struct Day {
    server: Postgres,
    web: Web,
    config: WatchConfig,
    watch: Option<Watch>,
    /// The marks that the last watcher has left.
    left: Vec<Update>,
}

impl Day {
    fn begin() -> Option<Self> {
        Self::begin_with(&[], Web::start)
    }

    fn begin_with(settings: &[&str], web: impl FnOnce() -> Web) -> Option<Self> {
        is_installed().then(|| {
            let server = Postgres::start(settings);
            let config = server.watched(MAP);
            server.session().run(
                "CREATE TABLE items (id int PRIMARY KEY, name text);
                 INSERT INTO items SELECT n, 'old' FROM generate_series(1, 100) AS n",
            );
            block_on(set_up(&config, &mut Patience::endless())).unwrap();
            let mut day = Self { server, web: web(), config, watch: None, left: Vec::new() };
            day.watch();
            day
        })
    }

    fn watch(&mut self) {
        let watch = Watch::start(self.config.clone(), self.web.updates(), None).unwrap();
        let is_watching = watch.wait_for(WatchState::Watching, PATIENCE);
        assert!(is_watching, "{:?}", watch.status());
        self.watch = Some(watch);
        self.left.clear();
    }

    fn stop_watching(&mut self) {
        self.left = self.watch.take().unwrap().stop();
    }

    fn status(&self) -> pgwatch::WatchStatus {
        self.watch.as_ref().unwrap().status()
    }

    /// Statements on a thread and a session of their own, that end when they end; and the session's process.
    fn begin_write(&self, statements: &str) -> (Receiver<Result<(), tokio_postgres::Error>>, String) {
        let (session, statements, (end, ended)) = (self.server.session(), statements.to_owned(), mpsc::channel());
        let process = session.process();
        thread::spawn(move || drop(end.send(session.try_run(&statements))));
        (ended, process)
    }

    /// Which standbys commits wait for.
    fn wait_for_standbys(&self, names: &str) {
        let session = self.server.session();
        session.run(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"));
        session.run("SELECT pg_reload_conf()");
        // The process that tells the waiters reads the list some time later.
        until("the list is read", || self.server.session().ask("SHOW synchronous_standby_names") == names);
    }

    fn name_of(&self, id: u32) -> String {
        self.server.session().ask(&format!("SELECT name FROM items WHERE id = {id}"))
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn ends(ended: &Receiver<Result<(), tokio_postgres::Error>>) {
    ended.recv_timeout(PATIENCE).expect("the commit ends").expect("it succeeds");
}

#[test]
fn a_writer_is_answered_when_no_cache_uses_what_it_has_changed() {
    let Some(day) = Day::begin() else { return };
    let writer = day.server.session();
    for round in 1..=100 {
        let (changed, other) = (day.web.fill_soon("item:1"), day.web.fill_soon("item:2"));
        assert!(changed.is_current());
        writer.run(&format!("UPDATE items SET name = 'round {round}' WHERE id = 1"));
        assert!(!changed.is_current(), "round {round}");
        assert!(other.is_current());
    }
    assert!(day.status().commits >= 100);
}

#[test]
fn old_and_new_keys_and_whole_tables_are_marked() {
    let Some(day) = Day::begin() else { return };
    let writer = day.server.session();
    let marks = |statements: &str, dependencies: &[&str]| {
        let stored: Vec<_> = dependencies.iter().map(|name| day.web.fill_soon(name)).collect();
        let spared = day.web.fill_soon("another");
        writer.run(statements);
        for (proof, name) in stored.iter().zip(dependencies) {
            assert!(!proof.is_current(), "{statements} leaves {name}");
        }
        spared.is_current()
    };
    assert!(marks("UPDATE items SET id = 200 WHERE id = 1", &["item:1", "item:200"]));
    assert!(marks("DELETE FROM items WHERE id = 2", &["item:2"]));
    assert!(marks("INSERT INTO items VALUES (2, NULL)", &["item:2"]));
    assert!(marks("BEGIN; UPDATE items SET name = '' WHERE id IN (3, 4); COMMIT", &["item:3", "item:4"]));
    assert!(marks("SELECT pg_logical_emit_message(true, 'thorp', 'item:5')", &["item:5"]));
    assert!(marks("TRUNCATE items", &["items"]));
    assert!(!marks("ALTER TABLE items ADD COLUMN price int", &["items"]), "an altered table marks everything");
    assert!(!marks("INSERT INTO items SELECT n FROM generate_series(1, 1025) AS n", &["item:7"]), "too many");
    let unheeded =
        "SET session_replication_role = replica; ALTER TABLE items DROP price; RESET session_replication_role";
    assert!(!marks(unheeded, &["items"]), "by whomever it is altered");
    assert!(!marks("CREATE TABLE others (id int)", &[]), "a new table marks everything");
    assert!(!marks("INSERT INTO others VALUES (1)", &[]), "a table without rules marks everything");
    assert!(marks("CREATE TEMPORARY TABLE mine AS SELECT 1", &[]), "nobody else sees it");
    for temporary in [
        "DROP TABLE mine",
        "CREATE TEMPORARY TABLE mine (id serial PRIMARY KEY, n int DEFAULT 1); CREATE INDEX ON mine (n); DROP TABLE mine",
        "BEGIN; CREATE TEMPORARY TABLE mine ON COMMIT DROP AS SELECT 1; COMMIT",
        "DROP TABLE IF EXISTS nothing",
    ] {
        assert!(marks(temporary, &[]), "{temporary}: nobody else sees it");
    }
    assert!(
        !marks("CREATE TEMPORARY TABLE mine AS SELECT 1; DROP TABLE mine, others", &[]),
        "one of them was everybody's"
    );
    assert!(!marks("CREATE VIEW names AS SELECT name FROM items", &[]));
    assert!(!marks("DROP TABLE items CASCADE", &["items"]), "a table that is dropped marks everything");
}

/// The stream shows the replica identity of a table with partitions, and has the old values of the partition's.
#[test]
fn old_values_of_partitions_are_marked() {
    if !is_installed() {
        return;
    }
    let map = "others = []\n[tables.\"public.parts\"]\nrows = [\"part:{id}\", \"kind:{kind}\"]\nwhole = [\"parts\"]\n";
    let (server, web) = (Postgres::start(&[]), Web::start());
    let (config, session) = (server.watched(map), server.session());
    session.run(
        "CREATE TABLE parts (id int PRIMARY KEY, kind text) PARTITION BY RANGE (id);
         CREATE TABLE part PARTITION OF parts FOR VALUES FROM (1) TO (10);
         INSERT INTO parts VALUES (1, 'a'), (2, 'a'); ALTER TABLE parts REPLICA IDENTITY FULL",
    );
    block_on(set_up(&config, &mut Patience::endless())).unwrap();
    let watch = Watch::start(config.clone(), web.updates(), None).unwrap();
    assert!(watch.wait_for(WatchState::Watching, PATIENCE), "{:?}", watch.status());
    let marks = |statements: &str, dependencies: &[&str]| {
        let stored: Vec<_> = dependencies.iter().map(|name| web.fill_soon(name)).collect();
        let whole = web.fill_soon("parts");
        session.run(statements);
        for (proof, name) in stored.iter().zip(dependencies) {
            assert!(!proof.is_current(), "{statements} leaves {name}");
        }
        !whole.is_current()
    };
    let finds = |severity, text: &str| {
        let findings = block_on(check(&config)).unwrap();
        findings.iter().any(|finding| finding.severity == severity && finding.text.contains(text))
    };
    let another = "public.part has not the replica identity of public.parts";
    assert!(finds(Severity::Costly, another));
    assert!(marks("UPDATE parts SET kind = 'b' WHERE id = 1", &["kind:b"]), "kind:a is not told");
    assert!(marks("UPDATE parts SET id = 3 WHERE id = 1", &["part:1", "part:3", "kind:b"]));
    assert!(marks("DELETE FROM parts WHERE id = 3", &["part:3"]), "kind:b is not told");
    session.run("ALTER TABLE part REPLICA IDENTITY FULL");
    assert!(!finds(Severity::Costly, another));
    assert!(!marks("UPDATE parts SET kind = 'b' WHERE id = 2", &["kind:a", "kind:b", "part:2"]));

    let truncated = "TRUNCATE of the partition public.part alone";
    assert!(finds(Severity::Hole, truncated));
    let findings = block_on(check(&config)).unwrap();
    let remedy = findings.iter().find(|finding| finding.text.contains(truncated)).unwrap().remedy.clone();
    session.run(&remedy);
    assert!(!finds(Severity::Hole, truncated));
    assert!(marks("TRUNCATE part", &["part:2"]));

    let unlike = "public.part has another replica identity than public.parts";
    assert!(!finds(Severity::Hole, unlike));
    session.run("ALTER TABLE parts REPLICA IDENTITY DEFAULT; ALTER TABLE part ALTER kind SET NOT NULL");
    session.run("CREATE UNIQUE INDEX by_kind ON part (kind); ALTER TABLE part REPLICA IDENTITY USING INDEX by_kind");
    assert!(finds(Severity::Hole, unlike));

    let unused = "the stream names changes of public.parts after its partitions";
    assert!(!finds(Severity::Hole, unused));
    session.run("ALTER PUBLICATION thorp SET (publish_via_partition_root = false)");
    assert!(finds(Severity::Hole, unused));
    drop(watch);
    until("the server has noticed", || session.ask("SELECT count(*) FROM pg_replication_slots WHERE active") == "0");
    block_on(remove(&config, Duration::ZERO)).unwrap();
    session.run("TRUNCATE part");
}

/// It is gone from its table when the first of the command's two transactions has ended.
#[test]
fn a_partition_that_is_detached_concurrently_is_marked_before_it_is_gone() {
    let Some(day) = Day::begin() else { return };
    let session = day.server.session();
    session.run(
        "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id);
         CREATE TABLE part PARTITION OF parts FOR VALUES FROM (1) TO (10); INSERT INTO parts VALUES (1)",
    );
    let reader = day.server.session();
    reader.run("BEGIN; SELECT FROM parts");
    let stored = day.web.fill_soon("parts");
    let (ended, _) = day.begin_write("ALTER TABLE parts DETACH PARTITION part CONCURRENTLY");
    until("it is gone for others", || session.ask("SELECT count(*) FROM parts") == "0");
    assert!(!stored.is_current());
    assert!(ended.try_recv().is_err(), "the second transaction waits for the reader");
    reader.run("COMMIT");
    ends(&ended);
}

#[test]
fn a_response_is_not_stored_until_the_update_is_visible() {
    let Some(day) = Day::begin() else { return };
    let asked_before = day.web.ticket().unwrap();
    let stored = day.web.fill_soon("item:1");
    day.wait_for_standbys(HOLD);
    let (ended, _) = day.begin_write("UPDATE items SET name = 'new' WHERE id = 1");
    until("the commit is confirmed", || day.status().unseen == 1);
    assert!(!stored.is_current());
    // Confirmed, and not visible: this is what a fill would bring.
    assert_eq!(day.name_of(1), "old");
    assert_eq!(day.web.fill("item:1").err(), Some(NotStored::Marked));
    assert!(day.web.fill("item:2").is_ok());
    let asked_meanwhile = day.web.ticket().unwrap();
    assert!(ended.recv_timeout(HELD).is_err());
    day.wait_for_standbys(LET_GO);
    ends(&ended);
    assert_eq!(day.name_of(1), "new");
    day.web.fill_soon("item:1");
    for ticket in [asked_before, asked_meanwhile] {
        assert_eq!(day.web.store(ticket, "item:1").err(), Some(NotStored::Touched), "it may bring what was before");
    }
}

#[test]
fn commits_wait_while_nobody_watches() {
    let Some(mut day) = Day::begin() else { return };
    let stored = day.web.fill_soon("item:2");
    day.stop_watching();
    assert!(!stored.is_current(), "nobody would tell of an update");
    assert_eq!(day.web.fill("item:2").err(), Some(NotStored::Marked));
    let (ended, _) = day.begin_write("UPDATE items SET name = 'new' WHERE id = 1");
    assert!(ended.recv_timeout(HELD).is_err());
    assert_eq!(day.name_of(1), "old");
    day.watch();
    ends(&ended);
    day.web.fill_soon("item:1");
    day.web.fill_soon("item:2");
}

/// A commit that an earlier watcher has confirmed is not told again.
#[test]
fn a_watcher_waits_for_what_another_one_has_confirmed() {
    let Some(mut day) = Day::begin() else { return };
    day.wait_for_standbys(HOLD);
    let (ended, _) = day.begin_write("UPDATE items SET name = 'new' WHERE id = 1");
    until("the commit is confirmed", || day.status().unseen == 1);
    until("the slot has moved", || {
        let query = "SELECT confirmed_flush_lsn >= pg_current_wal_flush_lsn() FROM pg_replication_slots";
        day.server.session().ask(query) == "t"
    });
    // Another hub, whose home knows of nothing.
    drop(day.watch.take());
    day.web = Web::start();
    let watch = Watch::start(day.config.clone(), day.web.updates(), None).unwrap();
    assert!(!watch.wait_for(WatchState::Watching, HELD), "{:?}", watch.status());
    assert_eq!(watch.status().state, WatchState::CatchingUp);
    assert_eq!(day.name_of(1), "old");
    assert_eq!(day.web.fill("item:1").err(), Some(NotStored::Marked));
    day.wait_for_standbys(LET_GO);
    ends(&ended);
    assert!(watch.wait_for(WatchState::Watching, PATIENCE), "{:?}", watch.status());
    day.web.fill_soon("item:1");
}

#[test]
fn a_watcher_that_was_cut_off_comes_again() {
    let Some(day) = Day::begin() else { return };
    let session = day.server.session();
    for round in 0..5 {
        let stored = day.web.fill_soon("item:1");
        let connections = day.status().connections;
        session.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active");
        until("it has come again", || day.status().connections > connections);
        assert!(!stored.is_current(), "round {round}");
        let (ended, _) = day.begin_write("UPDATE items SET name = 'new' WHERE id = 1");
        ends(&ended);
    }
}

/// A statement that waits for the watcher and is cancelled has committed, and is visible at once.
#[test]
fn a_cancelled_waiter_is_marked_until_it_is_seen() {
    let Some(mut day) = Day::begin() else { return };
    let session = day.server.session();
    let stored = day.web.fill_soon("item:1");
    day.wait_for_standbys(HOLD);
    let (ended, process) = day.begin_write("UPDATE items SET name = 'new' WHERE id = 1");
    until("the commit is confirmed", || day.status().unseen == 1);
    session.run(&format!("SELECT pg_cancel_backend({process})"));
    ends(&ended);
    assert!(!stored.is_current());
    assert_eq!(day.name_of(1), "new");
    day.wait_for_standbys(LET_GO);
    day.web.fill_soon("item:1");

    // The same while there is no watcher: everything is marked.
    day.stop_watching();
    let (ended, process) = day.begin_write("UPDATE items SET name = 'newer' WHERE id = 1");
    until("it waits", || {
        session.ask(&format!("SELECT wait_event FROM pg_stat_activity WHERE pid = {process}")) == "SyncRep"
    });
    session.run(&format!("SELECT pg_cancel_backend({process})"));
    ends(&ended);
    assert_eq!(day.name_of(1), "newer");
    assert_eq!(day.web.fill("item:1").err(), Some(NotStored::Marked));
    day.watch();
    day.web.fill_soon("item:1");
}

#[test]
fn a_server_that_crashes_shows_what_nobody_was_told() {
    let Some(mut day) = Day::begin() else { return };
    let (stored, other) = (day.web.fill_soon("item:1"), day.web.fill_soon("item:2"));
    day.wait_for_standbys(HOLD);
    let (ended, _) = day.begin_write("UPDATE items SET name = 'new' WHERE id = 1");
    until("the commit is confirmed", || day.status().unseen == 1);
    let begun = Instant::now();
    day.server.crash().unwrap();
    until("everything is marked", || !other.is_current());
    let marked = begun.elapsed();
    assert!(ended.recv_timeout(PATIENCE).unwrap().is_err(), "its writer was told nothing");
    day.server.start_again().unwrap();
    assert_eq!(day.name_of(1), "new", "visible, without a confirmation");
    assert!(!stored.is_current());
    println!(
        "a server that has crashed: everything is marked {marked:?} after the signal, and up in {:?}",
        begun.elapsed()
    );
    day.wait_for_standbys(LET_GO);
    day.web.fill_soon("item:1");
    let (ended, _) = day.begin_write("UPDATE items SET name = 'newer' WHERE id = 1");
    ends(&ended);
}

#[test]
fn a_lost_slot_is_said_and_renewed() {
    let Some(mut day) = Day::begin() else { return };
    let session = day.server.session();
    day.stop_watching();
    until("the server has noticed", || session.ask("SELECT count(*) FROM pg_replication_slots WHERE active") == "0");
    session.run("SELECT pg_drop_replication_slot('thorp_watch')");
    let findings = block_on(check(&day.config)).unwrap();
    assert!(findings.iter().any(|finding| finding.text.contains("no slot")), "{findings:?}");
    let watch = Watch::start(day.config.clone(), day.web.updates(), None).unwrap();
    until("it says so", || watch.status().last_error.is_some_and(|error| error.contains("does not exist")));
    assert_eq!(watch.status().state, WatchState::Apart);
    let (ended, _) = day.begin_write("UPDATE items SET name = 'new' WHERE id = 1");
    assert!(ended.recv_timeout(HELD).is_err());
    block_on(renew_slot(&day.config, Duration::ZERO, &mut Patience::endless())).unwrap();
    assert!(watch.wait_for(WatchState::Watching, PATIENCE), "{:?}", watch.status());
    ends(&ended);
    day.left.clear();
    day.web.fill_soon("item:1");
}

/// Commits continue without a watcher while its slot is made again: no cache may answer then.
#[test]
fn a_slot_is_renewed_when_leases_are_over() {
    let Some(mut day) = Day::begin() else { return };
    let session = day.server.session();
    day.stop_watching();
    until("the server has noticed", || session.ask("SELECT count(*) FROM pg_replication_slots WHERE active") == "0");
    let (ended, _) = day.begin_write("UPDATE items SET name = 'new' WHERE id = 1");
    let (config, leases, begun) = (day.config.clone(), Duration::from_secs(1), Instant::now());
    let renewing = thread::spawn(move || block_on(renew_slot(&config, leases, &mut Patience::endless())));
    until("the slot is dropped", || session.ask("SELECT count(*) FROM pg_replication_slots") == "0");
    ends(&ended);
    assert!(begun.elapsed() >= leases, "a commit was visible {:?} after the slot was dropped", begun.elapsed());
    renewing.join().unwrap().unwrap();
    day.watch();
}

/// Somebody has the server wait for nobody: commits are visible at once, and are told some time later.
#[test]
fn nothing_is_cached_while_commits_do_not_wait() {
    let Some(day) = Day::begin() else { return };
    let watch = day.watch.as_ref().unwrap();
    let session = day.server.session();
    for _ in 0..2 {
        let stored = day.web.fill_soon("item:1");
        session.run("ALTER SYSTEM RESET synchronous_standby_names");
        session.run("SELECT pg_reload_conf()");
        assert!(watch.wait_for(WatchState::NotAwaited, PATIENCE), "{:?}", day.status());
        until("everything is marked", || !stored.is_current());
        let why = day.status().last_error.unwrap();
        assert!(why.contains("synchronous_standby_names is ''"), "{why}");
        let begun = Instant::now();
        while begun.elapsed() < HELD {
            session.run("UPDATE items SET name = 'new' WHERE id = 1");
            // The update before may become visible while it is filled.
            let stored = day.web.fill("item:1").err();
            assert!(matches!(stored, Some(NotStored::Marked | NotStored::Touched)), "{stored:?}");
        }
        day.wait_for_standbys(LET_GO);
        assert!(watch.wait_for(WatchState::Watching, PATIENCE), "{:?}", day.status());
        let stored = day.web.fill_soon("item:1");
        session.run("UPDATE items SET name = 'newer' WHERE id = 1");
        assert!(!stored.is_current(), "commits wait again");
    }
    assert_eq!(day.status().unheld, 0, "{:?}", day.status());
}

/// Commits that change nothing of the publication wait, too: their positions come with keepalives.
#[test]
fn what_is_not_published_is_let_go() {
    let Some(day) = Day::begin() else { return };
    let session = day.server.session();
    session.run("CREATE DATABASE another");
    session.run("CREATE TABLE quiet (id int)");
    session.run("ALTER PUBLICATION thorp RENAME TO all_of_them");
    session.run("CREATE PUBLICATION thorp FOR TABLE items");
    session.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active");
    let mut elsewhere = day.server.config();
    let elsewhere = Session::open(elsewhere.dbname("another"));
    elsewhere.run("CREATE TABLE t (id int)");
    let cases = [
        (&session, "INSERT INTO quiet VALUES (1)"),
        (&elsewhere, "INSERT INTO t VALUES (1)"),
        (&session, "CREATE TABLE made (id int); DROP TABLE made"),
        (&session, "SELECT pg_current_xact_id()"),
        (&session, "BEGIN; INSERT INTO items VALUES (900); PREPARE TRANSACTION 'two'"),
        (&session, "COMMIT PREPARED 'two'"),
        (
            &session,
            "BEGIN; INSERT INTO items VALUES (901); SAVEPOINT s; INSERT INTO items VALUES (902); ROLLBACK TO s; COMMIT",
        ),
    ];
    for (session, statements) in cases {
        let begun = Instant::now();
        session.run(statements);
        assert!(begun.elapsed() < PATIENCE / 4, "{statements}: {:?}", begun.elapsed());
    }
    // With commits that are held up between them.
    let (ended, _) = day.begin_write("INSERT INTO quiet SELECT generate_series(1, 1000)");
    session.run("UPDATE items SET name = 'new' WHERE id = 1");
    ends(&ended);
    let confirmed =
        || session.ask("SELECT confirmed_flush_lsn >= pg_current_wal_lsn() FROM pg_replication_slots") == "t";
    session.run("CHECKPOINT");
    until("the server may forget its log", confirmed);
}

#[test]
fn what_is_set_up_is_undone() {
    if !is_installed() {
        return;
    }
    let server = Postgres::start(&[]);
    let config = server.watched(MAP);
    let session = server.session();
    session.run(
        "CREATE TABLE items (id int, name text PRIMARY KEY); CREATE ROLE hasty;
         ALTER ROLE hasty SET synchronous_commit = False;
         CREATE FUNCTION hasty() RETURNS int LANGUAGE sql SET synchronous_commit = 'local' AS 'SELECT 1'",
    );
    session.run("ALTER SYSTEM SET synchronous_standby_names = ''");
    session.run("SELECT pg_reload_conf()");
    let state = || {
        session.ask(
            "SELECT concat_ws('|', current_setting('synchronous_standby_names'),
                 (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_replication_slots),
                 (SELECT count(*) FROM pg_event_trigger), (SELECT string_agg(nspname, ',' ORDER BY 1) FROM pg_namespace),
                 (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_db_role_setting),
                 (SELECT string_agg(name || '=' || setting, ',' ORDER BY 1) FROM pg_file_settings))",
        )
    };
    let before = state();
    let broken = |findings: &[pgwatch::Finding]| findings.iter().filter(|f| f.severity == Severity::Broken).count();
    let findings = block_on(check(&config)).unwrap();
    assert_eq!(broken(&findings), 3, "{findings:#?}");
    assert!(matches!(block_on(remove(&config, Duration::ZERO)), Err(SetupError::NotMade)));

    let said = block_on(set_up(&config, &mut Patience::endless())).unwrap();
    assert_eq!(said.len(), 4, "{said:#?}");
    assert!(matches!(block_on(set_up(&config, &mut Patience::endless())), Err(SetupError::Made)));
    let findings = block_on(check(&config)).unwrap();
    assert_eq!(broken(&findings), 0, "{findings:#?}");
    let says = |text: &str| findings.iter().any(|finding| finding.text.contains(text));
    assert!(
        says("the role hasty: synchronous_commit=false") && says("the function hasty(): synchronous_commit=local"),
        "{findings:#?}"
    );
    assert!(says("old values of public.items.id"), "{findings:#?}");
    assert_eq!(findings.len(), 3, "{findings:#?}");

    let web = Web::start();
    let watch = Watch::start(config.clone(), web.updates(), None).unwrap();
    assert!(watch.wait_for(WatchState::Watching, PATIENCE), "{:?}", watch.status());
    assert!(matches!(block_on(remove(&config, Duration::ZERO)), Err(SetupError::Watched)));
    drop(watch);
    until("the server has noticed", || session.ask("SELECT count(*) FROM pg_replication_slots WHERE active") == "0");
    let said = block_on(remove(&config, Duration::ZERO)).unwrap();
    assert_eq!(said.len(), 4, "{said:#?}");
    until("the settings are read", || state() == before);
    session.run("INSERT INTO items VALUES (1, 'new')");
}

/// The things that setting up makes.
const MADE: &str =
    "SELECT concat_ws('|', (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_event_trigger),
                        (SELECT count(*) FROM pg_replication_slots), (SELECT count(*) FROM pg_db_role_setting),
                        (SELECT count(*) FROM pg_namespace WHERE nspname = 'thorp_watch'),
                        current_setting('synchronous_standby_names'))";

/// A slot is made when all transactions have ended that run. One that was forgotten is named, and whoever has enough of
/// waiting leaves nothing behind.
#[test]
fn setting_up_says_what_it_waits_for_and_is_undone_when_it_is_stopped() {
    if !is_installed() {
        return;
    }
    let server = Postgres::start(&[]);
    let config = server.watched(MAP);
    let forgotten = server.session();
    forgotten.run("CREATE TABLE items (id int PRIMARY KEY); CREATE ROLE guarded");
    block_on(guard(&config, &["guarded".to_owned()])).unwrap();
    let before = server.session().ask(MADE);
    let set_up_until_told = || {
        let (stop, stopped) = oneshot::channel::<()>();
        let (mut stop, mut told) = (Some(stop), Vec::new());
        let say = |running: &[Running]| {
            told = running.to_vec();
            drop(stop.take());
        };
        let stopped = async { drop(stopped.await) };
        let outcome = block_on(set_up(&config, &mut Patience::new(say, stopped)));
        assert!(matches!(outcome, Err(SetupError::Stopped)), "{outcome:?}");
        assert_eq!(server.session().ask(MADE), before);
        told
    };
    forgotten.run("BEGIN; SAVEPOINT a; INSERT INTO items VALUES (1); SAVEPOINT b; INSERT INTO items VALUES (2)");
    let told = set_up_until_told();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].process.map(|process| process.to_string()), Some(forgotten.process()));
    let text = told[0].to_string();
    assert!(text.contains("role postgres, database postgres, idle in transaction) since 20"), "{text}");
    assert!(
        text.ends_with(": BEGIN; SAVEPOINT a; INSERT INTO items VALUES (1); SAVEPOINT b; INSERT INTO items VALUES (2)"),
        "{text}"
    );
    forgotten.run("PREPARE TRANSACTION 'lost'");
    let told = set_up_until_told();
    assert!(
        told[0].to_string().starts_with("nobody's session (role postgres, database postgres, prepared as lost) since")
    );
    forgotten.run("ROLLBACK PREPARED 'lost'");
    block_on(set_up(&config, &mut Patience::endless())).unwrap();
}

/// A watcher that begins has caught up when all have ended that ran then, and no others.
#[test]
fn a_watcher_that_catches_up_knows_what_it_waits_for() {
    let Some(mut day) = Day::begin() else { return };
    day.stop_watching();
    let forgotten = day.server.session();
    forgotten.run("BEGIN; UPDATE items SET name = 'new' WHERE id = 1");
    let watch = Watch::start(day.config.clone(), day.web.updates(), None).unwrap();
    until("it waits", || watch.status().awaits_before.is_some());
    let before = watch.status().awaits_before;
    let later = day.server.session();
    later.run("BEGIN; UPDATE items SET name = 'new' WHERE id = 2");
    let processes = |before| -> Vec<_> {
        let running = block_on(running(&day.config, before)).unwrap();
        running.iter().filter_map(|running| running.process.map(|process| process.to_string())).collect()
    };
    assert_eq!(processes(before), [forgotten.process()]);
    assert_eq!(processes(None), [forgotten.process(), later.process()]);
    assert_eq!(watch.status().state, WatchState::CatchingUp);
    forgotten.run("ROLLBACK");
    assert!(watch.wait_for(WatchState::Watching, PATIENCE), "{:?}", watch.status());
    assert_eq!(watch.status().awaits_before, None);
}

/// A watcher needs no rights of a table: the stream is for whoever may replicate.
#[test]
fn a_role_that_may_log_in_and_replicate_may_watch() {
    let Some(mut day) = Day::begin() else { return };
    day.stop_watching();
    let session = day.server.session();
    session
        .run("SET synchronous_commit = local; CREATE ROLE watcher LOGIN REPLICATION; REVOKE ALL ON items FROM PUBLIC");
    let mut role = day.server.config();
    role.user("watcher");
    let config = WatchConfig { database: role.clone().into(), ..day.config.clone() };
    let forgotten = day.server.session();
    forgotten.run("BEGIN; UPDATE items SET name = 'new' WHERE id = 3");
    let watch = Watch::start(config.clone(), day.web.updates(), None).unwrap();
    until("it waits", || watch.status().awaits_before.is_some());
    let awaited = block_on(running(&config, watch.status().awaits_before)).unwrap();
    assert_eq!(awaited[0].process.map(|process| process.to_string()), Some(forgotten.process()), "{awaited:?}");
    forgotten.run("ROLLBACK");
    assert!(watch.wait_for(WatchState::Watching, PATIENCE), "{:?}", watch.status());
    assert_eq!(block_on(missing_tables(&config)).unwrap(), Vec::<String>::new());
    day.left.clear();
    let stored = day.web.fill_soon("item:1");
    session.run("SET synchronous_commit = on; UPDATE items SET name = 'new' WHERE id = 1");
    assert!(!stored.is_current());
    assert!(Session::open(&role).try_run("SELECT FROM items").is_err(), "it may not read the table");
}

#[test]
fn a_map_of_another_database_is_broken() {
    if !is_installed() {
        return;
    }
    let server = Postgres::start(&[]);
    server.session().run("CREATE TABLE items (id int PRIMARY KEY)");
    let of = |map: &str| {
        let config = server.watched(map);
        let findings = block_on(check(&config)).unwrap();
        let about_map = findings.into_iter().find(|finding| finding.text.contains("map"));
        (about_map.map(|finding| (finding.severity, finding.text)), block_on(missing_tables(&config)).unwrap())
    };
    assert_eq!(of(MAP), (None, Vec::new()));
    let (found, missing) = of("[tables.\"shop.items\"]\nrows = []\n[tables.\"public.itemz\"]\nrows = []\n");
    let text = "the database has none of the map's tables: public.itemz, shop.items";
    assert_eq!(found, Some((Severity::Broken, text.to_owned())));
    assert_eq!(missing, ["public.itemz", "shop.items"]);
    let (found, missing) = of(&format!("{MAP}[tables.\"public.itemz\"]\nrows = []\n"));
    let text = "the map has the table public.itemz, which is not there";
    assert_eq!((found, missing), (Some((Severity::Hole, text.to_owned())), vec!["public.itemz".to_owned()]));
}

/// Names that are somebody else's, and tables that could no longer be updated.
#[test]
fn what_would_touch_something_else_is_not_made() {
    if !is_installed() {
        return;
    }
    let server = Postgres::start(&[]);
    let session = server.session();
    let config = WatchConfig { slot: "shop".to_owned(), ..server.watched(MAP) };
    let made = "SELECT concat_ws('|', (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_event_trigger),
                    (SELECT count(*) FROM pg_replication_slots), (SELECT count(*) FROM pg_db_role_setting),
                    (SELECT count(*) FROM pg_namespace WHERE nspname = 'shop'))";
    let cases = [
        ("CREATE SCHEMA shop; CREATE TABLE shop.orders (id int PRIMARY KEY)", "DROP SCHEMA shop CASCADE", "schema"),
        (
            "SELECT pg_create_logical_replication_slot('shop', 'pgoutput')",
            "SELECT pg_drop_replication_slot('shop')",
            "slot",
        ),
        (
            "CREATE FUNCTION f() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
             CREATE EVENT TRIGGER shop_ddl ON ddl_command_end EXECUTE FUNCTION f()",
            "DROP EVENT TRIGGER shop_ddl",
            "event trigger",
        ),
    ];
    for (make, undo, expected) in cases {
        session.run(make);
        let before = session.ask(made);
        let refused = block_on(set_up(&config, &mut Patience::endless())).unwrap_err();
        assert!(matches!(&refused, SetupError::Taken { kind, .. } if kind == expected), "{refused}");
        assert!(matches!(block_on(remove(&config, Duration::ZERO)), Err(SetupError::NotMade)));
        assert_eq!(session.ask(made), before, "{make}");
        session.run(undo);
    }
    session.run("CREATE TABLE nopk (id int)");
    let findings = block_on(check(&config)).unwrap();
    assert!(findings.iter().any(|finding| finding.text.contains("public.nopk")), "{findings:#?}");
    let refused = block_on(set_up(&config, &mut Patience::endless())).unwrap_err();
    assert!(matches!(&refused, SetupError::NoIdentity(tables) if *tables == ["public.nopk"]), "{refused}");
    assert_eq!(session.ask(made), "0|0|0|0|0");
    session.run("ALTER TABLE nopk REPLICA IDENTITY FULL");
    block_on(set_up(&config, &mut Patience::endless())).unwrap();
    let other = WatchConfig { slot: "another".to_owned(), ..config.clone() };
    let refused = block_on(remove(&other, Duration::ZERO)).unwrap_err();
    assert!(matches!(refused, SetupError::OtherNames { .. }), "{refused}");

    // A table that somebody has put into the schema since is not dropped.
    session.run("SET synchronous_commit = local; CREATE TABLE shop.orders (id int)");
    assert!(block_on(remove(&config, Duration::ZERO)).is_err());
    session.run("ALTER TABLE shop.orders SET SCHEMA public");
    block_on(remove(&config, Duration::ZERO)).unwrap();
    assert_eq!(session.ask(made), "0|0|0|0|0");
}

/// A watcher that begins while another is being removed would find commits that no request waits for.
#[test]
fn nobody_watches_while_the_watcher_is_removed() {
    let Some(mut day) = Day::begin() else { return };
    day.stop_watching();
    let slots = "SELECT count(*) FROM pg_replication_slots";
    let session = day.server.session();
    until("the server has noticed", || session.ask(&format!("{slots} WHERE active")) == "0");
    let (config, (end, ended)) = (day.config.clone(), mpsc::channel());
    let removing = thread::spawn(move || {
        let said = block_on(remove(&config, Duration::from_secs(1)));
        end.send(()).unwrap();
        said
    });
    until("the slot is dropped", || session.ask(slots) == "0" || ended.try_recv().is_ok());
    assert!(ended.try_recv().is_err(), "it waits with the slot dropped, and commits wait in the meantime");
    assert_eq!(session.ask("SHOW synchronous_standby_names"), LET_GO.replace("thorp_watch", "\"thorp_watch\""));
    let watch = Watch::start(day.config.clone(), day.web.updates(), None).unwrap();
    until("it finds none", || watch.status().last_error.is_some_and(|error| error.contains("does not exist")));
    removing.join().unwrap().unwrap();
    assert_eq!(watch.status().connections, 0, "{:?}", watch.status());
}

/// The server's processes read the list one by one. Commits wait when the checkpointer has.
#[test]
fn setting_up_ends_when_commits_wait() {
    if !is_installed() {
        return;
    }
    let server = Postgres::start(&[]);
    let config = server.watched(MAP);
    let session = server.session();
    let checkpointer = session.ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
    signal("STOP", &checkpointer);
    let (end, ended) = mpsc::channel();
    thread::spawn(move || end.send(block_on(set_up(&config, &mut Patience::endless())).map(drop)));
    until("the list is set", || !server.session().ask("SHOW synchronous_standby_names").is_empty());
    assert!(ended.recv_timeout(HELD).is_err());
    session.run("SELECT pg_logical_emit_message(true, 'none', '')");
    signal("CONT", &checkpointer);
    ended.recv_timeout(PATIENCE).expect("it ends").unwrap();
}

/// Once it is said that commits wait, they do; and what was added to their list since stays there.
#[test]
fn commits_wait_from_the_end_of_setting_up_to_that_of_removing() {
    if !is_installed() {
        return;
    }
    let server = Postgres::start(&[]);
    let config = server.watched(MAP);
    let session = server.session();
    session.run("CREATE TABLE items (id int PRIMARY KEY)");
    let standbys = || server.session().ask("SHOW synchronous_standby_names");
    for round in 0..5 {
        block_on(set_up(&config, &mut Patience::endless())).unwrap();
        let process = session.process();
        thread::scope(|scope| {
            let commit = scope.spawn(|| session.try_run(&format!("INSERT INTO items VALUES ({round})")));
            let other = server.session();
            let waits =
                format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {process} AND wait_event = 'SyncRep'");
            until("it waits or ends", || other.ask(&waits) == "1" || commit.is_finished());
            assert!(!commit.is_finished(), "round {round}");
            block_on(remove(&config, Duration::ZERO)).unwrap();
            commit.join().unwrap().unwrap();
        });
        assert_eq!(standbys(), "", "round {round}");
    }
    block_on(set_up(&config, &mut Patience::endless())).unwrap();
    session.run("SET synchronous_commit = local");
    session.run("ALTER SYSTEM SET synchronous_standby_names = 'FIRST 2 (thorp_watch, added)'");
    session.run("SELECT pg_reload_conf()");
    until("the list is read", || standbys().contains("added"));
    block_on(remove(&config, Duration::ZERO)).unwrap();
    assert_eq!(standbys(), "FIRST 1 (\"added\")");
}

#[test]
fn a_list_that_cannot_name_a_watcher_is_refused() {
    if !is_installed() {
        return;
    }
    let server = Postgres::start(&["synchronous_standby_names=ANY 1 (a, b)"]);
    let refused = block_on(set_up(&server.watched(MAP), &mut Patience::endless())).unwrap_err();
    assert!(matches!(refused, SetupError::Standbys(_)), "{refused}");
    drop(server);
    let server = Postgres::start(&["wal_level=replica"]);
    assert!(matches!(block_on(set_up(&server.watched(MAP), &mut Patience::endless())), Err(SetupError::WalLevel(_))));
}

#[test]
fn a_password_is_proved_and_not_told() {
    let Some(mut day) = Day::begin() else { return };
    day.stop_watching();
    let session = day.server.session();
    session.run("SET synchronous_commit = local; SET password_encryption = 'scram-sha-256'");
    session.run("CREATE ROLE watcher LOGIN SUPERUSER REPLICATION PASSWORD 'secret'");
    let file = session.ask("SHOW hba_file");
    std::fs::write(
        &file,
        "local all watcher scram-sha-256\nlocal replication watcher scram-sha-256\nlocal all all trust\n",
    )
    .unwrap();
    session.run("SELECT pg_reload_conf()");
    day.config.database.config.user("watcher").password("wrong");
    until("the file is read", || {
        let watch = Watch::start(day.config.clone(), day.web.updates(), None).unwrap();
        until("it is refused or not", || watch.status().last_error.is_some() || watch.status().connections > 0);
        watch.status().last_error.is_some_and(|error| error.contains("password authentication failed"))
    });
    day.config.database.config.password("secret");
    day.watch();
    let (ended, _) = day.begin_write("UPDATE items SET name = 'new' WHERE id = 1");
    ends(&ended);
}

/// Updates that wait for a watcher with five homes, and updates of PostgreSQL alone, in turns.
#[test]
fn what_a_watcher_costs_an_update() {
    for setting in ["fsync=off", "fsync=on"] {
        let Some(mut day) = Day::begin_with(&[setting], || Web::with_homes_apart(4)) else { return };
        let mut took = [Vec::new(), Vec::new()];
        for _ in 0..3 {
            update_often(&day, &mut took[1]);
            day.stop_watching();
            day.wait_for_standbys("");
            update_often(&day, &mut took[0]);
            day.wait_for_standbys(LET_GO);
            day.watch();
        }
        let [alone, watched] = took.map(|mut took| {
            took.sort_unstable();
            took[took.len() / 2].as_micros()
        });
        println!(
            "{{\"figure\":\"update held by a watcher\",\"homes\":5,\"setting\":\"{setting}\",\"alone_us_p50\":{alone},\
             \"watched_us_p50\":{watched}}}"
        );
        assert!(watched < alone + 100_000);
    }
}

fn update_often(day: &Day, took: &mut Vec<Duration>) {
    let session = day.server.session();
    for round in 0..300 {
        let begun = Instant::now();
        session.run(&format!("UPDATE items SET name = 'round {round}' WHERE id = 1"));
        took.push(begun.elapsed());
    }
}

/// More commits than are heard at a time have gathered: they are read one after another, from one connection.
#[test]
fn a_backlog_is_read_to_its_end() {
    let Some(mut day) = Day::begin() else { return };
    day.stop_watching();
    let session = day.server.session();
    session.run("SET synchronous_commit = local");
    // A hub with another home releases a commit some time after it is announced.
    let each = "INSERT INTO items VALUES (n + 1000, 'new'); COMMIT";
    session.run(&format!("DO $$ BEGIN FOR n IN 1..4000 LOOP {each}; END LOOP; END $$"));
    let ended = day.begin_write("UPDATE items SET name = 'last' WHERE id = 1").0;
    day.watch();
    ends(&ended);
    assert_eq!(day.status().connections, 1, "{:?}", day.status());
    assert!(day.status().commits > 4000);
}

/// A watcher that gets the slot does not know whether another one had it, whose homes answer for a while.
#[test]
fn nothing_is_confirmed_while_homes_of_another_watcher_may_answer() {
    let Some(mut day) = Day::begin() else { return };
    day.stop_watching();
    day.config.others_lease = Duration::from_secs(1);
    let begun = Instant::now();
    let ended = day.begin_write("UPDATE items SET name = 'new' WHERE id = 1").0;
    let watch = Watch::start(day.config.clone(), day.web.updates(), None).unwrap();
    until("it has the slot", || watch.status().connections == 1);
    ends(&ended);
    assert!(begun.elapsed() >= day.config.others_lease);
    assert_eq!(day.name_of(1), "new");
}

/// A server that decodes what it does not send is silent in the stream, and lives: the watcher does not begin again.
#[test]
fn a_silent_stream_of_a_server_that_answers_is_waited_for() {
    let Some(mut day) = Day::begin() else { return };
    day.stop_watching();
    day.config.lease = Duration::from_secs(1);
    // The first process of the server that the watcher's stream comes from is stopped; its others answer.
    day.watch();
    let session = day.server.session();
    let process = session.ask("SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'thorp_watch'");
    signal("STOP", &process);
    thread::sleep(3 * day.config.lease);
    let status = day.status();
    signal("CONT", &process);
    assert_eq!((status.connections, status.state), (1, WatchState::Watching), "{status:?}");
    day.server.session().run("UPDATE items SET name = 'new' WHERE id = 1");
}

fn signal(name: &str, process: &str) {
    let kill = std::process::Command::new("kill").args([&format!("-{name}"), process]).status();
    assert!(kill.unwrap().success());
}
