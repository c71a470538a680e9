//! Spaces on the command line: made by those who write, listed, refused by name, and there after a kill.

use crate::program::{Folder, serve, thorp};
use crate::{designs, groups};
use serde_json::Value;

#[test]
fn documents_and_designs_of_one_space_are_not_seen_in_another() {
    let folder = Folder::new();
    let mut server = serve(&folder);
    let redirector = groups::start_redirector(&server, &[]);
    let in_group = redirector.address().to_string();
    let model = folder.write("model.ifc", designs::SMALL);
    let at = server.address().to_string();
    thorp(["put", "wheel", "1", "--server", &at]).ok();
    thorp(["put", "wheel", "2", "--space", "plans", "--server", &at]).ok();
    thorp(["load", &model, "--into", "house", "--space", "attic", "--server", &in_group]).ok();
    server.kill().unwrap();
    let server = serve(&folder);
    let at = server.address().to_string();
    let get = |space: &str| thorp(["get", "wheel", "--space", space, "--server", &at]);
    assert_eq!((get("main").ok(), get("plans").ok()), ("1\n".into(), "2\n".into()));
    let line = get("attic").error();
    assert!(line.contains(&format!("`thorp ls --space attic --server {at}` shows what there is")), "{line}");
    assert_eq!(thorp(["ls", "--space", "attic", "--server", &at]).ok(), "house/#  6 entities, IFC2X3\n");
    let all = "wheel\nplans  space 1 with 1 documents\nattic  space 2 with 1 designs\n";
    assert_eq!(thorp(["ls", "--server", &at]).ok(), all);
    assert_eq!(thorp(["spaces", "--server", &at]).ok(), "main   0\nplans  1\nattic  2\n");
    let told = thorp(["spaces", "--json", "--server", &at]).ok();
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = [("main", 0), ("plans", 1), ("attic", 2)];
    assert_eq!(told, expected.map(|(name, number)| serde_json::json!({"name": name, "number": number})));
}

#[test]
fn a_space_is_made_by_a_command_that_writes_and_by_no_other() {
    let folder = Folder::new();
    let dir = folder.file("store");
    thorp(["put", "a", "1", "--dir", &dir]).ok();
    let reading = [&["get", "a"][..], &["ls"], &["scan"], &["dump", "a"], &["rm", "a"], &["rm", "-r", "a"]];
    for words in reading {
        let line = thorp(words.iter().copied().chain(["--space", "plans", "--dir", &dir])).error();
        let hint = format!("`thorp spaces --dir {dir}` lists those it has");
        assert!(line.contains("the store has no space 'plans'") && line.contains(&hint), "{line}");
    }
    for name in ["", "7", "a b", "a/b", "-", &"n".repeat(65)] {
        let ran = thorp(["put", "a", "1", "--dir", &dir, &format!("--space={name}")]);
        assert!(ran.code == Some(2) && ran.stderr.contains("is not a name of a space"), "{name}: {ran:?}");
    }
    assert_eq!(thorp(["spaces", "--dir", &dir]).ok(), "main  0\n");
    thorp(["put", "a", "1", "--space", "plans", "--dir", &dir]).ok();
    assert_eq!(thorp(["spaces", "--dir", &dir]).ok(), "main   0\nplans  1\n");
    assert!(thorp(["spaces", "--dir", &folder.file("typo")]).error().contains("there is no store in"));
}
