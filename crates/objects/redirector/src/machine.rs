//! A redirector as a machine: the server of its group's members, and a client of the store.

use crate::{Config, Redirector, outputs, tables};
use alloc::vec::Vec;
use machine::{Machine, Note, Opaque, Output, Parcel, Port, Table, UpstreamId};
use messages::{Leading, LookForLeader};
use types::{ClientId, GoodbyeReason, Time};

impl Machine for Redirector {
    fn connected(&mut self, now: Time, port: Port) {
        match port {
            Port::Upstream(_) => self.upstream_connected(now),
            Port::Session(session) => self.connected(now, session),
            Port::ToPeer(_) | Port::FromPeer(_) | Port::FromNode(_) => {}
        }
    }

    fn disconnected(&mut self, now: Time, port: Port) {
        match port {
            Port::Upstream(_) => self.upstream_disconnected(now),
            Port::Session(session) => self.disconnected(now, session),
            Port::ToPeer(_) | Port::FromPeer(_) | Port::FromNode(_) => {}
        }
    }

    fn heard(&mut self, now: Time, port: Port) {
        match port {
            Port::Upstream(_) => self.heard_store(now),
            Port::Session(session) => self.heard(now, session),
            Port::ToPeer(_) | Port::FromPeer(_) | Port::FromNode(_) => {}
        }
    }

    fn handle(&mut self, now: Time, port: Port, message: Parcel) {
        match port {
            Port::Upstream(_) => self.from_store(now, message.expect()),
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
            outputs::Output::Upstream(message) => Output::Send(Port::SERVER, Parcel::new(message), None),
            outputs::Output::Hangup { reason, text } => Output::End(Port::SERVER, reason, text),
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

    /// A redirector whose group another one leads stands by: it may be needed again.
    fn tries_again(&self, _: UpstreamId, reason: GoodbyeReason) -> bool {
        !reason.is_final() || reason == GoodbyeReason::Superseded
    }
}
