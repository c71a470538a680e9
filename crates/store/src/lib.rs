//! The store role: coordinator, master and sequencer of one node, as a pure machine.
//!
//! # How it is called
//! [`Store::new`], then [`Store::recover`] for each record of the safe in order, then [`Store::start`]. From then on,
//! in any order: [`Store::connected`], [`Store::handle`], [`Store::disconnected`], [`Store::disk`],
//! [`Store::handle_timeout`]; and after each of them [`Store::poll_output`] until it gives nothing, then
//! [`Store::poll_timeout`] for when to call again. `now` never goes back.
#![no_std]

extern crate alloc;

pub mod work;

use alloc::string::String;
use core::time::Duration;
use protocol::Message;
use types::{Broken, GoodbyeReason, NodeId, Time};
pub use work::{
    Checkpoint, ClientOutcomes, CommitRecord, DiskDone, DiskWork, HomeImage, HomePage, Opened, Placement, Position,
    Record,
};

/// One connection of one client, numbered by the hands; a number is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// What a user may tune.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node's place in the store.
    pub node: NodeId,
    /// Committed deltas that may wait for write-back, in bytes.
    pub mob_bytes_limit: usize,
    /// Page images kept for fetches, in bytes.
    pub cache_bytes_limit: usize,
    /// Changes remembered slot by slot; beyond, laggards revalidate by page version.
    pub recent_limit: usize,
    /// The longest that a notice waits for a reply to ride on.
    pub notice_delay: Duration,
    /// A session that is silent for this long is dead.
    pub silence: Duration,
    /// How long the grants and outcomes of a client that is gone are kept for its return.
    pub grace: Duration,
    /// The rule that is taken out, in tests of the checkers.
    pub broken: Broken,
}

/// What the machine wants done.
#[derive(Debug)]
pub enum Output {
    /// Send a message on a session, once everything through `after` is durable; messages of one session keep their
    /// order.
    Send {
        /// The session.
        to: SessionId,
        /// The message.
        message: Message,
        /// What must be durable first, if anything.
        after: Option<Position>,
    },
    /// End a session, after what was sent before has gone out.
    End {
        /// The session.
        session: SessionId,
        /// Why, by name.
        reason: GoodbyeReason,
        /// Why, for a person.
        text: String,
    },
    /// Do disk work.
    Disk(DiskWork),
    /// All that was committed is home and every session has ended: the process may stop.
    Closed,
}

/// The machine.
#[derive(Debug)]
pub struct Store {}

/// What a store can say of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sessions.
    pub sessions: u64,
    /// Commits since the start.
    pub commits: u64,
    /// Refused commits since the start.
    pub refused: u64,
    /// Pages sent since the start.
    pub pages_sent: u64,
    /// Bytes of deltas that wait for write-back.
    pub mob_bytes: u64,
    /// Bytes of cached page images.
    pub cache_bytes: u64,
    /// Commits found in the safe at the start.
    pub recovered_commits: u64,
}

#[expect(unused_variables, clippy::needless_pass_by_value, clippy::unused_self, reason = "skeleton")]
impl Store {
    /// A store over what the hands have opened.
    pub fn new(config: Config, opened: Opened) -> Self { todo!() }
    /// Takes a record that the safe held.
    pub fn recover(&mut self, position: Position, record: Record) { todo!() }
    /// Everything has been recovered: places what was not placed, and opens for business.
    pub fn start(&mut self, now: Time) { todo!() }
    /// A connection has come in.
    pub fn connected(&mut self, now: Time, session: SessionId) { todo!() }
    /// A connection is gone.
    pub fn disconnected(&mut self, now: Time, session: SessionId) { todo!() }
    /// A message has come in on a session.
    pub fn handle(&mut self, now: Time, from: SessionId, message: Message) { todo!() }
    /// Disk work is done.
    pub fn disk(&mut self, now: Time, done: DiskDone) { todo!() }
    /// Refuses new commits, writes everything home, ends all sessions, then gives [`Output::Closed`].
    pub fn close(&mut self, now: Time) { todo!() }
    /// What the machine wants done next.
    pub fn poll_output(&mut self) -> Option<Output> { todo!() }
    /// When [`Store::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> { todo!() }
    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) { todo!() }
    /// What the store can say of itself.
    pub fn stats(&self) -> Stats { todo!() }
}
