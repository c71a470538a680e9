//! The sending side of one connection.
//!
//! ```text
//!   Idle(writer) --flush takes it--> Away --all written--> Idle
//!                                     |--the socket is full--> Blocked(writer) --there is room--> Away
//!                                     |--error, or all written and ending--> Gone
//! ```
//! 1. Messages leave in the order that the outbox gives them: only one thread has the writer, and it returns it, under
//!    the lock, only when nothing is left. It takes about a quantum at a time, so that what is urgent need not wait for
//!    more.
//! 2. No thread waits for a socket, and none holds the lock while it writes.
//! 3. The queue is bounded; a peer that takes nothing for this long is given up.

use crate::lock::{Guard, Lock, Rank};
use crate::transport::counters::Counters;
use crate::transport::socket::Socket;
use framing::{Batch, Codec, Outbox, Preface};
use machine::{Goodbye, Parcel};
use smallvec::SmallVec;
use std::io::{self, IoSlice};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::Notify;
use types::limits::SEND_QUEUE_BYTES_MAX;

/// Chunks that one vectored write takes at most; Linux takes no more.
const SLICES_MAX: usize = 1024;

/// Chunks of most writes.
const SLICES: usize = 64;

/// The sending side of one connection.
#[derive(Debug)]
pub(crate) struct Sender {
    socket: Socket,
    counters: Arc<Counters>,
    out: Lock<Out>,
    /// The connection should end, or has ended.
    ended: Notify,
}

#[derive(Debug)]
struct Out {
    pending: Outbox,
    writer: Slot,
    /// Whether somebody is about to flush this.
    listed: bool,
    /// Whether it should be said when everything that was pushed has been written.
    awaits_room: bool,
    stage: Stage,
}

/// How far the connection's end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    /// The peer has been told why it ends.
    SaidGoodbye,
    /// Nothing more is taken; when all is written it ends.
    Ending,
}

/// Where the writer is.
#[derive(Debug)]
enum Slot {
    Idle(Writer),
    Away,
    Blocked(Writer),
    Gone,
}

/// The right to write to the socket, and what is being written.
#[derive(Debug, Default)]
struct Writer {
    current: Batch,
}

/// The outcome of an attempt to write.
enum Written {
    All,
    Blocked,
    Broken,
}

impl Sender {
    pub(crate) fn new(socket: Socket, codec: &'static dyn Codec, preface: &Preface, counters: Arc<Counters>) -> Self {
        let writer = Slot::Idle(Writer::default());
        let pending = Outbox::begin(codec, preface);
        let out = Out { pending, writer, listed: false, awaits_room: false, stage: Stage::Open };
        Self { socket, counters, out: Lock::new(Rank::Sender, out), ended: Notify::new() }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// From now on messages of another family are sent.
    pub(crate) fn speak(&self, codec: &'static dyn Codec) {
        self.out.lock().pending.speak(codec);
    }

    /// Queues a message. Returns whether the caller is to flush; if not, somebody else will. An error is a reason to
    /// end the connection.
    pub(crate) fn push(&self, message: &Parcel) -> Result<bool, &'static str> {
        let mut out = self.out.lock();
        if out.stage == Stage::Ending {
            return Ok(false);
        }
        let being_written = if let Slot::Blocked(writer) = &out.writer { writer.current.bytes() } else { 0 };
        out.pending.push(message).map_err(framing::WireError::name)?;
        if out.pending.bytes() + being_written > SEND_QUEUE_BYTES_MAX {
            return Err("too_much");
        }
        self.counters.messages_out.fetch_add(1, Relaxed);
        if message.goodbye().is_some() {
            out.stage = Stage::SaidGoodbye;
        }
        Ok(!mem::replace(&mut out.listed, true))
    }

    /// The thread that writes the last of what was pushed is to learn of it. Returns whether the caller is to flush.
    pub(crate) fn await_room(&self) -> bool {
        let mut out = self.out.lock();
        out.awaits_room = true;
        !mem::replace(&mut out.listed, true)
    }

    /// Writes what is queued, as far as the socket takes it. Returns whether there is the room that was awaited.
    pub(crate) fn flush(&self) -> bool {
        let mut out = self.out.lock();
        out.listed = false;
        match mem::replace(&mut out.writer, Slot::Away) {
            Slot::Idle(writer) => self.write(writer, out),
            elsewhere => {
                out.writer = elsewhere;
                false
            }
        }
    }

    /// Ends the connection when everything that is queued, and this last word unless one was said, has been written.
    pub(crate) fn end(&self, goodbye: Goodbye) {
        if self.out.is_poisoned() {
            // The thread that panicked may have queued half a message: nothing can follow that.
            return self.abandon();
        }
        let mut out = self.out.lock();
        if out.stage == Stage::Open {
            // A goodbye that does not fit any more is not missed: the connection ends all the same.
            let goodbye = out.pending.codec().goodbye(goodbye);
            let _ = out.pending.push(&goodbye);
        }
        out.stage = Stage::Ending;
        drop(out);
        self.flush();
        self.ended.notify_one();
    }

    /// Ends the connection at once, whatever is queued.
    pub(crate) fn abandon(&self) {
        let mut out = self.out.lock();
        out.stage = Stage::Ending;
        out.pending = Outbox::new(out.pending.codec());
        self.let_go(&mut out);
        drop(out);
        self.ended.notify_one();
    }

    /// Waits until the connection should end.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// The socket has room again: continues with what a flush could not finish. Returns whether there is the room that
    /// was awaited.
    pub(crate) fn go_on(&self) -> bool {
        self.socket.has_room();
        let mut out = self.out.lock();
        match mem::replace(&mut out.writer, Slot::Away) {
            Slot::Blocked(writer) => self.write(writer, out),
            elsewhere => {
                out.writer = elsewhere;
                false
            }
        }
    }

    /// Gives up the right to write, for good.
    fn let_go(&self, out: &mut Out) {
        out.writer = Slot::Gone;
        self.socket.end_sending();
    }

    /// Writes until nothing is left or the socket is full. The lock is taken and given back around each write. Says
    /// whether nothing is left and that was awaited.
    fn write<'a>(&'a self, mut writer: Writer, mut out: Guard<'a, Out>) -> bool {
        loop {
            if writer.current.is_empty() {
                out.pending.next(&mut writer.current);
                if writer.current.is_empty() {
                    if out.stage == Stage::Ending {
                        self.let_go(&mut out);
                        return false;
                    }
                    out.writer = Slot::Idle(writer);
                    return mem::take(&mut out.awaits_room);
                }
            }
            drop(out);
            let written = writer.write(self);
            out = self.out.lock();
            match written {
                Written::All if !matches!(out.writer, Slot::Gone) => {}
                Written::Blocked if !matches!(out.writer, Slot::Gone) => {
                    out.writer = Slot::Blocked(writer);
                    drop(out);
                    // Only now, so that the one that is told finds the writer where it belongs.
                    self.socket.await_room();
                    return false;
                }
                // The receiver learns of the same error, and ends the connection.
                _ => {
                    self.let_go(&mut out);
                    return false;
                }
            }
        }
    }
}

impl Writer {
    fn write(&mut self, sender: &Sender) -> Written {
        while !self.current.is_empty() {
            match self.write_some(&sender.socket) {
                Ok(0) => return Written::Broken,
                Ok(bytes) => {
                    sender.counters.bytes_out.fetch_add(bytes as u64, Relaxed);
                    self.current.consume(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Written::Blocked,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Written::Broken,
            }
        }
        Written::All
    }

    fn write_some(&self, socket: &Socket) -> io::Result<usize> {
        let slices: SmallVec<[IoSlice<'_>; SLICES]> =
            self.current.chunks().take(SLICES_MAX).map(IoSlice::new).collect();
        socket.write(&slices)
    }
}
