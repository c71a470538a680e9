//! A machine in its process: the order of what it says, and its session with another machine of the process.
//!
//! # The order rule
//! Nothing leaves before what it depends on is durable. A machine's output carries the log position that it waits for;
//! it is kept here, and everything behind it on the same port, until the disk has said so. So the driver never sees a
//! message that must not be sent yet.
//!
//! # Sessions inside of a process
//! ```text
//!   client                               store
//!     | Up(1), Message(1, ..) ------------> |  a link of its own
//!     | <------------ Message(1, ..), Ended(1, why)
//!     | Up(2) ----------------------------> |  what either has yet to hear of session 1 is for nobody
//! ```
//! A machine may have its server in its own process. Messages between the two never become bytes, and no line between
//! them could be bad. One of them may find the session bad all the same, or the other silent after the process was
//! stopped for a while: then the client begins another one at once, with the next number.
//!
//! The server may live in a host of its own, and another server follows it in another host while the client lives. Then
//! the process says when a server is there and when it is gone ([`Local::There`], [`Local::Gone`]).

use crate::Parcel;
use crate::held::{Held, Item};
use crate::machine::{LOCAL, Machine, Note, Output, Port, RoleId, Upstream, UpstreamId, Waiter};
use crate::work::{DiskDone, Opaque};
use alloc::collections::VecDeque;
use alloc::string::String;
use core::mem;
use types::{ClientId, GoodbyeReason, PeerKey, Time};

/// Something that has happened, which a machine should be notified of. Beside these it is called by its application.
#[derive(Debug)]
pub enum Event {
    /// A connection is up.
    Up(Port),
    /// A connection is gone, or could not be made.
    Down(Port),
    /// A heartbeat: some of a message has arrived, or the other end takes what is sent to it.
    Heard(Port),
    /// Everything that was sent has left, as the machine has awaited.
    Room(Port),
    /// A message has arrived.
    Message(Port, Parcel),
    /// Peers are taken from now on, at this address and with this key.
    Reachable(String, PeerKey),
    /// Disk work is done.
    Disk(DiskDone),
    /// The machine's disk has failed, and why.
    DiskFailed(String),
    /// The machine's time has come.
    Timeout,
    /// It should be closed.
    Close,
    /// The machine at the other end of its link inside of the process has something to say.
    Local(Local),
    /// The machine beside it has something to say.
    Beside(Note),
}

/// A message on a link inside of a process, with the number of its session.
#[derive(Debug)]
pub enum Local {
    /// The server in the adjoining host is there: the client begins a session, unless it has one.
    There,
    /// The server in the adjoining host is gone.
    Gone,
    /// The client has begun a session.
    Up(u64),
    /// A message.
    Message(u64, Parcel),
    /// The server has ended the session.
    Ended(u64, GoodbyeReason),
}

/// The actions that a machine wants done, sorted.
#[derive(Debug)]
pub enum Said {
    /// Send a message.
    Send(Port, Parcel),
    /// End a connection.
    End(Port, GoodbyeReason, String),
    /// Open an upstream session, and open it again whenever it is lost.
    Open(UpstreamId, Upstream),
    /// Close an upstream session for good.
    Close(UpstreamId),
    /// Say when everything that was sent on this port before has left.
    AwaitRoom(Port),
    /// Open a connection to a peer.
    Dial(ClientId, String),
    /// Do disk work.
    Disk(Opaque),
    /// Wake the caller that waits under this number.
    Wake(Waiter),
    /// Tell another machine of the process.
    Tell(RoleId, Event),
    /// Tell a machine of the adjoining host.
    TellAdjoining(RoleId, Event),
    /// Its disk has failed for this reason, and it does not live on without.
    Failed(String),
    /// It has closed.
    Closed,
}

/// The end of a link inside of the process.
#[derive(Clone, Copy, Debug)]
struct LocalEnd {
    port: Port,
    other: RoleId,
    /// The other machine is in the adjoining host.
    is_adjoining: bool,
    /// Its session; zero before the first one.
    session: u64,
    /// The session lives, as far as this end knows.
    is_open: bool,
}

/// A machine in its process.
#[derive(Debug)]
pub struct Hosted<M: ?Sized = dyn Machine> {
    local: Option<LocalEnd>,
    beside: Option<RoleId>,
    held: Held,
    said: VecDeque<Said>,
    is_over: bool,
    /// It has closed, which is yet to be said.
    closes: bool,
    machine: M,
}

impl<M: Machine> Hosted<M> {
    /// A machine alone in its process.
    pub fn new(machine: M) -> Self {
        let (held, said) = Default::default();
        Self { local: None, beside: None, held, said, is_over: false, closes: false, machine }
    }
}

impl<M: Machine + ?Sized> Hosted<M> {
    /// The machine, for its application. The results of a call should be polled for.
    pub fn machine(&mut self) -> &mut M {
        &mut self.machine
    }

    /// The machine, to look at.
    pub fn look(&self) -> &M {
        &self.machine
    }

    /// From the start on its server is another machine of the process. A machine has one link inside of the process.
    pub fn link_server(&mut self, server: RoleId) {
        self.link(Port::SERVER, server, false);
    }

    /// From the start on it is the server of another machine of the process.
    pub fn link_client(&mut self, client: RoleId) {
        self.link(Port::Session(LOCAL), client, false);
    }

    /// The machine's server is in the adjoining host, whenever there is one.
    pub fn link_adjoining_server(&mut self, server: RoleId) {
        self.link(Port::SERVER, server, true);
    }

    /// This machine is the server of one in the adjoining host.
    pub fn link_adjoining_client(&mut self, client: RoleId) {
        self.link(Port::Session(LOCAL), client, true);
    }

    fn link(&mut self, port: Port, other: RoleId, is_adjoining: bool) {
        self.local = Some(LocalEnd { port, other, is_adjoining, session: 0, is_open: false });
    }

    /// From the start on this machine stands beside it.
    pub fn stand_beside(&mut self, other: RoleId) {
        self.beside = Some(other);
    }

    /// Opens the machine for business. If its server is in the same host, their session begins: servers start first.
    pub fn start(&mut self, now: Time) {
        self.machine.start(now);
        if self.local.is_some_and(|local| local.port == Port::SERVER && !local.is_adjoining) {
            self.begin(now);
        }
    }

    /// Whether the process is done with the machine.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The process is done with the machine, and why: its remaining messages are not sent, and nothing is told to it
    /// any more, but callers that wait for it are woken.
    pub fn stop(&mut self, why: &str) {
        (self.held, self.is_over, self.closes) = (Held::default(), true, false);
        self.said.clear();
        self.machine.stop(why);
    }

    /// Tells the machine what has happened.
    pub fn tell(&mut self, now: Time, event: Event) {
        if self.is_over {
            return;
        }
        match event {
            Event::Up(port) => self.machine.connected(now, port),
            Event::Down(port) => {
                self.held.forget(port);
                self.machine.disconnected(now, port);
            }
            Event::Heard(port) => self.machine.heard(now, port),
            Event::Room(port) => self.machine.has_room(port),
            Event::Message(port, message) => self.machine.handle(now, port, message),
            Event::Reachable(address, key) => self.machine.reachable(now, address, key),
            Event::Disk(done) => {
                if let Some(through) = done.durable() {
                    self.held.durable(through);
                }
                self.machine.disk(now, done);
            }
            Event::DiskFailed(why) => self.fail_disk(now, why),
            Event::Timeout => self.machine.handle_timeout(now),
            Event::Close => self.machine.close(now),
            Event::Local(local) => self.tell_local(now, local),
            Event::Beside(note) => self.machine.beside(now, note),
        }
    }

    /// When [`Event::Timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.is_over { None } else { self.machine.poll_timeout() }
    }

    /// The next action for the driver.
    pub fn poll(&mut self, now: Time) -> Option<Said> {
        self.said.pop_front().or_else(|| {
            self.settle(now);
            self.said.pop_front()
        })
    }

    /// Sorts out what the machine wants, until it wants nothing more at once.
    fn settle(&mut self, now: Time) {
        loop {
            self.sort_all();
            let Some((port, item)) = self.held.pop() else { break };
            self.release(now, port, item);
        }
        // Its last words leave before its process may stop.
        if mem::take(&mut self.closes) {
            self.said.push_back(Said::Closed);
        }
    }

    fn sort_all(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            self.sort(output);
        }
    }

    fn sort(&mut self, output: Output) {
        match output {
            // Of a machine that is over, only its callers are to hear.
            Output::Wake(waiter) => self.said.push_back(Said::Wake(waiter)),
            _ if self.is_over => {}
            Output::Send(port, message, after) => self.held.push(port, Item::Send(message), after),
            Output::End(port, reason, text) => self.held.push(port, Item::End(reason, text), None),
            Output::Open(upstream, server) => self.said.push_back(Said::Open(upstream, server)),
            Output::Close(upstream) => self.held.push(Port::Upstream(upstream), Item::Close, None),
            Output::AwaitRoom(port) => self.held.push(port, Item::AwaitRoom, None),
            Output::Dial(peer, address) => self.said.push_back(Said::Dial(peer, address)),
            Output::Disk(work) => self.said.push_back(Said::Disk(work)),
            Output::Beside(note) => {
                let other = self.beside.map(|other| Said::Tell(other, Event::Beside(note)));
                self.said.extend(other);
            }
            Output::Closed => self.closes = true,
        }
    }

    /// Returns what may leave.
    fn release(&mut self, now: Time, port: Port, item: Item) {
        let local = self.local.filter(|local| local.port == port);
        match (item, local) {
            (Item::Send(message), None) => self.said.push_back(Said::Send(port, message)),
            (Item::Send(message), Some(local)) => self.say(Local::Message(local.session, message)),
            (Item::AwaitRoom, None) => self.said.push_back(Said::AwaitRoom(port)),
            (Item::AwaitRoom, Some(_)) => self.machine.has_room(port),
            (Item::End(reason, text), None) => self.said.push_back(Said::End(port, reason, text)),
            (Item::Close, None) => {
                if let Port::Upstream(upstream) = port {
                    self.said.push_back(Said::Close(upstream));
                }
            }
            (Item::End(..), Some(LocalEnd { port: Port::SERVER, .. })) => self.begin_anew(now),
            (Item::End(reason, _), Some(local)) => self.end_local(now, local, reason),
            (Item::Close, Some(local)) => self.end_local(now, local, GoodbyeReason::Done),
        }
    }

    /// The order rule after a failure: a message that waited for the failed work never leaves, and nothing behind it
    /// does, so its connection ends.
    fn fail_disk(&mut self, now: Time, why: String) {
        if !self.machine.disk_failed(now, &why) {
            return self.said.push_back(Said::Failed(why));
        }
        self.sort_all();
        for port in self.held.fail() {
            self.held.push(port, Item::End(GoodbyeReason::Done, why.clone()), None);
        }
    }

    /// Ends the session inside of the process.
    fn end_local(&mut self, now: Time, local: LocalEnd, reason: GoodbyeReason) {
        self.say(Local::Ended(local.session, reason));
        self.end_session(now, local.port);
    }

    /// Says something on the link inside of the process.
    fn say(&mut self, local: Local) {
        let Some(LocalEnd { other, is_adjoining, .. }) = self.local else { return };
        let tell = if is_adjoining { Said::TellAdjoining } else { Said::Tell };
        self.said.push_back(tell(other, Event::Local(local)));
    }

    fn tell_local(&mut self, now: Time, local: Local) {
        let Some(LocalEnd { port, session, is_open, .. }) = self.local else { return };
        let is_this = |of| is_open && of == session;
        match local {
            Local::There if !is_open => self.begin(now),
            Local::Gone if is_open => self.end_session(now, port),
            Local::Up(begun) => {
                if is_open {
                    self.end_session(now, port);
                }
                self.open_session(begun);
                self.machine.connected(now, port);
            }
            Local::Message(of, message) if is_this(of) => self.machine.handle(now, port, message),
            // A process that was stopped for a while finds its own client taken for dead.
            Local::Ended(of, GoodbyeReason::Silent) if is_this(of) => self.begin_anew(now),
            Local::Ended(of, _) if is_this(of) => self.end_session(now, port),
            // It was said in a session that is gone, or is as it is already.
            Local::There | Local::Gone | Local::Message(..) | Local::Ended(..) => {}
        }
    }

    /// Begins the session with the server of its own process again.
    fn begin_anew(&mut self, now: Time) {
        self.end_session(now, Port::SERVER);
        self.begin(now);
    }

    /// The session is gone, and with it what the machine had yet to say in it.
    fn end_session(&mut self, now: Time, port: Port) {
        self.sort_all();
        self.held.forget(port);
        self.local = self.local.map(|local| LocalEnd { is_open: false, ..local });
        self.machine.disconnected(now, port);
    }

    fn begin(&mut self, now: Time) {
        let Some(LocalEnd { port, session, .. }) = self.local else { return };
        self.open_session(session + 1);
        self.say(Local::Up(session + 1));
        self.machine.connected(now, port);
    }

    fn open_session(&mut self, session: u64) {
        self.local = self.local.map(|local| LocalEnd { session, is_open: true, ..local });
    }
}

impl Hosted<dyn Machine> {
    /// The machine, if it is of this type.
    pub fn find<M: Machine>(&self) -> Option<&M> {
        let machine: &dyn core::any::Any = &self.machine;
        machine.downcast_ref()
    }

    /// The same, for its application.
    pub fn find_mut<M: Machine>(&mut self) -> Option<&mut M> {
        let machine: &mut dyn core::any::Any = &mut self.machine;
        machine.downcast_mut()
    }
}
