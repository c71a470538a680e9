//! Chunks on their way to those who asked for them: as fast as each of them reads, and no faster.

use crate::messages::{Chunk, FromFileServer, Gone, Unread};
use crate::window::Window;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::mem;
use machine::{Output, Parcel, Port};
use tree::ChunkHash;
use types::limits::WANTS_PER_SESSION_MAX;

/// The bytes that were said to a session and have not left, beyond which nothing more is read for it.
const UNSENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The chunks that sessions wait for.
#[derive(Debug, Default)]
pub(crate) struct Wants {
    sessions: BTreeMap<Port, Session>,
    /// The sessions that wait for a read that is under way.
    reading: BTreeMap<ChunkHash, Vec<Port>>,
}

#[derive(Debug, Default)]
struct Session {
    queue: VecDeque<ChunkHash>,
    reads: usize,
    window: Window,
    unsent_bytes: usize,
    /// The driver has been asked to say when everything has left.
    awaits_room: bool,
}

impl Wants {
    /// A session asks for chunks. Returns whether it may have that many wants.
    pub(crate) fn want(&mut self, port: Port, hashes: Vec<ChunkHash>) -> bool {
        let session = self.sessions.entry(port).or_default();
        session.queue.extend(hashes);
        session.queue.len() + session.reads <= WANTS_PER_SESSION_MAX
    }

    /// Returns the reads to begin for a session.
    pub(crate) fn begin(&mut self, port: Port) -> Vec<ChunkHash> {
        let mut reads = Vec::new();
        let Some(session) = self.sessions.get_mut(&port) else { return reads };
        while session.window.allows(session.reads) && session.unsent_bytes < UNSENT_BYTES_MAX {
            let Some(hash) = session.queue.pop_front() else { break };
            session.reads += 1;
            let waiting = self.reading.entry(hash).or_default();
            if waiting.is_empty() {
                reads.push(hash);
            }
            waiting.push(port);
        }
        reads
    }

    /// A chunk was read, or is not there: it is said to all who wait for it. Returns them.
    pub(crate) fn read(&mut self, hash: ChunkHash, bytes: Option<&Bytes>, outputs: &mut VecDeque<Output>) -> Vec<Port> {
        let message: FromFileServer = match bytes {
            Some(bytes) => Chunk { hash, bytes: bytes.clone() }.into(),
            None => Gone { hash }.into(),
        };
        self.answer(hash, &message, bytes.map_or(0, Bytes::len), outputs)
    }

    /// A chunk could not be read: that is said to all who wait for it. Returns them.
    pub(crate) fn unread(&mut self, hash: ChunkHash, text: String, outputs: &mut VecDeque<Output>) -> Vec<Port> {
        self.answer(hash, &Unread { hash, text }.into(), 0, outputs)
    }

    fn answer(
        &mut self,
        hash: ChunkHash,
        message: &FromFileServer,
        bytes: usize,
        outputs: &mut VecDeque<Output>,
    ) -> Vec<Port> {
        let waiting = self.reading.remove(&hash).unwrap_or_default();
        for &port in &waiting {
            let Some(session) = self.sessions.get_mut(&port) else { continue };
            session.reads -= 1;
            outputs.push_back(Output::Send(port, Parcel::new(message.clone()), None));
            session.window.saw(bytes);
            session.unsent_bytes += bytes;
            if session.unsent_bytes >= UNSENT_BYTES_MAX && !mem::replace(&mut session.awaits_room, true) {
                outputs.push_back(Output::AwaitRoom(port));
            }
        }
        waiting
    }

    /// Everything that was said to a session has left.
    pub(crate) fn has_room(&mut self, port: Port) {
        if let Some(session) = self.sessions.get_mut(&port) {
            (session.unsent_bytes, session.awaits_room) = (0, false);
        }
    }

    /// Returns whether a session waits for a chunk.
    pub(crate) fn is_wanted(&self, hash: &ChunkHash) -> bool {
        self.reading.get(hash).is_some_and(|waiting| !waiting.is_empty())
    }

    /// A session is gone.
    pub(crate) fn lost(&mut self, port: Port) {
        self.sessions.remove(&port);
        self.reading.values_mut().for_each(|waiting| waiting.retain(|it| *it != port));
        self.reading.retain(|_, waiting| !waiting.is_empty());
    }
}
