//! A disk without room: one clear line, nothing lost, and with room it continues. On a small file system of the test's
//! own, in a mount namespace that ends with it; where the system does not let us have one, the test says so and is
//! skipped.

use crate::program::{Folder, serve, thorp};
use std::io::Write;
use std::process::{Command, Stdio};

/// Documents of a file that is loaded.
const DOCUMENTS: usize = 200;

/// Set in the process that runs in a namespace of its own.
const INSIDE: &str = "THORP_TEST_INSIDE";

/// How a namespace is had: as root, or as somebody who is root in it alone.
const UNSHARE: [&str; 2] = ["-m", "-Urm"];

/// A file system in memory.
pub(crate) struct SmallDisk(pub(crate) Folder);

impl SmallDisk {
    pub(crate) fn new(mib: u32) -> Self {
        let folder = Folder::new();
        mount(&["-t", "tmpfs", "-o", &format!("size={mib}m"), "none"], &folder);
        Self(folder)
    }

    /// Makes room, or takes it.
    pub(crate) fn resize(&self, mib: u32) {
        mount(&["-o", &format!("remount,size={mib}m")], &self.0);
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

fn mount(words: &[&str], folder: &Folder) {
    assert!(Command::new("mount").args(words).arg(folder.path()).status().unwrap().success(), "mount {words:?}");
}

/// Runs a test in a namespace of its own, where file systems can be mounted that nobody else sees. Says
/// whether this process is that one.
pub(crate) fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let folder = Folder::new();
    let can = |how: &&str| {
        let mut probe = Command::new("unshare");
        probe.args([how, "mount", "-t", "tmpfs", "-o", "size=1m", "none"]).arg(folder.path()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    };
    let Some(how) = UNSHARE.into_iter().find(can) else {
        eprintln!("{test} is skipped: this system lets us mount no file system");
        return false;
    };
    let exe = std::env::current_exe().unwrap();
    let mut inside = Command::new("unshare");
    inside.arg(how).arg(exe).args([test, "--exact", "--nocapture"]).env(INSIDE, "1");
    let output = inside.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// Loads the file again and again, each time under another name, until there is no room. Returns how often it went in.
fn load_until_full(file: &str, target: [&str; 2]) -> usize {
    for count in 0.. {
        let name = format!("c{count}");
        let words = ["load", file, "--into", &name, "--key", "id", target[0], target[1]];
        let ran = thorp(words);
        if ran.code != Some(0) {
            let line = ran.error();
            assert!(line.contains("the store is full") && line.contains("free space"), "{line}");
            return count;
        }
    }
    unreachable!("a disk has an end")
}

/// Everything that was loaded comes out as it went in.
fn check_loaded(count: usize, documents: &str, target: [&str; 2]) {
    for name in (0..count).map(|number| format!("c{number}")) {
        assert!(thorp(["dump", &name, target[0], target[1]]).ok() == documents, "{name} is what was loaded");
    }
}

/// Small documents of a store that is going to be full.
const SMALL: [&str; 3] = ["first", "second", "third"];

fn put_small(target: [&str; 2]) {
    for name in SMALL {
        thorp(["put", name, "1", target[0], target[1]]).ok();
    }
}

/// A closed store on a full disk is opened, read, and deleted from, again and again.
fn check_full(dir: &str, count: usize, documents: &str) {
    for (at, name) in SMALL.into_iter().enumerate() {
        assert_eq!(thorp(["get", name, "--dir", dir]).ok(), "1\n");
        thorp(["rm", name, "--dir", dir]).ok();
        let line = thorp(["get", name, "--dir", dir]).error();
        assert!(line.contains(name), "{at}: {line}");
    }
    check_loaded(count, documents, ["--dir", dir]);
}

fn check_whole(dir: &str) {
    let checked = thorp(["doctor", "--dir", dir]).ok();
    assert!(checked.contains("whole"), "{checked}");
}

/// A file of documents of some 32 KiB each, and what a dump of them is.
fn documents(folder: &Folder) -> (String, String) {
    let text = "wood".repeat(8 << 10);
    let line = |id| format!("{{\"id\":\"{id:03}\",\"text\":\"{text}\"}}\n");
    let lines: String = (0..DOCUMENTS).map(line).collect();
    let named = |id| format!("{{\"name\":\"{id:03}\",\"document\":{}}}\n", line(id).trim_end());
    (folder.write("documents.jsonl", &lines), (0..DOCUMENTS).map(named).collect())
}

#[test]
fn no_room_for_a_new_store() {
    if !is_inside("full_disk::no_room_for_a_new_store") {
        return;
    }
    let disk = SmallDisk::new(64);
    let dir = disk.0.file("store");
    for _ in 0..2 {
        let line = thorp(["put", "a", "1", "--dir", &dir]).error();
        assert!(line.contains("the disk is full") && line.contains("make room"), "{line}");
        check_whole(&dir);
    }
    disk.resize(200);
    thorp(["put", "a", "1", "--dir", &dir]).ok();
    assert_eq!(thorp(["get", "a", "--dir", &dir]).ok(), "1\n");
}

#[test]
fn a_disk_that_fills_up() {
    if !is_inside("full_disk::a_disk_that_fills_up") {
        return;
    }
    let (folder, disk) = (Folder::new(), SmallDisk::new(160));
    let (file, lines) = documents(&folder);
    let dir = disk.0.file("store");
    let mut server = serve(&disk.0);
    let address = server.address().to_string();
    put_small(["--server", &address]);
    let count = load_until_full(&file, ["--server", &address]);
    assert!(count > 0, "there was room at first");
    check_loaded(count, &lines, ["--server", &address]);

    // Killed with not a byte free: it is whole, can be read, and takes deletions.
    fill(&disk.0);
    server.kill().unwrap();
    check_whole(&dir);
    check_full(&dir, count, &lines);
    check_whole(&dir);

    disk.resize(600);
    let mut server = serve(&disk.0);
    let address = server.address().to_string();
    check_loaded(count, &lines, ["--server", &address]);
    thorp(["load", &file, "--into", &format!("c{count}"), "--key", "id", "--server", &address]).ok();
    check_loaded(count + 1, &lines, ["--server", &address]);
    server.kill().unwrap();
    check_whole(&dir);
}

#[test]
fn a_disk_that_fills_up_under_an_embedded_store() {
    if !is_inside("full_disk::a_disk_that_fills_up_under_an_embedded_store") {
        return;
    }
    let (folder, disk) = (Folder::new(), SmallDisk::new(160));
    let (file, lines) = documents(&folder);
    let dir = disk.0.file("store");
    put_small(["--dir", &dir]);
    let count = load_until_full(&file, ["--dir", &dir]);
    fill(&disk.0);
    check_full(&dir, count, &lines);
    check_whole(&dir);
    disk.resize(600);
    thorp(["put", "a", "1", "--dir", &dir]).ok();
    check_loaded(count, &lines, ["--dir", &dir]);
}

/// Takes what room there is.
pub(crate) fn fill(folder: &Folder) {
    let mut file = std::fs::File::create(folder.path().join("fill")).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
}
