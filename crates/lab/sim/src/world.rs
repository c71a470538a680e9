//! The world of one run: whole nodes in virtual time, over a virtual network and a virtual disk.
//!
//! One event at a time: it reaches one process; the process's node settles; what it wants done is put in motion; then
//! the checkers look at what may have changed. Everything is drawn from one seed, so a run happens again and again.

use crate::actor::{Next, Stage, Thread};
use crate::check;
use crate::disk::{Disk, Operation};
use crate::enumerate::{CrashPoint, UnderWay};
use crate::executor::Tasks;
use crate::faults::{Copied, Fault};
use crate::history::{History, impossible};
use crate::layout::{Costs, Layout, Mishap, Traffic};
use crate::network::{End, Network};
use crate::process::{Process, STORE, TIMEOUTS_AT_ONCE_MAX};
use crate::queue::Queue;
use crate::rng::{Delay, Rng};
use crate::scenario::{Race, Scenario};
use crate::trace::Trace;
use crate::violation::{Check, Violation, ensure};
use client::{Client, TxnHandle};
use core::task::Waker;
use core::time::Duration;
use machine::{LOCAL, Machine, Node, RoleId, Said};
use redirector::Redirector;
use std::collections::VecDeque;
use std::rc::Rc;
use store::{DiskDone, Store};
use types::limits::LIVES_KEPT;
use types::{Broken, ClientId, ObjectId, PeerKey, SessionId, Time};

/// All that can happen.
#[derive(Debug)]
pub(crate) enum Event {
    /// Something arrives at one end of a connection.
    Arrive(SessionId, End),
    /// Some of what is on its way to one end arrives.
    Bytes(SessionId, End),
    /// The messages of a process's node to one end have left, and the node has awaited that.
    Room(SessionId, End, u32),
    /// A process's node settles: what came in since it did so last is worked on together.
    Settle(usize, u32),
    /// A client's driver connects to the store.
    Dial(usize, u32),
    /// A process waits no longer for an answer to its dialling.
    GiveUp(usize, u32, SessionId),
    /// The disk has done something.
    Disk(u32, Operation),
    /// The store learns of it.
    DiskDone(u32, DiskDone),
    /// A node's timeout is due.
    Timer(usize, u32),
    /// A thread of an application continues.
    Step(usize, u32, usize),
    /// A front end's task continues.
    Poll(usize),
    /// The time has come that a front end's task waits for.
    Alarm(Waker),
    /// Something goes wrong.
    Fault(Fault),
    /// Something goes wrong with a process of an experiment.
    Mishap(usize, Mishap),
    /// A process starts.
    Start(usize),
}

/// Events of one phase of a run, and of an experiment; more than this is a circle.
const EVENTS_MAX: u64 = 2_000_000;
const EXPERIMENT_EVENTS_MAX: u64 = 200_000_000;

/// Everything there is in a run.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own, and none excludes another")]
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) rng: Rng,
    pub(crate) scenario: Scenario,
    pub(crate) queue: Queue<Event>,
    pub(crate) trace: Trace,
    pub(crate) history: History,
    pub(crate) network: Network,
    pub(crate) disk: Disk,
    /// The copy that an operator has made of the store's directory.
    pub(crate) copy: Option<Copied>,
    turns: check::turns::Turns,
    pub(crate) processes: Vec<Process>,
    pub(crate) tasks: Tasks,
    pub(crate) created: Vec<ObjectId>,
    /// The applications are the simulator's own, so that everything that is read and written can be checked.
    pub(crate) judged: bool,
    /// The invariants are looked at after every event. Experiments of a million events are about time, and do without.
    pub(crate) watched: bool,
    /// The messages that each process has heard and sent.
    pub(crate) traffic: Vec<Rc<Traffic>>,
    /// Faults strike, as long as the storm lasts.
    pub(crate) storm: bool,
    pub(crate) attempts: u32,
    /// The objects that every process which starts from now on reads, once.
    pub(crate) audit: Option<Vec<ObjectId>>,
    /// A store that closes now is not started again.
    pub(crate) finale: bool,
    events: u64,
    /// Disk work that was submitted or done: where a crash can be put.
    pub(crate) disk_operations: u64,
    /// The store crashes as soon as its disk has something under way.
    pub(crate) crash_when_busy: bool,
    /// Where crashes are put, if they are not drawn.
    pub(crate) crashes: VecDeque<CrashPoint>,
    /// The work that was under way when the first of them came.
    pub(crate) under_way: UnderWay,
}

impl World {
    /// The world of a seed, steered towards `race` if that is said, with `broken` taken out of its roles.
    pub(crate) fn new(seed: u64, race: Option<Race>, broken: Broken, readable: bool) -> Self {
        let mut rng = Rng::new(seed);
        let scenario = Scenario::draw(&mut rng, broken, race);
        Self::of(scenario, rng, readable)
    }

    /// The world of a scenario; `rng` draws what happens in it.
    pub(crate) fn of(scenario: Scenario, rng: Rng, readable: bool) -> Self {
        let processes = scenario.processes();
        let mut history = History::default();
        let founding = history.found(scenario.habits.pages).expect("nothing stands before the first commit");
        Self {
            now: Time::ZERO,
            rng,
            queue: Queue::new(),
            trace: Trace::new(readable),
            history,
            network: Network::new(scenario.paths.clone(), scenario.pass_permille, scenario.store.broken),
            disk: Disk::new(scenario.disk.clone(), &founding),
            copy: None,
            turns: check::turns::Turns::default(),
            processes: (0..processes).map(|_| Process::default()).collect(),
            tasks: Tasks::default(),
            created: Vec::new(),
            judged: true,
            watched: true,
            traffic: (0..processes).map(|_| Rc::default()).collect(),
            storm: true,
            attempts: 0,
            audit: None,
            finale: false,
            events: 0,
            disk_operations: 0,
            crash_when_busy: false,
            crashes: VecDeque::new(),
            under_way: UnderWay::default(),
            scenario,
        }
    }

    /// The world of an experiment: its tasks are judged by the experiment itself.
    pub(crate) fn laid_out(layout: &Layout, mut rng: Rng) -> Self {
        let scenario = Scenario::laid_out(&mut rng, layout);
        let disk = Disk::holding(scenario.disk.clone(), &layout.stored);
        let mut world = Self { disk, judged: false, watched: false, storm: false, ..Self::of(scenario, rng, false) };
        world.network.to_store = Some(Delay::exactly(layout.distances.far));
        world
    }

    /// Runs until `done`, and not longer than `bound`.
    pub(crate) fn run_until(&mut self, bound: Duration, what: &str, done: impl Fn(&Self) -> bool) -> Check {
        let deadline = self.now + bound;
        self.expect_polls();
        let events_max = self.events + if self.watched { EVENTS_MAX } else { EXPERIMENT_EVENTS_MAX };
        while !done(self) {
            self.events += 1;
            ensure(self.events < events_max, "liveness", || format!("{what}, and does so in circles"))?;
            let Some((at, event)) = self.queue.pop() else {
                return Err(self.stuck(what));
            };
            if at > deadline {
                return Err(self.stuck(what));
            }
            self.now = at;
            self.happen(event)?;
            self.expect_polls();
        }
        Ok(())
    }

    fn stuck(&self, what: &str) -> Violation {
        let waiting = |(number, process): (usize, &Process)| {
            let threads: Vec<_> = process.threads.iter().filter(|thread| !thread.is_done()).collect();
            (!threads.is_empty()).then(|| format!("\n  process {number}: {threads:?}"))
        };
        let waiting: String = self.processes.iter().enumerate().filter_map(waiting).collect();
        Violation { checker: "liveness", text: format!("{what}, and nothing stands in the way{waiting}") }
    }

    /// Puts an event where it belongs. A paused process takes it later.
    fn happen(&mut self, event: Event) -> Check {
        if let Some(until) = self.paused(&event) {
            self.queue.push(until, event);
            return Ok(());
        }
        match event {
            Event::Arrive(connection, to) => self.arrive(connection, to),
            Event::Bytes(connection, to) => self.bytes(connection, to),
            Event::Room(connection, to, life) => self.room(connection, to, life),
            Event::Settle(process, life) if self.lives(process, life) => self.pump(process),
            Event::Dial(process, life) if self.lives(process, life) => self.dial(process),
            Event::GiveUp(process, life, connection) if self.lives(process, life) => {
                self.give_up(process, connection);
                Ok(())
            }
            Event::Disk(life, operation) if self.processes[STORE].life == life => self.finish(operation),
            Event::DiskDone(life, done) if self.lives(STORE, life) => self.disk_done(done),
            Event::Timer(process, life) if self.lives(process, life) => self.timer(process),
            Event::Step(process, life, thread) if self.lives(process, life) => self.step(process, thread),
            Event::Poll(task) => self.poll(task),
            Event::Alarm(waker) => {
                waker.wake();
                Ok(())
            }
            Event::Fault(fault) => self.strike(fault),
            Event::Mishap(process, mishap) => self.inject(process, mishap),
            Event::Start(process) => self.start(process),
            // It was meant for an earlier life of the process.
            Event::Settle(..)
            | Event::Dial(..)
            | Event::GiveUp(..)
            | Event::Disk(..)
            | Event::DiskDone(..)
            | Event::Timer(..)
            | Event::Step(..) => Ok(()),
        }
    }

    fn lives(&self, process: usize, life: u32) -> bool {
        self.processes[process].life == life && self.processes[process].node.is_some()
    }

    fn paused(&mut self, event: &Event) -> Option<Time> {
        let process = match *event {
            Event::DiskDone(..) => STORE,
            Event::Arrive(connection, to) | Event::Bytes(connection, to) => {
                self.network.connection(connection)?.process(to)
            }
            Event::Room(connection, to, _) => self.network.connection(connection)?.process(to.other()),
            Event::Dial(process, _)
            | Event::Settle(process, _)
            | Event::GiveUp(process, ..)
            | Event::Timer(process, _)
            | Event::Step(process, ..) => process,
            Event::Poll(task) => self.tasks.process_of(task),
            Event::Disk(..) | Event::Alarm(_) | Event::Fault(_) | Event::Mishap(..) | Event::Start(_) => {
                return None;
            }
        };
        let process = &self.processes[process];
        let until = process.paused_until.max(process.busy_until);
        (until > self.now).then_some(until)
    }

    /// A process starts, with an empty cache; a store with what its disk has.
    pub(crate) fn start(&mut self, number: usize) -> Check {
        if self.processes[number].node.is_some() || !self.scenario.exists(number) {
            return Ok(());
        }
        self.trace.event(self.now, &[1, number as u64], || format!("process {number} starts"));
        let has_redirector = self.scenario.is_redirector(number) || self.scenario.eligible.contains(&number);
        let is_member = !self.scenario.is_redirector(number);
        let has_client = if number == STORE { self.scenario.embedded } else { is_member };
        let client = has_client.then(|| self.new_client(number));
        let mut node = Node::new();
        let beside = match number {
            STORE => Some(node.add(self.open_store())),
            _ if has_redirector => Some(node.add(self.new_redirector(number))),
            _ => None,
        };
        if let Some(client) = client {
            let client = node.add(client);
            match beside {
                Some(store) if number == STORE => node.link(client, store),
                Some(redirector) => node.stand_beside(client, redirector),
                None => {}
            }
        }
        node.start(self.clock(number));
        self.processes[number].node = Some(node);
        self.take_peers(number);
        if has_client {
            self.start_threads(number);
        }
        if number != STORE {
            self.dial_later(number);
        }
        self.pump(number)?;
        // It crashed while it was closing: it is closed again.
        if number == STORE && self.finale { self.close_store() } else { Ok(()) }
    }

    fn new_client(&mut self, number: usize) -> Client {
        let group = self.scenario.group_of(number);
        let name = group.filter(|_| self.scenario.named).map(|group| format!("g{group}"));
        let is_eligible = group.is_some() && self.scenario.eligible.contains(&number);
        let eligible = if is_eligible { format!("p{number}") } else { String::new() };
        let config = client::Config { group: name, eligible, ..self.scenario.client.clone() };
        Client::new(config, self.new_id(number))
    }

    /// A member of a group takes connections of its peers.
    fn take_peers(&mut self, number: usize) {
        if self.scenario.group_of(number).is_none() || !self.scenario.peers {
            return;
        }
        let (now, key) = (self.clock(number), self.key_of(number));
        if let Some(client) = self.processes[number].client() {
            Machine::reachable(client, now, format!("p{number}"), key);
        }
    }

    fn new_redirector(&self, number: usize) -> Redirector {
        // Beside a client of the same life it has another name.
        let id = ClientId(self.new_id(number).0 + 500);
        Redirector::new(self.scenario.redirector(number), id)
    }

    /// The identity of a process in this life of its.
    fn new_id(&self, number: usize) -> ClientId {
        ClientId((number as u64 + 1) * 1000 + u64::from(self.processes[number].life))
    }

    /// The key with which a process lets peers in, in this life of its.
    pub(crate) fn key_of(&self, number: usize) -> PeerKey {
        PeerKey::new(u128::from(self.new_id(number).0).to_le_bytes())
    }

    fn open_store(&mut self) -> Store {
        let (opened, records) = self.disk.open();
        self.trace.event(self.now, &[2, records.len() as u64], || {
            let (pages, records) = (opened.pages.len(), records.len());
            format!("the store opens its disk: {pages} pages at {:?}, {records} records", opened.checkpoint.applied)
        });
        self.turns = check::turns::Turns::default();
        self.history.branches.begin_life(opened.life);
        let mut store = Store::new(self.scenario.store(self.processes[STORE].life), opened);
        for (position, record) in records {
            store.recover(position, record);
        }
        store
    }

    fn start_threads(&mut self, number: usize) {
        let audit = self.audit.clone();
        let count = if audit.is_some() { 1 } else { self.scenario.threads };
        for thread in 0..count {
            let mut new = Thread::new(audit.clone());
            new.last_one = !self.storm;
            self.processes[number].threads.push(new);
            let rest = self.rng.around(self.scenario.habits.rest);
            self.later(rest, Event::Step(number, self.processes[number].life, thread));
        }
    }

    /// A process has heard a message, and works on it for a while.
    pub(crate) fn work(&mut self, number: usize) {
        self.traffic[number].hear();
        let Costs { client, redirector, store } = self.scenario.costs;
        let cost = match number {
            STORE => store,
            _ if self.scenario.is_redirector(number) => redirector,
            _ => client,
        };
        self.processes[number].busy_until = self.now + cost;
    }

    pub(crate) fn later(&mut self, after: Duration, event: Event) {
        self.queue.push(self.now + after, event);
    }

    /// A message has come in: the node settles at once, or with what comes right behind it.
    pub(crate) fn settle(&mut self, number: usize) -> Check {
        let together = self.scenario.together_permille;
        if together == 0 || !self.rng.chance(together) {
            return self.pump(number);
        }
        let (after, life) = (self.rng.around(Duration::from_micros(50)), self.processes[number].life);
        self.later(after, Event::Settle(number, life));
        Ok(())
    }

    /// Lets a process's node settle, does what it wants done, and looks at what came of it.
    pub(crate) fn pump(&mut self, number: usize) -> Check {
        let clock = self.clock(number);
        self.defer(number);
        while let Some((role, said)) = self.processes[number].node.as_mut().and_then(|node| node.poll(clock)) {
            self.carry_out(number, role, said)?;
        }
        self.set_timer(number);
        self.look(number)
    }

    /// A client and a store of one process hear each other a little later, now and then: as threads take that there.
    fn defer(&mut self, number: usize) {
        if !(number == STORE && self.scenario.embedded) {
            return;
        }
        let defers = self.rng.chance(300);
        let (after, life) = (self.rng.around(Duration::from_micros(20)), self.processes[number].life);
        if let Some(node) = &mut self.processes[number].node {
            node.defer(defers);
        }
        if defers {
            self.later(after, Event::Settle(number, life));
        }
    }

    fn carry_out(&mut self, number: usize, role: RoleId, said: Said) -> Check {
        let link = |port| self.processes[number].link_of(role, port);
        match said {
            Said::Send(port, message) => {
                let link = link(port);
                if self.judged
                    && number == STORE
                    && let Some(message) = message.get()
                {
                    check::answers::message(self.history.ledger(), message)?;
                }
                let Some((connection, end)) = self.connection_of(number, link) else { return Ok(()) };
                self.traffic[number].say();
                self.send(connection, end.other(), message)
            }
            Said::AwaitRoom(port) => {
                self.await_room(number, link(port));
                Ok(())
            }
            Said::End(port, reason, text) => self.hang_up(number, link(port), reason, &text),
            Said::Dial(peer, address) => self.dial_peer(number, peer, &address),
            Said::Disk(work) => self.submit(work.open().expect("only the store has a disk")),
            Said::Wake(txn) => {
                self.wake(number, txn.into());
                Ok(())
            }
            // The node has told it already.
            Said::Tell(..) => Ok(()),
            Said::Closed => {
                self.trace.event(self.now, &[3], || "the store has closed");
                self.processes[number].closed = true;
                if self.finale { Ok(()) } else { self.close_process() }
            }
        }
    }

    /// The store's process ends in good order, and starts again later.
    fn close_process(&mut self) -> Check {
        let unsynced = self.disk.unsynced();
        ensure(unsynced == 0, "durability", || {
            format!("the store has closed, and {unsynced} appends are not durable")
        })?;
        self.kill_store();
        self.disk.crash(0, false);
        let after = self.rng.around(Duration::from_millis(30));
        self.later(after, Event::Start(STORE));
        Ok(())
    }

    fn set_timer(&mut self, number: usize) {
        let Some(due) = self.processes[number].node.as_ref().and_then(Node::poll_timeout) else { return };
        let stood = self.processes[number].stood(self.now);
        let due = (self.scenario.time_at(number, due) + stood).max(self.now);
        let process = &mut self.processes[number];
        if process.timer.is_none_or(|set| due < set) {
            process.timer = Some(due);
            self.queue.push(due, Event::Timer(number, process.life));
        }
    }

    fn timer(&mut self, number: usize) -> Check {
        let (now, clock) = (self.now, self.clock(number));
        let process = &mut self.processes[number];
        // An earlier timer has taken its place, and has set the next one. There is one at a time.
        if process.timer.is_none_or(|set| set > now) {
            return Ok(());
        }
        process.timer = None;
        let node = process.node.as_mut().expect("only the living have timers");
        if node.poll_timeout().is_some_and(|due| due <= clock) {
            let at_once = if process.timeouts.0 == now { process.timeouts.1 + 1 } else { 0 };
            process.timeouts = (now, at_once);
            ensure(at_once < TIMEOUTS_AT_ONCE_MAX, "liveness", || {
                format!("process {number} handles timeout after timeout, and time does not pass")
            })?;
            self.trace.event(now, &[4, number as u64], || format!("process {number}: timeout"));
            node.handle_timeout(clock);
        }
        self.pump(number)
    }

    /// The time that a process's clock shows: it may be a little fast, or slow.
    pub(crate) fn clock(&self, number: usize) -> Time {
        let stood = self.processes[number].stood(self.now);
        self.scenario.clock(number, Time::ZERO + self.now.since(Time::ZERO).saturating_sub(stood))
    }

    fn step(&mut self, number: usize, thread: usize) -> Check {
        let clock = self.clock(number);
        let process = &mut self.processes[number];
        let client = process.node.as_mut().and_then(|node| node.find_mut::<Client>());
        let client = client.ok_or_else(|| impossible("no client".into()))?;
        let before = process.threads[thread].running();
        let mut stage = Stage {
            now: clock,
            client,
            history: &mut self.history,
            habits: &self.scenario.habits,
            patience: self.scenario.client.patience,
            created: &mut self.created,
            rng: &mut self.rng,
            trace: &mut self.trace,
            process: number,
        };
        let next = process.threads[thread].step(&mut stage)?;
        let begun = before.is_none() && process.threads[thread].running().is_some();
        self.attempts = self.attempts.saturating_add(u32::from(begun));
        if let Next::After(after) = next {
            let event = Event::Step(number, self.processes[number].life, thread);
            self.later(after, event);
        }
        self.pump(number)
    }

    fn wake(&mut self, number: usize, txn: TxnHandle) {
        self.tasks.wake(number, txn.into());
        let process = &mut self.processes[number];
        let waiting = |thread: &Thread| thread.waiting && thread.handle() == Some(txn);
        let Some(thread) = process.threads.iter().position(waiting) else { return };
        process.threads[thread].waiting = false;
        let event = Event::Step(number, process.life, thread);
        let after = self.rng.around(Duration::from_micros(20));
        self.later(after, event);
    }

    /// Holds everything that an event at this process can have changed against the invariants.
    fn look(&mut self, number: usize) -> Check {
        if !self.watched {
            return Ok(());
        }
        let process = &mut self.processes[number];
        if let Some(client) = process.node.as_mut().and_then(|node| node.find_mut::<Client>()).filter(|_| self.judged) {
            let branch = self.history.branch_of(client.life()).unwrap_or(self.history.branches.newest());
            process.never_back.be_on(branch);
            // After so many starts a client takes its store for a copy that was put back, and begins again with
            // nothing.
            if client.life().is_none() && self.history.branches.lives() > LIVES_KEPT {
                process.never_back.begin_anew();
            }
            check::frames::all(client, self.history.branches.ledger(branch), &mut process.never_back)?;
            for (handle, attempt) in process.threads.iter().filter_map(Thread::running) {
                if client.check(handle).is_ok() {
                    check::stable_reads::transaction(client.cache(), self.history.attempt(attempt))?;
                }
            }
        }
        if let Some(store) = process.look::<Store>() {
            self.turns.look(store)?;
            if store.has_forgotten() {
                // The session of an embedded client ends without any connection's ending.
                check::unknown::forgot(self.network.has_ended_any() || self.scenario.embedded)?;
                self.history.has_forgotten = true;
            }
        }
        let has_many = number == STORE || self.scenario.is_redirector(number);
        let holders = if has_many { 0..self.processes.len() } else { number..number + 1 };
        holders.into_iter().try_for_each(|process| self.look_at_holder(process))
    }

    fn look_at_holder(&mut self, number: usize) -> Check {
        let (server, session) = match self.processes[number].uplink {
            None if number == STORE && self.scenario.embedded => (STORE, LOCAL),
            Some(uplink) => match self.network.connection(uplink) {
                Some(connection) if connection.accepted => (connection.listener, uplink),
                _ => return Ok(()),
            },
            None => return Ok(()),
        };
        let trunk = self.processes[server].trunk;
        let trunk = trunk.filter(|&trunk| self.network.connection(trunk).is_some_and(|found| found.accepted));
        let Some(client) = self.processes[number].look::<Client>() else { return Ok(()) };
        let (store, server) = (self.processes[STORE].look::<Store>(), &self.processes[server]);
        match (server.look::<Store>(), server.look::<Redirector>()) {
            (Some(store), _) => check::holders::client(client, store, session),
            (None, Some(redirector)) => {
                check::holders::member(client, redirector, session)?;
                let (Some(store), Some(trunk)) = (store, trunk) else { return Ok(()) };
                let is_restored = self.history.branches.newest() > 0;
                check::holders::group(client, redirector, session, store, trunk, is_restored)
            }
            _ => Ok(()),
        }
    }
}
