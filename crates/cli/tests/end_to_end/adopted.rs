//! A store of one process that becomes one of several nodes.

use crate::nodes::{Farm, SHARDS, serving};
use crate::program::{Ran, program, ran, serve, thorp};
use fixtures::SiteFolder;
use std::process::Stdio;

fn put(server: &str, name: &str, value: u64) {
    thorp(["put", name, &format!("[{value}]"), "--server", server]).ok();
}

fn get(server: &str, name: &str) -> String {
    thorp(["get", name, "--server", server]).ok().trim().to_owned()
}

fn create<'a>(farm: &'a Farm, dir: &'a str) -> [&'a str; 11] {
    let url = &*farm.url;
    ["cluster", "create", url, "--nodes", "n1,n2,n3", "--shards", "6", "--extent", "1", "--from", dir]
}

/// All of its data is at the first node, goes to others from there, and survives kills; no process opens its directory
/// as what it was.
#[test]
fn a_store_of_one_process_becomes_one_of_several_nodes() {
    let Some(mut farm) = Farm::empty() else { return };
    let dir = farm.dir(0);
    let bare = thorp(create(&farm, &dir)).error();
    assert!(bare.contains("there is no store in"), "{bare}");
    let mut single = serve(&farm.folder);
    let (old, used) = (single.address().to_string(), farm.folder.file("store"));
    for number in 0..30 {
        put(&old, &format!("docs/{number}"), number);
    }
    let place = SiteFolder::new();
    place.write("index.html", "published before");
    place.write("logo.bin", vec![7; 300_000]);
    let www = place.file("www");
    thorp(["publish", &www, "shop", "--server", &old]).ok();
    let in_use = thorp(create(&farm, &used)).error();
    assert!(in_use.contains("in use"), "{in_use}");
    // Nothing was written back of what it has.
    single.kill().unwrap();
    std::fs::rename(used, &dir).unwrap();
    let made = thorp(create(&farm, &dir)).ok();
    assert!(made.contains(&format!("--node n1 --dir {dir}")), "{made}");

    let again = thorp(create(&farm, &dir)).error();
    assert!(again.contains("exists"), "{again}");
    let other = farm.command("n1", &farm.folder.file("other"), "127.0.0.1:0".parse().unwrap());
    let other = refused(other);
    assert!(other.contains("is not the directory of node 'n1'"), "{other}");
    let mut alone = program().command();
    alone.args(["serve", "--dir", &dir, "--listen", "127.0.0.1:0", "--json"]);
    let alone = refused(alone);
    assert!(alone.contains("a node of a store of several"), "{alone}");

    (0..3).for_each(|node| farm.start(node));
    farm.wait_serving();
    assert_eq!(serving(&farm.status(), Some("n1")), SHARDS);
    let servers = farm.addresses.map(|it| it.to_string());
    let all = |server: &str| {
        (0..30).for_each(|number| assert_eq!(get(server, &format!("docs/{number}")), format!("[{number}]")));
    };
    all(&servers[1]);
    let page = |server: &str| thorp(["site", "cat", "shop/index.html", "--server", server]).ok();
    assert_eq!(page(&servers[2]), "published before");
    // That of its published sites, too.
    thorp(["cluster", "move", &farm.url, "3", "n3"]).ok();
    for (shard, node) in [("1", "n2"), ("4", "n2"), ("5", "n3")] {
        thorp(["cluster", "move", &farm.url, shard, node]).ok();
    }
    put(&servers[2], "docs/30", 30);
    (0..3).for_each(|node| farm.kill(node));
    (0..3).for_each(|node| farm.start(node));
    farm.wait_serving();
    all(&servers[2]);
    assert_eq!(get(&servers[1], "docs/30"), "[30]");
    put(&servers[1], "docs/3", 3);
    assert_eq!(page(&servers[1]), "published before");
    thorp(["site", "verify", "shop", "--server", &servers[0]]).ok();
    place.write("index.html", "published since");
    thorp(["publish", &www, "shop", "--server", &servers[1]]).ok();
    assert_eq!(page(&servers[0]), "published since");
}

fn refused(mut command: std::process::Command) -> String {
    let Ran { code, stderr, .. } = ran(command.stdin(Stdio::null()).output().unwrap());
    assert_eq!(code, Some(1), "{stderr}");
    stderr
}
