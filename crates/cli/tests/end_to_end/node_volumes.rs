//! Volumes of a store of several nodes: each home is at one of them, and hosts name any.

use crate::nodes::Farm;
use crate::program::{program, thorp, try_start};
use crate::stored_volumes::{Host, LEASE, version, write};
use fixtures::{Process, until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// Three nodes, of which the first two keep homes.
fn farm() -> Option<Farm> {
    let mut farm = Farm::new()?;
    (0..2).for_each(|node| start(&mut farm, node));
    farm.start(2);
    farm.wait_serving();
    Some(farm)
}

fn homes(farm: &Farm, node: usize) -> String {
    farm.folder.file(&format!("homes-{node}"))
}

fn start(farm: &mut Farm, node: usize) {
    let homes = homes(farm, node);
    farm.start_with(node, &["--volumes", &homes]);
}

fn create(name: &str, store: &str) -> Value {
    let words = ["volume", "create", name, "--store", store, "--size", "8M", "--copies", "2", "--json"];
    let lease = LEASE.as_secs().to_string();
    serde_json::from_str(&thorp([&words[..], &["--lease-s", &lease]].concat()).ok()).unwrap()
}

fn attach(farm: &Farm, store: &str, host: &str, more: &[&str]) -> Host {
    let socket = farm.folder.path().join(format!("{host}.nbd"));
    let (listen, cache) = (format!("unix:{}", socket.display()), farm.folder.file(host));
    let words = ["volume", "attach", "v", "--store", store, "--listen", &listen, "--cache", &cache, "--domain", host];
    let process = try_start(&[&words[..], &["--clean", "2M", "--dirty", "8M", "--spare", "0"], more].concat()).unwrap();
    Host { process, socket }
}

fn holder(farm: &Farm, store: &str) -> Process {
    let more = ["--domain", "rack", "--bring-home-after-s", "1"];
    program().holder(store, &farm.folder.file("copies"), "64M", &more).unwrap()
}

fn status(store: &str) -> Value {
    serde_json::from_str(&thorp(["volume", "status", "v", "--store", store, "--json"]).ok()).unwrap()
}

/// The numbers of the homes that are listed, and where each is.
fn listed(store: &str) -> Vec<(String, String)> {
    let lines = thorp(["volume", "list", "--homes", "--store", store, "--json"]).ok();
    let text = |home: &Value, field: &str| home[field].as_str().unwrap().to_owned();
    let home = |line: &str| {
        let home = serde_json::from_str(line).unwrap();
        (text(&home, "home"), text(&home, "at"))
    };
    lines.lines().map(home).collect()
}

/// The home stays at the node where the volume was made. Hosts and the holder name other nodes.
#[test]
fn a_volume_has_its_home_at_one_node_and_is_attached_through_any() {
    let Some(mut farm) = farm() else { return };
    let [n1, n2, n3] = farm.addresses.map(|it| it.to_string());
    let refused = thorp(["volume", "create", "v", "--store", &n3, "--size", "8M"]).error();
    assert!(refused.contains("keeps no homes of volumes") && refused.contains("--volumes"), "{refused}");
    let made = create("v", &format!("{n2},{n1}"));
    assert_eq!(made["home"], n2.as_str(), "{made}");
    let number = made["volume"].as_str().unwrap().to_owned();
    assert_eq!(listed(&n3), [(number.clone(), n2.clone())]);

    let holder = holder(&farm, &n1);
    let host = attach(&farm, &n3, "one", &["--age-s", "60"]);
    until("the holder takes copies", || status(&n1)["live"]["holders"][0]["state"] == "whole");
    (0..40).for_each(|block| write(&mut host.connect(), block, 100 + block));
    drop(host);
    // By the holder, by itself.
    until("it is all home", || status(&n3)["attached_at"].is_null() && status(&n3)["holders"] == serde_json::json!([]));
    drop(holder);

    let host = attach(&farm, &n1, "two", &[]);
    let read = host.read();
    (0..40).for_each(|block| assert_eq!(version(&read, block), 100 + block as u64, "block {block}"));
    // Requests wait for a node that is started again.
    farm.kill(1);
    start(&mut farm, 1);
    write(&mut host.connect(), 3, 999);
    assert_eq!(version(&host.read(), 3), 999);
    host.process.end().unwrap();

    // So a volume changes its node.
    let file = farm.folder.file("v.img");
    thorp(["volume", "export", "v", &file, "--store", &n3]).ok();
    thorp(["volume", "import", &file, "w", "--store", &n1]).ok();
    let places: BTreeSet<_> = listed(&n3).into_iter().map(|(_, at)| at).collect();
    assert_eq!(places, [n1.clone(), n2.clone()].into());
    thorp(["volume", "remove", "w", "--store", &n2]).ok();

    // A copy of the homes at another node is found and reported.
    farm.stop(0);
    let copied = format!("{}/.", homes(&farm, 1));
    let copied = Command::new("cp").args(["-r", &copied, &homes(&farm, 0)]).status().unwrap();
    assert!(copied.success());
    start(&mut farm, 0);
    farm.wait_serving();
    assert_eq!(listed(&n3).len(), 2);
    let found = thorp(["volume", "registry", "rebuild", "--store", &n3]);
    assert!(found.stderr.contains(&format!("home {number} is at")), "{}", found.stderr);
    thorp(["volume", "remove", "v", "--store", &n3]).ok();
    assert_eq!(listed(&n3), [(number.clone(), n1.clone())]);
    // A node that is away may have homes: the list is not whole, and says so.
    thorp(["cluster", "drain", &farm.url, "n1", "--json"]).ok();
    farm.kill(0);
    let list = thorp(["volume", "list", "--homes", "--store", &n3]);
    assert!(list.stderr.contains(&format!("the homes at {n1} are not listed")), "{}", list.stderr);
}
