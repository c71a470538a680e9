//! The clean blocks of a cache that is not attached, as they lie in its directory.

use super::ScrubError;
use crate::attached::{Marker, lock_cache};
use crate::cache::CleanFiles;
use machines::messages::home::BlockSums;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use vfs::{Directory, Files, Lock};

/// The cache, which nobody attaches in the meantime.
#[derive(Debug)]
pub(super) struct CacheAtRest {
    files: CleanFiles,
    /// By their numbers: their slots, and the checksums that are kept of them.
    blocks: BTreeMap<u32, (u32, u32)>,
    _lock: Lock,
}

impl CacheAtRest {
    /// Looks at the cache of a volume in this directory; `None` if a process has it attached.
    pub(super) fn open(dir: &Path, volume: u64) -> Result<Option<Self>, ScrubError> {
        let files: Arc<dyn Files> = Arc::new(Directory::new(dir));
        let marker = Marker::read(&*files)?.ok_or_else(|| ScrubError::NoCache(dir.to_owned()))?;
        if marker.volume != volume {
            return Err(ScrubError::OtherCache(dir.to_owned()));
        }
        let Some(lock) = lock_cache(&*files)? else { return Ok(None) };
        let mut blocks = BTreeMap::new();
        let files = CleanFiles::look(files, marker.cache, &mut |slot, block, checksum| {
            blocks.insert(block, (slot, checksum));
        })?;
        Ok(Some(Self { files, blocks, _lock: lock }))
    }

    /// The bytes of a block that it has, if they are those that were kept.
    pub(super) fn read(&self, block: u32) -> Option<Vec<u8>> {
        let &(slot, checksum) = self.blocks.get(&block)?;
        self.files.read_kept(slot, checksum)
    }

    /// The sums of a block that it has.
    pub(super) fn sums(&self, block: u32) -> Option<BlockSums> {
        let &(slot, checksum) = self.blocks.get(&block)?;
        Some(self.files.sums(slot, checksum))
    }
}
