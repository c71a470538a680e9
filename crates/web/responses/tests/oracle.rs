//! A second opinion: the crate `http-cache-semantics` decides the same for well-formed requests and responses.
//!
//! Left out is what it decides otherwise on purpose (`Set-Cookie`, `proxy-revalidate`, `must-understand`, `max-stale`,
//! `Pragma`, variants in a normal form) or has from the RFC before (malformed and repeated directives, an `Age` in
//! doubt).

mod common;

use common::{NOW, fields, get};
use http::{Method, StatusCode};
use http_cache_semantics::{BeforeRequest, CacheOptions, CachePolicy};
use proptest::prelude::*;
use responses::{Dependencies, Policy, Response, Reuse, Validity};
use std::time::{Duration, SystemTime};

/// Some of these, each once.
fn some(words: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(words, 0..=words.len().min(3))
}

fn response() -> impl Strategy<Value = String> {
    let control = some(&["max-age=60", "s-maxage=30", "public", "private", "no-store", "no-cache", "must-revalidate"]);
    let others = some(&[
        "Expires: Sun, 06 Nov 1994 08:51:17 GMT",
        "Expires: 0",
        "Last-Modified: Sun, 06 Nov 1994 08:16:17 GMT",
        "ETag: \"1\"",
        "Age: 20",
        "Vary: Foo",
        "Vary: *",
    ]);
    (control, others).prop_map(|(control, mut others)| {
        // Two lines of one field are another question.
        others.dedup_by_key(|line| line.split(':').next());
        let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT";
        let control = (!control.is_empty()).then(|| format!("Cache-Control: {}", control.join(", ")));
        control
            .into_iter()
            .chain([date.to_owned()])
            .chain(others.into_iter().map(str::to_owned))
            .collect::<Vec<_>>()
            .join("\n")
    })
}

fn request() -> impl Strategy<Value = String> {
    let lines = some(&["Authorization: Basic YQ==", "Foo: 1", "If-None-Match: \"1\""]);
    let control = some(&["no-store", "no-cache", "max-age=10", "min-fresh=20"]);
    (lines, control).prop_map(|(lines, control)| {
        let control = (!control.is_empty()).then(|| format!("Cache-Control: {}", control.join(", ")));
        control.into_iter().chain(lines.into_iter().map(str::to_owned)).collect::<Vec<_>>().join("\n")
    })
}

fn system_time(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(NOW.unix_s() + seconds)
}

/// Whether a later request is answered without the origin.
fn ours(first: &str, status: u16, response: &str, later: &str, later_s: u64) -> bool {
    let policy = Policy::default();
    let (first, headers, later) = (fields(first), fields(response), fields(later));
    let status = StatusCode::from_u16(status).unwrap();
    let response = Response { status, headers: &headers, requested: NOW, received: NOW };
    let stored = responses::store(&policy, &get(&policy, &first), &response, &Dependencies::default());
    stored.is_ok_and(|stored| {
        let later = get(&policy, &later);
        let decision = responses::reuse(&policy, &later, &stored, Validity::Current, NOW.plus(later_s));
        stored.selecting().matches(&policy, later.headers) && matches!(decision, Reuse::Fresh { .. })
    })
}

fn theirs(first: &str, status: u16, response: &str, later: &str, later_s: u64) -> bool {
    let request = |lines: &str| {
        let mut request = http::Request::builder().uri("https://example.org/").method(Method::GET).body(()).unwrap();
        *request.headers_mut() = fields(lines);
        request
    };
    let mut answer = http::Response::builder().status(status).body(()).unwrap();
    *answer.headers_mut() = fields(response);
    let cache = CachePolicy::new_options(&request(first), &answer, system_time(0), CacheOptions::default());
    let decision = cache.before_request(&request(later), system_time(later_s));
    cache.is_storable() && matches!(decision, BeforeRequest::Fresh(_))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_answer_the_same_requests_from_the_cache(
        first in request(),
        status in prop::sample::select(vec![200, 203, 204, 301, 302, 307, 404, 410, 501]),
        response in response(),
        later in request(),
        later_s in 0u64..250,
    ) {
        let ours = ours(&first, status, &response, &later, later_s);
        prop_assert_eq!(ours, theirs(&first, status, &response, &later, later_s));
    }
}
