//! Requests and responses are passed on as RFC 9110 has it.

use crate::harness::{Client, Origin, Step, Stepped, config, proxy, raw_origin, response};
use proxy::Proxy;
use std::io::{Read, Write};

#[test]
fn a_request_arrives_with_what_was_said_and_where_it_came_from() {
    let origin = Origin::start(|_| {
        response(200, &[("cache-control", "no-store"), ("connection", "x-hop"), ("x-hop", "1")], "made")
    });
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    let body =
        "Transfer-Encoding: chunked\r\nConnection: close, X-Secret\r\nX-Secret: 1\r\nX-Forwarded-For: 9.9.9.9\r\n";
    client.write(format!("POST /a?b=%20c HTTP/1.1\r\nHost: Shop.Example:8080\r\n{body}\r\n3\r\nabc\r\n0\r\n\r\n"));
    let answer = client.read().unwrap();
    assert_eq!((answer.status, answer.text()), (200, "made"));
    assert_eq!(answer.field("x-hop"), None, "it was for the connection to the origin");
    assert!(answer.field("via").unwrap().starts_with("1.1 thorp-"));
    assert!(answer.field("cache-status").unwrap().contains("fwd=method"));
    let received = &origin.received()[0];
    assert_eq!((received.method().as_str(), received.uri().to_string().as_str()), ("POST", "/a?b=%20c"));
    assert_eq!(received.body(), "abc");
    let field = |name: &str| received.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(field("host").unwrap(), "shop.example:8080");
    assert_eq!(field("x-forwarded-for").unwrap(), "127.0.0.1");
    assert_eq!(field("forwarded").unwrap(), "for=127.0.0.1;host=\"shop.example:8080\";proto=http");
    assert_eq!(field("x-secret"), None, "Connection names it");
    assert!(field("via").unwrap().starts_with("1.1 thorp-"));
}

/// An application may name what a response depends on a line each.
#[test]
fn an_origin_may_have_a_thousand_lines_of_fields() {
    let origin = Origin::start(|request| {
        let mut response = response(200, &[("cache-control", "max-age=60")], "made");
        let count: usize = request.uri().path().trim_start_matches('/').parse().unwrap();
        for number in 0..count {
            response.headers_mut().append("cache-groups", format!("\"item:{number}\"").parse().unwrap());
        }
        response
    });
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    client.get("/1000");
    let answer = client.get("/1000");
    assert!(answer.is_hit(), "{:?}", answer.field("cache-status"));
    assert!(answer.field("cache-groups").unwrap().ends_with("\"item:999\""));
    let refused = client.get("/1025");
    assert_eq!((refused.status, refused.text().starts_with("origin-head: ")), (502, true), "{refused:?}");
}

/// The origin gets the length of the body, not the length that its client has stated.
#[test]
fn a_body_of_unknown_length_arrives_whatever_the_method() {
    let origin = Origin::start(|request| response(200, &[("cache-control", "no-store")], request.body().clone()));
    let mut config = config(origin.address);
    config.stream_uploads = vec!["/live".to_owned()];
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address());
    for (method, path) in [("GET", "/"), ("DELETE", "/"), ("POST", "/"), ("GET", "/live"), ("POST", "/live")] {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: one\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.write(head + "7\r\n{\"q\":1}\r\n0\r\n\r\n");
        assert_eq!(client.read().unwrap().text(), "{\"q\":1}", "{method} {path}");
    }
    client.write("POST /empty HTTP/1.1\r\nHost: one\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!(client.read().unwrap().status, 200);
    let is_framed = |name: &str| origin.received().last().unwrap().headers().contains_key(name);
    assert!(is_framed("content-length") && !is_framed("transfer-encoding"));
}

/// RFC 9112, section 6.3: the coding counts, and the length is dropped.
#[test]
fn a_length_that_the_origin_contradicts_is_not_passed_on() {
    let chunked = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    for length in [3, 100] {
        let answer = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {length}\r\n{chunked}");
        let proxy = Proxy::start(config(raw_origin(vec![&*answer.leak()].leak()))).unwrap();
        let mut client = Client::connect(proxy.address());
        for is_hit in [false, true] {
            let answer = client.get("/");
            assert_eq!((answer.text(), answer.is_hit()), ("hello", is_hit), "{length}");
        }
    }
    let coded = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello";
    let proxy = Proxy::start(config(raw_origin(vec![coded].leak()))).unwrap();
    assert_eq!(Client::connect(proxy.address()).get("/").status, 502, "nobody has asked for this coding");
}

#[test]
fn a_switch_to_another_protocol_that_nobody_has_asked_for_is_not_passed_on() {
    for (protocol, status) in [("websocket", 101), ("h2c", 502)] {
        let answer = format!("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: {protocol}\r\n\r\n");
        let proxy = Proxy::start(config(raw_origin(vec![&*answer.leak()].leak()))).unwrap();
        let mut client = Client::connect(proxy.address());
        assert_eq!(client.get("/").status, 502, "{protocol}");
        let asked = client.ask("GET", "/", "Connection: Upgrade\r\nUpgrade: websocket\r\n");
        assert_eq!(asked.status, status, "{protocol}");
        let asked = Client::connect(proxy.address()).ask("POST", "/", "Content-Length: 0\r\n");
        assert_eq!(asked.status, 502, "{protocol}");
    }
}

#[test]
fn early_hints_reach_the_client_before_the_response() {
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </s.css>; rel=preload\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\n";
    let response = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
    let origin = Stepped::start(move |_, _| {
        vec![Step::Send(hints.into()), Step::Send(hints.into()), Step::Wait, Step::Send(response.into())]
    });
    let proxy = Proxy::start(config(origin.address)).unwrap();
    let mut client = Client::connect(proxy.address());
    for method in ["GET", "DELETE"] {
        client.write(format!("{method} / HTTP/1.1\r\nHost: shop.example\r\n\r\n"));
        for _ in 0..2 {
            for line in ["HTTP/1.1 103 Early Hints", "link: </s.css>; rel=preload", ""] {
                assert_eq!(client.line().as_deref(), Some(line));
            }
        }
        origin.go();
        let answer = client.read().unwrap();
        assert_eq!((answer.status, answer.text()), (200, "ok"), "{method}");
    }
    let old = "GET /old HTTP/1.0\r\nHost: shop.example\r\n\r\n";
    client.write(old);
    origin.go();
    assert_eq!(client.read().unwrap().status, 200, "HTTP/1.0 has no such responses");
}

#[test]
fn large_bodies_pass_both_ways() {
    let large: Vec<u8> = (0..40 << 20).map(|index: u32| (index % 253) as u8).collect();
    let origin = Origin::start(|request| response(200, &[("cache-control", "no-store")], request.body().clone()));
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    client.write(format!("PUT /large HTTP/1.1\r\nHost: one\r\nContent-Length: {}\r\n\r\n", large.len()));
    client.write(&large);
    let answer = client.read().unwrap();
    assert!(answer.body == large, "{} bytes came back", answer.body.len());
}

#[test]
fn http2_is_spoken_to_clients_and_to_the_origin() {
    for is_http2 in [false, true] {
        let origin = Origin::start_as(is_http2, None, |request| {
            response(
                200,
                &[("cache-control", "max-age=60"), ("x-version", &format!("{:?}", request.version()))],
                "made",
            )
        });
        let mut config = config(origin.address);
        config.origin_http2 = is_http2;
        let proxy = Proxy::start(config).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let asked = runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(proxy.address()).await.unwrap();
            let io = hyper_util::rt::TokioIo::new(stream);
            let executor = hyper_util::rt::TokioExecutor::new();
            let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
            tokio::spawn(connection);
            let mut answers = Vec::new();
            for _ in 0..2 {
                let request =
                    http::Request::get("http://shop.example/a").body(http_body_util::Empty::<bytes::Bytes>::new());
                let answer = sender.send_request(request.unwrap()).await.unwrap();
                let (head, body) = answer.into_parts();
                answers.push((head, http_body_util::BodyExt::collect(body).await.unwrap().to_bytes()));
            }
            answers
        });
        let expected = if is_http2 { "HTTP/2.0" } else { "HTTP/1.1" };
        for (head, body) in &asked {
            assert_eq!(
                (head.status.as_u16(), &body[..], head.headers["x-version"] == *expected),
                (200, &b"made"[..], true)
            );
        }
        assert!(asked[1].0.headers["cache-status"].to_str().unwrap().contains("; hit"));
        assert_eq!(origin.received().len(), 1);
    }
}

#[test]
fn an_origin_that_fails_is_told_by_a_named_reason() {
    let cases = [
        ("", 502, "connection_terminated"),
        ("nonsense\r\n\r\n", 502, "http_protocol_error"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 502, "http_protocol_error"),
    ];
    for (answer, status, error) in cases {
        let answers: &'static [&'static str] = Vec::leak(vec![answer]);
        let proxy = Proxy::start(config(raw_origin(answers))).unwrap();
        let answer = Client::connect(proxy.address()).get("/");
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.field("proxy-status").unwrap().contains(error), "{answer:?}");
    }
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Proxy::start(config(nobody)).unwrap();
    let answer = Client::connect(proxy.address()).get("/");
    assert_eq!(answer.status, 502);
    assert!(answer.field("proxy-status").unwrap().contains("connection_refused"), "{answer:?}");
    assert_eq!(proxy.tally().refusals, [("origin-unreachable", 1)]);
}

/// The origin closes a connection that it had kept open, at the moment at which it is used again.
#[test]
fn a_request_survives_a_connection_that_the_origin_has_closed() {
    static ANSWERS: &[&str] = &["HTTP/1.1 200 OK\r\nContent-Length: 2\r\nCache-Control: no-store\r\n\r\nok"];
    let proxy = Proxy::start(config(raw_origin(ANSWERS))).unwrap();
    let mut client = Client::connect(proxy.address());
    for _ in 0..50 {
        assert_eq!(client.get("/").text(), "ok");
    }
}

#[test]
fn a_response_that_breaks_off_breaks_off_for_the_client() {
    static ANSWERS: &[&str] = &["HTTP/1.1 200 OK\r\nContent-Length: 100\r\nCache-Control: max-age=60\r\n\r\nonly this"];
    let proxy = Proxy::start(config(raw_origin(ANSWERS))).unwrap();
    for _ in 0..2 {
        let mut client = Client::connect(proxy.address());
        client.write("GET / HTTP/1.1\r\nHost: one\r\n\r\n");
        assert_eq!(client.read(), None, "a part is not taken for the whole, and not stored");
    }
}

#[test]
fn a_loop_ends() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut config = config(address);
    config.listen = address;
    let proxy = Proxy::start(config).unwrap();
    let answer = Client::connect(proxy.address()).get("/");
    assert_eq!(answer.status, 508);
    assert!(answer.field("proxy-status").unwrap().contains("proxy_loop_detected"), "{answer:?}");
}

#[test]
fn max_forwards_connect_and_trace_end_here() {
    let origin = Origin::start(|request| {
        let left = request.headers().get("max-forwards").map_or("none", |value| value.to_str().unwrap());
        response(200, &[("x-left", left)], "")
    });
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    assert!(client.ask("OPTIONS", "*", "Max-Forwards: 0\r\n").field("allow").unwrap().contains("GET"));
    assert!(origin.received().is_empty());
    assert_eq!(client.ask("OPTIONS", "*", "Max-Forwards: 1\r\n").field("x-left").unwrap(), "0");
    assert_eq!(origin.received()[0].uri(), "*");
    assert_eq!(client.ask("OPTIONS", "/", "Max-Forwards: x\r\n").status, 400);
    assert_eq!(client.ask("TRACE", "/", "").status, 501);
    assert_eq!(client.ask("CONNECT", "shop.example:80", "").status, 501);
}

#[test]
fn a_client_that_expects_to_be_asked_for_its_body_is() {
    let origin = Origin::start(|request| response(200, &[], request.body().clone()));
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    client.write("POST / HTTP/1.1\r\nHost: one\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.line().unwrap(), "HTTP/1.1 100 Continue");
    assert_eq!(client.line().unwrap(), "");
    client.write("body");
    assert_eq!(client.read().unwrap().text(), "body");
}

#[test]
fn a_web_socket_is_carried_and_h2c_is_not() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start(config(listener.local_addr().unwrap())).unwrap();
    let origin = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        let switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello";
        stream.write_all(switched.as_bytes()).unwrap();
        let mut said = [0; 4];
        stream.read_exact(&mut said).unwrap();
        stream.write_all(&said).unwrap();
        String::from_utf8(head).unwrap()
    });
    let mut client = Client::connect(proxy.address());
    let answer = client.ask("GET", "/chat", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n");
    assert_eq!((answer.status, answer.field("upgrade").unwrap().as_str()), (101, "websocket"));
    assert_eq!(client.bytes(5).unwrap(), b"hello");
    client.write("ping");
    assert_eq!(client.rest(), b"ping");
    assert!(origin.join().unwrap().contains("sec-websocket-key: x"));

    let origin = Origin::start(|request| {
        let is_asked = request.headers().contains_key("upgrade") || request.headers().contains_key("http2-settings");
        response(200, &[], if is_asked { "asked" } else { "not asked" })
    });
    let proxy = crate::harness::proxy(&origin);
    let fields = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
    let answer = Client::connect(proxy.address()).ask("GET", "/", fields);
    assert_eq!((answer.status, answer.text()), (200, "not asked"));
}

#[test]
fn requests_under_way_end_when_the_proxy_stops() {
    let (begun, wait) = std::sync::mpsc::channel();
    let begun = std::sync::Mutex::new(begun);
    let origin = Origin::start(move |_| {
        begun.lock().unwrap().send(()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        response(200, &[], "late")
    });
    let mut proxy = proxy(&origin);
    let (mut idle, mut client) = (Client::connect(proxy.address()), Client::connect(proxy.address()));
    client.write("GET / HTTP/1.1\r\nHost: one\r\n\r\n");
    wait.recv().unwrap();
    proxy.stop();
    assert_eq!(client.read().unwrap().text(), "late");
    assert!(idle.rest().is_empty());
    proxy.wait().unwrap();
    assert!(std::net::TcpStream::connect(proxy.address()).is_err(), "nobody listens any more");
}
