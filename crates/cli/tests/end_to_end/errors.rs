//! The errors of users: one clear line that says what and what to do, exit code 1; 2 for wrong usage.

use crate::program::{Folder, command, ran, serve, thorp, thorp_reading};
use fixtures::Signal;
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// Checks that a command fails with a line that has all of these words.
#[track_caller]
fn check(command: &[&str], words: &[&str]) {
    says(&thorp(command).error(), words);
}

/// The same where it was called wrongly.
#[track_caller]
fn check_usage(command: &[&str], words: &[&str]) {
    says(&thorp(command).usage(), words);
}

#[track_caller]
fn says(line: &str, words: &[&str]) {
    for word in words {
        assert!(line.contains(word), "'{word}' should be in: {line}");
    }
}

#[test]
fn no_server() {
    let hint = "'thorp serve --dir DIR --listen 127.0.0.1:1'";
    check(&["get", "a", "--server", "127.0.0.1:1"], &["no server at 127.0.0.1:1", hint]);
}

/// A command that only asks says soon that nobody is there: one that does more waits for longer, as the store may be
/// starting.
#[test]
fn no_store_of_volumes() {
    for words in [&["list"][..], &["status", "v"], &["holders"], &["list", "--homes"]] {
        let begun = Instant::now();
        let command = [&["volume"], words, &["--store", "127.0.0.1:1"]].concat();
        check(&command, &["no server at 127.0.0.1:1: connection refused", "start one with"]);
        assert!(begun.elapsed() < Duration::from_secs(6), "{words:?} took {:?}", begun.elapsed());
    }
    check(&["volume", "remove", "v", "--store", "127.0.0.1:1"], &["connection refused (tried for 1"]);
}

#[test]
fn an_address_that_is_none() {
    check(&["get", "a", "--server", "nonsense"], &["'nonsense'", "HOST:PORT"]);
}

#[test]
fn a_port_where_something_else_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let other = std::thread::spawn(move || {
        use std::io::Write;
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.6 and more than a header's worth of bytes\r\n").unwrap();
        std::io::Read::read_to_end(&mut stream, &mut Vec::new()).ok();
    });
    check(&["get", "a", "--server", &address], &[&address, "not a Thorp store"]);
    other.join().unwrap();
}

#[test]
fn a_directory_in_use() {
    let folder = Folder::new();
    let server = serve(&folder);
    let pid = server.id().to_string();
    check(&["get", "a", "--dir", &folder.file("store")], &["in use by process", &pid]);
    check(&["doctor", "--dir", &folder.file("store")], &["in use by process", &pid]);
    check(&["serve", "--dir", &folder.file("store"), "--listen", "127.0.0.1:0"], &["in use by process", &pid]);
}

#[test]
fn an_address_in_use() {
    let folder = Folder::new();
    let server = serve(&folder);
    let address = server.address().to_string();
    check(&["serve", "--dir", &folder.file("other"), "--listen", &address], &["cannot listen on", &address]);
}

#[test]
fn a_directory_that_is_no_store() {
    let folder = Folder::new();
    folder.write("letter.txt", "dear store");
    let dir = folder.path().to_str().unwrap();
    check(&["get", "a", "--dir", dir], &["is not a store", "letter.txt"]);
    check(&["put", "a", "1", "--dir", dir], &["is not a store", "letter.txt"]);
    check(&["put", "a", "1", "--dir", &folder.file("letter.txt")], &["letter.txt: that is a file"]);
    check(&["doctor", "--dir", &folder.file("nowhere")], &["there is no store in"]);
    let file = folder.file("letter.txt");
    check(&["get", "a", "--dir", &file], &["letter.txt"]);
}

#[test]
fn bad_json() {
    check(&["put", "a", "{mass: 3}", "--server", "127.0.0.1:1"], &["not JSON", "line 1 column 2"]);
    let large = format!("\"{}\"", "x".repeat((64 << 20) + 1));
    let put = ["put", "a", "-", "--server", "127.0.0.1:1"];
    says(&thorp_reading(put, &large).error(), &["larger than the limit of 64 MiB"]);
    says(&thorp_reading(put, large.repeat(2)).error(), &["larger than the limit of 64 MiB"]);
    says(&thorp_reading(put, b"\"\xff\"").error(), &["standard input is not text"]);
}

#[test]
fn a_bad_path() {
    check_usage(&["put", "/a", "1", "--server", "127.0.0.1:1"], &["'/a'", "design/wheel"]);
    check_usage(&["get", "a//b", "--server", "127.0.0.1:1"], &["'a//b'"]);
    check_usage(&["ls", "a//", "--server", "127.0.0.1:1"], &["'a/'"]);
    let long = "a".repeat(2000);
    check_usage(&["put", &long, "1", "--server", "127.0.0.1:1"], &["2000 bytes", "1024"]);
}

#[test]
fn a_path_that_does_not_exist() {
    let folder = Folder::new();
    let dir = folder.file("store");
    thorp(["put", "other", "1", "--dir", &dir]).ok();
    let hint = format!("`thorp ls design --dir {dir}`");
    check(&["get", "design/wheel", "--dir", &dir], &["no document 'design/wheel'", &hint]);
    check(&["rm", "design/wheel", "--dir", &dir], &["no document 'design/wheel'", &hint]);
    check(&["rm", "-r", "design", "--dir", &dir], &["nothing under 'design'", &format!("`thorp ls --dir {dir}`")]);
    check(&["ls", "design", "--dir", &dir], &["nothing under 'design'"]);
    check(&["dump", "design", "--dir", &dir], &["nothing under 'design'"]);
}

#[test]
fn an_open_network() {
    let folder = Folder::new();
    let dir = folder.file("store");
    check(&["serve", "--dir", &dir, "--listen", "0.0.0.0:0"], &["neither encrypted nor authenticated", "--insecure"]);
    assert!(!folder.path().join("store").exists(), "refused before the directory was made");
}

#[test]
fn a_group_that_cannot_be() {
    let group = ["group", "--name", "site", "--store", "127.0.0.1:1", "--listen"];
    let with = |words: &[&'static str]| group.iter().copied().chain(words.iter().copied()).collect::<Vec<_>>();
    check(&with(&["0.0.0.0:0"]), &["neither encrypted nor authenticated", "--insecure"]);
    check(&with(&["0.0.0.0:0", "--insecure"]), &["not an address that members can reach", "--advertise"]);
    check(&with(&["127.0.0.1:0", "--advertise", "a:1,b:1"]), &["'a:1,b:1'", "more than one address"]);
    check(&["group", "--name", "", "--listen", "127.0.0.1:0"], &["--name", "1 to 64 bytes"]);
    check(&["group", "--name", "site", "--store", "shed", "--listen", "127.0.0.1:0"], &["'shed' is not an address"]);
}

#[test]
fn errors_of_status_name_the_address() {
    check(&["status", "127.0.0.1:1"], &["no server at 127.0.0.1:1", "check the address"]);
    check(&["status", "nonsense"], &["'nonsense'", "HOST:PORT"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let other = std::thread::spawn(move || drop(listener.accept().unwrap()));
    check(&["status", &address], &[&address]);
    other.join().unwrap();
}

#[test]
fn files_that_cannot_be_loaded() {
    let folder = Folder::new();
    let dir = folder.file("store");
    let load = |file: &str, more: &[&str]| {
        let words = ["load", file, "--into", "parts", "--dir", &dir];
        thorp(words.iter().chain(more)).error()
    };
    assert!(load(&folder.file("missing.jsonl"), &["--key", "id"]).contains("cannot read"));
    let file = folder.write("a.jsonl", "{\"id\": 1}\n{\"name\": 2}\n");
    assert!(load(&file, &[]).contains("--key FIELD"));
    assert!(load(folder.path().to_str().unwrap(), &["--key", "id"]).contains("is a directory"));
    assert!(!folder.path().join("store").exists(), "no store is made for what cannot be loaded");
    let line = load(&file, &["--key", "id"]);
    assert!(line.contains("a.jsonl, line 2") && line.contains("field 'id'"), "{line}");
    let line = load(&folder.write("b.jsonl", "{\"id\": 1\n"), &["--key", "id"]);
    assert!(line.contains("b.jsonl, line 1"), "{line}");
    let line = load(&folder.write("c.ifc", "no design"), &[]);
    assert!(line.contains("c.ifc"), "{line}");
}

/// An option that would have no effect is refused, whatever else is right.
#[test]
fn options_without_an_effect() {
    let folder = Folder::new();
    let (dir, jsonl) = (folder.file("store"), folder.write("a.jsonl", "{\"id\": 1}\n"));
    let ifc = folder.write("a.ifc", crate::designs::SMALL);
    thorp(["put", "a", "1", "--dir", &dir]).ok();
    let place = "{\"run\": [], \"ip\": \"127.0.0.1\"}";
    let lab = folder.write("lab.json", format!("{{\"store\": {place}, \"sites\": [{place}]}}"));
    for (words, option) in [
        (&["get", "a", "--depth", "1", "--dir", &dir][..], "--depth"),
        (&["load", &ifc, "--into", "house", "--batch", "7", "--dir", &dir], "--batch"),
        (&["load", &ifc, "--into", "house", "--key", "id", "--dir", &dir], "--key"),
        (&["load", &jsonl, "--into", "b", "--key", "id", "--replace", "--dir", &dir], "--replace"),
        (&["bench", "floor", "--clients", "2"], "--clients"),
        (&["bench", "commit", "--delay-ms", "2"], "--delay-ms"),
        (&["bench", "oo7", "--gib", "2"], "--gib"),
        (&["bench", "web", "--files", "200"], "--files"),
        (&["bench", "web", "--members", "2"], "--members"),
        (&["bench", "web", "--figure", "burst"], "--figure"),
        (&["torture", "--groups", "0", "--leased"], "--leased"),
        (&["torture", "--groups", "0", "--lab", &jsonl], "--lab"),
        (&["torture", "--groups", "1", "--lab", &lab, "--seed", "1"], "--seed"),
        (&["torture", "--seed", "1"], "--seed"),
    ] {
        check_usage(words, &[option, "is only for", "leave it out"]);
    }
    for words in [
        &["serve", "--dir", &dir, "--lease-ms", "100"][..],
        &["torture", "--leased"],
        &["torture", "--minutes", "1"],
        &["bench", "--all", "--out", &dir, "--gib", "2"],
        &["ls", "-0", "--json", "--dir", &dir],
    ] {
        assert_eq!(thorp(words).code, Some(2), "{words:?}");
    }
}

/// A value that cannot be printed is an error, and not one of the store.
#[test]
fn an_output_without_room() {
    let folder = Folder::new();
    let dir = folder.file("store");
    thorp(["put", "a/b", "1", "--dir", &dir]).ok();
    for words in [&["get", "a/b"][..], &["ls"], &["scan"], &["dump", "a"], &["dump", "a", "--in-parts"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command().args(words).args(["--dir", &dir]).stdout(full).output().unwrap();
        says(&ran(output).error(), &["cannot write the output"]);
    }
}

/// A program that asked for JSON gets it for errors too.
#[test]
fn errors_are_json_for_a_program() {
    let error = |words: &[&str], code| {
        let ran = thorp(words.iter().chain(&["--json"]));
        assert_eq!((ran.code, &*ran.stdout), (Some(code), ""));
        let error: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
        error["error"].as_str().unwrap().to_owned()
    };
    assert!(error(&["get", "a", "--server", "127.0.0.1:1"], 1).starts_with("no server at 127.0.0.1:1"));
    assert!(error(&["get", "a//b"], 2).contains("is not a path"));
    assert!(error(&["frobnicate"], 2).contains("unrecognized subcommand"));
}

/// Stopped, not ended: the system still takes connections for it.
#[test]
fn a_store_that_is_stopped() {
    let folder = Folder::new();
    let server = serve(&folder);
    let address = server.address().to_string();
    server.signal(Signal::STOP).unwrap();
    check(&["get", "a", "--server", &address], &[&address, "does not answer", "it may be stopped"]);
    check(&["status", &address], &[&address, "does not answer", "it may be stopped"]);
    server.signal(Signal::CONT).unwrap();
    thorp(["put", "a", "1", "--server", &address]).ok();
}

#[test]
fn wrong_usage() {
    for words in [
        &["frobnicate"][..],
        &["put", "a"],
        &["serve"],
        &["serve", "--dir", "x", "--listen", "localhost"],
        &["get", "a", "--server", "127.0.0.1:1", "--dir", "x"],
        &["bench"],
        &["scan", "--limit", "many"],
        &["group", "--name", "site"],
        &["group", "--name", "site", "--listen", "127.0.0.1:0", "--stand-by-cache", "much"],
    ] {
        let ran = thorp(words);
        assert_eq!(ran.code, Some(2), "{words:?}");
        assert!(ran.stderr.contains("Usage") || ran.stderr.contains("error"), "{}", ran.stderr);
        assert_eq!(ran.stdout, "");
    }
}
