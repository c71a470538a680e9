//! A store with few file descriptors: it takes as many sessions as it has some for, says so to the others, and
//! continues.

use crate::program::{Folder, serve, thorp};
use fixtures::Process;
use objects::{Anywhere, Db};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::Value;
use std::fs::Permissions;
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Descriptors of the store, and connections that want to be sessions.
const DESCRIPTORS: &str = "96";
const CONNECTIONS: usize = 300;

/// More than the two segments hold that a store begins with, so that the log is freed and used again in the meantime.
const COMMITS: usize = 300;
const COMMIT_BYTES: usize = 1 << 20;

/// Long enough for anything that is going to happen on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn commits_go_on_when_more_connect_than_there_are_descriptors() {
    let folder = Folder::new();
    let script = format!("#!/bin/sh\nulimit -n {DESCRIPTORS}\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_thorp"));
    let program = PathBuf::from(folder.write("few-descriptors", &script));
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let server = fixtures::Program::from(&program).serve(&folder.path().join("store"), &[]).unwrap();
    let db = Db::connect(server.address()).unwrap();
    let id = db.transact(|tx| tx.create_bytes(Anywhere, b"before")).unwrap();

    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    for number in 0..COMMITS {
        db.transact(|tx| tx.put_bytes(id, &vec![number as u8; COMMIT_BYTES])).unwrap();
    }
    // Everybody gets a word, however long the line before the door; and some are told that there is no room.
    let answers: Vec<_> = connections.iter_mut().map(answer).collect();
    assert!(answers.iter().all(|answer| !answer.is_empty()), "{answers:?}");
    assert!(answers.iter().any(|answer| answer.contains("no more sessions")), "{answers:?}");

    drop(connections);
    let address = server.address().to_string();
    thorp(["put", "a", "1", "--server", &address]).ok();
    assert_eq!(thorp(["get", "a", "--server", &address]).ok(), "1\n");
    assert!(db.transact(|tx| tx.get_bytes(id)).unwrap().unwrap() == vec![(COMMITS - 1) as u8; COMMIT_BYTES]);
}

/// The answer to a connection that sends nothing.
fn answer(connection: &mut TcpStream) -> String {
    connection.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The system can run out of descriptors under a store, whatever limit it started with: here its own limit falls below
/// what it has open. Commits continue with the files that are open, no new client is let in, and all are when there are
/// descriptors again.
#[test]
fn a_store_that_has_lost_its_descriptors_goes_on_with_those_that_are_open() {
    let folder = Folder::new();
    let server = serve(&folder);
    let address = server.address().to_string();
    let db = Db::connect(server.address()).unwrap();
    let id = db.transact(|tx| tx.create_bytes(Anywhere, b"before")).unwrap();
    let segments = log_segments(&folder);

    limit_descriptors(&server, Some(1));
    let refused = std::thread::scope(|scope| {
        let newcomer = scope.spawn(|| Db::builder().patience(PATIENCE).connect(server.address()));
        for number in 0..COMMITS {
            db.transact(|tx| tx.put_bytes(id, &vec![number as u8; COMMIT_BYTES])).unwrap();
        }
        assert_eq!(log_segments(&folder), segments, "no file was made without a descriptor");
        assert!(!newcomer.is_finished(), "nobody new is let in");
        limit_descriptors(&server, getrlimit(Resource::Nofile).maximum);
        let newcomer = newcomer.join().unwrap().unwrap();
        assert!(newcomer.transact(|tx| tx.get_bytes(id)).unwrap().unwrap() == vec![(COMMITS - 1) as u8; COMMIT_BYTES]);
        connections_refused(&address)
    });
    assert!(refused > 0, "it is counted");
    thorp(["put", "a", "1", "--server", &address]).ok();
    assert!(log_segments(&folder) >= segments);
}

/// Returns the store's process another limit.
fn limit_descriptors(server: &Process, current: Option<u64>) {
    let (process, maximum) = (Pid::from_raw(server.id().cast_signed()), getrlimit(Resource::Nofile).maximum);
    prlimit(process, Resource::Nofile, Rlimit { current, maximum }).unwrap();
}

fn log_segments(folder: &Folder) -> usize {
    let names = std::fs::read_dir(folder.path().join("store")).unwrap();
    names.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("log-")).count()
}

fn connections_refused(address: &str) -> u64 {
    let told: Value = serde_json::from_str(&thorp(["status", "--json", address]).ok()).unwrap();
    told["links"][0]["refused"].as_u64().unwrap_or_else(|| panic!("{told}"))
}

#[test]
fn a_store_without_descriptors_for_sessions_says_how_many_it_needs() {
    let folder = Folder::new();
    let dir = folder.file("store");
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 24; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_thorp")]);
    let output = shell.args(["serve", "--listen", "127.0.0.1:0", "--dir", &dir]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("ulimit -n") && said.lines().count() == 1, "{said}");
    assert!(!Path::new(&dir).exists(), "nothing was made");
}
