//! One process: runs a node, and carries out what it wants done.
//!
//! 1. Whoever gives the node an event sorts all its outputs while still holding its lock: a message is in its link's
//!    queue, disk work in the disk's, before the next event can add to them. So nothing overtakes.
//! 2. Nothing is carried out under that lock. What takes time, a write to a socket, a flush, a waker, comes after it.
//! 3. Locks are taken in this order: a connection's receiver, node, links, one link. The disk's own come after the
//!    node's.
//! 4. The tasks hold the host weakly: it ends with the last of the application's hands, and they with it.
//! 5. A panic on any of these ways ends the host (`contain.rs`).

use crate::clock::Clock;
use crate::connection::Incoming;
use crate::contain;
use crate::counters::{Counters, Tally};
use crate::leader::Leader;
use crate::link::Link;
use crate::peers::Peers;
use crate::runtime::Runtime;
use crate::standing::Standing;
use crate::status::LastStatus;
use crate::timer::Timer;
use crate::uplink::Uplink;
use crate::wakers::Wakers;
use client::TxnHandle;
use node::{Disk, Hands, Node, Output};
use protocol::{Goodbye, Message, Reachable};
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;
use store::{DiskDone, Position};
use tokio::sync::watch;
use types::{ClientId, GoodbyeReason, Map, PeerKey, Time};

/// How a host has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEnd {
    /// The store was closed: all that was committed is home. Or the redirector was.
    Closed,
    /// The store's disk has failed, or a part of the host has panicked, with a line that says how. What was acknowledged
    /// is in the log.
    Failed(String),
}

/// One process: a node, its links, its disk.
pub struct Host {
    node: Arc<Mutex<Node>>,
    disk: Option<Arc<dyn Disk>>,
    leader: Leader,
    links: Mutex<Map<node::Link, Arc<Link>>>,
    wakers: Wakers,
    timer: Arc<Timer>,
    clock: Clock,
    runtime: Runtime,
    counters: Arc<Counters>,
    end: watch::Sender<Option<HostEnd>>,
    /// Why the host is about to end, before it has: nothing more is given to the disk.
    failure: OnceLock<String>,
    /// What the node knows to be durable.
    durable: AtomicU64,
    pub(crate) uplink: Uplink,
    pub(crate) trunk: Arc<Standing>,
    pub(crate) peers: Peers,
    pub(crate) last_session: AtomicU64,
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) last_status: LastStatus,
    /// The host itself, for those of its methods that start tasks.
    this: Weak<Self>,
}

/// What is left to be done when the node's lock is free.
#[derive(Default)]
struct Todo {
    links: Vec<Arc<Link>>,
    wakers: Vec<Waker>,
    dials: Vec<(ClientId, String)>,
    lead: bool,
}

impl Host {
    /// Starts a node: opens it for business and runs its timer. A node that hosts a store comes with its disk.
    pub fn start(mut node: Node, disk: Option<Arc<dyn Disk>>, runtime: &Runtime) -> Arc<Self> {
        let clock = Clock::start();
        node.start(clock.now());
        // Where neighbours reach its client is known when it has some.
        reachable(&mut node, clock.now(), String::new(), PeerKey::default());
        let host = Arc::new_cyclic(|this: &Weak<Self>| Self {
            node: Arc::new(Mutex::new(node)),
            disk,
            leader: Leader::default(),
            links: Mutex::default(),
            wakers: Wakers::default(),
            timer: Arc::new(Timer::new()),
            clock,
            runtime: runtime.clone(),
            counters: Arc::default(),
            end: watch::Sender::new(None),
            failure: OnceLock::new(),
            durable: AtomicU64::new(0),
            uplink: Uplink::new(),
            trunk: Arc::new(Standing::new()),
            peers: Peers::default(),
            last_session: AtomicU64::new(0),
            connections: Arc::default(),
            last_status: LastStatus::default(),
            this: this.clone(),
        });
        if let Some(reactor) = runtime.reactor() {
            reactor.serve(&host);
        }
        host.listen_to_disk();
        host.run_timer();
        host.settle();
        host
    }

    /// The node, for a front door; its [`Hands`] are the host.
    pub fn node(&self) -> &Arc<Mutex<Node>> {
        &self.node
    }

    /// What has passed the links since the start.
    pub fn tally(&self) -> Tally {
        self.counters.tally()
    }

    /// Closes the store, or the redirector: commits are refused, everything is written home, sessions end.
    /// [`Host::wait_end`] says when that is done.
    pub fn close(&self) {
        self.drive(Node::close);
    }

    /// How the host has ended, if it has.
    pub fn end(&self) -> Option<HostEnd> {
        self.end.borrow().clone()
    }

    /// Waits until the host has ended.
    pub async fn ended(&self) -> HostEnd {
        let mut end = self.end.subscribe();
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

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// For a task, which must not keep the host alive.
    pub(crate) fn weak(&self) -> Weak<Self> {
        self.this.clone()
    }

    /// Tells a task when to stop: with the host's end, or when the host is no more.
    pub(crate) fn watch_end(&self) -> watch::Receiver<Option<HostEnd>> {
        self.end.subscribe()
    }

    /// Gives the node an event and carries out what comes of it.
    pub(crate) fn drive(&self, event: impl FnOnce(&mut Node, Time)) {
        if self.drive_only(event) {
            self.lead();
        }
    }

    /// The same in a task of the runtime: a flush gives the worker's other tasks to another thread first.
    pub(crate) fn drive_in_task(&self, event: impl FnOnce(&mut Node, Time)) {
        if self.drive_only(event) {
            tokio::task::block_in_place(|| self.lead());
        }
    }

    /// From now on the node's messages for this link go there.
    pub(crate) fn add_link(&self, link: &Arc<Link>) {
        let is_peer = matches!(link.id(), node::Link::ToPeer(_) | node::Link::FromPeer(_));
        let count = if is_peer { &self.counters.peers } else { &self.counters.sessions };
        count.fetch_add(1, Relaxed);
        self.links().insert(link.id(), Arc::clone(link));
    }

    /// A connection is up.
    pub(crate) fn attach(&self, link: &Arc<Link>) {
        self.add_link(link);
        self.drive_in_task(|node, now| node.connected(now, link.id()));
    }

    /// A connection is gone.
    pub(crate) fn detach(&self, link: &Arc<Link>) {
        self.links().remove(&link.id());
        self.drive_in_task(|node, now| node.disconnected(now, link.id()));
    }

    /// Something has come in. Says whether the caller is to lead the flush of what came of it.
    pub(crate) fn received(&self, incoming: &mut Vec<Incoming>) -> bool {
        self.drive_only(|node, now| {
            for one in incoming.drain(..) {
                match one {
                    Incoming::Up(link) => node.connected(now, link),
                    Incoming::Heard(link) => node.heard(now, link),
                    Incoming::Room(link) => node.has_room(link),
                    Incoming::Message(link, message) => {
                        self.counters.messages_in.fetch_add(1, Relaxed);
                        #[cfg(feature = "panics")]
                        contain::panic_if_wanted(&message);
                        node.handle(now, link, message);
                    }
                    Incoming::Reachable(address, key) => reachable(node, now, address, key),
                }
            }
        })
    }

    /// Gives the node an event and carries out what comes of it, but for the flush: says whether the caller is to lead
    /// that.
    fn drive_only(&self, event: impl FnOnce(&mut Node, Time)) -> bool {
        let drive = || {
            let mut room = Vec::new();
            let mut lead = self.carry_out(self.step(event), &mut room);
            // What was sent has left already: what has waited for that follows.
            while !room.is_empty() {
                let todo = self.step(|node, _| room.drain(..).for_each(|link| node.has_room(link)));
                lead |= self.carry_out(todo, &mut room);
            }
            lead
        };
        self.contain(drive).unwrap_or(false)
    }

    /// Gives the node an event and sorts what comes of it.
    fn step(&self, event: impl FnOnce(&mut Node, Time)) -> Todo {
        let mut todo = Todo::default();
        self.with_node(|node| {
            let now = self.clock.now();
            event(node, now);
            node.settle(now);
            while let Some(output) = node.poll_output() {
                self.sort(output, &mut todo);
            }
            self.timer.arm(node.poll_timeout());
        });
        todo
    }

    /// Does what was left for when the node's lock is free, and adds the links that have the room which was awaited. Says
    /// whether the caller is to lead a flush.
    fn carry_out(&self, todo: Todo, room: &mut Vec<node::Link>) -> bool {
        room.extend(todo.links.iter().filter(|link| link.flush()).map(|link| link.id()));
        todo.dials.into_iter().for_each(|(peer, address)| self.dial_peer(peer, address));
        if !todo.wakers.is_empty() {
            todo.wakers.into_iter().for_each(contain::wake);
            self.uplink.kick();
        }
        todo.lead && self.leader.wanted()
    }

    /// Puts an output where it belongs. The node's lock is held.
    fn sort(&self, output: Output, todo: &mut Todo) {
        match output {
            Output::Send(link, message) => self.send(link, &message, todo),
            Output::AwaitRoom(link) => {
                let link = self.links().get(&link).cloned();
                todo.links.extend(link.filter(|link| link.await_room()));
            }
            Output::End(link, reason, text) => self.end_link(link, reason, text),
            Output::Wake(txn) => todo.wakers.extend(self.wakers.wake(txn)),
            Output::Disk(work) => {
                todo.lead |= matches!(work, store::DiskWork::Append(..));
                if !self.has_failed() {
                    self.disk.as_ref().expect("a node with a store has a disk").submit(work);
                }
            }
            Output::Dial(peer, address) => todo.dials.push((peer, address)),
            Output::Closed => self.finish(HostEnd::Closed),
        }
    }

    /// A message to a link that is gone is dropped: the roles begin anew with the next one.
    fn send(&self, id: node::Link, message: &Message, todo: &mut Todo) {
        let Some(link) = self.links().get(&id).cloned() else { return };
        match link.push(message) {
            Ok(true) => todo.links.push(link),
            Ok(false) => {}
            Err(reason) => {
                self.counters.refused(reason);
                self.links().remove(&id);
                link.abandon();
            }
        }
    }

    fn end_link(&self, id: node::Link, reason: GoodbyeReason, text: String) {
        match id {
            node::Link::Uplink => self.uplink.standing.hung_up(reason, &text),
            node::Link::Trunk => self.trunk.hung_up(reason, &text),
            _ => {}
        }
        if reason != GoodbyeReason::Done {
            self.counters.refused(reason.name());
        }
        if let Some(link) = self.links().remove(&id) {
            link.end(Goodbye { reason, text });
        }
    }

    /// Flushes the log until nothing more is wanted.
    pub(crate) fn lead(&self) {
        while self.lead_once() {}
    }

    /// Flushes the log on a thread of the reactor's. What others have queued meanwhile is not its affair: its sockets
    /// wait.
    pub(crate) fn lead_as_reader(&self) {
        if self.lead_after(|| self.runtime.reactor().map(|reactor| reactor.go_away())) {
            self.hand_over_lead();
        }
    }

    /// Flushes the log, and sends what has waited for that. Says whether more is wanted.
    fn lead_once(&self) -> bool {
        self.lead_after(|| ())
    }

    /// The same; what `prepare` gives is held while the disk is waited for.
    fn lead_after<T>(&self, prepare: impl FnOnce() -> T) -> bool {
        let Some(disk) = &self.disk else { return false };
        self.contain(|| self.flush(&**disk, prepare)).unwrap_or(false)
    }

    fn flush<T>(&self, disk: &dyn Disk, prepare: impl FnOnce() -> T) -> bool {
        self.leader.begin();
        let mut done = None;
        let prepared = prepare();
        let more = disk.flush(&mut |durable| done = Some(durable)) | self.leader.end();
        drop(prepared);
        self.counters.flushes.fetch_add(1, Relaxed);
        let lead_again = done.is_some_and(|done| self.disk_done(done));
        more | lead_again
    }

    fn hand_over_lead(&self) {
        let host = self.weak();
        self.runtime.spawn_blocking(move || {
            if let Some(host) = host.upgrade() {
                host.lead();
            }
        });
    }

    /// Disk work is done. Says whether the caller is to lead a flush of what came of it.
    fn disk_done(&self, done: DiskDone) -> bool {
        self.drive_only(|node, now| {
            if !self.is_overtaken(&done) {
                node.disk(now, done);
            }
        })
    }

    /// Whether the node has heard of more already: two leaders' reports may come in either order.
    fn is_overtaken(&self, done: &DiskDone) -> bool {
        let DiskDone::Durable { through: Position(through), .. } = *done else { return false };
        self.durable.fetch_max(through, SeqCst) >= through
    }

    fn listen_to_disk(&self) {
        let Some(disk) = &self.disk else { return };
        let (done, failed) = (self.weak(), self.weak());
        disk.on_done(Box::new(move |work| {
            if let Some(host) = done.upgrade()
                && host.disk_done(work)
            {
                host.lead();
            }
        }));
        disk.on_failed(Box::new(move |text| {
            if let Some(host) = failed.upgrade() {
                host.fail("disk_failed", text);
            }
        }));
    }

    fn has_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    /// The first reason why the host has failed.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// The host fails, because of this unless there was another reason before. Says whether that is news.
    pub(crate) fn set_failure(&self, why: &str) -> bool {
        self.failure.set(why.to_owned()).is_ok()
    }

    /// The host has ended like this, unless it has before.
    pub(crate) fn finish(&self, end: HostEnd) {
        self.end.send_if_modified(|state| state.is_none() && state.replace(end).is_none());
    }

    fn run_timer(&self) {
        let (host, clock, timer) = (self.weak(), self.clock, Arc::clone(&self.timer));
        self.spawn(async move {
            let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
            while let Some(host) = host.upgrade() {
                host.time_has_passed();
                drop(host);
                timer.wait(clock, sleep.as_mut()).await;
            }
        });
    }

    /// Tells the node of the time, if its timeout is due: it may have moved away since the timer was armed.
    fn time_has_passed(&self) {
        let timeout = self.with_node(|node| node.poll_timeout()).flatten();
        if timeout.is_some_and(|at| at <= self.clock.now()) {
            self.drive_in_task(Node::handle_timeout);
        } else {
            self.timer.arm(timeout);
        }
    }

    /// The links, which the node has no more.
    pub(crate) fn take_links(&self) -> Vec<Arc<Link>> {
        self.links().drain().map(|(_, link)| link).collect()
    }

    /// Wakes all that wait for a transaction, and lets nobody wait any more.
    pub(crate) fn wake_all(&self) {
        self.wakers.end().into_iter().for_each(contain::wake);
        self.uplink.kick();
    }

    fn links(&self) -> MutexGuard<'_, Map<node::Link, Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the client where neighbours reach it and by which key, and, if there is a redirector beside it, where members
/// would reach that.
fn reachable(node: &mut Node, now: Time, address: String, key: PeerKey) {
    let eligible = node.redirector().map(|redirector| redirector.address().to_owned()).unwrap_or_default();
    if let Some(client) = node.client() {
        client.reachable(now, Reachable { address, key, eligible });
    }
}

impl Hands for Host {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn settle(&self) {
        if self.drive_only(|_, _| {}) {
            // A thread that runs an application's tasks must not wait for a disk. Any other may as well lead the flush
            // of its own commit; further ones are not its affair.
            if tokio::runtime::Handle::try_current().is_ok() || self.lead_once() {
                self.hand_over_lead();
            }
        }
    }

    fn assist(&self, woken: &dyn Fn() -> bool) {
        self.contain(|| self.uplink.assist(self, woken));
    }

    fn wake_on(&self, txn: TxnHandle, waker: &Waker) {
        self.wakers.wait(txn, waker);
    }

    fn forget(&self, txn: TxnHandle) {
        self.wakers.forget(txn);
    }

    fn wake_at(&self, time: Time, waker: &Waker) {
        let (at, waker, host) = (self.clock.instant(time), waker.clone(), self.weak());
        self.spawn(async move {
            tokio::time::sleep_until(at).await;
            contain::wake(waker);
            if let Some(host) = host.upgrade() {
                host.uplink.kick();
            }
        });
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.take_links().iter().for_each(|link| link.abandon());
        // Its task finds that there is no host any more.
        self.timer.arm(Some(Time::ZERO));
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("links", &self.links().len()).field("end", &self.end()).finish_non_exhaustive()
    }
}
