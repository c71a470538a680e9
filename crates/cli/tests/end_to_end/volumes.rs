//! Volumes as an operator has them: made, attached, killed, detached.

use crate::program::{Folder, Ran, program, serve, start, thorp};
use fixtures::installed::run;
use fixtures::mounts::{Fuse, Mounted, can_mount};
use fixtures::nbd_client::{Client, Command};
use fixtures::{Process, until};
use nbd::Address;
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

pub(crate) const BLOCK: usize = 4096;
const BLOCKS: u64 = 2048;

/// A volume that is attached by a process of its own.
pub(crate) struct Attached {
    process: Process,
    pub(crate) socket: PathBuf,
}

impl Attached {
    pub(crate) fn new(folder: &Folder, more: &[&str]) -> Self {
        let (home, cache, socket) = (folder.file("disk"), folder.file("cache"), folder.path().join("nbd"));
        let listen = format!("unix:{}", socket.display());
        let words = ["volume", "attach", &home, "--cache", &cache, "--listen", &listen];
        let process = start(&[&words[..], &["--dirty", "8M", "--clean", "2M"], more].concat());
        Self { process, socket }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(&Address::Unix(self.socket.clone()), "").unwrap()
    }

    /// The port that it listens at, if it does at one.
    pub(crate) fn port(&self) -> u16 {
        let addresses = self.process.ready()["listen"].as_array().unwrap().iter();
        let ports = addresses.filter_map(|it| it.as_str().unwrap().strip_prefix("nbd://127.0.0.1:"));
        ports.map(|port| port.trim_end_matches('/').parse().unwrap()).next().expect("it listens at a port")
    }

    pub(crate) fn kill(self) {
        drop(self.process);
    }

    /// Detaches it; gives the last that it says.
    pub(crate) fn detach(self) -> String {
        Ran::from(self.process.end().unwrap()).ok()
    }
}

/// Does what a command line says that attaches a volume, with a folder of its own in the place of `/tmp`, and detaches
/// it.
pub(crate) fn attach_and_detach(folder: &Folder, line: &str) {
    let line = line.replace("/tmp", folder.path().to_str().unwrap());
    let words = line.split_whitespace().skip(1).take_while(|word| *word != "&");
    let mut attach = program().command();
    attach.args(words).arg("--until-stdin-closes").current_dir(folder.path());
    let process = Process::spawn(attach, "the owner").unwrap();
    let said = process.line().unwrap();
    assert!(said.contains("ready: disk.img at nbd+unix"), "{said}");
    Ran::from(process.end().unwrap()).ok();
}

/// The newest version of each block that was asked for, and the newest that was promised.
#[derive(Default)]
pub(crate) struct Versions {
    written: HashMap<u64, u64>,
    promised: HashMap<u64, u64>,
}

/// How many writes are acknowledged before a server is killed.
const ACKNOWLEDGED: u64 = 1000;

/// Writes blocks, each filled with its version, to a server that is killed after some of them.
pub(crate) fn write_and_kill(client: Client, versions: &mut Versions, first_version: u64, kill: impl FnOnce()) {
    let acknowledged = AtomicU64::new(0);
    thread::scope(|scope| {
        let writer = scope.spawn(|| write_until_gone(client, versions, first_version, &acknowledged));
        until("blocks are written", || acknowledged.load(Relaxed) >= ACKNOWLEDGED);
        kill();
        writer.join().unwrap();
    });
}

fn write_until_gone(mut client: Client, versions: &mut Versions, first_version: u64, acknowledged: &AtomicU64) {
    let mut version = first_version;
    loop {
        let (offset, block) = ((version * 7919) % BLOCKS * BLOCK as u64, (version * 7919) % BLOCKS);
        let data = version.to_le_bytes().repeat(BLOCK / 8);
        versions.written.insert(block, version);
        let fua = version.is_multiple_of(3);
        let Ok(written) = client.call(&Command::Write { offset, data: &data, fua }) else { return };
        assert_eq!(written.error, 0, "write {version}");
        acknowledged.fetch_add(1, Relaxed);
        if fua {
            versions.promised.insert(block, version);
        }
        if version.is_multiple_of(50) {
            let Ok(flushed) = client.call(&Command::Flush) else { return };
            assert_eq!(flushed.error, 0, "the flush behind write {version}");
            versions.promised = versions.written.clone();
        }
        version += 1;
    }
}

/// Each block is one that was written, whole, and no older than what was promised. Once it was read it is a promise,
/// too; and a newer one that was not promised is gone for good.
pub(crate) fn check(versions: &mut Versions, bytes: &[u8]) {
    for (block, bytes) in (0..).zip(bytes.chunks(BLOCK)) {
        let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes.chunks(8).all(|part| part == version.to_le_bytes()), "block {block} is torn");
        let promised = versions.promised.insert(block, version).unwrap_or(0);
        let written = versions.written.insert(block, version).unwrap_or(0);
        assert!((promised..=written).contains(&version), "block {block}: {version} of {promised} to {written}");
    }
}

#[test]
fn what_was_promised_survives_kills_and_is_home_in_the_end() {
    let folder = Folder::new();
    let home = folder.file("disk");
    thorp(["volume", "create", &home, "--size", "8M"]).ok();
    let mut versions = Versions::default();
    for life in 1..=4_u64 {
        let attached = Attached::new(&folder, &["--age-s", "1"]);
        assert_eq!(attached.process.ready()["attachment"], life);
        let mut client = attached.connect();
        let read = client.call(&Command::Read { offset: 0, len: 8 << 20, whole: true }).unwrap();
        check(&mut versions, &read.data);
        write_and_kill(client, &mut versions, life * 1_000_000, || attached.kill());
        let status = thorp(["volume", "status", &home]).ok();
        assert!(status.contains("not home at") && status.contains("/cache"), "{status}");
    }
    let attached = Attached::new(&folder, &[]);
    let mut client = attached.connect();
    let read = client.call(&Command::Read { offset: 0, len: 8 << 20, whole: true }).unwrap().data;
    drop(client);
    check(&mut versions, &read);
    let said = attached.detach();
    assert!(said.contains("detached"), "{said}");
    assert!(std::fs::read(&home).unwrap() == read);
    assert!(thorp(["volume", "status", &home, "--json"]).ok().contains(r#""not_home_at":null"#));
}

/// While a volume is attached its process says how it stands, whoever asks by whatever name; when it was killed, that
/// is said.
#[test]
fn an_attached_volume_is_asked_how_it_stands() {
    let folder = Folder::new();
    let (home, cache) = (folder.file("disk"), folder.file("cache"));
    thorp(["volume", "create", &home, "--size", "8M"]).ok();
    let status = |words: &[&str]| thorp([&["volume", "status"], words].concat());
    assert!(status(&["--cache", &cache]).error().contains("nothing runs in"));
    let attached = Attached::new(&folder, &["--age-s", "600"]);
    let written = attached.connect().call(&Command::Write { offset: 0, data: &[1; BLOCK], fua: true }).unwrap();
    assert_eq!(written.error, 0);
    let by_home: serde_json::Value = serde_json::from_str(&status(&[&home, "--json"]).ok()).unwrap();
    let by_cache: serde_json::Value = serde_json::from_str(&status(&["--cache", &cache, "--json"]).ok()).unwrap();
    for live in [&by_home["live"], &by_cache] {
        assert_eq!((&live["dirty_writes"], &live["requests"]), (&1.into(), &1.into()), "{live}");
    }
    let said = status(&[&home]).ok();
    assert!(said.contains("bytes in 1 writes, the oldest") && said.contains("troubles"), "{said}");
    attached.kill();
    let said = status(&[&home]).ok();
    assert!(said.contains("not home at") && !said.contains("served at"), "{said}");
    assert!(status(&["--cache", &cache]).error().contains("its process has ended"));
    // The socket of the one that was killed is replaced.
    let attached = Attached::new(&folder, &[]);
    assert!(status(&["--cache", &cache]).ok().contains("served at"));
    attached.detach();
    assert!(status(&["--cache", &cache]).error().contains("it has no socket"));
    assert_eq!(status(&[]).code, Some(2));
}

#[test]
fn a_volume_of_one_host_gets_another_size_and_a_snapshot() {
    let folder = Folder::new();
    let (home, copy) = (folder.file("disk"), folder.file("copy"));
    thorp(["volume", "create", &home, "--size", "8M"]).ok();
    let volume = |words: &[&str]| thorp([&["volume"], words].concat());
    let attached = Attached::new(&folder, &["--age-s", "600"]);
    assert!(volume(&["resize", &home, "--size", "4M"]).error().contains("--shrink"));
    assert!(volume(&["resize", &home, "--size", "4M", "--shrink"]).ok().contains("when they connect again"));
    let written = attached.connect().call(&Command::Write { offset: 0, data: &[9; BLOCK], fua: true }).unwrap();
    assert_eq!(written.error, 0);
    let snapshot = volume(&["snapshot", &home, &copy]);
    // The write is there, whatever became of the snapshot.
    assert_eq!(std::fs::read(&home).unwrap()[..BLOCK], [9; BLOCK]);
    assert_eq!(std::fs::metadata(&home).unwrap().len(), 4 << 20);
    if snapshot.code == Some(0) {
        assert_eq!(std::fs::read(&copy).unwrap(), std::fs::read(&home).unwrap());
    } else {
        assert!(snapshot.stderr.contains("XFS and btrfs can"), "{}", snapshot.stderr);
        assert!(!Path::new(&copy).exists());
    }
    attached.connect().call(&Command::Write { offset: 0, data: &[8; BLOCK], fua: true }).unwrap();
    attached.kill();
    let refused = volume(&["resize", &home, "--size", "8M"]).error();
    assert!(refused.contains("/cache has the rest"), "{refused}");
    Attached::new(&folder, &[]).detach();
    assert!(volume(&["resize", &home, "--size", "8M"]).ok().contains("8388608 bytes, where it had 4194304"));
    assert_eq!(std::fs::metadata(&home).unwrap().len(), 8 << 20);
}

/// The files of an earlier volume are not taken for those of a new one of its name; nor is one taken for clean whose
/// files are in another directory.
#[test]
fn the_files_beside_a_home_are_its_own() {
    let folder = Folder::new();
    let (home, beside, image) = (folder.file("disk"), folder.file("beside"), folder.file("image"));
    let volume = |words: &[&str]| thorp([&["volume"], words].concat());
    std::fs::write(&image, vec![5; 1 << 20]).unwrap();
    volume(&["create", &home, "--size", "8M"]).ok();
    let write = |attached: &Attached| {
        let written = attached.connect().call(&Command::Write { offset: 0, data: &[9; BLOCK], fua: true }).unwrap();
        assert_eq!(written.error, 0);
    };
    let attached = Attached::new(&folder, &["--age-s", "600"]);
    write(&attached);
    attached.kill();
    // Its writes would go over the backup that is put in its place.
    std::fs::remove_file(&home).unwrap();
    for words in [&["import", &image, &home][..], &["create", &home, "--size", "1M"], &["export", &image, &home]] {
        let refused = volume(words).error();
        assert!(refused.contains("disk.thorp is left of a volume of this name"), "{words:?}: {refused}");
        assert!(!Path::new(&home).exists(), "{words:?}");
    }
    std::fs::remove_file(folder.file("disk.thorp")).unwrap();
    assert!(volume(&["import", &image, &home]).error().contains("disk.mark is left of a volume of this name"));
    std::fs::remove_file(folder.file("disk.mark")).unwrap();
    let _ = std::fs::remove_file(folder.file("disk.journal"));
    std::fs::remove_dir_all(folder.file("cache")).unwrap();
    volume(&["import", &image, &home]).ok();
    assert!(std::fs::read(&home).unwrap() == std::fs::read(&image).unwrap());

    std::fs::create_dir(&beside).unwrap();
    let attached = Attached::new(&folder, &["--age-s", "600", "--beside", &beside]);
    write(&attached);
    attached.kill();
    for words in [&["resize", &home, "--size", "8M"][..], &["export", &home, &folder.file("out")]] {
        let refused = volume(words).error();
        assert!(refused.contains("/cache has the rest"), "{words:?}: {refused}");
    }
    let elsewhere = volume(&["status", &home, "--beside", folder.path().to_str().unwrap()]).error();
    assert!(elsewhere.contains("give that directory as --beside"), "{elsewhere}");
    // They are found without being named.
    Attached::new(&folder, &[]).detach();
    assert_eq!(std::fs::read(&home).unwrap()[..BLOCK], [9; BLOCK]);
}

/// ext4 with blocks of 1 KiB reports data and holes in these.
#[test]
fn an_image_is_whole_where_files_have_small_blocks() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new();
    let disk = folder.file("small");
    std::fs::File::create(&disk).unwrap().set_len(32 << 20).unwrap();
    run("mkfs.ext4", ["-q", "-F", "-b", "1024", &disk]).unwrap();
    let mut mounted = Mounted::new(folder.path().join("mounted"), &disk).unwrap();
    let (home, image) = (mounted.path.join("home"), folder.file("image"));
    let home_name = home.to_str().unwrap();
    thorp(["volume", "create", home_name, "--size", "1M"]).ok();
    let file = std::fs::File::options().write(true).open(&home).unwrap();
    for (number, at) in [5120, 9216, 100 << 10, (1 << 20) - 1024].into_iter().enumerate() {
        file.write_all_at(&[number as u8 + 1; 1024], at).unwrap();
    }
    drop(file);
    thorp(["volume", "export", home_name, &image]).ok();
    let same = std::fs::read(&home).unwrap() == std::fs::read(&image).unwrap();
    mounted.end();
    assert!(same, "the image has other bytes than the volume");
}

/// A full home is attached again, and again: the room that its files take is kept for them.
#[test]
fn a_full_home_with_small_blocks_is_attached_again() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new();
    let disk = folder.file("small");
    std::fs::File::create(&disk).unwrap().set_len(16 << 20).unwrap();
    run("mkfs.ext4", ["-q", "-F", "-b", "1024", &disk]).unwrap();
    let mut mounted = Mounted::new(folder.path().join("mounted"), &disk).unwrap();
    let home = mounted.path.join("home");
    thorp(["volume", "create", home.to_str().unwrap(), "--size", "1M"]).ok();
    std::os::unix::fs::symlink(&home, folder.path().join("disk")).unwrap();
    Attached::new(&folder, &[]).detach();
    let mut fill = std::fs::File::create(mounted.path.join("fill")).unwrap();
    while fill.write_all(&[1; 1024]).is_ok() {}
    for _ in 0..5 {
        Attached::new(&folder, &[]).detach();
    }
    drop(fill);
    mounted.end();
}

#[test]
fn mistakes_with_volumes_are_told() {
    let folder = Folder::new();
    let (home, cache) = (folder.file("disk"), folder.file("cache"));
    let error = thorp(["volume", "create", &home, "--size", "5000"]).error();
    assert!(error.contains("whole number of blocks of 4096 bytes"), "{error}");
    let error = thorp(["volume", "status", &home]).error();
    assert!(error.contains("No such file"), "{error}");
    let large = folder.file("large");
    let told = thorp(["volume", "create", &large, "--size", "1T"]).ok();
    assert!(told.contains("1099511627776 bytes"), "{told}");
    thorp(["volume", "create", &home, "--size", "1M"]).ok();
    let error = thorp(["volume", "create", &home, "--size", "1M"]).error();
    assert!(error.contains("File exists"), "{error}");
    let socket = format!("unix:{}", folder.file("nbd"));
    let error = thorp(["volume", "attach", &home, "--cache", &cache, "--listen", "nbd://0.0.0.0:0"]).error();
    assert!(error.contains("--insecure"), "{error}");
    let error = thorp(["volume", "attach", &home, "--cache", &cache, "--listen", &socket, "--dirty", "1M"]).error();
    assert!(error.contains("the log cannot have 1048576 bytes"), "{error}");
    let usage = thorp(["volume", "attach", &home, "--listen", &socket]);
    assert_eq!(usage.code, Some(2), "{}", usage.stderr);
}

#[test]
fn a_holder_that_was_killed_is_the_same_partition_and_one_with_another_disk_is_not() {
    let folder = Folder::new();
    let server = serve(&folder);
    let store = server.address().to_string();
    let refusal = |room: &str, listen: &str| {
        let dir = folder.file("copies");
        thorp(["holder", "--store", &store, "--dir", &dir, "--room", room, "--listen", listen]).error()
    };
    let holder = |more: &[&str]| program().holder(&store, &folder.file("copies"), "16M", more).unwrap();
    let partition = |holder: &Process| holder.ready()["partition"].clone();
    let process = holder(&[]);
    let (first, error) = (partition(&process), refusal("16M", "127.0.0.1:0"));
    assert!(error.contains("used by another process"), "{error}");
    drop(process);
    let process = holder(&["--leave"]);
    assert_eq!(first, partition(&process));
    Ran::from(process.end().unwrap()).ok();
    std::fs::remove_dir_all(folder.file("copies")).unwrap();
    let process = holder(&[]);
    assert_ne!(first, partition(&process));
    Ran::from(process.end().unwrap()).ok();
    for (room, listen, why) in [("1M", "127.0.0.1:0", "expected 16777216 to"), ("16M", "0.0.0.0:0", "--insecure")] {
        let error = refusal(room, listen);
        assert!(error.contains(why), "{error}");
    }
}

/// ext4 on a volume, by libnbd's file system and a loop device: the process that has it attached is killed, and
/// everything that was synced is there, in a file system that is whole.
#[test]
fn a_file_system_survives_the_kill_of_its_volume() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new();
    let home = folder.file("disk");
    thorp(["volume", "create", &home, "--size", "64M"]).ok();
    let text = |number: usize| format!("file {number}\n").repeat(3000);

    let attached = Attached::new(&folder, &["--age-s", "1"]);
    let mut disk = Fuse::new(&folder.path().join("fuse"), &attached.socket).unwrap();
    run("mkfs.ext4", ["-q", "-F", &disk.file]).unwrap();
    let mut mounted = Mounted::new(folder.path().join("mounted"), &disk.file).unwrap();
    for number in 0..20 {
        let mut file = std::fs::File::create(mounted.path.join(number.to_string())).unwrap();
        file.write_all(text(number).as_bytes()).unwrap();
        file.sync_all().unwrap();
    }
    attached.kill();
    mounted.end();
    disk.end();

    let attached = Attached::new(&folder, &["--age-s", "1"]);
    let mut disk = Fuse::new(&folder.path().join("fuse"), &attached.socket).unwrap();
    // 1: it has replayed its journal, and counted what is free.
    let checked = std::process::Command::new("e2fsck").args(["-fy", &disk.file]).output().unwrap();
    assert!(matches!(checked.status.code(), Some(0 | 1)), "{checked:?}");
    let mut mounted = Mounted::new(folder.path().join("mounted"), &disk.file).unwrap();
    for number in 0..20 {
        let found = std::fs::read_to_string(mounted.path.join(number.to_string())).unwrap();
        assert!(found == text(number), "file {number}");
    }
    run("fstrim", [mounted.path.to_str().unwrap()]).unwrap();
    mounted.end();
    disk.end();
    attached.detach();
    run("e2fsck", ["-fn", &home]).unwrap();
    let (size, room) = (std::fs::metadata(&home).unwrap().len(), std::fs::metadata(&home).unwrap().blocks() * 512);
    assert!(room < size / 2, "what was trimmed takes no room: {room} of {size} bytes");
}
