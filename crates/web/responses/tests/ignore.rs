//! Parts of requests that an operator has declared to make no difference, and cookies that make one.

mod common;

use common::{fields, get, store_as};
use http::Method;
use responses::{CookieName, NamePattern, NotStored, Policy};

fn policy(query: &[&str], ignored: &[&str], key: &[&str]) -> Policy {
    let patterns = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Policy {
        ignored_query: patterns(query),
        ignored_cookies: patterns(ignored),
        key_cookies: key.iter().map(|text| text.parse().unwrap()).collect(),
        ..Policy::default()
    }
}

#[test]
fn parameters_are_ignored_by_name_or_begin_and_the_others_stay_as_they_are() {
    let policy = policy(&["utm_*", "fbclid"], &[], &[]);
    for (target, expected) in [
        ("/a", None),
        ("/a?", None),
        ("/a?b=1", None),
        ("/a?xutm_b=1&fbclid2=2", None),
        ("/a?utm_source=x", Some("/a")),
        ("/a?utm_source=x&b=1&fbclid&c=%26", Some("/a?b=1&c=%26")),
        ("/a?b=1&&utm_=&b=2", Some("/a?b=1&&b=2")),
        ("/a?b=utm_source=x", None),
        ("/a?b=1?utm_a=2", None),
    ] {
        assert_eq!(policy.without_ignored(target).as_deref(), expected, "{target}");
    }
    assert_eq!(Policy::default().without_ignored("/a?utm_source=x"), None);
}

#[test]
fn cookies_are_ignored_on_one_line_or_on_several() {
    let policy = policy(&[], &["_ga*", "_fbp"], &[]);
    for (request, expected) in [
        ("Cookie: a=1", "Cookie: a=1"),
        ("Cookie: a=1;  b=2", "Cookie: a=1;  b=2"),
        ("Cookie: _ga=1; a=1; _ga_X=2", "Cookie: a=1"),
        ("Cookie: _ga=1\nCookie: a=1\nCookie: b=_ga", "Cookie: a=1; b=_ga"),
        ("Cookie: _ga=1; _fbp\nX-A: 1", "X-A: 1"),
    ] {
        let mut headers = fields(request);
        policy.drop_ignored_cookies(&mut headers);
        assert_eq!(headers, fields(expected), "{request}");
    }
}

/// A cookie of the key tells responses apart without a `Vary`, and keeps no lifetime from being guessed.
#[test]
fn a_cookie_of_the_key_tells_responses_apart() {
    let policy = policy(&[], &[], &["lang", "site"]);
    let dependent = "Cache-Groups: \"a\"";
    let stored = store_as(&policy, &Method::GET, "Cookie: lang=de", 200, dependent).unwrap();
    assert_eq!(stored.selecting().as_bytes(), b"cookie=lang:=de\ncookie=site\n");
    for (request, expected) in [
        ("Cookie: lang=de", true),
        ("Cookie: session=1; lang=de", true),
        ("Cookie: lang=de; lang=en", false),
        ("Cookie: lang=d", false),
        ("Cookie: lang", false),
        ("Cookie: lang=de; site=2", false),
        ("Cookie: xlang=de", false),
        ("", false),
    ] {
        let headers = fields(request);
        assert_eq!(stored.selecting().matches(&policy, get(&policy, &headers).headers), expected, "{request}");
    }
    let guessed =
        |request: &str| store_as(&policy, &Method::GET, request, 200, dependent).map(drop).map_err(NotStored::name);
    assert_eq!(guessed("Cookie: lang=de; site=1"), Ok(()));
    assert_eq!(guessed("Cookie: lang=de; session=1"), Err("cookies"));
    let varying =
        store_as(&policy, &Method::GET, "Cookie: lang=de", 200, &format!("{dependent}\nVary: cookie")).unwrap();
    assert!(!varying.selecting().matches(&policy, &fields("Cookie: lang=de; session=1")), "the application says so");
}

#[test]
fn patterns_and_names_are_read_as_operators_write_them() {
    for text in ["utm_*", "fbclid", "a.b-c"] {
        assert_eq!(text.parse::<NamePattern>().unwrap().to_string(), text);
    }
    for text in ["", "*", "a*b", "a b", "a=b", "a&b"] {
        assert!(text.parse::<NamePattern>().is_err(), "{text}");
    }
    assert_eq!("lang".parse::<CookieName>().unwrap().as_str(), "lang");
    assert!("lang;".parse::<CookieName>().is_err() && "".parse::<CookieName>().is_err());
}
