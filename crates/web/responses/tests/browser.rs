//! The fields by which browsers keep a response.

mod common;

use common::fields;
use responses::{Policy, for_browsers};

/// The fields that clients get.
fn told(lines: &str) -> http::HeaderMap {
    let mut fields = fields(lines);
    for_browsers(&Policy::default(), &mut fields);
    fields
}

#[test]
fn what_this_cache_may_store_others_ask_for_before_each_use() {
    for (made, expected) in [
        ("Cache-Control: max-age=60", "no-cache"),
        ("Cache-Control: public, max-age=60, s-maxage=600", "no-cache, public"),
        (
            "Cache-Control: MAX-AGE=60, no-transform\nCache-Control: must-revalidate",
            "no-cache, no-transform, must-revalidate",
        ),
        ("Cache-Control: max-age=60, stale-while-revalidate=5, stale-if-error=5", "no-cache"),
        ("Cache-Control: no-cache=\"set-cookie\", max-age=60", "no-cache"),
        ("Cache-Control: private=\"x-a, x-b\", max-age=60", "no-cache, private=\"x-a, x-b\""),
        ("Cache-Control: must-understand, no-store, max-age=60", "no-cache, must-understand, no-store"),
        ("Cache-Control: no-cache", "no-cache"),
        ("Expires: Sun, 06 Nov 1994 09:49:37 GMT", "no-cache"),
        ("Last-Modified: Sun, 06 Nov 1994 08:00:00 GMT", "no-cache"),
        ("CDN-Cache-Control: max-age=600\nCache-Control: max-age=60", "no-cache"),
        ("Surrogate-Control: max-age=600", "no-cache"),
    ] {
        let mut kept = fields(made);
        for name in ["cache-control", "expires", "cdn-cache-control", "surrogate-control"] {
            kept.remove(name);
        }
        kept.insert("cache-control", expected.parse().unwrap());
        assert_eq!(told(made), kept, "{made}");
    }
}

#[test]
fn what_is_for_one_client_is_left_as_it_is() {
    for made in [
        "Cache-Control: no-store",
        "Cache-Control: private, max-age=60",
        "Cache-Control: private\nCDN-Cache-Control: no-store",
        "CDN-Cache-Control: no-store\nCache-Control: max-age=60",
        "Thorp-Cache-Control: private\nExpires: Sun, 06 Nov 1994 09:49:37 GMT",
    ] {
        assert_eq!(told(made), fields(made), "{made}");
    }
    let for_this_cache = "Thorp-Cache-Control: max-age=600\nCache-Control: no-store";
    assert_eq!(told(for_this_cache), fields("Cache-Control: no-store"), "no other cache follows the field");
}

#[test]
fn what_never_changes_need_not_be_asked_for() {
    let made = "Cache-Control: max-age=31536000, immutable";
    assert_eq!(told(made), fields(made));
    let changes = format!("{made}\nCache-Groups: \"a\"");
    assert_eq!(told(&changes), fields("Cache-Control: no-cache\nCache-Groups: \"a\""));
}
