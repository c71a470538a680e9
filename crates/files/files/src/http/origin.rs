//! Where a site's server has its revisions from: the store that this process has open, or a member's directory.

use crate::error::FilesError;
use crate::record::SiteName;
use crate::sites::Sites;
use machine::Table;
use spread::messages::VisitorKey;
use spread::{Opened, Revision, Visit};
use std::fmt;
use std::sync::Arc;
use tree::Source;

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

    /// Whether revisions are chosen in memory, and never wait for the store.
    fn is_in_memory(&self) -> bool;

    /// Chooses the revision for a visitor.
    fn open(&self, visit: Visit) -> Result<Opened, FilesError>;

    /// The key that signs the cookies of visitors, once there is a revision.
    fn visitor_key(&self) -> Result<Option<VisitorKey>, FilesError>;

    /// The chunks.
    fn source(&self) -> &dyn Source<Error = FilesError>;

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

/// A site of the store that this process has open.
#[derive(Debug)]
pub(crate) struct OwnSite {
    pub(crate) sites: Arc<Sites>,
    pub(crate) site: SiteName,
}

impl Origin for OwnSite {
    fn site(&self) -> &SiteName {
        &self.site
    }

    fn is_in_memory(&self) -> bool {
        false
    }

    fn open(&self, Visit { seen, navigates }: Visit) -> Result<Opened, FilesError> {
        let Some(head) = self.sites.head(&self.site)? else { return Ok(Opened::Nothing) };
        let newest = head.full_number();
        let (revision, moves) = match seen {
            // The store is older than what the visitor has seen (rule NeverBack).
            Some(seen) if seen > newest => return Ok(Opened::Behind),
            Some(seen) if !navigates && seen != newest => match self.sites.revision(&self.site, seen.count) {
                Ok(revision) if revision.full_number() == seen => (revision, false),
                Ok(_) | Err(FilesError::NoRevision(..)) => return Ok(Opened::Gone),
                Err(error) => return Err(error),
            },
            _ => (head, navigates && seen != Some(newest)),
        };
        let revision = Revision { number: revision.full_number(), root: revision.root() };
        Ok(Opened::View { revision, moves, stale: None })
    }

    fn visitor_key(&self) -> Result<Option<VisitorKey>, FilesError> {
        self.sites.visitor_key(&self.site).map(|key| Some(VisitorKey(key)))
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
