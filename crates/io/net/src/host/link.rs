//! A connection of a host's: what comes in on it, for its machine.
//!
//! ```text
//!   new --a first message that the filter lets in--> known to the machine --> ended: by the peer, by this end, by what is
//!                                                                        no message
//! ```

use crate::host::core::Core;
use crate::transport::connection::Connection;
use crate::transport::poller::Readiness;
use crate::transport::receiver::{Ended, Heard, Receiving, Why};
use crate::transport::socket::Socket;
use framing::{Codec, Preface};
use machine::{Event, Parcel, Port};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;
use types::GoodbyeReason;

/// The shortest keep-alive that another end can ask for.
const SILENCE_MIN: Duration = Duration::from_secs(1);

/// Looks at each message of a link before the machine does.
pub(crate) trait Filter: fmt::Debug + Send + Sync {
    /// Whether the machine knows of the link from its beginning, not only from its first message on.
    fn is_known_at_once(&self) -> bool {
        true
    }

    /// Lets the other end begin, or says why that ends the link.
    fn begin(&self, link: &Link, preface: &Preface) -> Result<(), Ended> {
        let _ = (link, preface);
        Ok(())
    }

    /// Lets a message pass, the first of the link or a later one, or says why it ends the link. Events that the machine
    /// is to learn of before the message are added.
    fn check(&self, link: &Link, message: &Parcel, is_first: bool, events: &mut Vec<Event>) -> Result<(), Ended> {
        let _ = (link, message, is_first, events);
        Ok(())
    }

    /// The machine has handled the messages that have passed.
    fn handled(&self) {}
}

/// A connection, and what the machine calls it.
#[derive(Debug)]
pub(crate) struct Link {
    id: machine::Link,
    core: Weak<Core>,
    connection: Arc<Connection>,
    filter: Arc<dyn Filter>,
    /// The first message has arrived.
    heard: AtomicBool,
    /// The machine knows of it.
    known: AtomicBool,
}

impl Link {
    /// Makes a connected socket this end of a family's link, and gives where it tells why it has ended.
    pub(crate) fn new(
        core: &Core,
        id: machine::Link,
        codec: &'static dyn Codec,
        socket: Socket,
        filter: Arc<dyn Filter>,
        silence: Option<Duration>,
    ) -> (Arc<Self>, Why) {
        let silence_ms = silence.map_or(0, |silence| silence.as_millis() as u32);
        let preface = Preface { silence_ms, ..Preface::of(codec) };
        let (connection, why) = Connection::new(socket, codec, &preface, Arc::clone(core.counters()));
        let known = AtomicBool::new(filter.is_known_at_once());
        let link = Self { id, core: core.weak(), connection, filter, heard: AtomicBool::new(false), known };
        (Arc::new(link), why)
    }

    pub(crate) fn id(&self) -> machine::Link {
        self.id
    }

    pub(crate) fn core(&self) -> &Weak<Core> {
        &self.core
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Whether the first message has arrived.
    pub(crate) fn is_heard(&self) -> bool {
        self.heard.load(Relaxed)
    }

    /// Whether the machine knows of the link.
    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Relaxed)
    }

    /// The machine should know of the link.
    fn introduce(&self, core: &Core, events: &mut Vec<Event>) {
        self.known.store(true, Relaxed);
        core.add_link(self.id, &self.connection);
        events.push(Event::Up(self.id.port));
    }

    /// Something has happened to the socket. Returns whether there is something to receive.
    pub(crate) fn told(&self, readiness: Readiness) -> bool {
        if readiness.writable {
            match self.core.upgrade() {
                Some(core) => drop(core.contain(|| self.connection.go_on())),
                // Last words, of a host that is gone.
                None => self.connection.go_on(),
            }
        }
        self.connection.told(readiness)
    }

    /// Receives what has arrived, unless there is nothing, or another thread is at it.
    pub(crate) fn receive(&self, core: &Core, buffer: &mut [u8], events: &mut Vec<Event>) -> Option<Receiving<'_>> {
        let before = events.len();
        let receiving = self.connection.receive(buffer, |heard| match heard {
            Heard::Preface(preface) => self.begin(&preface).err(),
            Heard::Message(message) => self.hear(core, message, events),
        })?;
        // A message is a heartbeat itself.
        if self.connection.take_sign_of_life() && events.len() == before && self.is_known() {
            events.push(Event::Heard(self.id.port));
        }
        if self.connection.take_room() {
            events.push(Event::Room(self.id.port));
        }
        Some(receiving)
    }

    /// The other end has said what it is. Its keep-alive holds for both.
    fn begin(&self, preface: &Preface) -> Result<(), Ended> {
        if preface.silence_ms > 0 {
            let silence = Duration::from_millis(preface.silence_ms.into());
            // A socket of this machine needs none, and refuses.
            let _ = self.connection.socket().give_up_after(silence.max(SILENCE_MIN));
        }
        self.filter.begin(self, preface)
    }

    /// The machine has handled what was received.
    pub(crate) fn handled(&self) {
        self.filter.handled();
    }

    /// Passes a message on to the machine. Returns why no more are wanted, if that is so.
    fn hear(&self, core: &Core, message: Parcel, events: &mut Vec<Event>) -> Option<Ended> {
        let is_first = !self.heard.swap(true, Relaxed);
        if let Err(ended) = self.filter.check(self, &message, is_first, events) {
            return Some(ended);
        }
        if is_first && !self.is_known() {
            self.introduce(core, events);
        }
        let over = match self.id.port {
            // The machine says when a session ends that a client has opened.
            Port::Session(_) => None,
            _ if message.goodbye().is_some() => Some(Ended::Here),
            Port::ToPeer(_) => {
                let text = "expected nothing but a Goodbye of who is sent pages".to_owned();
                Some(Ended::Refused("direction", GoodbyeReason::Malformed, text))
            }
            _ => None,
        };
        events.push(Event::Message(self.id.port, message));
        over
    }
}
