//! Changes by others: they go to the cache, to pages under way, and to the transactions that have read them.
//!
//! Every reply is preceded by its invalidations, so whatever a transaction sees is as of one moment: had anything that
//! it has read been changed before what it reads now, it would have been doomed before it could read that.

use crate::Client;
use alloc::format;
use machine::Goodbye;
use messages::{At, Invalidation, Invalidations};
use types::{PageId, Rule, Time, Vector};

impl Client {
    /// A batch has come from a node.
    pub(crate) fn invalidations(&mut self, now: Time, at: At, invalidations: &Invalidations) -> Result<(), Goodbye> {
        let mut horizon = self.nodes[at].session.horizon();
        let newest = invalidations.newest_changes(horizon.sharding);
        if self.config.broken.is(Rule::ShowWhole) {
            horizon.counts = &newest;
        }
        for invalidation in invalidations.as_taken(horizon) {
            if invalidation.prev >= invalidation.version {
                let text =
                    format!("page {} went from {} to {}", invalidation.page, invalidation.prev, invalidation.version);
                return Err(Goodbye::malformed(text));
            }
            self.changed(&invalidation);
        }
        let node = &mut self.nodes[at];
        node.session.told.join(&newest);
        node.fetches.check_kept()?;
        self.heard_through(now, at, &invalidations.through)?;
        self.make_room(now);
        Ok(())
    }

    /// The horizon moves, unless there may be changes before it that we have not learned of.
    pub(crate) fn heard_through(&mut self, now: Time, at: At, through: &Vector) -> Result<(), Goodbye> {
        let may_move = self.nodes[at].session.is_live() || self.config.broken.is(Rule::ResumeBeforeHorizon);
        if self.config.broken.is(Rule::OwnHorizon) {
            self.nodes[at].session.level_horizon(through);
            self.nodes.forget_horizon();
        }
        if may_move && self.nodes.heard_through(now, at, through) {
            self.install_early(now)?;
        }
        Ok(())
    }

    /// A page has changed.
    pub(crate) fn changed(&mut self, invalidation: &Invalidation) {
        self.txns.doom_by_invalidation(invalidation, self.cache.get(invalidation.page), &mut self.out);
        self.nodes.of_mut(invalidation.page).fetches.keep(invalidation);
        self.cache.apply(invalidation);
        self.granted_page_changed(invalidation.page);
    }

    /// Drops a page whose changes are not known, and dooms every transaction that has read of it.
    pub(crate) fn drop_page(&mut self, page: PageId) {
        if let Some(frame) = self.cache.remove(page) {
            self.has_left(page, frame.newest());
        }
        self.nodes.of_mut(page).session.is_unlisted(page);
        self.txns.doom_by_drop(page, &mut self.out);
    }
}
