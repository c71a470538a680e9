//! The formats to the byte: what was written once can be read for ever. A test that fails here means a new format, with
//! a new number, and the old one read beside it.

use crate::frame::{FORMAT, FORMAT_OF_BEFORE, Frame};
use crate::segment::{LogId, SegmentHeader};
use std::fmt::Write;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes anything");
        text
    })
}

fn frame() -> Frame {
    Frame {
        format: FORMAT,
        kind: 2,
        record_begins: true,
        record_ends: false,
        flush_begins: true,
        flush_ends: true,
        position: 0x0102,
        generation: 0x0304,
        witness: 0x0506,
        flush: 0x0708,
        needed: 0x090a,
        incarnation: 0x0b0c,
        offset: 0x1000,
        part_bytes: 0x0d0e,
        record_bytes: 0x0f10,
        body_sum: 0x1112_1314,
    }
}

#[test]
fn a_frame_header() {
    assert_eq!(
        hex(&frame().encode()),
        "54485243020201030201000000000000040300000605000008070000000000000a090000000000000c0b0000001000000e0d0000100f0000\
         1413121146c04435"
    );
    let before = Frame { format: FORMAT_OF_BEFORE, ..frame() };
    assert_eq!(Frame::decode(&before.encode()), Some(before));
    assert_eq!(
        hex(&before.encode()),
        "54485243010201030201000000000000040300000605000008070000000000000a090000000000000c0b0000001000000e0d0000100f0000\
         14131211bfd07792"
    );
}

#[test]
fn a_frame_has_the_checksum_of_its_format() {
    let sums = [FORMAT_OF_BEFORE, FORMAT].map(|format| Frame { format, ..frame() }.sum_of(b"a part of a body"));
    assert_eq!(sums, [0xb042_2da3, 0xe744_ce1b]);
}

#[test]
fn a_segment_header() {
    let header = SegmentHeader {
        format: FORMAT,
        segment_bytes: 0x0400_0000,
        log: LogId(0x0102_0304_0506_0708),
        generation: 9,
        first_flush: 10,
        first_position: 11,
        needed: 12,
        first_offset: 4096,
    };
    let before = SegmentHeader { format: FORMAT_OF_BEFORE, ..header };
    for header in [header, before] {
        assert_eq!(SegmentHeader::decode(&header.encode()), Ok(Some(header)));
    }
    assert_eq!(
        hex(&header.encode()),
        "54484f52505345470200000000000004080706050403020109000000000000000a000000000000000b000000000000000c00000000000000\
         0010000027ed7f50"
    );
    assert_eq!(
        hex(&before.encode()),
        "54484f52505345470100000000000004080706050403020109000000000000000a000000000000000b000000000000000c00000000000000\
         00100000288620b9"
    );
}

#[test]
fn a_header_with_a_flipped_bit_is_none() {
    let whole = frame().encode();
    assert_eq!(Frame::decode(&whole), Some(frame()));
    for bit in 0..8 * whole.len() {
        let mut bytes = whole;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Frame::decode(&bytes), None, "bit {bit}");
    }
}
