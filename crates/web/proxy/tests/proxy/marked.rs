//! Requests for a page while an update of it is marked: nothing is stored then, and the origin makes one response at a
//! time.

use crate::harness::{Answer, Client, PATIENCE, Step, Stepped, config};
use coherence::{Dependency, SourceName, Updates};
use proxy::{Changes, Proxy, invalidate};
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
        self.wait_for_waits(before + 1);
        asking
    }

    /// Until requests have waited so often.
    fn wait_for_waits(&self, waits: u64) {
        while self.proxy.tally().waited < waits {
            thread::yield_now();
        }
    }

    /// The source of the hub, which has caught up.
    fn caught_up(&self) -> Updates {
        let hub = self.proxy.hub_address().unwrap().to_string();
        let source = Updates::connect_source(&hub, self.source.clone(), &net::Runtime::start().unwrap()).unwrap();
        source.caught_up(coherence::Fence { term: 0, number: 1 });
        source
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

/// Rules AskAfterJoining and JoinersNeedStored: a response that is not stored answers those that had come before the
/// origin was asked for it, and nobody else.
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
        watched.wait_for_waits(5 + 4);
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
    watched.wait_for_waits(4 + 3);
    // One of them leads; those of the other language go by themselves behind it.
    for _ in 0..3 {
        origin.wait_for("GET /");
        origin.go();
    }
    let [german, french] = [german, french].map(|asking| asking.map(body));
    assert_ne!(german[0], french[0]);
    assert!((german[0] == german[1]) != (french[0] == french[1]), "{german:?} {french:?}");
}

/// A stored page that the origin confirms while an update of it is marked answers those that had come before it was
/// asked. It is kept, and validated again.
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
    let source = watched.caught_up();
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
    watched.wait_for_waits(3 + 2);
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

/// A response that is not stored holds up nobody that it is not for: the next request goes to the origin when its head
/// is there.
#[test]
fn a_body_that_is_not_stored_and_arrives_slowly_is_not_waited_for() {
    for is_sized in [true, false] {
        let length = if is_sized { "Content-Length: 2\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nCache-Groups: \"item\"\r\nConnection: close\r\n{length}\r\n"
        );
        let origin = Stepped::start(move |path, number| {
            let (begin, end) = (Step::Send(format!("{head}{number}").into_bytes()), Step::Send(b".".into()));
            match number {
                0 | 1 if path == "/" => vec![Step::Wait, begin, Step::Wait, end],
                _ => vec![begin, end],
            }
        });
        let watched = Watched::start(&origin);
        watched.ask_until(&origin, "/other", "; detail=marked");
        let first = watched.ask("");
        origin.wait_for("GET /");
        let during_first = [watched.ask_and_wait(""), watched.ask_and_wait("")];
        origin.go();
        origin.wait_for("GET /");
        assert!(!first.is_finished(), "the rest of its body has not come yet");
        origin.go_on(0);
        assert_eq!(body(first), "0.");
        watched.wait_for_waits(2 + 1);
        let during_second = watched.ask_and_wait("");
        origin.go_on(1);
        assert_eq!(body(during_second), "2.");
        assert!(!during_first.iter().any(JoinHandle::is_finished), "the rest of their body has not come yet");
        origin.go();
        assert_eq!(during_first.map(body), ["1.", "1."]);
        origin.wait_for("GET /");
        assert!(!origin.is_asked());
    }
}

/// Rule AskAfterJoining, of a response that its home had stored: one that was removed while it arrived is for those
/// that had come before the origin was asked.
#[test]
fn requests_share_what_was_removed_before_it_was_whole() {
    let origin = Stepped::start(|_, number| {
        let head =
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nCache-Groups: \"item\"\r\nConnection: close\r\n\r\n";
        let begin = Step::Send(format!("{head}{number}").into_bytes());
        if number == 0 { vec![Step::Wait, begin] } else { vec![begin, Step::Wait] }
    });
    let mut config = config(origin.address);
    config.admin = Some("127.0.0.1:0".parse().unwrap());
    let proxy = Proxy::start(config).unwrap();
    let admin = proxy.admin_address().unwrap().to_string();
    let watched = Watched { proxy, source: SourceName::new("none").unwrap() };
    let first = watched.ask("");
    origin.wait_for("GET /");
    let others = [watched.ask_and_wait(""), watched.ask_and_wait("")];
    let updated = Changes { dependencies: vec!["item".to_owned()], ..Changes::default() };
    invalidate(&admin, None, &updated).unwrap();
    origin.go();
    assert!(first.join().unwrap().field("cache-status").unwrap().ends_with("; detail=touched"));
    origin.wait_for("GET /");
    watched.wait_for_waits(2 + 1);
    let removed = Changes { urls: vec!["http://shop.example/".to_owned()], ..Changes::default() };
    invalidate(&admin, None, &removed).unwrap();
    origin.go();
    let [one, other] = others.map(|asking| asking.join().unwrap());
    assert_eq!((one.text(), other.text()), ("1", "1"));
    let is_collapsed =
        |answer: &Answer| answer.field("cache-status").unwrap().ends_with("; collapsed; detail=overtaken");
    assert!(is_collapsed(&one) != is_collapsed(&other), "{one:?} {other:?}");
    assert!(!origin.is_asked());
}

/// A 304 may name other dependencies, for which the stored response is not stored again: then it does not answer by
/// those that it had.
#[test]
fn a_confirmed_response_does_not_keep_its_dependencies_of_before() {
    let origin = Stepped::start(|path, number| {
        let fields = "Cache-Control: max-age=60\r\nConnection: close\r\nETag: \"a\"\r\n";
        vec![Step::Send(if number == 0 || path != "/" {
            format!("HTTP/1.1 200 OK\r\n{fields}Cache-Groups: \"item\"\r\nContent-Length: 4\r\n\r\nbody").into_bytes()
        } else {
            format!("HTTP/1.1 304 Not Modified\r\n{fields}Cache-Groups: \"other\"\r\n\r\n").into_bytes()
        })]
    });
    let watched = Watched::start(&origin);
    let source = watched.caught_up();
    watched.ask_until(&origin, "/elsewhere", "; hit");
    let ask = |fields| Client::connect(watched.proxy.address()).ask("GET", "/", fields).field("cache-status").unwrap();
    assert!(ask("").ends_with("; stored"));
    assert!(ask("").contains("; hit"));
    let tasks = tokio::runtime::Runtime::new().unwrap();
    let update = tasks.block_on(source.announce(vec![Dependency::new("other").unwrap()])).unwrap();
    let confirmed = ask("Cache-Control: no-cache\r\n");
    assert!(confirmed.contains("fwd-status=304") && !confirmed.contains("; stored"), "{confirmed}");
    update.visible();
    assert!(!ask("").contains("; hit"), "the update of what it depends on was after it was made");
}

#[test]
fn a_shared_response_without_content_has_no_length() {
    let origin = Stepped::start(|_, _| {
        let fields = "Cache-Control: max-age=60\r\nCache-Groups: \"item\"\r\nConnection: close\r\n\r\n";
        vec![Step::Wait, Step::Send(format!("HTTP/1.1 204 No Content\r\n{fields}").into_bytes())]
    });
    let watched = Watched::start(&origin);
    let first = watched.ask("");
    origin.wait_for("GET /");
    let others = [watched.ask_and_wait(""), watched.ask_and_wait("")];
    origin.go();
    origin.wait_for("GET /");
    watched.wait_for_waits(2 + 1);
    origin.go();
    for answer in [first].into_iter().chain(others).map(|asking| asking.join().unwrap()) {
        assert_eq!((answer.status, answer.field("content-length")), (204, None), "{answer:?}");
    }
    assert_eq!(watched.proxy.tally().waited, 3);
}
