//! The store: open, missing, put, get, size.

use crate::directory::{self, TABLE, TEMPORARY};
use crate::error::{ChunkError, Doing};
use crate::folders::{Content, Folders, OpenFolder};
use crate::limits::CHUNK_BYTES_MAX;
use crate::table::{Found, Kind, Table};
use bytes::Bytes;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tree::ChunkHash;
use vfs::{Call, Directory, Files, Lock, make_directory, reserve};

/// The chunks in a directory. Its methods may be called from any number of threads.
#[derive(Debug)]
pub struct Chunks {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) table: Table,
    pub(crate) folders: Folders,
    /// Held by the one `put` or batch of a sweep that is under way.
    writing: Mutex<()>,
    /// Chunks in the table that were found damaged.
    damaged: Mutex<HashSet<ChunkHash>>,
    _lock: Lock,
}

/// A chunk, as it was read.
#[derive(Debug)]
enum Read {
    Whole(Bytes),
    Absent,
    Damaged(PathBuf),
}

impl Chunks {
    /// Opens the store in a directory, or makes one if the directory is empty or missing. The directories above it must
    /// exist.
    ///
    /// # Errors
    /// `not-a-chunk-store`, `in-use`, `newer-format`, or the directory cannot be used.
    pub fn open(dir: &Path) -> Result<Self, ChunkError> {
        make_directory(dir)?;
        Self::open_in(Arc::new(Directory::new(dir)), &|name| {
            let folder = dir.join(name);
            make_directory(&folder)?;
            Ok(Arc::new(Directory::new(&folder)))
        })
    }

    /// Opens the store in a directory whose folders are opened by `folder`.
    pub(crate) fn open_in(files: Arc<dyn Files>, folder: &OpenFolder<'_>) -> Result<Self, ChunkError> {
        let (lock, has_marker) = directory::claim(&*files)?;
        directory::remove_leftovers(&*files)?;
        let names = files.list().doing("read", Call::Read, || files.path(""))?;
        let has_table = names.iter().any(|name| name == TABLE);
        if has_marker && !has_table {
            let what = "the table of the chunks is missing: restore the directory from a backup, or empty it to begin \
                        without chunks";
            return Err(ChunkError::corrupt(files.path(TABLE), what));
        }
        if !has_table {
            let temporary = format!("{TABLE}{TEMPORARY}");
            Table::create(&*files, &temporary)?;
            files.rename(&temporary, TABLE).doing("rename", Call::Name, || files.path(&temporary))?;
        }
        if !has_marker {
            directory::mark(&*files)?;
        }
        let table = Table::open(files.clone())?;
        let folders = Folders::open(folder)?;
        reserve::keep(&*files)?;
        // From here on, the folders' own names are durable.
        files.sync_dir().doing("sync", Call::Sync, || files.path(""))?;
        Ok(Self { files, table, folders, writing: Mutex::default(), damaged: Mutex::default(), _lock: lock })
    }

    /// Returns the chunks that the store does not have, in their order, each once. Chunks that were found damaged are
    /// among them; the others are durable.
    pub fn missing(&self, hashes: &[ChunkHash]) -> Result<Vec<ChunkHash>, ChunkError> {
        let has = self.table.has(hashes)?;
        let damaged = lock(&self.damaged);
        let mut seen = HashSet::new();
        let is_missing = |(hash, has): &(&ChunkHash, bool)| (!has || damaged.contains(hash)) && seen.insert(**hash);
        Ok(hashes.iter().zip(has).filter(is_missing).map(|(hash, _)| *hash).collect())
    }

    /// Stores chunks. All are durable on return; those that the store has are not written again, unless they were found
    /// damaged.
    ///
    /// # Errors
    /// None of the chunks were stored: `chunk-mismatch`, `chunk-too-large`, `no-room`, or a file cannot be written. The
    /// chunks of earlier calls are as they were. After `stopped` the store must be opened again.
    pub fn put(&self, chunks: &[(ChunkHash, Bytes)]) -> Result<(), ChunkError> {
        chunks.iter().try_for_each(check)?;
        let by_hash: BTreeMap<_, _> = chunks.iter().map(|(hash, bytes)| (*hash, bytes)).collect();
        let _writing = self.lock_to_write();
        let hashes: Vec<_> = by_hash.keys().copied().collect();
        let new: Vec<_> = self.missing(&hashes)?.into_iter().map(|hash| (hash, by_hash[&hash].clone())).collect();
        if new.is_empty() {
            return Ok(());
        }
        let large: Vec<_> = new.iter().filter(|(_, bytes)| Kind::of(bytes.len()) == Kind::Large).cloned().collect();
        let stored = self.folders.write(&large).and_then(|()| self.table.add(&new));
        if let Err(error) = stored {
            self.discard(&large);
            return Err(error);
        }
        let mut damaged = lock(&self.damaged);
        for (hash, _) in &new {
            damaged.remove(hash);
        }
        Ok(())
    }

    /// Removes the files of a failed `put`, which would keep a full disk full. A sweep removes those that stay.
    fn discard(&self, large: &[(ChunkHash, Bytes)]) {
        let hashes: Vec<_> = large.iter().map(|(hash, _)| *hash).collect();
        let Ok(has) = self.table.has(&hashes) else { return };
        for (hash, _) in hashes.iter().zip(has).filter(|(_, has)| !has) {
            let _ = self.folders.remove(hash);
        }
    }

    /// Returns the bytes of a chunk, or `None` if the store does not have it.
    ///
    /// # Errors
    /// `chunk-damaged`: the chunk is missing from now on, and another [`Chunks::put`] repairs it.
    pub fn get(&self, hash: &ChunkHash) -> Result<Option<Bytes>, ChunkError> {
        let read = match self.read(hash)? {
            // A sweep may have come between the table and the file.
            Read::Damaged(_) => {
                let _writing = self.lock_to_write();
                let again = self.read(hash)?;
                if matches!(again, Read::Damaged(_)) {
                    lock(&self.damaged).insert(*hash);
                }
                again
            }
            read => read,
        };
        match read {
            Read::Whole(bytes) => Ok(Some(bytes)),
            Read::Absent => Ok(None),
            Read::Damaged(path) => Err(ChunkError::Damaged { hash: *hash, path }),
        }
    }

    fn read(&self, hash: &ChunkHash) -> Result<Read, ChunkError> {
        Ok(match self.table.find(hash)? {
            None => Read::Absent,
            Some(Found::Small(bytes)) if ChunkHash::of(&bytes) == *hash => Read::Whole(bytes),
            Some(Found::Small(_)) => Read::Damaged(self.files.path(TABLE)),
            Some(Found::Large(bytes)) if bytes as usize > CHUNK_BYTES_MAX => Read::Damaged(self.files.path(TABLE)),
            Some(Found::Large(bytes)) => match self.folders.read(hash, bytes)? {
                Content::Whole(bytes) => Read::Whole(bytes),
                Content::Damaged | Content::Missing => Read::Damaged(self.folders.path(hash)),
            },
        })
    }

    /// Returns the number of chunks, and the sum of their lengths in bytes.
    pub fn size(&self) -> Result<(u64, u64), ChunkError> {
        self.table.totals()
    }

    /// Gives back the room that small chunks took which were removed, if that is most of the table's file. Otherwise
    /// redb keeps it for others. All other calls wait for as long as a copy of the small chunks that are left takes.
    ///
    /// # Errors
    /// A file cannot be written. A full disk is none: the room is given back another time.
    pub fn compact(&self) -> Result<(), ChunkError> {
        match self.table.compact() {
            Err(ChunkError::NoRoom { .. }) => Ok(()),
            compacted => compacted,
        }
    }

    /// Whether an earlier write failed in a way that leaves its outcome unknown: all calls fail until the store is
    /// opened again.
    pub fn is_stopped(&self) -> bool {
        self.table.is_stopped()
    }

    /// Waits until no other thread changes the store.
    pub(crate) fn lock_to_write(&self) -> MutexGuard<'_, ()> {
        lock(&self.writing)
    }

    /// Forgets the damage of chunks that were removed.
    pub(crate) fn forget_damage(&self, hashes: impl Iterator<Item = ChunkHash>) {
        let mut damaged = lock(&self.damaged);
        for hash in hashes {
            damaged.remove(&hash);
        }
    }
}

/// Compares a chunk with its name.
fn check((hash, bytes): &(ChunkHash, Bytes)) -> Result<(), ChunkError> {
    if bytes.len() > CHUNK_BYTES_MAX {
        return Err(ChunkError::TooLarge { hash: *hash, bytes: bytes.len() });
    }
    let got = ChunkHash::of(bytes);
    if got == *hash { Ok(()) } else { Err(ChunkError::Mismatch { expected: *hash, got }) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
