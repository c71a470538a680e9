//! The layout that each message declares of its own bytes, and the reader that takes them apart.

use crate::body::Body;
use crate::{Limits, WireError};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A message's layout. A family has a file for each conversation, with those of its messages.
pub trait Layout: Sized {
    /// How long its parts may be.
    const LIMITS: Limits;

    /// Checks what the sender owes to the receiver's limits, and appends the fixed-layout part.
    ///
    /// # Errors
    /// The message is larger than a receiver takes.
    fn put(&self, meta: &mut Meta<'_>) -> Result<(), WireError>;

    /// The pieces of its raw part.
    fn body(&self) -> impl Iterator<Item = &Bytes> {
        core::iter::empty()
    }

    /// Takes the message apart.
    ///
    /// # Errors
    /// The bytes are no such message.
    fn get(reader: &mut Reader<'_>) -> Result<Self, WireError>;
}

/// Where the fixed-layout part goes.
pub struct Meta<'a>(pub(crate) &'a mut BytesMut);

impl Meta<'_> {
    /// Appends a field, or a struct or slice of fields.
    pub fn put<T: IntoBytes + Immutable + ?Sized>(&mut self, fields: &T) {
        self.0.extend_from_slice(fields.as_bytes());
    }
}

/// Takes a frame apart from front to back. All bytes are known to be there before room is made for them.
pub struct Reader<'a> {
    /// How an error names the message.
    name: &'static str,
    meta: &'a [u8],
    body: Body,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(name: &'static str, meta: &'a [u8], body: Body) -> Self {
        Self { name, meta, body }
    }

    /// The next fields of the meta, in place.
    pub fn get<T>(&mut self) -> Result<&'a T, WireError>
    where
        T: FromBytes + KnownLayout + Immutable + Unaligned,
    {
        let (fields, rest) = T::ref_from_prefix(self.meta).map_err(|_| WireError::Short { kind: self.name })?;
        self.meta = rest;
        Ok(fields)
    }

    /// The next `count` fields of the meta, in place.
    pub fn many<T>(&mut self, count: usize) -> Result<&'a [T], WireError>
    where
        T: FromBytes + KnownLayout + Immutable + Unaligned,
    {
        let (fields, rest) =
            <[T]>::ref_from_prefix_with_elems(self.meta, count).map_err(|_| WireError::Short { kind: self.name })?;
        self.meta = rest;
        Ok(fields)
    }

    /// The rest of the meta as fields, in place.
    pub fn rest<T>(&mut self) -> Result<&'a [T], WireError>
    where
        T: FromBytes + KnownLayout + Immutable + Unaligned,
    {
        let fields = self.many(self.meta.len() / size_of::<T>())?;
        self.end()?;
        Ok(fields)
    }

    /// A text to the end of the meta.
    pub fn text_rest(&mut self) -> Result<String, WireError> {
        let text = core::str::from_utf8(self.rest::<u8>()?).map_err(|_| WireError::Text)?;
        Ok(text.into())
    }

    /// How much of the meta is left, in bytes.
    pub fn meta_bytes(&self) -> usize {
        self.meta.len()
    }

    /// Refuses what is left of the meta.
    pub fn end(&self) -> Result<(), WireError> {
        if self.meta.is_empty() { Ok(()) } else { Err(WireError::Long { kind: self.name }) }
    }

    /// Whether nothing of the meta is left.
    pub fn is_at_end(&self) -> bool {
        self.meta.is_empty()
    }

    /// `count` things, each of which takes at least `bytes_min` of what is left of the meta.
    pub fn list<T>(
        &mut self,
        count: usize,
        bytes_min: usize,
        mut get: impl FnMut(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        if count.saturating_mul(bytes_min) > self.meta.len() {
            return Err(WireError::Short { kind: self.name });
        }
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push(get(self)?);
        }
        Ok(list)
    }

    /// The next `len` bytes of the body.
    pub fn bytes(&mut self, len: usize) -> Result<Bytes, WireError> {
        if len > self.body.bytes() {
            return Err(WireError::Short { kind: self.name });
        }
        Ok(self.body.take(len))
    }

    /// The rest of the body.
    pub fn bytes_rest(&mut self) -> Bytes {
        self.body.take(self.body.bytes())
    }

    /// The message that all of it is.
    ///
    /// # Errors
    /// The bytes are no such message, or more than one.
    pub fn message<T: Layout>(mut self) -> Result<T, WireError> {
        let message = T::get(&mut self)?;
        let nothing_left = self.meta.is_empty() && self.body.bytes() == 0;
        if nothing_left { Ok(message) } else { Err(WireError::Long { kind: self.name }) }
    }
}
