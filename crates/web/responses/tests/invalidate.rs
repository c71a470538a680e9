//! Invalidation by unsafe requests.

mod common;

use common::{fields, target};
use http::{Method, StatusCode};
use responses::{InvalidGroups, Policy, invalidation};

/// The keys that become invalid, and the groups.
fn decision(method: &str, status: u16, headers: &str) -> (Vec<String>, String) {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let status = StatusCode::from_u16(status).unwrap();
    let Some(invalid) = invalidation(&Policy::default(), &method, target(), status, &fields(headers)) else {
        return (Vec::new(), "none".to_owned());
    };
    let groups = match &invalid.groups {
        InvalidGroups::All(why) => format!("all: {}", why.name()),
        InvalidGroups::Named(names) => names.iter().map(String::from_utf8_lossy).collect::<Vec<_>>().join(" "),
    };
    (invalid.keys.iter().map(ToString::to_string).collect(), groups)
}

const TARGET: &str = "https://example.org/a/b?c=d";

#[test]
fn a_successful_unsafe_request_invalidates_its_target() {
    for (method, status) in [("POST", 200), ("PUT", 204), ("DELETE", 200), ("M-SEARCH", 200), ("POST", 303)] {
        assert_eq!(decision(method, status, "").0, [TARGET], "{method} {status}");
    }
    for (method, status) in [("GET", 200), ("HEAD", 200), ("OPTIONS", 200), ("TRACE", 200), ("GET", 500)] {
        assert_eq!(decision(method, status, "Cache-Group-Invalidation: \"a\"").1, "none", "{method} {status}");
    }
}

/// RFC 9111, section 4.4, leaves the target of a request that has failed as it is; RFC 9875, section 3, has groups in
/// each response to an unsafe request.
#[test]
fn a_failed_unsafe_request_invalidates_the_groups_that_it_names_and_no_target() {
    for (method, status) in [("POST", 400), ("POST", 404), ("PUT", 500), ("DELETE", 503)] {
        let fields = "Cache-Group-Invalidation: \"b\", \"a\"\nLocation: /x";
        assert_eq!(decision(method, status, fields), (Vec::new(), "a b".to_owned()), "{method} {status}");
        let unreadable = decision(method, status, "Cache-Group-Invalidation: \"open");
        assert_eq!(unreadable, (Vec::new(), "all: dependencies-syntax".to_owned()), "{method} {status}");
        for nothing in ["", "Location: /x", "Cache-Group-Invalidation:"] {
            assert_eq!(decision(method, status, nothing).1, "none", "{method} {status} {nothing}");
        }
    }
}

#[test]
fn what_the_response_names_is_invalid_if_it_is_of_the_same_origin() {
    for (reference, expected) in [
        ("/x", Some("https://example.org/x")),
        ("x", Some("https://example.org/a/x")),
        ("./x?y=z", Some("https://example.org/a/x?y=z")),
        ("/caf\u{e9}", Some("https://example.org/caf\u{e9}")),
        ("../x", Some("https://example.org/x")),
        ("../../../x/.", Some("https://example.org/x/")),
        ("?q", Some("https://example.org/a/b?q")),
        ("/x#fragment", Some("https://example.org/x")),
        ("https://EXAMPLE.org/x", Some("https://example.org/x")),
        ("HTTPS://example.org", Some("https://example.org/")),
        ("https://example.org:443/x", Some("https://example.org/x")),
        ("//example.org:443/x", Some("https://example.org/x")),
        ("https://example.org:80/x", None),
        ("https://example.org?q", Some("https://example.org/?q")),
        ("//example.org/x", Some("https://example.org/x")),
        ("http://example.org/x", None),
        ("https://example.org.evil.example/x", None),
        ("https://user@example.org/x", None),
        ("//evil.example/x", None),
        ("https:///x", None),
        ("", None),
    ] {
        for name in ["Location", "Content-Location"] {
            let (keys, _) = decision("POST", 201, &format!("{name}: {reference}"));
            let others: Vec<_> = keys.iter().filter(|key| *key != TARGET).collect();
            assert_eq!(others, expected.iter().collect::<Vec<_>>(), "{name}: {reference}");
            assert!(keys.iter().any(|key| key == TARGET));
        }
    }
}

#[test]
fn groups_are_invalid_by_name_or_all_of_them() {
    let groups = |value: &str| decision("POST", 200, &format!("Cache-Group-Invalidation: {value}")).1;
    assert_eq!(groups("\"b\", \"a\";p=1, \"a\""), "a b");
    assert_eq!(groups(""), "");
    for malformed in ["\"open", "item:1", "\"a\", token", "*", "42", "(\"a\")", ","] {
        assert_eq!(groups(malformed), "all: dependencies-syntax", "{malformed}");
    }
    let many = (0..1025).map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(",");
    assert_eq!(groups(&many), "all: dependencies-count");
}
