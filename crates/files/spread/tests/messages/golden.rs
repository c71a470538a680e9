//! Every message to the byte, in `golden.txt`: `docs/formats.md` draws them. A change there is a new version of the
//! protocol.

use crate::samples::samples;
use framing::{Codec, HEADER_BYTES};
use spread::messages::{FILE_SERVER, SUBSCRIBER};
use std::fmt::Write;

/// A frame in hexadecimal: the header, the meta in groups of eight bytes, and the body behind a bar if there is one.
fn dump(frame: &[u8]) -> String {
    let hex =
        |bytes: &[u8]| bytes.iter().fold(String::new(), |mut s, byte| write!(s, "{byte:02x}").map(|()| s).unwrap());
    let meta = u32::from_le_bytes(frame[4..8].try_into().unwrap()) as usize;
    let (header, rest) = frame.split_at(HEADER_BYTES);
    let (meta, body) = rest.split_at(meta);
    let mut parts = vec![hex(header)];
    parts.extend(meta.chunks(8).map(hex));
    parts.extend((!body.is_empty()).then(|| format!("| {}", hex(body))));
    parts.join(" ")
}

#[test]
fn every_message_has_its_golden_bytes() {
    let got: Vec<String> = samples().iter().map(|sample| dump(&sample.encode().unwrap())).collect();
    let golden: Vec<&str> = include_str!("golden.txt").lines().filter(|line| !line.starts_with('#')).collect();
    for ((sample, got), golden) in samples().iter().zip(&got).zip(&golden) {
        assert_eq!(got, golden, "{sample:?}");
    }
    assert_eq!(got.len(), golden.len(), "{}", got.join("\n"));
}

#[test]
fn the_documents_have_every_message() {
    let formats = include_str!("../../../../../docs/formats.md");
    let (_, section) = formats.split_once("## Messages of published files").expect("it has a section for them");
    let (table, _) = section.split_once("\n# ").expect("the next chapter");
    let known =
        |end: &'static dyn Codec| (1..u8::MAX).filter_map(move |number| Some((number, end.known(number)?.name)));
    let is_own = |(number, _): &(u8, &str)| *number != framing::PIECE;
    for (number, name) in known(FILE_SERVER).chain(known(SUBSCRIBER)).filter(is_own) {
        assert!(table.contains(&format!("| {number} | `{name}` |")), "{number} {name} is missing");
    }
}
