//! The process of a node runs its store in rounds, each of which is one term of the node under one lease.
//!
//! ```text
//!   recovered --name taken, lease granted--> serving --closed--> closed in order, recorded in etcd: the end
//!       ^                                       |
//!       |                                   lease over: silent
//!       +-------- etcd answers again -----------+
//! ```
//! The store is made again from its directory for each: while the node had no lease, other nodes may have given counts
//! and opened shards that it knows nothing of. Everything else in the process lives on: [`Process`].

use crate::MembershipError;
use crate::cluster::Cluster;
use crate::join::{Join, Waiting};
use crate::keep::{Ended, Run};
use crate::records::LeasedSpaces;
use crate::running::Running;
use crate::view::View;
use database::LocalStore;
use disk::DiskError;
use net::{Beside, Host, HostEnd, ListenConfig, ListenError, Listener};
use std::error::Error;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use types::NodeId;
use vfs::make_directory;

/// How often the node is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often etcd is asked whether it is back.
const ASK_AGAIN: Duration = Duration::from_millis(300);

/// How long the address and the directory of the last round may take to be free.
const FREE_WITHIN: Duration = Duration::from_secs(10);

const NOT_CLOSED: &str = "its shards are not closed in order, so its next start waits for the logs of all nodes; \
                          acknowledged commits are safe";

/// Why a node's process ends: a line for the person who runs it.
pub type Failure = Box<dyn Error + Send + Sync>;

/// The rest of a node's process.
pub trait Process {
    /// Reads the node's directory and starts its store.
    fn start(&mut self, disk: &disk::Config, store: store::Config) -> Result<LocalStore, Failure>;

    /// The node's name is in use, and is waited for.
    fn waits_for_name(&mut self, waiting: &Waiting);

    /// The store has its lease, and takes no sessions yet. Returns the connections of other machines that are taken at
    /// its address.
    fn begin(&mut self, view: &View, store: &LocalStore) -> Result<Vec<Beside>, Failure>;

    /// The store takes sessions at this address.
    fn serve(&mut self, store: &LocalStore, address: SocketAddr) -> Result<(), Failure>;

    /// Some time has passed.
    fn look(&mut self, store: &LocalStore);

    /// etcd does not answer, and why; or it answers again.
    fn trouble(&mut self, why: Option<&str>);

    /// The store is closed in order.
    fn close(&mut self, store: &LocalStore);

    /// The store of this round is gone.
    fn end(&mut self);

    /// The node has no lease, does not serve, and waits for etcd.
    fn wait(&mut self, why: &str) -> Result<(), Failure>;
}

/// A node of the store, and the settings of its process.
#[derive(Debug)]
pub struct Rounds<'a> {
    /// The store.
    pub cluster: &'a Cluster,
    /// The node's name.
    pub node: String,
    /// Its directory, which is made if there is none.
    pub dir: PathBuf,
    /// Where it takes sessions. A free port that the system has chosen stays the same for all rounds.
    pub listen: ListenConfig,
    /// The address that others are told, if it is not the one that is listened on.
    pub advertise: Option<String>,
    /// The settings of the disk, without what the store in etcd says.
    pub disk: disk::Config,
    /// The settings of the store, without what the store in etcd says.
    pub store: store::Config,
    /// The state that the threads of the process share.
    pub running: &'a Running,
}

/// How a round ended.
enum Round {
    /// The node was stopped.
    Over,
    /// The lease was over.
    Again,
}

impl Rounds<'_> {
    /// Serves until the node is stopped, or can serve no longer.
    pub fn run(mut self, process: &mut dyn Process) -> Result<(), Failure> {
        loop {
            match self.round(process) {
                Ok(Round::Over) => return Ok(()),
                Ok(Round::Again) => {}
                Err(error) if self.is_lost(&error) => self.wait(&error.to_string(), process)?,
                Err(error) => return Err(error),
            }
        }
    }

    fn round(&mut self, process: &mut dyn Process) -> Result<Round, Failure> {
        let running = self.running;
        let view = self.cluster.view()?;
        let listener = self.listener()?;
        self.listen.address = listener.address();
        let address = self.advertise.clone().unwrap_or_else(|| self.listen.address.to_string());
        let (node, dir) = (self.node.clone(), self.dir.clone());
        let join = Join { cluster: self.cluster, node, dir, address };
        join.check(&view)?;
        let store = self.start(&view, process)?;
        let waits = |waiting: &Waiting| process.waits_for_name(waiting);
        let Some(mut run) = join.begin(&store, waits, || running.is_stopped())? else {
            return Ok(Round::Over);
        };
        if let Err(ended) = run.begin(&store) {
            return self.end(ended, &run, store, process);
        }
        let host = store.host().clone();
        let mut beside = process.begin(&view, &store)?;
        beside.push(store.links());
        host.listen_with(store.role(), listener, beside)?;
        running.serve(&host);
        process.serve(&store, self.listen.address)?;
        let (host_end, ended) = self.serve(&host, &store, &mut run, process);
        drop(host);
        match host_end {
            Some(HostEnd::Closed) => Self::leave(run, store, process),
            Some(HostEnd::Failed(why)) => {
                process.end();
                let _ = run.give_up();
                Err(format!("{why}; what was acknowledged is safe: start it again").into())
            }
            None => self.end(ended, &run, store, process),
        }
    }

    /// Takes the address, which the last round may still have.
    fn listener(&self) -> Result<Listener, Failure> {
        let is_taken =
            |error: &ListenError| matches!(error, ListenError::Bind(_, why) if why.kind() == ErrorKind::AddrInUse);
        self.once_free(|| Listener::bind(self.listen), is_taken)
    }

    /// Reads the directory, which an earlier process may still have, and starts the store.
    fn start(&self, view: &View, process: &mut dyn Process) -> Result<LocalStore, Failure> {
        make_directory(&self.dir)?;
        let disk = disk::Config { cluster: Some(view.store()), ..self.disk.clone() };
        let node = NodeId(view.member(&self.node)?.number);
        let (members, sharding) = (view.members(), view.sharding());
        let mut store = store::Config { node, members, sharding, ..self.store.clone() };
        if let Some(LeasedSpaces { spaces, lease_ms }) = view.leased() {
            (store.leased_spaces, store.lease) = (spaces.clone(), Duration::from_millis((*lease_ms).into()));
        }
        let is_taken = |error: &Failure| matches!(error.downcast_ref(), Some(DiskError::InUse { .. }));
        self.once_free(|| process.start(&disk, store.clone()), is_taken)
    }

    /// Tries what the last round, or an earlier process, may stand in the way of.
    fn once_free<T, E: Into<Failure>>(
        &self,
        mut attempt: impl FnMut() -> Result<T, E>,
        is_taken: impl Fn(&E) -> bool,
    ) -> Result<T, Failure> {
        let begun = Instant::now();
        loop {
            match attempt() {
                Err(error) if is_taken(&error) && self.is_later() && begun.elapsed() < FREE_WITHIN => {
                    thread::sleep(LOOK_EVERY);
                }
                done => return done.map_err(Into::into),
            }
        }
    }

    /// Serves until the store has ended, or the run has.
    fn serve(
        &self,
        host: &Host,
        store: &LocalStore,
        run: &mut Run<'_>,
        process: &mut dyn Process,
    ) -> (Option<HostEnd>, Ended) {
        let (is_over, running, mut told) = (AtomicBool::new(false), self.running, None);
        running.set_trouble(None);
        thread::scope(|scope| {
            let keeper = scope.spawn(|| run.keep(store, &is_over, |trouble| running.set_trouble(trouble)));
            let mut end = None;
            while end.is_none() && !keeper.is_finished() {
                end = host.wait_end_within(LOOK_EVERY);
                process.look(store);
                let trouble = running.trouble();
                if trouble != told {
                    process.trouble(trouble.as_deref());
                    told = trouble;
                }
            }
            is_over.store(true, Relaxed);
            let panicked = |_| Ended::LeaseOver("the thread that keeps the lease panicked".to_owned());
            (end, keeper.join().unwrap_or_else(panicked))
        })
    }

    /// Closes in order, and records that in etcd.
    fn leave(run: Run<'_>, store: LocalStore, process: &mut dyn Process) -> Result<Round, Failure> {
        process.close(&store);
        let closed = store.look(store::Store::closed_shards);
        let outcome = store.close();
        process.end();
        outcome?;
        run.leave(&closed).map_err(|error| format!("{error}; {NOT_CLOSED}"))?;
        Ok(Round::Over)
    }

    /// The run is over before the store.
    fn end(&self, ended: Ended, run: &Run<'_>, store: LocalStore, process: &mut dyn Process) -> Result<Round, Failure> {
        let (why, refused) = match ended {
            Ended::Refused(error) => ("it cannot be a member any longer".to_owned(), Some(error)),
            Ended::LeaseOver(why) => (why, None),
            Ended::Stopped => ("it was stopped".to_owned(), None),
        };
        drop(store);
        process.end();
        if let Some(error) = refused {
            let _ = run.give_up();
            return Err(error.into());
        }
        self.wait(&why, process)?;
        while let Err(error) = run.give_up() {
            self.pause(&error.to_string())?;
        }
        Ok(Round::Again)
    }

    /// The node has no lease, and does not serve.
    fn wait(&self, why: &str, process: &mut dyn Process) -> Result<(), Failure> {
        let trouble = format!("the node has no lease and does not serve: {why}");
        if self.running.trouble().as_ref() != Some(&trouble) {
            self.running.set_trouble(Some(&trouble));
            process.wait(why)?;
        }
        self.pause(why)
    }

    fn pause(&self, why: &str) -> Result<(), Failure> {
        let until = Instant::now() + ASK_AGAIN;
        while Instant::now() < until {
            if self.running.is_stopped() {
                return Err(format!("stopped without a lease ({why}): {NOT_CLOSED}").into());
            }
            thread::sleep(LOOK_EVERY.min(ASK_AGAIN / 3));
        }
        Ok(())
    }

    /// Whether a later round has failed because etcd is away again.
    fn is_lost(&self, error: &Failure) -> bool {
        matches!(error.downcast_ref(), Some(MembershipError::Etcd(_))) && self.is_later()
    }

    /// Whether there was a round before.
    fn is_later(&self) -> bool {
        self.running.trouble().is_some()
    }
}
