//! `thorp serve --cluster`: one node of a store of several.
//!
//! ```text
//!   recovered --name taken, lease granted--> serving --signal--> closed in order, recorded in etcd: the end
//!       ^                                       |
//!       |                                   lease over: silent
//!       +-------- etcd answers again -----------+
//! ```
//! A round is one term of the node under one lease. The store is made again from its directory for each: while the node
//! had no lease, other nodes may have given counts and opened shards that it knows nothing of.

use super::sites::{Sites, number_of};
use super::{Counted, Homes, Room, Told, disk_config, recover, store_config};
use crate::cli::ServeArgs;
use crate::error::usage;
use crate::operators::{Operators, and_operators, of_current_host};
use crate::output::{Output, visible};
use crate::stopper::{when_stdin_closes, when_told};
use crate::{Error, Result, descriptors};
use attach::VOLUME_HOMES;
use database::LocalStore;
use disk::{DiskError, Progress};
use files::tables::FILE_SERVER;
use machine::RoleId;
use membership::{Cluster, Ended, EtcdUrl, Join, LeasedSpaces, MembershipError, Run, View, Waiting};
use net::{Host, HostEnd, ListenConfig, ListenError, Listener, Runtime};
use serde_json::json;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};
use vfs::make_directory;

/// How often the node is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How often etcd is asked whether it is back.
const ASK_AGAIN: Duration = Duration::from_millis(300);

/// How long the address and the directory of the last round may take to be free.
const FREE_WITHIN: Duration = Duration::from_secs(10);

/// How long each endpoint of etcd has for an answer: half of the shortest lease.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

const NOT_CLOSED: &str = "its shards are not closed in order, so its next start waits for the logs of all nodes; \
                          acknowledged commits are safe";

pub(super) fn run(args: &ServeArgs, url: &EtcdUrl, node: &str, output: &mut Output) -> Result {
    if !args.store.leased.is_empty() {
        return Err(usage(
            "--leased is not for a node: the leased spaces are the same at all nodes, and \
             `thorp cluster create --leased` names them",
        ));
    }
    let cluster = Cluster::new(url, ANSWER_WITHIN)?;
    // A store that is not there is reported before a directory is made.
    cluster.view()?;
    let (operators, runtime) = (Operators::listen(&args.operators)?, Runtime::start()?);
    let (admin, state) = (operators.address(), Arc::<State>::default());
    let _operators = operators.serve(state.service())?;
    let stopped = state.clone();
    when_told(move || stopped.stop())?;
    if args.until_stdin_closes {
        let stopped = state.clone();
        when_stdin_closes(move || stopped.stop());
    }
    // A term of the node's lease is nothing to the homes, whose owners are fenced by their epochs.
    let (listen, homes) = (args.listen, Homes::start(args, Room::of(args)?, &runtime)?);
    let mut node =
        Node { args, cluster: &cluster, name: node, listen, admin, runtime, homes, sites: None, state, output };
    loop {
        match node.round() {
            Ok(Round::Over) => return Ok(()),
            Ok(Round::Again) => {}
            Err(error) if node.is_lost(&error) => node.wait(&error.to_string())?,
            Err(error) => return Err(error),
        }
    }
}

/// The state that the threads of the process share.
#[derive(Default)]
struct State {
    is_stopped: AtomicBool,
    host: Mutex<Weak<Host>>,
    /// Why the node may not serve much longer, or does not.
    trouble: Mutex<Option<String>>,
    /// The obstacles of the published sites.
    of_sites: Mutex<Vec<String>>,
}

impl State {
    fn stop(&self) {
        self.is_stopped.store(true, SeqCst);
        self.close();
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(SeqCst)
    }

    /// Closes the store, if there is one.
    fn close(&self) {
        if let Some(host) = self.host() {
            host.close(RoleId::ONLY);
        }
    }

    fn host(&self) -> Option<Arc<Host>> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    /// The host that serves from now on.
    fn serve(&self, host: &Arc<Host>) {
        *self.host.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(host);
        // The signal may have come in between.
        if self.is_stopped() {
            self.close();
        }
    }

    fn set_trouble(&self, trouble: Option<&str>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble.map(str::to_owned);
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The node, as its operators see it.
    fn service(self: &Arc<Self>) -> Arc<dyn ops::Service> {
        let (of_host, of_troubles) = (self.clone(), self.clone());
        let troubles = move || {
            let failed = match of_troubles.host().and_then(|host| host.end()) {
                Some(HostEnd::Failed(why)) => Some(format!("the store has failed: {why}")),
                _ => None,
            };
            let of_sites = of_troubles.of_sites.lock().unwrap_or_else(PoisonError::into_inner).clone();
            failed.into_iter().chain(of_troubles.trouble()).chain(of_sites).collect()
        };
        let beside = &[VOLUME_HOMES.described(), FILE_SERVER.described()];
        of_current_host(move || of_host.host(), &[store::tables::TABLES, beside], troubles)
    }
}

/// How a round ended.
enum Round {
    /// The process ends.
    Over,
    /// The lease was over.
    Again,
}

struct Node<'a> {
    args: &'a ServeArgs,
    cluster: &'a Cluster,
    name: &'a str,
    /// The address, with its port from the first round on.
    listen: SocketAddr,
    admin: Option<SocketAddr>,
    runtime: Runtime,
    homes: Homes,
    /// A term of the node's lease is nothing to the sites either, whose records have terms of their own.
    sites: Option<Sites>,
    state: Arc<State>,
    output: &'a mut Output,
}

impl Node<'_> {
    fn round(&mut self) -> Result<Round> {
        let view = self.cluster.view()?;
        let listener = self.listener()?;
        self.listen = listener.address();
        let address = self.args.advertise.clone().unwrap_or_else(|| self.listen.to_string());
        let (node, dir) = (self.name.to_owned(), self.args.dir.clone());
        let join = Join { cluster: self.cluster, node, dir, address };
        join.check(&view)?;
        let (store, progress, seconds) = self.recover(&view)?;
        let (state, output) = (self.state.clone(), &mut *self.output);
        let said = |waiting: &Waiting| {
            let Waiting { address, within } = waiting;
            let text =
                format!("the name is in use at {}: waiting up to {within:?} for its lease to end", visible(address));
            let line = output.line(&json!({"waits_for_name": address, "within_s": within.as_secs()}), text);
            drop(line.and_then(|()| output.flush()));
        };
        let Some(mut run) = join.begin(&store, said, || state.is_stopped())? else {
            store.stop("it was stopped");
            return Ok(Round::Over);
        };
        if let Err(ended) = run.begin(&store) {
            return self.end(ended, &run, store);
        }
        let host = store.host().clone();
        let sessions_max = self.sessions_max()?;
        let mut sites = match self.sites.take() {
            Some(sites) => sites,
            None => Sites::start(number_of(&view, self.name)?, &view, self.args, &self.runtime)?,
        };
        sites.begin(&store);
        let beside = self.homes.beside().chain([store.links(), sites.beside(sessions_max)]).collect();
        host.listen_with(store.role(), listener, beside)?;
        sites.open(self.listen)?;
        self.sites = Some(sites);
        self.state.serve(&host);
        self.say_ready(&progress, seconds)?;
        let (host_end, ended) = self.serve(&host, &store, &mut run);
        drop(host);
        match host_end {
            Some(HostEnd::Closed) => self.leave(run, store),
            Some(HostEnd::Failed(why)) => {
                let _ = run.give_up();
                Err(format!("{why}; what was acknowledged is safe: start it again").into())
            }
            None => self.end(ended, &run, store),
        }
    }

    /// Serves until the store has ended, or the run has.
    fn serve(&mut self, host: &Host, store: &LocalStore, run: &mut Run<'_>) -> (Option<HostEnd>, Ended) {
        let (is_over, mut told, mut trouble) = (AtomicBool::new(false), Told::default(), None);
        let mut sites = self.sites.take();
        let state = self.state.clone();
        let served = thread::scope(|scope| {
            let keeper = scope.spawn(|| run.keep(store, &is_over, |trouble| state.set_trouble(trouble)));
            let mut end = None;
            while end.is_none() && !keeper.is_finished() {
                end = host.wait_end_within(LOOK_EVERY);
                // A node whose output is not read any longer serves all the same.
                let _ = told.look(store, self.output);
                if let Some(sites) = &mut sites {
                    sites.look(store, self.cluster);
                    *state.of_sites.lock().unwrap_or_else(PoisonError::into_inner) = sites.troubles();
                }
                let now = state.trouble();
                if now != trouble {
                    let _ = self.say_trouble(now.as_deref());
                    trouble = now;
                }
            }
            is_over.store(true, Relaxed);
            let panicked = |_| Ended::LeaseOver("the thread that keeps the lease panicked".to_owned());
            (end, keeper.join().unwrap_or_else(panicked))
        });
        self.sites = sites;
        served
    }

    /// Closes in order, and records that in etcd.
    fn leave(&mut self, run: Run<'_>, store: LocalStore) -> Result<Round> {
        let counted = Counted::of(store.host(), &store);
        let closed = store.look(store::Store::closed_shards);
        store.close()?;
        run.leave(&closed).map_err(|error| format!("{error}; {NOT_CLOSED}"))?;
        counted.say(&self.args.dir, self.output)?;
        Ok(Round::Over)
    }

    /// The run is over before the store.
    fn end(&mut self, ended: Ended, run: &Run<'_>, store: LocalStore) -> Result<Round> {
        let why = match ended {
            Ended::Refused(error) => {
                store.stop("it cannot be a member any longer");
                let _ = run.give_up();
                return Err(error.into());
            }
            Ended::LeaseOver(why) => why,
            Ended::Stopped => "it was stopped".to_owned(),
        };
        store.stop("the lease of the node is over");
        self.wait(&why)?;
        while let Err(error) = run.give_up() {
            self.pause(&error.to_string())?;
        }
        Ok(Round::Again)
    }

    /// The node has no lease, and does not serve.
    fn wait(&mut self, why: &str) -> Result {
        let trouble = format!("the node has no lease and does not serve: {why}");
        if self.state.trouble().as_ref() != Some(&trouble) {
            self.state.set_trouble(Some(&trouble));
            let text = format!("{trouble}; it serves again when it has one");
            self.output.line(&json!({"lease_over": why}), text)?;
            self.output.flush()?;
        }
        self.pause(why)
    }

    fn pause(&self, why: &str) -> Result {
        let until = Instant::now() + ASK_AGAIN;
        while Instant::now() < until {
            if self.state.is_stopped() {
                return Err(format!("stopped without a lease ({why}): {NOT_CLOSED}").into());
            }
            thread::sleep(LOOK_EVERY.min(ASK_AGAIN / 3));
        }
        Ok(())
    }

    /// Whether a later round has failed because etcd is away again.
    fn is_lost(&self, error: &Error) -> bool {
        let of_etcd = matches!(error.downcast_ref(), Some(MembershipError::Etcd(_)));
        of_etcd && self.state.trouble().is_some()
    }

    fn sessions_max(&self) -> Result<usize> {
        let files = disk_config(&self.args.store).segments_max + self.homes.room().files();
        descriptors::sessions_max(files)
    }

    /// Takes the address, which the last round may still have.
    fn listener(&self) -> Result<Listener> {
        let (args, sessions_max) = (self.args, self.sessions_max()?);
        let config =
            ListenConfig { insecure: args.insecure, sessions_max, ..ListenConfig::new(messages::SERVER, self.listen) };
        let begun = Instant::now();
        loop {
            match Listener::bind(config) {
                Err(ListenError::Bind(_, error))
                    if error.kind() == ErrorKind::AddrInUse && self.is_later() && begun.elapsed() < FREE_WITHIN =>
                {
                    thread::sleep(LOOK_EVERY);
                }
                bound => return Ok(bound?),
            }
        }
    }

    /// Whether there was a round before.
    fn is_later(&self) -> bool {
        self.state.trouble().is_some()
    }

    fn recover(&self, view: &View) -> Result<(LocalStore, Progress, f64)> {
        let args = self.args;
        make_directory(&args.dir)?;
        let disk = disk::Config { cluster: Some(view.store()), ..disk_config(&args.store) };
        let number = number_of(view, self.name)?;
        let mut store = store::Config {
            node: number,
            members: view.members(),
            sharding: view.sharding(),
            ..store_config(&args.store)
        };
        if let Some(LeasedSpaces { spaces, lease_ms }) = view.leased() {
            (store.leased_spaces, store.lease) = (spaces.clone(), Duration::from_millis((*lease_ms).into()));
        }
        let begun = Instant::now();
        loop {
            match recover(&args.dir, &disk, store.clone()) {
                // By the last round.
                Err(error) if is_in_use(&error) && self.is_later() && begun.elapsed() < FREE_WITHIN => {
                    thread::sleep(LOOK_EVERY);
                }
                Err(error) => return Err(error),
                Ok((recovered, seconds)) => {
                    let progress = recovered.progress;
                    return Ok((recovered.start(None, &self.runtime), progress, seconds));
                }
            }
        }
    }

    fn say_ready(&mut self, progress: &Progress, seconds: f64) -> Result {
        self.state.set_trouble(None);
        let (node, dir, listen, admin) = (self.name, &self.args.dir, self.listen, self.admin);
        let Progress { bytes, records, .. } = *progress;
        let json = json!({
            "listen": listen,
            "admin": admin,
            "dir": dir,
            "node": node,
            "recovery": {"bytes": bytes, "records": records, "seconds": seconds},
        });
        let (dir, and) = (dir.display(), and_operators(admin));
        let text =
            format!("ready: node {node}, {dir} on {listen} ({records} records recovered in {seconds:.2} s){and}");
        self.output.line(&json, text)?;
        self.output.flush().map_err(|error| Error::from(format!("cannot say that the node is ready: {error}")))
    }

    fn say_trouble(&mut self, trouble: Option<&str>) -> Result {
        let text = trouble
            .map_or("etcd answers again".to_owned(), |why| format!("{why}; the node serves while its lease lasts"));
        self.output.line(&json!({"etcd": trouble.unwrap_or("answers")}), visible(&text))?;
        self.output.flush()
    }
}

fn is_in_use(error: &Error) -> bool {
    matches!(error.downcast_ref(), Some(DiskError::InUse { .. }))
}
