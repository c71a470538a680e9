//! One process: a node, the application beside it, and what the driver knows of both.

use crate::actor::Thread;
use crate::check::never_back::NeverBack;
use client::Client;
use core::time::Duration;
use machine::{Event, Link as NodeLink, Node, Port, RoleId};
use redirector::Redirector;
use session::{Dialer, Times};
use std::collections::BTreeMap;
use store::Store;
use types::{ClientId, SessionId, Time};

/// Number of the process that hosts the store.
pub(crate) const STORE: usize = 0;

/// Timeouts that may be handled at one moment before it counts as going in circles.
pub(crate) const TIMEOUTS_AT_ONCE_MAX: u32 = 100;

/// How a process dials. A run is shorter than days are, and so are its pauses.
const TIMES: Times = Times {
    attempt_within: Duration::from_secs(5),
    pause_min: Duration::from_millis(1),
    pause_max: Duration::from_millis(100),
};

/// A connection as one of its processes knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// From its client to a store or a redirector.
    Uplink,
    /// From its redirector to a store.
    Trunk,
    /// From another process's client or redirector to its store or redirector.
    Session(SessionId),
    /// From its client to a peer.
    ToPeer(ClientId),
    /// From a peer to its client.
    FromPeer(SessionId),
}

#[derive(Debug)]
pub(crate) struct Process {
    /// `None` while the process is down.
    pub(crate) node: Option<Node>,
    /// Counts the process's lives: an event that was meant for an earlier one is for nobody.
    pub(crate) life: u32,
    pub(crate) threads: Vec<Thread>,
    /// Its client's session.
    pub(crate) uplink: Option<SessionId>,
    /// Its redirector's session.
    pub(crate) trunk: Option<SessionId>,
    /// Its connections to peers.
    pub(crate) peers: BTreeMap<ClientId, SessionId>,
    /// The process does nothing until then.
    pub(crate) paused_until: Time,
    /// From when until when its machine slept, if its clock stood still then: that is against a rule.
    pub(crate) stops: Vec<(Time, Time)>,
    /// It works on a message until then: its answers leave then, and further messages wait.
    pub(crate) busy_until: Time,
    /// The timer that is set.
    pub(crate) timer: Option<Time>,
    /// Timeouts handled at the last moment at which there was one.
    pub(crate) timeouts: (Time, u32),
    pub(crate) never_back: NeverBack,
    /// Where and when its session is opened again: its client's, or its redirector's.
    pub(crate) dialer: Dialer,
    /// That session has been welcomed.
    pub(crate) was_up: bool,
    /// The store has said that it is closed.
    pub(crate) closed: bool,
}

impl Default for Process {
    fn default() -> Self {
        Self {
            node: None,
            life: 0,
            threads: Vec::new(),
            uplink: None,
            trunk: None,
            peers: BTreeMap::new(),
            paused_until: Time::ZERO,
            stops: Vec::new(),
            busy_until: Time::ZERO,
            timer: None,
            timeouts: (Time::ZERO, 0),
            never_back: NeverBack::default(),
            dialer: Dialer::new(1, TIMES),
            was_up: false,
            closed: false,
        }
    }
}

impl Process {
    /// The link that its node knows a connection by; nothing if it hosts no machine that could have one.
    fn known_as(&self, link: Link) -> Option<NodeLink> {
        let node = self.node.as_ref()?;
        let client = || node.role_of::<Client>();
        let server = || node.role_of::<Store>().or_else(|| node.role_of::<Redirector>());
        let (role, port) = match link {
            Link::Uplink => (client(), Port::Server),
            Link::ToPeer(peer) => (client(), Port::ToPeer(peer)),
            Link::FromPeer(id) => (client(), Port::FromPeer(id)),
            Link::Trunk => (server(), Port::Server),
            Link::Session(id) => (server(), Port::Session(id)),
        };
        Some(NodeLink { role: role?, port })
    }

    /// The connection that a machine of its node knows by this port.
    pub(crate) fn link_of(&self, role: RoleId, port: Port) -> Link {
        let is_client = || self.node.as_ref().and_then(Node::role_of::<Client>) == Some(role);
        match port {
            Port::Server if is_client() => Link::Uplink,
            Port::Server => Link::Trunk,
            Port::Session(id) => Link::Session(id),
            Port::ToPeer(peer) => Link::ToPeer(peer),
            Port::FromPeer(id) => Link::FromPeer(id),
        }
    }

    /// Tells its node what has happened on a connection. Returns whether there is a node.
    pub(crate) fn tell(&mut self, now: Time, link: Link, event: impl FnOnce(Port) -> Event) -> bool {
        if let (Some(NodeLink { role, port }), Some(node)) = (self.known_as(link), &mut self.node) {
            node.tell(now, role, event(port));
        }
        self.node.is_some()
    }

    /// Its client, while it runs.
    pub(crate) fn client(&mut self) -> Option<&mut Client> {
        self.node.as_mut()?.find_mut()
    }

    /// Looks at a machine of its node.
    pub(crate) fn look<M: machine::Machine>(&self) -> Option<&M> {
        self.node.as_ref()?.find()
    }

    /// Its application runs nothing, and begins nothing new.
    pub(crate) fn rests(&self) -> bool {
        self.node.is_some() && self.threads.iter().all(Thread::is_done)
    }

    /// By how much its clock is behind, as it stood still.
    pub(crate) fn stood(&self, now: Time) -> Duration {
        self.stops.iter().map(|&(since, until)| until.min(now).since(since)).sum()
    }

    /// Ends this life. The threads' transactions die with it.
    pub(crate) fn die(&mut self) {
        let life = self.life + 1;
        *self = Self { life, ..Self::default() };
    }
}
