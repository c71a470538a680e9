//! Front doors in virtual time: futures that run over the simulator's nodes.
//!
//! A front end shares a client with its driver, under a lock. In a simulated run the world owns the machines; while a
//! task is polled, the client of its process is lent to the front end, and is back before anything else happens.

use crate::layout::{Layout, Mishap, Stored, Traffic};
use crate::process::STORE;
use crate::rng::Rng;
use crate::run::guarded;
use crate::scenario::Scenario;
use crate::trace::Trace;
use crate::violation::{Check, Violation};
use crate::world::{Event, World};
use client::Client;
use core::fmt;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Waker};
use core::time::Duration;
use machine::{Driver, Hosted, Node, Waiter, Wakers};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use types::{ClientId, Time};

/// How long faults strike, and how long the tasks may take in all: virtual time.
const STORM: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(600);

/// A store and its clients in virtual time, for tasks that use them through a front end. A seed draws the same as in
/// any other run, but clients do not crash and disks have room.
#[derive(Debug)]
pub struct Simulation {
    world: World,
}

impl Simulation {
    /// A store and `clients` clients.
    pub fn new(seed: u64, clients: usize) -> Self {
        let mut rng = Rng::new(seed);
        let scenario = Scenario::for_tasks(&mut rng, clients);
        let mut world = World::of(scenario, rng, false);
        world.judged = false;
        world.tasks.doors = (1..=clients).map(|number| (number, Door::new())).collect();
        Self { world }
    }

    /// A store and its clients as an experiment lays them out. `seed` draws the order of what happens at one time.
    pub fn laid_out(seed: u64, layout: &Layout) -> Self {
        let mut world = World::laid_out(layout, Rng::new(seed));
        world.tasks.doors = (1..=layout.clients).map(|number| (number, Door::new())).collect();
        Self { world }
    }

    /// Runs until every task of an experiment has ended, however long that takes of virtual time, and closes the store.
    /// Returns what it has.
    pub fn run_and_close(mut self) -> Result<Stored, Violation> {
        let world = &mut self.world;
        let verdict = guarded(|| {
            world.begin()?;
            world.run_until(Duration::from_secs(1 << 20), "a task never ends", |world| world.tasks.are_done())?;
            world.finale = true;
            world.close_store()?;
            world.run_until(PATIENCE, "the store does not close", |world| world.processes[STORE].closed)
        });
        if verdict.is_err() {
            mem::take(&mut self.world.trace).into_lines().iter().for_each(|line| println!("{line}"));
        }
        verdict.map(|()| self.world.disk.stored())
    }

    /// The messages of a group's redirector, groups counted from 0, while the simulation runs.
    pub fn redirector_traffic(&self, group: usize) -> Rc<Traffic> {
        self.world.traffic[self.world.scenario.redirectors().start + group].clone()
    }

    /// Injects this fault into the redirector that a group has of its own, groups counted from 0, at that time.
    pub fn inject(&mut self, at: Time, group: usize, mishap: Mishap) {
        let redirector = self.world.scenario.redirectors().start + group;
        self.world.queue.push(at, Event::Mishap(redirector, mishap));
    }

    /// The parts of a client, counted from 1, that a front end needs: the client and its driver. To be used by tasks
    /// of this client alone.
    pub fn door(&self, client: usize) -> (Arc<Mutex<Hosted<Client>>>, Arc<dyn Driver>) {
        let door = &self.world.tasks.doors[&client];
        (door.client.clone(), door.driver.clone())
    }

    /// Adds a task that uses the front end of this client.
    pub fn spawn(&mut self, client: usize, task: impl Future<Output = ()> + 'static) {
        assert!(self.world.tasks.doors.contains_key(&client), "there is no client {client}");
        let id = self.world.tasks.all.len();
        self.world.tasks.all.push(Task { process: client, future: Some(Box::pin(task)) });
        lock(&self.world.tasks.woken).push(id);
    }

    /// Writes down what happens, for a person to read: [`Simulation::run`] prints it if it finds something.
    pub fn with_trace(mut self) -> Self {
        self.world.trace = Trace::new(true);
        self
    }

    /// Runs until every task has ended, through faults first and then without. A task that panics has found something,
    /// and so has one that never ends. Returns the hash of the trace.
    pub fn run(mut self) -> Result<u64, Violation> {
        let world = &mut self.world;
        let verdict = guarded(|| {
            world.begin()?;
            world.schedule_faults();
            let over = |world: &World| world.now >= Time::ZERO + STORM || world.tasks.are_done();
            world.run_until(2 * STORM, "the storm goes on", over)?;
            world.calm();
            world.run_until(PATIENCE, "a task never ends", |world| world.tasks.are_done())
        });
        let hash = self.world.trace.hash();
        if verdict.is_err() {
            self.world.trace.into_lines().iter().for_each(|line| println!("{line}"));
        }
        verdict.map(|()| hash)
    }
}

/// The tasks of a simulated run, and the doors through which they see their clients.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    all: Vec<Task>,
    doors: BTreeMap<usize, Door>,
    woken: Arc<Mutex<Vec<usize>>>,
}

struct Task {
    process: usize,
    /// `None` when it has ended.
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task(process {}, {})", self.process, if self.future.is_some() { "runs" } else { "done" })
    }
}

/// The state of one process's front end.
#[derive(Debug)]
struct Door {
    /// The process's client while a task is polled, and a client without a link at any other time.
    client: Arc<Mutex<Hosted<Client>>>,
    driver: Arc<TaskDriver>,
}

impl Door {
    fn new() -> Self {
        let nobody = Client::new(client::Config::default(), ClientId(0));
        Self { client: Arc::new(Mutex::new(Hosted::new(nobody))), driver: Arc::default() }
    }
}

impl Tasks {
    /// The process that a task belongs to.
    pub(crate) fn process_of(&self, id: usize) -> usize {
        self.all[id].process
    }

    fn are_done(&self) -> bool {
        self.all.iter().all(|task| task.future.is_none())
    }

    /// The tasks that have been woken since this was last asked.
    fn take_woken(&self) -> Vec<usize> {
        mem::take(&mut *lock(&self.woken))
    }

    /// A transaction of this process is woken.
    pub(crate) fn wake(&self, process: usize, waiter: Waiter) {
        if let Some(door) = self.doors.get(&process) {
            door.driver.wake(waiter);
        }
    }

    /// Polls a task with its process's client behind its door; gives the alarms that it has set.
    fn poll(&mut self, id: usize, now: Time, node: &mut Node) -> Vec<(Time, Waker)> {
        let task = &mut self.all[id];
        let door = &self.doors[&task.process];
        let Some(future) = &mut task.future else { return Vec::new() };
        lock(&door.driver.0).now = now;
        node.exchange(&mut lock(&door.client));
        let waker = Waker::from(Arc::new(TaskWaker { id, woken: self.woken.clone() }));
        let ended = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        if ended {
            task.future = None;
        }
        node.exchange(&mut lock(&door.client));
        mem::take(&mut lock(&door.driver.0).alarms)
    }
}

impl World {
    /// Tasks that were woken are polled soon, in an order that is drawn.
    pub(crate) fn expect_polls(&mut self) {
        for id in self.tasks.take_woken() {
            let after = self.rng.around(Duration::from_micros(10));
            self.later(after, Event::Poll(id));
        }
    }

    /// Polls a task, and does what its node wants done.
    pub(crate) fn poll(&mut self, id: usize) -> Check {
        let number = self.tasks.process_of(id);
        debug_assert_ne!(number, STORE);
        let Some(node) = &mut self.processes[number].node else { return Ok(()) };
        for (at, waker) in self.tasks.poll(id, self.now, node) {
            self.queue.push(at.max(self.now), Event::Alarm(waker));
        }
        self.pump(number)
    }
}

/// The driver of a simulated process, as its front end sees them.
#[derive(Debug, Default)]
struct TaskDriver(Mutex<Waits>);

#[derive(Debug, Default)]
struct Waits {
    now: Time,
    wakers: Wakers,
    alarms: Vec<(Time, Waker)>,
}

impl TaskDriver {
    fn wake(&self, waiter: Waiter) {
        let waker = lock(&self.0).wakers.wake(waiter);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Driver for TaskDriver {
    fn now(&self) -> Time {
        lock(&self.0).now
    }

    /// The world carries everything out when the task waits or ends.
    fn settle(&self) {}

    fn wake_on(&self, waiter: Waiter, waker: &Waker) {
        let has_been = lock(&self.0).wakers.wait(waiter, waker);
        if has_been {
            waker.wake_by_ref();
        }
    }

    fn forget(&self, waiter: Waiter) {
        lock(&self.0).wakers.forget(waiter);
    }

    fn wake_at(&self, time: Time, waker: &Waker) {
        lock(&self.0).alarms.push((time, waker.clone()));
    }
}

struct TaskWaker {
    id: usize,
    woken: Arc<Mutex<Vec<usize>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        lock(&self.woken).push(self.id);
    }
}

/// A task that panics has found something, and the run ends: what it held is as good as before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
