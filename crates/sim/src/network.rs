//! The virtual network: connections of two FIFO directions, each with its own delays.
//!
//! A message is on its way from the moment it is sent; what arrives is always the head of its direction, so that a
//! direction is FIFO whatever its delays do, and directions overtake each other freely. A connection that is lost
//! takes some of what is under way with it: a prefix still arrives, the rest never does, and each end hears of the
//! loss at its own time, which can be long after the other end has connected anew.

use crate::rng::{Delay, Rng};
use core::time::Duration;
use protocol::Message;
use std::collections::{BTreeMap, VecDeque};
use store::SessionId;
use types::Time;

/// Where something on a connection arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Client,
    Store,
}

/// What arrives at one end of a connection.
#[derive(Debug)]
pub(crate) enum Item {
    /// The other end has opened the connection, or accepted it.
    Opened,
    Message(Message),
    /// Nothing more will come.
    Closed,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Direction {
    /// With the time at which each arrives.
    items: VecDeque<(Time, Item)>,
    last_arrival: Time,
    /// Nothing can be put in any more.
    shut: bool,
}

#[derive(Debug)]
pub(crate) struct Connection {
    /// The process at the client's end.
    pub(crate) client: usize,
    to_client: Direction,
    to_store: Direction,
    /// The store has taken the connection for a session, and the session has not ended there.
    pub(crate) session: bool,
}

impl Connection {
    fn direction(&mut self, to: End) -> &mut Direction {
        match to {
            End::Client => &mut self.to_client,
            End::Store => &mut self.to_store,
        }
    }
}

/// How a client process reaches the store.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) delay: Delay,
    /// Nothing arrives before this time: the path is stalled or cut off for a while.
    pub(crate) stalled_until: Time,
}

#[derive(Debug)]
pub(crate) struct Network {
    connections: BTreeMap<SessionId, Connection>,
    paths: Vec<Path>,
    opened: u64,
}

/// Something will arrive at one end of a connection at this time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Time,
    pub(crate) connection: SessionId,
    pub(crate) to: End,
}

impl Network {
    /// A network with one path for each process.
    pub(crate) fn new(paths: Vec<Path>) -> Self {
        Self { connections: BTreeMap::new(), paths, opened: 0 }
    }

    pub(crate) fn path(&mut self, process: usize) -> &mut Path {
        &mut self.paths[process]
    }

    pub(crate) fn connection(&mut self, id: SessionId) -> Option<&mut Connection> {
        self.connections.get_mut(&id)
    }

    /// The connections that exist, oldest first.
    pub(crate) fn connections(&self) -> impl Iterator<Item = (SessionId, &Connection)> {
        self.connections.iter().map(|(&id, connection)| (id, connection))
    }

    /// A client process opens a connection.
    pub(crate) fn open(&mut self, now: Time, client: usize, rng: &mut Rng) -> (SessionId, Arrival) {
        self.opened += 1;
        let id = SessionId(self.opened);
        let (to_client, to_store) = (Direction::default(), Direction::default());
        self.connections.insert(id, Connection { client, to_client, to_store, session: false });
        let arrival = self.send(now, id, End::Store, Item::Opened, rng).expect("the connection is new");
        (id, arrival)
    }

    /// Sends an item to one end; `None` if that direction takes nothing any more.
    pub(crate) fn send(&mut self, now: Time, id: SessionId, to: End, item: Item, rng: &mut Rng) -> Option<Arrival> {
        let connection = self.connections.get_mut(&id)?;
        let delay = self.paths[connection.client].delay.draw(rng);
        let direction = connection.direction(to);
        if direction.shut {
            return None;
        }
        direction.shut = matches!(item, Item::Closed);
        direction.last_arrival = direction.last_arrival.max(now + delay);
        direction.items.push_back((direction.last_arrival, item));
        Some(Arrival { at: direction.last_arrival, connection: id, to })
    }

    /// Takes what arrives at one end; `Err` says when to look again, because the path is stalled.
    pub(crate) fn arrive(&mut self, now: Time, id: SessionId, to: End) -> Result<Option<Item>, Time> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(None) };
        let stalled_until = self.paths[connection.client].stalled_until;
        if stalled_until > now {
            return Err(stalled_until);
        }
        let items = &mut connection.direction(to).items;
        let due = items.front().is_some_and(|(at, _)| *at <= now);
        let item = if due { items.pop_front().map(|(_, item)| item) } else { None };
        let over = |direction: &Direction| direction.shut && direction.items.is_empty();
        if over(&connection.to_client) && over(&connection.to_store) {
            self.connections.remove(&id);
        }
        Ok(item)
    }

    /// The connection breaks. Of what is under way in each direction a drawn prefix still arrives, then the loss;
    /// gives the two arrivals of the loss, at the client and at the store, and how many messages are lost.
    pub(crate) fn cut(
        &mut self,
        now: Time,
        id: SessionId,
        heard: [Duration; 2],
        rng: &mut Rng,
    ) -> (Vec<Arrival>, usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return (Vec::new(), 0) };
        let (mut arrivals, mut lost) = (Vec::new(), 0);
        for (to, after) in [(End::Client, heard[0]), (End::Store, heard[1])] {
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
