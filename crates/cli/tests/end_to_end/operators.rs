//! Operators of volumes see failure domains by name, a store that is away, and logs that fit their volumes.

use crate::program::{Folder, thorp, try_start};
use crate::stored_volumes::{Site, write};
use serde_json::Value;
use std::fs;
use std::path::Path;

#[test]
fn a_failure_domain_goes_by_its_name() {
    let site = Site::new(1);
    let said = thorp(["volume", "holders", "--store", &site.address(), "--json"]).ok();
    let holder: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(holder["domain"], "rack-0", "{said}");
    let said = thorp(["volume", "holders", "--store", &site.address()]).ok();
    assert!(said.contains("in domain rack-0"), "{said}");
    site.create("2");
    let host = site.attach("host-1", &[]).unwrap();
    site.wait_for_holders(1);
    // Holders of one machine have one name.
    let said = thorp(["volume", "registry", "rebuild", "v", "--store", &site.address()]).ok();
    assert!(said.contains("holder ") && said.contains(" (rack-0) ("), "{said}");
    host.process.end().unwrap();
    let dir = site.folder.file("copies-1");
    let words = ["holder", "--store", &site.address(), "--dir", &dir, "--room", "64M", "--listen", "127.0.0.1:0"];
    let refused = try_start(&[&words[..], &["--domain", "a\nb"]].concat()).err().unwrap();
    assert!(refused.contains("invalid failure domain"), "{refused}");
}

#[test]
fn the_loss_and_the_return_of_a_store_are_told() {
    let mut site = Site::new(1);
    site.create("2");
    let host = site.attach("host-1", &[]).unwrap();
    site.wait_for_holders(1);
    site.store.kill().unwrap();
    for it in [&site.holders[0], &host.process] {
        it.hear_error("the store has not answered for").unwrap();
    }
    site.store.start_again().unwrap();
    for it in [&site.holders[0], &host.process] {
        it.hear_error("the store answers again, after").unwrap();
    }
}

#[test]
fn a_log_is_as_large_as_its_volume_needs() {
    let folder = Folder::new();
    let (home, cache) = (folder.file("disk.img"), folder.file("cache"));
    thorp(["volume", "create", &home, "--size", "256M"]).ok();
    let listen = format!("unix:{}", folder.path().join("v.nbd").display());
    let owner = try_start(&["volume", "attach", &home, "--cache", &cache, "--listen", &listen]).unwrap();
    let status = thorp(["volume", "status", "--cache", &cache, "--json"]).ok();
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["dirty_bytes_max"], 64 << 20);
    let files = fs::read_dir(&cache).unwrap().map(|file| file.unwrap());
    let log: u64 = files
        .filter(|it| it.file_name().to_string_lossy().starts_with("log-"))
        .map(|it| it.metadata().unwrap().len())
        .sum();
    assert!((64 << 20..80 << 20).contains(&log), "its log has {log} bytes");
    owner.end().unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(|file| file.unwrap()) {
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
}

/// The cache is put back as it was in the middle of an attachment, whose writes have been written back.
#[test]
fn a_cache_that_was_put_back_speaks_of_no_other_hosts() {
    let site = Site::new(1);
    site.create("2");
    let host = site.attach("host-1", &["--age-s", "600", "--ack", "write"]).unwrap();
    site.wait_for_holders(1);
    write(&mut host.connect(), 3, 7);
    let [cache, old] = ["host-1", "old"].map(|name| site.folder.path().join(name));
    copy(&cache, &old);
    host.process.end().unwrap();
    site.attach("host-1", &[]).unwrap().process.end().unwrap();
    fs::remove_dir_all(&cache).unwrap();
    fs::rename(&old, &cache).unwrap();
    let host = site.attach("host-1", &["--force"]).unwrap();
    let errors = host.process.end().unwrap().stderr;
    assert!(errors.contains("1 writes in it are dropped"), "{errors}");
    assert!(errors.contains("the state that this cache is in") && !errors.contains("other hosts"), "{errors}");
}
