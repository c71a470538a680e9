//! Three nodes of one store, each with a directory and a listener of its own, and links over TCP. No caches: the client
//! of these tests says what it wants itself.

use bytes::Bytes;
use database::{LocalStore, Recovered};
use framing::{Batch, Inbox, Outbox, Preface, preface_frame};
use machine::Parcel;
use messages::{
    CLIENT, CommitReply, CommitRequest, Fetch, Grant, Hello, Outcome, PageReads, Resume, ToClient, ToServer,
};
use net::{ListenConfig, Listener, Runtime};
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use types::{
    ClientId, ClusterId, Delta, Epoch, Incarnation, NodeId, ObjectPage, Opening, PageId, Refusal, Shard, Sharding,
    SlotChange, TxnId, Vector, Version,
};

const NODES: u16 = 3;
const CLUSTER: ClusterId = ClusterId(0xC1);

/// Long enough for anything that is going to happen on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::start().unwrap());

fn sharding() -> Sharding {
    Sharding::new(NonZeroU16::new(NODES).unwrap(), NonZeroU32::MIN)
}

/// The first page of space 0 at a node: its shard has the node's number.
fn page_at(node: u16) -> PageId {
    let mut pages = (0..).map(|number| PageId::new(0, number));
    pages.find(|page| sharding().of(*page) == Shard(node)).expect("each shard has some")
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
            for (other, &opening) in self.openings.iter().enumerate().filter(|&(other, _)| other != at) {
                store.place(Shard(other as u16), NodeId(other as u16), Opening(opening.max(1)));
            }
            for lower in 0..node {
                store.open_link(now, NodeId(lower), vec![self.addresses[usize::from(lower)].to_string()]);
            }
            store.open(now, &[(Shard(node), Opening(self.openings[at]))].into_iter().collect());
        });
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
}

/// A client's session with a node.
struct Session {
    stream: TcpStream,
    inbox: Inbox,
    client: ClientId,
    number: u64,
    bytes: Vec<u8>,
}

impl Session {
    fn connect(address: SocketAddr, client: u64) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let client = ClientId(client);
        let mut session = Self { stream, inbox: Inbox::new(CLIENT), client, number: 0, bytes: Vec::new() };
        session.stream.write_all(&preface_frame(CLIENT, &Preface::of(CLIENT)))?;
        session.say(Hello { features: 0, cluster: None, client, epoch: 1 })?;
        session.say(Resume { horizon: Vector::new(), pages: vec![], grants: vec![], last: true, missed: 0 })?;
        session.hear(|message| matches!(message, ToClient::Resumed(_)).then_some(()))?;
        Ok(session)
    }

    fn say(&mut self, message: impl Into<ToServer>) -> io::Result<()> {
        let mut out = Outbox::new(CLIENT);
        out.push(&Parcel::new(message.into())).unwrap();
        while !out.is_empty() {
            let mut batch = Batch::default();
            out.next(&mut batch);
            let bytes: Vec<u8> = batch.chunks().flatten().copied().collect();
            self.stream.write_all(&bytes)?;
        }
        Ok(())
    }

    /// Waits for a message that is meant.
    fn hear<R>(&mut self, is_meant: impl Fn(ToClient) -> Option<R>) -> io::Result<R> {
        loop {
            let mut left = &self.bytes[..];
            let message = self.inbox.next(&mut left).unwrap();
            self.bytes = left.to_vec();
            if let Some(message) = message {
                if let Some(found) = is_meant(message.expect()) {
                    return Ok(found);
                }
            } else {
                let mut more = [0; 4096];
                let count = self.stream.read(&mut more)?;
                if count == 0 {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                self.bytes.extend(&more[..count]);
            }
        }
    }

    /// Has pages made at this node, so that there are some to write to.
    fn make_pages(&mut self) -> io::Result<()> {
        self.say(Grant { space: 0, count: 64 })?;
        self.hear(|message| matches!(message, ToClient::Granted(_)).then_some(()))
    }

    /// Writes a value to slot 0 of pages, which were read at these versions.
    fn write(&mut self, pages: &[(PageId, Version)], value: &str) -> io::Result<Outcome> {
        self.number += 1;
        let mut pages = pages.to_vec();
        pages.sort_unstable();
        let txn = TxnId { client: self.client, number: self.number };
        let slots = || [0].into_iter().collect();
        let reads = |&(page, evidence)| PageReads { page, slots: slots(), evidence, exceptions: Vec::new() };
        let change = || vec![SlotChange { slot: 0, value: Some(Bytes::copy_from_slice(value.as_bytes())) }];
        let writes = |&(page, _)| Delta { page, changes: change() };
        self.say(CommitRequest {
            txn,
            incarnation: Incarnation(u64::MAX),
            answered: self.number,
            reads: pages.iter().map(reads).collect(),
            writes: pages.iter().map(writes).collect(),
        })?;
        self.hear(|message| match message {
            ToClient::CommitReply(CommitReply { outcome, .. }) => Some(outcome),
            _ => None,
        })
    }

    /// The version of a page of this node, and the value of its slot 0.
    fn read(&mut self, page: PageId) -> io::Result<(Version, String)> {
        self.say(Fetch { pages: vec![page], at_least: Vector::new(), number: 1, follow: None })?;
        let (version, image) = self.hear(|message| match message {
            ToClient::Page(page) => Some((page.version, page.image)),
            _ => None,
        })?;
        let value = ObjectPage::parse(image).unwrap().get(0).map(<[u8]>::to_vec).unwrap_or_default();
        Ok((version, String::from_utf8(value).unwrap()))
    }
}

/// The versions of the pages of a commit, by node.
fn versions(outcome: Outcome) -> Vec<(PageId, Version)> {
    match outcome {
        Outcome::Committed { pages } => pages.iter().map(|moved| (moved.page, moved.version)).collect(),
        other => panic!("expected a commit, got {other:?}"),
    }
}

#[test]
fn nodes_commit_together_and_one_that_was_killed_opens_with_the_logs_of_all() {
    let mut cluster = Cluster::start("commit");
    (0..NODES).for_each(|node| cluster.wait_open(node));
    let mut sessions: Vec<_> = (0..NODES)
        .map(|node| Session::connect(cluster.addresses[usize::from(node)], 1 + u64::from(node)).unwrap())
        .collect();
    for session in &mut sessions {
        session.make_pages().unwrap();
    }
    let new = |nodes: &[u16]| -> Vec<_> { nodes.iter().map(|&node| (page_at(node), Version::ZERO)).collect() };

    // Node 1 coordinates, node 0 counts, all three apply.
    let known = versions(sessions[1].write(&new(&[0, 1, 2]), "first").unwrap());
    assert_eq!(known.len(), 3);
    for node in 0..NODES {
        assert_eq!(sessions[usize::from(node)].read(page_at(node)).unwrap().1, "first", "node {node}");
    }
    // An older reading is refused by the node that has the page.
    let stale = sessions[0].write(&new(&[0, 1, 2]), "lost").unwrap();
    assert!(matches!(&stale, Outcome::Refused(Refusal::Stale(pages)) if pages.len() == 3), "{stale:?}");

    // Node 2 is killed. Commits of the others continue, and those that need it are refused as busy.
    drop(sessions.pop());
    drop(cluster.nodes[2].take());
    let last = |page: PageId| known.iter().find(|of| of.0 == page).copied().unwrap();
    let mut second = versions(sessions[0].write(&[last(page_at(0)), last(page_at(1))], "second").unwrap());
    let busy = sessions[1].write(&[last(page_at(2))], "not now").unwrap();
    assert_eq!(busy, Outcome::Refused(Refusal::Busy));

    // It is back, and has from the log of node 1 what its own disk never had.
    cluster.start_node(2);
    cluster.nodes[2].as_ref().unwrap().tell(|store, now| store.follow_sequencer(now, NodeId(0)));
    cluster.wait_open(2);
    let mut again = Session::connect(cluster.addresses[2], 9).unwrap();
    assert_eq!(again.read(page_at(2)).unwrap().1, "first");
    second.push(last(page_at(2)));
    let until = Instant::now() + PATIENCE;
    let third = loop {
        match again.write(&second, "third").unwrap() {
            Outcome::Refused(Refusal::Busy) if Instant::now() < until => sleep(Duration::from_millis(10)),
            outcome => break versions(outcome),
        }
    };
    assert_eq!(third.len(), 3);
    assert_eq!(sessions[0].read(page_at(0)).unwrap().1, "third");
}

/// Clients count together in two pages of two nodes, while nodes are killed and come back. A count is given once,
/// acknowledged ones are not lost, and the pages never part.
#[test]
fn nobody_counts_twice_while_nodes_are_killed() {
    let cluster = Arc::new(Mutex::new(Cluster::start("kills")));
    let addresses = {
        let cluster = cluster.lock().unwrap();
        (0..NODES).for_each(|node| cluster.wait_open(node));
        cluster.addresses.clone()
    };
    for &address in &addresses {
        Session::connect(address, 1).unwrap().make_pages().unwrap();
    }
    let (counted, is_over) = (Arc::<Mutex<BTreeSet<u64>>>::default(), Arc::<AtomicBool>::default());
    let counters: Vec<_> = (0..NODES)
        .map(|node| {
            let (addresses, counted, is_over) = (addresses.clone(), counted.clone(), is_over.clone());
            thread::spawn(move || {
                let mut client = 100 * (1 + u64::from(node));
                while !is_over.load(SeqCst) {
                    // After a loss it is another client, which has no commit to ask for.
                    client += 1;
                    if count(&addresses, node, client, &counted, &is_over).is_err() {
                        sleep(Duration::from_millis(20));
                    }
                }
            })
        })
        .collect();
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
    sleep(Duration::from_millis(250));
    is_over.store(true, SeqCst);
    for counter in counters {
        counter.join().unwrap();
    }
    let value = |node: u16| -> u64 {
        let mut session = Session::connect(addresses[usize::from(node)], 9).unwrap();
        session.read(page_at(node)).unwrap().1.parse().unwrap()
    };
    let (one, other, counted) = (value(0), value(1), counted.lock().unwrap());
    assert_eq!(one, other);
    assert!(Some(&one) >= counted.last(), "{one} is there, and {:?} was acknowledged", counted.last());
    assert!(counted.len() > 50, "hardly anything was counted: {}", counted.len());
}

/// Counts on, with the coordinator at this node, until a connection is lost.
fn count(
    addresses: &[SocketAddr],
    node: u16,
    client: u64,
    counted: &Mutex<BTreeSet<u64>>,
    is_over: &AtomicBool,
) -> io::Result<()> {
    let mut at: Vec<_> =
        addresses.iter().map(|&address| Session::connect(address, client)).collect::<io::Result<_>>()?;
    while !is_over.load(SeqCst) {
        let (first, one) = at[0].read(page_at(0))?;
        let (second, other) = at[1].read(page_at(1))?;
        let next = one.parse().unwrap_or(0) + 1;
        let pages = [(page_at(0), first), (page_at(1), second)];
        match at[usize::from(node)].write(&pages, &next.to_string())? {
            Outcome::Committed { .. } => {
                assert_eq!(one, other, "two moments were taken for one");
                assert!(counted.lock().unwrap().insert(next), "{next} was counted twice");
            }
            Outcome::Refused(_) => sleep(Duration::from_millis(1)),
            Outcome::Unknown => {}
        }
    }
    Ok(())
}
