//! Validation: asking the origin whether a stored response is still good, and freshening it with the answer (RFC 9111,
//! section 4.3).

use crate::answer::same_weakly;
use crate::dependencies::Dependencies;
use crate::hop::HopByHop;
use crate::policy::Policy;
use crate::request::Request;
use crate::response::Response;
use crate::reuse::Validity;
use crate::storable::{NotStored, store};
use crate::stored::Stored;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

/// Turns the request to the origin into one that validates the stored response. The client's own conditions and range
/// are removed, and answered from the result. `false` if there is no validator; the request is then for the whole.
///
/// A response that was invalidated is validated by strong validators alone. By a weak one the origin might confirm it
/// though it lacks the update: a content that changed twice within a second has one `Last-Modified`.
pub fn conditional(stored: &Stored, validity: Validity, request: &mut HeaderMap) -> bool {
    unconditional(request);
    let is_current = validity == Validity::Current;
    let tag = if is_current { stored.etag() } else { stored.strong_etag() };
    let date = stored.fields().get("last-modified").filter(|_| is_current || stored.last_modified_is_strong());
    let mut set = |name: HeaderName, value: Option<&[u8]>| {
        let value = value.and_then(|value| HeaderValue::from_bytes(value).ok());
        value.map(|value| request.insert(name, value)).is_some()
    };
    let by_tag = set(header::IF_NONE_MATCH, tag);
    let by_date = set(header::IF_MODIFIED_SINCE, date);
    by_tag || by_date
}

/// Turns the request to the origin into one for the whole, so that its response can be stored. The client's conditions
/// and range are answered from that.
pub fn unconditional(request: &mut HeaderMap) {
    for name in [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE, header::IF_RANGE, header::RANGE] {
        request.remove(name);
    }
}

/// A stored response that a 304 has confirmed.
#[derive(Clone, Debug)]
pub struct Freshened {
    /// It with the fields of the 304, to be stored.
    pub stored: Stored,
    /// The same for the request that was validating it alone: with the cookies that the 304 sets.
    pub answer: Stored,
    /// Its dependencies, as the 304 names them. None if they are refused.
    pub dependencies: Dependencies,
    /// Why it must not stay stored, if it must not.
    pub not_stored: Option<NotStored>,
}

/// Freshens a stored response with the 304 that validates it. `None` if the 304 is about another response, by its
/// entity tag (section 4.3.4), or does not name the dependencies of one that had some: the origin then has to be asked
/// for the whole.
pub fn freshen(
    policy: &Policy,
    request: &Request<'_>,
    stored: &Stored,
    not_modified: &Response<'_>,
) -> Option<Freshened> {
    if !is_about(stored, not_modified.headers) || hides_dependencies(policy, stored, not_modified.headers) {
        return None;
    }
    // The stored response is one to a GET, also when it is a HEAD that validates it.
    let request = &Request { method: &Method::GET, ..request.clone() };
    let headers = merge(stored, not_modified.headers);
    let merged = Response { status: stored.status(), headers: &headers, ..*not_modified };
    let dependencies = Dependencies::read(policy, &headers).map_err(|_| NotStored::Dependencies);
    let fresh = dependencies.as_ref().map_err(|refusal| *refusal);
    let fresh = fresh.and_then(|dependencies| store(policy, request, &merged, dependencies));
    let (fresh, not_stored) = match fresh {
        Ok(fresh) => (fresh, None),
        Err(reason) => (stored.with_fields_of(policy, &merged), Some(reason)),
    };
    let answer = with_cookies(&fresh, policy, not_modified);
    Some(Freshened { stored: fresh, answer, dependencies: dependencies.unwrap_or_default(), not_stored })
}

/// A response with the cookies that a 304 sets: they are for the client that the 304 came for.
fn with_cookies(stored: &Stored, policy: &Policy, not_modified: &Response<'_>) -> Stored {
    let cookies = not_modified.headers.get_all(header::SET_COOKIE);
    if cookies.iter().next().is_none() {
        return stored.clone();
    }
    let mut headers = stored.fields().to_map();
    headers.remove(header::SET_COOKIE);
    for cookie in cookies {
        headers.append(header::SET_COOKIE, cookie.clone());
    }
    stored.with_fields_of(policy, &Response { status: stored.status(), headers: &headers, ..*not_modified })
}

/// Freshens a stored response with the response to a HEAD that selects it (section 4.3.5). `None` if the two may be of
/// different contents: the stored response has to be validated before its next use.
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
    // Fields that neither has are no evidence.
    let is_proved = stored.strong_etag().is_some() || stored.last_modified_is_strong();
    if !same_response || !is_proved {
        return None;
    }
    freshen(policy, request, stored, response)
}

/// Whether a 304 confirms this response: it names its entity tag, or none.
fn is_about(stored: &Stored, not_modified: &HeaderMap) -> bool {
    let Some(tag) = not_modified.get(header::ETAG) else { return true };
    stored.etag().is_none_or(|own| same_weakly(own, tag.as_bytes()))
}

/// Whether a field that has named dependencies names none in a 304: it is absent, empty, or withheld by `Connection`.
/// The same content may come from other rows than before, and middleware for conditional requests may drop or empty
/// the field. With the earlier dependencies the response would be stale when one of the others changes; without any,
/// when one of those changes.
fn hides_dependencies(policy: &Policy, stored: &Stored, not_modified: &HeaderMap) -> bool {
    let (before, hop_by_hop) = (stored.fields().to_map(), HopByHop::of(not_modified));
    policy.dependency_fields.iter().any(|field| {
        let is_named = !hop_by_hop.contains(&field.name) && Dependencies::has_some(policy, field, not_modified);
        Dependencies::has_some(policy, field, &before) && !is_named
    })
}

/// The stored fields, with those of the 304 instead of their namesakes (section 3.2).
fn merge(stored: &Stored, not_modified: &HeaderMap) -> HeaderMap {
    let mut merged = stored.fields().to_map();
    let hop_by_hop = HopByHop::of(not_modified);
    for name in not_modified.keys().filter(|name| !hop_by_hop.contains(name) && !stays(name)) {
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

/// Whether a 304 leaves a stored field as it is: those that describe the content, which a 304 has none of, and cookies,
/// which are for one client.
fn stays(name: &HeaderName) -> bool {
    const STAYING: [&str; 6] =
        ["content-encoding", "content-length", "content-md5", "content-range", "etag", "set-cookie"];
    STAYING.contains(&name.as_str())
}
