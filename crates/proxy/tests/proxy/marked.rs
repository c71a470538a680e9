//! Requests for a page while an update of it is marked: nothing is stored then, and the origin has one request at a time.

use crate::harness::{Answer, Client, PATIENCE, Step, Stepped, config};
use coherence::{Dependency, SourceName, Updates};
use proxy::Proxy;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// A proxy whose hub expects a source: everything is marked until that has caught up.
struct Watched {
    proxy: Proxy,
    source: SourceName,
}

impl Watched {
    fn start(origin: &Stepped) -> Self {
        let (mut config, source) = (config(origin.address), SourceName::new("database").unwrap());
        config.site.listen = Some("127.0.0.1:0".parse().unwrap());
        config.site.sources = vec![source.clone()];
        Self { proxy: Proxy::start(config).unwrap(), source }
    }

    /// Asks for something until the answer has these words in its `Cache-Status`.
    fn ask_until(&self, origin: &Stepped, path: &str, words: &str) {
        let begun = Instant::now();
        let ask = || Client::connect(self.proxy.address()).get(path).field("cache-status").unwrap();
        while !ask().contains(words) {
            assert!(begun.elapsed() < PATIENCE, "{}", ask());
        }
        while origin.is_asked() {}
    }

    /// Asks in a thread of its own.
    fn ask(&self, fields: &'static str) -> JoinHandle<Answer> {
        let address = self.proxy.address();
        thread::spawn(move || Client::connect(address).ask("GET", "/", fields))
    }

    /// The same; it is back when the request waits for another one's response.
    fn ask_and_wait(&self, fields: &'static str) -> JoinHandle<Answer> {
        let before = self.proxy.tally().waited;
        let asking = self.ask(fields);
        while self.proxy.tally().waited == before {
            thread::yield_now();
        }
        asking
    }
}

/// An origin that says in its answer to `/` the how manieth it is, when the test lets it, with these fields; what is at
/// other places it answers at once.
fn counting(fields: &'static str, is_sized: bool) -> Stepped {
    Stepped::start(move |path, number| {
        let fields =
            format!("HTTP/1.1 200 OK\r\nCache-Control: {fields}\r\nCache-Groups: \"item\"\r\nConnection: close\r\n");
        let body = number.to_string();
        let length = if is_sized { format!("Content-Length: {}\r\n", body.len()) } else { String::new() };
        let answer = Step::Send(format!("{fields}{length}\r\n{body}").into_bytes());
        if path == "/" { vec![Step::Wait, answer] } else { vec![answer] }
    })
}

fn body(asking: JoinHandle<Answer>) -> String {
    asking.join().unwrap().text().to_owned()
}

/// Rules AskAfterJoining and JoinersNeedStored: a response that is not stored answers those that had come before the origin
/// was asked for it, and nobody else.
#[test]
fn requests_that_wait_for_a_marked_page_share_the_next_response() {
    for is_sized in [true, false] {
        let origin = counting("max-age=60", is_sized);
        let watched = Watched::start(&origin);
        watched.ask_until(&origin, "/other", "; detail=marked");
        let first = watched.ask("");
        origin.wait_for("GET /");
        let during_first: Vec<_> = (0..5).map(|_| watched.ask_and_wait("")).collect();
        origin.go();
        let first = first.join().unwrap();
        assert!(first.field("cache-status").unwrap().ends_with("; fwd=uri-miss; detail=marked"), "{first:?}");
        origin.wait_for("GET /");
        let during_second = watched.ask_and_wait("");
        assert!(!origin.is_asked(), "one request at a time");
        origin.go();
        let shared: Vec<_> = during_first.into_iter().map(|asking| asking.join().unwrap()).collect();
        assert!(shared.iter().all(|answer| answer.text() == shared[0].text()), "one response is for all of them");
        let is_collapsed =
            |answer: &&Answer| answer.field("cache-status").unwrap().contains("; collapsed; detail=marked");
        assert_eq!(shared.iter().filter(is_collapsed).count(), shared.len() - 1);
        assert!(!shared.iter().any(Answer::is_hit), "nothing is stored");
        origin.wait_for("GET /");
        origin.go();
        let number = |text: &str| text.parse::<usize>().unwrap();
        let second = number(shared[0].text());
        assert_eq!(number(first.text()) + 1, second, "who waited for the first did not get that");
        assert_eq!(number(&body(during_second)), second + 1, "who came during the second did not get that");
    }
}

/// A response that is for one client is shared with nobody, and those that it might be for do not wait for each other.
#[test]
fn a_response_to_one_client_is_not_shared() {
    for fields in ["private", "no-store", "max-age=60\r\nVary: *", "no-cache\r\nSet-Cookie: a=b"] {
        let origin = counting(fields, true);
        let watched = Watched::start(&origin);
        let first = watched.ask("");
        origin.wait_for("GET /");
        let others: Vec<_> = (0..3).map(|_| watched.ask_and_wait("")).collect();
        origin.go();
        let mut bodies = vec![body(first)];
        // They are there at the same time.
        for _ in &others {
            origin.wait_for("GET /");
        }
        for _ in &others {
            origin.go();
        }
        bodies.extend(others.into_iter().map(body));
        bodies.sort();
        bodies.dedup();
        assert_eq!(bodies.len(), 4, "{fields}");
    }
}

/// The next response goes to those that it is for: others ask for themselves, and wait no longer.
#[test]
fn a_response_to_other_fields_is_not_shared() {
    let origin = counting("max-age=60\r\nVary: Accept-Language", true);
    let watched = Watched::start(&origin);
    watched.ask_until(&origin, "/other", "; detail=marked");
    let first = watched.ask("");
    origin.wait_for("GET /");
    let both = |fields| [watched.ask_and_wait(fields), watched.ask_and_wait(fields)];
    let (german, french) = (both("Accept-Language: de\r\n"), both("Accept-Language: fr\r\n"));
    origin.go();
    body(first);
    // One of them leads; those of the other language go by themselves behind it.
    for _ in 0..3 {
        origin.wait_for("GET /");
        origin.go();
    }
    let [german, french] = [german, french].map(|asking| asking.map(body));
    assert_ne!(german[0], french[0]);
    assert!((german[0] == german[1]) != (french[0] == french[1]), "{german:?} {french:?}");
}

/// A stored page that the origin confirms while an update of it is marked answers those that had come before it was asked.
/// It is kept, and validated again.
#[test]
fn requests_that_wait_for_the_word_of_the_origin_share_the_next_one() {
    let is_marked = Arc::new(AtomicBool::new(false));
    let waits = is_marked.clone();
    let origin = Stepped::start(move |_, number| {
        let fields = "Cache-Control: max-age=60\r\nCache-Groups: \"item\"\r\nConnection: close\r\n";
        if waits.load(SeqCst) {
            // The number is what only this answer can say.
            let confirmed = format!("HTTP/1.1 304 Not Modified\r\n{fields}X-Number: {number}\r\n\r\n");
            return vec![Step::Wait, Step::Send(confirmed.into_bytes())];
        }
        let whole = format!("HTTP/1.1 200 OK\r\n{fields}ETag: \"a\"\r\nContent-Length: 4\r\n\r\nbody");
        vec![Step::Send(whole.into_bytes())]
    });
    let watched = Watched::start(&origin);
    let hub = watched.proxy.hub_address().unwrap().to_string();
    let source = Updates::connect_source(&hub, watched.source.clone(), &net::Runtime::start().unwrap()).unwrap();
    source.caught_up();
    watched.ask_until(&origin, "/", "; hit");
    let tasks = tokio::runtime::Runtime::new().unwrap();
    let update = tasks.block_on(source.announce(vec![Dependency::new("item").unwrap()])).unwrap();
    is_marked.store(true, SeqCst);
    let first = watched.ask("");
    origin.wait_for("GET /");
    let others: Vec<_> = (0..3).map(|_| watched.ask_and_wait("")).collect();
    origin.go();
    let first = first.join().unwrap();
    origin.wait_for("GET /");
    origin.go();
    let others: Vec<_> = others.into_iter().map(|asking| asking.join().unwrap()).collect();
    let number = |answer: &Answer| answer.field("x-number").unwrap().parse::<usize>().unwrap();
    for answer in &others {
        assert_eq!((answer.text(), number(answer)), ("body", number(&first) + 1), "{answer:?}");
    }
    assert!(!origin.is_asked());
    update.visible();
    let next = watched.ask("");
    origin.wait_for("GET /");
    origin.go();
    let next = next.join().unwrap();
    assert!(next.field("cache-status").unwrap().contains("fwd-status=304"), "{next:?}");
}
