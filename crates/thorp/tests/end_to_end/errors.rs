//! What a user can do wrong: one clear line that says what and what to do, exit code 1; 2 for wrong usage.

use crate::program::{Folder, serve, thorp};
use std::net::TcpListener;

/// Checks that a command fails with a line that has all of these words.
#[track_caller]
fn check(command: &[&str], words: &[&str]) {
    let line = thorp(command).error();
    for word in words {
        assert!(line.contains(word), "'{word}' should be in: {line}");
    }
}

#[test]
fn no_server() {
    check(&["get", "a", "--server", "127.0.0.1:1"], &["no server at 127.0.0.1:1", "thorp serve"]);
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
    check(&["get", "a", "--server", &address], &[&address, "no Thorp store"]);
    other.join().unwrap();
}

#[test]
fn a_directory_in_use() {
    let folder = Folder::new();
    let server = serve(&folder);
    let pid = server.pid().to_string();
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
    check(&["doctor", "--dir", &folder.file("nowhere")], &["there is no store in"]);
    let file = folder.file("letter.txt");
    check(&["get", "a", "--dir", &file], &["letter.txt"]);
}

#[test]
fn bad_json() {
    check(&["put", "a", "{mass: 3}", "--server", "127.0.0.1:1"], &["not JSON", "line 1 column 2"]);
}

#[test]
fn a_bad_path() {
    check(&["put", "/a", "1", "--server", "127.0.0.1:1"], &["'/a'", "design/wheel"]);
    check(&["get", "a//b", "--server", "127.0.0.1:1"], &["'a//b'"]);
}

#[test]
fn a_path_that_does_not_exist() {
    let folder = Folder::new();
    let dir = folder.file("store");
    check(&["get", "design/wheel", "--dir", &dir], &["no document 'design/wheel'", "thorp ls design"]);
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
    check(&with(&["0.0.0.0:0", "--insecure"]), &["no address that members can reach", "--advertise"]);
    check(&with(&["127.0.0.1:0", "--advertise", "a:1,b:1"]), &["'a:1,b:1'", "more than one address"]);
    check(&["group", "--name", "", "--listen", "127.0.0.1:0"], &["--name", "1 to 64 bytes"]);
    check(&["group", "--name", "site", "--store", "shed", "--listen", "127.0.0.1:0"], &["'shed' is no address"]);
}

#[test]
fn what_says_nothing_of_itself() {
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
    let line = load(&file, &["--key", "id"]);
    assert!(line.contains("a.jsonl, line 2") && line.contains("field 'id'"), "{line}");
    let line = load(&folder.write("b.jsonl", "{\"id\": 1\n"), &["--key", "id"]);
    assert!(line.contains("b.jsonl, line 1"), "{line}");
    let line = load(&folder.write("c.ifc", "no design"), &[]);
    assert!(line.contains("c.ifc"), "{line}");
}

#[test]
fn wrong_usage() {
    for words in [
        &["frobnicate"][..],
        &["put", "a"],
        &["serve"],
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
