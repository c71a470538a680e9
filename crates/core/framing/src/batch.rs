//! Frames that leave together, as chunks of bytes.

use crate::layout::{Layout, Meta};
use crate::{HEADER_BYTES, Header, PIECE, WireError};
use alloc::collections::VecDeque;
use bytes::{Buf, Bytes, BytesMut};
use types::limits::MESSAGE_BYTES_MAX;

/// Parts of a body from this size on are shared with the message instead of copied: below it, one more chunk for the
/// vectored write costs more than the copy.
const SHARED_BYTES_MIN: usize = 1024;

/// Frames that leave together. Small ones stand together in one chunk; images and large values are chunks of their own,
/// shared with the messages that they came in.
#[derive(Debug, Default)]
pub struct Batch {
    /// Finished chunks, none empty.
    chunks: VecDeque<Bytes>,
    /// The chunk that small things are still appended to.
    tail: BytesMut,
    bytes: usize,
}

/// How far a batch was filled at some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    chunks: usize,
    tail: usize,
    bytes: usize,
}

impl Batch {
    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing is left of it.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Its content, in order. None of the chunks is empty.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let tail = (!self.tail.is_empty()).then_some(&self.tail[..]);
        self.chunks.iter().map(|chunk| &chunk[..]).chain(tail)
    }

    /// The first `bytes` bytes have been written.
    ///
    /// # Panics
    /// If it holds fewer than that.
    pub fn consume(&mut self, mut bytes: usize) {
        self.bytes -= bytes;
        while let Some(chunk) = self.chunks.front_mut() {
            if bytes < chunk.len() {
                chunk.advance(bytes);
                return;
            }
            bytes -= chunk.len();
            self.chunks.pop_front();
        }
        if bytes == self.tail.len() {
            self.tail.clear();
        } else {
            self.tail.advance(bytes);
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { chunks: self.chunks.len(), tail: self.tail.len(), bytes: self.bytes }
    }

    /// Appends a message as one frame of this kind, however large.
    ///
    /// # Errors
    /// The message is larger than a receiver takes, and was not appended.
    pub fn frame<M: Layout>(&mut self, kind: u8, message: &M) -> Result<(), WireError> {
        let start = self.tail.len();
        self.tail.extend_from_slice(&[0; HEADER_BYTES]);
        let body_bytes = message.body().map(Bytes::len).sum::<usize>();
        let sized = message.put(&mut Meta(&mut self.tail)).and_then(|()| {
            let bytes = self.tail.len() - start + body_bytes;
            if bytes <= MESSAGE_BYTES_MAX { Ok(bytes) } else { Err(WireError::TooLarge { bytes }) }
        });
        let frame_bytes = sized.inspect_err(|_| self.tail.truncate(start))?;
        let meta_bytes = (frame_bytes - body_bytes - HEADER_BYTES) as u32;
        let header = Header { kind, meta_bytes, body_bytes: body_bytes as u32 };
        self.tail[start..start + HEADER_BYTES].copy_from_slice(&header.to_bytes());
        message.body().for_each(|part| self.append(part));
        self.bytes += frame_bytes;
        Ok(())
    }

    fn append(&mut self, part: &Bytes) {
        if part.len() < SHARED_BYTES_MIN {
            self.tail.extend_from_slice(part);
            return;
        }
        self.finish_tail();
        self.chunks.push_back(part.clone());
    }

    /// Appends what another batch holds.
    pub(crate) fn append_batch(&mut self, mut other: Self) {
        self.finish_tail();
        self.chunks.append(&mut other.chunks);
        self.tail = other.tail;
        self.bytes += other.bytes;
    }

    fn finish_tail(&mut self) {
        if !self.tail.is_empty() {
            self.chunks.push_back(self.tail.split().freeze());
        }
    }

    /// Takes out what was appended since the mark.
    pub(crate) fn split_off(&mut self, mark: Mark) -> Self {
        let mut chunks = self.chunks.split_off(mark.chunks);
        let tail = if let Some(first) = chunks.front_mut() {
            if mark.tail > 0 {
                self.chunks.push_back(first.split_to(mark.tail));
            }
            self.tail.split()
        } else {
            self.tail.split_off(mark.tail)
        };
        chunks.retain(|chunk| !chunk.is_empty());
        let bytes = self.bytes - mark.bytes;
        self.bytes = mark.bytes;
        Self { chunks, tail, bytes }
    }

    /// Takes up to `bytes_max` bytes out of its front, as a piece of the message with this number.
    pub(crate) fn cut(&mut self, number: u64, bytes_max: usize) -> Self {
        let bytes = self.bytes.min(bytes_max);
        let header = Header { kind: PIECE, meta_bytes: size_of_val(&number) as u32, body_bytes: bytes as u32 };
        let mut piece = Self { bytes: HEADER_BYTES + size_of_val(&number) + bytes, ..Self::default() };
        piece.tail.extend_from_slice(&header.to_bytes());
        piece.tail.extend_from_slice(&number.to_le_bytes());
        self.finish_tail();
        self.bytes -= bytes;
        let mut missing = bytes;
        while missing > 0 {
            let chunk = self.chunks.front_mut().expect("as many bytes as it says");
            let part = chunk.split_to(chunk.len().min(missing));
            missing -= part.len();
            if chunk.is_empty() {
                self.chunks.pop_front();
            }
            piece.append(&part);
        }
        piece
    }
}
