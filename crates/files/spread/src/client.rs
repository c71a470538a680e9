//! A publisher, or a reader: requests to a file server, each answered once, over as many sessions as that takes.
//!
//! ```text
//!   ask --said--> under way --answered--> taken by its caller
//!                   ^   |
//!                   +---+  the session was lost: it is said again in the next one
//! ```
//! Every request may be said twice: chunks have names, and a publish has an identity (**OneSwitch**). A reader holds
//! its revision with a lease that is renewed while it reads (**HeldAbove**). A publisher keeps locks of paths likewise
//! (**PExcludes**; `locks`).

mod locks;

pub use self::locks::{LockState, Locking};

use self::locks::Locks;
use crate::condemned::Swept;
use crate::messages::{
    Change, ChangeKind, Chunk, Collect, Elsewhere, Enter, FromFileServer, Gone, HandOver, HandedOver, Have, Identity,
    Invalidate, Lapsed, Lock, LockOver, Locked, NotJoined, NotNow, Published, Put, RecallLock, Refusal, Refused,
    Revoke, Size, Standing, Survey, Surveyed, Switch, ToFileServer, Token, Unlock, Unread, Want,
};
use crate::number::{Number, Revision, SiteKey};
use crate::settings::SiteSettings;
use crate::taker::{AGAIN_AFTER, Taker};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::mem;
use core::time::Duration;
use machine::{Machine, Output, Parcel, Port, UpstreamId, Waiter};
use tree::{ChunkHash, Name, Path};
use types::lease::millis;
use types::{Broken, NodeId, Time};

/// The number of a request of this client. Callers wait under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The callers that wait for a hold.
pub const HELD: Waiter = Waiter(0);

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Which of these chunks are missing? They are protected from now on.
    Have(Vec<ChunkHash>),
    /// Keep these chunks, for a revision of a site.
    Put(SiteKey, Vec<(ChunkHash, Bytes)>),
    /// Make a tree the newest revision of a site.
    Publish {
        /// The site.
        key: SiteKey,
        /// The tree that it was made from.
        base: Option<ChunkHash>,
        /// The tree.
        root: ChunkHash,
        /// The revision that it brings back, by its count.
        of: Option<u64>,
        /// Its size.
        size: Size,
        /// Whether to wait until every older revision that is served says that it is stale: [`Answer::Everywhere`]
        /// follows.
        waits: bool,
        /// Whether to make the changes since `base` to the newest revision, if there is a newer one.
        merges: bool,
        /// Whether to end the locks of paths that it changes, instead of waiting for their holders.
        ends_locks: bool,
        /// The locks under which it changes paths.
        locks: Vec<Token>,
        /// A note for the log.
        note: String,
    },
    /// Change a site.
    Change(SiteKey, ChangeKind, SiteSettings),
    /// Remove unused chunks.
    Collect,
    /// Describe a site and its subscribers.
    Survey(SiteKey),
    /// A chunk is wanted.
    Want(ChunkHash),
    /// This node wants to be the home of the sites of a space.
    HandOver(String, NodeId),
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To [`Request::Have`].
    Missing(Vec<ChunkHash>),
    /// To [`Request::Put`]: all are durable.
    Stored,
    /// To [`Request::Publish`]: the revision is durable, and the newest. Its tree may be another one that was merged.
    Published {
        /// The revision.
        revision: Revision,
        /// Whether the publish has made it. It was there before if nothing had changed.
        is_new: bool,
    },
    /// Behind it, to one that waits.
    Everywhere,
    /// To [`Request::Change`].
    Changed,
    /// To [`Request::Collect`].
    Collected(Swept),
    /// To [`Request::Survey`].
    Surveyed(Number, Vec<Standing>),
    /// To [`Request::Want`]: none if it is not there, or was another chunk than its name says. It is refused if the
    /// server cannot read it at the moment.
    Chunk(Option<Bytes>),
    /// To [`Client::lock`]: this publisher alone changes the path.
    Locked(Locking),
    /// To [`Request::HandOver`]: the term of the home before, and chunks of uploads that are in no revision yet.
    HandedOver {
        /// The term.
        term: u64,
        /// The longest lease that subscribers may have.
        lease: Duration,
        /// The chunks.
        hashes: Vec<ChunkHash>,
    },
    /// To any: nothing has changed.
    Refused(Refusal, Number, String),
}

/// A hold, as its reader has asked for it.
#[derive(Debug)]
struct Reading {
    taker: Taker,
    number: Number,
    /// The newest revision, which its giver holds for every subscriber until there is a newer one.
    newest: Number,
    is_refused: Option<NotNow>,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    /// Drawn at random: two clients never use the same identity for a publish.
    publisher: u64,
    /// The space that each session is for, if the client is for one.
    space: Option<String>,
    /// Where the server before has said that the sites are.
    way: Option<String>,
    is_up: bool,
    last: u64,
    requests: BTreeMap<Ticket, ToFileServer>,
    wants: BTreeMap<ChunkHash, Vec<Ticket>>,
    answers: BTreeMap<Ticket, VecDeque<Answer>>,
    /// Publishes that are durable, and wait.
    waiting: BTreeSet<Ticket>,
    locks: Locks,
    reading: Option<Reading>,
    /// The parts of an answer to [`Request::HandOver`].
    handed_over: Vec<ChunkHash>,
    is_over: bool,
    now: Time,
    outputs: VecDeque<Output>,
}

impl Client {
    /// A client that has asked for nothing yet.
    pub fn new(publisher: u64) -> Self {
        Self {
            publisher,
            space: None,
            way: None,
            is_up: false,
            last: 0,
            requests: BTreeMap::new(),
            wants: BTreeMap::new(),
            answers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            locks: Locks::default(),
            reading: None,
            handed_over: Vec::new(),
            is_over: false,
            now: Time::ZERO,
            outputs: VecDeque::new(),
        }
    }

    /// A client for the sites of one space, which goes where they are.
    pub fn of_space(publisher: u64, space: &str) -> Self {
        Self { space: Some(space.into()), ..Self::new(publisher) }
    }

    /// Asks, and asks again in each session until there is an answer.
    pub fn ask(&mut self, request: Request) -> Ticket {
        self.last += 1;
        let ticket = Ticket(self.last);
        let number = ticket.0;
        let message: ToFileServer = match request {
            Request::Have(hashes) => Have { ticket: number, hashes }.into(),
            Request::Put(SiteKey { space, name: site }, chunks) => Put { ticket: number, space, site, chunks }.into(),
            Request::Publish { key, base, root, of, size, waits, merges, ends_locks, locks, note } => {
                let identity = Identity { publisher: self.publisher, number };
                let (space, site, of) = (key.space, key.name, of.unwrap_or_default());
                Switch {
                    ticket: number,
                    identity,
                    space,
                    site,
                    base,
                    root,
                    of,
                    size,
                    waits,
                    merges,
                    ends_locks,
                    locks,
                    note,
                }
                .into()
            }
            Request::Change(SiteKey { space, name: site }, kind, settings) => {
                let SiteSettings { keep, lease, consistency, when_stale } = settings;
                let lease_ms = lease.map(millis);
                Change { ticket: number, kind, keep, lease_ms, consistency, when_stale, space, site }.into()
            }
            Request::Collect => Collect { ticket: number }.into(),
            Request::Survey(SiteKey { space, name: site }) => Survey { ticket: number, space, site }.into(),
            Request::HandOver(space, to) => HandOver { ticket: number, to, space }.into(),
            Request::Want(hash) => {
                self.wants.entry(hash).or_default().push(ticket);
                Want { hashes: Vec::from([hash]) }.into()
            }
        };
        self.say(message.clone());
        self.requests.insert(ticket, message);
        ticket
    }

    /// The next answer to a request, if it has come.
    pub fn take(&mut self, ticket: Ticket) -> Option<Answer> {
        let answers = self.answers.get_mut(&ticket)?;
        let answer = answers.pop_front();
        if answers.is_empty() {
            self.answers.remove(&ticket);
        }
        answer
    }

    /// Drops a request that its caller has given up, with its answers. A lock is released.
    pub fn forget(&mut self, ticket: Ticket) {
        let request = self.requests.remove(&ticket);
        self.answers.remove(&ticket);
        self.waiting.remove(&ticket);
        // Where the message is lost with its session, the lock ends with its lease.
        if self.locks.forget(ticket) || matches!(request, Some(ToFileServer::Lock(_))) {
            let identity = Identity { publisher: self.publisher, number: ticket.0 };
            self.say(Unlock { identity });
        }
    }

    /// Asks for the lock of a path of a site, which need not be there. [`Answer::Locked`] follows when its holders
    /// before have released it. The ticket's waiter is woken when the lock is recalled or has ended; [`Client::forget`]
    /// releases it.
    pub fn lock(&mut self, now: Time, SiteKey { space, name: site }: SiteKey, path: &Path) -> Ticket {
        self.now = now;
        self.last += 1;
        let ticket = Ticket(self.last);
        let identity = Identity { publisher: self.publisher, number: ticket.0 };
        let message = ToFileServer::from(Lock { identity, space, site, path: bytes_of(path) });
        self.say(message.clone());
        self.requests.insert(ticket, message);
        self.locks.ask_at(now);
        self.pump();
        ticket
    }

    /// The state of a lock that was granted; over for others.
    pub fn lock_state(&self, now: Time, ticket: Ticket) -> LockState {
        self.locks.state(now, ticket)
    }

    /// Holds a revision of a site for as long as this client lives. `life` is drawn at random.
    pub fn hold(&mut self, now: Time, key: SiteKey, number: Number, life: u64) {
        let taker = Taker::new(key, 0, life, Broken::NONE);
        self.reading = Some(Reading { taker, number, newest: Number::NONE, is_refused: None });
        self.now = now;
        self.pump();
    }

    /// Whether the revision is held; none while that is not known. [`HELD`] is woken when it is.
    pub fn is_held(&self) -> Option<bool> {
        let reading = self.reading.as_ref()?;
        if reading.taker.is_joined() {
            return Some(reading.taker.holds(reading.number));
        }
        (reading.is_refused? != NotNow::NotYet).then_some(false)
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    fn say(&mut self, message: impl Into<ToFileServer>) {
        if self.is_up {
            self.outputs.push_back(Output::Send(Port::SERVER, Parcel::new(message.into()), None));
        }
    }

    fn answer(&mut self, ticket: u64, answer: Answer) {
        let ticket = Ticket(ticket);
        let Some(request) = self.requests.get(&ticket) else { return };
        let waits = matches!(request, ToFileServer::Switch(switch) if switch.waits);
        let is_more_to_come = waits && matches!(answer, Answer::Published { .. });
        // In a later session it is said again that the publish is durable.
        if is_more_to_come && !self.waiting.insert(ticket) {
            return;
        }
        if !is_more_to_come {
            self.requests.remove(&ticket);
            self.waiting.remove(&ticket);
        }
        self.answers.entry(ticket).or_default().push_back(answer);
        self.outputs.push_back(Output::Wake(Waiter(ticket.0)));
    }

    fn arrived(&mut self, hash: ChunkHash, bytes: Option<Bytes>) {
        let bytes = bytes.filter(|bytes| ChunkHash::of(bytes) == hash);
        for Ticket(ticket) in self.wants.remove(&hash).unwrap_or_default() {
            self.answer(ticket, Answer::Chunk(bytes.clone()));
        }
    }

    /// Ends the locks whose lease is over, and asks for more of the lease of the others.
    fn keep_locks(&mut self, now: Time) {
        for Ticket(number) in self.locks.expire(now) {
            // The server would renew it with the others of the session.
            self.say(Unlock { identity: Identity { publisher: self.publisher, number } });
            self.outputs.push_back(Output::Wake(Waiter(number)));
        }
        let waits = self.requests.values().any(|request| matches!(request, ToFileServer::Lock(_)));
        if self.is_up
            && let Some(keep) = self.locks.keep(now, self.publisher, waits)
        {
            self.say(keep);
        }
    }

    fn pump(&mut self) {
        let (now, is_up) = (self.now, self.is_up);
        self.keep_locks(now);
        let Some(reading) = self.reading.as_mut().filter(|_| is_up) else { return };
        let number = reading.number;
        // Without this, a reader would hold every revision that is published while it reads.
        let unused = |held: &&Number| **held != number && **held != reading.newest;
        let freed: Vec<Number> = reading.taker.held().iter().filter(unused).copied().collect();
        for number in freed {
            reading.taker.release(number);
        }
        let join = reading.taker.join(now, (number, number), [number].into_iter());
        // It serves no revision as the newest, so no publisher waits for it.
        let renew = reading.taker.renewal(now, reading.newest);
        let messages = join.map(ToFileServer::from).into_iter().chain(renew.map(ToFileServer::from));
        messages.collect::<Vec<_>>().into_iter().for_each(|message| self.say(message));
    }

    fn hear(&mut self, message: FromFileServer) {
        let now = self.now;
        match message {
            FromFileServer::Missing(missing) => self.answer(missing.ticket, Answer::Missing(missing.hashes)),
            FromFileServer::Stored(stored) => self.answer(stored.ticket, Answer::Stored),
            FromFileServer::Published(Published { ticket, number, root, is_new }) => {
                self.answer(ticket, Answer::Published { revision: Revision { number, root }, is_new });
            }
            FromFileServer::Everywhere(everywhere) => self.answer(everywhere.ticket, Answer::Everywhere),
            FromFileServer::Changed(changed) => self.answer(changed.ticket, Answer::Changed),
            FromFileServer::Collected(collected) => {
                let swept = Swept { chunks: collected.chunks, bytes: collected.bytes };
                self.answer(collected.ticket, Answer::Collected(swept));
            }
            FromFileServer::Surveyed(Surveyed { ticket, head, subscribers }) => {
                self.answer(ticket, Answer::Surveyed(head, subscribers));
            }
            FromFileServer::Refused(Refused { ticket, why, head, text }) => {
                self.answer(ticket, Answer::Refused(why, head, text));
            }
            FromFileServer::Elsewhere(Elsewhere { address }) => self.way = Some(address),
            FromFileServer::HandedOver(HandedOver { ticket, term, lease_ms, is_last, hashes }) => {
                self.handed_over.extend(hashes);
                if is_last {
                    let hashes = mem::take(&mut self.handed_over);
                    let lease = Duration::from_millis(lease_ms.into());
                    self.answer(ticket, Answer::HandedOver { term, lease, hashes });
                }
            }
            FromFileServer::Chunk(Chunk { hash, bytes }) => self.arrived(hash, Some(bytes)),
            FromFileServer::Gone(Gone { hash }) => self.arrived(hash, None),
            FromFileServer::Unread(Unread { hash, text }) => {
                for Ticket(ticket) in self.wants.remove(&hash).unwrap_or_default() {
                    self.answer(ticket, Answer::Refused(Refusal::Failed, Number::NONE, text.clone()));
                }
            }
            FromFileServer::Locked(Locked { ticket, token, number, root }) => {
                if matches!(self.requests.get(&Ticket(ticket)), Some(ToFileServer::Lock(_))) {
                    self.locks.granted(Ticket(ticket), token);
                    self.answer(ticket, Answer::Locked(Locking { token, number, root }));
                }
            }
            FromFileServer::LocksKept(kept) => self.locks.kept(now, kept),
            FromFileServer::RecallLock(RecallLock { token }) => {
                let recalled = self.locks.recalled(token);
                self.outputs.extend(recalled.map(|Ticket(ticket)| Output::Wake(Waiter(ticket))));
            }
            FromFileServer::LockOver(LockOver { token }) => {
                let over = self.locks.over(token);
                self.outputs.extend(over.map(|Ticket(ticket)| Output::Wake(Waiter(ticket))));
            }
            other => self.hear_of_hold(now, other),
        }
    }

    fn hear_of_hold(&mut self, now: Time, message: FromFileServer) {
        let Some(reading) = &mut self.reading else { return };
        match message {
            FromFileServer::Joined(joined) => {
                reading.newest = reading.newest.max(joined.number);
                reading.taker.joined(now, &joined);
                if reading.newest > reading.number {
                    reading.taker.report_now(now);
                }
            }
            FromFileServer::NotJoined(NotJoined { why, .. }) => {
                reading.is_refused = Some(why);
                reading.taker.ask_at(now + AGAIN_AFTER);
            }
            FromFileServer::Renewed(renewed) => reading.taker.renewed(now, &renewed),
            FromFileServer::Lapsed(Lapsed { .. }) => reading.taker.ask_at(now),
            FromFileServer::Invalidate(Invalidate { number, reports, .. }) => {
                reading.newest = reading.newest.max(number);
                if reports {
                    reading.taker.report_now(now);
                }
                return;
            }
            FromFileServer::Revoke(Revoke { .. }) => {
                if let Some(release) = reading.taker.release_share() {
                    self.say(release);
                }
                return;
            }
            FromFileServer::Offer(offer) => {
                reading.newest = reading.newest.max(offer.number);
                reading.taker.promised(offer.number);
                if offer.reports {
                    reading.taker.report_now(now);
                }
                return;
            }
            _ => return,
        }
        self.outputs.push_back(Output::Wake(HELD));
    }
}

fn bytes_of(path: &Path) -> Vec<u8> {
    path.names().iter().map(Name::as_bytes).collect::<Vec<_>>().join(&b'/')
}

impl Machine for Client {
    fn start(&mut self, now: Time) {
        self.now = now;
    }

    fn connected(&mut self, now: Time, _: Port) {
        (self.now, self.is_up) = (now, true);
        if let Some(space) = self.space.clone() {
            self.say(Enter { space });
        }
        let requests: Vec<ToFileServer> = self.requests.values().cloned().collect();
        for request in requests {
            self.say(request);
        }
        self.locks.connected(now);
        self.pump();
    }

    fn disconnected(&mut self, now: Time, _: Port) {
        (self.now, self.is_up) = (now, false);
        self.handed_over.clear();
        if let Some(reading) = &mut self.reading {
            reading.taker.lost();
        }
    }

    fn handle(&mut self, now: Time, _: Port, message: Parcel) {
        self.now = now;
        self.hear(message.expect());
        self.pump();
    }

    fn close(&mut self, _: Time) {
        self.outputs.push_back(Output::Closed);
    }

    /// Wakes all callers: the client is over, and no answer follows.
    fn stop(&mut self, _: &str) {
        self.is_over = true;
        self.outputs.clear();
        self.outputs.push_back(Output::Wake(HELD));
        self.outputs.extend(self.requests.keys().map(|ticket| Output::Wake(Waiter(ticket.0))));
        self.outputs.extend(self.locks.tickets().map(|ticket| Output::Wake(Waiter(ticket.0))));
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let waits = self.requests.values().any(|request| matches!(request, ToFileServer::Lock(_)));
        let reading = self.reading.as_ref().map(|reading| reading.taker.due());
        let asks = reading.into_iter().chain(self.locks.keep_at(waits)).filter(|_| self.is_up);
        asks.chain(self.locks.next_end()).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        self.pump();
    }

    fn way(&mut self, _: Time, _: UpstreamId) -> Option<String> {
        self.way.take()
    }

    fn has_way(&self, _: UpstreamId) -> bool {
        self.way.is_some()
    }
}
