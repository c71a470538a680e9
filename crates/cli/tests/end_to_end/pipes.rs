//! Input from pipes, and output to pipes.

use crate::program::{Folder, Ran, command, ran, serve, spawn, thorp, thorp_reading};
use fixtures::until;
use rustix::process::Signal;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Command;

fn lines(count: usize) -> String {
    let line = |number: usize| format!("{{\"id\":\"{number:05}\",\"text\":\"{}\"}}\n", "x".repeat(number % 200));
    (0..count).map(line).collect()
}

fn count(address: &str, name: &str) -> usize {
    thorp(["scan", name, "--server", address]).ok().lines().count()
}

#[test]
fn a_pipe_is_loaded() {
    let folder = Folder::new();
    let server = serve(&folder);
    let address = server.address().to_string();
    let text = lines(3000);
    for (name, from) in [("dash", "-"), ("device", "/dev/stdin")] {
        let words = ["load", from, "--into", name, "--key", "id", "--server", &address];
        assert_eq!(thorp_reading(words, &text).ok(), format!("3000 documents into {name}\n"));
        assert_eq!(count(&address, name), 3000);
    }
    let fifo = folder.file("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let words = ["load", &fifo, "--into", "named", "--key", "id", "--json", "--server", &address];
    let loading = spawn(&words);
    OpenOptions::new().write(true).open(&fifo).unwrap().write_all(text.as_bytes()).unwrap();
    let told = Ran::from(loading.ended().unwrap()).ok();
    assert_eq!(told, "{\"loaded\":3000,\"into\":\"named\",\"resumed_at_line\":0}\n");
    assert_eq!(count(&address, "named"), 3000);
    // A dump goes straight into a load.
    let dumped = thorp(["dump", "dash", "--server", &address]).ok();
    thorp_reading(["load", "-", "--into", "copy", "--server", &address], &dumped).ok();
    assert_eq!(thorp(["dump", "copy", "--server", &address]).ok(), dumped);
}

#[test]
fn an_error_in_a_pipe_is_told_by_its_line() {
    let folder = Folder::new();
    let dir = folder.file("store");
    let load = |input: &[u8]| thorp_reading(["load", "-", "--into", "a", "--key", "id", "--dir", &dir], input);
    let wrong = load(b"{\"id\": 1}\n\n{\"id\": true}\n").error();
    assert!(wrong.contains("standard input, line 3: field 'id'") && wrong.contains("load all of it again"), "{wrong}");
    assert!(load(b"{\"id\": 1}\n\xff\n").error().contains("standard input, line 2"), "no text");
    assert_eq!(load("\u{feff}{\"id\": 1}\r\n{\"id\": 2}".as_bytes()).ok(), "2 documents into a\n");
    assert_eq!(load(b"").ok(), "0 documents into a\n");
    let wrong = thorp_reading(["load", "-", "--into", "a", "--dir", &dir], "{\"id\": 1}\n").error();
    assert!(wrong.contains("--key FIELD") && wrong.contains("\"name\": NAME"), "{wrong}");
}

/// Lines that have come are in the store when the pipe pauses, and those of a load that is interrupted stay.
#[test]
fn an_interrupted_pipe_loses_nothing_that_came() {
    let folder = Folder::new();
    let server = serve(&folder);
    let address = server.address().to_string();
    let words = ["load", "-", "--into", "parts", "--key", "id", "--server", &address];
    let mut loading = spawn(&words);
    // Less than a batch, and the beginning of a line.
    loading.tell((lines(7) + "{\"id\":").as_bytes()).unwrap();
    until("the lines are in", || count(&address, "parts") >= 7);
    let line = Ran::from(loading.end_by(Signal::INT).unwrap()).error();
    assert!(line.contains("interrupted at line 7: 7 documents are in"), "{line}");
    assert!(line.contains("a pipe cannot be gone on with"), "{line}");
}

#[test]
fn an_interrupted_file_says_how_to_go_on() {
    let folder = Folder::new();
    let server = serve(&folder);
    let address = server.address().to_string();
    let file = folder.write("parts.jsonl", lines(20_000));
    let words = ["load", &file, "--into", "parts", "--key", "id", "--batch", "20", "--json", "--server", &address];
    let loading = spawn(&words);
    while thorp(["ls", "--server", &address]).ok().is_empty() {}
    let first = Ran::from(loading.end_by(Signal::INT).unwrap());
    assert!(
        first.stderr.contains("interrupted at line") && first.stderr.contains("load the same file again"),
        "{first:?}"
    );
    let second: serde_json::Value = serde_json::from_str(&thorp(words).ok()).unwrap();
    let resumed = second["resumed_at_line"].as_u64().unwrap();
    assert!(resumed > 0 && second["loaded"].as_u64() == Some(20_000 - resumed), "{second}");
    assert_eq!(count(&address, "parts"), 20_000);
}

/// A reader that has read enough hangs up: no error, and nothing said of it.
#[test]
fn a_reader_that_has_enough() {
    let folder = Folder::new();
    let dir = folder.file("store");
    let file = folder.write("parts.jsonl", lines(20_000));
    thorp(["load", &file, "--into", "parts", "--key", "id", "--dir", &dir]).ok();
    for words in
        [&["ls", "parts"][..], &["scan"], &["dump", "parts"], &["dump", "parts", "--in-parts"], &["ls", "parts", "-0"]]
    {
        let mut child = command().args(words).args(["--dir", &dir]).spawn().unwrap();
        let mut stdout = BufReader::with_capacity(16, child.stdout.take().unwrap());
        let mut first = Vec::new();
        stdout.by_ref().take(16).read_until(b'\n', &mut first).unwrap();
        assert!(!first.is_empty());
        drop(stdout);
        let ran = ran(child.wait_with_output().unwrap());
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{words:?}");
    }
}
