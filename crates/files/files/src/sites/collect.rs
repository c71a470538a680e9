//! Collection: chunks that no revision needs are removed.

use super::{Sites, revisions};
use crate::error::FilesError;
use crate::record::{ROOT, Revision, SiteRecord};
use crate::stored::Stored;
use std::collections::HashSet;
use std::sync::PoisonError;
use tree::{ChunkHash, Part, mark};

/// The chunks that a collection has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Chunks.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Sites {
    /// Removes all chunks that no kept revision of any site in any space needs.
    ///
    /// # Errors
    /// A tree that cannot be read, which removes nothing, and the store's.
    pub fn collect(&self) -> Result<Collected, FilesError> {
        let _publishing = self.publishing.write().unwrap_or_else(PoisonError::into_inner);
        let mut used: HashSet<(ChunkHash, Part)> = HashSet::new();
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
                mark(&Stored(&self.chunks), root, |hash, part| used.insert((*hash, part)))?;
            }
        }
        let is_used = |hash: &ChunkHash| Part::ALL.iter().any(|part| used.contains(&(*hash, *part)));
        let swept = self.chunks.sweep(is_used, |_| {})?;
        Ok(Collected { chunks: swept.chunks, bytes: swept.bytes })
    }
}
