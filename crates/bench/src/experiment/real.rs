//! Experiments on sockets: the store a process of its own, redirectors and clients over TCP, the distance emulated.

use super::group::Group;
use super::virtual_time::{Setting, VOLUME};
use super::worker::{Clock, Spent, Worker};
use crate::{Place, Result, Server, ServerOptions};
use net::Emulator;
use objects::{Db, Ref, wait_for};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::Instant;
use workloads::oo7::{CompositePart, Module, Size, build, composite_parts};

/// A store process that holds an OO7 module.
pub(crate) struct Store {
    server: Server,
    module: Ref<Module>,
    parts: Arc<[Ref<CompositePart>]>,
}

impl Store {
    /// Builds the module in a new store.
    pub(crate) fn start(place: &Place, size: Size) -> Result<Self> {
        Self::start_with(&ServerOptions::new(&place.program, place.dir.join("oo7")), size)
    }

    /// The same with leases on all of it.
    pub(crate) fn start_leased(place: &Place, size: Size) -> Result<Self> {
        let options = ServerOptions::new(&place.program, place.dir.join("oo7-leased"));
        Self::start_with(&ServerOptions { arguments: vec!["--leased".into(), VOLUME.to_string()], ..options }, size)
    }

    fn start_with(options: &ServerOptions, size: Size) -> Result<Self> {
        let server = Server::start(options)?;
        let db = Db::connect(server.address())?;
        let module = wait_for(build(&db, 1, size, 7, |_| {}))?;
        let parts = wait_for(db.transact_async(async |mut tx| composite_parts(&mut tx, module).await))?;
        Ok(Self { server, module, parts: parts.into() })
    }

    /// Runs a setting on sockets. Gives where each client's time went.
    pub(crate) fn run(&self, setting: &Setting) -> Result<Vec<Spent>> {
        let link = Emulator::start(self.server.address(), setting.round_trip / 2, None)?;
        let groups: Vec<Group> = setting.groups.iter().map(|_| Group::start(link.address())).collect::<Result<_>>()?;
        let address = |client: usize| {
            let group = setting.groups.iter().position(|members| members.contains(&client));
            group.map_or(link.address(), |group| groups[group].address())
        };
        let workers: Vec<Worker> =
            (1..=setting.plans.len()).map(|client| self.worker(setting, address(client))).collect::<Result<_>>()?;
        let busy = AtomicUsize::new(setting.waited_for());
        thread::scope(|scope| {
            let busy = &busy;
            let work = |(worker, plan)| scope.spawn(move || wait_for(Worker::run(worker, plan, busy)));
            let running: Vec<_> = workers.iter().zip(&setting.plans).map(work).collect();
            running.into_iter().map(|client| client.join().map_err(|_| "a client panicked")?).collect()
        })
    }

    fn worker(&self, setting: &Setting, address: SocketAddr) -> Result<Worker> {
        let db = Db::builder()
            .prefetch_pages(setting.prefetch_pages_max)
            .read_ahead(!setting.is_on_demand())
            .commit_fresh(setting.commits_fresh)
            .connect(address)?;
        let parts = setting.some_of(&self.parts);
        Ok(Worker { db, clock: Clock::Real(Instant::now()), module: self.module, parts })
    }
}
