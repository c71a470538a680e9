//! The virtual network: connections of two FIFO directions, each with its own delays, over lines and shared media.
//!
//! A message is on its way from the moment it is sent. The head of a direction always arrives first, so a direction
//! is FIFO whatever its delays are, and directions overtake each other freely. Within a direction a message may take
//! the place of one before it that yields to it (`messages::order`), as on a slow line. When a connection breaks, a
//! drawn prefix of what is under way still arrives, the rest never does, and each end learns of the loss at its own
//! time, which can be long after the other end has connected again.
//!
//! A **medium** is a line that many processes share, like an ideal Ethernet: a message occupies it for its bytes
//! divided by its rate, and the next one waits, even if another process sends it.

use crate::rng::{Delay, Rng};
use core::time::Duration;
use framing::Codec;
use machine::{Link, Parcel, Port, RoleId};
use messages::ToClient;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::{Broken, Rule, SessionId, Time};

/// Where something on a connection arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// At the process that has opened it.
    Dialer = 0,
    /// At the one that has taken it.
    Listener = 1,
}

impl End {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Dialer => Self::Listener,
            Self::Listener => Self::Dialer,
        }
    }
}

/// A machine of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) process: usize,
    pub(crate) role: RoleId,
}

/// How a session's two ends become bytes: its client's, and its server's.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The codec of the client.
    pub client: &'static dyn Codec,
    /// The codec of the server.
    pub server: &'static dyn Codec,
}

impl Family {
    /// The codec of one end.
    pub(crate) fn codec(self, end: End) -> &'static dyn Codec {
        match end {
            End::Dialer => self.client,
            End::Listener => self.server,
        }
    }
}

/// An arrival at one end of a connection.
#[derive(Debug)]
pub(crate) enum Item {
    /// The other end has opened the connection, or accepted it.
    Opened,
    Message(Parcel),
    /// Nothing more will come.
    Closed,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Direction {
    /// With the time at which each arrives.
    items: VecDeque<(Time, Item)>,
    last_arrival: Time,
    /// The line carries what was sent before until then.
    line_free: Time,
    /// A message was sent.
    /// Nothing can be put in any more.
    shut: bool,
}

impl Direction {
    /// The last item takes the places of those before it, one after the other, as long as it may.
    fn pass(&mut self, mut passes: impl FnMut(&Item, &Item) -> bool) {
        let items = self.items.make_contiguous();
        for at in (1..items.len()).rev() {
            let [(_, earlier), (_, later)] = &mut items[at - 1..=at] else { return };
            if !passes(later, earlier) {
                return;
            }
            core::mem::swap(earlier, later);
        }
    }
}

/// Whether an item may arrive before an earlier one.
fn may_pass(later: &Item, earlier: &Item, broken: Broken) -> bool {
    let (Item::Message(later), Item::Message(earlier)) = (later, earlier) else { return false };
    let is_told = |message: &Parcel| {
        matches!(message.get(), Some(ToClient::Invalidations(_) | ToClient::Page(_) | ToClient::CommitReply(_)))
    };
    later.pace().may_pass(earlier.pace()) || (broken.is(Rule::KeepOrder) && is_told(later) && is_told(earlier))
}

#[derive(Debug)]
pub(crate) struct Connection {
    /// The machine that has opened it, and the port that it knows it by.
    pub(crate) dialer: Place,
    port: Port,
    /// The machine that it leads to.
    pub(crate) listener: Place,
    pub(crate) family: Family,
    directions: [Direction; 2],
    /// The listener has accepted it, and it has not ended there.
    pub(crate) accepted: bool,
    /// The dialer has heard that it was accepted.
    pub(crate) answered: bool,
    /// The listener has heard a first message.
    pub(crate) heard: bool,
}

impl Connection {
    /// The process at one end.
    pub(crate) fn process(&self, end: End) -> usize {
        match end {
            End::Dialer => self.dialer.process,
            End::Listener => self.listener.process,
        }
    }

    /// The link that the node at one end knows it as.
    pub(crate) fn link(&self, id: SessionId, end: End) -> Link {
        match (end, self.port) {
            (End::Dialer, port) => Link { role: self.dialer.role, port },
            (End::Listener, Port::ToPeer(_)) => Link { role: self.listener.role, port: Port::FromPeer(id) },
            (End::Listener, _) => Link { role: self.listener.role, port: Port::Session(id) },
        }
    }

    /// Whether it is between these two processes.
    pub(crate) fn is_between(&self, a: usize, b: usize) -> bool {
        self.pair() == pair(a, b)
    }

    fn pair(&self) -> (usize, usize) {
        pair(self.dialer.process, self.listener.process)
    }
}

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

/// How a process reaches the others: connections that it dials have the delays of its path, unless there is a path for
/// the two processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) delay: Delay,
    /// How much each direction of a connection carries; `None` for as much as there is.
    pub(crate) bytes_per_second: Option<u64>,
    /// The medium that carries it.
    pub(crate) medium: Option<usize>,
    /// Nothing arrives before this time: the path is stalled or cut off for a while.
    pub(crate) stalled_until: Time,
}

impl Path {
    /// A path with these delays that carries whatever there is.
    pub(crate) fn of(delay: Delay) -> Self {
        Self { delay, bytes_per_second: None, medium: None, stalled_until: Time::ZERO }
    }
}

/// A line that several processes share.
#[derive(Clone, Copy, Debug)]
pub struct SharedLine {
    /// From one process to another, when the line is free.
    pub delay: Duration,
    /// Its rate.
    pub bytes_per_second: u64,
    /// A shorter message counts as one of this length.
    pub least_bytes: u64,
}

/// The messages that a line has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// How many.
    pub messages: u64,
    /// Their bytes, each at least as many as the shortest takes.
    pub bytes: u64,
}

#[derive(Debug)]
struct Medium {
    line: SharedLine,
    carried: Carried,
    /// It carries what was sent before until then.
    free: Time,
}

#[derive(Debug)]
pub(crate) struct Network {
    connections: BTreeMap<SessionId, Connection>,
    /// Of each process.
    paths: Vec<Path>,
    /// Of pairs of processes.
    between: BTreeMap<(usize, usize), Path>,
    media: Vec<Medium>,
    /// Pairs of processes between which nothing arrives before a time.
    severed: BTreeMap<(usize, usize), Time>,
    /// Pairs of processes between which no connection comes up.
    parted: BTreeSet<(usize, usize)>,
    /// How often a message passes one that yields to it.
    pass_permille: u32,
    broken: Broken,
    opened: u64,
    /// Some connection has ended.
    ended: bool,
}

/// Something will arrive at one end of a connection at this time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Time,
    pub(crate) connection: SessionId,
    pub(crate) to: End,
    /// How long the line carries it.
    pub(crate) carried: Duration,
}

impl Network {
    /// A network with one path for each process, on which so many of those messages pass another that may.
    pub(crate) fn new(paths: Vec<Path>, pass_permille: u32, broken: Broken) -> Self {
        let (connections, between, media, severed, parted) = Default::default();
        let (opened, ended) = (0, false);
        Self { connections, paths, between, media, severed, parted, pass_permille, broken, opened, ended }
    }

    /// Adds the path of one more process.
    pub(crate) fn add_path(&mut self, path: Path) {
        self.paths.push(path);
    }

    pub(crate) fn path(&mut self, process: usize) -> &mut Path {
        &mut self.paths[process]
    }

    /// From now on two processes have a path of their own.
    pub(crate) fn set_between(&mut self, a: usize, b: usize, path: Path) {
        self.between.insert(pair(a, b), path);
    }

    /// From now on all connections among these processes are carried by one medium. Returns its number.
    pub(crate) fn share(&mut self, processes: &[usize], delay: Delay, line: SharedLine) -> usize {
        let number = self.media.len();
        let medium = Some(number);
        self.media.push(Medium { line, carried: Carried::default(), free: Time::ZERO });
        for (nth, &one) in processes.iter().enumerate() {
            for &other in &processes[nth + 1..] {
                self.set_between(one, other, Path { medium, ..Path::of(delay) });
            }
        }
        number
    }

    /// The messages that a medium has carried.
    pub(crate) fn carried(&self, medium: usize) -> Carried {
        self.media[medium].carried
    }

    /// Nothing arrives between two processes until then.
    pub(crate) fn sever(&mut self, a: usize, b: usize, until: Time) {
        self.severed.insert(pair(a, b), until);
    }

    /// No connection comes up between two processes from now on, or one does again.
    pub(crate) fn part(&mut self, a: usize, b: usize, is_parted: bool) {
        if is_parted {
            self.parted.insert(pair(a, b))
        } else {
            self.parted.remove(&pair(a, b))
        };
    }

    pub(crate) fn is_parted(&self, a: usize, b: usize) -> bool {
        self.parted.contains(&pair(a, b))
    }

    /// Everything arrives again; as fast as it can, but on lines that stay slow.
    pub(crate) fn heal(&mut self, stays_slow: bool) {
        self.severed.clear();
        for path in &mut self.paths {
            path.stalled_until = Time::ZERO;
            path.bytes_per_second = path.bytes_per_second.filter(|_| stays_slow);
        }
    }

    pub(crate) fn connection(&mut self, id: SessionId) -> Option<&mut Connection> {
        self.connections.get_mut(&id)
    }

    /// Whether some connection has ended.
    pub(crate) fn has_ended_any(&self) -> bool {
        self.ended
    }

    /// The connections that exist, oldest first.
    pub(crate) fn connections(&self) -> impl Iterator<Item = (SessionId, &Connection)> {
        self.connections.iter().map(|(&id, connection)| (id, connection))
    }

    /// The connections that have one of their ends at a process, and which.
    pub(crate) fn connections_of(&self, process: usize) -> Vec<(SessionId, End)> {
        let end = |connection: &Connection| match () {
            () if connection.dialer.process == process => Some(End::Dialer),
            () if connection.listener.process == process => Some(End::Listener),
            () => None,
        };
        self.connections().filter_map(|(id, connection)| Some((id, end(connection)?))).collect()
    }

    /// A machine opens a connection to another, and knows it by this port.
    pub(crate) fn open(&mut self, dialer: Place, port: Port, listener: Place, family: Family) -> SessionId {
        self.opened += 1;
        let id = SessionId(self.opened);
        let (directions, accepted, answered, heard) = Default::default();
        let connection = Connection { dialer, port, listener, family, directions, accepted, answered, heard };
        self.connections.insert(id, connection);
        id
    }

    /// Sends an item of so many bytes to one end; `None` if that direction takes nothing any more.
    pub(crate) fn send(
        &mut self,
        now: Time,
        id: SessionId,
        to: End,
        item: Item,
        bytes: u64,
        rng: &mut Rng,
    ) -> Option<Arrival> {
        let path = *self.path_of(id)?;
        let delay = path.delay.draw(rng);
        let connection = self.connections.get_mut(&id)?;
        let direction = &mut connection.directions[to as usize];
        if direction.shut {
            return None;
        }
        direction.shut = matches!(item, Item::Closed);
        self.ended |= direction.shut;
        let mut medium = path.medium.map(|medium| &mut self.media[medium]);
        let rate = medium.as_ref().map(|medium| medium.line.bytes_per_second).or(path.bytes_per_second);
        let mut bytes = bytes;
        if let (Some(medium), Item::Message(_)) = (&mut medium, &item) {
            bytes = bytes.max(medium.line.least_bytes);
            medium.carried.messages += 1;
            medium.carried.bytes += bytes;
        }
        let carried = Duration::from_nanos(rate.map_or(0, |rate| bytes * 1_000_000_000 / rate));
        let begins = medium.as_ref().map_or(direction.line_free, |medium| medium.free);
        direction.line_free = begins.max(now) + carried;
        if let Some(medium) = medium {
            medium.free = direction.line_free;
        }
        direction.last_arrival = direction.last_arrival.max(direction.line_free + delay);
        direction.items.push_back((direction.last_arrival, item));
        let (permille, broken) = (self.pass_permille, self.broken);
        direction.pass(|later, earlier| may_pass(later, earlier, broken) && rng.chance(permille));
        Some(Arrival { at: direction.last_arrival, connection: id, to, carried })
    }

    fn path_of(&self, id: SessionId) -> Option<&Path> {
        let connection = self.connections.get(&id)?;
        Some(self.between.get(&connection.pair()).unwrap_or(&self.paths[connection.dialer.process]))
    }

    /// How long an item on a connection is on its way.
    pub(crate) fn delay(&self, id: SessionId) -> Option<Delay> {
        self.path_of(id).map(|path| path.delay)
    }

    /// When everything that was sent to one end has left.
    pub(crate) fn line_free(&self, id: SessionId, to: End) -> Option<Time> {
        self.connections.get(&id).map(|connection| connection.directions[to as usize].line_free)
    }

    /// Whether it takes longer to send more bytes on a connection.
    pub(crate) fn weighs(&self, id: SessionId) -> bool {
        self.path_of(id).is_some_and(|path| path.bytes_per_second.is_some() || path.medium.is_some())
    }

    /// Whether something is on its way to this end, some of which can have arrived.
    pub(crate) fn is_receiving(&self, now: Time, id: SessionId, to: End) -> bool {
        let connection = self.connections.get(&id).filter(|connection| self.stalled_until(connection) <= now);
        let first = connection.and_then(|connection| connection.directions[to as usize].items.front());
        matches!(first, Some((_, Item::Message(_))))
    }

    /// Until when nothing arrives on a connection.
    fn stalled_until(&self, connection: &Connection) -> Time {
        let severed = self.severed.get(&connection.pair()).copied().unwrap_or(Time::ZERO);
        severed.max(self.paths[connection.dialer.process].stalled_until)
    }

    /// Takes what arrives at one end; `Err` says when to look again, because the path is stalled.
    pub(crate) fn arrive(&mut self, now: Time, id: SessionId, to: End) -> Result<Option<Item>, Time> {
        let Some(connection) = self.connections.get(&id) else { return Ok(None) };
        let stalled_until = self.stalled_until(connection);
        if stalled_until > now {
            return Err(stalled_until);
        }
        let connection = self.connections.get_mut(&id).expect("just seen");
        let items = &mut connection.directions[to as usize].items;
        let due = items.front().is_some_and(|(at, _)| *at <= now);
        Ok(if due { items.pop_front().map(|(_, item)| item) } else { None })
    }

    /// Lets go of a connection on which nothing will arrive any more. Not before its last arrival has been learned of.
    pub(crate) fn forget_if_over(&mut self, id: SessionId) {
        let over = |direction: &Direction| direction.shut && direction.items.is_empty();
        if self.connections.get(&id).is_some_and(|connection| connection.directions.iter().all(over)) {
            self.connections.remove(&id);
        }
    }

    /// The connection breaks. Of what is under way in each direction a drawn prefix still arrives, then the loss;
    /// gives the two arrivals of the loss, at the dialer and at the listener, and how many messages are lost.
    pub(crate) fn cut(
        &mut self,
        now: Time,
        id: SessionId,
        heard: [Duration; 2],
        rng: &mut Rng,
    ) -> (Vec<Arrival>, usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return (Vec::new(), 0) };
        self.ended = true;
        let (mut arrivals, mut lost) = (Vec::new(), 0);
        for (to, after) in [(End::Dialer, heard[0]), (End::Listener, heard[1])] {
            let direction = &mut connection.directions[to as usize];
            if direction.shut {
                continue;
            }
            let survive = rng.index(direction.items.len() + 1);
            lost += direction.items.len() - survive;
            direction.items.truncate(survive);
            direction.shut = true;
            let last = direction.items.back().map_or(now, |(at, _)| *at);
            direction.last_arrival = last.max(now + after);
            direction.items.push_back((direction.last_arrival, Item::Closed));
            arrivals.push(Arrival { at: direction.last_arrival, connection: id, to, carried: Duration::ZERO });
        }
        (arrivals, lost)
    }

    /// One end's process is gone, or has closed: it takes nothing more, and what was under way to it is nothing.
    pub(crate) fn deaf(&mut self, id: SessionId, end: End) {
        if let Some(connection) = self.connections.get_mut(&id) {
            let direction = &mut connection.directions[end as usize];
            direction.items.clear();
            direction.shut = true;
        }
    }
}
