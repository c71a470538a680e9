//! A store of several nodes for the torture, the demo, the lab and a benchmark: etcd, and a process for each node. For
//! the torture, every line between them can be cut.
//!
//! ```text
//!   clients, other nodes --> relay --> node n1 --> relay --> etcd
//! ```

use crate::crew::Crew;
use crate::lab::Cut;
use crate::relay::{Caller, Relay};
use crate::{Error, Result};
use bench::Member;
use fixtures::{Etcd, Process, Program, Signal, installed, lasting_address};
use membership::{Cluster, EtcdUrl, LeasedSpaces, NewStore, NodeState, ShardState, ShardStatus, Status};
use objects::Db;
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use types::{MAIN_SPACE, NodeId, Shard};

/// The store's name in an etcd that is started with it.
const NAME: &str = "lab";

/// Several shards for each node, and neighboring pages on different nodes: most commits of two lists are on two nodes.
const SHARDS: u16 = 12;
const EXTENT: u32 = 1;

/// How long anything may take that is going to happen, or something is wrong; and how often the state is read.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long etcd may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The nodes, and etcd.
pub(crate) struct Nodes {
    pub(crate) all: Vec<Node>,
    /// The etcd, if it was started with the nodes.
    etcd: Option<Etcd>,
    cluster: Cluster,
    lease: Duration,
}

/// A node of the store.
pub(crate) struct Node {
    pub(crate) name: String,
    process: Process,
    /// Whether the node has printed that it serves since its start or the end of its last lease. Until then, etcd may
    /// still show the run before.
    is_ready: bool,
    address: SocketAddr,
    /// The line from clients and other nodes, if it can be cut.
    line: Option<Relay>,
    /// The lines to the endpoints of etcd, if they can be cut.
    to_etcd: Vec<Relay>,
}

/// The etcd in which a store is created.
#[derive(Debug)]
pub(crate) enum EtcdChoice {
    /// This program is started.
    Started(std::path::PathBuf),
    /// The etcd at this address, which runs.
    Running(EtcdUrl),
}

impl EtcdChoice {
    /// The etcd that the user has named, or has installed.
    pub(crate) fn of(running: Option<&EtcdUrl>) -> Result<Self> {
        if let Some(url) = running {
            return Ok(Self::Running(url.clone()));
        }
        installed::find("etcd").map(Self::Started).ok_or_else(|| {
            "a store of several nodes needs etcd, which is not in PATH: install it (Debian: apt install etcd-server), \
             or name one that runs with --etcd etcd://HOST:PORT/NAME"
                .into()
        })
    }
}

/// The lines of a store's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    Direct,
    /// By way of relays.
    ThatCanBeCut,
}

/// The leases of a store that is created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leases {
    /// How long a node serves without etcd.
    pub(crate) of_nodes: Duration,
    /// How long groups may judge by themselves what they hold, in milliseconds, if they may.
    pub(crate) of_groups_ms: Option<u32>,
}

impl Nodes {
    /// Creates a store and starts all of its nodes.
    pub(crate) fn start(dir: &Path, etcd: &EtcdChoice, count: u32, leases: Leases, lines: Lines) -> Result<Self> {
        Self::start_with(dir, etcd, count, leases, lines, &[])
    }

    /// Creates a store and starts all of its nodes with more options of `thorp serve`.
    pub(crate) fn start_with(
        dir: &Path,
        etcd: &EtcdChoice,
        count: u32,
        leases: Leases,
        lines: Lines,
        options: &[&str],
    ) -> Result<Self> {
        let (url, etcd) = match etcd {
            EtcdChoice::Running(url) => (url.clone(), None),
            EtcdChoice::Started(program) => {
                let etcd = Etcd::start(program, dir)?;
                (etcd.url(NAME).parse()?, Some(etcd))
            }
        };
        let cluster = Cluster::new(&url, ANSWER_WITHIN)?;
        let names: Vec<_> = (1..=count).map(|number| format!("n{number}")).collect();
        let lease = leases.of_nodes;
        let leased = leases.of_groups_ms.and_then(|lease_ms| LeasedSpaces::new(vec![MAIN_SPACE], lease_ms));
        let new = NewStore { nodes: names.clone(), shards: SHARDS, extent: EXTENT, lease, leased, from: None };
        cluster.create(&new)?;
        let endpoints = url.endpoints.iter().map(|endpoint| resolve(endpoint)).collect::<Result<Vec<_>>>()?;
        let start = |name| Node::start(name, dir, &endpoints, &url.name, lines, options);
        let all = names.into_iter().map(start).collect::<Result<_>>()?;
        Ok(Self { all, etcd, cluster, lease })
    }

    /// The addresses for a client, the first node's first for the first client.
    pub(crate) fn addresses(&self, client: usize) -> String {
        let mut addresses: Vec<_> = self.all.iter().map(|node| node.address().to_string()).collect();
        let count = addresses.len();
        addresses.rotate_left(client % count);
        addresses.join(",")
    }

    /// How long a node serves without etcd.
    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    /// Reads what the nodes have printed.
    ///
    /// # Errors
    /// A node has ended.
    pub(crate) fn check(&mut self) -> Result {
        if let Some(node) = self.all.iter().find(|node| node.process.stdout().is_over()) {
            return Err(node.process.fails("has ended by itself"));
        }
        self.all.iter_mut().for_each(Node::hear);
        Ok(())
    }

    /// Where etcd is, and the store's name in it.
    pub(crate) fn url(&self) -> &EtcdUrl {
        self.cluster.url()
    }

    /// Waits until all nodes serve all shards and there is a sequencer.
    ///
    /// # Errors
    /// A node or a client has ended, or they do not serve within a minute.
    pub(crate) fn await_serving(&mut self, crew: &Crew) -> Result {
        let begun = Instant::now();
        while !self.are_serving()? {
            if begun.elapsed() > PATIENCE {
                return Err(format!("the nodes do not serve all shards after {} s", PATIENCE.as_secs()).into());
            }
            crew.wait_for(LOOK_EVERY)?;
        }
        Ok(())
    }

    /// Makes this process the node of a member that was added. The node has one shard.
    pub(crate) fn join(&self, dir: &Path, name: &str) -> Result<Db> {
        let db = Db::builder().node(name).join(&self.url().to_string(), dir.join(name))?;
        let shard = self.move_shard(name)?;
        self.await_moved_to(&Crew::default(), shard, name)?;
        Ok(db)
    }

    /// Adds a member that does not run yet, and waits until the nodes know it. Returns its end of a link to a node.
    pub(crate) fn add_member(&self, name: &str, to: usize) -> Result<Member> {
        self.cluster.add(name)?;
        // They look several times in a lease.
        thread::sleep(self.lease / 2);
        let view = self.cluster.view()?;
        let number = |name: &str| view.number(name).ok_or("a member is gone");
        Ok(Member { cluster: view.store(), node: number(name)?, to: number(&self.all[to].name)? })
    }

    /// Has a shard move to a node, from the node that has the most others. Returns the shard.
    pub(crate) fn move_to(&self, node: usize) -> Result<Shard> {
        self.move_shard(&self.all[node].name)
    }

    fn move_shard(&self, to: &str) -> Result<Shard> {
        let status = self.status()?;
        let mut shards: BTreeMap<&String, Vec<u16>> = BTreeMap::new();
        for ShardStatus { shard, node, .. } in status.placement.iter().filter(|of| of.node != to) {
            shards.entry(node).or_default().push(*shard);
        }
        let most = shards.into_values().max_by_key(Vec::len).ok_or("the node has all shards already")?;
        let shard = Shard(most[0]);
        self.cluster.move_shards(&[(shard, to.to_owned())])?;
        Ok(shard)
    }

    /// Whether a shard has moved to a node, and is served there.
    fn has_moved(&self, shard: Shard, node: &str) -> bool {
        let is_there = |of: &ShardStatus| of.shard == shard.0 && of.node == node && of.state == ShardState::Serving;
        self.status().is_ok_and(|status| status.placement.iter().any(is_there))
    }

    /// Waits until a shard has moved.
    ///
    /// # Errors
    /// A client has ended, or it has not moved within a minute.
    pub(crate) fn await_moved(&self, crew: &Crew, shard: Shard, to: usize) -> Result {
        self.await_moved_to(crew, shard, &self.all[to].name)
    }

    fn await_moved_to(&self, crew: &Crew, shard: Shard, to: &str) -> Result {
        let begun = Instant::now();
        while !self.has_moved(shard, to) {
            if begun.elapsed() > PATIENCE {
                let within = PATIENCE.as_secs();
                return Err(format!("shard {} has not moved to node {to} after {within} s", shard.0).into());
            }
            crew.wait_for(LOOK_EVERY)?;
        }
        Ok(())
    }

    /// Has all shards of a node move to the others.
    pub(crate) fn drain(&self, node: usize) -> Result {
        let moves = self.cluster.view()?.drain(&self.all[node].name)?;
        Ok(self.cluster.move_shards(&moves)?)
    }

    /// Waits until no shard is at a node, however long that takes: its disk has to be read.
    pub(crate) fn await_drained(&self, node: usize) -> Result {
        let name = &self.all[node].name;
        while self.status()?.placement.iter().any(|of| of.node == *name || of.state != ShardState::Serving) {
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// The state in etcd.
    pub(crate) fn status(&self) -> Result<Status> {
        Ok(Status::of(&self.cluster.view()?))
    }

    /// The node with the sequencer, if there is one.
    pub(crate) fn sequencer(&self) -> Result<Option<usize>> {
        let sequencer = self.status()?.sequencer;
        Ok(self.all.iter().position(|node| sequencer.as_ref() == Some(&node.name)))
    }

    /// Whether all nodes serve all shards and there is a sequencer.
    ///
    /// # Errors
    /// A node has ended.
    fn are_serving(&mut self) -> Result<bool> {
        self.check()?;
        if !self.all.iter().all(|node| node.is_ready) {
            return Ok(false);
        }
        let is_serving = |status: Status| {
            let are_up = status.nodes.iter().all(|node| node.state == NodeState::Up);
            let serve = status.placement.iter().all(|shard| shard.state == ShardState::Serving);
            are_up && serve && status.sequencer.is_some()
        };
        Ok(self.status().is_ok_and(is_serving))
    }

    /// A person's description of the state, with the last lines of all processes.
    pub(crate) fn describe(&self) -> String {
        let status = self.status().map_or_else(|error| error.to_string(), |status| status.text());
        let last: Vec<_> = self.all.iter().map(|node| node.process.fails("runs").to_string()).collect();
        format!("{status}\n{}", last.join("\n"))
    }

    /// Kills the etcd that was started with the nodes. Returns whether there is one.
    pub(crate) fn kill_etcd(&mut self) -> Result<bool> {
        self.etcd.as_mut().map_or(Ok(false), |etcd| etcd.process.kill().map(|()| true))
    }

    /// Starts that etcd again.
    pub(crate) fn start_etcd(&mut self) -> Result {
        self.etcd.as_mut().map_or(Ok(()), Etcd::start_again)
    }

    /// Whether the etcd was started with the nodes.
    pub(crate) fn has_own_etcd(&self) -> bool {
        self.etcd.is_some()
    }

    /// Kills all nodes and etcd, and starts them again.
    pub(crate) fn lose_power(&mut self, crew: &Crew, broken_for: Duration) -> Result {
        self.all.iter_mut().try_for_each(Node::kill)?;
        self.kill_etcd()?;
        crew.wait_for(broken_for)?;
        self.start_etcd()?;
        self.all.iter_mut().try_for_each(Node::start_again)
    }

    /// Cuts the line between two nodes. The first is the site.
    pub(crate) fn cut(&self, first: usize, second: usize, cut: Cut) {
        // The node with the higher number has opened the link.
        let (caller, at, cut) = match (first > second, cut) {
            (true, cut) => (first, second, cut),
            (false, Cut::Both) => (second, first, Cut::Both),
            (false, Cut::FromSite) => (second, first, Cut::ToSite),
            (false, Cut::ToSite) => (second, first, Cut::FromSite),
        };
        self.all[at].line.iter().for_each(|line| line.cut(caller_of(caller), cut));
    }

    /// Ends the connections between two nodes, whose line is cut.
    pub(crate) fn lose(&self, first: usize, second: usize) {
        self.all[first.min(second)].line.iter().for_each(|line| line.lose(caller_of(first.max(second))));
    }

    /// Mends every line.
    pub(crate) fn mend(&self) {
        for node in &self.all {
            node.line.iter().chain(&node.to_etcd).for_each(Relay::mend);
        }
    }
}

/// A node as the others see it. The numbers of nodes are in the order of their creation.
fn caller_of(node: usize) -> Caller {
    Caller::Node(NodeId(node as u16))
}

fn resolve(endpoint: &str) -> Result<SocketAddr> {
    let cannot = |why: String| Error::from(format!("cannot find etcd's address {endpoint}: {why}"));
    let mut addresses = endpoint.to_socket_addrs().map_err(|error| cannot(error.to_string()))?;
    addresses.next().ok_or_else(|| cannot("the name has no address".into()))
}

impl Node {
    fn start(
        name: String,
        dir: &Path,
        endpoints: &[SocketAddr],
        store: &str,
        lines: Lines,
        options: &[&str],
    ) -> Result<Self> {
        let listen = lasting_address()?;
        let can_be_cut = lines == Lines::ThatCanBeCut;
        let line = can_be_cut.then(|| Relay::start(listen)).transpose()?;
        let to_etcd = endpoints.iter().filter(|_| can_be_cut).map(|&endpoint| Relay::start(endpoint));
        let to_etcd = to_etcd.collect::<Result<Vec<_>>>()?;
        let relayed: Vec<_> = to_etcd.iter().map(Relay::address).collect();
        let endpoints = if can_be_cut { &relayed } else { endpoints };
        let endpoints: Vec<_> = endpoints.iter().map(SocketAddr::to_string).collect();
        let address = line.as_ref().map_or(listen, Relay::address);
        let url = format!("etcd://{}/{store}", endpoints.join(","));
        let mut command = Program::this()?.command();
        command.args(["serve", "--cluster", &url, "--node", &name, "--listen", &listen.to_string()]);
        command.args(["--advertise", &address.to_string(), "--json", "--until-stdin-closes", "--dir"]);
        command.arg(dir.join(&name)).args(options);
        let process = Process::spawn(command, &format!("node {name}"))?;
        Ok(Self { name, process, is_ready: false, address, line, to_etcd })
    }

    /// Reads the lines that the node has printed.
    fn hear(&mut self) {
        let (lines, ready) = (self.process.stdout(), format!("\"node\":\"{}\"", self.name));
        self.is_ready |= std::iter::from_fn(|| lines.next_within(Duration::ZERO)).any(|line| line.contains(&ready));
    }

    /// Where clients and other nodes reach it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The id of its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) -> Result {
        self.process.kill()
    }

    /// Starts the node's process again, which has ended. It serves later.
    pub(crate) fn start_again(&mut self) -> Result {
        self.is_ready = false;
        self.process.start_again()
    }

    /// SIGTERM: the node closes its shards in order.
    ///
    /// # Errors
    /// It does not.
    pub(crate) fn close(&mut self) -> Result {
        self.process.signal(Signal::TERM)?;
        if self.process.wait()? { Ok(()) } else { Err(self.process.fails("was stopped and did not close in order")) }
    }

    /// Skips the lines that the node has printed so far.
    pub(crate) fn skip_lines(&self) {
        let lines = self.process.stdout();
        while lines.next_within(Duration::ZERO).is_some() {}
    }

    /// Stops the process where it is.
    pub(crate) fn stop(&self) -> Result {
        self.process.signal(Signal::STOP)
    }

    /// Has a process that was stopped continue.
    pub(crate) fn resume(&self) -> Result {
        self.process.signal(Signal::CONT)
    }

    /// Waits until the node says that its lease is over.
    pub(crate) fn await_lease_over(&mut self, within: Duration) -> Result {
        self.is_ready = false;
        let found = self.process.stdout().find("\"lease_over\"", within);
        found.map(drop).ok_or_else(|| self.process.fails("had no lease and did not say so"))
    }

    /// Cuts its lines to etcd.
    pub(crate) fn cut_from_etcd(&self) {
        self.to_etcd.iter().for_each(|line| line.cut(Caller::Client, Cut::Both));
    }
}
