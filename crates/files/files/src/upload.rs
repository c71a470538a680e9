//! Chunks on their way into the store: in batches, and only those that it does not have.

use crate::depot::Depot;
use crate::error::FilesError;
use crate::record::SiteName;
use bytes::Bytes;
use std::collections::HashSet;
use tree::{ChunkHash, Sink};

/// The bytes and the number of chunks that are written at a time.
const BATCH_BYTES: usize = 32 * 1024 * 1024;
const BATCH_CHUNKS: usize = 4096;

/// An upload: chunks are durable when it has ended.
pub(crate) struct Upload<'a> {
    depot: &'a dyn Depot,
    site: &'a SiteName,
    batch: Vec<(ChunkHash, Bytes)>,
    bytes: usize,
    /// The chunks that this upload has seen, which are in the store or in the batch.
    seen: HashSet<ChunkHash>,
    written: Written,
    /// Whether chunks that the store has are read, and written again if they are damaged.
    repairs: bool,
}

/// The chunks that an upload has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) chunks: u64,
    pub(crate) bytes: u64,
}

impl<'a> Upload<'a> {
    pub(crate) fn new(depot: &'a dyn Depot, site: &'a SiteName, repairs: bool) -> Self {
        Self { depot, site, batch: Vec::new(), bytes: 0, seen: HashSet::new(), written: Written::default(), repairs }
    }

    fn flush(&mut self) -> Result<(), FilesError> {
        let hashes: Vec<ChunkHash> = self.batch.iter().map(|(hash, _)| *hash).collect();
        if self.repairs {
            self.depot.check(&hashes)?;
        }
        let missing: HashSet<ChunkHash> = self.depot.missing(&hashes)?.into_iter().collect();
        self.batch.retain(|(hash, _)| missing.contains(hash));
        self.depot.put(self.site, &self.batch)?;
        self.written.chunks += self.batch.len() as u64;
        self.written.bytes += self.batch.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        self.batch.clear();
        self.bytes = 0;
        Ok(())
    }

    /// Writes the rest. All chunks that were added are durable when this returns (rule DurableFirst).
    pub(crate) fn end(mut self) -> Result<Written, FilesError> {
        self.flush()?;
        Ok(self.written)
    }
}

/// Chunks in memory, on their way into the store.
#[derive(Debug, Default)]
pub(crate) struct Made(pub(crate) Vec<(ChunkHash, Bytes)>);

impl Sink for Made {
    type Error = FilesError;

    fn add(&mut self, hash: ChunkHash, bytes: Bytes) -> Result<(), FilesError> {
        self.0.push((hash, bytes));
        Ok(())
    }
}

impl Sink for Upload<'_> {
    type Error = FilesError;

    fn add(&mut self, hash: ChunkHash, bytes: Bytes) -> Result<(), FilesError> {
        if self.seen.insert(hash) {
            self.bytes += bytes.len();
            self.batch.push((hash, bytes));
        }
        if self.bytes >= BATCH_BYTES || self.batch.len() >= BATCH_CHUNKS {
            self.flush()?;
        }
        Ok(())
    }
}
