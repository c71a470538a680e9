//! Roles whose commits do not wait, and what guards them.

use super::server::{Session, block_on};
use super::{Day, until};
use pgwatch::{SetupError, Severity, check, guard, remove};
use std::time::{Duration, Instant};

/// The stream does not tell which commits have waited.
#[test]
fn commits_that_do_not_wait_are_noticed() {
    let Some(day) = Day::begin() else { return };
    let session = day.server.session();
    let write = || session.run("UPDATE items SET name = 'new' WHERE id = 1");
    let begun = Instant::now();
    // Two looks, one a second.
    while begun.elapsed() < Duration::from_millis(1200) {
        write();
    }
    assert_eq!(day.status().unheld, 0);
    session.run("SET synchronous_commit = local");
    until("it is noticed", || {
        write();
        day.status().unheld > 0
    });
}

/// Roles with settings that open holes, which are closed for sessions that say nothing else.
#[test]
fn a_guarded_role_waits() {
    let Some(day) = Day::begin() else { return };
    let session = day.server.session();
    session.run("SET synchronous_commit = local; CREATE ROLE hasty LOGIN; GRANT ALL ON items TO hasty");
    session.run("ALTER ROLE hasty SET synchronous_commit = off; ALTER ROLE hasty SET statement_timeout = '1s'");
    session.run("ALTER ROLE hasty IN DATABASE postgres SET statement_timeout = '2s'");
    let settings = "SELECT string_agg(concat_ws(' ', setrole::regrole, setdatabase = 0, setconfig), ';' ORDER BY 1) \
                    FROM pg_db_role_setting WHERE setrole <> 0";
    let before = session.ask(settings);
    let holes = || {
        let found = block_on(check(&day.config)).unwrap();
        let holes = found.into_iter().filter(|finding| finding.severity == Severity::Hole);
        holes.map(|finding| finding.text).collect::<Vec<_>>()
    };
    let found = holes();
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[1].starts_with("the role hasty in the database postgres: statement_timeout=2s"), "{found:#?}");
    assert!(found[0].starts_with("the role hasty: synchronous_commit=off"), "{found:#?}");

    let refused = block_on(guard(&day.config, &["hasty".to_owned(), "absent".to_owned()]));
    assert!(matches!(refused, Err(SetupError::NoRole(_))), "{refused:?}");
    let mut hasty = day.server.config();
    hasty.user("hasty");
    let old = Session::open(&hasty);
    let said = block_on(guard(&day.config, &["hasty".to_owned()])).unwrap();
    assert!(said[0].starts_with("the role hasty waits"), "{said:?}");
    let found = holes();
    assert!(found.len() == 1 && found[0].starts_with("1 sessions of the role hasty are older"), "{found:#?}");
    drop(old);
    until("the old session has ended", || holes().is_empty());
    let new = Session::open(&hasty);
    assert_eq!(new.ask("SHOW synchronous_commit") + &new.ask("SHOW statement_timeout"), "on0");
    assert!(block_on(guard(&day.config, &["hasty".to_owned()])).unwrap()[0].ends_with("guarded already"));
    drop(day.watch);
    until("the server has noticed", || session.ask("SELECT count(*) FROM pg_replication_slots WHERE active") == "0");
    let said = block_on(remove(&day.config, Duration::ZERO)).unwrap();
    assert!(said.iter().any(|line| line == "the role hasty has the settings of before"), "{said:#?}");
    assert_eq!(session.ask(settings), before);
}
