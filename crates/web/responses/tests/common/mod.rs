//! Requests and responses as text, and decisions as text.

#![allow(dead_code, reason = "each test file uses a part of this")]

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use responses::{Dependencies, KeyRef, NotStored, Policy, Request, Response, Reuse, Stored, Time, Validity};

/// The moment of all tests: Sun, 06 Nov 1994 08:49:37 GMT.
pub(crate) const NOW: Time = Time::from_unix_s(784_111_777);

/// Fields, a line each: `name: value`.
pub(crate) fn fields(lines: &str) -> HeaderMap {
    let mut map = HeaderMap::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no colon in {line:?}"));
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        map.append(name, HeaderValue::from_bytes(value.trim().as_bytes()).unwrap());
    }
    map
}

/// The key of all tests.
pub(crate) fn target() -> KeyRef<'static> {
    KeyRef::new("https", "example.org", "/a/b?c=d").unwrap()
}

/// A GET with these fields.
pub(crate) fn get<'a>(policy: &Policy, headers: &'a HeaderMap) -> Request<'a> {
    Request::new(policy, &Method::GET, target(), headers)
}

/// Stores a response that came now and within its second.
pub(crate) fn store_as(
    policy: &Policy,
    method: &Method,
    request: &str,
    status: u16,
    response: &str,
) -> Result<Stored, NotStored> {
    let (request, response) = (fields(request), fields(response));
    let request = Request::new(policy, method, target(), &request);
    let status = StatusCode::from_u16(status).unwrap();
    let dependencies = Dependencies::read(policy, &response).map_err(|_| NotStored::Dependencies)?;
    let response = Response { status, headers: &response, requested: NOW, received: NOW };
    responses::store(policy, &request, &response, &dependencies)
}

/// Stores a 200 to a GET without fields.
pub(crate) fn store(response: &str) -> Result<Stored, NotStored> {
    store_as(&Policy::default(), &Method::GET, "", 200, response)
}

/// The decision on a stored response, so many seconds later.
pub(crate) fn reuse(policy: &Policy, stored: &Stored, request: &str, later_s: u64) -> String {
    let request = fields(request);
    name(responses::reuse(policy, &get(policy, &request), stored, Validity::Current, NOW.plus(later_s)))
}

/// A decision as text.
pub(crate) fn name(reuse: Reuse) -> String {
    match reuse {
        Reuse::Fresh { .. } => "fresh".to_owned(),
        Reuse::Stale { allowed, .. } => allowed.name().to_owned(),
        Reuse::Revalidate(reason) => format!("revalidate: {}", reason.name()),
    }
}
