//! Where the chunks and the records of sites are kept: in a directory of this process, or at a server.

use crate::error::FilesError;
use crate::locks::Lock;
use crate::record::{Revision, SiteName};
use bytes::Bytes;
use spread::SiteSettings;
use spread::messages::Token;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::RwLockReadGuard;
use std::time::Duration;
use tree::{ChunkHash, Source};

/// The chunks that a collection has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Chunks.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A member or relay that follows a site, as its store knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follower {
    /// The number of its run, drawn at random.
    pub life: u64,
    /// The revision that it has reported last.
    pub revision: u64,
    /// The rest of its lease.
    pub lease: Duration,
    /// The revisions that it holds.
    pub holds: u32,
    /// Whether it is connected.
    pub is_connected: bool,
}

/// A tree that a publish makes the newest revision of a site.
#[derive(Clone, Debug)]
pub(crate) struct NewTree {
    pub(crate) root: ChunkHash,
    /// The revision that it brings back.
    pub(crate) of: Option<u64>,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) note: String,
    /// Whether to wait until no server shows an older revision without saying so.
    pub(crate) waits: bool,
    /// Whether the changes since the base are made to the newest revision, if there is a newer one.
    pub(crate) merges: bool,
    /// The locks under which paths are changed.
    pub(crate) locks: Vec<Token>,
    /// Whether locks of others are ended whose paths are changed, instead of waiting for their holders.
    pub(crate) ends_locks: bool,
}

/// The outcome of a switch.
#[derive(Clone, Debug)]
pub(crate) struct Switched {
    /// The newest revision. Its tree may be another one that was merged.
    pub(crate) revision: Revision,
    /// Whether the switch has made it. It was there before if nothing had changed.
    pub(crate) is_new: bool,
}

/// A publish that is under way: while it is, no chunk is removed that it relies on.
#[derive(Debug)]
pub(crate) struct Publishing<'a>(#[expect(dead_code, reason = "held")] pub(crate) Option<RwLockReadGuard<'a, ()>>);

/// A place of chunks and records. As a source it verifies what it returns (rule VerifyChunk).
pub(crate) trait Depot: Source<Error = FilesError> + fmt::Debug + Send + Sync {
    /// A publish begins.
    fn begin(&self) -> Publishing<'_>;

    /// Returns the chunks that are missing, each once. None of the others is removed while the publish lasts.
    fn missing(&self, hashes: &[ChunkHash]) -> Result<Vec<ChunkHash>, FilesError>;

    /// Stores chunks for a revision of a site, which are durable on return (rule DurableFirst).
    fn put(&self, site: &SiteName, chunks: &[(ChunkHash, Bytes)]) -> Result<(), FilesError>;

    /// Reads chunks: those that are damaged are missing from then on.
    fn check(&self, hashes: &[ChunkHash]) -> Result<(), FilesError>;

    /// Makes a tree the newest revision, if the newest is still `base`, or if it merges and the newest has not changed
    /// the same paths (rules OneSwitch, CompareBase). Paths that others have locked are waited for (rule PExcludes).
    fn switch(&self, site: &SiteName, base: Option<&Revision>, new: NewTree) -> Result<Switched, FilesError>;

    /// Locks a path of a site, which need not be there (rule PExcludes). Its holder is asked to release it, and waited
    /// for at most so long.
    ///
    /// # Errors
    /// [`FilesError::Locked`], [`FilesError::NoSite`], and the store's.
    fn lock(&self, site: &SiteName, path: &tree::Path, within: Duration) -> Result<Lock, FilesError>;

    /// Creates a site without a revision.
    fn create(&self, site: &SiteName, settings: SiteSettings) -> Result<(), FilesError>;

    /// Changes settings of a site.
    fn set(&self, site: &SiteName, settings: SiteSettings) -> Result<(), FilesError>;

    /// Removes a site with all its revisions.
    fn remove(&self, site: &SiteName) -> Result<(), FilesError>;

    /// How the servers that follow a site stand.
    fn survey(&self, site: &SiteName) -> Result<Vec<Follower>, FilesError>;

    /// Waits until no server shows a revision before this one, the newest, without saying so.
    fn wait_everywhere(&self, site: &SiteName, head: &Revision) -> Result<(), FilesError> {
        let _ = (site, head);
        Ok(())
    }

    /// Removes the chunks that no kept revision of any site needs.
    fn collect(&self) -> Result<Collected, FilesError>;

    /// Holds a revision that is about to be read, and none of those before: it is not removed while this depot lives.
    ///
    /// # Errors
    /// [`FilesError::NoSite`] and [`FilesError::NoRevision`] for one that was removed already, and the store's.
    fn hold(&self, site: &SiteName, revision: &Revision) -> Result<(), FilesError> {
        let _ = (site, revision);
        Ok(())
    }

    /// The nodes of a tree are about to be read, all of them; other threads may read them from now on.
    fn expect_nodes(&self, root: ChunkHash) -> Result<(), FilesError> {
        let _ = root;
        Ok(())
    }

    /// These chunks are about to be read.
    fn expect_chunks(&self, hashes: &[ChunkHash]) {
        let _ = hashes;
    }

    /// The folder of the indexes of published directories, if there can be one.
    fn indexes(&self) -> Option<PathBuf>;

    /// The number of the chunks here, and their bytes; nothing for a server's.
    fn size(&self) -> (u64, u64) {
        (0, 0)
    }

    /// The directory that must not be published, as it is the store itself.
    fn directory(&self) -> Option<&Path> {
        None
    }
}
