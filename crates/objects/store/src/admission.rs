//! Whether there is room for a commit that the master is to judge.

use crate::Store;
use crate::images::Waiter;
use crate::room::{Room, Waiting};
use crate::ticket::Ticket;
use types::{PageId, Refusal, Time};

impl Store {
    /// Goes on when there is room for the commit, and lets it wait behind the others when there is none; or where a
    /// place is kept for it.
    pub(crate) fn admit(&mut self, now: Time, ticket: Ticket) {
        let has_place = ticket.takes_place && self.turns.is_kept_for(&ticket.request);
        match self.room_for(ticket.need()) {
            Room::Now if !self.is_short_of_room() => self.prepare(now, ticket),
            Room::Never => self.refuse(now, &ticket, Refusal::StoreFull),
            Room::Now | Room::Later if has_place => self.await_room_in_place(now, ticket),
            Room::Now | Room::Later => self.parked.push(Waiting::Commit(ticket)),
        }
    }

    /// A page must be read to see whether the commit fits.
    pub(crate) fn await_page(&mut self, page: PageId, ticket: Ticket) {
        self.master.read([(page, Waiter::Commit(ticket))], &mut self.out);
    }

    /// A page is there that was read to see whether the commit fits.
    pub(crate) fn admit_again(&mut self, now: Time, ticket: Ticket) {
        if let Some(ticket) = self.end_wait(now, ticket) {
            self.admit(now, ticket);
        }
    }

    /// The page or the turn that a commit has waited for is there. Returns it if it must continue.
    pub(crate) fn end_wait(&mut self, now: Time, ticket: Ticket) -> Option<Ticket> {
        if self.coordinator.give_up(ticket.request.txn) {
            return None;
        }
        if self.closing {
            self.refuse(now, &ticket, Refusal::Closing);
            return None;
        }
        Some(ticket)
    }
}
