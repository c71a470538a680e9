//! The name that a type goes by in the store: what its `Deserialize` asks a decoder for.
//!
//! It is that of the struct or enum, as serde knows it: `#[serde(rename = "...")]` on the type keeps a name that the
//! program has given up. Numbers, texts, lists, options and whatever serde reads without saying what it expects have
//! none.

use serde::de::{DeserializeOwned, Deserializer, Visitor};
use std::fmt;

/// The form that a type's `Deserialize` asks a decoder for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A value of this name.
    For(&'static str),
    /// A value of a form that has no name, such as a number.
    Unnamed,
    /// Any form.
    Anything,
}

impl Asked {
    /// The form that this type asks for.
    #[inline]
    pub(crate) fn by<T: DeserializeOwned>() -> Self {
        // A type that asks for no form takes any.
        T::deserialize(Probe).map_or_else(|asked| asked, |_| Self::Anything)
    }

    /// The name that a value is stored with; empty if it has none.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::For(name) => name,
            Self::Unnamed | Self::Anything => "",
        }
    }

    /// Whether a value that is stored with this name may be what is asked for. Its form says the rest: a number that
    /// has no name may become a struct around a number.
    #[inline]
    pub(crate) fn takes(self, stored: &str) -> bool {
        match self {
            Self::For(name) => stored == name || stored.is_empty(),
            Self::Unnamed => stored.is_empty(),
            Self::Anything => true,
        }
    }
}

/// A decoder that ends at what it is asked for first.
struct Probe;

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "asked for '{}'", self.name())
    }
}

impl std::error::Error for Asked {}

impl serde::de::Error for Asked {
    /// The type's own code fails before it has asked, or because it gets no answer.
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Unnamed
    }
}

macro_rules! unnamed {
    ($($method:ident)*) => { $(
        #[inline]
        fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Asked> {
            Err(Asked::Unnamed)
        }
    )* };
}

impl<'de> Deserializer<'de> for Probe {
    type Error = Asked;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Asked> {
        Err(Asked::Anything)
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Asked> {
        Err(Asked::For(name))
    }

    #[inline]
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Asked> {
        Err(Asked::For(name))
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, _: V) -> Result<V::Value, Asked> {
        Err(Asked::For(name))
    }

    #[inline]
    fn deserialize_unit_struct<V: Visitor<'de>>(self, name: &'static str, _: V) -> Result<V::Value, Asked> {
        Err(Asked::For(name))
    }

    #[inline]
    fn deserialize_tuple_struct<V: Visitor<'de>>(self, name: &'static str, _: usize, _: V) -> Result<V::Value, Asked> {
        Err(Asked::For(name))
    }

    #[inline]
    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Asked> {
        Err(Asked::Unnamed)
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Asked> {
        Err(Asked::Anything)
    }

    unnamed! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8
        deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char
        deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf deserialize_option deserialize_unit
        deserialize_seq deserialize_map deserialize_identifier
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Record {}
    #[derive(Deserialize)]
    #[serde(rename = "Older")]
    struct Renamed(#[expect(dead_code)] u8, #[expect(dead_code)] u8);
    #[derive(Deserialize)]
    #[serde(from = "Record")]
    struct Converted;
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Transparent(#[expect(dead_code)] u8);
    #[derive(Deserialize)]
    enum Choice {}
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Untagged {
        Record(Record),
    }

    impl From<Record> for Converted {
        fn from(_: Record) -> Self {
            Self
        }
    }

    #[test]
    fn a_type_goes_by_what_it_asks_for() {
        assert_eq!(Asked::by::<Record>(), Asked::For("Record"));
        assert_eq!(Asked::by::<Box<Record>>(), Asked::For("Record"));
        assert_eq!(Asked::by::<Renamed>(), Asked::For("Older"));
        assert_eq!(Asked::by::<Converted>(), Asked::For("Record"));
        assert_eq!(Asked::by::<Choice>(), Asked::For("Choice"));
        let unnamed = [
            Asked::by::<u8>(),
            Asked::by::<String>(),
            Asked::by::<Option<Record>>(),
            Asked::by::<Vec<Record>>(),
            Asked::by::<()>(),
            Asked::by::<Transparent>(),
        ];
        assert_eq!(unnamed, [Asked::Unnamed; 6]);
        let anything = [Asked::by::<Untagged>(), Asked::by::<serde_json::Value>()];
        assert_eq!(anything, [Asked::Anything; 2]);
    }

    #[test]
    fn a_name_is_taken_for_no_other() {
        let takes = |asked: Asked| ["", "Part", "Order"].map(|stored| asked.takes(stored));
        assert_eq!(takes(Asked::For("Part")), [true, true, false]);
        assert_eq!(takes(Asked::Unnamed), [true, false, false]);
        assert_eq!(takes(Asked::Anything), [true; 3]);
    }
}
