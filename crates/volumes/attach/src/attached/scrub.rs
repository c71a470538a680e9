//! The clean blocks of a volume that is attached, for a comparison with home's.

use super::{Attached, Core};
use crate::extents::Blocks;
use crate::scrub::{Difference, ScrubError, Scrubbed, compare_all};
use machines::messages::home::BlockSums;

impl Attached {
    /// Compares all blocks of home with its checksums, and with the clean blocks of the cache, some at a time, for as
    /// long as `go_on` says so. It is told how many bytes were compared, and the differences in them.
    ///
    /// # Errors
    /// Home cannot be read.
    pub fn scrub(&self, go_on: &mut dyn FnMut(u64, &[Difference]) -> bool) -> Result<Scrubbed, ScrubError> {
        let clean = |blocks: &Blocks| Ok(self.clean_sums(blocks.start, blocks.len() as u32).into_iter().collect());
        compare_all(&self.core.home, true, &clean, go_on)
    }

    /// The clean blocks among so many from this one on: the checksums that are kept of them, and those of what is read
    /// in the cache.
    pub fn clean_sums(&self, first: u32, blocks: u32) -> Vec<(u32, BlockSums)> {
        let all = first..first.saturating_add(blocks);
        all.filter_map(|block| Some((block, self.core.clean_sums_of(block)?))).collect()
    }
}

impl Core {
    fn clean_sums_of(&self, block: u32) -> Option<BlockSums> {
        let (slot, checksum) = self.state().clean.look(block)?;
        let sums = self.clean.sums(slot, checksum);
        // Another block may have come there in the meantime.
        self.state().clean.is_in(slot, block, checksum).then_some(sums)
    }
}
