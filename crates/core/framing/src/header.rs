//! The frame's header: sixteen bytes, little-endian, read in place.
//!
//! ```text
//!   0       2      3       4            8            12       16
//!   +-------+------+-------+------------+------------+--------+
//!   | 'T' h | kind | flags | meta bytes | body bytes | check  |
//!   +-------+------+-------+------------+------------+--------+
//! ```

use crate::WireError;
use crate::magic::MAGIC;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The kind of a frame that is a piece of a large message, in every family. All other numbers are each family's own.
pub const PIECE: u8 = 37;

/// The size of the header, in bytes.
pub const HEADER_BYTES: usize = size_of::<Layout>();

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

/// A checked header: what follows it on the stream, if its family has such a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The number of the kind of message, or [`PIECE`].
    pub kind: u8,
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
        Ok(Self { kind: layout.kind, meta_bytes: layout.meta_bytes.get(), body_bytes: layout.body_bytes.get() })
    }

    /// The header's bytes.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let (meta_bytes, body_bytes) = (self.meta_bytes.into(), self.body_bytes.into());
        let mut layout = Layout { magic: MAGIC, kind: self.kind, flags: 0, meta_bytes, body_bytes, check: U32::ZERO };
        layout.check = check(layout.as_bytes().try_into().expect("its own size")).into();
        zerocopy::transmute!(layout)
    }

    /// The length of the whole frame, in bytes.
    pub fn frame_bytes(self) -> usize {
        HEADER_BYTES + self.meta_bytes as usize + self.body_bytes as usize
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

    #[test]
    fn no_damaged_header_is_believed() {
        let good = Header { kind: 12, meta_bytes: 100, body_bytes: 70_000 }.to_bytes();
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
    fn a_flag_from_the_future_is_refused() {
        let mut bytes = Header { kind: 6, meta_bytes: 8, body_bytes: 0 }.to_bytes();
        bytes[3] = 1;
        let check = check(&bytes).to_le_bytes();
        bytes[12..].copy_from_slice(&check);
        assert_eq!(Header::parse(&bytes), Err(WireError::Flags { got: 1 }));
    }
}
