//! Stored responses as bytes, and back.

mod common;

use common::{NOW, reuse, store, store_as};
use http::Method;
use responses::{Policy, Stored};

fn again(stored: &Stored) -> Stored {
    Stored::from_bytes(&stored.to_bytes()).expect("it was written")
}

#[test]
fn a_response_that_was_written_is_read_as_it_was() {
    let policy = Policy::default();
    let varied =
        "Cache-Control: max-age=60, stale-if-error=7\nVary: Accept-Language\nAge: 5\nETag: \"a\"\nX-One: 1\nX-One: 2";
    for stored in [
        store_as(&policy, &Method::GET, "Accept-Language: de", 200, varied).unwrap(),
        store("Cache-Control: no-cache\nETag: W/\"a\"").unwrap(),
        store("Last-Modified: Sun, 06 Nov 1994 08:00:00 GMT\nCache-Control: must-revalidate").unwrap(),
        store_as(&policy, &Method::GET, "", 404, "Cache-Control: max-age=60\nX-Latin: \u{e9}").unwrap(),
    ] {
        let read = again(&stored.clone().with_own(&[b"key and content"]));
        assert_eq!((read.fields(), read.selecting()), (stored.fields(), stored.selecting()));
        assert_eq!((read.status(), read.date(), read.own()), (stored.status(), stored.date(), &b""[..]));
        assert_eq!(read.freshness(), stored.freshness());
        assert_eq!(read.has_validator(), stored.has_validator());
        assert_eq!(read.has_strong_validator(), stored.has_strong_validator());
        assert_eq!(read.is_heuristic(), stored.is_heuristic());
        for later_s in [0, 56, 1000] {
            assert_eq!(reuse(&policy, &read, "", later_s), reuse(&policy, &stored, "", later_s));
        }
        assert!(read.freshness().age_s(NOW) < 60);
    }
}

#[test]
fn other_bytes_are_none() {
    let bytes = store("Cache-Control: max-age=60\nX-One: 1").unwrap().to_bytes();
    for end in 0..bytes.len() {
        assert!(Stored::from_bytes(&bytes[..end]).is_none(), "{end}");
    }
    for at in 0..bytes.len() {
        for byte in [0, b'\n', b'\r', b':', 0xff] {
            let mut changed = bytes.clone();
            changed[at] = byte;
            // One that is considered a response is one from which fields can be made.
            if let Some(stored) = Stored::from_bytes(&changed) {
                stored.fields().to_map();
            }
        }
    }
    assert!(Stored::from_bytes(&[&bytes[..], b"x"].concat()).is_none());
}
