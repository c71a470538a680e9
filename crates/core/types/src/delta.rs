//! Deltas: what one transaction changes in one page.

use crate::{PageId, SlotNo, SlotSet};
use alloc::vec::Vec;
use bytes::Bytes;

/// A new value for one slot, or its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotChange {
    /// The slot.
    pub slot: SlotNo,
    /// Its new value; `None` deletes the object and leaves the slot free.
    pub value: Option<Bytes>,
}

/// The changes that one transaction makes to one page. Changes are in slot order, each slot at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The page.
    pub page: PageId,
    /// The changes of its slots.
    pub changes: Vec<SlotChange>,
}

impl Delta {
    /// The slots that the delta changes.
    pub fn slots(&self) -> SlotSet {
        self.changes.iter().map(|change| change.slot).collect()
    }

    /// The bytes of all new values.
    pub fn value_bytes(&self) -> usize {
        self.changes.iter().filter_map(|change| change.value.as_ref()).map(Bytes::len).sum()
    }

    /// Whether the changes are in slot order, each slot once and possible: what the receiver of a delta checks before
    /// it believes one.
    pub fn is_well_formed(&self) -> bool {
        let ordered = self.changes.windows(2).all(|pair| pair[0].slot < pair[1].slot);
        let possible = self.changes.iter().all(|change| {
            usize::from(change.slot) < crate::limits::SLOTS_MAX
                && change.value.as_ref().is_none_or(|value| value.len() <= crate::limits::SLOT_BYTES_MAX)
        });
        ordered && possible && !self.changes.is_empty()
    }
}
