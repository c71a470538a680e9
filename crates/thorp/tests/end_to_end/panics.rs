//! A server panics, as it would at an error of its own: here because a test asks for it.

use crate::program::{Folder, command, ran, serve, thorp};
use net::PANICS_AT;
use protocol::{Hello, Message};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::{Duration, Instant};
use wire::Outbox;

/// Long enough for anything that is going to happen on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts a server; gives its address, too.
fn start(words: &[&str]) -> (Child, String) {
    let mut child = command().args(words).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("ready: "), "{line}");
    let address = line.split([' ', ',']).find(|word| word.starts_with("127.")).unwrap().trim().to_owned();
    (child, address)
}

/// Has the server panic while it handles a message; gives what it says to who has sent that.
fn panic_at(address: &str) -> String {
    let hello = Hello { protocol: protocol::PROTOCOL, features: 0, cluster: None, client: PANICS_AT, epoch: 1 };
    let mut out = Outbox::new();
    out.push(&Message::Hello(hello)).unwrap();
    let mut batch = wire::Batch::default();
    out.next(&mut batch);
    let bytes: Vec<u8> = batch.chunks().flatten().copied().collect();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&bytes).unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    String::from_utf8_lossy(&said).into_owned()
}

/// The process ends by itself, and says what has happened and what to do.
#[track_caller]
fn assert_ends(mut child: Child, do_what: &str) {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
    let ran = ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let last = ran.stderr.lines().last().unwrap();
    assert!(last.starts_with("thorp: a part of it panicked ('as it was asked to')"), "{last}");
    assert!(last.contains("please report it") && last.ends_with(do_what), "{last}");
}

#[test]
fn a_store_that_panics_ends_says_why_and_loses_nothing() {
    let folder = Folder::new();
    let (child, address) = start(&["serve", "--listen", "127.0.0.1:0", "--dir", &folder.file("store")]);
    thorp(["put", "a", "1", "--server", &address]).ok();
    let said = panic_at(&address);
    assert!(said.contains("it has stopped: a part of it panicked"), "{said}");
    assert_ends(child, "what was acknowledged is safe: start it again");
    // Nobody holds the directory.
    let again = serve(&folder);
    assert_eq!(thorp(["get", "a", "--server", &again.address().to_string()]).ok(), "1\n");
}

#[test]
fn a_redirector_that_panics_ends_and_says_why() {
    let folder = Folder::new();
    let store = serve(&folder);
    let at = store.address().to_string();
    let (child, address) = start(&["group", "--name", "site", "--store", &at, "--listen", "127.0.0.1:0"]);
    let said = panic_at(&address);
    assert!(said.contains("it has stopped: a part of it panicked"), "{said}");
    assert_ends(child, "what was committed is safe at the store: start it again");
    thorp(["put", "a", "1", "--server", &at]).ok();
}
