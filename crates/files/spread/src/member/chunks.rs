//! Chunks at a member: asked for, stored, and asked for again.

use super::Member;
use super::work::Work;
use crate::messages::Want;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use tree::ChunkHash;
use types::limits::HASHES_PER_MESSAGE_MAX;

impl Member {
    pub(super) fn ask_for_chunks(&mut self) {
        let mut hashes = Vec::new();
        while self.is_up && self.window.allows(self.wanted.len() + self.storing.len()) {
            let Some(hash) = self.content.next_or_of(&mut self.queue) else { break };
            if self.wanted.insert(hash) {
                hashes.push(hash);
            }
        }
        for hashes in hashes.chunks(HASHES_PER_MESSAGE_MAX) {
            self.ask(Want { hashes: hashes.to_vec() });
        }
    }

    pub(super) fn arrived(&mut self, hash: ChunkHash, bytes: Bytes) {
        if self.wanted.remove(&hash) {
            self.window.saw(bytes.len());
            self.fetched = (self.fetched.0 + 1, self.fetched.1 + bytes.len() as u64);
            self.ahead.arrived(hash, bytes.len());
            self.storing.insert(hash, bytes.len() as u32);
            self.condemned.spare([&hash]);
            self.work(Work::Put(hash, bytes));
        }
    }

    pub(super) fn stored(&mut self, hash: ChunkHash, stored: Result<bool, String>) {
        let Some(bytes) = self.storing.remove(&hash) else { return };
        if self.content_stored(hash, bytes, &stored) {
            if self.retry_at.is_none() {
                self.ask_for_chunks();
            }
            return;
        }
        let is_ahead = stored != Ok(true) && self.ahead.remove(&hash);
        match stored {
            // The fetch of a revision asks for what it lacks.
            Ok(false) if is_ahead => {}
            Err(_) if is_ahead => {
                if self.give_up_ahead() {
                    self.collect_at = Some(self.now);
                }
            }
            Ok(true) => {
                if self.mending.remove(&hash) && self.mending.is_empty() && self.fetch.is_none() {
                    self.trouble = None;
                }
                let is_whole = self.fetch.as_mut().is_some_and(|fetch| {
                    fetch.has(&hash);
                    fetch.is_whole()
                });
                if is_whole { self.switch() } else { self.descend() }
            }
            Ok(false) => {
                if !self.asks_again() {
                    self.queue.push_back(hash);
                }
                self.retry_later(format!("chunk {hash} does not match its name as the store or relay sent it"));
            }
            Err(why) => {
                self.give_up_content();
                let target = self.fetch.as_ref().map(|fetch| fetch.revision.number);
                let is_older = target.is_some_and(|target| target < self.newest_number());
                if is_older || self.give_up_ahead() || self.asks_again() {
                    self.make_room();
                } else {
                    self.queue.push_back(hash);
                }
                self.retry_later(why);
            }
        }
        if self.retry_at.is_none() {
            self.ask_for_chunks();
        }
    }

    /// The server does not have a chunk. It may be of a revision that is gone there, and then there is a newer one.
    pub(super) fn gone(&mut self, hash: ChunkHash) {
        if !self.wanted.remove(&hash) {
            return;
        }
        self.content_gone(hash);
        self.ahead.remove(&hash);
        let target = self.fetch.as_ref().filter(|fetch| fetch.lacks(&hash)).map(|fetch| fetch.revision.number);
        if target.is_some_and(|target| target < self.newest_number()) {
            self.give_up();
        } else if target.is_some() && self.asks_again() {
            self.trouble = Some(format!("the store does not send chunk {hash}: it is missing or damaged there"));
        } else if target.is_some() || self.mending.contains(&hash) {
            if target.is_none() {
                // It may be of a revision that is gone there.
                self.kept.doubt();
                self.collect_at.get_or_insert(self.now + self.config.collect_after);
            }
            self.queue.push_back(hash);
            self.retry_later(format!("the store does not send chunk {hash}: it is missing or damaged there"));
        }
    }

    /// The server cannot read a chunk at the moment: it is asked for again in a while, if it is still needed.
    pub(super) fn unread(&mut self, hash: ChunkHash, why: &str) {
        if !self.wanted.remove(&hash) {
            return;
        }
        self.ahead.remove(&hash);
        self.content_unread(hash, why);
        let why = format!("the store cannot read chunk {hash} at the moment: {why}");
        let is_lacked = self.fetch.as_ref().is_some_and(|fetch| fetch.lacks(&hash));
        if is_lacked && self.asks_again() {
            self.trouble = Some(why);
        } else if is_lacked || self.mending.contains(&hash) {
            self.queue.push_back(hash);
            self.retry_later(why);
        }
    }

    /// Ends the fetch of a revision. The disk may have room for the next one once its chunks, or those fetched ahead,
    /// are removed.
    pub(super) fn make_room(&mut self) {
        self.give_up();
        (self.needs_room, self.collect_at) = (true, Some(self.now));
    }

    /// Ends the fetch of a revision whose chunks are gone at the server.
    pub(super) fn give_up(&mut self) {
        self.end_fetch();
        self.queue.clear();
        self.queue.extend(&self.mending);
    }
}
