//! The state of a host, and the rules that its parts keep.
//!
//! 1. The thread that gives a machine an event sorts all its outputs while still holding its lock: a message is in its
//!    connection's queue, or in the inbox of another machine of the process, disk work in the disk's, before the next
//!    event can add to them. So nothing overtakes. No thread holds the locks of two machines.
//! 2. Nothing is carried out under that lock. Everything that takes time, a write to a socket, a flush, a waker, comes
//!    after it.
//! 3. Locks are taken in the order of [`Rank`].
//! 4. Tasks and links hold the host weakly: it ends with the last of the application's handles, and they with it.
//! 5. A panic on any of these ways ends the host (`failure.rs`).

use crate::host::last_words::LastWords;
use crate::host::role::Role;
use crate::lock::{Guard, Lock, Rank};
use crate::transport::connection::Connection;
use crate::transport::counters::Counters;
use machine::{Port, RoleId, Upstream, UpstreamId};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, Weak};
use tokio::runtime::Handle;
use tokio::sync::watch;
use types::{ClientId, Map, Time};

/// How a host has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEnd {
    /// The store was closed: everything that was committed is home. Or the redirector was.
    Closed,
    /// The store's disk has failed, or a part of the host has panicked, with a line that says how. Everything that was
    /// acknowledged is in the log.
    Failed(String),
}

/// Opens and closes the connections that machines ask for.
pub(crate) trait Connector: Send + Sync {
    /// Connects a machine to a peer at this address, and tells it that the connection is up, or that it is not.
    fn dial(&self, role: RoleId, peer: ClientId, address: String);

    /// Opens an upstream session of a machine, again and again.
    fn open(&self, role: RoleId, upstream: UpstreamId, server: Upstream);

    /// Opens it no more.
    fn close(&self, role: RoleId, upstream: UpstreamId);
}

/// The machines of a process, their connections, their disks.
pub(crate) struct Core {
    /// By their numbers.
    pub(super) roles: Vec<Role>,
    pub(super) connector: Box<dyn Connector>,
    pub(super) last_words: LastWords,
    /// Where the host's tasks run.
    pub(super) tasks: Handle,
    /// The host of the process with the client or the server of a machine of this one.
    pub(super) adjoining: Lock<Weak<Self>>,
    links: Lock<Map<machine::Link, Arc<Connection>>>,
    counters: Arc<Counters>,
    end: watch::Sender<Option<HostEnd>>,
    /// Why the host is about to end, before it has: nothing more is given to the disk.
    failure: OnceLock<String>,
    /// The host itself, for those of its methods that start tasks.
    this: Weak<Self>,
}

impl Core {
    pub(super) fn new(roles: Vec<Role>, tasks: Handle, connector: Box<dyn Connector>) -> Arc<Self> {
        Arc::new_cyclic(|this: &Weak<Self>| Self {
            roles,
            connector,
            last_words: LastWords::new(),
            tasks,
            adjoining: Lock::new(Rank::Adjoining, Weak::new()),
            links: Lock::new(Rank::Links, Map::default()),
            counters: Arc::default(),
            end: watch::Sender::new(None),
            failure: OnceLock::new(),
            this: this.clone(),
        })
    }

    /// A machine by its number, which it was given here.
    pub(crate) fn role(&self, id: RoleId) -> &Role {
        &self.roles[usize::from(id.0)]
    }

    pub(crate) fn roles(&self) -> &[Role] {
        &self.roles
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    pub(crate) fn last_words(&self) -> &LastWords {
        &self.last_words
    }

    /// For a task, which must not keep the host alive.
    pub(crate) fn weak(&self) -> Weak<Self> {
        self.this.clone()
    }

    /// From now on the machine's messages for this link go there.
    pub(crate) fn add_link(&self, id: machine::Link, connection: &Arc<Connection>) {
        let is_peer = matches!(id.port, Port::ToPeer(_) | Port::FromPeer(_));
        let count = if is_peer { &self.counters.peers } else { &self.counters.sessions };
        count.fetch_add(1, Relaxed);
        self.links().insert(id, Arc::clone(connection));
    }

    /// The machine has nothing more to say on this link.
    pub(crate) fn remove_link(&self, id: machine::Link) -> Option<Arc<Connection>> {
        self.links().remove(&id)
    }

    pub(super) fn find_link(&self, id: machine::Link) -> Option<Arc<Connection>> {
        self.links().get(&id).cloned()
    }

    /// The connections, which no machine has any more.
    pub(super) fn take_links(&self) -> Vec<Arc<Connection>> {
        self.links().drain().map(|(_, connection)| connection).collect()
    }

    /// Ends every connection at once.
    pub(crate) fn abandon(&self) {
        self.take_links().iter().for_each(|connection| connection.sender().abandon());
    }

    fn links(&self) -> Guard<'_, Map<machine::Link, Arc<Connection>>> {
        self.links.lock()
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

    /// The host fails, because of this unless there was another reason before. Returns whether that is news.
    pub(super) fn set_failure(&self, why: &str) -> bool {
        self.failure.set(why.to_owned()).is_ok()
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.abandon();
        // The timers' tasks find that there is no host any more.
        self.roles.iter().for_each(|role| role.timer.arm(Some(Time::ZERO)));
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("links", &self.links().len()).field("end", &self.end()).finish_non_exhaustive()
    }
}
