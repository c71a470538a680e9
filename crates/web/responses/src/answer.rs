//! The answer that a stored response gives to a request: the whole, a range, or 304 for a client that has it already
//! (RFC 9111, section 4.3.2).
//!
//! There is no 412: `If-Match` and `If-Unmodified-Since` are for the origin, and a request that has them is passed on.

use crate::date::Time;
use crate::directives::list_members;
use crate::range::Slice;
use crate::request::Request;
use crate::stored::Stored;
use http::{HeaderMap, HeaderValue, StatusCode, header};

/// The part of a stored response that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// All of it; its head alone for a HEAD.
    Whole,
    /// 304: the client has it.
    NotModified,
    /// 206: these bytes.
    Partial(Slice),
    /// 416: it has no such bytes.
    NotSatisfiable,
}

/// Decides which part of a stored response, with a content of that size, answers the request.
pub fn answer(request: &Request<'_>, stored: &Stored, content_bytes: u64, now: Time) -> Answer {
    // Conditions and ranges are about a representation; an error or a redirect is none (RFC 9110, section 13.2.1).
    if stored.status() != StatusCode::OK {
        return Answer::Whole;
    }
    if client_has_it(request, stored, now) {
        return Answer::NotModified;
    }
    match request.range() {
        Some(range) if if_range_holds(request, stored) => {
            range.of(content_bytes).map_or(Answer::NotSatisfiable, Answer::Partial)
        }
        _ => Answer::Whole,
    }
}

impl Answer {
    /// The status of the answer.
    pub fn status(self, stored: &Stored) -> StatusCode {
        match self {
            Self::Whole => stored.status(),
            Self::NotModified => StatusCode::NOT_MODIFIED,
            Self::Partial(_) => StatusCode::PARTIAL_CONTENT,
            Self::NotSatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
        }
    }

    /// The fields of the answer, with `Age`.
    pub fn fields(self, stored: &Stored, content_bytes: u64, age_s: u64) -> HeaderMap {
        let mut fields = match self {
            Self::Whole | Self::Partial(_) => stored.fields().to_map(),
            Self::NotModified => not_modified(stored),
            Self::NotSatisfiable => HeaderMap::new(),
        };
        match self {
            Self::Partial(Slice { start, end }) => {
                let range = format!("bytes {start}-{}/{content_bytes}", end - 1);
                fields.insert(header::CONTENT_RANGE, text(range));
                fields.insert(header::CONTENT_LENGTH, (end - start).into());
            }
            Self::NotSatisfiable => {
                fields.insert(header::CONTENT_RANGE, text(format!("bytes */{content_bytes}")));
                fields.insert(header::CONTENT_LENGTH, 0.into());
            }
            Self::Whole | Self::NotModified => {}
        }
        fields.insert(header::AGE, age_s.into());
        fields
    }
}

/// The fields of a 304 (RFC 9110, section 15.4.5): those that may have been updated since the client got the response.
fn not_modified(stored: &Stored) -> HeaderMap {
    let mut fields = stored.fields().to_map();
    for name in [header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::CONTENT_TYPE, header::CONTENT_RANGE] {
        fields.remove(name);
    }
    fields
}

/// Whether a condition of the request says that the client has this response. `If-Modified-Since` counts only where
/// there is no `If-None-Match`.
fn client_has_it(request: &Request<'_>, stored: &Stored, now: Time) -> bool {
    let mut tags = request.headers.get_all(header::IF_NONE_MATCH).iter().peekable();
    if tags.peek().is_some() {
        let mut tags = tags.flat_map(|line| list_members(line.as_bytes()));
        return tags.any(|tag| tag == b"*" || stored.etag().is_some_and(|own| same_weakly(tag, own)));
    }
    let since = request.headers.get(header::IF_MODIFIED_SINCE);
    let since = since.and_then(|since| Time::parse(since.as_bytes(), now));
    // A date is evidence only if nothing can have changed later within its second.
    since.is_some_and(|since| match stored.last_modified() {
        Some(changed) => changed <= since && stored.last_modified_is_strong(),
        None => stored.date() < since,
    })
}

/// Weak comparison: the tags are the same but for their weakness (RFC 9110, section 8.8.3.2).
pub(crate) fn same_weakly(a: &[u8], b: &[u8]) -> bool {
    opaque(a) == opaque(b)
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Whether `If-Range` lets the range count: the stored response is the one of which the client has a part.
fn if_range_holds(request: &Request<'_>, stored: &Stored) -> bool {
    let Some(condition) = request.headers.get(header::IF_RANGE) else { return true };
    let condition = condition.as_bytes();
    if condition.starts_with(b"\"") {
        return stored.etag() == Some(condition);
    }
    // A date is compared as it is written, and has to be a strong validator; a tag that begins with `W/` never is one.
    let date = stored.fields().get("last-modified");
    date == Some(condition) && stored.last_modified_is_strong()
}

fn text(value: String) -> HeaderValue {
    HeaderValue::try_from(value).expect("digits and punctuation")
}
