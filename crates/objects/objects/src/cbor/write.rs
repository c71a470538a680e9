//! Values to bytes.

use super::{
    ARRAY, BIG_NEGATIVE, BIG_UNSIGNED, BREAK, BYTE, BYTES, COMPACT, CborError, DEPTH_MAX, DOUBLE, FALSE, HALF,
    INDEFINITE, LONG, MAP, NEGATIVE, NULL, Result, SINGLE, SOME_HEAD, TAG, TEXT, TRUE, U8_ARRAY, UNSIGNED, WORD,
};
use serde::ser::{self, Impossible, Serialize, Serializer};
use std::{fmt, mem};

/// As many bytes as a sequence must have to be written as bytes: below that an array is no longer.
const PACKED_LEAST: usize = 4;

/// Appends items to bytes.
pub(crate) struct Writer {
    bytes: Vec<u8>,
    depth: usize,
    /// Whether what comes next is written in its compact form.
    compact: bool,
}

impl Writer {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, depth: 0, compact: false }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// How many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a text.
    pub(crate) fn text(&mut self, text: &str) {
        self.head(TEXT, text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// An item's first byte and its argument, in as few bytes as it takes.
    #[inline]
    fn head(&mut self, major: u8, argument: u64) {
        let major = major << 5;
        if argument < u64::from(BYTE) {
            self.bytes.push(major | argument as u8);
        } else if let Ok(byte) = u8::try_from(argument) {
            self.bytes.extend_from_slice(&[major | BYTE, byte]);
        } else if let Ok(half) = u16::try_from(argument) {
            self.bytes.push(major | HALF);
            self.bytes.extend_from_slice(&half.to_be_bytes());
        } else if let Ok(word) = u32::try_from(argument) {
            self.bytes.push(major | WORD);
            self.bytes.extend_from_slice(&word.to_be_bytes());
        } else {
            self.bytes.push(major | LONG);
            self.bytes.extend_from_slice(&argument.to_be_bytes());
        }
    }

    fn big(&mut self, tag: u64, number: u128) {
        let bytes = number.to_be_bytes();
        let bytes = &bytes[number.leading_zeros() as usize / 8..];
        self.head(TAG, tag);
        self.head(BYTES, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(CborError::too_deep()) } else { Ok(()) }
    }

    /// The map that a variant with contents is.
    fn variant(&mut self, name: &str) -> Result<()> {
        self.enter()?;
        self.head(MAP, 1);
        self.text(name);
        Ok(())
    }

    /// A sequence. Its head waits for the first element, if that may turn out to be a byte.
    fn seq(&mut self, len: Option<usize>, levels: usize) -> Result<Compound<'_>> {
        self.enter()?;
        let packs = len.is_some_and(|len| len >= PACKED_LEAST);
        if !packs {
            self.begin(ARRAY, len);
        }
        let elements = if packs { Elements::Undecided } else { Elements::Items };
        Ok(Compound { writer: self, announced: len, given: 0, elements, levels })
    }

    fn map(&mut self, len: Option<usize>, levels: usize) -> Result<Compound<'_>> {
        self.enter()?;
        self.begin(MAP, len);
        Ok(Compound { writer: self, announced: len, given: 0, elements: Elements::Items, levels })
    }

    fn begin(&mut self, major: u8, len: Option<usize>) {
        match len {
            Some(len) => self.head(major, len as u64),
            None => self.bytes.push(major << 5 | INDEFINITE),
        }
    }
}

/// An array or a map that is being written.
pub(crate) struct Compound<'a> {
    writer: &'a mut Writer,
    announced: Option<usize>,
    given: usize,
    elements: Elements,
    /// The levels that end with it: a variant's map ends with what it holds.
    levels: usize,
}

#[derive(Clone, Copy)]
enum Elements {
    /// The first one decides.
    Undecided,
    /// All so far are bytes: the typed array is at `head`, its bytes from `start` on.
    Packed { head: usize, start: usize },
    /// Each is an item of its own.
    Items,
}

impl Compound<'_> {
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.given += 1;
        if !matches!(self.elements, Elements::Items) {
            if let Ok(byte) = value.serialize(OnlyByte) {
                self.pack(byte);
                return Ok(());
            }
            self.unpack();
        }
        value.serialize(&mut *self.writer)
    }

    fn pack(&mut self, byte: u8) {
        let writer = &mut *self.writer;
        if let (Elements::Undecided, Some(len)) = (self.elements, self.announced) {
            let head = writer.bytes.len();
            writer.head(TAG, U8_ARRAY);
            writer.head(BYTES, len as u64);
            self.elements = Elements::Packed { head, start: writer.bytes.len() };
        }
        writer.bytes.push(byte);
    }

    /// An element is no byte, so all are items.
    fn unpack(&mut self) {
        let writer = &mut *self.writer;
        let packed = match mem::replace(&mut self.elements, Elements::Items) {
            Elements::Packed { head, start } => {
                let packed = writer.bytes.split_off(start);
                writer.bytes.truncate(head);
                packed
            }
            Elements::Undecided | Elements::Items => Vec::new(),
        };
        writer.begin(ARRAY, self.announced);
        for byte in packed {
            writer.head(UNSIGNED, u64::from(byte));
        }
    }

    fn entry<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<()> {
        self.given += 1;
        self.writer.text(key);
        value.serialize(&mut *self.writer).map_err(|error| error.inside(key))
    }

    fn close(self) -> Result<()> {
        self.writer.depth -= self.levels;
        match self.announced {
            None => self.writer.bytes.push(BREAK),
            Some(announced) if announced == self.given => {}
            Some(announced) => {
                let text = format_args!("its Serialize announces {announced} elements and gives {}", self.given);
                return Err(CborError::said(text));
            }
        }
        Ok(())
    }
}

impl<'a> Serializer for &'a mut Writer {
    type Ok = ();
    type Error = CborError;
    type SerializeSeq = Compound<'a>;
    type SerializeTuple = Compound<'a>;
    type SerializeTupleStruct = Compound<'a>;
    type SerializeTupleVariant = Compound<'a>;
    type SerializeMap = Compound<'a>;
    type SerializeStruct = Compound<'a>;
    type SerializeStructVariant = Compound<'a>;

    fn is_human_readable(&self) -> bool {
        !self.compact
    }

    fn serialize_bool(self, value: bool) -> Result<()> {
        self.bytes.push(if value { TRUE } else { FALSE });
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<()> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<()> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<()> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<()> {
        let (major, argument) = if value < 0 { (NEGATIVE, !value) } else { (UNSIGNED, value) };
        self.head(major, argument as u64);
        Ok(())
    }

    fn serialize_i128(self, value: i128) -> Result<()> {
        if value >= 0 {
            return self.serialize_u128(value as u128);
        }
        match u64::try_from(!value) {
            Ok(argument) => self.head(NEGATIVE, argument),
            Err(_) => self.big(BIG_NEGATIVE, !value as u128),
        }
        Ok(())
    }

    fn serialize_u8(self, value: u8) -> Result<()> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<()> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<()> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<()> {
        self.head(UNSIGNED, value);
        Ok(())
    }

    fn serialize_u128(self, value: u128) -> Result<()> {
        match u64::try_from(value) {
            Ok(argument) => self.head(UNSIGNED, argument),
            Err(_) => self.big(BIG_UNSIGNED, value),
        }
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<()> {
        self.bytes.push(SINGLE);
        self.bytes.extend_from_slice(&value.to_be_bytes());
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Result<()> {
        self.bytes.push(DOUBLE);
        self.bytes.extend_from_slice(&value.to_be_bytes());
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<()> {
        self.text(value.encode_utf8(&mut [0; 4]));
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<()> {
        self.text(value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<()> {
        self.head(BYTES, value.len() as u64);
        self.bytes.extend_from_slice(value);
        Ok(())
    }

    fn serialize_none(self) -> Result<()> {
        self.bytes.push(NULL);
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        let start = self.bytes.len();
        self.enter()?;
        value.serialize(&mut *self)?;
        self.depth -= 1;
        let inside = &self.bytes[start..];
        if inside.first() == Some(&NULL) || inside.starts_with(&SOME_HEAD) {
            self.bytes.splice(start..start, SOME_HEAD);
        }
        Ok(())
    }

    fn serialize_unit(self) -> Result<()> {
        self.serialize_none()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<()> {
        self.serialize_none()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<()> {
        self.text(variant);
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<()> {
        let outer = mem::replace(&mut self.compact, name == COMPACT);
        let written = value.serialize(&mut *self);
        self.compact = outer;
        written
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<()> {
        self.variant(variant)?;
        value.serialize(&mut *self).map_err(|error| error.inside(variant))?;
        self.depth -= 1;
        Ok(())
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Compound<'a>> {
        self.seq(len, 1)
    }

    fn serialize_tuple(self, len: usize) -> Result<Compound<'a>> {
        self.seq(Some(len), 1)
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<Compound<'a>> {
        self.seq(Some(len), 1)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Compound<'a>> {
        self.variant(variant)?;
        self.seq(Some(len), 2)
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Compound<'a>> {
        self.map(len, 1)
    }

    fn serialize_struct(self, _: &'static str, len: usize) -> Result<Compound<'a>> {
        self.map(Some(len), 1)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Compound<'a>> {
        self.variant(variant)?;
        self.map(Some(len), 2)
    }
}

macro_rules! sequences {
    ($($kind:ident $element:ident;)*) => { $(
        impl ser::$kind for Compound<'_> {
            type Ok = ();
            type Error = CborError;

            fn $element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
                self.element(value)
            }

            fn end(self) -> Result<()> {
                self.close()
            }
        }
    )* };
}

sequences! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

macro_rules! structs {
    ($($kind:ident)*) => { $(
        impl ser::$kind for Compound<'_> {
            type Ok = ();
            type Error = CborError;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<()> {
                self.entry(key, value)
            }

            fn end(self) -> Result<()> {
                self.close()
            }
        }
    )* };
}

structs!(SerializeStruct SerializeStructVariant);

impl ser::SerializeMap for Compound<'_> {
    type Ok = ();
    type Error = CborError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.given += 1;
        key.serialize(&mut *self.writer)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<()> {
        self.close()
    }
}

/// Takes a `u8`, and nothing else.
struct OnlyByte;

/// It is something else.
#[derive(Debug)]
struct NoByte;

type Byte = std::result::Result<u8, NoByte>;

impl fmt::Display for NoByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is no byte")
    }
}

impl std::error::Error for NoByte {}

impl ser::Error for NoByte {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

macro_rules! no_byte {
    ($($method:ident $value:ty;)*) => { $(
        fn $method(self, _: $value) -> Byte {
            Err(NoByte)
        }
    )* };
}

macro_rules! no_compound {
    ($($method:ident($($argument:ty),*);)*) => { $(
        fn $method(self, $(_: $argument),*) -> std::result::Result<Impossible<u8, NoByte>, NoByte> {
            Err(NoByte)
        }
    )* };
}

impl Serializer for OnlyByte {
    type Ok = u8;
    type Error = NoByte;
    type SerializeSeq = Impossible<u8, NoByte>;
    type SerializeTuple = Impossible<u8, NoByte>;
    type SerializeTupleStruct = Impossible<u8, NoByte>;
    type SerializeTupleVariant = Impossible<u8, NoByte>;
    type SerializeMap = Impossible<u8, NoByte>;
    type SerializeStruct = Impossible<u8, NoByte>;
    type SerializeStructVariant = Impossible<u8, NoByte>;

    fn serialize_u8(self, value: u8) -> Byte {
        Ok(value)
    }

    no_byte! {
        serialize_bool bool;
        serialize_i8 i8;
        serialize_i16 i16;
        serialize_i32 i32;
        serialize_i64 i64;
        serialize_u16 u16;
        serialize_u32 u32;
        serialize_u64 u64;
        serialize_f32 f32;
        serialize_f64 f64;
        serialize_char char;
        serialize_str &str;
        serialize_bytes &[u8];
        serialize_unit_struct &'static str;
    }

    no_compound! {
        serialize_seq(Option<usize>);
        serialize_tuple(usize);
        serialize_tuple_struct(&'static str, usize);
        serialize_tuple_variant(&'static str, u32, &'static str, usize);
        serialize_map(Option<usize>);
        serialize_struct(&'static str, usize);
        serialize_struct_variant(&'static str, u32, &'static str, usize);
    }

    fn serialize_none(self) -> Byte {
        self.serialize_bool(false)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Byte {
        self.serialize_none()
    }

    fn serialize_unit(self) -> Byte {
        self.serialize_none()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Byte {
        self.serialize_none()
    }

    /// A wrapped byte is written as what it wraps, and so is a byte.
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Byte {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(self, _: &'static str, _: u32, _: &'static str, _: &T) -> Byte {
        self.serialize_none()
    }

    /// The default asks the value for its text first.
    fn collect_str<T: fmt::Display + ?Sized>(self, _: &T) -> Byte {
        self.serialize_none()
    }
}
