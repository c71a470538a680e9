//! Framing knows no family: another one, of two kinds, is heard and refused by its own numbers, limits and directions.

use bytes::Bytes;
use framing::{Batch, Codec, Data, End, HEADER_BYTES, Header, Inbox, Outbox, PIECE, WireError, family, messages};
use machine::{Goodbye, Message, Pace, Parcel};
use types::GoodbyeReason;
use types::limits::PIECE_BYTES_MAX;

messages! {
    /// A sheet of paper for the desk, which may be large.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Sheet {
        number: u32,
        text: Bytes as Data<TEXT_BYTES_MAX>,
    }
}

const SHEET: u8 = 200;
const TEXT_BYTES_MAX: usize = 200_000;

family! {
    of "desks";

    enum ToDesk, heard by "desk" {
        200 Sheet,
        39 Goodbye,
    }

    enum ToClerk, heard by "clerk" {
        39 Goodbye,
    }
}

impl Message for ToDesk {
    /// An odd sheet lets others pass.
    fn pace(&self) -> Pace {
        match self {
            Self::Sheet(sheet) if sheet.number % 2 == 1 => Pace::Yielding,
            Self::Sheet(_) => Pace::Ordered,
            Self::Goodbye(_) => Pace::Trailing,
        }
    }

    fn goodbye(&self) -> Option<&Goodbye> {
        if let Self::Goodbye(goodbye) = self { Some(goodbye) } else { None }
    }
}

impl Message for ToClerk {
    fn pace(&self) -> Pace {
        Pace::Trailing
    }

    fn goodbye(&self) -> Option<&Goodbye> {
        let Self::Goodbye(goodbye) = self;
        Some(goodbye)
    }
}

const DESK: &dyn Codec = End::<ToDesk, ToClerk>::CODEC;
const CLERK: &dyn Codec = End::<ToClerk, ToDesk>::CODEC;

fn sheet(number: u32, bytes: usize) -> Parcel {
    Parcel::new(ToDesk::Sheet(Sheet { number, text: vec![number as u8; bytes].into() }))
}

fn goodbye() -> Goodbye {
    Goodbye { reason: GoodbyeReason::Done, text: "enough".into() }
}

/// The messages that arrive as some bytes, which come a few at a time.
fn heard(codec: &'static dyn Codec, bytes: &[u8]) -> Result<Vec<Parcel>, WireError> {
    let (mut inbox, mut messages) = (Inbox::within_session(codec), Vec::new());
    for mut part in bytes.chunks(1000) {
        while let Some(message) = inbox.next(&mut part)? {
            messages.push(message);
        }
    }
    Ok(messages)
}

fn header(kind: u8, meta_bytes: u32, body_bytes: usize) -> [u8; HEADER_BYTES] {
    Header { kind, meta_bytes, body_bytes: body_bytes as u32 }.to_bytes()
}

#[test]
fn another_family_goes_through_in_pieces_and_keeps_its_own_order() {
    let mut out = Outbox::new(CLERK);
    for message in [sheet(2, 10), sheet(1, 150_000), CLERK.goodbye(goodbye()), sheet(4, TEXT_BYTES_MAX)] {
        out.push(&message).unwrap();
    }
    let mut bytes = Vec::new();
    while !out.is_empty() {
        let mut batch = Batch::default();
        out.next(&mut batch);
        assert!(batch.bytes() <= 2 * PIECE_BYTES_MAX, "large ones leave in pieces");
        bytes.extend(batch.chunks().flatten());
    }
    let arrived = heard(DESK, &bytes).unwrap();
    assert_eq!(
        arrived,
        [sheet(2, 10), sheet(4, TEXT_BYTES_MAX), sheet(1, 150_000), Parcel::new(ToDesk::from(goodbye()))]
    );
    assert_eq!(arrived[3].goodbye(), Some(&goodbye()));
}

#[test]
fn another_family_refuses_by_its_own_numbers_limits_and_directions() {
    let refused = |codec, bytes: &[u8]| heard(codec, bytes).unwrap_err().to_string();
    let bare = Sheet { number: 1, text: Bytes::new() };
    assert_eq!(
        heard(DESK, &[&header(SHEET, 4, 0)[..], &[1, 0, 0, 0]].concat()),
        Ok(vec![Parcel::new(ToDesk::Sheet(bare))])
    );
    // A number that is a `Hello` or a `Page` elsewhere is none here.
    for kind in [0, 1, 9, SHEET + 1] {
        assert_eq!(heard(DESK, &header(kind, 40, 0)), Err(WireError::Kind { got: kind }));
    }
    assert_eq!(refused(CLERK, &header(SHEET, 4, 0)), "expected a message for a clerk, got Sheet");
    let lengths = "expected Sheet with 4 to 4 bytes of meta and at most 200000 of body, got ";
    assert_eq!(refused(DESK, &header(SHEET, 5, 0)), format!("{lengths}5 and 0"));
    assert_eq!(refused(DESK, &header(SHEET, 4, TEXT_BYTES_MAX + 1)), format!("{lengths}4 and 200001"));
    // So it is inside of a piece.
    let piece =
        |inside: [u8; HEADER_BYTES]| [&header(PIECE, 8, inside.len())[..], &1u64.to_le_bytes(), &inside].concat();
    assert_eq!(refused(DESK, &piece(header(SHEET, 4, TEXT_BYTES_MAX + 1))), format!("{lengths}4 and 200001"));
    assert_eq!(refused(DESK, &piece(header(9, 40, 0))), WireError::Kind { got: 9 }.to_string());
}

#[test]
fn a_message_too_large_for_its_family_is_not_sent() {
    let mut out = Outbox::new(CLERK);
    let refused = out.push(&sheet(1, TEXT_BYTES_MAX + 1));
    assert_eq!((refused.map_err(WireError::name), out.is_empty()), (Err("count"), true));
}

#[test]
#[should_panic(expected = "expected a message")]
fn an_end_says_nothing_of_another_family() {
    let _ = Outbox::new(DESK).push(&sheet(1, 1));
}
