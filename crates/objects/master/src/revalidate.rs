//! A member of a group has come with pages that it holds from somewhere else.
//!
//! They are listed first, then compared, and the answer comes after all invalidations: so the redirector has learned of
//! everything that the member could have learned of, and learns of what comes after.

use crate::Master;
use crate::resume::Comparison;
use alloc::format;
use alloc::vec::Vec;
use directory::Urgency;
use machine::Goodbye;
use messages::{Revalidate, Revalidated};
use types::SessionId;
use types::limits::PAGES_PER_MESSAGE_MAX;

impl Master {
    /// A member has come with pages that it holds from somewhere else.
    ///
    /// # Errors
    /// If it says something that no redirector of ours would, which ends the session.
    pub fn revalidate(&mut self, from: SessionId, revalidate: &Revalidate) -> Result<(), Goodbye> {
        self.check_revalidate(from, revalidate)?;
        let Revalidate { number, ref horizon, ref pages } = *revalidate;
        let (mut items, mut dropped) = (Vec::new(), Vec::new());
        for &held in pages {
            let held_before = self.pages.holds(held.page, from);
            match self.compare(from, held, horizon) {
                Comparison::Current => {}
                Comparison::Changed(invalidation) => items.push(invalidation),
                Comparison::Unknown => {
                    dropped.push(held.page);
                    // A page that the session holds for others it continues holding.
                    if !held_before {
                        self.pages.directory().release(held.page, from);
                    }
                }
            }
        }
        self.flush(from, Urgency::All);
        self.reply(from, Revalidated { number, items, dropped });
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
}
