//! SIGHUP, which a closed terminal or a service manager's reload sends: no server ends by it.

use crate::program::{Folder, command, options, thorp};
use crate::watch::database_of_items;
use bench::{Server, ServerOptions};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

/// How long a server may take to be ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a server, sends SIGHUP twice when it is ready, and stops it. Its last line says that it has stopped as usual.
#[track_caller]
fn outlives(name: &str, words: &[&str], last: &str) {
    let mut child = command().args(words).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let (begun, mut line) = (Instant::now(), String::new());
    while !line.contains("ready") {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "{name} has ended: {child:?}");
        assert!(begun.elapsed() < PATIENCE, "{name}: {line}");
    }
    let pid = Pid::from_child(&child);
    for _ in 0..2 {
        kill_process(pid, Signal::HUP).unwrap();
    }
    // Sent to a process that has a handler for both, the lower signal is delivered first.
    kill_process(pid, Signal::TERM).unwrap();
    let (mut said, mut complaints) = (String::new(), String::new());
    stdout.read_to_string(&mut said).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{name} ended by the signal: {status:?}, {said} {complaints}");
    assert!(said.lines().last().is_some_and(|line| line.contains(last)), "{name}: {said} {complaints}");
}

#[test]
fn no_server_ends_when_its_terminal_does() {
    let folder = Folder::new();
    let arguments = ["--leased", "0"].map(str::to_owned).to_vec();
    let store = Server::start(&ServerOptions { arguments, ..options(&folder) }).unwrap();
    let store = store.address().to_string();
    let source = format!("thorp://{store}");
    let any = "127.0.0.1:0";
    let (disk, cache, copies, served) =
        (folder.file("disk"), folder.file("cache"), folder.file("copies"), folder.file("served"));
    let (home, verify, nbd) = (folder.file("home"), folder.file("verify"), format!("unix:{}", folder.file("nbd")));
    thorp(["volume", "create", &disk, "--size", "1M"]).ok();
    let rows: [(&str, &[&str], &str); 8] = [
        ("serve", &["serve", "--dir", &served, "--listen", any], "closed"),
        ("group", &["group", "--name", "site", "--store", &store, "--listen", any], "closed"),
        ("holder", &["holder", "--store", &store, "--dir", &copies, "--room", "16M", "--listen", any], "stopped"),
        ("home", &["home", "--socket", &home], "stopped"),
        (
            "volume attach",
            &["volume", "attach", &disk, "--cache", &cache, "--dirty", "8M", "--listen", &nbd],
            "detached",
        ),
        ("watch a store", &["watch", &source, "--listen", any], "stopped"),
        ("verify", &["verify", &verify], "stopped"),
        ("proxy", &["proxy", "--origin", "http://127.0.0.1:9", "--listen", any, "--admin", any], "stopped"),
    ];
    for (name, words, last) in rows {
        outlives(name, words, last);
    }
    if let Some((_server, _folder, map, database)) = database_of_items() {
        thorp(["watch", &database, "--map", &map, "--setup"]).ok();
        outlives("watch PostgreSQL", &["watch", &database, "--map", &map, "--listen", any], "stopped");
    }
}
