//! Content at a member that keeps a part of it: fetched for readers, and removed when it takes more than its bytes.
//!
//! ```text
//!   want --Want--> asked --Chunk, Put--> here, read --let_go--> kept --the bytes are needed--> removed
//!                    | Gone            | the disk cannot store it, and has no content to remove
//!                    +--> gone         +--> unkept: the reader learns which
//! ```
//! 1. Directories of kept revisions are not here: nothing removes them to make room (**HoldUnion**). A chunk that
//!    becomes a node of a newer revision leaves this list before it is relied on.
//! 2. The content that was used longest ago is removed first. Content for which a reader waits, or that it is about to
//!    read, stays.
//! 3. A chunk is asked for once, however many readers wait for it, and again in the next session.
//! 4. Readers and the fetch of a revision take turns to ask: neither waits until the other needs nothing.

use super::fetch::Stage;
use super::work::Work;
use super::{FetchedContent, Member, RETRY_AFTER};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use machine::{Output, Waiter};
use tree::{ChunkHash, Parts};
use types::Map;

/// The readers that may wait at a time. Others are refused.
const READERS_MAX: usize = 4096;

/// The first number of a reader that waits: those below are of other waiters.
const FIRST_READER: u64 = 1;

/// Chunks that are removed at a time.
const BATCH_CHUNKS: usize = 512;

/// The content that is here, and its readers.
#[derive(Debug)]
pub(super) struct Content {
    /// The bytes that it may take; none if all of it is kept, which is not listed here.
    bytes_max: Option<u64>,
    /// The bytes to come down to, below `bytes_max` when the disk could not store more.
    bytes_goal: u64,
    here: Recent,
    readers: BTreeMap<ChunkHash, Readers>,
    readers_count: usize,
    last_reader: u64,
    /// Content to ask for.
    queue: VecDeque<ChunkHash>,
    /// Content that the server could not read, to be asked for again in a while.
    unread: Vec<ChunkHash>,
    /// Whether readers have the next turn to ask.
    is_turn: bool,
    /// Whether the record names no content, so that it can be removed.
    pub(super) is_recorded: bool,
    /// Whether chunks are being removed.
    is_removing: bool,
    pub(super) removed: u64,
}

/// The readers of a chunk.
#[derive(Debug)]
struct Readers {
    state: FetchedContent,
    waiters: BTreeSet<u64>,
}

/// Chunks with their bytes, in the order of their last use.
#[derive(Debug, Default)]
struct Recent {
    chunks: Map<ChunkHash, (u32, i64)>,
    used: BTreeMap<i64, ChunkHash>,
    bytes: u64,
}

impl Recent {
    /// Adds a chunk as the one that was used last, or longest ago.
    fn add(&mut self, hash: ChunkHash, bytes: u32, is_old: bool) {
        self.remove(&hash);
        let at = match (self.used.first_key_value(), self.used.last_key_value()) {
            (Some((first, _)), _) if is_old => first - 1,
            (_, Some((last, _))) => last + 1,
            _ => 0,
        };
        self.used.insert(at, hash);
        self.chunks.insert(hash, (bytes, at));
        self.bytes += u64::from(bytes);
    }

    fn remove(&mut self, hash: &ChunkHash) -> Option<u32> {
        let (bytes, at) = self.chunks.remove(hash)?;
        self.used.remove(&at);
        self.bytes -= u64::from(bytes);
        Some(bytes)
    }

    fn has(&self, hash: &ChunkHash) -> bool {
        self.chunks.contains_key(hash)
    }

    fn used(&mut self, hash: &ChunkHash) {
        if let Some((bytes, _)) = self.chunks.get(hash).copied() {
            self.add(*hash, bytes, false);
        }
    }
}

impl Content {
    /// Content of at most so many bytes. `is_recorded` if there is no record, or one without content.
    pub(super) fn new(bytes_max: Option<u64>, is_recorded: bool) -> Self {
        Self {
            bytes_max,
            bytes_goal: bytes_max.unwrap_or(u64::MAX),
            here: Recent::default(),
            readers: BTreeMap::new(),
            readers_count: 0,
            last_reader: FIRST_READER,
            queue: VecDeque::new(),
            unread: Vec::new(),
            is_turn: true,
            is_recorded,
            is_removing: false,
            removed: 0,
        }
    }

    /// The parts of a revision that are fetched before it is served.
    pub(super) fn parts(&self) -> Parts {
        if self.bytes_max.is_some() { Parts::Directories } else { Parts::Whole }
    }

    /// The bytes of content that are here, and the most of them; zeros where all is kept.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.here.bytes, self.bytes_max.unwrap_or_default())
    }

    /// The chunks for which readers wait.
    pub(super) fn waiting(&self) -> usize {
        self.readers.values().filter(|it| it.state == FetchedContent::Later).count()
    }

    /// Content is here that was not asked for.
    pub(super) fn came(&mut self, hash: ChunkHash, bytes: u32) {
        self.here.add(hash, bytes, false);
    }

    /// Chunks are here that no directory needs: whatever was not known is the first to be removed.
    pub(super) fn found(&mut self, chunks: impl Iterator<Item = (ChunkHash, u32)>) {
        for (hash, bytes) in chunks {
            if !self.here.has(&hash) {
                self.here.add(hash, bytes, true);
            }
        }
        self.is_recorded = true;
    }

    /// A revision relies on chunks, which are nodes of its directories.
    pub(super) fn rely_on(&mut self, hashes: &[ChunkHash]) {
        for hash in hashes {
            self.here.remove(hash);
        }
    }

    /// Whether a chunk is read, or waited for.
    pub(super) fn is_read(&self, hash: &ChunkHash) -> bool {
        self.readers.contains_key(hash)
    }

    /// Takes the next chunk to ask for.
    fn next(&mut self) -> Option<ChunkHash> {
        while let Some(hash) = self.queue.pop_front() {
            if self.readers.get(&hash).is_some_and(|it| it.state == FetchedContent::Later) {
                return Some(hash);
            }
        }
        None
    }

    /// Takes the next chunk to ask for: in turns one for readers, and one of `others`.
    pub(super) fn next_or_of(&mut self, others: &mut VecDeque<ChunkHash>) -> Option<ChunkHash> {
        self.is_turn = !self.is_turn;
        if self.is_turn {
            others.pop_front().or_else(|| self.next())
        } else {
            self.next().or_else(|| others.pop_front())
        }
    }

    /// Queues a chunk once more, if a reader still waits. Returns whether it is content.
    pub(super) fn ask_again(&mut self, hash: ChunkHash) -> bool {
        let is_read = self.is_read(&hash);
        if is_read {
            self.queue.push_front(hash);
        }
        is_read
    }

    /// Queues what the server could not read once more, if readers still wait.
    pub(super) fn ask_for_unread(&mut self) {
        for hash in mem::take(&mut self.unread) {
            self.ask_again(hash);
        }
    }

    /// Tells the readers of a chunk its state.
    fn tell(&mut self, hash: &ChunkHash, state: FetchedContent, outputs: &mut VecDeque<Output>) {
        if let Some(readers) = self.readers.get_mut(hash) {
            readers.state = state;
            outputs.extend(readers.waiters.iter().map(|waiter| Output::Wake(Waiter(*waiter))));
        }
    }

    /// Takes the chunks to remove, if there is too much.
    fn excess(&mut self) -> Vec<ChunkHash> {
        let mut bytes = self.here.bytes;
        let mut excess = Vec::new();
        for hash in self.here.used.values().filter(|hash| !self.readers.contains_key(*hash)) {
            if bytes <= self.bytes_goal || excess.len() >= BATCH_CHUNKS {
                break;
            }
            bytes -= u64::from(self.here.chunks[hash].0);
            excess.push(*hash);
        }
        if excess.len() < BATCH_CHUNKS {
            self.bytes_goal = self.bytes_max.unwrap_or(u64::MAX);
        }
        for hash in &excess {
            self.here.remove(hash);
        }
        self.removed += excess.len() as u64;
        excess
    }
}

impl Member {
    /// The parts of a revision that are fetched before it is served.
    pub(super) fn parts(&self) -> Parts {
        self.content.parts()
    }

    /// Asks for content that is not here, for a reader, who is woken under this number when it is, or cannot be.
    /// `is_missing` if the disk does not have what was said to be here. None if too many readers wait.
    ///
    /// The reader calls [`Member::let_go`] when it has read the content, or waits no longer.
    pub fn want(&mut self, hash: ChunkHash, is_missing: bool) -> Option<Waiter> {
        if self.content.readers_count >= READERS_MAX {
            return None;
        }
        let is_here = self.content.here.has(&hash) && !is_missing;
        let is_coming = self.wanted.contains(&hash) || self.storing.contains_key(&hash);
        let content = &mut self.content;
        content.last_reader += 1;
        content.readers_count += 1;
        let (reader, state) = (content.last_reader, FetchedContent::Later);
        let waiters = BTreeSet::new();
        let readers = content.readers.entry(hash).or_insert(Readers { state: FetchedContent::Gone, waiters });
        readers.waiters.insert(reader);
        if is_here {
            readers.state = FetchedContent::Here;
        } else if readers.state != FetchedContent::Later {
            readers.state = state;
            if !is_coming {
                content.queue.push_back(hash);
            }
            self.ask_for_chunks();
        }
        Some(Waiter(reader))
    }

    /// Returns the state of content that a reader waits for.
    pub fn wanted(&self, hash: &ChunkHash) -> FetchedContent {
        self.content.readers.get(hash).map_or(FetchedContent::Gone, |readers| readers.state)
    }

    /// A reader has read the content that it wanted, or waits no longer.
    pub fn let_go(&mut self, hash: ChunkHash, reader: Waiter) {
        let Some(readers) = self.content.readers.get_mut(&hash) else { return };
        if readers.waiters.remove(&reader.0) {
            self.content.readers_count -= 1;
        }
        if readers.waiters.is_empty() {
            self.content.readers.remove(&hash);
            self.make_room_for_content();
        }
    }

    /// Content was read from the disk.
    pub fn used(&mut self, hash: &ChunkHash) {
        self.content.here.used(hash);
    }

    /// Whether a chunk is content for readers, and nothing that a revision needs to be served.
    fn is_for_readers(&self, hash: &ChunkHash) -> bool {
        let is_node = self.fetch.as_ref().is_some_and(|fetch| fetch.lacks(hash)) || self.mending.contains(hash);
        self.parts() == Parts::Directories && !is_node
    }

    /// Content was stored, or could not be. Returns false if the chunk is something else.
    pub(super) fn content_stored(&mut self, hash: ChunkHash, bytes: u32, stored: &Result<bool, String>) -> bool {
        let is_for_readers = self.is_for_readers(&hash);
        match stored {
            Ok(true) => {
                if is_for_readers {
                    self.content.came(hash, bytes);
                    if self.fetch.is_none() && self.mending.is_empty() && self.retry_at.is_none() {
                        self.trouble = None;
                    }
                }
                self.content.tell(&hash, FetchedContent::Here, &mut self.outputs);
            }
            Ok(false) if is_for_readers => {
                self.content.ask_again(hash);
                self.retry_later(format!("chunk {hash} does not match its name as the store or relay sent it"));
            }
            Err(why) if is_for_readers => {
                if self.give_up_content() {
                    self.content.ask_again(hash);
                    self.retry_later(why.clone());
                } else {
                    self.content.tell(&hash, FetchedContent::Unkept, &mut self.outputs);
                    self.trouble = Some(why.clone());
                }
            }
            _ => {}
        }
        is_for_readers
    }

    /// The server does not have a chunk that readers wait for.
    pub(super) fn content_gone(&mut self, hash: ChunkHash) {
        if self.content.is_read(&hash) {
            self.content.tell(&hash, FetchedContent::Gone, &mut self.outputs);
            if self.is_for_readers(&hash) {
                self.trouble = Some(format!("the store does not send chunk {hash}: it is missing or damaged there"));
            }
        }
    }

    /// The server cannot read a chunk at the moment that readers wait for: it is asked for again.
    pub(super) fn content_unread(&mut self, hash: ChunkHash, why: &str) {
        if self.content.is_read(&hash) {
            self.content.unread.push(hash);
            self.retry_later(format!("the store cannot read chunk {hash} at the moment: {why}"));
        }
    }

    /// Removes half of the content, as the disk cannot store more. Returns whether some can be removed.
    pub(super) fn give_up_content(&mut self) -> bool {
        let content = &mut self.content;
        let can_remove = content.here.used.values().any(|hash| !content.readers.contains_key(hash));
        // The content that is being removed makes room for the content on its way.
        if can_remove && !content.is_removing && content.here.bytes <= content.bytes_goal {
            content.bytes_goal = content.here.bytes / 2;
        }
        content.is_removing || can_remove
    }

    /// Removes content if it takes more than its bytes.
    pub(super) fn make_room_for_content(&mut self) {
        // The nodes that a fetch relies on are known when it has looked, and the content that came with an offer, too.
        let looks = self.lost_looks > 0 || self.fetch.as_ref().is_some_and(|fetch| fetch.stage == Stage::Descending);
        if looks || self.content.is_removing || !self.content.is_recorded {
            return;
        }
        let excess = self.content.excess();
        if !excess.is_empty() {
            // The disk may have found them before they are removed.
            self.condemned.spare(&excess);
            self.content.is_removing = true;
            self.work(Work::Sweep(excess));
        }
    }

    /// Content was removed, or the disk failed. Then it is looked for what is there.
    pub(super) fn content_removed(&mut self, removed: Result<(), String>) {
        self.content.is_removing = false;
        if let Err(why) = removed {
            // A collection under way continues: its outcome must not be taken for that of the next one.
            self.trouble = Some(why);
            self.collect_at.get_or_insert(self.now + RETRY_AFTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(number: u64) -> ChunkHash {
        ChunkHash::of(&number.to_le_bytes())
    }

    #[test]
    fn content_that_was_used_longest_ago_is_removed_first() {
        let mut content = Content::new(Some(30), true);
        (1..=3).for_each(|number| content.came(chunk(number), 10));
        content.here.used(&chunk(1));
        content.found([(chunk(1), 10), (chunk(4), 10)].into_iter());
        assert_eq!((content.bytes(), content.excess()), ((40, 30), Vec::from([chunk(4)])));
        content.came(chunk(5), 25);
        assert_eq!(content.excess(), [chunk(2), chunk(3), chunk(1)]);
        assert_eq!((content.bytes().0, content.excess().len(), content.removed), (25, 0, 4));
    }
}
