//! Verification: all chunks of a site are read.

use super::Sites;
use crate::error::FilesError;
use crate::record::SiteName;
use crate::stored::Stored;
use chunks::ChunkError;
use std::collections::HashSet;
use tree::{Source, mark};

impl Sites {
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
}
