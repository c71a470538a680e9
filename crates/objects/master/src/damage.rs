//! Pages whose home image cannot be read.
//!
//! 1. Only a fetch of such a page fails. The store serves all others, and lists the page in its status.
//! 2. The first page of a fetch is answered with the reason. A page that was asked for ahead is left out.
//! 3. The page takes no more changes: they could never be written back. Write-back sets aside the earlier ones.
//! 4. A page that is in memory is served and written back from there: the next install replaces the damaged image.
//! 5. A page stays damaged until the restart: changes may have been set aside that its image would lack.

use crate::Master;
use crate::images::Waiter;
use crate::queue::Ahead;
use alloc::string::String;
use messages::LeftOut;
use types::{PageId, SessionId, Time};

impl Master {
    /// The home cannot read the page.
    pub fn is_damaged(&mut self, now: Time, page: PageId, why: String) {
        for waiter in self.pages.set_damaged(page, why) {
            match waiter {
                Waiter::Fetch(session, number, _) => self.answer_damaged(session, number, page),
                Waiter::Ahead(session, ahead) => self.leave_out_damaged(session, ahead),
                Waiter::Commit(ticket) => self.admit_again(now, ticket),
                Waiter::WriteBack => self.is_damaged_in_batch(page),
                Waiter::Copy(to) => drop(self.copy_page(to, page)),
            }
        }
    }

    /// Leaves out a damaged page of a session's queue. A page that follows another was listed when it was announced.
    fn leave_out_damaged(&mut self, session: SessionId, ahead: Ahead) {
        let Some(queue) = self.sessions.ahead(session) else { return };
        queue.end_reading(ahead);
        queue.send(ahead);
        let left_out = LeftOut { page: ahead.page, number: ahead.number, damage: None };
        if ahead.follows {
            self.pages.directory().release(ahead.page, session);
            self.reply(session, left_out);
        } else {
            self.answer(session, left_out);
        }
        self.send_queued(session);
    }
}
