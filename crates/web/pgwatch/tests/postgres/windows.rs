//! How long a change is visible before it is marked, where its commit does not wait; and the check that names each such
//! place.

use crate::server::{Postgres, block_on, is_installed};
use crate::web::Web;
use crate::{Day, MAP, PATIENCE, until};
use coherence::Claim;
use pgwatch::{Patience, Severity, Watch, WatchConfig, WatchState, check, set_up};
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: u64 = 30;

fn finds(config: &WatchConfig, text: &str) -> bool {
    let findings = block_on(check(config)).unwrap();
    findings.iter().any(|finding| finding.severity == Severity::Hole && finding.text.contains(text))
}

/// From now, when a change is visible, until what is stored is not current.
fn window(stored: &Claim) -> Duration {
    let begun = Instant::now();
    while stored.is_current() {
        assert!(begun.elapsed() < PATIENCE, "it is not marked");
        thread::yield_now();
    }
    begun.elapsed()
}

fn print(what: &str, mut windows: Vec<Duration>) {
    windows.sort_unstable();
    let (p50, max) = (windows[windows.len() / 2].as_micros(), windows[windows.len() - 1].as_micros());
    println!("{{\"figure\":\"visible before it is marked\",\"writer\":\"{what}\",\"us_p50\":{p50},\"us_max\":{max}}}");
}

/// A commit that is not waited for is flushed, and learned of, some time later.
#[test]
fn a_session_that_does_not_wait() {
    let Some(day) = Day::begin_with(&["fsync=on"], Web::start) else { return };
    for setting in ["local", "off"] {
        let session = day.server.session();
        session.run(&format!("SET synchronous_commit = {setting}"));
        let round = |round: u64| {
            let stored = day.web.fill_soon("item:1");
            // Not in step with the process that flushes.
            thread::sleep(Duration::from_millis(round * 37 % 200));
            session.run(&format!("UPDATE items SET name = 'round {round}' WHERE id = 1"));
            window(&stored)
        };
        print(setting, (0..ROUNDS).map(round).collect());
    }
    let session = day.server.session();
    session.run("CREATE ROLE hasty; ALTER ROLE hasty SET synchronous_commit = off");
    assert!(finds(&day.config, "the role hasty: synchronous_commit=off, so these commits are visible before they are"));
    assert!(finds(&day.config, "by as much as 600 ms"));
}

/// A subscription's commits do not wait, unless it says so.
#[test]
fn a_subscription_is_named() {
    if !is_installed() {
        return;
    }
    let (publisher, server, web) = (Postgres::start(&["fsync=on"]), Postgres::start(&["fsync=on"]), Web::start());
    let (config, session, writer) = (server.watched(MAP), server.session(), publisher.session());
    let table = "CREATE TABLE items (id int PRIMARY KEY, name text)";
    session.run(table);
    writer.run(&format!("{table}; INSERT INTO items VALUES (1, 'old'); CREATE PUBLICATION items FOR TABLE items"));
    session.run(&format!("CREATE SUBSCRIPTION hasty CONNECTION '{}' PUBLICATION items", publisher.words()));
    let name = || session.ask("SELECT name FROM items WHERE id = 1");
    until("it is copied", || name() == "old");
    block_on(set_up(&config, &mut Patience::endless())).unwrap();
    let watch = Watch::start(config.clone(), web.updates(), None).unwrap();
    assert!(watch.wait_for(WatchState::Watching, PATIENCE), "{:?}", watch.status());
    assert!(finds(&config, "the subscription hasty: synchronous_commit=off"));
    let round = |round: u64| {
        let stored = web.fill_soon("item:1");
        thread::sleep(Duration::from_millis(round * 37 % 200));
        writer.run(&format!("UPDATE items SET name = 'round {round}' WHERE id = 1"));
        until("it is visible", || name() == format!("round {round}"));
        window(&stored)
    };
    print("subscription", (0..ROUNDS).map(round).collect());

    session.run("ALTER SUBSCRIPTION hasty SET (synchronous_commit = on)");
    assert!(!finds(&config, "the subscription hasty"));
    writer.run("UPDATE items SET name = 'applied' WHERE id = 1");
    until("it is applied", || name() == "applied");
    for round in 0..5 {
        let stored = web.fill_soon("item:1");
        writer.run(&format!("UPDATE items SET name = 'held {round}' WHERE id = 1"));
        until("it is visible", || name() == format!("held {round}"));
        assert!(!stored.is_current(), "its commits wait, too");
    }
}
