//! How the value of an object stands in its slot, to the byte.
//!
//! ```text
//!   inline   0x10, stamp: u32le, then the value
//!   chain    0x11, stamp: u32le, total: u32le, head: object id     the value is in chunks, listed by the head
//!   head     0x12, object id of each chunk, in order                (an object of its own, near the slot)
//!   chunk    0x12, up to CHUNK_BYTES of the value                   (an object of its own, alone in its page)
//!   object id: volume u32le, page u32le, slot u16le
//! ```
//! The upper half of the first byte is the format, 1; the lower half says what the object is. The stamp tells it from
//! others in the same slot, see `stamp`; parts of a chain, which only their chain knows, have none.
//!
//! A descriptor of a chain is shorter than the reference that every slot of a full page still has room for, so a
//! value can always be moved out.

use crate::stamp::{INTERNAL, Stamp};
use crate::{Error, Ref, Result};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::type_name;
use types::limits::{OBJECT_BYTES_MAX, PAGE_BYTES_GROWTH, PAGE_BYTES_MAX, SLOT_BYTES_MAX};
use types::{ObjectId, PageId};

/// The longest value that stays in its slot. A longer one fills most of a page at its growth limit by itself.
pub(crate) const INLINE_BYTES_MAX: usize = PAGE_BYTES_GROWTH - 64;

/// The bytes of a value in one chunk.
pub(crate) const CHUNK_BYTES: usize = 60 * 1024;

/// The bytes of an object id.
pub(crate) const ID_BYTES: usize = 10;

/// The format of objects.
pub(crate) const FORMAT: u8 = 1;

const INLINE: u8 = FORMAT << 4;
const CHAIN: u8 = FORMAT << 4 | 1;
const PART: u8 = FORMAT << 4 | 2;

/// What stands before a value: the first byte and the stamp.
pub(crate) const HEADER_BYTES: usize = 1 + size_of::<Stamp>();

/// What stands before a part of a chain: the first byte.
const PART_HEADER_BYTES: usize = 1;

const CHAIN_BYTES: usize = HEADER_BYTES + 4 + ID_BYTES;

const _: () = {
    assert!(CHAIN_BYTES <= 24, "a page at its growth limit has room for references of 24 bytes");
    assert!(INLINE_BYTES_MAX + HEADER_BYTES + 8 <= PAGE_BYTES_GROWTH);
    assert!(PART_HEADER_BYTES + CHUNK_BYTES <= SLOT_BYTES_MAX);
    assert!(PART_HEADER_BYTES + CHUNK_BYTES + 8 <= PAGE_BYTES_MAX);
    // The head of the longest chain is one slot.
    assert!(PART_HEADER_BYTES + OBJECT_BYTES_MAX.div_ceil(CHUNK_BYTES) * ID_BYTES <= INLINE_BYTES_MAX);
};

/// The object that is meant: whatever is at a place, or only what has this stamp there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) object: ObjectId,
    /// `None` for what only a map knows of, which changes it together with the object.
    pub(crate) stamp: Option<Stamp>,
}

impl From<ObjectId> for Target {
    fn from(object: ObjectId) -> Self {
        Self { object, stamp: None }
    }
}

impl<T: ?Sized> From<Ref<T>> for Target {
    fn from(reference: Ref<T>) -> Self {
        Self { object: reference.id(), stamp: Some(reference.stamp()) }
    }
}

/// Where a large value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The value's length, in bytes.
    pub(crate) total: usize,
    /// The object that lists the chunks.
    pub(crate) head: ObjectId,
}

/// A slot's bytes, understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot<'a> {
    /// The stamp of the object that has the slot.
    pub(crate) stamp: Stamp,
    /// Its value.
    pub(crate) value: Value<'a>,
}

/// A value, or where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// The value itself.
    Inline(&'a [u8]),
    /// Where it is.
    Chain(Chain),
}

/// The value of the object that is meant, if it is in the slot itself.
#[inline]
pub(crate) fn inline_of(target: Target, bytes: &[u8]) -> Option<&[u8]> {
    let (header, value) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let meant = target.stamp.is_none_or(|stamp| stamp == stamp_in(*header));
    (header[0] == INLINE && meant).then_some(value)
}

fn stamp_in(header: [u8; HEADER_BYTES]) -> Stamp {
    let [_, stamp @ ..] = header;
    Stamp::from_le_bytes(stamp)
}

impl<'a> Slot<'a> {
    /// Understands the bytes of a slot; `None` if they are of another object than the one that is meant.
    pub(crate) fn parse(target: Target, bytes: &'a [u8]) -> Result<Option<Self>> {
        let object = target.object;
        let kind = bytes.first().copied();
        if kind == Some(PART) && target.stamp.is_some() {
            return Ok(None);
        }
        let (Some(INLINE | CHAIN), Some((header, rest))) = (kind, bytes.split_first_chunk::<HEADER_BYTES>()) else {
            return Err(not_a_value(object, kind));
        };
        let stamp = stamp_in(*header);
        if target.stamp.is_some_and(|meant| meant != stamp) {
            return Ok(None);
        }
        let value = if kind == Some(INLINE) { Value::Inline(rest) } else { Value::Chain(Chain::parse(object, rest)?) };
        Ok(Some(Self { stamp, value }))
    }
}

/// Why bytes that begin so are no value.
fn not_a_value(object: ObjectId, kind: Option<u8>) -> Error {
    match kind {
        Some(INLINE..=PART) | None => Error::damaged(object, "it is cut short, or part of a large object"),
        // Before there was a number, the whole first byte was 0 or 1.
        Some(kind) if kind & 0xf <= 2 => Error::Format { object, format: kind >> 4 },
        Some(_) => Error::damaged(object, "its first byte is none that a value has"),
    }
}

impl Chain {
    fn parse(object: ObjectId, bytes: &[u8]) -> Result<Self> {
        let Some((total, head)) = bytes.split_first_chunk::<4>().filter(|(_, head)| head.len() == ID_BYTES) else {
            return Err(Error::damaged(object, "it does not say where its value is"));
        };
        let total = u32::from_le_bytes(*total) as usize;
        if total > OBJECT_BYTES_MAX {
            return Err(Error::damaged(object, "it claims to be larger than an object can be"));
        }
        Ok(Self { total, head: id_from(head) })
    }

    /// The bytes for the slot.
    pub(crate) fn to_bytes(self, stamp: Stamp) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CHAIN_BYTES);
        bytes.push(CHAIN);
        bytes.extend_from_slice(&stamp.to_le_bytes());
        bytes.extend_from_slice(&(self.total as u32).to_le_bytes());
        push_id(&mut bytes, self.head);
        bytes
    }
}

/// The start of an inline value: what follows is the value. It gets its stamp when it is known whose it is.
pub(crate) fn inline(capacity: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + capacity);
    bytes.push(INLINE);
    bytes.extend_from_slice(&INTERNAL.to_le_bytes());
    bytes
}

/// Appends a value's bytes to `bytes`.
pub(crate) fn encode<T: Serialize>(value: &T, bytes: Vec<u8>) -> Result<Vec<u8>> {
    postcard::to_extend(value, bytes)
        .map_err(|cause| Error::Encode { type_name: type_name::<T>(), cause: cause.into() })
}

/// The value that all of these bytes are, of `object` or in it.
#[inline]
pub(crate) fn decode<T: DeserializeOwned>(object: ObjectId, bytes: &[u8]) -> Result<T> {
    let failed = |cause| Error::Decode { type_name: type_name::<T>(), object, cause };
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(failed(format!("{} bytes are left behind the value", rest.len()).into())),
        Err(cause) => Err(failed(cause.into())),
    }
}

/// Stamps an inline value.
pub(crate) fn set_stamp(inline: &mut [u8], stamp: Stamp) {
    inline[1..HEADER_BYTES].copy_from_slice(&stamp.to_le_bytes());
}

/// A part of a chain, as it stands in a slot.
pub(crate) fn part(bytes: &[u8]) -> Bytes {
    let mut part = Vec::with_capacity(PART_HEADER_BYTES + bytes.len());
    part.push(PART);
    part.extend_from_slice(bytes);
    part.into()
}

/// What a part of a chain holds; `None` if the slot holds something else.
pub(crate) fn part_in(slot: &[u8]) -> Option<&[u8]> {
    slot.strip_prefix(&[PART])
}

/// Appends the ten bytes of an id.
pub(crate) fn push_id(bytes: &mut Vec<u8>, id: ObjectId) {
    bytes.extend_from_slice(&id.page.volume.to_le_bytes());
    bytes.extend_from_slice(&id.page.number.to_le_bytes());
    bytes.extend_from_slice(&id.slot.to_le_bytes());
}

/// The id in ten bytes.
///
/// # Panics
/// If there are fewer.
pub(crate) fn id_from(bytes: &[u8]) -> ObjectId {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    ObjectId::new(PageId::new(word(0), word(4)), u16::from_le_bytes([bytes[8], bytes[9]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = 0x0a0b_0c0d;

    fn parse(stamp: Option<Stamp>, bytes: &[u8]) -> Result<Option<Slot<'_>>> {
        Slot::parse(Target { object: ObjectId::root(7), stamp }, bytes)
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let head = ObjectId::new(PageId::new(1, 0x0203), 4);
        let chain = Chain { total: 0x0506, head };
        let golden = [0x11, 0xd, 0xc, 0xb, 0xa, 6, 5, 0, 0, 1, 0, 0, 0, 3, 2, 0, 0, 4, 0];
        assert_eq!(chain.to_bytes(STAMP), golden);
        assert_eq!(parse(None, &golden).unwrap(), Some(Slot { stamp: STAMP, value: Value::Chain(chain) }));
        let mut bytes = inline(1);
        bytes.push(7);
        assert_eq!(bytes, [0x10, 0, 0, 0, 0, 7]);
        set_stamp(&mut bytes, STAMP);
        assert_eq!(bytes, [0x10, 0xd, 0xc, 0xb, 0xa, 7]);
        assert_eq!(parse(None, &bytes).unwrap(), Some(Slot { stamp: STAMP, value: Value::Inline(&[7]) }));
        assert_eq!(part(&[8, 9])[..], [0x12, 8, 9]);
        assert_eq!(part_in(&[0x12, 8, 9]), Some(&[8, 9][..]));
    }

    #[test]
    fn what_has_another_stamp_is_not_what_is_meant() {
        let target = |stamp| Target { object: ObjectId::root(7), stamp: Some(stamp) };
        let inline = [0x10, 0xd, 0xc, 0xb, 0xa, 7];
        let chain = [0x11, 0xd, 0xc, 0xb, 0xa, 6, 5, 0, 0, 1, 0, 0, 0, 3, 2, 0, 0, 4, 0];
        for bytes in [&inline[..], &chain] {
            assert!(parse(Some(STAMP), bytes).unwrap().is_some());
            assert!(parse(Some(STAMP + 1), bytes).unwrap().is_none());
        }
        assert_eq!(inline_of(target(STAMP), &inline), Some(&[7][..]));
        assert_eq!(inline_of(target(STAMP + 1), &inline), None);
        assert_eq!(inline_of(target(STAMP), &chain), None);
        // What looks like a stamp in a part of a chain is none.
        assert!(parse(Some(STAMP), &[0x12, 0xd, 0xc, 0xb, 0xa, 7]).unwrap().is_none());
    }

    #[test]
    fn what_is_no_value_is_refused_by_name() {
        let too_large = [0x11, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for bytes in [&[][..], &[0x1f], &[0x10, 0, 0], &[0x11; 20], &[0x12; 9], &too_large] {
            let error = parse(None, bytes).unwrap_err();
            assert!(error.to_string().starts_with("object 7/0.0 is damaged"), "{error}");
        }
        assert!(matches!(parse(None, &[0, 7]), Err(Error::Format { format: 0, .. })));
        assert!(matches!(parse(None, &[0x20, 7]), Err(Error::Format { format: 2, .. })));
    }
}
