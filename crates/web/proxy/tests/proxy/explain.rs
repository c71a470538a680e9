//! Operators ask why a URL is answered as it is, and what depends on something.

use crate::harness::{Client, Origin, config, response};
use proxy::{Changes, Config, Proxy, invalidate, who, why};
use serde_json::{Value, json};

fn start(origin: &Origin) -> (Proxy, String) {
    let proxy = Proxy::start(Config { admin: Some("127.0.0.1:0".parse().unwrap()), ..config(origin.address) }).unwrap();
    let admin = proxy.admin_address().unwrap().to_string();
    (proxy, admin)
}

/// The explanation of a page of the shop.
fn said(admin: &str, path: &str) -> Value {
    why(admin, None, &format!("http://shop.example{path}")).unwrap()
}

fn shop() -> Origin {
    Origin::start(|request| match request.uri().path() {
        "/item" => {
            let fields = [
                ("cache-control", "max-age=60"),
                ("cache-groups", "\"item:42\", \"list:bikes\""),
                ("etag", "\"v\""),
                ("vary", "accept-language"),
            ];
            response(200, &fields, "made")
        }
        "/cart" => response(200, &[("cache-control", "no-store")], "cart"),
        "/nothing" => response(200, &[("cache-control", "max-age=60")], "made"),
        _ => response(500, &[], "broken"),
    })
}

#[test]
fn a_stored_response_is_explained() {
    let origin = shop();
    let (proxy, admin) = start(&origin);
    let mut client = Client::connect(proxy.address());
    client.ask("GET", "/item", "Accept-Language: de\r\n");
    client.get("/nothing");
    let entry = &said(&admin, "/item")["stored"][0];
    assert_eq!(entry["dependencies"], json!(["item:42", "list:bikes"]));
    assert_eq!(entry["for_requests_with"], json!(["accept-language:de"]));
    assert_eq!([&entry["status"], &entry["bytes"], &entry["lifetime_s"]], [200, 4, 60]);
    assert_eq!((&entry["current"], &entry["next_request"]["answer"]), (&true.into(), &"hit".into()));
    let last = &said(&admin, "/item")["last_from_origin"];
    assert_eq!((&last["because"], &last["stored"]), (&"uri-miss".into(), &true.into()), "{last}");
    assert_eq!(said(&admin, "/nothing")["stored"][0]["dependencies"], json!(["*"]));
    let changes = Changes { dependencies: vec!["item:42".to_owned()], ..Changes::default() };
    invalidate(&admin, None, &changes).unwrap();
    let entry = &said(&admin, "/item")["stored"][0];
    assert_eq!(entry["next_request"], json!({"answer": "validate", "because": "invalidated"}));
    assert_ne!(entry["word"]["stored_with"], entry["word"]["now"], "{entry}");
    assert_eq!(entry["dependencies"], json!(["item:42", "list:bikes"]), "it is still known");
    let hits = proxy.tally().hits;
    assert_eq!(hits, 0, "asking why is no use of a response");
}

/// Those who may ask why a response is stored do not get to know the secrets of its requester.
#[test]
fn values_that_select_a_response_are_not_shown() {
    let origin =
        Origin::start(|_| response(200, &[("cache-control", "public, max-age=60"), ("vary", "cookie, x-a, x-b")], ""));
    let (proxy, admin) = start(&origin);
    let mut client = Client::connect(proxy.address());
    for cookie in ["session=a-secret", "session=another"] {
        client.ask("GET", "/", &format!("Cookie: {cookie}\r\nX-A: a-secret\r\n"));
    }
    let said = said(&admin, "/");
    let selecting: Vec<_> =
        said["stored"].as_array().unwrap().iter().map(|entry| &entry["for_requests_with"]).collect();
    assert_eq!(selecting.len(), 2, "{said}");
    assert!(!said.to_string().contains("secret"), "{said}");
    assert!(selecting[0][0].as_str().unwrap().starts_with("cookie:#"), "{said}");
    assert_ne!(selecting[0][0], selecting[1][0], "other values are seen to be others");
    assert_eq!((&selecting[0][1], &selecting[0][2]), (&selecting[1][1], &"x-b".into()), "{said}");
}

#[test]
fn a_missing_response_is_explained_by_the_last_decision() {
    let origin = shop();
    let (proxy, admin) = start(&origin);
    let mut client = Client::connect(proxy.address());
    let last = |path: &str| said(&admin, path)["last_from_origin"].clone();
    assert_eq!(last("/cart"), Value::Null, "nobody has asked for it");
    client.get("/cart");
    let cart = last("/cart");
    assert_eq!((&cart["stored"], &cart["detail"], &cart["status"]), (&false.into(), &"no-store".into(), &200.into()));
    assert_eq!(said(&admin, "/cart")["stored"], json!([]));
    client.get("/broken");
    assert_eq!(last("/broken")["status"], 500);
    client.ask("GET", "/item", "Content-Length: 1\r\n\r\nx");
    assert_eq!(last("/item")["because"], "bypass");
    // A change is none of what is stored.
    client.get("/item");
    client.ask("POST", "/item", "Content-Length: 0\r\n");
    assert_eq!(last("/item")["because"], "uri-miss");
    drop(origin);
    for url in ["shop.example/item", "/item", ""] {
        let refused = why(&admin, None, url).unwrap_err().to_string();
        assert!(refused.contains("expected http://HOST/PATH"), "{refused}");
    }
}

#[test]
fn the_responses_of_a_dependency_are_listed() {
    let origin = Origin::start(|request| {
        let group = if request.uri().path() == "/other" { "\"other\"" } else { "\"all\"" };
        response(200, &[("cache-control", "max-age=60"), ("cache-groups", group)], "")
    });
    let (proxy, admin) = start(&origin);
    let mut client = Client::connect(proxy.address());
    client.get("/other");
    let count = proxy::limits::EXPLAINED_ENTRIES_MAX + 2;
    for number in 0..count {
        client.get(&format!("/{number:04}"));
    }
    let other = who(&admin, None, "other").unwrap();
    assert_eq!((&other["responses"], &other["entries"][0]["url"]), (&1.into(), &"http://shop.example/other".into()));
    let all = who(&admin, None, "all").unwrap();
    assert_eq!((&all["responses"], &all["entries_more"]), (&count.into(), &2.into()));
    assert_eq!(all["entries"][1]["url"], "http://shop.example/0001");
    assert_eq!(who(&admin, None, "none").unwrap()["responses"], 0);
    let changes = Changes { dependencies: vec!["all".to_owned()], ..Changes::default() };
    invalidate(&admin, None, &changes).unwrap();
    assert_eq!(who(&admin, None, "all").unwrap()["responses"], 0, "they are stored, and not good");
    assert!(who(&admin, None, &"a".repeat(257)).unwrap_err().to_string().contains("1 to 256 bytes"));
}
