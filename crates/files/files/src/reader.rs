//! The parts of a site that a reader needs: those in memory at once, and those on disk if the reader may wait.

use crate::error::FilesError;
use crate::memory::{Content, Memory};
use crate::origin::{NotRead, Origin};
use bytes::Bytes;
use std::sync::Arc;
use tree::{ChunkHash, Entry, Name, Node, Piece, ReadError, Source, find, pieces};

/// A reader of a site.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) origin: &'a dyn Origin,
    pub(crate) memory: &'a Memory,
    /// Whether it may wait for the disk and the store.
    pub(crate) waits: bool,
}

impl Reader<'_> {
    /// The entry of a name in a directory.
    pub(crate) fn entry(&self, directory: ChunkHash, name: &Name) -> Result<Option<Entry>, NotRead> {
        Ok(find(directory, name, |hash| self.node(hash).map_err(ReadError::Source))?)
    }

    /// The pieces of a file's content.
    pub(crate) fn pieces(&self, size: u64, content: &tree::Content) -> Result<Vec<Piece>, NotRead> {
        Ok(pieces(self, size, content)?)
    }

    /// The bytes of a piece.
    pub(crate) fn piece(&self, piece: &Piece) -> Result<Content, NotRead> {
        self.memory.piece(piece).map_or_else(|| self.read(|it| it.memory.read_piece(it.origin, piece)), Ok)
    }

    /// The whole content of a small file.
    pub(crate) fn whole(&self, size: u64, content: &tree::Content) -> Result<Vec<u8>, NotRead> {
        if let tree::Content::Inline(bytes) = content {
            return Ok(bytes.to_vec());
        }
        let mut whole = Vec::new();
        for piece in self.pieces(size, content)? {
            whole.extend_from_slice(&self.piece(&piece)?.bytes);
        }
        Ok(whole)
    }

    fn node(&self, hash: &ChunkHash) -> Result<Arc<Node>, NotRead> {
        self.memory.node(hash).map_or_else(|| self.read(|it| it.memory.read_node(it.origin, hash)), Ok)
    }

    /// Reads from the disk, if the reader may wait.
    fn read<T>(&self, read: impl FnOnce(&Self) -> Result<T, FilesError>) -> Result<T, NotRead> {
        if self.waits { Ok(read(self)?) } else { Err(NotRead::OnDisk) }
    }
}

/// Lists of pieces.
impl Source for Reader<'_> {
    type Error = NotRead;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, NotRead> {
        self.memory.list(hash).map_or_else(|| self.read(|it| it.memory.read_list(it.origin, hash)), Ok)
    }
}
