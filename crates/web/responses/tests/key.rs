//! Keys: to the byte, but for the case of scheme and authority, and a port that is the scheme's own.

use responses::{Key, KeyRef};
use std::hash::{BuildHasher, RandomState};

fn key(scheme: &str, authority: &str, path: &str) -> Result<Key, &'static str> {
    KeyRef::new(scheme, authority, path).map(KeyRef::to_key).map_err(responses::KeyRefusal::name)
}

#[test]
fn requests_that_an_origin_could_tell_apart_have_keys_of_their_own() {
    let spellings = [
        ("http", "example.org", "/a"),
        ("https", "example.org", "/a"),
        ("http", "example.org:443", "/a"),
        ("http", "example.org:8080", "/a"),
        ("http", "example.org.", "/a"),
        ("http", "www.example.org", "/a"),
        ("http", "example.org", "/A"),
        ("http", "example.org", "/%61"),
        ("http", "example.org", "/%41"),
        ("http", "example.org", "//a"),
        ("http", "example.org", "/./a"),
        ("http", "example.org", "/b/../a"),
        ("http", "example.org", "/a/"),
        ("http", "example.org", "/a?"),
        ("http", "example.org", "/a?b=1&c=2"),
        ("http", "example.org", "/a?c=2&b=1"),
        ("http", "example.org", "/a;b"),
        ("http", "example.org", "/a\\b"),
    ];
    let hasher = RandomState::new();
    for (i, (scheme, authority, path)) in spellings.into_iter().enumerate() {
        let reference = KeyRef::new(scheme, authority, path).unwrap();
        assert_eq!(hasher.hash_one(reference), hasher.hash_one(reference.to_key()));
        for (j, (scheme, authority, path)) in spellings.into_iter().enumerate() {
            let other = key(scheme, authority, path).unwrap();
            assert_eq!(reference.to_key() == other, i == j, "{reference:?} and {other:?}");
            assert_eq!(reference == other, i == j, "{reference:?} and {other:?}");
        }
    }
}

#[test]
fn the_case_of_scheme_and_authority_is_no_matter() {
    let reference = KeyRef::new("HTTP", "Example.ORG", "/A").unwrap();
    let same = key("http", "example.org", "/A").unwrap();
    assert!(reference == same && reference.to_key() == same);
    let hasher = RandomState::new();
    assert_eq!(hasher.hash_one(reference), hasher.hash_one(&same));
    assert_eq!(same.to_string(), "http://example.org/A");
}

#[test]
fn the_port_that_a_scheme_has_anyway_is_no_matter() {
    for (scheme, with, without) in [
        ("http", "example.org:80", "example.org"),
        ("HTTP", "example.org:80", "example.org"),
        ("https", "example.org:443", "example.org"),
        ("http", "example.org:", "example.org"),
        ("http", "[::80]:80", "[::80]"),
    ] {
        assert_eq!(key(scheme, with, "/a"), key(scheme, without, "/a"), "{with}");
    }
    for (scheme, authority) in [("https", "example.org:80"), ("http", "example.org:8080"), ("http", "[1::80]")] {
        assert_eq!(key(scheme, authority, "/").unwrap().to_string(), format!("{scheme}://{authority}/"));
    }
    assert_eq!(key("http", ":80", "/"), Err("no-authority"));
}

#[test]
fn malformed_targets_have_none() {
    for (authority, path, refusal) in [
        ("", "/", "no-authority"),
        ("user@example.org", "/", "bad-authority"),
        ("example.org/", "/", "bad-authority"),
        ("example.org ", "/", "bad-authority"),
        ("example.org\\", "/", "bad-authority"),
        ("example.org", "", "bad-path"),
        ("example.org", "*", "bad-path"),
        ("example.org", "a", "bad-path"),
        ("example.org", "/a b", "bad-path"),
        ("example.org", "/a\r\nHost: b", "bad-path"),
        ("example.org", "/a#b", "bad-path"),
    ] {
        assert_eq!(key("http", authority, path).unwrap_err(), refusal, "{authority} {path}");
    }
}
