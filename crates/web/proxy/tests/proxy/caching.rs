//! Stored responses answer, as `responses` decides.

use crate::harness::{Answer, Client, Origin, config, proxy, response};
use proxy::{BrowserCache, Changes, Proxy, invalidate};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// An origin that numbers its responses.
fn counting(fields: &'static [(&'static str, &'static str)]) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |_| response(200, fields, format!("number {}", count.fetch_add(1, Ordering::Relaxed))))
}

#[test]
fn a_stored_response_answers_with_its_age() {
    let origin = counting(&[("cache-control", "max-age=60"), ("etag", "\"a\"")]);
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    let first = client.get("/a");
    // A second may turn while the origin is asked, and counts as the response's age.
    let says = ["60", "59"].map(|ttl| format!("thorp; fwd=uri-miss; ttl={ttl}; stored"));
    assert!(says.contains(&first.field("cache-status").unwrap()), "{:?}", first.field("cache-status"));
    let second = client.get("/a");
    assert_eq!((second.text(), second.is_hit()), ("number 0", true));
    assert!(second.field("age").is_some() && second.field("date").is_some());
    assert_eq!(second.field("content-length").unwrap(), "8");
    let head = client.ask("HEAD", "/a", "");
    assert_eq!((head.is_hit(), head.field("content-length").unwrap().as_str()), (true, "8"));
    let other = client.get("/b");
    assert_eq!(other.text(), "number 1");
    let conditional = client.ask("GET", "/a", "If-None-Match: \"a\"\r\n");
    assert_eq!((conditional.status, conditional.is_hit()), (304, true));
    let part = client.ask("GET", "/a", "Range: bytes=2-4\r\n");
    assert_eq!((part.status, part.text()), (206, "mbe"));
    assert_eq!(part.field("content-range").unwrap(), "bytes 2-4/8");
    assert_eq!(client.ask("GET", "/a", "Range: bytes=9-\r\n").status, 416);
    assert_eq!(origin.received().len(), 2);
    assert_eq!(proxy.tally().hits, 5);
}

#[test]
fn the_whole_is_fetched_behind_a_range_of_it() {
    let origin = Origin::start(|request| {
        let control = if request.uri().path() == "/private" { "private" } else { "max-age=60" };
        if !request.headers().contains_key("range") {
            return response(200, &[("cache-control", control)], "number 0");
        }
        let range = if request.uri().path() == "/large" { "bytes 2-4/999999999" } else { "bytes 2-4/8" };
        response(206, &[("cache-control", control), ("content-range", range)], "mbe")
    });
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    let mut part = |path| client.ask("GET", path, "Range: bytes=2-4\r\nIf-Range: \"a\"\r\n");
    for path in ["/private", "/large", "/a"] {
        let first = part(path);
        assert_eq!((first.status, first.text(), first.is_hit()), (206, "mbe", false), "{path}");
    }
    let mut client = Client::connect(proxy.address());
    let mut second = || client.ask("GET", "/a", "Range: bytes=0-1\r\n");
    let is_hit = (0..1000).any(|_| {
        sleep(Duration::from_millis(10));
        let second = second();
        second.is_hit() && (second.status, second.text()) == (206, "nu")
    });
    assert!(is_hit, "the whole has not been stored");
    let received = origin.received();
    let wholes = received.iter().filter(|request| !request.headers().contains_key("range"));
    let wholes: Vec<_> = wholes.map(|request| (request.uri().path(), request.headers().get("if-range"))).collect();
    assert_eq!(wholes, [("/a", None)], "once, and not what would not be stored");
}

#[test]
fn a_response_without_a_length_is_stored_and_answers_with_one() {
    static ANSWERS: &[&str] = &["HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\r\nuntil the end"];
    let proxy = Proxy::start(config(crate::harness::raw_origin(ANSWERS))).unwrap();
    let mut client = Client::connect(proxy.address());
    assert_eq!(client.get("/").text(), "until the end");
    let second = client.get("/");
    assert_eq!((second.is_hit(), second.text()), (true, "until the end"));
    assert_eq!(second.field("content-length").unwrap(), "13");
}

#[test]
fn a_stale_response_is_validated_and_freshened() {
    let origin = Origin::start(|request| {
        if request.headers().get("if-none-match").is_some_and(|tag| tag == "\"a\"") {
            return response(304, &[("etag", "\"a\""), ("cache-control", "max-age=60"), ("x-new", "1")], "");
        }
        response(200, &[("etag", "\"a\""), ("cache-control", "max-age=0")], "content")
    });
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    assert_eq!(client.get("/").text(), "content");
    let validated = client.get("/");
    assert_eq!((validated.status, validated.text()), (200, "content"));
    assert!(validated.field("cache-status").unwrap().contains("fwd=stale; fwd-status=304"), "{validated:?}");
    assert_eq!(validated.field("x-new").unwrap(), "1");
    assert!(client.get("/").is_hit(), "the 304 has freshened it");
    assert_eq!(origin.received().len(), 2);
}

#[test]
fn a_304_about_another_response_is_not_believed() {
    let origin = Origin::start(|request| {
        if request.headers().contains_key("if-none-match") {
            return response(304, &[("etag", "\"b\"")], "");
        }
        response(200, &[("etag", "\"a\""), ("cache-control", "max-age=0")], "content")
    });
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    assert_eq!(client.get("/").text(), "content");
    assert_eq!(client.get("/").text(), "content");
    assert_eq!(origin.received().len(), 3, "asked, asked whether it is good, and for the whole");
}

/// RFC 9110, section 4.2.3. The origin sees one spelling, so the other cannot fill the cache with another answer.
#[test]
fn a_port_that_the_scheme_has_anyway_names_the_same_response() {
    let origin = Origin::start(|request| {
        let host = request.headers()["host"].to_str().unwrap().to_owned();
        response(200, &[("cache-control", "max-age=60")], host)
    });
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    let mut get = |host: &str| {
        client.write(format!("GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let answer = client.read().unwrap();
        (answer.text().to_owned(), answer.is_hit())
    };
    assert_eq!(get("shop.example:80"), ("shop.example".to_owned(), false));
    assert_eq!(get("shop.example"), ("shop.example".to_owned(), true));
    assert_eq!(get("shop.example:443"), ("shop.example:443".to_owned(), false), "another scheme's");
}

/// No update reaches a browser, so it asks each time, and is told by a 304 from the cache that it may use what it has.
#[test]
fn browsers_ask_before_each_use() {
    let origin = Origin::start(|request| match request.uri().path() {
        "/private" => response(200, &[("cache-control", "private, max-age=60")], "one's"),
        "/asset" => response(200, &[("cache-control", "max-age=60, immutable")], "asset"),
        "/error" => response(503, &[("cache-control", "max-age=60")], "broken"),
        _ => {
            let fields =
                [("cache-control", "public, max-age=60"), ("expires", "0"), ("etag", "\"1\""), ("vary", "x-a")];
            response(200, &fields, "page")
        }
    });
    let mut settings = config(origin.address);
    let proxy = Proxy::start(settings.clone()).unwrap();
    let mut client = Client::connect(proxy.address());
    for (how, fields) in
        [("a miss", ""), ("a hit", ""), ("a range", "Range: bytes=0-1\r\n"), ("a 304", "If-None-Match: \"1\"\r\n")]
    {
        let answer = client.ask("GET", "/page", fields);
        assert_eq!(answer.field("cache-control").as_deref(), Some("no-cache, public"), "{how}: {answer:?}");
        assert_eq!(answer.field("expires"), None, "{how}: {answer:?}");
        assert_eq!(answer.is_hit(), how != "a miss");
        assert!(answer.field("age").is_some() == (how != "a miss"), "{how}: {answer:?}");
    }
    assert_eq!(client.ask("GET", "/page", "If-None-Match: \"1\"\r\n").status, 304);
    let status = client.get("/page").field("cache-status").unwrap();
    assert!(status.contains("ttl=60") || status.contains("ttl=59"), "it is fresh here: {status}");
    for (path, expected) in
        [("/private", "private, max-age=60"), ("/asset", "max-age=60, immutable"), ("/error", "no-cache")]
    {
        assert_eq!(client.get(path).field("cache-control").as_deref(), Some(expected), "{path}");
    }
    let posted = client.ask("POST", "/page", "Content-Length: 0\r\n");
    assert_eq!(posted.field("cache-control").as_deref(), Some("public, max-age=60"), "nobody stores it");
    client.get("/page");
    settings.browser_cache = BrowserCache::AsIs;
    proxy.reload(settings).unwrap();
    let answer = client.get("/page");
    assert!(answer.is_hit(), "it is stored as before: {answer:?}");
    let kept = ["cache-control", "expires"].map(|name| answer.field(name).unwrap_or_default());
    assert_eq!(kept, ["public, max-age=60", "0"]);
}

/// The fields of hits are kept ready, those of a cache behind this one among them.
#[test]
fn a_hit_says_its_age_now_behind_the_status_of_the_cache_before_it() {
    for theirs in [None, Some("inner; hit")] {
        let fields: Vec<_> = theirs.map(|theirs| ("cache-status", theirs)).into_iter().collect();
        let origin = counting(Vec::leak([fields, vec![("cache-control", "max-age=60")]].concat()));
        let proxy = proxy(&origin);
        let mut client = Client::connect(proxy.address());
        client.get("/");
        let mut ages = Vec::new();
        for _ in 0..3 {
            let answer = client.get("/");
            // Several of one name are joined.
            let age: i64 = answer.field("age").unwrap().parse().unwrap();
            let ours = format!("thorp; hit; ttl={}", 60 - age);
            let expected = theirs.map_or(ours.clone(), |theirs| format!("{theirs}, {ours}"));
            assert_eq!(answer.field("cache-status"), Some(expected));
            let via = answer.field("via").unwrap();
            assert!(via.starts_with("1.1 thorp-") && !via.contains(','), "it is said once: {via}");
            ages.push(age);
            sleep(Duration::from_millis(1050));
        }
        assert!(ages[2] > ages[0], "{ages:?}");
    }
}

#[test]
fn variants_are_told_apart() {
    let origin = Origin::start(|request| {
        let language = request.headers().get("accept-language").map_or("none", |value| value.to_str().unwrap());
        response(200, &[("cache-control", "max-age=60"), ("vary", "accept-language")], language.to_owned())
    });
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    let ask = |client: &mut Client, language: &str| client.ask("GET", "/", &format!("Accept-Language: {language}\r\n"));
    assert!(ask(&mut client, "de").field("cache-status").unwrap().contains("uri-miss"));
    assert!(ask(&mut client, "en").field("cache-status").unwrap().contains("vary-miss"));
    for language in ["de", "en"] {
        let answer = ask(&mut client, language);
        assert_eq!((answer.text(), answer.is_hit()), (language, true));
    }
    for number in 0..100 {
        ask(&mut client, &format!("x-{number}"));
    }
    let hits = (0..100).filter(|number| ask(&mut client, &format!("x-{number}")).is_hit()).count();
    assert!(hits <= 32, "the variants of one resource are bounded: {hits}");
}

/// Visitors of a few languages keep their hits while one client cycles through many, each of them several times.
#[test]
fn a_client_that_cycles_through_variants_displaces_those_that_nobody_else_uses() {
    let origin = Origin::start(|request| {
        let language = request.headers().get("accept-language").map_or("none", |value| value.to_str().unwrap());
        response(200, &[("cache-control", "max-age=60"), ("vary", "accept-language")], language.to_owned())
    });
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    let mut ask = |language: &str| client.ask("GET", "/", &format!("Accept-Language: {language}\r\n"));
    let languages = ["de", "en", "fr", "it", "ja"];
    for language in languages {
        ask(language);
    }
    let mut hits = 0;
    for round in 0..40 {
        for number in 0..5 {
            (0..2).for_each(|_| drop(ask(&format!("x-{round}-{number}"))));
        }
        hits += languages.iter().filter(|language| ask(language).is_hit()).count();
    }
    assert_eq!(hits, 40 * languages.len(), "each of them once went to the origin");
}

/// Variants of one page leave room for other pages, however many there are and however large.
#[test]
fn the_variants_of_one_page_take_a_part_of_the_memory() {
    let origin = Origin::start(|_| {
        response(200, &[("cache-control", "max-age=60"), ("vary", "accept-language")], vec![7; 100_000])
    });
    let mut config = config(origin.address);
    config.limits.stored_bytes = 4_000_000;
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address());
    for number in 0..30 {
        client.ask("GET", "/", &format!("Accept-Language: x-{number}\r\n"));
    }
    let (entries, bytes) = proxy.stored();
    assert!((2..=5).contains(&entries) && bytes <= 500_000, "{entries} variants take {bytes} bytes");
}

#[test]
fn an_unsafe_request_invalidates_what_it_changes() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |request| {
        let number = count.fetch_add(1, Ordering::Relaxed).to_string();
        match request.method().as_str() {
            "GET" => response(200, &[("cache-control", "max-age=60")], number),
            _ if request.uri() == "/fails" => response(500, &[], ""),
            _ => response(200, &[("location", "/also"), ("content-location", "http://elsewhere/other")], ""),
        }
    });
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    let paths = ["/it", "/also", "/other", "/fails"];
    for path in paths {
        client.get(path);
    }
    client.ask("POST", "/it", "Content-Length: 0\r\n");
    client.ask("POST", "/fails", "Content-Length: 0\r\n");
    assert_eq!(paths.map(|path| client.get(path).is_hit()), [false, false, true, true]);
}

#[test]
fn an_unsafe_request_invalidates_the_groups_that_its_response_names() {
    let origin = Origin::start(|request| match request.method().as_str() {
        "GET" => response(200, &[("cache-control", "max-age=60"), ("cache-groups", "\"shop\"")], "x"),
        _ => response(200, &[("cache-group-invalidation", "\"shop\"")], ""),
    });
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    client.get("/it");
    assert!(client.get("/it").is_hit());
    client.ask("POST", "/elsewhere", "Content-Length: 0\r\n");
    assert!(!client.get("/it").is_hit());
}

#[test]
fn what_may_not_be_stored_is_passed_with_its_reason() {
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&[("cache-control", "no-store")], "no-store"),
        (&[("cache-control", "private, max-age=60")], "private"),
        (&[("cache-control", "max-age=60"), ("vary", "*")], "vary-star"),
        (&[("cache-control", "max-age=0")], "stale"),
    ];
    for (fields, reason) in cases {
        let fields: &'static [_] = Vec::leak(fields.to_vec());
        let origin = counting(fields);
        let proxy = proxy(&origin);
        let mut client = Client::connect(proxy.address());
        for _ in 0..2 {
            let status = client.get("/").field("cache-status").unwrap();
            assert!(status.ends_with(&format!("detail={reason}")), "{status}");
        }
        assert_eq!(origin.received().len(), 2);
    }
}

#[test]
fn only_a_stored_response_is_given_where_no_other_is_wanted() {
    let origin = counting(&[("cache-control", "max-age=60")]);
    let proxy = proxy(&origin);
    let mut client = Client::connect(proxy.address());
    let ask = |client: &mut Client| -> Answer { client.ask("GET", "/", "Cache-Control: only-if-cached\r\n") };
    assert_eq!(ask(&mut client).status, 504);
    assert!(origin.received().is_empty());
    client.get("/");
    assert!(ask(&mut client).is_hit());
}

#[test]
fn a_body_beyond_the_limit_is_passed_whole_and_not_stored() {
    for has_length in [true, false] {
        let large: String = "0123456789".repeat(50_000);
        let expected = large.clone();
        let head = if has_length { format!("Content-Length: {}\r\n", large.len()) } else { String::new() };
        let answer = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{head}\r\n{large}");
        let answers: &'static [&'static str] = Vec::leak(vec![&*answer.leak()]);
        let mut config = config(crate::harness::raw_origin(answers));
        config.limits.stored_response_bytes = 100_000;
        let proxy = Proxy::start(config).unwrap();
        let mut client = Client::connect(proxy.address());
        for _ in 0..2 {
            let answer = client.get("/");
            assert!(answer.body == expected.as_bytes(), "{} bytes", answer.body.len());
            assert!(!answer.is_hit());
        }
    }
}

#[test]
fn the_memory_for_responses_is_bounded() {
    let origin = Origin::start(|_| response(200, &[("cache-control", "max-age=60")], vec![7u8; 10_000]));
    let mut config = config(origin.address);
    config.limits.stored_bytes = 100_000;
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address());
    for number in 0..100 {
        client.get(&format!("/{number}"));
    }
    let (entries, bytes) = proxy.stored();
    assert!((5..=10).contains(&entries) && bytes <= 100_000, "{entries} entries of {bytes} bytes");
    assert!(client.get("/99").is_hit(), "the newest is there");
}

/// The ways in which an operator of nginx or Varnish keeps tracking parameters and cookies from multiplying pages.
#[test]
fn what_is_ignored_reaches_neither_the_key_nor_the_application() {
    let origin = Origin::start(|request| {
        let cookie = request.headers().get("cookie").map_or("none", |value| value.to_str().unwrap());
        let body = format!("{} {cookie}", request.uri());
        response(200, &[("cache-groups", "\"item\"")], body)
    });
    let mut config = config(origin.address);
    config.policy.ignored_query = vec!["utm_*".parse().unwrap()];
    config.policy.ignored_cookies = vec!["_ga*".parse().unwrap()];
    config.policy.key_cookies = vec!["lang".parse().unwrap()];
    config.admin = Some("127.0.0.1:0".parse().unwrap());
    let proxy = Proxy::start(config).unwrap();
    let mut client = Client::connect(proxy.address());
    let mut ask = |path: &str, cookie: &str| {
        let answer = client.ask("GET", path, &format!("Cookie: {cookie}\r\n"));
        (answer.text().to_owned(), answer.is_hit())
    };
    let is = |text: &str, is_hit: bool| (text.to_owned(), is_hit);
    assert_eq!(ask("/a?utm_source=x&b=1", "_ga=1; lang=de"), is("/a?b=1 lang=de", false));
    assert_eq!(ask("/a?b=1&utm_medium=y", "lang=de; _ga_Z=2"), is("/a?b=1 lang=de", true));
    assert_eq!(ask("/a?b=1", "lang=en"), is("/a?b=1 lang=en", false));
    assert_eq!(ask("/a?b=1", "lang=de"), is("/a?b=1 lang=de", true));
    assert_eq!(ask("/c?utm_source=x", "_ga=1"), is("/c none", false));
    assert_eq!(ask("/c", "_ga=2"), is("/c none", true));
    let changes = Changes { urls: vec!["http://shop.example/c?utm_source=mail".to_owned()], ..Changes::default() };
    invalidate(&proxy.admin_address().unwrap().to_string(), None, &changes).unwrap();
    assert!(!ask("/c", "_ga=2").1, "an operator's URL is read as a client's is");
}
