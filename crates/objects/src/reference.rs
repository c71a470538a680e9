//! Typed references, and where a new object is to lie.

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use types::{ObjectId, PageId};

/// A reference to an object whose value is a `T`. It is a value itself, a few bytes when stored, so objects refer to
/// objects.
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
    value: PhantomData<fn() -> T>,
}

impl<T: ?Sized> Ref<T> {
    /// The reference to the object `id`, whose value is taken for a `T`: reading it fails if it is none.
    pub const fn new(id: ObjectId) -> Self {
        Self { id, value: PhantomData }
    }

    /// The object's id.
    pub const fn id(self) -> ObjectId {
        self.id
    }

    /// The same reference, to a value that is taken for a `U`.
    pub const fn cast<U: ?Sized>(self) -> Ref<U> {
        Ref::new(self.id)
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
        self.id == other.id
    }
}

impl<T: ?Sized> Eq for Ref<T> {}

impl<T: ?Sized> PartialOrd for Ref<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: ?Sized> Ord for Ref<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.id.cmp(&other.id)
    }
}

impl<T: ?Sized> Hash for Ref<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl<T: ?Sized> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ref({})", self.id)
    }
}

/// Text such as `0/12.3` for people, three numbers for the store.
impl<T: ?Sized> Serialize for Ref<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return serializer.collect_str(&self.id);
        }
        (self.id.page.number, self.id.slot, self.id.page.volume).serialize(serializer)
    }
}

impl<'de, T: ?Sized> Deserialize<'de> for Ref<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return deserializer.deserialize_str(IdText).map(Self::new);
        }
        let (number, slot, volume) = Deserialize::deserialize(deserializer)?;
        Ok(Self::new(ObjectId::new(PageId::new(volume, number), slot)))
    }
}

struct IdText;

impl Visitor<'_> for IdText {
    type Value = ObjectId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object id such as 0/12.3")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ObjectId, E> {
        parse_id(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

/// The id that is written `volume/page.slot`.
fn parse_id(text: &str) -> Option<ObjectId> {
    let (volume, rest) = text.split_once('/')?;
    let (number, slot) = rest.split_once('.')?;
    Some(ObjectId::new(PageId::new(volume.parse().ok()?, number.parse().ok()?), slot.parse().ok()?))
}

/// Where a new object is to lie: close to another one, so that whoever fetches that one has this one too, or
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

    #[test]
    fn a_reference_is_a_few_bytes_and_readable_text() {
        let part: Ref<String> = Ref::new(ObjectId::new(PageId::new(0, 12), 3));
        let bytes = postcard::to_allocvec(&part).unwrap();
        assert_eq!(bytes, [12, 3, 0]);
        assert_eq!(postcard::from_bytes::<Ref<String>>(&bytes).unwrap(), part);
        let text = serde_json::to_string(&part).unwrap();
        assert_eq!(text, "\"0/12.3\"");
        assert_eq!(serde_json::from_str::<Ref<String>>(&text).unwrap(), part);
        assert!(serde_json::from_str::<Ref<String>>("\"12.3\"").is_err());
    }
}
