//! How an object is in its slot, to the byte.
//!
//! ```text
//!   inline   0x20 + kind, stamp: u32le, then the content
//!   chain    0x24 + kind, stamp: u32le, total: u32le, head: object id     the content is in chunks, listed by the head
//!   head     0x28, object id of each chunk, in order                (an object of its own, near the slot)
//!   chunk    0x28, up to CHUNK_BYTES of the content                 (an object of its own, alone in its page)
//!   object id: space u32le, page u32le, slot u16le
//!
//!   kind     0 bytes    as they were given
//!            1 value    the name of its type (a CBOR text, empty if it has none), the value in CBOR
//!            2 node     a node of a map, see `tree`
//!            3 map      what the map is one of, see `kinds`, and its root node
//!            9 byte value   its length and where its pages are, see `byte_head`; always inline
//! ```
//! The upper half of the first byte is the format, 2; the lower half says what the object is. The stamp tells it from
//! others in the same slot, see `stamp`; parts of a chain or of a byte value, to which nothing else leads, have none.
//!
//! A descriptor of a chain is shorter than the reference that every slot of a full page still has room for, so a
//! value can always be moved out.

use crate::byte_head::Head;
use crate::cbor::{CborError, Reader, Reason, Writer, describe};
use crate::format::{FORMAT, Kind, PART};
use crate::ids::{ID_BYTES, id_from, push_id};
use crate::named::Asked;
use crate::stamp::{INTERNAL, Stamp};
use crate::{Error, Ref, Result};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::type_name;
use types::ObjectId;
use types::limits::{OBJECT_BYTES_MAX, PAGE_BYTES_GROWTH, PAGE_BYTES_MAX, SLOT_BYTES_MAX};

/// The longest value that stays in its slot. A longer one fills most of a page at its growth limit by itself.
pub(crate) const INLINE_BYTES_MAX: usize = PAGE_BYTES_GROWTH - 64;

/// The bytes of a value in one chunk.
pub(crate) const CHUNK_BYTES: usize = 60 * 1024;

/// The kind that is asked for, and its name in an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) kind: Kind,
    pub(crate) name: fn() -> &'static str,
}

impl Wanted {
    pub(crate) const BYTES: Self = Self { kind: Kind::Bytes, name: || "bytes" };
    pub(crate) const NODE: Self = Self { kind: Kind::Node, name: || "a node of a map" };
    pub(crate) const BYTE_VALUE: Self = Self { kind: Kind::ByteValue, name: || "a byte value" };

    pub(crate) const fn value<T>() -> Self {
        Self { kind: Kind::Value, name: type_name::<T> }
    }
}

/// The bytes before a value: the first byte and the stamp.
pub(crate) const HEADER_BYTES: usize = 1 + size_of::<Stamp>();

/// The bytes before a part of a chain: the first byte.
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
    /// The value's kind.
    pub(crate) kind: Kind,
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

/// The value of the object that is meant, if it is of this kind and in the slot itself.
#[inline]
pub(crate) fn inline_of(target: Target, kind: Kind, bytes: &[u8]) -> Option<&[u8]> {
    let (header, value) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let meant = target.stamp.is_none_or(|stamp| stamp == stamp_in(*header));
    (header[0] == kind.inline() && meant).then_some(value)
}

fn stamp_in(header: [u8; HEADER_BYTES]) -> Stamp {
    let [_, stamp @ ..] = header;
    Stamp::from_le_bytes(stamp)
}

impl<'a> Slot<'a> {
    /// Understands the bytes of a slot; `None` if they are of another object than the one that is meant.
    pub(crate) fn parse(target: Target, bytes: &'a [u8]) -> Result<Option<Self>> {
        let object = target.object;
        let first = bytes.first().copied();
        if first == Some(PART) && target.stamp.is_some() {
            return Ok(None);
        }
        let (Some((kind, chained)), Some((header, rest))) =
            (first.and_then(Kind::parse), bytes.split_first_chunk::<HEADER_BYTES>())
        else {
            return Err(not_a_value(object, first));
        };
        let stamp = stamp_in(*header);
        if target.stamp.is_some_and(|meant| meant != stamp) {
            return Ok(None);
        }
        let value = if chained { Value::Chain(Chain::parse(object, rest)?) } else { Value::Inline(rest) };
        Ok(Some(Self { kind, stamp, value }))
    }

    /// The value, if it is what is asked for.
    pub(crate) fn wanted(self, object: ObjectId, wanted: Wanted) -> Result<Value<'a>> {
        if self.kind == wanted.kind { Ok(self.value) } else { Err(self.wrong_kind(object, (wanted.name)())) }
    }

    /// The error for a caller that takes it for something else.
    #[cold]
    pub(crate) fn wrong_kind(self, object: ObjectId, asked: &str) -> Error {
        Error::wrong_kind(format!("object {object}"), self.describe(), asked, None)
    }

    /// Describes the object, for people.
    pub(crate) fn describe(self) -> String {
        match (self.kind, self.value) {
            (Kind::Bytes, _) => "bytes".into(),
            (Kind::Value, Value::Inline(bytes)) => stored(bytes),
            (Kind::Value, Value::Chain(_)) => "a large value".into(),
            (Kind::Node, _) => "a node of a map".into(),
            (Kind::Map, _) => "a map".into(),
            (Kind::ByteValue, Value::Inline(content)) => match Head::parse(content) {
                Some(head) => format!("a byte value of {} bytes", head.len),
                None => "a damaged byte value".into(),
            },
            (Kind::ByteValue, Value::Chain(_)) => "a byte value".into(),
        }
    }
}

/// The description of a value by its own bytes.
fn stored(bytes: &[u8]) -> String {
    let mut reader = Reader::new(bytes);
    match reader.text() {
        Ok("") => describe(reader.rest()),
        Ok(name) => format!("a value of type {name}"),
        Err(_) => "nothing readable".into(),
    }
}

/// Why bytes that begin so are no object.
fn not_a_value(object: ObjectId, first: Option<u8>) -> Error {
    match first {
        None => Error::damaged(object, "it is cut short"),
        Some(first) if first >> 4 == FORMAT => Error::damaged(object, "it is cut short, or part of a large object"),
        // Before there was a number, the whole first byte was 0 or 1.
        Some(first) if first & 0xf <= 2 => Error::Format { object, format: first >> 4 },
        Some(_) => Error::damaged(object, "its first byte is none that an object has"),
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
    pub(crate) fn to_bytes(self, kind: Kind, stamp: Stamp) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CHAIN_BYTES);
        bytes.push(kind.chain());
        bytes.extend_from_slice(&stamp.to_le_bytes());
        bytes.extend_from_slice(&(self.total as u32).to_le_bytes());
        push_id(&mut bytes, self.head);
        bytes
    }
}

/// An object of this kind, inline: its content follows. It gets its stamp when it is known whose it is.
pub(crate) fn inline(kind: Kind, capacity: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + capacity);
    bytes.push(kind.inline());
    bytes.extend_from_slice(&INTERNAL.to_le_bytes());
    bytes
}

/// The kind of an inline object.
pub(crate) fn kind_of(inline: &[u8]) -> Kind {
    Kind::parse(inline[0]).expect("an object begins with its kind").0
}

/// An object that is a value.
pub(crate) fn encode<T: Serialize + DeserializeOwned>(value: &T) -> Result<Vec<u8>> {
    let mut writer = Writer::new(inline(Kind::Value, 64));
    writer.text(Asked::by::<T>().name());
    write(writer, value)
}

/// A value without the name of its type, which its map knows.
pub(crate) fn encode_bare<T: Serialize + DeserializeOwned>(value: &T) -> Result<Vec<u8>> {
    write(Writer::new(Vec::new()), value)
}

/// The object that holds a bare value.
pub(crate) fn inline_bare(bare: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new(inline(Kind::Value, bare.len() + 1));
    writer.text("");
    let mut bytes = writer.into_bytes();
    bytes.extend_from_slice(bare);
    bytes
}

/// Appends a value, and reads it back: a value that its type cannot read is never stored.
fn write<T: Serialize + DeserializeOwned>(mut writer: Writer, value: &T) -> Result<Vec<u8>> {
    let start = writer.len();
    let refused = |why: String| Error::Encode { type_name: type_name::<T>(), why };
    value.serialize(&mut writer).map_err(|error| refused(error.to_string()))?;
    let bytes = writer.into_bytes();
    let read_back = read::<T>(&bytes[start..]);
    read_back.map_err(|error| refused(format!("it could not be read back: {error}")))?;
    Ok(bytes)
}

/// The value that an object holds, by its content.
#[inline]
pub(crate) fn decode<T: DeserializeOwned>(object: ObjectId, bytes: &[u8]) -> Result<T> {
    let mut reader = Reader::new(bytes);
    let name = reader.text().map_err(|error| unreadable::<T>(object, bytes, error))?;
    if !Asked::by::<T>().takes(name) {
        return Err(wrong_kind::<T>(object, bytes, None));
    }
    read(reader.rest()).map_err(|error| unreadable::<T>(object, bytes, error))
}

/// The value that all of these bytes are, which are in `object` without the name of their type.
#[inline]
pub(crate) fn decode_bare<T: DeserializeOwned>(object: ObjectId, bytes: &[u8]) -> Result<T> {
    read(bytes).map_err(|error| unreadable::<T>(object, &inline_bare(bytes)[HEADER_BYTES..], error))
}

#[inline]
fn read<T: DeserializeOwned>(bytes: &[u8]) -> std::result::Result<T, CborError> {
    let mut reader = Reader::new(bytes);
    let value = T::deserialize(&mut reader)?;
    if reader.rest().is_empty() { Ok(value) } else { Err(CborError::malformed("bytes are left behind its value")) }
}

#[cold]
fn unreadable<T>(object: ObjectId, bytes: &[u8], error: CborError) -> Error {
    let why = error.to_string();
    match error.into_reason() {
        Reason::Malformed(what) => Error::damaged(object, what),
        Reason::Said { .. } => wrong_kind::<T>(object, bytes, Some(why)),
    }
}

#[cold]
fn wrong_kind<T>(object: ObjectId, bytes: &[u8], why: Option<String>) -> Error {
    Error::wrong_kind(format!("object {object}"), stored(bytes), type_name::<T>(), why)
}

/// Stamps an inline value.
pub(crate) fn set_stamp(inline: &mut [u8], stamp: Stamp) {
    inline[1..HEADER_BYTES].copy_from_slice(&stamp.to_le_bytes());
}

/// A part of a chain, as it is in a slot.
pub(crate) fn part(bytes: &[u8]) -> Bytes {
    let mut part = Vec::with_capacity(PART_HEADER_BYTES + bytes.len());
    part.push(PART);
    part.extend_from_slice(bytes);
    part.into()
}

/// The content of a part of a chain; `None` if the slot holds something else.
pub(crate) fn part_in(slot: &[u8]) -> Option<&[u8]> {
    slot.strip_prefix(&[PART])
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::PageId;

    const STAMP: Stamp = 0x0a0b_0c0d;

    fn parse(stamp: Option<Stamp>, bytes: &[u8]) -> Result<Option<Slot<'_>>> {
        Slot::parse(Target { object: ObjectId::root(7), stamp }, bytes)
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let head = ObjectId::new(PageId::new(1, 0x0203), 4);
        let chain = Chain { total: 0x0506, head };
        let golden = [0x25, 0xd, 0xc, 0xb, 0xa, 6, 5, 0, 0, 1, 0, 0, 0, 3, 2, 0, 0, 4, 0];
        assert_eq!(chain.to_bytes(Kind::Value, STAMP), golden);
        let slot = Slot { kind: Kind::Value, stamp: STAMP, value: Value::Chain(chain) };
        assert_eq!(parse(None, &golden).unwrap(), Some(slot));
        let mut bytes = inline(Kind::Bytes, 1);
        bytes.push(7);
        assert_eq!(bytes, [0x20, 0, 0, 0, 0, 7]);
        set_stamp(&mut bytes, STAMP);
        assert_eq!(bytes, [0x20, 0xd, 0xc, 0xb, 0xa, 7]);
        let slot = Slot { kind: Kind::Bytes, stamp: STAMP, value: Value::Inline(&[7]) };
        assert_eq!(parse(None, &bytes).unwrap(), Some(slot));
        assert_eq!(part(&[8, 9])[..], [0x28, 8, 9]);
        assert_eq!(part_in(&[0x28, 8, 9]), Some(&[8, 9][..]));
        assert_eq!(encode(&7_u8).unwrap(), [0x21, 0, 0, 0, 0, 0x60, 7]);
        assert_eq!(encode_bare(&Some(true)).unwrap(), [0xf5]);
        for (kind, first) in [(Kind::Value, 0x21), (Kind::Node, 0x22), (Kind::Map, 0x23)] {
            assert_eq!((inline(kind, 0)[0], kind_of(&[first])), (first, kind));
        }
    }

    #[test]
    fn an_object_of_another_stamp_is_not_the_one_meant() {
        let target = |stamp| Target { object: ObjectId::root(7), stamp: Some(stamp) };
        let inline = [0x20, 0xd, 0xc, 0xb, 0xa, 7];
        let chain = [0x24, 0xd, 0xc, 0xb, 0xa, 6, 5, 0, 0, 1, 0, 0, 0, 3, 2, 0, 0, 4, 0];
        for bytes in [&inline[..], &chain] {
            assert!(parse(Some(STAMP), bytes).unwrap().is_some());
            assert!(parse(Some(STAMP + 1), bytes).unwrap().is_none());
        }
        assert_eq!(inline_of(target(STAMP), Kind::Bytes, &inline), Some(&[7][..]));
        assert_eq!(inline_of(target(STAMP + 1), Kind::Bytes, &inline), None);
        assert_eq!(inline_of(target(STAMP), Kind::Bytes, &chain), None);
        assert_eq!(inline_of(target(STAMP), Kind::Value, &inline), None);
        // Bytes that look like a stamp in a part of a chain are none.
        assert!(parse(Some(STAMP), &[0x28, 0xd, 0xc, 0xb, 0xa, 7]).unwrap().is_none());
    }

    #[test]
    fn a_slot_without_a_value_is_refused_by_name() {
        let too_large = [0x24, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for bytes in [&[][..], &[0x2f], &[0x20, 0, 0], &[0x24; 20], &[0x28; 9], &too_large] {
            let error = parse(None, bytes).unwrap_err();
            assert!(error.to_string().starts_with("object 7/0.0 is damaged"), "{error}");
        }
        assert!(matches!(parse(None, &[0, 7]), Err(Error::Format { format: 0, .. })));
        assert!(matches!(parse(None, &[0x10, 7]), Err(Error::Format { format: 1, .. })));
        assert!(matches!(parse(None, &[0x31, 7]), Err(Error::Format { format: 3, .. })));
    }
}
