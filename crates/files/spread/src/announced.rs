//! Chunks of a site's uploads, which its subscribers may fetch before the switch.
//!
//! They are listed in the order in which they became durable. Each subscriber is told as fast as it reads. A subscriber
//! that falls behind by more than the list has learns of the rest with the offer.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::Bytes;
use tree::{ChunkHash, is_node};
use types::limits::HASHES_PER_MESSAGE_MAX;

/// The chunks in the list, the names of which take about one MiB.
const CHUNKS_MAX: usize = 16 * HASHES_PER_MESSAGE_MAX;

/// Returns the chunks of a publisher's message that are announced: its content, if it has more than `over` bytes of it.
/// Subscribers make the nodes of directories from the edits of an offer, and where one file of a large directory has
/// changed, its node is far larger than the edit.
pub(crate) fn announced_of(chunks: &[(ChunkHash, Bytes)], over: usize) -> Vec<(ChunkHash, u32)> {
    let content = chunks.iter().filter(|(_, bytes)| !is_node(bytes));
    let content: Vec<(ChunkHash, u32)> = content.map(|(hash, bytes)| (*hash, bytes.len() as u32)).collect();
    let is_large = content.iter().map(|(_, bytes)| *bytes as usize).sum::<usize>() > over;
    if is_large { content } else { Vec::new() }
}

/// The list.
#[derive(Debug, Default)]
pub(crate) struct Announced {
    chunks: VecDeque<(ChunkHash, u32)>,
    /// How many were before the first of them.
    before: u64,
}

/// The part of the list that a subscriber was told.
#[derive(Debug)]
pub(crate) struct Told {
    /// How many there were up to there.
    count: u64,
    /// How many of them it may not have read.
    unread: usize,
}

impl Told {
    /// Everything sent to the subscriber has left.
    pub(crate) fn has_room(&mut self) {
        self.unread = 0;
    }
}

impl Announced {
    /// Chunks have become durable.
    pub(crate) fn add(&mut self, chunks: &[(ChunkHash, u32)]) {
        self.chunks.extend(chunks);
        self.forget(self.chunks.len().saturating_sub(CHUNKS_MAX));
    }

    /// A subscriber that is told what comes next.
    pub(crate) fn begin(&self) -> Told {
        Told { count: self.before + self.chunks.len() as u64, unread: 0 }
    }

    /// Returns the chunks to tell a subscriber: as many as a message may have, less those that it may not have read.
    pub(crate) fn tell(&self, told: &mut Told) -> Vec<(ChunkHash, u32)> {
        let from = told.count.max(self.before);
        let room = HASHES_PER_MESSAGE_MAX - told.unread;
        let chunks = self.chunks.iter().skip((from - self.before) as usize).take(room);
        let chunks: Vec<(ChunkHash, u32)> = chunks.copied().collect();
        (told.count, told.unread) = (from + chunks.len() as u64, told.unread + chunks.len());
        chunks
    }

    /// Forgets what these subscribers were told. Without any, it is everything.
    pub(crate) fn forget_told<'a>(&mut self, all: impl Iterator<Item = &'a Told>) {
        let told = all.map(|told| told.count).min().unwrap_or(u64::MAX);
        self.forget(told.saturating_sub(self.before) as usize);
    }

    fn forget(&mut self, count: usize) {
        let count = count.min(self.chunks.len());
        self.chunks.drain(..count);
        self.before += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ops::Range;
    use tree::{Sink, write_directory};

    fn chunks(numbers: Range<usize>) -> Vec<(ChunkHash, u32)> {
        numbers.map(|number| (ChunkHash::of(&number.to_le_bytes()), number as u32)).collect()
    }

    #[test]
    fn content_is_announced_and_no_nodes() {
        struct Nodes(Vec<(ChunkHash, Bytes)>);
        impl Sink for Nodes {
            type Error = ();

            fn add(&mut self, hash: ChunkHash, bytes: Bytes) -> Result<(), ()> {
                self.0.push((hash, bytes));
                Ok(())
            }
        }
        let mut nodes = Nodes(Vec::new());
        write_directory(&[], &mut nodes).unwrap();
        let content = |text: &'static str| (ChunkHash::of(text.as_bytes()), Bytes::from(text));
        let chunks: Vec<_> = [content("one"), content("three")].into_iter().chain(nodes.0).collect();
        let named: Vec<_> = chunks[..2].iter().map(|(hash, bytes)| (*hash, bytes.len() as u32)).collect();
        assert_eq!((chunks.len(), announced_of(&chunks, 7)), (3, named));
        assert_eq!(announced_of(&chunks, 8), Vec::new());
    }

    #[test]
    fn each_subscriber_is_told_everything_once() {
        let mut announced = Announced::default();
        let (mut fast, mut slow) = (announced.begin(), announced.begin());
        announced.add(&chunks(0..3));
        assert_eq!((announced.tell(&mut fast), announced.tell(&mut fast)), (chunks(0..3), Vec::new()));
        announced.add(&chunks(3..5));
        assert_eq!((announced.tell(&mut fast), announced.tell(&mut slow)), (chunks(3..5), chunks(0..5)));
        announced.forget_told([&fast, &slow].into_iter());
        assert!(announced.chunks.is_empty());
        announced.add(&chunks(5..6));
        assert_eq!((announced.tell(&mut announced.begin()), announced.tell(&mut fast)), (Vec::new(), chunks(5..6)));
    }

    #[test]
    fn one_that_does_not_read_is_told_no_more_than_a_message_has() {
        let mut announced = Announced::default();
        let mut told = announced.begin();
        announced.add(&chunks(0..2 * HASHES_PER_MESSAGE_MAX));
        assert_eq!(announced.tell(&mut told), chunks(0..HASHES_PER_MESSAGE_MAX));
        assert_eq!(announced.tell(&mut told), Vec::new());
        announced.forget_told([&told].into_iter());
        told.has_room();
        assert_eq!(announced.tell(&mut told), chunks(HASHES_PER_MESSAGE_MAX..2 * HASHES_PER_MESSAGE_MAX));
    }

    #[test]
    fn the_list_is_bounded() {
        let mut announced = Announced::default();
        let mut told = announced.begin();
        announced.add(&chunks(0..CHUNKS_MAX));
        announced.add(&chunks(CHUNKS_MAX..CHUNKS_MAX + 7));
        assert_eq!(announced.tell(&mut told), chunks(7..7 + HASHES_PER_MESSAGE_MAX), "the oldest are forgotten");
    }
}
