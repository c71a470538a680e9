//! Horizons: how much a cache knows of each page.

use crate::{PageId, Sharding, Vector, Version};

/// Counts of a store's shards, and which shard each page is in.
#[derive(Clone, Copy, Debug)]
pub struct Horizon<'a> {
    /// The counts.
    pub counts: &'a Vector,
    /// Which pages each count is for.
    pub sharding: Sharding,
}

impl Horizon<'_> {
    /// Returns the count of the page's shard: every change of the page through here is known.
    #[inline]
    pub fn of(self, page: PageId) -> Version {
        self.counts.of(self.sharding.of(page))
    }

    /// Returns whether everything through these counts is known.
    pub fn reaches(self, counts: &Vector) -> bool {
        self.counts.reaches(counts)
    }
}
