//! The one trait of everything that a node hosts, and the words between it and its driver.

use crate::work::{DiskDone, Opaque};
use crate::{Parcel, Table};
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Debug;
use types::{ClientId, GoodbyeReason, PeerKey, Position, SessionId, Time};

/// A connection to another process, or to another machine of this one, as the machine at this end knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Port {
    /// To a server of this machine: the driver opens it, and opens it again when it is lost.
    Upstream(UpstreamId),
    /// From one that it is the server of, numbered by the driver.
    Session(SessionId),
    /// To a peer, which it has asked the driver to connect to ([`Output::Dial`]).
    ToPeer(ClientId),
    /// From a peer, numbered by the driver like a session.
    FromPeer(SessionId),
    /// From another node of the same store, numbered by the driver like a session. The link to a node that this one has
    /// opened is an upstream.
    FromNode(SessionId),
}

impl Port {
    /// To the server of a machine that has only one.
    pub const SERVER: Self = Self::Upstream(UpstreamId::ONLY);
}

/// The number that a machine gives to an upstream session. None is used again: what was received in a session that has
/// been closed cannot pass for a message of a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamId(pub u64);

impl UpstreamId {
    /// The session of a machine with its only server.
    pub const ONLY: Self = Self(0);
}

/// A server with which a machine opens a session.
#[derive(Debug)]
pub struct Upstream {
    /// Where it may be: tried in turn, from the first on whenever the session was lost.
    pub addresses: Vec<String>,
    /// The codec of this end of the session. Only drivers look at it (`framing::upstream`).
    pub codec: Opaque,
}

/// The session of a client with the server of its own process. Drivers number the sessions of other processes from 1.
pub const LOCAL: SessionId = SessionId(0);

/// The number of a machine in its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleId(pub u8);

impl RoleId {
    /// The machine of a process that hosts one alone.
    pub const ONLY: Self = Self(0);
}

/// A machine's port, told from those of the other machines of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// The machine.
    pub role: RoleId,
    /// Its port.
    pub port: Port,
}

/// The number under which a caller of a machine waits: of a client's callers, that of their transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter(pub u64);

/// The message of one machine to the one beside it, in the same process and without a link.
pub type Note = Opaque;

/// An action that a machine wants done by its driver.
#[derive(Debug)]
pub enum Output {
    /// Send a message, when everything through this log position is durable, and what was said before on the port has
    /// left.
    Send(Port, Parcel, Option<Position>),
    /// End a connection, after what was sent before has gone out. An upstream session is opened again unless the reason
    /// is final.
    End(Port, GoodbyeReason, String),
    /// Open an upstream session, and open it again whenever it is lost, until [`Output::Close`].
    Open(UpstreamId, Upstream),
    /// Close an upstream session, after what was sent before has gone out: it is not opened again. If it was up, the
    /// machine receives what was on its way, and then [`Machine::disconnected`].
    Close(UpstreamId),
    /// When everything that was sent on this port before has left, say so by [`Machine::has_room`]: at once, if it has.
    AwaitRoom(Port),
    /// Open a connection to a peer, which is reached at this address; when it is up, or cannot be had, say so by
    /// [`Machine::connected`] or [`Machine::disconnected`].
    Dial(ClientId, String),
    /// Do disk work: what that is, the machine and its disk agree on.
    Disk(Opaque),
    /// Wake the caller that waits under this number.
    Wake(Waiter),
    /// Tell the machine beside this one.
    Beside(Note),
    /// It has closed: the process may stop.
    Closed,
}

/// A pure machine: no clock, no socket, no file, no thread. Events go in; after each, or after several that have come
/// together, [`Machine::poll_output`] is called until it returns nothing, and then [`Machine::poll_timeout`].
pub trait Machine: Any + Debug + Send {
    /// Opens for business.
    fn start(&mut self, now: Time) {
        let _ = now;
    }

    /// A connection is up.
    fn connected(&mut self, now: Time, port: Port);

    /// A connection is gone, or could not be had.
    fn disconnected(&mut self, now: Time, port: Port);

    /// A heartbeat from the other end: bytes of a message that is still to come, or room for what is on its way there.
    fn heard(&mut self, now: Time, port: Port) {
        let _ = (now, port);
    }

    /// The messages on a port have left.
    fn has_room(&mut self, port: Port) {
        let _ = port;
    }

    /// A message has come in: one of those that it hears on this port. Its driver has seen to that, by the codec.
    fn handle(&mut self, now: Time, port: Port, message: Parcel);

    /// Disk work is done.
    fn disk(&mut self, now: Time, done: DiskDone) {
        let _ = (now, done);
    }

    /// A write or a sync of its disk has failed. Returns whether the machine lives on; if not, its process ends, and
    /// recovery decides what was written.
    ///
    /// A machine that lives on must expect any part of the work that was not reported as done to be on the disk, and
    /// the rest to be lost. Connections on which a message waited for such work end, so that the other ends ask again.
    fn disk_failed(&mut self, now: Time, why: &str) -> bool {
        let _ = (now, why);
        false
    }

    /// The machine beside it has something to say. A note of a kind that it does not know is not for it.
    fn beside(&mut self, now: Time, note: Note) {
        let _ = (now, note);
    }

    /// Peers are taken from now on, at this address and with this key.
    fn reachable(&mut self, now: Time, address: String, key: PeerKey) {
        let _ = (now, address, key);
    }

    /// Ends in good order, and says [`Output::Closed`] when that is done, which ends its process. A machine that does
    /// nothing here is none to close a process by.
    fn close(&mut self, now: Time) {
        let _ = now;
    }

    /// Its process is done with it, or has failed: it is no longer told of anything. It lets go of everything that it
    /// has, as a panic may have left that half changed; of its outputs only the wakes of callers that wait for it
    /// count.
    fn stop(&mut self, why: &str);

    /// Its next output.
    fn poll_output(&mut self) -> Option<Output>;

    /// When [`Machine::handle_timeout`] is due.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Time has passed.
    fn handle_timeout(&mut self, now: Time) {
        let _ = now;
    }

    /// How it stands, for an operator.
    fn status(&self) -> Vec<Table> {
        Vec::new()
    }

    /// Returns where a server should be looked for next, if the machine knows better than the list of its addresses.
    fn way(&mut self, now: Time, upstream: UpstreamId) -> Option<String> {
        let _ = (now, upstream);
        None
    }

    /// Returns whether the machine knows of a way to a server that was not tried yet.
    fn has_way(&self, upstream: UpstreamId) -> bool {
        let _ = upstream;
        false
    }

    /// Returns whether the driver should try from time to time if a server answers at an earlier one of its addresses.
    fn looks_back(&self, upstream: UpstreamId) -> bool {
        let _ = upstream;
        false
    }

    /// A server answers at an earlier address.
    fn go_back(&mut self, upstream: UpstreamId) {
        let _ = upstream;
    }

    /// Returns whether a session should be opened again after it was refused with this reason.
    fn tries_again(&self, upstream: UpstreamId, reason: GoodbyeReason) -> bool {
        let _ = upstream;
        !reason.is_final()
    }

    /// Returns whether callers of this process wait for messages of its only server. Their threads read these
    /// themselves then.
    fn has_callers(&self) -> bool {
        false
    }
}
