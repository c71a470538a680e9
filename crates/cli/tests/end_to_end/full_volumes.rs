//! Volumes on disks without room: a cache's, home's, a holder's. Nothing that was promised is lost, nothing is promised
//! that there is no room for, and with room it continues. Ten times as much is written as a log has room for.

use crate::full_disk::{SmallDisk, fill, is_inside};
use crate::program::{Folder, thorp, try_start};
use crate::stored_volumes::Site;
use fixtures::nbd_client::{Client, Command};
use fixtures::{Ended, Process, until};
use nbd::Address;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything takes on a machine that has much else to do.
const LONG: Duration = Duration::from_secs(60);

const PIECE: usize = 64 << 10;

/// The log of each volume here has this much room.
const DIRTY: usize = 8 << 20;

/// A volume that is written piece by piece, each full of its version.
pub(crate) struct Pieces {
    written: Vec<u64>,
    promised: Vec<u64>,
}

impl Pieces {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { written: vec![0; bytes / PIECE], promised: vec![0; bytes / PIECE] }
    }

    /// Writes all of it, with a flush now and then and at the end; `false` if the server is gone.
    pub(crate) fn write(&mut self, client: &mut Client, version: u64) -> bool {
        for piece in 0..self.written.len() {
            self.written[piece] = version;
            let data = version.to_le_bytes().repeat(PIECE / 8);
            let offset = (piece * PIECE) as u64;
            let Ok(written) = client.call(&Command::Write { offset, data: &data, fua: false }) else { return false };
            assert_eq!(written.error, 0, "{}", written.text);
            if piece % 16 == 15 || piece + 1 == self.written.len() {
                let Ok(flushed) = client.call(&Command::Flush) else { return false };
                assert_eq!(flushed.error, 0, "{}", flushed.text);
                self.promised.clone_from(&self.written);
            }
        }
        true
    }

    /// Each block is of a version that was written, and none is older than what was promised. After that it is promised
    /// as it was read.
    pub(crate) fn check(&mut self, client: &mut Client) {
        for piece in 0..self.written.len() {
            let offset = (piece * PIECE) as u64;
            let read = client.call(&Command::Read { offset, len: PIECE as u32, whole: true }).unwrap();
            assert_eq!(read.error, 0, "{}", read.text);
            let mut oldest = u64::MAX;
            for block in read.data.chunks(4096) {
                let version = u64::from_le_bytes(block[..8].try_into().unwrap());
                assert!(block.chunks(8).all(|part| part == version.to_le_bytes()), "a block of piece {piece} is torn");
                let may_be = self.promised[piece]..=self.written[piece];
                assert!(may_be.contains(&version), "piece {piece}: {version} of {may_be:?}");
                oldest = oldest.min(version);
            }
            self.promised[piece] = oldest;
        }
    }
}

/// A volume whose home and cache are in folders of their own.
fn attach(home: &str, cache: &str, folder: &Folder) -> Result<(Process, Address), String> {
    attach_with(home, cache, folder, "8M")
}

fn attach_with(home: &str, cache: &str, folder: &Folder, dirty: &str) -> Result<(Process, Address), String> {
    attach_by(home, cache, folder, &["--dirty", dirty, "--age-s", "1"])
}

/// The same with these options.
pub(crate) fn attach_by(home: &str, cache: &str, folder: &Folder, more: &[&str]) -> Result<(Process, Address), String> {
    let socket = folder.path().join("nbd");
    let listen = format!("unix:{}", socket.display());
    let words = ["volume", "attach", home, "--cache", cache, "--listen", &listen, "--clean", "4M"];
    let process = try_start(&[&words[..], more].concat())?;
    Ok((process, Address::Unix(socket)))
}

pub(crate) fn connect(address: &Address) -> Client {
    Client::connect(address, "").unwrap()
}

/// The room of the log is taken when a volume is attached, so a cache's disk that fills up later keeps nobody from
/// writing.
#[test]
fn a_cache_whose_disk_fills_up() {
    if !is_inside("full_volumes::a_cache_whose_disk_fills_up") {
        return;
    }
    let (folder, disk) = (Folder::new(), SmallDisk::new(6));
    let (home, cache) = (folder.file("disk"), disk.0.file("cache"));
    thorp(["volume", "create", &home, "--size", "24M"]).ok();
    let refused = attach(&home, &cache, &folder).map(drop).unwrap_err();
    assert!(refused.contains("has no room for 8388608 bytes of writes: make room"), "{refused}");
    // Less is had as it says: nothing of the attempt is left in the way.
    attach_with(&home, &cache, &folder, "4M").unwrap().0.end().unwrap();
    disk.resize(12);
    let mut pieces = Pieces::new(24 << 20);
    let (owner, address) = attach(&home, &cache, &folder).unwrap();
    fill(&disk.0);
    let mut client = connect(&address);
    for version in 1..=4 {
        assert!(pieces.write(&mut client, version));
    }
    const { assert!((4 * 24) << 20 > 10 * DIRTY) };
    pieces.check(&mut client);
    thread::scope(|scope| {
        let writer = scope.spawn(|| while pieces.write(&mut client, 5) {});
        thread::sleep(Duration::from_millis(200));
        drop(owner);
        writer.join().unwrap();
    });
    // It starts without a byte of room.
    let (owner, address) = attach(&home, &cache, &folder).unwrap();
    pieces.check(&mut connect(&address));
    let Ended { stderr: errors, stdout: said, .. } = owner.end().unwrap();
    assert!(said.contains("detached"), "{errors}{said}");
}

/// Home has no room any more: the log fills up, and writers wait. The owner is killed in the meantime. With room all
/// continues, and is home in the end.
#[test]
fn a_home_whose_disk_fills_up() {
    if !is_inside("full_volumes::a_home_whose_disk_fills_up") {
        return;
    }
    let (folder, disk) = (Folder::new(), SmallDisk::new(6));
    let (home, cache) = (disk.0.file("disk"), folder.file("cache"));
    thorp(["volume", "create", &home, "--size", "96M"]).ok();
    let mut pieces = Pieces::new(96 << 20);
    let (owner, address) = attach(&home, &cache, &folder).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| pieces.write(&mut connect(&address), 1));
        owner.hear_error("home: ").unwrap();
        thread::sleep(Duration::from_millis(300));
        drop(owner);
        assert!(!writer.join().unwrap(), "there was room for all of it");
    });
    let promised = pieces.promised.iter().filter(|version| **version > 0).count() * PIECE;
    assert!(promised < 6 * (1 << 20) + DIRTY, "{promised} bytes were promised");
    let (owner, address) = attach(&home, &cache, &folder).unwrap();
    pieces.check(&mut connect(&address));
    thread::scope(|scope| {
        let writer = scope.spawn(|| pieces.write(&mut connect(&address), 2));
        owner.hear_error("home: ").unwrap();
        thread::sleep(Duration::from_millis(300));
        assert!(!writer.is_finished(), "there is no room");
        disk.resize(120);
        owner.hear_error("it is well again").unwrap();
        assert!(writer.join().unwrap());
    });
    pieces.check(&mut connect(&address));
    let ended = owner.end().unwrap();
    assert!(ended.stdout.contains("detached"), "{ended:?}");
    let bytes = std::fs::read(&home).unwrap();
    assert!(bytes.chunks(8).all(|part| part == 2_u64.to_le_bytes()), "all of it is home");
}

/// Waits until a holder tells its operator, and the registry everybody, whether its disk is full.
fn wait_for_full(site: &Site, dir: &str, is_full: bool) {
    let told = |words: &[&str]| -> Value {
        let said = thorp([&["volume", "holders", "--json"], words].concat()).ok();
        serde_json::from_str(&said).unwrap()
    };
    until("it is told how its disk is", || {
        let told = [told(&["--dir", dir]), told(&["--store", &site.address()])];
        told.iter().all(|told| told["is_disk_full"] == is_full)
    });
}

/// The disk of a holder fills up: it promises no more than it has, so everything else goes home instead of waiting for
/// it, and it uses its files again. It is killed, and starts on the full disk. The owner dies with its cache, and
/// nothing is lost; with room it continues. It says how its disk stands: when it starts, when that is full, and when it
/// has room.
#[test]
fn a_holder_whose_disk_fills_up() {
    if !is_inside("full_volumes::a_holder_whose_disk_fills_up") {
        return;
    }
    let disk = SmallDisk::new(24);
    let mut site = Site::new(0);
    let dir = disk.0.file("copies");
    site.holders.push(site.holder_in(&dir, 0, &[]));
    site.holders[0].hear_error("fewer than --room 67108864 may yet take").unwrap();
    site.create_with("2", "16M");
    let mut pieces = Pieces::new(16 << 20);
    let begun = Instant::now();
    for life in 1..=3 {
        let host = site.attach(&format!("host-{life}"), &["--age-s", "60"]).unwrap();
        let mut client = host.connect();
        pieces.check(&mut client);
        site.wait_for_holders(1);
        match life {
            // The rest of the disk is somebody else's.
            1 => fill(&disk.0),
            2 => {
                drop(site.holders.remove(0));
                assert!(pieces.write(&mut client, 10));
                let again = site.holder_in(&dir, 0, &[]);
                site.holders.push(again);
            }
            _ => {
                disk.resize(100);
                site.holders[0].hear_error("has room again").unwrap();
                wait_for_full(&site, &dir, false);
            }
        }
        for version in 1..=2 {
            assert!(pieces.write(&mut client, 20 * life + version));
        }
        if life < 3 {
            // The log has room again whenever copies have gone home, so it has to be filled for as long as this looks.
            let is_seen = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_seen.load(Relaxed) && begun.elapsed() < 2 * LONG {
                        assert!(pieces.write(&mut client, 20 * life + 2));
                    }
                });
                site.holders[0].hear_error("is full: this holder has").unwrap();
                wait_for_full(&site, &dir, true);
                let words = ["volume", "status", "v", "--store", &site.address()];
                until("its owner says that a holder's disk is full", || thorp(words).ok().contains("its disk is full"));
                is_seen.store(true, Relaxed);
            });
            // Its copies are home by now, and its files are used again.
            site.wait_until("it takes copies again", |status| status["live"]["is_degraded"] == false);
        }
        thread::scope(|scope| {
            let writer = scope.spawn(|| while pieces.write(&mut client, 20 * life + 3) {});
            thread::sleep(Duration::from_millis(300));
            drop(host.process);
            writer.join().unwrap();
        });
        std::fs::remove_dir_all(site.folder.file(&format!("host-{life}"))).unwrap();
    }
    assert!(begun.elapsed() < 2 * LONG, "it waits for room that there is not");
    let host = site.attach("host-4", &[]).unwrap();
    pieces.check(&mut host.connect());
    let Ended { stderr: errors, stdout: said, .. } = host.process.end().unwrap();
    assert!(said.contains("detached"), "{errors}{said}");
}

/// The members that the registry has, by their partitions: what it says of each.
fn member(site: &Site, of: &Process) -> Value {
    let said = thorp(["volume", "holders", "--store", &site.address(), "--json"]).ok();
    let members: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    members.iter().find(|it| it["partition"] == of.ready()["partition"]).unwrap_or_else(|| panic!("{said}")).clone()
}

/// A holder whose disk is small fills up with what is not written back. It says so while it has room for more, stays
/// while nobody else has room, and is replaced when there is another one: no write has waited for it, and none was
/// written with fewer copies.
#[test]
fn a_holder_leaves_before_it_is_full() {
    if !is_inside("full_volumes::a_holder_leaves_before_it_is_full") {
        return;
    }
    let disk = SmallDisk::new(10);
    let mut site = Site::new(0);
    let dir = disk.0.file("copies");
    site.holders.push(site.holder_in(&dir, 0, &[]));
    site.create_with("2", "16M");
    // Nothing goes home by itself: it is not old enough, and less than half of the log.
    let host = site.attach("host-1", &["--age-s", "600"]).unwrap();
    site.wait_for_holders(1);
    let mut client = host.connect();
    let mut written = 0_u64;
    let asked =
        || -> Value { serde_json::from_str(&thorp(["volume", "holders", "--dir", &dir, "--json"]).ok()).unwrap() };
    let keeps = asked()["keeps"].as_u64().unwrap();
    assert!((2 << 20..8 << 20).contains(&keeps), "its disk has less room than --room: {}", asked());
    while written * (PIECE as u64) < keeps / 16 * 13 {
        let data = (written + 1).to_le_bytes().repeat(PIECE / 8);
        let call = Command::Write { offset: written * PIECE as u64, data: &data, fua: true };
        assert_eq!(client.call(&call).unwrap().error, 0);
        written += 1;
    }
    site.holders[0].hear_error("this holder is nearly full").unwrap();
    let status = asked();
    let used = status["used"].as_u64().unwrap();
    assert!(status["is_nearly_full"] == true && used < keeps, "{status}");
    site.wait_until("nothing waits", |status| {
        status["live"]["is_degraded"] == false && status["live"]["dirty_bytes"].as_u64() >= Some(keeps / 4 * 3)
    });
    until("the registry knows that it is nearly full", || member(&site, &site.holders[0])["is_nearly_full"] == true);
    assert_eq!(member(&site, &site.holders[0])["holds"], serde_json::json!(["v"]), "there is nobody else");
    site.holders.push(site.holder(1));
    until("another one has taken its place", || {
        assert_eq!(site.status()["live"]["is_degraded"], false);
        member(&site, &site.holders[0])["holds"] == serde_json::json!([])
    });
    assert_eq!(member(&site, &site.holders[1])["holds"], serde_json::json!(["v"]));
    site.holders[0].hear_error("has room for volumes again").unwrap();
    // The first one is no longer needed, nor is the host.
    drop(site.holders.remove(0));
    drop(host.process);
    std::fs::remove_dir_all(site.folder.file("host-1")).unwrap();
    let host = site.attach("host-2", &[]).unwrap();
    let mut client = host.connect();
    for piece in 0..written {
        let read = Command::Read { offset: piece * PIECE as u64, len: PIECE as u32, whole: true };
        let data = client.call(&read).unwrap().data;
        assert!(data.chunks(8).all(|part| part == (piece + 1).to_le_bytes()), "piece {piece} of {written}");
    }
}

/// A holder whose disk has room for a few files of the length that `--room` asks for takes copies again as soon as its
/// copies are written back. A disk that is too small is refused with the numbers.
#[test]
fn a_holder_on_a_small_disk_is_used_again() {
    if !is_inside("full_volumes::a_holder_on_a_small_disk_is_used_again") {
        return;
    }
    let (tiny, disk) = (SmallDisk::new(6), SmallDisk::new(24));
    let mut site = Site::new(0);
    let address = site.address();
    let holder = |dir: &str| {
        let words = ["holder", "--store", &address, "--dir", dir, "--room", "256M", "--domain", "rack 9"];
        try_start(&[&words[..], &["--listen", "127.0.0.1:0"]].concat())
    };
    let refused = holder(&tiny.0.file("copies")).expect_err("its disk is too small");
    assert!(refused.contains("has room for") && refused.contains("a holder needs 8388608"), "{refused}");
    let dir = disk.0.file("copies");
    site.holders.push(holder(&dir).unwrap());
    site.create_with("2", "64M");
    let host = site.attach("host-1", &["--age-s", "1"]).unwrap();
    site.wait_for_holders(1);
    let mut pieces = Pieces::new(64 << 20);
    for version in 1..=3 {
        assert!(pieces.write(&mut host.connect(), version));
        site.wait_until("it takes copies again", |it| it["live"]["is_degraded"] == false);
    }
    site.wait_until("everything is home", |it| it["live"]["dirty_writes"] == 0);
    // Its disk is full of its log's own files, which have room for copies.
    wait_for_full(&site, &dir, false);
    assert!(pieces.write(&mut host.connect(), 4));
    site.wait_until("it takes copies after a rest", |it| it["live"]["is_degraded"] == false);
    host.process.end().unwrap();
}
