//! The sites of a space: publish, roll back, list, read, verify. The store is a directory that this process has open,
//! or a server.
//!
//! | to change | see |
//! |---|---|
//! | how a directory becomes a revision, and a dry run | `publish.rs` |
//! | how the chunks of a site are checked | `verify.rs` |
//! | how revisions are copied to another store | `copy.rs`, and their chunks, `copy/transfer.rs` |

mod copy;
mod publish;
mod verify;

pub use copy::{Copied, SiteCopy};
pub(crate) use copy::{Transfer, is_lost};
#[cfg(feature = "fuse")]
pub(crate) use publish::EditedTree;
pub use publish::{Difference, Publish, Published};
pub use verify::Damage;

use crate::depot::{Collected, Depot, Follower, NewTree, Switched};
use crate::error::FilesError;
use crate::local::Local;
use crate::locks::Lock;
use crate::record::{Revision, SiteName, life_now};
use crate::records::{Records, Summary};
use crate::remote::{Remote, Server};
use crate::view::View;
use objects::Db;
use spread::SiteSettings;
use spread::server_work::Settings;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;
use tree::{Change, diff};

/// The settings of a rollback.
#[derive(Clone, Debug, Default)]
pub struct Rollback {
    /// A note for the log.
    pub note: String,
    /// Whether to wait until no server shows another revision without saying so.
    pub wait: bool,
    /// Whether to end the locks of files that change, instead of waiting for their holders.
    pub now: bool,
}

/// The sites of a space of a store.
#[derive(Debug)]
pub struct Sites {
    records: Records,
    depot: Box<dyn Depot>,
    /// How many changes of records were made.
    changes: AtomicU64,
}

/// Connects to a store, when that is needed.
pub type ConnectSites = Arc<dyn Fn() -> Result<Sites, FilesError> + Send + Sync>;

impl Sites {
    /// The sites of a space of the store in `dir`, which `db` has open. The folder of its chunks is made if there is
    /// none.
    ///
    /// # Errors
    /// A folder that is in use, that cannot be made, or that has no chunks in it.
    pub fn open(db: Db, dir: &Path) -> Result<Self, FilesError> {
        let records = Records::new(db, life_now());
        Ok(Self::over(records.clone(), Box::new(Local::open(records, dir)?)))
    }

    /// The sites of a space of a store that is served: `db` is connected to it. Without one, the space is not there,
    /// and the server makes it for the first site.
    ///
    /// # Errors
    /// A server that cannot be reached, or that is not of Thorp.
    pub fn connect(db: Option<Db>, server: Server) -> Result<Self, FilesError> {
        let records = Records::at_server(db);
        let remote = Remote::connect(server, records.clone())?;
        let records = records.naming(remote.missed());
        Ok(Self::over(records, Box::new(remote)))
    }

    /// The sites whose records and chunks are in these places.
    pub(crate) fn over(records: Records, depot: Box<dyn Depot>) -> Self {
        Self { records, depot, changes: AtomicU64::new(0) }
    }

    /// Creates a site without a revision.
    ///
    /// # Errors
    /// [`FilesError::IsThere`], and the store's.
    pub fn create(&self, site: &SiteName, settings: SiteSettings) -> Result<(), FilesError> {
        self.changing(|depot| depot.create(site, settings))
    }

    /// Changes settings of a site.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub fn set(&self, site: &SiteName, settings: SiteSettings) -> Result<(), FilesError> {
        self.changing(|depot| depot.set(site, settings))
    }

    /// Removes a site with all its revisions. Its chunks stay until a collection.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub fn remove(&self, site: &SiteName) -> Result<(), FilesError> {
        self.changing(|depot| depot.remove(site))
    }

    /// Publishes a tree, if `base` is still the newest revision or the two can be merged.
    fn switch(&self, site: &SiteName, base: Option<&Revision>, new: NewTree) -> Result<Switched, FilesError> {
        self.changing(|depot| depot.switch(site, base, new))
    }

    fn changing<T>(&self, change: impl FnOnce(&dyn Depot) -> T) -> T {
        let changed = change(&*self.depot);
        self.changes.fetch_add(1, Release);
        changed
    }

    /// The number of changes made here. The sites in a directory that this process has open are changed here only.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// Locks a path of a site, which need not be there: until the lock is dropped or over, no other publisher changes
    /// the path (rule PExcludes). Its holder is asked to publish and release it, and waited for at most so long.
    ///
    /// # Errors
    /// [`FilesError::Locked`], [`FilesError::NoSite`], and the store's.
    pub fn lock(&self, site: &SiteName, path: &tree::Path, within: Duration) -> Result<Lock, FilesError> {
        self.depot.lock(site, path, within)
    }

    /// Publishes an earlier revision again, under a new number.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], [`FilesError::NoRevision`], [`FilesError::IsHead`], [`FilesError::Overtaken`],
    /// [`FilesError::NotEverywhere`].
    pub fn rollback(&self, site: &SiteName, to: u64, settings: &Rollback) -> Result<Revision, FilesError> {
        let Some(head) = self.head(site)? else { return Err(FilesError::NoRevision(site.to_string(), to)) };
        let earlier = self.revision(site, to)?;
        if earlier.root() == head.root() {
            return Err(FilesError::IsHead(site.to_string(), to));
        }
        let (files, bytes) = (earlier.files, earlier.bytes);
        let Rollback { note, wait: waits, now: ends_locks } = settings.clone();
        let (root, of, locks) = (earlier.root(), Some(to), Vec::new());
        let new = NewTree { root, of, files, bytes, note, waits, merges: false, locks, ends_locks };
        Ok(self.switch(site, Some(&head), new)?.revision)
    }

    /// Removes all chunks that no kept revision of any site in any space needs.
    ///
    /// # Errors
    /// A tree that cannot be read, which removes nothing, and the store's.
    pub fn collect(&self) -> Result<Collected, FilesError> {
        self.depot.collect()
    }

    /// How the members and relays that follow a site stand.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub fn followers(&self, site: &SiteName) -> Result<Vec<Follower>, FilesError> {
        self.depot.survey(site)
    }

    /// The newest revision of a site; none before its first.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub fn head(&self, site: &SiteName) -> Result<Option<Revision>, FilesError> {
        self.records.head(site)
    }

    /// A revision of a site.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], [`FilesError::NoRevision`], and the store's.
    pub fn revision(&self, site: &SiteName, number: u64) -> Result<Revision, FilesError> {
        self.records.revision(site, number)
    }

    /// The revisions of a site that are kept, the newest first.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub fn log(&self, site: &SiteName) -> Result<Vec<Revision>, FilesError> {
        self.records.log(site)
    }

    /// All sites, by name.
    ///
    /// # Errors
    /// The store's.
    pub fn list(&self) -> Result<Vec<Summary>, FilesError> {
        self.records.list()
    }

    /// The revision that a rollback brings back: the one before the newest. If the newest is a rollback itself, it is
    /// the one before that which was brought back, so every rollback goes further back. None if there is none.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub fn before_newest(&self, site: &SiteName) -> Result<Option<Revision>, FilesError> {
        let log = self.log(site)?;
        let Some(head) = log.first() else { return Ok(None) };
        let mut at = head;
        let mut number = at.number;
        // The revision that was brought back may have been a rollback, too, or be no longer kept.
        while let Some(of) = at.of.filter(|of| *of < number) {
            number = of;
            let Some(earlier) = log.iter().find(|it| it.number == of) else { break };
            at = earlier;
        }
        let root = head.root();
        Ok(log.into_iter().find(|it| it.number < number && it.root() != root))
    }

    /// The view of a revision, or of the newest one. At a server the revision is held for as long as the sites are open
    /// and no other one is viewed.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], [`FilesError::NoRevision`], and the store's.
    pub fn view(&self, site: &SiteName, number: Option<u64>) -> Result<View<'_>, FilesError> {
        let revision = match number {
            Some(number) => self.revision(site, number)?,
            None => self.head(site)?.ok_or_else(|| FilesError::NoRevision(site.to_string(), 1))?,
        };
        self.depot.hold(site, &revision)?;
        Ok(View::new(&*self.depot, revision))
    }

    /// The settings of a site.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub fn settings(&self, site: &SiteName) -> Result<Settings, FilesError> {
        self.records.with(site, |_, record| Ok(record.settings()))
    }

    /// The key that signs the cookies of a site's visitors.
    ///
    /// # Errors
    /// [`FilesError::NoSite`], and the store's.
    pub(crate) fn visitor_key(&self, site: &SiteName) -> Result<[u8; 32], FilesError> {
        self.records.with(site, |_, record| Ok(record.visitor_key))
    }

    /// The directory of the store, if this process has it open.
    pub fn directory(&self) -> Option<&Path> {
        self.depot.directory()
    }

    /// The place of the chunks.
    pub(crate) fn depot(&self) -> &dyn Depot {
        &*self.depot
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
        for revision in [&older, &newer] {
            self.depot.hold(site, revision)?;
            // A depot that holds one of them keeps the nodes of the other.
            self.depot.expect_nodes(revision.root())?;
        }
        Ok(diff(&&*self.depot, older.root(), newer.root(), &mut |path, change| report(path, change))?)
    }
}
