//! Where revisions come from that are served or mounted: the store that this process has open, or a member's directory.

use crate::error::FilesError;
use crate::line::lock;
use crate::member::fetching::{Fetching, Lack, Reading};
use crate::record::SiteName;
use crate::sites::Sites;
use bytes::Bytes;
use machine::Table;
#[cfg(feature = "fuse")]
use spread::Number;
use spread::messages::VisitorKey;
use spread::{Opened, Revision, Visit};
use std::fmt;
use std::future::{self, Future};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
#[cfg(feature = "fuse")]
use tree::Path;
use tree::{ChunkHash, ReadError, Source};

/// The reason why something was not read.
#[derive(Debug)]
pub(crate) enum NotRead {
    /// Not in memory, and the reader may not wait.
    OnDisk,
    /// Content that is not here: to be read again when it was fetched ([`Origin::fetch`]).
    Elsewhere(ChunkHash),
    /// The store or the disk failed.
    Failed(FilesError),
}

impl From<FilesError> for NotRead {
    fn from(error: FilesError) -> Self {
        match error {
            FilesError::Elsewhere(hash) => Self::Elsewhere(hash),
            error => Self::Failed(error),
        }
    }
}

impl From<ReadError<Self>> for NotRead {
    fn from(error: ReadError<Self>) -> Self {
        match error {
            ReadError::Source(not_read) => not_read,
            ReadError::Malformed(hash, why) => Self::Failed(ReadError::Malformed(hash, why).into()),
        }
    }
}

/// The chunks at a server of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LocalChunks {
    pub(crate) chunks: u64,
    pub(crate) bytes: u64,
}

/// The revisions of a site.
pub(crate) trait Origin: fmt::Debug + Send + Sync {
    /// The site.
    fn site(&self) -> &SiteName;

    /// Chooses the revision for a visitor. Only a caller that `waits` may wait for the store.
    fn open(&self, visit: Visit, waits: bool) -> Result<Opened, NotRead>;

    /// The key that signs the cookies of visitors, once there is a revision.
    fn visitor_key(&self, waits: bool) -> Result<Option<VisitorKey>, NotRead>;

    /// Whether the site wants its servers to refuse to serve a revision that may be stale.
    fn refuses_stale(&self) -> bool {
        false
    }

    /// Waits until there may be an answer to a visitor who waits for the newest revision, or another one is served.
    /// Without such news, it never ends: callers look from time to time.
    fn news(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(future::pending())
    }

    /// The chunks: nodes of directories, and others that are here.
    fn source(&self) -> &dyn Source<Error = FilesError>;

    /// A chunk of content: a piece of a file, or a list of pieces. [`FilesError::Elsewhere`] if it must be fetched.
    fn content(&self, hash: &ChunkHash) -> Result<Bytes, FilesError> {
        self.source().chunk(hash)
    }

    /// Keeps content here until the outcome is dropped, where a part is kept.
    fn keep(&self, hash: ChunkHash) -> Option<Reading> {
        let _ = hash;
        None
    }

    /// Fetches content that is not here. It is here until the outcome is dropped.
    fn fetch(&self, lack: Lack) -> Fetching {
        Box::pin(future::ready(Err(FilesError::MissingChunk(lack.hash))))
    }

    /// The number of the revision that visitors who come now are served; 0 before the first.
    fn head(&self) -> Result<u64, FilesError>;

    /// How many chunks are here.
    fn chunks(&self) -> LocalChunks;

    /// Troubles that operators should know of.
    fn troubles(&self) -> Vec<String> {
        Vec::new()
    }

    /// The tables of its own.
    fn tables(&self) -> Vec<Table> {
        Vec::new()
    }
}

/// The revisions of a site for sessions that may last for long: open files.
#[cfg(feature = "fuse")]
pub(crate) trait Sessions: Origin {
    /// The revision that is served, without a visitor; none before the first.
    fn current(&self) -> Result<Option<Revision>, FilesError>;

    /// Whether visitors may have to wait for the newest revision.
    fn is_lazy(&self) -> bool {
        false
    }

    /// The revisions that can be read, the oldest first.
    fn kept(&self) -> Result<Vec<Revision>, FilesError>;

    /// A revision is read, and kept for as long as a page. Returns its tree; none if it is not here.
    fn visit(&self, number: Number) -> Option<ChunkHash>;

    /// Begins to read a revision, which is kept until [`Sessions::end`]. Returns its tree; none if it is not here.
    fn begin(&self, number: Number) -> Option<ChunkHash>;

    /// Ends what [`Sessions::begin`] began.
    fn end(&self, number: Number);

    /// The number of the site's revision that a private one is made from.
    fn of_site(&self, number: Number) -> Number {
        number
    }

    /// The private changes, where there can be some.
    fn private(&self) -> Option<Private> {
        None
    }

    /// Removes what is no longer needed here, from time to time.
    fn tidy(&self) -> Result<(), FilesError> {
        Ok(())
    }
}

/// The private changes of a mount.
#[cfg(feature = "fuse")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Private {
    pub(crate) changes: usize,
    /// The first paths that the site has changed, too.
    pub(crate) conflicts: Vec<Path>,
}

/// A site of the store that this process has open.
#[derive(Debug)]
pub(crate) struct OwnSite {
    sites: Arc<Sites>,
    site: SiteName,
    newest: Mutex<Option<Newest>>,
}

/// The newest revision, as its record was read when so many changes had been made.
#[derive(Clone, Copy, Debug)]
struct Newest {
    changes: u64,
    revision: Option<Revision>,
    key: VisitorKey,
}

impl OwnSite {
    pub(crate) fn new(sites: Arc<Sites>, site: SiteName) -> Self {
        Self { sites, site, newest: Mutex::default() }
    }

    /// The newest revision, from memory unless a change has been made since it was read.
    fn newest(&self, waits: bool) -> Result<Newest, NotRead> {
        let changes = self.sites.changes();
        let known = *lock(&self.newest);
        if let Some(known) = known.filter(|known| known.changes == changes) {
            return Ok(known);
        }
        if !waits {
            return Err(NotRead::OnDisk);
        }
        let key = VisitorKey(self.sites.visitor_key(&self.site)?);
        let revision = self.sites.head(&self.site)?.map(|head| of(&head));
        let newest = Newest { changes, revision, key };
        *lock(&self.newest) = Some(newest);
        Ok(newest)
    }
}

fn of(revision: &crate::record::Revision) -> Revision {
    Revision { number: revision.full_number(), root: revision.root() }
}

impl Origin for OwnSite {
    fn site(&self) -> &SiteName {
        &self.site
    }

    fn open(&self, Visit { seen, navigates, .. }: Visit, waits: bool) -> Result<Opened, NotRead> {
        let Some(newest) = self.newest(waits)?.revision else { return Ok(Opened::Nothing) };
        let (revision, moves) = match seen {
            // The store is older than what the visitor has seen (rule NeverBack).
            Some(seen) if seen > newest.number => return Ok(Opened::Behind),
            Some(seen) if !navigates && seen != newest.number => {
                if !waits {
                    return Err(NotRead::OnDisk);
                }
                match self.sites.revision(&self.site, seen.count) {
                    Ok(revision) if revision.full_number() == seen => (of(&revision), false),
                    Ok(_) | Err(FilesError::NoRevision(..)) => return Ok(Opened::Gone),
                    Err(error) => return Err(error.into()),
                }
            }
            _ => (newest, navigates && seen != Some(newest.number)),
        };
        Ok(Opened::View { revision, moves, stale: None })
    }

    fn visitor_key(&self, waits: bool) -> Result<Option<VisitorKey>, NotRead> {
        Ok(Some(self.newest(waits)?.key))
    }

    fn source(&self) -> &dyn Source<Error = FilesError> {
        self.sites.depot()
    }

    fn head(&self) -> Result<u64, FilesError> {
        Ok(self.sites.head(&self.site)?.map_or(0, |head| head.number))
    }

    fn chunks(&self) -> LocalChunks {
        let (chunks, bytes) = self.sites.depot().size();
        LocalChunks { chunks, bytes }
    }

    fn troubles(&self) -> Vec<String> {
        self.sites.head(&self.site).err().map(|error| error.to_string()).into_iter().collect()
    }
}

#[cfg(feature = "fuse")]
impl Sessions for OwnSite {
    fn current(&self) -> Result<Option<Revision>, FilesError> {
        Ok(self.sites.head(&self.site)?.map(|head| of(&head)))
    }

    fn kept(&self) -> Result<Vec<Revision>, FilesError> {
        Ok(self.sites.log(&self.site)?.iter().map(of).collect())
    }

    fn visit(&self, number: Number) -> Option<ChunkHash> {
        let revision = self.sites.revision(&self.site, number.count).ok()?;
        (revision.full_number() == number).then(|| revision.root())
    }

    /// Only this process can publish to the store, and drop what is read here.
    fn begin(&self, number: Number) -> Option<ChunkHash> {
        self.visit(number)
    }

    fn end(&self, _: Number) {}
}
