//! A group's session: one for all members of a redirector, which asks on it for each client that it vouches for.
//!
//! 1. Only a session that said so in its hello is a group's. On any other one a group's messages are a fault.
//! 2. Pages that a member has brought are listed first, then compared, and the answer comes after all invalidations: so
//!    the redirector has learned of everything that the member could have learned of, and learns of what comes after.

use crate::resume::Comparison;
use crate::{SessionId, Store};
use alloc::format;
use alloc::vec::Vec;
use directory::Urgency;
use machine::Goodbye;
use messages::{Departed, Revalidate, Revalidated};
use types::Time;
use types::limits::PAGES_PER_MESSAGE_MAX;

impl Store {
    /// Whether a message that only a redirector sends has come from one.
    pub(crate) fn check_group(&self, from: SessionId) -> Result<(), Goodbye> {
        if self.sessions.is_group(from) {
            return Ok(());
        }
        Err(Goodbye::malformed("expected this only on a session whose hello says that it is a group's".into()))
    }

    /// A member has come with pages that it holds from somewhere else.
    pub(crate) fn revalidate(&mut self, from: SessionId, revalidate: &Revalidate) -> Result<(), Goodbye> {
        self.check_group(from)?;
        self.check_revalidate(from, revalidate)?;
        let Revalidate { number, ref horizon, ref pages } = *revalidate;
        let (mut items, mut dropped) = (Vec::new(), Vec::new());
        for &held in pages {
            let held_before = self.master.holds(held.page, from);
            match self.compare(from, held, horizon) {
                Comparison::Current => {}
                Comparison::Changed(invalidation) => items.push(invalidation),
                Comparison::Unknown => {
                    dropped.push(held.page);
                    // A page that the session holds for others it continues holding.
                    if !held_before {
                        self.master.directory().release(held.page, from);
                    }
                }
            }
        }
        self.flush(from, Urgency::All);
        self.reply(from, Revalidated { number, items, dropped }, None);
        Ok(())
    }

    fn check_revalidate(&self, from: SessionId, revalidate: &Revalidate) -> Result<(), Goodbye> {
        if !self.sessions.has_joined(from) {
            return Err(Goodbye::malformed("expected the last resume before a member's pages".into()));
        }
        let pages = revalidate.pages.len();
        if pages > PAGES_PER_MESSAGE_MAX {
            let text = format!("expected at most {PAGES_PER_MESSAGE_MAX} pages of a member at a time, got {pages}");
            return Err(Goodbye::malformed(text));
        }
        Ok(())
    }

    /// A member has left its group for good. If nobody else speaks for it, its grace begins.
    pub(crate) fn departed(&mut self, now: Time, from: SessionId, departed: Departed) -> Result<(), Goodbye> {
        self.check_group(from)?;
        self.sessions.departed(now, from, departed.client);
        self.forget_clients(now);
        Ok(())
    }
}
