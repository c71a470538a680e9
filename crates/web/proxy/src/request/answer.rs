//! Answers: from a stored response, from the origin's, from the proxy itself.

use crate::fill::along::Along;
use crate::request::body::Body;
use crate::request::forward::{add_via, keep_trailers};
use crate::request::prepared::{CACHE_STATUS, fields_of};
use crate::shared::Shared;
use crate::stored::entry::Entry;
use http::header::{ALLOW, CONTENT_LENGTH, VIA};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use responses::{Answer, CacheStatus, ForwardReason, Request, Stored, Time, answer, forward_response};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The status of a hit, for `Cache-Status`.
pub(crate) fn hit_status(ttl_s: i64) -> CacheStatus {
    CacheStatus { hit: true, ttl_s: Some(ttl_s), ..CacheStatus::default() }
}

/// Whether a stored response has answered without the origin, by the proxy's own member of `Cache-Status`: the last
/// one.
pub(crate) fn is_hit(fields: &HeaderMap) -> bool {
    let own = fields.get_all(CACHE_STATUS).iter().next_back();
    own.is_some_and(|own| own.as_bytes().windows(5).any(|part| part == b"; hit"))
}

/// The status of an answer that shares the response to another request, which is not stored for the reason of that
/// name.
pub(crate) fn not_stored_status(forward: ForwardReason, why: &'static str, ttl_s: i64) -> CacheStatus {
    CacheStatus { forward: Some(forward), ttl_s: Some(ttl_s), detail: Some(why), ..CacheStatus::default() }
}

/// The answer that a stored response gives without the origin.
pub(crate) fn hit(
    shared: &Shared,
    asked: &Request<'_>,
    entry: &Arc<Entry>,
    now: Time,
    age_s: u64,
    status: &CacheStatus,
) -> Response<Body> {
    shared.counters.hits.fetch_add(1, Relaxed);
    stored(shared, asked, entry, now, age_s, status)
}

/// The answer that a stored response gives.
pub(crate) fn stored(
    shared: &Shared,
    asked: &Request<'_>,
    entry: &Arc<Entry>,
    now: Time,
    age_s: u64,
    status: &CacheStatus,
) -> Response<Body> {
    let bytes = entry.content_bytes();
    let how = answer(asked, &entry.stored, bytes, now);
    let mut response = Response::new(match how {
        _ if asked.method == Method::HEAD => Body::Empty,
        Answer::Whole => Body::stored(&entry.content()),
        Answer::Partial(slice) => Body::part(&entry.content(), slice),
        Answer::NotModified | Answer::NotSatisfiable => Body::Empty,
    });
    *response.status_mut() = how.status(&entry.stored);
    let fields = response.headers_mut();
    if how == Answer::Whole {
        *fields = fields_of(entry, shared, age_s, status);
    } else {
        *fields = how.fields(&entry.stored, bytes, age_s);
        shared.for_clients(fields);
        fields.append(VIA, shared.via.clone());
        fields.append(CACHE_STATUS, status.to_header(&shared.config.policy));
    }
    response
}

/// The answer that a response gives while its body is arriving; none if that would be a part of it.
pub(crate) fn along(
    shared: &Shared,
    asked: &Request<'_>,
    along: &Along,
    now: Time,
    age_s: u64,
    status: &CacheStatus,
) -> Option<Response<Body>> {
    let bytes = along.body.bytes()?;
    let how = answer(asked, &along.stored, bytes, now);
    let mut response = Response::new(match how {
        Answer::Whole => Body::Collected(Box::new(along.body.read(bytes))),
        Answer::NotModified => Body::Empty,
        Answer::Partial(_) | Answer::NotSatisfiable => return None,
    });
    *response.status_mut() = how.status(&along.stored);
    let fields = response.headers_mut();
    *fields = how.fields(&along.stored, bytes, age_s);
    shared.for_clients(fields);
    // A field of length with a status that never has content is malformed (RFC 9110, section 8.6).
    if how == Answer::Whole && along.stored.status() != StatusCode::NO_CONTENT {
        fields.insert(CONTENT_LENGTH, bytes.into());
    }
    fields.append(VIA, shared.via.clone());
    fields.append(CACHE_STATUS, status.to_header(&shared.config.policy));
    if status.hit {
        shared.counters.hits.fetch_add(1, Relaxed);
    }
    Some(response)
}

/// The answer to a client that has the response already, which has just come.
pub(crate) fn not_modified(shared: &Shared, stored: &Stored, age_s: u64, status: &CacheStatus) -> Response<Body> {
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    let fields = response.headers_mut();
    *fields = Answer::NotModified.fields(stored, 0, age_s);
    shared.for_clients(fields);
    fields.append(VIA, shared.via.clone());
    fields.append(CACHE_STATUS, status.to_header(&shared.config.policy));
    response
}

/// A response of the origin to a request of this method, as it is passed on.
pub(crate) fn passed(
    shared: &Shared,
    method: &Method,
    response: Response<Body>,
    status: &CacheStatus,
) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    let mut fields = forward_response(&head.headers);
    if matches!(*method, Method::GET | Method::HEAD) && head.status != StatusCode::SWITCHING_PROTOCOLS {
        shared.for_clients(&mut fields);
    }
    keep_trailers(&head.headers, &mut fields);
    add_via(&mut fields, head.version, &shared.config.name);
    fields.append(CACHE_STATUS, status.to_header(&shared.config.policy));
    head.headers = fields;
    // The version is that of the client's connection, which sets its own.
    head.version = http::Version::HTTP_11;
    head.extensions.clear();
    Response::from_parts(head, body)
}

/// The proxy's own answer to `OPTIONS`, for a request that should go no further.
pub(crate) fn options() -> Response<Body> {
    let mut response = Response::new(Body::Empty);
    let methods = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    response.headers_mut().insert(ALLOW, methods);
    response
}
