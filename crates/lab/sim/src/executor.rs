//! Front ends in virtual time: futures that run over the simulator's nodes.

use crate::engine::Event;
use crate::layout::{Layout, Mishap, Stored, Traffic};
use crate::rng::Rng;
use crate::run::guarded;
use crate::scenario::{STORE, Scenario};
use crate::store_run::{Run, StoreEvent};
use crate::tasks::Tasks;
use crate::trace::Trace;
use crate::violation::{Check, Violation};
use client::Client;
use core::mem;
use core::time::Duration;
use machine::{Driver, Hosted};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use types::Time;

/// How long faults strike, and how long the tasks may take in all: virtual time.
const STORM: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(600);

/// A store and its clients in virtual time, for tasks that use them through a front end. A seed draws the same as in
/// any other run, but clients do not crash and disks have room.
#[derive(Debug)]
pub struct Simulation {
    run: Run,
}

impl Simulation {
    /// A store and `clients` clients.
    pub fn new(seed: u64, clients: usize) -> Self {
        let mut rng = Rng::new(seed);
        let scenario = Scenario::for_tasks(&mut rng, clients);
        let mut run = Run::of(scenario, rng, false);
        run.scene.judged = false;
        run.scene.tasks = Tasks::of(clients);
        Self { run }
    }

    /// A store and its clients as an experiment lays them out. `seed` draws the order of what happens at one time.
    pub fn laid_out(seed: u64, layout: &Layout) -> Self {
        let mut run = Run::laid_out(layout, Rng::new(seed));
        run.scene.tasks = Tasks::of(layout.clients);
        Self { run }
    }

    /// Runs until every task of an experiment has ended, however long that takes of virtual time, and closes the store.
    /// Returns what it has.
    pub fn run_and_close(mut self) -> Result<Stored, Violation> {
        let run = &mut self.run;
        let verdict = guarded(|| {
            run.begin()?;
            run.run_until(Duration::from_secs(1 << 20), "a task never ends", |run| run.scene.tasks.are_done())?;
            run.scene.finale = true;
            run.close_store()?;
            run.run_until(PATIENCE, "the store does not close", |run| run.processes[STORE].closed)
        });
        self.print_if(&verdict);
        verdict.map(|()| self.run.disk().stored())
    }

    fn print_if(&mut self, verdict: &Check) {
        if verdict.is_err() {
            mem::take(&mut self.run.trace).into_lines().iter().for_each(|line| println!("{line}"));
        }
    }

    /// The messages of a group's redirector, groups counted from 0, while the simulation runs.
    pub fn redirector_traffic(&self, group: usize) -> Rc<Traffic> {
        self.run.processes[self.redirector(group)].traffic.clone()
    }

    /// Injects this fault into the redirector that a group has of its own, groups counted from 0, at that time.
    pub fn inject(&mut self, at: Time, group: usize, mishap: Mishap) {
        let redirector = self.redirector(group);
        self.run.queue.push(at, Event::Scene(StoreEvent::Mishap(redirector, mishap)));
    }

    fn redirector(&self, group: usize) -> usize {
        self.run.scene.scenario.redirectors().start + group
    }

    /// The parts of a client, counted from 1, that a front end needs: the client and its driver. To be used by tasks
    /// of this client alone.
    pub fn door(&self, client: usize) -> (Arc<Mutex<Hosted<Client>>>, Arc<dyn Driver>) {
        self.run.scene.tasks.door(client)
    }

    /// Adds a task that uses the front end of this client.
    pub fn spawn(&mut self, client: usize, task: impl Future<Output = ()> + 'static) {
        self.run.scene.tasks.spawn(client, task);
    }

    /// Writes down what happens, for a person to read: [`Simulation::run`] prints it if it finds something.
    pub fn with_trace(mut self) -> Self {
        self.run.trace = Trace::new(true);
        self
    }

    /// Runs until every task has ended, through faults first and then without. A task that panics has found something,
    /// and so has one that never ends. Returns the hash of the trace.
    pub fn run(mut self) -> Result<u64, Violation> {
        let run = &mut self.run;
        let verdict = guarded(|| {
            run.begin()?;
            run.schedule_faults();
            let over = |run: &Run| run.now >= Time::ZERO + STORM || run.scene.tasks.are_done();
            run.run_until(2 * STORM, "the storm goes on", over)?;
            run.calm_down();
            run.run_until(PATIENCE, "a task never ends", |run| run.scene.tasks.are_done())
        });
        let hash = self.run.trace.hash();
        self.print_if(&verdict);
        verdict.map(|()| hash)
    }
}
