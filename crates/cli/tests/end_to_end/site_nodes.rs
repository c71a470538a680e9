//! Published files of a store of three nodes: the sites of a space are at one of them, commands and servers name any,
//! and the sites go with their shard.

use crate::nodes::{Farm, SHARDS};
use crate::program::{Ran, start, thorp};
use crate::sites::ask;
use fixtures::{Process, SiteFolder, chunk_files, until};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use types::{CATALOG_SPACE, MAIN_SPACE, PageId, Sharding};

/// The fields of a request for a page.
const PAGE: &str = "Sec-Fetch-Mode: navigate\r\n";

/// A store of three nodes, and a directory to publish.
struct Sites {
    farm: Farm,
    place: SiteFolder,
}

impl Sites {
    fn start() -> Option<Self> {
        let mut farm = Farm::new()?;
        (0..3).for_each(|node| start_node(&mut farm, node));
        farm.wait_serving();
        let place = SiteFolder::new();
        place.write("index.html", "one");
        place.write("img/logo.bin", vec![7; 300_000]);
        Some(Self { farm, place })
    }

    /// Runs `thorp` against a node.
    fn run(&self, node: usize, words: &[&str]) -> Ran {
        thorp([words, &["--server", &self.farm.addresses[node].to_string()]].concat())
    }

    fn publish(&self, node: usize, more: &[&str]) -> Ran {
        self.run(node, &[&["publish", &self.place.file("www"), "shop"], more].concat())
    }

    /// The node that has the sites of the main space, which is that of the space's first page.
    fn home(&self) -> usize {
        let shard: usize = shard_of(MAIN_SPACE).parse().unwrap();
        let node = self.farm.status()["placement"][shard]["node"].as_str().unwrap().to_owned();
        node[1..].parse::<usize>().unwrap() - 1
    }

    fn member(&self, name: &str, server: SocketAddr, more: &[&str]) -> Process {
        let (server, dir) = (server.to_string(), self.place.file(name));
        let words = ["site", "serve", "shop", "--server", &server, "--cache", &dir, "--listen", "127.0.0.1:0"];
        start(&[&words[..], more].concat())
    }

    /// The chunks that are files in a node's directory.
    fn chunks(&self, node: usize) -> usize {
        let dir = self.farm.dir(node);
        chunk_files(Path::new(&dir)).len()
    }
}

fn start_node(farm: &mut Farm, node: usize) {
    farm.start_with(node, &["--site-lease-ms", "1000"]);
}

/// The shard where a space begins.
fn shard_of(space: u32) -> String {
    let sharding = Sharding::new(NonZeroU16::new(SHARDS as u16).unwrap(), NonZeroU32::MIN);
    sharding.of(PageId::new(space, 0)).0.to_string()
}

fn body(address: SocketAddr, path: &str) -> String {
    ask(address, &format!("GET /{path}"), PAGE).1
}

/// All commands of docs/files.md name any node.
#[test]
fn a_site_is_published_and_read_through_any_node() {
    let Some(mut sites) = Sites::start() else { return };
    let home = sites.home();
    let [one, other] = [(home + 1) % 3, (home + 2) % 3];
    assert!(sites.run(one, &["site", "log", "shop"]).error().contains("there is no site 'shop'"));
    let dry = sites.publish(one, &["--dry-run"]).ok();
    assert_eq!(dry, "+ img\n+ img/logo.bin\n+ index.html\n");
    assert!(sites.publish(one, &[]).ok().starts_with("shop@1: 2 files, "));
    assert_eq!(
        [sites.chunks(home), sites.chunks(one), sites.chunks(other)].map(|count| count > 0),
        [true, false, false]
    );
    for node in 0..3 {
        assert_eq!(sites.publish(node, &[]).ok(), "shop@1: nothing has changed\n");
        assert_eq!(sites.run(node, &["site", "cat", "shop/index.html"]).ok(), "one");
    }
    let [to_one, to_home] = [sites.farm.addresses[one], sites.farm.addresses[home]];
    let members = [sites.member("a", to_one, &[]), sites.member("b", to_home, &[])];
    // The relay of a group, whose store is another node.
    let store = sites.farm.addresses[other].to_string();
    let group = start(&["group", "--name", "farm", "--store", &store, "--listen", "127.0.0.1:0"]);
    let relayed = sites.member("c", group.address(), &[]);
    let all = || members.iter().chain([&relayed]);
    until("all have it", || all().all(|member| body(member.address(), "") == "one"));
    for round in 2..6 {
        sites.place.write("index.html", format!("round {round}"));
        let told = sites.publish(round % 3, &["--wait", "--json"]).ok();
        assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["revision"], round, "{told}");
        for member in all() {
            assert_eq!(body(member.address(), ""), format!("round {round}"));
        }
    }
    let refused = thorp(["publish", &sites.place.file("www"), "shop", "--server", &group.address().to_string()]);
    assert!(refused.error().contains("is the redirector of a group, which takes no publishes"));
    assert_eq!(thorp(["site", "cat", "shop@3/index.html", "--server", &group.address().to_string()]).ok(), "round 3");
    let status = sites.run(other, &["site", "status", "shop"]).ok();
    assert!(status.contains("revision 5") && status.contains("servers that follow it: 3"), "{status}");
    assert_eq!(sites.run(other, &["site", "rollback", "shop", "--to", "1", "--wait"]).ok(), "shop@6: 1 again\n");
    assert_eq!(sites.run(one, &["site", "diff", "shop", "5", "6"]).ok(), "~ index.html\n");
    sites.run(one, &["site", "verify", "shop"]).ok();
    sites.run(one, &["site", "set", "shop", "--keep", "2"]).ok();
    sites.run(other, &["site", "collect"]).ok();
    // A space that is made with its first site, through a node that need not be its home.
    let docs = ["site", "create", "handbook", "--space", "docs"];
    assert!(sites.run(one, &docs).ok().contains("keeps 10 revisions"));
    assert!(sites.run(other, &docs).error().contains("there is a site 'handbook' already"));
    let www = sites.place.file("www");
    for node in 0..3 {
        let published = sites.run(node, &["publish", &www, "handbook", "--space", "docs"]).ok();
        assert!(published.starts_with("handbook@1: "), "{published}");
    }
    // A backup, and a mount, from any node.
    let copy = sites.place.file("backup");
    let copied = sites.run(one, &["site", "copy", "--all", "--to-dir", &copy]).ok();
    assert!(copied.contains("shop@6"), "{copied}");
    assert_eq!(thorp(["site", "cat", "shop/index.html", "--dir", &copy]).ok(), "one");
    let got = sites.place.file("got");
    sites.run(other, &["site", "get", "shop", &got]).ok();
    assert_eq!(fs::read(format!("{got}/img/logo.bin")).unwrap(), vec![7; 300_000]);
    sites.run(one, &["site", "rm", "handbook", "--space", "docs"]).ok();
    drop((members, relayed, group));
    (0..3).for_each(|node| drop(sites.farm.stop(node)));
}

/// While the node of a site is away, its commands name the node, and its servers say that they may be behind. Sites of
/// other nodes continue. All is there when the node is back.
#[test]
fn a_node_that_is_away_takes_its_sites_with_it_and_no_others() {
    let Some(mut sites) = Sites::start() else { return };
    let home = sites.home();
    let [one, other] = [(home + 1) % 3, (home + 2) % 3];
    sites.publish(one, &[]).ok();
    // The catalog of spaces and the first one of them are at the second node.
    thorp(["cluster", "move", &sites.farm.url, &shard_of(CATALOG_SPACE), "n2"]).ok();
    assert_eq!((home, shard_of(1)), (0, "4".to_owned()));
    let www = sites.place.file("www");
    sites.run(one, &["publish", &www, "shop", "--space", "docs"]).ok();
    let member = sites.member("a", sites.farm.addresses[one], &["--admin", "127.0.0.1:0"]);
    until("it has it", || body(member.address(), "") == "one");
    sites.farm.kill(home);
    until("it says that it may be old", || ask(member.address(), "GET /", PAGE).0.contains("thorp-stale: "));
    let name = format!("n{}", home + 1);
    let refused = sites.publish(other, &[]).error();
    assert!(refused.contains(&format!("node '{name}' is away")), "{refused}");
    sites.place.write("index.html", "two");
    let published = sites.run(one, &["publish", &www, "shop", "--space", "docs"]).ok();
    assert!(published.starts_with("shop@2: "), "{published}");
    start_node(&mut sites.farm, home);
    sites.farm.wait_serving();
    let told = sites.publish(other, &["--wait"]).ok();
    assert!(told.starts_with("shop@2: "), "{told}");
    until("the member has it", || body(member.address(), "") == "two");
    assert_eq!(sites.run(other, &["site", "cat", "shop@1/index.html"]).ok(), "one");
    sites.run(one, &["site", "verify", "shop"]).ok();
}

/// The node of a shard.
fn node_of(farm: &Farm, shard: &str) -> String {
    let shard: usize = shard.parse().unwrap();
    farm.status()["placement"][shard]["node"].as_str().unwrap().to_owned()
}

/// Publishes and visits during a test. No acknowledged publish is lost, and the server does not go back.
struct Traffic<'a> {
    sites: &'a Sites,
    servers: String,
    is_over: AtomicBool,
}

impl Traffic<'_> {
    /// Returns the last content that was acknowledged, and its revision.
    fn publish(&self) -> (String, u64) {
        let (mut last, mut number) = (String::new(), 0);
        for round in 0.. {
            if self.is_over.load(Relaxed) {
                break;
            }
            let content = format!("round {round}");
            self.sites.place.write("index.html", content.clone());
            let www = self.sites.place.file("www");
            let told = thorp(["publish", &www, "shop", "--server", &self.servers, "--json"]);
            // A publish that fails may have been made.
            if told.code == Some(0) {
                let told: Value = serde_json::from_str(&told.stdout).unwrap();
                assert!(told["revision"].as_u64().unwrap() > number, "{told} after {number}");
                (last, number) = (content, told["revision"].as_u64().unwrap());
            }
        }
        (last, number)
    }

    fn visit(&self, server: SocketAddr) {
        let mut seen = 0;
        while !self.is_over.load(Relaxed) {
            let page = body(server, "");
            let round = page.strip_prefix("round ").map_or(0, |round| round.parse::<u64>().unwrap());
            assert!(round >= seen, "{round} after {seen}");
            seen = round;
        }
    }
}

/// Publishes and readers notice nothing but a short wait.
#[test]
fn sites_move_with_their_shard() {
    let Some(mut sites) = Sites::start() else { return };
    assert_eq!((sites.home(), shard_of(MAIN_SPACE)), (0, "3".to_owned()));
    sites.publish(1, &[]).ok();
    let all = sites.farm.addresses.map(|address| address.to_string());
    let member = sites.member("a", sites.farm.addresses[2], &[]);
    until("the member has it", || body(member.address(), "") == "one");
    let traffic = Traffic { sites: &sites, servers: all.join(","), is_over: AtomicBool::new(false) };
    let (last, number) = thread::scope(|scope| {
        let publishes = scope.spawn(|| traffic.publish());
        scope.spawn(|| traffic.visit(member.address()));
        for node in ["n2", "n3", "n1", "n2"] {
            thorp(["cluster", "move", &sites.farm.url, &shard_of(MAIN_SPACE), node]).ok();
        }
        // A node without shards has no sites either.
        thorp(["cluster", "drain", &sites.farm.url, "n2"]).ok();
        traffic.is_over.store(true, Relaxed);
        publishes.join().unwrap()
    });
    assert!(number > 5, "{number}");
    drop(sites.farm.stop(1));
    let others = [&all[0], &all[2]].map(String::as_str).join(",");
    let run = |words: &[&str]| thorp([words, &["--server", &others]].concat());
    let head: u64 = last_revision(&run(&["site", "log", "shop", "--json"]).ok());
    assert!(head >= number, "{head} and {number}");
    assert_eq!(run(&["site", "cat", &format!("shop@{number}/index.html")]).ok(), last);
    run(&["site", "verify", "shop"]).ok();
    sites.place.write("index.html", "the end");
    run(&["publish", &sites.place.file("www"), "shop", "--wait"]).ok();
    assert_eq!(body(member.address(), ""), "the end");
}

fn last_revision(log: &str) -> u64 {
    let first: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    first["revision"].as_u64().unwrap()
}

/// The nodes resume a move after either of them was killed.
#[test]
fn a_move_of_sites_outlasts_kills() {
    let Some(mut sites) = Sites::start() else { return };
    let shard = shard_of(MAIN_SPACE);
    (0..40).for_each(|number| sites.place.write(&format!("img/{number}.bin"), vec![number; 100_000]));
    sites.publish(1, &[]).ok();
    for (round, (killed, to)) in [(1, "n2"), (1, "n3"), (2, "n1"), (0, "n2")].into_iter().enumerate() {
        thorp(["cluster", "move", &sites.farm.url, &shard, to, "--no-wait"]).ok();
        thread::sleep(Duration::from_millis(150 * round as u64));
        sites.farm.kill(killed);
        start_node(&mut sites.farm, killed);
        until("the shard has moved", || node_of(&sites.farm, &shard) == to);
        sites.farm.wait_serving();
        sites.place.write("index.html", format!("round {round}"));
        let published = sites.publish(round % 3, &[]).ok();
        assert!(published.starts_with(&format!("shop@{}: ", round + 2)), "{published}");
        let whole = sites.run(round % 3, &["site", "verify", "shop"]).ok();
        assert!(whole.contains("chunks are whole"), "{whole}");
        let to = to[1..].parse::<usize>().unwrap() - 1;
        assert!(sites.chunks(to) > 40, "the chunks are at node {to}");
    }
}
