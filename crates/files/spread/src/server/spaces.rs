//! The spaces whose sites a node of a store of several has.
//!
//! ```text
//!                    of a space here -----------------------------> heard
//!                      |
//!   first message that names a space: held --the disk looks--> here: heard, with what came before it
//!                                                           +-> at another node: Elsewhere, the session ends
//!                                                           +-> at a node that is away: the session ends, and says so
//!
//!   here --HandOver--> leaving: other sessions end --nothing under way--> HandedOver --> forgotten, or taken up again
//! ```
//! 1. A session is for the sites of one space: that of the first message that names one. So a chunk is asked for where
//!    it is, although its name does not tell.
//! 2. The sites of a space have one home. A revision is made durable in a transaction that compares the home and its
//!    term (**OneHome**), which is the work of the disk.
//! 3. A space is handed over when nothing of it is under way, and stays until its new home is on record
//!    (**HandOverAtRest**): its chunks are not removed before that.

use super::site::Site;
use super::work::{NotDone, Place, SiteState, Work};
use super::{FileServer, Purpose};
use crate::messages::{Elsewhere, HandOver, HandedOver, Refusal, ToFileServer};
use crate::number::SiteKey;
use crate::rule::Way;
use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;
use machine::Port;
use tree::ChunkHash;
use types::lease::millis;
use types::limits::{HASHES_PER_MESSAGE_MAX, PUBLISHER_REQUESTS_MAX, PUT_BYTES_MAX, WANTS_PER_SESSION_MAX};
use types::{GoodbyeReason, Time};

/// The bytes of chunks that a session may send before its space is found.
const HELD_BYTES_MAX: usize = PUBLISHER_REQUESTS_MAX * PUT_BYTES_MAX;

/// The spaces, and the sessions that are for them.
#[derive(Debug)]
pub(super) struct Spaces {
    /// None at a store of one process, which has all spaces.
    own: Option<BTreeSet<String>>,
    sessions: BTreeMap<Port, Session>,
    /// The spaces that the disk looks for.
    sought: BTreeSet<String>,
    leaving: BTreeMap<String, Leaving>,
    /// Whether the chunks of a space are being copied here: no revision relies on them yet.
    is_copying: bool,
}

/// A session.
#[derive(Debug)]
enum Session {
    /// Its space is here.
    In(String),
    /// A session that has named no space yet, or whose space the disk looks for.
    Outside { space: Option<String>, held: VecDeque<ToFileServer>, bytes: usize },
}

/// A space that goes to another node.
#[derive(Debug)]
struct Leaving {
    port: Port,
    ticket: u64,
    term: u64,
    /// Chunks of uploads.
    hashes: Vec<ChunkHash>,
    is_told: bool,
    /// Whether the session of the node that wants it was lost.
    is_lost: bool,
}

/// The next step with a message.
pub(super) enum Admitted {
    /// The message is heard.
    Heard(ToFileServer),
    /// The message is kept for later.
    Held,
    /// The message is kept, and the session's space is here.
    Enters,
    /// The message is kept, and the disk looks for the space.
    Seeks(String),
    /// The session ends, for this reason.
    Refused(&'static str),
}

impl Spaces {
    /// All spaces, or none yet.
    pub(super) fn new(are_all: bool) -> Self {
        Self {
            own: (!are_all).then(BTreeSet::new),
            sessions: BTreeMap::new(),
            sought: BTreeSet::new(),
            leaving: BTreeMap::new(),
            is_copying: false,
        }
    }

    /// Whether the sites of a space are served here.
    pub(super) fn has(&self, space: &str) -> bool {
        self.own.as_ref().is_none_or(|own| own.contains(space))
    }

    /// Whether chunks are here that no revision relies on, or not for long.
    pub(super) fn are_moving(&self) -> bool {
        self.is_copying || !self.leaving.is_empty()
    }

    pub(super) fn admit(&mut self, port: Port, message: ToFileServer) -> Admitted {
        let Some(own) = &self.own else { return Admitted::Heard(message) };
        let named = space_of(&message);
        let outside = || Session::Outside { space: None, held: VecDeque::new(), bytes: 0 };
        match self.sessions.entry(port).or_insert_with(outside) {
            Session::In(space) if named.is_some_and(|named| named != space) => {
                Admitted::Refused("a session for the sites of one space names another one")
            }
            Session::In(_) => Admitted::Heard(message),
            Session::Outside { space, held, bytes } => {
                *bytes += bytes_of(&message);
                if held.len() >= WANTS_PER_SESSION_MAX || *bytes > HELD_BYTES_MAX {
                    return Admitted::Refused("too much before the space is found");
                }
                let named = named.map(ToOwned::to_owned);
                held.push_back(message);
                match named {
                    Some(named) if space.is_none() => {
                        *space = Some(named.clone());
                        if own.contains(&named) { Admitted::Enters } else { Admitted::Seeks(named) }
                    }
                    _ => Admitted::Held,
                }
            }
        }
    }

    /// A session's space is here. Returns what it has said.
    fn enter(&mut self, port: Port) -> VecDeque<ToFileServer> {
        match self.sessions.remove(&port) {
            Some(Session::Outside { space: Some(space), held, .. }) => {
                self.sessions.insert(port, Session::In(space));
                held
            }
            session => {
                self.sessions.extend(session.map(|session| (port, session)));
                VecDeque::new()
            }
        }
    }

    /// The sessions that wait for a space to be found.
    fn outside(&self, space: &str) -> Vec<Port> {
        let waits = |session: &Session| matches!(session, Session::Outside { space: Some(of), .. } if of == space);
        self.sessions.iter().filter(|(_, session)| waits(session)).map(|(port, _)| *port).collect()
    }

    /// The sessions for a space that is here.
    fn inside(&self, space: &str) -> Vec<Port> {
        let is_in = |session: &Session| matches!(session, Session::In(of) if of == space);
        self.sessions.iter().filter(|(_, session)| is_in(session)).map(|(port, _)| *port).collect()
    }

    pub(super) fn lost(&mut self, port: Port) {
        self.sessions.remove(&port);
        self.leaving.values_mut().filter(|leaving| leaving.port == port).for_each(|leaving| leaving.is_lost = true);
    }
}

/// The space that a message names.
fn space_of(message: &ToFileServer) -> Option<&str> {
    match message {
        ToFileServer::Join(join) => Some(&join.space),
        ToFileServer::Put(put) => Some(&put.space),
        ToFileServer::Switch(switch) => Some(&switch.space),
        ToFileServer::Change(change) => Some(&change.space),
        ToFileServer::Survey(survey) => Some(&survey.space),
        ToFileServer::Lock(lock) => Some(&lock.space),
        ToFileServer::Enter(enter) => Some(&enter.space),
        ToFileServer::HandOver(hand_over) => Some(&hand_over.space),
        ToFileServer::Renew(_)
        | ToFileServer::Hold(_)
        | ToFileServer::Leave(_)
        | ToFileServer::Want(_)
        | ToFileServer::Have(_)
        | ToFileServer::Collect(_)
        | ToFileServer::Acquire(_)
        | ToFileServer::Release(_)
        | ToFileServer::KeepLocks(_)
        | ToFileServer::Unlock(_)
        | ToFileServer::Goodbye(_) => None,
    }
}

fn bytes_of(message: &ToFileServer) -> usize {
    match message {
        ToFileServer::Put(put) => put.chunks.iter().map(|(_, bytes)| bytes.len()).sum(),
        _ => 0,
    }
}

impl FileServer {
    /// Takes up the sites of a space, with what their records say. Their home is here. The server before may have given
    /// its subscribers leases of this length, and may have had chunks of uploads.
    pub fn adopt(
        &mut self,
        now: Time,
        space: &str,
        sites: Vec<SiteState>,
        (lease, uploads): (Duration, Vec<ChunkHash>),
    ) {
        let Some(own) = &mut self.spaces.own else { return };
        own.insert(space.to_owned());
        self.spaces.leaving.remove(space);
        self.now = now;
        // The server before may have told subscribers what this one knows nothing of.
        self.opens_at = self.opens_at.max(now + self.counted(lease).max(self.span()));
        self.uploads.keep(uploads, self.opens_at);
        let last = sites.iter().filter_map(SiteState::last_life).max().unwrap_or_default();
        self.config.life = self.config.life.max(last + 1);
        self.sites.retain(|key, _| key.space != space);
        let broken = self.config.broken;
        self.sites.extend(sites.into_iter().map(|state| (state.key.clone(), Site::recovered(state, broken))));
        self.found(now, space);
    }

    /// The sites of a space have another home, or none that is here.
    pub fn forget(&mut self, now: Time, space: &str) {
        self.now = now;
        self.end_sessions(now, space, None);
        if let Some(own) = &mut self.spaces.own {
            own.remove(space);
        }
        self.spaces.leaving.remove(space);
        for key in self.keys_of(space) {
            self.end_locks(&key);
            self.sites.remove(&key);
        }
        self.collect_later(now);
    }

    /// Forgets the spaces that are not kept, have no site, and that no session is for.
    pub fn forget_unused(&mut self, is_kept: impl Fn(&str) -> bool) {
        let Self { spaces, sites, .. } = self;
        let is_of = |session: &Session, space: &str| match session {
            Session::In(of) => of == space,
            Session::Outside { space: of, .. } => of.as_deref() == Some(space),
        };
        if let Some(own) = &mut spaces.own {
            own.retain(|space| {
                let has_sites = sites.keys().any(|key| key.space == *space);
                is_kept(space) || has_sites || spaces.sessions.values().any(|session| is_of(session, space))
            });
        }
    }

    /// The spaces whose sites are served here.
    pub fn own_spaces(&self) -> Vec<String> {
        self.spaces.own.iter().flatten().cloned().collect()
    }

    /// The spaces that were handed over and whose next home is not on record yet; for each whether the session of the
    /// node that wants it was lost.
    pub fn leaving_spaces(&self) -> Vec<(String, bool)> {
        self.spaces.leaving.iter().map(|(space, leaving)| (space.clone(), leaving.is_lost)).collect()
    }

    /// Begins to copy the chunks of a space that is going to be here: none is removed until [`FileServer::end_copy`].
    /// Returns false if chunks are being removed.
    pub fn begin_copy(&mut self) -> bool {
        self.spaces.is_copying = self.condemned.is_idle();
        self.spaces.is_copying
    }

    /// Ends what [`FileServer::begin_copy`] began.
    pub fn end_copy(&mut self) {
        self.spaces.is_copying = false;
    }

    fn keys_of(&self, space: &str) -> Vec<SiteKey> {
        self.sites.keys().filter(|key| key.space == space).cloned().collect()
    }

    /// Hears a message, or keeps it until it is known where the sites of the session's space are.
    pub(super) fn take(&mut self, now: Time, port: Port, message: ToFileServer) {
        match self.spaces.admit(port, message) {
            Admitted::Heard(message) => self.hear(now, port, message),
            Admitted::Held => {}
            Admitted::Enters => self.enter(now, port),
            Admitted::Seeks(space) => {
                if self.spaces.sought.insert(space.clone()) {
                    self.work(Work::Locate(space));
                }
            }
            Admitted::Refused(why) => self.end(now, port, GoodbyeReason::TooMuch, why),
        }
    }

    fn enter(&mut self, now: Time, port: Port) {
        for message in self.spaces.enter(port) {
            self.hear(now, port, message);
        }
    }

    fn found(&mut self, now: Time, space: &str) {
        for port in self.spaces.outside(space) {
            self.enter(now, port);
        }
    }

    /// The disk has found where the sites of a space are.
    pub(super) fn located(&mut self, now: Time, space: &str, place: Place) {
        self.spaces.sought.remove(space);
        let is_leaving = self.spaces.leaving.contains_key(space);
        match place {
            Place::Here if !is_leaving => {
                if let Some(own) = &mut self.spaces.own {
                    own.insert(space.to_owned());
                }
                self.found(now, space);
            }
            Place::At(address) => {
                for port in self.spaces.outside(space) {
                    self.say(port, Elsewhere { address: address.clone() });
                    self.end(now, port, GoodbyeReason::Done, &format!("the sites of space '{space}' are at {address}"));
                }
            }
            Place::Here => self.turn_away(now, space, &moving(space)),
            Place::Away(why) => self.turn_away(now, space, &why),
        }
    }

    fn turn_away(&mut self, now: Time, space: &str, why: &str) {
        for port in self.spaces.outside(space) {
            self.end(now, port, GoodbyeReason::CutOff, why);
        }
    }

    /// Ends the sessions for a space, but for one.
    fn end_sessions(&mut self, now: Time, space: &str, but: Option<Port>) {
        for port in self.spaces.inside(space).into_iter().filter(|port| Some(*port) != but) {
            self.end(now, port, GoodbyeReason::CutOff, &moving(space));
        }
    }

    pub(super) fn hand_over(&mut self, port: Port, HandOver { ticket, to, space }: HandOver) {
        if self.spaces.own.as_ref().is_none_or(|own| !own.contains(&space)) {
            return self.refuse(port, ticket, Refusal::Failed, "its sites are not here");
        }
        let id = self.work_for(Purpose::HandOver(port, ticket, space.clone()));
        self.work(Work::HandOver(id, space, to));
    }

    /// The disk knows whether the space goes to the node that asks for it, and the term of its home.
    pub(super) fn may_hand_over(
        &mut self,
        now: Time,
        (port, ticket): (Port, u64),
        space: String,
        term: Result<u64, NotDone>,
    ) {
        let term = match term {
            Ok(term) => term,
            Err(why) => return self.refuse_for(port, ticket, why),
        };
        let sessions = self.spaces.inside(&space);
        let hashes = self.uploads.of(|port| sessions.contains(&port)).copied().collect();
        self.end_sessions(now, &space, Some(port));
        if let Some(own) = &mut self.spaces.own {
            own.remove(&space);
        }
        for key in self.keys_of(&space) {
            self.end_locks(&key);
        }
        self.spaces.leaving.insert(space, Leaving { port, ticket, term, hashes, is_told: false, is_lost: false });
        self.tell_left();
    }

    /// Tells those who wait for spaces that nothing of these is under way (**HandOverAtRest**).
    pub(super) fn tell_left(&mut self) {
        let is_early = self.is_broken(Way::HandOverEarly);
        let Self { spaces, sites, under_way, .. } = self;
        let is_busy = |space: &str| {
            let publishes = |(key, site): (&SiteKey, &Site)| key.space == space && site.under_way.is_some();
            let changes = |purpose: &Purpose| matches!(purpose, Purpose::Change(_, _, key, _) if key.space == space);
            sites.iter().any(publishes) || under_way.values().any(changes)
        };
        let mut told = Vec::new();
        for (space, leaving) in &mut spaces.leaving {
            if !leaving.is_told && (is_early || !is_busy(space)) {
                leaving.is_told = true;
                told.push((leaving.port, leaving.ticket, leaving.term, mem::take(&mut leaving.hashes)));
            }
        }
        let lease_ms = millis(self.config.lease);
        for (port, ticket, term, hashes) in told {
            let mut parts = hashes.chunks(HASHES_PER_MESSAGE_MAX).peekable();
            loop {
                let hashes = parts.next().map(<[_]>::to_vec).unwrap_or_default();
                let is_last = parts.peek().is_none();
                self.say(port, HandedOver { ticket, term, lease_ms, is_last, hashes });
                if is_last {
                    break;
                }
            }
        }
    }
}

fn moving(space: &str) -> String {
    format!("the sites of space '{space}' are moving to another node")
}
