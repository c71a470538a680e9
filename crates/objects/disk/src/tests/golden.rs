//! The formats to the byte: what was written once can be read for ever. A test that fails here means a new format, with
//! a new number, and the old one read beside it.

use crate::marker::Marker;
use crate::records::StoreRecords;
use crate::tests::node::{Node, Promises, config};
use crate::tests::real::Scratch;
use bytes::Bytes;
use log::Records;
use messages::Lineage;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use store::{LeasesGiven, Record};
use types::{ClusterId, Incarnation, Life, PageId, Version};
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
    let text = "thorp store\nformat 3\ncluster 0123456789abcdef\nincarnation 0000000000000007\ncrc32c f332fe73\n";
    assert_eq!(marker.encode(), text);
    assert_eq!(Marker::decode(text), Some(marker));
    for (format, crc) in [(1, "ca4b3372"), (2, "6d78238b")] {
        let earlier = text.replace("format 3", &format!("format {format}")).replace("f332fe73", crc);
        assert_eq!(Marker::decode(&earlier), Some(marker));
    }
}

#[test]
fn an_epoch() {
    let incarnation = Incarnation(0x0102);
    let leases = LeasesGiven { lease_ms: 2000, spaces: vec![3, 4] };
    let lineage = Lineage::new(vec![(Life(0x0A0B), Version(0)), (Life(0x0C0D), Version(5))]);
    let lives = "020000000b0a00000000000000000000000000000d0c0000000000000500000000000000";
    for (leases, lineage, golden) in [
        (None, Lineage::default(), "0201000000000000".to_owned()),
        (Some(LeasesGiven::default()), Lineage::default(), "02010000000000000000000000000000".to_owned()),
        (Some(leases.clone()), Lineage::default(), "0201000000000000d0070000020000000300000004000000".to_owned()),
        (Some(leases), lineage, format!("0201000000000000d0070000020000000300000004000000{lives}")),
    ] {
        let record = Record::Incarnation { incarnation, leases, lineage };
        let mut bytes = Aligned::default();
        StoreRecords::encode(&record, &mut |part: &[u8]| bytes.put(part));
        assert_eq!(hex(bytes.bytes()), golden);
        assert_eq!(
            StoreRecords::decode(StoreRecords::kind(&record), Bytes::copy_from_slice(bytes.bytes())),
            Ok(record)
        );
    }
}

/// A store that was written when format 1 was made, by rounds of the tests' own work, and killed. Set
/// `THORP_WRITE_TESTDATA` to write it again, which is right only as long as no release has written that format.
#[test]
fn a_directory_of_format_1() {
    let golden = Path::new("testdata/format-1");
    let mut promises = Promises::default();
    if std::env::var_os("THORP_WRITE_TESTDATA").is_some() {
        let files = Arc::new(Directory::new(&golden));
        std::fs::create_dir_all(&golden).unwrap();
        let node = Node::open_files(files, &mut promises, &config()).unwrap();
        node.work(&mut promises, 2).unwrap();
        std::fs::remove_file(golden.join("lock")).unwrap();
    }
    let scratch = Scratch::new("format-1");
    for entry in std::fs::read_dir(&golden).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, scratch.0.join(path.file_name().unwrap())).unwrap();
    }
    let home = (0..3).map(|number| PageId::new(1, number));
    let version = |number: u64| if number < 3 { (Version(10), Version(10)) } else { Default::default() };
    let mut promises = Promises {
        submitted: 10,
        durable: 10,
        freed: 7,
        home: home.map(|page| (page, version(u64::from(page.number)))).collect(),
    };
    let files = Arc::new(Directory::new(&scratch.0));
    let node = Node::open_files(files, &mut promises, &config()).unwrap();
    node.work(&mut promises, 1).unwrap();
    node.close().unwrap();
}
