//! The frame's header: sixteen bytes, little-endian, read in place.
//!
//! ```text
//!   0       2      3       4            8            12       16
//!   +-------+------+-------+------------+------------+--------+
//!   | 'T' h | kind | flags | meta bytes | body bytes | check  |
//!   +-------+------+-------+------------+------------+--------+
//! ```

use crate::WireError;
use types::PeerKey;
use types::limits::{
    ADDRESS_BYTES_MAX, GOODBYE_TEXT_BYTES_MAX, GROUP_NAME_BYTES_MAX, LEASED_VOLUMES_MAX, LIVES_KEPT, MEMBERS_MAX,
    MESSAGE_BYTES_MAX, PAGE_BYTES_MAX, PAGES_BEHIND_MAX, PAGES_PER_MESSAGE_MAX, PIECE_BYTES_MAX, STATUS_CELLS_MAX,
    STATUS_COLUMNS_MAX, STATUS_TABLES_MAX, STATUS_TEXT_BYTES_MAX, STORE_ADDRESSES_MAX, TXN_BYTES_MAX, TXN_PAGES_MAX,
};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// How every frame begins.
pub const MAGIC: [u8; 2] = *b"Th";

/// The size of the header, in bytes.
pub const HEADER_BYTES: usize = size_of::<Layout>();

/// Which end of a link reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end that takes sessions.
    Store,
    /// The end that opens them.
    Client,
    /// Either end of a connection between neighbours.
    Peer,
}

/// The kinds of frame, by their numbers on the wire: messages, and pieces of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the message of its name")]
#[repr(u8)]
pub enum Kind {
    Hello = 1,
    Welcome = 2,
    Goodbye = 3,
    Rejoin = 4,
    Rejoined = 5,
    Ping = 6,
    Pong = 7,
    Fetch = 8,
    Page = 9,
    LeftOut = 10,
    Released = 11,
    Commit = 12,
    AskOutcome = 13,
    CommitReply = 14,
    Notices = 15,
    Ack = 16,
    Grant = 17,
    Granted = 18,
    Reachable = 19,
    Help = 20,
    NoHelp = 21,
    PeerPage = 22,
    Arrived = 23,
    PeerHello = 24,
    Revalidate = 25,
    Revalidated = 26,
    Departed = 27,
    Lead = 28,
    FindLeader = 29,
    Leader = 30,
    Members = 31,
    Leased = 32,
    Intent = 33,
    Promise = 34,
    AskStatus = 35,
    Status = 36,
    /// A piece of a large message.
    Piece = 37,
}

/// How long the parts of a frame may be, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) meta_min: usize,
    pub(crate) meta_max: usize,
    pub(crate) body_max: usize,
}

impl Kind {
    /// All kinds, in the order of their numbers, which count from 1.
    pub const ALL: [Self; 37] = [
        Self::Hello,
        Self::Welcome,
        Self::Goodbye,
        Self::Rejoin,
        Self::Rejoined,
        Self::Ping,
        Self::Pong,
        Self::Fetch,
        Self::Page,
        Self::LeftOut,
        Self::Released,
        Self::Commit,
        Self::AskOutcome,
        Self::CommitReply,
        Self::Notices,
        Self::Ack,
        Self::Grant,
        Self::Granted,
        Self::Reachable,
        Self::Help,
        Self::NoHelp,
        Self::PeerPage,
        Self::Arrived,
        Self::PeerHello,
        Self::Revalidate,
        Self::Revalidated,
        Self::Departed,
        Self::Lead,
        Self::FindLeader,
        Self::Leader,
        Self::Members,
        Self::Leased,
        Self::Intent,
        Self::Promise,
        Self::AskStatus,
        Self::Status,
        Self::Piece,
    ];

    /// The kind with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// Whether `reader` may receive it at all. What an end never receives is refused by its header, before any of it
    /// is kept.
    pub const fn is_for(self, reader: End) -> bool {
        match self {
            // What a neighbour sends goes directly, or by way of the redirector.
            Self::Goodbye | Self::PeerPage | Self::Piece => true,
            Self::Ping | Self::Pong => matches!(reader, End::Store | End::Client),
            Self::Hello
            | Self::Rejoin
            | Self::Fetch
            | Self::Released
            | Self::Commit
            | Self::AskOutcome
            | Self::Ack
            | Self::Grant
            | Self::Reachable
            | Self::NoHelp
            | Self::Arrived
            | Self::Revalidate
            | Self::Departed
            | Self::Lead
            | Self::FindLeader
            | Self::Promise
            | Self::AskStatus => matches!(reader, End::Store),
            Self::Welcome
            | Self::Rejoined
            | Self::Page
            | Self::LeftOut
            | Self::CommitReply
            | Self::Notices
            | Self::Granted
            | Self::Help
            | Self::Revalidated
            | Self::Leader
            | Self::Members
            | Self::Leased
            | Self::Intent
            | Self::Status => matches!(reader, End::Client),
            Self::PeerHello => matches!(reader, End::Peer),
        }
    }

    /// Whether it may be the first message that `reader` receives. A piece is as good as the message that it is of.
    pub const fn may_open(self, reader: End) -> bool {
        match reader {
            End::Store => matches!(self, Self::Hello | Self::AskStatus),
            End::Client => matches!(self, Self::Welcome | Self::Leader | Self::Goodbye | Self::Status),
            End::Peer => matches!(self, Self::PeerHello | Self::Goodbye),
        }
    }

    /// The lengths that its parts may have.
    pub(crate) const fn limits(self) -> Limits {
        const RANGE: usize = 12;
        /// The length that stands before a text.
        const TEXT: usize = 2;
        const ADDRESS: usize = TEXT + ADDRESS_BYTES_MAX;
        const KEY: usize = PeerKey::BYTES;
        const GROUP: usize = TEXT + GROUP_NAME_BYTES_MAX;
        const MEMBERS: usize = 16 + GROUP + ADDRESS + STORE_ADDRESSES_MAX * ADDRESS + MEMBERS_MAX * (8 + ADDRESS);
        const NAME: usize = TEXT + STATUS_TEXT_BYTES_MAX;
        const TABLE: usize = NAME + 2 + STATUS_COLUMNS_MAX * NAME + 4;
        const STATUS: usize = 2 + STATUS_TABLES_MAX * TABLE + STATUS_CELLS_MAX * (1 + NAME);
        let (meta_min, meta_max, body_max) = match self {
            Self::Hello => (40, 40, 0),
            Self::Welcome => (52, 52 + 16 * LIVES_KEPT, 0),
            Self::Goodbye => (4, 4 + GOODBYE_TEXT_BYTES_MAX, 0),
            Self::Rejoin => (20, 20 + PAGES_PER_MESSAGE_MAX * (16 + RANGE), 0),
            Self::Rejoined => (8, 8 + TXN_PAGES_MAX * 8, 0),
            Self::Ping | Self::Pong | Self::Ack | Self::Grant | Self::Departed => (8, 8, 0),
            Self::Fetch => (24, 24 + PAGES_PER_MESSAGE_MAX * 8, 0),
            Self::NoHelp => (16, 16 + PAGES_PER_MESSAGE_MAX * 8, 0),
            Self::Page => (28, 28 + PAGES_BEHIND_MAX * 8, PAGE_BYTES_MAX),
            Self::Released => (0, PAGES_PER_MESSAGE_MAX * 8, 0),
            Self::Commit => (32, MESSAGE_BYTES_MAX, TXN_BYTES_MAX),
            Self::LeftOut | Self::AskOutcome | Self::Promise => (16, 16, 0),
            Self::PeerHello => (8 + KEY, 8 + KEY, 0),
            Self::CommitReply => (20, MESSAGE_BYTES_MAX, 0),
            Self::Notices => (8, MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX),
            Self::Granted => (0, PAGES_PER_MESSAGE_MAX * RANGE, 0),
            Self::Reachable => (KEY + 2 * TEXT, KEY + 2 * ADDRESS, 0),
            Self::Help => (24 + KEY + TEXT, 24 + KEY + ADDRESS + PAGES_PER_MESSAGE_MAX * 8, 0),
            Self::PeerPage => (40, 40, PAGE_BYTES_MAX),
            Self::Arrived => (0, PAGES_PER_MESSAGE_MAX * 16, 0),
            Self::Revalidate => (16, 16 + PAGES_PER_MESSAGE_MAX * 16, 0),
            Self::Revalidated => (16, MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX),
            Self::Lead | Self::Leader => (8 + 2 * TEXT, 8 + GROUP + ADDRESS, 0),
            Self::FindLeader => (TEXT, GROUP, 0),
            Self::Leased => (12, 12 + LEASED_VOLUMES_MAX * 4, 0),
            Self::Intent => (16, MESSAGE_BYTES_MAX, 0),
            Self::Members => (16 + 2 * TEXT, MEMBERS, 0),
            Self::AskStatus => (0, 0, 0),
            Self::Piece => (8, 8, PIECE_BYTES_MAX),
            Self::Status => (2, STATUS, 0),
        };
        Limits { meta_min, meta_max, body_max }
    }
}

/// The header as it stands on the wire.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Layout {
    magic: [u8; 2],
    kind: u8,
    flags: u8,
    meta_bytes: U32,
    body_bytes: U32,
    check: U32,
}

/// A checked header: what follows it on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of message.
    pub kind: Kind,
    /// The length of its fixed-layout part, in bytes.
    pub meta_bytes: u32,
    /// The length of its raw part, in bytes.
    pub body_bytes: u32,
}

impl Header {
    /// Reads a header, believing none of it before its check: a stream that is out of step, or another protocol's,
    /// must not be taken at its lengths.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self, WireError> {
        let layout = Layout::ref_from_bytes(bytes).expect("as many bytes as it has, at any alignment");
        if layout.magic != MAGIC {
            return Err(WireError::Magic { got: layout.magic });
        }
        let (expected, got) = (check(bytes), layout.check.get());
        if expected != got {
            return Err(WireError::Check { expected, got });
        }
        if layout.flags != 0 {
            return Err(WireError::Flags { got: layout.flags });
        }
        let kind = Kind::from_number(layout.kind).ok_or(WireError::Kind { got: layout.kind })?;
        let header = Self { kind, meta_bytes: layout.meta_bytes.get(), body_bytes: layout.body_bytes.get() };
        header.check_lengths()?;
        Ok(header)
    }

    /// The header's bytes.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let (meta_bytes, body_bytes) = (self.meta_bytes.into(), self.body_bytes.into());
        let mut layout =
            Layout { magic: MAGIC, kind: self.kind as u8, flags: 0, meta_bytes, body_bytes, check: U32::ZERO };
        layout.check = check(layout.as_bytes().try_into().expect("its own size")).into();
        zerocopy::transmute!(layout)
    }

    /// The length of the whole frame, in bytes.
    pub fn frame_bytes(self) -> usize {
        HEADER_BYTES + self.meta_bytes as usize + self.body_bytes as usize
    }

    fn check_lengths(self) -> Result<(), WireError> {
        let limits = self.kind.limits();
        let (meta, body) = (self.meta_bytes as usize, self.body_bytes as usize);
        let fits = (limits.meta_min..=limits.meta_max).contains(&meta) && body <= limits.body_max;
        if fits && self.frame_bytes() <= MESSAGE_BYTES_MAX {
            Ok(())
        } else {
            Err(WireError::Lengths { kind: self.kind, meta: self.meta_bytes, body: self.body_bytes })
        }
    }
}

/// The check word of a header: its first three words, mixed. Each step is a bijection of the word it takes in, so no
/// damage within one word goes unseen. It guards the lengths, not the content, which is TCP's duty and one day TLS's.
fn check(header: &[u8; HEADER_BYTES]) -> u32 {
    let words = header[..12].chunks_exact(4);
    words.fold(0x9E37_79B9, |hash, word| {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let hash = (hash ^ word).wrapping_mul(0x85EB_CA6B);
        hash ^ hash >> 15
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn numbers_are_the_ones_on_the_wire() {
        for (i, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!((kind as usize, Kind::from_number(kind as u8)), (i + 1, Some(kind)));
        }
        assert_eq!((Kind::from_number(0), Kind::from_number(38)), (None, None));
    }

    #[test]
    fn every_kind_has_a_reader() {
        for kind in Kind::ALL {
            assert!([End::Store, End::Client, End::Peer].into_iter().any(|end| kind.is_for(end)));
        }
    }

    #[test]
    fn neighbours_say_little_to_each_other() {
        let all = |is: fn(&Kind) -> bool| Kind::ALL.into_iter().filter(is).collect::<Vec<_>>();
        assert_eq!(all(|kind| kind.is_for(End::Peer)), [Kind::Goodbye, Kind::PeerPage, Kind::PeerHello, Kind::Piece]);
        assert_eq!(all(|kind| kind.may_open(End::Peer)), [Kind::Goodbye, Kind::PeerHello]);
    }

    #[test]
    fn no_damaged_header_is_believed() {
        let good = Header { kind: Kind::Commit, meta_bytes: 100, body_bytes: 70_000 }.to_bytes();
        assert_eq!(Header::parse(&good).unwrap().body_bytes, 70_000);
        for bit in 0..HEADER_BYTES * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            let refused = Header::parse(&bad).unwrap_err();
            let expected = if bit < 16 { "magic" } else { "check" };
            assert_eq!(refused.name(), expected, "bit {bit}");
        }
    }

    #[test]
    fn a_number_or_flag_from_the_future_is_refused() {
        let with = |at: usize, byte| {
            let mut bytes = Header { kind: Kind::Ping, meta_bytes: 8, body_bytes: 0 }.to_bytes();
            bytes[at] = byte;
            let check = check(&bytes).to_le_bytes();
            bytes[12..].copy_from_slice(&check);
            Header::parse(&bytes)
        };
        assert_eq!(with(2, 38), Err(WireError::Kind { got: 38 }));
        assert_eq!(with(2, 0), Err(WireError::Kind { got: 0 }));
        assert_eq!(with(3, 1), Err(WireError::Flags { got: 1 }));
    }

    #[test]
    fn lengths_that_the_kind_cannot_have_are_refused() {
        let parse = |kind, meta_bytes, body_bytes| {
            Header::parse(&Header { kind, meta_bytes, body_bytes }.to_bytes()).map_err(WireError::name)
        };
        assert!(parse(Kind::Ping, 8, 0).is_ok());
        for (kind, meta, body) in [
            (Kind::Ping, 7, 0),
            (Kind::Ping, 9, 0),
            (Kind::Ping, 8, 1),
            (Kind::Page, 28, PAGE_BYTES_MAX as u32 + 1),
            (Kind::PeerPage, 40, PAGE_BYTES_MAX as u32 + 1),
            (Kind::Members, 1 << 20, 0),
            (Kind::Fetch, u32::MAX, 0),
            (Kind::Commit, 32, u32::MAX),
            (Kind::Commit, MESSAGE_BYTES_MAX as u32, 0),
            (Kind::Commit, 2 * 1024 * 1024, TXN_BYTES_MAX as u32),
        ] {
            assert_eq!(parse(kind, meta, body), Err("lengths"), "{kind:?} {meta} {body}");
        }
    }
}
