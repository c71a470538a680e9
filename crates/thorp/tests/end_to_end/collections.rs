//! Whole collections: load, dump, and a load that is interrupted.

use crate::program::{Folder, command, serve, thorp};
use std::collections::BTreeMap;
use std::time::Duration;

/// Lines with keys in an order of their own.
fn lines(count: usize) -> String {
    let line = |i: usize| {
        let key = i * 7919 % count;
        format!("{{\"id\": \"part-{key:06}\", \"mass\": {i}.50, \"text\": \"{}\"}}\n", "x".repeat(i % 300))
    };
    (0..count).map(line).collect()
}

/// The lines of a text in the order of their keys: how a dump shows them.
fn in_order(text: &str) -> String {
    let by_key: BTreeMap<&str, &str> = text.lines().map(|line| (&line[..20], line)).collect();
    by_key.into_values().collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn a_dump_is_what_was_loaded() {
    let folder = Folder::new();
    let text = lines(2500);
    let (file, server) = (folder.write("parts.jsonl", &text), serve(&folder));
    let address = server.address().to_string();
    let loaded = thorp(["load", &file, "--into", "parts", "--key", "id", "--server", &address]).ok();
    assert_eq!(loaded, "2500 documents into parts\n");
    assert_eq!(thorp(["dump", "parts", "--server", &address]).ok(), in_order(&text));
    let got = thorp(["get", "parts/part-000000", "--server", &address]).ok();
    assert_eq!(got.trim_end(), text.lines().next().unwrap());
}

#[test]
fn an_interrupted_load_goes_on_where_it_was() {
    let folder = Folder::new();
    let text = lines(6000);
    let (file, server) = (folder.write("parts.jsonl", &text), serve(&folder));
    let address = server.address().to_string();
    let words = ["load", &file, "--into", "parts", "--key", "id", "--batch", "20", "--json", "--server", &address];
    let mut first = command().args(words).spawn().unwrap();
    let db = thorp::Db::connect(server.address()).unwrap();
    wait_until(|| db.transact(|tx| tx.find_map::<String, String>("documents")).unwrap().is_some());
    first.kill().unwrap();
    first.wait().unwrap();
    let second: serde_json::Value = serde_json::from_str(&thorp(words).ok()).unwrap();
    let resumed = second["resumed_at_line"].as_u64().unwrap();
    assert!(resumed > 0 && resumed.is_multiple_of(20), "in whole batches: {second}");
    assert_eq!(second["loaded"].as_u64().unwrap() + resumed, 6000);
    assert_eq!(thorp(["dump", "parts", "--server", &address]).ok(), in_order(&text));
    let third: serde_json::Value = serde_json::from_str(&thorp(words).ok()).unwrap();
    assert_eq!(third["resumed_at_line"], 0, "a load that was completed begins anew");
}

/// Another process cannot be waited for but by looking.
fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_line_that_is_wrong_leaves_whole_batches() {
    let folder = Folder::new();
    let dir = folder.file("store");
    let file = folder.write("parts.jsonl", lines(100) + "{\"id\": true}\n");
    let words = ["load", &file, "--into", "parts", "--key", "id", "--batch", "30", "--dir", &dir];
    let wrong = thorp(words).error();
    assert!(wrong.contains("line 101"), "{wrong}");
    assert_eq!(thorp(["dump", "parts", "--dir", &dir]).ok().lines().count(), 90);
}
