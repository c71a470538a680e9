//! Shards: the parts of a store's pages that are counted apart, and which page is in which.

use crate::{PageId, splitmix};
use core::num::{NonZeroU16, NonZeroU32};

/// A part of a store's pages with counts of its own. A store of one node has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub u16);

impl Shard {
    /// The shard of a store that has one.
    pub const ONLY: Self = Self(0);
}

/// How a store's pages are spread over its shards. It is the store's for good.
///
/// ```text
///   extents of a space   0   1   2   3   4 ...
///   their shards of 3    2   0   1   2   0 ...   from a first one that its space's hash says
/// ```
/// The pages of an extent stand side by side and have one shard, so that pages which were granted together stay
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharding {
    shards: NonZeroU16,
    extent: NonZeroU32,
}

impl Sharding {
    /// The sharding of a store with one shard.
    pub const ONE: Self = Self { shards: NonZeroU16::MIN, extent: NonZeroU32::MIN };

    /// A number of shards, and the pages of an extent.
    pub const fn new(shards: NonZeroU16, extent: NonZeroU32) -> Self {
        Self { shards, extent }
    }

    /// The number of shards.
    pub const fn shards(self) -> NonZeroU16 {
        self.shards
    }

    /// The pages of an extent.
    pub const fn extent(self) -> NonZeroU32 {
        self.extent
    }

    /// Returns the shard of a page, whose counts are the page's versions.
    #[inline]
    pub fn of(self, page: PageId) -> Shard {
        if self.shards == NonZeroU16::MIN {
            return Shard::ONLY;
        }
        let extent = u64::from(page.number / self.extent);
        let first = splitmix(&mut u64::from(page.space)) >> 32;
        Shard(((first + extent) % u64::from(self.shards.get())) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn sharding(shards: u16, extent: u32) -> Sharding {
        Sharding::new(NonZeroU16::new(shards).expect("not zero"), NonZeroU32::new(extent).expect("not zero"))
    }

    #[test]
    fn neighbors_stay_together_and_extents_take_turns() {
        let of = |number| sharding(3, 64).of(PageId::new(7, number)).0;
        let first = of(0);
        let shards: Vec<_> = (0..5 * 64).map(of).collect();
        for (extent, pages) in shards.chunks(64).enumerate() {
            assert_eq!(pages, [((u32::from(first) + extent as u32) % 3) as u16; 64], "extent {extent}");
        }
        assert_eq!(Sharding::ONE.of(PageId::new(7, 999)), Shard::ONLY);
        assert_eq!(sharding(u16::MAX, 1).of(PageId::new(u32::MAX, u32::MAX)).0 / u16::MAX, 0);
    }

    #[test]
    fn small_spaces_are_spread() {
        let mut pages = [0; 16];
        for space in 0..1600 {
            pages[usize::from(sharding(16, 64).of(PageId::new(space, 0)).0)] += 1;
        }
        assert!(pages.iter().all(|count| (60..140).contains(count)), "{pages:?}");
    }

    /// Everyone who knows a store must agree on this, whatever the program's version.
    #[test]
    fn the_shards_of_pages_stay_the_same() {
        let of = |space, number| sharding(64, 64).of(PageId::new(space, number)).0;
        assert_eq!([of(0, 0), of(0, 64), of(1, 0), of(2, 4096)], [57, 58, 44, 30]);
    }
}
