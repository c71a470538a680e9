//! Which headers are believed: what the reader may receive at all, and what may come first.

use crate::{End, HEADER_BYTES, Header, Kind, WireError};
use types::limits::FRAME_BYTES_MAX;

/// Who reads, and how far it has come.
#[derive(Debug)]
pub(crate) struct Gate {
    reader: End,
    /// Whether the first message is yet to come.
    first: bool,
}

impl Gate {
    /// At the beginning of a stream.
    pub(crate) fn new(reader: End) -> Self {
        Self { reader, first: true }
    }

    /// In the middle of a stream, when the session has been opened.
    pub(crate) fn within_session(reader: End) -> Self {
        Self { reader, first: false }
    }

    /// Believes the header of a frame.
    pub(crate) fn frame(&mut self, header: &[u8; HEADER_BYTES]) -> Result<Header, WireError> {
        let header = Header::parse(header)?;
        match header.kind {
            Kind::Piece if header.body_bytes == 0 => Err(WireError::Empty),
            // Whose piece it is stands inside of the first one.
            Kind::Piece => Ok(header),
            kind => {
                self.admit(header)?;
                let bytes = header.frame_bytes();
                if bytes <= FRAME_BYTES_MAX { Ok(header) } else { Err(WireError::Whole { kind, bytes }) }
            }
        }
    }

    /// Believes the header of a message in pieces.
    pub(crate) fn pieced(&mut self, header: &[u8; HEADER_BYTES]) -> Result<Header, WireError> {
        let header = Header::parse(header)?;
        if header.kind == Kind::Piece {
            return Err(WireError::Nested);
        }
        self.admit(header)?;
        Ok(header)
    }

    fn admit(&mut self, header: Header) -> Result<(), WireError> {
        let reader = self.reader;
        if self.first && !header.kind.may_open(reader) {
            return Err(WireError::First { reader, got: header.kind });
        }
        if !header.kind.is_for(reader) {
            return Err(WireError::Direction { reader, got: header.kind });
        }
        self.first = false;
        Ok(())
    }
}
