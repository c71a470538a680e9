//! Runs of the store's family: a store, its clients, alone or in groups, applications that use them, and the checkers
//! that look at every step.

use crate::actor::{Next, Stage, Thread};
use crate::branches::BranchId;
use crate::check::{self, never_back::NeverBack};
use crate::crash_point::{CrashPoint, UnderWay};
use crate::disk::StoreDisk;
use crate::drive::Drive;
use crate::engine::{Engine, Event, Manners, Scene};
use crate::history::{History, impossible};
use crate::layout::{Layout, Mishap};
use crate::ledger::Rank;
use crate::network::{Family, Network, Path, Place};
use crate::process::{Process, Server};
use crate::rng::{Delay, Rng};
use crate::scenario::{Day, STORE, Scenario, StoreFault};
use crate::tasks::Tasks;
use crate::trace::Trace;
use crate::violation::{Check, Violation, ensure};
use client::{Client, TxnHandle};
use core::mem;
use core::task::Waker;
use core::time::Duration;
use machine::{Event as Told, LOCAL, Link, Machine, Node, Parcel, Port, RoleId, Waiter};
use messages::ToClient;
use redirector::Redirector;
use session::Target;
use std::collections::VecDeque;
use store::{Record, Store};
use types::limits::LIVES_KEPT;
use types::{Broken, ClientId, ObjectId, PeerKey, Rule, SessionId};

/// A run of the store's family.
pub(crate) type Run = Engine<StoreRun>;

const SESSIONS: Family = Family { client: messages::CLIENT, server: messages::SERVER };

/// Events of one phase of an experiment; more than this is a circle.
const EXPERIMENT_EVENTS_MAX: u64 = 200_000_000;

/// The events of a run beside those of its processes.
#[derive(Debug)]
pub(crate) enum StoreEvent {
    /// A thread of an application continues.
    Step(usize, u32, usize),
    /// A front end's task continues.
    Poll(usize),
    /// The time has come that a front end's task waits for.
    Alarm(Waker),
    /// Something goes wrong with a process of an experiment.
    Mishap(usize, Mishap),
}

/// The application of a process, and the view that its cache has had.
#[derive(Debug, Default)]
pub(crate) struct Application {
    pub(crate) threads: Vec<Thread>,
    never_back: NeverBack,
}

/// A copy of the store's directory.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) disk: StoreDisk,
    /// Which history it was copied from, and at which rank.
    pub(crate) from: BranchId,
    pub(crate) at: Rank,
}

/// Everything in a run that is no process.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own, and none excludes another")]
pub(crate) struct StoreRun {
    pub(crate) scenario: Scenario,
    pub(crate) history: History,
    turns: check::turns::Turns,
    pub(crate) applications: Vec<Application>,
    pub(crate) tasks: Tasks,
    created: Vec<ObjectId>,
    /// The applications are the simulator's own, so that everything that is read and written can be checked.
    pub(crate) judged: bool,
    /// The invariants are looked at after every event. Experiments of a million events are about time, and do without.
    watched: bool,
    pub(crate) attempts: u32,
    /// The objects that every process which starts from now on reads, once.
    pub(crate) audit: Option<Vec<ObjectId>>,
    /// A store that closes now is not started again.
    pub(crate) finale: bool,
    /// The copy that an operator has made of the store's directory.
    pub(crate) copy: Option<Copied>,
    /// The store crashes as soon as its disk has something under way.
    pub(crate) crash_when_busy: bool,
    /// Where crashes are put, if they are not drawn.
    pub(crate) crashes: VecDeque<CrashPoint>,
    /// The work that was under way when the first of them came.
    pub(crate) under_way: UnderWay,
}

impl StoreRun {
    fn of(scenario: Scenario, history: History) -> Self {
        let (turns, tasks, created, audit, copy, crashes, under_way) = Default::default();
        Self {
            history,
            turns,
            applications: (0..scenario.processes()).map(|_| Application::default()).collect(),
            tasks,
            created,
            judged: true,
            watched: true,
            attempts: 0,
            audit,
            finale: false,
            copy,
            crash_when_busy: false,
            crashes,
            under_way,
            scenario,
        }
    }
}

impl Run {
    /// The run of a seed, steered towards `race` if that is said, with `broken` taken out of its roles.
    pub(crate) fn drawn(seed: u64, day: Day, broken: Broken, readable: bool) -> Self {
        let mut rng = Rng::new(seed);
        let scenario = Scenario::draw(&mut rng, broken, day);
        Self::of(scenario, rng, readable)
    }

    /// The run of a scenario; `rng` draws what happens in it.
    pub(crate) fn of(scenario: Scenario, rng: Rng, readable: bool) -> Self {
        let mut history = History::new(scenario.store.sharding);
        let founding = history.found(scenario.habits.pages).expect("nothing stands before the first commit");
        let disk = StoreDisk::new(scenario.disk.clone(), scenario.store.sharding, &founding);
        Self::with(scenario, history, disk, rng, readable)
    }

    /// The run of an experiment: its tasks are judged by the experiment itself.
    pub(crate) fn laid_out(layout: &Layout, mut rng: Rng) -> Self {
        let scenario = Scenario::laid_out(&mut rng, layout);
        let disk = StoreDisk::holding(scenario.disk.clone(), scenario.store.sharding, &layout.stored);
        let history = History::new(scenario.store.sharding);
        let mut run = Self::with(scenario, history, disk, rng, false);
        (run.scene.judged, run.scene.watched, run.faults.storm) = (false, false, false);
        run.events_max = EXPERIMENT_EVENTS_MAX;
        for process in 0..run.processes.len() {
            run.network.set_between(STORE, process, Path::of(Delay::exactly(layout.distances.far)));
        }
        run
    }

    fn with(scenario: Scenario, history: History, disk: StoreDisk, rng: Rng, readable: bool) -> Self {
        let broken = scenario.store.broken;
        let manners = Manners {
            together_permille: scenario.together_permille,
            through_bytes: scenario.through_bytes,
            ignorance: scenario.ignorance,
            standstill: scenario.standstill,
            clocks_stop: broken.is(Rule::RunOnAsleep),
        };
        let network = Network::new(scenario.paths.clone(), scenario.pass_permille, broken);
        let scene = StoreRun::of(scenario, history);
        let mut run = Engine::new(scene, manners, rng, network, Trace::new(readable));
        run.processes = (0..run.scene.scenario.processes()).map(|number| run.scene.scenario.process(number)).collect();
        run.processes[STORE].drives.insert(RoleId::ONLY, Drive::new(disk));
        run.faults.rates = run.scene.scenario.rates.all();
        run
    }

    /// The store's disk.
    pub(crate) fn disk(&mut self) -> &mut StoreDisk {
        let drive = self.processes[STORE].drives.get_mut(&RoleId::ONLY);
        drive.and_then(Drive::get_mut).expect("the store has its disk")
    }

    fn new_client(&self, number: usize) -> Client {
        let scenario = &self.scene.scenario;
        let group = scenario.group_of(number);
        let name = group.filter(|_| scenario.named).map(|group| format!("g{group}"));
        let is_eligible = group.is_some() && scenario.eligible.contains(&number);
        let eligible = if is_eligible { format!("p{number}") } else { String::new() };
        let config = client::Config { group: name, eligible, ..scenario.client.clone() };
        Client::new(config, self.new_id(number))
    }

    fn new_redirector(&self, number: usize) -> Redirector {
        // Beside a client of the same life it has another name.
        let id = ClientId(self.new_id(number).0 + 500);
        Redirector::new(self.scene.scenario.redirector(number), id)
    }

    /// The identity of a process in this life of its.
    fn new_id(&self, number: usize) -> ClientId {
        ClientId((number as u64 + 1) * 1000 + u64::from(self.processes[number].life))
    }

    fn open_store(&mut self) -> Store {
        let (opened, records) = self.disk().open();
        self.trace.event(self.now, &[2, records.len() as u64], || {
            let (pages, records) = (opened.pages.len(), records.len());
            format!("the store opens its disk: {pages} pages at {:?}, {records} records", opened.checkpoint.applied)
        });
        self.scene.turns = check::turns::Turns::default();
        self.scene.history.branches.begin_life(opened.life);
        let mut store = Store::new(self.scene.scenario.store(self.processes[STORE].life), opened);
        for (position, record) in records {
            store.recover(position, record);
        }
        store
    }

    fn start_threads(&mut self, number: usize) {
        let audit = self.scene.audit.clone();
        let count = if audit.is_some() { 1 } else { self.scene.scenario.threads };
        for thread in 0..count {
            let mut new = Thread::new(audit.clone());
            new.last_one = !self.faults.storm;
            self.scene.applications[number].threads.push(new);
            let rest = self.rng.around(self.scene.scenario.habits.rest);
            let life = self.processes[number].life;
            self.later(rest, Event::Scene(StoreEvent::Step(number, life, thread)));
        }
    }

    /// The store's process ends in good order, and starts again later.
    fn close_process(&mut self) -> Check {
        let unsynced = self.disk().unsynced();
        ensure(unsynced == 0, "durability", || {
            format!("the store has closed, and {unsynced} appends are not durable")
        })?;
        self.kill(STORE);
        self.disk().crash(0, false);
        let after = self.rng.around(Duration::from_millis(30));
        self.later(after, Event::Start(STORE));
        Ok(())
    }

    /// The process's application runs nothing, and begins nothing new.
    pub(crate) fn rests(&self, number: usize) -> bool {
        self.processes[number].node.is_some() && self.scene.applications[number].threads.iter().all(Thread::is_done)
    }

    fn step_thread(&mut self, number: usize, thread: usize) -> Check {
        let (clock, life) = (self.clock(number), self.processes[number].life);
        let scene = &mut self.scene;
        let client = self.processes[number].node.as_mut().and_then(|node| node.find_mut::<Client>());
        let client = client.ok_or_else(|| impossible("no client".into()))?;
        let thread_of = &mut scene.applications[number].threads[thread];
        let before = thread_of.running();
        let mut stage = Stage {
            now: clock,
            client,
            history: &mut scene.history,
            habits: &scene.scenario.habits,
            patience: scene.scenario.client.patience,
            created: &mut scene.created,
            rng: &mut self.rng,
            trace: &mut self.trace,
            process: number,
        };
        let next = thread_of.step(&mut stage)?;
        let begun = before.is_none() && thread_of.running().is_some();
        scene.attempts = scene.attempts.saturating_add(u32::from(begun));
        if let Next::After(after) = next {
            self.later(after, Event::Scene(StoreEvent::Step(number, life, thread)));
        }
        self.pump(number)
    }

    /// Records have become durable: the ledger takes the commits among them.
    pub(crate) fn durable(&mut self, records: &[Record]) -> Check {
        for record in records.iter().filter(|_| self.scene.judged) {
            if let Record::Commit(commit) = record {
                self.scene.history.durable(commit)?;
                let (rank, counts) = (self.scene.history.ledger().rank(), &commit.counts);
                self.trace.event(self.now, &[14, rank.0 as u64], || format!("durable: {:?} is {counts:?}", commit.txn));
            }
        }
        Ok(())
    }

    /// Polls a task, and does what its node wants done.
    fn poll(&mut self, id: usize) -> Check {
        let number = self.scene.tasks.process_of(id);
        debug_assert_ne!(number, STORE);
        let Some(node) = &mut self.processes[number].node else { return Ok(()) };
        for (at, waker) in self.scene.tasks.poll(id, self.now, node) {
            self.queue.push(at.max(self.now), Event::Scene(StoreEvent::Alarm(waker)));
        }
        self.pump(number)
    }

    fn look_at_client(&mut self, number: usize) -> Check {
        let scene = &mut self.scene;
        let client = self.processes[number].node.as_mut().and_then(Node::find_mut::<Client>);
        let Some(client) = client.filter(|_| scene.judged) else { return Ok(()) };
        let Application { threads, never_back } = &mut scene.applications[number];
        let branch = scene.history.branch_of(client.life()).unwrap_or(scene.history.branches.newest());
        never_back.be_on(branch);
        // After so many starts a client takes its store for a copy that was put back, and begins again with nothing.
        if client.life().is_none() && scene.history.branches.lives() > LIVES_KEPT {
            never_back.begin_anew();
        }
        check::frames::all(client, scene.history.branches.ledger(branch), never_back)?;
        for (handle, attempt) in threads.iter().filter_map(Thread::running) {
            if client.check(handle).is_ok() {
                check::stable_reads::transaction(client.cache(), scene.history.attempt(attempt))?;
            }
        }
        Ok(())
    }

    fn look_at_holder(&mut self, number: usize) -> Check {
        let (server, session) = match self.session_of::<Client>(number) {
            None if number == STORE && self.scene.scenario.embedded => (STORE, LOCAL),
            Some(upstream) => match self.network.connection(upstream) {
                Some(connection) if connection.accepted => (connection.listener.process, upstream),
                _ => return Ok(()),
            },
            None => return Ok(()),
        };
        let upstream = self.session_of::<Redirector>(server);
        let upstream =
            upstream.filter(|&upstream| self.network.connection(upstream).is_some_and(|found| found.accepted));
        let Some(client) = self.processes[number].look::<Client>() else { return Ok(()) };
        let (store, server) = (self.processes[STORE].look::<Store>(), &self.processes[server]);
        match (server.look::<Store>(), server.look::<Redirector>()) {
            (Some(store), _) => check::holders::client(client, store, session),
            (None, Some(redirector)) => {
                check::holders::member(client, redirector, session)?;
                let (Some(store), Some(upstream)) = (store, upstream) else { return Ok(()) };
                let is_restored = self.scene.history.branches.newest() > 0;
                check::holders::group(client, redirector, session, store, upstream, is_restored)
            }
            _ => Ok(()),
        }
    }

    /// The session that a machine of this type has with its server.
    fn session_of<M: Machine>(&self, number: usize) -> Option<SessionId> {
        let process = &self.processes[number];
        let role = process.node.as_ref()?.role_of::<M>()?;
        process.dialed.get(&Link { role, port: Port::SERVER }).copied()
    }
}

impl Scene for StoreRun {
    type Event = StoreEvent;
    type Fault = StoreFault;

    fn build(sim: &mut Run, number: usize) -> Option<Node> {
        let scenario = &sim.scene.scenario;
        if !scenario.exists(number) {
            return None;
        }
        let (has_redirector, has_client) = (scenario.has_redirector(number), scenario.has_client(number));
        sim.trace.event(sim.now, &[1, number as u64], || format!("process {number} starts"));
        let client = has_client.then(|| sim.new_client(number));
        let mut node = Node::new();
        let beside = match number {
            STORE => Some(node.add(sim.open_store())),
            _ if has_redirector => Some(node.add(sim.new_redirector(number))),
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
        Some(node)
    }

    fn started(sim: &mut Run, number: usize) {
        let key = PeerKey::new(u128::from(sim.new_id(number).0).to_le_bytes());
        sim.processes[number].key = key;
        let clock = sim.clock(number);
        if let Some(node) = sim.processes[number].node.as_mut().filter(|_| number == STORE && sim.scene.finale) {
            // It crashed while it was closing: it is closed again.
            node.close(clock);
        }
        let Some(client) = sim.processes[number].node.as_ref().and_then(Node::role_of::<Client>) else { return };
        // A member of a group takes connections of its peers.
        if sim.scene.scenario.group_of(number).is_some() && sim.scene.scenario.peers {
            sim.hears(number, client, Told::Reachable(format!("p{number}"), key));
        }
        sim.start_threads(number);
    }

    fn died(sim: &mut Run, number: usize) {
        sim.scene.applications[number] = Application::default();
    }

    fn server(sim: &mut Run, number: usize, server: usize, target: Target<String>) -> Place {
        let found = &sim.processes[number].servers[server];
        let scenario = &sim.scene.scenario;
        if found.client != scenario.client_role(number) || !scenario.has_client(number) {
            return found.at[0];
        }
        let process = match (target, scenario.redirector_of(number)) {
            (Target::Named(address), _) => process_at(&address).unwrap_or(STORE),
            // A member may have another way to its store, and try it now and then.
            (Target::Configured(_), Some(_)) if sim.rng.chance(scenario.stray_permille) => STORE,
            (Target::Configured(_), redirector) => redirector.unwrap_or(STORE),
        };
        Place { process, role: RoleId::ONLY }
    }

    fn peer(&self, address: &str) -> Result<Place, Violation> {
        let process = process_at(address).filter(|&process| process < self.applications.len());
        process
            .map(|process| Place { process, role: self.scenario.client_role(process) })
            .ok_or_else(|| Violation { checker: "sessions", text: format!("a client dials a peer at {address:?}") })
    }

    fn is_welcome(message: &Parcel) -> bool {
        matches!(message.get(), Some(ToClient::Welcome(_)))
    }

    fn sends(sim: &mut Run, number: usize, message: &Parcel) -> Check {
        match message.get() {
            Some(message) if sim.scene.judged && number == STORE => {
                check::answers::message(sim.scene.history.ledger(), message)
            }
            _ => Ok(()),
        }
    }

    fn worked(sim: &mut Run, _: usize) -> Check {
        let durable = mem::take(&mut sim.disk().became_durable);
        sim.durable(&durable)?;
        sim.crash_here()
    }

    fn wake(sim: &mut Run, number: usize, waiter: Waiter) {
        sim.scene.tasks.wake(number, waiter);
        let txn = TxnHandle::from(waiter);
        let threads = &mut sim.scene.applications[number].threads;
        let waiting = |thread: &Thread| thread.waiting && thread.handle() == Some(txn);
        let Some(thread) = threads.iter().position(waiting) else { return };
        threads[thread].waiting = false;
        let event = Event::Scene(StoreEvent::Step(number, sim.processes[number].life, thread));
        let after = sim.rng.around(Duration::from_micros(20));
        sim.later(after, event);
    }

    fn closed(sim: &mut Run, _: usize) -> Check {
        if sim.scene.finale { Ok(()) } else { sim.close_process() }
    }

    fn process_of(&self, event: &StoreEvent) -> Option<usize> {
        match event {
            StoreEvent::Step(process, ..) => Some(*process),
            StoreEvent::Poll(task) => Some(self.tasks.process_of(*task)),
            StoreEvent::Alarm(_) | StoreEvent::Mishap(..) => None,
        }
    }

    fn happen(sim: &mut Run, event: StoreEvent) -> Check {
        match event {
            StoreEvent::Step(process, life, thread) if sim.lives(process, life) => sim.step_thread(process, thread),
            // It was meant for an earlier life of the process.
            StoreEvent::Step(..) => Ok(()),
            StoreEvent::Poll(task) => sim.poll(task),
            StoreEvent::Alarm(waker) => {
                waker.wake();
                Ok(())
            }
            StoreEvent::Mishap(process, mishap) => sim.inject(process, mishap),
        }
    }

    fn strike(sim: &mut Run, fault: StoreFault) -> Check {
        sim.strike_store(fault)
    }

    /// Tasks that were woken are polled soon, in an order that is drawn.
    fn go_on(sim: &mut Run) {
        for id in sim.scene.tasks.take_woken() {
            let after = sim.rng.around(Duration::from_micros(10));
            sim.later(after, Event::Scene(StoreEvent::Poll(id)));
        }
    }

    fn look(sim: &mut Run, number: usize) -> Check {
        if !sim.scene.watched {
            return Ok(());
        }
        sim.look_at_client(number)?;
        if let Some(store) = sim.processes[number].look::<Store>() {
            sim.scene.turns.look(store)?;
            if store.has_forgotten() {
                // The session of an embedded client ends without any connection's ending.
                check::unknown::forgot(sim.network.has_ended_any() || sim.scene.scenario.embedded)?;
                sim.scene.history.has_forgotten = true;
            }
        }
        let has_many = number == STORE || sim.scene.scenario.is_redirector(number);
        let holders = if has_many { 0..sim.processes.len() } else { number..number + 1 };
        holders.into_iter().try_for_each(|process| sim.look_at_holder(process))
    }

    fn waiting(sim: &Run) -> String {
        let waiting = |(number, application): (usize, &Application)| {
            let threads: Vec<_> = application.threads.iter().filter(|thread| !thread.is_done()).collect();
            (!threads.is_empty()).then(|| format!("\n  process {number}: {threads:?}"))
        };
        sim.scene.applications.iter().enumerate().filter_map(waiting).collect()
    }
}

impl Scenario {
    /// A process before its first life.
    fn process(&self, number: usize) -> Process {
        let server = |role| Server::new(role, Place { process: STORE, role: RoleId::ONLY }, SESSIONS);
        let of_redirector = self.has_redirector(number).then(|| server(RoleId::ONLY));
        let upstream = (number != STORE && self.has_client(number)).then(|| server(self.client_role(number)));
        Process {
            servers: of_redirector.into_iter().chain(upstream).collect(),
            drift: self.drift.get(number).copied().unwrap_or(0),
            cost: self.cost(number),
            defers: number == STORE && self.embedded,
            ..Process::default()
        }
    }
}

/// The process behind an address.
fn process_at(address: &str) -> Option<usize> {
    address.strip_prefix('p')?.parse().ok()
}
