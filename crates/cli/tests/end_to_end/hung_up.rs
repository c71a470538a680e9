//! SIGHUP, which a closed terminal or a service manager's reload sends: no server ends by it.

use crate::program::{Folder, serve_with, spawn, thorp};
use crate::watch::database_of_items;
use rustix::process::Signal;

/// Starts a server, sends SIGHUP twice when it is ready, and stops it. Its last line says that it has stopped as usual.
#[track_caller]
fn outlives(name: &str, words: &[&str], last: &str) {
    let process = spawn(words);
    while !process.line().unwrap().contains("ready") {}
    for _ in 0..2 {
        process.signal(Signal::HUP).unwrap();
    }
    // Sent to a process that has a handler for both, the lower signal is delivered first.
    let ended = process.end_by(Signal::TERM).unwrap();
    assert!(ended.status.success(), "{name} ended by the signal: {ended:?}");
    assert!(ended.stdout.lines().last().is_some_and(|line| line.contains(last)), "{name}: {ended:?}");
}

#[test]
fn no_server_ends_when_its_terminal_does() {
    let folder = Folder::new();
    let store = serve_with(&folder, &["--leased", "0"]);
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
