//! Removing more than one document: folders, collections, designs.

use crate::designs::SMALL;
use crate::program::{Folder, Ran, serve, spawn, thorp};
use rustix::process::Signal;

#[test]
fn all_under_a_path_is_removed_and_nothing_else() {
    let folder = Folder::new();
    let dir = folder.file("store");
    let run = |words: &[&str]| thorp(words.iter().copied().chain(["--dir", &dir]));
    for path in ["a", "a/b", "a/b/c", "a.", "a0", "ab/c"] {
        run(&["put", path, "1"]).ok();
    }
    let file = folder.write("small.ifc", SMALL);
    for name in ["a/house", "house", "ab/house"] {
        run(&["load", &file, "--into", name]).ok();
    }
    // More than one thing takes more than a slip of the hand.
    for (path, what) in [("ab", "a folder"), ("house", "a design")] {
        let line = run(&["rm", path]).error();
        assert!(line.contains(what) && line.contains(&format!("`thorp rm -r {path} --dir {dir}`")), "{line}");
    }
    assert_eq!(run(&["rm", "-r", "a"]).ok(), "3 documents and 1 designs of 6 entities removed\n");
    assert_eq!(run(&["ls"]).ok(), "a.\na0\nab/\nhouse/#  6 entities, IFC2X3\n");
    assert!(run(&["rm", "-r", "a"]).error().contains("nothing under 'a'"));
    let told = run(&["rm", "-r", "house", "--json"]).ok();
    assert_eq!(told, "{\"removed\":\"house\",\"documents\":0,\"designs\":1,\"entities\":6}\n");
    assert!(run(&["get", "house/#1"]).error().contains("no document"));
    // The path is free for something else.
    run(&["put", "house/door", "1"]).ok();
}

#[test]
fn an_interrupted_removal_goes_on() {
    let folder = Folder::new();
    let server = serve(&folder);
    let address = server.address().to_string();
    let line = |number: usize| format!("{{\"id\":\"{number:05}\"}}\n");
    let file = folder.write("parts.jsonl", (0..30_000).map(line).collect::<String>());
    thorp(["load", &file, "--into", "parts", "--key", "id", "--batch", "5000", "--server", &address]).ok();
    let words = ["rm", "-r", "parts", "--server", &address];
    let removing = spawn(&words);
    let first = || thorp(["ls", "parts", "--server", &address]).stdout.lines().next().map(str::to_owned);
    while first().as_deref() == Some("00000") {}
    let line = Ran::from(removing.end_by(Signal::INT).unwrap()).error();
    let gone: usize = line.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
    assert!(
        line.contains("documents") && line.contains(&format!("`thorp rm -r parts --server {address}` goes on")),
        "{line}"
    );
    assert!(gone > 0 && gone < 30_000, "{line}");
    assert_eq!(thorp(words).ok(), format!("{} documents removed\n", 30_000 - gone));
}
