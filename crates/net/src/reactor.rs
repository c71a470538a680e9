//! The threads that wait for sockets and act on what they say.
//!
//! ```text
//!   epoll --ready--> [ thread ] reads, gives it to the node, writes what comes of it, leads the flush that it asks for
//!     |  (edges)     [ thread ] meanwhile does the same for the others
//! ```
//! 1. Any thread may take any event; who takes one does all that follows from it. So nothing is handed over, and a
//!    thread that waits for the disk leaves the sockets to the rest.
//! 2. Events are edges: a connection is told of once for what has arrived, whoever reads it. [`Connection`] sees to it
//!    that one thread reads at a time, and that nothing that comes meanwhile is forgotten.
//! 3. The kernel wakes one thread for an event, the one that went to sleep last: a lone client is served by one thread,
//!    whose caches are warm.

use crate::connection::Connection;
use crate::turn::Turn;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use types::Map;

/// Events that a thread takes at a time. What is ready beyond them is for the other threads.
const EVENTS_MAX: usize = 64;

/// The event that tells the threads to stop; connections are numbered from 1.
const STOP: u64 = 0;

/// The threads that wait for sockets and act on what they say.
pub(crate) struct Reactor {
    epoll: OwnedFd,
    stop: OwnedFd,
    stopped: AtomicBool,
    last_id: AtomicU64,
    connections: Mutex<Map<u64, Arc<Connection>>>,
}

impl Reactor {
    /// Starts so many threads. They run until [`Reactor::stop`].
    pub(crate) fn start(threads: usize) -> io::Result<Arc<Self>> {
        let reactor = Arc::new(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            stopped: AtomicBool::new(false),
            last_id: AtomicU64::new(STOP),
            connections: Mutex::default(),
        });
        epoll::add(&reactor.epoll, &reactor.stop, EventData::new_u64(STOP), EventFlags::IN)?;
        for _ in 0..threads {
            let this = Arc::clone(&reactor);
            thread::Builder::new()
                .name("thorp-net".into())
                .spawn(move || this.run())
                .inspect_err(|_| reactor.stop())?;
        }
        Ok(reactor)
    }

    /// Ends the threads, as soon as they have done what they are at, and lets go of all connections.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, SeqCst);
        // The event stays, so that every thread sees it. It cannot fail: nothing else was ever written there.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        let connections = std::mem::take(&mut *self.connections());
        drop(connections);
    }

    /// A number that no other connection has.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, SeqCst) + 1
    }

    /// Tells `connection` what happens to its socket, from now on until [`Reactor::forget`].
    pub(crate) fn watch(&self, connection: &Arc<Connection>) -> io::Result<()> {
        self.connections().insert(connection.id(), Arc::clone(connection));
        let socket = connection.socket();
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(socket.id()), socket.interest())?)
    }

    /// The end of [`Reactor::watch`].
    pub(crate) fn forget(&self, connection: &Connection) {
        // It was never watched if watching it failed.
        let _ = epoll::delete(&self.epoll, connection.socket());
        let forgotten = self.connections().remove(&connection.id());
        drop(forgotten);
    }

    /// Changes what is told of a socket. What is the case already is told anew.
    pub(crate) fn change(&self, id: u64, socket: impl AsFd, interest: EventFlags) {
        // A socket that is not watched, or not any more, is told nothing of.
        let _ = epoll::modify(&self.epoll, socket, EventData::new_u64(id), interest);
    }

    fn run(&self) {
        let (mut events, mut turn) = (Vec::with_capacity(EVENTS_MAX), Turn::new());
        while !self.stopped.load(SeqCst) {
            events.clear();
            // An interrupted wait has no events.
            if epoll::wait(&self.epoll, spare_capacity(&mut events), None).is_ok() {
                turn.take(&self.told(&events));
            }
        }
    }

    /// Tells the connections of their events; gives those from which something can be received.
    fn told(&self, events: &[Event]) -> Vec<Arc<Connection>> {
        let ready: Vec<(Arc<Connection>, EventFlags)> = {
            let connections = self.connections();
            let find = |event: &Event| Some((Arc::clone(connections.get(&event.data.u64())?), event.flags));
            events.iter().filter_map(find).collect()
        };
        let receiving = ready.into_iter().filter(|(connection, flags)| connection.told(*flags));
        receiving.map(|(connection, _)| connection).collect()
    }

    fn connections(&self) -> MutexGuard<'_, Map<u64, Arc<Connection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor").field("connections", &self.connections().len()).finish_non_exhaustive()
    }
}
