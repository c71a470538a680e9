//! The cost of distance: commands that read much take few round trips, however long each is.

use crate::program::{Folder, serve, thorp};
use fixtures::{Emulator, Process};
use std::time::Duration;

/// Requests that one client sends for a command. Each round trip begins with one at least, so these are no fewer.
fn messages(server: &Process, words: &[&str]) -> (u64, String) {
    let line = Emulator::start(server.address(), Duration::from_millis(1), None).unwrap();
    let told = thorp(words.iter().copied().chain(["--server", &line.address().to_string()])).ok();
    (line.tally().messages_up, told)
}

#[test]
fn a_thousand_names_take_few_round_trips() {
    let folder = Folder::new();
    let server = serve(&folder);
    let address = server.address().to_string();
    // Documents too large to lie beside their names: only who wants them is to fetch them.
    let text = "x".repeat(2000);
    let line = |number: usize| {
        let key = number * 7919 % 1000;
        format!("{{\"id\":\"part-{key:05}\",\"text\":\"{text}\"}}\n{{\"id\":\"folder-{key:05}/in it\"}}\n")
    };
    let file = folder.write("parts.jsonl", (0..1000).map(line).collect::<String>());
    thorp(["load", &file, "--into", "parts", "--key", "id", "--server", &address]).ok();
    let (sent, told) = messages(&server, &["ls", "parts"]);
    assert_eq!(told.lines().count(), 2000);
    // At 40 ms each, less than a second.
    assert!(sent < 25, "ls sent {sent} requests");
    let (sent, told) = messages(&server, &["scan", "parts/"]);
    assert_eq!(told.lines().count(), 2000);
    assert!(sent < 60, "scan sent {sent} requests");
    let (sent, told) = messages(&server, &["dump", "parts"]);
    assert_eq!(told.lines().count(), 2000);
    assert!(sent < 60, "dump sent {sent} requests");
}
