//! Published files at a distance: a store that is served, a group with its relay, and servers that follow a site. No
//! page mixes two revisions, no visitor goes back, and no answer that may be old is without a word, whatever is killed.

use crate::program::{Ran, command, ran, start, thorp};
use crate::sites::{Ending, ask};
use fixtures::{Process, Signal, SiteFolder, chunk_files, flip, lasting_address, until};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub(crate) const LEASE: Duration = Duration::from_secs(1);

/// A store, a group, and servers of a site: each at an address that it has again when it is started again.
pub(crate) struct Farm {
    pub(crate) place: SiteFolder,
    pub(crate) store: Option<Process>,
    pub(crate) address: SocketAddr,
}

/// The fields of a request for a page.
const PAGE: &str = "Sec-Fetch-Mode: navigate\r\n";

impl Farm {
    pub(crate) fn new() -> Self {
        let place = SiteFolder::new();
        let mut farm = Self { place, store: None, address: "127.0.0.1:0".parse().unwrap() };
        farm.start_store();
        farm
    }

    pub(crate) fn start_store(&mut self) {
        let (dir, listen) = (self.place.file("store"), self.address.to_string());
        let lease = LEASE.as_millis().to_string();
        let store = start(&["serve", "--dir", &dir, "--listen", &listen, "--site-lease-ms", &lease]);
        self.address = store.address();
        self.store = Some(store);
    }

    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        thorp([words, &["--server", &self.address.to_string()]].concat())
    }

    pub(crate) fn publish(&self, more: &[&str]) -> Ran {
        self.run(&[&["publish", &self.place.file("www"), "shop"], more].concat())
    }

    /// The relay of a group.
    pub(crate) fn group(&self, listen: &str) -> Process {
        let store = self.address.to_string();
        start(&["group", "--name", "farm", "--store", &store, "--listen", listen, "--admin", "127.0.0.1:0"])
    }

    /// A server that follows the site.
    pub(crate) fn member(&self, name: &str, server: SocketAddr, more: &[&str]) -> Process {
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

    assert_eq!(farm.run(&["site", "rollback", "shop", "--to", "1", "--wait"]).ok(), "shop@8: 1 again\n");
    assert!(members.iter().all(|member| body(member.address(), "") == "one"), "all have it back");
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

/// Settings of a site reach its servers, behind a group's redirector too, and stay theirs without the store.
#[test]
fn the_settings_of_a_site_reach_its_servers() {
    let mut farm = Farm::new();
    farm.place.write("index.html", "one");
    farm.publish(&[]).ok();
    let group = farm.group("127.0.0.1:0");
    let [near, far] = [("a", group.address()), ("b", farm.address)].map(|(name, at)| farm.member(name, at, &[]));
    let refused = farm.run(&["site", "set", "shop", "--lease-ms", "600000"]).error();
    assert!(refused.contains("leases of this store last between 1 and"), "{refused}");
    let set = farm.run(&["site", "set", "shop", "--lease-ms", "500", "--when-stale", "refuse", "--json"]).ok();
    assert!(set.contains(r#""lease_ms":500"#) && set.contains(r#""when_stale":"refuse""#), "{set}");
    let leases = || farm.status()[1..].iter().map(|it| it["lease_ms"].as_u64().unwrap()).collect::<Vec<_>>();
    until("each has a short lease", || leases().iter().all(|lease| *lease <= 515) && leases().len() == 2);
    for server in [&near, &far] {
        until("it is served", || ask(server.address(), "GET /", PAGE).0.starts_with("HTTP/1.1 200 "));
    }
    farm.store.take().unwrap().kill().unwrap();
    for server in [&near, &far] {
        until("it refuses", || ask(server.address(), "GET /", PAGE).1.starts_with("stale: "));
    }
    // It knows the setting when it begins again without a store.
    drop(far);
    let far = farm.member("b", farm.address, &[]);
    assert!(ask(far.address(), "GET /", PAGE).1.starts_with("stale: "));
    farm.start_store();
    for server in [&near, &far] {
        until("it is served again", || ask(server.address(), "GET /", PAGE).0.starts_with("HTTP/1.1 200 "));
    }
    let status = farm.run(&["site", "set", "shop", "--when-stale", "serve"]).ok();
    assert_eq!(status, "shop: keeps 10 revisions, publish consistency, lease: 500 ms, when stale: serve\n");
    std::thread::sleep(2 * LEASE);
    farm.store.take().unwrap().kill().unwrap();
    until("it serves, and says so", || ask(far.address(), "GET /", PAGE).0.contains("thorp-stale: "));
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

/// Visitors wait for the newest revision. When a publish has returned, every older answer says that it may be stale:
/// behind a group, at the store, and while a server is stopped.
#[test]
fn visitors_of_a_site_that_is_not_pushed_wait_for_the_newest_revision() {
    let farm = Farm::new();
    let created = farm.run(&["site", "create", "shop", "--consistency", "callback"]).ok();
    assert_eq!(created, "shop: keeps 10 revisions, callback consistency, lease: the store's, when stale: serve\n");
    farm.place.write("index.html", "one");
    farm.publish(&[]).ok();
    let group = farm.group("127.0.0.1:0");
    let members = [
        farm.member("a", group.address(), &[]),
        farm.member("b", group.address(), &[]),
        farm.member("c", farm.address, &[]),
    ];
    let publish = |text: &str, more: &[&str]| {
        farm.place.write("index.html", text);
        farm.publish(more).ok();
    };
    let sees = |member: &Process, text: &str| {
        let (head, body) = ask(member.address(), "GET /", PAGE);
        assert!(body == text && !head.contains("thorp-stale"), "{text}: {head}{body}");
    };
    for round in 0..4 {
        let text = format!("callback {round}");
        publish(&text, &["--wait"]);
        // A server without visitors does not fetch a revision.
        for member in &members[round % 2..] {
            sees(member, &text);
        }
    }
    farm.run(&["site", "set", "shop", "--consistency", "sequential"]).ok();
    assert!(farm.run(&["site", "list", "--json"]).ok().contains(r#""consistency":"sequential""#));
    for round in 0..4 {
        let text = format!("sequential {round}");
        // It returns when the one before is shown nowhere.
        publish(&text, &[]);
        for member in &members {
            sees(member, &text);
        }
    }
    members[1].signal(Signal::STOP).unwrap();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| publish("without one", &[]));
        // Visitors of the others wait during that time, and see the old revision or the new.
        until("the others show it", || [0, 2].into_iter().all(|at| body(members[at].address(), "") == "without one"));
    });
    assert!(begun.elapsed() < 8 * LEASE, "{:?}", begun.elapsed());
    members[1].signal(Signal::CONT).unwrap();
    until("it shows the newest", || {
        let (head, body) = ask(members[1].address(), "GET /", PAGE);
        assert!(body == "without one" || head.contains("thorp-stale"), "{head}{body}");
        !head.contains("thorp-stale")
    });
}

/// A server without visitors is sent no more revisions, and fetches the newest for the next visitor.
#[test]
fn a_server_that_nobody_reads_fetches_the_newest_for_the_next_visitor() {
    let farm = Farm::new();
    farm.place.write("index.html", "1");
    farm.publish(&[]).ok();
    let server = farm.member("a", farm.address, &["--idle-after", "2", "--admin", "127.0.0.1:0"]);
    assert_eq!(body(server.address(), ""), "1");
    for round in 2..=8 {
        farm.place.write("index.html", round.to_string());
        farm.publish(&["--wait"]).ok();
    }
    let served = || server.status().unwrap()["member"][0]["revision"].as_u64().unwrap();
    assert!((2..=3).contains(&served()), "it was sent {} revisions", served());
    let (head, text) = ask(server.address(), "GET /", PAGE);
    assert!(text == "8" && !head.contains("thorp-stale"), "{head}{text}");
    assert_eq!(served(), 8);
}

/// A bit that flips on a server's disk is never given out, and the chunk is fetched again.
#[test]
fn a_damaged_chunk_of_a_server_heals() {
    let farm = Farm::new();
    farm.place.write("large", vec![1; 200_000]);
    farm.publish(&[]).ok();
    // Without memory, every request reads the disk.
    let server = farm.member("a", farm.address, &["--memory", "0"]);
    assert_eq!(body(server.address(), "large").len(), 200_000);
    flip(&chunk_files(Path::new(&farm.place.file("a")))[0]);
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

/// The directory of a store is not taken for a server's own: its chunks would be removed as unused.
#[test]
fn the_directory_of_a_store_is_no_cache() {
    let mut farm = Farm::new();
    farm.place.write("index.html", "one");
    farm.publish(&[]).ok();
    let (address, copy, store) = (farm.address.to_string(), farm.place.file("copy"), farm.place.file("store"));
    farm.store.take().unwrap().end().unwrap();
    assert!(std::process::Command::new("cp").args(["-r", &store, &copy]).status().unwrap().success());
    farm.start_store();
    let serve = |dir: &str| thorp(["site", "serve", "shop", "--server", &address, "--cache", dir]).error();
    for dir in [&copy, &store] {
        let refused = serve(dir);
        assert!(refused.contains("is the directory of a store: name a new or an empty directory"), "{refused}");
    }
    fs::remove_file(format!("{copy}/thorp-store")).unwrap();
    let refused = serve(&copy);
    assert!(refused.contains("has chunks that no server of a site has fetched"), "{refused}");
    assert!(!Path::new(&copy).join("site").exists(), "nothing was written");
}

#[test]
fn a_store_is_not_published_through_its_server() {
    let farm = Farm::new();
    farm.place.write("index.html", "one");
    let (whole, store) = (farm.place.path().to_str().unwrap(), farm.place.file("store"));
    for dir in [whole, &store] {
        let refused = farm.run(&["publish", dir, "shop"]).error();
        assert!(refused.contains("store is the directory of a store: keep it elsewhere"), "{refused}");
    }
    let below = format!("{store}/below");
    fs::create_dir(&below).unwrap();
    let refused = farm.run(&["publish", &below, "shop"]).error();
    assert!(refused.contains("below is inside ") && refused.contains(", the directory of a store"), "{refused}");
    let published = farm.run(&["publish", whole, "shop", "--exclude", "/store"]).ok();
    assert!(published.starts_with("shop@1: 1 files"), "{published}");
}

/// A space is made by the first site in it, and by no command that fails or changes nothing.
#[test]
fn a_dry_run_makes_no_space() {
    let farm = Farm::new();
    farm.place.write("index.html", "one");
    let publish = |more: &[&str]| farm.publish(&[&["--space", "attic"], more].concat());
    assert_eq!(publish(&["--dry-run"]).ok(), "+ index.html\n");
    assert!(publish(&["--base", "3"]).error().starts_with("there is no site 'shop'"));
    assert!(publish(&["--exclude", "["]).error().starts_with("a pattern to exclude cannot be read"));
    let spaces = farm.run(&["spaces"]).ok();
    assert!(!spaces.contains("attic"), "{spaces}");
    assert!(publish(&[]).ok().starts_with("shop@1: 1 files, "));
    assert_eq!(publish(&[]).ok(), "shop@1: nothing has changed\n");
    farm.run(&["site", "create", "empty", "--keep", "3", "--space", "shed"]).ok();
    let spaces = farm.run(&["spaces"]).ok();
    assert!(spaces.contains("attic") && spaces.contains("shed"), "{spaces}");
}

/// The registry of volumes has two spaces, whose objects are not sites. A store with volumes and sites restarts, and
/// any other space can have sites, whatever its name begins with.
#[test]
fn sites_and_volumes_share_a_store_that_is_started_again() {
    let place = SiteFolder::new();
    let listen = lasting_address().unwrap().to_string();
    let (dir, homes) = (place.file("store"), place.file("homes"));
    let words = ["serve", "--dir", &dir, "--volumes", &homes, "--listen", &listen, "--site-lease-ms", "1000"];
    let mut store = start(&words);
    thorp(["volume", "create", "v", "--store", &listen, "--size", "8M"]).ok();
    let at_store = |words: &[&str]| thorp([words, &["--server", &listen]].concat());
    place.write("index.html", "one");
    let publish = |more: &[&str]| at_store(&[&["publish", &place.file("www"), "shop"], more].concat());
    publish(&["--space", "thorp.docs"]).ok();
    for space in ["thorp.volumes", "thorp.members"] {
        let refused = publish(&["--space", space]);
        assert_eq!(refused.code, Some(2));
        assert!(refused.stderr.contains("belong to the registry of volumes"), "{}", refused.stderr);
    }
    at_store(&["ls"]).ok();
    store.kill().unwrap();
    store.start_again().unwrap();
    at_store(&["ls"]).ok();
    assert_eq!(thorp(["volume", "list", "--store", &listen]).ok().lines().count(), 1);
    at_store(&["site", "collect"]).ok();
    assert_eq!(at_store(&["site", "cat", "shop/index.html", "--space", "thorp.docs"]).ok(), "one");
}

/// A reader holds its revision for as long as it reads. One that stands still for longer than its lease is told why its
/// chunks are gone.
#[test]
fn a_revision_stays_while_it_is_read() {
    let farm = Farm::new();
    // More than is read ahead, and no chunk like another one.
    let large: Vec<u8> =
        (0..12_u32 << 20).flat_map(|at| at.wrapping_mul(0x9E37_79B9).rotate_left(at % 31).to_le_bytes()).collect();
    farm.place.write("large", &large);
    farm.run(&["site", "create", "shop", "--keep", "1"]).ok();
    farm.publish(&[]).ok();
    let address = farm.address.to_string();
    for (stands_still, revision) in [(false, 1), (true, 3)] {
        let mut command = command();
        command.args(["site", "cat", "shop/large", "--server", &address]);
        let mut reader = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut out, mut read) = (reader.stdout.take().unwrap(), vec![0; 1000]);
        out.read_exact(&mut read).unwrap();
        let pid = rustix::process::Pid::from_child(&reader);
        if stands_still {
            rustix::process::kill_process(pid, Signal::STOP).unwrap();
        }
        std::thread::sleep(2 * LEASE);
        farm.place.write("large", "small");
        farm.publish(&[]).ok();
        let removed = || farm.run(&["site", "collect", "--json"]).ok();
        if stands_still {
            until("its chunks are removed", || !removed().contains("\"chunks\":0"));
            rustix::process::kill_process(pid, Signal::CONT).unwrap();
        } else {
            removed();
            assert_eq!(farm.run(&["site", "log", "shop"]).ok().lines().count(), 2, "it is held");
        }
        let rest = out.read_to_end(&mut read);
        let mut why = String::new();
        reader.stderr.take().unwrap().read_to_string(&mut why).unwrap();
        let status = reader.wait().unwrap();
        rest.unwrap();
        if stands_still {
            assert!(
                status.code() == Some(1) && why.contains(&format!("has no revision {revision}, or no longer")),
                "{why}"
            );
        } else {
            assert!(status.success() && read == large, "{} bytes; {why}", read.len());
            farm.place.write("large", &large);
            farm.publish(&[]).ok();
        }
    }
}

/// A damaged chunk of a store is found by a verification, and written again by a publish that reads all files.
#[test]
fn a_damaged_chunk_of_a_store_is_repaired_through_its_server() {
    let farm = Farm::new();
    farm.place.write("large", vec![1; 200_000]);
    // The index knows a file that is old enough.
    std::thread::sleep(Duration::from_secs(4));
    farm.publish(&[]).ok();
    flip(&chunk_files(Path::new(&farm.place.file("store")))[0]);
    let damaged = farm.run(&["site", "verify", "shop"]);
    assert!(damaged.stderr.contains("damaged or missing: `thorp publish --repair` of the directory"), "{damaged:?}");
    // The index knows the file, which is not read again.
    assert_eq!(farm.publish(&[]).ok(), "shop@1: nothing has changed\n");
    assert_eq!(farm.run(&["site", "verify", "shop"]).code, Some(1));
    let repaired = farm.publish(&["--repair", "--json"]).ok();
    let repaired: Value = serde_json::from_str(&repaired).unwrap();
    assert_eq!((&repaired["is_new"], &repaired["bytes_written"]), (&false.into(), &200_000.into()), "{repaired}");
    farm.run(&["site", "verify", "shop"]).ok();
}

/// A server reports on standard error whether its store is reached, and each revision that it serves.
#[test]
fn a_server_reports_its_store_and_its_revisions() {
    let mut farm = Farm::new();
    farm.place.write("index.html", "one");
    farm.publish(&[]).ok();
    let (address, dir) = (farm.address.to_string(), farm.place.file("a"));
    let mut command = command();
    command.args(["site", "serve", "shop", "--server", &address, "--cache", &dir, "--listen", "127.0.0.1:0"]);
    let mut server = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert_eq!(next(), "the store is reached");
    assert_eq!(next(), "shop@1");
    farm.place.write("index.html", "two");
    farm.publish(&[]).ok();
    assert_eq!(next(), "shop@2");
    farm.store.take().unwrap().kill().unwrap();
    let lost = next();
    assert!(lost.starts_with("the store is not reached: "), "{lost}");
    farm.start_store();
    assert_eq!(next(), "the store is reached");
    server.kill().unwrap();
    server.wait().unwrap();
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
