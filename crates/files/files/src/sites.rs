//! The sites of a store: their records, and the transaction that makes a revision the head.
//!
//! | to change | see |
//! |---|---|
//! | how a directory becomes a revision, and a dry run | `publish.rs` |
//! | how chunks that no revision needs are removed | `collect.rs` |
//! | how the chunks of a site are checked | `verify.rs` |

mod collect;
mod publish;
mod verify;

pub use collect::Collected;
pub use publish::{Publish, Published};
pub use verify::Damage;

use crate::error::FilesError;
use crate::record::{KEEP, ROOT, Revision, SiteMap, SiteName, SiteRecord};
use crate::stored::Stored;
use crate::view::{View, read_piece};
use bytes::Bytes;
use chunks::Chunks;
use objects::{Db, Map, Tx};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::RwLock;
use tree::{Change, Piece, diff};
use vfs::{make_directory, random};

/// The folder of the chunks in a store's directory, and that of the indexes of published directories.
const CHUNKS: &str = "chunks";
const INDEXES: &str = "indexes";

/// The sites of a store, opened by this process.
#[derive(Debug)]
pub struct Sites {
    db: Db,
    chunks: Chunks,
    indexes: PathBuf,
    /// Held for reading by publishes and for writing by a collection: the chunks of a publish are in no revision yet.
    publishing: RwLock<()>,
}

/// A site in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The name.
    pub name: String,
    /// The newest revision; none before the first.
    pub head: Option<Revision>,
    /// Revisions that are kept.
    pub revisions: u64,
    /// How many are kept at most.
    pub keep: u32,
    /// When the site was created, in seconds since 1970.
    pub created_s: u64,
}

impl Sites {
    /// The sites of a space of the store in `dir`, which `db` has open. The folder of its chunks is made if there is
    /// none.
    ///
    /// # Errors
    /// A folder that is in use, that cannot be made, or that has no chunks in it.
    pub fn open(db: Db, dir: &Path) -> Result<Self, FilesError> {
        let folder = dir.join(CHUNKS);
        make_directory(&folder).map_err(|error| FilesError::Unwritable(folder.clone(), io::Error::other(error)))?;
        let indexes = dir.join(INDEXES);
        Ok(Self { db, chunks: Chunks::open(&folder)?, indexes, publishing: RwLock::default() })
    }

    /// Makes a revision the head, if the head is still `base`.
    fn switch(&self, site: &SiteName, base: u64, revision: impl Fn(u64) -> Revision) -> Result<Revision, FilesError> {
        let key = draw_key()?;
        let switched = self.db.transact(|tx| {
            let sites: SiteMap = tx.map(ROOT)?;
            let mut record = match sites.get(tx, site.as_str())? {
                Some(record) => record,
                None => SiteRecord::create(tx, KEEP, key)?,
            };
            if record.head != base {
                return Ok(Err(record.head));
            }
            let revision = revision(record.head + 1);
            record.switch(tx, &revision)?;
            sites.insert(tx, site.as_str(), &record)?;
            Ok(Ok(revision))
        })?;
        switched.map_err(|head| FilesError::Overtaken { site: site.to_string(), base, head })
    }

    /// Creates a site without a revision.
    ///
    /// # Errors
    /// [`FilesError::IsThere`], and the store's.
    pub fn create(&self, site: &SiteName, keep: u32) -> Result<(), FilesError> {
        let key = draw_key()?;
        let created = self.db.transact(|tx| {
            let sites: SiteMap = tx.map(ROOT)?;
            if sites.contains_key(tx, site.as_str())? {
                return Ok(false);
            }
            let record = SiteRecord::create(tx, keep, key)?;
            sites.insert(tx, site.as_str(), &record)?;
            Ok(true)
        })?;
        if created { Ok(()) } else { Err(FilesError::IsThere(site.to_string())) }
    }

    /// Publishes an earlier revision again, under a new number.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], [`FilesError::NoRevision`], [`FilesError::IsHead`], [`FilesError::Overtaken`].
    pub fn rollback(&self, site: &SiteName, to: u64, note: &str) -> Result<Revision, FilesError> {
        let Some(head) = self.head(site)? else { return Err(FilesError::NoRevision(site.to_string(), to)) };
        let earlier = self.revision(site, to)?;
        if earlier.root() == head.root() {
            return Err(FilesError::IsHead(site.to_string(), to));
        }
        self.switch(site, head.number, |number| earlier.again(number, note.to_owned()))
    }

    /// Runs a transaction on the record of a site.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    fn with_record<T>(
        &self,
        site: &SiteName,
        run: impl Fn(&mut Tx, SiteRecord) -> objects::Result<T>,
    ) -> Result<T, FilesError> {
        let found = self.db.transact(|tx| {
            let sites = tx.find_map::<String, SiteRecord>(ROOT)?;
            let record = sites.map_or(Ok(None), |sites| sites.get(tx, site.as_str()))?;
            record.map(|record| run(tx, record)).transpose()
        })?;
        found.ok_or_else(|| FilesError::NoSite(site.to_string()))
    }

    /// The newest revision of a site; none before its first.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub fn head(&self, site: &SiteName) -> Result<Option<Revision>, FilesError> {
        self.with_record(site, |tx, record| record.revisions.get(tx, &record.head))
    }

    /// A revision of a site.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], [`FilesError::NoRevision`], and the store's.
    pub fn revision(&self, site: &SiteName, number: u64) -> Result<Revision, FilesError> {
        let revision = self.with_record(site, |tx, record| record.revisions.get(tx, &number))?;
        revision.ok_or_else(|| FilesError::NoRevision(site.to_string(), number))
    }

    /// The revisions of a site that are kept, the newest first.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub fn log(&self, site: &SiteName) -> Result<Vec<Revision>, FilesError> {
        self.with_record(site, |tx, record| revisions(tx, record.revisions))
    }

    /// All sites, by name.
    ///
    /// # Errors
    /// The store's.
    pub fn list(&self) -> Result<Vec<Summary>, FilesError> {
        Ok(self.db.transact(|tx| {
            let Some(sites) = tx.find_map::<String, SiteRecord>(ROOT)? else { return Ok(Vec::new()) };
            let (mut all, mut cursor) = (Vec::new(), sites.iter());
            while let Some((name, record)) = cursor.next(tx)? {
                let kept = revisions(tx, record.revisions)?;
                let (keep, created_s) = (record.keep, record.created_s);
                let revisions = kept.len() as u64;
                all.push(Summary { name, head: kept.into_iter().next(), revisions, keep, created_s });
            }
            Ok(all)
        })?)
    }

    /// Sets how many of the newest revisions are kept, from the next publish on.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub fn set_keep(&self, site: &SiteName, keep: u32) -> Result<(), FilesError> {
        self.with_record(site, |tx, record| {
            let sites: SiteMap = tx.map(ROOT)?;
            sites.insert(tx, site.as_str(), &SiteRecord { keep, ..record })?;
            Ok(())
        })
    }

    /// Removes a site with all its revisions. Its chunks stay until a collection.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub fn remove(&self, site: &SiteName) -> Result<(), FilesError> {
        self.with_record(site, |tx, record| {
            let sites: SiteMap = tx.map(ROOT)?;
            sites.remove(tx, site.as_str())?;
            record.revisions.clear(tx)?;
            tx.delete(record.revisions.root())?;
            Ok(())
        })
    }

    /// The view of a revision, or of the newest one.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], [`FilesError::NoRevision`], and the store's.
    pub fn view(&self, site: &SiteName, number: Option<u64>) -> Result<View<'_>, FilesError> {
        let revision = match number {
            Some(number) => self.revision(site, number)?,
            None => self.head(site)?.ok_or_else(|| FilesError::NoRevision(site.to_string(), 1))?,
        };
        Ok(View::new(&self.chunks, revision))
    }

    /// The key that signs the cookies of a site's visitors.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub(crate) fn visitor_key(&self, site: &SiteName) -> Result<[u8; 32], FilesError> {
        self.with_record(site, |_, record| Ok(record.visitor_key))
    }

    /// The number of the store's chunks, and their bytes.
    pub(crate) fn chunk_counts(&self) -> Result<(u64, u64), FilesError> {
        Ok(self.chunks.size()?)
    }

    /// The bytes of a piece of a file.
    ///
    /// # Errors
    /// A chunk that is missing, damaged or of another length.
    pub(crate) fn chunk(&self, piece: &Piece) -> Result<Bytes, FilesError> {
        read_piece(&self.chunks, piece)
    }

    /// The view of a revision that was looked up.
    pub(crate) fn view_of(&self, revision: Revision) -> View<'_> {
        View::new(&self.chunks, revision)
    }

    /// Reports the differences between two revisions of a site.
    ///
    /// # Errors
    /// As of [`Sites::view`].
    pub fn diff(
        &self,
        site: &SiteName,
        older: u64,
        newer: u64,
        report: &mut dyn FnMut(&tree::Path, Change),
    ) -> Result<(), FilesError> {
        let (older, newer) = (self.revision(site, older)?, self.revision(site, newer)?);
        Ok(diff(&Stored(&self.chunks), older.root(), newer.root(), &mut |path, change| report(path, change))?)
    }
}

/// A key of random bits.
fn draw_key() -> Result<[u8; 32], FilesError> {
    let mut key = [0; 32];
    for part in key.chunks_exact_mut(8) {
        let bits = random().map_err(|error| FilesError::NoRandom(error.to_string()))?;
        part.copy_from_slice(&bits.to_le_bytes());
    }
    Ok(key)
}

/// The revisions of a site that are kept, the newest first.
fn revisions(tx: &mut Tx, map: Map<u64, Revision>) -> objects::Result<Vec<Revision>> {
    let (mut all, mut cursor) = (Vec::new(), map.iter());
    while let Some((_, revision)) = cursor.next(tx)? {
        all.push(revision);
    }
    all.reverse();
    Ok(all)
}
