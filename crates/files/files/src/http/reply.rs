//! The fields of answers: validators by content, ranges, types, and how long browsers may keep them.

use crate::http::refusal::Refusal;
use http::header::{
    ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH, IF_RANGE,
    LOCATION, RETRY_AFTER, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use responses::RangeRequest;
use std::ops::Range;
use tree::{ChunkHash, Content};

/// Every use is validated, which costs no content where it has not changed: a page belongs to one revision.
const NO_CACHE: HeaderValue = HeaderValue::from_static("private, no-cache");

/// The fields of an answer, or a few more.
const FIELDS_USUAL: usize = 12;

/// The head of an answer, and the bytes of the file that follow.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) head: Response<()>,
    pub(crate) range: Range<u64>,
}

impl Reply {
    /// The answer with a file, by the conditions and the range of a request.
    pub(crate) fn file(request: &Parts, name: &str, size: u64, content: &Content) -> Result<Self, Refusal> {
        // Ranges are of GET alone (RFC 9110, section 14.2).
        let (request, has_ranges) = (&request.headers, request.method == Method::GET);
        let tag = tag(content);
        let mut head = Response::new(());
        let fields = head.headers_mut();
        fields.reserve(FIELDS_USUAL);
        fields.insert(ETAG, tag.clone());
        fields.insert(CACHE_CONTROL, NO_CACHE);
        fields.insert(VARY, HeaderValue::from_static("Cookie"));
        if request.get_all(IF_NONE_MATCH).iter().any(|line| has_tag(line, &tag)) {
            *head.status_mut() = StatusCode::NOT_MODIFIED;
            return Ok(Self { head, range: 0..0 });
        }
        fields.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        fields.insert(CONTENT_TYPE, content_type(name));
        fields.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        let is_same = request.get(IF_RANGE).is_none_or(|condition| *condition == tag);
        let range = match RangeRequest::read(request).filter(|_| is_same && has_ranges) {
            Some(range) => {
                let slice = range.of(size).ok_or(Refusal::Range(size))?;
                let text = format!("bytes {}-{}/{size}", slice.start, slice.end - 1);
                fields.insert(CONTENT_RANGE, HeaderValue::try_from(text).map_err(|_| Refusal::Range(size))?);
                *head.status_mut() = StatusCode::PARTIAL_CONTENT;
                slice.start..slice.end
            }
            None => 0..size,
        };
        head.headers_mut().insert(CONTENT_LENGTH, (range.end - range.start).into());
        Ok(Self { head, range })
    }

    /// The answer that leads to a directory with its slash.
    pub(crate) fn slash(path: &str, query: Option<&str>) -> Result<Self, Refusal> {
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        // Two slashes would begin another host, and browsers read a backslash as a slash.
        let path = path.trim_start_matches('/').replace('\\', "%5C");
        let location = format!("/{path}/{query}");
        let mut head = Response::new(());
        *head.status_mut() = StatusCode::MOVED_PERMANENTLY;
        head.headers_mut().insert(LOCATION, HeaderValue::try_from(location).map_err(|_| Refusal::Path)?);
        head.headers_mut().insert(CACHE_CONTROL, NO_CACHE);
        head.headers_mut().insert(CONTENT_LENGTH, 0.into());
        Ok(Self { head, range: 0..0 })
    }

    /// The head of a refusal.
    pub(crate) fn refused(refusal: &Refusal) -> Response<()> {
        let mut head = Response::new(());
        *head.status_mut() = refusal.status();
        let fields = head.headers_mut();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        fields.insert(CONTENT_LENGTH, refusal.text().len().into());
        fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        match refusal {
            Refusal::Method => drop(fields.insert(ALLOW, HeaderValue::from_static("GET, HEAD"))),
            Refusal::Behind | Refusal::Stale | Refusal::Empty => drop(fields.insert(RETRY_AFTER, 1.into())),
            Refusal::Range(size) => {
                if let Ok(range) = HeaderValue::try_from(format!("bytes */{size}")) {
                    fields.insert(CONTENT_RANGE, range);
                }
            }
            _ => {}
        }
        head
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The validator of a content: its hash.
fn tag(content: &Content) -> HeaderValue {
    let hash = match content {
        Content::Inline(bytes) => ChunkHash::of(bytes),
        Content::Pieces(pieces) if pieces.len() == 1 => pieces[0].hash,
        Content::Pieces(pieces) => of_all(pieces.iter().map(|piece| &piece.hash)),
        Content::Lists(lists) => of_all(lists.iter()),
    };
    let mut text = [b'"'; 2 * ChunkHash::BYTES + 2];
    for (digits, byte) in text[1..].chunks_exact_mut(2).zip(hash.as_bytes()) {
        digits.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    HeaderValue::from_bytes(&text).expect("a hash is hexadecimal digits")
}

fn of_all<'a>(hashes: impl Iterator<Item = &'a ChunkHash>) -> ChunkHash {
    let bytes: Vec<u8> = hashes.flat_map(|hash| *hash.as_bytes()).collect();
    ChunkHash::of(&bytes)
}

/// Whether `If-None-Match` has a tag; the comparison is weak (RFC 9110, section 13.1.2).
fn has_tag(line: &HeaderValue, tag: &HeaderValue) -> bool {
    let (Ok(line), Ok(tag)) = (line.to_str(), tag.to_str()) else { return false };
    line.split(',').map(str::trim).any(|given| given == "*" || given.strip_prefix("W/").unwrap_or(given) == tag)
}

fn content_type(name: &str) -> HeaderValue {
    let guessed = mime_guess::from_path(name).first_raw().unwrap_or("application/octet-stream");
    match guessed {
        "text/html" => HeaderValue::from_static("text/html; charset=utf-8"),
        "text/css" => HeaderValue::from_static("text/css; charset=utf-8"),
        "text/javascript" => HeaderValue::from_static("text/javascript; charset=utf-8"),
        "application/json" => HeaderValue::from_static("application/json; charset=utf-8"),
        text if text.starts_with("text/") || text == "application/javascript" => {
            HeaderValue::try_from(format!("{text}; charset=utf-8")).unwrap_or(HeaderValue::from_static("text/plain"))
        }
        other => HeaderValue::from_static(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(fields: &[(&'static str, &str)]) -> Result<(u16, Range<u64>), Refusal> {
        let mut request = http::Request::new(());
        for (name, value) in fields {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let content = Content::Inline("0123456789".into());
        Reply::file(&request.into_parts().0, "a.css", 10, &content)
            .map(|reply| (reply.head.status().as_u16(), reply.range))
    }

    #[test]
    fn conditions_and_ranges_are_those_of_rfc_9110() {
        let tag = tag(&Content::Inline("0123456789".into()));
        let tag = tag.to_str().unwrap();
        let (weak, list) = (format!("W/{tag}"), format!("\"x\", {tag}"));
        assert_eq!(reply(&[]).unwrap(), (200, 0..10));
        for known in [tag, &weak, &list, "*"] {
            assert_eq!(reply(&[("if-none-match", known), ("range", "bytes=1-2")]).unwrap(), (304, 0..0));
        }
        assert_eq!(reply(&[("if-none-match", "\"x\"")]).unwrap(), (200, 0..10));
        for (range, expected) in [("0-0", 0..1), ("3-", 3..10), ("-2", 8..10), ("5-100", 5..10)] {
            assert_eq!(reply(&[("range", &format!("bytes={range}"))]).unwrap(), (206, expected), "{range}");
        }
        assert_eq!(reply(&[("range", "bytes=0-1,3-4")]).unwrap(), (200, 0..10), "several are the whole");
        assert_eq!(reply(&[("range", "lines=0-1")]).unwrap(), (200, 0..10));
        assert!(matches!(reply(&[("range", "bytes=10-")]), Err(Refusal::Range(10))));
        assert_eq!(reply(&[("range", "bytes=1-2"), ("if-range", tag)]).unwrap(), (206, 1..3));
        assert_eq!(reply(&[("range", "bytes=1-2"), ("if-range", "\"x\"")]).unwrap(), (200, 0..10));
    }

    #[test]
    fn a_directory_is_never_another_host() {
        for path in ["/a", "//evil.example", "///evil.example", "/\\evil.example"] {
            let reply = Reply::slash(path, Some("q=1")).unwrap();
            let location = reply.head.headers()[LOCATION].to_str().unwrap();
            assert!(
                location.starts_with('/')
                    && !location.starts_with("//")
                    && !location.contains('\\')
                    && location.ends_with("/?q=1")
            );
        }
    }

    #[test]
    fn types_are_those_of_names() {
        assert_eq!(content_type("a.html"), "text/html; charset=utf-8");
        assert_eq!(content_type("a.js"), "text/javascript; charset=utf-8");
        assert_eq!(content_type("a.png"), "image/png");
        assert_eq!(content_type("a"), "application/octet-stream");
    }
}
