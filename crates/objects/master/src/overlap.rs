//! Whether a transaction touches slots that somebody else has to do with.

use messages::CommitRequest;
use types::{PageId, SlotSet};

/// Slots as they are kept, one by one.
pub(crate) fn each(slots: &[(PageId, SlotSet)]) -> impl Iterator<Item = (PageId, &SlotSet)> {
    slots.iter().map(|(page, slots)| (*page, slots))
}

/// Whether it has read of the slots.
pub(crate) fn reads<'a>(request: &CommitRequest, slots: impl IntoIterator<Item = (PageId, &'a SlotSet)>) -> bool {
    slots.into_iter().any(|(page, slots)| {
        let reads = request.reads.binary_search_by_key(&page, |reads| reads.page);
        reads.is_ok_and(|reads| request.reads[reads].slots.intersects(slots))
    })
}

/// Whether it writes to the slots.
pub(crate) fn writes<'a>(request: &CommitRequest, slots: impl IntoIterator<Item = (PageId, &'a SlotSet)>) -> bool {
    slots.into_iter().any(|(page, slots)| {
        let delta = request.writes.binary_search_by_key(&page, |delta| delta.page);
        delta.is_ok_and(|delta| request.writes[delta].slots().intersects(slots))
    })
}

/// Whether one writes what another has read.
pub(crate) fn writes_what_is_read(writer: &CommitRequest, reader: &CommitRequest) -> bool {
    writes(writer, reader.reads.iter().map(|reads| (reads.page, &reads.slots)))
}
