//! A host: one node with its connections, as its process uses it.

use crate::host::core::{Core, HostEnd};
use crate::host::event::Event;
use crate::host::failure;
use crate::lock::{Lock, Rank};
use crate::sessions::state::SessionState;
use crate::threads::runtime::Runtime;
use crate::transport::counters::Tally;
use client::TxnHandle;
use node::{Disk, Driver, Node};
use protocol::Status;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;
use types::Time;

/// One process: a node, its links, its disk.
pub struct Host {
    pub(super) core: Arc<Core>,
    pub(super) runtime: Runtime,
    pub(super) uplink: Arc<SessionState>,
    /// The uplink has last reached a redirector.
    pub(super) is_member: AtomicBool,
    pub(super) trunk: Arc<SessionState>,
    pub(super) neighbours: Lock<Option<Neighbours>>,
    /// Connections that neighbours have opened.
    pub(super) neighbour_count: Arc<AtomicUsize>,
    /// Connections that clients have opened.
    pub(super) session_count: Arc<AtomicUsize>,
    /// The last connection's number, whoever has opened it.
    pub(super) last_number: AtomicU64,
    /// The last status that was given, and when it was taken.
    pub(super) last_status: Lock<Option<(Instant, Status)>>,
    /// The host itself, for those of its methods that start tasks.
    this: Weak<Self>,
}

/// Where neighbours are taken.
#[derive(Debug)]
pub(super) struct Neighbours {
    pub(super) ip: IpAddr,
    pub(super) task: AbortHandle,
}

impl Host {
    /// Starts a node: opens it for business and runs its timer. A node that hosts a store comes with its disk.
    pub fn start(node: Node, disk: Option<Arc<dyn Disk>>, runtime: &Runtime) -> Arc<Self> {
        let host = Arc::new_cyclic(|this: &Weak<Self>| {
            let dialer = this.clone();
            let dial = Box::new(move |peer, address| {
                if let Some(host) = dialer.upgrade() {
                    host.dial_peer(peer, address);
                }
            });
            Self {
                core: Core::open(node, disk, runtime.tasks().clone(), dial),
                runtime: runtime.clone(),
                uplink: Arc::new(SessionState::new()),
                is_member: AtomicBool::new(false),
                trunk: Arc::new(SessionState::new()),
                neighbours: Lock::new(Rank::Neighbours, None),
                neighbour_count: Arc::default(),
                session_count: Arc::default(),
                last_number: AtomicU64::new(0),
                last_status: Lock::new(Rank::Status, None),
                this: this.clone(),
            }
        });
        if let Some(reactor) = runtime.reactor() {
            reactor.serve(&host.core);
        }
        host.core.begin();
        host
    }

    /// The node, for a front door; its [`Driver`] is the host.
    pub fn node(&self) -> &Arc<Mutex<Node>> {
        self.core.node()
    }

    /// Counts of all that has passed the links since the start.
    pub fn tally(&self) -> Tally {
        self.core.counters().tally()
    }

    /// Closes the store, or the redirector: commits are refused, everything is written home, sessions end.
    /// [`Host::wait_end`] says when that is done.
    pub fn close(&self) {
        self.core.lead(self.core.drive([Event::Close]));
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

    /// For a task, which must not keep the host alive.
    pub(super) fn weak(&self) -> Weak<Self> {
        self.this.clone()
    }
}

impl Driver for Host {
    fn now(&self) -> Time {
        self.core.clock().now()
    }

    fn settle(&self) {
        self.core.settle();
    }

    fn assist(&self, woken: &dyn Fn() -> bool) {
        self.core.contain(|| self.core.read_as_caller(woken));
    }

    fn wake_on(&self, txn: TxnHandle, waker: &Waker) {
        self.core.wakers().wait(txn, waker);
    }

    fn forget(&self, txn: TxnHandle) {
        self.core.wakers().forget(txn);
    }

    fn wake_at(&self, time: Time, waker: &Waker) {
        let (at, waker, core) = (self.core.clock().instant(time), waker.clone(), self.core.weak());
        self.core.spawn(async move {
            tokio::time::sleep_until(at).await;
            failure::wake(waker);
            if let Some(core) = core.upgrade() {
                core.wake_caller();
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

    fn host(runtime: &Runtime) -> Arc<Host> {
        Host::start(Node::client_only(Client::new(Config::default(), ClientId(1))), None, runtime)
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
        assert_eq!(host.core.with_node::<()>(|_| panic!("under the lock")), None);
        assert_ended(&host, "under the lock");
        assert!(!host.node().is_poisoned());
    }
}
