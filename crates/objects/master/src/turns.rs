//! Turns: a commit that meets a prepared one waits for it instead of being refused.
//!
//! ```text
//!   prepare --meets a prepared one, or one that waits--> its turn --> prepare, as if it had just come
//!      |                                                  ^    ~~ one of the prepared has its count ~~
//!      +--neither--> log                                  +--still meets one--
//! ```
//! 1. A commit meets a prepared one if it has read what that one writes, or writes what that one has read while it
//!    waits for promises. The judgement of it has to wait until the other has its count.
//! 2. Nothing that has come later and writes what a waiting commit has read goes before it: it would be found stale for
//!    that alone, again and again. A commit that only reads what it writes continues, and is serial before it.
//! 3. It has no locks and no place in the log: when its turn comes, it is judged like one that has just come. If there
//!    is no room for it then, it waits for that where it is, with all behind it and before those who came later and
//!    wait for room too.
//! 4. Commits wait for those that came before them, for places that are kept no longer than a moment, and for prepared
//!    ones, which wait for nobody but redirectors, and for them no longer than a lease. So no circle of them waits for
//!    each other, and each has its turn.
//! 5. A commit that waits in vain is notified of what has changed with the new values, and its client need not fetch
//!    them to come again: else the winner, which has them, would win again.
//! 6. A client that has lost several times in a row keeps its place in line until it comes again, for a short time (see
//!    `losses`): else it would come behind all that have won in the meantime, and lose to those that are nearer. Others
//!    wait behind it if they write what it has lost by. If it comes while there is no room, it waits for that in its
//!    place.
//! 7. In a store of several nodes a commit may come that other masters have prepared. Those in line may wait for it
//!    there or here, so it goes before them (**HeldPasses**), and it does not wait for room. It waits for prepared ones
//!    alone: the masters are asked in the order of shards, so each of these waits for shards behind, and no circle
//!    closes.
//! 8. Their number is bounded. Beyond, a commit is refused as busy. Their memory is bounded by the coordinator.

use crate::losses::Claim;
use crate::need::Need;
use crate::overlap::{each, reads, writes, writes_what_is_read};
use crate::room::Room;
use crate::ticket::{Origin, Ticket};
use crate::validate::Stale;
use crate::{Master, SessionId};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use messages::CommitRequest;
use types::{ClientId, Limits, PageId, Refusal, Rule, SlotSet, Time};

/// The place of a client that should come again.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) client: ClientId,
    /// Where it has learned of its loss.
    from: Origin,
    /// The slots that it has lost by.
    pub(crate) slots: Vec<(PageId, SlotSet)>,
    pub(crate) until: Time,
}

/// The commits in line.
#[derive(Debug)]
pub(crate) enum InLine {
    Commit(Ticket),
    Kept(Kept),
}

/// The commits that wait their turn.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// In the order in which they came.
    line: VecDeque<InLine>,
    /// Something that they may wait for is over.
    may_go: bool,
    /// The room that one of them needs whose turn it is, if there was none for it.
    lacks: Option<Need>,
}

impl Turns {
    /// The commits in line, in order.
    pub(crate) fn line(&self) -> impl Iterator<Item = &InLine> {
        self.line.iter()
    }

    /// The commits that wait, in the order in which they came.
    pub(crate) fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        self.line.iter().filter_map(|waiter| match waiter {
            InLine::Commit(ticket) => Some(ticket),
            InLine::Kept(_) => None,
        })
    }

    /// Takes out the commits that are meant. One of them may have been the one that lacked room.
    pub(crate) fn take(&mut self, is_meant: impl Fn(&Ticket) -> bool) -> Vec<Ticket> {
        let mut taken = Vec::new();
        for waiter in core::mem::take(&mut self.line) {
            match waiter {
                InLine::Commit(ticket) if is_meant(&ticket) => taken.push(ticket),
                other => self.line.push_back(other),
            }
        }
        if !taken.is_empty() {
            (self.may_go, self.lacks) = (true, None);
        }
        taken
    }

    /// A prepared commit is in nobody's way any more, or in fewer commits' way.
    pub(crate) fn make_way(&mut self) {
        self.may_go = true;
    }

    /// Whether one of them waits for room, whose turn it is.
    pub(crate) fn lacks_room(&self) -> bool {
        self.lacks.is_some()
    }

    /// When the first place is kept no longer.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let until = |waiter: &InLine| match waiter {
            InLine::Commit(_) => None,
            InLine::Kept(kept) => Some(kept.until),
        };
        self.line.iter().filter_map(until).min()
    }

    /// Whether somebody of the session is in line who has read of these slots, which have changed.
    pub(crate) fn waits_for(&self, session: SessionId, page: PageId, slots: &SlotSet) -> bool {
        self.line.iter().any(|waiter| match waiter {
            InLine::Commit(ticket) => ticket.is_of(session) && reads(&ticket.request, [(page, slots)]),
            InLine::Kept(kept) => {
                kept.from.session == Some(session)
                    && each(&kept.slots).any(|(lost, by)| lost == page && by.intersects(slots))
            }
        })
    }

    /// The place that is kept for the request's client.
    fn kept_for(&self, request: &CommitRequest) -> Option<usize> {
        let is_its = |waiter: &InLine| match waiter {
            InLine::Commit(_) => false,
            InLine::Kept(kept) => kept.client == request.txn.client && reads(request, each(&kept.slots)),
        };
        self.line.iter().position(is_its)
    }

    /// Whether a place is kept for the request's client.
    pub(crate) fn is_kept_for(&self, request: &CommitRequest) -> bool {
        self.kept_for(request).is_some()
    }

    /// Where a commit waits: in the place that was kept for its client when it came, or else behind all who are there.
    fn place_of(&self, ticket: &Ticket) -> usize {
        let kept = if ticket.takes_place { self.kept_for(&ticket.request) } else { None };
        kept.unwrap_or(self.line.len())
    }

    /// Keeps a client's place; if it has none, the last one.
    fn keep(&mut self, kept: Kept, line_max: usize) {
        let is_its = |waiter: &InLine| matches!(waiter, InLine::Kept(known) if known.client == kept.client);
        match self.line.iter().position(is_its) {
            Some(place) => self.line[place] = InLine::Kept(kept),
            None if self.line.len() < line_max => self.line.push_back(InLine::Kept(kept)),
            None => {}
        }
    }
}

impl Master {
    /// Whether a commit that meets no prepared one waits behind others in line all the same.
    pub(crate) fn must_queue(&self, ticket: &Ticket) -> bool {
        let may_pass = ticket.is_held() && !self.config.broken.is(Rule::HeldPasses);
        !may_pass && self.would_overtake(ticket)
    }

    /// Whether a commit would overtake somebody in line.
    fn would_overtake(&self, ticket: &Ticket) -> bool {
        let (broken, request) = (self.config.broken, &ticket.request);
        let place = self.turns.place_of(ticket);
        self.turns.line.iter().take(place).any(|before| match before {
            InLine::Commit(before) => writes_what_is_read(request, &before.request) && !broken.is(Rule::KeepTurns),
            InLine::Kept(kept) => {
                kept.client != request.txn.client && writes(request, each(&kept.slots)) && !broken.is(Rule::KeepPlace)
            }
        })
    }

    /// A commit waits its turn: in its place, if one was kept, or else behind those that wait already. If it may not
    /// wait, the master is busy.
    pub(crate) fn await_turn(&mut self, mut ticket: Ticket) {
        if !ticket.may_wait() {
            return self.is_busy(&ticket);
        }
        let place = self.turns.place_of(&ticket);
        let waiting = self.turns.line.len();
        if place == waiting && waiting >= self.config.limits.commits_in_turn {
            return self.refuse(&ticket, Refusal::Busy);
        }
        ticket.takes_place = false;
        if place < waiting {
            self.turns.line[place] = InLine::Commit(ticket);
        } else {
            self.turns.line.push_back(InLine::Commit(ticket));
        }
    }

    /// A commit is prepared: no place is kept for its client any more.
    pub(crate) fn leave_line(&mut self, request: &CommitRequest) {
        self.losses.has_won(request);
        if let Some(place) = self.turns.kept_for(request) {
            self.turns.line.remove(place);
            self.turns.make_way();
        }
    }

    /// A commit is refused because others were faster. Keeps its client's place, if that has happened often.
    pub(crate) fn lose(&mut self, now: Time, ticket: &Ticket, stale: &Stale) {
        let client = ticket.request.txn.client;
        let Limits { losers, commits_in_turn, .. } = self.config.limits;
        if let Some(Claim { slots, until }) = self.losses.has_lost(now, client, stale, losers) {
            self.turns.keep(Kept { client, from: ticket.from, slots, until }, commits_in_turn);
        }
    }

    /// A commit whose client's place was kept has come for it while there is no room: it waits for that there.
    pub(crate) fn await_room_in_place(&mut self, ticket: Ticket) {
        self.turns.lacks.get_or_insert(ticket.need());
        self.await_turn(ticket);
    }

    fn end_kept_places(&mut self, now: Time) {
        let (closing, losses) = (self.closing, &mut self.losses);
        self.turns.line.retain(|waiter| match waiter {
            InLine::Kept(kept) if kept.until <= now || closing => {
                losses.forget(kept.client);
                false
            }
            InLine::Kept(_) | InLine::Commit(_) => true,
        });
    }

    /// Lets those continue whose turn has come. The others wait on, in the same order.
    pub(crate) fn take_turns(&mut self, now: Time) {
        let has_room = self.turns.lacks.is_some_and(|need| self.room_for(need) != Room::Later);
        let is_kept_no_longer = self.turns.next_due().is_some_and(|due| due <= now);
        let is_due = self.turns.may_go || has_room || self.closing || is_kept_no_longer;
        if self.turns.line.is_empty() || !is_due {
            return;
        }
        (self.turns.may_go, self.turns.lacks) = (false, None);
        self.end_kept_places(now);
        let mut line = core::mem::take(&mut self.turns.line);
        while let Some(waiter) = line.pop_front() {
            match waiter {
                InLine::Kept(kept) => self.turns.line.push_back(InLine::Kept(kept)),
                InLine::Commit(ticket) => {
                    let Some(ticket) = self.end_wait(ticket) else { continue };
                    match self.room_for(ticket.need()) {
                        Room::Now => self.judge(now, ticket),
                        Room::Never => self.refuse(&ticket, Refusal::StoreFull),
                        Room::Later if ticket.is_held() => self.is_busy(&ticket),
                        Room::Later => {
                            self.turns.lacks = Some(ticket.need());
                            self.turns.line.push_back(InLine::Commit(ticket));
                            return self.turns.line.append(&mut line);
                        }
                    }
                }
            }
        }
    }
}
