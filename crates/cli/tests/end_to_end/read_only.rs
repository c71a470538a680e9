//! A store on a file system that cannot be written: a snapshot, a copy on a read-only medium.

use crate::program::{Folder, Ran, ran, serve, thorp};
use fixtures::mounts::can_mount;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Runs the program where a directory cannot be written, in a mount namespace of its own.
fn thorp_beside(dir: &str, words: &[&str]) -> Ran {
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c", script, dir, env!("CARGO_BIN_EXE_thorp")]);
    ran(command.args(words).args(["--dir", dir]).output().unwrap())
}

fn contents(dir: &str) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(Path::new(dir)).unwrap().map(Result::unwrap);
    files.map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap())).collect()
}

#[test]
fn a_store_that_cannot_be_written_can_be_read() {
    if !can_mount() {
        return;
    }
    let (folder, mut store) = {
        let folder = Folder::new();
        let store = serve(&folder);
        (folder, store)
    };
    let (dir, address) = (folder.file("store"), store.address().to_string());
    for (name, value) in [("docs/a", "{\"n\": 1}"), ("docs/b", "[2]")] {
        thorp(["put", name, value, "--server", &address]).ok();
    }
    // Both documents are in the log only, which is recovered in memory.
    store.kill().unwrap();
    let before = contents(&dir);
    assert_eq!(thorp_beside(&dir, &["get", "docs/a"]).ok().trim(), "{\"n\": 1}");
    assert_eq!(thorp_beside(&dir, &["get", "docs/b"]).ok().trim(), "[2]");
    let listed = thorp_beside(&dir, &["ls", "docs"]).ok();
    assert!(listed.contains('a') && listed.contains('b'), "{listed}");
    assert!(thorp_beside(&dir, &["scan", "docs"]).ok().contains("[2]"));
    thorp_beside(&dir, &["spaces"]).ok();

    let refused = thorp_beside(&dir, &["put", "docs/c", "3"]).error();
    assert!(refused.contains("Read-only file system"), "{refused}");
    let refused = thorp_beside(&dir, &["rm", "docs/a"]).error();
    assert!(refused.contains("opened to be read only"), "{refused}");
    assert!(contents(&dir) == before, "nothing was written");

    // The same directory can be written again.
    assert_eq!(thorp(["get", "docs/a", "--dir", &dir]).ok().trim(), "{\"n\": 1}");
    thorp(["put", "docs/c", "3", "--dir", &dir]).ok();
}
