//! All chunks in turn.

use crate::directory::TABLE;
use crate::error::ChunkError;
use crate::limits::PAGE_CHUNKS;
use crate::store::Chunks;
use crate::table::{Entry, Kind};
use tree::ChunkHash;

/// The state of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Its bytes are what its name stands for.
    Whole,
    /// Its bytes are others, or its file is missing. Another `put` repairs it.
    Damaged,
}

impl Chunks {
    /// Calls `visit` with the name and length of each chunk. Chunks that are put or swept at the same time may be
    /// visited or not.
    pub fn for_each(&self, mut visit: impl FnMut(&ChunkHash, u64)) -> Result<(), ChunkError> {
        self.walk(false, |entry| {
            visit(&entry.hash, entry.bytes);
            Ok(())
        })
    }

    /// Reads every chunk and reports its condition. Damaged chunks are missing from then on.
    ///
    /// # Errors
    /// The table cannot be read, or does not hold together, or a file cannot be read.
    pub fn verify(&self, mut report: impl FnMut(&ChunkHash, Condition)) -> Result<(), ChunkError> {
        self.walk(true, |entry| {
            if entry.kind == Kind::Small && entry.is_whole {
                report(&entry.hash, Condition::Whole);
                return Ok(());
            }
            match self.get(&entry.hash) {
                Ok(Some(_)) => report(&entry.hash, Condition::Whole),
                Err(ChunkError::Damaged { hash, .. }) => report(&hash, Condition::Damaged),
                // A small chunk that was damaged a moment ago has been swept, or its name in the table is damaged.
                Ok(None) if entry.kind == Kind::Small => report(&entry.hash, Condition::Damaged),
                Ok(None) => {}
                Err(error) => return Err(error),
            }
            Ok(())
        })
    }

    fn walk(&self, verify: bool, mut visit: impl FnMut(&Entry) -> Result<(), ChunkError>) -> Result<(), ChunkError> {
        let (before, mut visited) = (self.size()?, 0);
        for kind in [Kind::Small, Kind::Large] {
            let mut after = None;
            loop {
                let (entries, is_last) = self.table.page(kind, after, PAGE_CHUNKS, verify)?;
                entries.iter().try_for_each(&mut visit)?;
                visited += entries.len() as u64;
                after = entries.last().map(|entry| entry.hash).or(after);
                if is_last {
                    break;
                }
            }
        }
        if verify && visited != before.0 && before == self.size()? {
            let what = format!("the table has {} chunks, but only {visited} of them can be found", before.0);
            return Err(ChunkError::corrupt(self.files.path(TABLE), what));
        }
        Ok(())
    }
}
