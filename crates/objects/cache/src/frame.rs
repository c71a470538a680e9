//! A frame: a cached page, and what is known beyond it.
//!
//! ```text
//!   version 7            run 9->14           heard of 9->11, 11->14, and not yet of 7->9
//!   |  page image  |     slots changed at 11, 14 are in the vcache until somebody tells of 7->9
//! ```
//! 1. Each slot is a hole or reflects at least every change through `version` (invariant VP of the BuddyCache paper).
//! 2. Each slot in the vcache is a hole or reflects at least every change through its entry there; entries are above
//!    `version`.
//! 3. Each run is changes without a gap that have all been applied to their slots. It starts above `version`, and no
//!    two runs touch each other.
//! 4. A slot shows exactly the value that it had at its entry in the vcache, and at `version` if it has none.
//! 5. A slot never goes back to an older value.

use alloc::vec::Vec;
use types::{Broken, ObjectPage, Rule, SlotNo, SlotSet, Version};

/// A cached page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub(crate) page: ObjectPage,
    pub(crate) version: Version,
    pub(crate) holes: SlotSet,
    /// Slots that are further than the page, in slot order. Empty unless versions have arrived out of sequence.
    pub(crate) vcache: Vec<(SlotNo, Version)>,
    /// Runs of changes `prev -> version` that have been applied while one before them is missing.
    pub(crate) runs: Vec<(Version, Version)>,
}

/// The content of a frame's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot<'a> {
    /// An object with this value.
    Value(&'a [u8]),
    /// No object.
    Free,
    /// Something else than what is here: the page must be fetched again.
    Hole,
}

impl Frame {
    /// A frame that is exactly the page as of `version`.
    pub fn new(version: Version, page: ObjectPage) -> Self {
        Self { page, version, holes: SlotSet::new(), vcache: Vec::new(), runs: Vec::new() }
    }

    /// The version that the whole page has reached.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The image under the holes, for sizes and free slots.
    pub fn page(&self) -> &ObjectPage {
        &self.page
    }

    /// The content of `slot`.
    #[inline]
    pub fn slot(&self, slot: SlotNo) -> Slot<'_> {
        if self.is_hole(slot) {
            return Slot::Hole;
        }
        self.page.get(slot).map_or(Slot::Free, Slot::Value)
    }

    /// Whether what is in `slot` is known to be stale.
    #[inline]
    pub fn is_hole(&self, slot: SlotNo) -> bool {
        !self.holes.is_empty() && self.holes.contains(slot)
    }

    /// Whether the frame can are in for the page: it has no hole.
    pub fn is_complete(&self) -> bool {
        self.holes.is_empty()
    }

    /// Whether every change that the frame has learned of follows on its version.
    pub fn is_in_sequence(&self) -> bool {
        self.vcache.is_empty() && self.runs.is_empty()
    }

    /// A change that the frame has not learned of, by the one that follows on it; the first such, if there is one.
    pub fn first_missing(&self) -> Option<Version> {
        self.runs.iter().map(|(prev, _)| *prev).min()
    }

    /// The page for a peer, as of its version: `None` if it has holes, or slots that are ahead of the version. The
    /// peer would take these for no more recent than the page, and a change that it learns of late would take them
    /// back.
    pub fn whole(&self, broken: Broken) -> Option<(Version, &ObjectPage)> {
        let is_complete = self.is_complete() || broken.is(Rule::HelpWhole);
        let is_in_sequence = self.is_in_sequence() || broken.is(Rule::HelpInSequence);
        (is_complete && is_in_sequence).then_some((self.version, &self.page))
    }

    /// The count through which `slot` reflects every change: what a reader can prove without the horizon.
    pub fn evidence(&self, slot: SlotNo) -> Version {
        self.ahead(slot).unwrap_or(self.version)
    }

    /// The slots whose evidence is above `floor` and so above the page's version, in slot order.
    pub fn exceptions(&self, floor: Version) -> impl Iterator<Item = (SlotNo, Version)> {
        self.vcache.iter().copied().filter(move |(_, version)| *version > floor)
    }

    /// The latest change that the frame has learned of. A page that is to fill its holes must be at least this recent.
    pub fn newest(&self) -> Version {
        self.vcache.iter().map(|(_, version)| *version).max().unwrap_or(self.version)
    }

    /// Makes holes of `slots`.
    pub fn puncture(&mut self, slots: &SlotSet) {
        self.holes.union_with(slots);
    }

    /// Whether any of `slots` has another value here than in `other`. Values under holes count as they are: a reader
    /// has read them before the hole was made.
    pub fn differs_in(&self, other: &Self, slots: &SlotSet) -> bool {
        slots.iter().any(|slot| self.page.get(slot) != other.page.get(slot))
    }

    /// The slot's entry in the vcache.
    pub(crate) fn ahead(&self, slot: SlotNo) -> Option<Version> {
        let entry = self.vcache.binary_search_by_key(&slot, |(s, _)| *s).ok()?;
        Some(self.vcache[entry].1)
    }

    /// Remembers that `slot` has reached `version`.
    pub(crate) fn set_ahead(&mut self, slot: SlotNo, version: Version) {
        match self.vcache.binary_search_by_key(&slot, |(s, _)| *s) {
            Ok(entry) => self.vcache[entry].1 = version,
            Err(place) => self.vcache.insert(place, (slot, version)),
        }
    }
}
