//! Published files: directories become revisions of a site, whatever is killed, and visitors never see two at a time.

use crate::program::{Ran, command, ran, start, thorp};
use fixtures::{Process, SiteFolder, chunk_files, flip, until};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Runs `thorp` with the store beside a directory to publish.
fn run(place: &SiteFolder, words: &[&str]) -> Ran {
    thorp([words, &["--dir", &place.file("store")]].concat())
}

fn publish(place: &SiteFolder, more: &[&str]) -> Ran {
    let from = place.file("www");
    run(place, &[&["publish", &from, "shop"], more].concat())
}

/// The numbers of the revisions that are kept, the newest first.
fn revisions(place: &SiteFolder) -> Vec<u64> {
    let log = run(place, &["site", "log", "shop", "--json"]).ok();
    log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["revision"].as_u64().unwrap()).collect()
}

fn serve(place: &SiteFolder, more: &[&str]) -> Process {
    let (store, from) = (place.file("store"), place.file("www"));
    let words = ["site", "serve", "shop", "--dir", &store, "--from", &from, "--listen", "127.0.0.1:0"];
    start(&[&words[..], more].concat())
}

/// The head and the body of an answer, whole or not.
pub(crate) fn ask(address: SocketAddr, line: &str, fields: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{fields}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn a_directory_is_published_read_and_rolled_back() {
    let place = SiteFolder::new();
    place.write("index.html", "<p>one\n");
    place.write("img/logo.bin", vec![7; 100_000]);
    assert_eq!(publish(&place, &["--dry-run"]).ok(), "+ img\n+ img/logo.bin\n+ index.html\n");
    assert!(run(&place, &["site", "log", "shop"]).error().starts_with("there is no site 'shop'"));
    let line = publish(&place, &["--note", "first"]).ok();
    assert!(line.starts_with("shop@1: 2 files, 100007 bytes; "), "{line}");
    assert_eq!(publish(&place, &[]).ok(), "shop@1: nothing has changed\n");
    place.write("index.html", "<p>two\n");
    assert_eq!(publish(&place, &["--dry-run"]).ok(), "~ index.html\n");
    let refused = publish(&place, &["--base", "7"]).error();
    assert!(refused.contains("made from revision 7, and 1 is the newest"), "{refused}");
    let told: Value = serde_json::from_str(&publish(&place, &["--base", "1", "--json"]).ok()).unwrap();
    assert_eq!((&told["revision"], &told["is_new"]), (&2.into(), &true.into()), "{told}");
    assert_eq!(run(&place, &["site", "diff", "shop", "1"]).ok(), "~ index.html\n");
    assert_eq!(run(&place, &["site", "cat", "shop@1/index.html"]).ok(), "<p>one\n");
    assert_eq!(run(&place, &["site", "ls", "shop"]).ok(), "img/\nindex.html  7 bytes\n");
    assert_eq!(run(&place, &["site", "rollback", "shop", "--note", "back"]).ok(), "shop@3: 1 again\n");
    assert_eq!(run(&place, &["site", "cat", "shop/index.html"]).ok(), "<p>one\n");
    assert_eq!(revisions(&place), [3, 2, 1]);
    let copy = place.file("copy");
    assert_eq!(run(&place, &["site", "get", "shop@2", &copy]).ok(), "shop@2: 2 files, 100007 bytes\n");
    assert_eq!(fs::read_to_string(format!("{copy}/index.html")).unwrap(), "<p>two\n");
    assert!(run(&place, &["site", "get", "shop", &copy]).error().contains("is not empty"));
    assert!(run(&place, &["site", "verify", "shop"]).ok().ends_with("chunks are whole\n"));
    run(&place, &["site", "set", "shop", "--keep", "1"]).ok();
    place.write("index.html", "<p>four\n");
    publish(&place, &[]).ok();
    assert_eq!(revisions(&place), [4]);
    assert!(run(&place, &["site", "cat", "shop@1/index.html"]).error().contains("has no revision 1, or no longer"));
    run(&place, &["site", "rm", "shop"]).ok();
    let collected = run(&place, &["site", "collect", "--json"]).ok();
    assert!(serde_json::from_str::<Value>(&collected).unwrap()["bytes"].as_u64() > Some(100_000), "{collected}");
}

#[test]
fn wrong_words_are_refused_with_the_remedy() {
    let place = SiteFolder::new();
    let nobody = ["--server", "127.0.0.1:9"];
    assert!(thorp([&["site", "list"][..], &nobody].concat()).error().contains("no server at 127.0.0.1:9"));
    let follow = [&["site", "serve", "shop"][..], &nobody].concat();
    assert!(thorp(&follow).usage().contains("name a directory for the site's files with --cache"));
    let both = [&follow[..], &["--from", "www", "--cache", "files"]].concat();
    assert!(thorp(&both).code == Some(2));
    assert!(run(&place, &["site", "list"]).error().contains("there is no store in"));
    assert!(run(&place, &["publish", &place.file("none"), "shop"]).error().contains("is not a directory"));
    for name in ["-shop", "a/b", "shop@1", ""] {
        assert_eq!(run(&place, &["publish", &place.file("www"), "--", name]).code, Some(2), "{name}");
    }
    place.write("a", "a");
    publish(&place, &[]).ok();
    assert_eq!(run(&place, &["site", "set", "shop"]).code, Some(2), "no setting is changed by accident");
    assert!(run(&place, &["site", "cat", "shop/../x"]).stderr.contains("cannot be in a path of a site"));
    assert!(run(&place, &["site", "rollback", "shop"]).error().contains("no revision before the newest"));
    // A bit that flips on the disk is found, and never given out.
    place.write("large", vec![1; 200_000]);
    publish(&place, &[]).ok();
    flip(&chunk_files(&place.store())[0]);
    let damaged = run(&place, &["site", "verify", "shop"]);
    assert!(damaged.code == Some(1) && damaged.stderr.contains("1 chunks of 'shop' are damaged or missing"));
    assert!(damaged.stdout.starts_with("shop@2: large: "), "{}", damaged.stdout);
    let damaged = run(&place, &["site", "verify", "shop", "--json"]).stdout;
    let lines: Vec<Value> = damaged.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [damage, counts] = &lines[..] else { panic!("{damaged}") };
    assert_eq!((&damage["revision"], &damage["path"]), (&2.into(), &"large".into()), "{damaged}");
    assert_eq!((&damage["part"], &damage["hides_more"]), (&"content".into(), &false.into()), "{damaged}");
    assert_eq!((&counts["damaged"], &counts["is_complete"]), (&1.into(), &true.into()), "{damaged}");
    assert!(!run(&place, &["site", "get", "shop", &place.file("copy")]).error().is_empty());
    let server = serve(&place, &["--admin", "127.0.0.1:0"]);
    let (head, body) = ask(server.address(), "GET /large", "");
    assert!(head.starts_with("HTTP/1.1 500 ") && body.starts_with("failed: "), "{head} {body}");
    assert!(ask(server.address_of("admin"), "GET /health", "").0.starts_with("HTTP/1.1 503 "));
    drop(server);
    let repaired: Value = serde_json::from_str(&publish(&place, &["--repair", "--json"]).ok()).unwrap();
    assert_eq!((&repaired["is_new"], &repaired["bytes_written"]), (&false.into(), &200_000.into()), "{repaired}");
    run(&place, &["site", "verify", "shop"]).ok();
}

/// Killed at any time, a publish has happened or not; what is published is whole, and the next publish continues.
#[test]
fn a_publish_that_is_killed_leaves_one_revision_or_the_other() {
    let place = SiteFolder::new();
    let mut newest = 0;
    for round in 0..8_u64 {
        for file in 0..40 {
            place.write(&format!("{file}"), format!("{round} of {file} ").repeat(3000 * (file % 4 + 1)));
        }
        let (from, store) = (place.file("www"), place.file("store"));
        let mut killed = command();
        killed.args(["publish", &from, "shop", "--dir", &store, "--json"]);
        let mut killed = killed.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(40 * round));
        killed.kill().unwrap();
        let told = ran(killed.wait_with_output().unwrap()).stdout;
        let log = run(&place, &["site", "log", "shop", "--json"]);
        let head = if log.code == Some(0) { revisions(&place)[0] } else { 0 };
        assert!(head == newest || head == newest + 1, "revision {head} after {newest}");
        assert!(told.is_empty() || head == newest + 1, "an acknowledged publish is lost: {told}");
        if head > 0 {
            run(&place, &["site", "verify", "shop"]).ok();
        }
        publish(&place, &[]).ok();
        newest = revisions(&place)[0];
        let copy = place.file(&format!("copy-{round}"));
        run(&place, &["site", "get", "shop", &copy]).ok();
        assert_eq!(fs::read(format!("{copy}/3")).unwrap(), fs::read(place.www().join("3")).unwrap());
    }
}

/// Says that a test has ended, well or not.
pub(crate) struct Ending<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Visitors follow pages to their parts while the site is published again and again: no page mixes two revisions, and
/// no visitor goes back.
#[test]
fn no_page_mixes_two_revisions() {
    let place = SiteFolder::new();
    let write = |version: u64| {
        place.write("index.html", format!("page {version}"));
        (0..30).for_each(|part| place.write(&format!("parts/{part}"), format!("part {version}")));
    };
    write(1);
    let server = serve(&place, &["--admin", "127.0.0.1:0"]);
    let (address, admin) = (server.address(), server.address_of("admin"));
    let (is_over, pages) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for visitor in 0..3 {
            let (is_over, pages) = (&is_over, &pages);
            scope.spawn(move || {
                let (mut cookie, mut newest) = (String::new(), 0);
                while !is_over.load(Relaxed) {
                    let navigation = format!("Sec-Fetch-Mode: navigate\r\nCookie: {cookie}\r\n");
                    let (head, page) = ask(address, "GET /", &navigation);
                    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
                    if let Some(set) = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")) {
                        cookie = set.split(';').next().unwrap().to_owned();
                    }
                    let version: u64 = page.strip_prefix("page ").unwrap().parse().unwrap();
                    assert!(version >= newest, "visitor {visitor} goes back from {newest} to {version}");
                    newest = version;
                    for part in 0..10 {
                        let fields = format!("Sec-Fetch-Mode: no-cors\r\nCookie: {cookie}\r\n");
                        let (head, content) = ask(address, &format!("GET /parts/{part}"), &fields);
                        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
                        assert_eq!(content, format!("part {version}"), "a page of two revisions");
                    }
                    pages.fetch_add(1, Relaxed);
                }
            });
        }
        let _over = Ending(&is_over);
        // Fewer than are kept, so no visitor's revision is dropped.
        for version in 2..=9 {
            let seen = pages.load(Relaxed);
            write(version);
            let (head, told) = ask(admin, "POST /reload", "Content-Length: 0\r\n");
            assert!(head.starts_with("HTTP/1.1 200 "), "{head} {told}");
            until("visitors see pages", || pages.load(Relaxed) > seen + 3);
        }
    });
    assert!(run(&place, &["site", "log", "shop"]).error().contains("is in use by process"));
    assert!(server.end().unwrap().status.success());
    assert_eq!(revisions(&place)[0], 9);
}
