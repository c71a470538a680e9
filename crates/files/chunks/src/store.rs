//! The store: open, missing, put, get, size.

use crate::bucket::{Bucket, Object};
use crate::directory::{self, Home, Marker, TABLE, TEMPORARY};
use crate::error::{ChunkError, Doing};
use crate::folders::{Content, Folders, OpenFolder};
use crate::limits::CHUNK_BYTES_MAX;
use crate::table::{Entry, Found, Kind, New, Table};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tree::{ChunkHash, is_node};
use vfs::{Call, Directory, Files, Lock, Overlay, make_directory, reserve};

/// The chunks in a directory. Its methods may be called from any number of threads.
#[derive(Debug)]
pub struct Chunks {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) table: Table,
    pub(crate) folders: Folders,
    /// The bucket that the marker names.
    pub(crate) home: Option<Home>,
    pub(crate) bucket: Option<Bucket>,
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

/// Opens the bucket of a home.
pub(crate) type OpenBucket<'a> = dyn Fn(&Home) -> Result<Bucket, ChunkError> + 'a;

impl Chunks {
    /// Opens the store in a directory, or makes one if the directory is empty or missing. The directories above it must
    /// exist. The bucket that its marker names is not asked yet, so a store opens while that fails.
    ///
    /// # Errors
    /// `not-a-chunk-store`, `in-use`, `newer-format`, `no-object-storage`, or the directory cannot be used.
    pub fn open(dir: &Path) -> Result<Self, ChunkError> {
        make_directory(dir)?;
        let folder = |name: &str| -> Result<Arc<dyn Files>, _> {
            let folder = dir.join(name);
            make_directory(&folder)?;
            Ok(Arc::new(Directory::new(&folder)))
        };
        Self::open_in(Arc::new(Directory::new(dir)), &folder, &|home| Bucket::connect(&home.url, home.owner, dir))
    }

    /// Opens the store in a directory to read it. Nothing there is changed: what redb repairs when it opens the table
    /// is repaired in memory.
    ///
    /// # Errors
    /// `not-a-chunk-store`, `in-use`, `newer-format`, `damaged`, `no-object-storage`, or the directory cannot be read.
    pub fn open_to_read(dir: &Path) -> Result<Self, ChunkError> {
        let only_read = |dir: &Path| -> Arc<dyn Files> { Arc::new(Overlay(Arc::new(Directory::new(dir)))) };
        let files = only_read(dir);
        let (lock, Marker { bucket: home }) = directory::claim_to_read(&*files)?;
        let table = Table::open(files.clone())?;
        let bucket = home.as_ref().map(|home| Bucket::connect(&home.url, home.owner, dir)).transpose()?;
        let folders = Folders::open_to_read(|name| only_read(&dir.join(name)));
        let (writing, damaged) = Default::default();
        Ok(Self { files, table, folders, home, bucket, writing, damaged, _lock: lock })
    }

    /// Opens the store in a directory whose folders are opened by `folder`, and its bucket by `bucket`.
    pub(crate) fn open_in(
        files: Arc<dyn Files>,
        folder: &OpenFolder<'_>,
        bucket: &OpenBucket<'_>,
    ) -> Result<Self, ChunkError> {
        let (lock, marker) = directory::claim(&*files)?;
        directory::remove_leftovers(&*files)?;
        let names = files.list().doing("read", Call::Read, || files.path(""))?;
        let has_table = names.iter().any(|name| name == TABLE);
        if marker.is_some() && !has_table {
            let what = "the table of the chunks is missing: restore the directory from a backup, or empty it to begin \
                        without chunks";
            return Err(ChunkError::corrupt(files.path(TABLE), what));
        }
        if !has_table {
            let temporary = format!("{TABLE}{TEMPORARY}");
            Table::create(&*files, &temporary)?;
            files.rename(&temporary, TABLE).doing("rename", Call::Name, || files.path(&temporary))?;
        }
        let home = if let Some(Marker { bucket }) = marker {
            bucket
        } else {
            directory::mark(&*files, &Marker { bucket: None })?;
            None
        };
        let table = Table::open(files.clone())?;
        let bucket = home.as_ref().map(bucket).transpose()?;
        if let Some(bucket) = &bucket
            && !table.has_objects()?
        {
            bucket.allow_claim();
        }
        let folders = Folders::open(folder)?;
        reserve::keep(&*files)?;
        // From here on, the folders' own names are durable.
        files.sync_dir().doing("sync", Call::Sync, || files.path(""))?;
        let (writing, damaged) = Default::default();
        Ok(Self { files, table, folders, home, bucket, writing, damaged, _lock: lock })
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
    /// None of the chunks were stored: `chunk-mismatch`, `chunk-too-large`, `no-room`, `bucket`, or a file cannot be
    /// written. The chunks of earlier calls are as they were. After `stopped` the store must be opened again.
    pub fn put(&self, chunks: &[(ChunkHash, Bytes)]) -> Result<(), ChunkError> {
        chunks.iter().try_for_each(check)?;
        let by_hash: BTreeMap<_, _> = chunks.iter().map(|(hash, bytes)| (*hash, bytes)).collect();
        let hashes: Vec<_> = by_hash.keys().copied().collect();
        let Some(bucket) = &self.bucket else { return self.put_missing(&by_hash, &HashMap::new()) };
        // Not as the writer, who would keep others waiting for the bucket.
        let missing = self.missing(&hashes)?.into_iter().map(|hash| (hash, by_hash[&hash].clone()));
        let far: Vec<_> = missing.filter(|(_, bytes)| self.is_for_bucket(bytes)).collect();
        if far.is_empty() {
            return self.put_missing(&by_hash, &HashMap::new());
        }
        let uploaded = bucket.upload(&far)?;
        let puts: HashMap<_, _> = uploaded.objects().iter().map(|object| (object.hash, object.put)).collect();
        let stored = self.put_missing(&by_hash, &puts);
        // Another call may have stored the same chunks, or the table may have no room for these.
        let hashes: Vec<_> = puts.keys().copied().collect();
        if let Ok(entries) = self.table.entries(&hashes) {
            let used: HashSet<_> = entries.iter().map(|entry| (entry.hash, entry.put)).collect();
            let unused = uploaded.objects().iter().filter(|object| !used.contains(&(object.hash, object.put)));
            bucket.remove_later(unused.copied().collect());
        }
        stored
    }

    /// Stores those chunks that are missing. Large ones whose puts are named are objects, the others become files.
    fn put_missing(
        &self,
        by_hash: &BTreeMap<ChunkHash, &Bytes>,
        puts: &HashMap<ChunkHash, u64>,
    ) -> Result<(), ChunkError> {
        let _writing = self.lock_to_write();
        let hashes: Vec<_> = by_hash.keys().copied().collect();
        let new = self.missing(&hashes)?.into_iter();
        let new: Vec<_> =
            new.map(|hash| New { hash, bytes: by_hash[&hash].clone(), put: puts.get(&hash).copied() }).collect();
        if new.is_empty() {
            return Ok(());
        }
        let new_hashes: Vec<_> = new.iter().map(|new| new.hash).collect();
        let replaced = if puts.is_empty() { Vec::new() } else { self.table.entries(&new_hashes)? };
        let is_file = |new: &&New| new.put.is_none() && Kind::of(new.bytes.len()) == Kind::Large;
        let large: Vec<_> = new.iter().filter(is_file).map(|new| (new.hash, new.bytes.clone())).collect();
        let stored = self.folders.write(&large).and_then(|()| self.table.add(&new));
        if let Err(error) = stored {
            self.discard(&large);
            return Err(error);
        }
        if let Some(bucket) = &self.bucket {
            let replaced = replaced.iter().filter(|entry| entry.kind == Kind::Object);
            bucket.remove_later(replaced.map(Entry::object).collect());
        }
        let mut damaged = lock(&self.damaged);
        for hash in &new_hashes {
            damaged.remove(hash);
        }
        Ok(())
    }

    /// Whether it puts large chunks into a bucket.
    pub fn has_bucket(&self) -> bool {
        self.bucket.is_some()
    }

    /// Whether a `put` of these chunks may have to wait for a bucket.
    pub fn waits_for_bucket(&self, chunks: &[(ChunkHash, Bytes)]) -> bool {
        self.bucket.is_some() && chunks.iter().any(|(_, bytes)| self.is_for_bucket(bytes))
    }

    /// Whether a chunk is in a bucket, which a `get` would have to wait for.
    pub fn is_in_bucket(&self, hash: &ChunkHash) -> Result<bool, ChunkError> {
        let entries = if self.home.is_some() { self.table.entries(&[*hash])? } else { Vec::new() };
        Ok(entries.iter().any(|entry| entry.kind == Kind::Object))
    }

    /// Why the bucket cannot be used, if its last request has failed.
    pub fn bucket_trouble(&self) -> Option<String> {
        self.bucket.as_ref()?.trouble()
    }

    /// Ends the requests to the bucket: calls that wait for it fail, now and later.
    pub fn end_bucket(&self) {
        if let Some(bucket) = &self.bucket {
            bucket.end();
        }
    }

    /// Whether a chunk that is missing goes to the bucket. Nodes of trees stay on the disk.
    fn is_for_bucket(&self, bytes: &Bytes) -> bool {
        self.bucket.is_some() && Kind::of(bytes.len()) == Kind::Large && !is_node(bytes)
    }

    /// Removes the files of a failed `put`, which would keep a full disk full. A sweep removes those that stay.
    fn discard(&self, large: &[(ChunkHash, Bytes)]) {
        let hashes: Vec<_> = large.iter().map(|(hash, _)| *hash).collect();
        let Ok(has) = self.table.has_file(&hashes) else { return };
        for (hash, _) in hashes.iter().zip(has).filter(|(_, has)| !has) {
            let _ = self.folders.remove(hash);
        }
    }

    /// Returns the bytes of a chunk, or `None` if the store does not have it.
    ///
    /// # Errors
    /// `chunk-damaged`: the chunk is missing from now on, and another [`Chunks::put`] repairs it. `bucket`: it is not
    /// known what the chunk is like.
    pub fn get(&self, hash: &ChunkHash) -> Result<Option<Bytes>, ChunkError> {
        if let Some(bucket) = &self.bucket
            && let Some(Found::Object(object, bytes)) = self.table.find(hash)?
        {
            return self.get_object(bucket, object, bytes);
        }
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

    /// Reads an object that is in the table.
    fn get_object(&self, bucket: &Bucket, mut object: Object, mut bytes: u32) -> Result<Option<Bytes>, ChunkError> {
        let hash = object.hash;
        loop {
            let is_sane = bytes as usize <= CHUNK_BYTES_MAX;
            if is_sane && let Content::Whole(bytes) = bucket.read(&object, bytes)? {
                return Ok(Some(bytes));
            }
            // A sweep or a repair may have come between the table and the bucket.
            match self.table.find(&hash)? {
                Some(Found::Object(other, length)) if other != object => (object, bytes) = (other, length),
                Some(Found::Object(..)) => break,
                Some(_) => return self.get(&hash),
                None => return Ok(None),
            }
        }
        lock(&self.damaged).insert(hash);
        // Unless it was repaired or swept just now, as only chunks in the table can be damaged.
        let is_repaired = !matches!(self.table.find(&hash)?, Some(Found::Object(other, _)) if other == object);
        if is_repaired {
            lock(&self.damaged).remove(&hash);
            return self.get(&hash);
        }
        Err(ChunkError::Damaged { hash, path: bucket.path(&object) })
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
            // The marker that named its bucket was replaced by hand.
            Some(Found::Object(object, _)) => Read::Damaged(object.name().into()),
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
    /// A file cannot be written. On a full disk, the room is given back another time.
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
