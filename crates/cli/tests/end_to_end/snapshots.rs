//! Snapshots where a file system can share blocks: XFS in a file, mounted as root. Elsewhere this is skipped, and said so.

use crate::program::{Folder, command, options, thorp};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use volumes::nbd::Address;
use volumes::nbd::client::{Client, Command as Ask};

const BLOCK: usize = 4096;

/// XFS in a file, until it is dropped.
struct Xfs {
    path: PathBuf,
}

impl Xfs {
    fn mount(folder: &Folder) -> Option<Self> {
        let (file, path) = (folder.file("xfs.img"), folder.path().join("xfs"));
        std::fs::create_dir_all(&path).unwrap();
        // Less than this it does not take.
        std::fs::File::create(&file).unwrap().set_len(320 << 20).unwrap();
        let runs = |program: &str, words: &[&str]| {
            let ran = Command::new(program).args(words).stdin(Stdio::null()).output();
            ran.is_ok_and(|ran| ran.status.success())
        };
        if !runs("mkfs.xfs", &["-q", &file]) || !runs("mount", &["-o", "loop", &file, path.to_str().unwrap()]) {
            eprintln!("skipped: no XFS is made and mounted here");
            return None;
        }
        Some(Self { path })
    }

    fn file(&self, name: &str) -> String {
        self.path.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Xfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).output();
    }
}

/// A volume that is attached by a process of its own, which dies with this.
struct Attached(Child, Client);

impl Attached {
    fn new(words: &[&str], socket: &str) -> Self {
        let mut child = command();
        child.args(["volume", "attach"]).args(words).args(["--listen", &format!("unix:{socket}"), "--age-s", "600"]);
        let mut child = child.args(["--dirty", "8M", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let client = Client::connect(&Address::Unix(socket.into()), "");
        Self(child, client.unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    fn write(&mut self, mark: u8) {
        let written = self.1.call(&Ask::Write { offset: 5 * BLOCK as u64, data: &[mark; BLOCK], fua: true }).unwrap();
        assert_eq!(written.error, 0);
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_snapshot_shares_blocks_and_stays_as_it_was() {
    let folder = Folder::new();
    let Some(xfs) = Xfs::mount(&folder) else { return };
    let mut options = options(&folder);
    options.arguments = vec!["--volumes".into(), xfs.file("homes")];
    let server = bench::Server::start(&options).unwrap();
    let store = server.address().to_string();
    let volume = |words: &[&str]| thorp([&["volume"], words, &["--store", &store]].concat());
    let mark = |name: &str| {
        let file = folder.file(&format!("{name}.img"));
        volume(&["export", name, &file, "--force"]).ok();
        std::fs::read(file).unwrap()[5 * BLOCK..][..BLOCK].to_vec()
    };
    volume(&["create", "v", "--size", "8M", "--copies", "1"]).ok();
    let (cache, socket) = (folder.file("cache"), folder.file("nbd"));
    let mut attached = Attached::new(&["v", "--store", &store, "--cache", &cache], &socket);
    attached.write(1);
    volume(&["snapshot", "v", "monday"]).ok();
    attached.write(2);
    // Of a volume that is in use a snapshot is exported, which goes again.
    assert_eq!((mark("v"), mark("monday")), (vec![2; BLOCK], vec![1; BLOCK]));
    assert_eq!(volume(&["list"]).ok().lines().count(), 2);
    volume(&["resize", "monday", "--size", "16K", "--shrink"]).ok();
    volume(&["snapshot", "monday", "tuesday"]).ok();
    assert!(volume(&["status", "tuesday"]).ok().contains(" 16384"));
    assert_eq!(mark("v"), vec![2; BLOCK]);
}

#[test]
fn a_snapshot_of_one_host_is_another_file() {
    let folder = Folder::new();
    let Some(xfs) = Xfs::mount(&folder) else { return };
    let (home, copy, again) = (xfs.file("disk"), xfs.file("copy"), xfs.file("again"));
    thorp(["volume", "create", &home, "--size", "8M"]).ok();
    let (cache, socket) = (folder.file("cache"), folder.file("nbd"));
    let mut attached = Attached::new(&[&home, "--cache", &cache], &socket);
    attached.write(1);
    thorp(["volume", "snapshot", &home, &copy]).ok();
    attached.write(2);
    let mark = |file: &str| std::fs::read(file).unwrap()[5 * BLOCK];
    assert_eq!(mark(&copy), 1);
    assert!(thorp(["volume", "snapshot", &home, &copy]).error().contains("File exists"));
    drop(attached);
    assert!(thorp(["volume", "snapshot", &home, &again]).error().contains("has the rest"));
    thorp(["volume", "snapshot", &copy, &again]).ok();
    assert_eq!(mark(&again), 1);
}
