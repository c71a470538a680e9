//! The fields of answers: validators by content, ranges, types, and how long browsers may keep them.

use crate::http::page::{Chosen, Coding, Page};
use crate::http::refusal::Refusal;
use crate::http::rules::SiteFields;
use http::header::{
    ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, IF_RANGE, LOCATION, RETRY_AFTER, SET_COOKIE, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use responses::RangeRequest;
use std::ops::Range;

/// Every use is validated, which costs no content where it has not changed: a page belongs to one revision.
const NO_CACHE: HeaderValue = HeaderValue::from_static("private, no-cache");

/// For answers that may be wrong soon.
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The fields of an answer, or a few more.
const FIELDS_USUAL: usize = 12;

/// The head of an answer, and the bytes of the file that follow.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) head: Response<()>,
    pub(crate) range: Range<u64>,
}

impl Reply {
    /// The answer with a version of a page, by the conditions and the range of a request. The site adds its fields.
    pub(crate) fn page(request: &Parts, page: &Page, version: Chosen<'_>, site: &SiteFields) -> Result<Self, Refusal> {
        // Ranges are of GET alone (RFC 9110, section 14.2).
        let (request, has_ranges) = (&request.headers, request.method == Method::GET);
        let (version, coding) = version;
        let (tag, size) = (&version.tag, version.size);
        let mut head = Response::new(());
        let fields = head.headers_mut();
        fields.reserve(FIELDS_USUAL);
        fields.insert(ETAG, tag.clone());
        fields.insert(CACHE_CONTROL, NO_CACHE);
        fields.insert(VARY, vary(page));
        if request.get_all(IF_NONE_MATCH).iter().any(|line| has_tag(line, tag)) {
            site.add_to(fields);
            *head.status_mut() = StatusCode::NOT_MODIFIED;
            return Ok(Self { head, range: 0..0 });
        }
        fields.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        describe(fields, page, coding);
        site.add_to(fields);
        let is_same = request.get(IF_RANGE).is_none_or(|condition| condition == tag);
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

    /// The answer with a version of the page that a site has for missing files. It is whole, and not to be kept: there
    /// may be a file at the path soon.
    pub(crate) fn missing(page: &Page, (version, coding): Chosen<'_>, site: &SiteFields) -> Self {
        let mut head = Response::new(());
        *head.status_mut() = StatusCode::NOT_FOUND;
        let fields = head.headers_mut();
        describe(fields, page, coding);
        site.add_to_error(fields);
        fields.insert(CACHE_CONTROL, NO_STORE);
        fields.insert(VARY, vary(page));
        fields.insert(CONTENT_LENGTH, version.size.into());
        Self { head, range: 0..version.size }
    }

    /// A redirect.
    pub(crate) fn redirect(status: StatusCode, location: HeaderValue) -> Self {
        let mut head = Response::new(());
        *head.status_mut() = status;
        // A revision without the redirect may come, also by a rollback.
        head.headers_mut().insert(LOCATION, location);
        head.headers_mut().insert(CACHE_CONTROL, NO_CACHE);
        head.headers_mut().insert(VARY, HeaderValue::from_static("Cookie"));
        head.headers_mut().insert(CONTENT_LENGTH, 0.into());
        Self { head, range: 0..0 }
    }

    /// The answer that leads to a directory with its slash.
    pub(crate) fn slash(path: &str, query: Option<&str>) -> Result<Self, Refusal> {
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        // Two slashes would begin another host, and browsers read a backslash as a slash.
        let path = path.trim_start_matches('/').replace('\\', "%5C");
        let location = format!("/{path}/{query}");
        let location = HeaderValue::try_from(location).map_err(|_| Refusal::Path)?;
        Ok(Self::redirect(StatusCode::MOVED_PERMANENTLY, location))
    }

    /// Adds the cookie that moves a visitor's session. No cache may keep such an answer: it would move others.
    pub(crate) fn move_session(&mut self, cookie: HeaderValue) {
        let is_kept = |fields: &HeaderMap| fields.get(CACHE_CONTROL).is_none_or(|kept| kept != NO_STORE);
        let fields = self.head.headers_mut();
        if is_kept(fields) {
            fields.insert(CACHE_CONTROL, NO_CACHE);
        }
        fields.insert(SET_COOKIE, cookie);
    }

    /// The head of a refusal.
    pub(crate) fn refused(refusal: &Refusal) -> Response<()> {
        let mut head = Response::new(());
        *head.status_mut() = refusal.status();
        let fields = head.headers_mut();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        fields.insert(CONTENT_LENGTH, refusal.text().len().into());
        fields.insert(CACHE_CONTROL, NO_STORE);
        match refusal {
            Refusal::Method => drop(fields.insert(ALLOW, HeaderValue::from_static("GET, HEAD"))),
            Refusal::Behind | Refusal::Stale | Refusal::Empty | Refusal::NotFetched(_) => {
                drop(fields.insert(RETRY_AFTER, 1.into()));
            }
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

/// The fields that describe a content.
fn describe(fields: &mut HeaderMap, page: &Page, coding: Option<Coding>) {
    fields.insert(CONTENT_TYPE, page.content_type.clone());
    fields.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(coding) = coding {
        fields.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name));
    }
}

fn vary(page: &Page) -> HeaderValue {
    HeaderValue::from_static(if page.has_variants() { "Cookie, Accept-Encoding" } else { "Cookie" })
}

/// Whether `If-None-Match` has a tag; the comparison is weak (RFC 9110, section 13.1.2).
fn has_tag(line: &HeaderValue, tag: &HeaderValue) -> bool {
    let (Ok(line), Ok(tag)) = (line.to_str(), tag.to_str()) else { return false };
    line.split(',').map(str::trim).any(|given| given == "*" || given.strip_prefix("W/").unwrap_or(given) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::page::tag;
    use tree::{Content, Kind};

    fn page() -> Page {
        Page::plain("a.css", &Kind::File { size: 10, content: Content::Inline("0123456789".into()), link: 0 }).unwrap()
    }

    fn reply(fields: &[(&'static str, &str)]) -> Result<(u16, Range<u64>), Refusal> {
        let mut request = http::Request::new(());
        for (name, value) in fields {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let (page, request) = (page(), request.into_parts().0);
        Reply::page(&request, &page, page.preferred(&request.headers), &SiteFields::default())
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
}
