//! A response that an update has changed is not given to whoever asks after it.

use crate::harness::{Client, Origin, PATIENCE, config, proxy, response};
use coherence::SourceName;
use proxy::{Changes, Config, Proxy, SiteConfig, invalidate};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// A shop whose page shows the value of an item, and whose POST changes it.
fn shop() -> Origin {
    let value = AtomicUsize::new(0);
    Origin::start(move |request| {
        if request.method() == "POST" {
            value.fetch_add(1, Ordering::SeqCst);
            return response(204, &[("cache-group-invalidation", "\"item\"")], "");
        }
        let group = if request.uri() == "/other" { "\"other\"" } else { "\"item\"" };
        let fields = [("cache-control", "max-age=60"), ("cache-groups", group), ("etag", "\"v\"")];
        response(200, &fields, value.load(Ordering::SeqCst).to_string())
    })
}

#[test]
fn an_update_lapses_the_responses_that_depend_on_it_and_no_others() {
    let proxy = proxy(&shop());
    let mut client = Client::connect(proxy.address());
    for path in ["/page", "/list", "/other"] {
        client.get(path);
        assert!(client.get(path).is_hit());
    }
    client.ask("POST", "/buy", "Content-Length: 0\r\n");
    assert!(client.get("/other").is_hit());
    for path in ["/page", "/list"] {
        let answer = client.get(path);
        assert_eq!(answer.text(), "1");
        assert!(answer.field("cache-status").unwrap().contains("fwd=stale"), "{answer:?}");
        assert!(client.get(path).is_hit());
    }
}

/// The page shows one item and then another one with the same text; what answers conditional requests there drops the
/// field from its 304s. It is asked once more, for the whole, and what the page shows now invalidates it.
#[test]
fn a_304_that_names_no_dependencies_is_asked_for_whole_once() {
    let (item, value) = (AtomicUsize::new(1), AtomicUsize::new(0));
    let origin = Origin::start(move |request| {
        if request.method() == "POST" {
            let (what, to, changed) =
                if request.uri() == "/other-item" { (&item, 2, "\"1\"") } else { (&value, 1, "\"2\"") };
            what.store(to, Ordering::SeqCst);
            return response(204, &[("cache-group-invalidation", changed)], "");
        }
        let value = value.load(Ordering::SeqCst);
        let tag = format!("\"{value}\"");
        if request.headers().get("if-none-match").is_some_and(|asked| *asked == *tag) {
            return response(304, &[("etag", &tag)], "");
        }
        let group = format!("\"{}\"", item.load(Ordering::SeqCst));
        let fields = [("cache-control", "max-age=60"), ("cache-groups", &*group), ("etag", &tag)];
        response(200, &fields, value.to_string())
    });
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    client.get("/page");
    client.ask("POST", "/other-item", "Content-Length: 0\r\n");
    let before = origin.received().len();
    assert_eq!(client.get("/page").text(), "0");
    assert_eq!(origin.received().len(), before + 2, "a validation, and the whole");
    assert!(client.get("/page").is_hit());
    client.ask("POST", "/change", "Content-Length: 0\r\n");
    assert_eq!(client.get("/page").text(), "1", "it depends on the other item now");
}

/// A request that fails after it has changed something says what: nobody gets what was before, and the target itself
/// stays.
#[test]
fn an_error_that_names_groups_lapses_what_depends_on_them() {
    let value = AtomicUsize::new(0);
    let origin = Origin::start(move |request| {
        if request.method() == "POST" {
            value.fetch_add(1, Ordering::SeqCst);
            let status = if request.uri() == "/refused" { 409 } else { 500 };
            return response(status, &[("cache-group-invalidation", "\"item\"")], "");
        }
        let group = if request.uri() == "/page" { "\"item\"" } else { "\"other\"" };
        let fields = [("cache-control", "max-age=60"), ("cache-groups", group)];
        response(200, &fields, value.load(Ordering::SeqCst).to_string())
    });
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    for (number, target) in ["/failed", "/refused"].into_iter().enumerate() {
        for path in ["/page", target] {
            client.get(path);
            assert!(client.get(path).is_hit(), "{path}");
        }
        assert!(client.ask("POST", target, "Content-Length: 0\r\n").status >= 400);
        assert_eq!(client.get("/page").text(), (number + 1).to_string(), "{target}");
        assert!(client.get(target).is_hit(), "a target that was not changed stays");
    }
}

/// Rules StoreIfUntouched and JoinersNeedStored: a response that was on its way while an update was made goes to the
/// request that started it, is not stored, and is not given to a request that came after the update.
#[test]
fn a_response_that_an_update_overtakes_is_for_its_requester_alone() {
    let value = Arc::new(AtomicUsize::new(0));
    let (asked, wait) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let (asked, gate, state) = (Mutex::new(asked), Mutex::new(gate), value.clone());
    let origin = Origin::start(move |request| {
        if request.method() == "POST" {
            state.store(1, Ordering::SeqCst);
            return response(204, &[("cache-group-invalidation", "\"item\"")], "");
        }
        let seen = state.load(Ordering::SeqCst);
        asked.lock().unwrap().send(()).unwrap();
        if seen == 0 {
            gate.lock().unwrap().recv().unwrap();
        }
        response(200, &[("cache-control", "max-age=60"), ("cache-groups", "\"item\"")], seen.to_string())
    });
    let proxy = proxy(&origin);
    let address = proxy.address();
    let early = std::thread::spawn(move || Client::connect(address).get("/page"));
    wait.recv().unwrap();
    let mut client = Client::connect(address);
    assert_eq!(client.ask("POST", "/buy", "Content-Length: 0\r\n").status, 204);
    client.write("GET /page HTTP/1.1\r\nHost: shop.example\r\n\r\n");
    go.send(()).unwrap();
    assert_eq!(client.read().unwrap().text(), "1", "it waited with the early request, and came after the update");
    let early = early.join().unwrap();
    assert_eq!(early.text(), "0");
    assert!(early.field("cache-status").unwrap().ends_with("detail=touched"), "{early:?}");
    assert!(client.get("/page").is_hit());
}

/// Writers and readers at the same time: a reader that asks after a writer was answered sees that write.
#[test]
fn no_reader_gets_less_than_what_a_writer_was_told_is_done() {
    let proxy = proxy(&shop());
    let (address, done) = (proxy.address(), Arc::new(AtomicUsize::new(0)));
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let done = done.clone();
            std::thread::spawn(move || {
                let (mut client, mut hits) = (Client::connect(address), 0);
                while done.load(Ordering::SeqCst) < 300 {
                    let least = done.load(Ordering::SeqCst);
                    let answer = client.get("/page");
                    let seen: usize = answer.text().parse().unwrap();
                    assert!(seen >= least, "{seen}, and a writer was told of {least}: {answer:?}");
                    hits += usize::from(answer.is_hit());
                }
                hits
            })
        })
        .collect();
    let mut writer = Client::connect(address);
    for number in 1..=300 {
        assert_eq!(writer.ask("POST", "/buy", "Content-Length: 0\r\n").status, 204);
        done.store(number, Ordering::SeqCst);
    }
    let hits: usize = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
    assert!(hits > 0, "nothing was cached");
}

#[test]
fn a_response_without_dependencies_depends_on_everything() {
    let origin = Origin::start(|request| match request.method().as_str() {
        "POST" => response(204, &[("cache-group-invalidation", "\"anything\"")], ""),
        "PUT" => response(204, &[("cache-group-invalidation", "not a list (")], ""),
        _ if request.uri() == "/named" => response(200, &[("cache-control", "max-age=60"), ("xkey", "named")], ""),
        _ => response(200, &[("cache-control", "max-age=60")], ""),
    });
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    let both = |client: &mut Client| ["/", "/named"].map(|path| client.get(path).is_hit());
    both(&mut client);
    assert_eq!(both(&mut client), [true, true]);
    client.ask("POST", "/x", "Content-Length: 0\r\n");
    let after = both(&mut client);
    assert_eq!(after, [true, true], "an update of one name is none of everything");
    client.ask("PUT", "/x", "Content-Length: 0\r\n");
    assert_eq!(both(&mut client), [false, false], "a list that cannot be read is everything");
}

/// Two proxies with one hub: a change that passes through one of them, or that one is notified of, lapses what the
/// other has stored.
#[test]
fn proxies_with_one_hub_hear_of_each_others_changes() {
    let origin = shop();
    let mut config = config(origin.address);
    config.site.listen = Some("127.0.0.1:0".parse().unwrap());
    // A hub that others may have had a lease of before waits for these to be over.
    config.site.lease = Duration::from_millis(300);
    config.admin = Some("127.0.0.1:0".parse().unwrap());
    let one = Proxy::start(config.clone()).unwrap();
    config.site = SiteConfig { hub: Some(one.hub_address().unwrap().to_string()), ..SiteConfig::default() };
    let other = Proxy::start(config).unwrap();
    let mut clients = [&one, &other].map(|proxy| Client::connect(proxy.address()));
    let start = Instant::now();
    let mut wait_for_hits = |path: &str| {
        for client in &mut clients {
            while !client.get(path).is_hit() {
                assert!(start.elapsed() < PATIENCE, "a home has not found its hub: {:?}", client.get(path));
            }
        }
    };
    for path in ["/page", "/other", "/by-url"] {
        wait_for_hits(path);
    }
    let mut client = Client::connect(other.address());
    let mut writer = Client::connect(one.address());
    assert_eq!(writer.ask("POST", "/by-url", "Content-Length: 0\r\n").status, 204);
    assert_eq!(client.get("/page").text(), "1");
    assert!(client.get("/other").is_hit());
    let changes = Changes { urls: vec!["http://shop.example/other".to_owned()], ..Changes::default() };
    invalidate(&one.admin_address().unwrap().to_string(), None, &changes).unwrap();
    assert!(!client.get("/other").is_hit(), "the other proxy has it under the same URL");
}

/// As many as the documents promise, and the name besides that proxies of one hub give each response.
#[test]
fn a_response_is_stored_with_as_many_names_as_the_documents_say() {
    let origin = Origin::start(|request| {
        let count: usize = request.uri().path().trim_start_matches('/').parse().unwrap();
        let names = (0..count).map(|number| format!("\"item:{number:04}\"")).collect::<Vec<_>>().join(", ");
        response(200, &[("cache-control", "max-age=60"), ("cache-groups", &names)], "")
    });
    let mut config = config(origin.address);
    config.site.listen = Some("127.0.0.1:0".parse().unwrap());
    config.site.lease = Duration::from_millis(100);
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address());
    let start = Instant::now();
    while !client.get("/1024").is_hit() {
        assert!(start.elapsed() < PATIENCE, "{:?}", client.get("/1024").field("cache-status"));
    }
    let status = client.get("/1025").field("cache-status").unwrap();
    assert!(status.ends_with("detail=dependencies-count"), "{status}");
}

/// The client of a change goes before the origin has answered: what it has changed lapses all the same.
#[test]
fn a_change_whose_client_has_gone_is_a_change() {
    let value = Arc::new(AtomicUsize::new(0));
    let (asked, wait) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let (asked, gate, state) = (Mutex::new(asked), Mutex::new(gate), value.clone());
    let origin = Origin::start(move |request| {
        if request.method() == "POST" {
            asked.lock().unwrap().send(()).unwrap();
            gate.lock().unwrap().recv().unwrap();
            state.store(1, Ordering::SeqCst);
            return response(204, &[("cache-group-invalidation", "\"item\"")], "");
        }
        let fields = [("cache-control", "max-age=60"), ("cache-groups", "\"item\"")];
        response(200, &fields, state.load(Ordering::SeqCst).to_string())
    });
    let proxy = proxy(&origin);
    let mut reader = Client::connect(proxy.address());
    reader.get("/page");
    assert!(reader.get("/page").is_hit());
    let mut writer = Client::connect(proxy.address());
    writer.write("POST /buy HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 0\r\n\r\n");
    wait.recv().unwrap();
    drop(writer);
    // Long enough for the proxy to see the end of the connection.
    std::thread::sleep(Duration::from_millis(50));
    go.send(()).unwrap();
    let start = Instant::now();
    while reader.get("/page").text() != "1" {
        assert!(start.elapsed() < PATIENCE, "what was stored before the change is still answered");
    }
}

/// A proxy that ends takes its home's lease back and says so: no update waits until it would be over.
#[test]
fn an_update_does_not_wait_for_a_proxy_that_has_ended() {
    let origin = shop();
    let mut config = config(origin.address);
    config.site.listen = Some("127.0.0.1:0".parse().unwrap());
    config.site.lease = Duration::from_secs(10);
    config.site.earlier_lease = Some(Duration::from_millis(10));
    config.admin = Some("127.0.0.1:0".parse().unwrap());
    let one = Proxy::start(config.clone()).unwrap();
    config.site = SiteConfig { hub: Some(one.hub_address().unwrap().to_string()), ..SiteConfig::default() };
    let other = Proxy::start(config).unwrap();
    let mut client = Client::connect(other.address());
    let start = Instant::now();
    while !client.get("/page").is_hit() {
        assert!(start.elapsed() < PATIENCE, "its home has not found its hub: {:?}", client.get("/page"));
    }
    drop(client);
    drop(other);
    let (begun, mut writer) = (Instant::now(), Client::connect(one.address()));
    assert_eq!(writer.ask("POST", "/buy", "Content-Length: 0\r\n").status, 204);
    assert!(begun.elapsed() < Duration::from_secs(5), "it has waited for {:?}", begun.elapsed());
}

/// While the hub is away, a change is not said to be done; when it is there again, it is.
#[test]
fn a_change_waits_for_its_hub_no_longer_than_it_may() {
    let origin = shop();
    let mut config = config(origin.address);
    config.site.listen = Some("127.0.0.1:0".parse().unwrap());
    config.site.lease = Duration::from_millis(300);
    config.limits.hub = Duration::from_millis(500);
    config.admin = Some("127.0.0.1:0".parse().unwrap());
    let one = Proxy::start(config.clone()).unwrap();
    let hub = one.hub_address().unwrap();
    let site = std::mem::replace(&mut config.site, SiteConfig { hub: Some(hub.to_string()), ..SiteConfig::default() });
    let other = Proxy::start(config.clone()).unwrap();
    drop(one);
    let mut writer = Client::connect(other.address());
    let answer = writer.ask("POST", "/buy", "Content-Length: 0\r\n");
    assert_eq!(answer.status, 504, "{answer:?}");
    assert!(answer.text().contains("has been carried out"), "{answer:?}");
    let admin = other.admin_address().unwrap().to_string();
    let refused = invalidate(&admin, None, &Changes { all: true, ..Changes::default() }).unwrap_err().to_string();
    assert!(refused.contains("the hub is told when it is reached"), "{refused}");

    let _one = Proxy::start(Config { site: SiteConfig { listen: Some(hub), ..site }, ..config }).unwrap();
    let start = Instant::now();
    while Client::connect(other.address()).ask("POST", "/buy", "Content-Length: 0\r\n").status != 204 {
        assert!(start.elapsed() < PATIENCE, "the hub is there again");
    }
}

/// A request that may change something does, whatever protocol it asks for besides.
#[test]
fn a_change_that_asks_for_a_web_socket_is_a_change() {
    let proxy = proxy(&shop());
    let mut client = Client::connect(proxy.address());
    client.get("/page");
    assert!(client.get("/page").is_hit());
    let answer = client.ask("POST", "/buy", "Content-Length: 0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n");
    assert_eq!(answer.status, 204);
    assert_eq!(Client::connect(proxy.address()).get("/page").text(), "1");
}

/// A proxy that is told to stop sees a change to its end whose client has gone.
#[test]
fn a_change_is_announced_before_the_proxy_stops() {
    let (asked, wait) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let (asked, gate) = (Mutex::new(asked), Mutex::new(gate));
    let origin = Origin::start(move |request| {
        if request.method() == "POST" {
            asked.lock().unwrap().send(()).unwrap();
            gate.lock().unwrap().recv().unwrap();
            return response(204, &[("cache-group-invalidation", "\"item\"")], "");
        }
        response(200, &[("cache-control", "max-age=60"), ("cache-groups", "\"item\"")], "")
    });
    let mut config = config(origin.address);
    config.site.listen = Some("127.0.0.1:0".parse().unwrap());
    config.site.lease = Duration::from_millis(300);
    let one = Proxy::start(config.clone()).unwrap();
    config.site = SiteConfig { hub: Some(one.hub_address().unwrap().to_string()), ..SiteConfig::default() };
    let other = Proxy::start(config).unwrap();
    let mut reader = Client::connect(one.address());
    let start = Instant::now();
    while !reader.get("/page").is_hit() {
        assert!(start.elapsed() < PATIENCE, "nothing is stored");
    }
    let mut writer = Client::connect(other.address());
    writer.write("POST /buy HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 0\r\n\r\n");
    wait.recv().unwrap();
    drop(writer);
    std::thread::sleep(Duration::from_millis(50));
    let stopping = std::thread::spawn(move || drop(other));
    std::thread::sleep(Duration::from_millis(50));
    go.send(()).unwrap();
    stopping.join().unwrap();
    assert!(!reader.get("/page").is_hit(), "the change was announced");
}

/// Updates that spell names otherwise than the application does never meet a response: the operator is told, with both
/// spellings, once.
#[test]
fn updates_that_name_nothing_that_is_stored_are_told_of() {
    let (notes, noted) = mpsc::channel();
    let mut config = config(shop().address);
    config.admin = Some("127.0.0.1:0".parse().unwrap());
    config.notes = Some(notes);
    let proxy = Proxy::start(config).unwrap();
    let admin = proxy.admin_address().unwrap().to_string();
    let mut client = Client::connect(proxy.address());
    let tell = |number: usize| {
        let changes = Changes { dependencies: vec![format!("item-{number}")], ..Changes::default() };
        invalidate(&admin, None, &changes).unwrap();
    };
    tell(0);
    client.get("/page");
    assert!(client.get("/page").is_hit(), "an update before anything is stored says nothing");
    (1..=20).for_each(tell);
    let note = noted.recv_timeout(PATIENCE).unwrap();
    assert_eq!(note.name(), "names-unmatched");
    let text = note.to_string();
    assert!(text.contains("none of 20 updates") && text.contains("item-20") && text.contains("as item:"), "{text}");
    (21..=40).for_each(tell);
    assert!(noted.recv_timeout(Duration::from_secs(2)).is_err(), "it is said once");
}

/// A hub that is away, and a source whose watcher is: each in the notes, in the metrics and in the answer to a health
/// check.
#[test]
fn operators_hear_when_the_hub_or_a_watcher_is_away() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let with_hub = SiteConfig { hub: Some(unused.to_string()), ..SiteConfig::default() };
    let with_source = SiteConfig {
        listen: Some("127.0.0.1:0".parse().unwrap()),
        sources: vec![SourceName::new("shop").unwrap()],
        ..SiteConfig::default()
    };
    for (site, expected) in [(with_hub, "the hub is not reached"), (with_source, "the source shop is away")] {
        let (notes, noted) = mpsc::channel();
        let mut config = config(shop().address);
        (config.site, config.notes, config.admin) = (site, Some(notes), Some("127.0.0.1:0".parse().unwrap()));
        let proxy = Proxy::start(config).unwrap();
        let note = noted.recv_timeout(PATIENCE).unwrap();
        assert_eq!(note.name(), "coherence-away");
        assert!(note.to_string().contains(expected), "{note}");
        let mut operator = Client::connect(proxy.admin_address().unwrap());
        let mut ask = |path: &str| {
            operator.write(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            operator.read().unwrap()
        };
        let health = ask("/health");
        assert_eq!(health.status, 503);
        assert!(health.text().contains(expected), "{health:?}");
        assert!(ask("/metrics").text().contains("thorp_proxy_coherence_away 1\n"));
        assert_eq!(Client::connect(proxy.address()).get("/page").status, 200);
    }
    let mut config = config(shop().address);
    config.admin = Some("127.0.0.1:0".parse().unwrap());
    let proxy = Proxy::start(config).unwrap();
    let mut operator = Client::connect(proxy.admin_address().unwrap());
    operator.write("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(operator.read().unwrap().status, 200);
}
