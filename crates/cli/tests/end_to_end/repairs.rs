//! Damaged blocks are restored from copies with the right checksum, by `thorp volume scrub --repair` and on a schedule.

use crate::program::{Folder, Ran, thorp, try_start};
use crate::scrub::{damage_version, read, wear, write_all};
use crate::stored_volumes::{Host, Site, write};
use fixtures::{PATIENCE, try_until};
use serde_json::Value;
use std::path::Path;

/// The repairs in a scrub's output: the block, the place that was damaged, and whether it was repaired; and the last
/// line.
fn repairs(ran: &Ran) -> (Vec<(u64, String, bool)>, Value) {
    let mut lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.pop().unwrap_or_else(|| panic!("{}", ran.stderr));
    let repair = |line: &Value| {
        Some((line["block"].as_u64()?, line["at"].as_str()?.to_owned(), line["from"].as_str().is_some()))
    };
    (lines.iter().filter_map(repair).collect(), last)
}

fn at_home(block: u64, is_repaired: bool) -> (u64, String, bool) {
    (block, "at home".to_owned(), is_repaired)
}

#[test]
fn a_block_at_home_is_restored_from_the_cache_of_an_attached_volume() {
    let site = Site::new(0);
    site.create("1");
    write_all(site.attach("host-1", &[]).unwrap(), 8, 70);
    let host = site.attach("host-1", &[]).unwrap();
    wear(&site.raw(), 3);
    wear(&site.raw(), 4);
    // A newer write of this block stays.
    write(&mut host.connect(), 4, 500);
    let repaired = site.scrub(&["--repair"]);
    let (told, _) = repairs(&repaired);
    assert!(told.contains(&at_home(3, true)), "{}{}", repaired.stdout, repaired.stderr);
    repaired.ok();
    assert_eq!(repairs(&site.scrub(&["--repair"])).1["differences"], 0);
    host.process.end().unwrap();
    // Home has it, without that cache.
    let host = site.attach("host-2", &[]).unwrap();
    assert_eq!((read(&host, 3), read(&host, 4), read(&host, 5)), (Ok(73), Ok(500), Ok(75)));
    // Its cache has nothing of this block: it is named, and stays.
    wear(&site.raw(), 6);
    let left = site.scrub(&["--repair"]);
    assert_eq!((repairs(&left).0, left.code), (vec![at_home(6, false)], Some(1)), "{}", left.stdout);
    assert!(left.stdout.contains("restore it from a backup"), "{}", left.stdout);
    assert!(read(&host, 6).is_err());
    host.process.end().unwrap();
}

#[test]
fn a_block_at_home_is_restored_from_the_cache_of_a_detached_volume() {
    let site = Site::new(0);
    site.create("1");
    write_all(site.attach("host-1", &[]).unwrap(), 8, 70);
    wear(&site.raw(), 5);
    let repaired = site.scrub(&["--repair", "--cache", &site.folder.file("host-1")]);
    assert_eq!(repairs(&repaired).0, [at_home(5, true)], "{}{}", repaired.stdout, repaired.stderr);
    repaired.ok();
    site.scrub(&[]).ok();
    let host = site.attach("host-2", &[]).unwrap();
    assert_eq!((read(&host, 4), read(&host, 5)), (Ok(74), Ok(75)));
    host.process.end().unwrap();
}

#[test]
fn a_block_of_a_raw_file_is_restored_in_its_place() {
    let folder = Folder::new();
    let (home, cache) = (folder.file("disk.img"), folder.file("cache"));
    let attach = || {
        let socket = folder.path().join("v.nbd");
        let listen = format!("unix:{}", socket.display());
        let words = ["volume", "attach", &home, "--cache", &cache, "--listen", &listen, "--dirty", "8M"];
        Host { process: try_start(&words).unwrap(), socket }
    };
    thorp(["volume", "create", &home, "--size", "8M"]).ok();
    write_all(attach(), 8, 70);
    wear(Path::new(&home), 5);
    let repaired = thorp(["volume", "scrub", &home, "--cache", &cache, "--repair", "--json"]);
    assert_eq!(repairs(&repaired).0, [at_home(5, true)], "{}{}", repaired.stdout, repaired.stderr);
    repaired.ok();
    // Its checksums and the cache's clean blocks still count.
    let again = thorp(["volume", "scrub", &home, "--cache", &cache, "--json"]);
    assert_eq!(repairs(&again).1["checked_blocks"], 8, "{}", again.stdout);
    again.ok();
    let host = attach();
    assert_eq!((read(&host, 4), read(&host, 5)), (Ok(74), Ok(75)));
    host.process.end().unwrap();
}

#[test]
fn a_clean_block_of_the_cache_is_dropped() {
    let site = Site::new(0);
    site.create("1");
    write_all(site.attach("host-1", &[]).unwrap(), 8, 70);
    let host = site.attach("host-1", &[]).unwrap();
    wear(&site.folder.path().join("host-1/clean.data"), 0);
    let repaired = site.scrub(&["--repair"]);
    let (told, _) = repairs(&repaired);
    assert!(matches!(&told[..], [(_, at, true)] if at == "in the cache"), "{}", repaired.stdout);
    repaired.ok();
    site.scrub(&[]).ok();
    host.process.end().unwrap();
}

/// Nothing is written back by itself for a day.
#[test]
fn a_copy_and_a_write_in_the_log_are_restored_from_each_other() {
    let site = Site::new(1);
    site.create("2");
    let host = site.attach("host-1", &["--ack", "write", "--age-s", "86400"]).unwrap();
    site.wait_for_holders(1);
    let mut client = host.connect();
    (0..8).for_each(|block| write(&mut client, block, 7_000_000 + block));
    assert!(damage_version(&site.folder.path().join("copies-0"), 7_000_003));
    let repaired = site.scrub(&["--repair"]);
    assert!(matches!(&repairs(&repaired).0[..], [(3, _, true)]), "{}{}", repaired.stdout, repaired.stderr);
    repaired.ok();
    site.wait_until("everything is home", |it| it["live"]["dirty_writes"] == 0);

    (0..8).for_each(|block| write(&mut client, block, 8_000_000 + block));
    assert!(damage_version(&site.folder.path().join("host-1"), 8_000_005));
    let repaired = site.scrub(&["--repair"]);
    let (told, _) = repairs(&repaired);
    assert!(
        matches!(&told[..], [(5, at, true)] if at == "in the owner's log"),
        "{}{}",
        repaired.stdout,
        repaired.stderr
    );
    repaired.ok();
    site.wait_until("everything is home", |it| it["live"]["dirty_writes"] == 0);
    assert_eq!((read(&host, 4), read(&host, 5)), (Ok(8_000_004), Ok(8_000_005)));
    host.process.end().unwrap();
    let host = site.attach("host-2", &[]).unwrap();
    assert_eq!((read(&host, 3), read(&host, 5)), (Ok(8_000_003), Ok(8_000_005)));
    host.process.end().unwrap();
}

/// The last run was a minute ago, as the cache says: the next one is due now.
#[test]
fn a_scrub_on_a_schedule_repairs_and_says_so() {
    let site = Site::new(0);
    site.create("1");
    write_all(site.attach("host-1", &[]).unwrap(), 8, 70);
    wear(&site.raw(), 3);
    let report = r#"{"ended_at_s":1,"took_s":1,"checked_blocks":8,"unknown_blocks":0,"cached_blocks":0,"copied_blocks":0,"differences":0,"repaired":0,"findings":[],"error":null}"#;
    std::fs::write(site.folder.path().join("host-1/scrub"), report).unwrap();
    let host = site.attach("host-1", &["--scrub-every", "7d"]).unwrap();
    let scrub = || {
        let scrub = site.status()["live"]["scrub"].clone();
        scrub["last_s"].as_u64().is_some_and(|ago| ago < 3600).then_some(scrub)
    };
    let last = try_until("it was scrubbed", PATIENCE, scrub).unwrap();
    assert_eq!((&last["last"]["differences"], &last["last"]["repaired"]), (&1.into(), &1.into()), "{last}");
    assert!(last["next_s"].as_u64().unwrap() > 6 * 86_400, "{last}");
    let said = thorp(["volume", "status", "--cache", &site.folder.file("host-1")]).ok();
    assert!(said.contains("1 differ, 1 repaired") && said.contains("block 3 at home: repaired from"), "{said}");
    host.process.end().unwrap();
    // It is not due again.
    let host = site.attach("host-1", &["--scrub-every", "7d"]).unwrap();
    assert!(site.status()["live"]["scrub"]["next_s"].as_u64().unwrap() > 6 * 86_400, "{}", site.status());
    host.process.end().unwrap();
    let wrong = thorp(["volume", "attach", "v", "--cache", "x", "--listen", "unix:x", "--scrub-every", "7"]);
    assert!(wrong.stderr.contains("expected a number with s, m, h or d behind"), "{}", wrong.stderr);
}
