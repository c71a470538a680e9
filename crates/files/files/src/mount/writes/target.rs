//! Where the changes of a mount go: to the store, one by one, or to the private tree.

use crate::error::FilesError;
use crate::locks::Lock;
use crate::mount::private::{Branch, Stash, Stashed};
use crate::record::SiteName;
use crate::sites::{ConnectSites, EditedTree, Sites};
use crate::upload::Upload;
use bytes::Bytes;
use spread::Revision;
use spread::messages::Token;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tree::{ChunkHash, Growth, Path, Sink};

/// The place of changes.
pub(in crate::mount) enum Target {
    Store(Arc<Sites>),
    /// The store is connected to when they are published.
    Private(Arc<Branch>, ConnectSites),
}

/// Content on its way there.
pub(in crate::mount) enum Content<'a> {
    Store(Upload<'a>),
    Private(Stash<'a>),
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(sites) => f.debug_tuple("Store").field(sites).finish(),
            Self::Private(branch, _) => f.debug_tuple("Private").field(branch).finish(),
        }
    }
}

impl Target {
    /// Locks a path, where others are kept from changing it.
    pub(in crate::mount) fn lock(
        &self,
        site: &SiteName,
        path: &Path,
        within: Duration,
    ) -> Result<Option<Lock>, FilesError> {
        match self {
            Self::Store(sites) => sites.lock(site, path, within).map(Some),
            // The path is compared when it is published (rule CompareBase).
            Self::Private(..) => Ok(None),
        }
    }

    /// Receives the content of a file.
    pub(in crate::mount) fn content<'a>(&'a self, site: &'a SiteName) -> Content<'a> {
        match self {
            Self::Store(sites) => Content::Store(Upload::new(sites.depot(), site, false)),
            Self::Private(branch, _) => Content::Private(branch.stash()),
        }
    }

    /// Makes all changes durable that were made so far.
    pub(in crate::mount) fn sync(&self) -> Result<(), FilesError> {
        match self {
            Self::Store(_) => Ok(()),
            Self::Private(branch, _) => branch.sync(),
        }
    }

    /// Makes a tree that was made by edits the newest revision. The store merges it with later publishes by others.
    pub(in crate::mount) fn publish(
        &self,
        site: &SiteName,
        base: Revision,
        root: ChunkHash,
        nodes: &[(ChunkHash, Bytes)],
        growth: Growth,
        locks: Vec<Token>,
    ) -> Result<Revision, FilesError> {
        match self {
            Self::Store(sites) => {
                let (note, waits) = (String::new(), false);
                sites.publish_edited(site, base, EditedTree { root, nodes, growth, note, waits, locks })
            }
            Self::Private(branch, _) => branch.commit(base, root, nodes),
        }
    }
}

impl Content<'_> {
    /// Writes the rest, which is durable on return. A private file's chunks are kept until the outcome is dropped.
    pub(in crate::mount) fn end(self) -> Result<Option<Arc<Stashed>>, FilesError> {
        match self {
            Self::Store(upload) => upload.end().map(|_| None),
            Self::Private(stash) => stash.end().map(Some),
        }
    }
}

impl Sink for Content<'_> {
    type Error = FilesError;

    fn add(&mut self, hash: ChunkHash, bytes: Bytes) -> Result<(), FilesError> {
        match self {
            Self::Store(upload) => upload.add(hash, bytes),
            Self::Private(stash) => stash.add(hash, bytes),
        }
    }
}
