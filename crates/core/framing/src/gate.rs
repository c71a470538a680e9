//! The check of headers: a preface first, then by kind, by direction and by lengths.

use crate::codec::Codec;
use crate::{HEADER_BYTES, Header, Layout, Limits, PIECE, PREFACE, Preface, WireError};
use types::limits::{FRAME_BYTES_MAX, MESSAGE_BYTES_MAX, PIECE_BYTES_MAX};
use zerocopy::little_endian::U64;

/// How an error names a piece of a message.
pub(crate) const PIECE_NAME: &str = "Piece";

/// A piece is the number of its message, and some bytes of it.
const PIECE_LIMITS: Limits = Limits::fields::<U64>().with_body(PIECE_BYTES_MAX);

/// The end that reads, and how far it has come.
#[derive(Debug)]
pub(crate) struct Gate {
    codec: &'static dyn Codec,
    /// Whether the preface is yet to come.
    first: bool,
}

/// A header that is believed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Believed {
    pub(crate) header: Header,
    /// How an error names the message.
    pub(crate) name: &'static str,
}

impl Gate {
    /// At the beginning of a stream.
    pub(crate) fn new(codec: &'static dyn Codec) -> Self {
        Self { codec, first: true }
    }

    /// In the middle of a stream, behind its preface.
    pub(crate) fn within_session(codec: &'static dyn Codec) -> Self {
        Self { codec, first: false }
    }

    /// The end that reads.
    pub(crate) fn codec(&self) -> &'static dyn Codec {
        self.codec
    }

    /// Believes the header of a frame.
    pub(crate) fn frame(&mut self, header: &[u8; HEADER_BYTES]) -> Result<Believed, WireError> {
        let header = Header::parse(header)?;
        if header.kind != PIECE {
            let believed = self.admit(header)?;
            let (kind, bytes) = (believed.name, header.frame_bytes());
            return if bytes <= FRAME_BYTES_MAX { Ok(believed) } else { Err(WireError::Whole { kind, bytes }) };
        }
        // The number of its message stands inside of the first piece.
        check_lengths(header, PIECE_NAME, PIECE_LIMITS)?;
        let believed = Believed { header, name: PIECE_NAME };
        if header.body_bytes == 0 { Err(WireError::Empty) } else { Ok(believed) }
    }

    /// Believes the header of a message in pieces.
    pub(crate) fn pieced(&mut self, header: &[u8; HEADER_BYTES]) -> Result<Believed, WireError> {
        let header = Header::parse(header)?;
        if header.kind == PIECE { Err(WireError::Nested) } else { self.admit(header) }
    }

    /// A piece is as good as the message that it is of.
    fn admit(&mut self, header: Header) -> Result<Believed, WireError> {
        let (name, limits) = if self.first {
            self.first = false;
            let limits = (header.kind == PREFACE).then_some(Preface::LIMITS);
            ("Preface", limits.ok_or(WireError::First { got: header.kind })?)
        } else {
            let known = self.codec.known(header.kind).ok_or(WireError::Kind { got: header.kind })?;
            let direction = WireError::Direction { reader: self.codec.reader(), got: known.name };
            (known.name, known.limits.ok_or(direction)?)
        };
        check_lengths(header, name, limits)?;
        Ok(Believed { header, name })
    }
}

fn check_lengths(header: Header, kind: &'static str, expected: Limits) -> Result<(), WireError> {
    let Header { meta_bytes, body_bytes, .. } = header;
    let fits = expected.allow(meta_bytes as usize, body_bytes as usize);
    if fits && header.frame_bytes() <= MESSAGE_BYTES_MAX {
        Ok(())
    } else {
        Err(WireError::Lengths { kind, expected, meta: meta_bytes, body: body_bytes })
    }
}
