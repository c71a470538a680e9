//! Operators ask how it goes, and invalidate.

use crate::harness::{Client, Origin, config, response};
use proxy::{Changes, Proxy, invalidate};
use responses::Coherence;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

fn origin() -> Origin {
    Origin::start(|request| {
        let group = format!("\"{}\"", &request.uri().path()[1..]);
        response(200, &[("cache-control", "max-age=60"), ("cache-groups", &group)], "made")
    })
}

fn start(token: Option<&str>) -> (Proxy, SocketAddr) {
    let mut config = config(origin().address);
    config.admin = Some("127.0.0.1:0".parse().unwrap());
    config.admin_token = token.map(str::to_owned);
    let proxy = Proxy::start(config).unwrap();
    let admin = proxy.admin_address().unwrap();
    (proxy, admin)
}

#[test]
fn what_is_invalidated_is_not_served_again() {
    let (proxy, admin) = start(None);
    let mut client = Client::connect(proxy.address());
    let paths = ["/one", "/two", "/three", "/four"];
    let mut hits = move || paths.map(|path| client.get(path).is_hit());
    hits();
    assert_eq!(hits(), [true; 4]);
    let changes = Changes {
        dependencies: vec!["one".to_owned()],
        urls: vec!["http://shop.example/two".to_owned()],
        ..Changes::default()
    };
    let said = invalidate(&admin.to_string(), None, &changes).unwrap();
    assert_eq!((&said["dependencies"], &said["removed"]), (&1.into(), &1.into()));
    assert_eq!((&said["dependents"], &said["without_dependents"]), (&1.into(), &json!([])));
    let changes = Changes {
        dependencies: vec!["three".to_owned(), "no such name".to_owned()],
        urls: vec!["http://shop.example/none".to_owned()],
        ..Changes::default()
    };
    let said = invalidate(&admin.to_string(), None, &changes).unwrap();
    assert_eq!((&said["dependents"], &said["without_dependents"]), (&1.into(), &json!(["no such name"])));
    assert_eq!(said["urls_without_responses"], json!(["http://shop.example/none"]));
    assert_eq!(hits(), [false, false, false, true]);
    let mut operator = Client::connect(admin);
    operator.write("PURGE /three HTTP/1.1\r\nHost: 127.0.0.1\r\nSurrogate-Key: three none\r\n\r\n");
    assert_eq!(operator.read().unwrap().status, 200);
    assert_eq!(hits(), [true, true, false, true]);
    invalidate(&admin.to_string(), None, &Changes { all: true, ..Changes::default() }).unwrap();
    assert_eq!(hits(), [false; 4]);
}

#[test]
fn a_url_is_purged_by_its_host_and_path() {
    let (proxy, admin) = start(Some("s3cret"));
    let mut client = Client::connect(proxy.address());
    client.get("/one");
    assert!(client.get("/one").is_hit());
    let mut operator = Client::connect(admin);
    let mut purge = |host: &str| {
        operator.write(format!("PURGE /one HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer s3cret\r\n\r\n"));
        operator.read().unwrap()
    };
    assert!(purge("elsewhere.example").text().contains("\"removed\":0"));
    assert!(purge("shop.example").text().contains("\"removed\":1"));
    assert!(!client.get("/one").is_hit());
    let refused = invalidate(&admin.to_string(), Some("other"), &Changes::default()).unwrap_err();
    assert!(refused.to_string().contains("token"), "{refused}");
}

#[test]
fn operators_see_counts() {
    let (proxy, admin) = start(None);
    let mut client = Client::connect(proxy.address());
    client.get("/one");
    client.get("/one");
    let mut operator = Client::connect(admin);
    let status = operator.ask("GET", "/status", "");
    assert_eq!(status.status, 403, "the test's client names a host, as a page would: {status:?}");
    operator.write("GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let status: serde_json::Value = serde_json::from_slice(&operator.read().unwrap().body).unwrap();
    let counts =
        ["connections", "requests", "hits", "stored_responses"].map(|name| status["proxy"][0][name].as_u64().unwrap());
    assert_eq!(counts, [1, 2, 1, 1]);
    operator.write("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(operator.read().unwrap().text().contains("thorp_proxy_hits_total 1\n"));
}

/// The graphs of an operator's first day: answers by status, why the application was asked and why nothing was stored,
/// its errors, and how long clients waited, hits apart.
#[test]
fn operators_see_statuses_reasons_times_and_errors_of_the_origin() {
    let origin = Origin::start(|request| match request.uri().path() {
        "/broken" => response(503, &[], ""),
        "/private" => response(200, &[("cache-control", "private")], ""),
        _ => response(200, &[("cache-control", "max-age=60")], "x"),
    });
    let mut config = config(origin.address);
    config.admin = Some("127.0.0.1:0".parse().unwrap());
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address());
    for path in ["/page", "/page", "/page", "/private", "/broken"] {
        client.get(path);
    }
    client.ask("POST", "/private", "Content-Length: 0\r\n");
    let mut operator = Client::connect(proxy.admin_address().unwrap());
    operator.write("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answer = operator.read().unwrap();
    for line in [
        "thorp_proxy_responses_total{status=\"200\"} 5",
        "thorp_proxy_responses_total{status=\"503\"} 1",
        "thorp_proxy_forwarded_total{reason=\"uri-miss\"} 3",
        "thorp_proxy_forwarded_total{reason=\"method\"} 1",
        "thorp_proxy_not_stored_total{reason=\"private\"} 1",
        "thorp_proxy_origin_errors_total{reason=\"status-5xx\"} 1",
        "thorp_proxy_response_seconds_count{by=\"cache\"} 2",
        "thorp_proxy_response_seconds_count{by=\"other\"} 4",
    ] {
        assert!(answer.text().lines().any(|other| other == line), "{line} is not in\n{}", answer.text());
    }
    operator.write("GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let status: serde_json::Value = serde_json::from_slice(&operator.read().unwrap().body).unwrap();
    assert_eq!(status["proxy_responses"][0], json!({"status": 200, "count": 5}));
    let times = &status["proxy_response_times"][0];
    assert!(times["by"] == "cache" && times["p99_us"].as_u64().unwrap() > 0, "{times}");
}

#[test]
fn batches_that_are_none_change_nothing() {
    let (_proxy, admin) = start(None);
    let refused = |body: String| {
        let mut operator = Client::connect(admin);
        operator.write(format!(
            "POST /invalidate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        operator.read().unwrap().status
    };
    assert_eq!(refused("{".to_owned()), 400);
    assert_eq!(refused("{\"keys\": []}".to_owned()), 400);
    assert_eq!(refused("{\"dependencies\": [\"\"]}".to_owned()), 400);
    assert_eq!(refused("{\"urls\": [\"/path\"]}".to_owned()), 400);
    assert_eq!(
        refused(format!("{{\"dependencies\": [{}\"a\"]}}", "\"a\",".repeat(proxy::limits::ADMIN_NAMES_MAX))),
        400
    );
    assert_eq!(refused("{}".to_owned()), 200);
}

#[test]
fn operators_elsewhere_need_a_token() {
    let mut config = config(origin().address);
    config.admin = Some("0.0.0.0:0".parse().unwrap());
    let refused = Proxy::start(config.clone()).unwrap_err();
    assert!(refused.to_string().contains("need a token"), "{refused}");
    config.admin_token = Some("s3cret".to_owned());
    Proxy::start(config).unwrap();
}

/// An origin whose pages have entity tags, and that says 304 to those who have the newest.
fn tagged(version: &Arc<AtomicUsize>) -> Origin {
    let version = version.clone();
    Origin::start(move |request| {
        let tag = format!("\"{}\"", version.load(Ordering::SeqCst));
        let fields = [("cache-control", "max-age=60, stale-if-error=600"), ("etag", &*tag)];
        let has_it = request.headers().get("if-none-match").is_some_and(|value| value.as_bytes() == tag.as_bytes());
        if request.headers().contains_key("x-fail") {
            response(500, &[], "broken")
        } else if has_it {
            response(304, &fields, "")
        } else {
            response(200, &fields, tag.clone())
        }
    })
}

#[test]
fn a_soft_purge_keeps_the_body_for_what_the_origin_says_of_it() {
    let version = Arc::<AtomicUsize>::default();
    let origin = tagged(&version);
    let mut config = config(origin.address);
    config.admin = Some("127.0.0.1:0".parse().unwrap());
    // Even where stale responses may be served, a purged one is none.
    config.policy.coherence = Coherence::Weak;
    let proxy = Proxy::start(config).unwrap();
    let admin = proxy.admin_address().unwrap();
    let mut client = Client::connect(proxy.address());
    client.get("/page");
    assert!(client.get("/page").is_hit());
    let urls = vec!["http://shop.example/page".to_owned()];
    let purge = || {
        let said =
            invalidate(&admin.to_string(), None, &Changes { urls: urls.clone(), soft: true, ..Changes::default() });
        let said = said.unwrap();
        assert_eq!((&said["removed"], &said["lapsed"]), (&0.into(), &1.into()));
    };
    purge();
    assert_eq!(client.ask("GET", "/page", "X-Fail: yes\r\n").status, 500, "not without the origin's word");
    let answer = client.get("/page");
    let status = answer.field("cache-status").unwrap();
    assert!(status.contains("fwd-status=304") && status.contains("detail=invalidated"), "{status}");
    assert_eq!(answer.text(), "\"0\"", "the body is the one that was kept");
    assert!(client.get("/page").is_hit());
    purge();
    purge();
    version.store(1, Ordering::SeqCst);
    assert_eq!(client.get("/page").text(), "\"1\"");
    assert!(client.get("/page").is_hit());
    // The same by PURGE.
    client.write("GET /page HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert_eq!(client.read().unwrap().status, 200);
    let mut operator = Client::connect(admin);
    for (field, expected) in [("Soft-Purge: 1", "\"lapsed\":1"), ("Soft-Purge: 0", "\"removed\":1")] {
        operator.write(format!("PURGE /page HTTP/1.1\r\nHost: 127.0.0.1\r\n{field}\r\n\r\n"));
        let said = operator.read().unwrap();
        assert!(said.text().contains(expected), "{said:?}");
    }
}

/// A response that was on its way when it was purged, softly or not, is for its requester alone.
#[test]
fn a_response_on_its_way_is_not_stored_after_a_soft_purge() {
    let (arrived, arrival) = mpsc::sync_channel(0);
    let (release, released) = mpsc::channel();
    let (arrived, released) = (Mutex::new(arrived), Mutex::new(released));
    let origin = Origin::start(move |_| {
        arrived.lock().unwrap().send(()).unwrap();
        released.lock().unwrap().recv().unwrap();
        response(200, &[("cache-control", "max-age=60")], "made")
    });
    let mut config = config(origin.address);
    config.admin = Some("127.0.0.1:0".parse().unwrap());
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address());
    let asking = std::thread::spawn(move || (client.get("/page"), client));
    arrival.recv().unwrap();
    let urls = vec!["http://shop.example/page".to_owned()];
    let changes = Changes { urls, soft: true, ..Changes::default() };
    invalidate(&proxy.admin_address().unwrap().to_string(), None, &changes).unwrap();
    release.send(()).unwrap();
    let (_, mut client) = asking.join().unwrap();
    let asking = std::thread::spawn(move || client.get("/page"));
    arrival.recv().unwrap();
    release.send(()).unwrap();
    assert!(!asking.join().unwrap().is_hit());
}
