//! The demo of the block front end. Where no file system can be mounted it writes raw blocks, and says so.

use crate::program::{Folder, spawn, thorp};
use fixtures::Signal;
use serde_json::Value;

#[track_caller]
fn demo(words: &[&str]) -> Value {
    let folder = Folder::new();
    let dir = folder.file("demo");
    let more = ["--json", "--work-s", "1", "--dir", &dir];
    let said = thorp([&["demo", "volume"], words, &more[..]].concat()).ok();
    let account: Value = serde_json::from_str(said.trim()).unwrap();
    assert!(
        account["acknowledged_fsyncs"].as_u64() > Some(10) && account["checked_bytes"].as_u64() > Some(0),
        "{account}"
    );
    assert!(account["not_home_when_killed"].as_u64() > Some(0), "what was killed with the host was home: {account}");
    assert_eq!(account["acknowledged_and_lost_bytes"], 0, "{account}");
    account
}

#[test]
fn a_file_system_survives_its_host() {
    let account = demo(&["--table-mib", "1"]);
    if account["no_file_system"].is_null() {
        assert_eq!((&account["file_system"], &account["e2fsck"]), (&"ext4".into(), &"clean".into()), "{account}");
    } else {
        println!("no file system was mounted: {}", account["no_file_system"]);
    }
    let costs = account["copies_cost"].as_array().unwrap();
    let with_copies =
        costs.iter().filter(|it| it["lost_percent"].is_number() && it["paper_lost_percent_max"].is_number());
    assert_eq!((costs.len(), with_copies.count()), (8, 4), "{account}");
    assert!(costs.iter().all(|it| it["mb_per_s"].as_f64().is_some_and(|rate| rate > 0.0)), "{account}");
}

#[test]
fn flushed_blocks_survive_their_host() {
    let account = demo(&["--raw", "--table-mib", "0"]);
    assert_eq!(
        (&account["no_file_system"], &account["copies_cost"]),
        (&"--raw says so".into(), &Value::Array(Vec::new()))
    );
}

/// Ctrl-C leaves nothing: no mount, no loop device, no process, no folder.
#[test]
fn a_demo_that_is_interrupted_leaves_nothing() {
    let child = spawn(&["demo", "volume", "--work-s", "600"]);
    let name = format!("thorp-demo-{}-", child.id());
    let is_at_work = |line: &String| line.contains("fsync them") || line.contains("flush them");
    let line = std::iter::from_fn(|| child.line().ok()).find(is_at_work).expect("programs write");
    let devices = || std::fs::read_to_string("/proc/mounts").unwrap();
    assert!(line.contains("flush them") || devices().contains(&name), "{line}");
    let ended = child.end_by(Signal::INT).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("interrupted: everything that ran or was mounted is gone"), "{ended:?}");
    let mut folders = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let is_there = folders.any(|folder| folder.file_name().to_string_lossy().starts_with(&name));
    assert!(!is_there && !devices().contains(&name), "{}", devices());
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let words = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&words).contains(&name), "{} runs still", process.path().display());
    }
    for device in std::fs::read_dir("/sys/block").unwrap().flatten() {
        let backing = std::fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        assert!(!backing.contains(&name), "{} has it still", device.path().display());
    }
}
