//! One process: hosts the roles and routes messages, timers and disk work among them.
//!
//! ```text
//!   application --- Client ---+                      +--- sessions of other processes
//!          peers ---/         |  (embedded: no bytes)|
//!                uplink ------+------- Node ---------+--- Store --- disk work
//!                                                    +--- or Redirector --- trunk
//! ```
//! A node with a client alone talks to a store, or to the redirector of its group, through its *uplink*, and to its
//! neighbours through connections to and from *peers*. A node with a store or with a redirector takes *sessions*; a
//! redirector talks to the store through its *trunk*. A node with a client and a store is embedded: its client is session
//! [`LOCAL`] of its own store, and their messages never become bytes.
//!
//! # The order rule
//! Nothing leaves before what it depends on is durable. A store's output carries the log position that it waits for;
//! the node keeps it, and everything behind it on the same link, until the disk has said so. So the driver never sees a
//! message that must not be sent yet.
//!
//! # How it is called
//! Like its roles: an event, then [`Node::settle`], then [`Node::poll_output`] until it gives nothing, then
//! [`Node::poll_timeout`]. The simulator and the network's drive loop run this same machine.
#![no_std]

extern crate alloc;

mod driver;
mod held;
pub mod metrics;
mod status;

use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::string::String;
use client::{Client, TxnHandle};
use core::any::type_name;
pub use driver::{Disk, Driver};
use held::Held;
use protocol::{Message, Parcel, ToClient};
use redirector::Redirector;
use store::{DiskDone, DiskWork, Store};
use types::{ClientId, GoodbyeReason, SessionId, Time};

/// The session of an embedded client with its own store. The driver numbers the sessions of other processes from 1.
pub const LOCAL: SessionId = SessionId(0);

/// A connection to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Link {
    /// From this node's client to a store.
    Uplink,
    /// From another process's client to this node's store or redirector.
    Session(SessionId),
    /// From this node's redirector to a store.
    Trunk,
    /// From this node's client to a neighbour.
    ToPeer(ClientId),
    /// From a neighbour to this node's client, numbered by the driver like a session.
    FromPeer(SessionId),
}

/// What the node wants done by its driver.
#[derive(Debug)]
pub enum Output {
    /// Send a message.
    Send(Link, Parcel),
    /// End a connection, after what was sent before has gone out. The uplink is connected again unless the reason is
    /// final.
    End(Link, GoodbyeReason, String),
    /// When all that was sent on this link before has left, say so by [`Node::has_room`]: at once, if it has.
    AwaitRoom(Link),
    /// Open a connection to a neighbour, which is reached at this address; when it is up, or cannot be had, say so by
    /// [`Node::connected`] or [`Node::disconnected`].
    Dial(ClientId, String),
    /// Do disk work.
    Disk(DiskWork),
    /// Wake whoever waits for this transaction.
    Wake(TxnHandle),
    /// The store or the redirector has closed: the process may stop.
    Closed,
}

/// The machine.
#[derive(Debug)]
pub struct Node {
    client: Option<Client>,
    store: Option<Store>,
    redirector: Option<Redirector>,
    held: Held,
    outputs: VecDeque<Output>,
}

impl Node {
    /// A node whose client reaches its store over the network.
    pub fn client_only(client: Client) -> Self {
        Self::new(Some(client), None, None)
    }

    /// A node that hosts a store for others, and a client of it if there is one.
    pub fn with_store(store: Store, client: Option<Client>) -> Self {
        Self::new(client, Some(store), None)
    }

    /// A node that hosts a group's redirector, and beside it a member of the group if there is one. The two talk like
    /// any other member and redirector: which redirector leads the group, this one or another, changes with time.
    pub fn with_redirector(redirector: Redirector, client: Option<Client>) -> Self {
        Self::new(client, None, Some(redirector))
    }

    fn new(client: Option<Client>, store: Option<Store>, redirector: Option<Redirector>) -> Self {
        Self { client, store, redirector, held: Held::default(), outputs: VecDeque::new() }
    }

    /// Opens for business. A store has been given its records before.
    pub fn start(&mut self, now: Time) {
        if let Some(store) = &mut self.store {
            store.start(now);
            if let Some(client) = &mut self.client {
                store.connected(now, LOCAL);
                client.connected(now);
            }
        }
    }

    /// The client, for the application. Call [`Node::settle`] afterwards.
    pub fn client(&mut self) -> Option<&mut Client> {
        self.client.as_mut()
    }

    /// The store, for whoever asks it about itself.
    pub fn store(&mut self) -> Option<&mut Store> {
        self.store.as_mut()
    }

    /// The redirector, for whoever asks it about itself.
    pub fn redirector(&mut self) -> Option<&mut Redirector> {
        self.redirector.as_mut()
    }

    /// The roles, for whoever looks and changes nothing.
    pub fn roles(&self) -> (Option<&Client>, Option<&Store>, Option<&Redirector>) {
        (self.client.as_ref(), self.store.as_ref(), self.redirector.as_ref())
    }

    /// A connection is up.
    pub fn connected(&mut self, now: Time, link: Link) {
        match link {
            Link::Uplink => self.with_client(|client| client.connected(now)),
            Link::Trunk => self.with_redirector_role(|redirector| redirector.trunk_connected(now)),
            Link::ToPeer(peer) => self.with_client(|client| client.peer_connected(peer)),
            Link::FromPeer(_) => {}
            Link::Session(session) => match (&mut self.store, &mut self.redirector) {
                (Some(store), _) => store.connected(now, session),
                (None, Some(redirector)) => redirector.connected(now, session),
                (None, None) => {}
            },
        }
    }

    /// A connection is gone, or could not be had.
    pub fn disconnected(&mut self, now: Time, link: Link) {
        match link {
            Link::Uplink => self.with_client(Client::disconnected),
            Link::Trunk => self.with_redirector_role(|redirector| redirector.trunk_disconnected(now)),
            Link::ToPeer(peer) => self.with_client(|client| client.peer_disconnected(now, peer)),
            Link::FromPeer(_) => {}
            Link::Session(session) => match (&mut self.store, &mut self.redirector) {
                (Some(store), _) => {
                    self.held.forget(session);
                    store.disconnected(now, session);
                }
                (None, Some(redirector)) => redirector.disconnected(now, session),
                (None, None) => {}
            },
        }
    }

    /// A sign of life of whoever is at the other end: bytes of a message that is still to come, or room for what is on
    /// its way there.
    pub fn heard(&mut self, now: Time, link: Link) {
        match link {
            Link::Uplink => self.with_client(|client| client.heard(now)),
            Link::Trunk => self.with_redirector_role(|redirector| redirector.heard_store(now)),
            Link::ToPeer(_) | Link::FromPeer(_) => {}
            Link::Session(session) => match (&mut self.store, &mut self.redirector) {
                (Some(store), _) => store.heard(now, session),
                (None, Some(redirector)) => redirector.heard(now, session),
                (None, None) => {}
            },
        }
    }

    /// What the node has sent on a link has left.
    pub fn has_room(&mut self, link: Link) {
        if let (Link::Session(session), Some(store)) = (link, &mut self.store) {
            store.has_room(session);
        }
    }

    /// A message has come in, which is one of those that the link's role hears.
    ///
    /// # Panics
    /// If it is not: the driver has made the link with a codec that is not the role's.
    pub fn handle(&mut self, now: Time, link: Link, message: Parcel) {
        match link {
            Link::Uplink => self.with_client(|client| client.handle(now, open(message))),
            Link::Trunk => self.with_redirector_role(|redirector| redirector.from_store(now, open(message))),
            Link::FromPeer(_) => self.with_client(|client| client.from_peer(now, open(message))),
            // A neighbour that we send pages to has nothing to say but that it is gone.
            Link::ToPeer(_) => {}
            Link::Session(session) => match (&mut self.store, &mut self.redirector) {
                (Some(store), _) => store.handle(now, session, open(message)),
                (None, Some(redirector)) => redirector.handle(now, session, open(message)),
                (None, None) => {}
            },
        }
    }

    fn with_client(&mut self, event: impl FnOnce(&mut Client)) {
        if let Some(client) = &mut self.client {
            event(client);
        }
    }

    fn with_redirector_role(&mut self, event: impl FnOnce(&mut Redirector)) {
        if let Some(redirector) = &mut self.redirector {
            event(redirector);
        }
    }

    /// Disk work is done.
    pub fn disk(&mut self, now: Time, done: DiskDone) {
        if let DiskDone::Durable { through, .. } = done {
            self.held.durable(through);
        }
        if let Some(store) = &mut self.store {
            store.disk(now, done);
        }
    }

    /// Closes the store: refuses new commits, writes everything home, then gives [`Output::Closed`]. Or closes the
    /// redirector, which has nothing to do before.
    pub fn close(&mut self, now: Time) {
        if let Some(redirector) = &mut self.redirector {
            redirector.close(now);
            self.settle_redirector(now);
            self.outputs.push_back(Output::Closed);
        }
        if let Some(store) = &mut self.store {
            store.close(now);
        }
    }

    /// The front door is done with the node, and why: the store stops as if its process had died, and what it has yet to
    /// say is not said. The transactions of this process's own client end at once.
    pub fn stop(&mut self, why: String) {
        (self.store, self.held) = (None, Held::default());
        if let Some(client) = &mut self.client {
            client.stopped(why);
        }
    }

    /// A panic has left the machine half changed, or its disk has failed: nothing of it is used any more. What it had
    /// yet to say is not said, and the transactions of this process's own client end at once, with this reason.
    pub fn broken(&mut self, why: &str) {
        (self.store, self.redirector, self.held) = (None, None, Held::default());
        self.outputs.clear();
        // The client may be what is half changed. Should it not even end without a panic, the next who comes here finds
        // another one, which has nothing but its end.
        let stopped = |mut client: Client| {
            client.stopped(why.to_owned());
            client
        };
        if let Some(client) = self.client.take() {
            self.client = Some(stopped(Client::new(client::Config::default(), ClientId(0))));
            self.client = Some(stopped(client));
        }
    }

    /// When [`Node::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let client = self.client.as_ref().and_then(Client::poll_timeout);
        let store = self.store.as_ref().and_then(Store::poll_timeout);
        let redirector = self.redirector.as_ref().and_then(Redirector::poll_timeout);
        client.into_iter().chain(store).chain(redirector).min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        if let Some(client) = &mut self.client {
            client.handle_timeout(now);
        }
        if let Some(store) = &mut self.store {
            store.handle_timeout(now);
        }
        if let Some(redirector) = &mut self.redirector {
            redirector.handle_timeout(now);
        }
    }

    /// Lets the roles of this process talk until none has anything left to say, and sorts out what is for the driver.
    pub fn settle(&mut self, now: Time) {
        while self.settle_client(now) | self.settle_store(now) | self.settle_redirector(now) {}
    }

    /// What the driver is to do next. Call [`Node::settle`] first.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Routes what the client said; says whether it said anything.
    fn settle_client(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(output) = self.client.as_mut().and_then(Client::poll_output) {
            any = true;
            self.route(now, output);
        }
        any
    }

    /// Takes what the client said to where it belongs: its store stands here, or behind its uplink.
    fn route(&mut self, now: Time, output: client::Output) {
        let is_alone = self.store.is_none();
        match output {
            client::Output::Wake(txn) => self.outputs.push_back(Output::Wake(txn)),
            client::Output::DialPeer { peer, address } => self.outputs.push_back(Output::Dial(peer, address)),
            client::Output::Lead { epoch } => self.with_redirector_role(|redirector| redirector.lead(now, epoch)),
            client::Output::LedBy(leader) => self.with_redirector_role(|redirector| redirector.led_by(now, leader)),
            client::Output::SendPeer { peer, message } => {
                self.outputs.push_back(Output::Send(Link::ToPeer(peer), Parcel::new(message)));
            }
            client::Output::Send(message) if is_alone => {
                self.outputs.push_back(Output::Send(Link::Uplink, Parcel::new(message)));
            }
            client::Output::Send(message) => {
                if let Some(store) = &mut self.store {
                    store.handle(now, LOCAL, message);
                }
            }
            client::Output::Hangup { reason, text } if is_alone => {
                self.outputs.push_back(Output::End(Link::Uplink, reason, text));
            }
            client::Output::Hangup { .. } => self.begin_anew(now),
        }
    }

    /// Routes what the store said and what the disk has released; says whether there was anything.
    fn settle_store(&mut self, now: Time) -> bool {
        let mut any = self.hold_store_outputs();
        while let Some((session, item)) = self.held.pop() {
            any = true;
            match item {
                held::Item::Send(message) => self.send(now, session, message),
                held::Item::AwaitRoom if self.client.is_some() && session == LOCAL => {
                    self.has_room(Link::Session(session));
                }
                held::Item::AwaitRoom => self.outputs.push_back(Output::AwaitRoom(Link::Session(session))),
                held::Item::End(reason, text) => self.end(now, session, reason, text),
            }
        }
        any
    }

    /// Routes what the redirector said; says whether it said anything.
    fn settle_redirector(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(output) = self.redirector.as_mut().and_then(Redirector::poll_output) {
            any = true;
            match output {
                redirector::Output::Send { to, message } => {
                    self.outputs.push_back(Output::Send(Link::Session(to), Parcel::new(message)));
                }
                redirector::Output::End { session, reason, text } => {
                    self.outputs.push_back(Output::End(Link::Session(session), reason, text));
                }
                redirector::Output::LookForLeader => self.with_client(|client| client.look_for_leader(now)),
                redirector::Output::Trunk(message) => {
                    self.outputs.push_back(Output::Send(Link::Trunk, Parcel::new(message)));
                }
                redirector::Output::Hangup { reason, text } => {
                    self.outputs.push_back(Output::End(Link::Trunk, reason, text));
                }
            }
        }
        any
    }

    /// Sends a message on a session: to this process's own client, or out.
    fn send(&mut self, now: Time, session: SessionId, message: ToClient) {
        match &mut self.client {
            Some(client) if session == LOCAL => client.handle(now, message),
            _ => self.outputs.push_back(Output::Send(Link::Session(session), Parcel::new(message))),
        }
    }

    /// Ends a session.
    fn end(&mut self, now: Time, session: SessionId, reason: GoodbyeReason, text: String) {
        match &mut self.client {
            // A process that was stopped for a while finds its own client taken for dead.
            Some(_) if session == LOCAL && reason == GoodbyeReason::Silent => self.begin_anew(now),
            Some(client) if session == LOCAL => client.disconnected(),
            _ => self.outputs.push_back(Output::End(Link::Session(session), reason, text)),
        }
    }

    /// Takes what the store said; what leaves on a session waits its turn. Says whether there was anything.
    fn hold_store_outputs(&mut self) -> bool {
        let mut any = false;
        while let Some(output) = self.store.as_mut().and_then(Store::poll_output) {
            any = true;
            match output {
                store::Output::Send { to, message, after } => self.held.push(to, held::Item::Send(message), after),
                store::Output::End { session, reason, text } => {
                    self.held.push(session, held::Item::End(reason, text), None);
                }
                store::Output::AwaitRoom(session) => self.held.push(session, held::Item::AwaitRoom, None),
                store::Output::Disk(work) => self.outputs.push_back(Output::Disk(work)),
                store::Output::Closed => self.outputs.push_back(Output::Closed),
            }
        }
        any
    }

    /// Begins the session of the client with the store of its own process again: there is no link between them that
    /// could be bad. What either had yet to say to the other belonged to the session that is gone, and goes with it.
    fn begin_anew(&mut self, now: Time) {
        self.hold_store_outputs();
        while let Some(output) = self.client.as_mut().and_then(Client::poll_output) {
            match output {
                client::Output::Send(_) | client::Output::Hangup { .. } => {}
                other => self.route(now, other),
            }
        }
        self.disconnected(now, Link::Session(LOCAL));
        self.disconnected(now, Link::Uplink);
        self.connected(now, Link::Session(LOCAL));
        self.connected(now, Link::Uplink);
    }
}

/// The message of a parcel, of the type that the role of its link hears.
fn open<M: Message>(parcel: Parcel) -> M {
    parcel.open().unwrap_or_else(|other| panic!("expected a message {}, got {other:?}", type_name::<M>()))
}
