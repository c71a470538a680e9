//! One process: hosts the roles and routes messages, timers and disk work among them.
//!
//! ```text
//!   application --- Client ---+                      +--- sessions of other processes
//!                             |  (embedded: no bytes)|
//!                uplink ------+------- Node ---------+--- Store --- disk work
//! ```
//! A node with a client alone talks to a store through its *uplink*. A node with a store takes *sessions*. A node with
//! both is embedded: its client is session [`LOCAL`] of its own store, and their messages never become bytes.
//!
//! # The order rule
//! Nothing leaves before what it depends on is durable. A store's output carries the safe position that it waits for;
//! the node keeps it, and everything behind it on the same link, until the disk has said so. So the hands never see a
//! message that must not be sent yet.
//!
//! # How it is called
//! Like its roles: an event, then [`Node::settle`], then [`Node::poll_output`] until it gives nothing, then
//! [`Node::poll_timeout`]. The simulator and the network's drive loop run this same machine.
#![no_std]

extern crate alloc;

mod hands;
mod held;

use alloc::collections::VecDeque;
use alloc::string::String;
use client::{Client, TxnHandle};
pub use hands::{Disk, Hands};
use held::Held;
use protocol::Message;
use store::{DiskDone, DiskWork, SessionId, Store};
use types::{GoodbyeReason, Time};

/// The session of an embedded client with its own store. Hands number the sessions of other processes from 1.
pub const LOCAL: SessionId = SessionId(0);

/// A connection to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Link {
    /// From this node's client to a store.
    Uplink,
    /// From another process's client to this node's store.
    Session(SessionId),
}

/// What the node wants done by its hands.
#[derive(Debug)]
pub enum Output {
    /// Send a message.
    Send(Link, Message),
    /// End a connection, after what was sent before has gone out. The uplink is connected again unless the reason is
    /// final.
    End(Link, GoodbyeReason, String),
    /// Do disk work.
    Disk(DiskWork),
    /// Wake whoever waits for this transaction.
    Wake(TxnHandle),
    /// The store has closed: the process may stop.
    Closed,
}

/// The machine.
#[derive(Debug)]
pub struct Node {
    client: Option<Client>,
    store: Option<Store>,
    held: Held,
    outputs: VecDeque<Output>,
}

impl Node {
    /// A node whose client reaches its store over the network.
    pub fn client_only(client: Client) -> Self {
        Self::new(Some(client), None)
    }

    /// A node that hosts a store for others, and a client of it if there is one.
    pub fn with_store(store: Store, client: Option<Client>) -> Self {
        Self::new(client, Some(store))
    }

    fn new(client: Option<Client>, store: Option<Store>) -> Self {
        Self { client, store, held: Held::default(), outputs: VecDeque::new() }
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

    /// Both roles, for whoever looks and changes nothing.
    pub fn roles(&self) -> (Option<&Client>, Option<&Store>) {
        (self.client.as_ref(), self.store.as_ref())
    }

    /// A connection is up.
    pub fn connected(&mut self, now: Time, link: Link) {
        match (link, &mut self.client, &mut self.store) {
            (Link::Uplink, Some(client), _) => client.connected(now),
            (Link::Session(session), _, Some(store)) => store.connected(now, session),
            _ => {}
        }
    }

    /// A connection is gone.
    pub fn disconnected(&mut self, now: Time, link: Link) {
        match (link, &mut self.client, &mut self.store) {
            (Link::Uplink, Some(client), _) => client.disconnected(now),
            (Link::Session(session), _, Some(store)) => {
                self.held.forget(session);
                store.disconnected(now, session);
            }
            _ => {}
        }
    }

    /// A message has come in.
    pub fn handle(&mut self, now: Time, link: Link, message: Message) {
        match (link, &mut self.client, &mut self.store) {
            (Link::Uplink, Some(client), _) => client.handle(now, message),
            (Link::Session(session), _, Some(store)) => store.handle(now, session, message),
            _ => {}
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

    /// Closes the store: refuses new commits, writes everything home, then gives [`Output::Closed`].
    pub fn close(&mut self, now: Time) {
        if let Some(store) = &mut self.store {
            store.close(now);
        }
    }

    /// The store's disk has failed, and how: the store stops as if its process had died, and what it has yet to say is
    /// not said. The transactions of this process's own client end at once.
    pub fn failed(&mut self, now: Time, why: String) {
        (self.store, self.held) = (None, Held::default());
        if let Some(client) = &mut self.client {
            client.stopped(now, why);
        }
    }

    /// When [`Node::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let client = self.client.as_ref().and_then(Client::poll_timeout);
        let store = self.store.as_ref().and_then(Store::poll_timeout);
        client.into_iter().chain(store).min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        if let Some(client) = &mut self.client {
            client.handle_timeout(now);
        }
        if let Some(store) = &mut self.store {
            store.handle_timeout(now);
        }
    }

    /// Lets the roles of this process talk until none has anything left to say, and sorts out what is for the hands.
    pub fn settle(&mut self, now: Time) {
        while self.settle_client(now) | self.settle_store(now) {}
    }

    /// What the hands are to do next. Call [`Node::settle`] first.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Routes what the client said; says whether it said anything.
    fn settle_client(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(output) = self.client.as_mut().and_then(Client::poll_output) {
            any = true;
            match (output, &mut self.store) {
                (client::Output::Wake(txn), _) => self.outputs.push_back(Output::Wake(txn)),
                (client::Output::Send(message), Some(store)) => store.handle(now, LOCAL, message),
                (client::Output::Send(message), None) => {
                    self.outputs.push_back(Output::Send(Link::Uplink, message));
                }
                (client::Output::Hangup { .. }, Some(_)) => self.begin_anew(now),
                (client::Output::Hangup { reason, text }, None) => {
                    self.outputs.push_back(Output::End(Link::Uplink, reason, text));
                }
            }
        }
        any
    }

    /// Routes what the store said and what the disk has released; says whether there was anything.
    fn settle_store(&mut self, now: Time) -> bool {
        let mut any = self.hold_store_outputs();
        while let Some((session, item)) = self.held.pop() {
            any = true;
            match (item, &mut self.client) {
                (held::Item::Send(message), Some(client)) if session == LOCAL => client.handle(now, message),
                // A process that was stopped for a while finds its own client taken for dead.
                (held::Item::End(GoodbyeReason::Silent, _), Some(_)) if session == LOCAL => self.begin_anew(now),
                (held::Item::End(..), Some(client)) if session == LOCAL => client.disconnected(now),
                (held::Item::Send(message), _) => {
                    self.outputs.push_back(Output::Send(Link::Session(session), message));
                }
                (held::Item::End(reason, text), _) => {
                    self.outputs.push_back(Output::End(Link::Session(session), reason, text));
                }
            }
        }
        any
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
                store::Output::Disk(work) => self.outputs.push_back(Output::Disk(work)),
                store::Output::Closed => self.outputs.push_back(Output::Closed),
            }
        }
        any
    }

    /// Begins the session of the client with the store of its own process again: there is no link between them that
    /// could be bad. What either had yet to say to the other belonged to the session that is gone.
    fn begin_anew(&mut self, now: Time) {
        self.hold_store_outputs();
        self.held.forget(LOCAL);
        let (Some(client), Some(store)) = (&mut self.client, &mut self.store) else { return };
        while let Some(output) = client.poll_output() {
            if let client::Output::Wake(txn) = output {
                self.outputs.push_back(Output::Wake(txn));
            }
        }
        store.disconnected(now, LOCAL);
        client.disconnected(now);
        store.connected(now, LOCAL);
        client.connected(now);
    }
}
