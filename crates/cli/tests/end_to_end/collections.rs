//! Whole collections: load, dump, and a load that is interrupted.

use crate::program::{Folder, serve, spawn, thorp};
use fixtures::until;
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

/// The lines of a text in the order of their keys, each with its name: how a dump shows them.
fn dump_of(text: &str) -> String {
    let by_name: BTreeMap<&str, &str> = text.lines().map(|line| (&line[8..19], line)).collect();
    let line = |(name, line): (&&str, &&str)| format!("{{\"name\":\"{name}\",\"document\":{line}}}\n");
    by_name.iter().map(line).collect()
}

#[test]
fn a_dump_is_what_was_loaded() {
    let folder = Folder::new();
    let text = lines(2500);
    let (file, server) = (folder.write("parts.jsonl", &text), serve(&folder));
    let address = server.address().to_string();
    let loaded = thorp(["load", &file, "--into", "parts", "--key", "id", "--server", &address]).ok();
    assert_eq!(loaded, "2500 documents into parts\n");
    assert_eq!(thorp(["dump", "parts", "--server", &address]).ok(), dump_of(&text));
    let got = thorp(["get", "parts/part-000000", "--server", &address]).ok();
    assert_eq!(got.trim_end(), text.lines().next().unwrap());
}

/// Byte for byte, whatever the names and the documents are.
#[test]
fn a_dump_loads_again() {
    let folder = Folder::new();
    let dir = folder.file("store");
    for (name, document) in [
        ("a", "1"),
        ("deeper/than/others", r#"{"mass": 3.10, "big": 123456789012345678901234567890}"#),
        ("no key of its own", "[ 1,  2 ]"),
        ("tab\tand \"quotes\" and ü", r#""\u00e9 and é""#),
        ("#12", "null"),
    ] {
        thorp(["put", &format!("mixed/{name}"), document, "--dir", &dir]).ok();
    }
    let dumped = thorp(["dump", "mixed", "--dir", &dir]).ok();
    assert_eq!(dumped.lines().count(), 5);
    assert_eq!(thorp(["dump", "mixed", "--in-parts", "--dir", &dir]).ok(), dumped);
    let file = folder.write("mixed.jsonl", &dumped);
    assert_eq!(thorp(["load", &file, "--into", "again", "--dir", &dir]).ok(), "5 documents into again\n");
    assert_eq!(thorp(["dump", "again", "--dir", &dir]).ok(), dumped);
}

/// A writer moves one and the same unit between two documents that lie far apart: at no moment are there two, or none.
#[test]
fn a_dump_is_one_moment() {
    let folder = Folder::new();
    let server = serve(&folder);
    let address = server.address().to_string();
    let file = folder.write("parts.jsonl", lines(2500));
    thorp(["load", &file, "--into", "parts", "--key", "id", "--server", &address]).ok();
    let db = thorp::Db::connect(server.address()).unwrap();
    let documents: thorp::Map<String, String> =
        db.transact(|tx| tx.find_map("documents")).unwrap().expect("it was loaded");
    let ends = ["parts/part-000000", "parts/part-002499"];
    let write = |has_it: bool| {
        let values = if has_it { ["1", "0"] } else { ["0", "1"] };
        let put = |tx: &mut thorp::Tx| {
            ends.iter().zip(values).try_for_each(|(&end, value)| documents.insert(tx, end, &value.into()).map(drop))
        };
        db.transact(put).unwrap();
    };
    write(true);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Slowly enough for a dump to get through now and then.
            for turn in 0.. {
                if is_over.load(std::sync::atomic::Ordering::SeqCst) {
                    break;
                }
                write(turn % 2 == 0);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        for _ in 0..8 {
            let dumped = thorp(["dump", "parts", "--server", &address]).ok();
            let (first, last) = (dumped.lines().next().unwrap(), dumped.lines().last().unwrap());
            assert_ne!(first.ends_with(":1}"), last.ends_with(":1}"), "{first} {last}");
        }
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
    });
}

#[test]
fn an_interrupted_load_goes_on_where_it_was() {
    let folder = Folder::new();
    let text = lines(6000);
    let (file, server) = (folder.write("parts.jsonl", &text), serve(&folder));
    let address = server.address().to_string();
    let words = ["load", &file, "--into", "parts", "--key", "id", "--batch", "20", "--json", "--server", &address];
    let first = spawn(&words);
    let db = thorp::Db::connect(server.address()).unwrap();
    until("there is a batch", || db.transact(|tx| tx.find_map::<String, String>("documents")).unwrap().is_some());
    drop(first);
    let second: serde_json::Value = serde_json::from_str(&thorp(words).ok()).unwrap();
    let resumed = second["resumed_at_line"].as_u64().unwrap();
    assert!(resumed > 0 && resumed.is_multiple_of(20), "in whole batches: {second}");
    assert_eq!(second["loaded"].as_u64().unwrap() + resumed, 6000);
    assert_eq!(thorp(["dump", "parts", "--server", &address]).ok(), dump_of(&text));
    let third: serde_json::Value = serde_json::from_str(&thorp(words).ok()).unwrap();
    assert_eq!(third["resumed_at_line"], 0, "a load that was completed begins again");
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

/// A path leads to one thing.
#[test]
fn a_design_and_documents_do_not_share_a_path() {
    let folder = Folder::new();
    let dir = folder.file("store");
    let (ifc, jsonl) = (folder.write("a.ifc", crate::designs::SMALL), folder.write("a.jsonl", "{\"id\": 1}\n"));
    thorp(["load", &ifc, "--into", "town/house", "--dir", &dir]).ok();
    for path in ["town/house", "town/house/#123", "town/house/a/b"] {
        let refused = thorp(["put", path, "1", "--dir", &dir]).error();
        assert!(refused.contains("'town/house' is a design"), "{refused}");
    }
    let refused = thorp(["load", &jsonl, "--into", "town/house", "--key", "id", "--dir", &dir]).error();
    assert!(refused.contains("'town/house' is a design"), "{refused}");
    for path in ["town/houses", "town/a", "yard/a", "garden"] {
        thorp(["put", path, "1", "--dir", &dir]).ok();
    }
    for name in ["yard", "garden", "town/a"] {
        let refused = thorp(["load", &ifc, "--into", name, "--dir", &dir]).error();
        assert!(refused.contains(&format!("'{name}' cannot be a design")), "{refused}");
    }
    assert_eq!(thorp(["get", "yard/a", "--dir", &dir]).ok(), "1\n");
}
