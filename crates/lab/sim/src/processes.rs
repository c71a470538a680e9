//! Processes of any machines, by name, in virtual time: with disks of their own, on lines with a delay and a rate. It
//! is for the machines of a new door, as [`machine::Machine`] and their codecs are everything that is asked for; the
//! store's own days, with their drawn faults and checkers, are `world.rs`.
//!
//! ```text
//!   "store" --- Node(Store) --- disk: a log          a line for each pair of processes: delay, rate, cut, slow
//!      |  session                                    a crash: what was not durable may be lost
//!   "site a" -- Node(Client, ..)
//! ```
//! A process is built again at each start, from what its disks hold. Messages pass as bytes of their family. One seed
//! is one run.

use crate::process::TIMEOUTS_AT_ONCE_MAX;
use crate::queue::Queue;
use crate::rng::Rng;
use core::any::Any;
use core::time::Duration;
use core::{fmt, mem};
use framing::{Codec, Inbox, frames_of};
use machine::{Append, DiskDone, Durable, Event as Told, Goodbye, Link, Machine, Node, Opaque, Port, RoleId, Said};
use session::{Dialer, Next, Times};
use std::collections::{BTreeMap, BTreeSet};
use types::{Position, SessionId, Time};

/// How a process dials.
const TIMES: Times = Times {
    attempt_within: Duration::from_secs(5),
    pause_min: Duration::from_millis(1),
    pause_max: Duration::from_millis(100),
};

/// How long a flush takes in the mean, and an end of a connection to hear that it is gone.
const FLUSH: Duration = Duration::from_micros(200);
const HEAR_LOSS: Duration = Duration::from_millis(5);

/// A line between two processes, the same both ways.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// From one end to the other.
    pub delay: Duration,
    /// Bytes in a second; `None` carries whatever there is.
    pub rate: Option<u64>,
}

/// How a session's two ends become bytes: its client's, and its server's.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The codec of the client.
    pub client: &'static dyn Codec,
    /// The codec of the server.
    pub server: &'static dyn Codec,
}

/// The disks of a process that starts.
#[derive(Debug)]
pub struct Disks<'a>(&'a BTreeMap<RoleId, Box<dyn Disk>>);

impl Disks<'_> {
    /// The records that the log of a machine holds, the oldest first.
    pub fn log<R: Record>(&self, role: RoleId) -> Vec<(Position, R)> {
        let disk = self.0.get(&role).and_then(|disk| (&**disk as &dyn Any).downcast_ref::<LogDisk<R>>());
        disk.map_or_else(Vec::new, |disk| disk.records.clone())
    }
}

/// A record of a simulated log.
pub trait Record: Clone + fmt::Debug + Send + 'static {}

impl<R: Clone + fmt::Debug + Send + 'static> Record for R {}

/// Builds the machines of a process from what its disks hold.
type Build = Box<dyn Fn(&Disks<'_>) -> Node>;

/// Processes in virtual time.
pub struct Processes {
    now: Time,
    rng: Rng,
    queue: Queue<Event>,
    all: BTreeMap<String, Process>,
    lines: BTreeMap<(String, String), Line>,
    /// The pairs between which there is no line for a while.
    apart: BTreeSet<(String, String)>,
    /// The processes that do not run for a while, and everything that has happened to them in the meantime.
    stopped: BTreeMap<String, Vec<Event>>,
    usual: Line,
    connections: BTreeMap<SessionId, Connection>,
    opened: u64,
}

struct Process {
    build: Build,
    node: Option<Node>,
    /// Counts its starts: what was meant for an earlier life is for nobody.
    life: u32,
    disks: BTreeMap<RoleId, Box<dyn Disk>>,
    /// The sessions that it keeps open.
    servers: Vec<Server>,
    /// The timer that is set.
    timer: Option<Time>,
    /// Timeouts handled at the last moment at which there was one.
    timeouts: (Time, u32),
}

/// A session that a machine keeps open with its server.
struct Server {
    client: RoleId,
    at: (String, RoleId),
    family: Family,
    dialer: Dialer,
    connection: Option<SessionId>,
    was_up: bool,
}

struct Connection {
    dialer: (String, RoleId),
    listener: (String, RoleId),
    family: Family,
    /// Towards the dialer and towards the listener: when the line is free, when the last item arrives, whether a first
    /// message was heard.
    directions: [Direction; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    line_free: Time,
    last_arrival: Time,
    is_heard: bool,
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Dialer = 0,
    Listener = 1,
}

enum Item {
    Opened,
    Bytes(Vec<u8>),
    /// Its sender has ended the connection, after everything that it had said.
    Closed,
}

enum Event {
    Dial {
        process: String,
        life: u32,
        server: usize,
    },
    Arrive {
        connection: SessionId,
        to: End,
        item: Item,
    },
    /// An end hears that a connection is gone.
    Gone {
        process: String,
        life: u32,
        link: Link,
    },
    Flushed {
        process: String,
        life: u32,
        role: RoleId,
    },
    Timer {
        process: String,
        life: u32,
    },
}

impl Processes {
    /// No process yet, on lines that are like this one where nothing else is said.
    pub fn new(seed: u64, usual: Line) -> Self {
        let (all, lines, apart, stopped, connections) = Default::default();
        Self {
            now: Time::ZERO,
            rng: Rng::new(seed),
            queue: Queue::new(),
            all,
            lines,
            apart,
            stopped,
            usual,
            connections,
            opened: 0,
        }
    }

    /// Adds a process, and starts it.
    pub fn add(&mut self, name: &str, build: impl Fn(&Disks<'_>) -> Node + 'static) {
        let (disks, servers) = Default::default();
        let process = Process {
            build: Box::new(build),
            node: None,
            life: 0,
            disks,
            servers,
            timer: None,
            timeouts: (Time::ZERO, 0),
        };
        self.all.insert(name.to_owned(), process);
        self.start(name);
    }

    /// Returns a machine of a process a disk that is a log. To be said before the machine has anything to write.
    pub fn add_log<R: Record>(&mut self, name: &str, role: RoleId) {
        self.process(name).disks.insert(role, Box::new(LogDisk::<R>::default()));
    }

    /// A machine of one process has its server in another, and keeps a session with it open from now on.
    pub fn connect(&mut self, client: (&str, RoleId), server: (&str, RoleId), family: Family) {
        let at = (server.0.to_owned(), server.1);
        let dialer = Dialer::new(1, TIMES);
        let servers = &mut self.process(client.0).servers;
        servers.push(Server { client: client.1, at, family, dialer, connection: None, was_up: false });
        let (server, life) = (servers.len() - 1, self.process(client.0).life);
        self.queue.push(self.now, Event::Dial { process: client.0.to_owned(), life, server });
    }

    /// A machine's server is another one from now on. Its session with the one before breaks.
    pub fn connect_elsewhere(&mut self, client: (&str, RoleId), server: (&str, RoleId)) {
        for known in self.process(client.0).servers.iter_mut().filter(|known| known.client == client.1) {
            known.at = (server.0.to_owned(), server.1);
        }
        self.break_off(|connection| (connection.dialer.0.as_str(), connection.dialer.1) == client);
    }

    /// From now on two processes are as far from each other as this.
    pub fn set_line(&mut self, one: &str, other: &str, line: Line) {
        self.lines.insert(pair(one, other), line);
    }

    /// The connections between two processes break. All messages on their way are lost.
    pub fn cut(&mut self, one: &str, other: &str) {
        let between = |connection: &Connection| pair(&connection.dialer.0, &connection.listener.0) == pair(one, other);
        self.break_off(between);
    }

    /// The line between two processes is gone until [`Processes::mend`].
    pub fn part(&mut self, one: &str, other: &str) {
        self.apart.insert(pair(one, other));
        self.cut(one, other);
    }

    /// The line between two processes is there again.
    pub fn mend(&mut self, one: &str, other: &str) {
        self.apart.remove(&pair(one, other));
    }

    /// A process does not run until [`Processes::go_on`]: its messages and timers wait for that.
    pub fn stop(&mut self, name: &str) {
        self.stopped.entry(name.to_owned()).or_default();
    }

    /// A process that was stopped runs on, and finds everything that has come in the meantime.
    pub fn go_on(&mut self, name: &str) {
        for event in self.stopped.remove(name).into_iter().flatten() {
            self.queue.push(self.now, event);
        }
    }

    /// A process dies: a prefix of the records that were not durable yet survives.
    pub fn crash(&mut self, name: &str) {
        self.go_on(name);
        // Of its connections' end this life of it hears no more.
        self.break_off(|connection| connection.dialer.0 == name || connection.listener.0 == name);
        let rng = &mut self.rng;
        let process = self.all.get_mut(name).expect("there is such a process");
        (process.node, process.timer) = (None, None);
        process.life += 1;
        process.disks.values_mut().for_each(|disk| disk.lose(rng));
    }

    /// Starts a process that is down.
    pub fn start(&mut self, name: &str) {
        let now = self.now;
        let process = self.all.get_mut(name).expect("there is such a process");
        let mut node = (process.build)(&Disks(&process.disks));
        node.start(now);
        process.node = Some(node);
        for (number, server) in process.servers.iter_mut().enumerate() {
            (server.connection, server.was_up, server.dialer) = (None, false, Dialer::new(1, TIMES));
            let (process, life) = (name.to_owned(), process.life);
            self.queue.push(now, Event::Dial { process, life, server: number });
        }
        self.pump(name);
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// A number below `bound`, drawn from the run's seed: for what an application chooses.
    pub fn draw(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    /// Runs for this long.
    pub fn run_for(&mut self, length: Duration) {
        let end = self.now + length;
        while self.queue.next_at().is_some_and(|at| at <= end) {
            let (at, event) = self.queue.pop().expect("just looked at");
            self.now = at;
            self.happen(event);
        }
        self.now = end;
    }

    /// Looks at the first machine of its type in a process; `None` while the process is down.
    pub fn look<M: Machine>(&self, name: &str) -> Option<&M> {
        self.all[name].node.as_ref()?.find()
    }

    /// Calls that machine, as its application does, and carries out what comes of it.
    pub fn call<M: Machine, R>(&mut self, name: &str, call: impl FnOnce(&mut M, Time) -> R) -> Option<R> {
        let now = self.now;
        let answer = self.process(name).node.as_mut()?.find_mut().map(|machine| call(machine, now));
        self.pump(name);
        answer
    }

    fn process(&mut self, name: &str) -> &mut Process {
        self.all.get_mut(name).unwrap_or_else(|| panic!("there is no process {name}"))
    }

    fn lives(&self, name: &str, life: u32) -> bool {
        self.all[name].life == life && self.all[name].node.is_some()
    }

    fn happen(&mut self, event: Event) {
        if let Some(stopped) = self.process_of(&event).and_then(|name| self.stopped.get_mut(&name)) {
            return stopped.push(event);
        }
        match event {
            Event::Dial { process, life, server } if self.lives(&process, life) => self.dial(&process, server),
            Event::Arrive { connection, to, item } => self.arrive(connection, to, item),
            Event::Gone { process, life, link } if self.lives(&process, life) => self.lose(&process, link),
            Event::Flushed { process, life, role } if self.lives(&process, life) => self.flushed(&process, role),
            Event::Timer { process, life } if self.lives(&process, life) => self.timer(&process),
            // It was meant for an earlier life.
            Event::Dial { .. } | Event::Gone { .. } | Event::Flushed { .. } | Event::Timer { .. } => {}
        }
    }

    /// The process that an event happens to, unless it is of a connection that is no more.
    fn process_of(&self, event: &Event) -> Option<String> {
        match event {
            Event::Arrive { connection, to, .. } => Some(self.connections.get(connection)?.end(*connection, *to).0),
            Event::Dial { process, .. }
            | Event::Gone { process, .. }
            | Event::Flushed { process, .. }
            | Event::Timer { process, .. } => Some(process.clone()),
        }
    }

    fn dial(&mut self, name: &str, server: usize) {
        self.opened += 1;
        let id = SessionId(self.opened);
        let found = &mut self.process(name).servers[server];
        found.dialer.attempt(|| None::<()>);
        found.connection = Some(id);
        let (dialer, listener, family) = ((name.to_owned(), found.client), found.at.clone(), found.family);
        let is_apart = self.apart.contains(&pair(&dialer.0, &listener.0));
        self.connections.insert(id, Connection { dialer, listener, family, directions: Default::default() });
        if is_apart {
            return self.break_off_one(id);
        }
        self.send(id, End::Listener, Item::Opened);
    }

    /// Puts something on the line towards an end.
    fn send(&mut self, id: SessionId, to: End, item: Item) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let line = self.lines.get(&pair(&connection.dialer.0, &connection.listener.0)).copied().unwrap_or(self.usual);
        let bytes = if let Item::Bytes(bytes) = &item { bytes.len() as u64 } else { 0 };
        let carried = line.rate.map_or(0, |rate| bytes * 1_000_000_000 / rate);
        let direction = &mut connection.directions[to as usize];
        direction.line_free = direction.line_free.max(self.now) + Duration::from_nanos(carried);
        let spread = self.rng.around(line.delay / 20);
        direction.last_arrival = direction.last_arrival.max(direction.line_free + line.delay + spread);
        let at = direction.last_arrival;
        self.queue.push(at, Event::Arrive { connection: id, to, item });
    }

    fn arrive(&mut self, id: SessionId, to: End, item: Item) {
        // All messages on a connection that breaks are lost.
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (name, link) = connection.end(id, to);
        let (codec, direction) = (connection.codec(to), &mut connection.directions[to as usize]);
        let is_first = matches!(item, Item::Bytes(_)) && !mem::replace(&mut direction.is_heard, true);
        if self.all[&name].node.is_none() {
            return self.break_off_one(id);
        }
        match (item, to) {
            // A server learns of a connection with the first message on it.
            (Item::Opened, End::Listener) => self.send(id, End::Dialer, Item::Opened),
            (Item::Opened, End::Dialer) => self.tell(&name, link.role, Told::Up(link.port)),
            (Item::Bytes(bytes), to) => {
                let mut inbox = Inbox::within_session(codec);
                let read = inbox.next(&mut &bytes[..]);
                let message = read.unwrap_or_else(|error| panic!("{name}: a message cannot be read: {error}"));
                let message = message.unwrap_or_else(|| panic!("{name}: a message is cut off"));
                match to {
                    End::Listener if is_first => self.tell(&name, link.role, Told::Up(link.port)),
                    End::Listener => {}
                    End::Dialer => self.process(&name).welcomed(id),
                }
                self.tell(&name, link.role, Told::Message(link.port, message));
            }
            (Item::Closed, _) => self.break_off_one(id),
        }
    }

    fn tell(&mut self, name: &str, role: RoleId, event: Told) {
        let now = self.now;
        if let Some(node) = &mut self.process(name).node {
            node.tell(now, role, event);
        }
        self.pump(name);
    }

    /// Does what a process's machines want done.
    fn pump(&mut self, name: &str) {
        let now = self.now;
        while let Some((role, said)) = self.process(name).node.as_mut().and_then(|node| node.poll(now)) {
            self.carry_out(name, role, said);
        }
        let process = self.all.get_mut(name).expect("it is being pumped");
        let due = process.node.as_ref().and_then(Node::poll_timeout).map(|due| due.max(now));
        if let Some(due) = due.filter(|due| process.timer.is_none_or(|set| *due < set)) {
            process.timer = Some(due);
            self.queue.push(due, Event::Timer { process: name.to_owned(), life: process.life });
        }
    }

    fn carry_out(&mut self, name: &str, role: RoleId, said: Said) {
        match said {
            Said::Send(port, message) => {
                let Some((id, end)) = self.connection_of(name, Link { role, port }) else { return };
                let codec = self.connections[&id].codec(end);
                let bytes = frames_of(codec, &message).unwrap_or_else(|error| panic!("{name}: {message:?}: {error}"));
                self.send(id, end.other(), Item::Bytes(bytes));
            }
            Said::End(port, reason, text) => {
                let Some((id, end)) = self.connection_of(name, Link { role, port }) else { return };
                let goodbye = self.connections[&id].codec(end).goodbye(Goodbye { reason, text });
                self.carry_out(name, role, Said::Send(port, goodbye));
                self.send(id, end.other(), Item::Closed);
            }
            // The line takes whatever there is.
            Said::AwaitRoom(port) => self.tell(name, role, Told::Room(port)),
            Said::Disk(work) => self.submit(name, role, work),
            Said::Dial(peer, _) => self.tell(name, role, Told::Down(Port::ToPeer(peer))),
            // Nobody waits, and what passes between machines of a process the node has passed on.
            Said::Wake(_) | Said::Tell(..) | Said::Closed => {}
        }
    }

    fn submit(&mut self, name: &str, role: RoleId, work: Opaque) {
        let process = self.process(name);
        let disk = process.disks.get_mut(&role).unwrap_or_else(|| panic!("{name}: {role:?} has no disk"));
        if disk.submit(work) {
            let life = process.life;
            let at = self.now + self.rng.around(FLUSH);
            self.queue.push(at, Event::Flushed { process: name.to_owned(), life, role });
        }
    }

    fn flushed(&mut self, name: &str, role: RoleId) {
        let process = self.process(name);
        let Some(disk) = process.disks.get_mut(&role) else { return };
        let (done, goes_on) = disk.flushed();
        let life = process.life;
        if goes_on {
            let at = self.now + self.rng.around(FLUSH);
            self.queue.push(at, Event::Flushed { process: name.to_owned(), life, role });
        }
        self.tell(name, role, Told::Disk(done));
    }

    fn timer(&mut self, name: &str) {
        let now = self.now;
        let process = self.process(name);
        if process.timer.is_some_and(|set| set > now) {
            return;
        }
        process.timer = None;
        if let Some(node) = process.node.as_mut().filter(|node| node.poll_timeout().is_some_and(|due| due <= now)) {
            let at_once = if process.timeouts.0 == now { process.timeouts.1 + 1 } else { 0 };
            process.timeouts = (now, at_once);
            assert!(at_once < TIMEOUTS_AT_ONCE_MAX, "{name} handles timeout after timeout, and time does not pass");
            node.handle_timeout(now);
        }
        self.pump(name);
    }

    /// The connection that a machine knows by a link, and which end that is.
    fn connection_of(&self, name: &str, link: Link) -> Option<(SessionId, End)> {
        let (id, end) = match link.port {
            Port::Session(id) => (id, End::Listener),
            Port::Server => {
                let server = self.all[name].servers.iter().find(|server| server.client == link.role)?;
                (server.connection?, End::Dialer)
            }
            Port::ToPeer(_) | Port::FromPeer(_) => return None,
        };
        // One that has broken is known until its end has learned of that.
        self.connections.contains_key(&id).then_some((id, end))
    }

    fn break_off(&mut self, which: impl Fn(&Connection) -> bool) {
        let broken: Vec<_> = self.connections.iter().filter(|(_, it)| which(it)).map(|(id, _)| *id).collect();
        for id in broken {
            self.break_off_one(id);
        }
    }

    /// A connection breaks; each end learns of it in its own time.
    fn break_off_one(&mut self, id: SessionId) {
        let Some(connection) = self.connections.remove(&id) else { return };
        for to in [End::Dialer, End::Listener] {
            let (process, link) = connection.end(id, to);
            let life = self.all[&process].life;
            let at = self.now + self.rng.around(HEAR_LOSS);
            self.queue.push(at, Event::Gone { process, life, link });
        }
    }

    fn lose(&mut self, name: &str, link: Link) {
        let now = self.now;
        let process = self.all.get_mut(name).expect("it hears of a loss");
        let lost =
            process.servers.iter_mut().enumerate().find(|(_, it)| link.port == Port::Server && it.client == link.role);
        if let Some((server, found)) = lost {
            found.connection = None;
            let next = found.dialer.lost(mem::take(&mut found.was_up), || false);
            let after = if let Next::After(pause) = next { self.rng.around(pause) } else { Duration::ZERO };
            self.queue.push(now + after, Event::Dial { process: name.to_owned(), life: process.life, server });
        }
        self.tell(name, link.role, Told::Down(link.port));
    }
}

impl Process {
    /// The server at the other end of a connection has answered.
    fn welcomed(&mut self, id: SessionId) {
        let of_it = self.servers.iter_mut().filter(|server| server.connection == Some(id));
        of_it.for_each(|server| server.was_up = true);
    }
}

impl Connection {
    /// The process at an end, and its link for the connection.
    fn end(&self, id: SessionId, end: End) -> (String, Link) {
        let ((name, role), port) = match end {
            End::Dialer => (&self.dialer, Port::Server),
            End::Listener => (&self.listener, Port::Session(id)),
        };
        (name.clone(), Link { role: *role, port })
    }

    fn codec(&self, end: End) -> &'static dyn Codec {
        match end {
            End::Dialer => self.family.client,
            End::Listener => self.family.server,
        }
    }
}

impl End {
    fn other(self) -> Self {
        match self {
            Self::Dialer => Self::Listener,
            Self::Listener => Self::Dialer,
        }
    }
}

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processes").field("now", &self.now).field("names", &self.all.keys()).finish_non_exhaustive()
    }
}

fn pair(one: &str, other: &str) -> (String, String) {
    let (a, b) = if one <= other { (one, other) } else { (other, one) };
    (a.to_owned(), b.to_owned())
}

/// A machine's disk in virtual time.
trait Disk: Any + fmt::Debug {
    /// Takes work. Returns whether a flush should begin.
    fn submit(&mut self, work: Opaque) -> bool;

    /// A flush is over. Returns what it has done, and whether another begins.
    fn flushed(&mut self) -> (DiskDone, bool);

    /// The power fails.
    fn lose(&mut self, rng: &mut Rng);
}

/// A disk that is a log.
#[derive(Debug)]
struct LogDisk<R> {
    records: Vec<(Position, R)>,
    /// How many of them are durable, and how many the flush under way makes so.
    durable: usize,
    flushing: Option<usize>,
}

impl<R> Default for LogDisk<R> {
    fn default() -> Self {
        Self { records: Vec::new(), durable: 0, flushing: None }
    }
}

impl<R: Record> Disk for LogDisk<R> {
    fn submit(&mut self, work: Opaque) -> bool {
        let Append(position, record) = work.open::<Append<R>>().unwrap_or_else(|other| {
            panic!("a log does no work such as {other:?}");
        });
        self.records.push((position, record));
        let begins = self.flushing.is_none();
        if begins {
            self.flushing = Some(self.records.len());
        }
        begins
    }

    fn flushed(&mut self) -> (DiskDone, bool) {
        self.durable = self.flushing.take().expect("a flush was under way");
        let through = self.records[..self.durable].last().map_or(Position::default(), |(position, _)| *position);
        let goes_on = self.durable < self.records.len();
        self.flushing = goes_on.then_some(self.records.len());
        (DiskDone::new(Durable(through)), goes_on)
    }

    fn lose(&mut self, rng: &mut Rng) {
        let survive = self.durable + rng.index(self.records.len() - self.durable + 1);
        self.records.truncate(survive);
        (self.durable, self.flushing) = (survive, None);
    }
}
