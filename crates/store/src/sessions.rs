//! The sessions: who they are, how they stand, and when they are dead.
//!
//! ```text
//!   connected --> AwaitHello --hello--> AwaitRejoin --last rejoin--> Joined
//!                     |                      |                         |
//!                     +-------- end, disconnected, silence ------------+--> gone
//! ```
//! 1. A client has at most one session past hello: the one with the highest epoch.
//! 2. The least acknowledged count is over the joined sessions: one that resumes proves what it has by versions.
//! 3. A client that is gone is known until the grace is over, then forgotten with all that was kept for it.

use crate::SessionId;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use types::limits::SESSIONS_MAX;
use types::{ClientId, GoodbyeReason, Map, PageId, PageRange, Time, Version};

/// Why a session must end.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) reason: GoodbyeReason,
    pub(crate) text: String,
}

impl Fault {
    /// A message broke the protocol: the text says what was expected and what came.
    pub(crate) fn malformed(text: String) -> Self {
        Self { reason: GoodbyeReason::Malformed, text }
    }

    /// A bound on what a peer can make grow was passed.
    pub(crate) fn too_much(text: String) -> Self {
        Self { reason: GoodbyeReason::TooMuch, text }
    }
}

/// What a session that resumes has told so far.
#[derive(Debug, Default)]
pub(crate) struct Resuming {
    /// Its horizon, which does not move until all that it holds is listed.
    pub(crate) horizon: Version,
    /// Pages that it is to drop.
    pub(crate) dropped: Vec<PageId>,
    /// Granted pages that it knows of and has not filled.
    pub(crate) claimed: Vec<PageRange>,
}

#[derive(Debug)]
enum Stage {
    AwaitHello,
    AwaitRejoin(Resuming),
    Joined { acked: Version },
}

/// One session.
#[derive(Debug)]
struct Session {
    client: Option<ClientId>,
    stage: Stage,
    heard: Time,
    fetches: usize,
    commits: usize,
}

/// What is known of a client, in a session or gone.
#[derive(Debug)]
struct Client {
    epoch: u64,
    session: Option<SessionId>,
    /// Counts its departures, so that an old entry in the queue of the gone is known for old.
    departures: u64,
}

/// All sessions and clients.
#[derive(Debug)]
pub(crate) struct Sessions {
    live: Map<SessionId, Session>,
    clients: Map<ClientId, Client>,
    /// Acknowledged counts of the joined sessions, with how many stand at each.
    acked: BTreeMap<Version, usize>,
    gone: VecDeque<(Time, ClientId, u64)>,
    grace: Duration,
}

/// Clients that are remembered after they are gone.
const GONE_CLIENTS_MAX: usize = 4 * SESSIONS_MAX;

impl Sessions {
    pub(crate) fn new(grace: Duration) -> Self {
        Self { live: Map::default(), clients: Map::default(), acked: BTreeMap::new(), gone: VecDeque::new(), grace }
    }

    /// A connection has come in; says whether there is room for it.
    pub(crate) fn connect(&mut self, now: Time, id: SessionId) -> bool {
        if self.live.len() >= SESSIONS_MAX {
            return false;
        }
        let session = Session { client: None, stage: Stage::AwaitHello, heard: now, fetches: 0, commits: 0 };
        self.live.insert(id, session);
        true
    }

    /// A sign of life; says whether the session still counts.
    pub(crate) fn hear(&mut self, now: Time, id: SessionId) -> bool {
        let session = self.live.get_mut(&id);
        session.map(|session| session.heard = now).is_some()
    }

    /// The client that a session past hello belongs to.
    pub(crate) fn client(&self, id: SessionId) -> Option<ClientId> {
        self.live.get(&id)?.client
    }

    /// Says hello for a client; gives the session that it takes over from, or the epoch that fences it off.
    pub(crate) fn hello(&mut self, id: SessionId, client: ClientId, epoch: u64) -> Result<Option<SessionId>, u64> {
        let known = self.clients.entry(client).or_insert(Client { epoch, session: None, departures: 0 });
        if epoch < known.epoch || (epoch == known.epoch && known.session.is_some()) {
            return Err(known.epoch);
        }
        known.epoch = epoch;
        let previous = known.session.replace(id);
        let session = self.live.get_mut(&id).expect("the caller heard of it");
        session.client = Some(client);
        session.stage = Stage::AwaitRejoin(Resuming::default());
        Ok(previous)
    }

    /// The session's state while it resumes.
    pub(crate) fn resuming(&mut self, id: SessionId) -> Option<&mut Resuming> {
        match &mut self.live.get_mut(&id)?.stage {
            Stage::AwaitRejoin(resuming) => Some(resuming),
            Stage::AwaitHello | Stage::Joined { .. } => None,
        }
    }

    /// Everything that the session holds is listed: it has heard all through `through` as soon as it has what was sent.
    /// What it acknowledges counts from here on. Gives what it is to drop, and what it has claimed.
    pub(crate) fn join(&mut self, id: SessionId) -> Resuming {
        let Some(session) = self.live.get_mut(&id) else { return Resuming::default() };
        let Stage::AwaitRejoin(resuming) = &mut session.stage else { return Resuming::default() };
        let resumed = core::mem::take(resuming);
        session.stage = Stage::Joined { acked: resumed.horizon };
        *self.acked.entry(resumed.horizon).or_default() += 1;
        resumed
    }

    /// The count through which batches may move the session's horizon, `applied` being what there is.
    pub(crate) fn horizon(&self, id: SessionId, applied: Version) -> Version {
        match self.live.get(&id).map(|session| &session.stage) {
            Some(Stage::AwaitRejoin(resuming)) => resuming.horizon,
            _ => applied,
        }
    }

    /// The session has applied everything through `through`. Before it has joined that says nothing.
    pub(crate) fn ack(&mut self, id: SessionId, through: Version) {
        let Some(session) = self.live.get_mut(&id) else { return };
        if let Stage::Joined { acked } = &mut session.stage
            && through > *acked
        {
            let before = core::mem::replace(acked, through);
            self.unlist_ack(before);
            *self.acked.entry(through).or_default() += 1;
        }
    }

    /// The least acknowledged count of all joined sessions.
    pub(crate) fn least_acked(&self) -> Option<Version> {
        self.acked.first_key_value().map(|(version, _)| *version)
    }

    /// How many fetches the session has outstanding.
    pub(crate) fn fetches(&mut self, id: SessionId) -> Option<&mut usize> {
        self.live.get_mut(&id).map(|session| &mut session.fetches)
    }

    /// How many commit requests the session has outstanding.
    pub(crate) fn commits(&mut self, id: SessionId) -> Option<&mut usize> {
        self.live.get_mut(&id).map(|session| &mut session.commits)
    }

    /// The session is gone; its client may come back.
    pub(crate) fn disconnect(&mut self, now: Time, id: SessionId) {
        let Some(session) = self.live.remove(&id) else { return };
        if let Stage::Joined { acked } = session.stage {
            self.unlist_ack(acked);
        }
        let Some(client) = session.client else { return };
        if let Some(known) = self.clients.get_mut(&client)
            && known.session == Some(id)
        {
            known.session = None;
            known.departures += 1;
            self.gone.push_back((now + self.grace, client, known.departures));
        }
    }

    /// A client that was known before a restart.
    pub(crate) fn expect_back(&mut self, now: Time, client: ClientId) {
        self.clients.insert(client, Client { epoch: 0, session: None, departures: 0 });
        self.gone.push_back((now + self.grace, client, 0));
    }

    /// A client that did not come back in time, or one too many; it is forgotten here.
    pub(crate) fn pop_forgotten(&mut self, now: Time) -> Option<ClientId> {
        while let Some(&(until, client, departures)) = self.gone.front()
            && (until <= now || self.gone.len() > GONE_CLIENTS_MAX)
        {
            self.gone.pop_front();
            let known = self.clients.get(&client);
            if known.is_some_and(|known| known.session.is_none() && known.departures == departures) {
                self.clients.remove(&client);
                return Some(client);
            }
        }
        None
    }

    /// When the next client is to be forgotten.
    pub(crate) fn next_forgotten(&self) -> Option<Time> {
        self.gone.front().map(|(until, ..)| *until)
    }

    /// The sessions that nothing was heard of for so long, in order.
    pub(crate) fn silent_for(&self, now: Time, silence: Duration) -> Vec<SessionId> {
        let silent = self.live.iter().filter(|(_, session)| now.since(session.heard) >= silence);
        sorted(silent.map(|(id, _)| *id))
    }

    /// All sessions, in order.
    pub(crate) fn all(&self) -> Vec<SessionId> {
        sorted(self.live.keys().copied())
    }

    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    fn unlist_ack(&mut self, acked: Version) {
        let count = self.acked.get_mut(&acked).expect("a joined session's count is listed");
        *count -= 1;
        if *count == 0 {
            self.acked.remove(&acked);
        }
    }
}

fn sorted(ids: impl Iterator<Item = SessionId>) -> Vec<SessionId> {
    let mut ids: Vec<_> = ids.collect();
    ids.sort_unstable();
    ids
}
