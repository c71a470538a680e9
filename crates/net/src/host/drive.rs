//! Gives the node its events, and carries out what comes of them.

use crate::host::clock::Clock;
use crate::host::core::{Core, Dial, HostEnd};
use crate::host::event::Event;
use crate::host::failure;
use crate::host::flush::Flush;
use crate::transport::connection::Connection;
use node::{Disk, Node, Output};
use protocol::{Goodbye, Parcel, Reachable};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::task::Waker;
use std::time::Duration;
use store::{DiskDone, Position};
use tokio::runtime::Handle;
use types::{ClientId, GoodbyeReason, PeerKey, Time};

/// The work that is left for when the node's lock is free.
struct Todo {
    flushes: Vec<(node::Link, Arc<Connection>)>,
    wakers: Vec<Waker>,
    dials: Vec<(ClientId, String)>,
    flush: Flush,
}

impl Core {
    /// Opens a node for business. A node that hosts a store comes with its disk.
    pub(crate) fn open(mut node: Node, disk: Option<Arc<dyn Disk>>, tasks: Handle, dial: Dial) -> Arc<Self> {
        let clock = Clock::start();
        node.start(clock.now());
        // Where neighbours reach its client is known when it has some.
        reachable(&mut node, clock.now(), String::new(), PeerKey::default());
        Self::new(node, disk, clock, tasks, dial)
    }

    /// Runs the node's timer, hears of its disk, and does what it has wanted since it was opened.
    pub(crate) fn begin(&self) {
        self.listen_to_disk();
        self.run_timer();
        self.settle();
    }

    /// Gives the node events and carries out what comes of them, but for the flush, which is the caller's to lead.
    pub(crate) fn drive(&self, events: impl IntoIterator<Item = Event>) -> Flush {
        self.call(|node, now| events.into_iter().for_each(|event| self.tell(node, now, event)))
    }

    /// The same for a call of the node.
    pub(crate) fn call(&self, call: impl FnOnce(&mut Node, Time)) -> Flush {
        let drive = || {
            let mut room = Vec::new();
            let mut flush = self.carry_out(self.step(call), &mut room);
            // These links have sent all already: messages that have waited for that follow.
            while !room.is_empty() {
                let todo = self.step(|node, _| room.drain(..).for_each(|link| node.has_room(link)));
                flush = flush.and(self.carry_out(todo, &mut room));
            }
            flush
        };
        self.contain(drive).unwrap_or(Flush::Nothing)
    }

    /// Carries out what came of calls that an application has made.
    pub(crate) fn settle(&self) {
        self.lead_as_application(self.drive([]));
    }

    /// A connection is up.
    pub(crate) fn attach(&self, link: node::Link, connection: &Arc<Connection>) {
        self.add_link(link, connection);
        self.lead_in_task(self.drive([Event::Up(link)]));
    }

    /// A connection is gone.
    pub(crate) fn detach(&self, link: node::Link) {
        self.remove_link(link);
        self.lead_in_task(self.drive([Event::Down(link)]));
    }

    /// Tells the node of an event. Its lock is held.
    fn tell(&self, node: &mut Node, now: Time, event: Event) {
        match event {
            Event::Up(link) => node.connected(now, link),
            Event::Down(link) => node.disconnected(now, link),
            Event::Heard(link) => node.heard(now, link),
            Event::Room(link) => node.has_room(link),
            Event::Message(link, message) => {
                self.counters().messages_in.fetch_add(1, Relaxed);
                #[cfg(feature = "panics")]
                failure::panic_if_wanted(&message);
                node.handle(now, link, message);
            }
            Event::Reachable(address, key) => reachable(node, now, address, key),
            Event::Disk(done) if self.is_overtaken(&done) => {}
            Event::Disk(done) => node.disk(now, done),
            Event::Timeout => node.handle_timeout(now),
            Event::Close => node.close(now),
        }
    }

    /// Whether the node has heard of more already: two flushes' reports may come in either order.
    fn is_overtaken(&self, done: &DiskDone) -> bool {
        let DiskDone::Durable { through: Position(through), .. } = *done else { return false };
        self.durable.fetch_max(through, SeqCst) >= through
    }

    /// Calls the node and sorts what comes of it.
    fn step(&self, call: impl FnOnce(&mut Node, Time)) -> Todo {
        let mut todo = Todo { flushes: Vec::new(), wakers: Vec::new(), dials: Vec::new(), flush: Flush::Nothing };
        self.with_node(|node| {
            let now = self.clock.now();
            call(node, now);
            node.settle(now);
            while let Some(output) = node.poll_output() {
                self.sort(output, &mut todo);
            }
            self.timer.arm(node.poll_timeout());
        });
        todo
    }

    /// Does what was left for when the node's lock is free, and adds the links that have the room which was awaited.
    fn carry_out(&self, todo: Todo, room: &mut Vec<node::Link>) -> Flush {
        room.extend(todo.flushes.iter().filter(|(_, connection)| connection.sender().flush()).map(|(link, _)| *link));
        todo.dials.into_iter().for_each(|(peer, address)| (self.dial)(peer, address));
        if !todo.wakers.is_empty() {
            todo.wakers.into_iter().for_each(failure::wake);
            self.wake_caller();
        }
        todo.flush
    }

    /// Puts an output where it belongs. The node's lock is held.
    fn sort(&self, output: Output, todo: &mut Todo) {
        match output {
            Output::Send(link, message) => self.send(link, &message, todo),
            Output::AwaitRoom(link) => {
                let waits = self.find_link(link).filter(|connection| connection.sender().await_room());
                todo.flushes.extend(waits.map(|connection| (link, connection)));
            }
            Output::End(link, reason, text) => self.end_link(link, reason, text),
            Output::Wake(txn) => todo.wakers.extend(self.wakers.wake(txn)),
            Output::Disk(work) => {
                if matches!(work, store::DiskWork::Append(..)) {
                    todo.flush = Flush::Wanted;
                }
                if self.failure().is_none() {
                    self.disk.as_ref().expect("a node with a store has a disk").submit(work);
                }
            }
            Output::Dial(peer, address) => todo.dials.push((peer, address)),
            Output::Closed => self.finish(HostEnd::Closed),
        }
    }

    /// A message to a link that is gone is dropped: the roles begin anew with the next one.
    fn send(&self, link: node::Link, message: &Parcel, todo: &mut Todo) {
        let Some(connection) = self.find_link(link) else { return };
        match connection.sender().push(message) {
            Ok(true) => todo.flushes.push((link, connection)),
            Ok(false) => {}
            Err(reason) => {
                self.counters().refused(reason);
                self.remove_link(link);
                connection.sender().abandon();
            }
        }
    }

    fn end_link(&self, link: node::Link, reason: GoodbyeReason, text: String) {
        self.last_words.say(link, reason, &text);
        if reason != GoodbyeReason::Done {
            self.counters().refused(reason.name());
        }
        if let Some(connection) = self.remove_link(link) {
            connection.sender().end(Goodbye { reason, text });
        }
    }

    fn run_timer(&self) {
        let (core, clock, timer) = (self.weak(), self.clock, Arc::clone(&self.timer));
        self.spawn(async move {
            let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
            while let Some(core) = core.upgrade() {
                core.time_has_passed();
                drop(core);
                timer.wait(clock, sleep.as_mut()).await;
            }
        });
    }

    /// Tells the node of the time, if its timeout is due: it may have moved away since the timer was armed.
    fn time_has_passed(&self) {
        let timeout = self.with_node(|node| node.poll_timeout()).flatten();
        if timeout.is_some_and(|at| at <= self.clock.now()) {
            self.lead_in_task(self.drive([Event::Timeout]));
        } else {
            self.timer.arm(timeout);
        }
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
