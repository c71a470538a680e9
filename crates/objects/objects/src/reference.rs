//! Typed references, and where a new object is to lie.

use crate::cbor::COMPACT;
use crate::stamp::Stamp;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use types::{ObjectId, PageId};

/// A reference to an object whose value is a `T`. It is a value itself, a few bytes when stored, so objects refer to
/// objects.
///
/// A reference is to one object for ever. When that was deleted its place may be given to another object, which
/// references to the first one do not reach: each object carries a stamp that its references know, and two objects that
/// follow each other in one place have the same one once in 2^32 times.
///
/// ```
/// # use objects as thorp;
/// use serde::{Deserialize, Serialize};
/// use thorp::{Anywhere, Db, Ref};
///
/// #[derive(Serialize, Deserialize)]
/// struct Part { name: String, next: Option<Ref<Part>> }
///
/// let db = Db::in_memory()?;
/// let name = db.transact(|tx| {
///     let last = tx.create(Anywhere, &Part { name: "rim".into(), next: None })?;
///     let first = tx.create(last, &Part { name: "hub".into(), next: Some(last) })?;
///     let next = tx.get(first)?.next.expect("it was given one");
///     Ok(tx.get(next)?.name)
/// })?;
/// assert_eq!(name, "rim");
/// # Ok::<(), thorp::Error>(())
/// ```
pub struct Ref<T: ?Sized> {
    id: ObjectId,
    stamp: Stamp,
    value: PhantomData<fn() -> T>,
}

impl<T: ?Sized> Ref<T> {
    /// The reference to the object that has this stamp in the place `id`, and whose value is considered a `T`: reading
    /// it fails if it is none. For tools that keep references in a form of their own; others take what
    /// [`crate::Tx::create`] gives.
    pub const fn new(id: ObjectId, stamp: u32) -> Self {
        Self { id, stamp, value: PhantomData }
    }

    /// Where the object is.
    pub const fn id(self) -> ObjectId {
        self.id
    }

    /// The stamp that tells the object from others that had its place before, or will have it.
    pub const fn stamp(self) -> u32 {
        self.stamp
    }

    /// The same reference, to a value that is considered a `U`.
    pub const fn cast<U: ?Sized>(self) -> Ref<U> {
        Ref::new(self.id, self.stamp)
    }
}

impl<T: ?Sized> Clone for Ref<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Ref<T> {}

impl<T: ?Sized> PartialEq for Ref<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.id, self.stamp) == (other.id, other.stamp)
    }
}

impl<T: ?Sized> Eq for Ref<T> {}

impl<T: ?Sized> PartialOrd for Ref<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// In the order of their places.
impl<T: ?Sized> Ord for Ref<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.id, self.stamp).cmp(&(other.id, other.stamp))
    }
}

impl<T: ?Sized> Hash for Ref<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.id, self.stamp).hash(state);
    }
}

/// Such as `0/12.3:00c0ffee`: space, page, slot, and the stamp in hexadecimal.
impl<T: ?Sized> fmt::Display for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:08x}", self.id, self.stamp)
    }
}

impl<T: ?Sized> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ref({self})")
    }
}

/// The text of [`fmt::Display`] for people, bytes for the store.
impl<T: ?Sized> Serialize for Ref<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(COMPACT, &Place(self.cast()))
    }
}

/// A reference, in the form that the encoding asks for.
struct Place(Ref<()>);

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(place) = self;
        if serializer.is_human_readable() {
            return serializer.collect_str(place);
        }
        let (bytes, len) = place.to_bytes();
        serializer.serialize_bytes(&bytes[..len])
    }
}

/// Either form, wherever the encoding says which one it is.
impl<'de, T: ?Sized> Deserialize<'de> for Ref<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return deserializer.deserialize_any(Form(PhantomData));
        }
        deserializer.deserialize_bytes(Form(PhantomData))
    }
}

struct Form<T: ?Sized>(PhantomData<fn() -> T>);

impl<T: ?Sized> Visitor<'_> for Form<T> {
    type Value = Ref<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a reference such as 0/12.3:00c0ffee")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Ref<T>, E> {
        parse(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Ref<T>, E> {
        Ref::from_bytes(bytes).ok_or_else(|| E::invalid_length(bytes.len(), &self))
    }
}

/// The bytes of a reference, big-endian: page, slot, stamp, and the space unless that is 0.
const BYTES_MIN: usize = 10;
const BYTES_MAX: usize = BYTES_MIN + 4;

impl<T: ?Sized> Ref<T> {
    fn to_bytes(self) -> ([u8; BYTES_MAX], usize) {
        let ObjectId { page, slot } = self.id;
        let mut bytes = [0; BYTES_MAX];
        bytes[..4].copy_from_slice(&page.number.to_be_bytes());
        bytes[4..6].copy_from_slice(&slot.to_be_bytes());
        bytes[6..BYTES_MIN].copy_from_slice(&self.stamp.to_be_bytes());
        bytes[BYTES_MIN..].copy_from_slice(&page.space.to_be_bytes());
        (bytes, if page.space == 0 { BYTES_MIN } else { BYTES_MAX })
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (slot, rest) = rest.split_first_chunk()?;
        let (stamp, space) = rest.split_first_chunk()?;
        let space = if space.is_empty() { 0 } else { u32::from_be_bytes(space.try_into().ok()?) };
        let page = PageId::new(space, u32::from_be_bytes(*number));
        Some(Self::new(ObjectId::new(page, u16::from_be_bytes(*slot)), u32::from_be_bytes(*stamp)))
    }
}

/// The reference that is written `space/page.slot:stamp`. None goes without its stamp: it would lead to any object that
/// comes to be in that place.
fn parse<T: ?Sized>(text: &str) -> Option<Ref<T>> {
    let (space, rest) = text.split_once('/')?;
    let (number, rest) = rest.split_once('.')?;
    let (slot, stamp) = rest.split_once(':')?;
    let id = ObjectId::new(PageId::new(space.parse().ok()?, number.parse().ok()?), slot.parse().ok()?);
    Some(Ref::new(id, u32::from_str_radix(stamp, 16).ok()?))
}

/// Where a new object is to lie: close to another one, so that a client that fetches that one has this one too, or
/// [`Anywhere`].
pub trait Near {
    /// The object to lie close to.
    fn near(self) -> Option<ObjectId>;
}

/// Close to nothing in particular: beside what was created last.
#[derive(Clone, Copy, Debug)]
pub struct Anywhere;

impl Near for Anywhere {
    fn near(self) -> Option<ObjectId> {
        None
    }
}

impl Near for ObjectId {
    fn near(self) -> Option<ObjectId> {
        Some(self)
    }
}

impl<T: ?Sized> Near for Ref<T> {
    fn near(self) -> Option<ObjectId> {
        Some(self.id)
    }
}

impl<N: Near> Near for Option<N> {
    fn near(self) -> Option<ObjectId> {
        self.and_then(Near::near)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cbor::{Reader, Writer};

    #[test]
    fn a_reference_is_a_few_bytes_and_readable_text() {
        let part: Ref<String> = Ref::new(ObjectId::new(PageId::new(0, 12), 3), 0xc0_ffee);
        let far: Ref<String> = Ref::new(ObjectId::new(PageId::new(1, 2), 3), 4);
        let golden: [(_, &[u8]); 2] = [
            (part, &[0x4a, 0, 0, 0, 12, 0, 3, 0, 0xc0, 0xff, 0xee]),
            (far, &[0x4e, 0, 0, 0, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1]),
        ];
        for (reference, golden) in golden {
            let mut writer = Writer::new(Vec::new());
            reference.serialize(&mut writer).unwrap();
            assert_eq!(writer.into_bytes(), golden);
            assert_eq!(Ref::<String>::deserialize(&mut Reader::new(golden)).unwrap(), reference);
        }
        assert!(Ref::<String>::deserialize(&mut Reader::new(&[0x41, 0])).is_err());
        let text = serde_json::to_string(&part).unwrap();
        assert_eq!(text, "\"0/12.3:00c0ffee\"");
        assert_eq!(serde_json::from_str::<Ref<String>>(&text).unwrap(), part);
        for text in ["\"12.3:00c0ffee\"", "\"0/12.3\"", "\"0/12.3:\""] {
            assert!(serde_json::from_str::<Ref<String>>(text).is_err(), "{text}");
        }
    }
}
