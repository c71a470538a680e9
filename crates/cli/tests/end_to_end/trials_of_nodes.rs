//! A store of several nodes to try: `thorp demo cluster` and `thorp lab up`.

use crate::program::{command, ran, thorp, tool};
use fixtures::{Folder, Process, Signal};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// The program, with etcd in its PATH.
fn with_etcd(words: &[&str], folder: &Folder) -> Option<Command> {
    let etcd = tool("bin/etcd")?;
    let mut trial = command();
    trial.args(words).env("PATH", etcd.parent().unwrap()).env("TMPDIR", folder.path());
    Some(trial)
}

fn is_empty(folder: &Folder) -> bool {
    std::fs::read_dir(folder.path()).unwrap().next().is_none()
}

#[test]
fn the_demo_kills_each_process_and_loses_nothing() {
    let folder = Folder::new();
    let Some(mut demo) = with_etcd(&["demo", "cluster", "--json"], &folder) else { return };
    let account: Value = serde_json::from_str(&ran(demo.output().unwrap()).ok()).unwrap();
    let killed: Vec<_> = account["killed"].as_array().unwrap().iter().map(|killed| &killed["process"]).collect();
    assert_eq!(killed.len(), 4, "{account}");
    assert!(killed.iter().any(|process| process.as_str().unwrap().ends_with("with the sequencer")), "{account}");
    assert!(account["acknowledged"].as_u64().unwrap() >= 400, "{account}");
    assert_eq!((&account["acknowledged_and_lost"], &account["doubled"]), (&0.into(), &0.into()), "{account}");
    assert_eq!(account["strictly_serializable"], true, "{account}");
    assert!(is_empty(&folder));
}

#[test]
fn a_lab_serves_until_it_is_interrupted() {
    let folder = Folder::new();
    let words = ["lab", "up", "--nodes", "2", "--groups", "1", "--lease", "2s", "--json"];
    let Some(lab) = with_etcd(&words, &folder) else { return };
    let lab = Process::spawn(lab, "the lab").unwrap();
    let ready: Value = serde_json::from_str(&lab.line().unwrap()).unwrap();
    let (n2, group) = (ready["nodes"]["n2"].as_str().unwrap(), ready["groups"]["site-1"].as_str().unwrap());
    thorp(["put", "--server", n2, "greeting", "\"hello\""]).ok();
    assert_eq!(thorp(["get", "--server", group, "greeting"]).ok().trim(), "\"hello\"");
    let status = thorp(["cluster", "status", ready["etcd"].as_str().unwrap()]).ok();
    assert!(status.contains("n1") && status.contains("n2"), "{status}");
    let dir = PathBuf::from(ready["dir"].as_str().unwrap());
    assert!(dir.join("n1").is_dir());
    let ended = lab.end_by(Signal::INT).unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert!(!dir.exists() && is_empty(&folder));
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let words = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let is_of_lab = String::from_utf8_lossy(&words).contains(&*dir.to_string_lossy());
        assert!(!is_of_lab, "{} runs still", process.path().display());
    }
}

#[test]
fn a_lab_says_what_it_lacks() {
    let folder = Folder::new();
    let mut without = command();
    without.args(["lab", "up"]).env("PATH", folder.path()).env("TMPDIR", folder.path());
    if !std::path::Path::new("/usr/sbin/etcd").exists() {
        let why = ran(without.output().unwrap()).error();
        assert!(why.contains("needs etcd") && why.contains("--etcd etcd://"), "{why}");
    }
    let short = thorp(["lab", "up", "--lease", "1s"]);
    assert!(short.code == Some(2) && short.stderr.contains("from 2s to 60s"), "{}", short.stderr);
    assert!(is_empty(&folder));
}
