//! Chunks that a member fetches ahead: those of an upload, before a switch makes them part of a revision.
//!
//! They have no number, so nothing serves them. They are fetched while nothing else is, and stay until a revision
//! relies on them, or their time is over: then the upload was given up.

use super::Member;
use crate::messages::Want;
use crate::rule::Way;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;
use tree::limits::CHUNK_BYTES_MAX;
use tree::{ChunkHash, Parts};
use types::Time;
use types::limits::HASHES_PER_MESSAGE_MAX;

/// The bytes that may be on their way: those of the largest chunk, so that the fetch of an offered revision waits for
/// no more than one chunk that it does not need.
const ON_THEIR_WAY_BYTES_MAX: usize = CHUNK_BYTES_MAX;

/// The most that an abandoned upload may take of a member until it is removed. On disk it is the bytes that a line of
/// 1 Gbit/s carries in half a minute, and in memory a few MiB for the names of chunks.
const BYTES_MAX: u64 = 4 << 30;
const CHUNKS_MAX: usize = 1 << 16;

/// How long chunks stay after the last announcement, in intervals of collections: ten minutes, as a publisher that
/// reads many unchanged files sends nothing for a while.
const QUIET_INTERVALS: u32 = 10;

/// How long they stay while other uploads are announced: a day.
const INTERVALS: u32 = 1440;

/// The chunks of uploads.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The chunks to ask for, with their sizes.
    queue: VecDeque<(ChunkHash, u32)>,
    /// The requested chunks.
    asked: BTreeMap<ChunkHash, u32>,
    /// The chunks that have arrived.
    here: BTreeMap<ChunkHash, u32>,
    here_bytes: u64,
    /// When the first of them was announced, and the end of their time.
    since: Option<Time>,
    until: Option<Time>,
    /// The disk could not store one: no others are fetched until then.
    is_full: bool,
}

impl Ahead {
    /// The end of their time, if there are any.
    pub(super) fn until(&self) -> Option<Time> {
        self.until
    }

    /// The chunks that have come.
    pub(super) fn here(&self) -> impl Iterator<Item = &ChunkHash> {
        self.here.keys()
    }

    fn count(&self) -> usize {
        self.queue.len() + self.asked.len() + self.here.len()
    }

    fn announced(&mut self, now: Time, interval: Duration, chunks: Vec<(ChunkHash, u32)>) {
        if self.is_full {
            return;
        }
        let since = *self.since.get_or_insert(now);
        self.until = Some((now + interval * QUIET_INTERVALS).min(since + interval * INTERVALS));
        let room = CHUNKS_MAX.saturating_sub(self.count());
        self.queue.extend(chunks.into_iter().take(room));
    }

    /// Takes the next chunk to ask for, as far as bytes are bounded.
    fn next(&mut self) -> Option<ChunkHash> {
        loop {
            let (hash, bytes) = *self.queue.front()?;
            let on_their_way: u64 = self.asked.values().map(|bytes| u64::from(*bytes)).sum();
            let is_slow = !self.asked.is_empty() && on_their_way + u64::from(bytes) > ON_THEIR_WAY_BYTES_MAX as u64;
            if is_slow || self.here_bytes + on_their_way + u64::from(bytes) > BYTES_MAX {
                return None;
            }
            self.queue.pop_front();
            if !self.asked.contains_key(&hash) && !self.here.contains_key(&hash) {
                self.asked.insert(hash, bytes);
                return Some(hash);
            }
        }
    }

    /// A chunk has come that was asked for.
    pub(super) fn arrived(&mut self, hash: ChunkHash, bytes: usize) {
        if self.asked.remove(&hash).is_some() {
            self.here.insert(hash, bytes as u32);
            self.here_bytes += bytes as u64;
        }
    }

    /// A chunk is no longer ahead: a revision relies on it or lacks it, or it could not be fetched or stored. Returns
    /// whether it was ahead.
    pub(super) fn remove(&mut self, hash: &ChunkHash) -> bool {
        if let Some(bytes) = self.here.remove(hash) {
            self.here_bytes -= u64::from(bytes);
            return true;
        }
        self.asked.remove(hash).is_some()
    }

    /// A session is lost: a chunk is asked for again in the next one. Returns whether it was asked for ahead.
    pub(super) fn ask_again(&mut self, hash: ChunkHash) -> bool {
        let Some(bytes) = self.asked.remove(&hash) else { return false };
        self.queue.push_front((hash, bytes));
        true
    }

    /// Ends the protection of the chunks that are here, but for those that are being stored. Returns whether any were
    /// protected.
    fn end(&mut self, storing: &BTreeMap<ChunkHash, u32>) -> bool {
        let before = self.here.len();
        self.queue.clear();
        self.here.retain(|hash, _| storing.contains_key(hash));
        self.here_bytes = self.here.values().map(|bytes| u64::from(*bytes)).sum();
        self.here.len() < before
    }
}

impl Member {
    fn ends_ahead(&self) -> Time {
        self.now + self.config.collect_after * QUIET_INTERVALS
    }

    /// Chunks of an upload are announced.
    pub(super) fn announced(&mut self, chunks: Vec<(ChunkHash, u32)>) {
        if !self.is_lazy() && self.parts() == Parts::Whole {
            self.ahead.announced(self.now, self.config.collect_after, chunks);
        }
    }

    /// Asks for chunks ahead while nothing else is fetched.
    pub(super) fn fetch_ahead(&mut self) {
        let waits = self.fetch.is_some() || self.needs_room || self.retry_at.is_some() || !self.queue.is_empty();
        let (may_ask, mut hashes) = (self.is_up && !waits && !self.is_lazy(), Vec::new());
        while may_ask && self.window.allows(self.wanted.len() + self.storing.len()) {
            let Some(hash) = self.ahead.next() else { break };
            if self.wanted.insert(hash) {
                hashes.push(hash);
            } else {
                self.ahead.remove(&hash);
            }
        }
        for hashes in hashes.chunks(HASHES_PER_MESSAGE_MAX) {
            self.ask(Want { hashes: hashes.to_vec() });
        }
    }

    /// Drops the chunks that were fetched ahead, as the disk cannot store more. Returns whether a collection can make
    /// room.
    pub(super) fn give_up_ahead(&mut self) -> bool {
        (self.ahead.is_full, self.ahead.until) = (true, Some(self.ends_ahead()));
        self.ahead.end(&self.storing)
    }

    /// Drops the chunks that were fetched ahead when their time is over.
    pub(super) fn end_ahead(&mut self) {
        if self.ahead.until.take_if(|until| *until <= self.now).is_none() || self.is_broken(Way::KeepAhead) {
            return;
        }
        (self.ahead.since, self.ahead.is_full) = (None, false);
        if self.ahead.end(&self.storing) {
            self.collect_at.get_or_insert(self.now);
        }
        if self.ahead.count() > 0 {
            self.ahead.until = Some(self.ends_ahead());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(number: u64, bytes: u32) -> (ChunkHash, u32) {
        (ChunkHash::of(&number.to_le_bytes()), bytes)
    }

    #[test]
    fn announcements_that_never_stop_protect_chunks_for_a_day() {
        let (mut ahead, minute) = (Ahead::default(), Duration::from_secs(60));
        for number in 0..2000 {
            ahead.announced(Time::ZERO + minute * number, minute, Vec::from([chunk(number.into(), 1)]));
            let until = Time::ZERO + minute * (number + 10).min(1440);
            assert_eq!(ahead.until(), Some(until));
        }
    }

    #[test]
    fn chunks_and_their_bytes_are_bounded() {
        let (mut ahead, large) = (Ahead::default(), CHUNK_BYTES_MAX as u32);
        let chunks = (0..2 * CHUNKS_MAX as u64).map(|number| chunk(number, large)).collect();
        ahead.announced(Time::ZERO, Duration::from_secs(60), chunks);
        assert_eq!(ahead.count(), CHUNKS_MAX);
        let mut come = 0;
        while let Some(hash) = ahead.next() {
            assert_eq!(ahead.next(), None, "another one is on its way");
            ahead.arrived(hash, CHUNK_BYTES_MAX);
            come += CHUNK_BYTES_MAX as u64;
        }
        assert_eq!(come, BYTES_MAX);
        assert!(ahead.end(&BTreeMap::new()) && ahead.count() == 0 && ahead.here_bytes == 0);
    }
}
