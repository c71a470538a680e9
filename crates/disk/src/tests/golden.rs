//! The formats to the byte: what was written once can be read for ever. A test that fails here means a new format, with
//! a new number, and the old one read beside it.

use crate::aligned::Aligned;
use crate::home::State;
use crate::log::frame::Frame;
use crate::log::record::{self, Kind};
use crate::log::segment::SegmentHeader;
use crate::marker::Marker;
use crate::tests::node::{Node, Promises, config};
use crate::tests::real::Scratch;
use bytes::Bytes;
use protocol::{Advance, Lineage};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use store::{Checkpoint, ClientOutcomes, LeasesGiven, Record};
use types::{ClientId, ClusterId, Incarnation, Life, PageId, Version};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes anything");
        text
    })
}

fn frame() -> Frame {
    Frame {
        kind: Kind::Commit,
        record_begins: true,
        record_ends: false,
        flush_begins: true,
        flush_ends: true,
        position: 0x0102,
        lap: 0x0304,
        installs: 0x0506,
        flush: 0x0708,
        needed: 0x090a,
        life: 0x0b0c,
        offset: 0x1000,
        part_bytes: 0x0d0e,
        record_bytes: 0x0f10,
        body_crc: 0x1112_1314,
    }
}

#[test]
fn a_frame_header() {
    assert_eq!(
        hex(&frame().encode()),
        "54485243010201030201000000000000040300000605000008070000000000000a090000000000000c0b0000001000000e0d0000100f000014\
         131211bfd07792"
    );
}

#[test]
fn a_segment_header() {
    let header = SegmentHeader {
        segment_bytes: 0x0400_0000,
        cluster: ClusterId(0x0102_0304_0506_0708),
        lap: 9,
        first_flush: 10,
        first_position: 11,
        needed: 12,
        first_offset: 4096,
    };
    let bytes = header.encode();
    assert_eq!(SegmentHeader::decode(&bytes), Ok(Some(header)));
    assert_eq!(
        hex(&bytes),
        "54484f52505345470100000000000004080706050403020109000000000000000a000000000000000b000000000000000c00000000000000\
         00100000288620b9"
    );
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
    let leases = LeasesGiven { lease_ms: 2000, volumes: vec![3, 4] };
    let lineage = Lineage::new(vec![(Life(0x0A0B), Version(0)), (Life(0x0C0D), Version(5))]);
    let lives = "020000000b0a00000000000000000000000000000d0c0000000000000500000000000000";
    for (leases, lineage, golden) in [
        (None, Lineage::default(), "0201000000000000".to_owned()),
        (Some(LeasesGiven::default()), Lineage::default(), "02010000000000000000000000000000".to_owned()),
        (Some(leases.clone()), Lineage::default(), "0201000000000000d0070000020000000300000004000000".to_owned()),
        (Some(leases), lineage, format!("0201000000000000d0070000020000000300000004000000{lives}")),
    ] {
        let record = Record::Epoch { incarnation, leases, lineage };
        let mut bytes = Aligned::default();
        record::encode(&record, &mut |part| bytes.put(part));
        assert_eq!(hex(bytes.bytes()), golden);
        assert_eq!(record::decode(Kind::Epoch, Bytes::copy_from_slice(bytes.bytes())), Ok(record));
    }
}

#[test]
fn a_checkpoint() {
    let advance = Advance { page: PageId::new(1, 2), prev: Version(3), version: Version(4) };
    let outcomes = ClientOutcomes { client: ClientId(5), answered: 6, committed: vec![(7, vec![advance])] };
    let checkpoint =
        Checkpoint { applied: Version(8), forgotten: Version(9), next_pages: vec![(1, 10)], outcomes: vec![outcomes] };
    let state = State { digest: 11, installs: 12, pages: 13, durable: 14, checkpoint };
    let bytes = state.encode();
    assert_eq!(State::decode(&Bytes::from(bytes.clone())), Ok(state));
    assert_eq!(
        hex(&bytes),
        "010000000b0000000c000000000000000d000000000000000e00000000000000080000000000000009000000000000000100000001000000\
         010000000a00000005000000000000000600000000000000010000000000000007000000000000000100000000000000020000000100000003\
         000000000000000400000000000000a0f6bd5a"
    );
    for len in 0..bytes.len() {
        assert!(State::decode(&Bytes::copy_from_slice(&bytes[..len])).is_err());
    }
}

/// A store that was written when format 1 was made, by rounds of the tests' own work, and killed. Set
/// `THORP_WRITE_TESTDATA` to write it again, which is right only as long as no release has written that format.
#[test]
fn a_directory_of_format_1() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/format-1");
    let mut promises = Promises::default();
    if std::env::var_os("THORP_WRITE_TESTDATA").is_some() {
        let files = Arc::new(crate::files::Directory::new(&golden));
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
    let files = Arc::new(crate::files::Directory::new(&scratch.0));
    let node = Node::open_files(files, &mut promises, &config()).unwrap();
    node.work(&mut promises, 1).unwrap();
    node.close().unwrap();
}
