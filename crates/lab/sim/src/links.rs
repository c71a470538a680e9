//! The engine's connections: messages on their way, connections made, lost and given up.

use crate::engine::{Engine, Event, Scene};
use crate::network::{Arrival, End, Family, Item, Place};
use crate::process::Server;
use crate::violation::{Check, ensure};
use crate::{bytes, trace};
use core::mem;
use core::time::Duration;
use machine::{Event as Told, Goodbye, Link, Parcel, Port, RoleId, Upstream, UpstreamId};
use messages::{ToPeer, admit};
use session::Next;
use types::{ClientId, GoodbyeReason, SessionId, Time};

/// How often both ends learn of a long message that some more of it has arrived, and how often at most.
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_millis(20);
const SIGNS_OF_LIFE_MAX: u32 = 50;

impl<S: Scene> Engine<S> {
    pub(crate) fn send(&mut self, id: SessionId, to: End, mut message: Parcel) -> Check {
        let weighs = self.network.weighs(id);
        let Some(connection) = self.network.connection(id) else { return Ok(()) };
        let family = connection.family;
        self.trace.sent(self.now, id, to, &message);
        let mut bytes = 0;
        if self.manners.through_bytes || weighs {
            let written = bytes::written(&message, family, to)?;
            bytes = written.len() as u64;
            if self.manners.through_bytes {
                message = bytes::read(&written, &message, family, to)?;
            }
        }
        self.put(id, to, Item::Message(message), bytes);
        Ok(())
    }

    /// Puts an item of so many bytes on the line to one end. Bytes are heartbeat.
    fn put(&mut self, id: SessionId, to: End, item: Item, bytes: u64) {
        let sender = self.network.connection(id).map(|connection| connection.process(to.other()));
        let leaves = sender.map_or(self.now, |sender| self.now.max(self.processes[sender].busy_until));
        let Some(arrival) = self.network.send(leaves, id, to, item, bytes, &mut self.rng) else { return };
        self.expect(arrival);
        let signs = (arrival.carried.as_nanos() / SIGN_OF_LIFE_EVERY.as_nanos()).min(SIGNS_OF_LIFE_MAX.into()) as u32;
        for sign in 1..=signs {
            let at = Time::ZERO + arrival.at.since(Time::ZERO + SIGN_OF_LIFE_EVERY * sign);
            self.queue.push(at, Event::Bytes(id, to));
        }
    }

    pub(crate) fn expect(&mut self, arrival: Arrival) {
        self.queue.push(arrival.at, Event::Arrive(arrival.connection, arrival.to));
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
            let is_known = self.connection_of(number, link) == Some((id, end));
            if is_open && is_known && self.hears(number, link.role, Told::Heard(link.port)) {
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
        let soon = if self.manners.together_permille > 0 { Duration::from_micros(50) } else { Duration::ZERO };
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
        if self.hears(number, link.role, Told::Room(link.port)) { self.settle(number) } else { Ok(()) }
    }

    /// The connection that a process's node knows by this link.
    pub(crate) fn connection_of(&self, number: usize, link: Link) -> Option<(SessionId, End)> {
        match link.port {
            Port::Session(id) | Port::FromPeer(id) => Some((id, End::Listener)),
            Port::Upstream(_) | Port::ToPeer(_) => Some((*self.processes[number].dialed.get(&link)?, End::Dialer)),
            // Its stores have one node each.
            Port::FromNode(_) => None,
        }
    }

    /// A machine opens an upstream session.
    pub(crate) fn open_upstream(&mut self, number: usize, role: RoleId, id: UpstreamId, server: &Upstream) -> Check {
        let (at, family) = self.scene.upstream(server)?;
        let servers = &mut self.processes[number].servers;
        servers.push(Server::opened(role, id, at, family));
        let dial = Event::Dial(number, self.processes[number].life, self.processes[number].servers.len() - 1);
        self.later(Duration::ZERO, dial);
        Ok(())
    }

    /// A machine closes an upstream session.
    pub(crate) fn close_upstream(&mut self, number: usize, link: Link) -> Check {
        let servers = self.processes[number].servers.iter_mut();
        servers.filter(|server| server.link() == link).for_each(|server| server.is_closed = true);
        self.hang_up(number, link, GoodbyeReason::Done, String::new())
    }

    /// A machine of a process has no session with its server: the process will open one.
    pub(crate) fn dial_later(&mut self, number: usize, server: usize) {
        let process = &mut self.processes[number];
        let (life, found) = (process.life, &mut process.servers[server]);
        let (node, client, upstream) = (&mut process.node, found.client, found.upstream);
        let has_way = || node.as_mut().is_some_and(|node| node.role(client).machine().has_way(upstream));
        let after = match found.dialer.lost(mem::take(&mut found.was_up), has_way) {
            Next::InTurn | Next::Hurry => Duration::ZERO,
            Next::After(pause) => self.rng.around(pause),
        };
        self.later(after, Event::Dial(number, life, server));
    }

    /// A process opens the session of a machine with its server, unless there is one.
    pub(crate) fn dial(&mut self, number: usize, server: usize) -> Check {
        let clock = self.clock(number);
        let process = &mut self.processes[number];
        let found = &mut process.servers[server];
        let (client, link, family) = (found.client, found.link(), found.family);
        if found.is_closed || process.dialed.contains_key(&link) {
            return Ok(());
        }
        let node = process.node.as_mut().expect("only the living dial");
        let attempt = found.dialer.attempt(|| node.role(client).machine().way(clock, found.upstream));
        let listener = S::server(self, number, server, attempt.target);
        let id = self.network.open(Place { process: number, role: client }, link.port, listener, family);
        self.open(number, link, id);
        let life = self.processes[number].life;
        self.later(attempt.answer_within, Event::GiveUp(number, life, id));
        self.pump(number)
    }

    /// A connection is opened, which its machine knows by this link.
    fn open(&mut self, number: usize, link: Link, id: SessionId) {
        self.processes[number].dialed.insert(link, id);
        let listener = self.network.connection(id).map(|connection| connection.listener.process);
        if listener.is_some_and(|listener| self.network.is_parted(number, listener)) {
            return self.break_off(id);
        }
        self.put(id, End::Listener, Item::Opened, 0);
    }

    /// An end that does not answer for this long is not waited for: there may be another way.
    pub(crate) fn give_up(&mut self, number: usize, id: SessionId) {
        let Some(connection) = self.network.connection(id).filter(|connection| !connection.answered) else { return };
        let link = connection.link(id, End::Dialer);
        if self.processes[number].dialed.get(&link) != Some(&id) {
            return;
        }
        self.trace.event(self.now, &[43, number as u64], || format!("process {number} gives s{} up", id.0));
        self.put(id, End::Listener, Item::Closed, 0);
        self.network.deaf(id, End::Dialer);
        self.let_go_of(number, link);
    }

    /// A machine wants a connection to a peer.
    pub(crate) fn dial_peer(&mut self, number: usize, role: RoleId, peer: ClientId, address: &str) -> Check {
        let (listener, port) = (self.scene.peer(address)?, Port::ToPeer(peer));
        let family = Family { client: messages::PEER, server: messages::PEER };
        let id = self.network.open(Place { process: number, role }, port, listener, family);
        self.open(number, Link { role, port }, id);
        Ok(())
    }

    pub(crate) fn arrive(&mut self, id: SessionId, to: End) -> Check {
        let Some(connection) = self.network.connection(id) else { return Ok(()) };
        let (number, link) = (connection.process(to), connection.link(id, to));
        let item = match self.network.arrive(self.now, id, to) {
            Err(stalled_until) => {
                self.queue.push(stalled_until, Event::Arrive(id, to));
                return Ok(());
            }
            Ok(item) => item,
        };
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

    fn reach_listener(&mut self, number: usize, id: SessionId, link: Link, item: Item) -> Check {
        let (now, process) = (self.now, &self.processes[number]);
        let (is_there, key) = (process.node.is_some(), process.key);
        let is_up = is_there && !process.closed;
        let Some(connection) = self.network.connection(id) else { return Ok(()) };
        let accepted = connection.accepted;
        match item {
            Item::Opened if is_up => {
                connection.accepted = true;
                self.trace.event(now, &[5, id.0], || format!("process {number}: s{} is opened", id.0));
                self.put(id, End::Dialer, Item::Opened, 0);
            }
            Item::Message(message) => {
                if !is_there || !accepted {
                    return Ok(());
                }
                if !connection.heard {
                    if message.get::<ToPeer>().is_some()
                        && let Err(Goodbye { reason, text }) = admit(key, &message)
                    {
                        return self.hang_up(number, link, reason, text);
                    }
                    connection.heard = true;
                    // Its machine learns of a connection with the first message on it.
                    self.hears(number, link.role, Told::Up(link.port));
                }
                self.trace.event(now, &[6, id.0], || {
                    format!("process {number} hears s{}: {}", id.0, trace::describe(&message))
                });
                self.hears(number, link.role, Told::Message(link.port, message));
                return self.work(number);
            }
            Item::Closed if is_there && accepted => {
                connection.accepted = false;
                let is_known = connection.heard;
                self.trace.event(now, &[7, id.0], || format!("process {number}: s{} is gone", id.0));
                if is_known {
                    self.hears(number, link.role, Told::Down(link.port));
                }
                self.put(id, End::Dialer, Item::Closed, 0);
            }
            Item::Opened | Item::Closed => {
                self.put(id, End::Dialer, Item::Closed, 0);
                self.network.deaf(id, End::Listener);
                return Ok(());
            }
        }
        self.pump(number)
    }

    fn reach_dialer(&mut self, number: usize, id: SessionId, link: Link, item: Item) -> Check {
        let (now, process) = (self.now, &mut self.processes[number]);
        if process.node.is_none() {
            return Ok(());
        }
        match item {
            Item::Opened => {
                self.trace.event(now, &[8, number as u64], || {
                    format!("process {number} is connected as s{} ({link:?})", id.0)
                });
                self.hears(number, link.role, Told::Up(link.port));
                if let Some(connection) = self.network.connection(id) {
                    connection.answered = true;
                }
            }
            Item::Message(message) => {
                self.trace.event(now, &[9, number as u64], || {
                    format!("process {number} hears {}", trace::describe(&message))
                });
                if let Some(server) = process.servers.iter_mut().find(|server| server.link() == link) {
                    server.was_up |= S::is_welcome(&message);
                }
                self.hears(number, link.role, Told::Message(link.port, message));
                return self.work(number);
            }
            Item::Closed => {
                self.trace.event(now, &[10, number as u64], || format!("process {number} loses s{}", id.0));
                self.hears(number, link.role, Told::Down(link.port));
                self.let_go_of(number, link);
                self.put(id, End::Listener, Item::Closed, 0);
            }
        }
        self.pump(number)
    }

    /// A process has no such connection any more; a session with a server is opened again.
    fn let_go_of(&mut self, number: usize, link: Link) {
        let process = &mut self.processes[number];
        process.dialed.remove(&link);
        if let Some(server) = process.servers.iter().position(|server| server.link() == link && !server.is_closed) {
            self.dial_later(number, server);
        }
    }

    /// A node gives a connection up.
    pub(crate) fn hang_up(&mut self, number: usize, link: Link, reason: GoodbyeReason, text: String) -> Check {
        let now = self.now;
        self.trace.event(now, &[11, number as u64], || format!("process {number} hangs up: {}, {text}", reason.name()));
        ensure(is_honest(reason), "sessions", || format!("process {number} hangs up: {}, {text}", reason.name()))?;
        let Some((id, end)) = self.connection_of(number, link) else { return Ok(()) };
        if let Some(connection) = self.network.connection(id) {
            let goodbye = connection.family.codec(end).goodbye(Goodbye { reason, text });
            self.send(id, end.other(), goodbye)?;
        }
        self.put(id, end.other(), Item::Closed, 0);
        self.network.deaf(id, end);
        match end {
            End::Dialer => {
                self.hears(number, link.role, Told::Down(link.port));
                self.let_go_of(number, link);
            }
            End::Listener => self.end_accepted(number, id, link),
        }
        Ok(())
    }

    /// The listener has ended a session. Its driver may tell it afterwards that the connection is gone, or not.
    fn end_accepted(&mut self, number: usize, id: SessionId, link: Link) {
        let Some(connection) = self.network.connection(id) else { return };
        connection.accepted = false;
        if connection.heard && self.rng.chance(500) {
            self.hears(number, link.role, Told::Down(link.port));
        }
    }

    /// A connection breaks; each end learns of it at its own time.
    pub(crate) fn break_off(&mut self, id: SessionId) {
        let ignorance = self.manners.ignorance;
        let mut heard = ignorance.map(|longest| self.rng.around(longest / 2));
        if ignorance == [Duration::ZERO; 2] {
            // Each end learns of it as soon as it can.
            heard = [self.network.delay(id).map_or(Duration::ZERO, |delay| delay.least); 2];
        }
        let (arrivals, lost) = self.network.cut(self.now, id, heard, &mut self.rng);
        self.trace.event(self.now, &[35, id.0, lost as u64], || {
            format!("s{} breaks: {lost} messages under way are lost", id.0)
        });
        for arrival in arrivals {
            self.expect(arrival);
        }
    }
}

/// Whether roles that follow the protocol can come to part for this reason.
fn is_honest(reason: GoodbyeReason) -> bool {
    !matches!(
        reason,
        GoodbyeReason::Malformed | GoodbyeReason::Protocol | GoodbyeReason::WrongCluster | GoodbyeReason::TooMuch
    )
}
