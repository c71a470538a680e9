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

use alloc::string::String;
use bytes::Bytes;
use core::time::Duration;
use protocol::{Message, Outcome};
use types::{Broken, ClientId, GoodbyeReason, ObjectId, Time, TxnId};

/// A running transaction of this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnHandle(pub u64);

/// What a user may tune.
#[derive(Clone, Debug)]
pub struct Config {
    /// Page images kept, in bytes.
    pub cache_bytes_limit: usize,
    /// The most pages that one fault prefetches; zero turns prefetching off.
    pub prefetch_pages_max: u32,
    /// Pages asked for in one grant.
    pub grant_pages: u32,
    /// How long a transaction waits for a store that cannot be reached before it gives up.
    pub patience: Duration,
    /// The rule that is taken out, in tests of the checkers.
    pub broken: Broken,
}

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
pub struct Client {}

#[expect(unused_variables, clippy::needless_pass_by_value, clippy::unused_self, reason = "skeleton")]
impl Client {
    /// A client with an empty cache.
    pub fn new(config: Config, id: ClientId) -> Self { todo!() }
    /// A link to the store is up: says hello.
    pub fn connected(&mut self, now: Time) { todo!() }
    /// The link is gone. The cache and the running transactions stay.
    pub fn disconnected(&mut self, now: Time) { todo!() }
    /// A message has come in.
    pub fn handle(&mut self, now: Time, message: Message) { todo!() }
    /// What the machine wants done next.
    pub fn poll_output(&mut self) -> Option<Output> { todo!() }
    /// When [`Client::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> { todo!() }
    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) { todo!() }

    /// Begins a transaction.
    pub fn begin(&mut self, now: Time) -> TxnHandle { todo!() }
    /// Whether the transaction can go on: what any other call on it would say, without its effects.
    pub fn check(&self, txn: TxnHandle) -> Result<(), TxnError> { todo!() }
    /// Reads an object.
    pub fn read(&mut self, now: Time, txn: TxnHandle, object: ObjectId) -> Result<Read<'_>, TxnError> { todo!() }
    /// Gives an object a new value; a slot that was free becomes an object.
    pub fn write(&mut self, now: Time, txn: TxnHandle, object: ObjectId, value: Bytes) -> Result<Write, TxnError> { todo!() }
    /// Ends an object.
    pub fn delete(&mut self, now: Time, txn: TxnHandle, object: ObjectId) -> Result<Write, TxnError> { todo!() }
    /// Creates an object, in the page of `near` if it has room, else in pages that lie close to each other.
    pub fn create(&mut self, now: Time, txn: TxnHandle, volume: u32, near: Option<ObjectId>, value: Bytes) -> Result<Created, TxnError> { todo!() }
    /// Asks for the transaction to be committed; [`Client::outcome`] has the answer after [`Output::Wake`].
    pub fn commit(&mut self, now: Time, txn: TxnHandle) -> Result<TxnId, TxnError> { todo!() }
    /// The outcome of a commit, once; the handle ends with it. `Ok(None)`: not yet.
    pub fn outcome(&mut self, txn: TxnHandle) -> Result<Option<Outcome>, TxnError> { todo!() }
    /// Drops the transaction and all it did. Also how a handle is ended after an error.
    pub fn abort(&mut self, now: Time, txn: TxnHandle) { todo!() }
    /// What the client can say of itself.
    pub fn stats(&self) -> Stats { todo!() }
}
