//! Experiments in virtual time: the real nodes, over distances that are laid out and costs that were measured.

use super::costs::Costs;
use super::module::Built;
use super::worker::{Afterwards, Clock, Crowd, PATIENCE, Plan, Spent, Worker};
use crate::Result;
use sim::{Distances, Layout, Simulation, Stored};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use types::{MAIN_SPACE, Time};

/// The time that a processor takes to simulate a transaction.
const SECONDS_PER_TRANSACTION: f64 = 0.0004;

/// When clients begin: their sessions are open then.
const BEGIN: Time = Time(2_000_000_000);

/// The paper's memory: a client's cache, and the 50 MB of its server, of which 6 are for changes that wait.
pub(crate) const CLIENT_CACHE_BYTES: usize = 40 << 20;
pub(crate) const STORE_CACHE_MIB: usize = 44;
pub(crate) const MOB_MIB: usize = 6;

/// The parties of a run, and their distance from the store.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setting {
    /// The clients' plans.
    pub(crate) plans: Vec<Plan>,
    /// Which clients, counted from 1, are in which group.
    pub(crate) groups: Vec<Vec<usize>>,
    pub(crate) round_trip: Duration,
    /// The most pages that one fault prefetches; the paper's clients fetch on demand alone.
    pub(crate) prefetch_pages_max: u32,
    /// Transactions that have only read, and have fetched, commit without asking; the paper's always ask.
    pub(crate) commits_fresh: bool,
    /// On so many levels of assemblies the first way down is taken: a part of the module is enough.
    pub(crate) levels_fixed: u32,
    /// Groups have leases on what they read: their redirectors validate read-only transactions themselves.
    pub(crate) leased: bool,
}

impl Setting {
    /// Pages are fetched on demand alone, as in the paper.
    pub(crate) fn is_on_demand(&self) -> bool {
        self.prefetch_pages_max == 0
    }

    /// The same with leases. A client that is done rests: a reader that has all pages does thousands of transactions
    /// while another waits for one.
    pub(crate) fn with_leases(mut self) -> Self {
        self.leased = true;
        for plan in self.plans.iter_mut().filter(|plan| plan.afterwards == Afterwards::GoOn) {
            plan.afterwards = Afterwards::Rest;
        }
        self
    }

    /// How long it takes one processor to simulate it, in seconds, about.
    pub(crate) fn seconds(&self) -> f64 {
        let transactions = |plan: &Plan| f64::from(plan.warm_up + plan.measured);
        self.plans.iter().map(transactions).sum::<f64>() * SECONDS_PER_TRANSACTION
    }

    fn layout(&self, costs: &Costs, stored: &Stored) -> Layout {
        Layout {
            clients: self.plans.len(),
            groups: self.groups.clone(),
            distances: Distances { far: costs.hop + self.round_trip / 2, near: costs.hop },
            costs: costs.processing(),
            flush: costs.flush,
            read: costs.read,
            client: client::Config {
                cache_bytes_limit: CLIENT_CACHE_BYTES,
                prefetch_pages_max: self.prefetch_pages_max,
                reads_ahead: !self.is_on_demand(),
                commits_fresh: self.commits_fresh,
                ..client::Config::default()
            },
            store: store::Config {
                cache_bytes_limit: STORE_CACHE_MIB << 20,
                mob_bytes_limit: MOB_MIB << 20,
                leased_spaces: if self.leased { vec![MAIN_SPACE] } else { Vec::new() },
                ..store::Config::default()
            },
            stored: stored.clone(),
            ..Layout::default()
        }
    }

    /// Runs it in virtual time. Gives where each client's time went.
    pub(crate) fn simulate(&self, costs: &Costs, built: &Built) -> Result<Vec<Spent>> {
        let mut simulation = Simulation::laid_out(1, &self.layout(costs, &built.stored));
        let spent = Rc::new(RefCell::new(vec![None; self.plans.len()]));
        let crowd = Rc::new(Crowd::of(&self.plans));
        for (at, plan) in self.plans.iter().enumerate() {
            let (node, driver) = simulation.door(at + 1);
            let clock = Clock::Virtual { driver: driver.clone(), traversal: costs.traversal };
            let (module, levels_fixed) = (built.module, self.levels_fixed);
            let worker = Worker { db: objects::over(node, driver, PATIENCE), clock, module, levels_fixed };
            let (plan, spent, crowd) = (plan.clone(), spent.clone(), crowd.clone());
            simulation.spawn(at + 1, async move {
                worker.clock.sleep_until(BEGIN).await;
                let done = worker.run(&plan, &crowd).await.expect("nothing fails in an experiment");
                spent.borrow_mut()[at] = Some(done);
            });
        }
        simulation.run_and_close().map_err(|violation| violation.to_string())?;
        let spent = spent.take();
        Ok(spent.into_iter().flatten().collect())
    }
}
