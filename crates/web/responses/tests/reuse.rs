//! May a stored response answer a request?

mod common;

use common::{NOW, fields, get, name, reuse, store, store_as};
use http::Method;
use responses::{Coherence, Lookup, Policy, Request, RequestDirectives, Validity, after_error, select};

fn weak() -> Policy {
    Policy { coherence: Coherence::Weak, ..Policy::default() }
}

#[test]
fn a_response_is_fresh_until_its_age_is_its_lifetime() {
    for (response, later_s, expected) in [
        ("Cache-Control: max-age=60", 59, "fresh"),
        ("Cache-Control: max-age=60", 60, "revalidate: stale"),
        ("Cache-Control: max-age=60\nAge: 30", 29, "fresh"),
        ("Cache-Control: max-age=60\nAge: 30", 30, "revalidate: stale"),
        ("Cache-Control: max-age=60\nDate: Sun, 06 Nov 1994 08:49:07 GMT", 29, "fresh"),
        ("Cache-Control: max-age=60\nDate: Sun, 06 Nov 1994 08:49:07 GMT", 30, "revalidate: stale"),
        ("Cache-Control: max-age=60\nDate: Sun, 06 Nov 1994 09:49:07 GMT", 59, "fresh"),
        ("Cache-Control: max-age=60, must-revalidate", 59, "fresh"),
        ("Cache-Control: max-age=60\nETag: \"1\"\nAge: x", 0, "revalidate: stale"),
        ("Cache-Control: max-age=60\nETag: \"1\"\nAge: 0, 0", 0, "revalidate: stale"),
        ("Cache-Control: max-age=60\nETag: \"1\"\nAge: 0\nAge: 0", 0, "revalidate: stale"),
        ("Cache-Control: max-age=60, no-cache\nETag: \"1\"", 0, "revalidate: no-cache"),
        ("Cache-Control: max-age=60, no-cache=\"x-a\"", 0, "fresh"),
    ] {
        let stored = store(response).unwrap();
        assert_eq!(reuse(&Policy::default(), &stored, "", later_s), expected, "{response}, {later_s} s later");
    }
}

#[test]
fn age_counts_the_time_on_the_way() {
    let policy = Policy::default();
    let (none, headers) = (fields(""), fields("Cache-Control: max-age=60\nAge: 10"));
    let status = http::StatusCode::OK;
    let response = responses::Response { status, headers: &headers, requested: NOW, received: NOW.plus(5) };
    let stored = responses::store(&policy, &get(&policy, &none), &response, &responses::Dependencies::default());
    let freshness = *stored.unwrap().freshness();
    assert_eq!((freshness.age_s(NOW.plus(5)), freshness.ttl_s(NOW.plus(5))), (15, 45));
    assert_eq!((freshness.age_s(NOW.plus(65)), freshness.ttl_s(NOW.plus(65))), (75, -15));
    // A clock that was set back does not make it older.
    assert_eq!(freshness.age_s(NOW), 15);
}

#[test]
fn a_request_may_ask_for_more() {
    let stored = store("Cache-Control: max-age=60\nETag: \"1\"").unwrap();
    for (request, expected) in [
        ("Cache-Control: no-cache", "revalidate: request-no-cache"),
        ("Cache-Control: max-age=0", "revalidate: request-max-age"),
        ("Cache-Control: max-age=9", "revalidate: request-max-age"),
        ("Cache-Control: max-age=10", "fresh"),
        ("Cache-Control: min-fresh=50", "fresh"),
        ("Cache-Control: min-fresh=51", "revalidate: request-min-fresh"),
        ("Cache-Control: min-fresh=x", "revalidate: request-min-fresh"),
        ("Cache-Control: max-age=x", "revalidate: request-max-age"),
        ("Cache-Control: no-store", "fresh"),
        ("Pragma: no-cache", "fresh"),
        ("Cookie: a=b\nAuthorization: Basic YQ==", "fresh"),
    ] {
        assert_eq!(reuse(&Policy::default(), &stored, request, 10), expected, "{request}");
        let deaf = Policy { request_directives: RequestDirectives::OnlyIfCached, ..Policy::default() };
        assert_eq!(reuse(&deaf, &stored, request, 10), "fresh", "{request}, where clients have no say");
    }
}

#[test]
fn a_stale_response_is_served_only_under_weak_coherence() {
    for (control, request, later_s, expected) in [
        ("max-age=60, stale-while-revalidate=30", "", 89, "stale-while-revalidate"),
        ("max-age=60, stale-while-revalidate=30", "", 90, "revalidate: stale"),
        ("max-age=60, stale-while-revalidate=30, must-revalidate", "", 61, "revalidate: stale"),
        ("max-age=60, stale-while-revalidate=30, proxy-revalidate", "", 61, "revalidate: stale"),
        ("s-maxage=60, stale-while-revalidate=30", "", 61, "revalidate: stale"),
        ("max-age=60, stale-while-revalidate=x", "", 61, "revalidate: stale"),
        ("max-age=60", "Cache-Control: max-stale", 600, "max-stale"),
        ("max-age=60", "Cache-Control: max-stale=5", 65, "max-stale"),
        ("max-age=60", "Cache-Control: max-stale=5", 66, "revalidate: stale"),
        ("max-age=60", "Cache-Control: max-stale=x", 61, "revalidate: stale"),
        ("max-age=60, must-revalidate", "Cache-Control: max-stale", 61, "revalidate: stale"),
        ("max-age=60, stale-if-error=30", "", 61, "revalidate: stale"),
    ] {
        let stored = store(&format!("Cache-Control: {control}")).unwrap();
        assert_eq!(reuse(&weak(), &stored, request, later_s), expected, "{control}; {request}; {later_s} s later");
        let strong = reuse(&Policy::default(), &stored, request, later_s);
        assert_eq!(strong, "revalidate: stale", "{control}; {request}; {later_s} s later");
    }
}

#[test]
fn an_error_brings_a_stale_response_back_only_under_weak_coherence() {
    let served = |policy: &Policy, control: &str, later_s| {
        let stored = store(&format!("Cache-Control: {control}\nETag: \"1\"")).unwrap();
        after_error(policy, &stored, Validity::Current, NOW.plus(later_s)).map(name)
    };
    assert_eq!(served(&weak(), "max-age=60, stale-if-error=30", 89).as_deref(), Some("stale-if-error"));
    assert_eq!(served(&weak(), "max-age=60, stale-if-error=30", 90), None);
    assert_eq!(served(&weak(), "max-age=60, stale-if-error=30, must-revalidate", 61), None);
    assert_eq!(served(&weak(), "max-age=60, stale-if-error=30, no-cache", 61), None);
    assert_eq!(served(&weak(), "max-age=60", 61), None);
    assert_eq!(served(&Policy::default(), "max-age=60, stale-if-error=30", 61), None);
}

#[test]
fn an_invalidated_response_is_validated_despite_everything() {
    let stored = store("Cache-Control: max-age=60, stale-while-revalidate=60, stale-if-error=60").unwrap();
    let request = fields("Cache-Control: max-stale");
    for policy in [Policy::default(), weak()] {
        let decision = responses::reuse(&policy, &get(&policy, &request), &stored, Validity::Invalidated, NOW);
        assert_eq!(name(decision), "revalidate: invalidated");
        assert_eq!(after_error(&policy, &stored, Validity::Invalidated, NOW), None);
    }
}

#[test]
fn only_what_the_key_describes_is_looked_up() {
    for (method, headers, expected) in [
        (Method::GET, "", "cache"),
        (Method::HEAD, "", "cache"),
        (Method::GET, "Content-Length: 0\nConnection: close, Keep-Alive", "cache"),
        (Method::GET, "Connection: x-absent", "cache"),
        (Method::POST, "", "method"),
        (Method::OPTIONS, "", "method"),
        (Method::GET, "Content-Length: 1", "request-content"),
        (Method::GET, "Transfer-Encoding: chunked", "request-content"),
        (Method::GET, "If-Match: \"1\"", "precondition"),
        (Method::GET, "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT", "precondition"),
        // The origin would answer without the field, and the answer be stored as if it had been there.
        (Method::GET, "Connection: close, Origin\nOrigin: https://a.example", "connection"),
        (Method::GET, "Connection: cookie\nCookie: a=b", "connection"),
    ] {
        let (policy, map) = (Policy::default(), fields(headers));
        let lookup = Request::new(&policy, &method, common::target(), &map).lookup();
        let lookup = match lookup {
            Lookup::Cache => "cache",
            Lookup::Pass(reason) => reason.name(),
        };
        assert_eq!(lookup, expected, "{method} {headers}");
    }
}

/// Whether a later request selects the response that the first one got.
fn selects(vary: &str, first: &str, later: &str) -> bool {
    let policy = Policy::default();
    let response = format!("Cache-Control: max-age=60\n{vary}");
    let stored = store_as(&policy, &Method::GET, first, 200, &response).unwrap();
    let later = fields(later);
    select(&policy, &get(&policy, &later), [&stored]).is_some()
}

#[test]
fn vary_selects_by_what_the_fields_say() {
    for (vary, first, later, expected) in [
        ("", "Foo: 1", "Foo: 2", true),
        ("Vary: Foo", "Foo: 1", "Foo: 1", true),
        ("Vary: Foo", "Foo: 1", "Foo: 2", false),
        ("Vary: Foo", "Foo: 1", "", false),
        ("Vary: Foo", "", "Foo: 1", false),
        ("Vary: Foo", "Foo:", "", false),
        ("Vary: Foo", "", "", true),
        ("Vary: FOO\nVary: bar", "Foo: 1\nBar: 2", "Bar: 2\nFoo: 1", true),
        ("Vary: Foo, Bar", "Foo: 1\nBar: 2", "Foo: 1\nBar: 3", false),
        ("Vary: Foo, Bar", "Foo: 1\nBar: 2", "Foo: 12", false),
        ("Vary: Foo, Foo", "Foo: 1", "Foo: 1", true),
        // The origin gets these as they are, and may answer each otherwise.
        ("Vary: Foo", "Foo: 1, 2", "Foo: 1\nFoo: 2", false),
        ("Vary: Foo", "Foo: 1,2", "Foo: 1, 2", false),
        ("Vary: Origin", "Origin: https://a.example,", "Origin: https://a.example", false),
        ("Vary: Foo", "Foo: 1\nFoo:", "Foo: 1", false),
        ("Vary: Foo", "Foo: 1 2", "Foo: 12", false),
        ("Vary: Foo", "Foo: \"1, 2\"", "Foo: \"1,2\"", false),
        ("Vary: Foo", "Foo: a:b", "Foo: a", false),
        ("Vary: Cookie", "Cookie: a=1, 2", "Cookie: a=1,2", false),
        ("Vary: Cookie", "Cookie: a=1; b=2", "Cookie: a=1\nCookie: b=2", true),
        ("Vary: Accept-Language", "Accept-Language: en, de", "Accept-Language: EN,de", true),
        ("Vary: Accept-Language", "Accept-Language: en, de", "Accept-Language: en,,  de,", true),
        ("Vary: Accept-Language", "Accept-Language: en, de", "Accept-Language: de, en", false),
    ] {
        assert_eq!(selects(vary, first, later), expected, "{vary}: {first:?} and {later:?}");
    }
}

#[test]
fn accept_encoding_is_a_set_of_known_codings() {
    for (first, later, expected) in [
        ("gzip, br", "br;q=0.5,gzip;q=1.0", true),
        ("gzip", "x-gzip", true),
        ("gzip", "GZIP, exotic", true),
        ("gzip", "br", false),
        ("gzip", "gzip, br", false),
        ("gzip", "gzip;q=0", false),
        ("gzip;q=0", "br;q=0.000", true),
        ("*", "br, gzip, zstd", true),
        ("*, gzip;q=0", "br, zstd", true),
        ("gzip, identity;q=0", "gzip", false),
        ("gzip, identity;q=0", "gzip, *;q=0", true),
        ("identity", "exotic", true),
    ] {
        let (first, later) = (format!("Accept-Encoding: {first}"), format!("Accept-Encoding: {later}"));
        assert_eq!(selects("Vary: Accept-Encoding", &first, &later), expected, "{first} and {later}");
    }
    assert!(!selects("Vary: Accept-Encoding", "", "Accept-Encoding: identity"), "absent is not a value");
}

#[test]
fn the_origin_gets_the_codings_that_variants_are_told_apart_by() {
    let policy = Policy::default();
    let forwarded = responses::forward_request(&policy, &fields("Accept-Encoding: exotic, GZIP;q=0.3, br"));
    assert_eq!(forwarded["accept-encoding"], "br, gzip, identity");
    let forwarded = responses::forward_request(&policy, &fields("Accept-Language: EN,\nAccept-Language: de"));
    assert_eq!(forwarded["accept-language"], "en, de");
    let forwarded = responses::forward_request(&policy, &fields("Cookie: a=1\nCookie: b=2, 3"));
    assert_eq!(forwarded.get_all("cookie").iter().collect::<Vec<_>>(), ["a=1; b=2, 3"]);
    let forwarded = responses::forward_request(&policy, &fields("Surrogate-Capability: evil=\"ESI/1.0\""));
    assert_eq!(forwarded, fields("Surrogate-Capability: thorp=\"Surrogate/1.0\""), "a client is no surrogate");
    let forwarded = responses::forward_request(&policy, &fields("Connection: x-a\nX-A: 1\nTE: trailers\nX-B: 2"));
    assert_eq!(forwarded, fields("X-B: 2\nSurrogate-Capability: thorp=\"Surrogate/1.0\""));
}

#[test]
fn the_newest_of_several_matching_responses_is_selected() {
    let policy = Policy::default();
    let made = |date: &str| store(&format!("Cache-Control: max-age=600\nDate: {date}")).unwrap();
    let stored = [
        made("Sun, 06 Nov 1994 08:49:30 GMT"),
        made("Sun, 06 Nov 1994 08:49:36 GMT"),
        made("Sun, 06 Nov 1994 08:49:33 GMT"),
    ];
    let none = fields("");
    assert_eq!(select(&policy, &get(&policy, &none), &stored), Some(1));
}
