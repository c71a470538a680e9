//! The parts of a site that a request needs: those in memory at once, and those on disk if the request may wait.

use crate::error::FilesError;
use crate::http::memory::Content;
use crate::http::refusal::Missed;
use crate::http::served::Served;
use bytes::Bytes;
use tree::{ChunkHash, Entry, Name, Piece, ReadError, Source, find, pieces};

/// A reader for one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) served: &'a Served,
    /// Whether it may wait for the disk and the store.
    pub(crate) waits: bool,
}

impl Reader<'_> {
    /// The entry of a name in a directory.
    pub(crate) fn entry(&self, directory: ChunkHash, name: &Name) -> Result<Option<Entry>, Missed> {
        let memory = &self.served.memory;
        let node = |hash: &ChunkHash| {
            let node = memory.node(hash).map_or_else(|| self.read(|it| memory.read_node(&*it.origin, hash)), Ok);
            node.map_err(ReadError::Source)
        };
        Ok(find(directory, name, node)?)
    }

    /// The pieces of a file's content.
    pub(crate) fn pieces(&self, size: u64, content: &tree::Content) -> Result<Vec<Piece>, Missed> {
        Ok(pieces(self, size, content)?)
    }

    /// The bytes of a piece.
    pub(crate) fn piece(&self, piece: &Piece) -> Result<Content, Missed> {
        let memory = &self.served.memory;
        memory.piece(piece).map_or_else(|| self.read(|it| memory.read_piece(&*it.origin, piece)), Ok)
    }

    /// Reads from the disk, if the request may wait.
    fn read<T>(&self, read: impl FnOnce(&Served) -> Result<T, FilesError>) -> Result<T, Missed> {
        if self.waits { read(self.served).map_err(Missed::from) } else { Err(Missed::OnDisk) }
    }
}

/// Lists of pieces.
impl Source for Reader<'_> {
    type Error = Missed;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, Missed> {
        let memory = &self.served.memory;
        memory.list(hash).map_or_else(|| self.read(|it| memory.read_list(&*it.origin, hash)), Ok)
    }
}
