//! Experiments on sockets: the store a process of its own, redirectors and clients over TCP, the distance emulated.

use super::group::Group;
use super::virtual_time::{CLIENT_CACHE_BYTES, MOB_MIB, STORE_CACHE_MIB, Setting};
use super::worker::{Clock, Crowd, Spent, Worker};
use crate::{Place, Result};
use fixtures::{Emulator, Process};
use objects::{Db, Ref, wait_for};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};
use types::MAIN_SPACE;
use workloads::oo7::{Module, Size, build};

/// A store process that holds an OO7 module.
pub(crate) struct Store {
    server: Process,
    module: Ref<Module>,
}

impl Store {
    /// Builds the module in a new store.
    pub(crate) fn start(place: &Place, size: Size) -> Result<Self> {
        Self::start_with(place, "oo7", &[], size)
    }

    /// The same with leases on all of it.
    pub(crate) fn start_leased(place: &Place, size: Size) -> Result<Self> {
        Self::start_with(place, "oo7-leased", &["--leased", &MAIN_SPACE.to_string()], size)
    }

    fn start_with(place: &Place, name: &str, arguments: &[&str], size: Size) -> Result<Self> {
        let (mob, cache) = (MOB_MIB.to_string(), STORE_CACHE_MIB.to_string());
        let memory = ["--mob-mib", &mob, "--cache-mib", &cache];
        let server = place.serve_with(name, &[&memory, arguments].concat())?;
        let db = Db::connect(server.address())?;
        let module = wait_for(build(&db, 1, size, 7, |_| {}))?;
        Ok(Self { server, module })
    }

    /// Runs a setting on sockets, and measures it for no longer than this if it is said. Gives where each client's time
    /// went.
    pub(crate) fn run(&self, setting: &Setting, within: Option<Duration>) -> Result<Vec<Spent>> {
        // An emulated distance of nothing would still be a process between.
        let link = (!setting.round_trip.is_zero())
            .then(|| Emulator::start(self.server.address(), setting.round_trip / 2, None))
            .transpose()?;
        let store = link.as_ref().map_or(self.server.address(), Emulator::address);
        let groups: Vec<Group> = setting.groups.iter().map(|_| Group::start(store)).collect::<Result<_>>()?;
        let address = |client: usize| {
            let group = setting.groups.iter().position(|members| members.contains(&client));
            group.map_or(store, |group| groups[group].address())
        };
        let workers: Vec<Worker> =
            (1..=setting.plans.len()).map(|client| self.worker(setting, address(client))).collect::<Result<_>>()?;
        let crowd = Crowd::of(&setting.plans).within(within);
        thread::scope(|scope| {
            let crowd = &crowd;
            let work = |(worker, plan)| scope.spawn(move || wait_for(Worker::run(worker, plan, crowd)));
            let running: Vec<_> = workers.iter().zip(&setting.plans).map(work).collect();
            running.into_iter().map(|client| client.join().map_err(|_| "a client panicked")?).collect()
        })
    }

    fn worker(&self, setting: &Setting, address: SocketAddr) -> Result<Worker> {
        let db = Db::builder()
            .cache_bytes(CLIENT_CACHE_BYTES)
            .prefetch_pages(setting.prefetch_pages_max)
            .read_ahead(!setting.is_on_demand())
            .commit_fresh(setting.commits_fresh)
            .connect(address)?;
        let (module, levels_fixed) = (self.module, setting.levels_fixed);
        Ok(Worker { db, clock: Clock::Real(Instant::now()), module, levels_fixed })
    }
}
