//! Requests that meet: one goes to the origin, and the others wait with it.

use crate::harness::{Answer, Client, Origin, proxy, response};
use proxy::Proxy;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

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
    let start = std::time::Instant::now();
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
    let (asked, wait) = std::sync::mpsc::channel();
    let asked = std::sync::Mutex::new(asked);
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
    let (asked, wait) = std::sync::mpsc::channel();
    let asked = std::sync::Mutex::new(asked);
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
