//! The registry of volumes is lost with its store's directory, or is put back from an older copy.

use crate::program::thorp;
use crate::stored_volumes::{Host, Site, version, write};
use crate::volumes::BLOCK;
use fixtures::nbd_client::Command;
use fixtures::{PATIENCE, try_until, until};
use registry::StoreRegistry;
use serde_json::Value;
use std::path::Path;
use std::process::Command as Program;
use std::thread;
use std::time::Duration;

/// The words of a refusal that say what to do.
const REMEDY: &str = "thorp volume registry rebuild";

const BLOCKS: u64 = 32;

fn copy(from: &Path, to: &Path) {
    assert!(Program::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// The revision of the volume's entry.
fn revision(site: &Site) -> u64 {
    let registry = StoreRegistry::connect(&site.address(), "a test").unwrap();
    let found = registry.find("v").unwrap();
    registry.close();
    found.view.revision
}

/// A block of a volume at a host, or why it could not be read.
fn read(host: &Host, block: u64) -> Result<u64, u32> {
    let read = Command::Read { offset: block * BLOCK as u64, len: 4096, whole: true };
    let answer = host.connect().call(&read).unwrap();
    if answer.error == 0 { Ok(version(&answer.data, 0)) } else { Err(answer.error) }
}

/// The store's directory is gone, and the host that had the volume with it; its writes are at a holder alone.
#[test]
fn a_lost_registry_is_made_again_of_what_homes_and_holders_know() {
    let mut site = Site::new(1);
    site.create_with("2", "8M");
    let host = site.attach("host-1", &["--age-s", "600"]).unwrap();
    site.wait_for_holders(1);
    let mut client = host.connect();
    (0..BLOCKS).for_each(|block| write(&mut client, block, 100 + block));
    // Home was notified of the holder.
    thread::sleep(Duration::from_millis(500));
    drop(host.process);
    site.store.kill().unwrap();
    std::fs::remove_dir_all(site.folder.file("store")).unwrap();
    site.store.start_again().unwrap();
    let address = site.address();

    let refused = site.attach("host-1", &[]).map(drop).unwrap_err();
    assert!(refused.contains(REMEDY) && refused.contains("does not know 'v'"), "{refused}");
    let refused = thorp(["volume", "create", "v", "--store", &address, "--size", "8M"]).error();
    assert!(refused.contains(REMEDY), "{refused}");

    let cache = site.folder.file("host-1");
    let words = ["volume", "registry", "rebuild", "--store", &address, "--cache", &cache];
    // The holder finds the new store, and says where it is.
    let is_whole = |shown: &String| shown.contains("holder ") && shown.contains("not all of them are home");
    let shown = try_until("the holder is shown", PATIENCE, || Some(thorp(words).ok()).filter(is_whole)).unwrap();
    assert!(shown.contains("the registry does not know it") && shown.contains("nothing was written"), "{shown}");
    assert!(
        shown.contains("2 copies and a lease of 4 s; needed: ")
            && shown.contains(" (rack-")
            && shown.contains("cache "),
        "{shown}"
    );
    assert!(site.attach("host-1", &[]).is_err(), "nothing was written");
    let told: Value = thorp([&words[..], &["--json", "--yes"]].concat()).ok().lines().last().unwrap().parse().unwrap();
    assert_eq!((&told["name"], &told["is_written"]), (&"v".into(), &true.into()), "{told}");
    assert_eq!(told["entry"]["holders"].as_array().unwrap().len(), 1, "{told}");
    let again = thorp(words).ok();
    assert!(again.contains("nothing is to be made again"), "{again}");

    // Another host, which has nothing of it.
    let host = site.attach("host-2", &[]).unwrap();
    let bytes = host.read();
    (0..BLOCKS).for_each(|block| assert_eq!(version(&bytes, block as usize), 100 + block, "block {block}"));
    host.process.end().unwrap();
}

/// The store is put back from an older copy while a host has the volume: it continues.
#[test]
fn a_host_goes_on_when_the_registry_has_gone_back() {
    let mut site = Site::new(1);
    site.create_with("2", "8M");
    let host = site.attach("host-1", &["--age-s", "600"]).unwrap();
    site.wait_for_holders(1);
    write(&mut host.connect(), 1, 7);
    site.store.kill().unwrap();
    let (store, older) = (site.folder.path().join("store"), site.folder.path().join("older"));
    copy(&store, &older);
    site.store.start_again().unwrap();
    let before = revision(&site);
    site.wait_until("its host has said more", |_| revision(&site) > before + 2);
    site.store.kill().unwrap();
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::rename(&older, &store).unwrap();
    site.store.start_again().unwrap();

    until("its entry is put back", || revision(&site) >= 1 << 32);
    assert_eq!(read(&host, 1), Ok(7));
    write(&mut host.connect(), 1, 8);
    host.process.end().unwrap();
    assert!(site.attach("host-2", &[]).is_ok_and(|host| read(&host, 1) == Ok(8)));
}

/// The store is put back from a copy of before others had the volume: whoever attaches it is told.
#[test]
fn a_registry_that_has_gone_back_is_not_believed() {
    let mut site = Site::new(1);
    site.create_with("2", "8M");
    site.attach("host-1", &[]).unwrap().process.end().unwrap();
    site.store.kill().unwrap();
    let (store, older) = (site.folder.path().join("store"), site.folder.path().join("older"));
    copy(&store, &older);
    site.store.start_again().unwrap();
    let host = site.attach("host-2", &["--age-s", "600"]).unwrap();
    site.wait_for_holders(1);
    write(&mut host.connect(), 1, 7);
    drop(host.process);
    site.store.kill().unwrap();
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::rename(&older, &store).unwrap();
    site.store.start_again().unwrap();

    let refused = site.attach("host-3", &[]).map(drop).unwrap_err();
    assert!(refused.contains("the registry has gone back") && refused.contains(REMEDY), "{refused}");
    let rebuilt = thorp(["volume", "registry", "rebuild", "--store", &site.address(), "--yes"]).ok();
    assert!(rebuilt.contains("the registry has gone back"), "{rebuilt}");
    let host = site.attach("host-3", &[]).unwrap();
    assert_eq!(read(&host, 1), Ok(7));
    host.process.end().unwrap();
}
