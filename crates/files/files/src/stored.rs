//! The store's chunks as the source of trees. A chunk is verified when it is read (rule VerifyChunk).

use crate::error::FilesError;
use bytes::Bytes;
use chunks::Chunks;
use tree::{ChunkHash, Source};

/// The store's chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a>(pub(crate) &'a Chunks);

impl Source for Stored<'_> {
    type Error = FilesError;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, FilesError> {
        self.0.get(hash)?.ok_or(FilesError::MissingChunk(*hash))
    }
}
