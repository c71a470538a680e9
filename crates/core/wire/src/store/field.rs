//! The fields that several messages have in common: pages, ranges, slots, changes.

use crate::WireError;
use crate::field::check_order;
use crate::layout::{Meta, Reader};
use alloc::vec::Vec;
use bytes::Bytes;
use protocol::Held;
use types::limits::{SLOT_BYTES_MAX, SLOTS_MAX, TXN_CHANGES_MAX};
use types::{ClientId, PageId, PageRange, SlotChange, SlotNo, SlotSet, TxnId, Version};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A transaction's identity.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Txn {
    client: U64,
    number: U64,
}

impl From<TxnId> for Txn {
    fn from(txn: TxnId) -> Self {
        Self { client: txn.client.0.into(), number: txn.number.into() }
    }
}

impl From<&Txn> for TxnId {
    fn from(txn: &Txn) -> Self {
        Self { client: ClientId(txn.client.get()), number: txn.number.get() }
    }
}

/// A page's identity.
pub(crate) fn page(page: PageId) -> U64 {
    page.to_bits().into()
}

/// The inverse of [`page`].
pub(crate) fn to_page(bits: U64) -> PageId {
    PageId::from_bits(bits.get())
}

/// Consecutive pages.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Range {
    first: U64,
    count: U32,
}

impl From<&PageRange> for Range {
    fn from(range: &PageRange) -> Self {
        Self { first: page(range.first), count: range.count.into() }
    }
}

impl From<&Range> for PageRange {
    fn from(range: &Range) -> Self {
        Self { first: to_page(range.first), count: range.count.get() }
    }
}

/// A page and a version of it.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct HeldPage {
    page: U64,
    version: U64,
}

impl From<&Held> for HeldPage {
    fn from(held: &Held) -> Self {
        Self { page: page(held.page), version: held.version.0.into() }
    }
}

impl From<&HeldPage> for Held {
    fn from(held: &HeldPage) -> Self {
        Self { page: to_page(held.page), version: Version(held.version.get()) }
    }
}

/// Words that the bitmap of a page's slots has at most.
const WORDS_MAX: usize = SLOTS_MAX / 64;

/// A set of slots: its bitmap's words, least slot first.
pub(crate) fn put_slots(meta: &mut Meta<'_>, slots: &SlotSet) {
    meta.put_all(slots.as_words().iter().map(|&word| U64::new(word)));
}

/// The set of slots whose bitmap has `words` words.
pub(crate) fn get_slots(reader: &mut Reader<'_>, words: usize) -> Result<SlotSet, WireError> {
    let impossible = WireError::Slot { got: words * 64 - usize::from(words > 0) };
    if words > WORDS_MAX {
        return Err(impossible);
    }
    let mut bitmap = [0; WORDS_MAX];
    for (word, got) in bitmap.iter_mut().zip(reader.many::<U64>(words)?) {
        *word = got.get();
    }
    SlotSet::from_words(&bitmap[..words]).ok_or(impossible)
}

/// A change of one slot. The new values themselves are in the body, one after the other.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Change {
    slot: U16,
    /// The length of the value, or [`DELETED`].
    len: U16,
}

/// In place of a value's length: the object is deleted. No value is this long.
const DELETED: u16 = u16::MAX;
const _: () = assert!(SLOT_BYTES_MAX < DELETED as usize);

/// Changes of one page, without their values.
pub(crate) fn put_changes(meta: &mut Meta<'_>, changes: &[SlotChange]) -> Result<(), WireError> {
    check_changes(changes)?;
    meta.put_all(changes.iter().map(|change| {
        let len = change.value.as_ref().map_or(DELETED, |value| value.len() as u16);
        Change { slot: change.slot.into(), len: len.into() }
    }));
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
    let changes = reader.many::<Change>(count)?;
    let changes = changes.iter().map(|change| {
        let value = match change.len.get() {
            DELETED => None,
            len => Some(reader.bytes(len.into())?),
        };
        Ok(SlotChange { slot: change.slot.get(), value })
    });
    let changes = changes.collect::<Result<Vec<_>, _>>()?;
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
