//! The machines of a host, each under a lock of its own.

use crate::host::caller::Caller;
use crate::host::disk::{AnyDisk, Typed};
use crate::host::timers::Timer;
use crate::lock::{Guard, Lock, Rank};
use machine::{Disk, Event, Hosted, Machine, RoleId, Wakers};
use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

/// Machines of one process: as many as a word has bits (`flush.rs`).
const ROLES_MAX: usize = 64;

/// A machine, where its front end and its host have it: each locks it for one call.
pub type Shared<M> = Arc<Mutex<Hosted<M>>>;

/// The machines of a process that is about to start.
#[derive(Debug, Default)]
pub struct Machines(Vec<Role>);

impl Machines {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a machine; one that should have its server in this process comes after that server. Returns its number, and
    /// the machine for its front end.
    ///
    /// # Panics
    /// Beyond 64 machines.
    pub fn add<M: Machine>(&mut self, machine: M) -> (RoleId, Shared<M>) {
        self.put(machine, None)
    }

    /// The same with a disk.
    ///
    /// # Panics
    /// Beyond 64 machines, as [`Machines::add`] does.
    pub fn add_with_disk<M: Machine, D: Disk + ?Sized>(&mut self, machine: M, disk: Arc<D>) -> (RoleId, Shared<M>) {
        self.put(machine, Some(Box::new(Typed(disk))))
    }

    fn put<M: Machine>(&mut self, machine: M, disk: Option<Box<dyn AnyDisk>>) -> (RoleId, Shared<M>) {
        assert!(self.0.len() < ROLES_MAX, "a process has at most {ROLES_MAX} machines");
        let id = RoleId(self.0.len() as u8);
        let hosted = Arc::new(Mutex::new(Hosted::new(machine)));
        self.0.push(Role::new(id, hosted.clone(), disk));
        (id, hosted)
    }

    /// A machine has its server in the same process.
    pub fn link(&mut self, client: RoleId, server: RoleId) {
        self.with(client, |hosted| hosted.link_server(server));
        self.with(server, |hosted| hosted.link_client(client));
    }

    /// A machine has its server in the adjoining host, whenever there is one ([`crate::Host::adjoin`]).
    pub fn link_adjoining_server(&mut self, client: RoleId, server: RoleId) {
        self.with(client, |hosted| hosted.link_adjoining_server(server));
    }

    /// A machine is the server of one in the adjoining host.
    pub fn link_adjoining_client(&mut self, server: RoleId, client: RoleId) {
        self.with(server, |hosted| hosted.link_adjoining_client(client));
    }

    /// Two machines tell each other notes.
    pub fn stand_beside(&mut self, one: RoleId, other: RoleId) {
        self.with(one, |hosted| hosted.stand_beside(other));
        self.with(other, |hosted| hosted.stand_beside(one));
    }

    fn with(&self, role: RoleId, call: impl FnOnce(&mut Hosted)) {
        call(&mut self.0[usize::from(role.0)].hosted.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn into_roles(self) -> Vec<Role> {
        self.0
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A machine of a host, and what belongs to it alone.
pub(crate) struct Role {
    pub(super) id: RoleId,
    pub(super) hosted: Shared<dyn Machine>,
    /// The messages of other machines of the process to it, in their order.
    inbox: Lock<VecDeque<Event>>,
    pub(super) disk: Option<Box<dyn AnyDisk>>,
    /// A flush was handed over, and has not begun.
    pub(super) handed_over: AtomicBool,
    /// The position that the machine knows to be durable.
    pub(super) durable: AtomicU64,
    wakers: Lock<Wakers>,
    pub(super) timer: Arc<Timer>,
    /// The caller that reads from its server by itself.
    caller: Lock<Option<Arc<dyn Caller>>>,
}

impl Role {
    fn new(id: RoleId, hosted: Shared<dyn Machine>, disk: Option<Box<dyn AnyDisk>>) -> Self {
        Self {
            id,
            hosted,
            inbox: Lock::new(Rank::Inbox, VecDeque::new()),
            disk,
            handed_over: AtomicBool::new(false),
            durable: AtomicU64::new(0),
            wakers: Lock::new(Rank::Wakers, Wakers::default()),
            timer: Arc::new(Timer::new()),
            caller: Lock::new(Rank::Caller, None),
        }
    }

    /// Another machine has something to say to this one. Called under that one's lock: nothing overtakes.
    pub(super) fn put(&self, event: Event) {
        self.inbox.lock().push_back(event);
    }

    /// The messages of others. Called under this machine's lock.
    pub(super) fn take(&self) -> VecDeque<Event> {
        mem::take(&mut *self.inbox.lock())
    }

    /// From now on callers read like this from its server, or leave it to others.
    pub(crate) fn set_caller(&self, caller: Option<Arc<dyn Caller>>) {
        let old = mem::replace(&mut *self.caller.lock(), caller);
        if let Some(old) = old {
            old.wake();
        }
    }

    /// The caller that reads from its server, if there is a connection.
    pub(crate) fn caller(&self) -> Option<Arc<dyn Caller>> {
        self.caller.lock().clone()
    }

    /// A caller that waits for the server's socket may have to look up.
    pub(crate) fn wake_caller(&self) {
        if let Some(caller) = &*self.caller.lock() {
            caller.wake();
        }
    }

    /// The wakers of its callers. None is woken under this lock.
    pub(crate) fn wakers(&self) -> Guard<'_, Wakers> {
        self.wakers.lock()
    }
}

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Role").field("id", &self.id).finish_non_exhaustive()
    }
}
