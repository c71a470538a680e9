//! The sending side of one connection.
//!
//! ```text
//!   Idle(sender) --flush takes it--> Away --all written--> Idle
//!                                     |--the socket is full--> Blocked(sender) --the writer task--> Away
//!                                     |--error, or all written and ending--> Gone
//! ```
//! 1. Messages leave in the order in which they were pushed: only one thread has the sender, and it returns it, under
//!    the lock, only when nothing is left.
//! 2. No thread waits for a socket, and none holds the lock while it writes.
//! 3. What waits is bounded; a peer that takes nothing for so long is given up.

use crate::counters::Counters;
use protocol::{Goodbye, Message};
use std::io::{self, IoSlice};
use std::mem;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;
use types::limits::SEND_QUEUE_BYTES_MAX;
use wire::Outbox;

/// Chunks that one vectored write takes at most.
const SLICES_MAX: usize = 64;

/// The sending side of one connection.
#[derive(Debug)]
pub(crate) struct Link {
    id: node::Link,
    counters: Arc<Counters>,
    out: Mutex<Out>,
    /// Something happened that the writer task must see.
    writer: Notify,
    /// The connection is to end, or has ended.
    ended: Notify,
}

#[derive(Debug)]
struct Out {
    pending: Outbox,
    sender: Slot,
    /// Whether the link is on someone's list of links to flush.
    listed: bool,
    /// Whether the peer has been told why the connection ends.
    said_goodbye: bool,
    /// Nothing more is taken; when all is written the connection ends.
    ending: bool,
}

/// Where the sender is.
#[derive(Debug)]
enum Slot {
    Idle(Sender),
    Away,
    Blocked(Sender),
    Gone,
}

/// The right to write to the socket, and what is being written. Dropping it ends the sending side of the connection.
#[derive(Debug)]
struct Sender {
    half: OwnedWriteHalf,
    current: Outbox,
}

/// What became of an attempt to write.
enum Written {
    All,
    Blocked,
    Broken,
}

impl Link {
    pub(crate) fn new(id: node::Link, half: OwnedWriteHalf, counters: Arc<Counters>) -> Self {
        let sender = Slot::Idle(Sender { half, current: Outbox::new() });
        let out = Out { pending: Outbox::new(), sender, listed: false, said_goodbye: false, ending: false };
        Self { id, counters, out: Mutex::new(out), writer: Notify::new(), ended: Notify::new() }
    }

    pub(crate) fn id(&self) -> node::Link {
        self.id
    }

    /// Queues a message. Says whether the link is to be flushed by the caller; if not, somebody else will. An error is
    /// a reason to end the link.
    pub(crate) fn push(&self, message: &Message) -> Result<bool, &'static str> {
        let mut out = self.lock();
        if out.ending {
            return Ok(false);
        }
        let being_written = if let Slot::Blocked(sender) = &out.sender { sender.current.bytes() } else { 0 };
        out.pending.push(message).map_err(wire::WireError::name)?;
        if out.pending.bytes() + being_written > SEND_QUEUE_BYTES_MAX {
            return Err("too_much");
        }
        self.counters.messages_out.fetch_add(1, Relaxed);
        out.said_goodbye |= matches!(message, Message::Goodbye(_));
        Ok(!mem::replace(&mut out.listed, true))
    }

    /// Writes what is queued, as far as the socket takes it.
    pub(crate) fn flush(&self) {
        let mut out = self.lock();
        out.listed = false;
        match mem::replace(&mut out.sender, Slot::Away) {
            Slot::Idle(sender) => self.write(sender, out),
            elsewhere => out.sender = elsewhere,
        }
    }

    /// Ends the connection when all that is queued, and this last word unless one was said, has been written.
    pub(crate) fn end(&self, goodbye: Goodbye) {
        let mut out = self.lock();
        if !out.said_goodbye && !out.ending {
            // A goodbye that does not fit any more is not missed: the connection ends all the same.
            let _ = out.pending.push(&Message::Goodbye(goodbye));
        }
        out.ending = true;
        drop(out);
        self.flush();
        self.ended.notify_one();
    }

    /// Ends the connection at once, whatever is queued.
    pub(crate) fn abandon(&self) {
        let mut out = self.lock();
        out.ending = true;
        out.sender = Slot::Gone;
        out.pending = Outbox::new();
        drop(out);
        self.writer.notify_one();
        self.ended.notify_one();
    }

    /// Waits until the connection is to end.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Finishes what a flush could not, until the link ends.
    pub(crate) async fn run_writer(&self) {
        loop {
            let blocked = {
                let mut out = self.lock();
                match mem::replace(&mut out.sender, Slot::Away) {
                    Slot::Blocked(sender) => Some(sender),
                    elsewhere => {
                        out.sender = elsewhere;
                        None
                    }
                }
            };
            match blocked {
                Some(sender) => {
                    // An error here is one that the write sees too.
                    let _ = sender.half.writable().await;
                    self.write(sender, self.lock());
                }
                None if self.is_gone() => return,
                None => self.writer.notified().await,
            }
        }
    }

    fn is_gone(&self) -> bool {
        matches!(self.lock().sender, Slot::Gone)
    }

    /// Writes until nothing is left or the socket is full. The lock is taken and given back around each write.
    fn write<'a>(&'a self, mut sender: Sender, mut out: MutexGuard<'a, Out>) {
        loop {
            if sender.current.is_empty() {
                if out.pending.is_empty() {
                    out.sender = if out.ending { Slot::Gone } else { Slot::Idle(sender) };
                    return;
                }
                mem::swap(&mut sender.current, &mut out.pending);
            }
            drop(out);
            let written = sender.write(&self.counters);
            out = self.lock();
            match written {
                Written::All if !matches!(out.sender, Slot::Gone) => {}
                Written::Blocked if !matches!(out.sender, Slot::Gone) => {
                    out.sender = Slot::Blocked(sender);
                    return self.writer.notify_one();
                }
                // The reading side hears of the same error, and ends the link.
                _ => {
                    out.sender = Slot::Gone;
                    return self.writer.notify_one();
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sender {
    fn write(&mut self, counters: &Counters) -> Written {
        while !self.current.is_empty() {
            match self.write_some() {
                Ok(0) => return Written::Broken,
                Ok(bytes) => {
                    counters.bytes_out.fetch_add(bytes as u64, Relaxed);
                    self.current.consume(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Written::Blocked,
                Err(_) => return Written::Broken,
            }
        }
        Written::All
    }

    fn write_some(&self) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        for (slice, chunk) in slices.iter_mut().zip(self.current.chunks()) {
            *slice = IoSlice::new(chunk);
            count += 1;
        }
        self.half.try_write_vectored(&slices[..count])
    }
}
