//! Copies what is whole of a damaged store into a new one that its users can work with.
//!
//! 1. The damaged store is only read. It is worth a second try with better means.
//! 2. A page of the new store is what it was in the old one: its image, with what was set aside for it and what the log
//!    holds on top. A page whose image cannot be read keeps the slots that were committed since the image was made.
//! 3. A page that has lost something keeps a mark in its last slot, so that the store never grants it again. A
//!    reference to a lost object leads to nothing, and not to a new object.
//! 4. The new store is another data set: a cache that has seen more of the old one does not take it for its own.
//! 5. The new directory appears when all of it is durable, or not at all.

use crate::config::Config;
use crate::directory;
use crate::doctor::{Finding, Report};
use crate::error::DiskError;
use crate::open::{make_directory, open, sync_directory};
use crate::page_file::{Home, Installed, RedbHome};
use crate::records::StoreRecords;
use bytes::Bytes;
use log::{LogId, Scan};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{Checkpoint, CommitRecord, HomeImage, HomePage, Position, Record, SetAside, Uncounted};
use types::limits::SLOTS_MAX;
use types::{Delta, ObjectPage, PageId, Shard, Sharding, SlotChange, SlotNo, Vector, Version};
use vfs::{Directory, Doing, FileError, Files, Locking, Overlay};

/// The mark in the last slot of a page that has lost something.
const LOST_MARK: &[u8] = b"thorp: part of this page was lost";
const LOST_MARK_SLOT: SlotNo = (SLOTS_MAX - 1) as SlotNo;

/// So many bytes of images are installed at once.
const BATCH_BYTES: usize = 8 << 20;

const CACHE_BYTES: usize = 64 << 20;

/// A page that is not whole in the new store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostPage {
    /// The page.
    pub page: PageId,
    /// The objects that it keeps: those that were committed after its image was made.
    pub kept: usize,
    /// The damage.
    pub why: String,
}

/// The outcome of a salvage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// The pages that are whole in the new store.
    pub pages: u64,
    /// The records of the log that were read.
    pub records: u64,
    /// The pages that are not.
    pub lost: Vec<LostPage>,
    /// Further damage, whose content is unknown.
    pub findings: Vec<Finding>,
}

const LIST: &str = "pages that it does not list any more are missing";
const STATE: &str = "pages without objects may be granted again";
const LOG: &str = "what was committed since is missing";

/// Copies what is whole of the store in `dir` to a new store in `to`, which must not exist.
///
/// # Errors
/// If there is no store in `dir`, or if it is in use; if its marker or the page home as a whole cannot be read; if `to`
/// exists or cannot be written.
pub fn salvage(dir: &Path, to: &Path) -> Result<Salvaged, DiskError> {
    let mut partial = to.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    for path in [to, &partial] {
        if path.symlink_metadata().is_ok() {
            let exists =
                io::Error::new(io::ErrorKind::AlreadyExists, "it exists: remove it, or name another directory");
            return Ok(Err(exists).doing("create", || path.to_owned())?);
        }
    }
    let source = Source::open(Arc::new(Directory::new(dir)))?;
    make_directory(&partial, &sync_directory).doing("create", || partial.clone())?;
    let salvaged = source.write_to(&partial)?;
    std::fs::rename(&partial, to).doing("rename", || partial.clone())?;
    let above = to.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_directory(above).doing("sync", || above.to_owned())?;
    Ok(salvaged)
}

/// The damaged store, as far as it can be read.
struct Source {
    home: RedbHome,
    pages: Vec<HomePage>,
    changes: BTreeMap<PageId, Changes>,
    checkpoint: Checkpoint,
    /// A directory without a cluster has one shard.
    sharding: Sharding,
    report: Report,
    _lock: vfs::Lock,
}

/// The newest changes to a page that the log and the checkpoint hold, by slot. The image may cover some of them.
#[derive(Default)]
struct Changes(BTreeMap<SlotNo, (Version, SlotChange)>);

impl Changes {
    fn add(&mut self, version: Version, changes: Vec<SlotChange>) {
        self.0.extend(changes.into_iter().map(|change| (change.slot, (version, change))));
    }

    /// Returns the changes after a version, in slot order.
    fn after(&self, known: Version) -> Vec<SlotChange> {
        self.0.values().filter(|(version, _)| *version > known).map(|(_, change)| change.clone()).collect()
    }

    /// The page's version with all of them, if any is later than this.
    fn version(&self, known: Version) -> Version {
        self.0.values().map(|(version, _)| *version).fold(known, Version::max)
    }
}

impl Source {
    fn open(files: Arc<dyn Files>) -> Result<Self, DiskError> {
        let files: Arc<dyn Files> = Arc::new(Overlay(files));
        let marker = directory::look_at(&*files, false)?.ok_or_else(|| DiskError::NoStore(files.path("")))?;
        let lock = directory::lock(&*files, Locking::Shared)?;
        let (home, pages, damage) = RedbHome::open_damaged(files.clone(), CACHE_BYTES)?;
        let (mut report, mut checkpoint) = (Report::default(), home.checkpoint());
        let mut changes = BTreeMap::<_, Changes>::new();
        for SetAside { page, version, changes: aside } in std::mem::take(&mut checkpoint.aside) {
            changes.entry(page).or_default().add(version, aside);
        }
        for (error, is_state) in damage {
            report.note(Err::<(), _>(error), if is_state { STATE } else { LIST })?;
        }
        let mut source = Self { home, pages, changes, checkpoint, sharding: Sharding::ONE, report, _lock: lock };
        source.read_log(files, LogId(marker.cluster.0))?;
        Ok(source)
    }

    /// Takes the changes that the log holds, in the order of recovery (crate `store`, `recovery.rs`).
    fn read_log(&mut self, files: Arc<dyn Files>, id: LogId) -> Result<(), DiskError> {
        let scan = Scan::<StoreRecords>::begin(files, id, self.home.durable());
        let Some(mut scan) = self.report.note(scan, LOG)? else { return Ok(()) };
        let mut uncounted = Uncounted::default();
        while let Some((position, record)) = self.report.note(scan.next_record(), LOG)?.flatten() {
            self.report.records += 1;
            match record {
                Record::Commit(commit) => self.replay(commit),
                Record::Uncounted(commit) => uncounted.push(Position(position), commit),
                Record::Counts(counts) => {
                    for counted in counts {
                        self.given(&Vector::only(counted.version));
                        if let Some((_, commit)) = uncounted.counted(counted) {
                            self.replay(commit);
                        }
                    }
                }
                Record::Incarnation { counts, .. } => {
                    let last = counts.map(|counts| counts.of(Shard::ONLY));
                    while let Some((_, commit)) = last.and_then(|last| uncounted.pop_through(last)) {
                        self.replay(commit);
                    }
                }
                Record::Grant { space, next } => self.granted_below(space, next),
            }
        }
        while let Some((_, commit)) = uncounted.pop(self.checkpoint.applied.of(Shard::ONLY).next()) {
            self.replay(commit);
        }
        Ok(())
    }

    /// Counts were given through these.
    fn given(&mut self, counts: &Vector) {
        self.checkpoint.applied.join(counts);
    }

    fn replay(&mut self, commit: CommitRecord) {
        self.given(&commit.counts);
        for Delta { page, changes } in commit.deltas {
            let version = commit.counts.of(self.sharding.of(page));
            self.changes.entry(page).or_default().add(version, changes);
        }
    }

    fn granted_below(&mut self, space: u32, next: u32) {
        match self.checkpoint.next_pages.iter_mut().find(|(of, _)| *of == space) {
            Some((_, known)) => *known = next.max(*known),
            None => self.checkpoint.next_pages.push((space, next)),
        }
    }

    /// Makes the new store.
    fn write_to(mut self, dir: &Path) -> Result<Salvaged, DiskError> {
        // Opened and closed once, it is a store with nothing in it.
        let config = Config::default();
        open(dir, &config)?.finish()?.close()?;
        let (target, _) = RedbHome::open(Arc::new(Directory::new(dir)), CACHE_BYTES, Arc::default())?;
        let listed: BTreeMap<_, _> = self.pages.iter().map(|page| (page.page, page.version)).collect();
        let unlisted = self.changes.keys().filter(|page| !listed.contains_key(page)).copied();
        let all: Vec<PageId> = listed.keys().copied().chain(unlisted).collect();
        for page in &all {
            self.granted_below(page.space, page.number.saturating_add(1));
        }
        let durable = target.durable();
        let forgotten = self.checkpoint.applied.clone();
        let checkpoint = Checkpoint { forgotten, outcomes: Vec::new(), ..self.checkpoint.clone() };
        let mut salvaged = Salvaged { records: self.report.records, ..Salvaged::default() };
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for page in all {
            let image = self.page(page, listed.get(&page).copied(), &mut salvaged)?;
            bytes += image.image.len();
            batch.push(image);
            if bytes >= BATCH_BYTES {
                install(&target, dir, &std::mem::take(&mut batch), &checkpoint, durable)?;
                bytes = 0;
            }
        }
        install(&target, dir, &batch, &checkpoint, durable)?;
        target.close(durable)?;
        salvaged.findings = self.report.findings;
        Ok(salvaged)
    }

    /// The page as it is in the new store; what it has lost is noted.
    fn page(&self, page: PageId, listed: Option<Version>, salvaged: &mut Salvaged) -> Result<HomeImage, DiskError> {
        let read = match listed {
            Some(_) => self.image(page)?,
            None => Ok((Version::ZERO, ObjectPage::empty())),
        };
        let none = Changes::default();
        let since = self.changes.get(&page).unwrap_or(&none);
        let (known, image) = match read {
            Ok((version, image)) => {
                salvaged.pages += 1;
                (version, image.with(&since.after(version)))
            }
            Err(why) => {
                // The version of the lost image does not matter: the newest value of each known slot is kept.
                let mut slots = since.after(Version::ZERO);
                let kept = slots.iter().filter(|change| change.value.is_some()).count();
                salvaged.lost.push(LostPage { page, kept, why });
                slots.retain(|change| change.slot != LOST_MARK_SLOT);
                slots.push(SlotChange { slot: LOST_MARK_SLOT, value: Some(Bytes::from_static(LOST_MARK)) });
                (listed.unwrap_or_default(), ObjectPage::empty().with(&slots))
            }
        };
        let image = image.map_err(|_| DiskError::Config(format!("page {page} has grown past its limit")))?;
        Ok(HomeImage { page, version: since.version(known), image: image.image().clone() })
    }

    /// A page's image, or what is wrong with it.
    fn image(&self, page: PageId) -> Result<Result<(Version, ObjectPage), String>, DiskError> {
        let found = self.home.read(&[page])?.pop().map(|(_, found)| found);
        let read = match found {
            Some(Ok(Some(read))) => Ok(read),
            Some(Err(error)) => Err(error.to_string()),
            Some(Ok(None)) | None => Err("it is not in the page home".to_owned()),
        };
        Ok(read.and_then(|(version, image)| {
            ObjectPage::parse(image).map(|image| (version, image)).map_err(|error| error.to_string())
        }))
    }
}

fn install(
    home: &RedbHome,
    dir: &Path,
    images: &[HomeImage],
    checkpoint: &Checkpoint,
    durable: u64,
) -> Result<(), DiskError> {
    match home.install(images, checkpoint.clone(), durable)? {
        Installed::Done => Ok(()),
        Installed::Full => {
            let source = io::Error::from(io::ErrorKind::StorageFull);
            Err(FileError::Io { doing: "write", file: dir.to_owned(), source }.into())
        }
    }
}
