//! A redirector as a machine: the server of its group's members, and a client of the store.

use crate::machine::{Machine, Note, Output, Port};
use crate::roles::{Leading, LookForLeader, open};
use crate::status;
use crate::work::Opaque;
use alloc::vec::Vec;
use protocol::{Parcel, Table};
use redirector::{Config, Redirector};
use types::{ClientId, GoodbyeReason, Time};

impl Machine for Redirector {
    fn connected(&mut self, now: Time, port: Port) {
        match port {
            Port::Server => self.trunk_connected(now),
            Port::Session(session) => self.connected(now, session),
            Port::ToPeer(_) | Port::FromPeer(_) => {}
        }
    }

    fn disconnected(&mut self, now: Time, port: Port) {
        match port {
            Port::Server => self.trunk_disconnected(now),
            Port::Session(session) => self.disconnected(now, session),
            Port::ToPeer(_) | Port::FromPeer(_) => {}
        }
    }

    fn heard(&mut self, now: Time, port: Port) {
        match port {
            Port::Server => self.heard_store(now),
            Port::Session(session) => self.heard(now, session),
            Port::ToPeer(_) | Port::FromPeer(_) => {}
        }
    }

    fn handle(&mut self, now: Time, port: Port, message: Parcel) {
        match port {
            Port::Server => self.from_store(now, open(message)),
            Port::Session(session) => self.handle(now, session, open(message)),
            Port::ToPeer(_) | Port::FromPeer(_) => {}
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
            redirector::Output::Send { to, message } => Output::Send(Port::Session(to), Parcel::new(message), None),
            redirector::Output::End { session, reason, text } => Output::End(Port::Session(session), reason, text),
            redirector::Output::LookForLeader => Output::Beside(Opaque::new(LookForLeader)),
            redirector::Output::Trunk(message) => Output::Send(Port::Server, Parcel::new(message), None),
            redirector::Output::Hangup { reason, text } => Output::End(Port::Server, reason, text),
            redirector::Output::Closed => Output::Closed,
        })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.handle_timeout(now);
    }

    fn status(&self) -> Vec<Table> {
        status::redirector_tables(self).into()
    }

    /// A redirector whose group another one leads stands by: it may be needed again.
    fn tries_again(&self, reason: GoodbyeReason) -> bool {
        !reason.is_final() || reason == GoodbyeReason::Superseded
    }
}
