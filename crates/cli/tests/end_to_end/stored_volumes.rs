//! Volumes of a store, between hosts: each host, each holder and the store a process of its own.

use crate::program::{Folder, command, program, serve_with, spawn, thorp, thorp_reading, try_start};
use crate::volumes::{BLOCK, Versions, check, write_and_kill};
use fixtures::nbd_client::{Client, Command};
use fixtures::{Ended, Process, Signal, lasting_address, until};
use nbd::Address;
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

const SIZE: &str = "8M";

/// Long for a heartbeat on a busy machine, and short for those who wait for its end.
pub(crate) const LEASE: Duration = Duration::from_secs(4);

/// A store with the homes of volumes, and holders.
pub(crate) struct Site {
    pub(crate) folder: Folder,
    pub(crate) store: Process,
    pub(crate) holders: Vec<Process>,
}

impl Site {
    pub(crate) fn new(holders: usize) -> Self {
        let folder = Folder::new();
        let listen = lasting_address().unwrap().to_string();
        let store = serve_with(&folder, &["--volumes", &folder.file("homes"), "--listen", &listen]);
        let mut site = Self { folder, store, holders: Vec::new() };
        site.holders = (0..holders).map(|number| site.holder(number)).collect();
        site
    }

    /// Kills the store, and starts it again at its address.
    pub(crate) fn restart_store(&mut self) {
        self.store.start_again().unwrap();
    }

    pub(crate) fn address(&self) -> String {
        self.store.address().to_string()
    }

    pub(crate) fn holder(&self, number: usize) -> Process {
        self.holder_with(number, &[])
    }

    fn holder_with(&self, number: usize, more: &[&str]) -> Process {
        self.holder_in(&self.folder.file(&format!("copies-{number}")), number, more)
    }

    pub(crate) fn holder_in(&self, dir: &str, number: usize, more: &[&str]) -> Process {
        let domain = format!("rack-{number}");
        program().holder(&self.address(), dir, "64M", &[&["--domain", &domain], more].concat()).unwrap()
    }

    pub(crate) fn create(&self, copies: &str) {
        self.create_with(copies, SIZE);
    }

    pub(crate) fn create_with(&self, copies: &str, size: &str) {
        let words = ["volume", "create", "v", "--store", &self.address(), "--size", size, "--copies", copies];
        thorp([&words[..], &["--lease-s", &LEASE.as_secs().to_string()]].concat()).ok();
    }

    /// Attaches the volume at a host, with a cache and a failure domain of its own.
    pub(crate) fn attach(&self, host: &str, more: &[&str]) -> Result<Host, String> {
        self.attach_volume("v", host, more)
    }

    fn attach_volume(&self, name: &str, host: &str, more: &[&str]) -> Result<Host, String> {
        self.attach_by(name, host, &[&["--cache", &self.folder.file(host), "--clean", "2M"], more].concat())
    }

    /// The same with a cache somewhere else, which has this much room for clean blocks.
    pub(crate) fn attach_with_cache(&self, host: &str, cache: &str, clean: &str) -> Result<Host, String> {
        self.attach_by("v", host, &["--cache", cache, "--clean", clean])
    }

    fn attach_by(&self, name: &str, host: &str, more: &[&str]) -> Result<Host, String> {
        let socket = self.folder.path().join(format!("{host}.nbd"));
        let listen = format!("unix:{}", socket.display());
        let words = ["volume", "attach", name, "--store", &self.address(), "--listen", &listen];
        let sizes = ["--dirty", "8M", "--domain", host, "--spare", "0"];
        let process = try_start(&[&words[..], &sizes[..], more].concat())?;
        Ok(Host { process, socket })
    }

    pub(crate) fn status(&self) -> Value {
        let status = thorp(["volume", "status", "v", "--store", &self.address(), "--json"]).ok();
        serde_json::from_str(&status).unwrap()
    }

    /// Waits until the volume stands so.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        until(what, || is_so(&self.status()));
    }

    /// Waits until the volume has this many holders and, if it is attached, its owner counts their copies. The registry
    /// lists a holder earlier; writes until then go straight home.
    pub(crate) fn wait_for_holders(&self, count: usize) {
        let is_whole = |holder: &&Value| holder["state"] == "whole";
        self.wait_until("there are as many holders", |it| {
            let live = it["live"]["holders"].as_array();
            it["holders"].as_array().unwrap().len() == count
                && live.is_none_or(|holders| holders.iter().filter(is_whole).count() == count)
        });
    }
}

/// A host that has the volume attached.
pub(crate) struct Host {
    pub(crate) process: Process,
    pub(crate) socket: PathBuf,
}

impl Host {
    pub(crate) fn connect(&self) -> Client {
        Client::connect(&Address::Unix(self.socket.clone()), "").unwrap()
    }

    pub(crate) fn read(&self) -> Vec<u8> {
        self.connect().call(&Command::Read { offset: 0, len: 8 << 20, whole: true }).unwrap().data
    }

    /// Writes for a while, and is killed.
    fn write_and_kill(self, versions: &mut Versions, first: u64) {
        write_and_kill(self.connect(), versions, first, || drop(self.process));
    }
}

pub(crate) fn write(client: &mut Client, block: u64, version: u64) {
    let data = version.to_le_bytes().repeat(BLOCK / 8);
    let written = client.call(&Command::Write { offset: block * BLOCK as u64, data: &data, fua: true }).unwrap();
    assert_eq!(written.error, 0);
}

pub(crate) fn version(bytes: &[u8], block: usize) -> u64 {
    u64::from_le_bytes(bytes[block * BLOCK..][..8].try_into().unwrap())
}

/// The promise: the owner is killed, its disk is gone, and on another host is everything that was flushed. Again and
/// again.
#[test]
fn a_volume_survives_its_host() {
    let site = Site::new(2);
    site.create("2");
    let mut versions = Versions::default();
    for life in 1..=3_u64 {
        // Blocks go home late: nearly everything is at holders alone.
        let host = site.attach(&format!("host-{life}"), &["--age-s", "60"]).unwrap();
        check(&mut versions, &host.read());
        site.wait_for_holders(1);
        host.write_and_kill(&mut versions, life * 1_000_000);
        std::fs::remove_dir_all(site.folder.file(&format!("host-{life}"))).unwrap();
    }
    let host = site.attach("host-9", &[]).unwrap();
    check(&mut versions, &host.read());
    let status = site.status();
    assert!(status["attached_at"].as_str().unwrap().ends_with("/host-9"), "{status}");
    let Ended { stderr: errors, stdout: said, .. } = host.process.end().unwrap();
    assert!(said.contains("detached"), "{errors}{said}");
    assert!(site.status()["attached_at"].is_null());
    // Detached, there is nothing to wait for.
    let begun = Instant::now();
    let host = site.attach("host-9", &[]).unwrap();
    check(&mut versions, &host.read());
    assert!(begun.elapsed() < LEASE, "nobody has it, and it was waited for");
}

/// The store is away for longer than the lease: nothing fails, not even for those who do not try again.
#[test]
fn requests_wait_for_a_store_that_is_started_again() {
    let mut site = Site::new(1);
    site.create("2");
    let host = site.attach("host", &["--age-s", "60"]).unwrap();
    site.wait_for_holders(1);
    write(&mut host.connect(), 1, 1);
    site.store.kill().unwrap();
    thread::sleep(LEASE + LEASE / 2);
    let cache = site.folder.file("host");
    let told = thorp(["volume", "status", "v", "--store", &site.address(), "--cache", &cache]).ok();
    assert!(told.contains("requests wait"), "{told}");
    let untold = thorp(["volume", "status", "v", "--store", &site.address()]).error();
    assert!(untold.contains("--cache"), "{untold}");
    thread::scope(|scope| {
        let reads = scope.spawn(|| host.read());
        let writes = scope.spawn(|| write(&mut host.connect(), 2, 2));
        thread::sleep(LEASE / 2);
        assert!(!reads.is_finished() && !writes.is_finished(), "another host may have the volume");
        site.store.start_again().unwrap();
        assert_eq!(version(&reads.join().unwrap(), 1), 1);
        writes.join().unwrap();
    });
    assert_eq!(version(&host.read(), 2), 2);
}

/// Clients hang up while home is unreachable. Their reads keep no place from those who are there, with the lease and
/// without.
#[test]
fn reads_of_clients_that_have_gone_are_given_up() {
    let mut site = Site::new(0);
    site.create("1");
    let host = site.attach("host", &[]).unwrap();
    let cache = site.folder.file("host");
    let live =
        || -> Value { serde_json::from_str(&thorp(["volume", "status", "--cache", &cache, "--json"]).ok()).unwrap() };
    site.store.kill().unwrap();
    for is_leased in [true, false] {
        // As many as there may be.
        for _ in 0..64 {
            let mut client = host.connect();
            for block in 0..4 {
                client.add(&Command::Read { offset: block << 20, len: BLOCK as u32, whole: true });
            }
            client.flush().unwrap();
        }
        until("all are answered or gone", || live()["connections"] == 0);
        if is_leased {
            thread::sleep(LEASE);
        }
    }
    assert_eq!((&live()["requests_failed"], &live()["read_error"]), (&Value::from(0), &Value::Null), "nobody was told");
}

/// Where writes are not to be promised with fewer copies, not even at home, they are refused while there are fewer.
#[test]
fn writes_are_refused_without_copies_if_they_are_to_be() {
    let mut site = Site::new(1);
    site.create("2");
    let host = site.attach("host", &["--degraded", "refuse"]).unwrap();
    let mut client = host.connect();
    // It was attached when there were copies to be had.
    write(&mut client, 1, 1);
    drop(site.holders.remove(0));
    let data = [9; BLOCK];
    let put = Command::Write { offset: 0, data: &data, fua: true };
    until("writes are refused", || client.call(&put).unwrap().error != 0);
    assert_eq!(version(&host.read(), 1), 1);
    let _holder = site.holder(0);
    until("writes are taken again", || client.call(&put).unwrap().error == 0);
}

/// A host that was cut off from all others, here by being stopped, finds when it comes back that another one has its
/// volume; and later its cache says what it had.
#[test]
fn a_host_that_comes_back_is_refused_and_says_what_it_drops() {
    let site = Site::new(2);
    site.create("2");
    let old = site.attach("old", &["--age-s", "60"]).unwrap();
    site.wait_for_holders(1);
    let mut client = old.connect();
    (0..50).for_each(|block| write(&mut client, block, 100 + block));
    old.process.signal(Signal::STOP).unwrap();

    let new = site.attach("new", &[]).unwrap();
    let read = new.read();
    (0..50).for_each(|block| assert_eq!(version(&read, block), 100 + block as u64, "block {block}"));
    write(&mut new.connect(), 7, 999);

    old.process.signal(Signal::CONT).unwrap();
    // It neither shows what it has nor takes anything more.
    let shown = client.call(&Command::Read { offset: 7 * BLOCK as u64, len: BLOCK as u32, whole: true });
    assert!(shown.as_ref().map_or(true, |shown| shown.error != 0), "{shown:?}");
    let errors = old.process.ended().unwrap().stderr;
    assert!(errors.contains("another host's"), "{errors}");
    // While the other one lives it does not get it back.
    let refused = site.attach("old", &[]).map(drop).unwrap_err();
    assert!(refused.contains("is attached at") && refused.contains("/new"), "{refused}");

    new.process.end().unwrap();
    let old = site.attach("old", &[]).unwrap();
    assert_eq!(version(&old.read(), 7), 999);
    let errors = old.process.end().unwrap().stderr;
    assert!(errors.contains("50 writes in it are dropped"), "{errors}");
}

#[test]
fn of_two_hosts_that_attach_at_once_one_gets_the_volume() {
    let site = Site::new(1);
    site.create("2");
    let dead = site.attach("dead", &["--age-s", "60"]).unwrap();
    site.wait_for_holders(1);
    write(&mut dead.connect(), 3, 77);
    drop(dead.process);
    let (told, tells) = channel();
    thread::scope(|scope| {
        for host in ["one", "two"] {
            let (told, site) = (told.clone(), &site);
            scope.spawn(move || told.send(site.attach(host, &[])).unwrap());
        }
    });
    let (got, refused): (Vec<_>, Vec<_>) = tells.iter().take(2).partition(Result::is_ok);
    assert_eq!((got.len(), refused.len()), (1, 1));
    let why = refused.into_iter().find_map(Result::err).unwrap();
    assert!(why.contains("its host lives"), "{why}");
    assert_eq!(version(&got[0].as_ref().unwrap().read(), 3), 77);
}

/// Holders are killed and come back, at other addresses, while writes continue. Then the owner is killed, and its disk
/// is gone.
#[test]
fn holders_that_are_killed_and_come_back_lose_nothing() {
    let mut site = Site::new(1);
    site.create("2");
    let host = site.attach("host-1", &["--age-s", "60"]).unwrap();
    site.wait_for_holders(1);
    let mut client = host.connect();
    for round in 0..3 {
        (0..30).for_each(|block| write(&mut client, block, round * 100 + block + 1));
        drop(site.holders.remove(0));
        // With nobody to copy to, a write is answered when it is written back.
        write(&mut client, 40 + round, 900 + round);
        let again = site.holder(0);
        site.holders.push(again);
        (0..30).for_each(|block| write(&mut client, block, round * 100 + 50 + block));
    }
    drop(host.process);
    std::fs::remove_dir_all(site.folder.file("host-1")).unwrap();
    let host = site.attach("host-2", &[]).unwrap();
    let read = host.read();
    (0..30).for_each(|block| assert_eq!(version(&read, block), 250 + block as u64, "block {block}"));
    (0..3).for_each(|round| assert_eq!(version(&read, 40 + round), 900 + round as u64, "round {round}"));
}

/// The process of the owner says which holders are there, and why it is degraded when they are not.
#[test]
fn an_owner_tells_of_its_holders() {
    let mut site = Site::new(1);
    site.create("2");
    let host = site.attach("host", &["--age-s", "60"]).unwrap();
    site.wait_for_holders(1);
    write(&mut host.connect(), 5, 55);
    let live = &site.status()["live"];
    assert_eq!((&live["is_degraded"], &live["dirty_writes"]), (&false.into(), &1.into()), "{live}");
    assert!(live["holders"][0]["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{live}");
    drop(site.holders.remove(0));
    site.wait_until("it is degraded", |it| it["live"]["is_degraded"] == true);
    // A write finds that nobody takes its copy, and goes home.
    write(&mut host.connect(), 6, 66);
    let said = thorp(["volume", "status", "v", "--store", &site.address()]).ok();
    assert!(said.contains(": away") && said.contains("degraded"), "{said}");
    drop(host.process);
    let said = thorp(["volume", "status", "v", "--store", &site.address()]).ok();
    assert!(said.contains("its process has ended"), "{said}");
}

/// A volume becomes smaller and larger, attached and not, and what was behind its end does not come back; nor after a
/// kill.
#[test]
fn a_volume_gets_another_size() {
    let site = Site::new(1);
    site.create("2");
    let resize_with = |size: &str, more: &[&str]| {
        let words = ["volume", "resize", "v", "--store", &site.address(), "--size", size, "--json"];
        thorp([&words[..], more].concat())
    };
    let resize = |size: &str| resize_with(size, &["--shrink"]);
    let host = site.attach("host-1", &["--age-s", "60"]).unwrap();
    site.wait_for_holders(1);
    let mut client = host.connect();
    write(&mut client, 1, 7);
    write(&mut client, 2000, 7);
    let said = resize("4M").ok();
    assert!(said.contains(r#""before":8388608"#) && said.contains(r#""is_attached":true"#), "{said}");
    assert_eq!((&site.status()["size"], host.connect().info().size), (&(4 << 20).into(), 4 << 20));
    resize("8M").ok();
    write(&mut host.connect(), 1500, 8);
    drop(host.process);
    std::fs::remove_dir_all(site.folder.file("host-1")).unwrap();
    assert!(resize("4M").stderr.contains("attach the volume again, or bring it home"));
    let host = site.attach("host-2", &[]).unwrap();
    let read = host.read();
    assert_eq!([1, 1500, 2000].map(|block| version(&read, block)), [7, 8, 0]);
    host.process.end().unwrap();

    assert!(resize_with("4M", &[]).stderr.contains("loses those behind its new end"));
    let said = resize("4M").ok();
    assert!(said.contains(r#""is_attached":false"#), "{said}");
    assert!(site.status()["attached_at"].is_null());
    resize("8M").ok();
    let host = site.attach("host-2", &[]).unwrap();
    let read = host.read();
    assert_eq!([1, 1500, 2000].map(|block| version(&read, block)), [7, 0, 0]);
    assert!(resize("5000").stderr.contains("whole number of blocks"));
}

/// A cache that serves another volume now says so: nothing that is meant for the one before is done to that.
#[test]
fn a_command_reaches_no_other_volume() {
    let site = Site::new(0);
    site.create("1");
    let host = site.attach("host", &["--age-s", "600"]).unwrap();
    drop(host.process);
    std::fs::remove_dir_all(site.folder.file("host")).unwrap();
    let store = site.address();
    let volume = |words: &[&str]| thorp([&["volume"], words, &["--store", &store]].concat());
    volume(&["create", "w", "--size", SIZE, "--copies", "1"]).ok();
    let _other = site.attach_volume("w", "host", &[]).unwrap();
    let refused = volume(&["resize", "v", "--size", "4M", "--shrink"]).error();
    assert!(refused.contains("and not of"), "{refused}");
    assert!(volume(&["status", "v"]).ok().contains("the cache of another volume now"));
    let stands = volume(&["status", "w"]).ok();
    assert!(stands.contains("8388608") && !stands.contains("another volume"), "{stands}");
}

/// Where the file system can share blocks a snapshot is a volume with what was written before; elsewhere it is said
/// what can.
#[test]
fn a_snapshot_has_what_was_written_before_it() {
    let site = Site::new(0);
    site.create("1");
    let host = site.attach("host", &["--age-s", "60"]).unwrap();
    write(&mut host.connect(), 5, 55);
    let snapshot = |name: &str| thorp(["volume", "snapshot", "v", name, "--store", &site.address()]);
    assert!(snapshot("v").error().contains("already"));
    let taken = snapshot("w");
    // The write is home, whatever became of the snapshot.
    assert_eq!(site.status()["live"]["dirty_writes"], 0);
    if taken.code == Some(0) {
        write(&mut host.connect(), 5, 66);
        host.process.end().unwrap();
        let words = ["volume", "list", "--store", &site.address()];
        assert!(thorp(words).ok().contains("w  "), "it is listed");
        let other = site.attach_volume("w", "other", &[]).unwrap();
        assert_eq!(version(&other.read(), 5), 55);
    } else {
        assert!(taken.stderr.contains("cannot share blocks between files (XFS and btrfs can)"), "{}", taken.stderr);
        assert!(!thorp(["volume", "list", "--store", &site.address()]).ok().contains("w  "));
    }
}

/// A holder says whose copies it has, and how much they take; and the store, who counts on it.
#[test]
fn a_holder_tells_whose_copies_it_has() {
    let site = Site::new(1);
    site.create("2");
    let host = site.attach("host", &["--age-s", "60"]).unwrap();
    site.wait_for_holders(1);
    (0..10).for_each(|block| write(&mut host.connect(), block, 5));
    let (store, dir) = (site.address(), site.folder.file("copies-0"));
    let said = thorp(["volume", "holders", "--store", &store, "--dir", &dir, "--json"]).ok();
    let told: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&told["copies"][0]["name"], &told["room"]), (&"v".into(), &(64 << 20).into()), "{told}");
    assert!(told["copies"][0]["bytes"].as_u64().is_some_and(|bytes| bytes >= 10 * 4096), "{told}");
    assert_eq!(told["copies"][0]["bytes"], told["used"]);
    assert!(thorp(["volume", "holders", "--dir", &dir]).ok().contains("copies of"));
    assert!(thorp(["volume", "holders", "--store", &store]).ok().contains("holds copies of v"));
    // The folders are told apart.
    let cache = site.folder.file("host");
    assert!(thorp(["volume", "holders", "--dir", &cache]).error().contains("not a folder of a holder"));
    assert!(thorp(["volume", "status", "--cache", &dir]).error().contains("not a cache of a volume"));
}

/// A volume goes out and comes in as a file and as a stream, with its holes, and nothing half done is under a name.
#[test]
fn a_volume_is_exported_and_imported() {
    let site = Site::new(1);
    site.create("2");
    let (store, image) = (site.address(), site.folder.file("v.img"));
    let volume = |words: &[&str]| thorp([&["volume"], words, &["--store", &store]].concat());
    let host = site.attach("host", &["--age-s", "60"]).unwrap();
    for block in [0, 7, 2047] {
        write(&mut host.connect(), block, 100 + block);
    }
    let attached = volume(&["export", "v", &image]);
    assert!(
        attached.code == Some(0) || attached.stderr.contains("a snapshot of it is exported"),
        "{}",
        attached.stderr
    );
    let _ = std::fs::remove_file(&image);
    host.process.end().unwrap();
    let said = volume(&["export", "v", &image, "--json"]).ok();
    assert!(said.contains(r#""size":8388608"#), "{said}");
    let bytes = std::fs::read(&image).unwrap();
    assert_eq!([0, 7, 2047, 9].map(|block| version(&bytes, block)), [100, 107, 2147, 0]);
    let room = std::fs::metadata(&image).unwrap().blocks() * 512;
    assert!(room < 1 << 20, "holes take no room: {room}");
    assert!(volume(&["export", "v", &image]).error().contains("is there already"));
    volume(&["export", "v", &image, "--force"]).ok();

    // By a pipe; 1,000 bytes less than whole blocks.
    let short = &bytes[..(8 << 20) - 1000];
    let streamed = thorp_reading(["volume", "import", "-", "w", "--store", &store, "--json"], short).ok();
    assert!(streamed.contains(r#""size":8388608"#), "{streamed}");
    assert!(volume(&["import", &image, "w"]).error().contains("already"));
    volume(&["import", &image, "x"]).ok();
    for name in ["w", "x"] {
        let mut child = command();
        let child = child.args(["volume", "export", name, "-", "--store", &store]).spawn().unwrap();
        let found = child.wait_with_output().unwrap().stdout;
        let expected = if name == "w" { short } else { &bytes[..] };
        assert!(found.len() == 8 << 20 && found[..expected.len()] == *expected, "{name}");
    }
    // It is attached like any other, and what is written goes home.
    let host = site.attach_volume("w", "other", &[]).unwrap();
    write(&mut host.connect(), 3, 33);
    host.process.end().unwrap();
    let host = site.attach_volume("w", "third", &[]).unwrap();
    let read = host.read();
    assert_eq!([3, 7].map(|block| version(&read, block)), [33, 107]);

    // One that is interrupted while its pipe says nothing leaves nothing.
    let homes = || {
        let files = std::fs::read_dir(site.folder.file("homes")).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        // Owners tell their homes of the registry's entry when they have time for it.
        names.filter(|name| !name.contains(".entry")).collect::<std::collections::BTreeSet<_>>()
    };
    let before = homes();
    let mut import = spawn(&["volume", "import", "-", "y", "--store", &store]);
    import.tell(&bytes).unwrap();
    until("it makes a home", || homes() != before);
    let said = import.end_by(Signal::INT).unwrap();
    assert!(said.stderr.contains("no volume was made"), "{said:?}");
    assert_eq!(homes(), before);
    assert!(!volume(&["list"]).ok().contains("y  "));
}

/// With one copy there is nobody else to ask: the log of the host itself has it.
#[test]
fn a_host_goes_on_with_its_own_log() {
    let site = Site::new(0);
    site.create("1");
    let mut versions = Versions::default();
    for life in 1..=3_u64 {
        let begun = Instant::now();
        let host = site.attach("host", &["--age-s", "60"]).unwrap();
        assert!(begun.elapsed() < LEASE, "it has waited for itself");
        check(&mut versions, &host.read());
        host.write_and_kill(&mut versions, life * 1_000_000);
    }
    let host = site.attach("host", &[]).unwrap();
    check(&mut versions, &host.read());
}

/// A host comes back with much in its log, over a line that is slow: it says how far it is, also by the socket in its
/// cache, and can be interrupted. The next attachment continues.
#[test]
fn a_long_way_home_is_told_of_and_can_be_interrupted() {
    // However they are flushed, the log has room for all of them: none goes home before the host is killed.
    const BLOCKS: u64 = 400;
    let site = Site::new(0);
    site.create("1");
    let host = site.attach("host", &["--age-s", "600"]).unwrap();
    let mut client = host.connect();
    for block in 0..BLOCKS {
        let data = (block + 1).to_le_bytes().repeat(BLOCK / 8);
        let command = Command::Write { offset: block * BLOCK as u64, data: &data, fua: false };
        assert_eq!(client.call(&command).unwrap().error, 0);
    }
    assert_eq!(client.call(&Command::Flush).unwrap().error, 0);
    drop(client);
    drop(host.process);
    let line = fixtures::Emulator::start(site.store.address(), Duration::from_millis(1), Some(150_000)).unwrap();
    let (cache, store, socket) = (site.folder.file("host"), line.address().to_string(), site.folder.file("host.nbd"));
    let listen = format!("unix:{socket}");
    let words = ["volume", "attach", "v", "--store", &store, "--cache", &cache, "--listen", &listen, "--dirty", "8M"];
    let comes = spawn(&words);
    let word = comes.hear_error("goes home: ").unwrap();
    assert!(word.contains(&format!(" of {BLOCKS} writes were sent, and ")), "{word}");
    let status = thorp(["volume", "status", "--cache", &cache]).ok();
    assert!(status.contains("being attached") && status.contains(" bytes of them are on their way"), "{status}");
    let begun = Instant::now();
    let ended = comes.end_by(Signal::INT).unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(begun.elapsed() < Duration::from_secs(8), "it took {:?}", begun.elapsed());
    assert!(ended.stderr.contains("the next attachment continues with it"), "{ended:?}");
    let host = site.attach("host", &[]).unwrap();
    let bytes = host.read();
    assert!((0..BLOCKS).all(|block| version(&bytes, block as usize) == block + 1));
}

/// Nobody attaches it: what the host has left is brought home all the same, and it is nobody's then.
#[test]
fn a_volume_of_a_dead_host_is_brought_home() {
    let site = Site::new(1);
    site.create("2");
    let host = site.attach("host", &["--age-s", "60"]).unwrap();
    site.wait_for_holders(1);
    write(&mut host.connect(), 5, 55);
    let detach = || thorp(["volume", "detach", "v", "--store", &site.address()]);
    let refused = detach();
    assert!(refused.stderr.contains("its host lives") && refused.code == Some(1), "{}", refused.stderr);
    drop(host.process);
    let detached = detach();
    assert!(detached.stdout.contains("all data of v was written back"), "{}", detached.stderr);
    let raw = std::fs::read_dir(site.folder.file("homes")).unwrap().map(|it| it.unwrap().path());
    let raw = raw.into_iter().find(|it| it.extension().is_some_and(|it| it == "raw")).expect("a volume's home");
    assert_eq!(version(&std::fs::read(raw).unwrap(), 5), 55);
    assert!(site.status()["attached_at"].is_null());
    // Where there is nothing to be done, it is done.
    detach().ok();
}

/// A host is killed, and its holder stopped: everybody says since when nothing is heard, and which machine should be
/// started again.
#[test]
fn a_host_and_a_holder_that_are_gone_are_named() {
    let mut site = Site::new(1);
    site.create("2");
    let host = site.attach("one", &["--age-s", "600"]).unwrap();
    site.wait_for_holders(1);
    write(&mut host.connect(), 5, 55);
    let store = site.address();
    let volume = |words: &[&str]| thorp([&["volume"], words, &["--store", &store]].concat()).ok();
    assert!(!volume(&["list"]).contains("silent") && site.status()["silent_s"].is_null());
    assert_eq!(site.status()["holders_away"], serde_json::json!([]));
    drop(host.process);
    let holder = site.holders.remove(0);
    let last_at = format!("last at {}", holder.ready()["listen"].as_str().unwrap());
    // In good order, so that the registry has no such member any more.
    holder.end().unwrap();
    site.wait_until("the host is silent", |it| it["silent_s"].as_u64().is_some_and(|it| it >= LEASE.as_secs()));
    assert!(volume(&["list"]).contains(", silent for "));
    let status = site.status();
    let (away, name) = (status["holders_away"][0].as_str().unwrap(), status["holders"][0].as_str().unwrap());
    assert!(away.starts_with(name) && away.contains(&last_at) && away.contains("has left the registry"), "{status}");
    let (cache, socket) = (site.folder.file("two"), site.folder.file("two.nbd"));
    let listen = format!("unix:{socket}");
    let words = ["volume", "attach", "v", "--store", &store, "--cache", &cache, "--listen", &listen, "--dirty", "8M"];
    let told = spawn(&words).hear_error("no answer of").unwrap();
    assert!(told.contains(&last_at), "{told}");
}

/// A holder is killed: its owner says where it was, and whoever asks for holders for how long it has been silent.
#[test]
fn a_holder_that_is_silent_is_named() {
    let mut site = Site::new(1);
    site.create("2");
    let _host = site.attach("one", &[]).unwrap();
    site.wait_for_holders(1);
    let holder = site.holders.remove(0);
    let at = holder.ready()["listen"].as_str().unwrap().to_owned();
    drop(holder);
    let was_at = format!("was at {at} last");
    site.wait_until("the owner names the holder that it has lost", |it| {
        let live = &it["live"];
        let is_named = live["degraded"].as_str().is_some_and(|why| why.contains(&was_at));
        is_named && live["holders"][0]["state"] == "lost" && live["holders"][0]["address"] == at.as_str()
    });
    let said = || thorp(["volume", "holders", "--store", &site.address()]).ok();
    until("it is silent", || said().contains("silent for "));
}

/// Nobody attaches the volume or asks for it: and then the holder may be lost, too.
#[test]
fn a_holder_brings_home_what_a_dead_host_has_left() {
    let mut site = Site::new(0);
    site.holders.push(site.holder_with(0, &["--bring-home-after-s", "1"]));
    site.create("2");
    let host = site.attach("one", &["--age-s", "600"]).unwrap();
    site.wait_for_holders(1);
    let mut client = host.connect();
    (0..64).for_each(|block| write(&mut client, block, block + 1));
    assert_eq!(client.call(&Command::Flush).unwrap().error, 0);
    drop(client);
    drop(host.process);
    std::fs::remove_dir_all(site.folder.file("one")).unwrap();
    site.wait_until("the holder is to bring it home", |status| status["attached_at"].is_null());
    let errors = site.holders.remove(0).end().unwrap().stderr;
    assert!(errors.contains("'v' is silent") && errors.contains("all of 'v' is home"), "{errors}");
    std::fs::remove_dir_all(site.folder.file("copies-0")).unwrap();
    let begun = Instant::now();
    let host = site.attach("two", &[]).unwrap();
    assert!(begun.elapsed() < LEASE, "there was nobody to wait for");
    let mut client = host.connect();
    for block in 0..64 {
        let read =
            client.call(&Command::Read { offset: block * BLOCK as u64, len: BLOCK as u32, whole: true }).unwrap();
        assert_eq!(version(&read.data, 0), block + 1, "block {block}");
    }
}

#[test]
fn volumes_of_a_store_are_told_of_and_mistakes_with_them() {
    let site = Site::new(1);
    let store = site.address();
    let volume = |words: &[&str]| thorp([&["volume"], words, &["--store", &store]].concat());
    assert_eq!(volume(&["list"]).ok(), "");
    assert!(volume(&["holders"]).ok().contains("bytes free"));
    site.create("2");
    assert!(volume(&["create", "v", "--size", SIZE]).error().contains("already"));
    assert!(volume(&["create", "a/b", "--size", SIZE]).error().contains("not a name of a volume"));
    assert!(volume(&["create", "w", "--size", "5000"]).error().contains("whole number of blocks"));
    assert!(volume(&["status", "w"]).error().contains("there is no volume 'w'"));
    // A holder is no store.
    let holder = site.holders[0].ready()["listen"].as_str().unwrap().to_owned();
    for words in [&["list"][..], &["status", "v"], &["holders"], &["list", "--homes"]] {
        let line = thorp([&["volume"], words, &["--store", &holder]].concat()).error();
        assert!(line.contains(&format!("{holder} is not a Thorp store")) && line.contains("got a holder"), "{line}");
    }
    assert!(volume(&["list"]).ok().contains("not attached"));
    // A host that cannot serve it does not keep it.
    let refused = site.attach("host", &["--listen", "unix:/nowhere/v.nbd"]).map(drop).unwrap_err();
    assert!(refused.contains("/nowhere/v.nbd"), "{refused}");
    assert!(volume(&["list"]).ok().contains("not attached"));
    let host = site.attach("host", &[]).unwrap();
    assert!(volume(&["list"]).ok().contains("attached at"));
    assert!(volume(&["remove", "v"]).error().contains("detach it there first"));
    host.process.end().unwrap();
    assert!(volume(&["remove", "v"]).ok().contains("removed"));
    assert_eq!(volume(&["list"]).ok(), "");
}
