//! The sites of a store in a directory, which this process has open.

mod locks;

use self::locks::{Locks, Meeting, Switching};
use crate::depot::{Collected, Depot, Follower, NewTree, Publishing, Switched};
use crate::error::FilesError;
use crate::locks::Lock;
use crate::record::{Revision, SiteName};
use crate::records::Records;
use crate::stored::Used;
use bytes::Bytes;
use chunks::{ChunkError, Chunks};
use spread::server_work::{Compare, Merged, MergedTree};
use spread::{SiteSettings, trees};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tree::{ChunkHash, Sides, Source};
use vfs::make_directory;

/// The folder of the chunks in a store's directory, and that of the indexes of published directories.
pub(crate) const CHUNKS: &str = "chunks";
const INDEXES: &str = "indexes";

/// The file that marks the directory of a store.
pub(crate) const STORE_MARKER: &str = "thorp-store";

/// Chunks and records in a directory.
#[derive(Debug)]
pub(crate) struct Local {
    dir: PathBuf,
    records: Records,
    chunks: Chunks,
    /// Held for reading by publishes and for writing by a collection: the chunks of a publish are in no revision yet.
    publishing: RwLock<()>,
    locks: Arc<Locks>,
}

impl Local {
    /// Opens the chunks in the directory of a store, whose records are open.
    pub(crate) fn open(records: Records, dir: &Path) -> Result<Self, FilesError> {
        Ok(Self {
            dir: dir.to_owned(),
            records,
            chunks: open_chunks(dir)?,
            publishing: RwLock::default(),
            locks: Arc::default(),
        })
    }
}

/// Opens the chunks in the directory of a store. Their folder is made if there is none.
pub(crate) fn open_chunks(dir: &Path) -> Result<Chunks, FilesError> {
    let folder = dir.join(CHUNKS);
    make_directory(&folder).map_err(|error| FilesError::Unwritable(folder.clone(), io::Error::other(error)))?;
    Ok(Chunks::open(&folder)?)
}

impl Local {
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
        for hash in hashes {
            match self.chunks.get(hash) {
                // The chunk is missing from now on.
                Ok(_) | Err(ChunkError::Damaged { .. }) => {}
                Err(error) => return Err(error.into()),
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
