//! Room in the MOB and in the log, and the requests that wait for it.
//!
//! ```text
//!   commit, grant --room now--> goes on        Later: write-back is at work, or the log grows
//!        |                         ^           Never: neither can help; what waits is refused
//!        +--Later--> parked -------+
//! ```
//! 1. Commits and grants wait in the order in which they came, behind those whose turn it is and that wait for room
//!    where they are (see `turns`). So a full MOB or log slows them down and fails none.
//! 2. A store without any room refuses at once what it is asked for. A home without room makes none for new pages.
//! 3. A change that makes the store larger leaves some room, so that a store whose disk is full still takes those that
//!    do not.
//! 4. The waiting requests are bounded: commits by the coordinator, in bytes; grants by their number for a session.

use crate::need::Need;
use crate::ticket::Ticket;
use crate::{SessionId, Store};
use alloc::collections::VecDeque;
use messages::Grant;
use types::{Map, Refusal, Time};

/// Room in MOB and log that new pages may not take, in bytes at most; an eighth of each if that is less.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A request that waits for room.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A commit that is not logged yet.
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

    /// Lets somebody wait behind the others.
    pub(crate) fn push(&mut self, waiting: Waiting) {
        if let Waiting::Grant(session, _) = waiting {
            *self.grants.entry(session).or_default() += 1;
        }
        self.waiting.push_back(waiting);
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
    /// Write-back, or the disk, is about to make some.
    Later,
    /// None can be made.
    Never,
}

impl Store {
    /// Whether there is room. Has the disk asked for some if nothing else can make any.
    pub(crate) fn room_for(&mut self, need: Need) -> Room {
        if self.fits(need) {
            return Room::Now;
        }
        if self.writeback.is_home_full() {
            return Room::Never;
        }
        if !self.makes_no_room() {
            return Room::Later;
        }
        let (log_bytes, log_kept) = self.log_need(need);
        if self.log.make_room(log_bytes + log_kept, &mut self.out) {
            return Room::Later;
        }
        // The whole log is there for it: it is small, and nothing else is in it.
        if self.log.has_room(log_bytes) { Room::Now } else { Room::Never }
    }

    /// Whether who waits for this room should be looked at again: there is some, or nothing is on its way that makes
    /// any.
    pub(crate) fn wait_is_over(&self, need: Need) -> bool {
        self.fits(need) || self.writeback.is_home_full() || self.makes_no_room()
    }

    fn fits(&self, need: Need) -> bool {
        let waiting = self.master.mob().bytes() + self.master.prepared_bytes();
        let limit = self.config.mob_bytes_limit;
        let mob_kept = if need.is_new { (limit / 8).min(KEPT_BYTES_MAX) } else { 0 };
        let (log_bytes, log_kept) = self.log_need(need);
        (waiting == 0 || waiting + need.mob_bytes + mob_kept <= limit) && self.log.has_room(log_bytes + log_kept)
    }

    /// The bytes that the log must hold with it, and those that are kept of the log.
    fn log_need(&self, need: Need) -> (u64, u64) {
        let leased_log_bytes = self.leases.waiting_log_bytes();
        let kept = if need.is_new { (self.log.capacity_bytes() / 8).min(KEPT_BYTES_MAX as u64) } else { 0 };
        (need.log_bytes + leased_log_bytes, kept)
    }

    fn makes_no_room(&self) -> bool {
        !self.master.has_prepared() && !self.can_make_room()
    }

    /// Whether anybody waits for room.
    pub(crate) fn is_short_of_room(&self) -> bool {
        self.turns.lacks_room() || !self.parked.waiting.is_empty()
    }

    /// Lets those continue who waited for room.
    pub(crate) fn unpark(&mut self, now: Time) {
        if self.turns.lacks_room() {
            return;
        }
        while let Some(first) = self.parked.waiting.front() {
            let room = match first {
                Waiting::Commit(ticket) => {
                    let need = ticket.need();
                    self.room_for(need)
                }
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
        let Some(ticket) = self.end_wait(now, ticket) else { return };
        match room {
            Room::Never => self.refuse(now, &ticket, Refusal::StoreFull),
            Room::Now | Room::Later => self.prepare(now, ticket),
        }
    }
}
