//! Bytes to values. The bytes may be anything: no length is believed beyond the bytes that are there, and no nesting
//! beyond [`DEPTH_MAX`].

use super::{
    ARRAY, BIG_NEGATIVE, BIG_UNSIGNED, BREAK, BYTE, BYTES, CborError, DEPTH_MAX, DOUBLE, FALSE, HALF, INDEFINITE, LONG,
    MAP, NEGATIVE, NULL, Result, SIMPLE, SINGLE, SOME, SOME_HEAD, TAG, TEXT, TRUE, U8_ARRAY, UNSIGNED, WORD, describe,
};
use serde::de::value::{BorrowedStrDeserializer, SeqDeserializer};
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};
use serde::forward_to_deserialize_any;

#[cold]
fn cut() -> CborError {
    CborError::malformed("it ends in the middle of a value")
}

#[cold]
fn unknown() -> CborError {
    CborError::malformed("it has an item of a kind that is never written")
}

/// Takes items from the front of bytes.
pub(crate) struct Reader<'de> {
    rest: &'de [u8],
    depth: usize,
}

/// An item, or the beginning of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Item<'de> {
    Unsigned(u64),
    /// -1 less the number.
    Negative(u64),
    Bytes(&'de [u8]),
    Text(&'de str),
    /// How many items follow; unless that is said, up to a break.
    Array(Option<u64>),
    Map(Option<u64>),
    Tag(u64),
    Bool(bool),
    Null,
    Single(f32),
    Double(f64),
}

impl<'de> Reader<'de> {
    pub(crate) fn new(bytes: &'de [u8]) -> Self {
        Self { rest: bytes, depth: 0 }
    }

    /// The bytes behind what was taken.
    pub(crate) fn rest(&self) -> &'de [u8] {
        self.rest
    }

    /// Takes a text.
    #[inline]
    pub(crate) fn text(&mut self) -> Result<&'de str> {
        match self.item()? {
            Item::Text(text) => Ok(text),
            _ => Err(CborError::malformed("it has no text where one should be")),
        }
    }

    #[inline]
    fn take(&mut self, bytes: u64) -> Result<&'de [u8]> {
        let bytes = usize::try_from(bytes).map_err(|_| cut())?;
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or_else(cut)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or_else(cut)?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    fn argument(&mut self, info: u8) -> Result<u64> {
        Ok(match info {
            0..BYTE => u64::from(info),
            BYTE => u64::from(u8::from_be_bytes(self.array()?)),
            HALF => u64::from(u16::from_be_bytes(self.array()?)),
            WORD => u64::from(u32::from_be_bytes(self.array()?)),
            LONG => u64::from_be_bytes(self.array()?),
            _ => return Err(unknown()),
        })
    }

    fn count(&mut self, info: u8) -> Result<Option<u64>> {
        if info == INDEFINITE { Ok(None) } else { self.argument(info).map(Some) }
    }

    #[inline]
    pub(super) fn item(&mut self) -> Result<Item<'de>> {
        let [first] = self.array()?;
        let info = first & 0x1f;
        Ok(match first >> 5 {
            UNSIGNED => Item::Unsigned(self.argument(info)?),
            NEGATIVE => Item::Negative(self.argument(info)?),
            BYTES => {
                let bytes = self.argument(info)?;
                Item::Bytes(self.take(bytes)?)
            }
            TEXT => {
                let bytes = self.argument(info)?;
                let text = std::str::from_utf8(self.take(bytes)?);
                Item::Text(text.map_err(|_| CborError::malformed("it has a text that is not UTF-8"))?)
            }
            ARRAY => Item::Array(self.count(info)?),
            MAP => Item::Map(self.count(info)?),
            TAG => Item::Tag(self.argument(info)?),
            SIMPLE.. => match first {
                FALSE => Item::Bool(false),
                TRUE => Item::Bool(true),
                NULL => Item::Null,
                SINGLE => Item::Single(f32::from_be_bytes(self.array()?)),
                DOUBLE => Item::Double(f64::from_be_bytes(self.array()?)),
                _ => return Err(unknown()),
            },
        })
    }

    /// Whether an array or a map ends here. One that says how long it is counts down.
    #[inline]
    fn ends(&mut self, left: &mut Option<u64>) -> bool {
        match left {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => match self.rest.split_first() {
                Some((&BREAK, rest)) => {
                    self.rest = rest;
                    *left = Some(0);
                    true
                }
                _ => false,
            },
        }
    }

    #[inline]
    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(CborError::too_deep()) } else { Ok(()) }
    }

    /// Takes an item, and all that is in it.
    pub(super) fn skip(&mut self) -> Result<()> {
        let (mut left, items) = loop {
            match self.item()? {
                Item::Array(count) => break (count, 1),
                Item::Map(count) => break (count, 2),
                Item::Tag(_) => {}
                _ => return Ok(()),
            }
        };
        self.enter()?;
        while !self.ends(&mut left) {
            (0..items).try_for_each(|_| self.skip())?;
        }
        self.depth -= 1;
        Ok(())
    }

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

    fn byte_string(&mut self) -> Result<&'de [u8]> {
        match self.item()? {
            Item::Bytes(bytes) => Ok(bytes),
            _ => Err(unknown()),
        }
    }

    fn big(&mut self) -> Result<u128> {
        let bytes = self.byte_string()?;
        if bytes.len() > size_of::<u128>() {
            return Err(unknown());
        }
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)))
    }

    /// What stands here is not what was asked for.
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

/// What is left of an array or a map.
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
