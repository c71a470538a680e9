//! The clean blocks of a volume that is attached, for a comparison with home's.

use super::{Attached, Core};
use protocol::volume_home::BlockSums;

impl Attached {
    /// The clean blocks among so many from this one on: the checksums that are kept of them, and those of what is read in the
    /// cache.
    pub fn clean_sums(&self, first: u32, blocks: u32) -> Vec<(u32, BlockSums)> {
        let all = first..first.saturating_add(blocks);
        all.filter_map(|block| Some((block, self.core.clean_sums_of(block)?))).collect()
    }
}

impl Core {
    fn clean_sums_of(&self, block: u32) -> Option<BlockSums> {
        let (slot, checksum) = self.state().clean.look(block)?;
        let sums = self.clean.sums(slot, checksum);
        // Another block may have come there meanwhile.
        self.state().clean.is_in(slot, block, checksum).then_some(sums)
    }
}
