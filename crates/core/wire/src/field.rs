//! The fields that messages of any family have in common: flags, texts, order, counts.

use crate::WireError;
use crate::layout::{Meta, Reader};
use alloc::borrow::ToOwned;
use alloc::string::String;
use zerocopy::little_endian::{U16, U32};

/// A number that says yes or no.
pub fn flag(what: &'static str, value: U32) -> Result<bool, WireError> {
    match value.get() {
        0 => Ok(false),
        1 => Ok(true),
        got => Err(WireError::Code { what, got: got.into() }),
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
