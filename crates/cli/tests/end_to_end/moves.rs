//! Shards that move between nodes: nodes are added and drained while clients commit, and killed while shards move.

use crate::nodes::{Farm, SHARDS, serving};
use crate::program::thorp;
use fixtures::{Process, Signal, lasting_address, until};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

fn put(server: &str, name: &str, value: u64) {
    thorp(["put", name, &format!("[{value}]"), "--server", server]).ok();
}

fn get(server: &str, name: &str) -> String {
    thorp(["get", name, "--server", server]).ok().trim().to_owned()
}

/// Starts a node that was added to the farm.
fn start(farm: &Farm, name: &str, address: SocketAddr) -> Process {
    let process = Process::spawn(farm.command(name, &farm.folder.file(name), address), name).unwrap();
    process.hear_until(|line| line["node"] == name).unwrap();
    process
}

fn last_line(output: &str) -> Value {
    serde_json::from_str(output.lines().last().unwrap()).unwrap()
}

fn node_of(farm: &Farm, shard: usize) -> String {
    farm.status()["placement"][shard]["node"].as_str().unwrap().to_owned()
}

/// Everything moves to a new node and away from an old one, and clients notice nothing but a short wait.
#[test]
fn a_node_is_added_and_another_one_drained_while_clients_commit() {
    let Some(mut farm) = Farm::started() else { return };
    let all: Vec<_> = farm.addresses.iter().map(SocketAddr::to_string).collect();
    let servers = all.join(",");
    (0..20).for_each(|number| put(&servers, &format!("docs/{number}"), number));

    let (url, address) = (farm.url.clone(), lasting_address().unwrap());
    thorp(["cluster", "add", &url, "n4"]).ok();
    let twice = thorp(["cluster", "add", &url, "n4"]).error();
    assert!(twice.contains("the store has a node 'n4'"), "{twice}");
    let away = thorp(["cluster", "move", &url, "0", "n4"]).error();
    assert!(away.contains("node 'n4' is away"), "{away}");
    let n4 = start(&farm, "n4", address);

    let is_over = AtomicBool::new(false);
    let commits = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut commits = 0;
            while !is_over.load(Relaxed) {
                put(&servers, "docs/counter", commits);
                commits += 1;
            }
            commits
        });
        let drained = last_line(&thorp(["cluster", "drain", &url, "n1", "--json"]).ok());
        is_over.store(true, Relaxed);
        assert_eq!(drained["moved"].as_array().unwrap().len(), 2, "{drained}");
        writer.join().unwrap()
    });
    farm.wait_serving();
    let status = farm.status();
    assert_eq!((serving(&status, Some("n1")), serving(&status, Some("n4"))), (0, 2), "{status}");
    assert!(commits > 0);

    // The old node can go.
    farm.stop(0);
    let others = format!("{},{address}", all[1]);
    assert_eq!(get(&others, "docs/counter"), format!("[{}]", commits - 1));
    (0..20).for_each(|number| assert_eq!(get(&others, &format!("docs/{number}")), format!("[{number}]")));
    put(&others, "docs/later", 7);
    assert_eq!(get(&address.to_string(), "docs/later"), "[7]");
    assert!(n4.end_by(Signal::TERM).unwrap().status.success());
}

/// The nodes resume a move after either of them was killed, and lose no commit.
#[test]
fn a_move_outlasts_kills_of_both_nodes() {
    let Some(mut farm) = Farm::started() else { return };
    let servers = farm.addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",");
    (0..10).for_each(|number| put(&servers, &format!("docs/{number}"), number));
    let url = farm.url.clone();
    for (round, (killed, to)) in [(1, "n2"), (0, "n3"), (2, "n3"), (1, "n1")].into_iter().enumerate() {
        thorp(["cluster", "move", &url, "0", to, "--no-wait"]).ok();
        farm.kill(killed);
        farm.start(killed);
        until("the shard has moved", || node_of(&farm, 0) == to);
        farm.wait_serving();
        let name = format!("docs/round{round}");
        put(&servers, &name, round as u64);
        assert_eq!(get(&servers, &name), format!("[{round}]"));
        (0..10).for_each(|number| assert_eq!(get(&servers, &format!("docs/{number}")), format!("[{number}]")));
    }
    assert_eq!(serving(&farm.status(), None), SHARDS);
}

#[test]
fn moves_that_cannot_be_are_refused() {
    let Some(farm) = Farm::started() else { return };
    let url = &farm.url;
    let refused = |shard: &str, node: &str| thorp(["cluster", "move", url, shard, node]).error();
    assert!(refused("6", "n1").contains("no shard 6: expected 0 to 5"));
    assert!(refused("0", "n9").contains("the store has no node 'n9': expected one of n1, n2, n3"));
    let stays = thorp(["cluster", "move", url, "0", "n1", "--json"]).ok();
    assert_eq!(last_line(&stays)["moved"][0]["shard"], 0, "it is there");
    let none = thorp(["cluster", "drain", url, "n9"]).error();
    assert!(none.contains("the store has no node 'n9'"), "{none}");
}
