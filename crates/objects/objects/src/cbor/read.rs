//! Items to values of the types that are asked for.

use super::describe::describe;
use super::item::{Item, Reader, unknown};
use super::{BIG_NEGATIVE, BIG_UNSIGNED, CborError, MAP, NULL, Result, SOME, SOME_HEAD, U8_ARRAY};
use serde::de::value::{BorrowedStrDeserializer, SeqDeserializer};
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};
use serde::forward_to_deserialize_any;

impl<'de> Reader<'de> {
    #[inline]
    fn visit_array<V: Visitor<'de>>(&mut self, count: Option<u64>, visitor: V) -> Result<V::Value> {
        self.enter()?;
        let mut elements = Compound { reader: self, left: count, key: None };
        let value = visitor.visit_seq(&mut elements)?;
        let mut left = elements.left;
        if !self.ends(&mut left) {
            return Err(CborError::said("it has more elements than were asked for"));
        }
        self.depth -= 1;
        Ok(value)
    }

    #[inline]
    fn visit_map<V: Visitor<'de>>(&mut self, count: Option<u64>, visitor: V) -> Result<V::Value> {
        self.enter()?;
        let mut entries = Compound { reader: self, left: count, key: None };
        let value = visitor.visit_map(&mut entries).map_err(|error| entries.about(error))?;
        let mut left = entries.left;
        if !self.ends(&mut left) {
            return Err(CborError::said("it has more entries than were asked for"));
        }
        self.depth -= 1;
        Ok(value)
    }

    fn visit_tagged<V: Visitor<'de>>(&mut self, tag: u64, visitor: V) -> Result<V::Value> {
        match tag {
            SOME => {
                self.enter()?;
                let value = visitor.visit_some(&mut *self)?;
                self.depth -= 1;
                Ok(value)
            }
            U8_ARRAY => {
                let mut elements = SeqDeserializer::new(self.byte_string()?.iter().copied());
                let value = visitor.visit_seq(&mut elements)?;
                elements.end().map(|()| value)
            }
            BIG_UNSIGNED => visitor.visit_u128(self.big()?),
            BIG_NEGATIVE => {
                let number = i128::try_from(self.big()?).map_err(|_| unknown())?;
                visitor.visit_i128(!number)
            }
            _ => Err(unknown()),
        }
    }

    /// The error for a value that stands here and is not the one asked for.
    fn not_a<T>(&self, what: impl std::fmt::Display) -> Result<T> {
        Err(CborError::said(format_args!("it is {}, not {what}", describe(self.rest))))
    }
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = CborError;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.item()? {
            Item::Unsigned(number) => visitor.visit_u64(number),
            Item::Negative(number) => match i64::try_from(number) {
                Ok(number) => visitor.visit_i64(!number),
                Err(_) => visitor.visit_i128(!i128::from(number)),
            },
            Item::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            Item::Text(text) => visitor.visit_borrowed_str(text),
            Item::Array(count) => self.visit_array(count, visitor),
            Item::Map(count) => self.visit_map(count, visitor),
            Item::Tag(tag) => self.visit_tagged(tag, visitor),
            Item::Bool(value) => visitor.visit_bool(value),
            Item::Null => visitor.visit_unit(),
            Item::Single(value) => visitor.visit_f32(value),
            Item::Double(value) => visitor.visit_f64(value),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.rest.first() == Some(&NULL) {
            self.rest = &self.rest[1..];
            return visitor.visit_none();
        }
        self.rest = self.rest.strip_prefix(&SOME_HEAD).unwrap_or(self.rest);
        self.enter()?;
        let value = visitor.visit_some(&mut *self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let mut ahead = Reader::new(self.rest);
        if ahead.item()? == Item::Tag(U8_ARRAY) {
            let bytes = ahead.byte_string()?;
            self.rest = ahead.rest;
            return visitor.visit_borrowed_bytes(bytes);
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_bytes(visitor)
    }

    /// A struct is a map: serde would take a list for one, field by field.
    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self.rest.first() {
            Some(first) if first >> 5 == MAP => self.deserialize_any(visitor),
            _ => self.not_a(format_args!("a struct {name}")),
        }
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    #[inline]
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        let mut ahead = Reader::new(self.rest);
        match ahead.item()? {
            Item::Text(variant) => {
                self.rest = ahead.rest;
                visitor.visit_enum(BorrowedStrDeserializer::new(variant))
            }
            Item::Map(Some(1)) => {
                self.rest = ahead.rest;
                self.enter()?;
                let value = visitor.visit_enum(&mut *self)?;
                self.depth -= 1;
                Ok(value)
            }
            _ => self.not_a(format_args!("a variant of {name}")),
        }
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.skip()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string unit unit_struct seq tuple tuple_struct map
        identifier
    }
}

/// The rest of an array or a map.
struct Compound<'a, 'de> {
    reader: &'a mut Reader<'de>,
    left: Option<u64>,
    /// Where the key stood whose value is read, for an error.
    key: Option<&'de [u8]>,
}

impl Compound<'_, '_> {
    fn size_hint(&self) -> Option<usize> {
        // Each takes a byte at least.
        Some(usize::try_from(self.left?).ok()?.min(self.reader.rest.len()))
    }

    #[cold]
    fn about(&self, error: CborError) -> CborError {
        match self.key.map(|key| Reader::new(key).text()) {
            Some(Ok(key)) => error.inside(key),
            _ => error,
        }
    }
}

impl<'de> SeqAccess<'de> for Compound<'_, 'de> {
    type Error = CborError;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if self.reader.ends(&mut self.left) {
            return Ok(None);
        }
        seed.deserialize(&mut *self.reader).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        self.size_hint()
    }
}

impl<'de> MapAccess<'de> for Compound<'_, 'de> {
    type Error = CborError;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        self.key = None;
        if self.reader.ends(&mut self.left) {
            return Ok(None);
        }
        let key = self.reader.rest;
        let read = seed.deserialize(&mut *self.reader).map(Some);
        self.key = Some(key);
        read
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        self.size_hint()
    }
}

impl<'de> EnumAccess<'de> for &mut Reader<'de> {
    type Error = CborError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self)> {
        let variant = seed.deserialize(&mut *self)?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for &mut Reader<'de> {
    type Error = CborError;

    fn unit_variant(self) -> Result<()> {
        serde::Deserialize::deserialize(self)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value> {
        self.deserialize_struct("variant", &[], visitor)
    }
}
