//! Processes of any machines, by name: for the machines of a front end, of which [`machine::Machine`] and their codecs
//! are all that is needed.
//!
//! ```text
//!   "store" --- Node(Store) --- disk: a log          a line for each pair of processes: delay, rate, cut, slow
//!      |  session                                    a crash: what was not durable may be lost
//!   "site a" -- Node(Client, ..)
//! ```
//! A process is built again at each start, from what its disks hold. Messages pass as bytes of their family. One seed
//! is one run.

use crate::drive::{Drive, LogDisk, Record};
use crate::engine::{Engine, Event, Manners, Scene};
use crate::faults::Fault;
use crate::network::{Carried, Connection, Family, Network, Path, Place, SharedLine};
use crate::ordered::{Content, OrderedDisk};
use crate::process::{Process, Server};
use crate::rng::{Delay, Rng};
use crate::trace::Trace;
use crate::violation::{Check, Violation};
use core::convert::Infallible;
use core::fmt;
use core::time::Duration;
use framing::{Codec, codec_of};
use machine::{Machine, Node, Parcel, RoleId, Upstream};
use session::Target;
use std::collections::BTreeMap;
use std::rc::Rc;
use types::{Broken, Position, SessionId, Time};

/// The longest that an end of a connection can be ignorant of its loss.
const IGNORANCE: Duration = Duration::from_millis(10);

/// A line between two processes, the same both ways.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// From one end to the other.
    pub delay: Duration,
    /// Bytes in a second; `None` carries whatever there is.
    pub rate: Option<u64>,
}

impl Line {
    fn delay(self) -> Delay {
        Delay { spread: self.delay / 10, ..Delay::exactly(self.delay) }
    }

    fn path(self) -> Path {
        Path { bytes_per_second: self.rate, ..Path::of(self.delay()) }
    }
}

/// The disks of a process that starts.
#[derive(Debug)]
pub struct Disks<'a>(&'a BTreeMap<RoleId, Drive>);

impl Disks<'_> {
    /// The records that the log of a machine holds, the oldest first.
    pub fn log<R: Record>(&self, role: RoleId) -> Vec<(Position, R)> {
        let disk = self.0.get(&role).and_then(Drive::get::<LogDisk<R>>);
        disk.map_or_else(Vec::new, |disk| disk.records.clone())
    }

    /// The content of a machine's disk, if it has one of this type.
    pub fn content<C: Content>(&self, role: RoleId) -> Option<&C> {
        self.0.get(&role).and_then(Drive::get::<OrderedDisk<C>>).map(|disk| &disk.content)
    }
}

/// Builds the machines of a process from what its disks hold.
type Build = Rc<dyn Fn(&Disks<'_>) -> Node>;

/// Processes in virtual time.
#[derive(Debug)]
pub struct Processes {
    sim: Engine<Named>,
    usual: Line,
}

/// The processes' names, and how each is built.
#[derive(Default)]
struct Named {
    processes: Vec<(String, Build)>,
    /// The machines that are reached by an address, and with which codec.
    listeners: BTreeMap<String, (Place, &'static dyn Codec)>,
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.processes.iter().map(|(name, _)| name)).finish()
    }
}

impl Scene for Named {
    type Event = Infallible;
    type Fault = Infallible;

    fn build(sim: &mut Engine<Self>, process: usize) -> Option<Node> {
        let build = sim.scene.processes[process].1.clone();
        Some(build(&Disks(&sim.processes[process].drives)))
    }

    fn server(sim: &mut Engine<Self>, process: usize, server: usize, target: Target<String>) -> Place {
        let at = &sim.processes[process].servers[server].at;
        match target {
            Target::Configured(nth) => at[nth],
            Target::Named(_) => at[0],
        }
    }

    fn upstream(&self, server: &Upstream) -> Result<(Vec<Place>, Family), Violation> {
        let client = codec_of(server);
        let listens = |address: &String| {
            self.listeners.get(address).copied().ok_or_else(|| Violation {
                checker: "sessions",
                text: format!("nobody listens at {address:?}, and a machine opens a session there"),
            })
        };
        let found: Vec<_> = server.addresses.iter().map(listens).collect::<Result<_, _>>()?;
        let server = found.first().map_or(client, |(_, codec)| *codec);
        Ok((found.into_iter().map(|(place, _)| place).collect(), Family { client, server }))
    }

    fn peer(&self, address: &str) -> Result<Place, Violation> {
        Err(Violation { checker: "sessions", text: format!("nobody takes peers, and one is dialed at {address:?}") })
    }

    fn is_welcome(message: &Parcel) -> bool {
        message.goodbye().is_none()
    }

    fn process_of(&self, event: &Infallible) -> Option<usize> {
        match *event {}
    }

    fn happen(_: &mut Engine<Self>, event: Infallible) -> Check {
        match event {}
    }

    fn strike(_: &mut Engine<Self>, fault: Infallible) -> Check {
        match fault {}
    }
}

impl Processes {
    /// No process yet, on lines that are like this one where nothing else is said.
    pub fn new(seed: u64, usual: Line) -> Self {
        let manners = Manners {
            together_permille: 0,
            through_bytes: true,
            ignorance: [IGNORANCE; 2],
            standstill: Duration::ZERO,
            clocks_stop: false,
        };
        let network = Network::new(Vec::new(), 0, Broken::NONE);
        let sim = Engine::new(Named::default(), manners, Rng::new(seed), network, Trace::off());
        Self { sim, usual }
    }

    /// Adds a process, and starts it.
    pub fn add(&mut self, name: &str, build: impl Fn(&Disks<'_>) -> Node + 'static) {
        self.sim.scene.processes.push((name.to_owned(), Rc::new(build)));
        self.sim.processes.push(Process::default());
        self.sim.network.add_path(self.usual.path());
        self.start(name);
    }

    /// Gives a machine of a process a disk that is a log. To be called before the machine has anything to write.
    pub fn add_log<R: Record>(&mut self, name: &str, role: RoleId) {
        let process = self.number(name);
        self.sim.processes[process].drives.insert(role, Drive::new(LogDisk::<R>::default()));
    }

    /// Gives a machine of a process a disk with this content. To be called before the machine has anything to do there.
    pub fn add_disk<C: Content>(&mut self, name: &str, role: RoleId, content: C) {
        let process = self.number(name);
        self.sim.processes[process].drives.insert(role, Drive::new(OrderedDisk::new(content)));
    }

    /// Like [`Processes::add_disk`], for a disk whose work takes no time.
    pub fn add_instant_disk<C: Content>(&mut self, name: &str, role: RoleId, content: C) {
        let process = self.number(name);
        self.sim.processes[process].drives.insert(role, Drive::new(OrderedDisk::instant(content)));
    }

    /// Looks at the content of such a disk, or changes it behind the machine's back.
    ///
    /// # Panics
    /// If there is no such disk.
    pub fn content<C: Content, R>(&mut self, name: &str, role: RoleId, look: impl FnOnce(&mut C) -> R) -> R {
        let process = self.number(name);
        let drive = self.sim.processes[process].drives.get_mut(&role).and_then(Drive::get_mut::<OrderedDisk<C>>);
        look(&mut drive.unwrap_or_else(|| panic!("{name} has no such disk")).content)
    }

    /// A machine of a process takes sessions of this codec, which others open at the process's name.
    pub fn listen(&mut self, server: (&str, RoleId), codec: &'static dyn Codec) {
        let at = self.place(server);
        self.sim.scene.listeners.insert(server.0.to_owned(), (at, codec));
    }

    /// A machine of one process has its server in another, and keeps a session with it open from now on.
    pub fn connect(&mut self, client: (&str, RoleId), server: (&str, RoleId), family: Family) {
        let (number, at) = (self.number(client.0), self.place(server));
        let process = &mut self.sim.processes[number];
        process.servers.push(Server::new(client.1, at, family));
        let dial = Event::Dial(number, process.life, process.servers.len() - 1);
        self.sim.later(Duration::ZERO, dial);
    }

    /// A machine's server is another one from now on. Its session with the one before breaks.
    pub fn connect_elsewhere(&mut self, client: (&str, RoleId), server: (&str, RoleId)) {
        let (client, at) = (self.place(client), self.place(server));
        let servers = self.sim.processes[client.process].servers.iter_mut();
        servers.filter(|known| known.client == client.role).for_each(|known| known.at = vec![at]);
        self.break_off(|connection| connection.dialer == client);
    }

    /// From now on two processes are as far from each other as this.
    pub fn set_line(&mut self, one: &str, other: &str, line: Line) {
        let (one, other) = (self.number(one), self.number(other));
        self.sim.network.set_between(one, other, line.path());
    }

    /// From now on these processes share one line: a message occupies it for its bytes, and the next one waits, even if
    /// another process sends it. Returns the number of the line.
    pub fn share_line(&mut self, names: &[&str], line: SharedLine) -> usize {
        let processes: Vec<_> = names.iter().map(|name| self.number(name)).collect();
        let delay = Line { delay: line.delay, rate: None }.delay();
        self.sim.network.share(&processes, delay, line)
    }

    /// The messages that such a line has carried.
    pub fn carried(&self, line: usize) -> Carried {
        self.sim.network.carried(line)
    }

    /// The connections between two processes break. Of the messages on their way a prefix may still arrive.
    pub fn cut(&mut self, one: &str, other: &str) {
        let (one, other) = (self.number(one), self.number(other));
        self.break_off(|connection| connection.is_between(one, other));
    }

    /// The line between two processes is gone until [`Processes::mend`].
    pub fn part(&mut self, one: &str, other: &str) {
        self.sim.network.part(self.number(one), self.number(other), true);
        self.cut(one, other);
    }

    /// The line between two processes is there again.
    pub fn mend(&mut self, one: &str, other: &str) {
        self.sim.network.part(self.number(one), self.number(other), false);
    }

    /// A process does not run until [`Processes::go_on`]: its messages and timers wait for that.
    pub fn stop(&mut self, name: &str) {
        self.sim.hold(self.number(name));
    }

    /// A process that was stopped runs on, and finds everything that has come in the meantime.
    pub fn go_on(&mut self, name: &str) {
        self.sim.go_on(self.number(name));
    }

    /// A process dies: a prefix of the records that were not durable yet survives.
    pub fn crash(&mut self, name: &str) {
        let number = self.number(name);
        self.sim.kill(number);
        self.sim.lose_power(number);
    }

    /// Starts a process that is down.
    pub fn start(&mut self, name: &str) {
        let started = self.sim.start(self.number(name));
        must(started);
    }

    /// A process's clock is fast by so many thousandths, or slow. To be said before time passes.
    ///
    /// # Panics
    /// If time has passed: a clock does not jump.
    pub fn set_clock(&mut self, name: &str, fast_permille: i64) {
        assert_eq!(self.sim.now, Time::ZERO, "the clock of {name} would jump");
        let number = self.number(name);
        self.sim.processes[number].drift = fast_permille;
        must(self.sim.pump(number));
    }

    /// From now on until [`Processes::calm`] these faults strike, wherever they are drawn: each with this time between
    /// two of its kind in the mean. No process stands still, and no line, for longer than `standstill`.
    pub fn storm(&mut self, faults: &[(Fault, Duration)], standstill: Duration) {
        self.sim.manners.standstill = standstill;
        self.sim.faults.rates = faults.to_vec();
        self.sim.schedule_faults();
    }

    /// No more faults strike, and what they have done is undone or runs out.
    pub fn calm(&mut self) {
        self.sim.calm(true);
    }

    /// The time that a process's clock shows.
    pub fn clock(&self, name: &str) -> Time {
        self.sim.clock(self.number(name))
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.sim.now
    }

    /// A number below `bound`, drawn from the run's seed: for what an application chooses.
    pub fn draw(&mut self, bound: u64) -> u64 {
        self.sim.rng.below(bound)
    }

    /// Runs for this long.
    ///
    /// # Panics
    /// If a machine breaks a rule that holds for all: it hangs up because of a message that it cannot have got from an
    /// honest peer, handles timeout after timeout, or sends what its family cannot write or read.
    pub fn run_for(&mut self, length: Duration) {
        let end = self.sim.now + length;
        while must(self.sim.step(end)) {}
        self.sim.now = end;
    }

    /// Looks at the first machine of its type in a process; `None` while the process is down.
    pub fn look<M: Machine>(&self, name: &str) -> Option<&M> {
        self.sim.processes[self.number(name)].look()
    }

    /// Calls that machine, as its application does, and carries out what comes of it.
    pub fn call<M: Machine, R>(&mut self, name: &str, call: impl FnOnce(&mut M, Time) -> R) -> Option<R> {
        let number = self.number(name);
        let clock = self.sim.clock(number);
        let answer = self.sim.processes[number].node.as_mut()?.find_mut().map(|machine| call(machine, clock));
        must(self.sim.pump(number));
        answer
    }

    fn number(&self, name: &str) -> usize {
        let found = self.sim.scene.processes.iter().position(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("there is no process {name}"))
    }

    fn place(&self, (name, role): (&str, RoleId)) -> Place {
        Place { process: self.number(name), role }
    }

    fn break_off(&mut self, which: impl Fn(&Connection) -> bool) {
        let which = |(id, connection): (SessionId, &Connection)| which(connection).then_some(id);
        let broken: Vec<_> = self.sim.network.connections().filter_map(which).collect();
        for id in broken {
            self.sim.break_off(id);
        }
    }
}

/// A violation ends the test.
fn must<T>(result: Result<T, Violation>) -> T {
    result.unwrap_or_else(|violation| panic!("{violation}"))
}
