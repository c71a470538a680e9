//! The virtual network: connections of two FIFO directions, each with its own delays.
//!
//! A message is on its way from the moment it is sent; what arrives is always the head of its direction, so that a
//! direction is FIFO whatever its delays do, and directions overtake each other freely. Within a direction a message
//! may take the place of one before it that yields to it (`protocol::order`), as on a slow line. A connection that is
//! lost takes some of what is under way with it: a prefix still arrives, the rest never does, and each end learns of
//! the loss at its own time, which can be long after the other end has connected again.

use crate::process::{Link, STORE};
use crate::rng::{Delay, Rng};
use core::time::Duration;
use machine::Parcel;
use messages::ToClient;
use std::collections::{BTreeMap, VecDeque};
use types::{Broken, ClientId, Rule, SessionId, Time};

/// Where something on a connection arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// At the process that has opened it.
    Dialer,
    /// At the one that has taken it.
    Listener,
}

impl End {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Dialer => Self::Listener,
            Self::Listener => Self::Dialer,
        }
    }
}

/// The purpose of a connection: what its dialer's node knows it as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A client's session with a store or a redirector.
    Uplink,
    /// A redirector's with a store.
    Trunk,
    /// From one member of a group to this one.
    Peer(ClientId),
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
        matches!(message.get(), Some(ToClient::Notices(_) | ToClient::Page(_) | ToClient::CommitReply(_)))
    };
    later.pace().may_pass(earlier.pace()) || (broken.is(Rule::KeepOrder) && is_told(later) && is_told(earlier))
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) purpose: Purpose,
    /// The process that has opened it.
    pub(crate) dialer: usize,
    /// The process that it leads to.
    pub(crate) listener: usize,
    to_dialer: Direction,
    to_listener: Direction,
    /// The listener has accepted it, and it has not ended there.
    pub(crate) accepted: bool,
    /// The dialer has heard that it was accepted.
    pub(crate) answered: bool,
    /// The listener has heard a first message.
    pub(crate) heard: bool,
}

impl Connection {
    fn direction(&mut self, to: End) -> &mut Direction {
        match to {
            End::Dialer => &mut self.to_dialer,
            End::Listener => &mut self.to_listener,
        }
    }

    /// The process at one end.
    pub(crate) fn process(&self, end: End) -> usize {
        match end {
            End::Dialer => self.dialer,
            End::Listener => self.listener,
        }
    }

    /// The link that the node at one end knows it as.
    pub(crate) fn link(&self, id: SessionId, end: End) -> Link {
        match (end, self.purpose) {
            (End::Dialer, Purpose::Uplink) => Link::Uplink,
            (End::Dialer, Purpose::Trunk) => Link::Trunk,
            (End::Dialer, Purpose::Peer(peer)) => Link::ToPeer(peer),
            (End::Listener, Purpose::Peer(_)) => Link::FromPeer(id),
            (End::Listener, Purpose::Uplink | Purpose::Trunk) => Link::Session(id),
        }
    }
}

/// How a process reaches the others: connections that it dials have the delays of its path.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) delay: Delay,
    /// How much each direction of a connection carries; `None` for as much as there is.
    pub(crate) bytes_per_second: Option<u64>,
    /// Nothing arrives before this time: the path is stalled or cut off for a while.
    pub(crate) stalled_until: Time,
}

impl Path {
    /// A path with these delays that carries whatever there is.
    pub(crate) fn of(delay: Delay) -> Self {
        Self { delay, bytes_per_second: None, stalled_until: Time::ZERO }
    }
}

#[derive(Debug)]
pub(crate) struct Network {
    connections: BTreeMap<SessionId, Connection>,
    paths: Vec<Path>,
    /// The delay of what leads to the store, if it is not that of its dialer's path.
    pub(crate) to_store: Option<Delay>,
    /// Pairs of processes between which nothing arrives before a time.
    severed: BTreeMap<(usize, usize), Time>,
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
}

impl Network {
    /// A network with one path for each process, on which so many of those messages pass another that may.
    pub(crate) fn new(paths: Vec<Path>, pass_permille: u32, broken: Broken) -> Self {
        let (connections, severed) = Default::default();
        Self { connections, paths, to_store: None, severed, pass_permille, broken, opened: 0, ended: false }
    }

    pub(crate) fn path(&mut self, process: usize) -> &mut Path {
        &mut self.paths[process]
    }

    /// Nothing arrives between two processes until then.
    pub(crate) fn sever(&mut self, a: usize, b: usize, until: Time) {
        self.severed.insert((a.min(b), a.max(b)), until);
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
            () if connection.dialer == process => Some(End::Dialer),
            () if connection.listener == process => Some(End::Listener),
            () => None,
        };
        self.connections().filter_map(|(id, connection)| Some((id, end(connection)?))).collect()
    }

    /// A process opens a connection to another.
    pub(crate) fn open(
        &mut self,
        now: Time,
        purpose: Purpose,
        dialer: usize,
        listener: usize,
        rng: &mut Rng,
    ) -> (SessionId, Arrival) {
        self.opened += 1;
        let id = SessionId(self.opened);
        let (to_dialer, to_listener) = (Direction::default(), Direction::default());
        let connection = Connection {
            purpose,
            dialer,
            listener,
            to_dialer,
            to_listener,
            accepted: false,
            answered: false,
            heard: false,
        };
        self.connections.insert(id, connection);
        let arrival =
            self.send(now, id, End::Listener, Item::Opened, Duration::ZERO, rng).expect("the connection is new");
        (id, arrival)
    }

    /// Sends an item to one end, for which the line is busy for this long; `None` if that direction takes nothing any
    /// more.
    pub(crate) fn send(
        &mut self,
        now: Time,
        id: SessionId,
        to: End,
        item: Item,
        carried: Duration,
        rng: &mut Rng,
    ) -> Option<Arrival> {
        let delay = self.delay(id)?.draw(rng);
        let connection = self.connections.get_mut(&id)?;
        let direction = connection.direction(to);
        if direction.shut {
            return None;
        }
        direction.shut = matches!(item, Item::Closed);
        self.ended |= direction.shut;
        direction.line_free = direction.line_free.max(now) + carried;
        direction.last_arrival = direction.last_arrival.max(direction.line_free + delay);
        direction.items.push_back((direction.last_arrival, item));
        let (permille, broken) = (self.pass_permille, self.broken);
        direction.pass(|later, earlier| may_pass(later, earlier, broken) && rng.chance(permille));
        Some(Arrival { at: direction.last_arrival, connection: id, to })
    }

    /// How long what is sent on a connection is on its way.
    pub(crate) fn delay(&self, id: SessionId) -> Option<Delay> {
        let connection = self.connections.get(&id)?;
        let usual = self.paths[connection.dialer].delay;
        Some(self.to_store.filter(|_| connection.listener == STORE).unwrap_or(usual))
    }

    /// When everything that was sent to one end has left.
    pub(crate) fn line_free(&mut self, id: SessionId, to: End) -> Option<Time> {
        self.connections.get_mut(&id).map(|connection| connection.direction(to).line_free)
    }

    /// How many bytes a connection carries in a second, if it is a slow one.
    pub(crate) fn bytes_per_second(&self, id: SessionId) -> Option<u64> {
        self.paths[self.connections.get(&id)?.dialer].bytes_per_second
    }

    /// Whether something is on its way to this end, some of which can have arrived.
    pub(crate) fn is_receiving(&mut self, now: Time, id: SessionId, to: End) -> bool {
        let Some(connection) = self.connections.get(&id) else { return false };
        let is_stalled = self.stalled_until(connection.dialer, connection.listener) > now;
        let Some(connection) = self.connections.get_mut(&id).filter(|_| !is_stalled) else { return false };
        matches!(connection.direction(to).items.front(), Some((_, Item::Message(_))))
    }

    /// Until when nothing arrives on a connection.
    fn stalled_until(&self, dialer: usize, listener: usize) -> Time {
        let pair = (dialer.min(listener), dialer.max(listener));
        let severed = self.severed.get(&pair).copied().unwrap_or(Time::ZERO);
        severed.max(self.paths[dialer].stalled_until)
    }

    /// Takes what arrives at one end; `Err` says when to look again, because the path is stalled.
    pub(crate) fn arrive(&mut self, now: Time, id: SessionId, to: End) -> Result<Option<Item>, Time> {
        let Some(connection) = self.connections.get(&id) else { return Ok(None) };
        let stalled_until = self.stalled_until(connection.dialer, connection.listener);
        if stalled_until > now {
            return Err(stalled_until);
        }
        let connection = self.connections.get_mut(&id).expect("just seen");
        let items = &mut connection.direction(to).items;
        let due = items.front().is_some_and(|(at, _)| *at <= now);
        let item = if due { items.pop_front().map(|(_, item)| item) } else { None };
        Ok(item)
    }

    /// Lets go of a connection on which nothing will arrive any more. Not before its last arrival has been learned of.
    pub(crate) fn forget_if_over(&mut self, id: SessionId) {
        let over = |direction: &Direction| direction.shut && direction.items.is_empty();
        let is_over = |connection: &Connection| over(&connection.to_dialer) && over(&connection.to_listener);
        if self.connections.get(&id).is_some_and(is_over) {
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
            let direction = connection.direction(to);
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
            arrivals.push(Arrival { at: direction.last_arrival, connection: id, to });
        }
        (arrivals, lost)
    }

    /// One end's process is gone, or has closed: it takes nothing more, and what was under way to it is nothing.
    pub(crate) fn deaf(&mut self, id: SessionId, end: End) {
        if let Some(connection) = self.connections.get_mut(&id) {
            let direction = connection.direction(end);
            direction.items.clear();
            direction.shut = true;
        }
    }
}
