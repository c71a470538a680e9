//! What several messages have in common: pages, ranges, slots, changes, order.

use crate::WireError;
use crate::layout::{Meta, Reader};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use protocol::Held;
use types::limits::{SLOT_BYTES_MAX, SLOTS_MAX, TXN_CHANGES_MAX};
use types::{ClientId, PageId, PageRange, SlotChange, SlotNo, SlotSet, TxnId, Version};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A number that says yes or no.
pub(crate) fn flag(what: &'static str, value: U32) -> Result<bool, WireError> {
    match value.get() {
        0 => Ok(false),
        1 => Ok(true),
        got => Err(WireError::Code { what, got: got.into() }),
    }
}

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

/// A text: its length, then its bytes.
pub(crate) fn put_text(meta: &mut Meta<'_>, what: &'static str, text: &str, max: usize) -> Result<(), WireError> {
    check_count(what, text.len(), max)?;
    meta.put(&U16::new(text.len() as u16));
    meta.put(text.as_bytes());
    Ok(())
}

/// The inverse of [`put_text`].
pub(crate) fn get_text(reader: &mut Reader<'_>, what: &'static str, max: usize) -> Result<String, WireError> {
    let len = usize::from(reader.get::<U16>()?.get());
    check_count(what, len, max)?;
    let text = core::str::from_utf8(reader.many::<u8>(len)?).map_err(|_| WireError::Text)?;
    Ok(text.to_owned())
}

/// As much of a text as fits into so many bytes.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    let bytes = text.len().min(bytes_max);
    let end = (0..=bytes).rev().find(|&end| text.is_char_boundary(end)).expect("zero is one");
    &text[..end]
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

/// What happens to one slot. The new values themselves stand in the body, one after the other.
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

/// Refuses what is not in ascending order.
pub(crate) fn check_order<T: PartialOrd>(what: &'static str, items: impl Iterator<Item = T>) -> Result<(), WireError> {
    if items.is_sorted_by(|a, b| a < b) { Ok(()) } else { Err(WireError::Order { what }) }
}

/// Refuses more than a message may have.
pub(crate) fn check_count(what: &'static str, got: usize, max: usize) -> Result<(), WireError> {
    if got <= max { Ok(()) } else { Err(WireError::Count { what, max, got }) }
}
