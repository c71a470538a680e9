//! May a response be stored, and for how long is it fresh?

mod common;

use common::{fields, store_as};
use http::Method;
use responses::{Heuristic, Policy};

/// The lifetime in seconds, or the name of the refusal.
fn decision(method: &Method, request: &str, status: u16, response: &str) -> String {
    match store_as(&Policy::default(), method, request, status, response) {
        Ok(stored) => stored.freshness().lifetime_s().to_string(),
        Err(refusal) => refusal.name().to_owned(),
    }
}

fn check(cases: &[(&str, &str)]) {
    for (response, expected) in cases {
        assert_eq!(decision(&Method::GET, "", 200, response), *expected, "{response}");
    }
}

#[test]
fn a_lifetime_is_read_in_the_order_of_the_rfc() {
    check(&[
        ("Cache-Control: max-age=60", "60"),
        ("Cache-Control: max-age=60, s-maxage=30", "30"),
        ("Cache-Control: s-maxage=30\nCache-Control: max-age=60", "30"),
        ("Cache-Control: max-age=60\nExpires: Sun, 06 Nov 1994 09:49:37 GMT", "60"),
        ("Expires: Sun, 06 Nov 1994 09:49:37 GMT", "3600"),
        ("Expires: Sun, 06 Nov 1994 09:49:37 GMT\nDate: Sun, 06 Nov 1994 08:39:37 GMT", "4200"),
        ("Expires: Sunday, 06-Nov-94 09:49:37 GMT", "3600"),
        ("Expires: Sun Nov  6 09:49:37 1994", "3600"),
        ("Expires: sun, 06 nov 1994 09:49:37 gmt", "3600"),
        // The date cannot be read, so the moment at which the response came stands for it.
        ("Expires: Sun, 06 Nov 1994 09:49:37 GMT\nDate: yesterday", "3600"),
    ]);
}

#[test]
fn a_malformed_lifetime_is_none() {
    let etag = "\nETag: \"1\"";
    for response in [
        "Cache-Control: max-age=-60",
        "Cache-Control: max-age=60.0",
        "Cache-Control: max-age=60s",
        "Cache-Control: max-age='60'",
        "Cache-Control: max-age= 60",
        "Cache-Control: max-age=",
        "Cache-Control: max-age",
        "Cache-Control: max-age=60, max-age=30",
        "Cache-Control: max-age=60\nCache-Control: max-age=0",
        "Cache-Control: s-maxage=x, max-age=60",
        "Expires: 0",
        "Expires: Sun, 06 Nov 1994 09:49:37 CET",
        "Expires: Sun, 06 Nov 1994 09:49:37",
        "Expires: Sun, 31 Feb 2094 09:49:37 GMT",
        "Expires: Sun, 06 Nov 1994 09:49:37 GMT\nExpires: Sun, 06 Nov 1994 10:49:37 GMT",
    ] {
        check(&[(response, "stale"), (&format!("{response}{etag}"), "0")]);
    }
}

#[test]
fn directives_are_told_from_what_looks_like_them() {
    check(&[
        ("Cache-Control: MAX-AGE=\"60\"", "60"),
        ("Cache-Control: max-age=0060", "60"),
        ("Cache-Control: max-age=60, max-age=60", "60"),
        ("Cache-Control: max-age=99999999999999999999", "2147483648"),
        ("Cache-Control: ,, max-age=60 ,", "60"),
        ("Cache-Control: extension=\"no-store, max-age=1\", max-age=60", "60"),
        ("Cache-Control: extension=\"a\\\", no-store\", max-age=60", "60"),
        ("Cache-Control: max-age =60\nETag: \"1\"", "control-invalid"),
        // A quote that is never closed hides nothing.
        ("Cache-Control: max-age=60, extension=\"a, private, no-store", "no-store"),
        ("Cache-Control: extension=\"a, max-age=60", "60"),
        ("Cache-Control: no-storage, max-age=60", "60"),
        ("Cache-Control: unknown, max-age=60", "60"),
    ]);
}

/// Each may be a restriction that was not understood.
#[test]
fn a_part_that_is_no_directive_keeps_a_response_from_being_stored() {
    let groups = "Cache-Groups: \"item:1\"";
    for control in
        ["private; max-age=60", "no-store max-age=60", "max-age=60, \"private\"", "max-age=60, =1", "(private)"]
    {
        check(&[
            (&format!("Cache-Control: {control}"), "control-invalid"),
            (&format!("Cache-Control: {control}\n{groups}"), "control-invalid"),
        ]);
    }
    check(&[
        ("Cache-Control: max-age=60, private=\"x y\"", "private"),
        ("Cache-Control: max-age=60, private=\"set-cookie", "private"),
        ("Cache-Control: max-age=60, private=\"x, \"", "60"),
    ]);
}

#[test]
fn refusals_have_names() {
    check(&[
        ("Cache-Control: max-age=60, No-Store", "no-store"),
        ("Cache-Control: private, max-age=60", "private"),
        ("Cache-Control: private=\"\", max-age=60", "private"),
        ("Cache-Control: private=\"x-name\", max-age=60", "60"),
        ("Cache-Control: max-age=60\nVary: *", "vary-star"),
        ("Cache-Control: max-age=60\nVary:\nVary: a, *", "vary-star"),
        ("Cache-Control: max-age=60\nVary: not a name", "vary-invalid"),
        ("Cache-Control: max-age=60\nVary: X-Forwarded-For", "vary-rewritten"),
        ("Cache-Control: max-age=60\nCache-Groups: \"open", "dependencies"),
        ("Cache-Control: max-age=60\nAge: 61", "stale"),
        ("Cache-Control: no-cache, max-age=60", "stale"),
        ("Cache-Control: no-cache, max-age=60\nETag: \"1\"", "60"),
        ("", "no-lifetime"),
        // Without these fields a later 304 would be merged into something else.
        ("Cache-Control: max-age=60\nVary: Foo\nConnection: close, Vary", "withheld"),
        ("Cache-Control: max-age=60, private=\"vary\"\nVary: Foo", "withheld"),
        ("Cache-Control: max-age=60, no-cache=\"xkey\"\nxkey: a", "withheld"),
        ("Cache-Control: max-age=60\nConnection: cache-control", "withheld"),
        ("Cache-Control: max-age=60\nConnection: vary", "60"),
    ]);
    let fresh = "Cache-Control: max-age=60";
    assert_eq!(decision(&Method::HEAD, "", 200, fresh), "method");
    assert_eq!(decision(&Method::PUT, "", 200, fresh), "method");
    assert_eq!(decision(&Method::POST, "", 200, &format!("{fresh}\nContent-Location: /a/b?c=d")), "method");
    assert_eq!(decision(&Method::GET, "Cache-Control: no-store", 200, fresh), "request-no-store");
}

#[test]
fn a_response_to_credentials_needs_the_origins_consent() {
    for (control, expected) in [
        ("max-age=60", "credentials"),
        ("max-age=60, proxy-revalidate", "credentials"),
        ("max-age=60, public", "60"),
        ("max-age=60, must-revalidate", "60"),
        ("s-maxage=60", "60"),
    ] {
        let response = format!("Cache-Control: {control}");
        assert_eq!(decision(&Method::GET, "Authorization: Basic YQ==", 200, &response), expected, "{control}");
    }
}

#[test]
fn every_complete_status_may_be_stored_with_a_lifetime_of_its_own() {
    let fresh = "Cache-Control: max-age=60";
    for status in [200, 203, 204, 299, 301, 302, 307, 400, 404, 410, 499, 500, 503, 599] {
        assert_eq!(decision(&Method::GET, "", status, fresh), "60", "{status}");
    }
    // A 416 or 412 tells nothing to a request without that range or precondition: stored, it would deny the resource.
    for status in [100, 103, 206, 304, 412, 416] {
        assert_eq!(decision(&Method::GET, "", status, fresh), "status", "{status}");
    }
    assert_eq!(decision(&Method::GET, "", 599, "Cache-Control: max-age=60, must-understand"), "must-understand");
    assert_eq!(decision(&Method::GET, "", 200, "Cache-Control: max-age=60, must-understand, no-store"), "60");
}

#[test]
fn a_lifetime_is_guessed_where_that_is_allowed() {
    // A thousand seconds unchanged.
    let unchanged = "Last-Modified: Sun, 06 Nov 1994 08:32:57 GMT";
    for (status, expected) in
        [(200, "100"), (404, "100"), (201, "no-freshness"), (403, "no-freshness"), (599, "no-freshness")]
    {
        assert_eq!(decision(&Method::GET, "", status, unchanged), expected, "{status}");
    }
    assert_eq!(decision(&Method::GET, "", 599, &format!("{unchanged}\nCache-Control: public")), "100");
    check(&[
        ("Last-Modified: Sun, 06 Nov 1904 08:32:57 GMT", "0"),
        ("Last-Modified: Wed, 06 Nov 1974 08:32:57 GMT", "86400"),
        ("Last-Modified: Sun, 06 Nov 2094 08:32:57 GMT\nETag: \"1\"", "0"),
        ("Cache-Groups: \"item:42\"", "86400"),
        ("Cache-Groups: \"item:42\"\nCache-Control: max-age=60", "60"),
    ]);
}

/// The operator's lifetime is for responses that state none, whatever they have to guess by, and for no others.
#[test]
fn a_response_without_a_lifetime_gets_the_operators() {
    let usual = Policy::default();
    let policy = Policy { heuristic: Heuristic { default_s: 120, ..usual.heuristic }, ..usual };
    for (request, status, response, expected) in [
        ("", 200, "", "120"),
        ("", 404, "", "120"),
        ("", 200, "Last-Modified: Sun, 06 Nov 1994 08:49:27 GMT", "120"),
        ("", 200, "Last-Modified: Sun, 06 Nov 1994 08:32:57 GMT\nCache-Groups: \"a\"", "86400"),
        ("", 200, "Cache-Control: max-age=0", "stale"),
        ("", 200, "Expires: 0", "stale"),
        ("", 200, "Cache-Control: private", "private"),
        ("", 200, "Cache-Control: no-cache", "stale"),
        ("", 200, "Set-Cookie: a=b", "cookies"),
        ("Cookie: a=b", 200, "", "cookies"),
        ("", 403, "", "no-freshness"),
    ] {
        let stored = store_as(&policy, &Method::GET, request, status, response);
        let said =
            stored.map_or_else(|why| why.name().to_owned(), |stored| stored.freshness().lifetime_s().to_string());
        assert_eq!(said, expected, "{request} {status} {response}");
    }
}

#[test]
fn no_lifetime_is_guessed_for_what_may_be_one_users() {
    let groups = "Cache-Groups: \"item:42\"";
    assert_eq!(decision(&Method::GET, "Cookie: session=1", 200, groups), "cookies");
    assert_eq!(decision(&Method::GET, "", 200, &format!("{groups}\nSet-Cookie: session=1")), "cookies");
    assert_eq!(decision(&Method::GET, "Cookie: session=1", 200, &format!("{groups}\nCache-Control: public")), "86400");
    assert_eq!(decision(&Method::GET, "Cookie: session=1", 200, "Cache-Control: max-age=60"), "60");
}

#[test]
fn a_cookie_is_stored_only_with_a_word_to_shared_caches() {
    let cookie = "Set-Cookie: session=1";
    check(&[
        (&format!("{cookie}\nCache-Control: max-age=60"), "cookies"),
        (&format!("{cookie}\nExpires: Sun, 06 Nov 1994 09:49:37 GMT"), "cookies"),
        (&format!("{cookie}\nCache-Control: max-age=60, public"), "60"),
        (&format!("{cookie}\nCache-Control: s-maxage=60"), "60"),
        (&format!("{cookie}\nCDN-Cache-Control: max-age=60"), "60"),
    ]);
}

#[test]
fn a_targeted_field_goes_before_cache_control_and_expires() {
    check(&[
        ("CDN-Cache-Control: max-age=60\nCache-Control: no-store", "60"),
        ("CDN-Cache-Control: max-age=60\nThorp-Cache-Control: max-age=30", "30"),
        ("CDN-Cache-Control: no-store\nCache-Control: max-age=60", "no-store"),
        ("CDN-Cache-Control: no-store=?0, max-age=30\nCache-Control: max-age=60", "30"),
        ("CDN-Cache-Control: max-age=60;x=y", "60"),
        ("CDN-Cache-Control: max-age=30, max-age=60", "60"),
        ("CDN-Cache-Control: public\nExpires: Sun, 06 Nov 1994 09:49:37 GMT\nETag: \"1\"", "0"),
        // A field that is not a dictionary may be a restriction; an empty one is not there.
        ("CDN-Cache-Control: max-age=\nCache-Control: max-age=60", "control-invalid"),
        ("CDN-Cache-Control: Max-Age=30\nCache-Control: max-age=60", "control-invalid"),
        ("CDN-Cache-Control: private; max-age=30, &&&\nCache-Control: public, max-age=60", "control-invalid"),
        ("Surrogate-Control: no-store; max-age=60\nCache-Control: max-age=60", "control-invalid"),
        ("CDN-Cache-Control:\nCache-Control: max-age=60", "60"),
        // A value of the wrong type is no lifetime.
        ("CDN-Cache-Control: max-age=\"x\"\nCache-Control: max-age=60", "stale"),
        ("CDN-Cache-Control: max-age=(60)\nCache-Control: max-age=60", "stale"),
        ("CDN-Cache-Control: max-age=-1\nCache-Control: max-age=60", "stale"),
        ("Surrogate-Control: max-age=60\nCache-Control: max-age=1", "60"),
        ("Surrogate-Control: max-age=60+600", "60"),
        ("Surrogate-Control: max-age=60;thorp, no-store;other", "60"),
        ("Surrogate-Control: max-age=1;other\nCache-Control: max-age=60", "60"),
        // It speaks of something else, so Cache-Control counts.
        ("Surrogate-Control: content=\"ESI/1.0\"\nCache-Control: private, max-age=60", "private"),
        ("Surrogate-Control: content=\"ESI/1.0\"\nCache-Control: no-store", "no-store"),
    ]);
}

#[test]
fn fields_of_the_connection_and_withheld_ones_are_not_stored() {
    let response = "Cache-Control: public, max-age=60, no-cache=\"x-a, X-B\", private=x-c\nConnection: x-hop, close\nX-Hop: 1\n\
                    X-A: 1\nX-B: 1\nX-C: 1\nX-D: 1\nX-D: 2\nKeep-Alive: 5\nTransfer-Encoding: chunked\nAge: 1\n\
                    Date: Sun, 06 Nov 1994 08:49:37 GMT\nProxy-Authenticate: Basic\nSet-Cookie: a=b";
    let stored = common::store(response).unwrap();
    let kept = "Cache-Control: public, max-age=60, no-cache=\"x-a, X-B\", private=x-c\nX-D: 1\nX-D: 2\n\
                Date: Sun, 06 Nov 1994 08:49:37 GMT\nSet-Cookie: a=b";
    assert_eq!(stored.fields().to_map(), fields(kept));
}

#[test]
fn a_response_without_a_date_gets_one() {
    let stored = common::store("Cache-Control: max-age=60").unwrap();
    assert_eq!(stored.fields().get("date"), Some(b"Sun, 06 Nov 1994 08:49:37 GMT".as_slice()));
}
