//! A store of several nodes for the torture: etcd, and a process for each node. Every line between them can be cut.
//!
//! ```text
//!   clients, other nodes --> relay --> node n1 --> relay --> etcd
//! ```

use crate::cli::TortureArgs;
use crate::lab::Cut;
use crate::relay::{Caller, Relay};
use crate::{Error, Result};
use fixtures::{Etcd, Process, Program, Signal, installed, lasting_address};
use membership::{Cluster, EtcdUrl, NewStore, NodeState, ShardState, Status};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;
use types::NodeId;

/// The store's name in an etcd of the torture's own.
const NAME: &str = "torture";

/// Several shards for each node, and neighboring pages on different nodes: most commits of two lists are on two nodes.
const SHARDS: u16 = 12;
const EXTENT: u32 = 1;

/// How long etcd may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The nodes, and etcd.
pub(crate) struct Nodes {
    pub(crate) all: Vec<Node>,
    /// The etcd, if it is the torture's own.
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
    /// The line from clients and other nodes.
    line: Relay,
    /// The lines to the endpoints of etcd.
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
    pub(crate) fn of(args: &TortureArgs) -> Result<Self> {
        if let Some(url) = &args.etcd {
            return Ok(Self::Running(url.clone()));
        }
        installed::find("etcd").map(Self::Started).ok_or_else(|| {
            "a store of several nodes needs etcd, which is not in PATH: install it (Debian: apt install etcd-server), \
             or name one that runs with --etcd etcd://HOST:PORT/NAME"
                .into()
        })
    }
}

impl Nodes {
    /// Creates a store and starts all of its nodes, which serve when this returns.
    pub(crate) fn start(dir: &Path, etcd: &EtcdChoice, count: u32, lease: Duration) -> Result<Self> {
        let (url, etcd) = match etcd {
            EtcdChoice::Running(url) => (url.clone(), None),
            EtcdChoice::Started(program) => {
                let etcd = Etcd::start(program, dir)?;
                (etcd.url(NAME).parse()?, Some(etcd))
            }
        };
        let cluster = Cluster::new(&url, ANSWER_WITHIN)?;
        let names: Vec<_> = (1..=count).map(|number| format!("n{number}")).collect();
        let new = NewStore { nodes: names.clone(), shards: SHARDS, extent: EXTENT, lease, leased: None, from: None };
        cluster.create(&new)?;
        let endpoints = url.endpoints.iter().map(|endpoint| resolve(endpoint)).collect::<Result<Vec<_>>>()?;
        let start = |name| Node::start(name, dir, &endpoints, &url.name);
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
    pub(crate) fn are_serving(&mut self) -> Result<bool> {
        if let Some(node) = self.all.iter().find(|node| node.process.stdout().is_over()) {
            return Err(node.process.fails("has ended by itself"));
        }
        self.all.iter_mut().for_each(Node::hear);
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

    /// Kills the torture's own etcd. Returns whether there is one.
    pub(crate) fn kill_etcd(&mut self) -> Result<bool> {
        self.etcd.as_mut().map_or(Ok(false), |etcd| etcd.process.kill().map(|()| true))
    }

    /// Starts the torture's own etcd again.
    pub(crate) fn start_etcd(&mut self) -> Result {
        self.etcd.as_mut().map_or(Ok(()), Etcd::start_again)
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
        self.all[at].line.cut(caller_of(caller), cut);
    }

    /// Ends the connections between two nodes, whose line is cut.
    pub(crate) fn lose(&self, first: usize, second: usize) {
        self.all[first.min(second)].line.lose(caller_of(first.max(second)));
    }

    /// Mends every line.
    pub(crate) fn mend(&self) {
        for node in &self.all {
            node.line.mend();
            node.to_etcd.iter().for_each(Relay::mend);
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
    fn start(name: String, dir: &Path, endpoints: &[SocketAddr], store: &str) -> Result<Self> {
        let listen = lasting_address()?;
        let line = Relay::start(listen)?;
        let to_etcd = endpoints.iter().map(|&endpoint| Relay::start(endpoint)).collect::<Result<Vec<_>>>()?;
        let endpoints: Vec<_> = to_etcd.iter().map(|relay| relay.address().to_string()).collect();
        let url = format!("etcd://{}/{store}", endpoints.join(","));
        let mut command = Program::this()?.command();
        command.args(["serve", "--cluster", &url, "--node", &name, "--listen", &listen.to_string()]);
        command.args(["--advertise", &line.address().to_string(), "--json", "--until-stdin-closes", "--dir"]);
        command.arg(dir.join(&name));
        let process = Process::spawn(command, &format!("node {name}"))?;
        Ok(Self { name, process, is_ready: false, line, to_etcd })
    }

    /// Reads the lines that the node has printed.
    fn hear(&mut self) {
        let (lines, ready) = (self.process.stdout(), format!("\"node\":\"{}\"", self.name));
        self.is_ready |= std::iter::from_fn(|| lines.next_within(Duration::ZERO)).any(|line| line.contains(&ready));
    }

    /// Where clients and other nodes reach it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.line.address()
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
