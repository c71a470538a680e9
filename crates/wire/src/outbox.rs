//! Messages on their way out, as chunks of bytes.

use crate::layout::{Layout, Meta};
use crate::{HEADER_BYTES, Header, WireError};
use alloc::collections::VecDeque;
use bytes::{Buf, Bytes, BytesMut};
use protocol::Message;
use types::limits::MESSAGE_BYTES_MAX;

/// Pieces of a body from this size on are shared with the message instead of copied: below it, one more chunk for the
/// vectored write costs more than the copy.
const SHARED_BYTES_MIN: usize = 1024;

/// Messages on their way out. Small ones stand together in one chunk; images and large values are chunks of their own,
/// shared with the messages that they came in.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Finished chunks, none empty.
    chunks: VecDeque<Bytes>,
    /// The chunk that small things are still appended to.
    tail: BytesMut,
    bytes: usize,
}

impl Outbox {
    /// Nothing on its way.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a message. On an error nothing was appended: what cannot be received is not sent.
    pub fn push(&mut self, message: &Message) -> Result<(), WireError> {
        match message {
            Message::Hello(m) => self.frame(m),
            Message::Welcome(m) => self.frame(m),
            Message::Goodbye(m) => self.frame(m),
            Message::Rejoin(m) => self.frame(m),
            Message::Rejoined(m) => self.frame(m),
            Message::Ping(m) => self.frame(m),
            Message::Pong(m) => self.frame(m),
            Message::Fetch(m) => self.frame(m),
            Message::Page(m) => self.frame(m),
            Message::LeftOut(m) => self.frame(m),
            Message::Released(m) => self.frame(m),
            Message::Commit(m) => self.frame(m),
            Message::AskOutcome(m) => self.frame(m),
            Message::CommitReply(m) => self.frame(m),
            Message::Notices(m) => self.frame(m),
            Message::Ack(m) => self.frame(m),
            Message::Grant(m) => self.frame(m),
            Message::Granted(m) => self.frame(m),
            Message::Reachable(m) => self.frame(m),
            Message::Help(m) => self.frame(m),
            Message::NoHelp(m) => self.frame(m),
            Message::PeerPage(m) => self.frame(m),
            Message::Arrived(m) => self.frame(m),
            Message::PeerHello(m) => self.frame(m),
            Message::Revalidate(m) => self.frame(m),
            Message::Revalidated(m) => self.frame(m),
            Message::Departed(m) => self.frame(m),
            Message::Lead(m) => self.frame(m),
            Message::FindLeader(m) => self.frame(m),
            Message::Leader(m) => self.frame(m),
            Message::Members(m) => self.frame(m),
            Message::Leased(m) => self.frame(m),
            Message::Intent(m) => self.frame(m),
            Message::Promise(m) => self.frame(m),
            Message::AskStatus(m) => self.frame(m),
            Message::Status(m) => self.frame(m),
        }
    }

    /// What waits to be written, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// What waits, in order. None of the chunks is empty.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let tail = (!self.tail.is_empty()).then_some(&self.tail[..]);
        self.chunks.iter().map(|chunk| &chunk[..]).chain(tail)
    }

    /// The first `bytes` bytes have been written.
    ///
    /// # Panics
    /// If fewer than that wait.
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

    fn frame<M: Layout>(&mut self, message: &M) -> Result<(), WireError> {
        let start = self.tail.len();
        self.tail.extend_from_slice(&[0; HEADER_BYTES]);
        let body_bytes = message.body().map(Bytes::len).sum::<usize>();
        let sized = message.put(&mut Meta(&mut self.tail)).and_then(|()| {
            let bytes = self.tail.len() - start + body_bytes;
            if bytes <= MESSAGE_BYTES_MAX { Ok(bytes) } else { Err(WireError::TooLarge { bytes }) }
        });
        let frame_bytes = sized.inspect_err(|_| self.tail.truncate(start))?;
        let meta_bytes = (frame_bytes - body_bytes - HEADER_BYTES) as u32;
        let header = Header { kind: M::KIND, meta_bytes, body_bytes: body_bytes as u32 };
        self.tail[start..start + HEADER_BYTES].copy_from_slice(&header.to_bytes());
        message.body().for_each(|piece| self.append(piece));
        self.bytes += frame_bytes;
        Ok(())
    }

    fn append(&mut self, piece: &Bytes) {
        if piece.len() < SHARED_BYTES_MIN {
            self.tail.extend_from_slice(piece);
            return;
        }
        if !self.tail.is_empty() {
            self.chunks.push_back(self.tail.split().freeze());
        }
        self.chunks.push_back(piece.clone());
    }
}
