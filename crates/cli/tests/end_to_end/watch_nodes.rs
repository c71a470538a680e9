//! The watcher of a store of three nodes: nodes are killed and stopped, and shards move to others and to a new node,
//! while clients commit on one node and on two. No response lacks what was done before it was asked for.

use crate::nodes::{Farm, serving};
use crate::program::{start, thorp};
use crate::watch_store::{ITEMS, LEASE_MS, Over, Site, application, stop, wait_for};
use crate::web::Proxy;
use fixtures::{Process, lasting_address};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, sleep};
use std::time::Duration;
use thorp::{Anywhere, Db, Ref};

/// A store of three nodes whose main space is leased.
fn leased() -> Option<Farm> {
    Farm::started_with(&["--leased", "0", "--lease-ms", &LEASE_MS.to_string()])
}

fn connect(servers: &str) -> Db {
    Db::builder().patience(Duration::from_secs(30)).connect(servers).unwrap()
}

#[test]
fn no_response_lacks_a_commit_while_nodes_are_killed_and_shards_move() {
    let Some(mut farm) = leased() else { return };
    assert!(thorp(["cluster", "status", &farm.url]).ok().contains("leased spaces: 0, leases of 500 ms"));
    let servers = farm.addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",");
    // Each node grants pages of its own shards.
    let of_nodes = farm.addresses.map(|address| connect(&address.to_string()));
    let create = |item: usize| of_nodes[item % 3].transact(|tx| tx.create(Anywhere, &0)).unwrap();
    let items: [Ref<u64>; ITEMS] = std::array::from_fn(create);
    let [writer, reader] = [(); 2].map(|()| connect(&servers));
    assert_eq!(thorp(["watch", &format!("thorp://{servers}"), "--check"]).ok(), "it can be watched\n");

    let hub = lasting_address().unwrap().to_string();
    let watching = start(&["watch", &format!("thorp://{servers}"), "--listen", &hub]);
    wait_for(&watching, "watching");
    let proxy = Proxy::start_with(&["--origin", &application(reader, items), "--hub", &hub]);
    let (site, url, mut more) = (Arc::new(Site::default()), farm.url.clone(), None);
    thread::scope(|scope| {
        let _over = Over(&site.is_over);
        for first in 0..2 {
            let (site, writer, address) = (&site, &writer, proxy.address());
            scope.spawn(move || site.write(writer, &items, first, 1 + first));
            scope.spawn(move || site.read(address, 2 * first));
        }
        site.get_on("at first");

        thorp(["cluster", "drain", &url, "n1"]).ok();
        site.get_on("the shards of a node have moved to the others");
        // The watcher needs no lease of a node without shards.
        farm.kill(0);
        site.get_on("a node without shards was killed");
        farm.start(0);
        for shard in ["0", "3"] {
            thorp(["cluster", "move", &url, shard, "n1"]).ok();
        }
        site.get_on("and back");

        for node in [1, 0] {
            farm.kill(node);
            wait_for(&watching, "apart");
            sleep(Duration::from_millis(2 * LEASE_MS));
            farm.start(node);
            site.get_on("a node was killed");
        }
        farm.stop(2);
        farm.start(2);
        site.get_on("a node was stopped in order");

        thorp(["cluster", "add", &url, "n4"]).ok();
        let n4 = Process::spawn(farm.command("n4", &farm.folder.file("n4"), lasting_address().unwrap()), "n4").unwrap();
        n4.hear_until(|line| line["node"] == "n4").unwrap();
        more = Some(n4);
        thorp(["cluster", "drain", &url, "n2"]).ok();
        site.get_on("shards have moved to a new node");
        assert!(serving(&farm.status(), Some("n4")) > 0);
    });
    proxy.stop();
    stop(watching);
}

/// A group reads under the leases of all nodes over TCP.
#[test]
fn a_group_has_leases_of_all_nodes() {
    let Some(farm) = leased() else { return };
    let servers = farm.addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",");
    let items: Vec<Ref<u64>> = (farm.addresses.iter())
        .map(|address| connect(&address.to_string()).transact(|tx| tx.create(Anywhere, &7)).unwrap())
        .collect();
    let group = start(&["group", "--store", &servers, "--name", "site", "--listen", "127.0.0.1:0"]);
    group.hear_until(|line| line["leads"] == "site").unwrap();
    let db = connect(&group.address().to_string());
    let validated = || {
        let status = thorp(["status", "--json", &group.address().to_string()]).ok();
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        status["counts"][0]["validated"].as_u64().unwrap()
    };
    fixtures::until("the group judges what was read at three nodes", || {
        let sum: u64 = db.transact(|tx| items.iter().map(|&item| tx.get(item)).sum()).unwrap();
        assert_eq!(sum, 21);
        validated() > 0
    });
}
