//! The gate of a link: what may come first, from whom, and how long.

mod common;

use common::number;
use framing::{Codec, HEADER_BYTES, Header, Inbox, PIECE, PREFACE, Preface, WireError, preface_frame};
use messages::{CLIENT, PEER, SERVER};
use types::limits::{MESSAGE_BYTES_MAX, PAGE_BYTES_MAX, PIECE_BYTES_MAX, TXN_BYTES_MAX};

fn header(kind: u8, meta_bytes: u32, body_bytes: u32) -> [u8; HEADER_BYTES] {
    Header { kind, meta_bytes, body_bytes }.to_bytes()
}

fn refused(codec: &'static dyn Codec, kind: u8, meta_bytes: u32, body_bytes: u32) -> &'static str {
    let heard = Inbox::within_session(codec).next(&mut &header(kind, meta_bytes, body_bytes)[..]);
    heard.map_or_else(WireError::name, |_| "believed")
}

#[test]
fn a_number_from_the_future_is_refused() {
    assert_eq!((refused(SERVER, 0, 8, 0), refused(SERVER, PIECE + 100, 8, 0)), ("kind", "kind"));
}

#[test]
fn lengths_that_the_kind_cannot_have_are_refused() {
    assert_eq!(refused(SERVER, number("Ping"), 8, 0), "believed");
    for (codec, kind, meta, body) in [
        (SERVER, number("Ping"), 7, 0),
        (SERVER, number("Ping"), 9, 0),
        (SERVER, number("Ping"), 8, 1),
        (CLIENT, number("Page"), 28, PAGE_BYTES_MAX as u32 + 1),
        (PEER, number("PeerPage"), 40, PAGE_BYTES_MAX as u32 + 1),
        (CLIENT, number("Members"), 1 << 20, 0),
        (SERVER, number("Fetch"), u32::MAX, 0),
        (SERVER, number("Commit"), 40, u32::MAX),
        (SERVER, number("Commit"), MESSAGE_BYTES_MAX as u32, 0),
        (SERVER, number("Commit"), 2 * 1024 * 1024, TXN_BYTES_MAX as u32),
        (SERVER, PIECE, 7, 1),
        (SERVER, PIECE, 8, PIECE_BYTES_MAX as u32 + 1),
    ] {
        assert_eq!(refused(codec, kind, meta, body), "lengths", "{kind} {meta} {body}");
    }
}

#[test]
fn a_message_for_another_end_is_refused_whatever_its_lengths() {
    assert_eq!(refused(CLIENT, number("Commit"), 40, 0), "direction");
    assert_eq!(refused(SERVER, number("Invalidations"), u32::MAX, 0), "direction");
    assert_eq!(refused(PEER, number("Ping"), 8, 0), "direction");
}

#[test]
fn a_preface_comes_first_and_once() {
    let preface = || preface_frame(CLIENT, &Preface::of(CLIENT));
    let mut inbox = Inbox::new(SERVER);
    assert_eq!(inbox.next(&mut &preface()[..]), Ok(None));
    assert_eq!((inbox.take_preface(), inbox.take_preface()), (Some(Preface::of(CLIENT)), None));
    assert_eq!(inbox.next(&mut &preface()[..]), Err(WireError::Kind { got: PREFACE }));
    for kind in [number("Hello"), number("Goodbye"), 0xFF] {
        let first = Inbox::new(SERVER).next(&mut &header(kind, 40, 0)[..]);
        assert_eq!(first, Err(WireError::First { got: kind }));
    }
    let peer = Inbox::new(PEER).next(&mut &preface()[..]);
    assert_eq!(peer.map_err(WireError::name), Err("other_end"));
}

#[test]
fn another_protocol_is_told_by_its_first_bytes() {
    let mut inbox = Inbox::new(CLIENT);
    assert_eq!(inbox.next(&mut &b"H"[..]), Ok(None));
    assert_eq!(inbox.next(&mut &b"TTP/1.1 400"[..]), Err(WireError::Magic { got: *b"HT" }));
    assert_eq!(Inbox::new(SERVER).next(&mut &b"GE"[..]), Err(WireError::Magic { got: *b"GE" }));
}
