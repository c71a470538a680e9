//! The words of watchers in the server's log, and the lock under which they say them.

use crate::server::Session;
use crate::{Day, ends, until};
use pgwatch::{Watch, WatchState};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_millis(1500);

/// How long the commit waits that was begun before the next watcher, where this was said by the last one; the server's
/// own number and timeline stand for `{system}` and `{timeline}`.
fn waits_after(day: &Day, content: &str) -> Duration {
    let session = day.server.session();
    session.run("SET synchronous_commit = local");
    let content = content
        .replace("{system}", &session.ask("SELECT system_identifier FROM pg_control_system()"))
        .replace("{timeline}", &session.ask("SELECT timeline_id FROM pg_control_checkpoint()"));
    session.run(&format!("SELECT pg_logical_emit_message(true, 'thorp_ended', '{content}')"));
    let ended = day.begin_write("UPDATE items SET name = 'new' WHERE id = 1").0;
    let begun = Instant::now();
    let watch = Watch::start(day.config.clone(), day.web.updates(), None).unwrap();
    ends(&ended);
    let waited = begun.elapsed();
    watch.stop().into_iter().for_each(drop);
    waited
}

/// The leases of a watcher are over that has said so here. One that has said so at another server, or before this one
/// was taken over or restored, may have had the slot again since, and what it said then is not in this log.
#[test]
fn an_end_that_was_said_at_another_server_is_not_believed() {
    let Some(mut day) = Day::begin() else { return };
    day.stop_watching();
    day.config.others_lease = LEASE;
    for content in ["{system}1 {timeline}", "{system} {timeline}1", ""] {
        let waited = waits_after(&day, content);
        assert!(waited >= LEASE, "'{content}' is believed: {waited:?}");
    }
    let waited = waits_after(&day, "{system} {timeline}");
    assert!(waited < LEASE, "the word of this server is not believed: {waited:?}");
}

/// A watcher that cannot begin says whose fault that is; it begins when that session has let go.
#[test]
fn a_session_that_holds_the_lock_is_named() {
    let Some(mut day) = Day::begin() else { return };
    day.stop_watching();
    let mut config = day.server.config();
    config.application_name("nightly job");
    let holder = Session::open(&config);
    holder.run("SELECT pg_advisory_lock(hashtextextended('thorp thorp_watch', 0))");
    let watch = Watch::start(day.config.clone(), day.web.updates(), None).unwrap();
    let named = format!("process {} of the database (application 'nightly job', role 'postgres')", holder.process());
    let says =
        || watch.status().last_error.is_some_and(|error| error.contains(&named) && error.contains("thorp_watch"));
    until("it names the session", says);
    assert_eq!(watch.status().state, WatchState::Apart);
    drop(holder);
    assert!(watch.wait_for(WatchState::Watching, crate::PATIENCE), "{:?}", watch.status());
}
