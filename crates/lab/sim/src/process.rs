//! One process: a node, and what the driver knows of it.

use crate::drive::Drive;
use crate::layout::Traffic;
use crate::network::{Family, Place};
use core::mem;
use core::time::Duration;
use machine::{Link, Machine, Node, Port, RoleId, UpstreamId};
use session::{Dialer, Times};
use std::collections::BTreeMap;
use std::rc::Rc;
use types::{PeerKey, SessionId, Time};

/// How a process dials. A run is shorter than days are, and so are its pauses.
const TIMES: Times = Times {
    attempt_within: Duration::from_secs(5),
    pause_min: Duration::from_millis(1),
    pause_max: Duration::from_millis(100),
};

/// A session that a machine keeps open with its server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) client: RoleId,
    pub(crate) upstream: UpstreamId,
    /// Where the server may be.
    pub(crate) at: Vec<Place>,
    pub(crate) family: Family,
    /// Where and when the session is opened again.
    pub(crate) dialer: Dialer,
    /// The session has been welcomed.
    pub(crate) was_up: bool,
    /// The machine has opened the session itself, and does so again in its next life.
    is_opened: bool,
    /// The machine has closed the session.
    pub(crate) is_closed: bool,
}

impl Server {
    /// The only server of a machine, which is configured.
    pub(crate) fn new(client: RoleId, at: Place, family: Family) -> Self {
        Self { is_opened: false, ..Self::opened(client, UpstreamId::ONLY, vec![at], family) }
    }

    /// A server with which a machine has opened a session.
    pub(crate) fn opened(client: RoleId, upstream: UpstreamId, at: Vec<Place>, family: Family) -> Self {
        let dialer = Dialer::new(at.len(), TIMES);
        Self { client, upstream, at, family, dialer, was_up: false, is_opened: true, is_closed: false }
    }

    /// The link that its client knows the session by.
    pub(crate) fn link(&self) -> Link {
        Link { role: self.client, port: Port::Upstream(self.upstream) }
    }

    /// The same before the first session of a life, if the machine does not open it itself.
    fn again(self) -> Option<Self> {
        let Self { client, upstream, at, family, is_opened, .. } = self;
        (!is_opened).then(|| Self { is_opened, ..Self::opened(client, upstream, at, family) })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Process {
    /// `None` while the process is down.
    pub(crate) node: Option<Node>,
    /// Counts the process's lives: an event that was meant for an earlier one is for nobody.
    pub(crate) life: u32,
    pub(crate) servers: Vec<Server>,
    pub(crate) drives: BTreeMap<RoleId, Drive>,
    /// The connections that its machines have opened.
    pub(crate) dialed: BTreeMap<Link, SessionId>,
    /// The key that peers must show to be let in.
    pub(crate) key: PeerKey,
    /// By how much its clock is fast, in thousandths.
    pub(crate) drift: i64,
    /// The time that hearing a message takes of it.
    pub(crate) cost: Duration,
    pub(crate) traffic: Rc<Traffic>,
    /// Its machines hear each other a little later, now and then.
    pub(crate) defers: bool,
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
    /// It has said that it is closed.
    pub(crate) closed: bool,
}

impl Process {
    /// Looks at a machine of its node.
    pub(crate) fn look<M: Machine>(&self) -> Option<&M> {
        self.node.as_ref()?.find()
    }

    /// The time that its clock shows: it may be a little fast, or slow, or have stood still.
    pub(crate) fn clock(&self, now: Time) -> Time {
        let time = now.0.saturating_sub(self.stood(now).as_nanos() as u64);
        Time((i128::from(time) * i128::from(1000 + self.drift) / 1000) as u64)
    }

    /// The first time at which its clock shows `shown`.
    pub(crate) fn time_at(&self, now: Time, shown: Time) -> Time {
        let fast = i128::from(self.drift);
        let time = (i128::from(shown.0) * 1000).div_euclid(1000 + fast) + i128::from(fast != 0);
        Time(u64::try_from(time).unwrap_or(u64::MAX)) + self.stood(now)
    }

    /// By how much its clock is behind, as it stood still.
    fn stood(&self, now: Time) -> Duration {
        self.stops.iter().map(|&(since, until)| until.min(now).since(since)).sum()
    }

    /// Ends this life. Disks, servers and clock are for the next one.
    pub(crate) fn die(&mut self) {
        let Self { life, drift, cost, defers, .. } = *self;
        let servers = mem::take(&mut self.servers).into_iter();
        let servers = servers.filter_map(Server::again).collect();
        let (drives, traffic) = (mem::take(&mut self.drives), mem::take(&mut self.traffic));
        *self = Self { life: life + 1, servers, drives, drift, cost, traffic, defers, ..Self::default() };
    }
}
