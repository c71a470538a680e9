//! Behaviour that only a real directory, real threads or a full ring can show.

use crate::DiskError;
use crate::config::Config;
use crate::open::{Opening, make_directory};
use crate::tests::node::{Node, Promises, SEGMENT_BYTES, config, record};
use bytes::Bytes;
use log::is_segment;
use machine::Disk;
use rustix::io::Errno;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use store::{CommitRecord, DiskDone, DiskWork, Position, Record};
use types::{ClientId, Delta, PageId, SlotChange, TxnId, Version};
use vfs::memory::{Fault, Memory};
use vfs::{Directory, Files};

/// A directory that goes with the test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("thorp-disk-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How many files are segments.
fn segments(files: &Memory) -> usize {
    files.names().iter().filter(|name| is_segment(name)).count()
}

#[test]
fn a_real_directory_keeps_what_was_promised() {
    let scratch = Scratch::new("keeps");
    let files = || Arc::new(Directory::new(&scratch.0));
    let mut promises = Promises::default();
    for _ in 0..3 {
        let node = Node::open_files(files(), &mut promises, &config()).unwrap();
        node.work(&mut promises, 3).unwrap();
        drop(node);
        let node = Node::open_files(files(), &mut promises, &config()).unwrap();
        node.close().unwrap();
        assert_eq!(crate::check(&scratch.0).unwrap().findings, []);
    }
}

/// Another node opens its shards and asks for the log, while records are appended.
#[test]
fn the_log_is_read_as_far_as_it_is_durable_while_it_is_written() {
    let files: Arc<dyn Files> = Arc::new(Memory::default());
    let disk = Opening::begin(files, &config()).unwrap().finish().unwrap();
    let (events, heard) = channel();
    disk.on_done(Box::new(move |done| drop(events.send(done))));
    let mut appended = 0..;
    let mut append = |records: usize| {
        for number in appended.by_ref().take(records) {
            disk.submit(DiskWork::Append(Position(number + 1), record(number + 1)));
        }
    };
    let read = || {
        let mut all = Vec::new();
        disk.submit(DiskWork::ReadLog);
        loop {
            match heard.recv().unwrap() {
                DiskDone::Log { records, is_last } => {
                    all.extend(records);
                    if is_last {
                        return all;
                    }
                }
                DiskDone::Freed { .. } | DiskDone::Grown { .. } => {}
                other => panic!("expected the log, got {other:?}"),
            }
        }
    };
    assert_eq!(read(), [], "nothing is durable");
    let expected = |numbers: std::ops::RangeInclusive<u64>| -> Vec<_> {
        numbers.map(|number| (Position(number), record(number))).collect()
    };
    append(150);
    while disk.flush(&mut |_| {}) {}
    append(5);
    assert_eq!(read(), expected(1..=150), "five are on their way");
    while disk.flush(&mut |_| {}) {}
    disk.submit(DiskWork::Free(Position(100)));
    append(5);
    while disk.flush(&mut |_| {}) {}
    // The records that were freed last may come again.
    let found = read();
    let first = found[0].0.0;
    assert!(first <= 100, "it begins with record {first}");
    assert_eq!(found, expected(first..=160));
}

/// Records of a few MiB each: some lie across what the scan reads at a time, and some across segments.
#[test]
fn large_records_come_back_from_files_that_are_read_ahead_and_from_others() {
    let scratch = Scratch::new("large");
    let config = Config { segment_bytes: 10 << 20, ..config() };
    let large = |number: u64| {
        let value = |page: u64| Bytes::from(vec![(number + page) as u8; 8000]);
        let changes = |page| vec![SlotChange { slot: 0, value: Some(value(page)) }];
        let deltas = (0..400).map(|page| Delta { page: PageId::from_bits(page), changes: changes(page) }).collect();
        let txn = TxnId { client: ClientId(1), number };
        Record::Commit(CommitRecord { txn, counts: Version(number).into(), answered: 0, deltas })
    };
    let directories: [Arc<dyn Files>; 2] = [Arc::new(Directory::new(&scratch.0)), Arc::new(Memory::default())];
    for files in directories {
        let disk = Opening::begin(files.clone(), &config).unwrap().finish().unwrap();
        for number in 1..=7 {
            disk.submit(DiskWork::Append(Position(number), large(number)));
            assert!(!disk.flush(&mut |_| {}));
        }
        drop(disk);
        let mut opening = Opening::begin(files.clone(), &config).unwrap();
        for number in 1..=7 {
            assert!(opening.next_record().unwrap() == Some((Position(number), large(number))), "record {number}");
        }
        assert_eq!(opening.next_record().unwrap(), None);
        opening.finish().unwrap().close().unwrap();
        assert_eq!(crate::doctor::check_files(files).unwrap().findings, []);
    }
}

#[test]
fn a_second_process_is_told_who_has_the_store() {
    const TEST: &str = "tests::real::a_second_process_is_told_who_has_the_store";
    const DIR: &str = "THORP_TEST_DIR";
    if let Some(dir) = std::env::var_os(DIR) {
        // This is the second process.
        println!("refused: {}", crate::open(dir.as_ref(), &config()).map(|_| ()).unwrap_err());
        return;
    }
    let scratch = Scratch::new("locked");
    let disk = crate::open(&scratch.0, &config()).unwrap().finish().unwrap();
    let exe = std::env::current_exe().unwrap();
    let child = Command::new(exe).args([TEST, "--exact", "--nocapture"]).env(DIR, &scratch.0).output().unwrap();
    let output = String::from_utf8_lossy(&child.stdout).into_owned();
    let expected = format!("{} is in use by process {}", scratch.0.display(), std::process::id());
    assert!(output.contains(&expected), "expected '{expected}' in {output}");
    disk.close().unwrap();
    crate::open(&scratch.0, &config()).unwrap();
}

/// A directory that is made is durable in the one above it, and so are those that had to be made for it.
#[test]
fn directories_that_are_made_are_durable_before_they_are_used() {
    let scratch = Scratch::new("parents");
    let [a, b, c] = ["a", "a/b", "a/b/c"].map(|name| scratch.0.join(name));
    let synced = RefCell::new(Vec::new());
    let make = |dir: &Path| {
        make_directory(dir, &|above| {
            synced.borrow_mut().push(above.to_owned());
            Ok(())
        })
        .unwrap();
        synced.take()
    };
    assert_eq!(make(&c), [scratch.0.clone(), a, b.clone()]);
    assert!(c.is_dir());
    assert_eq!(make(&c), [b], "its making may have been interrupted");
}

#[test]
fn a_directory_without_a_store_is_left_alone() {
    let scratch = Scratch::new("foreign");
    let no_create = Config { create: false, ..config() };
    let open = |config: &Config| crate::open(&scratch.0, config).map(|_| ()).unwrap_err();
    assert!(matches!(open(&no_create), DiskError::NoStore(_)));
    std::fs::write(scratch.0.join("letter.txt"), "dear").unwrap();
    assert!(matches!(open(&config()), DiskError::NotAStore { found, .. } if found == "letter.txt"));
    assert!(matches!(crate::check(&scratch.0), Err(DiskError::NotAStore { .. })));
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1);
    let missing = Config { create: false, ..config() };
    assert!(matches!(crate::open(&scratch.0.join("none"), &missing), Err(DiskError::NoStore(_))));
    assert!(matches!(crate::open(&scratch.0, &Config { segment_bytes: 5000, ..config() }), Err(DiskError::Config(_))));
}

#[test]
fn a_full_disk_refuses_an_install_and_takes_the_next() {
    let mut refused = 0;
    for at in 0.. {
        let (files, mut promises) = (Memory::default(), Promises::default());
        let node = Node::open(&files, &mut promises).unwrap();
        node.work(&mut promises, 1).unwrap();
        files.plan(Some(Fault::Error(at, Errno::NOSPC, 0)));
        let installed = node.install(&mut promises, 40, Version(99));
        let was_last = files.operations() <= at;
        match installed {
            Ok(false) => {
                refused += 1;
                assert!(node.install(&mut promises, 40, Version(100)).unwrap(), "there is room again");
                node.close().unwrap();
            }
            Ok(true) => drop(node),
            Err(stopped) => assert!(stopped.0.contains("full"), "{}", stopped.0),
        }
        files.plan(None);
        Node::open(&files.after_kill(), &mut promises).unwrap();
        if was_last {
            break;
        }
    }
    assert!(refused > 0, "no install was refused");
}

#[test]
fn a_creation_that_found_no_room_leaves_nothing_to_repair() {
    for at in 0.. {
        let files = Memory::default();
        let create = || Opening::begin(Arc::new(files.clone()), &config()).map(drop);
        files.plan(Some(Fault::Error(at, Errno::NOSPC, 0)));
        let created = create();
        let was_last = files.operations() <= at;
        files.plan(None);
        match crate::doctor::check_files(Arc::new(files.clone())) {
            Ok(report) => assert_eq!(report.findings, [], "{created:?}"),
            // The first write of all had failed.
            Err(error) => assert!(matches!(error, DiskError::NoStore(_)), "{error}"),
        }
        create().unwrap();
        if was_last {
            return created.unwrap();
        }
    }
}

#[test]
fn the_ring_grows_when_nothing_is_freed_and_is_used_again_when_it_is() {
    let (files, mut promises) = (Memory::default(), Promises::default());
    let config = Config { segments_max: 8, ..config() };
    let node = Node::open_files(Arc::new(files.clone()), &mut promises, &config).unwrap();
    // More than the limit: what was accepted is never refused.
    while segments(&files) <= 8 {
        node.append(&mut promises, 3).unwrap();
    }
    let all = promises.submitted + 1;
    // The answers to what was grown come first.
    let free = (0..20).map(|_| node.free(&mut promises, all).unwrap()).max().unwrap();
    assert!(free as usize > 6 * SEGMENT_BYTES, "{free} bytes are free");
    let grown = segments(&files);
    for _ in 0..200 {
        node.append(&mut promises, 3).unwrap();
        let all = promises.submitted + 1;
        node.free(&mut promises, all).unwrap();
    }
    assert_eq!(segments(&files), grown);
    drop(node);
    Node::open(&files.after_kill(), &mut promises).unwrap();
}

#[test]
fn the_ring_grows_for_what_is_asked_and_no_further_than_it_may() {
    let (files, mut promises) = (Memory::default(), Promises::default());
    let config = Config { segments_max: 8, ..config() };
    let node = Node::open_files(Arc::new(files.clone()), &mut promises, &config).unwrap();
    assert_eq!(segments(&files), 3);
    let wanted = 4 * SEGMENT_BYTES as u64;
    let free = node.make_room(wanted).unwrap();
    assert!(free >= wanted, "{free} bytes are free");
    let grown = segments(&files);
    assert!((5..8).contains(&grown), "{grown} segments");
    assert_eq!((node.make_room(wanted).unwrap(), segments(&files)), (free, grown), "there was room");
    assert!(node.make_room(100 * wanted).unwrap() > free);
    assert_eq!(segments(&files), 8);
    node.append(&mut promises, 3).unwrap();
    drop(node);
    Node::open(&files.after_kill(), &mut promises).unwrap();
}

#[test]
fn flushes_of_many_threads_are_durable_in_order() {
    let (files, mut promises) = (Memory::default(), Promises::default());
    let config = Config { segments_max: 64, ..config() };
    let disk = Opening::begin(Arc::new(files.clone()), &config).unwrap().finish().unwrap();
    let (next, durable) = (Mutex::new(0), Mutex::new(0));
    let flush = || {
        disk.flush(&mut |done| {
            let DiskDone::Durable { through, .. } = done else { panic!("expected Durable, got {done:?}") };
            let mut durable = durable.lock().unwrap();
            assert!(*durable <= through.0);
            *durable = through.0;
        })
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    {
                        let mut next = next.lock().unwrap();
                        *next += 1;
                        disk.submit(DiskWork::Append(Position(*next), record(*next)));
                    }
                    while flush() {}
                }
            });
        }
    });
    assert_eq!(*durable.lock().unwrap(), 200);
    drop(disk);
    (promises.submitted, promises.durable) = (200, 200);
    Node::open(&files.after_kill(), &mut promises).unwrap();
}
