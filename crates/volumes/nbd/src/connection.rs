//! The threads of a connection.
//!
//! ```text
//!              +-- idle <-------------------------+
//!   the seat   |                                  |
//!   is free    v                                  | the seat is another's
//!            reader: receive, parse, submit, send-+
//!              |  ^                      |
//!              |  +----------------------+  still in the seat
//!              v
//!            no more requests: wait for the replies, end
//! ```
//! 1. One thread at a time, the one in the seat, receives. It carries a batch to the device and sends the replies.
//! 2. A device that is about to wait says so ([`Replies::stalls`]); the thread then gives the seat away and comes back
//!    to be idle. As long as nothing stalls, one thread does everything.
//! 3. A request is counted from when it was read until its reply has left. The reader stops at the limit.
//! 4. The connection ends when every request that was read has been replied to, whatever ended it. When its client has
//!    hung up, requests that wait are given up where they wait, so they keep no place from others, and requests that
//!    have not taken effect never will (`presence.rs`).

use super::counters::Ended;
use super::handshake::Session;
use super::limits::{
    BUFFER_BYTES, CREW_MAX, HANDSHAKE_WITHIN, LATE_AFTER, LOOK_EVERY, OUTSTANDING_BYTES_MAX, OUTSTANDING_MAX,
    READ_BYTES,
};
use super::outbox::{Full, Load, Outbox, Sent};
use super::presence::Presence;
use super::replies;
use super::requests::{Item, Requests};
use super::shared::Shared;
use crate::device::{Answer, Device, Errno, Form, Geometry, Replies, Request, Ticket};
use bytes::Bytes;
use rustix::io::Errno as SystemError;
use rustix::net::{RecvFlags, recv};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::Instant;

/// A connection with an export.
pub(super) struct Connection {
    presence: Arc<Presence>,
    device: Arc<dyn Device>,
    shared: Arc<Shared>,
    /// Its number with the server.
    number: u64,
    /// For the thread in the seat.
    input: Mutex<Input>,
    seat: Mutex<Seat>,
    seat_changed: Condvar,
    outbox: Outbox,
    load: Mutex<Load>,
    unloaded: Condvar,
    /// This connection, for threads that it starts.
    me: Weak<Self>,
}

/// The bytes that have been received.
struct Input {
    requests: Requests,
    /// Those that are not parsed yet.
    unparsed: Bytes,
    /// Why nothing more is read, once the requests before it are submitted.
    ended: Option<Ended>,
    /// When the last of them were taken off.
    read_at: Instant,
}

/// The place of the thread that receives.
#[derive(Debug)]
struct Seat {
    reader: Option<ThreadId>,
    idle: usize,
    crew: usize,
    is_ended: bool,
}

/// The reason for which the parsing stopped.
enum Stopped {
    /// So many bytes are missing.
    Missing(usize),
    /// There are as many requests as may be.
    Loaded,
    /// Nothing more should come.
    Ended,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    /// Serves a session on this thread, and on those that it starts, until it ends.
    pub(super) fn serve(
        shared: Arc<Shared>,
        number: u64,
        presence: Arc<Presence>,
        session: Session,
        received: Vec<u8>,
    ) {
        let device = shared.device(session.export);
        let (requests, read_at) = (Requests::new(session), Instant::now());
        let input = Input { requests, unparsed: received.into(), ended: None, read_at };
        let connection = Arc::new_cyclic(|me| Self {
            presence,
            device,
            shared,
            number,
            input: Mutex::new(input),
            seat: Mutex::new(Seat { reader: None, idle: 0, crew: 1, is_ended: false }),
            seat_changed: Condvar::new(),
            outbox: Outbox::default(),
            load: Mutex::default(),
            unloaded: Condvar::new(),
            me: Weak::clone(me),
        });
        connection.run();
    }

    /// The work of each thread of the crew.
    fn run(self: Arc<Self>) {
        let replies: Arc<dyn Replies> = Arc::<Self>::clone(&self);
        let _panicking = EndOnPanic(&self);
        let mut batch = Vec::new();
        while self.sit() {
            while self.serve_batch(&mut batch, &replies) {}
        }
    }

    /// Waits for the seat. Returns whether there is one.
    fn sit(&self) -> bool {
        let mut seat = lock(&self.seat);
        seat.idle += 1;
        let is_taken = |seat: &mut Seat| seat.reader.is_some() && !seat.is_ended;
        seat = self.seat_changed.wait_while(seat, is_taken).unwrap_or_else(PoisonError::into_inner);
        seat.idle -= 1;
        if seat.is_ended {
            seat.crew -= 1;
            return false;
        }
        seat.reader = Some(thread::current().id());
        true
    }

    /// Receives requests, has them carried out and sends the replies that are there. Returns whether to continue.
    fn serve_batch(&self, batch: &mut Vec<Request>, replies: &Arc<dyn Replies>) -> bool {
        if let Err(why) = self.receive(batch) {
            self.finish(why, replies);
            return false;
        }
        if !batch.is_empty() {
            self.device.submit(batch, replies);
            debug_assert!(batch.is_empty(), "the device took every request");
        }
        let is_in_seat = lock(&self.seat).reader == Some(thread::current().id());
        self.leave(Full::Wait);
        is_in_seat
    }

    /// Fills the batch with requests that have arrived, waiting for the first.
    fn receive(&self, batch: &mut Vec<Request>) -> Result<(), Ended> {
        let geometry = self.device.geometry();
        let mut input = lock(&self.input);
        // While all threads were at the device, requests have waited in the socket, and their client may have hung up.
        if input.read_at.elapsed() >= LATE_AFTER {
            self.presence.look();
        }
        loop {
            let (taken, stopped) = self.parse(&mut input, &geometry, batch);
            if taken > 0 {
                input.read_at = Instant::now();
                self.shared.counters.requests.fetch_add(batch.len() as u64, Relaxed);
                return Ok(());
            }
            match stopped {
                Stopped::Missing(bytes) => self.receive_bytes(&mut input, &geometry, bytes)?,
                Stopped::Loaded => self.wait_for_room()?,
                Stopped::Ended => return Err(input.ended.unwrap_or(Ended::Closed)),
            }
        }
    }

    /// Takes requests off what was received. Returns how many, with those that were refused at once.
    fn parse(&self, input: &mut Input, geometry: &Geometry, batch: &mut Vec<Request>) -> (usize, Stopped) {
        let mut load = *lock(&self.load);
        let before = load;
        let mut refused = Vec::new();
        let stopped = loop {
            if input.ended.is_some() {
                break Stopped::Ended;
            }
            if load.is_full() {
                break Stopped::Loaded;
            }
            match input.requests.next(geometry, &mut input.unparsed) {
                Item::More(bytes) => break Stopped::Missing(bytes),
                Item::Request(request) => {
                    load.add(&request.ticket);
                    batch.push(request);
                }
                Item::Refused(ticket, errno, why) => {
                    load.add(&ticket);
                    refused.push((ticket, errno, why));
                }
                Item::Disconnect => input.ended = Some(Ended::Disconnected),
                Item::OutOfStep => input.ended = Some(Ended::RequestMagic),
            }
        };
        let (requests, bytes) = (load.requests - before.requests, load.bytes - before.bytes);
        if requests > 0 {
            let mut load = lock(&self.load);
            load.requests += requests;
            load.bytes += bytes;
        }
        for (ticket, errno, why) in refused {
            self.shared.counters.refused.fetch_add(1, Relaxed);
            self.outbox.add(ticket.load(), |to| {
                replies::put(to, &ticket, Err(errno), why);
            });
        }
        (requests, stopped)
    }

    /// Receives at least so many bytes, and on to the end of a request that has begun. So a large payload lies where it
    /// was received, not where a second buffer has the rest of it.
    fn receive_bytes(&self, input: &mut Input, geometry: &Geometry, mut missing: usize) -> Result<(), Ended> {
        let unparsed = std::mem::take(&mut input.unparsed);
        // With room for the end of the last small request.
        let mut buffer = self.shared.buffers.take((unparsed.len() + missing).max(READ_BYTES + BUFFER_BYTES));
        buffer.put(&unparsed);
        drop(unparsed);
        while missing > 0 {
            let enough = buffer.bytes().len() + missing;
            buffer.reserve(enough);
            while buffer.bytes().len() < enough {
                match recv(&self.presence, buffer.room(enough.max(READ_BYTES + BUFFER_BYTES)), RecvFlags::empty()) {
                    Ok((0, _)) | Err(_) if self.shared.is_stopping() => return Err(Ended::Stopped),
                    Ok((bytes @ 1.., _)) => buffer.fill(bytes),
                    Err(SystemError::INTR) => {}
                    Ok((0, _)) | Err(_) => {
                        self.presence.end();
                        return Err(Ended::Closed);
                    }
                }
            }
            missing = input.requests.missing(geometry, buffer.bytes());
        }
        input.unparsed = buffer.freeze();
        if self.shared.is_stopping() { Err(Ended::Stopped) } else { Ok(()) }
    }

    /// Waits until fewer requests are under way, or the client has hung up. Its end is behind the requests that it has
    /// sent, and these are not read now.
    fn wait_for_room(&self) -> Result<(), Ended> {
        let is_full = |load: &mut Load| load.is_full();
        let mut load = lock(&self.load);
        while load.is_full() {
            if self.presence.look() {
                return Err(if self.shared.is_stopping() { Ended::Stopped } else { Ended::Closed });
            }
            let waited = self.unloaded.wait_timeout_while(load, LOOK_EVERY, is_full);
            load = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Lets replies leave.
    fn leave(&self, full: Full) {
        match self.outbox.send(self.presence.as_fd(), full, |load| self.release(load)) {
            Sent::Yes => {}
            Sent::Broken => self.presence.hang_up(),
            Sent::NeedsAttendant => {
                let started = self.me.upgrade().map(|me| {
                    thread::Builder::new().name("nbd-full".to_owned()).spawn(move || {
                        if me.outbox.attend(me.presence.as_fd(), |load| me.release(load)) == Sent::Broken {
                            me.presence.hang_up();
                        }
                    })
                });
                if !matches!(started, Some(Ok(_))) {
                    self.presence.hang_up();
                    self.outbox.break_off(self.presence.as_fd(), |load| self.release(load));
                }
            }
        }
    }

    /// Replies to so many requests have left.
    fn release(&self, left: Load) {
        let mut load = lock(&self.load);
        let was_full = load.is_full();
        load.requests = load.requests.saturating_sub(left.requests);
        load.bytes = load.bytes.saturating_sub(left.bytes);
        if was_full || load.requests == 0 {
            self.unloaded.notify_all();
        }
    }

    /// Ends the connection once every request that was read has its reply.
    fn finish(&self, why: Ended, replies: &Arc<dyn Replies>) {
        self.leave(Full::Wait);
        self.await_answers(replies);
        self.shared.counters.ended(why);
        self.presence.hang_up();
        self.dismiss();
    }

    /// Waits for the answers to all requests that were read. When the client has hung up, the device gives them up.
    fn await_answers(&self, replies: &Arc<dyn Replies>) {
        let is_loaded = |load: &mut Load| load.requests > 0;
        let mut is_given_up = false;
        let mut load = lock(&self.load);
        while load.requests > 0 {
            if !is_given_up && self.presence.look() {
                drop(load);
                // A request that is about to take effect may wait for its answer afterwards.
                is_given_up = self.presence.settle(Instant::now() + LOOK_EVERY);
                self.device.hung_up(replies);
                load = lock(&self.load);
            } else {
                let waited = self.unloaded.wait_timeout_while(load, LOOK_EVERY, is_loaded);
                load = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// Sends the crew home. The connection does not count any more, though one of its threads may be in the device yet,
    /// at work for others.
    fn dismiss(&self) {
        lock(&self.seat).is_ended = true;
        self.seat_changed.notify_all();
        self.outbox.end();
        self.shared.forget(self.number);
    }

    /// Ends the connection without the replies that cannot come any more.
    fn abandon(&self) {
        *lock(&self.load) = Load::default();
        self.unloaded.notify_all();
    }
}

impl Replies for Connection {
    fn done(&self, ticket: Ticket, outcome: Result<Answer, Errno>) {
        let failed = outcome.as_ref().err().copied();
        let why = failed.map(|errno| errno.to_string()).unwrap_or_default();
        let mut succeeded = true;
        let leaves = self.outbox.add(ticket.load(), |to| succeeded = replies::put(to, &ticket, outcome, &why));
        if !succeeded {
            let counters = &self.shared.counters;
            let count = if self.is_gone() { &counters.given_up } else { &counters.failed };
            count.fetch_add(1, Relaxed);
        }
        if leaves {
            self.leave(Full::Later);
        }
    }

    fn send(&self) {
        self.leave(Full::Leave);
    }

    fn stalls(&self) {
        let mut seat = lock(&self.seat);
        if seat.reader == Some(thread::current().id()) {
            if seat.idle > 0 {
                seat.reader = None;
                self.seat_changed.notify_one();
            } else if seat.crew < CREW_MAX && !seat.is_ended {
                self.enlarge(&mut seat);
            }
        }
        drop(seat);
        self.leave(Full::Leave);
    }

    fn is_gone(&self) -> bool {
        self.presence.is_gone()
    }

    fn has_hung_up(&self) -> bool {
        self.presence.look()
    }

    fn begin_change(&self) -> bool {
        self.presence.begin_change()
    }

    fn end_change(&self) {
        self.presence.end_change();
    }
}

impl Connection {
    /// Returns the seat to a new thread. If the system has none, this thread keeps it, and the requests that follow
    /// wait.
    fn enlarge(&self, seat: &mut Seat) {
        let Some(me) = self.me.upgrade() else { return };
        if thread::Builder::new().name("nbd".to_owned()).spawn(move || me.run()).is_ok() {
            seat.crew += 1;
            seat.reader = None;
        }
    }
}

/// Ends the connection of a thread that panics: a bug in a device, and it is unknown what it has left half done.
struct EndOnPanic<'a>(&'a Connection);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.shared.counters.ended(Ended::Panicked);
            self.0.presence.hang_up();
            // Another thread may be making a change for this client, and a newer one no longer finds it.
            self.0.presence.settle(Instant::now() + HANDSHAKE_WITHIN);
            self.0.abandon();
            self.0.dismiss();
        }
    }
}

impl Load {
    fn is_full(&self) -> bool {
        self.requests >= OUTSTANDING_MAX || self.bytes >= OUTSTANDING_BYTES_MAX
    }

    fn add(&mut self, ticket: &Ticket) {
        self.requests += 1;
        self.bytes += ticket.load();
    }
}

impl Ticket {
    /// The bytes of payload that the request keeps in memory.
    fn load(&self) -> usize {
        match self.form {
            Form::Extents | Form::OneExtent => 0,
            _ => self.len as usize,
        }
    }
}
