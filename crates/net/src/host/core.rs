//! The state of a host, and the rules that its parts keep.
//!
//! 1. The thread that gives the node an event sorts all its outputs while still holding its lock: a message is in its
//!    connection's queue, disk work in the disk's, before the next event can add to them. So nothing overtakes.
//! 2. Nothing is carried out under that lock. All that takes time, a write to a socket, a flush, a waker, comes after it.
//! 3. Locks are taken in the order of [`Rank`].
//! 4. Tasks and links hold the host weakly: it ends with the last of the application's handles, and they with it.
//! 5. A panic on any of these ways ends the host (`failure.rs`).

use crate::host::clock::Clock;
use crate::host::last_words::LastWords;
use crate::host::timers::Timer;
use crate::host::wakers::Wakers;
use crate::lock::{Guard, Lock, Rank};
use crate::transport::connection::Connection;
use crate::transport::counters::Counters;
use node::{Disk, Node};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use tokio::runtime::Handle;
use tokio::sync::watch;
use types::{ClientId, Map, Time};

/// How a host has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEnd {
    /// The store was closed: all that was committed is home. Or the redirector was.
    Closed,
    /// The store's disk has failed, or a part of the host has panicked, with a line that says how. What was acknowledged
    /// is in the log.
    Failed(String),
}

/// Connects to a neighbour, whom the node has something for, at this address; the node hears what comes of it.
pub(crate) type Dial = Box<dyn Fn(ClientId, String) + Send + Sync>;

/// A caller that reads from the uplink by itself while it waits.
pub(crate) trait Caller: fmt::Debug + Send + Sync {
    /// Reads until `woken` says that the calling thread is waited for elsewhere. At once if another thread reads.
    fn read(&self, core: &Core, woken: &dyn Fn() -> bool);

    /// Something was woken, or has ended, that the reading thread may be waiting for.
    fn wake(&self);
}

/// A node, its connections, its disk.
pub(crate) struct Core {
    pub(super) node: Arc<Mutex<Node>>,
    pub(super) disk: Option<Arc<dyn Disk>>,
    pub(super) dial: Dial,
    pub(super) wakers: Wakers,
    pub(super) last_words: LastWords,
    pub(super) timer: Arc<Timer>,
    pub(super) clock: Clock,
    /// Where the host's tasks run.
    pub(super) tasks: Handle,
    /// A flush was handed over, and has not begun.
    pub(super) handed_over: AtomicBool,
    /// The position that the node knows to be durable.
    pub(super) durable: AtomicU64,
    links: Lock<Map<node::Link, Arc<Connection>>>,
    caller: Lock<Option<Arc<dyn Caller>>>,
    counters: Arc<Counters>,
    end: watch::Sender<Option<HostEnd>>,
    /// Why the host is about to end, before it has: nothing more is given to the disk.
    failure: OnceLock<String>,
    /// The host itself, for those of its methods that start tasks.
    this: Weak<Self>,
}

impl Core {
    pub(super) fn new(node: Node, disk: Option<Arc<dyn Disk>>, clock: Clock, tasks: Handle, dial: Dial) -> Arc<Self> {
        Arc::new_cyclic(|this: &Weak<Self>| Self {
            node: Arc::new(Mutex::new(node)),
            disk,
            dial,
            wakers: Wakers::new(),
            last_words: LastWords::new(),
            timer: Arc::new(Timer::new()),
            clock,
            tasks,
            handed_over: AtomicBool::new(false),
            durable: AtomicU64::new(0),
            links: Lock::new(Rank::Links, Map::default()),
            caller: Lock::new(Rank::Caller, None),
            counters: Arc::default(),
            end: watch::Sender::new(None),
            failure: OnceLock::new(),
            this: this.clone(),
        })
    }

    pub(crate) fn node(&self) -> &Arc<Mutex<Node>> {
        &self.node
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    pub(crate) fn wakers(&self) -> &Wakers {
        &self.wakers
    }

    pub(crate) fn last_words(&self) -> &LastWords {
        &self.last_words
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// For a task, which must not keep the host alive.
    pub(crate) fn weak(&self) -> Weak<Self> {
        self.this.clone()
    }

    /// From now on the node's messages for this link go there.
    pub(crate) fn add_link(&self, id: node::Link, connection: &Arc<Connection>) {
        let is_peer = matches!(id, node::Link::ToPeer(_) | node::Link::FromPeer(_));
        let count = if is_peer { &self.counters.peers } else { &self.counters.sessions };
        count.fetch_add(1, Relaxed);
        self.links().insert(id, Arc::clone(connection));
    }

    /// The node has nothing more to say on this link.
    pub(crate) fn remove_link(&self, id: node::Link) -> Option<Arc<Connection>> {
        self.links().remove(&id)
    }

    pub(super) fn find_link(&self, id: node::Link) -> Option<Arc<Connection>> {
        self.links().get(&id).cloned()
    }

    /// The connections, which the node has no more.
    pub(super) fn take_links(&self) -> Vec<Arc<Connection>> {
        self.links().drain().map(|(_, connection)| connection).collect()
    }

    fn links(&self) -> Guard<'_, Map<node::Link, Arc<Connection>>> {
        self.links.lock()
    }

    /// From now on callers read like this from the uplink, or leave it to others.
    pub(crate) fn set_caller(&self, caller: Option<Arc<dyn Caller>>) {
        let old = std::mem::replace(&mut *self.caller.lock(), caller);
        if let Some(old) = old {
            old.wake();
        }
    }

    /// Reads on the caller's thread until `woken`, if there is a connection that no other caller reads.
    pub(crate) fn read_as_caller(&self, woken: &dyn Fn() -> bool) {
        let caller = self.caller.lock().clone();
        if let Some(caller) = caller {
            caller.read(self, woken);
        }
    }

    /// A caller that waits for the uplink's socket may have to look up.
    pub(crate) fn wake_caller(&self) {
        if let Some(caller) = &*self.caller.lock() {
            caller.wake();
        }
    }

    /// How the host has ended, if it has.
    pub(crate) fn end(&self) -> Option<HostEnd> {
        self.end.borrow().clone()
    }

    /// Tells a task when to stop: with the host's end, or when the host is no more.
    pub(crate) fn watch_end(&self) -> watch::Receiver<Option<HostEnd>> {
        self.end.subscribe()
    }

    /// The host has ended like this, unless it has before.
    pub(super) fn finish(&self, end: HostEnd) {
        self.end.send_if_modified(|state| state.is_none() && state.replace(end).is_none());
    }

    /// The first reason why the host has failed.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// The host fails, because of this unless there was another reason before. Says whether that is news.
    pub(super) fn set_failure(&self, why: &str) -> bool {
        self.failure.set(why.to_owned()).is_ok()
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.take_links().iter().for_each(|connection| connection.sender().abandon());
        // The timer's task finds that there is no host any more.
        self.timer.arm(Some(Time::ZERO));
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("links", &self.links().len()).field("end", &self.end()).finish_non_exhaustive()
    }
}
