//! Requests that meet: one goes to the origin, and the others wait with it.

use crate::harness::{Answer, Client, Origin, Step, Stepped, config, proxy, response};
use proxy::{Changes, Proxy, invalidate};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};

/// So many clients at once, for the same.
fn together(proxy: &Proxy, count: usize) -> Vec<Answer> {
    let begin = Arc::new(Barrier::new(count));
    let address = proxy.address();
    let clients: Vec<_> = (0..count)
        .map(|_| {
            let begin = begin.clone();
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                begin.wait();
                client.get("/")
            })
        })
        .collect();
    clients.into_iter().map(|client| client.join().unwrap()).collect()
}

fn slow(answer: impl Fn(usize) -> http::Response<bytes::Bytes> + Send + Sync + 'static) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |_| {
        std::thread::sleep(Duration::from_millis(300));
        answer(count.fetch_add(1, Ordering::Relaxed))
    })
}

#[test]
fn one_of_many_asks_and_the_others_get_what_is_stored() {
    let origin = slow(|number| response(200, &[("cache-control", "max-age=60")], number.to_string()));
    let proxy = proxy(&origin);
    let answers = together(&proxy, 16);
    assert!(answers.iter().all(|answer| answer.text() == "0"));
    assert_eq!(origin.received().len(), 1);
    let collapsed = answers.iter().filter(|answer| answer.field("cache-status").unwrap().contains("; collapsed"));
    assert_eq!(collapsed.count(), 15);
}

/// A response that is for one requester is given to nobody else, and those that waited for it do not queue up.
#[test]
fn a_response_that_is_not_stored_is_for_its_requester_alone() {
    let origin = slow(|number| response(200, &[("cache-control", "private")], number.to_string()));
    let proxy = proxy(&origin);
    let start = Instant::now();
    let mut answers: Vec<_> = together(&proxy, 8).iter().map(|answer| answer.text().to_owned()).collect();
    answers.sort();
    answers.dedup();
    assert_eq!(answers.len(), 8, "each has a response of its own");
    assert!(start.elapsed() < Duration::from_millis(8 * 300), "the others do not go one after the other");
}

/// Rule JoinersNeedStored, where a request overtakes: what was asked for before an unsafe request is not stored after
/// it, and a request that came after it is not answered with it.
#[test]
fn a_fill_that_an_unsafe_request_overtakes_is_for_its_requester_alone() {
    let value = Arc::new(AtomicUsize::new(0));
    let (asked, wait) = mpsc::channel();
    let asked = Mutex::new(asked);
    let state = value.clone();
    let origin = Origin::start(move |request| {
        if request.method() == "PUT" {
            state.store(1, Ordering::SeqCst);
            return response(204, &[], "");
        }
        let seen = state.load(Ordering::SeqCst);
        asked.lock().unwrap().send(()).unwrap();
        if seen == 0 {
            std::thread::sleep(Duration::from_millis(500));
        }
        response(200, &[("cache-control", "max-age=60")], seen.to_string())
    });
    let proxy = proxy(&origin);
    let address = proxy.address();
    let early = std::thread::spawn(move || Client::connect(address).get("/"));
    wait.recv().unwrap();
    let mut client = Client::connect(address);
    assert_eq!(client.ask("PUT", "/", "Content-Length: 0\r\n").status, 204);
    assert_eq!(client.get("/").text(), "1", "a joiner that came after the change");
    assert_eq!(early.join().unwrap().text(), "0", "the requester itself may have the old state");
    assert_eq!(client.get("/").text(), "1");
}

/// A client that hangs up does not take the response away from those that wait with it.
#[test]
fn a_fill_goes_on_without_its_requester() {
    let (asked, wait) = mpsc::channel();
    let asked = Mutex::new(asked);
    let origin = Origin::start(move |_| {
        asked.lock().unwrap().send(()).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        response(200, &[("cache-control", "max-age=60")], "made once")
    });
    let proxy = proxy(&origin);
    let mut first = Client::connect(proxy.address());
    first.write("GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n");
    wait.recv().unwrap();
    drop(first);
    assert_eq!(Client::connect(proxy.address()).get("/").text(), "made once");
    assert_eq!(origin.received().len(), 1);
}

/// The head of a response with this many bytes, which depends on `item`.
fn head(bytes: usize) -> Step {
    let fields = "Cache-Control: max-age=60\r\nCache-Groups: \"item\"\r\nConnection: close";
    Step::Send(format!("HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: {bytes}\r\n\r\n").into_bytes())
}

/// Bytes of a version that are told from those of others, in order.
fn bytes(version: usize, range: Range<usize>) -> Vec<u8> {
    range.map(|index| ((index / 7 + version * 31) % 251) as u8).collect()
}

/// Asks, and gives the client when the head of its answer is there.
fn begin(address: SocketAddr) -> (Client, String) {
    let mut client = Client::connect(address);
    client.write("GET / HTTP/1.1\r\nHost: shop.example\r\n\r\n");
    let mut fields = String::new();
    loop {
        let line = client.line().expect("a head");
        if line.is_empty() {
            return (client, fields);
        }
        fields += &(line.to_ascii_lowercase() + "\n");
    }
}

const LARGE: usize = 3_000_000;

#[test]
fn a_request_reads_along_while_the_response_arrives() {
    let origin = Stepped::start(|_, _| {
        let (half, rest) = (bytes(0, 0..LARGE / 2), bytes(0, LARGE / 2..LARGE));
        vec![head(LARGE), Step::Send(half), Step::Wait, Step::Send(rest)]
    });
    let proxy = Proxy::start(config(origin.address)).unwrap();
    let (mut first, _) = begin(proxy.address());
    origin.wait_for("GET /");
    let (mut second, fields) = begin(proxy.address());
    assert!(fields.contains("; hit; ") && fields.contains("; collapsed"), "{fields}");
    assert!(fields.contains(&format!("content-length: {LARGE}\n")) && fields.contains("age: "), "{fields}");
    let half = LARGE / 2;
    assert!(second.bytes(half).unwrap() == bytes(0, 0..half), "before the rest has come");
    // One that does not read holds nobody up.
    let (mut slow, _) = begin(proxy.address());
    origin.go();
    assert!(second.bytes(LARGE - half).unwrap() == bytes(0, half..LARGE));
    assert!(first.bytes(LARGE).unwrap() == bytes(0, 0..LARGE));
    assert!(Client::connect(proxy.address()).get("/").is_hit());
    assert!(slow.bytes(LARGE).unwrap() == bytes(0, 0..LARGE));
    assert_eq!(proxy.tally().hits, 3);
    assert!(!origin.is_asked());
}

/// Rules LookAlong and JoinersNeedStored: an update that is done before a request comes is not missed, though the
/// response was at its home before it.
#[test]
fn a_request_after_an_update_does_not_read_along() {
    for by_dependency in [true, false] {
        let origin = Stepped::start(|_, number| match number {
            0 => vec![
                head(LARGE),
                Step::Send(bytes(0, 0..LARGE / 2)),
                Step::Wait,
                Step::Send(bytes(0, LARGE / 2..LARGE)),
            ],
            _ => vec![head(10), Step::Send(bytes(1, 0..10))],
        });
        let mut config = config(origin.address);
        config.admin = Some("127.0.0.1:0".parse().unwrap());
        let proxy = Proxy::start(config).unwrap();
        let (mut first, _) = begin(proxy.address());
        origin.wait_for("GET /");
        let (mut before, _) = begin(proxy.address());
        let changes = if by_dependency {
            Changes { dependencies: vec!["item".to_owned()], ..Changes::default() }
        } else {
            Changes { urls: vec!["http://shop.example/".to_owned()], ..Changes::default() }
        };
        invalidate(&proxy.admin_address().unwrap().to_string(), None, &changes).unwrap();
        let address = proxy.address();
        let after = std::thread::spawn(move || Client::connect(address).get("/"));
        // It has to be there before the response has come: otherwise it is a request like any other.
        while proxy.tally().requests < 3 {
            std::thread::yield_now();
        }
        origin.go();
        assert!(after.join().unwrap().body == bytes(1, 0..10), "by dependency: {by_dependency}");
        for client in [&mut first, &mut before] {
            assert!(client.bytes(LARGE).unwrap() == bytes(0, 0..LARGE), "they came before the update");
        }
    }
}

#[test]
fn a_response_that_breaks_off_does_so_for_all_that_read_along() {
    let origin = Stepped::start(|_, number| match number {
        0 => vec![head(LARGE), Step::Send(bytes(0, 0..LARGE / 2)), Step::Wait],
        _ => vec![head(10), Step::Send(bytes(1, 0..10))],
    });
    let proxy = Proxy::start(config(origin.address)).unwrap();
    let mut clients = vec![begin(proxy.address()).0];
    origin.wait_for("GET /");
    clients.extend((0..3).map(|_| begin(proxy.address()).0));
    origin.go();
    for client in &mut clients {
        let rest = client.rest();
        // The last of what has come may be lost with its connection.
        assert!(rest.len() <= LARGE / 2 && rest == bytes(0, 0..rest.len()), "what has come, and then the end");
    }
    assert!(Client::connect(proxy.address()).get("/").body == bytes(1, 0..10));
}

/// Of a response whose size is not known it is unknown whether it will be stored.
#[test]
fn a_request_waits_for_a_response_of_unknown_size() {
    let origin = Stepped::start(|_, number| match number {
        0 => {
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\r\n";
            vec![Step::Send(head.into()), Step::Send(bytes(0, 0..1000)), Step::Wait, Step::Send(bytes(0, 1000..5000))]
        }
        _ => vec![head(10), Step::Send(bytes(1, 0..10))],
    });
    let mut config = config(origin.address);
    config.limits.stored_response_bytes = 4000;
    let proxy = Proxy::start(config).unwrap();
    let (mut first, _) = begin(proxy.address());
    origin.wait_for("GET /");
    let address = proxy.address();
    let second = std::thread::spawn(move || Client::connect(address).get("/"));
    while proxy.tally().requests < 2 {
        std::thread::yield_now();
    }
    origin.go();
    assert!(
        second.join().unwrap().body == bytes(1, 0..10),
        "it is larger than what is stored, and for the first alone"
    );
    assert!(String::from_utf8_lossy(&first.rest()).len() >= 4000);
}

/// A response that names groups and has no end: other requests for it get one of their own after a bounded time, all
/// of them at once, and no request waits for that key again.
#[test]
fn nobody_waits_for_a_response_without_an_end() {
    let origin = Stepped::start(|target, _| {
        let kind = if target == "/events" { "text/event-stream; charset=utf-8" } else { "text/plain" };
        let fields = format!("Cache-Control: max-age=600\r\nCache-Groups: \"item\"\r\nContent-Type: {kind}");
        vec![Step::Send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\ndata").into_bytes()), Step::Wait]
    });
    let proxy = Proxy::start(config(origin.address)).unwrap();
    let address = proxy.address();
    let ask = move |target: &str| {
        let mut client = Client::connect(address);
        client.write(format!("GET {target} HTTP/1.1\r\nHost: shop.example\r\n\r\n"));
        client
    };
    for target in ["/report", "/events"] {
        let mut clients: Vec<Client> = (0..8).map(|_| ask(target)).collect();
        let begun = Instant::now();
        for client in &mut clients {
            assert_eq!(client.line().as_deref(), Some("HTTP/1.1 200 OK"), "{target}");
        }
        assert!(begun.elapsed() < Duration::from_secs(8), "they wait one after the other: {:?}", begun.elapsed());
        let begun = Instant::now();
        assert_eq!(ask(target).line().as_deref(), Some("HTTP/1.1 200 OK"));
        assert!(begun.elapsed() < Duration::from_secs(1), "it is known not to end: {:?}", begun.elapsed());
    }
    for _ in 0..18 {
        origin.go();
    }
}
