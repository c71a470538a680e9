//! All chunks in turn.

use crate::directory::TABLE;
use crate::error::ChunkError;
use crate::limits::{BUCKET_READS_MAX, PAGE_CHUNKS};
use crate::store::Chunks;
use crate::table::{Entry, Kind};
use bytes::Bytes;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use tree::ChunkHash;

/// The outcome of a read.
type Got = Result<Option<Bytes>, ChunkError>;

/// The state of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Its bytes are what its name stands for.
    Whole,
    /// Its bytes are others, or its file or object is missing. Another `put` repairs it.
    Damaged,
}

impl Chunks {
    /// Calls `visit` with the name and length of each chunk. Chunks that are put or swept at the same time may be
    /// visited or not.
    pub fn for_each(&self, mut visit: impl FnMut(&ChunkHash, u64)) -> Result<(), ChunkError> {
        self.walk(false, |entry, _| {
            visit(&entry.hash, entry.bytes);
            Ok(())
        })
    }

    /// Reads every chunk and reports its condition. Damaged chunks are missing from then on.
    ///
    /// # Errors
    /// The table cannot be read, or does not hold together, or a file cannot be read.
    pub fn verify(&self, mut report: impl FnMut(&ChunkHash, Condition)) -> Result<(), ChunkError> {
        self.walk(true, |entry, read| {
            if entry.kind == Kind::Small && entry.is_whole {
                report(&entry.hash, Condition::Whole);
                return Ok(());
            }
            match read.unwrap_or_else(|| self.get(&entry.hash)) {
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

    /// Reads chunks, several at a time, as each may have to wait for a bucket. In their order.
    ///
    /// # Errors
    /// Each read has those of [`Chunks::get`].
    pub fn get_each(&self, hashes: &[ChunkHash]) -> Vec<Result<Option<Bytes>, ChunkError>> {
        let (next, read) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(hashes.len())));
        let reader = || {
            while let at = next.fetch_add(1, Ordering::Relaxed)
                && let Some(hash) = hashes.get(at)
            {
                let got = self.get(hash);
                read.lock().unwrap_or_else(PoisonError::into_inner).push((at, got));
            }
        };
        if self.bucket.is_some() {
            thread::scope(|scope| (0..hashes.len().min(BUCKET_READS_MAX)).for_each(|_| drop(scope.spawn(reader))));
        } else {
            reader();
        }
        let mut read = read.into_inner().unwrap_or_else(PoisonError::into_inner);
        read.sort_unstable_by_key(|(at, _)| *at);
        read.into_iter().map(|(_, got)| got).collect()
    }

    fn walk(
        &self,
        verify: bool,
        mut visit: impl FnMut(&Entry, Option<Got>) -> Result<(), ChunkError>,
    ) -> Result<(), ChunkError> {
        let (before, mut visited) = (self.size()?, 0);
        for kind in [Kind::Small, Kind::Large, Kind::Object] {
            let mut after = None;
            loop {
                let (entries, is_last) = self.table.page(kind, after, PAGE_CHUNKS, verify)?;
                for group in entries.chunks(BUCKET_READS_MAX) {
                    let reads_ahead = verify && kind == Kind::Object;
                    let hashes: Vec<_> = group.iter().filter(|_| reads_ahead).map(|entry| entry.hash).collect();
                    let mut got = self.get_each(&hashes).into_iter();
                    group.iter().try_for_each(|entry| visit(entry, got.next()))?;
                }
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
