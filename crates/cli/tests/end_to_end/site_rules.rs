//! A site with precompressed variants, redirects, fields and error pages: all of them are those of a visitor's
//! revision, with every server and every version of HTTP.

use crate::followed_sites::Farm;
use crate::program::start;
use crate::sites::ask;
use fixtures::{SiteFolder, installed, until};
use std::net::SocketAddr;

/// The fields of a request that opens a page, and of one for its parts.
const OPENS: &str = "Sec-Fetch-Mode: navigate\r\n";
const PART: &str = "Sec-Fetch-Mode: no-cors\r\n";

/// Writes the site's files of a version. Line 3 of its redirects is wrong.
fn write(place: &SiteFolder, version: u64) {
    let redirects = format!("/moved /to/{version} 302\n/app/* /page.html 200\n/bad\n/gone/* /missing.html 404\n");
    place.write("_redirects", redirects);
    place.write("_headers", format!("/*\n  X-Version: {version}\n/a.css\n  Cache-Control: max-age={version}\n"));
    place.write("page.html", format!("page {version}"));
    place.write("a.css", format!("plain {version}"));
    place.write("a.css.br", format!("brotli {version}"));
    place.write("404.html", format!("none {version}"));
    place.write("missing.html", format!("gone {version}"));
}

/// An HTTP client: sends a request for a path with these fields, and returns the head and the body of the answer.
type Client = fn(SocketAddr, &str, &str) -> (String, String);

fn by_http1(address: SocketAddr, path: &str, fields: &str) -> (String, String) {
    ask(address, &format!("GET {path}"), fields)
}

fn by_http2(address: SocketAddr, path: &str, fields: &str) -> (String, String) {
    let url = format!("http://{address}{path}");
    let fields = fields.lines().flat_map(|line| ["-H", line]);
    let words = ["-sSi", "--http2-prior-knowledge", &url].into_iter().chain(fields);
    let answer = installed::run("curl", words).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/2 "), "{head}");
    (head.to_owned(), body.to_owned())
}

fn clients() -> Vec<Client> {
    let http2: Option<Client> = installed::has("curl").then_some(by_http2);
    [by_http1 as Client].into_iter().chain(http2).collect()
}

/// Checks that all answers to a visitor are those of a version.
#[track_caller]
fn check(client: Client, address: SocketAddr, visitor: &str, version: u64) {
    let get = |path: &str, more: &str| {
        let (head, body) = client(address, path, &format!("{visitor}{more}"));
        let status = head.split(' ').nth(1).unwrap().trim().to_owned();
        let field = move |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.filter(|(other, _)| *other == name).map(|(_, value)| value.to_owned()).next()
        };
        (status, field, body)
    };
    let is = |value: Option<String>, expected: &str| assert_eq!(value.as_deref(), Some(expected));

    let (status, field, body) = get("/a.css", "Accept-Encoding: br\r\n");
    assert_eq!((&*status, &*body), ("200", &*format!("brotli {version}")));
    is(field("content-encoding"), "br");
    is(field("vary"), "Cookie, Accept-Encoding");
    is(field("content-type"), "text/css; charset=utf-8");
    is(field("cache-control"), &format!("max-age={version}"));
    is(field("x-version"), &version.to_string());
    let tag = field("etag").unwrap();
    let (status, _, _) = get("/a.css", &format!("Accept-Encoding: br\r\nIf-None-Match: {tag}\r\n"));
    assert_eq!(status, "304");
    let (status, _, body) = get("/a.css", "Accept-Encoding: br\r\nRange: bytes=0-1\r\n");
    assert_eq!((&*status, &*body), ("206", "br"));
    let (_, field, body) = get("/a.css", "");
    assert_eq!(body, format!("plain {version}"));
    assert!(field("etag").unwrap() != tag && field("content-encoding").is_none());

    let (status, field, _) = get("/moved?q=1", "");
    assert_eq!(status, "302");
    is(field("location"), &format!("/to/{version}?q=1"));
    let (status, field, body) = get("/app/some/route", "");
    assert_eq!((&*status, &*body), ("200", &*format!("page {version}")));
    is(field("x-version"), &version.to_string());
    for (path, expected) in [("/none", "none"), ("/gone/x", "gone"), ("/_headers", "none"), ("/bad", "none")] {
        let (status, field, body) = get(path, &format!("If-None-Match: {tag}, *\r\nRange: bytes=0-1\r\n"));
        assert_eq!((&*status, &*body), ("404", &*format!("{expected} {version}")), "{path}");
        assert_eq!(field("etag"), None);
        is(field("x-version"), &version.to_string());
    }
}

/// Opens a page and returns the fields of requests for its parts.
fn open(address: SocketAddr) -> String {
    let (head, _) = ask(address, "GET /page.html", OPENS);
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(head.contains("cache-control: private, no-cache"), "{head}");
    format!("{PART}Cookie: {}\r\n", cookie.split(';').next().unwrap())
}

#[test]
fn rules_and_variants_of_a_followed_site_are_those_of_the_visitors_revision() {
    let farm = Farm::new();
    write(&farm.place, 1);
    farm.publish(&[]).ok();
    let member = farm.member("a", farm.address, &["--admin", "127.0.0.1:0"]);
    let address = member.address();
    until("it has the site", || ask(address, "GET /page.html", OPENS).1 == "page 1");
    let clients = clients();
    let first = open(address);
    for client in &clients {
        check(*client, address, &first, 1);
    }
    member.hear_error("\"line\":3").unwrap();
    let row = |name: &str| member.status().unwrap()["site"][0][name].as_u64();
    assert_eq!(row("skipped_rules"), Some(1));

    // The site changes under a visitor, who sees the page's revision until the next page.
    write(&farm.place, 2);
    farm.publish(&["--wait"]).ok();
    let second = open(address);
    for client in &clients {
        check(*client, address, &first, 1);
        check(*client, address, &second, 2);
        check(*client, address, PART, 2);
    }
    // A rollback brings back the rules, too.
    farm.run(&["site", "rollback", "shop", "--wait"]).ok();
    let third = open(address);
    for client in &clients {
        check(*client, address, &first, 1);
        check(*client, address, &second, 2);
        check(*client, address, &third, 1);
    }
    assert_eq!(row("skipped_rules"), Some(2), "each content of a file is read once");
}

#[test]
fn rules_and_variants_of_a_stores_directory_are_those_of_the_visitors_revision() {
    let place = SiteFolder::new();
    write(&place, 1);
    let (store, from) = (place.file("store"), place.file("www"));
    let words = ["site", "serve", "shop", "--dir", &store, "--from", &from, "--listen", "127.0.0.1:0"];
    let server = start(&[&words[..], &["--admin", "127.0.0.1:0"]].concat());
    let (address, admin) = (server.address(), server.address_of("admin"));
    let first = open(address);
    check(by_http1, address, &first, 1);
    write(&place, 2);
    assert!(ask(admin, "POST /reload", "Content-Length: 0\r\n").0.starts_with("HTTP/1.1 200 "));
    let second = open(address);
    check(by_http1, address, &first, 1);
    check(by_http1, address, &second, 2);
    server.hear_error("\"line\":3").unwrap();
}
