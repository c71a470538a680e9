//! The sessions, as far as they hold pages: what each may be told, and what it has outstanding.
//!
//! ```text
//!   connected --> AwaitResume --last resume--> Joined --> disconnected
//! ```
//! 1. The least acknowledged counts are over the joined sessions: one that resumes proves what it has by versions.
//! 2. A watcher's session is none of these: it holds nothing that it could have missed a change of.

use crate::Master;
use crate::queue::Queue;
use alloc::vec::Vec;
use directory::Acks;
use types::{ClientId, Map, PageId, PageRange, SessionId, Vector};

/// The pages that a resuming session has listed so far.
#[derive(Debug, Default)]
pub(crate) struct Resuming {
    /// Its horizon, which does not move until everything that it holds is listed.
    pub(crate) horizon: Vector,
    /// Pages that it has to drop.
    pub(crate) dropped: Vec<PageId>,
    /// Granted pages that it knows of and has not filled.
    pub(crate) claimed: Vec<PageRange>,
}

#[derive(Debug)]
enum Stage {
    AwaitResume(Resuming),
    Joined,
}

/// One session.
#[derive(Debug)]
struct Session {
    client: ClientId,
    kind: Kind,
    stage: Stage,
    fetches: usize,
    /// Pages that no request waits for yet.
    ahead: Queue,
}

/// The kind of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A client's.
    Client,
    /// A redirector's, for its whole group.
    Group,
    /// A watcher's, which is asked before a change becomes visible. It holds no page, and counts as one that holds each
    /// page of the leased spaces.
    Watcher,
}

/// The state of one session, as far as pages are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionState {
    /// The counts that it has acknowledged; none before it has listed what it holds.
    pub acked: Option<Vector>,
    /// Pages that it is listed for.
    pub pages: usize,
    /// Pages that it waits for.
    pub fetches: usize,
    /// Notices that wait for its next batch.
    pub invalidations: usize,
}

/// All sessions past hello.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    live: Map<SessionId, Session>,
    /// The sessions of watchers, in the order of their hellos.
    watchers: Vec<SessionId>,
    /// Acknowledged counts of the joined sessions.
    acked: Acks<SessionId>,
}

impl Sessions {
    fn connect(&mut self, id: SessionId, client: ClientId, kind: Kind) {
        if kind == Kind::Watcher {
            self.watchers.push(id);
        }
        let stage = Stage::AwaitResume(Resuming::default());
        self.live.insert(id, Session { client, kind, stage, fetches: 0, ahead: Queue::default() });
    }

    fn disconnect(&mut self, id: SessionId) {
        self.live.remove(&id);
        self.acked.leave(id);
        self.watchers.retain(|&watcher| watcher != id);
    }

    /// The session's client.
    pub(crate) fn client(&self, id: SessionId) -> Option<ClientId> {
        self.live.get(&id).map(|session| session.client)
    }

    /// Whether the session is a redirector's, for a whole group.
    pub(crate) fn is_group(&self, id: SessionId) -> bool {
        self.is(id, Kind::Group)
    }

    /// Whether the session is a watcher's.
    pub(crate) fn is_watcher(&self, id: SessionId) -> bool {
        self.is(id, Kind::Watcher)
    }

    fn is(&self, id: SessionId, kind: Kind) -> bool {
        self.live.get(&id).is_some_and(|session| session.kind == kind)
    }

    /// The sessions of watchers.
    pub(crate) fn watchers(&self) -> &[SessionId] {
        &self.watchers
    }

    /// Whether everything that the session holds is listed.
    pub(crate) fn has_joined(&self, id: SessionId) -> bool {
        self.live.get(&id).is_some_and(|session| matches!(session.stage, Stage::Joined))
    }

    /// The session's state while it resumes.
    pub(crate) fn resuming(&mut self, id: SessionId) -> Option<&mut Resuming> {
        match &mut self.live.get_mut(&id)?.stage {
            Stage::AwaitResume(resuming) => Some(resuming),
            Stage::Joined => None,
        }
    }

    /// Everything that the session holds is listed: it has heard all through `through` as soon as it has what was sent.
    /// Its acknowledgements count from here on. Returns the pages that it has to drop, and those that it has claimed.
    pub(crate) fn join(&mut self, id: SessionId) -> Resuming {
        let Some(session) = self.live.get_mut(&id) else { return Resuming::default() };
        let Stage::AwaitResume(resuming) = &mut session.stage else { return Resuming::default() };
        let resumed = core::mem::take(resuming);
        session.stage = Stage::Joined;
        if session.kind != Kind::Watcher {
            self.acked.join(id, resumed.horizon.clone());
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
        self.acked.ack(id, through);
    }

    /// The least acknowledged counts of all joined sessions.
    pub(crate) fn least_acked(&self) -> Option<Vector> {
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

    /// How many pages are still to be sent to the session that follow others.
    pub(crate) fn following(&self, id: SessionId) -> Option<usize> {
        self.live.get(&id).map(|session| session.ahead.following())
    }

    /// Returns the state of a session, given its numbers of pages and of waiting notices.
    pub(crate) fn state(&self, id: SessionId, pages: usize, invalidations: usize) -> Option<SessionState> {
        let session = self.live.get(&id)?;
        Some(SessionState { acked: self.acked.of(id).cloned(), pages, fetches: session.fetches, invalidations })
    }
}

impl Master {
    /// A session has said hello. It lists what it holds before anything else ([`Master::resumed`]).
    pub fn connected(&mut self, session: SessionId, client: ClientId, kind: Kind) {
        self.sessions.connect(session, client, kind);
        self.invalidations.open(session);
    }

    /// A session has ended. It holds no page from here on.
    pub fn disconnected(&mut self, session: SessionId) {
        self.sessions.disconnect(session);
        self.leases.session_ended(session, self.config.broken);
        self.invalidations.close(session);
        self.fetches.forget(session);
        self.syncs.forget(session);
        self.pages.directory().forget_holder(session);
    }
}
