//! The sessions: their identities, and when they are dead.
//!
//! ```text
//!   connected --> AwaitHello --hello--> past hello
//!                     |                     |
//!                     +-- end, disconnected, silence --> gone
//! ```
//! 1. A client has at most one session of its own past hello: the one with the highest epoch.
//! 2. A group's session vouches for every client that it names, until it says that the client has departed, or ends.
//!
//! The pages that a session holds are the master's to know, and its commits the coordinator's.

use crate::SessionId;
use crate::clients::{Clients, Vouched};
use alloc::vec::Vec;
use core::time::Duration;
use master::Kind;
use types::limits::WATCHERS_MAX;
use types::{ClientId, Limits, Map, Time};

/// One session.
#[derive(Debug)]
struct Session {
    /// Its client, once it has said hello.
    client: Option<ClientId>,
    kind: Kind,
    /// Of a group's session: for whom it has spoken.
    vouched: Option<Vouched>,
    heard: Time,
}

/// A peer that says hello, and as what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Greeting {
    pub(crate) client: ClientId,
    pub(crate) epoch: u64,
    pub(crate) kind: Kind,
}

/// All sessions, and the clients that they speak for.
#[derive(Debug)]
pub(crate) struct Sessions {
    live: Map<SessionId, Session>,
    clients: Clients,
    limits: Limits,
}

impl Sessions {
    pub(crate) fn new(grace: Duration, limits: Limits) -> Self {
        Self { live: Map::default(), clients: Clients::new(grace, limits.gone_clients), limits }
    }

    /// A connection has come in; says whether there is room for it.
    pub(crate) fn connect(&mut self, now: Time, id: SessionId) -> bool {
        if self.live.len() >= self.limits.sessions {
            return false;
        }
        self.live.insert(id, Session { client: None, kind: Kind::Client, vouched: None, heard: now });
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
        self.live.values().filter(|session| session.kind == Kind::Watcher).count() >= WATCHERS_MAX
    }

    /// Says hello for a client; gives the session that it takes over from, or the epoch that fences it off.
    pub(crate) fn hello(&mut self, id: SessionId, greeting: Greeting) -> Result<Option<SessionId>, u64> {
        let Greeting { client, epoch, kind } = greeting;
        let previous = self.clients.hello(id, client, epoch)?;
        let session = self.live.get_mut(&id).expect("the caller heard of it");
        session.client = Some(client);
        session.kind = kind;
        session.vouched = (kind == Kind::Group).then(Vouched::default);
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

    /// For how many clients a group's session speaks.
    pub(crate) fn vouched(&self, id: SessionId) -> usize {
        self.live.get(&id).and_then(|session| session.vouched.as_ref()).map_or(0, Vouched::len)
    }

    /// The session is gone; those for whom it spoke may come back.
    pub(crate) fn disconnect(&mut self, now: Time, id: SessionId) {
        let Some(session) = self.live.remove(&id) else { return };
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
