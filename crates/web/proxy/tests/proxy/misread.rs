//! Fields of the origin that coherence depends on and that cannot be read never cause a stale answer.

use crate::harness::{Client, Origin, config, raw_origin, response};
use http::HeaderValue;
use proxy::{Note, Proxy};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};

/// A shop of one page that names its dependencies by `groups`, and is changed by a POST that names the change by
/// `changed`.
fn shop(groups: &'static str, changed: &'static str) -> Origin {
    let value = AtomicUsize::new(1);
    Origin::start(move |request| {
        if request.method() == "POST" {
            value.fetch_add(1, SeqCst);
            return response(200, &[("cache-group-invalidation", changed)], "");
        }
        let fields = [("cache-control", "max-age=86400"), ("cache-groups", groups)];
        response(200, &fields, value.load(SeqCst).to_string())
    })
}

/// A proxy that reports fields it cannot read, and has a listener for operators.
fn start(origin: &Origin) -> (Proxy, mpsc::Receiver<Note>) {
    let (notes, noted) = mpsc::channel();
    let mut config = config(origin.address);
    config.notes = Some(notes);
    config.admin = Some("127.0.0.1:0".parse().unwrap());
    (Proxy::start(config).unwrap(), noted)
}

#[test]
fn a_response_whose_dependencies_cannot_be_read_is_not_stored() {
    for groups in ["item:1", "item:1, \"b\"", "42", "(\"item:1\")"] {
        let (proxy, noted) = start(&shop(groups, "\"item:1\""));
        let mut client = Client::connect(proxy.address());
        for _ in 0..2 {
            let status = client.get("/page").field("cache-status").unwrap();
            assert_eq!(status, "thorp; fwd=uri-miss; detail=dependencies-syntax", "{groups}");
        }
        client.ask("POST", "/change", "Content-Length: 0\r\n");
        assert_eq!(client.get("/page").text(), "2", "{groups}");
        assert_eq!(proxy.tally().not_stored, [("dependencies-syntax", 3)]);
        let notes: Vec<String> = noted.try_iter().map(|note| note.to_string()).collect();
        assert_eq!(notes.len(), 1, "it is said once a minute: {notes:?}");
        assert!(notes[0].contains("http://shop.example/page") && notes[0].contains("in quotes"), "{notes:?}");
    }
}

#[test]
fn a_change_whose_names_cannot_be_read_invalidates_everything() {
    for changed in ["item:1", "*", "42", "(\"item:1\")", "\"a\", token"] {
        let (proxy, noted) = start(&shop("\"item:1\"", changed));
        let mut client = Client::connect(proxy.address());
        client.get("/page");
        assert!(client.get("/page").is_hit());
        let status = client.ask("POST", "/change", "Content-Length: 0\r\n").field("cache-status").unwrap();
        assert_eq!(status, "thorp; fwd=method; detail=all-invalidated", "{changed}");
        assert_eq!(client.get("/page").text(), "2", "{changed}");
        assert_eq!(proxy.tally().changes_misread, 1);
        assert_eq!(noted.try_recv().unwrap().name(), "field-misread");
    }
}

/// The 304 of the first validation empties the field. The origin is asked once more for the dependencies.
#[test]
fn a_304_with_a_field_that_names_nothing_does_not_take_the_dependencies_away() {
    for groups in ["", "item:1", "()"] {
        let value = Arc::new(AtomicUsize::new(1));
        let now = value.clone();
        let origin = Origin::start(move |request| {
            let value = now.load(SeqCst);
            let tag = HeaderValue::try_from(format!("\"{value}\"")).unwrap();
            let is_known = request.headers().get("if-none-match") == Some(&tag);
            let (status, groups) = if is_known { (304, groups) } else { (200, "\"item:1\"") };
            let fields = [("cache-control", "max-age=86400"), ("cache-groups", groups)];
            let mut response = response(status, &fields, if is_known { String::new() } else { value.to_string() });
            response.headers_mut().insert("etag", tag);
            response
        });
        let (proxy, _noted) = start(&origin);
        let (mut client, mut operator) =
            (Client::connect(proxy.address()), Client::connect(proxy.admin_address().unwrap()));
        let mut purge = || {
            operator.write("PURGE / HTTP/1.1\r\nHost: localhost\r\nSurrogate-Key: item:1\r\n\r\n");
            assert_eq!(operator.read().unwrap().status, 200);
        };
        client.get("/page");
        purge();
        assert_eq!(client.get("/page").text(), "1");
        value.store(2, SeqCst);
        purge();
        assert_eq!(client.get("/page").text(), "2", "`{groups}`");
    }
}

#[test]
fn dependencies_behind_the_body_keep_a_response_from_being_stored() {
    let address = raw_origin(&[
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\nTrailer: Cache-Groups\r\n\r\n\
         1\r\na\r\n0\r\nCache-Groups: \"item:1\"\r\n\r\n",
    ]);
    let proxy = Proxy::start(config(address)).unwrap();
    for _ in 0..2 {
        assert_eq!(Client::connect(proxy.address()).get("/page").text(), "a");
    }
    assert_eq!(proxy.tally().hits, 0);
    assert_eq!(proxy.tally().not_stored, [("dependencies-trailer", 2)]);
}

#[test]
fn a_purge_whose_names_cannot_be_read_is_refused() {
    let (proxy, _noted) = start(&shop("\"item:1\"", ""));
    let mut operator = Client::connect(proxy.admin_address().unwrap());
    for names in ["Cache-Groups: item:1", "Cache-Groups:", "Cache-Tag: ,"] {
        operator.write(format!("PURGE /page HTTP/1.1\r\nHost: localhost\r\n{names}\r\n\r\n"));
        let answer = operator.read().unwrap();
        assert_eq!(answer.status, 400, "{names}");
        assert!(answer.text().contains("dependencies-syntax"), "{answer:?}");
    }
}
