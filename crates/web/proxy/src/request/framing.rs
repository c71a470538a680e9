//! The framing of messages: each side has its own, made from the body as it was understood, and none is passed on.
//!
//! hyper refuses most of what HTTP/1.1 leaves open. Here is the rest: what it leaves to its user, and HTTP/2, where a
//! length is a field like any other.

use crate::request::refusal::Refusal;
use crate::request::upload::Upload;
use http::header::{CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Version};
use http_body::Body as _;

/// Checks the framing that a client's request states. hyper has merged equal lengths on HTTP/1.1, and removed those
/// beside a transfer coding.
pub(crate) fn check_request(fields: &HeaderMap) -> Result<(), Refusal> {
    if !is_chunked_at_most(fields) {
        return Err(Refusal::TransferCoding);
    }
    let mut lengths = fields.get_all(CONTENT_LENGTH).iter();
    let is_one = lengths.next().is_none_or(|length| length_of(length).is_some()) && lengths.next().is_none();
    if is_one { Ok(()) } else { Err(Refusal::AmbiguousLength) }
}

/// Sets the framing of a request to the origin. Its body is announced by its own length, or sent in chunks.
pub(crate) fn frame_request(fields: &mut HeaderMap, method: &Method, upload: &Upload, version: Version) {
    // The proxy has answered an expectation of the client itself.
    for name in [CONTENT_LENGTH, TRANSFER_ENCODING, EXPECT] {
        fields.remove(name);
    }
    let is_with_content = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
    match upload.size_hint().exact() {
        // hyper announces none where there is no body.
        Some(0) if upload.is_end_stream() && is_with_content => {
            fields.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        // hyper would send a GET without it.
        None if version == Version::HTTP_11 => {
            fields.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        Some(_) | None => {}
    }
}

/// The codings that a recipient has to undo (RFC 9112, section 7): without its name, nobody could read what has one.
const UNDONE: [&str; 6] = ["chunked", "compress", "x-compress", "deflate", "gzip", "x-gzip"];

/// Checks the framing of an origin's response, and leaves at most one length, which is that of its body.
pub(crate) fn check_response(fields: &mut HeaderMap) -> Result<(), Refusal> {
    // A proxy that has not asked for a coding gets none, and could not pass it on. Old servers say `identity`; such a
    // body lasts until the connection ends (RFC 9112, section 6.3).
    if !is_chunked_at_most(fields) && codings(fields).any(is_undone) {
        return Err(Refusal::OriginProtocol);
    }
    // The coding is what the body was read by (RFC 9112, section 6.3).
    if fields.contains_key(TRANSFER_ENCODING) {
        fields.remove(CONTENT_LENGTH);
    }
    let mut lengths =
        fields.get_all(CONTENT_LENGTH).iter().flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    let Some(first) = lengths.next().map(<[u8]>::trim_ascii) else { return Ok(()) };
    let length = parse_length(first).filter(|_| lengths.all(|length| length.trim_ascii() == first));
    let length = length.ok_or(Refusal::OriginProtocol)?;
    fields.insert(CONTENT_LENGTH, length.into());
    Ok(())
}

fn codings(fields: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lists = fields.get_all(TRANSFER_ENCODING).iter();
    lists.flat_map(|list| list.as_bytes().split(|&byte| byte == b',')).map(<[u8]>::trim_ascii)
}

/// Whether a coding, which may have parameters, is one that has to be undone.
fn is_undone(coding: &[u8]) -> bool {
    let name = coding.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    UNDONE.iter().any(|undone| name.eq_ignore_ascii_case(undone.as_bytes()))
}

fn is_chunked_at_most(fields: &HeaderMap) -> bool {
    let mut codings = fields.get_all(TRANSFER_ENCODING).iter();
    codings.next().is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked")) && codings.next().is_none()
}

fn length_of(value: &HeaderValue) -> Option<u64> {
    parse_length(value.as_bytes())
}

fn parse_length(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    fn fields(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn a_request_has_one_length_and_one_coding() {
        let check = |said: &[(HeaderName, &'static str)]| check_request(&fields(said));
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[(CONTENT_LENGTH, "5")]), Ok(()));
        assert_eq!(check(&[(TRANSFER_ENCODING, "Chunked")]), Ok(()));
        for lengths in [&["5", "5"][..], &["5", "6"], &["5, 5"], &["+5"], &[""], &["99999999999999999999"]] {
            let said: Vec<_> = lengths.iter().map(|length| (CONTENT_LENGTH, *length)).collect();
            assert_eq!(check(&said), Err(Refusal::AmbiguousLength), "{lengths:?}");
        }
        for codings in [&["gzip, chunked"][..], &["gzip", "chunked"], &["chunked", "chunked"]] {
            let said: Vec<_> = codings.iter().map(|coding| (TRANSFER_ENCODING, *coding)).collect();
            assert_eq!(check(&said), Err(Refusal::TransferCoding), "{codings:?}");
        }
    }

    #[test]
    fn a_response_keeps_the_length_that_counts() {
        let left = |said: &[(HeaderName, &'static str)]| {
            let mut fields = fields(said);
            check_response(&mut fields)
                .map(|()| fields.get(CONTENT_LENGTH).map(|length| length.to_str().unwrap().to_owned()))
        };
        assert_eq!(left(&[]), Ok(None));
        assert_eq!(left(&[(CONTENT_LENGTH, "5"), (CONTENT_LENGTH, "5")]), Ok(Some("5".to_owned())));
        assert_eq!(left(&[(CONTENT_LENGTH, "5, 5")]), Ok(Some("5".to_owned())));
        assert_eq!(left(&[(CONTENT_LENGTH, "3"), (TRANSFER_ENCODING, "chunked")]), Ok(None));
        assert_eq!(left(&[(CONTENT_LENGTH, "5, 6")]), Err(Refusal::OriginProtocol));
        assert_eq!(left(&[(CONTENT_LENGTH, "x")]), Err(Refusal::OriginProtocol));
        assert_eq!(left(&[(TRANSFER_ENCODING, "gzip")]), Err(Refusal::OriginProtocol));
        for codings in ["gzip, chunked", "identity, chunked", "identity, X-GZIP;q=1"] {
            assert_eq!(left(&[(TRANSFER_ENCODING, codings)]), Err(Refusal::OriginProtocol), "{codings}");
        }
        assert_eq!(left(&[(TRANSFER_ENCODING, "identity"), (CONTENT_LENGTH, "3")]), Ok(None));
    }
}
