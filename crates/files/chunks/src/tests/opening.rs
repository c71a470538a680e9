//! Directories of other programs and of other processes are refused by name.

use super::{Disks, Temporary, assert_has, chunk, large};
use crate::{ChunkError, Chunks};
use std::fs;
use vfs::{Files, How};

fn refused(disks: &Disks) -> &'static str {
    disks.open().expect_err("it is refused").name()
}

#[test]
fn a_directory_of_another_program_is_refused_and_not_changed() {
    let dir = Temporary::new("foreign");
    fs::create_dir(dir.path()).unwrap();
    fs::write(dir.path().join("letter.txt"), "dear").unwrap();
    let error = Chunks::open(dir.path()).unwrap_err();
    assert_eq!(error.name(), "not-a-chunk-store");
    assert!(error.to_string().contains("letter.txt"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn folders_without_a_marker_are_not_adopted() {
    let dir = Temporary::new("unmarked");
    drop(Chunks::open(dir.path()).unwrap());
    fs::remove_file(dir.path().join("thorp-chunks")).unwrap();
    assert_eq!(Chunks::open(dir.path()).unwrap_err().name(), "not-a-chunk-store");
}

#[test]
fn a_directory_is_open_once() {
    let dir = Temporary::new("twice");
    let first = Chunks::open(dir.path()).unwrap();
    match Chunks::open(dir.path()) {
        Err(ChunkError::InUse { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        result => panic!("{result:?}"),
    }
    drop(first);
    Chunks::open(dir.path()).unwrap();
}

#[test]
fn the_directories_above_are_not_made() {
    let dir = Temporary::new("above");
    let error = Chunks::open(&dir.path().join("store")).unwrap_err();
    assert!(error.to_string().contains("there is no directory"), "{error}");
    assert!(!dir.path().exists());
}

/// The names and bytes are on disks.
#[test]
fn the_layout_is_golden() {
    let disks = Disks::new();
    let store = disks.open().unwrap();
    let large = large(1);
    store.put(std::slice::from_ref(&large)).unwrap();
    // The lock of a disk in memory is not a file.
    assert_eq!(disks.root().names(), ["reserve", "small.redb", "thorp-chunks"]);
    assert_eq!(disks.root().bytes("thorp-chunks"), b"thorp chunks\nformat 1\n");
    let name = large.0.to_string();
    assert_eq!(disks.0[&name[..2]].names(), [&name[2..]]);
    assert!(disks.0[&name[..2]].bytes(&name[2..]) == large.1);
}

#[test]
fn other_markers_are_refused_by_name() {
    let disks = Disks::new();
    drop(disks.open().unwrap());
    for (text, name) in [
        ("thorp chunks\nformat 3\n", "newer-format"),
        ("thorp chunks\nformat 4000000000\nmore\n", "newer-format"),
        ("thorp chunks\nformat 2\n", "damaged"),
        ("thorp chunks\nformat 1\nbucket s3://pages/shop\nstore 0000000000000007\n", "damaged"),
        ("thorp chunks\nformat 2\nbucket s3://pages/../shop\nstore 0000000000000007\n", "damaged"),
        ("thorp chunks\nformat 2\nbucket s3://pages/shop\nstore 7\n", "damaged"),
        ("thorp chunks\nformat x\n", "damaged"),
        ("thorp chunks\nformat 0\n", "damaged"),
        ("thorp chunks\n", "damaged"),
        ("thorp store\nformat 1\n", "not-a-chunk-store"),
        ("", "not-a-chunk-store"),
    ] {
        disks.root().damage("thorp-chunks", |bytes| *bytes = text.into());
        assert_eq!(refused(&disks), name, "{text:?}");
    }
    disks.root().damage("thorp-chunks", |bytes| *bytes = vec![b'x'; 5000]);
    assert_eq!(refused(&disks), "not-a-chunk-store");
}

/// A program without object storage does not call the chunks in a bucket missing.
#[cfg(not(feature = "object-storage"))]
#[test]
fn a_store_with_a_bucket_needs_object_storage() {
    let dir = Temporary::new("no-object-storage");
    drop(Chunks::open(dir.path()).unwrap());
    let url = "s3://pages/shop";
    let refused = Chunks::keep_in_bucket(dir.path(), &url.parse().unwrap()).unwrap_err();
    assert_eq!(refused.name(), "no-object-storage");
    let marker = format!("thorp chunks\nformat 2\nbucket {url}\nstore 0000000000000007\n");
    fs::write(dir.path().join("thorp-chunks"), marker).unwrap();
    assert_eq!(Chunks::open(dir.path()).unwrap_err().name(), "no-object-storage");
}

#[test]
fn a_missing_table_is_damage_and_a_missing_folder_is_made_again() {
    let dir = Temporary::new("missing");
    let store = Chunks::open(dir.path()).unwrap();
    let chunks = [large(1), chunk(10, 2)];
    store.put(&chunks).unwrap();
    drop(store);
    fs::remove_dir_all(dir.path().join(&chunks[0].0.to_string()[..2])).unwrap();
    let store = Chunks::open(dir.path()).unwrap();
    assert_eq!(store.get(&chunks[0].0).unwrap_err().name(), "chunk-damaged");
    store.put(&chunks).unwrap();
    assert_has(&store, &chunks, "repaired");
    drop(store);
    fs::remove_file(dir.path().join("small.redb")).unwrap();
    let error = Chunks::open(dir.path()).unwrap_err();
    assert!(error.name() == "damaged" && error.to_string().contains("small.redb"), "{error}");
}

#[test]
fn leftovers_of_interrupted_writes_are_removed_at_the_start() {
    let disks = Disks::new();
    drop(disks.open().unwrap());
    disks.0["ab"].open("cdef.tmp", How::Create).unwrap();
    disks.root().open("small.redb.tmp", How::Create).unwrap();
    disks.open().unwrap();
    assert_eq!(disks.files(), Vec::<String>::new());
    assert!(!disks.root().names().contains(&"small.redb.tmp".to_owned()));
}
