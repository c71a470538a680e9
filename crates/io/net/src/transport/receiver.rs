//! The receiving side of one connection.
//!
//! 1. One thread receives at a time, and gives the machine what it has received before another may: messages are
//!    handled in their order.
//! 2. No thread waits for that. One that finds another receiving leaves word that something has arrived; the other
//!    looks for such word after it has let go.

use crate::lock::{Guard, Lock, Rank};
use crate::transport::counters::Counters;
use crate::transport::poller::Readiness;
use crate::transport::socket::Socket;
use framing::{Codec, Inbox, Preface, WireError};
use machine::Parcel;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed, Ordering::SeqCst};
use tokio::sync::oneshot;
use types::GoodbyeReason;

/// The bytes that one connection may receive before it is another's turn.
const TURN_BYTES_MAX: usize = 1024 * 1024;

/// Nothing has arrived that has not been received.
const NOTHING: u8 = 0;
/// Something has arrived.
const SOME: u8 = 1;
/// The last of it has arrived: the end should be read too, of which nothing is told a second time.
const LAST: u8 = 2;

/// Why nothing more is received.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The peer has closed the connection, or it broke.
    Lost(Option<io::Error>),
    /// The bytes that came are not Thorp's protocol, or break it.
    Malformed(WireError),
    /// This end does not want it: the reason's name, what the peer is told, and the text for a person.
    Refused(&'static str, GoodbyeReason, String),
    /// This end is done with it.
    Here,
}

/// Something that the peer has said.
pub(crate) enum Heard {
    /// Its preface, first of all.
    Preface(Preface),
    Message(Parcel),
}

/// Where a connection tells why it has ended.
pub(crate) type Why = oneshot::Receiver<Ended>;

/// The receiving side of one connection.
#[derive(Debug)]
pub(crate) struct Receiver {
    arrived: AtomicU8,
    /// The peer lives: bytes have come or gone since that was last asked.
    lives: AtomicBool,
    reading: Lock<Reading>,
}

#[derive(Debug)]
struct Reading {
    inbox: Inbox,
    /// Told once why nothing more is received.
    ended: Option<oneshot::Sender<Ended>>,
    /// The reason that should be told.
    end: Option<Ended>,
}

/// The right to receive from a connection, held until what was received is with the machine.
pub(crate) struct Receiving<'a>(Guard<'a, Reading>);

impl Receiver {
    /// Receives messages that are heard at this end of a link, and tells why it has ended.
    pub(crate) fn new(codec: &'static dyn Codec) -> (Self, Why) {
        let (ended, why) = oneshot::channel();
        let reading = Reading { inbox: Inbox::new(codec), ended: Some(ended), end: None };
        let receiver = Self {
            arrived: AtomicU8::new(NOTHING),
            lives: AtomicBool::new(false),
            reading: Lock::new(Rank::Receiver, reading),
        };
        (receiver, why)
    }

    /// Something has happened to the socket. Returns whether there is something to receive.
    pub(crate) fn told(&self, readiness: Readiness) -> bool {
        if readiness.writable {
            // There is room because the peer has taken something. That is learned of in the same way as what arrives.
            self.lives.store(true, Relaxed);
            self.has_arrived();
        }
        if readiness.ended {
            self.arrived.fetch_max(LAST, SeqCst);
        } else if readiness.readable {
            self.has_arrived();
        }
        self.is_waiting()
    }

    fn has_arrived(&self) {
        self.arrived.fetch_max(SOME, SeqCst);
    }

    /// Whether something has arrived that was not received.
    pub(crate) fn is_waiting(&self) -> bool {
        self.arrived.load(SeqCst) != NOTHING
    }

    /// Whether nothing more is received.
    pub(crate) fn is_over(&self) -> bool {
        self.reading.lock().ended.is_none()
    }

    /// Nothing more is received from now on.
    pub(crate) fn end(&self) {
        self.reading.lock().ended = None;
    }

    /// Whether the peer has shown since the last call that it lives.
    pub(crate) fn take_sign_of_life(&self) -> bool {
        self.lives.swap(false, Relaxed)
    }

    /// Receives what has arrived, unless there is nothing, or another thread is at it. Everything goes to `said`,
    /// which says why no more are wanted, if that is so.
    pub(crate) fn receive(
        &self,
        socket: &Socket,
        counters: &Counters,
        buffer: &mut [u8],
        said: impl FnMut(Heard) -> Option<Ended>,
    ) -> Option<Receiving<'_>> {
        if !self.is_waiting() {
            return None;
        }
        let mut reading = self.reading.try_lock()?;
        let is_last = self.arrived.swap(NOTHING, SeqCst) == LAST;
        reading.ended.as_ref()?;
        let bytes_read = |bytes| {
            counters.bytes_in.fetch_add(bytes as u64, Relaxed);
            self.lives.store(true, Relaxed);
        };
        match reading.read(socket, is_last, buffer, bytes_read, said) {
            Ok(true) => {}
            Ok(false) => drop(self.arrived.fetch_max(if is_last { LAST } else { SOME }, SeqCst)),
            Err(ended) => reading.end = Some(ended),
        }
        Some(Receiving(reading))
    }
}

impl Reading {
    /// Reads what has arrived, to the end if it is the last, and tells each message that is complete with it, until one
    /// is the last that is wanted. Returns whether it was all.
    fn read(
        &mut self,
        socket: &Socket,
        is_last: bool,
        buffer: &mut [u8],
        bytes_read: impl Fn(usize),
        mut said: impl FnMut(Heard) -> Option<Ended>,
    ) -> Result<bool, Ended> {
        let mut total = 0;
        while total < TURN_BYTES_MAX {
            let read = match self.read_some(socket, buffer) {
                Ok(Read { bytes: 0, .. }) => return Err(Ended::Lost(None)),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Ended::Lost(Some(error))),
            };
            bytes_read(read.bytes);
            let mut arrived = if read.is_in_place { &[][..] } else { &buffer[..read.bytes] };
            loop {
                let message = self.inbox.next(&mut arrived).map_err(Ended::Malformed)?;
                let preface = self.inbox.take_preface().map(Heard::Preface);
                if let Some(over) = preface.and_then(&mut said) {
                    return Err(over);
                }
                let Some(message) = message else { break };
                if let Some(over) = said(Heard::Message(message)) {
                    return Err(over);
                }
            }
            // A socket that gave less than it could has no more.
            if read.bytes < read.room && !is_last {
                return Ok(true);
            }
            total += read.bytes;
        }
        Ok(false)
    }

    /// Reads once: what is much into its place, the rest into the buffer.
    fn read_some(&mut self, socket: &Socket, buffer: &mut [u8]) -> io::Result<Read> {
        if let Some(body) = self.inbox.direct() {
            let room = body.capacity() - body.len();
            return Ok(Read { bytes: socket.read_behind(body)?, room, is_in_place: true });
        }
        Ok(Read { bytes: socket.read(buffer)?, room: buffer.len(), is_in_place: false })
    }
}

/// The result of one read, in bytes.
struct Read {
    bytes: usize,
    /// How much it could have been.
    room: usize,
    /// Whether it is in the inbox already.
    is_in_place: bool,
}

impl Receiving<'_> {
    /// The machine has what was received.
    pub(crate) fn done(mut self) {
        if let Some(ended) = self.0.end.take()
            && let Some(told) = self.0.ended.take()
        {
            // A task that is not there to hear has ended the connection.
            let _ = told.send(ended);
        }
    }
}
