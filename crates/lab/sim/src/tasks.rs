//! The tasks of a simulated run, and the front ends through which they see their clients.
//!
//! A front end shares a client with its driver, under a lock. In a simulated run the engine owns the machines; while a
//! task is polled, the client of its process is lent to the front end, and is back before anything else happens.

use client::Client;
use core::pin::Pin;
use core::task::{Context, Waker};
use core::{fmt, mem};
use machine::{Driver, Hosted, Node, Waiter, Wakers};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use types::{ClientId, Time};

/// The tasks, and the front ends of their processes.
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
        let client = Arc::new(Mutex::new(Hosted::new(nobody)));
        Self { client: client.clone(), driver: Arc::new(TaskDriver { client, waits: Mutex::default() }) }
    }
}

impl Tasks {
    /// No task yet, of so many clients, counted from 1.
    pub(crate) fn of(clients: usize) -> Self {
        Self { doors: (1..=clients).map(|number| (number, Door::new())).collect(), ..Self::default() }
    }

    /// The parts of a client that its front end needs.
    pub(crate) fn door(&self, client: usize) -> (Arc<Mutex<Hosted<Client>>>, Arc<dyn Driver>) {
        let door = &self.doors[&client];
        (door.client.clone(), door.driver.clone())
    }

    /// Adds a task that uses the front end of this client.
    pub(crate) fn spawn(&mut self, client: usize, task: impl Future<Output = ()> + 'static) {
        assert!(self.doors.contains_key(&client), "there is no client {client}");
        lock(&self.woken).push(self.all.len());
        self.all.push(Task { process: client, future: Some(Box::pin(task)) });
    }

    /// The process that a task belongs to.
    pub(crate) fn process_of(&self, id: usize) -> usize {
        self.all[id].process
    }

    pub(crate) fn are_done(&self) -> bool {
        self.all.iter().all(|task| task.future.is_none())
    }

    /// The tasks that have been woken since this was last asked.
    pub(crate) fn take_woken(&self) -> Vec<usize> {
        mem::take(&mut *lock(&self.woken))
    }

    /// A transaction of this process is woken.
    pub(crate) fn wake(&self, process: usize, waiter: Waiter) {
        if let Some(door) = self.doors.get(&process) {
            door.driver.wake(waiter);
        }
    }

    /// Polls a task with its process's client behind its door; gives the alarms that it has set.
    pub(crate) fn poll(&mut self, id: usize, now: Time, node: &mut Node) -> Vec<(Time, Waker)> {
        let task = &mut self.all[id];
        let door = &self.doors[&task.process];
        let Some(future) = &mut task.future else { return Vec::new() };
        lock(&door.driver.waits).now = now;
        node.exchange(&mut lock(&door.client));
        let waker = Waker::from(Arc::new(TaskWaker { id, woken: self.woken.clone() }));
        let ended = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        if ended {
            task.future = None;
        }
        node.exchange(&mut lock(&door.client));
        mem::take(&mut lock(&door.driver.waits).alarms)
    }
}

/// The driver of a simulated process, as its front end sees them.
#[derive(Debug)]
struct TaskDriver {
    client: Arc<Mutex<Hosted<Client>>>,
    waits: Mutex<Waits>,
}

#[derive(Debug, Default)]
struct Waits {
    now: Time,
    wakers: Wakers,
    alarms: Vec<(Time, Waker)>,
}

impl TaskDriver {
    fn wake(&self, waiter: Waiter) {
        let waker = lock(&self.waits).wakers.wake(waiter);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Driver for TaskDriver {
    fn now(&self) -> Time {
        lock(&self.waits).now
    }

    fn call(&self, call: &mut dyn FnMut(&mut Hosted, Time) -> bool) {
        let now = self.now();
        call(&mut *lock(&self.client), now);
    }

    /// The world carries everything out when the task waits or ends.
    fn settle(&self) {}

    fn wake_on(&self, waiter: Waiter, waker: &Waker) {
        let has_been = lock(&self.waits).wakers.wait(waiter, waker);
        if has_been {
            waker.wake_by_ref();
        }
    }

    fn forget(&self, waiter: Waiter) {
        lock(&self.waits).wakers.forget(waiter);
    }

    fn wake_at(&self, time: Time, waker: &Waker) {
        lock(&self.waits).alarms.push((time, waker.clone()));
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
