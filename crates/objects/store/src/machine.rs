//! A store as a machine: the server of clients and of redirectors. Every event passes its lease here first.

use crate::{Checkpoint, Config, Opened, Store, lease, tables, work};
use alloc::vec::Vec;
use machine::{DiskDone, Done, Machine, Opaque, Output, Parcel, Port, Table};
use messages::nodes::link_to;
use types::{ClusterId, Incarnation, Life, Position, Time};

impl Machine for Store {
    fn start(&mut self, now: Time) {
        self.start(now);
    }

    fn connected(&mut self, now: Time, port: Port) {
        match port {
            Port::Session(session) if self.is_over(now) => self.out.end(session, lease::over()),
            Port::Upstream(_) | Port::FromNode(_) if self.is_over(now) => self.out.end_port(port, lease::over()),
            Port::Session(session) => self.connected(now, session),
            Port::Upstream(_) | Port::FromNode(_) => self.link_is_up(port),
            Port::ToPeer(_) | Port::FromPeer(_) => {}
        }
    }

    fn disconnected(&mut self, now: Time, port: Port) {
        match port {
            _ if self.is_over(now) => {}
            Port::Session(session) => self.disconnected(now, session),
            Port::Upstream(_) | Port::FromNode(_) => self.link_is_down(now, port),
            Port::ToPeer(_) | Port::FromPeer(_) => {}
        }
    }

    fn heard(&mut self, now: Time, port: Port) {
        if let Port::Session(session) = port
            && !self.is_over(now)
        {
            self.heard(now, session);
        }
    }

    fn has_room(&mut self, port: Port) {
        if let Port::Session(session) = port
            && !self.is_over(self.now)
        {
            self.has_room(session);
        }
    }

    fn handle(&mut self, now: Time, port: Port, message: Parcel) {
        match port {
            _ if self.is_over(now) => {}
            Port::Session(session) => self.handle(now, session, message.expect()),
            Port::Upstream(_) | Port::FromNode(_) => self.hear_link(now, port, message.expect()),
            Port::ToPeer(_) | Port::FromPeer(_) => {}
        }
    }

    fn disk(&mut self, now: Time, done: DiskDone) {
        // A store's disk says nothing else.
        if let Ok(done) = done.open()
            && !self.is_over(now)
        {
            self.disk(now, done);
        }
    }

    fn close(&mut self, now: Time) {
        if !self.is_over(now) {
            self.close(now);
        }
    }

    fn stop(&mut self, _: &str) {
        let nothing = Opened {
            cluster: ClusterId(0),
            incarnation: Incarnation(0),
            life: Life(0),
            checkpoint: Checkpoint::default(),
            pages: Vec::new(),
            log_bytes_free: 0,
        };
        *self = Self::new(Config::default(), nothing);
    }

    fn poll_output(&mut self) -> Option<Output> {
        Some(match self.poll_output()? {
            crate::Output::Send { to, message, after } => Output::Send(Port::Session(to), Parcel::new(message), after),
            crate::Output::End { session, reason, text } => Output::End(Port::Session(session), reason, text),
            crate::Output::Say(port, message) => Output::Send(port, Parcel::new(message), None),
            crate::Output::EndLink(port, why) => Output::End(port, why.reason, why.text),
            crate::Output::OpenLink(upstream, address) => Output::Open(upstream, link_to(address)),
            crate::Output::CloseLink(upstream) => Output::Close(upstream),
            crate::Output::AwaitRoom(session) => Output::AwaitRoom(Port::Session(session)),
            crate::Output::Disk(work) => Output::Disk(Opaque::new(work)),
            crate::Output::Closed => Output::Closed,
        })
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.has_ended() {
            return None;
        }
        [self.poll_timeout(), self.lease_ends()].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Time) {
        if !self.is_over(now) {
            self.handle_timeout(now);
        }
    }

    fn status(&self) -> Vec<Table> {
        tables::store(self).into()
    }
}

impl Done for work::DiskDone {
    fn durable(&self) -> Option<Position> {
        if let Self::Durable { through, .. } = *self { Some(through) } else { None }
    }
}
