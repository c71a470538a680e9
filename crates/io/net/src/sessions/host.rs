//! A host: the machines of a process with their connections, as the process uses it.

use crate::host::caller::Caller;
use crate::host::clock::Clock;
use crate::host::core::{Core, HostEnd};
use crate::host::failure;
use crate::host::role::Machines;
use crate::lock::{Lock, Rank};
use crate::sessions::peer_family::PeerFamily;
use crate::sessions::upstreams::Upstreams;
use crate::threads::runtime::Runtime;
use crate::threads::stand_by::StandBy;
use crate::transport::counters::Tally;
use machine::{Driver, Event, Hosted, Local, RoleId, Status, Waiter};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;
use types::Time;

/// One process: its machines, their links, their disks.
pub struct Host {
    pub(super) core: Arc<Core>,
    pub(super) runtime: Runtime,
    /// Of each machine, by its number.
    sessions: Vec<Sessions>,
    /// The last connection's number, whichever end has opened it.
    pub(super) last_number: AtomicU64,
    /// The last status that was given, and when it was taken.
    pub(super) last_status: Lock<Option<(Instant, Status)>>,
    /// Those whose machines take sessions at an address of this one's: they are in its status, too.
    pub(super) beside: OnceLock<Vec<Weak<Self>>>,
    /// The host itself, for those of its methods that start tasks.
    this: Weak<Self>,
}

/// How connections of one machine come about.
pub(super) struct Sessions {
    /// Its sessions with servers.
    pub(super) upstreams: Upstreams,
    /// How its connections with peers look, if it has any.
    pub(super) family: OnceLock<PeerFamily>,
    pub(super) peers: Lock<Option<Peers>>,
    /// Connections that peers have opened.
    pub(super) peer_count: Arc<AtomicUsize>,
}

/// Where peers are taken.
#[derive(Debug)]
pub(super) struct Peers {
    pub(super) ip: IpAddr,
    pub(super) task: AbortHandle,
}

impl Sessions {
    fn new() -> Self {
        Self {
            upstreams: Upstreams::new(),
            family: OnceLock::new(),
            peers: Lock::new(Rank::Peers, None),
            peer_count: Arc::default(),
        }
    }
}

impl Host {
    /// Starts the machines of a process: opens them for business and runs their timers.
    pub fn start(machines: Machines, runtime: &Runtime) -> Arc<Self> {
        let sessions = (0..machines.len()).map(|_| Sessions::new()).collect();
        let host = Arc::new_cyclic(|this: &Weak<Self>| Self {
            core: Core::open(machines, runtime.tasks().clone(), Box::new(this.clone())),
            runtime: runtime.clone(),
            sessions,
            last_number: AtomicU64::new(0),
            last_status: Lock::new(Rank::Status, None),
            beside: OnceLock::new(),
            this: this.clone(),
        });
        if let Some(reactor) = runtime.reactor() {
            reactor.serve(&host.core);
        }
        host.core.begin();
        host
    }

    /// The driver that a machine's front end needs beside it.
    pub fn driver(&self, role: RoleId) -> Arc<dyn Driver> {
        Arc::new(RoleDriver { host: self.arc(), role })
    }

    /// How many callers wait for a machine, and how many wakes are kept for callers that have yet to wait.
    pub fn waiting(&self, role: RoleId) -> (usize, usize) {
        self.core.role(role).wakers().count()
    }

    /// Counts of everything that has passed the links since the start.
    pub fn tally(&self) -> Tally {
        self.core.counters().tally()
    }

    /// A host of the same process that has the server of a machine of this one takes the place of an earlier one.
    pub fn adjoin(&self, server: &Self) {
        self.core.adjoin(&server.core);
    }

    /// The server in the adjoining host is there: this machine, its client, begins a session unless it has one.
    pub fn meet_adjoining(&self, role: RoleId) {
        let reactor = self.runtime.reactor().cloned();
        self.core.role(role).set_caller(reactor.map(|reactor| Arc::new(StandBy::new(reactor)) as Arc<dyn Caller>));
        self.core.tell_of_adjoining(role, Local::There);
    }

    /// The server in the adjoining host is gone, and with it the session of this machine.
    pub fn part_from_adjoining(&self, role: RoleId) {
        self.core.role(role).set_caller(None);
        self.core.tell_of_adjoining(role, Local::Gone);
    }

    /// Closes a machine in good order: a store, which refuses commits from now on, writes everything home and ends its
    /// sessions; or a redirector. [`Host::wait_end`] says when that is done.
    pub fn close(&self, role: RoleId) {
        self.core.lead(self.core.drive(role, [Event::Close]));
    }

    /// Ends every connection at once, whatever is queued, as a kill of the process does. Its machines are not told.
    pub fn abandon(&self) {
        self.core.abandon();
    }

    /// How the host has ended, if it has.
    pub fn end(&self) -> Option<HostEnd> {
        self.core.end()
    }

    /// Waits until the host has ended.
    pub async fn ended(&self) -> HostEnd {
        let mut end = self.core.watch_end();
        let ended = end.wait_for(Option::is_some).await.expect("the sender is the host's");
        ended.clone().expect("just seen")
    }

    /// Waits until the host has ended, on a thread that may wait.
    pub fn wait_end(&self) -> HostEnd {
        self.runtime.block_on(self.ended())
    }

    /// The same, for at most so long; `None` if it has not ended until then.
    pub fn wait_end_within(&self, within: Duration) -> Option<HostEnd> {
        self.runtime.block_on(async { tokio::time::timeout(within, self.ended()).await.ok() })
    }

    /// How the connections of a machine come about.
    pub(super) fn sessions(&self, role: RoleId) -> &Sessions {
        &self.sessions[usize::from(role.0)]
    }

    /// For a task, which must not keep the host alive.
    pub(super) fn weak(&self) -> Weak<Self> {
        self.this.clone()
    }

    fn arc(&self) -> Arc<Self> {
        self.this.upgrade().expect("the caller has it")
    }
}

/// The driver of one machine, as its front end sees it. It keeps the host alive.
#[derive(Debug)]
struct RoleDriver {
    host: Arc<Host>,
    role: RoleId,
}

impl RoleDriver {
    fn core(&self) -> &Core {
        &self.host.core
    }
}

impl Driver for RoleDriver {
    fn now(&self) -> Time {
        Clock::now()
    }

    fn call(&self, call: &mut dyn FnMut(&mut Hosted, Time) -> bool) {
        self.core().call_as_application(self.role, call);
    }

    fn settle(&self) {
        self.core().settle(self.role);
    }

    fn assist(&self, woken: &dyn Fn() -> bool) {
        let core = self.core();
        core.contain(|| {
            if let Some(caller) = core.role(self.role).caller() {
                caller.read(woken);
            }
        });
    }

    fn wake_on(&self, waiter: Waiter, waker: &Waker) {
        let has_been = self.core().role(self.role).wakers().wait(waiter, waker);
        if has_been {
            waker.wake_by_ref();
        }
    }

    fn forget(&self, waiter: Waiter) {
        self.core().role(self.role).wakers().forget(waiter);
    }

    fn wake_at(&self, time: Time, waker: &Waker) {
        let (core, role) = (self.core(), self.role);
        let (at, waker, weak) = (Clock::instant(time), waker.clone(), core.weak());
        core.spawn(async move {
            tokio::time::sleep_until(at).await;
            failure::wake(waker);
            if let Some(core) = weak.upgrade() {
                core.role(role).wake_caller();
            }
        });
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Host").field(&self.core).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::{Client, Config};
    use types::ClientId;

    /// The number of a process's only machine.
    const CLIENT: RoleId = RoleId(0);

    fn host(runtime: &Runtime) -> Arc<Host> {
        let mut machines = Machines::new();
        machines.add(Client::new(Config::default(), ClientId(1)));
        Host::start(machines, runtime)
    }

    #[track_caller]
    fn assert_ended(host: &Host, text: &str) {
        let end = host.wait_end_within(Duration::from_secs(20));
        assert!(matches!(&end, Some(HostEnd::Failed(why)) if why.contains(text)), "{end:?}");
    }

    #[test]
    fn a_panic_of_a_task_ends_its_host_and_no_other() {
        let runtime = Runtime::start().unwrap();
        let (one, other) = (host(&runtime), host(&runtime));
        one.core.spawn(async {
            tokio::task::yield_now().await;
            panic!("in a task");
        });
        assert_ended(&one, "in a task");
        assert_eq!(other.end(), None);
    }

    #[test]
    fn a_panic_of_the_reactor_ends_all_hosts_and_those_that_come_later() {
        let runtime = Runtime::start().unwrap();
        let hosts = [host(&runtime), host(&runtime)];
        runtime.reactor().unwrap().spawn(|_| panic!("in the reactor")).unwrap();
        for host in &hosts {
            assert_ended(host, "in the reactor");
        }
        assert_ended(&host(&runtime), "in the reactor");
    }

    #[test]
    fn a_panic_under_the_lock_leaves_no_node_behind() {
        let host = host(&Runtime::start().unwrap());
        let role = host.core.role(CLIENT);
        assert_eq!(host.core.with_role::<()>(role, |_| panic!("under the lock")), None);
        assert_ended(&host, "under the lock");
        assert_eq!(host.core.with_role(role, |_| ()), Some(()), "it is not poisoned");
    }
}
