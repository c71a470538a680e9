//! Bytes on their way in, as messages.

use crate::arrival::{UNSEEN_BYTES_MAX, fill, make_room};
use crate::codec::Codec;
use crate::gate::{Believed, Gate, PIECE_NAME};
use crate::layout::Reader;
use crate::pieces::Pieces;
use crate::{HEADER_BYTES, Header, PIECE, PREFACE, Preface, WireError};
use alloc::vec::Vec;
use machine::Parcel;

/// From this many missing bytes on it pays to have them received in place.
const DIRECT_BYTES_MIN: usize = 16 * 1024;

/// Bytes on their way in.
///
/// ```text
///   Header --(16 bytes, believed)--> Parts --(all bytes)--> a message, and Header again
///     |  ^
///     v  |(all bytes: perhaps the last of a message)
///    Piece
/// ```
/// No message shares memory with what it was fed from: a page's image and a commit's values have a buffer of exactly
/// their size, or, of a large commit, several of it, so that their keeper keeps nothing else alive.
#[derive(Debug)]
pub struct Inbox {
    gate: Gate,
    /// The other end's preface, until it is taken.
    preface: Option<Preface>,
    header: Vec<u8>,
    parts: Option<Parts>,
    /// Messages of which more pieces should come.
    pieces: Pieces,
    /// The meta of the frame that is being received; no message keeps it, so it is used again.
    meta: Vec<u8>,
}

#[derive(Debug)]
struct Parts {
    header: Header,
    /// How an error names the message.
    name: &'static str,
    body: Vec<u8>,
    /// How much of the body has arrived, where it is a piece: it goes to its message at once.
    passed_on: usize,
}

/// A frame that has arrived whole.
enum Complete {
    Preface,
    Message(Parcel),
}

impl Inbox {
    /// At the beginning of a stream, which is a preface.
    pub fn new(codec: &'static dyn Codec) -> Self {
        let gate = Gate::new(codec);
        let header = Vec::with_capacity(HEADER_BYTES);
        Self { gate, preface: None, header, parts: None, pieces: Pieces::default(), meta: Vec::new() }
    }

    /// In the middle of a stream, behind its preface.
    pub fn within_session(codec: &'static dyn Codec) -> Self {
        Self { gate: Gate::within_session(codec), ..Self::new(codec) }
    }

    /// Takes bytes from the front of `arrived` until they complete a message. `None`: all were taken and more are
    /// needed.
    ///
    /// # Errors
    /// The bytes are no message. The stream cannot be read any further.
    pub fn next(&mut self, arrived: &mut &[u8]) -> Result<Option<Parcel>, WireError> {
        loop {
            if self.parts.is_none() {
                fill(&mut self.header, HEADER_BYTES, arrived);
                let Ok(header) = <[u8; HEADER_BYTES]>::try_from(self.header.as_slice()) else {
                    return self.check_magic();
                };
                let Believed { header, name } = self.gate.frame(&header)?;
                self.header.clear();
                self.parts = Some(Parts { header, name, body: Vec::new(), passed_on: 0 });
            }
            let parts = self.parts.as_mut().expect("just made");
            fill(&mut self.meta, parts.header.meta_bytes as usize, arrived);
            let has_meta = self.meta.len() == parts.header.meta_bytes as usize;
            if parts.header.kind != PIECE {
                if has_meta {
                    fill(&mut parts.body, parts.header.body_bytes as usize, arrived);
                }
                match self.complete()? {
                    Some(Complete::Message(message)) => return Ok(Some(message)),
                    Some(Complete::Preface) => continue,
                    None => return Ok(None),
                }
            }
            if !has_meta || arrived.is_empty() {
                return Ok(None);
            }
            if let Some(message) = self.piece(arrived)? {
                return Ok(Some(message));
            }
        }
    }

    /// Passes on what has arrived of a piece, some of it at least.
    fn piece(&mut self, arrived: &mut &[u8]) -> Result<Option<Parcel>, WireError> {
        let parts = self.parts.as_mut().expect("a piece is being received");
        let number = u64::from_le_bytes(self.meta.as_slice().try_into().expect("its header has been checked"));
        let missing = parts.header.body_bytes as usize - parts.passed_on;
        let (taken, rest) = arrived.split_at(missing.min(arrived.len()));
        *arrived = rest;
        parts.passed_on += taken.len();
        let is_whole = taken.len() == missing;
        if is_whole {
            self.parts = None;
            self.meta.clear();
        }
        let message = self.pieces.take(number, taken, &mut self.gate)?;
        if message.is_some() && !is_whole { Err(WireError::Long { kind: PIECE_NAME }) } else { Ok(message) }
    }

    /// Where the stream's next bytes may be received in place, if so many are missing from the body under way that it
    /// pays: behind the end of a vector that has no more room there than is missing. Afterwards [`Inbox::next`] gives
    /// the message if they completed it.
    pub fn direct(&mut self) -> Option<&mut Vec<u8>> {
        let parts = self.parts.as_mut().filter(|parts| parts.header.kind != PIECE)?;
        let body_bytes = parts.header.body_bytes as usize;
        let missing = body_bytes - parts.body.len();
        if self.meta.len() < parts.header.meta_bytes as usize || missing < DIRECT_BYTES_MIN {
            return None;
        }
        make_room(&mut parts.body, body_bytes);
        // An allocator may have given more than it was asked for.
        (parts.body.capacity() <= body_bytes).then_some(&mut parts.body)
    }

    /// Tells another protocol by its first two bytes, also when it sends fewer than a header's.
    fn check_magic(&self) -> Result<Option<Parcel>, WireError> {
        match self.header.first_chunk() {
            Some(&got) if got != crate::MAGIC => Err(WireError::Magic { got }),
            _ => Ok(None),
        }
    }

    /// The preface of the other end, once it has arrived: it speaks to this end.
    pub fn take_preface(&mut self) -> Option<Preface> {
        self.preface.take()
    }

    fn complete(&mut self) -> Result<Option<Complete>, WireError> {
        let complete = |parts: &mut Parts| {
            self.meta.len() == parts.header.meta_bytes as usize && parts.body.len() == parts.header.body_bytes as usize
        };
        let Some(parts) = self.parts.take_if(complete) else { return Ok(None) };
        let reader = Reader::new(parts.name, &self.meta, parts.body.into());
        let complete = if parts.header.kind == PREFACE {
            let preface: Preface = reader.message()?;
            preface.check(self.gate.codec())?;
            self.preface = Some(preface);
            Complete::Preface
        } else {
            Complete::Message(self.gate.codec().decode(parts.header.kind, reader)?)
        };
        self.meta.clear();
        self.meta.shrink_to(UNSEEN_BYTES_MAX);
        Ok(Some(complete))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Data, End, Rest, family, messages};
    use bytes::Bytes;
    use machine::Goodbye;
    use types::limits::{FRAME_BYTES_MAX, MESSAGE_BYTES_MAX, TXN_BYTES_MAX};

    messages! {
        /// A message as large as any.
        #[derive(Clone, Debug, PartialEq, Eq)]
        struct Large {
            numbers: Vec<u64> as Rest<{ MESSAGE_BYTES_MAX / 8 }>,
            values: Bytes as Data<TXN_BYTES_MAX>,
        }
    }

    family! {
        of "reading";

        enum ToReader, heard by "reader", in order {
            1 Large,
            39 Goodbye,
        }
    }

    const READER: &dyn Codec = End::<ToReader, ToReader>::CODEC;
    const LARGE: u8 = 1;

    fn header(kind: u8, meta_bytes: u32, body_bytes: u32) -> [u8; HEADER_BYTES] {
        Header { kind, meta_bytes, body_bytes }.to_bytes()
    }

    #[test]
    fn an_announced_length_allocates_little() {
        let mut inbox = Inbox::within_session(READER);
        inbox.next(&mut &header(LARGE, 40, FRAME_BYTES_MAX as u32 - 56)[..]).unwrap();
        inbox.next(&mut &[0; 41][..]).unwrap();
        assert_eq!(inbox.parts.as_ref().unwrap().body.capacity(), UNSEEN_BYTES_MAX);

        let mut inbox = Inbox::within_session(READER);
        inbox.next(&mut &header(LARGE, FRAME_BYTES_MAX as u32 - 16, 0)[..]).unwrap();
        inbox.next(&mut &[0; 1][..]).unwrap();
        assert_eq!(inbox.meta.capacity(), UNSEEN_BYTES_MAX);
    }

    #[test]
    fn a_body_has_exactly_its_size_however_it_comes() {
        for body_bytes in [2, 8192, 40_000, UNSEEN_BYTES_MAX as u32] {
            let mut inbox = Inbox::within_session(READER);
            inbox.next(&mut &header(LARGE, 40, body_bytes)[..]).unwrap();
            assert_eq!(inbox.next(&mut &[0; 40][..]), Ok(None));
            while inbox.parts.as_ref().unwrap().body.len() + 1 < body_bytes as usize {
                assert_eq!(inbox.next(&mut &[0; 1][..]), Ok(None));
                if let Some(body) = inbox.direct() {
                    body.resize(body.len() + (body.capacity() - body.len()) / 2 + 1, 0);
                }
            }
            assert_eq!(inbox.parts.unwrap().body.capacity(), body_bytes as usize);
        }
    }
}
