//! The locks of a publisher, as it has them.
//!
//! ```text
//!   asked --Locked--> held --RecallLock--> recalled       renewed while held, and while others are asked for
//!                       |                      |
//!                       +----------------------+--LockOver, or the lease is over--> over
//! ```
//! The lease counts from the question (**LeaseWithin**), and runs on while there is no session (**EndByLease**). Locks
//! that were granted in an earlier session are brought to the next one.

use super::Ticket;
use crate::messages::{KeepLocks, LocksKept, Token};
use crate::number::Number;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;
use tree::ChunkHash;
use types::Time;

/// How soon a lease is asked for again whose length is not known yet.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The least time between two renewals.
const RENEW_AFTER: Duration = Duration::from_millis(10);

/// A lock that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locking {
    /// The lock, for a publish under it.
    pub token: Token,
    /// The newest revision at that time. No other publisher changes the path in a later one while the lock is held.
    pub number: Number,
    /// Its tree, if there was one.
    pub root: Option<ChunkHash>,
}

/// The state of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// This publisher alone changes the path.
    Held,
    /// Held until the lease ends. Others wait for the lock, so the holder should publish and release it.
    Recalled,
    /// Others may change the path.
    Over,
}

#[derive(Debug)]
struct Held {
    token: Token,
    until: Time,
    is_recalled: bool,
}

/// The locks of a publisher.
#[derive(Debug, Default)]
pub(super) struct Locks {
    held: BTreeMap<Ticket, Held>,
    /// The end of the lease that was asked for last, and its length.
    until: Time,
    length: Duration,
    keep_at: Time,
    /// Whether the locks must be brought to a new session.
    is_new_session: bool,
}

impl Locks {
    /// A question for the lease is due.
    pub(super) fn ask_at(&mut self, at: Time) {
        self.keep_at = at;
    }

    /// There is a new session.
    pub(super) fn connected(&mut self, now: Time) {
        (self.keep_at, self.is_new_session) = (now, true);
    }

    /// The question that is due; `waits` if locks are asked for.
    pub(super) fn keep(&mut self, now: Time, publisher: u64, waits: bool) -> Option<KeepLocks> {
        if now < self.keep_at(waits)? {
            return None;
        }
        // Without an answer, it is asked again.
        self.keep_at = now + self.interval();
        let is_new_session = mem::take(&mut self.is_new_session);
        let tokens = self.held.values().filter(|_| is_new_session).map(|held| held.token).collect();
        Some(KeepLocks { asked: now, publisher, tokens })
    }

    fn interval(&self) -> Duration {
        if self.length.is_zero() { ANSWER_WITHIN } else { (self.length / 3).max(RENEW_AFTER) }
    }

    /// When the next question is due, if there is something to keep or `waits`.
    pub(super) fn keep_at(&self, waits: bool) -> Option<Time> {
        (waits || !self.held.is_empty()).then_some(self.keep_at)
    }

    /// A question was answered.
    pub(super) fn kept(&mut self, now: Time, LocksKept { asked, lease_ms }: LocksKept) {
        if asked > now {
            return;
        }
        self.length = Duration::from_millis(lease_ms.into());
        self.until = self.until.max(asked + self.length);
        self.keep_at = now + self.interval();
        for held in self.held.values_mut().filter(|held| !held.is_recalled) {
            held.until = self.until;
        }
    }

    /// A lock was granted, under the lease of the last answer.
    pub(super) fn granted(&mut self, ticket: Ticket, token: Token) {
        self.held.insert(ticket, Held { token, until: self.until, is_recalled: false });
    }

    /// A lock was recalled. Returns its ticket if that is new.
    pub(super) fn recalled(&mut self, token: Token) -> Option<Ticket> {
        let (ticket, held) = self.held.iter_mut().find(|(_, held)| held.token == token)?;
        (!mem::replace(&mut held.is_recalled, true)).then_some(*ticket)
    }

    /// A lock has ended. Returns its ticket.
    pub(super) fn over(&mut self, token: Token) -> Option<Ticket> {
        let ticket = self.held.iter().find_map(|(ticket, held)| (held.token == token).then_some(*ticket))?;
        self.held.remove(&ticket);
        Some(ticket)
    }

    /// Ends the locks whose lease is over. Returns their tickets.
    pub(super) fn expire(&mut self, now: Time) -> Vec<Ticket> {
        let over = self.held.iter().filter(|(_, held)| now >= held.until).map(|(ticket, _)| *ticket);
        let over: Vec<Ticket> = over.collect();
        for ticket in &over {
            self.held.remove(ticket);
        }
        over
    }

    /// When a lease is over next.
    pub(super) fn next_end(&self) -> Option<Time> {
        self.held.values().map(|held| held.until).min()
    }

    /// Releases a lock. Returns whether it was held.
    pub(super) fn forget(&mut self, ticket: Ticket) -> bool {
        self.held.remove(&ticket).is_some()
    }

    /// The locks that are held.
    pub(super) fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.held.keys().copied()
    }

    pub(super) fn state(&self, now: Time, ticket: Ticket) -> LockState {
        match self.held.get(&ticket).filter(|held| now < held.until) {
            None => LockState::Over,
            Some(held) if held.is_recalled => LockState::Recalled,
            Some(_) => LockState::Held,
        }
    }
}
