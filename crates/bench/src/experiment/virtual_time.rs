//! Experiments in virtual time: the real nodes, over distances that are laid out and costs that were measured.

use super::costs::Costs;
use super::worker::{Afterwards, Clock, Plan, Spent, Worker};
use crate::Result;
use objects::Ref;
use sim::{Distances, Layout, Simulation, Stored};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use types::Time;
use workloads::oo7::{CompositePart, Module, Size, build, composite_parts};

/// Longer than any experiment.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1 << 20);

/// When clients begin: their sessions are open then.
const BEGIN: Time = Time(2_000_000_000);

/// Where a store of one node keeps its objects.
pub(crate) const VOLUME: u32 = 0;

/// An OO7 module in a store that was closed.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    pub(crate) stored: Stored,
    pub(crate) module: Ref<Module>,
    /// The composite parts that an assembly has.
    pub(crate) parts: Arc<[Ref<CompositePart>]>,
}

impl Built {
    /// Builds the module in virtual time.
    pub(crate) fn new(size: Size) -> Result<Self> {
        let mut simulation = Simulation::laid_out(1, &Layout { clients: 1, ..Layout::default() });
        let (node, hands) = simulation.door(1);
        let db = objects::over(node, hands, PATIENCE);
        let built = Rc::new(RefCell::new(None));
        let found = built.clone();
        simulation.spawn(1, async move {
            let done = async {
                let module = build(&db, 1, size, 7, |_| {}).await?;
                let parts = db.transact_async(async |mut tx| composite_parts(&mut tx, module).await);
                Ok::<_, objects::Error>((module, parts.await?))
            };
            *found.borrow_mut() = Some(done.await);
        });
        let stored = simulation.run_and_close().map_err(|violation| violation.to_string())?;
        let (module, parts) = built.take().ok_or("the module was not built")??;
        Ok(Self { stored, module, parts: parts.into() })
    }
}

/// Who takes part in a run, and how far the store is.
#[derive(Clone, Debug)]
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
    /// The most parts that are traversed.
    pub(crate) parts_max: usize,
    /// Groups have leases on what they read: their redirectors validate read-only transactions themselves.
    pub(crate) leased: bool,
}

impl Setting {
    /// Pages are fetched on demand alone, as in the paper.
    pub(crate) fn is_on_demand(&self) -> bool {
        self.prefetch_pages_max == 0
    }

    /// The same with leases. Who is done rests: a reader that has all pages does thousands of transactions while another
    /// waits for one.
    pub(crate) fn with_leases(mut self) -> Self {
        self.leased = true;
        for plan in self.plans.iter_mut().filter(|plan| plan.afterwards == Afterwards::GoOn) {
            plan.afterwards = Afterwards::Rest;
        }
        self
    }

    /// How many clients have to be done before it is over.
    pub(crate) fn waited_for(&self) -> usize {
        self.plans.iter().filter(|plan| plan.afterwards != Afterwards::IsLoad).count()
    }

    /// The parts that are traversed.
    pub(crate) fn some_of(&self, parts: &Arc<[Ref<CompositePart>]>) -> Arc<[Ref<CompositePart>]> {
        if parts.len() > self.parts_max { parts[..self.parts_max].into() } else { parts.clone() }
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
                prefetch_pages_max: self.prefetch_pages_max,
                reads_ahead: !self.is_on_demand(),
                commits_fresh: self.commits_fresh,
                ..client::Config::default()
            },
            store: store::Config {
                leased_volumes: if self.leased { vec![VOLUME] } else { Vec::new() },
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
        let busy = Rc::new(AtomicUsize::new(self.waited_for()));
        for (at, plan) in self.plans.iter().enumerate() {
            let (node, hands) = simulation.door(at + 1);
            let clock = Clock::Virtual { hands: hands.clone(), traversal: costs.traversal };
            let (module, parts) = (built.module, self.some_of(&built.parts));
            let worker = Worker { db: objects::over(node, hands, PATIENCE), clock, module, parts };
            let (plan, spent, busy) = (plan.clone(), spent.clone(), busy.clone());
            simulation.spawn(at + 1, async move {
                worker.clock.sleep_until(BEGIN).await;
                let done = worker.run(&plan, &busy).await.expect("nothing fails in an experiment");
                spent.borrow_mut()[at] = Some(done);
            });
        }
        simulation.run_and_close().map_err(|violation| violation.to_string())?;
        let spent = spent.take();
        Ok(spent.into_iter().flatten().collect())
    }
}
