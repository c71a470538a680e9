//! Clients that are slow, greedy or endless lose their connection, and nobody else does.

use crate::harness::{Client, Origin, config, response};
use proxy::Proxy;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

fn proxy_with(origin: &Origin, change: impl FnOnce(&mut proxy::Limits)) -> Proxy {
    let mut config = config(origin.address);
    change(&mut config.limits);
    Proxy::start(config).unwrap()
}

#[test]
fn a_client_that_sends_nothing_or_half_a_head_is_cut_off() {
    let origin = Origin::start(|_| response(200, &[("cache-control", "max-age=60")], "ok"));
    let proxy = proxy_with(&origin, |limits| {
        (limits.idle, limits.head) = (Duration::from_millis(300), Duration::from_millis(100));
    });
    assert!(Client::connect(proxy.address()).rest().is_empty());
    let mut half = Client::connect(proxy.address());
    half.write("GET / HTTP/1.1\r\nHost: ");
    assert!(half.rest().is_empty());
    let mut kept = Client::connect(proxy.address());
    assert_eq!(kept.get("/").status, 200);
    assert_eq!(kept.get("/").status, 200);
    assert!(kept.rest().is_empty());
    let tally = proxy.tally();
    assert_eq!((tally.ended_idle, tally.ended_in_head), (1, 1), "the one that never spoke was not served at all");
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let large = vec![7u8; 12 << 20];
    let origin = Origin::start(move |_| response(200, &[("cache-control", "max-age=60")], large.clone()));
    let proxy = proxy_with(&origin, |limits| limits.stall = Duration::from_millis(200));
    let mut client = Client::connect(proxy.address());
    client.write("GET / HTTP/1.1\r\nHost: one\r\n\r\n");
    let start = std::time::Instant::now();
    while proxy.tally().ended_stalled == 0 {
        assert!(start.elapsed() < crate::harness::PATIENCE, "it is still there");
        std::thread::yield_now();
    }
    assert!(client.rest().len() < 12 << 20);
}

/// Frames that are written to an HTTP/2 client beside bodies, such as answers to its PINGs, are none that it has read.
#[test]
fn an_http2_client_that_does_not_read_is_cut_off_though_it_pings() {
    let origin = Origin::start(|_| response(200, &[("cache-control", "max-age=60")], "ok"));
    let proxy = proxy_with(&origin, |limits| limits.stall = Duration::from_millis(300));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(proxy.address()).await.unwrap();
        let mut client = hyper::client::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new());
        client.timer(hyper_util::rt::TokioTimer::new()).initial_stream_window_size(0);
        client.keep_alive_interval(Duration::from_millis(50)).keep_alive_timeout(crate::harness::PATIENCE);
        let io = hyper_util::rt::TokioIo::new(stream);
        let (mut sender, connection) = client.handshake(io).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = http::Request::get("http://one/").body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
        let answer = sender.send_request(request).await.unwrap();
        let ended = tokio::time::timeout(crate::harness::PATIENCE, connection).await;
        assert!(ended.is_ok(), "it is still there");
        drop(answer);
    });
    assert_eq!(proxy.tally().ended_stalled, 1);
}

/// The bytes that a slow client has not read count as being stored: there is no room for others.
#[test]
fn what_slow_clients_leave_unread_is_bounded() {
    let large = vec![7u8; 12 << 20];
    let origin = Origin::start(move |_| response(200, &[("cache-control", "max-age=60")], large.clone()));
    let proxy = proxy_with(&origin, |limits| limits.collected_bytes = 16 << 20);
    let mut slow = Client::connect(proxy.address());
    slow.write("GET /one HTTP/1.1\r\nHost: shop.example\r\n\r\n");
    let start = std::time::Instant::now();
    while origin.received().is_empty() {
        assert!(start.elapsed() < crate::harness::PATIENCE, "it is not asked for");
        std::thread::yield_now();
    }
    let mut other = Client::connect(proxy.address());
    assert!(other.get("/one").is_hit(), "it was waited for, and is stored");
    let passed = other.get("/two").field("cache-status").unwrap();
    assert!(passed.contains("detail=busy"), "{passed}");
    drop(slow);
    while !other.get("/two").is_hit() {
        assert!(start.elapsed() < crate::harness::PATIENCE, "the room of the one that has gone is not free");
    }
}

/// A body whose size nobody has said, and for which there is no room now, may be stored the next time.
#[test]
fn a_body_for_which_there_is_no_room_is_not_taken_for_one_that_is_too_large() {
    let chunked = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n";
    let answer: &'static str = format!("{chunked}5\r\nhello\r\n0\r\n\r\n").leak();
    let mut config = config(crate::harness::raw_origin(vec![answer].leak()));
    config.admin = Some("127.0.0.1:0".parse().unwrap());
    let mut detail = |room: usize, largest: usize| {
        (config.limits.collected_bytes, config.limits.stored_response_bytes) = (room, largest);
        let proxy = Proxy::start(config.clone()).unwrap();
        assert_eq!(Client::connect(proxy.address()).get("/").text(), "hello");
        let admin = proxy.admin_address().unwrap().to_string();
        proxy::why(&admin, None, "http://shop.example/").unwrap()["last_from_origin"]["detail"].clone()
    };
    assert_eq!((detail(4, 5), detail(5, 4)), ("busy".into(), "too-large".into()));
}

#[test]
fn a_client_that_pauses_in_its_body_is_told() {
    let origin = Origin::start(|_| response(200, &[], "ok"));
    let proxy = proxy_with(&origin, |limits| limits.stall = Duration::from_millis(200));
    let mut client = Client::connect(proxy.address());
    client.write("POST / HTTP/1.1\r\nHost: one\r\nContent-Length: 10\r\n\r\nabc");
    assert_eq!(client.read().map(|answer| answer.status), Some(408));
}

#[test]
fn an_origin_that_is_late_is_not_waited_for() {
    let origin = Origin::start(|_| {
        std::thread::sleep(Duration::from_secs(2));
        response(200, &[], "late")
    });
    let proxy = proxy_with(&origin, |limits| limits.origin = Duration::from_millis(100));
    let answer = Client::connect(proxy.address()).get("/");
    assert_eq!(answer.status, 504);
    assert!(answer.field("proxy-status").unwrap().contains("http_response_timeout"));
}

#[test]
fn heads_are_bounded_in_size_and_number() {
    let origin = Origin::start(|_| response(200, &[], "ok"));
    let proxy = proxy_with(&origin, |_| {});
    let status = |request: String| {
        let mut client = Client::connect(proxy.address());
        client.write(request);
        client.read().map(|answer| answer.status)
    };
    let get = |path: &str, fields: &str| format!("GET {path} HTTP/1.1\r\nHost: one\r\n{fields}\r\n");
    assert_eq!(status(get("/", &format!("X: {}\r\n", "a".repeat(proxy::limits::HEAD_BYTES_MAX)))), Some(431));
    assert_eq!(status(get("/", &"X: 1\r\n".repeat(proxy::limits::FIELDS_MAX))), Some(431));
    assert_eq!(status(get(&format!("/{}", "a".repeat(proxy::limits::PATH_BYTES_MAX)), "")), Some(414));
    assert_eq!(status(get("/", "X: 1\r\n")), Some(200));
}

#[test]
fn connections_that_are_idle_make_room_for_others() {
    let origin = Origin::start(|_| response(200, &[("cache-control", "max-age=60")], "ok"));
    let proxy = proxy_with(&origin, |limits| limits.connections = 20);
    let mut silent: Vec<_> = (0..100).map(|_| Client::connect(proxy.address())).collect();
    let mut half: Vec<_> = (0..100).map(|_| Client::connect(proxy.address())).collect();
    for client in &mut half {
        client.try_write("GET / HTTP/1.1\r\nHost");
    }
    let mut kept = Client::connect(proxy.address());
    assert_eq!(kept.get("/").status, 200);
    let next: Vec<_> = (0..10).map(|_| Client::connect(proxy.address())).collect();
    assert_eq!(Client::connect(proxy.address()).get("/").status, 200);
    assert!(kept.get("/").is_hit(), "ten have been idle for less long, and the others for longer");
    assert!(silent.remove(0).rest().is_empty() && half.remove(0).rest().is_empty());
    let ended = proxy.tally().ended_displaced;
    assert!((180..=212).contains(&ended), "{ended}");
    drop(next);
}

#[test]
fn more_connections_than_allowed_wait_while_none_is_idle() {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let origin = Origin::start(move |request| {
        if request.uri() == "/wait" {
            released.lock().unwrap().recv().unwrap();
        }
        response(200, &[("cache-control", "no-store")], "ok")
    });
    let proxy = proxy_with(&origin, |limits| limits.connections = 1);
    let mut one = Client::connect(proxy.address());
    one.write("GET /wait HTTP/1.1\r\nHost: one\r\n\r\n");
    let start = std::time::Instant::now();
    while origin.received().is_empty() {
        assert!(start.elapsed() < crate::harness::PATIENCE, "it is not asked");
        std::thread::yield_now();
    }
    let mut two = Client::connect(proxy.address());
    two.write("GET / HTTP/1.1\r\nHost: one\r\n\r\n");
    release.send(()).unwrap();
    assert_eq!((one.read().unwrap().status, two.read().unwrap().status), (200, 200));
    assert!(one.rest().is_empty(), "it was idle, then");
}

#[test]
fn an_address_has_so_many_connections_and_no_more() {
    let origin = Origin::start(|_| response(200, &[], "ok"));
    let proxy = proxy_with(&origin, |limits| limits.connections_per_address = Some(2));
    let (mut one, mut two) = (Client::connect(proxy.address()), Client::connect(proxy.address()));
    assert_eq!((one.get("/").status, two.get("/").status), (200, 200));
    assert!(Client::connect(proxy.address()).rest().is_empty());
    assert_eq!((one.get("/").status, proxy.tally().refused_connections), (200, 1));
    drop(two);
    let start = std::time::Instant::now();
    while !Client::connect(proxy.address()).is_served() {
        assert!(start.elapsed() < crate::harness::PATIENCE, "the place of the one that has gone is not free");
    }
}

#[test]
fn more_requests_at_the_origin_than_allowed_are_told_to_come_again() {
    let origin = Origin::start(|_| {
        std::thread::sleep(Duration::from_millis(500));
        response(200, &[], "ok")
    });
    let proxy = proxy_with(&origin, |limits| {
        (limits.origin_requests, limits.connect) = (1, Duration::from_millis(50));
    });
    let mut clients = [Client::connect(proxy.address()), Client::connect(proxy.address())];
    for (number, client) in clients.iter_mut().enumerate() {
        client.write(format!("GET /{number} HTTP/1.1\r\nHost: one\r\n\r\n"));
    }
    let mut statuses = clients.map(|mut client| client.read().unwrap().status);
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 503]);
}

/// Requests that continue without their client are bounded, too: those that wait for the origin are so many and no
/// more.
#[test]
fn more_requests_that_wait_for_the_origin_than_allowed_are_told_at_once() {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let origin = Origin::start(move |_| {
        released.lock().unwrap().recv().unwrap();
        response(200, &[("cache-control", "max-age=60")], "ok")
    });
    let proxy = proxy_with(&origin, |limits| {
        (limits.origin_requests, limits.origin_waiting, limits.connect) = (1, 1, crate::harness::PATIENCE * 2);
    });
    let (answered, answers) = mpsc::channel();
    for (number, method) in ["GET", "POST", "GET"].into_iter().enumerate() {
        let (answered, mut client) = (answered.clone(), Client::connect(proxy.address()));
        std::thread::spawn(move || {
            let answer = client.ask(method, &format!("/{number}"), "Content-Length: 0\r\n");
            answered.send(answer.status).unwrap();
        });
    }
    let next = || answers.recv_timeout(crate::harness::PATIENCE).expect("an answer while the origin has none");
    assert_eq!(next(), 503);
    release.send(()).unwrap();
    release.send(()).unwrap();
    assert_eq!((next(), next()), (200, 200));
}

/// A tunnel holds a place of its own for as long as it lasts, and none of the requests'.
#[test]
fn tunnels_are_bounded() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = config(listener.local_addr().unwrap());
    (config.limits.origin_requests, config.limits.long_lived) = (1, 1);
    config.limits.connect = Duration::from_millis(50);
    let proxy = Proxy::start(config).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            std::thread::spawn(move || {
                let mut line = String::new();
                while reader.read_line(&mut line).unwrap() > 2 {
                    line.clear();
                }
                let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
                reader.get_mut().write_all(head.as_bytes()).unwrap();
                // It closes when the other end has.
                reader.read_to_end(&mut Vec::new()).unwrap();
            });
        }
    });
    let open = || {
        let mut client = Client::connect(proxy.address());
        let status = client.ask("GET", "/", "Connection: Upgrade\r\nUpgrade: websocket\r\n").status;
        (client, status)
    };
    let (tunnel, status) = open();
    assert_eq!(status, 101);
    assert_eq!(open().1, 503);
    assert_eq!(proxy.tally().refusals, [("long-lived-full", 1)], "there was a place for the request");
    drop(tunnel);
    let start = std::time::Instant::now();
    while open().1 != 101 {
        assert!(start.elapsed() < crate::harness::PATIENCE, "the place of the one that has ended is not free");
    }
}

#[test]
fn event_streams_hold_no_place_of_requests() {
    let events = "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\nCache-Control: no-store\r\n\r\ndata: 1\n\n";
    let origin = crate::harness::Stepped::start(move |target, _| match target {
        "/events" => vec![crate::harness::Step::Send(events.into()), crate::harness::Step::Wait],
        _ => vec![crate::harness::Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())],
    });
    let mut config = config(origin.address);
    (config.limits.origin_requests, config.limits.long_lived) = (1, 2);
    config.limits.connect = Duration::from_millis(50);
    let proxy = Proxy::start(config).unwrap();
    let mut streams: Vec<_> = (0..2).map(|_| Client::connect(proxy.address())).collect();
    for stream in &mut streams {
        stream.write("GET /events HTTP/1.1\r\nHost: one\r\n\r\n");
        while stream.line().is_some_and(|line| !line.is_empty()) {}
        assert_eq!(stream.line().as_deref(), Some("9"), "the first event, in a chunk");
    }
    assert_eq!(Client::connect(proxy.address()).get("/").text(), "ok");
    assert_eq!(Client::connect(proxy.address()).get("/events").status, 503);
    assert_eq!(Client::connect(proxy.address()).get("/").text(), "ok");
    drop(streams);
    let start = std::time::Instant::now();
    while {
        let mut stream = Client::connect(proxy.address());
        stream.write("GET /events HTTP/1.1\r\nHost: one\r\n\r\n");
        !stream.line().unwrap().contains("200")
    } {
        assert!(start.elapsed() < crate::harness::PATIENCE, "the places of those that have ended are not free");
    }
}

/// On HTTP/2 bytes come without a request: they are no head that is late.
#[test]
fn an_http2_connection_is_kept_until_it_is_idle() {
    let origin = Origin::start(|_| response(200, &[("cache-control", "max-age=60")], "ok"));
    let proxy = proxy_with(&origin, |limits| {
        (limits.idle, limits.head) = (Duration::from_millis(600), Duration::from_millis(100));
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (begun, ended) = runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(proxy.address()).await.unwrap();
        let io = hyper_util::rt::TokioIo::new(stream);
        let executor = hyper_util::rt::TokioExecutor::new();
        let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = http::Request::get("http://one/").body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
        let answer = sender.send_request(request).await.unwrap();
        http_body_util::BodyExt::collect(answer.into_body()).await.unwrap();
        let begun = std::time::Instant::now();
        connection.await.unwrap().expect("it is told that the connection ends");
        (begun, std::time::Instant::now())
    });
    assert!(ended - begun > Duration::from_millis(400), "{:?}", ended - begun);
    assert_eq!((proxy.tally().ended_idle, proxy.tally().ended_in_head), (1, 0));
}
