//! A benchmark as a user runs it, with the smallest sizes. The bounds of durations are for a quiet machine to judge.

use crate::program::{Folder, spawn, thorp};
use fixtures::{Signal, until};
use serde_json::Value;

#[test]
fn each_figure_of_published_files_is_measured() {
    let folder = Folder::new();
    let dir = folder.file("");
    let printed = thorp(["bench", "files", "--files", "100", "--members", "2", "--dir", &dir, "--json"]).ok();
    let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |figure: &str| lines.iter().filter(|line| line["figure"] == figure).collect::<Vec<_>>();
    let names = [
        ("update", 2),
        ("burst", 1),
        ("spread", 2),
        ("ahead", 1),
        ("publish", 4),
        ("first", 1),
        ("rollback", 1),
        ("restart", 1),
        ("collection", 1),
    ];
    for (figure, count) in names {
        assert_eq!(of(figure).len(), count, "{figure}: {printed}");
    }
    assert!(!of("hits").is_empty() && !of("mount").is_empty(), "{printed}");
    for line in &lines {
        assert!(line["skipped"].is_string() || line["met"].is_boolean(), "{line}");
    }
    // Bytes and messages are the same on every machine.
    for line in of("update") {
        assert_eq!((&line["messages_most"], &line["met"]), (&1.into(), &true.into()), "{line}");
    }
    assert!(of("spread").iter().all(|line| line["over_changed"].as_f64() > Some(1.0)), "{printed}");
    // 100 files in each of 10 revisions, and the directories that lead to them.
    assert!(of("collection")[0]["removed_chunks"].as_u64() >= Some(1000), "{printed}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_benchmark_that_is_told_to_stop_leaves_nothing() {
    let folder = Folder::new();
    let benchmark = spawn(&["bench", "commit", "--dir", &folder.file("")]);
    let has_begun = || {
        let made: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        made.iter().any(|path| path.join("case").exists())
    };
    until("it measures", has_begun);
    let ended = benchmark.end_by(Signal::TERM).unwrap();
    assert!(!ended.status.success(), "{ended:?}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
