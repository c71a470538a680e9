//! Published files at a distance: a store that is served, a group with its relay, and servers that follow a site. No
//! page mixes two revisions, no visitor goes back, and no answer that may be old is without a word, whatever is killed.

use crate::program::{Ran, command, ran, start, thorp};
use crate::sites::{Ending, ask};
use fixtures::{Process, Signal, SiteFolder, until};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(1);

/// A store, a group, and servers of a site: each at an address that it has again when it is started again.
struct Farm {
    place: SiteFolder,
    store: Option<Process>,
    address: SocketAddr,
}

/// The fields of a request for a page.
const PAGE: &str = "Sec-Fetch-Mode: navigate\r\n";

impl Farm {
    fn new() -> Self {
        let place = SiteFolder::new();
        let mut farm = Self { place, store: None, address: "127.0.0.1:0".parse().unwrap() };
        farm.start_store();
        farm
    }

    fn start_store(&mut self) {
        let (dir, listen) = (self.place.file("store"), self.address.to_string());
        let lease = LEASE.as_millis().to_string();
        let store = start(&["serve", "--dir", &dir, "--listen", &listen, "--site-lease-ms", &lease]);
        self.address = store.address();
        self.store = Some(store);
    }

    fn run(&self, words: &[&str]) -> Ran {
        thorp([words, &["--server", &self.address.to_string()]].concat())
    }

    fn publish(&self, more: &[&str]) -> Ran {
        self.run(&[&["publish", &self.place.file("www"), "shop"], more].concat())
    }

    /// The relay of a group.
    fn group(&self, listen: &str) -> Process {
        let store = self.address.to_string();
        start(&["group", "--name", "farm", "--store", &store, "--listen", listen, "--admin", "127.0.0.1:0"])
    }

    /// A server that follows the site.
    fn member(&self, name: &str, server: SocketAddr, more: &[&str]) -> Process {
        let (server, dir) = (server.to_string(), self.place.file(name));
        let words = ["site", "serve", "shop", "--server", &server, "--cache", &dir];
        let listen = if more.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] };
        start(&[&words[..], listen, more].concat())
    }

    fn status(&self) -> Vec<Value> {
        let status = self.run(&["site", "status", "shop", "--json"]).ok();
        status.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn body(address: SocketAddr, path: &str) -> String {
    ask(address, &format!("GET /{path}"), PAGE).1
}

/// A chunk of a member's directory that is a file.
fn large_chunk(dir: &Path) -> PathBuf {
    let folders = fs::read_dir(dir.join("chunks")).unwrap().map(|it| it.unwrap().path()).filter(|it| it.is_dir());
    folders.flat_map(|folder| fs::read_dir(folder).unwrap()).next().unwrap().unwrap().path()
}

#[test]
fn a_publish_is_at_every_server_of_a_farm_when_it_returns() {
    let farm = Farm::new();
    farm.place.write("index.html", "one");
    farm.place.write("img/logo.bin", vec![7; 300_000]);
    assert!(farm.publish(&[]).ok().starts_with("shop@1: 2 files, "));
    assert_eq!(farm.publish(&[]).ok(), "shop@1: nothing has changed\n");
    let group = farm.group("127.0.0.1:0");
    let members = [
        farm.member("a", group.address(), &[]),
        farm.member("b", group.address(), &[]),
        farm.member("c", farm.address, &[]),
    ];
    until("all have it", || members.iter().all(|member| body(member.address(), "") == "one"));
    for round in 2..8 {
        farm.place.write("index.html", format!("round {round}"));
        let told = farm.publish(&["--wait", "--json"]).ok();
        assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["revision"], round, "{told}");
        for member in &members {
            let (head, body) = ask(member.address(), "GET /", PAGE);
            assert_eq!(body, format!("round {round}"));
            assert!(!head.contains("thorp-stale"), "{head}");
        }
    }
    // The relay has fetched what all of its members have.
    let relay = &group.status().unwrap()["relay"][0];
    assert_eq!((&relay["sites"], &relay["members"]), (&1.into(), &2.into()), "{relay}");
    assert!(relay["fetched"].as_u64() < Some(20), "{relay}");
    let status = farm.status();
    assert_eq!((&status[0]["revision"], &status[0]["connected"]), (&7.into(), &2.into()), "{status:?}");
    assert!(status[1..].iter().all(|it| it["revision"] == 7 && it["is_connected"] == true), "{status:?}");

    assert_eq!(farm.run(&["site", "rollback", "shop", "--to", "1"]).ok(), "shop@8: 1 again\n");
    until("all have it back", || members.iter().all(|member| body(member.address(), "") == "one"));
    assert_eq!(farm.run(&["site", "diff", "shop", "7", "8"]).ok(), "~ index.html\n");
    assert_eq!(farm.run(&["site", "ls", "shop@3"]).ok(), "img/\nindex.html  7 bytes\n");
    assert_eq!(farm.run(&["site", "cat", "shop@3/index.html"]).ok(), "round 3");
    let copy = farm.place.file("copy");
    farm.run(&["site", "get", "shop@3", &copy]).ok();
    assert_eq!(fs::read(format!("{copy}/img/logo.bin")).unwrap(), vec![7; 300_000]);
    farm.run(&["site", "verify", "shop"]).ok();
    let refused = farm.publish(&["--base", "3"]).error();
    assert!(refused.contains("made from revision 3, and 8 is the newest"), "{refused}");
    let refused = thorp(["publish", &farm.place.file("www"), "shop", "--server", &group.address().to_string()]);
    assert!(refused.error().contains("is the redirector of a group, which takes no publishes"));
    farm.run(&["site", "create", "empty", "--keep", "3"]).ok();
    assert!(farm.run(&["site", "create", "empty", "--keep", "3"]).error().contains("there is a site 'empty' already"));
    farm.run(&["site", "rm", "empty"]).ok();
    assert!(farm.run(&["site", "rm", "empty"]).error().contains("there is no site 'empty'"));
    assert!(farm.publish(&["--repair"]).error().contains("--dir"));
    farm.run(&["site", "collect"]).ok();
    drop(members);
}

/// A server whose store is away serves what it has, and says for how long that may be old; or it refuses to.
#[test]
fn a_server_without_its_store_serves_on_and_says_so() {
    let mut farm = Farm::new();
    farm.place.write("index.html", "one");
    farm.publish(&[]).ok();
    let server = farm.member("a", farm.address, &["--admin", "127.0.0.1:0"]);
    let strict = farm.member("b", farm.address, &["--refuse-stale"]);
    assert!(!ask(server.address(), "GET /", PAGE).0.contains("thorp-stale"));
    farm.store.take().unwrap().kill().unwrap();
    let killed = Instant::now();
    until("it says that it may be old", || ask(server.address(), "GET /", PAGE).0.contains("thorp-stale: "));
    assert!(killed.elapsed() > LEASE / 2, "{:?}", killed.elapsed());
    assert_eq!(body(server.address(), ""), "one");
    until("the other refuses", || ask(strict.address(), "GET /", PAGE).1.starts_with("stale: "));
    assert!(ask(strict.address(), "GET /", PAGE).0.starts_with("HTTP/1.1 503 "));
    assert!(ask(server.address_of("admin"), "GET /health", "").1.contains("the store is not reached"));
    // It begins again where it was, also without a store.
    let listen = server.address().to_string();
    drop(server);
    let server = farm.member("a", farm.address, &["--listen", &listen]);
    assert_eq!(server.ready()["revision"], 1);
    let (head, text) = ask(server.address(), "GET /", PAGE);
    assert!(head.contains("thorp-stale: ") && text == "one", "{head}");
    farm.start_store();
    until("it is fresh again", || !ask(server.address(), "GET /", PAGE).0.contains("thorp-stale"));
    until("so is the other", || ask(strict.address(), "GET /", PAGE).0.starts_with("HTTP/1.1 200 "));
    farm.place.write("index.html", "two");
    farm.publish(&["--wait"]).ok();
    assert_eq!((body(server.address(), ""), body(strict.address(), "")), ("two".to_owned(), "two".to_owned()));
}

/// A publish that waits does not return before a server that was told an older revision has said that it may be old.
#[test]
fn a_publish_waits_for_the_lease_of_a_server_that_stands_still() {
    let farm = Farm::new();
    farm.place.write("index.html", "one");
    farm.publish(&[]).ok();
    let server = farm.member("a", farm.address, &[]);
    farm.publish(&["--wait"]).ok();
    std::thread::sleep(2 * LEASE);
    server.signal(Signal::STOP).unwrap();
    farm.place.write("index.html", "two");
    let begun = Instant::now();
    farm.publish(&["--wait"]).ok();
    let waited = begun.elapsed();
    assert!(waited > LEASE / 3 && waited < 8 * LEASE, "{waited:?}");
    server.signal(Signal::CONT).unwrap();
    // Its lease was over while it stood still.
    let (head, body) = ask(server.address(), "GET /", PAGE);
    assert!(body == "two" || head.contains("thorp-stale: "), "{head} {body}");
}

/// A bit that flips on a server's disk is never given out, and the chunk is fetched again.
#[test]
fn a_damaged_chunk_of_a_server_heals() {
    let farm = Farm::new();
    farm.place.write("large", vec![1; 200_000]);
    farm.publish(&[]).ok();
    let server = farm.member("a", farm.address, &[]);
    assert_eq!(body(server.address(), "large").len(), 200_000);
    let chunk = large_chunk(Path::new(&farm.place.file("a")));
    let mut bytes = fs::read(&chunk).unwrap();
    bytes[100_000] ^= 1;
    fs::write(&chunk, bytes).unwrap();
    let (head, text) = ask(server.address(), "GET /large", PAGE);
    assert!(head.starts_with("HTTP/1.1 500 ") && text.starts_with("failed: "), "{head}");
    until("it is whole again", || ask(server.address(), "GET /large", PAGE).1 == "\u{1}".repeat(200_000));
    // A directory belongs to one site.
    farm.run(&["publish", &farm.place.file("www"), "other"]).ok();
    let (address, dir) = (farm.address.to_string(), farm.place.file("a"));
    drop(server);
    let refused = thorp(["site", "serve", "other", "--server", &address, "--cache", &dir]).error();
    assert!(refused.contains("is the directory of the site main/shop"), "{refused}");
}

/// Visitors go from server to server and follow pages to their parts, while the site is published again and again, and
/// everything is killed in turn.
#[test]
fn no_page_mixes_two_revisions_whoever_dies() {
    let mut farm = Farm::new();
    let write = |place: &SiteFolder, version: u64| {
        place.write("index.html", format!("page {version}"));
        (0..40).for_each(|part| place.write(&format!("parts/{part}"), format!("part {version} ").repeat(100)));
    };
    write(&farm.place, 1);
    farm.publish(&[]).ok();
    let mut group = farm.group("127.0.0.1:0");
    let relay = group.address();
    let mut members = [farm.member("a", relay, &[]), farm.member("b", relay, &[]), farm.member("c", farm.address, &[])];
    let addresses: Vec<SocketAddr> = members.iter().map(Process::address).collect();
    let (is_over, pages, stale) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for visitor in 0..3_usize {
            let (is_over, pages, stale, addresses) = (&is_over, &pages, &stale, &addresses);
            scope.spawn(move || {
                let (mut cookie, mut newest, mut turn) = (String::new(), 0, visitor);
                while !is_over.load(Relaxed) {
                    turn += 1;
                    // A server that is down is none for the moment.
                    let get = |path: &str, mode: &str, cookie: &str| {
                        let fields = format!("Sec-Fetch-Mode: {mode}\r\nCookie: {cookie}\r\n");
                        std::panic::catch_unwind(|| ask(addresses[turn % 3], &format!("GET /{path}"), &fields)).ok()
                    };
                    let Some((head, page)) = get("", "navigate", &cookie) else { continue };
                    if !head.starts_with("HTTP/1.1 200 ") {
                        let is_behind = head.starts_with("HTTP/1.1 503 ");
                        assert!(is_behind, "{head}");
                        continue;
                    }
                    stale.fetch_add(u64::from(head.contains("thorp-stale")), Relaxed);
                    if let Some(set) = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")) {
                        cookie = set.split(';').next().unwrap().to_owned();
                    }
                    let version: u64 = page.strip_prefix("page ").unwrap().parse().unwrap();
                    assert!(version >= newest, "visitor {visitor} goes back from {newest} to {version}");
                    newest = version;
                    for part in 0..10 {
                        let Some((head, content)) = get(&format!("parts/{part}"), "no-cors", &cookie) else { break };
                        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
                        assert_eq!(content, format!("part {version} ").repeat(100), "a page of two revisions");
                    }
                    pages.fetch_add(1, Relaxed);
                }
            });
        }
        let _over = Ending(&is_over);
        for version in 2..=13 {
            let seen = pages.load(Relaxed);
            write(&farm.place, version);
            farm.publish(&[]).ok();
            match version % 6 {
                1 => {
                    farm.store.take().unwrap().kill().unwrap();
                    farm.start_store();
                }
                2 => {
                    group.kill().unwrap();
                    group = farm.group(&relay.to_string());
                }
                at @ 3..=5 => {
                    let at = at as usize - 3;
                    members[at].kill().unwrap();
                    let server = if at < 2 { relay } else { farm.address };
                    let listen = addresses[at].to_string();
                    members[at] = farm.member(["a", "b", "c"][at], server, &["--listen", &listen]);
                }
                _ => {}
            }
            until("visitors see pages", || pages.load(Relaxed) > seen + 5);
        }
    });
    until("all have the newest", || addresses.iter().all(|address| body(*address, "") == "page 13"));
    farm.run(&["site", "verify", "shop"]).ok();
    println!("{} pages, {} that may be old", pages.load(Relaxed), stale.load(Relaxed));
}

/// A publish over the network that is killed has happened or not, and the next one continues.
#[test]
fn a_publish_to_a_server_that_is_killed_leaves_one_revision_or_the_other() {
    let farm = Farm::new();
    let mut newest = 0;
    for round in 0..6_u64 {
        for file in 0..40 {
            farm.place.write(&format!("{file}"), format!("{round} of {file} ").repeat(3000 * (file % 4 + 1)));
        }
        let (from, server) = (farm.place.file("www"), farm.address.to_string());
        let mut killed = command();
        killed.args(["publish", &from, "shop", "--server", &server, "--json"]);
        let mut killed = killed.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(25 * round));
        killed.kill().unwrap();
        let told = ran(killed.wait_with_output().unwrap()).stdout;
        let head = || farm.run(&["site", "status", "shop", "--json"]).stdout;
        let revision = |status: &str| serde_json::from_str::<Value>(status.lines().next()?).ok()?["revision"].as_u64();
        let head = revision(&head()).unwrap_or(0);
        assert!(head == newest || head == newest + 1, "revision {head} after {newest}");
        assert!(told.is_empty() || head == newest + 1, "an acknowledged publish is lost: {told}");
        if head > 0 {
            farm.run(&["site", "verify", "shop"]).ok();
        }
        farm.publish(&[]).ok();
        newest = farm.status()[0]["revision"].as_u64().unwrap();
    }
}
