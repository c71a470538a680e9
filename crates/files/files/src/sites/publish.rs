//! Publishes: a directory becomes a revision of a site, or is compared with one.

use super::Sites;
use crate::depot::{Depot, NewTree};
use crate::error::FilesError;
use crate::exclude::Exclude;
use crate::index::{self, Known, NewIndex};
use crate::record::{Revision, SiteName, now_s};
use crate::scan::{Progress, Scan, Scanned};
use crate::upload::Upload;
use crate::xattrs::Xattrs;
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tree::{Change, ChunkHash, Sink, Source, diff};

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
    /// Whether to wait until no server shows an older revision without saying so.
    pub wait: bool,
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

impl Sites {
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
        let _publishing = self.depot.begin();
        let base = self.base(site, settings.base)?;
        let older = base.as_ref().map(Revision::root);
        older.map_or(Ok(()), |older| self.depot.expect_nodes(older))?;
        let place = self.index_place(site, dir);
        let mut scan = self.scan(&exclude, Upload::new(&*self.depot, settings.repair), true, on);
        scan.index = place.is_some().then(|| NewIndex::begin(now_s()));
        if let Some(place) = place.as_ref().filter(|_| !settings.repair) {
            let kept = self.kept_roots(site)?;
            scan.known = Known::read(place, |root| kept.contains(&root));
        }
        scan.repeats = settings.repair;
        let root = scan.run(dir, older)?;
        let Scan { progress, sink: upload, known, index, on, .. } = scan;
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
        let write_index = || place.zip(index).map(|(place, index)| index.write(&place, root, &known));
        if let Some(head) = base.as_ref().filter(|head| head.root() == root) {
            write_index();
            if settings.wait {
                self.depot.wait_everywhere(site, head)?;
            }
            return Ok(published(head.clone(), false));
        }
        let (files, bytes) = (progress.files, progress.bytes);
        let new = NewTree { root, of: None, files, bytes, note: settings.note.clone(), waits: settings.wait };
        let revision = self.switch(site, base.as_ref(), new)?;
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
        base.as_ref().map_or(Ok(()), |base| self.depot.hold(site, base))?;
        let older = base.as_ref().map(Revision::root);
        older.map_or(Ok(()), |older| self.depot.expect_nodes(older))?;
        let mut scan = self.scan(&exclude, Nodes::default(), false, on);
        let root = scan.run(dir, older)?;
        let mut source = Beside { nodes: scan.sink, depot: &*self.depot };
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
        let (known, index, xattrs) = (Known::default(), None, Xattrs::default());
        let store = self.depot.directory().and_then(|dir| dir.metadata().ok());
        let store = store.map(|metadata| (metadata.dev(), metadata.ino()));
        let older = &*self.depot;
        let repeats = false;
        Scan { older, exclude, sink, keeps_content, repeats, on, progress, linked, store, xattrs, known, index }
    }

    /// The place of the index of a directory, if there can be one.
    fn index_place(&self, site: &SiteName, dir: &Path) -> Option<PathBuf> {
        index::place(&self.depot.indexes()?, site.as_str(), dir).ok()
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
    depot: &'a dyn Depot,
}

impl Source for Beside<'_> {
    type Error = FilesError;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, FilesError> {
        self.nodes.0.get(hash).map_or_else(|| self.depot.chunk(hash), |bytes| Ok(bytes.clone()))
    }
}
