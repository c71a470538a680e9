//! The description of a value's bytes in words, for the error of a caller that asked for something else.

use super::item::{Item, Reader};
use super::{BIG_NEGATIVE, BIG_UNSIGNED, SOME, U8_ARRAY};

/// As many fields as are named.
const NAMED_MAX: usize = 6;

/// The item at the front of the bytes.
pub(crate) fn describe(bytes: &[u8]) -> String {
    let mut reader = Reader::new(bytes);
    let Ok(item) = reader.item() else { return "nothing readable".into() };
    match item {
        Item::Unsigned(_) | Item::Negative(_) | Item::Tag(BIG_UNSIGNED | BIG_NEGATIVE) => "a whole number".into(),
        Item::Single(_) | Item::Double(_) => "a number".into(),
        Item::Bytes(_) | Item::Tag(U8_ARRAY) => "bytes".into(),
        Item::Text(_) => "a text".into(),
        Item::Array(Some(count)) => format!("a list of {count}"),
        Item::Array(None) => "a list".into(),
        Item::Map(count) => record(&mut reader, count),
        Item::Tag(SOME) => "an option in an option".into(),
        Item::Tag(_) => "nothing readable".into(),
        Item::Bool(_) => "a truth value".into(),
        Item::Null => "nothing (a unit, or None)".into(),
    }
}

/// A map, by the first of its keys if they are texts.
fn record(reader: &mut Reader<'_>, count: Option<u64>) -> String {
    let mut keys = Vec::new();
    let count = count.map_or(NAMED_MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
    while keys.len() < count.min(NAMED_MAX)
        && let Ok(key) = reader.text()
    {
        keys.push(key);
        if reader.skip().is_err() {
            break;
        }
    }
    if keys.is_empty() {
        return "a map".into();
    }
    let more = if keys.len() < count { ", ..." } else { "" };
    format!("a struct or map with {}{more}", keys.join(", "))
}
