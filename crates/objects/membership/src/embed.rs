//! A node in the process of its application: client, coordinator and masters together, as in the Multicomputer paper
//! (section 3).
//!
//! ```text
//!   application --calls--> client --no message--> store of this round --> other nodes
//!                            |                       ^ rounds
//!                            +--connections--> other nodes
//! ```
//! The client lives as long as its database, across all rounds of the node. While the node has no lease, the client has
//! no session with its own store, and uses the other nodes.

use crate::binding::Binding;
use crate::cluster::Cluster;
use crate::join::Waiting;
use crate::rounds::{Failure, Process, Rounds};
use crate::running::Running;
use crate::view::View;
use database::{AdjoiningClient, Config, Database, Error, Local, LocalStore, Recovered, Result};
use net::{Beside, ListenConfig};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long each endpoint of etcd has for an answer: half of the shortest lease.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The settings of a node in the process of its application.
#[derive(Clone, Debug)]
pub struct Embedded {
    /// Its name. A directory that has been a node's knows it.
    pub name: Option<String>,
    /// Where other nodes and clients reach it. By default a free port for this machine alone.
    pub listen: SocketAddr,
    /// The address that they are told, if it is not the one that is listened on.
    pub advertise: Option<String>,
}

impl Default for Embedded {
    fn default() -> Self {
        Self { name: None, listen: (Ipv4Addr::LOCALHOST, 0).into(), advertise: None }
    }
}

impl Embedded {
    /// Serves as a node of the store at `url` from this directory, and returns a database of its client once the node
    /// takes sessions. The node ends with the database.
    ///
    /// # Errors
    /// [`Error::Open`] with a line that says what is wrong and what to do.
    pub fn join(&self, url: &str, dir: &Path, config: &Config) -> Result<Arc<Database>> {
        let opened = self.begin(url, dir, config);
        opened.map_err(|failure| Error::Open(failure.to_string()))
    }

    fn begin(&self, url: &str, dir: &Path, config: &Config) -> Result<Arc<Database>, Failure> {
        if config.eligible.is_some() || config.client.group.is_some() {
            return Err("a node is no member of a group: leave out 'group' and 'eligible'".into());
        }
        let cluster = Cluster::new(&url.parse()?, ANSWER_WITHIN)?;
        // A store that is not there is reported before a directory is made.
        let node = self.name(&cluster.view()?, dir)?;
        let client = AdjoiningClient::start(config)?;
        let (ready, is_ready) = channel();
        let process = Application { dir: dir.to_owned(), client: client.clone(), ready: Some(ready) };
        let running = Arc::new(Running::default());
        let listen = ListenConfig { insecure: config.insecure, ..ListenConfig::new(messages::SERVER, self.listen) };
        let (dir, advertise) = (dir.to_owned(), self.advertise.clone());
        let (disk, store) = (config.disk_config(), config.store.clone());
        let node = Thread { cluster, node, dir, listen, advertise, disk, store, running: running.clone(), process };
        let thread = thread::Builder::new().name("thorp-node".into()).spawn(|| node.run())?;
        // The sender is gone if the node has failed before it was ready.
        if is_ready.recv().is_err() {
            let failed = thread.join().unwrap_or_else(|_| Err("the node's thread panicked".into()));
            return Err(failed.err().unwrap_or_else(|| "it was stopped".into()).into());
        }
        Ok(client.open(config, Box::new(Node { running, thread })))
    }

    /// The node's name: the one that was chosen, or the directory's.
    fn name(&self, view: &View, dir: &Path) -> Result<String, Failure> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        if let Some(bound) = Binding::read(dir)? {
            return Ok(bound.node().to_owned());
        }
        let names: Vec<_> = view.names().into_values().collect();
        Err(format!(
            "{} is not the directory of a node yet: name its node with 'node' (the store has {})",
            dir.display(),
            names.join(", ")
        )
        .into())
    }
}

/// A node that runs until its database is closed.
#[derive(Debug)]
struct Node {
    running: Arc<Running>,
    thread: JoinHandle<Result<(), String>>,
}

impl Local for Node {
    fn close(self: Box<Self>) -> Result<()> {
        self.running.stop();
        let ended = self.thread.join().unwrap_or_else(|_| Err("the node's thread panicked".into()));
        ended.map_err(Error::Open)
    }
}

/// The node's thread.
struct Thread {
    cluster: Cluster,
    node: String,
    dir: PathBuf,
    listen: ListenConfig,
    advertise: Option<String>,
    disk: disk::Config,
    store: store::Config,
    running: Arc<Running>,
    process: Application,
}

impl Thread {
    fn run(self) -> Result<(), String> {
        let Self { cluster, node, dir, listen, advertise, disk, store, running, mut process } = self;
        let rounds = Rounds { cluster: &cluster, node, dir, listen, advertise, disk, store, running: &running };
        let ended = rounds.run(&mut process).map_err(|failure| failure.to_string());
        if let Err(why) = &ended {
            process.client.stop(why);
        }
        ended
    }
}

/// The application's process, as the node sees it.
struct Application {
    dir: PathBuf,
    client: AdjoiningClient,
    /// Told when the node takes sessions for the first time.
    ready: Option<Sender<()>>,
}

impl Process for Application {
    fn start(&mut self, disk: &disk::Config, store: store::Config) -> Result<LocalStore, Failure> {
        Ok(self.client.start_store(Recovered::read(&self.dir, disk, store, |_| {})?)?)
    }

    fn waits_for_name(&mut self, _: &Waiting) {}

    fn begin(&mut self, _: &View, _: &LocalStore) -> Result<Vec<Beside>, Failure> {
        Ok(Vec::new())
    }

    fn serve(&mut self, store: &LocalStore, _: SocketAddr) -> Result<(), Failure> {
        self.client.meet(store);
        // The application may have given up.
        let _ = self.ready.take().map(|ready| ready.send(()));
        Ok(())
    }

    /// Should the store have ended the session, the next one begins here.
    fn look(&mut self, store: &LocalStore) {
        self.client.meet(store);
    }

    fn trouble(&mut self, _: Option<&str>) {}

    fn close(&mut self, _: &LocalStore) {}

    fn end(&mut self) {
        self.client.part();
    }

    fn wait(&mut self, _: &str) -> Result<(), Failure> {
        Ok(())
    }
}
