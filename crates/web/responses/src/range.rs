//! A request for a range of bytes (RFC 9110, section 14).
//!
//! A single range is answered from a complete stored response. A request for several gets the whole, as the RFC allows:
//! no client can make a cache send one byte a thousand times.

use http::{HeaderMap, header};

/// The single range that a request asks for, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeRequest {
    /// `first-last`.
    Between(u64, u64),
    /// `first-`.
    From(u64),
    /// `-length`: the last bytes.
    Last(u64),
}

/// Bytes of the content: from `start`, and not `end` itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The first of them.
    pub start: u64,
    /// The first behind them.
    pub end: u64,
}

impl RangeRequest {
    /// Reads `Range`. `None` if it is absent, malformed, not in bytes, or has several ranges: it is ignored then.
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let mut lines = headers.get_all(header::RANGE).iter();
        let line = lines.next().filter(|_| lines.next().is_none())?.to_str().ok()?;
        let (unit, range) = line.split_once('=')?;
        let (first, last) = range.trim().split_once('-')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        match (position(first), position(last)) {
            (Some(first), Some(last)) if first <= last => Some(Self::Between(first, last)),
            (Some(first), None) if last.is_empty() => Some(Self::From(first)),
            (None, Some(length)) if first.is_empty() => Some(Self::Last(length)),
            _ => None,
        }
    }

    /// The bytes that it takes out of a content of that size; `None` if there are none.
    pub fn of(self, size: u64) -> Option<Slice> {
        let (start, end) = match self {
            Self::Between(first, last) => (first, last.saturating_add(1).min(size)),
            Self::From(first) => (first, size),
            Self::Last(length) => (size.saturating_sub(length), size),
        };
        (start < end).then_some(Slice { start, end })
    }
}

/// The size of the whole that a 206 has a part of, by its `Content-Range`; `None` if it does not say.
pub fn complete_bytes(headers: &HeaderMap) -> Option<u64> {
    let mut lines = headers.get_all(header::CONTENT_RANGE).iter();
    let line = lines.next().filter(|_| lines.next().is_none())?.to_str().ok()?;
    let (unit, range) = line.split_once(' ')?;
    let (_, size) = range.split_once('/')?;
    if unit.eq_ignore_ascii_case("bytes") { position(size) } else { None }
}

/// Digits and nothing else.
fn position(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { Some(text.parse().unwrap_or(u64::MAX)) } else { None }
}
