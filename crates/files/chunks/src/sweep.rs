//! Removal of unused chunks.
//!
//! The table forgets chunks before their files and objects are removed, so a kill in between leaves some that are not
//! in the table, which the next sweep removes. Objects are removed in the background: a sweep waits for no bucket.

use crate::bucket::Bucket;
use crate::error::ChunkError;
use crate::limits::PAGE_CHUNKS;
use crate::store::Chunks;
use crate::table::{Entry, Kind};
use std::collections::HashSet;
use tree::ChunkHash;
use vfs::reserve;

/// The chunks that a sweep has removed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Their number.
    pub chunks: u64,
    /// The sum of their lengths.
    pub bytes: u64,
    /// Files and objects of an interrupted `put` or sweep that were removed, too.
    pub leftovers: u64,
}

impl Chunks {
    /// Removes the chunks for which `is_used` returns false, a batch at a time, and calls `progress` after each batch.
    ///
    /// No `put` runs while `is_used` is asked about a batch and the batch is removed, so `is_used` must not call
    /// the store. It must
    /// return true for every chunk that a caller of [`Chunks::missing`] or [`Chunks::put`] relies on, from before that
    /// call on.
    ///
    /// # Errors
    /// A file cannot be written. The batches before are removed; the sweep can be repeated. `bucket`: all unused chunks
    /// are removed, and objects may be left over.
    pub fn sweep(
        &self,
        is_used: impl Fn(&ChunkHash) -> bool,
        mut progress: impl FnMut(Swept),
    ) -> Result<Swept, ChunkError> {
        let mut swept = Swept::default();
        // Their files make room for the table's changes, should the disk be full.
        for kind in [Kind::Large, Kind::Object, Kind::Small] {
            let mut after = None;
            loop {
                let (last, is_last) = self.sweep_batch(kind, after, &is_used, &mut swept)?;
                progress(swept);
                after = last.or(after);
                if is_last {
                    break;
                }
            }
        }
        swept.leftovers = self.remove_leftovers()?;
        progress(swept);
        Ok(swept)
    }

    /// Sweeps the next chunks of a kind. Returns the last of them, and whether it was the last of all.
    fn sweep_batch(
        &self,
        kind: Kind,
        after: Option<ChunkHash>,
        is_used: &dyn Fn(&ChunkHash) -> bool,
        swept: &mut Swept,
    ) -> Result<(Option<ChunkHash>, bool), ChunkError> {
        let _writing = self.lock_to_write();
        let (entries, is_last) = self.table.page(kind, after, PAGE_CHUNKS, false)?;
        let last = entries.last().map(|entry| entry.hash);
        let unused: Vec<_> = entries.into_iter().filter(|entry| !is_used(&entry.hash)).collect();
        self.remove_entries(unused, swept)?;
        Ok((last, is_last))
    }

    /// Removes these chunks, as far as the store has them.
    ///
    /// # Errors
    /// A file cannot be written. Some of the chunks may be removed; the call can be repeated.
    pub fn remove(&self, hashes: &[ChunkHash]) -> Result<Swept, ChunkError> {
        let _writing = self.lock_to_write();
        let mut swept = Swept::default();
        // Their files make room for the table's changes, should the disk be full.
        let mut entries = self.table.entries(hashes)?;
        entries.sort_by_key(|entry| entry.kind == Kind::Small);
        self.remove_entries(entries, &mut swept)?;
        Ok(swept)
    }

    /// Removes files and objects that an interrupted `put` or sweep has left, and returns how many there were.
    ///
    /// # Errors
    /// A folder cannot be read or written. `bucket`: there is no file left.
    pub fn remove_leftovers(&self) -> Result<u64, ChunkError> {
        let removed = (0..=u8::MAX).map(|first| self.sweep_leftovers(first)).sum::<Result<u64, ChunkError>>()?;
        reserve::keep(&*self.files)?;
        let objects = self.bucket.as_ref().map_or(Ok(0), |bucket| self.sweep_objects(bucket))?;
        Ok(removed + objects)
    }

    /// Removes objects that are not in the table. While one is written, it is under way: from before it can be listed
    /// until it is in the table. So an object is a leftover if it is listed, afterwards not under way, and after that
    /// not in the table.
    fn sweep_objects(&self, bucket: &Bucket) -> Result<u64, ChunkError> {
        bucket.settle();
        let (mut after, mut removed) = (None, 0);
        loop {
            let (mut listed, last) = bucket.list(after.as_deref())?;
            listed.retain(|object| !bucket.is_under_way(object));
            let hashes: Vec<_> = listed.iter().map(|object| object.hash).collect();
            let entries = self.table.entries(&hashes)?.into_iter().filter(|entry| entry.kind == Kind::Object);
            let used: HashSet<_> = entries.map(|entry| entry.object()).collect();
            listed.retain(|object| !used.contains(object));
            removed += listed.len() as u64;
            if !listed.is_empty() {
                bucket.remove(listed)?;
            }
            after = last;
            if after.is_none() {
                return Ok(removed);
            }
        }
    }

    fn remove_entries(&self, unused: Vec<Entry>, swept: &mut Swept) -> Result<(), ChunkError> {
        if unused.is_empty() {
            return Ok(());
        }
        self.forget(&unused)?;
        self.forget_damage(unused.iter().map(|entry| entry.hash));
        if let Some(bucket) = &self.bucket {
            let objects = unused.iter().filter(|entry| entry.kind == Kind::Object);
            bucket.remove_later(objects.map(Entry::object).collect());
        }
        for entry in unused {
            if entry.kind == Kind::Large {
                self.folders.remove(&entry.hash)?;
            }
            swept.chunks += 1;
            swept.bytes += entry.bytes;
        }
        Ok(())
    }

    /// Removes chunks from the table. On a full disk even that needs room: the reserve makes some.
    fn forget(&self, unused: &[Entry]) -> Result<(), ChunkError> {
        match self.table.remove(unused) {
            Err(ChunkError::NoRoom { .. }) if reserve::give_up(&*self.files) => self.table.remove(unused),
            removed => removed,
        }
    }

    fn sweep_leftovers(&self, first: u8) -> Result<u64, ChunkError> {
        let _writing = self.lock_to_write();
        let files = self.folders.list(first)?;
        let has = self.table.has_file(&files)?;
        let mut removed = 0;
        for (hash, _) in files.iter().zip(has).filter(|(_, has)| !has) {
            self.folders.remove(hash)?;
            removed += 1;
        }
        Ok(removed)
    }
}
