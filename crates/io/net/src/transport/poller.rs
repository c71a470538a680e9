//! Waiting for sockets, and everything that can wake a thread which does.
//!
//! Events are edges: a socket is notified of once for what has arrived, whichever thread learns of it.

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Events that a thread takes at a time. Sockets that are ready beyond them are for the other threads.
const EVENTS_MAX: usize = 64;

/// The number of the event that stops the threads; sockets are numbered from 1.
const STOP: u64 = 0;

/// The number of a socket that a poller watches. No other of its sockets has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SocketId(u64);

/// All that can wake a thread which waits for sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wakeup {
    /// Something has happened to this socket.
    Socket(SocketId, Readiness),
    /// Another thread has something for the one that waits.
    Signal,
    /// The threads should end.
    Stop,
}

/// The edges that a socket has had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    /// Bytes have arrived.
    pub(crate) readable: bool,
    /// The last of them have, or the connection has broken.
    pub(crate) ended: bool,
    /// There is room to write again.
    pub(crate) writable: bool,
}

/// The edges of a socket that should be told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interest {
    /// Bytes that arrive.
    pub(crate) reading: bool,
    /// Room to write.
    pub(crate) writing: bool,
}

/// Waits for sockets, on behalf of any number of threads.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    stop: OwnedFd,
    stopped: AtomicBool,
    last_id: AtomicU64,
}

/// The events that one thread takes at a time.
pub(crate) struct Events(Vec<Event>);

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &stop, EventData::new_u64(STOP), EventFlags::IN)?;
        Ok(Self { epoll, stop, stopped: AtomicBool::new(false), last_id: AtomicU64::new(STOP) })
    }

    /// A number for one more socket.
    pub(crate) fn next_id(&self) -> SocketId {
        SocketId(self.last_id.fetch_add(1, SeqCst) + 1)
    }

    /// Reports a socket from now on.
    pub(crate) fn add(&self, id: SocketId, socket: impl AsFd, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(id.0), interest.flags())?)
    }

    /// Changes what is notified of a socket. A state that it has already is told again.
    pub(crate) fn change(&self, id: SocketId, socket: impl AsFd, interest: Interest) {
        // Nothing is notified of a socket that is not watched, or not any more.
        let _ = epoll::modify(&self.epoll, socket, EventData::new_u64(id.0), interest.flags());
    }

    /// Reports a socket no more.
    pub(crate) fn remove(&self, socket: impl AsFd) {
        // It was never watched if watching it failed.
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Waits for events, for ever or so long. Returns whether there are any.
    pub(crate) fn wait(&self, events: &mut Events, within: Option<Duration>) -> bool {
        let timeout = within.map(|within| Timespec { tv_sec: 0, tv_nsec: within.subsec_nanos().into() });
        events.0.clear();
        // An interrupted wait has no events.
        epoll::wait(&self.epoll, spare_capacity(&mut events.0), timeout.as_ref()).is_ok_and(|count| count > 0)
    }

    /// Wakes every thread that waits, now or later.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, SeqCst);
        // The event stays, so that every thread sees it. The write cannot fail: nothing else is ever written there.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(SeqCst)
    }
}

impl Events {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(EVENTS_MAX))
    }

    pub(crate) fn wakeups(&self) -> impl Iterator<Item = Wakeup> + '_ {
        self.0.iter().map(|event| match event.data.u64() {
            STOP => Wakeup::Stop,
            id => Wakeup::Socket(SocketId(id), Readiness::of(event.flags)),
        })
    }
}

impl Readiness {
    fn of(flags: EventFlags) -> Self {
        Self {
            readable: flags.contains(EventFlags::IN),
            ended: flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR),
            writable: flags.contains(EventFlags::OUT),
        }
    }
}

impl Interest {
    fn flags(self) -> EventFlags {
        let reading = if self.reading { EventFlags::IN | EventFlags::RDHUP } else { EventFlags::empty() };
        let writing = if self.writing { EventFlags::OUT } else { EventFlags::empty() };
        EventFlags::ET | reading | writing
    }
}
