//! Gives the machines their events, and carries out their outputs.

use crate::host::clock::Clock;
use crate::host::core::{Connector, Core, HostEnd};
use crate::host::failure;
use crate::host::flush::Flush;
use crate::host::role::{Machines, Role};
use crate::transport::connection::Connection;
use machine::{DiskDone, Event, Goodbye, Hosted, Link, Parcel, Port, RoleId, Said, Upstream, UpstreamId};
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Duration;
use tokio::runtime::Handle;
use types::{ClientId, GoodbyeReason, Position, Time, said};

/// The work that is left for when the machine's lock is free.
struct Todo {
    flushes: Vec<(Link, Arc<Connection>)>,
    wakers: Vec<Waker>,
    openings: Vec<Opening>,
    /// Machines of this host that were told something.
    told: Vec<RoleId>,
    /// The machine of the adjoining host that was, which has one link with this host.
    told_adjoining: Option<(Arc<Core>, RoleId)>,
    flush: Flush,
    /// Why the machine's disk has failed, which ends the host.
    failed: Option<String>,
}

/// A connection to be opened, or opened no more.
enum Opening {
    Peer(ClientId, String),
    Upstream(UpstreamId, Upstream),
    Close(UpstreamId),
}

/// A machine that should be called next.
enum Next {
    /// Others have told it something.
    Inbox(RoleId),
    /// A machine of the adjoining host.
    Adjoining(Arc<Core>, RoleId),
    /// This link has sent all: messages that have waited for that follow.
    Room(Link),
}

impl Core {
    /// Opens machines for business.
    pub(crate) fn open(machines: Machines, tasks: Handle, connector: Box<dyn Connector>) -> Arc<Self> {
        let roles = machines.into_roles();
        for role in &roles {
            role.hosted.lock().unwrap_or_else(PoisonError::into_inner).start(Clock::now());
        }
        Self::new(roles, tasks, connector)
    }

    /// Runs the machines' timers, learns of their disks, and does what they have wanted since they were opened.
    pub(crate) fn begin(&self) {
        for role in &self.roles {
            self.listen_to_disk(role);
            self.run_timer(role.id);
        }
        self.roles.iter().for_each(|role| self.settle(role.id));
    }

    /// Gives a machine events and carries out its outputs, but for the flush, which is the caller's to lead.
    pub(crate) fn drive(&self, role: RoleId, events: impl IntoIterator<Item = Event>) -> Flush {
        self.drive_with(role, |_| events)
    }

    /// Calls a machine, and carries out its outputs likewise.
    pub(crate) fn call(&self, role: RoleId, call: impl FnOnce(&mut Hosted, Time)) -> Flush {
        self.run(role, || {
            self.step(
                role,
                |_| (),
                |hosted, now, ()| {
                    call(hosted, now);
                    true
                },
            )
        })
    }

    /// Calls a machine for its front end. `call` returns whether there may be results. Before they are
    /// carried out, the machine receives the events of other machines of the process.
    pub(crate) fn call_as_application(&self, role: RoleId, call: &mut dyn FnMut(&mut Hosted, Time) -> bool) {
        let of = self.role(role);
        let mut panicked = None;
        let flush = self.run(role, || {
            self.step(
                role,
                |_| (),
                |hosted, now, ()| {
                    let called = catch_unwind(AssertUnwindSafe(|| call(hosted, now)));
                    let has_results = called.unwrap_or_else(|panic| unwind_with(&mut panicked, panic));
                    if has_results {
                        of.take().into_iter().for_each(|event| self.tell(of, hosted, now, event));
                    }
                    has_results
                },
            )
        });
        self.lead_as_application(flush);
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
    }

    /// Gives a machine events that are gathered under its lock.
    fn drive_with<E: IntoIterator<Item = Event>>(&self, role: RoleId, events: impl FnOnce(&Role) -> E) -> Flush {
        self.run(role, || self.step_with(role, events))
    }

    /// Does the first step, with a machine, and the steps that come of it.
    fn run(&self, role: RoleId, first: impl FnOnce() -> Todo) -> Flush {
        let drive = || {
            let mut next = VecDeque::new();
            let mut flush = self.carry_out(role, first(), &mut next);
            while let Some(called) = next.pop_front() {
                let (role, todo) = match called {
                    Next::Adjoining(host, role) => {
                        flush = flush.and(host.drive_with(role, Role::take).of_adjoining());
                        continue;
                    }
                    Next::Inbox(role) => (role, self.step_with(role, Role::take)),
                    Next::Room(Link { role, port }) => (role, self.step_with(role, |_| [Event::Room(port)])),
                };
                flush = flush.and(self.carry_out(role, todo, &mut next));
            }
            flush
        };
        self.contain(drive).unwrap_or_default()
    }

    /// Carries out the outputs of calls that an application has made. By then the machine has heard everything that
    /// others have said to it.
    pub(crate) fn settle(&self, role: RoleId) {
        self.lead_as_application(self.drive_with(role, Role::take));
    }

    /// A connection is up.
    pub(crate) fn attach(&self, link: Link, connection: &Arc<Connection>) {
        self.add_link(link, connection);
        self.lead_in_task(self.drive(link.role, [Event::Up(link.port)]));
    }

    /// A connection is gone.
    pub(crate) fn detach(&self, link: Link) {
        self.remove_link(link);
        self.lead_in_task(self.drive(link.role, [Event::Down(link.port)]));
    }

    /// Tells a machine of an event. Its lock is held.
    fn tell(&self, role: &Role, hosted: &mut Hosted, now: Time, event: Event) {
        match &event {
            Event::Message(_, message) => {
                self.counters().messages_in.fetch_add(1, Relaxed);
                #[cfg(feature = "panics")]
                failure::panic_if_wanted(message);
                let _ = message;
            }
            Event::Disk(done) if role.is_overtaken(done) => return,
            _ => {}
        }
        hosted.tell(now, event);
    }

    /// Gives a machine events, and sorts its outputs.
    fn step_with<E: IntoIterator<Item = Event>>(&self, role: RoleId, events: impl FnOnce(&Role) -> E) -> Todo {
        let of = self.role(role);
        self.step(role, events, |hosted, now, events| {
            events.into_iter().for_each(|event| self.tell(of, hosted, now, event));
            true
        })
    }

    /// Calls a machine and sorts the results, unless `call` returns that there are none.
    fn step<T>(
        &self,
        role: RoleId,
        gather: impl FnOnce(&Role) -> T,
        call: impl FnOnce(&mut Hosted, Time, T) -> bool,
    ) -> Todo {
        let (flushes, wakers, openings, told, told_adjoining, flush, failed) = Default::default();
        let mut todo = Todo { flushes, wakers, openings, told, told_adjoining, flush, failed };
        let role = self.role(role);
        self.with_role(role, |hosted| {
            // The clock is read when all is there: nothing is from later than the time at which it is heard.
            let gathered = gather(role);
            let now = Clock::now();
            if !call(hosted, now, gathered) {
                return;
            }
            while let Some(said) = hosted.poll(now) {
                self.sort(role, said, &mut todo);
            }
            role.timer.arm(hosted.poll_timeout());
        });
        todo
    }

    /// Does what was left for when the machine's lock is free, and adds whom to call next.
    fn carry_out(&self, role: RoleId, todo: Todo, next: &mut VecDeque<Next>) -> Flush {
        let has_room = |(link, connection): (Link, Arc<Connection>)| connection.sender().flush().then_some(link);
        next.extend(todo.flushes.into_iter().filter_map(has_room).map(Next::Room));
        next.extend(todo.told.into_iter().map(Next::Inbox));
        next.extend(todo.told_adjoining.map(|(host, role)| Next::Adjoining(host, role)));
        todo.openings.into_iter().for_each(|opening| self.carry_out_opening(role, opening));
        if !todo.wakers.is_empty() {
            todo.wakers.into_iter().for_each(failure::wake);
            self.role(role).wake_caller();
        }
        if let Some(why) = todo.failed {
            self.fail("disk_failed", &why);
        }
        todo.flush
    }

    fn carry_out_opening(&self, role: RoleId, opening: Opening) {
        match opening {
            Opening::Peer(peer, address) => self.connector.dial(role, peer, address),
            Opening::Upstream(upstream, server) => self.connector.open(role, upstream, server),
            Opening::Close(upstream) => self.connector.close(role, upstream),
        }
    }

    /// Puts what a machine has said where it belongs. Its lock is held.
    fn sort(&self, role: &Role, said: Said, todo: &mut Todo) {
        let link = |port| Link { role: role.id, port };
        match said {
            Said::Send(port, message) => self.send(link(port), &message, todo),
            Said::AwaitRoom(port) => {
                let waits = self.find_link(link(port)).filter(|connection| connection.sender().await_room());
                todo.flushes.extend(waits.map(|connection| (link(port), connection)));
            }
            Said::End(port, reason, text) => self.end_link(link(port), reason, text),
            Said::Wake(waiter) => todo.wakers.extend(role.wakers().wake(waiter)),
            Said::Disk(work) => {
                let disk = role.disk.as_ref().expect("a machine with disk work has a disk");
                if self.failure().is_none() && disk.submit(work) {
                    todo.flush = Flush::of(role.id);
                }
            }
            Said::Dial(peer, address) => todo.openings.push(Opening::Peer(peer, address)),
            Said::Open(upstream, server) => todo.openings.push(Opening::Upstream(upstream, server)),
            Said::Close(upstream) => {
                self.end_link(link(Port::Upstream(upstream)), GoodbyeReason::Done, String::new());
                todo.openings.push(Opening::Close(upstream));
            }
            Said::Tell(other, event) => {
                self.role(other).put(event);
                if !todo.told.contains(&other) {
                    todo.told.push(other);
                }
            }
            // To a host that is gone: so is the session.
            Said::TellAdjoining(other, event) => {
                if let Some(host) = self.adjoining() {
                    host.role(other).put(event);
                    todo.told_adjoining = Some((host, other));
                }
            }
            Said::Failed(why) => {
                // At once: the disk is given nothing more.
                self.note_failure("disk_failed", &why);
                todo.failed = Some(why);
            }
            Said::Closed => self.finish(HostEnd::Closed),
        }
    }

    /// A message to a link that is gone is dropped: the machines begin again with the next one.
    fn send(&self, link: Link, message: &Parcel, todo: &mut Todo) {
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

    pub(crate) fn end_link(&self, link: Link, reason: GoodbyeReason, text: String) {
        self.last_words.say(link, reason, &text);
        if reason != GoodbyeReason::Done {
            self.counters().refused(reason.name());
        }
        if let Some(connection) = self.remove_link(link) {
            connection.sender().end(Goodbye { reason, text });
        }
    }

    fn run_timer(&self, role: RoleId) {
        let (core, timer) = (self.weak(), Arc::clone(&self.role(role).timer));
        self.spawn(async move {
            let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
            while let Some(core) = core.upgrade() {
                core.time_has_passed(role);
                drop(core);
                timer.wait(sleep.as_mut()).await;
            }
        });
    }

    /// Tells a machine of the time, if its timeout is due: it may have moved away since the timer was armed.
    fn time_has_passed(&self, role: RoleId) {
        let of = self.role(role);
        let timeout = self.with_role(of, |hosted| hosted.poll_timeout()).flatten();
        if timeout.is_some_and(|at| at <= Clock::now()) {
            self.lead_in_task(self.drive(role, [Event::Timeout]));
        } else {
            of.timer.arm(timeout);
        }
    }
}

/// Ends the machine by the panic of a call, and keeps the panic itself for the caller's thread.
fn unwind_with(kept: &mut Option<Box<dyn Any + Send>>, panic: Box<dyn Any + Send>) -> bool {
    let text = said(&*panic).to_owned();
    *kept = Some(panic);
    resume_unwind(Box::new(text))
}

impl Role {
    /// Whether the machine has learned of more already: two flushes' reports may come in either order.
    fn is_overtaken(&self, done: &DiskDone) -> bool {
        let Some(Position(through)) = done.durable() else { return false };
        self.durable.fetch_max(through, SeqCst) > through
    }
}
