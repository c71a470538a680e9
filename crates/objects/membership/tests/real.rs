//! Stores that are created in a real etcd.

use database::{LocalStore, Recovered};
use etcd::{Etcd, EtcdUrl, Operation};
use fixtures::Folder;
use fixtures::installed::or_skipped;
use membership::{Cluster, Ended, Join, MembershipError, NewStore, Status, View};
use net::Runtime;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;
use types::NodeId;

const WITHIN: Duration = Duration::from_secs(5);

fn start(folder: &Folder) -> Option<fixtures::Etcd> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("tools").join("bin/etcd");
    or_skipped(program.is_file(), "bin/etcd").then(|| fixtures::Etcd::start(&program, folder.path()).unwrap())
}

fn new(nodes: &[&str], shards: u16) -> NewStore {
    let nodes = nodes.iter().map(|&node| node.to_owned()).collect();
    let lease = Duration::from_secs(5);
    NewStore { nodes, shards, extent: 64, lease, leased: None, from: None }
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

/// The transactions whose answers were lost.
static LOST: AtomicUsize = AtomicUsize::new(0);

/// A way to etcd on which the answer of every other transaction is lost.
fn losing(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut transactions = 0;
        for client in listener.incoming().flatten() {
            let Some((request, answer)) = pass(&client, to) else { continue };
            let is_transaction = request.starts_with(b"POST /v3/kv/txn");
            transactions += usize::from(is_transaction);
            if is_transaction && transactions % 2 == 1 {
                LOST.fetch_add(1, SeqCst);
            } else {
                let _ = (&client).write_all(&answer);
            }
        }
    });
    address
}

/// Passes a request on. Returns it, and the answer.
fn pass(mut client: &TcpStream, to: SocketAddr) -> Option<(Vec<u8>, Vec<u8>)> {
    let is_whole = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).to_lowercase();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        match length {
            Some(length) => Some(body.len() >= length.trim().parse::<usize>().ok()?),
            None => Some(body.ends_with("0\r\n\r\n")),
        }
    };
    let read = |mut from: &TcpStream| {
        let mut bytes = Vec::new();
        while !is_whole(&bytes).unwrap_or(false) {
            let mut part = [0; 4096];
            let count = from.read(&mut part).ok().filter(|&count| count > 0)?;
            bytes.extend(&part[..count]);
        }
        Some(bytes)
    };
    let request = read(client)?;
    client.flush().ok()?;
    let mut server = TcpStream::connect(to).ok()?;
    server.write_all(&request).ok()?;
    let answer = read(&server)?;
    Some((request, answer))
}

fn open(dir: &Path, view: &View, runtime: &Runtime) -> LocalStore {
    let disk = disk::Config { cluster: Some(view.store()), segment_bytes: 1 << 20, ..disk::Config::default() };
    let (members, sharding) = (view.members(), view.sharding());
    let store = store::Config { node: NodeId(0), members, sharding, ..store::Config::default() };
    Recovered::read(dir, &disk, store, |_| {}).unwrap().start(None, runtime)
}

/// The outcome of a transaction is what is read afterwards.
#[test]
fn a_node_opens_and_leaves_although_answers_are_lost() {
    let folder = Folder::new();
    let Some(server) = start(&folder) else { return };
    let url: EtcdUrl = format!("etcd://{}/main", losing(server.address())).parse().unwrap();
    let cluster = Cluster::new(&url, WITHIN).unwrap();
    cluster.create(&new(&["n1"], 100)).unwrap();
    let (runtime, dir) = (Runtime::start().unwrap(), folder.path().join("n1"));
    for start in 1..=2 {
        let view = cluster.view().unwrap();
        let store = open(&dir, &view, &runtime);
        let join = Join { cluster: &cluster, node: "n1".into(), dir: dir.clone(), address: "a:1".into() };
        // A start that has failed gives its name up, or its lease ends.
        let mut run = loop {
            match join.begin(&store, |_| {}, || false) {
                Ok(run) => break run.unwrap(),
                Err(MembershipError::Etcd(_)) => {}
                Err(error) => panic!("{error}"),
            }
        };
        run.begin(&store).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let keeper = scope.spawn(|| run.keep(&store, &is_over, |_| {}));
            fixtures::until("all shards are served", || {
                let status = Status::of(&cluster.view().unwrap());
                status.sequencer.is_some() && status.placement.iter().all(|shard| is_serving(shard, start))
            });
            is_over.store(true, SeqCst);
            assert!(matches!(keeper.join().unwrap(), Ended::Stopped));
        });
        store.host().close(store.role());
        store.host().wait_end();
        let closed = store.look(store::Store::closed_shards);
        assert_eq!(closed.len(), 100);
        store.close().unwrap();
        run.leave(&closed).unwrap();
        let status = Status::of(&cluster.view().unwrap());
        assert_eq!(
            (status.nodes[0].shards.values().copied().collect::<Vec<_>>(), status.nodes[0].starts),
            (vec![100], start)
        );
        assert_eq!(status.epoch, u32::try_from(start).unwrap());
    }
    assert!(LOST.load(SeqCst) > 5, "{LOST:?}");
}

fn is_serving(shard: &membership::ShardStatus, opening: u64) -> bool {
    shard.state == membership::ShardState::Serving && u64::from(shard.opening) == opening
}
