//! New settings while the proxy runs.

use crate::harness::{Client, Origin, config, response};
use proxy::{Config, Proxy};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};

/// An origin that says who it is.
fn origin(name: &'static str) -> Origin {
    Origin::start(move |_| response(200, &[("cache-control", "max-age=60"), ("etag", &format!("\"{name}\""))], name))
}

#[test]
fn another_origin_is_asked_for_all() {
    let (old, new) = (origin("old"), origin("new"));
    let proxy = Proxy::start(config(old.address)).unwrap();
    let mut client = Client::connect(proxy.address());
    client.get("/");
    assert!(client.get("/").is_hit());
    assert_eq!(proxy.reload(config(old.address)).unwrap(), Vec::<&str>::new());
    assert!(client.get("/").is_hit(), "nothing has changed");
    proxy.reload(config(new.address)).unwrap();
    let answer = client.get("/");
    assert_eq!(answer.text(), "new", "on the same connection: {answer:?}");
    let asked = new.received();
    assert!(!asked[0].headers().contains_key("if-none-match"), "the other origin's tags say nothing here: {asked:?}");
    assert!(client.get("/").is_hit());
    let mut guessing = config(new.address);
    guessing.policy.heuristic.percent = 50;
    proxy.reload(guessing).unwrap();
    assert!(!client.get("/").is_hit(), "it might have been stored in another way");
}

/// A response that was asked for under the old settings is for its requester alone.
#[test]
fn a_response_on_its_way_meanwhile_is_not_stored() {
    let (arrived, arrival) = mpsc::sync_channel(0);
    let (release, released) = mpsc::channel();
    let (arrived, released) = (Mutex::new(arrived), Mutex::new(released));
    let old = Origin::start(move |_| {
        arrived.lock().unwrap().send(()).unwrap();
        released.lock().unwrap().recv().unwrap();
        response(200, &[("cache-control", "max-age=60")], "old")
    });
    let new = origin("new");
    let proxy = Proxy::start(config(old.address)).unwrap();
    let mut early = Client::connect(proxy.address());
    let asking = std::thread::spawn(move || early.get("/"));
    arrival.recv().unwrap();
    // New settings that change nothing of it come in between.
    let mut patient = config(old.address);
    patient.limits.origin *= 2;
    proxy.reload(patient).unwrap();
    proxy.reload(config(new.address)).unwrap();
    release.send(()).unwrap();
    assert_eq!(asking.join().unwrap().text(), "old");
    assert_eq!(Client::connect(proxy.address()).get("/").text(), "new");
}

#[test]
fn settings_that_need_a_start_are_named_and_stay() {
    let origin = origin("one");
    let proxy = Proxy::start(config(origin.address)).unwrap();
    let mut other = config(origin.address);
    (other.threads, other.listen) = (1, "127.0.0.1:1".parse().unwrap());
    other.limits.stored_bytes /= 2;
    other.site.listen = Some("127.0.0.1:0".parse().unwrap());
    assert_eq!(proxy.reload(other.clone()).unwrap(), ["listen", "threads", "cache", "hub-listen"]);
    assert_eq!(proxy.reload(other).unwrap(), ["listen", "threads", "cache", "hub-listen"], "they are still not done");
    assert_eq!(Client::connect(proxy.address()).get("/").status, 200);
}

/// The memory stays as it is, and so does the largest response for which there could be room.
#[test]
fn a_larger_response_than_all_memory_is_not_stored_after_a_change() {
    let origin = Origin::start(|_| response(200, &[("cache-control", "max-age=60")], vec![7u8; 2 << 20]));
    let with_memory = |bytes: usize| {
        let mut config = config(origin.address);
        (config.limits.stored_bytes, config.limits.stored_response_bytes) = (bytes, 16 << 20);
        config
    };
    let proxy = Proxy::start(with_memory(1 << 20)).unwrap();
    let status = || Client::connect(proxy.address()).get("/").field("cache-status").unwrap();
    let at_start = status();
    assert_eq!(proxy.reload(with_memory(64 << 20)).unwrap(), ["cache"]);
    let later = status();
    assert!(at_start.contains("detail=too-large") && later.contains("detail=too-large"), "{at_start}; {later}");
}

#[test]
fn settings_that_cannot_be_change_nothing() {
    let (old, new) = (origin("old"), origin("new"));
    let proxy = Proxy::start(config(old.address)).unwrap();
    let url = format!("https://localhost:{}", new.address.port());
    let bad = Config { origin: url.parse().unwrap(), origin_ca: Some("/nowhere/ca.pem".into()), ..config(new.address) };
    let refused = proxy.reload(bad.clone()).unwrap_err().to_string();
    assert!(refused.contains("/nowhere/ca.pem: unreadable: "), "{refused}");
    assert!(Proxy::check(bad).is_err());
    assert_eq!(Client::connect(proxy.address()).get("/").text(), "old");
}

/// Each answer is by one generation, and no request fails, however often the settings change.
#[test]
fn requests_go_on_while_settings_change() {
    let origins = [origin("one"), origin("other")];
    let proxy = Proxy::start(config(origins[0].address)).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let (address, is_over) = (proxy.address(), is_over.clone());
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                while !is_over.load(Ordering::Relaxed) {
                    let answer = client.get("/");
                    assert_eq!(answer.field("etag"), Some(format!("\"{}\"", answer.text())), "{answer:?}");
                }
            })
        })
        .collect();
    for round in 0..40 {
        let index = round % 2;
        proxy.reload(config(origins[index].address)).unwrap();
        let mut client = Client::connect(proxy.address());
        assert_eq!(client.get("/").text(), ["one", "other"][index], "a request that comes after the change");
    }
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
}
