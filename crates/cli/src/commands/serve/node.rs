//! `thorp serve --cluster`: one node of a store of several. [`membership::Rounds`] runs its store. Here are published
//! sites, homes of volumes, and the output for operators.

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
use disk::Progress;
use files::tables::FILE_SERVER;
use membership::{ANSWER_WITHIN, Cluster, EtcdUrl, Process, Rounds, Running, View, Waiting};
use net::{Beside, HostEnd, ListenConfig, Runtime};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

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
    when_told(move || stopped.running.stop())?;
    if args.until_stdin_closes {
        let stopped = state.clone();
        when_stdin_closes(move || stopped.running.stop());
    }
    // A term of the node's lease is nothing to the homes, whose owners are fenced by their epochs.
    let homes = Homes::start(args, Room::of(args)?, &runtime)?;
    let disk = disk_config(&args.store);
    let sessions_max = descriptors::sessions_max(disk.segments_max + homes.room().files())?;
    let listen =
        ListenConfig { insecure: args.insecure, sessions_max, ..ListenConfig::new(messages::SERVER, args.listen) };
    let rounds = Rounds {
        cluster: &cluster,
        node: node.to_owned(),
        dir: args.dir.clone(),
        listen,
        advertise: args.advertise.clone(),
        disk,
        store: store_config(&args.store),
        running: &state.running,
    };
    let mut served = Served {
        args,
        cluster: &cluster,
        node,
        admin,
        runtime,
        sessions_max,
        homes,
        sites: None,
        state: &state,
        recovered: None,
        told: Told::default(),
        counted: None,
        output,
    };
    rounds.run(&mut served)?;
    served.counted.map_or(Ok(()), |counted| counted.say(&args.dir, served.output))
}

/// The state that the threads of the process share.
#[derive(Default)]
struct State {
    running: Running,
    /// The obstacles of the published sites.
    of_sites: Mutex<Vec<String>>,
}

impl State {
    /// The node, as its operators see it.
    fn service(self: &Arc<Self>) -> Arc<dyn ops::Service> {
        let (of_host, of_troubles) = (self.clone(), self.clone());
        let troubles = move || {
            let failed = match of_troubles.running.host().and_then(|host| host.end()) {
                Some(HostEnd::Failed(why)) => Some(format!("the store has failed: {why}")),
                _ => None,
            };
            let of_sites = of_troubles.of_sites.lock().unwrap_or_else(PoisonError::into_inner).clone();
            failed.into_iter().chain(of_troubles.running.trouble()).chain(of_sites).collect()
        };
        let beside = &[VOLUME_HOMES.described(), FILE_SERVER.described()];
        of_current_host(move || of_host.running.host(), &[store::tables::TABLES, beside], troubles)
    }
}

struct Served<'a> {
    args: &'a ServeArgs,
    cluster: &'a Cluster,
    node: &'a str,
    admin: Option<SocketAddr>,
    runtime: Runtime,
    sessions_max: usize,
    homes: Homes,
    /// A term of the node's lease is nothing to the sites either, whose records have terms of their own.
    sites: Option<Sites>,
    state: &'a State,
    /// The extent of what was read of the directory in this round, and how many seconds that took.
    recovered: Option<(Progress, f64)>,
    /// The events of this round that were printed.
    told: Told,
    /// The counts of the store that was closed in order.
    counted: Option<Counted>,
    output: &'a mut Output,
}

impl Served<'_> {
    fn say_ready(&mut self, listen: SocketAddr) -> Result {
        let (node, dir, admin) = (self.node, &self.args.dir, self.admin);
        let (Progress { bytes, records, .. }, seconds) = self.recovered.take().unwrap_or_default();
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
}

impl Process for Served<'_> {
    fn start(&mut self, disk: &disk::Config, store: store::Config) -> Result<LocalStore> {
        let (recovered, seconds) = recover(&self.args.dir, disk, store)?;
        self.recovered = Some((recovered.progress, seconds));
        Ok(recovered.start(None, &self.runtime))
    }

    fn waits_for_name(&mut self, Waiting { address, within }: &Waiting) {
        let text = format!("the name is in use at {}: waiting up to {within:?} for its lease to end", visible(address));
        let line = self.output.line(&json!({"waits_for_name": address, "within_s": within.as_secs()}), text);
        drop(line.and_then(|()| self.output.flush()));
    }

    fn begin(&mut self, view: &View, store: &LocalStore) -> Result<Vec<Beside>> {
        self.told = Told::default();
        if self.sites.is_none() {
            self.sites = Some(Sites::start(number_of(view, self.node)?, view, self.args, &self.runtime)?);
        }
        let sites = self.sites.as_mut().map(|sites| {
            sites.begin(store);
            sites.beside(self.sessions_max)
        });
        Ok(self.homes.beside().chain(sites).collect())
    }

    fn serve(&mut self, _: &LocalStore, listen: SocketAddr) -> Result {
        if let Some(sites) = &mut self.sites {
            sites.open(listen)?;
        }
        self.say_ready(listen)
    }

    fn look(&mut self, store: &LocalStore) {
        // A node whose output is not read any longer serves all the same.
        let _ = self.told.look(store, self.output);
        if let Some(sites) = &mut self.sites {
            sites.look(store, self.cluster);
            *self.state.of_sites.lock().unwrap_or_else(PoisonError::into_inner) = sites.troubles();
        }
    }

    fn trouble(&mut self, why: Option<&str>) {
        let text =
            why.map_or("etcd answers again".to_owned(), |why| format!("{why}; the node serves while its lease lasts"));
        let line = self.output.line(&json!({"etcd": why.unwrap_or("answers")}), visible(&text));
        drop(line.and_then(|()| self.output.flush()));
    }

    fn close(&mut self, store: &LocalStore) {
        self.counted = Some(Counted::of(store.host(), store));
    }

    fn end(&mut self) {}

    fn wait(&mut self, why: &str) -> Result {
        let text = format!("the node has no lease and does not serve: {why}; it serves again when it has one");
        self.output.line(&json!({"lease_over": why}), text)?;
        self.output.flush()
    }
}
