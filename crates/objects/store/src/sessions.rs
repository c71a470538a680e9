//! The sessions: their identities, their states, and when they are dead.
//!
//! ```text
//!   connected --> AwaitHello --hello--> AwaitResume --last resume--> Joined
//!                     |                      |                         |
//!                     +-------- end, disconnected, silence ------------+--> gone
//! ```
//! 1. A client has at most one session of its own past hello: the one with the highest epoch.
//! 2. The least acknowledged count is over the joined sessions: one that resumes proves what it has by versions.
//! 3. A watcher's session is none of these: it holds nothing that it could have missed a change of.
//! 4. A group's session vouches for every client that it names, until it says that the client has departed, or ends.

use crate::SessionId;
use crate::clients::{Clients, Vouched};
use crate::queue::Queue;
use alloc::vec::Vec;
use core::time::Duration;
use directory::Acks;
use types::limits::WATCHERS_MAX;
use types::{ClientId, Limits, Map, PageId, PageRange, Shard, Time, Vector, Version};

/// The pages that a session which resumes has told of so far.
#[derive(Debug, Default)]
pub(crate) struct Resuming {
    /// Its horizon, which does not move until everything that it holds is listed.
    pub(crate) horizon: Vector,
    /// Pages that it is to drop.
    pub(crate) dropped: Vec<PageId>,
    /// Granted pages that it knows of and has not filled.
    pub(crate) claimed: Vec<PageRange>,
}

#[derive(Debug)]
enum Stage {
    AwaitHello,
    AwaitResume(Resuming),
    Joined,
}

/// One session.
#[derive(Debug)]
struct Session {
    client: Option<ClientId>,
    kind: Kind,
    /// Of a group's session: for whom it has spoken.
    vouched: Option<Vouched>,
    stage: Stage,
    heard: Time,
    fetches: usize,
    /// Pages that no request waits for yet.
    ahead: Queue,
}

/// A peer that says hello, and as what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Greeting {
    pub(crate) client: ClientId,
    pub(crate) epoch: u64,
    pub(crate) kind: Kind,
}

/// The kind of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Client,
    /// A redirector's, for its whole group.
    Group,
    /// A watcher's, which is asked before a change becomes visible.
    Watcher,
}

/// The requests that one session has outstanding, and how far it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionState {
    pub(crate) client: ClientId,
    pub(crate) acked: Option<Version>,
    pub(crate) vouched: usize,
    pub(crate) fetches: usize,
    pub(crate) following: usize,
}

/// All sessions, and the clients that they speak for.
#[derive(Debug)]
pub(crate) struct Sessions {
    live: Map<SessionId, Session>,
    clients: Clients,
    /// Those of watchers, in the order of their hellos.
    watchers: Vec<SessionId>,
    /// Acknowledged counts of the joined sessions.
    acked: Acks<SessionId>,
    limits: Limits,
}

impl Sessions {
    pub(crate) fn new(grace: Duration, limits: Limits) -> Self {
        let clients = Clients::new(grace, limits.gone_clients);
        Self { live: Map::default(), clients, watchers: Vec::new(), acked: Acks::default(), limits }
    }

    /// A connection has come in; says whether there is room for it.
    pub(crate) fn connect(&mut self, now: Time, id: SessionId) -> bool {
        if self.live.len() >= self.limits.sessions {
            return false;
        }
        let stage = Stage::AwaitHello;
        let (client, vouched, ahead) = (None, None, Queue::default());
        let kind = Kind::Client;
        let session = Session { client, kind, vouched, stage, heard: now, fetches: 0, ahead };
        self.live.insert(id, session);
        true
    }

    /// A heartbeat; says whether the session still counts.
    pub(crate) fn hear(&mut self, now: Time, id: SessionId) -> bool {
        let session = self.live.get_mut(&id);
        session.map(|session| session.heard = now).is_some()
    }

    /// The client that a session past hello belongs to.
    pub(crate) fn client(&self, id: SessionId) -> Option<ClientId> {
        self.live.get(&id)?.client
    }

    /// Whether the session is a redirector's, for a whole group.
    pub(crate) fn is_group(&self, id: SessionId) -> bool {
        self.live.get(&id).is_some_and(|session| session.vouched.is_some())
    }

    /// Whether the session is a watcher's.
    pub(crate) fn is_watcher(&self, id: SessionId) -> bool {
        self.live.get(&id).is_some_and(|session| session.kind == Kind::Watcher)
    }

    /// Whether one more watcher is one too many.
    pub(crate) fn is_full_of_watchers(&self) -> bool {
        self.watchers.len() >= WATCHERS_MAX
    }

    /// The sessions of watchers.
    pub(crate) fn watchers(&self) -> &[SessionId] {
        &self.watchers
    }

    /// Whether everything that the session holds is listed.
    pub(crate) fn has_joined(&self, id: SessionId) -> bool {
        self.live.get(&id).is_some_and(|session| matches!(session.stage, Stage::Joined))
    }

    /// Says hello for a client; gives the session that it takes over from, or the epoch that fences it off.
    pub(crate) fn hello(&mut self, id: SessionId, greeting: Greeting) -> Result<Option<SessionId>, u64> {
        let Greeting { client, epoch, kind } = greeting;
        let previous = self.clients.hello(id, client, epoch)?;
        let session = self.live.get_mut(&id).expect("the caller heard of it");
        session.client = Some(client);
        session.kind = kind;
        session.vouched = (kind == Kind::Group).then(Vouched::default);
        if kind == Kind::Watcher {
            self.watchers.push(id);
        }
        session.stage = Stage::AwaitResume(Resuming::default());
        Ok(previous)
    }

    /// A group's session has named a client: it vouches for it. One that names too many does not vouch any longer for
    /// whom it has not named for the longest time: a redirector that forgets to say who has departed harms nobody.
    pub(crate) fn vouch(&mut self, now: Time, id: SessionId, client: ClientId) {
        let Some(vouched) = self.live.get_mut(&id).and_then(|session| session.vouched.as_mut()) else { return };
        if vouched.name(client) {
            self.clients.vouch(client);
        }
        if let Some(longest_unnamed) = vouched.pop_over(self.limits.vouched_per_session) {
            self.clients.stop_vouching(now, longest_unnamed);
        }
    }

    /// A client has departed from a group: its session does not vouch for it any more.
    pub(crate) fn departed(&mut self, now: Time, id: SessionId, client: ClientId) {
        let vouched = self.live.get_mut(&id).and_then(|session| session.vouched.as_mut());
        if vouched.is_some_and(|vouched| vouched.remove(client)) {
            self.clients.stop_vouching(now, client);
        }
    }

    /// The session's state while it resumes.
    pub(crate) fn resuming(&mut self, id: SessionId) -> Option<&mut Resuming> {
        match &mut self.live.get_mut(&id)?.stage {
            Stage::AwaitResume(resuming) => Some(resuming),
            Stage::AwaitHello | Stage::Joined => None,
        }
    }

    /// Everything that the session holds is listed: it has heard all through `through` as soon as it has what was sent.
    /// Its acknowledgements count from here on. Returns what it is to drop, and what it has claimed.
    pub(crate) fn join(&mut self, id: SessionId) -> Resuming {
        let Some(session) = self.live.get_mut(&id) else { return Resuming::default() };
        let Stage::AwaitResume(resuming) = &mut session.stage else { return Resuming::default() };
        let resumed = core::mem::take(resuming);
        session.stage = Stage::Joined;
        if session.kind != Kind::Watcher {
            self.acked.join(id, resumed.horizon.of(Shard::ONLY));
        }
        resumed
    }

    /// The counts through which batches may move the session's horizon, `applied` being what there is.
    pub(crate) fn horizon<'a>(&'a self, id: SessionId, applied: &'a Vector) -> &'a Vector {
        match self.live.get(&id).map(|session| &session.stage) {
            Some(Stage::AwaitResume(resuming)) => &resuming.horizon,
            _ => applied,
        }
    }

    /// The session has applied everything through `through`. Before it has joined that says nothing.
    pub(crate) fn ack(&mut self, id: SessionId, through: &Vector) {
        self.acked.ack(id, through.of(Shard::ONLY));
    }

    /// The least acknowledged count of all joined sessions.
    pub(crate) fn least_acked(&self) -> Option<Version> {
        self.acked.least()
    }

    /// How many fetches the session has outstanding.
    pub(crate) fn fetches(&mut self, id: SessionId) -> Option<&mut usize> {
        self.live.get_mut(&id).map(|session| &mut session.fetches)
    }

    /// The pages that should be sent ahead to the session.
    pub(crate) fn ahead(&mut self, id: SessionId) -> Option<&mut Queue> {
        self.live.get_mut(&id).map(|session| &mut session.ahead)
    }

    /// The session is gone; those for whom it spoke may come back.
    pub(crate) fn disconnect(&mut self, now: Time, id: SessionId) {
        let Some(session) = self.live.remove(&id) else { return };
        self.acked.leave(id);
        self.watchers.retain(|&watcher| watcher != id);
        if let Some(client) = session.client {
            self.clients.hung_up(now, id, client);
        }
        for client in session.vouched.iter().flat_map(Vouched::clients) {
            self.clients.stop_vouching(now, client);
        }
    }

    /// Something is kept for this client, whether it is known or not.
    pub(crate) fn expect_back(&mut self, now: Time, client: ClientId) {
        self.clients.expect_back(now, client);
    }

    /// A client that did not come back in time, or one too many; it is forgotten here.
    pub(crate) fn pop_forgotten(&mut self, now: Time) -> Option<ClientId> {
        self.clients.pop_forgotten(now)
    }

    /// When the next client should be forgotten.
    pub(crate) fn next_forgotten(&self) -> Option<Time> {
        self.clients.next_forgotten()
    }

    /// How the session stands, once it has said hello.
    pub(crate) fn state(&self, id: SessionId) -> Option<SessionState> {
        let session = self.live.get(&id)?;
        Some(SessionState {
            client: session.client?,
            acked: self.acked.of(id),
            vouched: session.vouched.as_ref().map_or(0, Vouched::len),
            fetches: session.fetches,
            following: session.ahead.following(),
        })
    }

    /// The sessions that nothing was heard from for this long, in order.
    pub(crate) fn silent_for(&self, now: Time, silence: Duration) -> Vec<SessionId> {
        let silent = self.live.iter().filter(|(_, session)| now.since(session.heard) >= silence);
        sorted(silent.map(|(id, _)| *id))
    }

    /// All sessions, in order.
    pub(crate) fn all(&self) -> Vec<SessionId> {
        sorted(self.live.keys().copied())
    }

    /// The sessions of all clients but this one.
    pub(crate) fn all_but(&self, client: Option<ClientId>) -> Vec<SessionId> {
        let others = self.live.iter().filter(|(_, session)| client.is_none() || session.client != client);
        sorted(others.map(|(id, _)| *id))
    }

    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }
}

fn sorted(ids: impl Iterator<Item = SessionId>) -> Vec<SessionId> {
    let mut ids: Vec<_> = ids.collect();
    ids.sort_unstable();
    ids
}
