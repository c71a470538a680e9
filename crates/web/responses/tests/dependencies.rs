//! The names of what a response depends on.

mod common;

use common::fields;
use responses::{Dependencies, DependencyRefusal, Policy};

fn names(headers: &str) -> String {
    let policy = Policy { dependencies_max: 4, dependency_bytes_max: 8, ..Policy::default() };
    match Dependencies::read(&policy, &fields(headers)) {
        Ok(names) => names.iter().map(String::from_utf8_lossy).collect::<Vec<_>>().join("|"),
        Err(refusal) => refusal.name().to_owned(),
    }
}

#[test]
fn each_field_has_its_separators() {
    for (headers, expected) in [
        ("", ""),
        ("Cache-Groups: \"a b\", \"c,d\";p=1", "a b|c,d"),
        ("Cache-Groups: \"a\"\nCache-Groups: \"b\"", "a|b"),
        ("Cache-Groups: \"a\\\"b\"", "a\"b"),
        ("Surrogate-Key: a  b c", "a|b|c"),
        ("xkey: a b", "a|b"),
        ("xkey: a, b", "a|b"),
        ("Cache-Tag: a b,c, d", "a b|c|d"),
        ("Edge-Cache-Tag: a,,b", "a|b"),
        ("Surrogate-Key: b a\nCache-Tag: a,c", "a|b|c"),
        ("Cache-Groups: \"A\", \"a\"", "A|a"),
        // An empty list is understood: it names none.
        ("Cache-Groups:", ""),
        ("Surrogate-Key:", ""),
    ] {
        assert_eq!(names(headers), expected, "{headers}");
    }
}

#[test]
fn nothing_is_cut() {
    for (headers, expected) in [
        ("Surrogate-Key: a b c d", "a|b|c|d"),
        ("Surrogate-Key: a b c d e", "dependencies-count"),
        ("Cache-Groups: \"a\", \"b\", \"c\"\nxkey: d e", "dependencies-count"),
        ("Cache-Tag: 12345678", "12345678"),
        ("Cache-Tag: 123456789", "dependency-length"),
        ("Cache-Groups: \"a\", \"open", "dependencies-syntax"),
        ("Cache-Groups: a b", "dependencies-syntax"),
        ("Cache-Groups: \"\"", "dependencies-syntax"),
        ("Cache-Groups: \"a\", \"\"", "dependencies-syntax"),
        ("Cache-Groups: item:1", "dependencies-syntax"),
        ("Cache-Groups: \"a\", token", "dependencies-syntax"),
        ("Cache-Groups: 42", "dependencies-syntax"),
        ("Cache-Groups: (\"inner\")", "dependencies-syntax"),
        ("Cache-Groups: \"a\", ?1\nxkey: b", "dependencies-syntax"),
        ("Cache-Groups: @1", "dependencies-syntax"),
        ("Cache-Tag: ,", "dependencies-syntax"),
        ("Surrogate-Key: , ,", "dependencies-syntax"),
    ] {
        assert_eq!(names(headers), expected, "{headers}");
    }
}

#[test]
fn a_purge_that_names_nothing_usable_is_refused_and_not_taken_for_another() {
    let policy = Policy { dependency_fields: vec!["X-Tags:spaces".parse().unwrap()], ..Policy::default() };
    for (headers, expected) in [
        ("X-Other: a", None),
        ("X-Tags: a b", Some(Ok(2))),
        ("Surrogate-Key: a", Some(Ok(1))),
        ("X-Tags:", Some(Err(DependencyRefusal::Syntax))),
        ("Cache-Groups: a", Some(Err(DependencyRefusal::Syntax))),
        ("Cache-Tag: ,", Some(Err(DependencyRefusal::Syntax))),
    ] {
        let named = Dependencies::read_purge(&policy, &fields(headers));
        assert_eq!(named.map(|named| named.map(|names| names.len())), expected, "{headers}");
    }
}
