//! Chunks in a directory, as the disks of a file server and a member use them.

use crate::error::FilesError;
use bytes::Bytes;
use chunks::Chunks;
use std::collections::HashSet;
use tree::{ChunkHash, Part, Parts, Source, mark};

/// Chunks as the source of trees.
pub(crate) struct Stored<'a>(pub(crate) &'a Chunks);

impl Source for Stored<'_> {
    type Error = FilesError;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, FilesError> {
        self.0.get(hash)?.ok_or(FilesError::MissingChunk(*hash))
    }

    fn chunk_at_hand(&self, hash: &ChunkHash) -> Result<Option<Bytes>, FilesError> {
        if self.0.is_in_bucket(hash)? { Ok(None) } else { self.chunk(hash).map(Some) }
    }
}

impl Stored<'_> {
    /// Returns for each chunk whether it is there.
    pub(crate) fn has(&self, hashes: &[ChunkHash]) -> Result<Vec<bool>, FilesError> {
        let missing: HashSet<ChunkHash> = self.0.missing(hashes)?.into_iter().collect();
        Ok(hashes.iter().map(|hash| !missing.contains(hash)).collect())
    }

    /// Returns the chunks that these parts of the trees do not need, with their bytes, and removes the files that
    /// interrupted writes have left.
    pub(crate) fn unused(&self, parts: Parts, roots: &[ChunkHash]) -> Result<Vec<(ChunkHash, u32)>, FilesError> {
        let used = Used::of_parts(self, parts, roots)?;
        let mut unused = Vec::new();
        self.0.for_each(|hash, bytes| {
            if !used.has(hash) {
                unused.push((*hash, bytes as u32));
            }
        })?;
        match self.0.remove_leftovers() {
            // Its leftovers stay until the next collection, and take nothing but room.
            Err(error) if !error.is_of_bucket() => Err(error.into()),
            _ => Ok(unused),
        }
    }
}

/// The chunks that trees need. A file may have the bytes of a node, and then its chunk is both.
pub(crate) struct Used(HashSet<(ChunkHash, Part)>);

impl Used {
    /// The chunks of these trees.
    pub(crate) fn of(source: &impl Source<Error = FilesError>, roots: &[ChunkHash]) -> Result<Self, FilesError> {
        Self::of_parts(source, Parts::Whole, roots)
    }

    fn of_parts(
        source: &impl Source<Error = FilesError>,
        parts: Parts,
        roots: &[ChunkHash],
    ) -> Result<Self, FilesError> {
        let mut used = HashSet::new();
        for root in roots {
            mark(source, *root, |hash, part| {
                (parts == Parts::Whole || part == Part::Directory) && used.insert((*hash, part))
            })?;
        }
        Ok(Self(used))
    }

    /// Whether a chunk is one of them.
    pub(crate) fn has(&self, hash: &ChunkHash) -> bool {
        Part::ALL.iter().any(|part| self.0.contains(&(*hash, *part)))
    }
}
