//! A transaction is judged: is there room for it, is everything that it read current, whom does it meet?
//!
//! ```text
//!   Prepare --> room --> validated, prepared --> promised --> Vote
//!                ~~  ^    |                  ~~
//!                    |    +--> its turn, a page that must be read
//!                    +--------------+
//! ```
//! Validation and preparation are one step. From then on the transaction's writes are in the way of others, so nothing
//! comes between the verdict and the decision, even while it waits for promises (`leases`). A commit that meets it
//! waits its turn (`turns`).

use crate::Master;
use crate::images::Waiter;
use crate::outputs::Output;
use crate::room::{Room, Waiting};
use crate::ticket::{Origin, Ticket};
use crate::validate::Verdict;
use alloc::vec::Vec;
use messages::{Prepare, Vote};
use types::{PageId, Position, Refusal, Time, TxnId};

impl Master {
    /// Judges a transaction. A read-only one is validated once, and leaves no trace.
    pub fn prepare(&mut self, now: Time, from: Origin, prepare: Prepare) {
        let request = prepare.request.clone();
        let serves = self.shards.serve(&prepare.openings);
        let closes = self.shards.is_closing(&prepare.openings);
        let awaits_move = (!serves || closes) && self.awaits_move(&prepare.openings);
        let ticket = Ticket::new(from, prepare, self.config.limits.reads_per_commit);
        if self.is_closing_down() && ticket.writes() {
            return self.is_busy(&ticket);
        }
        if !serves || (closes && ticket.writes()) {
            return if awaits_move { self.is_moving(&ticket) } else { self.is_busy(&ticket) };
        }
        if !ticket.writes() {
            return self.judge_read_only(ticket);
        }
        // A page that does not exist can be read, and is empty; but it cannot be written to.
        if let Some(absent) = request.writes.iter().find(|delta| !self.grants.exists(delta.page)) {
            return self.refuse(&ticket, Refusal::NoSuchPage(absent.page));
        }
        self.losses.has_come(now, &request);
        let is_new = self.fills_new_pages(&request);
        let takes_place = self.turns.is_kept_for(&request);
        self.admit(now, Ticket { is_new, takes_place, ..ticket });
    }

    fn judge_read_only(&mut self, ticket: Ticket) {
        let stale = self.pages.stale(&ticket.request);
        if !stale.is_empty() {
            self.refuse(&ticket, Refusal::Stale(stale));
        } else if self.pages.must_wait_to_read(&ticket.request) {
            self.await_turn(ticket);
        } else {
            self.vote_prepared(&ticket);
        }
    }

    /// Forgets a transaction that its coordinator withdraws, unless it is prepared.
    pub fn withdraw(&mut self, txn: TxnId) {
        for ticket in self.take_waiting(|ticket| ticket.request.txn == txn) {
            self.vote(&ticket, Vote::withdrawn(txn));
        }
    }

    /// Takes the transactions out that wait and are meant.
    pub(crate) fn take_waiting(&mut self, is_meant: impl Fn(&Ticket) -> bool) -> Vec<Ticket> {
        let mut taken = self.parked.take(&is_meant);
        taken.extend(self.turns.take(&is_meant));
        taken.extend(self.pages.take_waiting_commits(&is_meant));
        taken
    }

    /// The record of a prepared transaction is in the log.
    pub fn logged(&mut self, txn: TxnId, position: Position) {
        self.pages.logged(txn, position);
    }

    /// Goes on when there is room for the commit, and lets it wait behind the others when there is none; or where a
    /// place is kept for it.
    fn admit(&mut self, now: Time, ticket: Ticket) {
        let has_place = ticket.takes_place && self.turns.is_kept_for(&ticket.request);
        match self.room_for(ticket.need()) {
            Room::Now if !self.is_short_of_room() || ticket.is_held() => self.judge(now, ticket),
            Room::Never => self.refuse(&ticket, Refusal::StoreFull),
            Room::Now | Room::Later if !ticket.may_wait() || ticket.is_held() => self.is_busy(&ticket),
            Room::Now | Room::Later if has_place => self.await_room_in_place(ticket),
            Room::Now | Room::Later => self.parked.push(Waiting::Commit(ticket)),
        }
    }

    /// There is room for a transaction: validates and prepares it, or lets it wait.
    pub(crate) fn judge(&mut self, now: Time, mut ticket: Ticket) {
        if !ticket.writes() {
            return self.judge_read_only(ticket);
        }
        match self.pages.validate(&ticket.request) {
            Verdict::Met => self.await_turn(ticket),
            Verdict::Valid if self.stands_in_the_way(&ticket.request) || self.must_queue(&ticket) => {
                self.await_turn(ticket);
            }
            Verdict::Valid => {
                self.leave_line(&ticket.request);
                self.pages.prepare(&ticket);
                if let Some(ticket) = self.await_promises(now, ticket) {
                    self.vote_prepared(&ticket);
                }
            }
            Verdict::Refused(refusal) => {
                if let Refusal::Stale(stale) = &refusal {
                    self.lose(now, &ticket, stale);
                }
                self.refuse(&ticket, refusal);
            }
            Verdict::Await(page) if ticket.reads_left == 0 => self.refuse(&ticket, Refusal::PageFull(page)),
            Verdict::Await(page) => {
                ticket.reads_left -= 1;
                self.pages.read([(page, Waiter::Commit(ticket))], &mut self.out);
            }
        }
    }

    /// A page is there that was read to see whether the commit fits.
    pub(crate) fn admit_again(&mut self, now: Time, ticket: Ticket) {
        if let Some(ticket) = self.end_wait(ticket) {
            self.admit(now, ticket);
        }
    }

    /// The page, the room or the turn that a commit has waited for is there. Returns it if it must continue.
    pub(crate) fn end_wait(&mut self, ticket: Ticket) -> Option<Ticket> {
        if self.closing {
            self.refuse(&ticket, Refusal::Closing);
            return None;
        }
        Some(ticket)
    }

    /// The transaction would have to wait where it may not.
    pub(crate) fn is_busy(&mut self, ticket: &Ticket) {
        self.vote(ticket, Vote::busy(ticket.request.txn));
    }

    /// A shard of the transaction moves.
    pub(crate) fn is_moving(&mut self, ticket: &Ticket) {
        self.vote(ticket, Vote::moving(ticket.request.txn));
    }

    pub(crate) fn vote_prepared(&mut self, ticket: &Ticket) {
        let highest = self.pages.highest(&ticket.request, &self.early);
        self.vote(ticket, Vote::prepared(ticket.request.txn, highest));
    }

    pub(crate) fn refuse(&mut self, ticket: &Ticket, refusal: Refusal) {
        self.vote(ticket, Vote::refused(ticket.request.txn, refusal));
    }

    fn vote(&mut self, ticket: &Ticket, vote: Vote) {
        self.out.push(Output::Vote(ticket.from.coordinator, vote));
    }

    /// A page that was waited for is in memory.
    pub(crate) fn go_on_read(&mut self, now: Time, page: PageId, waiter: Waiter) {
        match waiter {
            Waiter::Fetch(session, number, follow) => self.serve_read(session, page, number, follow),
            Waiter::Ahead(session, ahead) => self.has_read_ahead(session, ahead),
            Waiter::Commit(ticket) => self.admit_again(now, ticket),
            Waiter::WriteBack => self.has_read_for_batch(page),
            Waiter::Copy(to) => drop(self.copy_page(to, page)),
        }
    }
}
