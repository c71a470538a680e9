//! The demo of published files, with few publishes. A process of each kind is killed even so, and one is stopped.

use crate::program::{Folder, command, ran, spawn, thorp};
use fixtures::Signal;
use fixtures::installed::find;
use serde_json::Value;

#[test]
fn no_page_is_mixed_and_every_server_has_the_newest_version() {
    let folder = Folder::new();
    let mut demo = command();
    demo.args(["demo", "files", "--json", "--publishes", "6", "--faults", "5"]).env("TMPDIR", folder.path());
    let account: Value = serde_json::from_str(ran(demo.output().unwrap()).ok().trim()).unwrap();
    for count in ["mixed_pages", "gone_back", "pages_old_and_unsaid", "answers_wrong"] {
        assert_eq!(account[count], 0, "{account}");
    }
    assert_eq!((&account["publishes"], &account["revision"]), (&6.into(), &7.into()), "{account}");
    assert_eq!(account["every_server_has_it_whole"], true, "{account}");
    // Processes were killed, and their servers were without a store for longer than a lease.
    for count in ["pages", "requests_unanswered", "pages_that_said_they_may_be_old", "chunks_verified"] {
        assert!(account[count].as_u64() > Some(0), "{count}: {account}");
    }
    let crossed = account["bytes_over_each_line"].as_array().unwrap();
    assert!(crossed.len() == 2 && crossed.iter().all(|it| it.as_u64() > Some(0)), "{account}");
    assert!(account["everywhere_after_ms_max"].as_f64() > Some(0.0), "{account}");
    // The same check finds the pages that are mixed where files are copied one by one.
    if find("rsync").is_some() {
        assert!(account["rsync_mixed_pages"].as_u64() > Some(0), "{account}");
    } else {
        assert!(account["rsync_pages"].is_null(), "{account}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Ctrl-C leaves nothing: no process, no folder.
#[test]
fn a_demo_of_files_that_is_interrupted_leaves_nothing() {
    let child = spawn(&["demo", "files", "--publishes", "5", "--alone"]);
    let name = format!("thorp-demo-{}-", child.id());
    // A server is away, and the others have a version to fetch.
    std::iter::from_fn(|| child.line().ok()).find(|line| line.contains("kill -9: server")).expect("a kill");
    let ended = child.end_by(Signal::INT).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("interrupted: everything that ran is gone"), "{ended:?}");
    let mut folders = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    assert!(!folders.any(|folder| folder.file_name().to_string_lossy().starts_with(&name)));
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let words = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&words).contains(&name), "{} runs still", process.path().display());
    }
}

#[test]
fn the_help_of_the_demo_says_what_it_checks() {
    let help = thorp(["demo", "files", "--help"]).ok();
    for word in ["--publishes", "mixed pages", "gone back", "old, unsaid", "at the end", "kill -9", "kill -STOP"] {
        assert!(help.contains(word), "{word}: {help}");
    }
    assert_eq!(thorp(["demo", "files", "--publishes", "4"]).code, Some(2));
    assert!(thorp(["demo", "files", "--publishes", "5", "--faults", "5"]).usage().contains("less than --publishes"));
}
