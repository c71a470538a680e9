//! Snapshots where a file system can share blocks: XFS in a file, mounted as root. Elsewhere this is skipped, and said
//! so.

use crate::program::{Folder, command, serve_with, start, thorp};
use fixtures::installed::{has, run};
use fixtures::nbd_client::{Client, Command as Ask};
use fixtures::{Process, until};
use nbd::Address;
use std::ffi::OsStr;
use std::io::Read;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const BLOCK: usize = 4096;

/// XFS in a file, until it is dropped.
struct Xfs {
    path: PathBuf,
}

impl Xfs {
    /// In CI the program is there; where the system lets us mount nothing, the test says so and is skipped.
    fn mount(folder: &Folder) -> Option<Self> {
        if !has("mkfs.xfs") {
            return None;
        }
        let (file, path) = (folder.file("xfs.img"), folder.path().join("xfs"));
        std::fs::create_dir_all(&path).unwrap();
        // Less than this it does not take.
        std::fs::File::create(&file).unwrap().set_len(320 << 20).unwrap();
        run("mkfs.xfs", ["-q", &file]).unwrap();
        if run("mount", ["-o", "loop", &file, path.to_str().unwrap()]).is_err() {
            eprintln!("skipped: this system lets us mount no XFS");
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
        let _ = run("umount", [OsStr::new("-l"), self.path.as_os_str()]);
    }
}

/// A volume that is attached by a process of its own, which dies with this.
struct Attached(Client, #[expect(dead_code, reason = "it runs as long as this")] Process);

impl Attached {
    fn new(words: &[&str], socket: &str) -> Self {
        let listen = ["--listen", &format!("unix:{socket}"), "--age-s", "600", "--dirty", "8M"];
        let process = start(&[&["volume", "attach"], words, &listen].concat());
        Self(Client::connect(&Address::Unix(socket.into()), "").unwrap(), process)
    }

    fn write(&mut self, mark: u8) {
        let written = self.0.call(&Ask::Write { offset: 5 * BLOCK as u64, data: &[mark; BLOCK], fua: true }).unwrap();
        assert_eq!(written.error, 0);
    }
}

#[test]
fn a_snapshot_shares_blocks_and_stays_as_it_was() {
    let folder = Folder::new();
    let Some(xfs) = Xfs::mount(&folder) else { return };
    let server = serve_with(&folder, &["--volumes", &xfs.file("homes")]);
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

/// An export that is killed leaves its snapshot, which says what it is, and is removed like any volume.
#[test]
fn the_snapshot_of_a_killed_export_is_known_for_what_it_is() {
    let folder = Folder::new();
    let Some(xfs) = Xfs::mount(&folder) else { return };
    let server = serve_with(&folder, &["--volumes", &xfs.file("homes")]);
    let store = server.address().to_string();
    let volume = |words: &[&str]| thorp([&["volume"], words, &["--store", &store]].concat());
    volume(&["create", "v", "--size", "8M", "--copies", "1"]).ok();
    let (cache, socket) = (folder.file("cache"), folder.file("nbd"));
    let mut attached = Attached::new(&["v", "--store", &store, "--cache", &cache], &socket);
    attached.write(1);
    let mut export = command();
    let mut export =
        export.args(["volume", "export", "v", "-", "--store", &store]).stdout(Stdio::piped()).spawn().unwrap();
    // It has a snapshot, and its pipe is full.
    export.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    export.kill().unwrap();
    export.wait().unwrap();
    let listed = volume(&["list"]).ok();
    let left: Vec<_> = listed.lines().filter(|line| line.ends_with("the snapshot of an export")).collect();
    let [left] = left[..] else { panic!("{listed}") };
    let name = left.split_whitespace().next().unwrap();
    assert!(volume(&["list", "--homes"]).ok().contains(&format!("of '{name}'")));
    // Home hears within a moment that the export is gone.
    until("it is removed", || volume(&["remove", name]).code == Some(0) || !volume(&["list"]).ok().contains(name));
    assert_eq!(volume(&["list", "--homes"]).ok().lines().count(), 1);
    attached.write(2);
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

/// A snapshot that is made while programs write is of one moment: of writes one behind the other it has the first ones.
#[test]
fn a_snapshot_under_writes_is_of_one_moment() {
    let folder = Folder::new();
    let Some(xfs) = Xfs::mount(&folder) else { return };
    let home = xfs.file("disk");
    thorp(["volume", "create", &home, "--size", "8M"]).ok();
    let (cache, socket) = (folder.file("cache"), folder.file("nbd"));
    let mut attached = Attached::new(&[&home, "--cache", &cache], &socket);
    let (is_over, snapshots) = (AtomicBool::new(false), 4);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (Attached(client, _), mut mark) = (&mut attached, 0_u64);
            while !is_over.load(SeqCst) {
                mark += 1;
                // Each block has the mark before the next one does.
                for block in 0..8 {
                    let data = mark.to_le_bytes().repeat(BLOCK / 8);
                    let write = Ask::Write { offset: block * BLOCK as u64, data: &data, fua: true };
                    assert_eq!(client.call(&write).unwrap().error, 0);
                }
            }
        });
        for number in 0..snapshots {
            thorp(["volume", "snapshot", &home, &xfs.file(&format!("copy-{number}"))]).ok();
        }
        is_over.store(true, SeqCst);
        writer.join().unwrap();
    });
    let mut newest = 0;
    for number in 0..snapshots {
        let bytes = std::fs::read(xfs.file(&format!("copy-{number}"))).unwrap();
        let mark = |block: usize| u64::from_le_bytes(bytes[block * BLOCK..][..8].try_into().unwrap());
        let marks: Vec<_> = (0..8).map(mark).collect();
        assert!(marks.is_sorted_by(|one, next| one >= next) && marks[0] - marks[7] <= 1, "{marks:?}");
        assert!(marks[0] >= newest, "snapshot {number} is older than the one before: {marks:?}");
        newest = marks[0];
    }
    assert!(newest > 0, "nothing was written in the meantime");
}
