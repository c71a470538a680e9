//! The threads that wait for sockets and act on what they say.
//!
//! ```text
//!   sockets --ready--> [ reader ] receives, gives it to the node, writes what comes of it, leads the flush it asks for
//!      |  (edges)          | away: waits for the disk
//!      +------ready--> [ relief ] does the same, when that takes long
//! ```
//! 1. Any thread may take any event; who takes one does all that follows from it. So nothing is handed over.
//! 2. A reader that waits for a fast disk is back sooner than another thread could have taken its place, and finds
//!    together what has arrived meanwhile: fewer locks, flushes and switches between threads for the same work. Only
//!    when it stays away for long does the relief step in. It looks for that once in a while, as long as flushes go on;
//!    to have it told of each would cost a system call or two.
//! 3. Events are edges: a connection is told of once for what has arrived, whoever reads it. [`Connection`] sees to it
//!    that one thread reads at a time, and that nothing that comes meanwhile is forgotten.
//! 4. A reader that has nothing to do sleeps; where that is wanted it looks for more for a while before, one of them at a
//!    time.

use crate::connection::Connection;
use crate::contain::{PANICKED, reason};
use crate::host::Host;
use crate::look::Look;
use crate::turn::Turn;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use std::fmt;
use std::io;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, Thread};
use std::time::Duration;
use types::Map;

/// Events that a thread takes at a time. What is ready beyond them is for the other threads.
const EVENTS_MAX: usize = 64;

/// The event that tells the threads to stop; connections are numbered from 1.
const STOP: u64 = 0;

/// How often the relief looks whether a reader has been away since it looked last: sockets are left alone for at most
/// twice as long.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The threads that wait for sockets and act on what they say.
pub(crate) struct Reactor {
    epoll: OwnedFd,
    /// If readers look for more before they sleep: whoever holds this does, the others sleep.
    look: Option<Mutex<Look>>,
    /// Readers that are away.
    away: AtomicU32,
    /// How often one has come back.
    returns: AtomicU64,
    /// Whether the relief looks after them; it sleeps otherwise.
    watched: AtomicBool,
    relief: OnceLock<Thread>,
    stop: OwnedFd,
    stopped: AtomicBool,
    last_id: AtomicU64,
    connections: Mutex<Map<u64, Arc<Connection>>>,
    /// Whose sockets these are.
    hosts: Mutex<Hosts>,
}

/// The hosts that the threads work for, and why they do so no more if one of them has panicked.
#[derive(Debug, Default)]
struct Hosts {
    all: Vec<Weak<Host>>,
    broken: Option<String>,
}

impl Reactor {
    /// Starts so many readers, and their relief; with `look` the readers look for more before they sleep. They run until
    /// [`Reactor::stop`].
    pub(crate) fn start(readers: usize, look: Option<Look>) -> io::Result<Arc<Self>> {
        let reactor = Arc::new(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            look: look.map(Mutex::new),
            away: AtomicU32::new(0),
            returns: AtomicU64::new(0),
            watched: AtomicBool::new(false),
            relief: OnceLock::new(),
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            stopped: AtomicBool::new(false),
            last_id: AtomicU64::new(STOP),
            connections: Mutex::default(),
            hosts: Mutex::default(),
        });
        epoll::add(&reactor.epoll, &reactor.stop, EventData::new_u64(STOP), EventFlags::IN)?;
        let relief = reactor.spawn(Self::relieve)?;
        reactor.relief.set(relief).expect("set once");
        (0..readers).try_for_each(|_| reactor.spawn(Self::read).map(drop)).inspect_err(|_| reactor.stop())?;
        Ok(reactor)
    }

    pub(crate) fn spawn(self: &Arc<Self>, run: fn(&Self)) -> io::Result<Thread> {
        let this = Arc::clone(self);
        let contained = move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(&this))) {
                this.fail(&reason(&*panic));
            }
        };
        let thread = thread::Builder::new().name("thorp-net".into()).spawn(contained)?;
        Ok(thread.thread().clone())
    }

    /// The threads work for this host, too.
    pub(crate) fn serve(&self, host: &Arc<Host>) {
        let broken = {
            let mut hosts = self.hosts();
            hosts.all.retain(|host| host.strong_count() > 0);
            hosts.all.push(Arc::downgrade(host));
            hosts.broken.clone()
        };
        if let Some(why) = broken {
            host.fail(PANICKED, &why);
        }
    }

    /// What these threads share is not to be trusted any more: all hosts end. A panic in the work for one of them does
    /// not come here.
    fn fail(&self, why: &str) {
        let hosts = {
            let mut hosts = self.hosts();
            hosts.broken = Some(why.to_owned());
            mem::take(&mut hosts.all)
        };
        hosts.iter().filter_map(Weak::upgrade).for_each(|host| host.fail(PANICKED, why));
        self.stop();
    }

    fn hosts(&self) -> MutexGuard<'_, Hosts> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the threads, as soon as they have done what they are at, and lets go of all connections.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, SeqCst);
        // The event stays, so that every thread sees it. It cannot fail: nothing else was ever written there.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        self.wake_relief();
        let connections = mem::take(&mut *self.connections());
        drop(connections);
    }

    /// A number that no other connection has.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, SeqCst) + 1
    }

    /// Tells `connection`, whose socket has this number, what happens to it, from now on until [`Reactor::forget`].
    pub(crate) fn watch(&self, id: u64, connection: &Arc<Connection>) -> io::Result<()> {
        self.connections().insert(id, Arc::clone(connection));
        let socket = connection.socket();
        // A sender may find the socket full before it is watched, and ask for room: the question is either in what the
        // reactor is given here, or changes that.
        let added = socket.watched(|interest| epoll::add(&self.epoll, socket, EventData::new_u64(id), interest));
        Ok(added?)
    }

    /// The end of [`Reactor::watch`].
    pub(crate) fn forget(&self, id: u64, connection: &Connection) {
        // It was never watched if watching it failed.
        let _ = epoll::delete(&self.epoll, connection.socket());
        let forgotten = self.connections().remove(&id);
        drop(forgotten);
    }

    /// Changes what is told of a socket. What is the case already is told anew.
    pub(crate) fn change(&self, id: u64, socket: impl AsFd, interest: EventFlags) {
        // A socket that is not watched, or not any more, is told nothing of.
        let _ = epoll::modify(&self.epoll, socket, EventData::new_u64(id), interest);
    }

    /// The caller, a reader, waits for something else until this is dropped.
    pub(crate) fn go_away(&self) -> Away<'_> {
        self.away.fetch_add(1, SeqCst);
        if !self.watched.swap(true, SeqCst) {
            self.wake_relief();
        }
        Away(self)
    }

    fn wake_relief(&self) {
        if let Some(relief) = self.relief.get() {
            relief.unpark();
        }
    }

    fn read(&self) {
        let (mut events, mut turn) = (Vec::with_capacity(EVENTS_MAX), Turn::new());
        while !self.stopped.load(SeqCst) {
            if !self.look(&mut events, &mut turn) && self.wait(&mut events, None) {
                if let Some(mut look) = self.free_look() {
                    look.woken();
                }
                turn.take(&self.told(&events));
            }
        }
    }

    /// What it is looked with, if that is wanted and no other reader does.
    fn free_look(&self) -> Option<MutexGuard<'_, Look>> {
        self.look.as_ref()?.try_lock().ok()
    }

    /// Looks for events for a while, if that is wanted and no other reader does, and does what comes of them. Says
    /// whether there were any.
    fn look(&self, events: &mut Vec<Event>, turn: &mut Turn) -> bool {
        let found = self.free_look().is_some_and(|mut look| look.find(|| self.wait(events, Some(Duration::ZERO))));
        if found {
            turn.take(&self.told(events));
        }
        found
    }

    fn relieve(&self) {
        let (mut events, mut turn, mut seen) = (Vec::with_capacity(EVENTS_MAX), Turn::new(), 0);
        while !self.stopped.load(SeqCst) {
            thread::park_timeout(LOOK_EVERY);
            let last_seen = mem::replace(&mut seen, self.returns.load(SeqCst));
            while self.is_anyone_away() && self.returns.load(SeqCst) == last_seen {
                self.take(&mut events, LOOK_EVERY, &mut turn);
            }
            if seen == last_seen {
                self.sleep_until_watched();
            }
        }
    }

    /// Lets the relief sleep while nobody goes away.
    fn sleep_until_watched(&self) {
        self.watched.store(false, SeqCst);
        // Who has gone away before that has not woken it.
        while !self.is_anyone_away() && !self.watched.load(SeqCst) && !self.stopped.load(SeqCst) {
            thread::park();
        }
        self.watched.store(true, SeqCst);
    }

    fn is_anyone_away(&self) -> bool {
        self.away.load(SeqCst) > 0
    }

    /// Waits for events so long, and does what comes of them.
    fn take(&self, events: &mut Vec<Event>, within: Duration, turn: &mut Turn) {
        if self.wait(events, Some(within)) {
            turn.take(&self.told(events));
        }
    }

    /// Waits for events, for ever or so long. Says whether there are any.
    fn wait(&self, events: &mut Vec<Event>, within: Option<Duration>) -> bool {
        let timeout = within.map(|within| Timespec { tv_sec: 0, tv_nsec: within.subsec_nanos().into() });
        events.clear();
        // An interrupted wait has no events.
        epoll::wait(&self.epoll, spare_capacity(events), timeout.as_ref()).is_ok_and(|count| count > 0)
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

/// A reader is away.
#[derive(Debug)]
pub(crate) struct Away<'a>(&'a Reactor);

impl Drop for Away<'_> {
    fn drop(&mut self) {
        self.0.returns.fetch_add(1, SeqCst);
        self.0.away.fetch_sub(1, SeqCst);
    }
}
