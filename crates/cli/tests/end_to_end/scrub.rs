//! Blocks that change at home behind its back, and caches that come back older: nobody reads them as data, and `scrub`
//! names them.

use crate::program::{Folder, Ran, command, ran, thorp, try_start};
use crate::raw::Raw;
use crate::stored_volumes::{Host, Site, version, write};
use crate::volumes::BLOCK;
use fixtures::Process;
use fixtures::nbd_client::Command;
use machines::messages::holder::{
    Free, FromHolder, HeldVolume, List, ListVolumes, Sequence, Stamp, ToHolder, VolumeId, Volumes,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A byte of a file becomes another one, and the file looks as it did: as a disk does it that wears.
pub(crate) fn wear(file: &Path, block: usize) {
    let modified = fs::metadata(file).unwrap().modified().unwrap();
    let (open, at) = (File::options().read(true).write(true).open(file).unwrap(), (block * BLOCK + 100) as u64);
    let mut byte = [0];
    open.read_exact_at(&mut byte, at).unwrap();
    open.write_all_at(&[byte[0] ^ 1], at).unwrap();
    open.set_modified(modified).unwrap();
}

/// The differences that a scrub has told, and its last line.
fn told(ran: &Ran) -> (Vec<(u64, String)>, Value) {
    let mut lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.pop().unwrap_or_else(|| panic!("{}", ran.stderr));
    let named = |line: &Value| (line["block"].as_u64().unwrap(), line["meaning"].as_str().unwrap().to_owned());
    (lines.iter().map(named).collect(), last)
}

/// A scrub that has found differences fails, and says so.
fn expect_differing(ran: &Ran) {
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("not the same everywhere"), "{}", ran.stderr);
}

/// Writes the first blocks of the volume, and detaches it: all of them are home.
pub(crate) fn write_all(host: Host, blocks: u64, version: u64) {
    let mut client = host.connect();
    (0..blocks).for_each(|block| write(&mut client, block, version + block));
    drop(client);
    host.process.end().unwrap();
}

pub(crate) fn read(host: &Host, block: usize) -> Result<u64, u32> {
    let command = Command::Read { offset: (block * BLOCK) as u64, len: BLOCK as u32, whole: true };
    let answer = host.connect().call(&command).unwrap();
    if answer.error == 0 { Ok(version(&answer.data, 0)) } else { Err(answer.error) }
}

impl Site {
    pub(crate) fn raw(&self) -> PathBuf {
        let mut files = fs::read_dir(self.folder.path().join("homes")).unwrap().map(|it| it.unwrap().path());
        files.find(|file| file.extension().is_some_and(|it| it == "raw")).unwrap()
    }

    /// The blocks that the store's homes have found to be other than what was written.
    fn damaged_blocks(&self) -> u64 {
        let status: Value = serde_json::from_str(&thorp(["status", &self.address(), "--json"]).ok()).unwrap();
        status["volume_homes"][0]["damaged_blocks"].as_u64().unwrap_or_else(|| panic!("{status}"))
    }

    /// Waits until there are more: a status may be that of a moment ago.
    fn wait_for_damaged_blocks(&self, than: u64) -> u64 {
        let begun = Instant::now();
        loop {
            let damaged = self.damaged_blocks();
            if damaged > than {
                return damaged;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{damaged} blocks are counted");
        }
    }

    pub(crate) fn scrub(&self, more: &[&str]) -> Ran {
        thorp([&["volume", "scrub", "v", "--store", &self.address(), "--json"], more].concat())
    }
}

#[test]
fn a_block_that_changed_at_home_is_refused_by_name_and_scrub_names_it() {
    let site = Site::new(0);
    site.create("1");
    write_all(site.attach("host-1", &[]).unwrap(), 8, 70);
    let (differences, last) = told(&site.scrub(&[]));
    assert_eq!((differences, &last["checked_blocks"]), (vec![], &8.into()));
    assert_eq!(site.damaged_blocks(), 0);
    site.scrub(&[]).ok();

    // Another host has nothing of it in its cache.
    let host = site.attach("host-2", &[]).unwrap();
    wear(&site.raw(), 3);
    assert_eq!((read(&host, 2), read(&host, 4)), (Ok(72), Ok(74)));
    assert!(read(&host, 3).is_err());
    let by_read = site.wait_for_damaged_blocks(0);
    let words = ["volume", "status", "v", "--store", &site.address(), "--cache", &site.folder.file("host-2")];
    let status = thorp(words).ok();
    assert!(status.contains("block 3 of the volume is not what was written there"), "{status}");
    assert!(status.contains("thorp volume scrub"), "{status}");
    // While it is attached, and afterwards.
    let scrubbed = site.scrub(&[]);
    assert_eq!(told(&scrubbed).0, vec![(3, "home_damaged".to_owned())]);
    expect_differing(&scrubbed);
    site.wait_for_damaged_blocks(by_read);
    host.process.end().unwrap();
    // The first host's cache has what was written.
    let with_cache = site.scrub(&["--cache", &site.folder.file("host-1")]);
    assert_eq!(told(&with_cache).0, vec![(3, "cache_has_it".to_owned())]);

    // Written again it is well.
    let host = site.attach("host-2", &[]).unwrap();
    write(&mut host.connect(), 3, 5);
    host.process.end().unwrap();
    site.scrub(&[]).ok();
    let host = site.attach("host-3", &[]).unwrap();
    assert_eq!((read(&host, 2), read(&host, 3)), (Ok(72), Ok(5)));
    host.process.end().unwrap();
}

#[test]
fn a_cache_that_was_put_back_from_an_older_copy_differs() {
    let site = Site::new(0);
    site.create("1");
    write_all(site.attach("host-1", &[]).unwrap(), 8, 70);
    let (cache, old) = (site.folder.path().join("host-1"), site.folder.path().join("old"));
    fs::create_dir(&old).unwrap();
    for file in fs::read_dir(&cache).unwrap().map(|file| file.unwrap()) {
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), old.join(file.file_name())).unwrap();
        }
    }
    write_all(site.attach("host-1", &[]).unwrap(), 2, 90);
    let [cache, old] = [cache, old].map(|dir| dir.to_str().unwrap().to_owned());
    let same = site.scrub(&["--cache", &cache]);
    assert_eq!(told(&same).0, vec![]);
    assert!(told(&same).1["cached_blocks"].as_u64().unwrap() >= 2);
    same.ok();
    let differs = ["cache_differs"; 2].map(str::to_owned);
    let older = site.scrub(&["--cache", &old]);
    assert_eq!(told(&older).0, (0..).zip(differs).collect::<Vec<_>>());
    expect_differing(&older);
    site.scrub(&[]).ok();
}

/// The process that has the volume is asked, while clients use it.
#[test]
fn the_clean_blocks_of_an_attached_volume_are_compared() {
    let site = Site::new(0);
    site.create("1");
    write_all(site.attach("host-1", &[]).unwrap(), 64, 70);
    let host = site.attach("host-1", &[]).unwrap();
    let (differences, last) = told(&site.scrub(&[]));
    assert_eq!((differences, &last["checked_blocks"]), (vec![], &64.into()));
    assert!(last["cached_blocks"].as_u64().unwrap() >= 16, "{last}");
    wear(&site.folder.path().join("host-1/clean.data"), 0);
    let worn = site.scrub(&[]);
    let [(block, meaning)] = &told(&worn).0[..] else { panic!("{}", worn.stdout) };
    assert_eq!(meaning, "cache_damaged");
    expect_differing(&worn);
    // A client has it from home, and the cache has it again.
    assert_eq!(read(&host, *block as usize), Ok(70 + block));
    site.scrub(&[]).ok();
    // Blocks that are written in the meantime are none that differ.
    let mut client = host.connect();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for round in 0..40 {
                (0..64).for_each(|block| write(&mut client, block, 1000 * round + block));
            }
        });
        while !writing.is_finished() {
            site.scrub(&[]).ok();
        }
    });
    host.process.end().unwrap();
}

/// Of a volume of one host. Blocks that another program has written while nobody had it attached are right, and
/// unknown.
#[test]
fn a_raw_file_is_compared_and_may_be_written_by_others() {
    let folder = Folder::new();
    let (home, cache) = (folder.file("disk.img"), folder.file("cache"));
    let attach = || {
        let socket = folder.path().join("v.nbd");
        let listen = format!("unix:{}", socket.display());
        let words = ["volume", "attach", &home, "--cache", &cache, "--listen", &listen, "--dirty", "8M"];
        Host { process: try_start(&words).unwrap(), socket }
    };
    let scrub = || thorp(["volume", "scrub", &home, "--json"]);
    thorp(["volume", "create", &home, "--size", "8M"]).ok();
    write_all(attach(), 8, 70);
    assert_eq!(told(&scrub()).1["checked_blocks"], 8);
    scrub().ok();
    let host = attach();
    assert!(thorp(["volume", "scrub", &home]).error().contains("attached"));
    host.process.end().unwrap();
    wear(Path::new(&home), 5);
    let worn = scrub();
    assert_eq!(told(&worn).0, vec![(5, "home_damaged".to_owned())]);
    expect_differing(&worn);
    // Another program's writes are nobody's damage.
    let file = File::options().write(true).open(&home).unwrap();
    file.write_all_at(&[9; 2 * BLOCK], 6 * BLOCK as u64).unwrap();
    drop(file);
    assert_eq!(told(&scrub()).1["checked_blocks"], 0);
    scrub().ok();
    let host = attach();
    assert_eq!((read(&host, 4), read(&host, 6)), (Ok(74), Ok(u64::from_le_bytes([9; 8]))));
    host.process.end().unwrap();
}

/// Changes a byte of a block of this version where a file of the folder has it, and gives whether one has.
pub(crate) fn damage_version(folder: &Path, marked: u64) -> bool {
    let pattern = [marked.to_le_bytes(); 4].concat();
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap()).filter(|it| it.file_type().unwrap().is_file());
    files.map(|file| file.path()).any(|file| {
        let bytes = fs::read(&file).unwrap();
        let Some(at) = bytes.windows(pattern.len()).position(|bytes| bytes == pattern) else { return false };
        let open = File::options().write(true).open(&file).unwrap();
        open.write_all_at(&[bytes[at + 16] ^ 1], at as u64 + 16).unwrap();
        open.sync_all().unwrap();
        true
    })
}

/// A copy that is needed until its write is home, which should come to that in a day.
#[test]
fn a_copy_that_changed_at_a_holder_is_named() {
    let site = Site::new(1);
    site.create("2");
    let host = site.attach("host-1", &["--ack", "write", "--age-s", "86400"]).unwrap();
    site.wait_for_holders(1);
    let mut client = host.connect();
    (0..40).for_each(|block| write(&mut client, block, 7_000_000 + block));
    let trim = Command::Trim { offset: 50 * BLOCK as u64, len: 2 * BLOCK as u32, fua: true };
    assert_eq!(client.call(&trim).unwrap().error, 0);
    let same = site.scrub(&[]);
    let (differences, last) = told(&same);
    assert_eq!((differences, &last["copied_blocks"]), (vec![], &42.into()), "{}", same.stderr);
    same.ok();

    assert!(damage_version(&site.folder.path().join("copies-0"), 7_000_003));
    let damaged = site.scrub(&[]);
    assert_eq!(told(&damaged).0, vec![(3, "copy_damaged".to_owned())], "{}", damaged.stderr);
    let first: Value = serde_json::from_str(damaged.stdout.lines().next().unwrap()).unwrap();
    let status = site.status();
    assert_eq!((&first["holder"], &first["blocks"]), (&status["live"]["holders"][0]["name"], &1.into()), "{status}");
    expect_differing(&damaged);

    // A holder that is not there is no difference.
    site.holders[0].signal(Signal::STOP).unwrap();
    let without = site.scrub(&[]);
    assert!(without.stderr.contains("not compared"), "{}", without.stderr);
    assert_eq!(told(&without).0, vec![]);
    site.holders[0].signal(Signal::CONT).unwrap();
    drop(host.process);
}

/// A holder's address.
fn address_of(holder: &Process) -> SocketAddr {
    holder.ready()["listen"].as_str().unwrap().parse().unwrap()
}

/// Has a holder free what it keeps of its one volume, but for the last copies: as an owner would that takes them for
/// home.
fn free_all_but(holder: &Process, kept: u64) {
    let connect = || Raw::<FromHolder>::over(TcpStream::connect(address_of(holder)).unwrap());
    let mut operator = connect();
    operator.send(&ToHolder::from(ListVolumes { from: VolumeId(0) }));
    let Some(FromHolder::Volumes(Volumes { volumes, .. })) = operator.next() else { panic!("it tells its volumes") };
    let [HeldVolume { volume, epoch, last, .. }] = volumes[..] else { panic!("{volumes:?}") };
    let mut raw = connect();
    let mut list = || {
        raw.send(&ToHolder::from(List { volume, epoch, after: Stamp::ZERO }));
        let Some(FromHolder::Listed(listed)) = raw.next() else { panic!("it lists its copies") };
        let count = listed.copies.len() as u64;
        let through = Stamp { sequence: Sequence(last.sequence.0 - kept), ..last };
        raw.send(&ToHolder::from(Free { through }));
        count
    };
    assert!(list() > kept);
    assert_eq!(list(), kept);
}

/// The owner sends a holder that was put back from an older copy what it lacks at once, so here the holder is told that
/// what is not home is home.
#[test]
fn a_copy_that_a_holder_counted_and_lacks_is_named() {
    let mut site = Site::new(1);
    site.create("2");
    let host = site.attach("host-1", &["--ack", "write", "--age-s", "86400"]).unwrap();
    site.wait_for_holders(1);
    let mut client = host.connect();
    (0..8).for_each(|block| write(&mut client, block, 6_000_000 + block));
    site.scrub(&[]).ok();
    free_all_but(&site.holders[0], 5);
    let lacking = site.scrub(&[]);
    let missing = [0, 1, 2].map(|block| (block, "copy_missing".to_owned()));
    assert_eq!(told(&lacking).0, missing, "{}", lacking.stderr);
    assert_eq!(told(&lacking).1["copied_blocks"], 8);
    expect_differing(&lacking);
    let said = thorp(["volume", "scrub", "v", "--store", &site.address()]).stdout;
    assert!(said.contains("block 2, not home, at holder") && said.contains("--as-new"), "{said}");

    // Without it what is not written back goes there; made again it is another one, which has everything that comes.
    drop(site.holders.remove(0));
    site.wait_until("everything is home", |it| it["live"]["dirty_writes"] == 0);
    site.holders.push(site.holder_in(&site.folder.file("copies-0"), 0, &["--as-new"]));
    site.wait_for_holders(1);
    write(&mut client, 1, 6_000_100);
    let same = site.scrub(&[]);
    let (differences, last) = told(&same);
    assert_eq!((differences, &last["checked_blocks"], &last["copied_blocks"]), (vec![], &8.into(), &1.into()));
    same.ok();
    drop(host.process);
}

/// The sessions that processes of this machine have with an address.
fn sessions_with(address: SocketAddr) -> usize {
    let (sessions, port) = (fs::read_to_string("/proc/net/tcp").unwrap(), format!(":{:04X}", address.port()));
    let has_it = |line: &&str| {
        let mut fields = line.split_whitespace().skip(2);
        fields.next().is_some_and(|it| it.ends_with(&port)) && fields.next() == Some("01")
    };
    sessions.lines().filter(has_it).count()
}

/// A holder that was not asked to the end may lack anything.
#[test]
fn a_scrub_that_is_interrupted_while_it_compares_copies_fails() {
    let site = Site::new(1);
    site.create("2");
    let host = site.attach("host-1", &["--ack", "write", "--age-s", "86400"]).unwrap();
    site.wait_for_holders(1);
    let mut client = host.connect();
    (0..8).for_each(|block| write(&mut client, block, 5_000_000 + block));
    let address = address_of(&site.holders[0]);
    assert_eq!(sessions_with(address), 1, "the owner has one");

    site.holders[0].signal(Signal::STOP).unwrap();
    let scrub = command().args(["volume", "scrub", "v", "--store", &site.address(), "--json"]).spawn().unwrap();
    let begun = Instant::now();
    while sessions_with(address) < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the holder is not asked for its copies");
    }
    kill_process(Pid::from_child(&scrub), Signal::INT).unwrap();
    let interrupted = ran(scrub.wait_with_output().unwrap());
    assert_eq!(interrupted.code, Some(1), "{interrupted:?}");
    assert!(interrupted.stderr.contains("interrupted: not all copies at holders were compared"), "{interrupted:?}");
    assert_eq!((told(&interrupted).0, &told(&interrupted).1["copied_blocks"]), (vec![], &0.into()));

    site.holders[0].signal(Signal::CONT).unwrap();
    site.wait_until("the holder is there again", |it| it["live"]["holders"][0]["state"] == "whole");
    let same = site.scrub(&[]);
    assert_eq!(told(&same).1["copied_blocks"], 8, "{}", same.stderr);
    same.ok();
    drop(host.process);
}

/// It has them by the back stream, and nothing by the live one.
#[test]
fn the_copies_of_a_holder_that_took_the_place_of_another_are_compared() {
    let mut site = Site::new(0);
    site.create("2");
    let [first, second] = ["copies-0", "copies-1"].map(|name| site.folder.file(name));
    let leaving = site.holder_in(&first, 0, &["--leave"]);
    let host = site.attach("host-1", &["--ack", "write", "--age-s", "86400"]).unwrap();
    site.wait_for_holders(1);
    let mut client = host.connect();
    (0..8).for_each(|block| write(&mut client, block, 9_000_000 + block));
    site.holders.push(site.holder_in(&second, 1, &[]));
    leaving.end().unwrap();
    let same = site.scrub(&[]);
    assert_eq!(told(&same).1["copied_blocks"], 8, "{}", same.stderr);
    same.ok();
    assert!(damage_version(Path::new(&second), 9_000_002));
    assert_eq!(told(&site.scrub(&[])).0, vec![(2, "copy_damaged".to_owned())]);
    drop(host.process);
}

/// Another host has it from the holder.
#[test]
fn a_write_that_changed_in_the_log_of_the_owner_is_named() {
    let site = Site::new(1);
    site.create("2");
    let host = site.attach("host-1", &["--ack", "write", "--age-s", "86400"]).unwrap();
    site.wait_for_holders(1);
    let mut client = host.connect();
    (0..8).for_each(|block| write(&mut client, block, 8_000_000 + block));
    assert!(damage_version(&site.folder.path().join("host-1"), 8_000_005));
    let damaged = site.scrub(&[]);
    assert_eq!(told(&damaged).0, vec![(5, "log_damaged".to_owned())], "{}", damaged.stderr);
    expect_differing(&damaged);
    drop(host.process);
    let host = site.attach("host-2", &[]).unwrap();
    assert_eq!((read(&host, 4), read(&host, 5)), (Ok(8_000_004), Ok(8_000_005)));
    host.process.end().unwrap();
    site.scrub(&[]).ok();
}

#[test]
fn copies_of_writes_that_come_and_go_home_meanwhile_are_none_that_differ() {
    let site = Site::new(2);
    site.create("3");
    let host = site.attach("host-1", &["--ack", "write", "--age-s", "1"]).unwrap();
    site.wait_for_holders(2);
    let mut client = host.connect();
    let mut compared = 0;
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for round in 0..60 {
                (0..64).for_each(|block| write(&mut client, block, 1000 * round + block));
            }
        });
        while !writing.is_finished() {
            let scrubbed = site.scrub(&[]);
            compared += told(&scrubbed).1["copied_blocks"].as_u64().unwrap();
            scrubbed.ok();
        }
    });
    assert!(compared > 0);
    host.process.end().unwrap();
}
