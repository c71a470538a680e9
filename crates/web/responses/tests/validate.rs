//! Validation: what the origin is asked, and what its answer changes.

mod common;

use common::{NOW, fields, get, reuse, store};
use http::{Method, StatusCode};
use responses::{
    Freshened, NotStored, Policy, Request, Response, Stored, Validity, conditional, freshen, freshen_by_head,
    unconditional,
};

const STORED: &str = "Cache-Control: max-age=60\nETag: \"1\"\nLast-Modified: Sun, 06 Nov 1994 08:00:00 GMT\n\
                      Content-Length: 10\nX-A: old\nX-B: old\nCache-Groups: \"a\"";

/// The stored response a hundred seconds later, with a 304 that has these fields.
fn freshened(stored: &Stored, request: &str, not_modified: &str) -> Option<Freshened> {
    let (policy, request, headers) = (Policy::default(), fields(request), fields(not_modified));
    let (status, later) = (StatusCode::NOT_MODIFIED, NOW.plus(100));
    freshen(
        &policy,
        &get(&policy, &request),
        stored,
        &Response { status, headers: &headers, requested: later, received: later },
    )
}

#[test]
fn the_origin_is_asked_by_all_validators_and_not_by_the_clients() {
    let mut request = fields("If-None-Match: \"0\"\nIf-Range: \"0\"\nRange: bytes=0-1\nX-A: 1");
    assert!(conditional(&store(STORED).unwrap(), Validity::Current, &mut request));
    let expected = "X-A: 1\nIf-None-Match: \"1\"\nIf-Modified-Since: Sun, 06 Nov 1994 08:00:00 GMT";
    assert_eq!(request, fields(expected));
    let mut request = fields("If-Modified-Since: Sun, 06 Nov 1994 08:00:00 GMT");
    assert!(!conditional(&store("Cache-Control: max-age=60").unwrap(), Validity::Current, &mut request));
    assert_eq!(request, fields(""));
    let mut request = fields("If-Modified-Since: Sun, 06 Nov 1994 08:00:00 GMT\nRange: bytes=0-1\nX-A: 1");
    unconditional(&mut request);
    assert_eq!(request, fields("X-A: 1"));
}

#[test]
fn an_invalidated_response_is_validated_by_strong_validators_alone() {
    // A minute before the response, and in its second: a second change within that would have the same date.
    let (old, recent) = ("Sun, 06 Nov 1994 08:48:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT");
    for (tag, date, expected) in [
        ("\"1\"", old, "If-None-Match: \"1\"\nIf-Modified-Since: Sun, 06 Nov 1994 08:48:37 GMT"),
        ("\"1\"", recent, "If-None-Match: \"1\""),
        ("W/\"1\"", old, "If-Modified-Since: Sun, 06 Nov 1994 08:48:37 GMT"),
        ("W/\"1\"", recent, ""),
    ] {
        let stored = store(&format!("Cache-Control: max-age=60\nETag: {tag}\nLast-Modified: {date}")).unwrap();
        let mut request = fields("");
        let is_conditional = conditional(&stored, Validity::Invalidated, &mut request);
        assert_eq!(request, fields(expected), "{tag} {date}");
        assert_eq!(is_conditional, !expected.is_empty(), "{tag} {date}");
        assert!(conditional(&stored, Validity::Current, &mut request));
    }
}

#[test]
fn a_cookie_that_a_304_sets_is_for_its_client_alone() {
    let stored = store(&format!("{STORED}\nPragma: x")).unwrap();
    let freshened = freshened(&stored, "", "Set-Cookie: session=b\nX-A: new\nCache-Groups: \"a\"").unwrap();
    assert_eq!(freshened.not_stored, None);
    assert_eq!(freshened.stored.fields().get("set-cookie"), None);
    assert_eq!(freshened.answer.fields().get("set-cookie"), Some(b"session=b".as_slice()));
    assert_eq!(freshened.answer.fields().get("x-a"), Some(b"new".as_slice()));
    assert_eq!(freshened.answer.selecting(), freshened.stored.selecting());
}

#[test]
fn a_head_without_a_strong_validator_proves_nothing() {
    for same in ["", "\nETag: W/\"1\"", "\nLast-Modified: Sun, 06 Nov 1994 08:49:00 GMT"] {
        let response = format!("Cache-Control: max-age=60{same}");
        let (policy, none, headers) = (Policy::default(), fields(""), fields(&response));
        let request = Request::new(&policy, &Method::HEAD, common::target(), &none);
        let head = Response { status: StatusCode::OK, headers: &headers, requested: NOW, received: NOW };
        assert!(freshen_by_head(&policy, &request, &store(&response).unwrap(), 10, &head).is_none(), "{same}");
    }
}

#[test]
fn a_304_replaces_fields_and_makes_the_response_young() {
    let stored = store(STORED).unwrap();
    assert_eq!(reuse(&Policy::default(), &stored, "", 100), "revalidate: stale");
    let not_modified = "X-A: new\nX-C: new\nContent-Length: 99\nConnection: x-b\nX-B: of the connection\n\
                        Date: Sun, 06 Nov 1994 08:51:17 GMT\nETag: \"1\"\nAge: 5\nCache-Groups: \"a\"";
    let Freshened { stored, not_stored, .. } = freshened(&stored, "", not_modified).unwrap();
    assert_eq!(not_stored, None);
    let expected = STORED.replace("X-A: old", "X-A: new") + "\nX-C: new\nDate: Sun, 06 Nov 1994 08:51:17 GMT";
    assert_eq!(stored.fields().to_map(), fields(&expected));
    assert_eq!(reuse(&Policy::default(), &stored, "", 154), "fresh");
    assert_eq!(reuse(&Policy::default(), &stored, "", 155), "revalidate: stale");
}

/// The fields of a 304 that names nothing usable, and whether the origin is asked for the whole, or the response
/// removed.
#[test]
fn a_304_whose_field_names_nothing_usable_confirms_no_dependencies() {
    let stored = store(STORED).unwrap();
    for nothing in ["", "Cache-Groups:", "Connection: cache-groups\nCache-Groups: \"b\"", "Surrogate-Key: b"] {
        assert!(freshened(&stored, "", nothing).is_none(), "{nothing}");
    }
    for malformed in ["Cache-Groups: item:1", "Cache-Groups: ()", "Cache-Groups: \"a\", b", "Cache-Groups: 42"] {
        let freshened = freshened(&stored, "", malformed).unwrap();
        assert_eq!(freshened.not_stored, Some(NotStored::Dependencies), "{malformed}");
    }
}

#[test]
fn a_304_may_name_new_dependencies() {
    let freshened = freshened(&store(STORED).unwrap(), "", "Cache-Groups: \"b\", \"c\"").unwrap();
    assert_eq!(freshened.dependencies.iter().collect::<Vec<_>>(), [b"b", b"c"]);
}

/// The same content may come from other rows. Middleware for conditional requests drops all fields from a 304 that it
/// does not know, so what is missing there has not been said.
#[test]
fn a_304_that_leaves_out_the_dependencies_confirms_nothing() {
    let groups = "Cache-Groups: \"a\"\n";
    let of = |stored: &str, not_modified: &str| {
        let stored = store(&format!("Cache-Control: max-age=60\nETag: \"1\"\n{stored}")).unwrap();
        freshened(&stored, "", not_modified)
            .map(|freshened| freshened.dependencies.iter().map(String::from_utf8_lossy).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(of(groups, "ETag: \"1\""), None);
    assert_eq!(of(groups, "ETag: \"1\"\nSurrogate-Key: b"), None, "what the other field named is not known");
    assert_eq!(of(&format!("{groups}Surrogate-Key: b"), groups), None, "one of two fields");
    assert_eq!(of(groups, &format!("{groups}Surrogate-Key: b")).as_deref(), Some("a b"));
    assert_eq!(of(groups, "Cache-Groups:"), None, "what empties the field may be what drops it elsewhere");
    assert_eq!(of("Cache-Groups:\n", "Cache-Groups:").as_deref(), Some(""), "it named none before");
    assert_eq!(of("", "ETag: \"1\"").as_deref(), Some(""), "it never named any");
    assert_eq!(of("", groups).as_deref(), Some("a"));
}

#[test]
fn a_304_without_a_date_is_of_now() {
    let stored = freshened(&store(STORED).unwrap(), "", "Cache-Groups: \"a\"").unwrap().stored;
    assert_eq!(stored.date(), NOW.plus(100));
    assert_eq!(stored.fields().get("date"), Some(b"Sun, 06 Nov 1994 08:51:17 GMT".as_slice()));
}

#[test]
fn a_304_is_about_the_response_whose_tag_it_has() {
    let stored = store(STORED).unwrap();
    let with_tag = |tag: &str| freshened(&stored, "", &format!("ETag: {tag}\nCache-Groups: \"a\"")).is_some();
    assert!(with_tag("\"1\"") && with_tag("W/\"1\""));
    assert!(!with_tag("\"2\""));
}

#[test]
fn a_304_that_forbids_storing_answers_and_no_more() {
    for (request, not_modified, reason) in [
        ("", "Cache-Control: no-store", "no-store"),
        ("", "Cache-Control: private", "private"),
        ("", "Vary: *", "vary-star"),
        ("", "Cache-Groups: \"open", "dependencies"),
        ("Authorization: Basic YQ==", "", "credentials"),
    ] {
        let stored = store(STORED).unwrap();
        let groups = if not_modified.starts_with("Cache-Groups") { "" } else { "Cache-Groups: \"a\"" };
        let freshened = freshened(&stored, request, &format!("{not_modified}\nX-A: new\n{groups}")).unwrap();
        assert_eq!(freshened.not_stored.map(NotStored::name), Some(reason), "{not_modified}");
        assert_eq!(freshened.stored.fields().get("x-a"), Some(b"new".as_slice()), "{not_modified}");
    }
}

#[test]
fn a_head_freshens_what_it_agrees_with() {
    let policy = Policy::default();
    let stored = store(STORED).unwrap();
    let of_head = |status: u16, head: &str| {
        let (none, headers, later) = (fields(""), fields(head), NOW.plus(100));
        let request = Request::new(&policy, &Method::HEAD, common::target(), &none);
        let status = StatusCode::from_u16(status).unwrap();
        let response = Response { status, headers: &headers, requested: later, received: later };
        freshen_by_head(&policy, &request, &stored, 10, &response)
    };
    let freshened = of_head(200, &STORED.replace("X-A: old", "X-A: new")).unwrap();
    assert_eq!(freshened.not_stored, None);
    assert_eq!(freshened.stored.fields().get("x-a"), Some(b"new".as_slice()));
    assert_eq!(reuse(&policy, &freshened.stored, "", 150), "fresh");
    for (status, differs) in [
        (404, STORED.to_owned()),
        (200, STORED.replace("Content-Length: 10", "Content-Length: 11")),
        (200, STORED.replace("ETag: \"1\"", "ETag: \"2\"")),
        (200, STORED.replace("ETag: \"1\"\n", "")),
        (200, STORED.replace("08:00:00", "08:00:01")),
        (200, STORED.replace("\nCache-Groups: \"a\"", "")),
        (200, format!("{STORED}\nContent-Encoding: gzip")),
    ] {
        assert!(of_head(status, &differs).is_none(), "{status} {differs}");
    }
}
