//! The shop, and the demo of the web front end on it. Where PostgreSQL is not installed it is skipped; in CI it has to
//! be.

use crate::program::{Folder, Ran, command, ran, thorp};
use serde_json::Value;

/// Runs the demo, if it can be run here, where it runs if it is told nothing.
fn demo(options: &[&str]) -> Option<(Ran, Value)> {
    let folder = Folder::new();
    let mut demo = command();
    demo.args(["demo", "web", "--json", "--turn-s", "1"]).args(options).env("TMPDIR", folder.path());
    let ran = ran(demo.output().unwrap());
    if ran.stderr.contains("PostgreSQL, which is not installed") && std::env::var_os("CI").is_none() {
        println!("skipped, because PostgreSQL is not installed");
        return None;
    }
    let account = serde_json::from_str(ran.stdout.trim()).unwrap_or_else(|_| panic!("{ran:?}"));
    Some((ran, account))
}

/// Another proxy's death is another home's; the test of `thorp watch` has the watcher's.
#[test]
fn no_page_is_stale_while_a_proxy_is_killed() {
    let Some((ran, account)) = demo(&["--alone", "--faults", "1"]) else { return };
    ran.ok();
    assert_eq!(account["faults"], 1, "{account}");
    for count in ["hits_under_faults", "updates_under_faults", "checked_pages"] {
        assert!(account[count].as_u64() > Some(0), "{count}: {account}");
    }
    for count in ["older_than_a_writer_was_told", "older_than_somebody_was_shown"] {
        assert_eq!(account[count], 0, "{account}");
    }
}

#[test]
fn the_check_finds_what_is_stale() {
    let Some((ran, account)) = demo(&["--unwatched"]) else { return };
    assert!(account["older_than_a_writer_was_told"].as_u64() > Some(0), "{account}");
    assert!(ran.stderr.contains("nobody has told the proxies what changes"), "{}", ran.stderr);
    assert_eq!(ran.code, Some(1));
}

#[test]
fn a_shop_without_a_database_says_what_is_missing() {
    let nowhere = thorp(["shop", "postgres://nobody@127.0.0.1:1/none", "--setup"]).error();
    assert!(nowhere.contains("the shop was not set up"), "{nowhere}");
    assert!(thorp(["shop", "--map"]).ok().contains("[tables.\"public.items\"]"));
    assert_eq!(thorp(["shop"]).code, Some(2));
}
