//! Asking the origin whether a stored response is still good, and what its answer changes (RFC 9111, section 4.3).

use crate::answer::same_weakly;
use crate::dependencies::Dependencies;
use crate::hop::HopByHop;
use crate::policy::Policy;
use crate::request::Request;
use crate::storable::{NotStored, Response, store};
use crate::stored::Stored;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

/// Makes the request to the origin one that asks whether the stored response is still good. The client's own conditions
/// and range leave it: they are answered from what comes back. `false` if there is nothing to ask by; the request is then
/// one for the whole.
pub fn conditional(stored: &Stored, request: &mut HeaderMap) -> bool {
    unconditional(request);
    let mut copy = |from: &str, to: HeaderName| {
        let value = stored.fields().get(from).and_then(|value| HeaderValue::from_bytes(value).ok());
        value.map(|value| request.insert(to, value)).is_some()
    };
    let by_tag = copy("etag", header::IF_NONE_MATCH);
    let by_date = copy("last-modified", header::IF_MODIFIED_SINCE);
    by_tag || by_date
}

/// Makes the request to the origin one for the whole, whatever the client has already: the response can then be stored,
/// and the client's conditions and range are answered from it.
pub fn unconditional(request: &mut HeaderMap) {
    for name in [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE, header::IF_RANGE, header::RANGE] {
        request.remove(name);
    }
}

/// A stored response that a 304 has confirmed.
#[derive(Clone, Debug)]
pub struct Freshened {
    /// It, with the fields that the 304 has brought. It answers the request that asked.
    pub stored: Stored,
    /// Why it must not stay stored, if so.
    pub not_stored: Option<NotStored>,
}

/// What a 304 makes of the stored response that was asked about. `None` if it is about another one, by its entity tag
/// (section 4.3.4): then nothing is known, and the origin has to be asked for the whole.
///
/// The dependencies are those of the merged fields: a 304 that names none leaves those that are stored.
pub fn freshen(
    policy: &Policy,
    request: &Request<'_>,
    stored: &Stored,
    not_modified: &Response<'_>,
) -> Option<Freshened> {
    if !is_about(stored, not_modified.headers) {
        return None;
    }
    // A HEAD can validate, and what is stored is what a GET gets.
    let request = &Request { method: &Method::GET, ..request.clone() };
    let headers = merge(stored, not_modified.headers);
    let merged = Response { status: stored.status(), headers: &headers, ..*not_modified };
    let result = Dependencies::read(policy, &headers)
        .map_err(|_| NotStored::Dependencies)
        .and_then(|dependencies| store(policy, request, &merged, &dependencies));
    Some(match result {
        Ok(stored) => Freshened { stored, not_stored: None },
        Err(reason) => Freshened { stored: stored.with_fields_of(policy, &merged), not_stored: Some(reason) },
    })
}

/// What the answer to a HEAD makes of the stored response that it selects (section 4.3.5). `None` if it shows that the
/// stored response is no longer the resource's, or may not be: it has to be validated.
pub fn freshen_by_head(
    policy: &Policy,
    request: &Request<'_>,
    stored: &Stored,
    content_bytes: u64,
    response: &Response<'_>,
) -> Option<Freshened> {
    let own = |name: &HeaderName| stored.fields().get(name.as_str());
    let same = |name: HeaderName| response.headers.get(&name).map(HeaderValue::as_bytes) == own(&name);
    let length = response.headers.get(header::CONTENT_LENGTH);
    let same_length = length.is_none_or(|length| *length == HeaderValue::from(content_bytes));
    let same_content = same_length && same(header::ETAG) && same(header::LAST_MODIFIED);
    let same_response = response.status == stored.status() && same_content && same(header::CONTENT_ENCODING);
    if !same_response {
        return None;
    }
    freshen(policy, request, stored, response)
}

/// Whether a 304 confirms this response: it names its entity tag, or none.
fn is_about(stored: &Stored, not_modified: &HeaderMap) -> bool {
    let Some(tag) = not_modified.get(header::ETAG) else { return true };
    stored.etag().is_none_or(|own| same_weakly(own, tag.as_bytes()))
}

/// The stored fields, with those of the 304 instead of their namesakes (section 3.2).
fn merge(stored: &Stored, not_modified: &HeaderMap) -> HeaderMap {
    let mut merged = stored.fields().to_map();
    let hop_by_hop = HopByHop::of(not_modified);
    for name in not_modified.keys().filter(|name| !hop_by_hop.contains(name) && !is_of_the_content(name)) {
        merged.remove(name);
        for value in not_modified.get_all(name) {
            merged.append(name.clone(), value.clone());
        }
    }
    if !not_modified.contains_key(header::DATE) {
        merged.remove(header::DATE);
    }
    merged
}

/// Fields that say how the stored content is written; a 304 has none of it, and cannot change them.
fn is_of_the_content(name: &HeaderName) -> bool {
    ["content-encoding", "content-length", "content-md5", "content-range", "etag"].contains(&name.as_str())
}
