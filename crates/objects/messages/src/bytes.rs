//! The bytes that several messages have in common: of slots, and of changes.

use alloc::vec::Vec;
use bytes::Bytes;
use framing::field::{check_count, check_order};
use framing::{Field, Meta, Reader, WireError};
use types::limits::{SLOT_BYTES_MAX, SLOTS_MAX, TXN_CHANGES_MAX};
use types::{PageId, SlotChange, SlotNo, SlotSet};

/// Words that the bitmap of a page's slots has at most.
const WORDS_MAX: usize = SLOTS_MAX / 64;

/// A set of slots: its bitmap's words, least slot first.
pub(crate) fn put_slots(meta: &mut Meta<'_>, slots: &SlotSet) {
    slots.as_words().iter().for_each(|word| word.put(meta));
}

/// The set of slots whose bitmap has `words` words.
pub(crate) fn get_slots(reader: &mut Reader<'_>, words: usize) -> Result<SlotSet, WireError> {
    let impossible = WireError::Slot { got: words * 64 - usize::from(words > 0) };
    if words > WORDS_MAX {
        return Err(impossible);
    }
    let mut bitmap = [0; WORDS_MAX];
    for word in &mut bitmap[..words] {
        *word = u64::get("slots", reader)?;
    }
    SlotSet::from_words(&bitmap[..words]).ok_or(impossible)
}

/// A page, and slots of it behind how many words they have.
pub(crate) fn put_page_slots(meta: &mut Meta<'_>, page: PageId, slots: &SlotSet) {
    (page, slots.as_words().len() as u16).put(meta);
    put_slots(meta, slots);
}

/// Pages with slots, to the end of the meta.
pub(crate) fn get_page_slots(
    reader: &mut Reader<'_>,
    what: &'static str,
    max: usize,
) -> Result<Vec<(PageId, SlotSet)>, WireError> {
    let mut pages = Vec::new();
    while !reader.is_at_end() {
        check_count(what, pages.len() + 1, max)?;
        let (page, words) = <(PageId, u16)>::get(what, reader)?;
        pages.push((page, get_slots(reader, words.into())?));
    }
    Ok(pages)
}

/// In place of a value's length: the object is deleted. No value is this long.
const DELETED: u16 = u16::MAX;
const _: () = assert!(SLOT_BYTES_MAX < DELETED as usize);

/// Changes of one page, without their values: of each its slot, and the length of its value.
pub(crate) fn put_changes(meta: &mut Meta<'_>, changes: &[SlotChange]) -> Result<(), WireError> {
    check_changes(changes)?;
    for SlotChange { slot, value } in changes {
        (*slot, value.as_ref().map_or(DELETED, |value| value.len() as u16)).put(meta);
    }
    Ok(())
}

/// Changes of one page, with their values taken from the body. `left` is how many more the message may have: a change
/// is ten times as large in memory as on the wire.
pub(crate) fn get_changes(
    reader: &mut Reader<'_>,
    count: usize,
    left: &mut usize,
) -> Result<Vec<SlotChange>, WireError> {
    *left = left.checked_sub(count).ok_or(WireError::Count {
        what: "changes",
        max: TXN_CHANGES_MAX,
        got: TXN_CHANGES_MAX - *left + count,
    })?;
    let change = |reader: &mut Reader<'_>| {
        let value = match <(SlotNo, u16)>::get("change", reader)? {
            (slot, DELETED) => SlotChange { slot, value: None },
            (slot, len) => SlotChange { slot, value: Some(reader.bytes(len.into())?) },
        };
        Ok(value)
    };
    let changes = reader.list(count, <(SlotNo, u16)>::BYTES, change)?;
    check_changes(&changes)?;
    Ok(changes)
}

/// The values of some changes.
pub(crate) fn values(changes: &[SlotChange]) -> impl Iterator<Item = &Bytes> {
    changes.iter().filter_map(|change| change.value.as_ref())
}

fn check_changes(changes: &[SlotChange]) -> Result<(), WireError> {
    check_order("slots of changes", changes.iter().map(|change| change.slot))?;
    changes.last().map_or(Ok(()), |last| check_slot(last.slot))?;
    match values(changes).map(Bytes::len).max() {
        Some(got) if got > SLOT_BYTES_MAX => {
            Err(WireError::Count { what: "bytes of a value", max: SLOT_BYTES_MAX, got })
        }
        _ => Ok(()),
    }
}

/// Refuses a slot that no page can have.
pub(crate) fn check_slot(slot: SlotNo) -> Result<(), WireError> {
    if usize::from(slot) < SLOTS_MAX { Ok(()) } else { Err(WireError::Slot { got: slot.into() }) }
}
