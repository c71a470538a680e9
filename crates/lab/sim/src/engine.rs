//! The engine of all runs of whole processes: their machines in virtual time, over a network and disks that fail.
//!
//! One event at a time: it reaches one process; the process's node settles; its outputs are carried out; then the scene
//! looks at what may have changed. Everything is drawn from one seed, so a run can be repeated.
//!
//! ```text
//!   Engine    processes, connections, disks, timers, clocks, pauses      knows no family of messages
//!     Scene   which processes there are, who looks at them, its own events and faults
//!       store_run    the store's family: applications, history, checkers
//!       processes    machines of any family by name, for tests
//! ```

use crate::drive::{Operation, Started};
use crate::faults::{Fault, Faults};
use crate::network::{End, Family, Network, Place};
use crate::process::Process;
use crate::queue::Queue;
use crate::rng::Rng;
use crate::trace::{self, Trace};
use crate::violation::{Check, Violation, ensure};
use core::fmt;
use core::time::Duration;
use machine::{DiskDone, Event as Told, Link, Node, Opaque, Parcel, Port, RoleId, Said, Upstream, Waiter};
use session::Target;
use std::collections::BTreeMap;
use types::{SessionId, Time};

/// Timeouts that may be handled at one moment before it counts as going in circles.
const TIMEOUTS_AT_ONCE_MAX: u32 = 100;

/// All that can happen.
#[derive(Debug)]
pub(crate) enum Event<S: Scene> {
    /// Something arrives at one end of a connection.
    Arrive(SessionId, End),
    /// Some of what is on its way to one end arrives.
    Bytes(SessionId, End),
    /// The messages of a process's node to one end have left, and the node has awaited that.
    Room(SessionId, End, u32),
    /// A process's node settles: what came in since it did so last is worked on together.
    Settle(usize, u32),
    /// A process opens the session with one of its servers.
    Dial(usize, u32, usize),
    /// A process waits no longer for an answer to its dialling.
    GiveUp(usize, u32, SessionId),
    /// The disk of a machine has done something.
    Disk(usize, u32, RoleId, Operation),
    /// The machine learns of it.
    DiskDone(usize, u32, RoleId, DiskDone),
    /// The machine learns that its disk has failed.
    DiskFailed(usize, u32, RoleId),
    /// A node's timeout is due.
    Timer(usize, u32),
    /// A process starts.
    Start(usize),
    /// Something goes wrong.
    Fault(Fault<S::Fault>),
    /// Something that the scene knows of.
    Scene(S::Event),
}

/// A kind of run: which processes there are, and everything around them.
pub(crate) trait Scene: Sized + fmt::Debug {
    type Event: fmt::Debug;
    type Fault: fmt::Debug + Copy + PartialEq;

    /// The machines of a process that starts; `None` if there is no such process.
    fn build(sim: &mut Engine<Self>, process: usize) -> Option<Node>;

    /// A process's machines have started, and its sessions are about to be opened.
    fn started(_: &mut Engine<Self>, _process: usize) {}

    /// A process's life has ended.
    fn died(_: &mut Engine<Self>, _process: usize) {}

    /// Where the next session of a process with one of its servers is opened.
    fn server(sim: &mut Engine<Self>, process: usize, server: usize, target: Target<String>) -> Place;

    /// Where a peer is reached at this address.
    fn peer(&self, address: &str) -> Result<Place, Violation>;

    /// Where a server is with which a machine opens a session, and how its messages become bytes.
    fn upstream(&self, server: &Upstream) -> Result<(Vec<Place>, Family), Violation> {
        Err(Violation {
            checker: "sessions",
            text: format!("no machine opens sessions itself, and one opens {server:?}"),
        })
    }

    /// Whether a session is up when its client has heard this.
    fn is_welcome(message: &Parcel) -> bool;

    /// A machine of a process sends a message.
    fn sends(_: &mut Engine<Self>, _process: usize, _message: &Parcel) -> Check {
        Ok(())
    }

    /// The disk of a process has taken work, or done it.
    fn worked(_: &mut Engine<Self>, _process: usize) -> Check {
        Ok(())
    }

    /// A machine wakes a caller.
    fn wake(_: &mut Engine<Self>, _process: usize, _waiter: Waiter) {}

    /// The machines of a process have closed.
    fn closed(_: &mut Engine<Self>, _process: usize) -> Check {
        Ok(())
    }

    /// The process that an event of the scene happens to.
    fn process_of(&self, event: &Self::Event) -> Option<usize>;

    /// An event of the scene happens.
    fn happen(sim: &mut Engine<Self>, event: Self::Event) -> Check;

    /// A fault of the scene strikes.
    fn strike(sim: &mut Engine<Self>, fault: Self::Fault) -> Check;

    /// The next event is about to happen.
    fn go_on(_: &mut Engine<Self>) {}

    /// Holds everything that an event at this process can have changed against the invariants.
    fn look(_: &mut Engine<Self>, _process: usize) -> Check {
        Ok(())
    }

    /// Returns a description of the callers that wait, for a run in which nothing more happens.
    fn waiting(_: &Engine<Self>) -> String {
        String::new()
    }
}

/// The draws of a seed that hold for all processes.
#[derive(Clone, Debug)]
pub(crate) struct Manners {
    /// How often a node waits a moment for what comes right behind a message.
    pub(crate) together_permille: u32,
    /// Messages between processes pass through bytes.
    pub(crate) through_bytes: bool,
    /// The longest that the end which has connected, and the other, can be ignorant of the loss of their connection.
    pub(crate) ignorance: [Duration; 2],
    /// The longest that a process stands still, and that a path is stalled.
    pub(crate) standstill: Duration,
    /// Clocks stand still while their processes do: that is against a rule.
    pub(crate) clocks_stop: bool,
}

/// Everything there is in a run.
#[derive(Debug)]
pub(crate) struct Engine<S: Scene> {
    pub(crate) now: Time,
    pub(crate) rng: Rng,
    pub(crate) queue: Queue<Event<S>>,
    pub(crate) trace: Trace,
    pub(crate) network: Network,
    pub(crate) processes: Vec<Process>,
    /// The processes that do not run for now, and everything that has happened to them in the meantime.
    held: BTreeMap<usize, Vec<Event<S>>>,
    pub(crate) manners: Manners,
    pub(crate) faults: Faults<S::Fault>,
    /// Events of one phase of a run; more than this is a circle.
    pub(crate) events_max: u64,
    events: u64,
    /// Disk work that was submitted or done: where a crash can be put.
    pub(crate) disk_operations: u64,
    pub(crate) scene: S,
}

impl<S: Scene> Engine<S> {
    pub(crate) fn new(scene: S, manners: Manners, rng: Rng, network: Network, trace: Trace) -> Self {
        Self {
            now: Time::ZERO,
            rng,
            queue: Queue::new(),
            trace,
            network,
            processes: Vec::new(),
            held: BTreeMap::new(),
            manners,
            faults: Faults::default(),
            events_max: 2_000_000,
            events: 0,
            disk_operations: 0,
            scene,
        }
    }

    /// Runs until `done`, and not longer than `bound`.
    pub(crate) fn run_until(&mut self, bound: Duration, what: &str, done: impl Fn(&Self) -> bool) -> Check {
        let deadline = self.now + bound;
        S::go_on(self);
        let events_max = self.events + self.events_max;
        while !done(self) {
            ensure(self.events < events_max, "liveness", || format!("{what}, and does so in circles"))?;
            if !self.step(deadline)? {
                let text = format!("{what}, and nothing stands in the way{}", S::waiting(self));
                return Err(Violation { checker: "liveness", text });
            }
        }
        Ok(())
    }

    /// The next event happens. Returns whether there is one until then.
    pub(crate) fn step(&mut self, deadline: Time) -> Result<bool, Violation> {
        let Some((at, event)) = self.queue.pop_until(deadline) else { return Ok(false) };
        self.events += 1;
        self.now = at;
        self.happen(event)?;
        S::go_on(self);
        Ok(true)
    }

    /// Puts an event where it belongs. A process that stands still takes it later.
    fn happen(&mut self, event: Event<S>) -> Check {
        if let Some(process) = self.process_of(&event) {
            if let Some(held) = self.held.get_mut(&process) {
                held.push(event);
                return Ok(());
            }
            let process = &self.processes[process];
            let until = process.paused_until.max(process.busy_until);
            if until > self.now {
                self.queue.push(until, event);
                return Ok(());
            }
        }
        match event {
            Event::Arrive(connection, to) => self.arrive(connection, to),
            Event::Bytes(connection, to) => self.bytes(connection, to),
            Event::Room(connection, to, life) => self.room(connection, to, life),
            Event::Settle(process, life) if self.lives(process, life) => self.pump(process),
            Event::Dial(process, life, server) if self.lives(process, life) => self.dial(process, server),
            Event::GiveUp(process, life, connection) if self.lives(process, life) => {
                self.give_up(process, connection);
                Ok(())
            }
            Event::Disk(process, life, role, operation) if self.processes[process].life == life => {
                self.finish(process, role, operation)
            }
            Event::DiskDone(process, life, role, done) if self.lives(process, life) => {
                self.trace
                    .event(self.now, &[15], || format!("process {process} hears its disk: {}", trace::cut(&done)));
                self.tell(process, role, Told::Disk(done))
            }
            Event::DiskFailed(process, life, role) if self.lives(process, life) => {
                self.tell(process, role, Told::DiskFailed("a write has failed".to_owned()))?;
                let reopens =
                    self.processes[process].drives.get_mut(&role).and_then(|drive| drive.disk.reopen(&mut self.rng));
                self.await_disk(process, role, reopens);
                Ok(())
            }
            Event::Timer(process, life) if self.lives(process, life) => self.timer(process),
            Event::Fault(fault) => self.strike(fault),
            Event::Start(process) => self.start(process),
            Event::Scene(event) => S::happen(self, event),
            // It was meant for an earlier life of the process.
            Event::Settle(..)
            | Event::Dial(..)
            | Event::GiveUp(..)
            | Event::Disk(..)
            | Event::DiskDone(..)
            | Event::DiskFailed(..)
            | Event::Timer(..) => Ok(()),
        }
    }

    pub(crate) fn lives(&self, process: usize, life: u32) -> bool {
        self.processes[process].life == life && self.processes[process].node.is_some()
    }

    /// The process that an event happens to, if it cannot happen while that stands still.
    fn process_of(&mut self, event: &Event<S>) -> Option<usize> {
        match *event {
            Event::Arrive(connection, to) | Event::Bytes(connection, to) => {
                Some(self.network.connection(connection)?.process(to))
            }
            Event::Room(connection, to, _) => Some(self.network.connection(connection)?.process(to.other())),
            Event::Dial(process, ..)
            | Event::Settle(process, _)
            | Event::GiveUp(process, ..)
            | Event::DiskDone(process, ..)
            | Event::DiskFailed(process, ..)
            | Event::Timer(process, _) => Some(process),
            Event::Scene(ref event) => self.scene.process_of(event),
            Event::Disk(..) | Event::Fault(_) | Event::Start(_) => None,
        }
    }

    /// A process starts, with nothing but what its disks have.
    pub(crate) fn start(&mut self, number: usize) -> Check {
        if self.processes[number].node.is_some() {
            return Ok(());
        }
        let Some(mut node) = S::build(self, number) else { return Ok(()) };
        node.start(self.clock(number));
        self.processes[number].node = Some(node);
        S::started(self, number);
        for server in 0..self.processes[number].servers.len() {
            self.dial_later(number, server);
        }
        self.pump(number)
    }

    /// Nothing of a process is left but its disks.
    pub(crate) fn kill(&mut self, number: usize) {
        self.go_on(number);
        self.processes[number].die();
        S::died(self, number);
        for (id, end) in self.network.connections_of(number) {
            self.network.deaf(id, end);
            if let Some(connection) = self.network.connection(id)
                && end == End::Listener
            {
                connection.accepted = false;
            }
            self.break_off(id);
        }
    }

    /// A process does not run until [`Engine::go_on`].
    pub(crate) fn hold(&mut self, number: usize) {
        self.held.entry(number).or_default();
    }

    /// A process that was held runs on, and finds everything that has come in the meantime.
    pub(crate) fn go_on(&mut self, number: usize) {
        for event in self.held.remove(&number).into_iter().flatten() {
            self.queue.push(self.now, event);
        }
    }

    pub(crate) fn later(&mut self, after: Duration, event: Event<S>) {
        self.queue.push(self.now + after, event);
    }

    /// The time that a process's clock shows.
    pub(crate) fn clock(&self, number: usize) -> Time {
        self.processes[number].clock(self.now)
    }

    /// A process has heard a message, and works on it for a while.
    pub(crate) fn work(&mut self, number: usize) -> Check {
        let process = &mut self.processes[number];
        process.traffic.hear();
        process.busy_until = self.now + process.cost;
        self.settle(number)
    }

    /// Something has come in: the node settles at once, or with what comes right behind it.
    pub(crate) fn settle(&mut self, number: usize) -> Check {
        let together = self.manners.together_permille;
        if together == 0 || !self.rng.chance(together) {
            return self.pump(number);
        }
        let (after, life) = (self.rng.around(Duration::from_micros(50)), self.processes[number].life);
        self.later(after, Event::Settle(number, life));
        Ok(())
    }

    /// Tells a machine what has happened, and carries out its outputs.
    pub(crate) fn tell(&mut self, number: usize, role: RoleId, event: Told) -> Check {
        self.hears(number, role, event);
        self.pump(number)
    }

    /// Tells a machine what has happened. Returns whether its process is there.
    pub(crate) fn hears(&mut self, number: usize, role: RoleId, event: Told) -> bool {
        let clock = self.clock(number);
        let node = &mut self.processes[number].node;
        if let Some(node) = node {
            node.tell(clock, role, event);
        }
        node.is_some()
    }

    /// Lets a process's node settle, carries out its outputs, and looks at the result.
    pub(crate) fn pump(&mut self, number: usize) -> Check {
        let clock = self.clock(number);
        self.defer(number);
        while let Some((role, said)) = self.processes[number].node.as_mut().and_then(|node| node.poll(clock)) {
            self.carry_out(number, role, said)?;
        }
        self.set_timer(number);
        S::look(self, number)
    }

    /// The machines of one process hear each other a little later, now and then: as threads take that there.
    fn defer(&mut self, number: usize) {
        if !self.processes[number].defers {
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
        match said {
            Said::Send(port, message) => {
                S::sends(self, number, &message)?;
                let Some((id, end)) = self.connection_of(number, Link { role, port }) else { return Ok(()) };
                self.processes[number].traffic.say();
                self.send(id, end.other(), message)
            }
            Said::AwaitRoom(port) => {
                self.await_room(number, Link { role, port });
                Ok(())
            }
            Said::End(port, reason, text) => self.hang_up(number, Link { role, port }, reason, text),
            Said::Dial(peer, address) => self.dial_peer(number, role, peer, &address),
            Said::Open(id, server) => self.open_upstream(number, role, id, &server),
            Said::Close(id) => self.close_upstream(number, Link { role, port: Port::Upstream(id) }),
            Said::Disk(work) => self.submit(number, role, work),
            Said::Wake(waiter) => {
                S::wake(self, number, waiter);
                Ok(())
            }
            // The node has told it already, and has no adjoining one.
            Said::Tell(..) | Said::TellAdjoining(..) => Ok(()),
            Said::Failed(why) => {
                self.trace.event(self.now, &[46, number as u64], || format!("process {number} ends: {why}"));
                self.crash(number, Duration::from_millis(20));
                self.lose_power(number);
                Ok(())
            }
            Said::Closed => {
                self.trace.event(self.now, &[3], || format!("process {number} has closed"));
                self.processes[number].closed = true;
                S::closed(self, number)
            }
        }
    }

    /// A machine's disk takes work.
    fn submit(&mut self, number: usize, role: RoleId, work: Opaque) -> Check {
        self.disk_operations += 1;
        self.trace.event(self.now, &[13, self.disk_operations], || format!("    disk: {}", trace::cut(&work)));
        let Some(drive) = self.processes[number].drives.get_mut(&role) else {
            return ensure(false, "disk", || format!("process {number}: {role:?} has no disk"));
        };
        let started = drive.disk.submit(work, &mut self.rng)?;
        self.await_disk(number, role, started);
        S::worked(self, number)
    }

    pub(crate) fn await_disk(&mut self, number: usize, role: RoleId, started: Option<Started>) {
        let Some(Started { after, operation }) = started else { return };
        let process = &self.processes[number];
        let after = process.drives[&role].takes(self.now, after);
        self.later(after, Event::Disk(number, process.life, role, operation));
    }

    /// A disk has done something; its machine learns of it at once, or when its process no longer stands still.
    fn finish(&mut self, number: usize, role: RoleId, operation: Operation) -> Check {
        let process = &mut self.processes[number];
        let (life, drive) = (process.life, process.drives.get_mut(&role).expect("it has begun this"));
        if let Some(until) = drive.refused_until(self.now, &operation) {
            self.queue.push(until, Event::Disk(number, life, role, operation));
            return Ok(());
        }
        self.disk_operations += 1;
        let (done, started) = drive.disk.finish(operation, &mut self.rng);
        self.await_disk(number, role, started);
        for done in done {
            self.queue.push(self.now, Event::DiskDone(number, life, role, done));
        }
        S::worked(self, number)
    }

    fn set_timer(&mut self, number: usize) {
        let process = &mut self.processes[number];
        let Some(due) = process.node.as_ref().and_then(Node::poll_timeout) else { return };
        let due = process.time_at(self.now, due).max(self.now);
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
}
