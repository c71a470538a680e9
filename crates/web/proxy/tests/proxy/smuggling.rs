//! Requests that two parsers could take for different ones. Each is refused, or passed on in one unmistakable form, and
//! the connection that it came on carries no request that its sender did not frame.

use crate::harness::{Client, Origin, proxy, response};

/// Sends bytes on a connection of their own; gives the statuses of all answers, and what the origin got.
fn send(bytes: &str) -> (Vec<u16>, Vec<String>) {
    let origin = Origin::start(|_| response(200, &[("cache-control", "no-store")], "ok"));
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    client.write(bytes);
    let mut statuses = Vec::new();
    while let Some(answer) = client.read() {
        statuses.push(answer.status);
    }
    let received = origin.received().into_iter().map(|request| format!("{} {}", request.method(), request.uri()));
    (statuses, received.collect())
}

/// The request behind an ambiguous one. It asks for the connection's end, so that a test ends when it is served.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: one\r\nConnection: close\r\n\r\n";

#[track_caller]
fn check_refused(name: &str, head: &str) {
    let (statuses, received) = send(&format!("{head}{SMUGGLED}"));
    assert!(matches!(statuses[..], [400 | 431 | 505]), "{name}: {statuses:?}");
    assert!(received.is_empty(), "{name}: the origin got {received:?}");
}

#[test]
fn lengths_and_codings_that_contradict_each_other() {
    let post = |fields: &str, body: &str| format!("POST / HTTP/1.1\r\nHost: one\r\n{fields}\r\n{body}");
    check_refused("two lengths", &post("Content-Length: 1\r\nContent-Length: 0\r\n", ""));
    check_refused("a list of lengths", &post("Content-Length: 1, 0\r\n", ""));
    check_refused("a signed length", &post("Content-Length: +1\r\n", "a"));
    check_refused("a negative length", &post("Content-Length: -1\r\n", ""));
    check_refused("a hexadecimal length", &post("Content-Length: 0x1\r\n", "a"));
    check_refused("an endless length", &post("Content-Length: 99999999999999999999\r\n", ""));
    check_refused("a coding behind chunked", &post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"));
    check_refused("a coding that is not chunked", &post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"));
    check_refused("a quoted coding", &post("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n"));
    check_refused("space before the colon", &post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"));
    check_refused("a folded field", &post("X: 1\r\n Transfer-Encoding: chunked\r\n", "0\r\n\r\n"));
    check_refused("a zero byte in a field", &post("X: a\0b\r\n", ""));
    check_refused("a bare line break in a name", &post("X\n: 1\r\n", ""));
    let old = "POST / HTTP/1.0\r\nHost: one\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    check_refused("chunked in HTTP/1.0", old);
}

/// RFC 9112, section 6.3: the coding counts, and the connection ends with the response. An attacker's length reaches
/// nobody: the origin gets the body framed again.
#[test]
fn a_length_beside_a_coding_frames_nothing() {
    for fields in
        ["Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"]
    {
        let request = format!("POST / HTTP/1.1\r\nHost: one\r\n{fields}\r\n0\r\n\r\n{SMUGGLED}");
        let (statuses, received) = send(&request);
        assert_eq!(statuses, [200], "the connection ends behind the first response");
        assert_eq!(received, ["POST /"]);
    }
}

#[test]
fn chunks_that_are_none() {
    for chunks in [
        "x\r\n\r\n",
        "1;\nabc\r\n0\r\n\r\n",
        "fffffffffffffffff\r\n",
        "-1\r\n",
        "1\r\nabc\r\n0\r\n\r\n",
        "0x1\r\na\r\n0\r\n\r\n",
    ] {
        let request = format!("POST / HTTP/1.1\r\nHost: one\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}{SMUGGLED}");
        let (statuses, received) = send(&request);
        assert_eq!((&statuses[..], &received[..]), (&[400][..], &[][..]), "{chunks:?}");
    }
}

/// To hyper, a line of trailers ends in CR and LF alone: the request behind would be a trailer, too.
#[test]
fn trailers_that_end_in_a_bare_line_feed() {
    let post = |trailers: &str| {
        send(&format!(
            "POST / HTTP/1.1\r\nHost: one\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n{trailers}{SMUGGLED}"
        ))
    };
    for trailers in ["A: b\n\r\n", "A: b\n\n", "\n", "A: b\r\n\n", "A: b\rC: d\r\n\r\n"] {
        let (statuses, received) = post(trailers);
        assert_eq!((&statuses[..], &received[..]), (&[400][..], &[][..]), "{trailers:?}");
    }
    for trailers in ["\r\n", "A: b\r\n\r\n", "A: b\r\nC: d\r\n\r\n"] {
        let (statuses, received) = post(trailers);
        assert_eq!((&statuses[..], received.len()), (&[200, 200][..], 2), "{trailers:?}");
    }
}

/// The proxy undoes `chunked` and nothing else: the application would get a coded body without knowing.
#[test]
fn a_body_in_another_transfer_coding() {
    for codings in ["gzip, chunked", "gzip\r\nTransfer-Encoding: chunked", "identity, chunked"] {
        let request =
            format!("POST / HTTP/1.1\r\nHost: one\r\nTransfer-Encoding: {codings}\r\n\r\n0\r\n\r\n{SMUGGLED}");
        let (statuses, received) = send(&request);
        assert_eq!((statuses.first(), received.contains(&"POST /".to_owned())), (Some(&501), false), "{codings}");
    }
}

/// On HTTP/2 a length is a field like any other.
#[test]
fn an_http2_request_with_several_lengths() {
    let origin = Origin::start(|_| response(200, &[("cache-control", "no-store")], "ok"));
    let proxy = proxy(&origin);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let status = |lengths: &'static [&'static str]| {
        runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(proxy.address()).await.unwrap();
            let executor = hyper_util::rt::TokioExecutor::new();
            let io = hyper_util::rt::TokioIo::new(stream);
            let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
            tokio::spawn(connection);
            let mut request = http::Request::post("http://one/");
            for length in lengths {
                request = request.header("content-length", *length);
            }
            let body = http_body_util::Full::new(bytes::Bytes::from_static(b"hello"));
            sender.send_request(request.body(body).unwrap()).await.map(|answer| answer.status().as_u16()).ok()
        })
    };
    assert_eq!(status(&["5"]), Some(200));
    for lengths in [&["5", "5"][..], &["5", "6"], &["5, 5"], &["+5"]] {
        // The library below may have refused it without an answer.
        assert!(matches!(status(lengths), Some(400) | None), "{lengths:?}");
    }
    assert_eq!(origin.received().len(), 1);
}

#[test]
fn hosts_that_contradict_each_other() {
    let get = |line: &str, fields: &str| format!("{line}\r\n{fields}Connection: close\r\n\r\n");
    for (name, request) in [
        ("two hosts", get("GET / HTTP/1.1", "Host: one\r\nHost: two\r\n")),
        ("the same host twice", get("GET / HTTP/1.1", "Host: one\r\nHost: one\r\n")),
        ("no host", get("GET / HTTP/1.1", "")),
        ("an empty host", get("GET / HTTP/1.1", "Host:\r\n")),
        ("a host with a path", get("GET / HTTP/1.1", "Host: one/two\r\n")),
        ("a host with a user", get("GET / HTTP/1.1", "Host: one@two\r\n")),
        ("a target of another host", get("GET http://two/ HTTP/1.1", "Host: one\r\n")),
    ] {
        let (statuses, received) = send(&request);
        assert_eq!((&statuses[..], received.len()), (&[400][..], 0), "{name}");
    }
    let (statuses, received) = send(&get("GET http://one/a HTTP/1.1", "Host: one\r\n"));
    assert_eq!((statuses, received), (vec![200], vec!["GET /a".to_owned()]));
    let (statuses, received) = send(&get("GET https://one/a HTTP/1.1", "Host: one\r\n"));
    assert_eq!((statuses, received.len()), (vec![421], 0));
}

/// Fields that are not in the key must not change what others get.
#[test]
fn a_response_is_not_poisoned_by_fields_outside_of_its_key() {
    let origin = Origin::start(|request| {
        let said: Vec<String> = ["x-forwarded-host", "x-original-url", "x-forwarded-scheme", "x-http-method-override"]
            .iter()
            .filter_map(|name| request.headers().get(*name))
            .map(|value| value.to_str().unwrap().to_owned())
            .collect();
        response(200, &[("cache-control", "max-age=60")], said.join(" "))
    });
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    let evil = "X-Forwarded-Host: evil\r\nX-Original-URL: /evil\r\nX-Forwarded-Scheme: evil\r\nX-HTTP-Method-Override: EVIL\r\n";
    assert_eq!(client.ask("GET", "/", evil).text(), "shop.example");
    assert!(client.get("/").is_hit());
    let body = "GET /fat HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 4\r\n\r\nevil";
    client.write(body);
    let fat = client.read().unwrap();
    assert!(fat.field("cache-status").unwrap().contains("fwd=bypass"), "{fat:?}");
    assert!(!client.get("/fat").is_hit(), "a GET with content fills no cache");
}

/// A server of WSGI, CGI or Rack has one name for `X-Original-URL` and `X_Original_URL`.
#[test]
fn names_with_underscores_do_not_reach_the_application() {
    let named = |request: &http::Request<bytes::Bytes>| {
        let mut names: Vec<_> = request.headers().keys().map(|name| name.as_str().replace('_', "-")).collect();
        names.sort();
        names.join(" ")
    };
    let origin = Origin::start(move |request| response(200, &[("cache-control", "max-age=60")], named(request)));
    let mut config = crate::harness::config(origin.address);
    let (notes, noted) = std::sync::mpsc::channel();
    config.notes = Some(notes);
    let evil =
        "X_Original_URL: /admin\r\nX_HTTP-Method_Override: DELETE\r\nX_Forwarded_For: 6.6.6.6\r\nX_Tenant: 1\r\n";
    let usual = "forwarded host surrogate-capability via x-forwarded-for x-forwarded-host x-forwarded-proto";
    let proxy = proxy::Proxy::start(config.clone()).unwrap();
    let mut client = Client::connect(proxy.address());
    assert_eq!(client.ask("GET", "/", evil).text(), usual);
    assert!(client.ask("GET", "/", "X_Tenant: 2\r\n").is_hit(), "the field selects nothing");
    assert_eq!(client.ask("POST", "/", evil).text(), format!("content-length {usual}"));
    let mut texts: Vec<_> = noted.try_iter().map(|note| note.to_string()).collect();
    texts.sort();
    assert_eq!(texts.len(), 4, "each name is noted once: {texts:?}");
    assert!(texts[0].contains("'x_forwarded_for'"), "{texts:?}");
    let counts = proxy.tally().dropped_fields;
    let count = |name: &str| counts.iter().find(|(other, _)| other == name).map(|(_, count)| *count);
    assert_eq!((count("x_original_url"), count("x_tenant")), (Some(2), Some(2)));

    config.keep_underscores = true;
    let proxy = proxy::Proxy::start(config).unwrap();
    let kept = Client::connect(proxy.address()).ask("GET", "/", evil).text().to_owned();
    assert_eq!(kept, format!("{usual} x-tenant"), "what only the proxy may say is dropped all the same");
}

#[test]
fn fields_that_rewrite_a_request_do_not_reach_the_application() {
    let origin = Origin::start(|request| {
        let is_evil = |value: &http::HeaderValue| value.as_bytes().starts_with(b"evil");
        let said = request.headers().iter().filter(|(_, value)| is_evil(value)).map(|(name, _)| name.as_str());
        response(200, &[("cache-control", "no-store")], said.collect::<Vec<_>>().join(" "))
    });
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    for name in [
        "Client-IP",
        "Front-End-Https",
        "Proxy",
        "X-Client-IP",
        "X-Forwarded-Port",
        "X-Forwarded-Prefix",
        "X-Forwarded-Scheme",
        "X-Forwarded-Ssl",
        "X-Host",
        "X-HTTP-Method",
        "X-HTTP-Method-Override",
        "X-Method-Override",
        "X-Middleware-Subrequest",
        "X-Original-Host",
        "X-Original-URL",
        "X-Real-IP",
        "X-Rewrite-URL",
    ] {
        assert_eq!(client.ask("GET", "/", &format!("{name}: evil\r\n")).text(), "", "{name}");
    }
}

/// An application that tells spellings of its host apart gets the one that is in the key.
#[test]
fn a_spelling_of_the_host_does_not_poison_the_others() {
    let origin = Origin::start(|request| {
        let is_known = request.headers()["host"] == "shop.example";
        response(if is_known { 200 } else { 404 }, &[("cache-control", "max-age=60")], "made")
    });
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    client.write("GET / HTTP/1.1\r\nHost: SHOP.example\r\n\r\n");
    assert_eq!(client.read().unwrap().status, 200);
    client.write("GET http://Shop.EXAMPLE/absolute HTTP/1.1\r\nHost: shop.example\r\n\r\n");
    assert_eq!(client.read().unwrap().status, 200);
    assert_eq!((client.get("/").status, client.get("/absolute").is_hit()), (200, true));
}
