//! The encoding of values: CBOR (RFC 8949), written and read by serde. Decision 14 says why this, and why our own.
//!
//! | of serde's model | in CBOR |
//! |---|---|
//! | integers | unsigned and negative integers, beyond 64 bits bignums (tags 2 and 3) |
//! | floats, `bool` | single, double; true, false |
//! | `char`, strings | text |
//! | bytes | a byte string |
//! | sequences, tuples | an array; four or more `u8` a typed array (tag 64, RFC 8746) |
//! | maps, structs | a map, from the names of fields |
//! | unit, unit structs, `None` | null |
//! | `Some(x)` | `x`; where that is null or of this tag itself, `x` with the tag [`SOME`] |
//! | unit variants | text |
//! | other variants | a map from the variant's name to what it holds |
//!
//! Types that have a form for people are stored in it: what serde buffers on its way to a type (`untagged`, `flatten`)
//! is always taken for that form. References alone are stored as bytes.

mod describe;
mod item;
mod read;
mod scan;
mod write;

pub(crate) use describe::describe;
pub(crate) use item::Reader;
pub(crate) use scan::byte_strings;
pub(crate) use write::Writer;

use std::fmt;

/// How deep values may be nested, so that neither end's stack overflows. Written and read by the same count.
pub(crate) const DEPTH_MAX: usize = 200;

/// The newtype that tells the writer that what is inside has a compact form which every reader takes.
pub(crate) const COMPACT: &str = "thorp::Compact";

/// The tag that parts `Some(None)` from `None`. No registry knows it: CBOR has no such tag.
pub(crate) const SOME: u64 = 0x7468_6f72;

/// The head of the tag [`SOME`].
const SOME_HEAD: [u8; 5] = [TAG << 5 | WORD, 0x74, 0x68, 0x6f, 0x72];

const BIG_UNSIGNED: u64 = 2;
const BIG_NEGATIVE: u64 = 3;
const U8_ARRAY: u64 = 64;

// Major types, the upper three bits of an item's first byte.
const UNSIGNED: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;
const SIMPLE: u8 = 7;

// The lower five bits, where they are not the argument itself: how many bytes of argument follow, or that there is
// none.
const BYTE: u8 = 24;
const HALF: u8 = 25;
const WORD: u8 = 26;
const LONG: u8 = 27;
const INDEFINITE: u8 = 31;

const FALSE: u8 = 0xf4;
const TRUE: u8 = 0xf5;
const NULL: u8 = 0xf6;
const SINGLE: u8 = SIMPLE << 5 | WORD;
const DOUBLE: u8 = SIMPLE << 5 | LONG;
const BREAK: u8 = SIMPLE << 5 | INDEFINITE;

/// Why a value cannot be written or read. It is small, because every step of reading may give one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CborError(Box<Reason>);

/// The error, without its place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The bytes are none that a writer has written.
    Malformed(&'static str),
    /// An error of a type's own code, or of serde's for it.
    Said {
        /// The fields and keys on the way to what it is about, outermost first.
        path: String,
        /// Its words.
        text: String,
    },
}

impl CborError {
    #[cold]
    pub(crate) fn malformed(what: &'static str) -> Self {
        Self(Box::new(Reason::Malformed(what)))
    }

    #[cold]
    fn said(text: impl fmt::Display) -> Self {
        Self(Box::new(Reason::Said { path: String::new(), text: text.to_string() }))
    }

    #[cold]
    fn too_deep() -> Self {
        Self::said(format_args!("it is nested more than {DEPTH_MAX} deep"))
    }

    /// The same, about what is under a key.
    #[cold]
    fn inside(mut self, key: &str) -> Self {
        if let Reason::Said { path, .. } = &mut *self.0 {
            *path = if path.is_empty() { key.to_owned() } else { format!("{key}.{path}") };
        }
        self
    }

    pub(crate) fn into_reason(self) -> Reason {
        *self.0
    }
}

impl fmt::Display for CborError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Reason::Malformed(what) => write!(f, "{what}"),
            Reason::Said { path, text } if path.is_empty() => write!(f, "{text}"),
            Reason::Said { path, text } => write!(f, "in {path}: {text}"),
        }
    }
}

impl std::error::Error for CborError {}

impl serde::ser::Error for CborError {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::said(text)
    }
}

impl serde::de::Error for CborError {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::said(text)
    }
}

type Result<T> = std::result::Result<T, CborError>;

#[cfg(test)]
mod tests;
