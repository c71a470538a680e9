//! The process is killed, closed, and looked over.

use crate::program::{Folder, command, ran, serve, spawn, thorp, tool};
use fixtures::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::path::Path;

#[test]
fn acknowledged_commits_survive_kill_9() {
    let folder = Folder::new();
    let mut server = serve(&folder);
    for i in 0..20 {
        let address = server.address().to_string();
        thorp(["put", &format!("n/{i:02}"), &i.to_string(), "--server", &address]).ok();
        if i % 5 == 4 {
            server.kill().unwrap();
            server = serve(&folder);
        }
    }
    let numbers = (0..20).fold(String::new(), |text, i| text + &format!("n/{i:02}  {i}\n"));
    assert_eq!(thorp(["scan", "n", "--server", &server.address().to_string()]).ok(), numbers);
}

/// The loop of `thorp torture`, with an outside checker's word for what the clients saw.
#[test]
fn a_tormented_store_is_strictly_serializable() {
    let folder = Folder::new();
    let told = thorp(["torture", "--rounds", "4", "--clients", "4", "--json", "--dir", &folder.file("torture")]).ok();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["kills"], 4);
    assert!(told["commits_acknowledged"].as_u64().unwrap() >= 160, "{told}");
    assert_eq!((&told["lost"], &told["doubled"]), (&Value::from(0), &Value::from(0)), "{told}");
    assert_eq!(told["strictly_serializable"], true, "{told}");
    assert_eq!(told["stalls"], Value::Array(Vec::new()), "{told}");
    let dir = folder.path().join("torture/store");
    let checked = thorp(["doctor", "--dir", dir.to_str().unwrap()]).ok();
    assert!(checked.contains("whole"), "{checked}");
}

/// The same with groups, whose redirectors and members are killed and stopped too: each of these things once.
#[test]
fn tormented_groups_are_strictly_serializable() {
    let folder = Folder::new();
    let words = ["--rounds", "6", "--groups", "1", "--clients", "3", "--json", "--dir", &folder.file("torture")];
    let told = thorp(["torture"].iter().chain(&words)).ok();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["kills"], 5, "{told}");
    assert!(told["commits_acknowledged"].as_u64().unwrap() >= 240, "{told}");
    assert_eq!((&told["lost"], &told["doubled"]), (&Value::from(0), &Value::from(0)), "{told}");
    assert_eq!(told["strictly_serializable"], true, "{told}");
    // All members were in the group again, and those that were not cut off continued.
    assert_eq!(told["stalls"], Value::Array(Vec::new()), "{told}");
    assert!(told["in_group_ms_max"].as_f64().unwrap() < told["in_group_ms_allowed"].as_f64().unwrap(), "{told}");
    assert!((0.0..1.0).contains(&told["gap_over_allowed_max"].as_f64().unwrap()), "{told}");
    assert!(told["call_ms_max"].as_f64().unwrap() > 0.0, "{told}");
    // A member that hangs is considered dead after one and a half seconds, and so is a redirector. On top come two
    // round trips, and the time that a busy machine takes.
    assert!(told["failover_hung_ms_max"].as_f64().unwrap() < 3000.0, "{told}");
    assert!(told["failover_killed_ms_max"].as_f64().unwrap() < 1500.0, "{told}");
}

/// The same with three nodes and etcd, without groups and with two: a seed draws what is killed, stopped, cut off and
/// moved.
#[test]
fn tormented_nodes_are_strictly_serializable() {
    torment_nodes(&["--clients", "3", "--rounds", "3"], 11);
}

#[test]
fn tormented_groups_of_nodes_are_strictly_serializable() {
    torment_nodes(&["--groups", "2", "--clients", "2", "--rounds", "3"], 5);
}

fn torment_nodes(words: &[&str], seed: u64) {
    let Some(etcd) = tool("bin/etcd") else { return };
    let folder = Folder::new();
    let mut torture = command();
    torture.args(["torture", "--nodes", "3", "--json", "--seed", &seed.to_string()]).args(words);
    torture.arg("--dir").arg(folder.path().join("torture")).env("PATH", etcd.parent().unwrap());
    let told = ran(torture.output().unwrap()).ok();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["nodes"], &told["seed"], &told["rounds"]), (&3.into(), &seed.into(), &3.into()), "{told}");
    assert!(told["commits_acknowledged"].as_u64().unwrap() >= 200, "{told}");
    assert_eq!((&told["lost"], &told["doubled"]), (&Value::from(0), &Value::from(0)), "{told}");
    assert_eq!(told["strictly_serializable"], true, "{told}");
    assert_eq!(told["stalls"], Value::Array(Vec::new()), "{told}");
}

#[test]
fn a_torture_of_nodes_says_what_it_lacks() {
    let folder = Folder::new();
    let dir = folder.file("torture");
    let mut without = command();
    without.args(["torture", "--nodes", "2", "--dir", &dir]).env("PATH", folder.path());
    if !Path::new("/usr/sbin/etcd").exists() {
        let why = ran(without.output().unwrap());
        assert!(why.stderr.contains("needs etcd") && why.stderr.contains("--etcd etcd://"), "{}", why.stderr);
    }
}

#[test]
fn sigterm_closes_a_store() {
    let folder = Folder::new();
    let process = spawn(&["serve", "--listen", "127.0.0.1:0", "--dir", &folder.file("store")]);
    let line = process.line().unwrap();
    assert!(line.starts_with("ready: "), "{line}");
    let address = line.split_whitespace().find(|word| word.starts_with("127.")).unwrap().to_owned();
    thorp(["put", "a", "1", "--server", &address]).ok();
    // Read-only ones are no commits.
    assert_eq!(thorp(["get", "a", "--server", &address]).ok(), "1\n");
    assert_eq!(thorp(["ls", "--server", &address]).ok(), "a\n");
    let told: Value = serde_json::from_str(&thorp(["status", "--json", &address]).ok()).unwrap();
    assert_eq!(told["store"][0]["commits"], 1, "{told}");
    assert!(told["store"][0]["read_only"].is_u64(), "{told}");
    let mut stranger = std::net::TcpStream::connect(&address).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n").unwrap();
    // Until it is hung up on; how is of no interest.
    let _ = stranger.read_to_end(&mut Vec::new());
    let ended = process.end_by(Signal::TERM).unwrap();
    assert!(ended.status.success(), "closed cleanly");
    let line = ended.stdout;
    assert!(line.starts_with("closed "), "{line}");
    assert!(line.ends_with("(sessions: 3, commits: 1, refused as magic: 1)\n"), "{line}");
    let checked = thorp(["doctor", "--json", "--dir", &folder.file("store")]).ok();
    let checked: Value = serde_json::from_str(&checked).unwrap();
    assert_eq!(checked["findings"], 0, "{checked}");
    assert!(checked["pages"].as_u64() > Some(0), "all is home: {checked}");
    assert_eq!(thorp(["get", "a", "--dir", &folder.file("store")]).ok(), "1\n");
}

#[test]
fn the_doctor_names_what_is_damaged() {
    let folder = Folder::new();
    let mut server = serve(&folder);
    thorp(["put", "a", "1", "--server", &server.address().to_string()]).ok();
    server.kill().unwrap();
    let home = folder.path().join("store/home.redb");
    let mut bytes = std::fs::read(&home).unwrap();
    bytes[..64].fill(0xff);
    std::fs::write(&home, bytes).unwrap();
    let ran = thorp(["doctor", "--dir", &folder.file("store")]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("home.redb") || ran.stderr.contains("home.redb"), "{ran:?}");
    // Nothing of what the library that reads it says of itself.
    assert!(!ran.stderr.contains("panicked"), "{ran:?}");
    let opened = thorp(["get", "a", "--dir", &folder.file("store")]).error();
    assert!(opened.contains("home.redb") && opened.contains("thorp doctor"), "{opened}");
}
