//! Room in the MOB, and the requests that wait for it.
//!
//! ```text
//!   commit, grant --room now--> goes on        Later: write-back is at work
//!        |                         ^           Never: it cannot help; what waits is refused
//!        +--Later--> parked -------+
//! ```
//! 1. Commits and grants wait in the order in which they came, behind those whose turn it is and that wait for room
//!    where they are (see `turns`). So a full MOB slows them down and fails none.
//! 2. A master whose home is full refuses at once what it has no room for. A home without room makes none for new
//!    pages.
//! 3. A change that makes the store larger leaves some room, so that a store whose disk is full still takes those that
//!    do not.
//! 4. The waiting requests are bounded: commits by their coordinator, in bytes; grants by their number for a session.

use crate::Master;
use crate::need::Need;
use crate::ticket::Ticket;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use messages::{CommitRequest, Grant};
use types::{Map, Refusal, SessionId, Time};

/// Room in the MOB that new pages may not take, in bytes at most; an eighth of it if that is less.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A request that waits for room.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A commit that is not prepared.
    Commit(Ticket),
    /// A session wants pages.
    Grant(SessionId, Grant),
}

/// The requests that wait for room, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    waiting: VecDeque<Waiting>,
    /// How many grants each session waits for.
    grants: Map<SessionId, usize>,
}

impl Parked {
    /// The commits that wait for room, oldest first.
    pub(crate) fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        self.waiting.iter().filter_map(|waiting| match waiting {
            Waiting::Commit(ticket) => Some(ticket),
            Waiting::Grant(..) => None,
        })
    }

    /// How many grants a session waits for.
    pub(crate) fn grants(&self, of: SessionId) -> usize {
        self.grants.get(&of).copied().unwrap_or_default()
    }

    /// Adds a request behind the others.
    pub(crate) fn push(&mut self, waiting: Waiting) {
        if let Waiting::Grant(session, _) = waiting {
            *self.grants.entry(session).or_default() += 1;
        }
        self.waiting.push_back(waiting);
    }

    /// Takes out the commits that are meant.
    pub(crate) fn take(&mut self, is_meant: impl Fn(&Ticket) -> bool) -> Vec<Ticket> {
        let mut taken = Vec::new();
        for waiting in core::mem::take(&mut self.waiting) {
            match waiting {
                Waiting::Commit(ticket) if is_meant(&ticket) => taken.push(ticket),
                other => self.waiting.push_back(other),
            }
        }
        taken
    }

    fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.waiting.pop_front()?;
        if let Waiting::Grant(session, _) = waiting {
            match self.grants.get_mut(&session) {
                Some(grants) if *grants > 1 => *grants -= 1,
                _ => drop(self.grants.remove(&session)),
            }
        }
        Some(waiting)
    }
}

/// Whether there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Now,
    /// Write-back is about to make some.
    Later,
    /// None can be made.
    Never,
}

impl Master {
    /// Whether a commit writes to a page of this node that nothing is in.
    pub fn fills_new_pages(&self, request: &CommitRequest) -> bool {
        let is_new = |page| self.shards.serves(self.config.sharding.of(page)) && self.pages.is_empty(page);
        request.writes.iter().any(|delta| is_new(delta.page))
    }

    /// Whether the disk had no room for the last batch that was written back.
    pub fn is_home_full(&self) -> bool {
        self.writeback.is_home_full()
    }

    pub(crate) fn room_for(&self, need: Need) -> Room {
        if self.fits(need) {
            return Room::Now;
        }
        if self.writeback.is_home_full() { Room::Never } else { Room::Later }
    }

    fn fits(&self, need: Need) -> bool {
        let waiting = self.pages.mob().bytes() + self.pages.prepared_bytes();
        let limit = self.config.mob_bytes_limit;
        let kept = if need.is_new { (limit / 8).min(KEPT_BYTES_MAX) } else { 0 };
        waiting == 0 || waiting + need.mob_bytes + kept <= limit
    }

    /// Whether any request waits for room.
    pub(crate) fn is_short_of_room(&self) -> bool {
        self.turns.lacks_room() || !self.parked.waiting.is_empty()
    }

    /// Continues with requests for which there is room now.
    pub(crate) fn unpark(&mut self, now: Time) {
        if self.turns.lacks_room() {
            return;
        }
        while let Some(first) = self.parked.waiting.front() {
            let room = match first {
                Waiting::Commit(ticket) => self.room_for(ticket.need()),
                Waiting::Grant(..) => self.room_for_grant(),
            };
            if room == Room::Later && !self.closing {
                return;
            }
            match self.parked.pop().expect("just seen") {
                Waiting::Commit(ticket) => self.unpark_commit(now, ticket, room),
                Waiting::Grant(session, grant) => self.unpark_grant(session, grant, room),
            }
        }
    }

    fn unpark_commit(&mut self, now: Time, ticket: Ticket, room: Room) {
        let Some(ticket) = self.end_wait(ticket) else { return };
        match room {
            Room::Never => self.refuse(&ticket, Refusal::StoreFull),
            Room::Now | Room::Later => self.judge(now, ticket),
        }
    }
}
