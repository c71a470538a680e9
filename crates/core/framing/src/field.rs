//! The bytes of a field: of types of one size, and of texts, lists and bodies.

use crate::layout::{Meta, Reader};
use crate::length::TEXT_BYTES_MIN;
use crate::{Limits, WireError, number_fields};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::marker::PhantomData;
use core::num::{NonZeroU16, NonZeroU32};
use types::limits::SHARDS_MAX;
use types::{
    ClientId, ClusterId, Incarnation, Life, NodeId, Opening, PageId, PageRange, PeerKey, Shard, Sharding, Time, TxnId,
    Version,
};
use zerocopy::little_endian::{U16, U32, U64};

/// A field of one size, whatever its value.
pub trait Field: Sized {
    /// Its size.
    const BYTES: usize;

    /// Appends it.
    fn put(&self, meta: &mut Meta<'_>);

    /// Reads it; `what` names it in an error.
    ///
    /// # Errors
    /// The bytes are no such value.
    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError>;
}

macro_rules! integers {
    ($($type:ty as $bytes:ty),+) => {
        $(impl Field for $type {
            const BYTES: usize = size_of::<$bytes>();

            fn put(&self, meta: &mut Meta<'_>) {
                meta.put(&<$bytes>::new(*self));
            }

            fn get(_: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
                Ok(reader.get::<$bytes>()?.get())
            }
        })+
    };
}

integers! { u16 as U16, u32 as U32, u64 as U64 }

number_fields! {
    ClientId(u64) ClusterId(u64) Incarnation(u64) Life(u64) NodeId(u16) Opening(u32) Shard(u16) Time(u64)
    Version(u64)
}

/// A flag is a number that says yes or no.
impl Field for bool {
    const BYTES: usize = u32::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        u32::from(*self).put(meta);
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        match u32::get(what, reader)? {
            0 => Ok(false),
            1 => Ok(true),
            got => Err(WireError::Code { what, got: got.into() }),
        }
    }
}

impl Field for PageId {
    const BYTES: usize = u64::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        self.to_bits().put(meta);
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        u64::get(what, reader).map(Self::from_bits)
    }
}

impl Field for PageRange {
    const BYTES: usize = PageId::BYTES + u32::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        self.first.put(meta);
        self.count.put(meta);
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { first: PageId::get(what, reader)?, count: u32::get(what, reader)? })
    }
}

impl Field for Sharding {
    const BYTES: usize = u16::BYTES + u32::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        (self.shards().get(), self.extent().get()).put(meta);
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let (shards, extent) = <(u16, u32)>::get(what, reader)?;
        check_count(what, shards.into(), SHARDS_MAX)?;
        let (Some(shards), Some(extent)) = (NonZeroU16::new(shards), NonZeroU32::new(extent)) else {
            return Err(WireError::Code { what, got: 0 });
        };
        Ok(Self::new(shards, extent))
    }
}

impl Field for TxnId {
    const BYTES: usize = ClientId::BYTES + u64::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        self.client.put(meta);
        self.number.put(meta);
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { client: ClientId::get(what, reader)?, number: u64::get(what, reader)? })
    }
}

impl Field for PeerKey {
    const BYTES: usize = Self::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        meta.put(&self.bytes());
    }

    fn get(_: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self::new(*reader.get::<[u8; Self::BYTES]>()?))
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    const BYTES: usize = A::BYTES + B::BYTES;

    fn put(&self, meta: &mut Meta<'_>) {
        self.0.put(meta);
        self.1.put(meta);
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok((A::get(what, reader)?, B::get(what, reader)?))
    }
}

/// How a field of a message becomes bytes, and what it may take of them.
pub trait FieldLayout<T> {
    /// How long its parts may be.
    const LIMITS: Limits;

    /// Appends it; `what` names it in an error.
    ///
    /// # Errors
    /// It is larger than a receiver takes.
    fn put(field: &T, what: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError>;

    /// Its part of the body.
    fn body(_: &T) -> Option<&Bytes> {
        None
    }

    /// Reads it.
    ///
    /// # Errors
    /// The bytes are no such value.
    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<T, WireError>;
}

/// The layout of a type that has bytes of its own.
#[derive(Debug)]
pub struct Plain;

impl<T: Field> FieldLayout<T> for Plain {
    const LIMITS: Limits = Limits::bytes(T::BYTES);

    fn put(field: &T, _: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        field.put(meta);
        Ok(())
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<T, WireError> {
        T::get(what, reader)
    }
}

/// At most `MAX` fields, to the end of the meta.
#[derive(Debug)]
pub struct Rest<const MAX: usize>;

impl<T: Field, const MAX: usize> FieldLayout<Vec<T>> for Rest<MAX> {
    const LIMITS: Limits = Limits::NOTHING.and_up_to(MAX * T::BYTES);

    fn put(field: &Vec<T>, what: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count(what, field.len(), MAX)?;
        for one in field {
            one.put(meta);
        }
        Ok(())
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<Vec<T>, WireError> {
        let count = reader.meta_bytes() / T::BYTES;
        // A short text before it leaves room for more than the limit.
        check_count(what, count, MAX)?;
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            all.push(T::get(what, reader)?);
        }
        reader.end()?;
        Ok(all)
    }
}

/// A field that is in the place of its key.
pub trait Keyed {
    /// The key.
    type Key: PartialOrd;

    /// Its key.
    fn key(&self) -> Self::Key;
}

/// At most `MAX` fields in the order of their keys, each once, to the end of the meta.
pub type InOrder<const MAX: usize> = Checked<Rest<MAX>, Ordered>;

/// The check of [`InOrder`].
#[derive(Debug)]
pub struct Ordered;

impl<T: Keyed> Check<Vec<T>> for Ordered {
    fn check(field: &Vec<T>, what: &'static str) -> Result<(), WireError> {
        check_order(what, field.iter().map(Keyed::key))
    }
}

/// A check of a field beyond its layout.
pub trait Check<T> {
    /// Checks a field that has been read; `what` names it in an error.
    ///
    /// # Errors
    /// No message has such a field.
    fn check(field: &T, what: &'static str) -> Result<(), WireError>;
}

/// The layout `L`, with a check of the fields that are read.
#[derive(Debug)]
pub struct Checked<L, C>(PhantomData<(L, C)>);

impl<T, L: FieldLayout<T>, C: Check<T>> FieldLayout<T> for Checked<L, C> {
    const LIMITS: Limits = L::LIMITS;

    fn put(field: &T, what: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        L::put(field, what, meta)
    }

    fn body(field: &T) -> Option<&Bytes> {
        L::body(field)
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<T, WireError> {
        let field = L::get(what, reader)?;
        C::check(&field, what)?;
        Ok(field)
    }
}

/// A text of at most `MAX` bytes, behind its length.
#[derive(Debug)]
pub struct Text<const MAX: usize>;

impl<const MAX: usize> FieldLayout<String> for Text<MAX> {
    const LIMITS: Limits = Limits::bytes(TEXT_BYTES_MIN).and_up_to(MAX);

    fn put(field: &String, what: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        put_text(meta, what, field, MAX)
    }

    fn get(what: &'static str, reader: &mut Reader<'_>) -> Result<String, WireError> {
        get_text(reader, what, MAX)
    }
}

/// A text for a person, to the end of the meta. A longer text is cut.
#[derive(Debug)]
pub struct Tail<const MAX: usize>;

impl<const MAX: usize> FieldLayout<String> for Tail<MAX> {
    const LIMITS: Limits = Limits::NOTHING.and_up_to(MAX);

    fn put(field: &String, _: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(cut(field, MAX).as_bytes());
        Ok(())
    }

    fn get(_: &'static str, reader: &mut Reader<'_>) -> Result<String, WireError> {
        reader.text_rest()
    }
}

/// Nothing is said by an empty text.
impl<const MAX: usize> FieldLayout<Option<String>> for Tail<MAX> {
    const LIMITS: Limits = <Self as FieldLayout<String>>::LIMITS;

    fn put(field: &Option<String>, _: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        meta.put(cut(field.as_deref().unwrap_or_default(), MAX).as_bytes());
        Ok(())
    }

    fn get(_: &'static str, reader: &mut Reader<'_>) -> Result<Option<String>, WireError> {
        Ok(Some(reader.text_rest()?).filter(|text| !text.is_empty()))
    }
}

/// Bytes to the end of the meta, at most `MAX`.
impl<const MAX: usize> FieldLayout<Vec<u8>> for Tail<MAX> {
    const LIMITS: Limits = <Self as FieldLayout<String>>::LIMITS;

    fn put(field: &Vec<u8>, what: &'static str, meta: &mut Meta<'_>) -> Result<(), WireError> {
        check_count(what, field.len(), MAX)?;
        meta.put(&field[..]);
        Ok(())
    }

    fn get(_: &'static str, reader: &mut Reader<'_>) -> Result<Vec<u8>, WireError> {
        Ok(reader.rest::<u8>()?.to_vec())
    }
}

/// At most `MAX` bytes, which are the body.
#[derive(Debug)]
pub struct Data<const MAX: usize>;

impl<const MAX: usize> FieldLayout<Bytes> for Data<MAX> {
    const LIMITS: Limits = Limits::NOTHING.with_body(MAX);

    fn put(field: &Bytes, what: &'static str, _: &mut Meta<'_>) -> Result<(), WireError> {
        check_count(what, field.len(), MAX)
    }

    fn body(field: &Bytes) -> Option<&Bytes> {
        Some(field).filter(|data| !data.is_empty())
    }

    fn get(_: &'static str, reader: &mut Reader<'_>) -> Result<Bytes, WireError> {
        Ok(reader.bytes_rest())
    }
}

/// A text: its length, then its bytes.
pub fn put_text(meta: &mut Meta<'_>, what: &'static str, text: &str, max: usize) -> Result<(), WireError> {
    check_count(what, text.len(), max)?;
    meta.put(&U16::new(text.len() as u16));
    meta.put(text.as_bytes());
    Ok(())
}

/// The inverse of [`put_text`].
pub fn get_text(reader: &mut Reader<'_>, what: &'static str, max: usize) -> Result<String, WireError> {
    let len = usize::from(reader.get::<U16>()?.get());
    check_count(what, len, max)?;
    let text = core::str::from_utf8(reader.many::<u8>(len)?).map_err(|_| WireError::Text)?;
    Ok(text.to_owned())
}

/// As much of a text as fits into so many bytes.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    let bytes = text.len().min(bytes_max);
    let end = (0..=bytes).rev().find(|&end| text.is_char_boundary(end)).expect("zero is one");
    &text[..end]
}

/// Refuses what is not in ascending order.
pub fn check_order<T: PartialOrd>(what: &'static str, items: impl Iterator<Item = T>) -> Result<(), WireError> {
    if items.is_sorted_by(|a, b| a < b) { Ok(()) } else { Err(WireError::Order { what }) }
}

/// Refuses more than a message may have.
pub fn check_count(what: &'static str, got: usize, max: usize) -> Result<(), WireError> {
    if got <= max { Ok(()) } else { Err(WireError::Count { what, max, got }) }
}
