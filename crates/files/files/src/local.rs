//! The sites of a store in a directory, which this process has open.

mod locks;

use self::locks::{Locks, Meeting, Switching};
use crate::depot::{Collected, Depot, Follower, NewTree, Publishing, Switched};
use crate::error::FilesError;
use crate::line::lock;
use crate::locks::Lock;
use crate::record::{Revision, SiteName};
use crate::records::Records;
use crate::stored::Used;
use bytes::Bytes;
use chunks::{BucketUrl, ChunkError, Chunks};
use spread::server_work::{Compare, Merged, MergedTree};
use spread::{SiteSettings, trees};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tree::{ChunkHash, Sides, Source};
use vfs::make_directory;

/// The folder of the chunks in a store's directory, and that of the indexes of published directories.
pub(crate) const CHUNKS: &str = "chunks";
const INDEXES: &str = "indexes";

/// Chunks that are read at a time to find damaged ones.
const CHECKS_AT_A_TIME: usize = 32;

/// The file that marks the directory of a store.
pub(crate) const STORE_MARKER: &str = "thorp-store";

/// Chunks and records in a directory.
#[derive(Debug)]
pub(crate) struct Local {
    dir: PathBuf,
    records: Records,
    chunks: Arc<Chunks>,
    /// Held for reading by publishes and for writing by a collection: the chunks of a publish are in no revision yet.
    publishing: RwLock<()>,
    locks: Arc<Locks>,
    /// Chunks that were read ahead from a bucket.
    ahead: Mutex<HashMap<ChunkHash, Bytes>>,
}

impl Local {
    /// Opens the chunks in the directory of a store, whose records are open.
    pub(crate) fn open(records: Records, dir: &Path) -> Result<Self, FilesError> {
        Ok(Self::of(records, dir, Arc::new(open_chunks(dir)?)))
    }

    /// Opens the chunks in the directory of a store to read them. Nothing there is changed.
    pub(crate) fn open_to_read(records: Records, dir: &Path) -> Result<Self, FilesError> {
        Ok(Self::of(records, dir, Arc::new(Chunks::open_to_read(&dir.join(CHUNKS))?)))
    }

    /// Chunks that this process has open, in the directory of a store.
    pub(crate) fn of(records: Records, dir: &Path, chunks: Arc<Chunks>) -> Self {
        Self {
            dir: dir.to_owned(),
            records,
            chunks,
            publishing: RwLock::default(),
            locks: Arc::default(),
            ahead: Mutex::default(),
        }
    }
}

/// Opens the chunks in the directory of a store. Their folder is made if there is none.
pub(crate) fn open_chunks(dir: &Path) -> Result<Chunks, FilesError> {
    Ok(Chunks::open(&make_folder(dir)?)?)
}

/// Has the store in a directory, which no process has open, put large chunks into a bucket from now on. The directory
/// records it.
///
/// # Errors
/// A bucket that cannot be used, has the chunks of another store, or lacks those of this one.
pub fn keep_chunks_in_bucket(dir: &Path, url: &BucketUrl) -> Result<(), FilesError> {
    Ok(Chunks::keep_in_bucket(&make_folder(dir)?, url)?)
}

fn make_folder(dir: &Path) -> Result<PathBuf, FilesError> {
    let folder = dir.join(CHUNKS);
    make_directory(&folder).map_err(|error| FilesError::Unwritable(folder.clone(), io::Error::other(error)))?;
    Ok(folder)
}

impl Local {
    /// Stores chunks that are in no revision yet. They are durable on return.
    pub(crate) fn put_chunks(&self, chunks: &[(ChunkHash, Bytes)]) -> Result<(), FilesError> {
        Ok(self.chunks.put(chunks)?)
    }

    /// Waits until a switch from `base` to a tree meets no lock of others. One from another revision than the newest is
    /// not made, and waits for none.
    fn meet(
        &self,
        meeting: &Meeting<'_>,
        base: Option<&Revision>,
        root: ChunkHash,
    ) -> Result<Switching<'_>, FilesError> {
        let (base, number) = (base.map(Revision::root), base.map(|base| base.number));
        let is_newest =
            || self.records.head(meeting.site).is_ok_and(|head| head.as_ref().map(|head| head.number) == number);
        self.locks.meet(meeting, |paths| {
            if is_newest() { trees::changed(self, Compare { base, root, paths }) } else { Vec::new() }
        })
    }

    /// Makes the changes from `base` to a tree to the newest revision. Nothing is collected meanwhile, as a publish is
    /// under way.
    fn merge(
        &self,
        site: &SiteName,
        base: Option<&Revision>,
        head: &Revision,
        new: ChunkHash,
    ) -> Result<MergedTree, FilesError> {
        let sides = Sides { base: base.map(Revision::root), head: head.root(), new };
        let (merged, nodes) = trees::merge(self, sides)?;
        match merged {
            Merged::Tree(tree) => {
                self.chunks.put(&nodes.into_iter().collect::<Vec<_>>())?;
                Ok(tree)
            }
            Merged::Conflicts(paths) => {
                let base = base.map_or(0, |base| base.number);
                Err(FilesError::Conflict { site: site.to_string(), base, head: head.number, paths })
            }
        }
    }
}

impl Source for Local {
    type Error = FilesError;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, FilesError> {
        if let Some(bytes) = lock(&self.ahead).remove(hash) {
            return Ok(bytes);
        }
        self.chunks.get(hash)?.ok_or(FilesError::MissingChunk(*hash))
    }
}

impl Depot for Local {
    fn begin(&self) -> Publishing<'_> {
        Publishing(Some(self.publishing.read().unwrap_or_else(PoisonError::into_inner)))
    }

    fn missing(&self, hashes: &[ChunkHash]) -> Result<Vec<ChunkHash>, FilesError> {
        Ok(self.chunks.missing(hashes)?)
    }

    fn put(&self, _: &SiteName, chunks: &[(ChunkHash, Bytes)]) -> Result<(), FilesError> {
        Ok(self.chunks.put(chunks)?)
    }

    fn check(&self, hashes: &[ChunkHash]) -> Result<(), FilesError> {
        for hashes in hashes.chunks(CHECKS_AT_A_TIME) {
            for read in self.chunks.get_each(hashes) {
                match read {
                    // The chunk is missing from now on.
                    Ok(_) | Err(ChunkError::Damaged { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn switch(&self, site: &SiteName, base: Option<&Revision>, new: NewTree) -> Result<Switched, FilesError> {
        // No other server has the sites of a directory that this process has open.
        let NewTree { root, of, files, bytes, note, waits: _, merges, locks, ends_locks } = new;
        let meeting = Meeting { site, own: &locks, ends_locks };
        let made = |base: Option<&Revision>, root: ChunkHash, size: (u64, u64)| {
            let _switching = self.meet(&meeting, base, root)?;
            let revision =
                self.records.switch(site, base, |number| Revision::new(number, root, note.clone(), size, of))?;
            Ok(Switched { revision, is_new: true })
        };
        loop {
            let overtaken = match made(base, root, (files, bytes)) {
                Err(overtaken @ FilesError::Overtaken { .. }) if merges => overtaken,
                switched => return switched,
            };
            let Some(head) = self.records.head(site)? else { return Err(overtaken) };
            let tree = self.merge(site, base, &head, root)?;
            if tree.root == head.root() {
                return Ok(Switched { revision: head, is_new: false });
            }
            match made(Some(&head), tree.root, head.grown(tree.growth)) {
                // Another thread has published.
                Err(FilesError::Overtaken { .. }) => {}
                switched => return switched,
            }
        }
    }

    fn lock(&self, site: &SiteName, path: &tree::Path, within: Duration) -> Result<Lock, FilesError> {
        self.records.head(site)?;
        let lock = self.locks.take(site, path, within)?;
        let head = self.records.head(site)?.map(|head| (head.number, head.root()));
        Ok(Lock::new(path.clone(), lock.token(), head, lock))
    }

    fn create(&self, site: &SiteName, settings: SiteSettings) -> Result<(), FilesError> {
        self.records.create(site, settings)
    }

    fn set(&self, site: &SiteName, settings: SiteSettings) -> Result<(), FilesError> {
        self.records.set(site, settings)
    }

    fn remove(&self, site: &SiteName) -> Result<(), FilesError> {
        self.records.remove(site)
    }

    fn survey(&self, site: &SiteName) -> Result<Vec<Follower>, FilesError> {
        // No server follows the sites of a directory that this process has open.
        self.records.head(site).map(|_| Vec::new())
    }

    fn collect(&self) -> Result<Collected, FilesError> {
        let _publishing = self.publishing.write().unwrap_or_else(PoisonError::into_inner);
        let used = Used::of(self, &self.records.all_roots()?)?;
        let swept = self.chunks.sweep(|hash| used.has(hash), |_| {})?;
        Ok(Collected { chunks: swept.chunks, bytes: swept.bytes })
    }

    /// Chunks in a bucket are read together, once the next one is not here.
    fn expect_chunks(&self, hashes: &[ChunkHash]) {
        let is_far = |hash: &&ChunkHash| self.chunks.is_in_bucket(hash).unwrap_or(false);
        let mut far: Vec<ChunkHash> = hashes.iter().filter(is_far).copied().collect();
        if far.first().is_none_or(|next| lock(&self.ahead).contains_key(next)) {
            return;
        }
        let mut kept = std::mem::take(&mut *lock(&self.ahead));
        kept.retain(|hash, _| far.contains(hash));
        far.retain(|hash| !kept.contains_key(hash));
        // An error is met again by the read of its chunk.
        let read = far.iter().zip(self.chunks.get_each(&far)).filter_map(|(hash, read)| Some((*hash, read.ok()??)));
        kept.extend(read);
        *lock(&self.ahead) = kept;
    }

    fn indexes(&self) -> Option<PathBuf> {
        let folder = self.dir.join(INDEXES);
        make_directory(&folder).ok().map(|()| folder)
    }

    fn size(&self) -> (u64, u64) {
        self.chunks.size().unwrap_or_default()
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.dir)
    }
}
