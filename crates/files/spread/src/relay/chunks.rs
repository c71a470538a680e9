//! Chunks at a relay: those it has, and those it asks its file server for.

use super::Relay;
use crate::messages::Want;
use crate::rule::Way;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use machine::Port;
use tree::ChunkHash;
use types::GoodbyeReason;
use types::limits::HASHES_PER_MESSAGE_MAX;

/// The chunks that the file server is asked for at a time.
const ASKED_MAX: usize = HASHES_PER_MESSAGE_MAX;

impl Relay {
    pub(super) fn want(&mut self, port: Port, hashes: Vec<ChunkHash>) {
        if !self.chunks.wants.want(port, hashes) {
            return self.end(port, GoodbyeReason::Protocol, "more chunks are asked for than were answered");
        }
        self.read_for(port);
    }

    /// Says the chunks that a member has room for and that are here, and asks for the others.
    pub(super) fn read_for(&mut self, port: Port) {
        loop {
            let (chunks, mut said) = (&mut self.chunks, false);
            for hash in chunks.wants.begin(port) {
                if let Some(bytes) = chunks.cache.get(&hash) {
                    chunks.wants.read(hash, Some(&bytes), &mut self.outputs);
                    said = true;
                } else if !chunks.asked.contains(&hash) {
                    chunks.queue.push_back(hash);
                }
            }
            if !said {
                break;
            }
        }
        self.ask_for_chunks();
    }

    pub(super) fn ask_for_chunks(&mut self) {
        while self.is_up && self.chunks.asked.len() < ASKED_MAX && !self.chunks.queue.is_empty() {
            let count = (ASKED_MAX - self.chunks.asked.len()).min(self.chunks.queue.len());
            let hashes: Vec<ChunkHash> = self.chunks.queue.drain(..count).collect();
            self.chunks.asked.extend(&hashes);
            self.ask(Want { hashes });
        }
    }

    pub(super) fn arrived(&mut self, hash: ChunkHash, bytes: Option<Bytes>) {
        if !self.chunks.asked.remove(&hash) {
            return;
        }
        // A chunk that does not match its name is dropped.
        let bytes = bytes.filter(|bytes| ChunkHash::of(bytes) == hash || self.is_broken(Way::BelieveChunk));
        if let Some(bytes) = &bytes {
            self.chunks.fetched += 1;
            self.chunks.cache.put(hash, bytes.clone());
        }
        for port in self.chunks.wants.read(hash, bytes.as_ref(), &mut self.outputs) {
            self.read_for(port);
        }
        self.ask_for_chunks();
    }

    /// The file server cannot read a chunk at the moment.
    pub(super) fn unread(&mut self, hash: ChunkHash, why: String) {
        if self.chunks.asked.remove(&hash) {
            for port in self.chunks.wants.unread(hash, why, &mut self.outputs) {
                self.read_for(port);
            }
            self.ask_for_chunks();
        }
    }
}
