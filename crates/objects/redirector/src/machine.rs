//! A redirector as a machine: the server of its group's members, and a client of the store.

use crate::{Config, Redirector, outputs, tables};
use alloc::string::String;
use alloc::vec::Vec;
use machine::{Machine, Note, Opaque, Output, Parcel, Port, Table, UpstreamId};
use messages::{Leading, LookForLeader, session_at};
use types::{ClientId, GoodbyeReason, Time};

impl Machine for Redirector {
    fn connected(&mut self, now: Time, port: Port) {
        match port {
            Port::Upstream(upstream) => self.upstream_connected(now, upstream),
            Port::Session(session) => self.connected(now, session),
            Port::ToPeer(_) | Port::FromPeer(_) | Port::FromNode(_) => {}
        }
    }

    fn disconnected(&mut self, now: Time, port: Port) {
        match port {
            Port::Upstream(upstream) => self.upstream_disconnected(now, upstream),
            Port::Session(session) => self.disconnected(now, session),
            Port::ToPeer(_) | Port::FromPeer(_) | Port::FromNode(_) => {}
        }
    }

    fn heard(&mut self, now: Time, port: Port) {
        match port {
            Port::Upstream(upstream) => self.heard_store(now, upstream),
            Port::Session(session) => self.heard(now, session),
            Port::ToPeer(_) | Port::FromPeer(_) | Port::FromNode(_) => {}
        }
    }

    fn handle(&mut self, now: Time, port: Port, message: Parcel) {
        match port {
            Port::Upstream(upstream) => self.from_store(now, upstream, message.expect()),
            Port::Session(session) => self.handle(now, session, message.expect()),
            Port::ToPeer(_) | Port::FromPeer(_) | Port::FromNode(_) => {}
        }
    }

    fn beside(&mut self, now: Time, note: Note) {
        match note.open() {
            Ok(Leading::Lead { epoch }) => self.lead(now, epoch),
            Ok(Leading::LedBy(leader)) => self.led_by(now, leader),
            Err(_) => {}
        }
    }

    fn close(&mut self, now: Time) {
        self.close(now);
    }

    fn stop(&mut self, _: &str) {
        *self = Self::new(Config::default(), ClientId(0));
    }

    fn poll_output(&mut self) -> Option<Output> {
        Some(match self.poll_output()? {
            outputs::Output::Send { to, message } => Output::Send(Port::Session(to), Parcel::new(message), None),
            outputs::Output::End { session, reason, text } => Output::End(Port::Session(session), reason, text),
            outputs::Output::LookForLeader => Output::Beside(Opaque::new(LookForLeader)),
            outputs::Output::Upstream(to, message) => Output::Send(Port::Upstream(to), Parcel::new(message), None),
            outputs::Output::Open(upstream, addresses) => Output::Open(upstream, session_at(addresses)),
            outputs::Output::Close(upstream) => Output::Close(upstream),
            outputs::Output::Hangup { upstream, reason, text } => Output::End(Port::Upstream(upstream), reason, text),
            outputs::Output::Closed => Output::Closed,
        })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.handle_timeout(now);
    }

    fn status(&self) -> Vec<Table> {
        tables::redirector(self).into()
    }

    /// The group's first node stays its home: requests under way there go to no other node.
    fn way(&mut self, _: Time, upstream: UpstreamId) -> Option<String> {
        if upstream == UpstreamId::ONLY { self.home_address() } else { None }
    }

    /// A redirector whose group another one leads stands by: it may be needed again.
    fn tries_again(&self, _: UpstreamId, reason: GoodbyeReason) -> bool {
        !reason.is_final() || reason == GoodbyeReason::Superseded
    }
}
