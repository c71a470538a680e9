//! The client role: a page cache, transactions and their commit requests, as a pure machine.
//!
//! # How it is called
//! By the hands: [`Client::connected`], [`Client::handle`], [`Client::disconnected`], [`Client::handle_timeout`]. By
//! the application's threads, under the same short lock: [`Client::begin`], [`Client::read`] and the rest. After each
//! of them [`Client::poll_output`] until it gives nothing, then [`Client::poll_timeout`] for when to call
//! [`Client::handle_timeout`]. `now` never goes back.
//!
//! A call that cannot be answered from the cache says `Wait`; [`Output::Wake`] says when to call again. A read that
//! hits is a function call: it sends nothing and allocates nothing.
#![no_std]

extern crate alloc;

mod commit;
mod config;
mod create;
mod fetch;
mod inspect;
mod notice;
mod prefetch;
mod room;
mod session;
mod txns;
mod waiting;
mod workspace;

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use bytes::Bytes;
use cache::{Cache, FrameNo, Slot};
use commit::Commits;
pub use config::Config;
use create::Allocator;
use fetch::Fetches;
use prefetch::Prefetch;
use protocol::{Message, Notice, Pong};
use session::{Phase, Session};
use txns::{State, Txns};
use types::limits::{PAGE_BYTES_TARGET, SLOTS_MAX};
use types::{ClientId, GoodbyeReason, ObjectId, ObjectPage, Rule, Time, TxnId};
use workspace::Workspace;

/// A running transaction of this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnHandle(pub u64);

/// What the machine wants done.
#[derive(Debug)]
pub enum Output {
    /// Send a message to the store.
    Send(Message),
    /// What this transaction waits for has happened: call again.
    Wake(TxnHandle),
    /// The link is no good: drop it and, unless the reason is final, connect again.
    Hangup {
        /// Why, by name.
        reason: GoodbyeReason,
        /// Why, for a person.
        text: String,
    },
}

/// What a read gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'a> {
    /// The object's value.
    Value(&'a [u8]),
    /// There is no such object.
    Absent,
    /// Not in the cache: call again when woken.
    Wait,
}

/// What a write gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// It is in the transaction's workspace.
    Done,
    /// The page is not in the cache: call again when woken.
    Wait,
    /// The page has no room for a value of this size: store it elsewhere and write a short reference here.
    Full,
}

/// What a creation gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// The new object, in the transaction's workspace.
    Object(ObjectId),
    /// No page to create it in yet: call again when woken.
    Wait,
}

/// Why a transaction cannot go on. It has no effect; abort it and begin again, or give up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnError {
    /// It has read what others have changed since. Begin again.
    Doomed,
    /// It writes more than one transaction may. Split it.
    TooLarge,
    /// The handle is of a transaction that has ended.
    Ended,
    /// The store could not be reached for as long as the client is patient.
    Unreachable,
    /// The store has ended the session for good.
    Refused(GoodbyeReason, String),
    /// The store has no room for new objects.
    StoreFull,
}

/// What a client can say of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Reads answered from the cache.
    pub hits: u64,
    /// Reads that had to wait for a page.
    pub misses: u64,
    /// Fetch messages sent: each is one round trip.
    pub fetches: u64,
    /// Pages that arrived.
    pub pages_fetched: u64,
    /// Pages that arrived by prefetch, and of those the ones that were read later.
    pub pages_prefetched: u64,
    /// Prefetched pages that were read.
    pub prefetch_hits: u64,
    /// Commits acknowledged, read-only ones included.
    pub commits: u64,
    /// Commit requests refused.
    pub refused: u64,
    /// Transactions doomed before they asked to commit.
    pub doomed: u64,
    /// Commit requests sent, read-only ones included.
    pub commit_requests: u64,
    /// Bytes of page images in the cache.
    pub cache_bytes: u64,
    /// Pages in the cache.
    pub cache_pages: u64,
    /// Sessions that were opened.
    pub sessions: u64,
}

/// The machine.
#[derive(Debug)]
pub struct Client {
    config: Config,
    id: ClientId,
    cache: Cache,
    session: Session,
    txns: Txns,
    fetches: Fetches,
    prefetch: Prefetch,
    commits: Commits,
    allocator: Allocator,
    outputs: VecDeque<Output>,
    stats: Stats,
}

/// Where the value of an object is.
enum Found {
    /// In the workspace, at this place.
    Own(usize),
    /// In the cache.
    Cached(FrameNo),
    /// The page does not exist.
    Nowhere,
    /// Not here.
    Fault,
}

impl Client {
    /// A client with an empty cache.
    pub fn new(config: Config, id: ClientId) -> Self {
        Self {
            id,
            cache: Cache::new(config.cache_bytes_limit, config.broken),
            session: Session::new(),
            txns: Txns::default(),
            fetches: Fetches::default(),
            prefetch: Prefetch::new(config.prefetch_pages_max.min(prefetch_pages_limit(&config))),
            commits: Commits::default(),
            allocator: Allocator::new(config.grant_pages),
            outputs: VecDeque::new(),
            stats: Stats::default(),
            config,
        }
    }

    /// A link to the store is up: says hello.
    pub fn connected(&mut self, now: Time) {
        self.session_is_down(now);
        self.say_hello(now);
    }

    /// The link is gone. The cache and the running transactions stay.
    pub fn disconnected(&mut self, now: Time) {
        self.session_is_down(now);
    }

    /// A message has come in.
    pub fn handle(&mut self, now: Time, message: Message) {
        self.heard(now);
        match (&self.session.phase, message) {
            // What comes after we gave the link up is of no account, and a pong has done its duty by being heard.
            (Phase::Down | Phase::Over(..), _) | (Phase::Rejoining | Phase::Live, Message::Pong(_)) => {}
            (_, Message::Goodbye(goodbye)) => self.goodbye(now, goodbye),
            (Phase::Greeting, Message::Welcome(welcome)) => self.welcome(now, &welcome),
            (Phase::Rejoining, Message::Rejoined(rejoined)) => self.rejoined(now, rejoined),
            (Phase::Rejoining | Phase::Live, Message::Notices(notices)) => self.notices(now, &notices),
            (Phase::Live, Message::Page(page)) => self.page(now, page),
            (Phase::Live, Message::Missing(missing)) => self.missing(now, &missing),
            (Phase::Live, Message::CommitReply(reply)) => self.commit_reply(now, reply),
            (Phase::Live, Message::Granted(granted)) => self.granted(now, &granted),
            (Phase::Rejoining | Phase::Live, Message::Ping(ping)) => {
                self.send(now, Message::Pong(Pong { nonce: ping.nonce }));
            }
            (phase, _) => {
                let text = format!("a message that a store does not send to a client that is {phase:?}");
                self.hang_up(now, GoodbyeReason::Malformed, text);
            }
        }
    }

    /// What the machine wants done next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Client::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.session.poll_timeout(self.config.patience, &self.txns)
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        self.session_timeout(now);
    }

    /// Begins a transaction.
    pub fn begin(&mut self, _now: Time) -> TxnHandle {
        self.txns.begin()
    }

    /// Whether the transaction can go on: what any other call on it would say, without its effects.
    pub fn check(&mut self, txn: TxnHandle) -> Result<(), TxnError> {
        self.txns.running(txn).map(drop)
    }

    /// Reads an object.
    pub fn read(&mut self, now: Time, txn: TxnHandle, object: ObjectId) -> Result<Read<'_>, TxnError> {
        match self.locate(txn, object)? {
            Found::Cached(frame) => {
                self.stats.hits += 1;
                Ok(match self.cache.at(frame).slot(object.slot) {
                    Slot::Value(value) => Read::Value(value),
                    Slot::Free | Slot::Hole => Read::Absent,
                })
            }
            Found::Own(place) => {
                let workspace = &self.txns.running(txn)?.workspace;
                Ok(workspace.own(place, object).map_or(Read::Absent, |value| Read::Value(value)))
            }
            Found::Nowhere => Ok(Read::Absent),
            Found::Fault => self.fault(now, txn, object.page).map(|()| Read::Wait),
        }
    }

    /// Gives an object a new value; a slot that was free becomes an object.
    pub fn write(&mut self, now: Time, txn: TxnHandle, object: ObjectId, value: Bytes) -> Result<Write, TxnError> {
        self.change(now, txn, object, Some(value))
    }

    /// Ends an object.
    pub fn delete(&mut self, now: Time, txn: TxnHandle, object: ObjectId) -> Result<Write, TxnError> {
        self.change(now, txn, object, None)
    }

    /// Drops the transaction and all it did. Also how a handle is ended after an error.
    pub fn abort(&mut self, now: Time, txn: TxnHandle) {
        let Some(ended) = self.txns.end(txn) else { return };
        if let State::Committing(number) = ended.state {
            let taken = self.commits.abandon(number);
            return self.give_back(&taken.unwrap_or_default());
        }
        if self.config.broken.is(Rule::DropWorkspace) {
            self.leave_traces(&ended.workspace);
        }
        self.allocator.check_in(ended.chains);
        self.give_back(&ended.taken);
        self.let_go(now, &ended.workspace);
    }

    /// What the client can say of itself.
    pub fn stats(&self) -> Stats {
        Stats { cache_bytes: self.cache.bytes() as u64, cache_pages: self.cache.len() as u64, ..self.stats }
    }

    /// Finds an object, and marks it as read if it is in the cache.
    #[inline]
    fn locate(&mut self, txn: TxnHandle, object: ObjectId) -> Result<Found, TxnError> {
        let workspace = &mut self.txns.running(txn)?.workspace;
        let place = workspace.find(object.page);
        if place.is_some_and(|place| workspace.at(place).written(object.slot).is_some()) {
            return Ok(place.map_or(Found::Nowhere, Found::Own));
        }
        let known = place.and_then(|place| workspace.at(place).frame);
        let known = known.filter(|&frame| self.cache.is_at(frame, object.page));
        let frame = match known.or_else(|| self.cache.find(object.page)) {
            Some(frame) if !self.cache.at(frame).is_hole(object.slot) => frame,
            None if workspace.is_missing(object.page) => return Ok(Found::Nowhere),
            _ => return Ok(Found::Fault),
        };
        if usize::from(object.slot) >= SLOTS_MAX {
            return Ok(Found::Nowhere);
        }
        let place = match place {
            Some(place) => place,
            None => workspace.touch(object.page, Some(frame)).map_err(|_| TxnError::TooLarge)?,
        };
        if known.is_none() {
            workspace.at_mut(place).frame = Some(frame);
        }
        workspace.mark_read(place, object.slot);
        if known.is_none() && self.cache.count_use(frame) {
            self.prefetch_was_used(object.page);
        }
        Ok(Found::Cached(frame))
    }

    /// Lets an aborted transaction's writes into the cache, which the rule forbids.
    fn leave_traces(&mut self, workspace: &Workspace) {
        for touched in workspace.pages().iter().filter(|touched| touched.has_writes()) {
            let Some(frame) = self.cache.get(touched.page) else { continue };
            let (prev, version) = (frame.version(), frame.version());
            let slots = touched.writes().iter().map(|change| change.slot).collect();
            self.cache.puncture(touched.page, &slots);
            let txn = TxnId { client: self.id, number: 0 };
            let data = Some(touched.writes().to_vec());
            self.cache.apply(&Notice { page: touched.page, prev, version, slots, txn, data });
        }
    }

    fn change(&mut self, now: Time, txn: TxnHandle, object: ObjectId, value: Option<Bytes>) -> Result<Write, TxnError> {
        if usize::from(object.slot) >= SLOTS_MAX {
            return Ok(Write::Full);
        }
        match self.locate(txn, object)? {
            Found::Fault => return self.fault(now, txn, object.page).map(|()| Write::Wait),
            Found::Own(_) | Found::Cached(_) | Found::Nowhere => {}
        }
        Ok(if self.put_over(txn, object, value)? { Write::Done } else { Write::Full })
    }

    /// Puts a value over an object's; says whether there is room.
    fn put_over(&mut self, txn: TxnHandle, object: ObjectId, value: Option<Bytes>) -> Result<bool, TxnError> {
        let workspace = &mut self.txns.running(txn)?.workspace;
        let frame = self.cache.find(object.page);
        let place = match workspace.find(object.page) {
            Some(place) => place,
            None => workspace.touch(object.page, frame).map_err(|_| TxnError::TooLarge)?,
        };
        let empty = ObjectPage::empty();
        let image = frame.map_or(&empty, |frame| self.cache.at(frame).page());
        let room = workspace.write(place, object.slot, value, image).map_err(|_| TxnError::TooLarge)?;
        if room.is_ok() {
            workspace.mark_read(place, object.slot);
        }
        Ok(room.is_ok())
    }
}

/// Prefetched pages never crowd out a small cache.
fn prefetch_pages_limit(config: &Config) -> u32 {
    (config.cache_bytes_limit / (4 * PAGE_BYTES_TARGET)) as u32
}
