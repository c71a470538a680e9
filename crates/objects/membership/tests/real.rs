//! Stores that are created in a real etcd.

use etcd::{Etcd, EtcdUrl, Operation};
use fixtures::Folder;
use fixtures::installed::or_skipped;
use membership::{Cluster, MembershipError, NewStore, Status};
use std::path::Path;
use std::thread;
use std::time::Duration;
use types::NodeId;

const WITHIN: Duration = Duration::from_secs(5);

fn start(folder: &Folder) -> Option<fixtures::Etcd> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("tools").join("bin/etcd");
    or_skipped(program.is_file(), "bin/etcd").then(|| fixtures::Etcd::start(&program, folder).unwrap())
}

fn new(nodes: &[&str], shards: u16) -> NewStore {
    let nodes = nodes.iter().map(|&node| node.to_owned()).collect();
    NewStore { nodes, shards, extent: 64, lease: Duration::from_secs(5) }
}

#[test]
fn a_store_is_created_once_and_whole() {
    let folder = Folder::new();
    let Some(server) = start(&folder) else { return };
    let url: EtcdUrl = server.url("main").parse().unwrap();
    let cluster = Cluster::new(&url, WITHIN).unwrap();
    assert!(matches!(cluster.view(), Err(MembershipError::NoStore(_))));

    // The keys of an interrupted creation do not stay.
    let etcd = Etcd::new(&url.endpoints, WITHIN).unwrap();
    let config = r#"{"store":"00000000000000c1","shards":9,"extent":1,"lease_s":5,"is_complete":false}"#;
    let left = [("config", config), ("members/other", r#"{"number":0,"directory":null,"start":0}"#)];
    let placed = (0..300).map(|shard| (format!("placement/{shard}"), r#"{"node":"other"}"#));
    let left = left.into_iter().map(|(key, value)| (key.to_owned(), value)).chain(placed);
    let puts: Vec<_> =
        left.map(|(key, value)| Operation::Put(format!("/thorp/main/{key}"), value.to_owned(), None)).collect();
    for part in puts.chunks(100) {
        assert!(etcd.commit(&[], part).unwrap());
    }
    assert!(matches!(cluster.view(), Err(MembershipError::Incomplete(_))));

    let store = cluster.create(&new(&["n1", "n2", "n3"], 256)).unwrap();
    let view = cluster.view().unwrap();
    assert_eq!((view.store(), view.members().len(), view.number("n3")), (store, 3, Some(NodeId(2))));
    let status = Status::of(&view);
    assert_eq!((status.placement.len(), status.nodes.len()), (256, 3));
    assert!(matches!(cluster.create(&new(&["n1"], 1)), Err(MembershipError::Exists(_))));
    assert_eq!(cluster.view().unwrap().store(), store);
    // Nothing of the leftovers.
    assert_eq!(etcd.read("/thorp/main/placement/").unwrap().entries.len(), 256);
}

#[test]
fn of_creations_at_the_same_time_one_succeeds_or_none() {
    let folder = Folder::new();
    let Some(server) = start(&folder) else { return };
    for round in 0..4 {
        let url: EtcdUrl = server.url(&format!("store-{round}")).parse().unwrap();
        let create = |shards: u16| {
            let url = url.clone();
            thread::spawn(move || Cluster::new(&url, WITHIN).unwrap().create(&new(&["a", "b"], shards)))
        };
        let outcomes = [200, 1024].map(create).map(|thread| thread.join().unwrap());
        let created: Vec<_> = outcomes.iter().flatten().copied().collect();
        assert!(created.len() <= 1, "{outcomes:?}");
        let view = Cluster::new(&url, WITHIN).unwrap().view();
        match created.first() {
            Some(&store) => assert_eq!(view.unwrap().store(), store),
            None => assert!(matches!(view, Err(MembershipError::Incomplete(_))), "{outcomes:?}"),
        }
    }
}
