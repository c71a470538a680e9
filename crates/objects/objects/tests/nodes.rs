//! Three nodes of one store, each with a directory and a listener of its own, and links and clients over TCP.

use database::{LocalStore, Recovered};
use fixtures::Emulator;
use machine::RoleId;
use net::{Host, ListenConfig, Listener, Machines, Runtime, Shared, UpstreamConfig};
use objects::{Anywhere, Db, Error, Ref};
use redirector::Redirector;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use types::{ClientId, ClusterId, Epoch, NodeId, Opening, Shard, Sharding};

const NODES: u16 = 3;
const CLUSTER: ClusterId = ClusterId(0xC1);

/// Long enough for anything that is going to happen on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::start().unwrap());

fn sharding() -> Sharding {
    Sharding::new(NonZeroU16::new(NODES).unwrap(), NonZeroU32::MIN)
}

/// A folder that goes with the test.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Cluster {
    dir: Scratch,
    nodes: Vec<Option<LocalStore>>,
    addresses: Vec<SocketAddr>,
    openings: Vec<u32>,
    epoch: u32,
}

impl Cluster {
    fn start(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("thorp-nodes-{}-{name}", std::process::id()));
        // At an address of its own the port of a node that is away stays free.
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let address = |node: u16| SocketAddr::from(([127, high, low, 2 + node as u8], 0));
        let addresses = (0..NODES).map(address).collect();
        let nodes = (0..NODES).map(|_| None).collect();
        let mut cluster = Self { dir: Scratch(dir), nodes, addresses, openings: vec![0; NODES.into()], epoch: 0 };
        (0..NODES).for_each(|node| cluster.start_node(node));
        cluster.elect(0);
        cluster
    }

    /// Starts a node, at the address that it had if it was there before, and opens its shard.
    fn start_node(&mut self, node: u16) {
        let at = usize::from(node);
        let disk = disk::Config { cluster: Some(CLUSTER), segment_bytes: 1 << 20, ..disk::Config::default() };
        let members = (0..NODES).map(NodeId).collect();
        let config = store::Config { node: NodeId(node), members, sharding: sharding(), ..store::Config::default() };
        let dir = self.dir.0.join(node.to_string());
        let store = Recovered::read(&dir, &disk, config, |_| {}).unwrap().start(None, &RUNTIME);
        let listener = Listener::bind(ListenConfig::new(messages::SERVER, self.addresses[at])).unwrap();
        self.addresses[at] = store.host().listen_with(store.role(), listener, vec![store.links()]).unwrap();
        self.openings[at] += 1;
        store.tell(|store, now| {
            let others = (0..).zip(&self.openings).filter(|&(other, _)| other != node);
            let place = |(other, opening): (u16, &u32)| (Shard(other), NodeId(other), Opening(*opening.max(&1)));
            store.place(now, &others.map(place).collect::<Vec<_>>());
            for (other, address) in (0..).zip(&self.addresses).filter(|(_, address)| address.port() > 0) {
                store.node_is_at(now, NodeId(other), 0, &address.to_string());
            }
            store.open(now, &[(Shard(node), Opening(self.openings[at]))].into_iter().collect());
        });
        for other in self.nodes.iter().flatten() {
            other.tell(|store, now| store.node_is_at(now, NodeId(node), 0, &self.addresses[at].to_string()));
        }
        self.nodes[at] = Some(store);
    }

    /// A node's sequencer serves.
    fn elect(&mut self, node: u16) {
        self.epoch += 1;
        for (at, store) in self.nodes.iter().enumerate() {
            let Some(store) = store else { continue };
            store.tell(|store, now| {
                if at == usize::from(node) {
                    store.sequence(now, Epoch(self.epoch));
                } else {
                    store.follow_sequencer(now, NodeId(node));
                }
            });
        }
    }

    fn node(&self, node: u16) -> &LocalStore {
        self.nodes[usize::from(node)].as_ref().expect("it is up")
    }

    /// Waits until a node serves its shard.
    fn wait_open(&self, node: u16) {
        let until = Instant::now() + PATIENCE;
        while !self.node(node).look(|store| store.serves(Shard(node))) {
            let waits: Vec<_> = self.node(node).look(|store| store.opening().collect());
            assert!(Instant::now() < until, "node {node} waits: {waits:?}");
            sleep(Duration::from_millis(5));
        }
    }

    /// A client that reaches this node first.
    fn connect(&self, node: u16) -> Db {
        let address = self.addresses[usize::from(node)];
        Db::builder().connect_within(PATIENCE).connect(address).unwrap()
    }
}

/// A counter in a page of this node: its clients create objects there.
fn counter_at(cluster: &Cluster, node: u16, name: &str) -> Ref<u64> {
    let db = cluster.connect(node);
    let counter = db.transact(|tx| tx.create(Anywhere, &0_u64)).unwrap();
    db.transact(|tx| tx.set_root(name, counter)).unwrap();
    db.close().unwrap();
    counter
}

fn sum(db: &Db, counters: &[Ref<u64>]) -> objects::Result<u64> {
    db.transact(|tx| counters.iter().map(|&counter| tx.get(counter)).sum())
}

#[test]
fn clients_use_all_nodes_and_go_on_without_one() {
    let mut cluster = Cluster::start("all");
    (0..NODES).for_each(|node| cluster.wait_open(node));
    let counters: Vec<_> = (0..NODES).map(|node| counter_at(&cluster, node, &format!("counter {node}"))).collect();
    let clients: Vec<_> = (0..NODES).map(|node| cluster.connect(node)).collect();
    for db in &clients {
        db.transact(|tx| {
            counters.iter().try_for_each(|&counter| tx.get(counter).and_then(|count| tx.put(counter, &(count + 1))))
        })
        .unwrap();
    }
    for db in &clients {
        assert_eq!(sum(db, &counters).unwrap(), 9);
    }

    // Node 2 is away, and was the coordinator of a client. Pages of the others are read and written, by that one too.
    drop(cluster.nodes[2].take());
    for db in &clients {
        db.transact(|tx| tx.get(counters[0]).and_then(|count| tx.put(counters[0], &(count + 1)))).unwrap();
    }
    assert_eq!(sum(&clients[2], &counters[..2]).unwrap(), 9);
    let late = thread::spawn({
        let (db, counters) = (clients[0].clone(), counters.clone());
        move || sum(&db, &counters)
    });
    // It is back, and has from the logs of others what its own disk never had.
    cluster.start_node(2);
    cluster.nodes[2].as_ref().unwrap().tell(|store, now| store.follow_sequencer(now, NodeId(0)));
    cluster.wait_open(2);
    assert_eq!(late.join().unwrap().unwrap(), 12);
    assert_eq!(sum(&cluster.connect(2), &counters).unwrap(), 12);
}

/// Each page of a byte value is at the node of the client that wrote it first. Two clients write different lines of all
/// pages at once, and both commit.
#[test]
fn a_byte_value_has_pages_at_all_nodes() {
    const PAGE: u64 = 4096;
    let cluster = Cluster::start("bytes");
    (0..NODES).for_each(|node| cluster.wait_open(node));
    let clients: Vec<_> = (0..NODES).map(|node| cluster.connect(node)).collect();
    let value = clients[0].transact(|tx| tx.bytes("image")).unwrap();
    let all = || u64::from(NODES) * PAGE;
    clients[0].transact(|tx| value.set_len(tx, all())).unwrap();
    for (page, db) in (0..).zip(&clients) {
        db.transact(|tx| value.write(tx, page * PAGE, &vec![1; PAGE as usize])).unwrap();
    }
    for db in &clients {
        assert_eq!(db.transact(|tx| value.read(tx, ..)).unwrap(), vec![1; all() as usize]);
    }
    let mut txs = [&clients[1], &clients[2]].map(|db| db.begin().unwrap());
    for (line, tx) in (0..).zip(&mut txs) {
        let at = |page: u64| page * PAGE + line * 64;
        (0..u64::from(NODES)).try_for_each(|page| value.write(tx, at(page), &[2 + line as u8; 64])).unwrap();
    }
    for tx in txs {
        tx.commit().unwrap();
    }
    for db in &clients {
        let read = db.transact(|tx| value.read(tx, ..)).unwrap();
        for page in read.chunks(PAGE as usize) {
            assert_eq!(page[..192], [[2; 64], [3; 64], [1; 64]].concat());
        }
    }
    // Gone with one commit over the shards of all.
    clients[2].transact(|tx| value.set_len(tx, 0)).unwrap();
    clients[0].transact(|tx| value.set_len(tx, all())).unwrap();
    assert_eq!(clients[1].transact(|tx| value.read(tx, ..)).unwrap(), vec![0; all() as usize]);
}

/// A group's redirector, and where its members reach it.
struct Group {
    host: Arc<Host>,
    role: RoleId,
    redirector: Shared<Redirector>,
    address: SocketAddr,
}

impl Group {
    /// It reaches this node first.
    fn start(cluster: &Cluster, node: u16) -> Self {
        let listener = Listener::bind(ListenConfig::new(messages::SERVER, ([127, 0, 0, 1], 0).into())).unwrap();
        let address = listener.address();
        let config =
            redirector::Config { group: "site".into(), address: address.to_string(), ..redirector::Config::default() };
        let mut machines = Machines::new();
        let (role, redirector) = machines.add(Redirector::new(config, ClientId(0x2ED)));
        let host = Host::start(machines, &RUNTIME);
        let store = cluster.addresses[usize::from(node)].to_string();
        host.connect(role, UpstreamConfig::new(messages::CLIENT, store));
        host.listen_at(role, listener).unwrap();
        Self { host, role, redirector, address }
    }

    fn connect(&self) -> Db {
        Db::builder().connect_within(PATIENCE).connect(self.address).unwrap()
    }

    fn members(&self) -> usize {
        self.redirector.lock().unwrap().look().status().members.len()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.host.close(self.role);
    }
}

fn add_to(db: &Db, counters: &[Ref<u64>]) {
    db.transact(|tx| {
        counters.iter().try_for_each(|&counter| tx.get(counter).and_then(|count| tx.put(counter, &(count + 1))))
    })
    .unwrap();
}

/// The redirector has a session with each node. Its members notice of a node's absence what a client would, also of the
/// one that has coordinated their commits.
#[test]
fn members_of_a_group_use_all_nodes_and_go_on_without_one() {
    let mut cluster = Cluster::start("group");
    (0..NODES).for_each(|node| cluster.wait_open(node));
    let counters: Vec<_> = (0..NODES).map(|node| counter_at(&cluster, node, &format!("counter {node}"))).collect();
    let group = Group::start(&cluster, 1);
    let members: Vec<_> = (0..3).map(|_| group.connect()).collect();
    let alone = cluster.connect(0);
    for db in &members {
        add_to(db, &counters);
    }
    add_to(&alone, &counters);
    for db in members.iter().chain([&alone]) {
        assert_eq!(sum(db, &counters).unwrap(), 12);
    }

    for away in [2, 1] {
        drop(cluster.nodes[usize::from(away)].take());
        let others: Vec<_> = (0..NODES).filter(|node| *node != away).map(|node| counters[usize::from(node)]).collect();
        let before = sum(&alone, &others).unwrap();
        for db in members.iter().chain([&alone]) {
            add_to(db, &others);
        }
        assert_eq!(sum(&members[2], &others).unwrap(), before + 8);
        cluster.start_node(away);
        cluster.node(away).tell(|store, now| store.follow_sequencer(now, NodeId(0)));
        cluster.wait_open(away);
        let all = sum(&alone, &counters).unwrap();
        for db in &members {
            assert_eq!(sum(db, &counters).unwrap(), all);
        }
    }
    assert_eq!(group.members(), 3, "the members have stayed with their redirector");
}

/// An application that sees two counters apart says so, and fails. They are never apart, so it is run again.
#[test]
fn an_error_or_a_panic_counts_if_what_was_read_was_true() {
    let cluster = Cluster::start("true");
    (0..NODES).for_each(|node| cluster.wait_open(node));
    let counters = [0, 1].map(|node| counter_at(&cluster, node, &format!("counter {node}")));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let db = cluster.connect(2);
            while !is_over.load(SeqCst) {
                count(&db, counters).unwrap();
            }
        });
        let watch = |panics: bool| {
            let db = cluster.connect(0);
            move || {
                for _ in 0..400 {
                    db.transact(|tx| {
                        let [one, other] = [tx.get(counters[0])?, tx.get(counters[1])?];
                        assert!(one == other || !panics, "{one} and {other}");
                        if one == other { Ok(()) } else { Err(Error::application(format!("{one} and {other}"))) }
                    })
                    .unwrap();
                }
            }
        };
        let watching: Vec<_> = [watch(false), watch(true)].into_iter().map(|watch| scope.spawn(watch)).collect();
        let watched: Vec<_> = watching.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, SeqCst);
        for outcome in watched {
            outcome.unwrap();
        }
    });
    // True reads pass an error on.
    let db = cluster.connect(0);
    let failed = db.transact(|tx| Err::<(), _>(Error::application(tx.get(counters[0])?.to_string()))).unwrap_err();
    assert_eq!(failed.to_string(), sum(&db, &counters[..1]).unwrap().to_string());
    let panics = || db.transact(|tx| -> objects::Result<()> { panic!("{}", tx.get(counters[0])?) });
    catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
}

/// The parts of a large value are in pages of two nodes. A reader that meets parts of two moments reads again.
#[test]
fn parts_of_two_moments_are_no_damage() {
    let cluster = Cluster::start("parts");
    (0..NODES).for_each(|node| cluster.wait_open(node));
    let value = cluster.connect(0).transact(|tx| tx.create(Anywhere, &Vec::<u64>::new())).unwrap();
    let write = |db: &Db, number: u64| {
        let length = 8000 + number as usize % 7;
        db.transact(|tx| tx.put(value, &vec![number << 32; length])).unwrap();
    };
    // This writer's new pages are of node 1.
    let writer = cluster.connect(1);
    write(&writer, 1);
    // Clients whom node 0 tells where node 1 is learn of its changes later than of those of node 0.
    let line = Emulator::start(cluster.addresses[1], Duration::from_millis(2), None).unwrap();
    cluster.node(0).tell(|store, now| store.node_is_at(now, NodeId(1), 0, &line.address().to_string()));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 1;
            while !is_over.load(SeqCst) {
                number += 1;
                write(&writer, number);
            }
        });
        let reader = scope.spawn(|| {
            let db = cluster.connect(0);
            for _ in 0..100 {
                let read = db.transact(|tx| tx.get(value)).unwrap();
                assert!(read.iter().all(|number| *number == read[0]));
            }
        });
        let outcome = reader.join();
        is_over.store(true, SeqCst);
        outcome.unwrap();
    });
}

/// Counts on in both counters.
fn count(db: &Db, counters: [Ref<u64>; 2]) -> objects::Result<u64> {
    db.transact(|tx| {
        let [one, other] = [tx.get(counters[0])?, tx.get(counters[1])?];
        if one != other {
            return Err(Error::application(format!("{one} and {other} are of two moments")));
        }
        counters.iter().try_for_each(|&counter| tx.put(counter, &(one + 1)))?;
        Ok(one + 1)
    })
}

/// Clients count together in two pages of two nodes, while nodes are killed and come back. A count is given once,
/// acknowledged ones are not lost, and the pages never part.
#[test]
fn nobody_counts_twice_while_nodes_are_killed() {
    let cluster = Cluster::start("kills");
    (0..NODES).for_each(|node| cluster.wait_open(node));
    let counters = [0, 1].map(|node| counter_at(&cluster, node, &format!("counter {node}")));
    let clients: Vec<_> = (0..NODES).map(|node| cluster.connect(node)).collect();
    let cluster = Arc::new(Mutex::new(cluster));
    let (counted, is_over) = (Arc::<Mutex<BTreeSet<u64>>>::default(), Arc::<AtomicBool>::default());
    let counters_of = |db: Db| {
        let (counted, is_over) = (counted.clone(), is_over.clone());
        thread::spawn(move || {
            while !is_over.load(SeqCst) {
                match count(&db, counters) {
                    Ok(count) => assert!(counted.lock().unwrap().insert(count), "{count} was counted twice"),
                    Err(Error::OutcomeUnknown(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        })
    };
    let threads: Vec<_> = clients.into_iter().map(counters_of).collect();
    for round in 0..9 {
        sleep(Duration::from_millis(250));
        let node = (round * 2) % NODES;
        let mut cluster = cluster.lock().unwrap();
        drop(cluster.nodes[usize::from(node)].take());
        sleep(Duration::from_millis(50));
        cluster.start_node(node);
        cluster.elect(node);
        cluster.wait_open(node);
    }
    sleep(Duration::from_secs(1));
    is_over.store(true, SeqCst);
    for counting in threads {
        counting.join().unwrap();
    }
    let db = cluster.lock().unwrap().connect(0);
    let [one, other] = counters.map(|counter| db.transact(|tx| tx.get(counter)).unwrap());
    let counted = counted.lock().unwrap();
    assert_eq!(one, other);
    assert!(Some(&one) >= counted.last(), "{one} is there, and {:?} was acknowledged", counted.last());
    assert!(counted.len() > 50, "hardly anything was counted: {}", counted.len());
}
