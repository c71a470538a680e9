//! The formats to the byte: what was written once can be read for ever. A test that fails here means a new format, with
//! a new number, and the old one read beside it.

use crate::marker::Marker;
use crate::records::StoreRecords;
use crate::tests::node::{Node, Promises, RECORDS_OF_FORMAT_1, config};
use crate::tests::real::Scratch;
use bytes::Bytes;
use log::Records;
use messages::Lineage;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use store::{CommitRecord, Counted, LeasesGiven, Record, UncountedCommit};
use types::{ClientId, ClusterId, Delta, Incarnation, Life, PageId, Shard, SlotChange, TxnId, Vector, Version};
use vfs::{Aligned, Directory};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes anything");
        text
    })
}

#[test]
fn a_marker() {
    let marker = Marker { cluster: ClusterId(0x0123_4567_89ab_cdef), incarnation: Incarnation(7) };
    let text = "thorp store\nformat 4\ncluster 0123456789abcdef\nincarnation 0000000000000007\ncrc32c 26f27488\n";
    assert_eq!(marker.encode(), text);
    assert_eq!(Marker::decode(text), Some(marker));
    for (format, crc) in [(1, "ca4b3372"), (2, "6d78238b"), (3, "f332fe73")] {
        let earlier = text.replace("format 4", &format!("format {format}")).replace("26f27488", crc);
        assert_eq!(Marker::decode(&earlier), Some(marker));
    }
}

/// Counts of the shards 1 and 300.
fn several() -> Vector {
    let mut counts = Vector::new();
    counts.raise(Shard(1), Version(0x0E0F));
    counts.raise(Shard(300), Version(0x1011));
    counts
}

const OTHERS: &str = "01000000000000000f0e0000000000002c010000000000001110000000000000";

#[test]
fn an_epoch() {
    let incarnation = Incarnation(0x0102);
    let leases = LeasesGiven { lease_ms: 2000, spaces: vec![3, 4] };
    let lineage = Lineage::new(vec![(Life(0x0A0B), Vector::new()), (Life(0x0C0D), Version(5).into())]);
    let lives = "020000000b0a00000000000000000000000000000d0c0000000000000500000000000000";
    let (others, none) = (format!("0200000000000000{OTHERS}"), "0000000000000000");
    let spaces = "0201000000000000d0070000020000000300000004000000";
    for (leases, lineage, counts, golden) in [
        (None, Lineage::default(), None, "0201000000000000".to_owned()),
        (Some(LeasesGiven::default()), Lineage::default(), None, "02010000000000000000000000000000".to_owned()),
        (Some(leases.clone()), Lineage::default(), None, spaces.to_owned()),
        (Some(leases.clone()), lineage.clone(), None, format!("{spaces}{lives}")),
        (Some(leases.clone()), lineage.clone(), Some(Version(9).into()), format!("{spaces}{lives}0900000000000000")),
        (Some(leases), lineage, Some(several()), format!("{spaces}{lives}0000000000000000{others}{none}{none}")),
    ] {
        is_golden(1, Record::Incarnation { incarnation, leases, lineage, counts }, &golden);
    }
}

#[test]
fn a_commit() {
    let txn = TxnId { client: ClientId(0x0A), number: 0x0B };
    let put = SlotChange { slot: 1, value: Some(Bytes::from_static(b"ab")) };
    let changes = vec![put, SlotChange { slot: 2, value: None }];
    let deltas = vec![Delta { page: PageId::new(3, 4), changes }];
    let head = "0a000000000000000b0000000000000007000000000000000100000000000000";
    let delta = "04000000030000000200000002000000010001000200000002000000000000006162";
    let commit = CommitRecord { txn, counts: Version(0x0C0D).into(), answered: 7, deltas: deltas.clone() };
    is_golden(5, Record::Commit(commit), &format!("{head}0d0c000000000000{delta}"));
    let commit = CommitRecord { txn, counts: several(), answered: 7, deltas: deltas.clone() };
    let head_of_two = head.replace("0100000000000000", "0100000002000000");
    is_golden(5, Record::Commit(commit), &format!("{head_of_two}0000000000000000{OTHERS}{delta}"));
    is_golden(2, Record::Uncounted(UncountedCommit { txn, answered: 7, deltas }), &format!("{head}{delta}"));
    let counts = Record::Counts(vec![Counted { txn, version: Version(5) }]);
    is_golden(3, counts, "01000000000000000a000000000000000b000000000000000500000000000000");
}

/// The record has this kind and these bytes, and is read from them.
fn is_golden(kind: u8, record: Record, golden: &str) {
    let mut bytes = Aligned::default();
    StoreRecords::encode(&record, &mut |part: &[u8]| bytes.put(part));
    assert_eq!((StoreRecords::kind(&record), &*hex(bytes.bytes())), (kind, golden));
    assert_eq!(StoreRecords::decode(kind, Bytes::copy_from_slice(bytes.bytes())), Ok(record));
}

/// A store that was written when format 1 was made, by rounds of the tests' own work, and killed. Set
/// `THORP_WRITE_TESTDATA` to write it again, which is right only as long as no release has written that format.
#[test]
fn a_directory_of_format_1() {
    let golden = Path::new("testdata/format-1");
    let mut promises = Promises::default();
    if std::env::var_os("THORP_WRITE_TESTDATA").is_some() {
        let files = Arc::new(Directory::new(golden));
        std::fs::create_dir_all(golden).unwrap();
        let node = Node::open_files(files, &mut promises, &config()).unwrap();
        node.work(&mut promises, 2).unwrap();
        std::fs::remove_file(golden.join("lock")).unwrap();
    }
    let scratch = Scratch::new("format-1");
    for entry in std::fs::read_dir(golden).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, scratch.0.join(path.file_name().unwrap())).unwrap();
    }
    let home = (0..3).map(|number| PageId::new(1, number));
    let version = |number: u64| if number < 3 { (Version(10), Version(10)) } else { Default::default() };
    let mut promises = Promises {
        submitted: RECORDS_OF_FORMAT_1,
        durable: RECORDS_OF_FORMAT_1,
        freed: 7,
        home: home.map(|page| (page, version(u64::from(page.number)))).collect(),
    };
    let files = Arc::new(Directory::new(&scratch.0));
    let node = Node::open_files(files, &mut promises, &config()).unwrap();
    node.work(&mut promises, 1).unwrap();
    node.close().unwrap();
}
