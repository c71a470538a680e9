//! The hands of all processes as far as the network goes: messages on their way, connections made, lost and given up.

use crate::bytes;
use crate::network::{Arrival, End, Item};
use crate::process::STORE;
use crate::trace;
use crate::violation::{Check, ensure};
use crate::world::{Event, World};
use core::time::Duration;
use node::{Link, Node};
use protocol::Message;
use store::SessionId;
use types::GoodbyeReason;

impl World {
    pub(crate) fn send(&mut self, connection: SessionId, to: End, mut message: Message) -> Check {
        if self.network.connection(connection).is_none() {
            return Ok(());
        }
        self.trace.event(self.now, &trace::digest(&message), || {
            format!("    s{} to {to:?}: {}", connection.0, trace::describe(&message))
        });
        if self.scenario.through_bytes {
            message = bytes::pass(&message, to)?;
        }
        self.send_item(connection, to, Item::Message(message));
        Ok(())
    }

    pub(crate) fn send_item(&mut self, connection: SessionId, to: End, item: Item) {
        let arrival = self.network.send(self.now, connection, to, item, &mut self.rng);
        self.expect(arrival);
    }

    pub(crate) fn expect(&mut self, arrivals: impl IntoIterator<Item = Arrival>) {
        for arrival in arrivals {
            self.queue.push(arrival.at, Event::Arrive(arrival.connection, arrival.to));
        }
    }

    pub(crate) fn dial_later(&mut self, number: usize) {
        let process = &mut self.processes[number];
        process.back_off = (process.back_off * 2).clamp(Duration::from_millis(1), Duration::from_millis(100));
        let (after, life) = (self.rng.around(process.back_off), process.life);
        self.later(after, Event::Dial(number, life));
    }

    pub(crate) fn dial(&mut self, number: usize) {
        if self.processes[number].uplink.is_none() {
            let (session, arrival) = self.network.open(self.now, number, &mut self.rng);
            self.processes[number].uplink = Some(session);
            self.expect([arrival]);
        }
    }

    pub(crate) fn arrive(&mut self, connection: SessionId, to: End) -> Check {
        let Some(client) = self.network.connection(connection).map(|connection| connection.client) else {
            return Ok(());
        };
        match self.network.arrive(self.now, connection, to) {
            Err(stalled_until) => {
                self.queue.push(stalled_until, Event::Arrive(connection, to));
                Ok(())
            }
            Ok(Some(item)) if to == End::Store => self.reach_store(connection, item),
            Ok(Some(item)) if self.processes[client].uplink == Some(connection) => {
                self.reach_client(client, connection, item)
            }
            Ok(_) => Ok(()),
        }
    }

    fn reach_store(&mut self, session: SessionId, item: Item) -> Check {
        let now = self.now;
        let up = self.processes[STORE].node.is_some() && !self.processes[STORE].closed;
        let Some(connection) = self.network.connection(session) else { return Ok(()) };
        let link = Link::Session(session);
        match item {
            Item::Opened if up => {
                connection.session = true;
                self.trace.event(now, &[5, session.0], || format!("store: s{} is opened", session.0));
                self.send_item(session, End::Client, Item::Opened);
                self.store_node().connected(now, link);
            }
            Item::Message(message) if connection.session => {
                self.trace.event(now, &[6, session.0], || {
                    format!("store hears s{}: {}", session.0, trace::describe(&message))
                });
                self.store_node().handle(now, link, message);
            }
            Item::Closed if connection.session => {
                connection.session = false;
                self.trace.event(now, &[7, session.0], || format!("store: s{} is gone", session.0));
                self.send_item(session, End::Client, Item::Closed);
                self.store_node().disconnected(now, link);
            }
            Item::Opened | Item::Closed => {
                self.send_item(session, End::Client, Item::Closed);
                self.network.deaf(session, End::Store);
                return Ok(());
            }
            Item::Message(_) => return Ok(()),
        }
        self.pump(STORE)
    }

    pub(crate) fn store_node(&mut self) -> &mut Node {
        self.processes[STORE].node.as_mut().expect("sessions end with the store's life")
    }

    fn reach_client(&mut self, number: usize, connection: SessionId, item: Item) -> Check {
        let now = self.now;
        let process = &mut self.processes[number];
        let Some(node) = &mut process.node else { return Ok(()) };
        match item {
            Item::Opened => {
                process.back_off = Duration::ZERO;
                self.trace
                    .event(now, &[8, number as u64], || format!("process {number} is connected as s{}", connection.0));
                node.connected(now, Link::Uplink);
            }
            Item::Message(message) => {
                self.trace.event(now, &[9, number as u64], || {
                    format!("process {number} hears {}", trace::describe(&message))
                });
                node.handle(now, Link::Uplink, message);
            }
            Item::Closed => {
                self.trace.event(now, &[10, number as u64], || format!("process {number} loses s{}", connection.0));
                process.uplink = None;
                node.disconnected(now, Link::Uplink);
                self.send_item(connection, End::Store, Item::Closed);
                self.dial_later(number);
            }
        }
        self.pump(number)
    }

    /// A client gives its connection up.
    pub(crate) fn hang_up(&mut self, number: usize, reason: GoodbyeReason, text: &str) -> Check {
        let now = self.now;
        self.trace.event(now, &[11, number as u64], || format!("process {number} hangs up: {}, {text}", reason.name()));
        ensure(is_honest(reason), "sessions", || format!("process {number} hangs up: {}, {text}", reason.name()))?;
        let Some(connection) = self.processes[number].uplink.take() else { return Ok(()) };
        self.send_item(connection, End::Store, Item::Closed);
        self.network.deaf(connection, End::Client);
        if let Some(node) = &mut self.processes[number].node {
            node.disconnected(now, Link::Uplink);
        }
        self.dial_later(number);
        Ok(())
    }

    /// The store ends a session. Its hands may tell it afterwards that the connection is gone, or not.
    pub(crate) fn end_session(&mut self, session: SessionId, reason: GoodbyeReason, text: &str) -> Check {
        let now = self.now;
        self.trace.event(now, &[12, session.0], || format!("store ends s{}: {}, {text}", session.0, reason.name()));
        ensure(is_honest(reason), "sessions", || format!("the store ends s{}: {}, {text}", session.0, reason.name()))?;
        self.send_item(session, End::Client, Item::Closed);
        self.network.deaf(session, End::Store);
        if let Some(connection) = self.network.connection(session) {
            connection.session = false;
        }
        if self.rng.chance(500) {
            self.store_node().disconnected(now, Link::Session(session));
        }
        Ok(())
    }
}

/// Whether roles that follow the protocol can come to part for this reason.
fn is_honest(reason: GoodbyeReason) -> bool {
    !matches!(
        reason,
        GoodbyeReason::Malformed | GoodbyeReason::Protocol | GoodbyeReason::WrongCluster | GoodbyeReason::TooMuch
    )
}
