//! Caches of volumes of a store, and holders' directories, that come back shorter, older, damaged, or twice.

use crate::program::{spawn, thorp, try_start};
use crate::stored_volumes::{LEASE, Site, version, write};
use crate::volumes::BLOCK;
use fixtures::nbd_client::Command;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Nothing goes home by itself.
const LATE: [&str; 4] = ["--age-s", "3600", "--ack", "write"];

const BLOCKS: u64 = 20;

/// A volume with one holder, and a host that has written all blocks twice: the copy is of before the second time.
fn written_twice(copies: bool) -> (Site, Option<PathBuf>) {
    let site = Site::new(1);
    site.create("2");
    let mut first = site.attach("host", &[]).unwrap();
    (0..BLOCKS).for_each(|block| write(&mut first.connect(), block, block));
    first.process.end().unwrap();
    // As clean blocks they are older than what comes.
    first = site.attach("host", &[]).unwrap();
    first.read();
    first.process.end().unwrap();
    let host = site.attach("host", &LATE).unwrap();
    site.wait_for_holders(1);
    let mut client = host.connect();
    (0..BLOCKS).for_each(|block| write(&mut client, block, 100 + block));
    let copied = copies.then(|| {
        let (from, to) = (PathBuf::from(site.folder.file("host")), PathBuf::from(site.folder.file("copied")));
        copy(&from, &to);
        to
    });
    (0..BLOCKS).for_each(|block| write(&mut client, block, 200 + block));
    drop(host.process);
    (site, copied)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(|it| it.unwrap()) {
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
}

/// Changes the segment of the log that has this version of a block, from the begin of its record on.
fn damage(cache: &Path, version: u64, with: impl Fn(&mut [u8])) {
    let needle = version.to_le_bytes().repeat(8);
    let segments = fs::read_dir(cache).unwrap().map(|it| it.unwrap().path());
    for path in segments.filter(|path| path.extension().is_some_and(|it| it == "seg")) {
        let mut bytes = fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(needle.len()).position(|window| window == needle) {
            with(&mut bytes[at / BLOCK * BLOCK..]);
            return fs::write(path, bytes).unwrap();
        }
    }
    panic!("no segment has version {version}");
}

/// Everything that was written the second time is there.
fn assert_newest(bytes: &[u8]) {
    (0..BLOCKS).for_each(|block| assert_eq!(version(bytes, block as usize), 200 + block, "block {block}"));
}

#[test]
fn what_the_end_of_a_cache_has_lost_comes_from_a_holder() {
    let (site, _) = written_twice(false);
    let cache = PathBuf::from(site.folder.file("host"));
    // As a disk does that had said that all of it was stable.
    damage(&cache, 205, |rest| rest.fill(0));
    let begun = Instant::now();
    let host = site.attach("host", &[]).unwrap();
    assert!(begun.elapsed() < LEASE, "the process that had it is known to be dead");
    assert_newest(&host.read());
    assert!(site.status()["gone_without"].is_null());
}

/// Its host is gone, too, so nobody else has what the end of the holder's log had.
#[test]
fn a_holder_whose_log_has_lost_its_end_is_not_taken_for_whole() {
    let (mut site, _) = written_twice(false);
    drop(site.holders.remove(0));
    fs::remove_dir_all(site.folder.file("host")).unwrap();
    let (dir, store) = (site.folder.file("copies-0"), site.address());
    damage(Path::new(&dir), 215, |rest| rest.fill(0));
    let words = ["holder", "--store", &store, "--dir", &dir, "--room", "64M", "--listen", "127.0.0.1:0"];
    let refused = try_start(&words).map(drop).unwrap_err();
    assert!(refused.contains("has lost copies that this holder had counted"), "{refused}");
    assert!(refused.contains("--as-new") && refused.contains("thorp-holder-end"), "{refused}");
    // Its operator continues with what there is.
    fs::remove_file(Path::new(&dir).join("thorp-holder-end")).unwrap();
    site.holders.push(site.holder(0));
    let read = site.attach("other", &[]).unwrap().read();
    assert_eq!([0, 14, 15, 19].map(|block| version(&read, block)), [200, 214, 115, 119]);
}

#[test]
fn what_a_restored_cache_lacks_comes_from_a_holder() {
    let (site, copied) = written_twice(true);
    let cache = site.folder.file("host");
    fs::remove_dir_all(&cache).unwrap();
    fs::rename(copied.unwrap(), &cache).unwrap();
    assert_newest(&site.attach("host", &[]).unwrap().read());
}

#[test]
fn a_log_that_is_damaged_is_left_alone_and_another_cache_brings_home_what_it_has() {
    let (site, _) = written_twice(false);
    damage(Path::new(&site.folder.file("host")), 205, |rest| rest[100] ^= 1);
    let refused = site.attach("host", &[]).map(drop).unwrap_err();
    assert!(refused.contains("is damaged at byte") && refused.contains("with another cache"), "{refused}");
    assert_newest(&site.attach("other", &[]).unwrap().read());
}

#[test]
fn an_operator_may_go_on_with_what_the_own_log_has() {
    let (mut site, _) = written_twice(false);
    let name = site.status()["holders"][0].as_str().unwrap().to_owned();
    drop(site.holders.remove(0));
    let (cache, store, listen) =
        (site.folder.file("host"), site.address(), format!("unix:{}", site.folder.file("a.nbd")));
    let words = ["volume", "attach", "v", "--store", &store, "--cache", &cache, "--listen", &listen, "--dirty", "8M"];
    let told = spawn(&words).hear_error("--accept-own-log").unwrap();
    assert!(told.contains(&format!("no answer of {name}")), "{told}");
    // A cache that has no such log is no help.
    let host = site.attach("host", &["--accept-own-log"]).unwrap();
    assert_newest(&host.read());
    for _ in 0..2 {
        let status = site.status();
        let said = status["gone_without"].as_str().unwrap_or_else(|| panic!("{status}"));
        assert!(said.contains(&name) && said.contains("may be lost"), "{status}");
    }
    let live = thorp(["volume", "status", "--cache", &cache]).ok();
    assert!(live.contains("began without"), "{live}");
    host.process.end().unwrap();
    let host = site.attach("host", &[]).unwrap();
    assert!(!site.status()["gone_without"].is_null(), "it is remembered");
    assert!(site.status()["live"]["gone_without"].is_null(), "it was another attachment");
    drop(host);
}

#[test]
fn a_copy_of_a_cache_waits_for_the_owner_like_any_other_host() {
    let site = Site::new(1);
    site.create("2");
    let host = site.attach("host", &LATE).unwrap();
    site.wait_for_holders(1);
    let mut client = host.connect();
    write(&mut client, 0, 1);
    let copied = site.folder.file("copied");
    copy(Path::new(&site.folder.file("host")), Path::new(&copied));
    write(&mut client, 0, 2);
    let refused = site.attach("copied", &[]).map(drop).unwrap_err();
    assert!(refused.contains("its host lives") && refused.contains("/host"), "{refused}");
    write(&mut client, 0, 3);
    // An owner that does not give a heartbeat is another thing; and it does not know what the other one has brought
    // home.
    host.process.signal(Signal::STOP).unwrap();
    let begun = Instant::now();
    let copy = site.attach("copied", &[]).unwrap();
    assert!(begun.elapsed() >= LEASE, "the owner may have lived");
    assert_eq!(version(&copy.read(), 0), 3);
    host.process.signal(Signal::CONT).unwrap();
    let shown = client.call(&Command::Read { offset: 0, len: BLOCK as u32, whole: true });
    assert!(shown.as_ref().map_or(true, |shown| shown.error != 0), "{shown:?}");
    let errors = host.process.ended().unwrap().stderr;
    assert!(errors.contains("unless its operator had it go on without some"), "{errors}");
    // The process that had this one is known to be dead, and it is not the one that has the volume.
    let refused = site.attach("host", &[]).map(drop).unwrap_err();
    assert!(refused.contains("its host lives") && refused.contains("/copied"), "{refused}");
    write(&mut copy.connect(), 0, 4);
}

/// A copy need not be of one moment: what it has of home may be older than what it has of the log.
#[test]
fn a_copy_of_a_cache_has_no_clean_blocks() {
    let site = Site::new(0);
    site.create("1");
    let host = site.attach("host", &[]).unwrap();
    let mut client = host.connect();
    (0..BLOCKS).for_each(|block| write(&mut client, block, 100 + block));
    host.process.end().unwrap();
    let clean = || site.status()["live"]["clean_blocks"].as_u64().unwrap();
    let host = site.attach("host", &[]).unwrap();
    host.read();
    host.process.end().unwrap();
    let host = site.attach("host", &[]).unwrap();
    assert!(clean() > 0, "the cache is where it was");
    host.process.end().unwrap();
    copy(Path::new(&site.folder.file("host")), Path::new(&site.folder.file("copied")));
    let _host = site.attach("copied", &[]).unwrap();
    assert_eq!(clean(), 0);
}
