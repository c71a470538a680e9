//! The driver of all processes as far as the network goes: messages on their way, connections made, lost and given up.

use crate::network::{Arrival, End, Item, Purpose};
use crate::process::{Link, Process, STORE};
use crate::violation::{Check, ensure};
use crate::world::{Event, World};
use crate::{bytes, trace};
use client::Client;
use core::mem;
use core::time::Duration;
use machine::{Event as Told, Goodbye, Parcel};
use messages::{ToClient, ToPeer, admit};
use redirector::Redirector;
use session::{Next, Target};
use store::Store;
use types::{ClientId, GoodbyeReason, SessionId, Time};

/// How often both ends learn of a long message that some more of it has arrived, and how often at most.
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_millis(20);
const SIGNS_OF_LIFE_MAX: u32 = 50;

impl World {
    pub(crate) fn send(&mut self, connection: SessionId, to: End, mut message: Parcel) -> Check {
        let Some(found) = self.network.connection(connection) else { return Ok(()) };
        let purpose = found.purpose;
        self.trace.event(self.now, &trace::digest(&message), || {
            format!("    s{} to {to:?}: {}", connection.0, trace::describe(&message))
        });
        if self.scenario.through_bytes {
            message = bytes::pass(&message, purpose, to)?;
        }
        let carried = match self.network.bytes_per_second(connection) {
            Some(rate) => Duration::from_secs(1) * bytes::written(&message, purpose, to)?.len() as u32 / rate as u32,
            None => Duration::ZERO,
        };
        self.send_carried(connection, to, Item::Message(message), carried);
        Ok(())
    }

    pub(crate) fn send_item(&mut self, connection: SessionId, to: End, item: Item) {
        self.send_carried(connection, to, item, Duration::ZERO);
    }

    /// Sends an item that keeps the line busy for this long. Bytes are heartbeat.
    fn send_carried(&mut self, connection: SessionId, to: End, item: Item, carried: Duration) {
        let sender = self.network.connection(connection).map(|found| found.process(to.other()));
        let leaves = sender.map_or(self.now, |sender| self.now.max(self.processes[sender].busy_until));
        let arrival = self.network.send(leaves, connection, to, item, carried, &mut self.rng);
        self.expect(arrival);
        let Some(arrival) = arrival else { return };
        let signs = (carried.as_nanos() / SIGN_OF_LIFE_EVERY.as_nanos()).min(SIGNS_OF_LIFE_MAX.into()) as u32;
        for sign in 1..=signs {
            let at = Time::ZERO + arrival.at.since(Time::ZERO + SIGN_OF_LIFE_EVERY * sign);
            self.queue.push(at, Event::Bytes(connection, to));
        }
    }

    /// Some of a message has arrived: one end has it, and the other has got room for more.
    pub(crate) fn bytes(&mut self, id: SessionId, to: End) -> Check {
        if !self.network.is_receiving(self.now, id, to) {
            return Ok(());
        }
        for end in [to, to.other()] {
            let Some(connection) = self.network.connection(id) else { return Ok(()) };
            let (number, link) = (connection.process(end), connection.link(id, end));
            let is_open = if end == End::Listener { connection.accepted } else { connection.answered };
            let (clock, is_known) = (self.clock(number), self.connection_of(number, link) == Some((id, end)));
            if is_open && is_known && self.processes[number].tell(clock, link, Told::Heard) {
                self.pump(number)?;
            }
        }
        Ok(())
    }

    /// A process's node wants to know when what it has sent has left: when the line has carried it, or soon after it
    /// was said where the line carries whatever there is.
    pub(crate) fn await_room(&mut self, number: usize, link: Link) {
        let Some((id, end)) = self.connection_of(number, link) else { return };
        let Some(free) = self.network.line_free(id, end.other()) else { return };
        let soon = if self.scenario.together_permille > 0 { Duration::from_micros(50) } else { Duration::ZERO };
        let at = free.max(self.now) + self.rng.around(soon);
        self.queue.push(at, Event::Room(id, end.other(), self.processes[number].life));
    }

    /// The messages to one end have left.
    pub(crate) fn room(&mut self, id: SessionId, to: End, life: u32) -> Check {
        let Some(connection) = self.network.connection(id) else { return Ok(()) };
        let (number, link) = (connection.process(to.other()), connection.link(id, to.other()));
        if self.connection_of(number, link) != Some((id, to.other())) || self.processes[number].life != life {
            return Ok(());
        }
        let clock = self.clock(number);
        if self.processes[number].tell(clock, link, Told::Room) { self.settle(number) } else { Ok(()) }
    }

    pub(crate) fn expect(&mut self, arrivals: impl IntoIterator<Item = Arrival>) {
        for arrival in arrivals {
            self.queue.push(arrival.at, Event::Arrive(arrival.connection, arrival.to));
        }
    }

    /// The connection that a process's node knows by this link.
    pub(crate) fn connection_of(&self, number: usize, link: Link) -> Option<(SessionId, End)> {
        let process = &self.processes[number];
        match link {
            Link::Uplink => process.uplink.map(|id| (id, End::Dialer)),
            Link::Trunk => process.trunk.map(|id| (id, End::Dialer)),
            Link::ToPeer(peer) => process.peers.get(&peer).map(|id| (*id, End::Dialer)),
            Link::Session(id) | Link::FromPeer(id) => Some((id, End::Listener)),
        }
    }

    /// A process has no session, a client's with its store or redirector or a redirector's with the store: it will open
    /// one.
    pub(crate) fn dial_later(&mut self, number: usize) {
        let process = &mut self.processes[number];
        let has_way = process.look::<Client>().is_some_and(Client::has_way);
        let next = process.dialer.lost(mem::take(&mut process.was_up), || has_way);
        let life = process.life;
        let after = match next {
            Next::InTurn | Next::Hurry => Duration::ZERO,
            Next::After(pause) => self.rng.around(pause),
        };
        self.later(after, Event::Dial(number, life));
    }

    /// A process opens what sessions it lacks.
    pub(crate) fn dial(&mut self, number: usize) -> Check {
        let process = &self.processes[number];
        let has_client = process.look::<Client>().is_some() && process.look::<Store>().is_none();
        let has_redirector = process.look::<Redirector>().is_some();
        if !has_client && !has_redirector {
            return Ok(());
        }
        if has_redirector && self.processes[number].trunk.is_none() {
            self.processes[number].dialer.attempt(|| None::<String>);
            let (id, arrival) = self.network.open(self.now, Purpose::Trunk, number, STORE, &mut self.rng);
            self.processes[number].trunk = Some(id);
            self.expect([arrival]);
        }
        if has_client && self.processes[number].uplink.is_none() {
            let now = self.clock(number);
            let Process { node, dialer, .. } = &mut self.processes[number];
            let client = node.as_mut().and_then(|node| node.find_mut::<Client>());
            let attempt = dialer.attempt(|| client.and_then(|client| client.way(now)));
            let listener = self.listener_of(number, &attempt.target);
            let (id, arrival) = self.network.open(self.now, Purpose::Uplink, number, listener, &mut self.rng);
            self.processes[number].uplink = Some(id);
            self.expect([arrival]);
            let life = self.processes[number].life;
            self.later(attempt.answer_within, Event::GiveUp(number, life, id));
        }
        self.pump(number)
    }

    /// An end that does not answer for this long is not waited for: there may be another way.
    pub(crate) fn give_up(&mut self, number: usize, id: SessionId) {
        let is_answered = self.network.connection(id).is_none_or(|connection| connection.answered);
        if is_answered || self.processes[number].uplink != Some(id) {
            return;
        }
        self.trace.event(self.now, &[43, number as u64], || format!("process {number} gives s{} up", id.0));
        self.send_item(id, End::Listener, Item::Closed);
        self.network.deaf(id, End::Dialer);
        self.let_go_of(number, Link::Uplink);
    }

    /// The process that a client's next session should be with.
    fn listener_of(&mut self, number: usize, target: &Target<String>) -> usize {
        match (target, self.scenario.redirector_of(number)) {
            (Target::Named(address), _) => process_at(address).unwrap_or(STORE),
            // A member may have another way to its store, and try it now and then.
            (Target::Configured(_), Some(_)) if self.rng.chance(self.scenario.stray_permille) => STORE,
            (Target::Configured(_), redirector) => redirector.unwrap_or(STORE),
        }
    }

    /// A client wants a connection to a peer.
    pub(crate) fn dial_peer(&mut self, number: usize, peer: ClientId, address: &str) -> Check {
        let Some(listener) = process_at(address).filter(|&listener| listener < self.processes.len()) else {
            return ensure(false, "sessions", || format!("process {number} dials a peer at {address:?}"));
        };
        let (session, arrival) = self.network.open(self.now, Purpose::Peer(peer), number, listener, &mut self.rng);
        self.processes[number].peers.insert(peer, session);
        self.expect([arrival]);
        Ok(())
    }

    pub(crate) fn arrive(&mut self, id: SessionId, to: End) -> Check {
        let Some(connection) = self.network.connection(id) else { return Ok(()) };
        let (number, link) = (connection.process(to), connection.link(id, to));
        match self.network.arrive(self.now, id, to) {
            Err(stalled_until) => {
                self.queue.push(stalled_until, Event::Arrive(id, to));
                Ok(())
            }
            Ok(item) => {
                let reached = match item {
                    Some(item) if to == End::Listener => self.reach_listener(number, id, link, item),
                    Some(item) if self.connection_of(number, link) == Some((id, to)) => {
                        self.reach_dialer(number, id, link, item)
                    }
                    _ => Ok(()),
                };
                self.network.forget_if_over(id);
                reached
            }
        }
    }

    fn reach_listener(&mut self, number: usize, id: SessionId, link: Link, item: Item) -> Check {
        let (now, clock, key) = (self.now, self.clock(number), self.key_of(number));
        let is_up = self.processes[number].node.is_some() && !self.processes[number].closed;
        let Some(connection) = self.network.connection(id) else { return Ok(()) };
        let is_first = matches!(item, Item::Message(_)) && !mem::replace(&mut connection.heard, true);
        let (accepted, process) = (connection.accepted, &mut self.processes[number]);
        match (item, process.node.is_some()) {
            (Item::Opened, true) if is_up => {
                connection.accepted = true;
                self.trace.event(now, &[5, id.0], || format!("process {number}: s{} is opened", id.0));
                process.tell(clock, link, Told::Up);
                self.send_item(id, End::Dialer, Item::Opened);
            }
            (Item::Message(message), true) if accepted => {
                if is_first
                    && message.get::<ToPeer>().is_some()
                    && let Err(Goodbye { reason, text }) = admit(key, &message)
                {
                    return self.hang_up(number, link, reason, &text);
                }
                self.trace.event(now, &[6, id.0], || {
                    format!("process {number} hears s{}: {}", id.0, trace::describe(&message))
                });
                process.tell(clock, link, |port| Told::Message(port, message));
                self.work(number);
                return self.settle(number);
            }
            (Item::Closed, true) if accepted => {
                connection.accepted = false;
                self.trace.event(now, &[7, id.0], || format!("process {number}: s{} is gone", id.0));
                process.tell(clock, link, Told::Down);
                self.send_item(id, End::Dialer, Item::Closed);
            }
            (Item::Opened | Item::Closed, _) => {
                self.send_item(id, End::Dialer, Item::Closed);
                self.network.deaf(id, End::Listener);
                return Ok(());
            }
            (Item::Message(_), _) => return Ok(()),
        }
        self.pump(number)
    }

    fn reach_dialer(&mut self, number: usize, id: SessionId, link: Link, item: Item) -> Check {
        let (now, clock) = (self.now, self.clock(number));
        let process = &mut self.processes[number];
        if process.node.is_none() {
            return Ok(());
        }
        match item {
            Item::Opened => {
                self.trace.event(now, &[8, number as u64], || {
                    format!("process {number} is connected as s{} ({link:?})", id.0)
                });
                process.tell(clock, link, Told::Up);
                if let Some(connection) = self.network.connection(id) {
                    connection.answered = true;
                }
            }
            Item::Message(message) => {
                self.trace.event(now, &[9, number as u64], || {
                    format!("process {number} hears {}", trace::describe(&message))
                });
                process.was_up |= matches!(message.get(), Some(ToClient::Welcome(_)));
                process.tell(clock, link, |port| Told::Message(port, message));
                self.work(number);
                return self.settle(number);
            }
            Item::Closed => {
                self.trace.event(now, &[10, number as u64], || format!("process {number} loses s{}", id.0));
                process.tell(clock, link, Told::Down);
                self.let_go_of(number, link);
                self.send_item(id, End::Listener, Item::Closed);
            }
        }
        self.pump(number)
    }

    /// A process has no such connection any more; a session is opened again.
    fn let_go_of(&mut self, number: usize, link: Link) {
        let process = &mut self.processes[number];
        match link {
            Link::Uplink => process.uplink = None,
            Link::Trunk => process.trunk = None,
            Link::ToPeer(peer) => {
                process.peers.remove(&peer);
                return;
            }
            Link::Session(_) | Link::FromPeer(_) => return,
        }
        self.dial_later(number);
    }

    /// A node gives a connection up.
    pub(crate) fn hang_up(&mut self, number: usize, link: Link, reason: GoodbyeReason, text: &str) -> Check {
        let (now, clock) = (self.now, self.clock(number));
        self.trace.event(now, &[11, number as u64], || format!("process {number} hangs up: {}, {text}", reason.name()));
        ensure(is_honest(reason), "sessions", || format!("process {number} hangs up: {}, {text}", reason.name()))?;
        let Some((id, end)) = self.connection_of(number, link) else { return Ok(()) };
        self.send_item(id, end.other(), Item::Closed);
        self.network.deaf(id, end);
        match end {
            End::Dialer => {
                self.processes[number].tell(clock, link, Told::Down);
                self.let_go_of(number, link);
            }
            End::Listener => self.end_accepted(number, id, link),
        }
        Ok(())
    }

    /// The listener has ended a session. Its driver may tell it afterwards that the connection is gone, or not.
    fn end_accepted(&mut self, number: usize, id: SessionId, link: Link) {
        if let Some(connection) = self.network.connection(id) {
            connection.accepted = false;
        }
        let clock = self.clock(number);
        if self.rng.chance(500) {
            self.processes[number].tell(clock, link, Told::Down);
        }
    }
}

/// The process behind an address.
fn process_at(address: &str) -> Option<usize> {
    address.strip_prefix('p')?.parse().ok()
}

/// Whether roles that follow the protocol can come to part for this reason.
fn is_honest(reason: GoodbyeReason) -> bool {
    !matches!(
        reason,
        GoodbyeReason::Malformed | GoodbyeReason::Protocol | GoodbyeReason::WrongCluster | GoodbyeReason::TooMuch
    )
}
