//! The chunks that publishers are going to need. They are not swept while the publisher's session lasts, and for a
//! lease afterwards, so that an interrupted publisher finds its chunks.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use machine::Port;
use tree::ChunkHash;
use types::limits::UPLOAD_CHUNKS_MAX;
use types::{Set, Time};

/// The uploads of all publishers.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    sessions: BTreeMap<Port, Set<ChunkHash>>,
    /// Uploads whose session is gone, and until when each is protected.
    ended: Vec<(Time, Set<ChunkHash>)>,
}

impl Uploads {
    /// A publisher names chunks. Returns whether it may name so many.
    pub(super) fn add(&mut self, port: Port, hashes: &[ChunkHash]) -> bool {
        let upload = self.sessions.entry(port).or_default();
        if upload.len() + hashes.len() > UPLOAD_CHUNKS_MAX {
            return false;
        }
        upload.extend(hashes);
        true
    }

    /// A publish was made, or its session is gone: what it has named is protected until then.
    pub(super) fn end(&mut self, port: Port, until: Time) {
        if let Some(upload) = self.sessions.remove(&port) {
            self.ended.push((until, upload));
        }
    }

    /// Another server has protected these chunks: so does this one, until then.
    pub(super) fn keep(&mut self, hashes: Vec<ChunkHash>, until: Time) {
        if !hashes.is_empty() {
            self.ended.push((until, hashes.into_iter().collect()));
        }
    }

    /// A publish was made: its tree protects what it has named.
    pub(super) fn done(&mut self, port: Port) {
        self.sessions.remove(&port);
    }

    /// Forgets those whose time is over. Returns whether there were any: their chunks may be unused.
    pub(super) fn forget(&mut self, now: Time) -> bool {
        let before = self.ended.len();
        self.ended.retain(|(until, _)| now < *until);
        self.ended.len() < before
    }

    /// When the time of one is over next.
    pub(super) fn next_end(&self) -> Option<Time> {
        self.ended.iter().map(|(until, _)| *until).min()
    }

    /// The chunks of these sessions, and of those that have ended.
    pub(super) fn of(&self, is_meant: impl Fn(Port) -> bool) -> impl Iterator<Item = &ChunkHash> {
        let meant = self.sessions.iter().filter(move |(port, _)| is_meant(**port)).map(|(_, upload)| upload);
        meant.chain(self.ended.iter().map(|(_, upload)| upload)).flatten()
    }

    /// All chunks that are protected.
    pub(super) fn chunks(&self) -> impl Iterator<Item = &ChunkHash> {
        self.sessions.values().chain(self.ended.iter().map(|(_, upload)| upload)).flatten()
    }
}
