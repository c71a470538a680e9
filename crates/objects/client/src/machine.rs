//! A client as a machine. Its server is a store, or the redirector of its group; its peers are its peers.

use crate::{Client, Config, TxnHandle, outputs, tables};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use machine::{Machine, Note, Opaque, Output, Parcel, Port, Table, UpstreamId, Waiter};
use messages::{Leading, LookForLeader, Reachable, session_at};
use types::{ClientId, PeerKey, Time};

impl From<TxnHandle> for Waiter {
    fn from(TxnHandle(txn): TxnHandle) -> Self {
        Self(txn)
    }
}

impl From<Waiter> for TxnHandle {
    fn from(Waiter(txn): Waiter) -> Self {
        Self(txn)
    }
}

impl Machine for Client {
    fn start(&mut self, now: Time) {
        // Where peers reach it is known when it has some.
        Machine::reachable(self, now, String::new(), PeerKey::default());
    }

    fn connected(&mut self, now: Time, port: Port) {
        match port {
            Port::Upstream(upstream) => self.connected(now, upstream),
            Port::ToPeer(peer) => self.peer_connected(peer),
            Port::FromPeer(_) | Port::Session(_) | Port::FromNode(_) => {}
        }
    }

    fn disconnected(&mut self, now: Time, port: Port) {
        match port {
            Port::Upstream(upstream) => self.disconnected(upstream),
            Port::ToPeer(peer) => self.peer_disconnected(now, peer),
            Port::FromPeer(_) | Port::Session(_) | Port::FromNode(_) => {}
        }
    }

    fn heard(&mut self, now: Time, port: Port) {
        if let Port::Upstream(upstream) = port {
            self.heard(now, upstream);
        }
    }

    fn handle(&mut self, now: Time, port: Port, message: Parcel) {
        match port {
            Port::Upstream(upstream) => self.handle(now, upstream, message.expect()),
            Port::FromPeer(_) => self.from_peer(now, message.expect()),
            // A peer that we send pages to has nothing to say but that it is gone.
            Port::ToPeer(_) | Port::Session(_) | Port::FromNode(_) => {}
        }
    }

    fn beside(&mut self, now: Time, note: Note) {
        if note.get::<LookForLeader>().is_some() {
            self.look_for_leader(now);
        }
    }

    fn reachable(&mut self, now: Time, address: String, key: PeerKey) {
        let eligible = self.eligible().to_owned();
        self.reachable(now, Reachable { address, key, eligible });
    }

    /// A panic may have left it half changed. Should it not even end without another one, the next caller finds a
    /// client that has nothing but its end.
    fn stop(&mut self, why: &str) {
        let mut nobody = Self::new(Config::default(), ClientId(0));
        nobody.stopped(why.to_owned());
        let mut client = mem::replace(self, nobody);
        client.stopped(why.to_owned());
        *self = client;
    }

    fn poll_output(&mut self) -> Option<Output> {
        Some(match self.poll_output()? {
            outputs::Output::Send(to, message) => Output::Send(Port::Upstream(to), Parcel::new(message), None),
            outputs::Output::Open(upstream, addresses) => Output::Open(upstream, session_at(addresses)),
            outputs::Output::Close(upstream) => Output::Close(upstream),
            outputs::Output::Hangup { upstream, reason, text } => Output::End(Port::Upstream(upstream), reason, text),
            outputs::Output::DialPeer { peer, address } => Output::Dial(peer, address),
            outputs::Output::SendPeer { peer, message } => Output::Send(Port::ToPeer(peer), Parcel::new(message), None),
            outputs::Output::Lead { epoch } => Output::Beside(Opaque::new(Leading::Lead { epoch })),
            outputs::Output::LedBy(leader) => Output::Beside(Opaque::new(Leading::LedBy(leader))),
            outputs::Output::Wake(txn) => Output::Wake(txn.into()),
        })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.handle_timeout(now);
    }

    fn status(&self) -> Vec<Table> {
        [tables::client(self)].into()
    }

    fn way(&mut self, now: Time, upstream: UpstreamId) -> Option<String> {
        if upstream == UpstreamId::ONLY { self.way(now) } else { None }
    }

    fn has_way(&self, upstream: UpstreamId) -> bool {
        upstream == UpstreamId::ONLY && self.has_way()
    }

    fn looks_back(&self, upstream: UpstreamId) -> bool {
        upstream == UpstreamId::ONLY && self.looks_back()
    }

    fn go_back(&mut self, _: UpstreamId) {
        self.go_back();
    }

    fn has_callers(&self) -> bool {
        true
    }
}
