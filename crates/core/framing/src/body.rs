//! The raw part of a message, as far as it has arrived, and as its values are taken from it.

use crate::arrival::UNSEEN_BYTES_MAX;
use alloc::vec::{self, Vec};
use bytes::Bytes;

/// The longest run of a body that is received into one piece of memory, in bytes. In one run a large body would have to
/// be moved, in the middle of its arrival, each time that the room for it grows.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// A body on its way in, in chunks. Room for each is made when something of it has arrived.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    chunks: Vec<Vec<u8>>,
    bytes: usize,
}

impl Arriving {
    /// The number of bytes that have arrived.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Moves bytes from the front of `arrived` here until there are `len` of them.
    pub(crate) fn fill(&mut self, len: usize, arrived: &mut &[u8]) {
        while self.bytes < len && !arrived.is_empty() {
            if self.chunks.last().is_none_or(|chunk| chunk.len() == chunk.capacity()) {
                let room = (len - self.bytes).min(self.bytes.clamp(UNSEEN_BYTES_MAX, CHUNK_BYTES_MAX));
                self.chunks.push(Vec::with_capacity(room));
            }
            let chunk = self.chunks.last_mut().expect("just seen to");
            let room = (chunk.capacity() - chunk.len()).min(len - self.bytes);
            let (taken, rest) = arrived.split_at(room.min(arrived.len()));
            chunk.extend_from_slice(taken);
            self.bytes += taken.len();
            *arrived = rest;
        }
    }
}

/// A body that has arrived, and what is left of it.
#[derive(Debug)]
pub(crate) struct Body {
    first: Bytes,
    others: vec::IntoIter<Vec<u8>>,
    /// In all of it.
    bytes: usize,
}

impl Body {
    /// The number of bytes that are left.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The next `len` bytes, which must be there: shared with the body, or copied where they are in two chunks.
    pub(crate) fn take(&mut self, len: usize) -> Bytes {
        self.bytes -= len;
        if len <= self.first.len() {
            return self.first.split_to(len);
        }
        let mut taken = Vec::with_capacity(len);
        while taken.len() < len {
            if self.first.is_empty() {
                self.first = self.others.next().expect("as many bytes as it says").into();
            }
            let part = self.first.split_to((len - taken.len()).min(self.first.len()));
            taken.extend_from_slice(&part);
        }
        taken.into()
    }
}

impl From<Vec<u8>> for Body {
    fn from(whole: Vec<u8>) -> Self {
        Self { bytes: whole.len(), first: whole.into(), others: Vec::new().into_iter() }
    }
}

impl From<Arriving> for Body {
    fn from(Arriving { chunks, bytes }: Arriving) -> Self {
        Self { bytes, first: Bytes::new(), others: chunks.into_iter() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_takes_room_as_it_arrives_and_is_never_moved() {
        let all: Vec<u8> = (0..3 * CHUNK_BYTES_MAX + 5).map(|at| (at % 251) as u8).collect();
        let mut arriving = Arriving::default();
        let mut places = Vec::new();
        for mut part in all.chunks(10_000) {
            arriving.fill(all.len(), &mut part);
            assert!(part.is_empty());
            let room: usize = arriving.chunks.iter().map(Vec::capacity).sum();
            assert!(room <= 2 * arriving.bytes() + UNSEEN_BYTES_MAX, "{room} for {}", arriving.bytes());
            let now: Vec<_> = arriving.chunks.iter().map(Vec::as_ptr).collect();
            assert_eq!(now[..places.len()], places[..]);
            places = now;
        }
        let mut body = Body::from(arriving);
        let mut at = 0;
        while body.bytes() > 0 {
            let len = body.bytes().min(60_000);
            assert_eq!(body.take(len), all[at..at + len]);
            at += len;
        }
        assert_eq!(at, all.len());
    }
}
