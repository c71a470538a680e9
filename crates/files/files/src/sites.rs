//! The sites of a store: publish, roll back, log, remove, collect, verify.

use crate::error::FilesError;
use crate::index::{self, Known, NewIndex};
use crate::record::{KEEP, ROOT, Revision, SiteMap, SiteName, SiteRecord, now_s};
use crate::scan::{Exclude, Progress, Scan, Scanned};
use crate::stored::Stored;
use crate::upload::Upload;
use crate::view::{View, read_piece};
use crate::xattrs::Xattrs;
use bytes::Bytes;
use chunks::{ChunkError, Chunks};
use objects::{Db, Map, Tx};
use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use tree::{Change, ChunkHash, Piece, Sink, Source, diff, mark};
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

/// The settings of a publish.
#[derive(Clone, Debug, Default)]
pub struct Publish {
    /// The revision that the directory was made from; without it the newest one when the publish begins.
    pub base: Option<u64>,
    /// A note for the log.
    pub note: String,
    /// Patterns of paths that are left out.
    pub exclude: Vec<String>,
    /// Whether a directory without files may follow a revision with some.
    pub allow_empty: bool,
    /// Whether the chunks that the store has are read, and written again if they are damaged.
    pub repair: bool,
}

/// A publish that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The revision that has the directory's content: a new one, or the head if nothing has changed.
    pub revision: Revision,
    /// Whether it is new.
    pub is_new: bool,
    /// Chunks that were missing from the store, and their bytes.
    pub chunks_written: u64,
    /// The bytes of those.
    pub bytes_written: u64,
    /// Files whose content was read. The others have not changed since they were published.
    pub files_read: u64,
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

/// The chunks that a collection has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Chunks.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
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

    /// Publishes a directory: the site is created with its first revision. All or nothing of it becomes visible (rule
    /// OneSwitch), and only if the site has no newer revision than its base (rule CompareBase). `on` is called behind
    /// each file, and may end the publish before the switch.
    ///
    /// # Errors
    /// [`FilesError::Overtaken`], files that cannot be published, and the store's.
    pub fn publish(
        &self,
        site: &SiteName,
        dir: &Path,
        settings: &Publish,
        on: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Published, FilesError> {
        let exclude = Exclude::new(&settings.exclude)?;
        let _publishing = self.publishing.read().unwrap_or_else(PoisonError::into_inner);
        let base = self.base(site, settings.base)?;
        let older = base.as_ref().map(Revision::root);
        let place = self.index_place(site, dir);
        let mut scan = self.scan(&exclude, Upload::new(&self.chunks, settings.repair), true, on);
        if let Some(place) = place.as_ref().filter(|_| !settings.repair) {
            let kept = self.kept_roots(site)?;
            scan.known = Known::read(place, |root| kept.contains(&root));
        }
        let root = scan.run(dir, older)?;
        let Scan { progress, sink: upload, index, on, .. } = scan;
        let had_files = base.as_ref().is_some_and(|base| base.files > 0);
        if progress.files == 0 && had_files && !settings.allow_empty {
            return Err(FilesError::Empty(dir.to_owned()));
        }
        let written = upload.end()?;
        if on(progress).is_break() {
            return Err(FilesError::Interrupted);
        }
        let published = |revision, is_new| Published {
            revision,
            is_new,
            chunks_written: written.chunks,
            bytes_written: written.bytes,
            files_read: progress.files_read,
        };
        // Without an index, the next publish reads all files.
        let write_index = || place.map(|place| index.write(&place, root));
        if let Some(head) = base.as_ref().filter(|head| head.root() == root) {
            write_index();
            return Ok(published(head.clone(), false));
        }
        let counts = (progress.files, progress.bytes);
        let number = base.as_ref().map_or(0, |base| base.number);
        let revision =
            self.switch(site, number, |number| Revision::new(number, root, settings.note.clone(), counts))?;
        write_index();
        Ok(published(revision, true))
    }

    /// Reports what a publish would change, and publishes nothing.
    ///
    /// # Errors
    /// As of [`Sites::publish`].
    pub fn compare(
        &self,
        site: &SiteName,
        dir: &Path,
        settings: &Publish,
        on: &mut dyn FnMut(Progress) -> ControlFlow<()>,
        report: &mut dyn FnMut(&tree::Path, Change),
    ) -> Result<Scanned, FilesError> {
        let exclude = Exclude::new(&settings.exclude)?;
        let base = self.base(site, settings.base)?;
        let older = base.as_ref().map(Revision::root);
        let mut scan = self.scan(&exclude, Nodes::default(), false, on);
        let root = scan.run(dir, older)?;
        let mut source = Beside { nodes: scan.sink, stored: Stored(&self.chunks) };
        let scanned = Scanned { root, progress: scan.progress };
        let older = match older {
            Some(older) => older,
            None => tree::write_directory(&[], &mut source.nodes)?,
        };
        diff(&source, older, root, &mut |path, change| report(path, change))?;
        Ok(scanned)
    }

    fn scan<'a, S>(
        &'a self,
        exclude: &'a Exclude,
        sink: S,
        keeps_content: bool,
        on: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Scan<'a, S> {
        let (progress, linked) = (Progress::default(), HashMap::new());
        let (known, index, xattrs) = (Known::default(), NewIndex::begin(now_s()), Xattrs::default());
        let store = self.indexes.parent().and_then(|dir| dir.metadata().ok());
        let store = store.map(|metadata| (metadata.dev(), metadata.ino()));
        let older = Stored(&self.chunks);
        Scan { older, exclude, sink, keeps_content, on, progress, linked, store, xattrs, known, index }
    }

    /// The place of the index of a directory, if there can be one.
    fn index_place(&self, site: &SiteName, dir: &Path) -> Option<PathBuf> {
        make_directory(&self.indexes).ok()?;
        index::place(&self.indexes, site.as_str(), dir).ok()
    }

    /// The roots of the revisions of a site that are kept.
    fn kept_roots(&self, site: &SiteName) -> Result<HashSet<ChunkHash>, FilesError> {
        match self.log(site) {
            Ok(log) => Ok(log.iter().map(Revision::root).collect()),
            Err(FilesError::NoSite(_)) => Ok(HashSet::new()),
            Err(error) => Err(error),
        }
    }

    /// The revision that a publish is made from: none for a site that is not there.
    fn base(&self, site: &SiteName, base: Option<u64>) -> Result<Option<Revision>, FilesError> {
        match (self.head(site), base) {
            (Ok(Some(head)), Some(base)) if head.number != base => {
                Err(FilesError::Overtaken { site: site.to_string(), base, head: head.number })
            }
            (Err(FilesError::NoSite(_)), None | Some(0)) => Ok(None),
            (head, _) => head,
        }
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

    fn record(tx: &mut Tx, site: &SiteName) -> objects::Result<Option<SiteRecord>> {
        match tx.find_map::<String, SiteRecord>(ROOT)? {
            Some(sites) => sites.get(tx, site.as_str()),
            None => Ok(None),
        }
    }

    /// The newest revision of a site; none before its first.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub fn head(&self, site: &SiteName) -> Result<Option<Revision>, FilesError> {
        let found = self.db.transact(|tx| match Self::record(tx, site)? {
            Some(record) => Ok(Some(record.revisions.get(tx, &record.head)?)),
            None => Ok(None),
        })?;
        found.ok_or_else(|| FilesError::NoSite(site.to_string()))
    }

    /// A revision of a site.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], [`FilesError::NoRevision`], and the store's.
    pub fn revision(&self, site: &SiteName, number: u64) -> Result<Revision, FilesError> {
        let found = self.db.transact(|tx| match Self::record(tx, site)? {
            Some(record) => Ok(Some(record.revisions.get(tx, &number)?)),
            None => Ok(None),
        })?;
        let revision = found.ok_or_else(|| FilesError::NoSite(site.to_string()))?;
        revision.ok_or_else(|| FilesError::NoRevision(site.to_string(), number))
    }

    /// The revisions of a site that are kept, the newest first.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub fn log(&self, site: &SiteName) -> Result<Vec<Revision>, FilesError> {
        let found = self.db.transact(|tx| match Self::record(tx, site)? {
            Some(record) => revisions(tx, record.revisions).map(Some),
            None => Ok(None),
        })?;
        found.ok_or_else(|| FilesError::NoSite(site.to_string()))
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
        let found = self.db.transact(|tx| {
            let Some(record) = Self::record(tx, site)? else { return Ok(None) };
            let sites: SiteMap = tx.map(ROOT)?;
            sites.insert(tx, site.as_str(), &SiteRecord { keep, ..record })?;
            Ok(Some(()))
        })?;
        found.ok_or_else(|| FilesError::NoSite(site.to_string()))
    }

    /// Removes a site with all its revisions. Its chunks stay until a collection.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub fn remove(&self, site: &SiteName) -> Result<(), FilesError> {
        let found = self.db.transact(|tx| {
            let Some(record) = Self::record(tx, site)? else { return Ok(None) };
            let sites: SiteMap = tx.map(ROOT)?;
            sites.remove(tx, site.as_str())?;
            record.revisions.clear(tx)?;
            tx.delete(record.revisions.root())?;
            Ok(Some(()))
        })?;
        found.ok_or_else(|| FilesError::NoSite(site.to_string()))
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
        let record = self.db.transact(|tx| Self::record(tx, site))?;
        Ok(record.ok_or_else(|| FilesError::NoSite(site.to_string()))?.visitor_key)
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

    /// Reads every chunk of every kept revision of a site, and reports those that are missing or damaged. Returns how
    /// many are whole.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub fn verify(&self, site: &SiteName, report: &mut dyn FnMut(u64, &FilesError)) -> Result<u64, FilesError> {
        let (mut seen, mut whole) = (HashSet::new(), 0);
        for revision in self.log(site)? {
            let mut new = Vec::new();
            let marked = mark(&Stored(&self.chunks), revision.root(), |hash| {
                let is_new = seen.insert(*hash);
                new.extend(is_new.then_some(*hash));
                is_new
            });
            match marked.map_err(FilesError::from) {
                // The chunk itself is reported below.
                Ok(()) | Err(FilesError::MissingChunk(_) | FilesError::Chunks(ChunkError::Damaged { .. })) => {}
                Err(error) => report(revision.number, &error),
            }
            for hash in new {
                match Stored(&self.chunks).chunk(&hash) {
                    Ok(_) => whole += 1,
                    Err(error @ (FilesError::MissingChunk(_) | FilesError::Chunks(ChunkError::Damaged { .. }))) => {
                        report(revision.number, &error);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(whole)
    }

    /// Removes all chunks that no kept revision of any site in any space needs.
    ///
    /// # Errors
    /// A tree that cannot be read, which removes nothing, and the store's.
    pub fn collect(&self) -> Result<Collected, FilesError> {
        let _publishing = self.publishing.write().unwrap_or_else(PoisonError::into_inner);
        let mut used: HashSet<ChunkHash> = HashSet::new();
        for space in self.db.spaces()? {
            let db = self.db.space(&space.name)?;
            let roots = db.transact(|tx| {
                let Some(sites) = tx.find_map::<String, SiteRecord>(ROOT)? else { return Ok(Vec::new()) };
                let (mut roots, mut cursor) = (Vec::new(), sites.iter());
                while let Some((_, record)) = cursor.next(tx)? {
                    roots.extend(revisions(tx, record.revisions)?.iter().map(Revision::root));
                }
                Ok(roots)
            })?;
            for root in roots {
                mark(&Stored(&self.chunks), root, |hash| used.insert(*hash))?;
            }
        }
        let swept = self.chunks.sweep(|hash| used.contains(hash), |_| {})?;
        Ok(Collected { chunks: swept.chunks, bytes: swept.bytes })
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

/// The nodes of a tree that is compared and not published.
#[derive(Default)]
struct Nodes(HashMap<ChunkHash, Bytes>);

impl Sink for Nodes {
    type Error = FilesError;

    fn add(&mut self, hash: ChunkHash, bytes: Bytes) -> Result<(), FilesError> {
        self.0.insert(hash, bytes);
        Ok(())
    }
}

/// The nodes of a tree that is compared, and the store's chunks behind them.
struct Beside<'a> {
    nodes: Nodes,
    stored: Stored<'a>,
}

impl Source for Beside<'_> {
    type Error = FilesError;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, FilesError> {
        self.nodes.0.get(hash).map_or_else(|| self.stored.chunk(hash), |bytes| Ok(bytes.clone()))
    }
}
