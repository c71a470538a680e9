//! Turns: a commit that meets a prepared one waits for it instead of being refused.
//!
//! ```text
//!   prepare --meets a prepared one, or one that waits--> its turn --> prepare, as if it had just come
//!      |                                                  ^    ~~ one of the prepared has its place ~~
//!      +--neither--> log                                  +--still meets one--
//! ```
//! 1. A commit meets a prepared one if it has read what that one writes, or writes what that one has read while it waits
//!    for promises. What is to become of it can be said when the other has its place.
//! 2. Nothing that has come later and writes what a waiting commit has read goes before it: it would be found stale for
//!    that alone, again and again. Who only reads what it writes goes on, and is serial before it.
//! 3. It has no locks and no place in the log: when its turn comes, it is judged like one that has just come. If there is
//!    no room for it then, it waits for that with all behind it, in front of those who came later and wait for room too.
//! 4. Commits wait for those that came before them, and for prepared ones, which wait for nobody but redirectors, and for
//!    them no longer than a lease. So no circle of them waits for each other, and each has its turn.
//! 5. Who waits in vain is told of what has changed with the new values, and need not fetch them to come again: else
//!    whoever has won, and has them, would win again.
//! 6. Their number is bounded. Beyond, a commit is refused as busy. What they take of memory counts with what waits for room.

use crate::admission::Ticket;
use crate::room::Room;
use crate::{SessionId, Store, leases};
use alloc::collections::VecDeque;
use protocol::CommitRequest;
use types::{Delta, Refusal, Rule, Time};

/// The commits that wait their turn.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// In the order in which they came.
    waiting: VecDeque<Ticket>,
    /// Something that they may wait for is over.
    may_go: bool,
}

impl Turns {
    /// The commits that wait, in the order in which they came.
    pub(crate) fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        self.waiting.iter()
    }

    /// A prepared commit stands in nobody's way any more, or in fewer commits' way.
    pub(crate) fn make_way(&mut self) {
        self.may_go = true;
    }

    /// Whether a commit of the session waits that has read what is changed.
    pub(crate) fn waits_for(&self, session: SessionId, delta: &Delta) -> bool {
        let has_read = |ticket: &Ticket| {
            let reads = ticket.request.reads.binary_search_by_key(&delta.page, |reads| reads.page);
            reads.is_ok_and(|reads| ticket.request.reads[reads].slots.intersects(&delta.slots()))
        };
        self.waiting.iter().any(|ticket| ticket.from == session && has_read(ticket))
    }

    /// Whether the request would write what one that waits has read.
    fn is_behind(&self, request: &CommitRequest) -> bool {
        self.waiting.iter().any(|earlier| leases::writes_what_is_read(request, &earlier.request))
    }
}

impl Store {
    /// Whether a commit would overtake one that waits its turn.
    pub(crate) fn would_overtake(&self, request: &CommitRequest) -> bool {
        !self.config.broken.is(Rule::KeepTurns) && self.turns.is_behind(request)
    }

    /// A commit waits its turn, behind those that wait already.
    pub(crate) fn await_turn(&mut self, now: Time, ticket: Ticket) {
        if self.turns.waiting.len() >= self.config.limits.commits_in_turn {
            return self.refuse(now, &ticket, Refusal::Busy);
        }
        self.parked.begin_waiting(&ticket);
        self.turns.waiting.push_back(ticket);
    }

    /// Lets those go on whose turn has come. The others wait on, in the same order.
    pub(crate) fn take_turns(&mut self, now: Time) {
        if self.turns.waiting.is_empty() || !(core::mem::take(&mut self.turns.may_go) || self.closing) {
            return;
        }
        let mut turns = core::mem::take(&mut self.turns.waiting);
        while let Some(ticket) = turns.pop_front() {
            let Some(ticket) = self.end_wait(now, ticket) else { continue };
            match self.room_for(ticket.need()) {
                Room::Now => self.prepare(now, ticket),
                Room::Never => self.refuse(now, &ticket, Refusal::StoreFull),
                Room::Later => {
                    for behind in &turns {
                        self.parked.end_waiting(behind);
                    }
                    turns.push_front(ticket);
                    return self.parked.push_in_front(turns);
                }
            }
        }
    }
}
