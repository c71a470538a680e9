//! The part of a stored response that is sent: the whole, a range, or none of it in a 304.

mod common;

use common::{NOW, fields, get, store, store_as};
use http::Method;
use responses::{Answer, Policy, Request, Slice, answer};

const STORED: &str = "Cache-Control: max-age=600\nETag: \"1\"\nLast-Modified: Sun, 06 Nov 1994 08:00:00 GMT\n\
                      Content-Type: text/plain\nContent-Length: 10\nVary: Foo";

fn decision(stored: &str, request: &str) -> String {
    let (policy, request) = (Policy::default(), fields(request));
    match answer(&get(&policy, &request), &store(stored).unwrap(), 10, NOW) {
        Answer::Whole => "whole".to_owned(),
        Answer::NotModified => "304".to_owned(),
        Answer::Partial(Slice { start, end }) => format!("{start}..{end}"),
        Answer::NotSatisfiable => "416".to_owned(),
    }
}

#[test]
fn a_client_that_has_the_response_gets_a_304() {
    for (request, expected) in [
        ("", "whole"),
        ("If-None-Match: \"1\"", "304"),
        ("If-None-Match: W/\"1\"", "304"),
        ("If-None-Match: \"0\", \"1\"", "304"),
        ("If-None-Match: \"0\"\nIf-None-Match: \"1\"", "304"),
        ("If-None-Match: *", "304"),
        ("If-None-Match: \"0\"", "whole"),
        ("If-None-Match: 1", "whole"),
        ("If-Modified-Since: Sun, 06 Nov 1994 08:00:00 GMT", "304"),
        ("If-Modified-Since: Sunday, 06-Nov-94 08:00:01 GMT", "304"),
        ("If-Modified-Since: Sun, 06 Nov 1994 07:59:59 GMT", "whole"),
        ("If-Modified-Since: yesterday", "whole"),
        // With a tag the date is no matter.
        ("If-None-Match: \"0\"\nIf-Modified-Since: Sun, 06 Nov 1994 08:00:00 GMT", "whole"),
        ("If-None-Match: \"1\"\nIf-Modified-Since: Sun, 06 Nov 1994 07:00:00 GMT", "304"),
        ("If-None-Match: \"1\"\nRange: bytes=0-1", "304"),
    ] {
        assert_eq!(decision(STORED, request), expected, "{request}");
    }
    // Without Last-Modified the date of the response stands for it.
    let dated = "Cache-Control: max-age=600\nDate: Sun, 06 Nov 1994 08:49:37 GMT";
    assert_eq!(decision(dated, "If-Modified-Since: Sun, 06 Nov 1994 08:49:38 GMT"), "304");
    // Within one second there may have been another response, and after a change within the last minute, too.
    assert_eq!(decision(dated, "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"), "whole");
    let changed = "Cache-Control: max-age=600\nLast-Modified: Sun, 06 Nov 1994 08:49:00 GMT";
    assert_eq!(decision(changed, "If-Modified-Since: Sun, 06 Nov 1994 08:49:00 GMT"), "whole");
}

#[test]
fn a_single_range_is_cut_from_the_whole() {
    for (range, expected) in [
        ("bytes=0-1", "0..2"),
        ("bytes=9-9", "9..10"),
        ("bytes=5-", "5..10"),
        ("bytes=-3", "7..10"),
        ("bytes=-99", "0..10"),
        ("bytes=0-99999999999999999999999", "0..10"),
        ("Bytes= 0-1 ", "0..2"),
        ("bytes=10-", "416"),
        ("bytes=99999999999999999999999-", "416"),
        ("bytes=-0", "416"),
        ("bytes=2-1", "whole"),
        ("bytes=0-1,5-6", "whole"),
        ("bytes=-", "whole"),
        ("bytes=", "whole"),
        ("bytes=+1-2", "whole"),
        ("bytes=1--2", "whole"),
        ("lines=0-1", "whole"),
        ("0-1", "whole"),
    ] {
        assert_eq!(decision(STORED, &format!("Range: {range}")), expected, "{range}");
    }
    assert_eq!(decision(STORED, "Range: bytes=0-1\nRange: bytes=2-3"), "whole");
}

#[test]
fn a_range_counts_only_for_the_response_that_if_range_names() {
    for (condition, expected) in [
        ("\"1\"", "0..2"),
        ("\"0\"", "whole"),
        ("W/\"1\"", "whole"),
        ("Sun, 06 Nov 1994 08:00:00 GMT", "0..2"),
        ("Sun, 06 Nov 1994 08:00:01 GMT", "whole"),
        ("", "whole"),
    ] {
        let request = format!("Range: bytes=0-1\nIf-Range: {condition}");
        assert_eq!(decision(STORED, &request), expected, "{condition}");
    }
    // A date within a minute of the response is a weak validator: it may have changed again.
    let recent = "Cache-Control: max-age=600\nLast-Modified: Sun, 06 Nov 1994 08:49:00 GMT";
    let request = "Range: bytes=0-1\nIf-Range: Sun, 06 Nov 1994 08:49:00 GMT";
    assert_eq!(decision(recent, request), "whole");
}

#[test]
fn conditions_and_ranges_are_for_a_200() {
    let (policy, request) = (Policy::default(), fields("If-None-Match: *\nRange: bytes=0-1"));
    let missing = store_as(&policy, &Method::GET, "", 404, STORED).unwrap();
    assert_eq!(answer(&get(&policy, &request), &missing, 10, NOW), Answer::Whole);
    let head = Request::new(&policy, &Method::HEAD, common::target(), &request);
    let only_range = fields("Range: bytes=0-1");
    let head = Request { headers: &only_range, ..head };
    assert_eq!(answer(&head, &store(STORED).unwrap(), 10, NOW), Answer::Whole, "a range of a HEAD is ignored");
}

#[test]
fn the_answers_have_the_fields_that_they_need() {
    let stored = store(STORED).unwrap();
    let date = "\nDate: Sun, 06 Nov 1994 08:49:37 GMT";
    let check = |answer: Answer, status: u16, expected: &str| {
        assert_eq!(answer.status(&stored).as_u16(), status);
        assert_eq!(answer.fields(&stored, 10, 7), fields(expected), "{answer:?}");
    };
    check(Answer::Whole, 200, &format!("{STORED}{date}\nAge: 7"));
    let partial = STORED.replace("Content-Length: 10", "Content-Length: 2\nContent-Range: bytes 3-4/10");
    check(Answer::Partial(Slice { start: 3, end: 5 }), 206, &format!("{partial}{date}\nAge: 7"));
    let not_modified = STORED.replace("Content-Type: text/plain\nContent-Length: 10\n", "");
    check(Answer::NotModified, 304, &format!("{not_modified}{date}\nAge: 7"));
    check(Answer::NotSatisfiable, 416, "Content-Range: bytes */10\nContent-Length: 0\nAge: 7");
}
