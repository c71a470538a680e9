//! Publishes: a directory becomes a revision of a site, or is compared with one.

use super::Sites;
use crate::depot::{Depot, NewTree, Switched};
use crate::error::FilesError;
use crate::exclude::Exclude;
use crate::index::{self, Known, NewIndex};
use crate::record::{Revision, SiteName, now_s};
use crate::scan::{Progress, Scan, Scanned};
use crate::upload::Upload;
use crate::xattrs::Xattrs;
use bytes::Bytes;
use spread::messages::Token;
use spread::trees;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
#[cfg(feature = "fuse")]
use tree::Growth;
use tree::{Change, ChunkHash, Merge, Sides, Sink, Source, diff, merge};

/// The settings of a publish.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Publish {
    /// The revision that the directory was made from; without it the newest one when the publish begins.
    pub base: Option<u64>,
    /// Whether the changes since the base are made to the newest revision, if there is a newer one.
    pub merge: bool,
    /// A note for the log.
    pub note: String,
    /// Patterns of paths that are left out.
    pub exclude: Vec<String>,
    /// Whether a directory without files may follow a revision with some.
    pub allow_empty: bool,
    /// Whether to wait until no server shows an older revision without saying so.
    pub wait: bool,
    /// The locks under which files are changed.
    pub locks: Vec<Token>,
    /// Whether to end the locks of files that change, instead of waiting for their holders.
    pub now: bool,
    /// Whether the chunks that the store has are read, and written again if they are damaged.
    pub repair: bool,
}

/// A publish that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The revision that has the directory's content or, merged, its changes: a new one, or the head if nothing has
    /// changed.
    pub revision: Revision,
    /// Whether it is new.
    pub is_new: bool,
    /// The revision that the directory's changes were merged with. The new revision is not what the directory is.
    pub merged_with: Option<u64>,
    /// Chunks that were missing from the store, and their bytes.
    pub chunks_written: u64,
    /// The bytes of those.
    pub bytes_written: u64,
    /// Files whose content was read. The others have not changed since they were published.
    pub files_read: u64,
}

/// The kind of a difference at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The entry is new.
    Added,
    /// The entry is gone.
    Removed,
    /// The entry has other content, another kind, or only other attributes.
    Changed,
    /// A publish changes the path, and so has the newest revision since its base.
    Conflict,
}

impl From<&Change> for Difference {
    fn from(change: &Change) -> Self {
        match change {
            Change::Added(_) => Self::Added,
            Change::Removed(_) => Self::Removed,
            Change::Changed(..) => Self::Changed,
        }
    }
}

/// A tree that was made from a revision by edits.
#[cfg(feature = "fuse")]
#[derive(Debug)]
pub(crate) struct EditedTree<'a> {
    pub(crate) root: ChunkHash,
    /// The nodes that the revision does not have.
    pub(crate) nodes: &'a [(ChunkHash, Bytes)],
    pub(crate) growth: Growth,
    pub(crate) note: String,
    /// Whether to wait until no server shows an older revision without saying so.
    pub(crate) waits: bool,
    /// The locks under which paths are changed.
    pub(crate) locks: Vec<Token>,
}

/// The conflicts that a comparison reports.
const CONFLICTS_MAX: usize = 1000;

impl Sites {
    /// Publishes a directory: the site is created with its first revision. All or nothing of it becomes visible (rule
    /// OneSwitch), and only if the site has no newer revision than its base, or one that can be merged (rule
    /// CompareBase). `on` is called behind each file, and may end the publish before the switch.
    ///
    /// # Errors
    /// [`FilesError::Overtaken`], [`FilesError::Conflict`], [`FilesError::NotKept`], files that cannot be published,
    /// and the store's.
    pub fn publish(
        &self,
        site: &SiteName,
        dir: &Path,
        settings: &Publish,
        on: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Published, FilesError> {
        let exclude = Exclude::new(&settings.exclude)?;
        let _publishing = self.depot.begin();
        let (base, head) = self.base(site, settings)?;
        if let Some(base) = base.as_ref().filter(|_| settings.merge) {
            // It is compared with the newest revision at the end.
            self.depot.hold(site, base)?;
        }
        let older = base.as_ref().map(Revision::root);
        let place = self.index_place(site, dir);
        let mut scan = self.scan(&exclude, Upload::new(&*self.depot, site, settings.repair), true, on);
        scan.index = place.clone().map(|place| NewIndex::begin(place, now_s(), exclude.hash()));
        if let Some(place) = place.as_ref().filter(|_| !settings.repair) {
            let kept = self.kept_roots(site)?;
            scan.known = Known::read(place, exclude.hash(), |root| kept.contains(&root));
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
        let published = |revision, is_new, merged_with| Published {
            revision,
            is_new,
            merged_with,
            chunks_written: written.chunks,
            bytes_written: written.bytes,
            files_read: progress.files_read,
        };
        // Without an index, the next publish reads all files.
        let end_index = || index.map(|index| index.end(root, &known));
        let is_newest = base.as_ref().map(|base| base.number) == head;
        if let Some(head) = base.as_ref().filter(|base| is_newest && base.root() == root) {
            end_index();
            if settings.wait {
                self.depot.wait_everywhere(site, head)?;
            }
            return Ok(published(head.clone(), false, None));
        }
        let (files, bytes) = (progress.files, progress.bytes);
        let (note, waits, merges) = (settings.note.clone(), settings.wait, settings.merge);
        let (locks, ends_locks) = (settings.locks.clone(), settings.now);
        let new = NewTree { root, of: None, files, bytes, note, waits, merges, locks, ends_locks };
        let Switched { revision, is_new } = self.switch(site, base.as_ref(), new)?;
        if revision.root() == root {
            end_index();
            return Ok(published(revision, is_new, None));
        }
        // The directory is not what was published, so the index of an earlier revision stays: no kept revision is sure
        // to have the chunks of all files of this one.
        let merged_with = is_new.then(|| revision.number.saturating_sub(1));
        Ok(published(revision, is_new, merged_with))
    }

    /// Publishes a tree that was made from a revision by edits. The store merges it with later publishes by others.
    #[cfg(feature = "fuse")]
    pub(crate) fn publish_edited(
        &self,
        site: &SiteName,
        base: spread::Revision,
        edited: EditedTree<'_>,
    ) -> Result<spread::Revision, FilesError> {
        let EditedTree { root, nodes, growth, note, waits, locks } = edited;
        let _publishing = self.depot.begin();
        let (life, base) = (base.number, self.kept(site, base.number.count)?);
        if base.full_number() != life {
            return Err(FilesError::NotKept { site: site.to_string(), base: base.number });
        }
        self.depot.put(site, nodes)?;
        let (files, bytes) = base.grown(growth);
        let (of, merges, ends_locks) = (None, true, false);
        let new = NewTree { root, of, files, bytes, note, waits, merges, locks, ends_locks };
        let revision = self.switch(site, Some(&base), new)?.revision;
        Ok(spread::Revision { number: revision.full_number(), root: revision.root() })
    }

    /// Reports what a publish would change in the newest revision, and publishes nothing.
    ///
    /// # Errors
    /// As of [`Sites::publish`]. The paths of [`FilesError::Conflict`] were reported before, as far as they are not too
    /// many.
    pub fn compare(
        &self,
        site: &SiteName,
        dir: &Path,
        settings: &Publish,
        on: &mut dyn FnMut(Progress) -> ControlFlow<()>,
        report: &mut dyn FnMut(&tree::Path, Difference),
    ) -> Result<Scanned, FilesError> {
        let exclude = Exclude::new(&settings.exclude)?;
        let (base, head) = self.base(site, settings)?;
        let head = match head {
            Some(head) if base.as_ref().is_none_or(|base| base.number != head) => Some(self.revision(site, head)?),
            _ => None,
        };
        if let Some(head) = &head {
            // A depot that holds the base keeps the nodes of the head.
            self.depot.hold(site, head)?;
            self.depot.expect_nodes(head.root())?;
        }
        base.as_ref().map_or(Ok(()), |base| self.depot.hold(site, base))?;
        let older = base.as_ref().map(Revision::root);
        let mut scan = self.scan(&exclude, Nodes::default(), false, on);
        let root = scan.run(dir, older)?;
        let base_number = base.as_ref().map_or(0, |base| base.number);
        let mut source = Beside { nodes: scan.sink, depot: &*self.depot };
        let scanned = Scanned { root, progress: scan.progress };
        let (older, newer) = match (&head, older) {
            (Some(head), base) => {
                let sides = Sides { base, head: head.root(), new: root };
                let newer = source.merge(sides)?.map_err(|paths| {
                    for path in &paths {
                        report(path, Difference::Conflict);
                    }
                    let (site, head) = (site.to_string(), head.number);
                    let paths = trees::list(&paths, paths.len() < CONFLICTS_MAX);
                    FilesError::Conflict { site, base: base_number, head, paths }
                })?;
                (head.root(), newer)
            }
            (None, Some(older)) => (older, root),
            (None, None) => (tree::write_directory(&[], &mut source.nodes)?, root),
        };
        diff(&source, older, newer, &mut |path, change| report(path, Difference::from(&change)))?;
        Ok(scanned)
    }

    fn scan<'a, S>(
        &'a self,
        exclude: &'a Exclude,
        sink: S,
        keeps_content: bool,
        on: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Scan<'a, S> {
        let store = self.depot.directory().and_then(|dir| dir.metadata().ok());
        Scan {
            older: &*self.depot,
            exclude,
            sink,
            keeps_content,
            repeats: false,
            on,
            progress: Progress::default(),
            linked: HashMap::new(),
            store: store.map(|metadata| (metadata.dev(), metadata.ino())),
            xattrs: Xattrs::default(),
            known: Known::default(),
            index: None,
            trusts_folders: false,
            nodes_read: 0,
            read_all: None,
        }
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

    /// The revision that a publish is made from, and the number of the newest one: none for a site that is not there.
    fn base(&self, site: &SiteName, settings: &Publish) -> Result<(Option<Revision>, Option<u64>), FilesError> {
        let head = match (self.head(site), settings.base) {
            (Err(FilesError::NoSite(_)), None | Some(0)) => None,
            (head, _) => head?,
        };
        let number = head.as_ref().map(|head| head.number);
        let base = match (number, settings.base) {
            (Some(head), Some(base)) if head != base && !settings.merge => {
                return Err(FilesError::Overtaken { site: site.to_string(), base, head });
            }
            (Some(head), Some(0)) if head > 0 => None,
            (Some(head), Some(base)) if head != base => Some(self.kept(site, base)?),
            _ => head,
        };
        Ok((base, number))
    }

    /// A revision from which a publish can be merged.
    fn kept(&self, site: &SiteName, base: u64) -> Result<Revision, FilesError> {
        match self.revision(site, base) {
            Err(FilesError::NoRevision(..)) => Err(FilesError::NotKept { site: site.to_string(), base }),
            revision => revision,
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

impl Beside<'_> {
    /// Merges a tree with the newest one. Returns the merged tree, or the paths that both have changed.
    fn merge(&mut self, sides: Sides) -> Result<Result<ChunkHash, Vec<tree::Path>>, FilesError> {
        let mut made = Nodes::default();
        Ok(match merge(&*self, sides, CONFLICTS_MAX, &mut made)? {
            Merge::Tree(root, _) => {
                self.nodes.0.extend(made.0);
                Ok(root)
            }
            Merge::Conflicts(paths) => Err(paths),
        })
    }
}

impl Source for Beside<'_> {
    type Error = FilesError;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, FilesError> {
        self.nodes.0.get(hash).map_or_else(|| self.depot.chunk(hash), |bytes| Ok(bytes.clone()))
    }
}
