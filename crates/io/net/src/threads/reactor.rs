//! The threads that wait for sockets and act on what they say.
//!
//! ```text
//!   sockets --ready--> [ reader ] receives, gives it to the machine, writes what comes of it, leads the flush it asks for
//!      |  (edges)          | away: waits for the disk
//!      +------ready--> [ backup reader ] does the same, when that takes long
//! ```
//! 1. Any thread may take any event; the thread that takes one does everything that follows from it. So nothing is
//!    handed over.
//! 2. A reader that waits for a fast disk is back sooner than another thread could have taken its place, and finds
//!    together what has arrived in the meantime: fewer locks, flushes and switches between threads for the same work.
//!    Only when it stays away for long does the backup reader step in. It looks for that once in a while, as long as
//!    flushes continue; to have it told of each would cost a system call or two.
//! 3. Events are edges: a link is notified of once for what has arrived, whichever thread reads it. Its receiver sees
//!    to it that one thread reads at a time, and that nothing that comes in the meantime is forgotten.
//! 4. A reader that has nothing to do sleeps; where that is wanted it spins for a while before, one of them at a time.

use crate::host::core::Core;
use crate::host::failure::{PANICKED, reason};
use crate::host::link::Link;
use crate::lock::{Guard, Lock, Rank};
use crate::threads::adaptive_spin::AdaptiveSpin;
use crate::threads::read_batch::ReadBatch;
use crate::transport::poller::{Events, Poller, Readiness, SocketId, Wakeup};
use std::fmt;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;
use types::Map;

/// How often the backup reader looks whether a reader has been away since it looked last: sockets are left alone for at
/// most twice as long.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The threads that wait for sockets and act on what they say.
pub(crate) struct Reactor {
    poller: Arc<Poller>,
    /// If readers spin before they sleep: the one that holds this does, the others sleep.
    spin: Option<Lock<AdaptiveSpin>>,
    /// Readers that are away.
    away: AtomicU32,
    /// How often one has come back.
    returns: AtomicU64,
    /// Whether the backup reader looks after them; it sleeps otherwise.
    watched: AtomicBool,
    backup: OnceLock<Thread>,
    links: Lock<Map<SocketId, Arc<Link>>>,
    /// The hosts whose sockets these are.
    hosts: Lock<Hosts>,
}

/// The hosts that the threads work for, and why they do so no more if one of the threads has panicked.
#[derive(Debug, Default)]
struct Hosts {
    all: Vec<Weak<Core>>,
    broken: Option<String>,
}

/// The means of a thread to wait and to receive.
struct Reader {
    events: Events,
    batch: ReadBatch,
}

impl Reactor {
    /// Starts so many readers, and the backup reader; with `spin` the readers spin before they sleep. They run until
    /// [`Reactor::stop`].
    pub(crate) fn start(readers: usize, spin: Option<AdaptiveSpin>) -> io::Result<Arc<Self>> {
        let reactor = Arc::new(Self {
            poller: Arc::new(Poller::new()?),
            spin: spin.map(|spin| Lock::new(Rank::Spin, spin)),
            away: AtomicU32::new(0),
            returns: AtomicU64::new(0),
            watched: AtomicBool::new(false),
            backup: OnceLock::new(),
            links: Lock::new(Rank::Watched, Map::default()),
            hosts: Lock::new(Rank::Hosts, Hosts::default()),
        });
        let backup = reactor.spawn(Self::stand_in)?;
        reactor.backup.set(backup).expect("set once");
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

    /// The poller of its sockets.
    pub(crate) fn poller(&self) -> &Arc<Poller> {
        &self.poller
    }

    /// The threads work for this host, too.
    pub(crate) fn serve(&self, host: &Arc<Core>) {
        let broken = {
            let mut hosts = self.hosts.lock();
            hosts.all.retain(|host| host.strong_count() > 0);
            hosts.all.push(Arc::downgrade(host));
            hosts.broken.clone()
        };
        if let Some(why) = broken {
            host.fail(PANICKED, &why);
        }
    }

    /// The state that these threads share is no longer to be trusted: all hosts end. A panic in the work for one of
    /// them does not come here.
    fn fail(&self, why: &str) {
        let hosts = {
            let mut hosts = self.hosts.lock();
            hosts.broken = Some(why.to_owned());
            mem::take(&mut hosts.all)
        };
        hosts.iter().filter_map(Weak::upgrade).for_each(|host| host.fail(PANICKED, why));
        self.stop();
    }

    /// Ends the threads, as soon as they have done what they are at, and lets go of all links.
    pub(crate) fn stop(&self) {
        self.poller.stop();
        self.wake_backup();
        let links = mem::take(&mut *self.links.lock());
        drop(links);
    }

    /// Receives from this link from now on until [`Reactor::forget`].
    pub(crate) fn watch(&self, link: &Arc<Link>) -> io::Result<()> {
        let id = link.connection().id().expect("its socket was made for this reactor's poller");
        self.links.lock().insert(id, Arc::clone(link));
        link.connection().socket().watch()
    }

    /// The end of [`Reactor::watch`].
    pub(crate) fn forget(&self, link: &Link) {
        link.connection().socket().forget();
        let forgotten = link.connection().id().and_then(|id| self.links.lock().remove(&id));
        drop(forgotten);
    }

    /// The caller, a reader, waits for a disk until this is dropped.
    fn go_away(&self) -> Away<'_> {
        self.away.fetch_add(1, SeqCst);
        if !self.watched.swap(true, SeqCst) {
            self.wake_backup();
        }
        Away(self)
    }

    fn wake_backup(&self) {
        if let Some(backup) = self.backup.get() {
            backup.unpark();
        }
    }

    fn read(&self) {
        let mut reader = Reader::new();
        while !self.poller.is_stopped() {
            if !self.spin(&mut reader) && self.poller.wait(&mut reader.events, None) {
                if let Some(mut spin) = self.free_spin() {
                    spin.woken();
                }
                self.take(&mut reader, || self.go_away());
            }
        }
    }

    /// The spin, if that is wanted and no other reader does.
    fn free_spin(&self) -> Option<Guard<'_, AdaptiveSpin>> {
        self.spin.as_ref()?.try_lock()
    }

    /// Spins for a while, if that is wanted and no other reader does, and does what comes of it. Returns whether there
    /// were any events.
    fn spin(&self, reader: &mut Reader) -> bool {
        let look = || self.poller.wait(&mut reader.events, Some(Duration::ZERO));
        let found = self.free_spin().is_some_and(|mut spin| spin.find(look));
        if found {
            self.take(reader, || self.go_away());
        }
        found
    }

    /// Another thread takes part for as long as it spins, or until it is woken, and handles the first events that it
    /// finds. Returns whether it has found any, or was woken.
    pub(crate) fn help(&self, batch: &mut ReadBatch, spin: &mut AdaptiveSpin, woken: &dyn Fn() -> bool) -> bool {
        let (mut events, mut has_events) = (Events::new(), false);
        let found = spin.find(|| {
            has_events = self.poller.wait(&mut events, Some(Duration::ZERO));
            has_events || woken()
        });
        if has_events {
            batch.take(&self.told(&events), || self.go_away());
        }
        found
    }

    fn stand_in(&self) {
        let (mut reader, mut seen) = (Reader::new(), 0);
        while !self.poller.is_stopped() {
            thread::park_timeout(LOOK_EVERY);
            let last_seen = mem::replace(&mut seen, self.returns.load(SeqCst));
            while self.is_anyone_away() && self.returns.load(SeqCst) == last_seen {
                if self.poller.wait(&mut reader.events, Some(LOOK_EVERY)) {
                    // Nobody would take its own place; and that it is back does not mean that a reader is.
                    self.take(&mut reader, || ());
                }
            }
            if seen == last_seen {
                self.sleep_until_watched();
            }
        }
    }

    /// Lets the backup reader sleep while nobody goes away.
    fn sleep_until_watched(&self) {
        self.watched.store(false, SeqCst);
        // A reader that has gone away before that has not woken it.
        while !self.is_anyone_away() && !self.watched.load(SeqCst) && !self.poller.is_stopped() {
            thread::park();
        }
        self.watched.store(true, SeqCst);
    }

    fn is_anyone_away(&self) -> bool {
        self.away.load(SeqCst) > 0
    }

    /// Does what comes of a thread's events; `away` as in [`ReadBatch::take`].
    fn take<T>(&self, reader: &mut Reader, away: impl Fn() -> T) {
        reader.batch.take(&self.told(&reader.events), away);
    }

    /// Tells the links of their events; gives those from which something can be received.
    fn told(&self, events: &Events) -> Vec<Arc<Link>> {
        let ready: Vec<(Arc<Link>, Readiness)> = {
            let links = self.links.lock();
            let find = |wakeup| match wakeup {
                Wakeup::Socket(id, readiness) => Some((Arc::clone(links.get(&id)?), readiness)),
                // The thread sees that it should end when it has done the rest.
                Wakeup::Stop | Wakeup::Signal => None,
            };
            events.wakeups().filter_map(find).collect()
        };
        let receiving = ready.into_iter().filter(|(link, readiness)| link.told(*readiness));
        receiving.map(|(link, _)| link).collect()
    }
}

impl Reader {
    fn new() -> Self {
        Self { events: Events::new(), batch: ReadBatch::new() }
    }
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor").field("links", &self.links.lock().len()).finish_non_exhaustive()
    }
}

/// A reader is away.
#[derive(Debug)]
struct Away<'a>(&'a Reactor);

impl Drop for Away<'_> {
    fn drop(&mut self) {
        self.0.returns.fetch_add(1, SeqCst);
        self.0.away.fetch_sub(1, SeqCst);
    }
}
