//! A change reaches a frame: by an invalidation, or by the reply to the client's own commit, which stands for one.
//!
//! In sequence the version advances. Out of sequence the change is applied to its slots, the vcache remembers how far
//! these are, and the change waits beyond a gap until the ones before it have been learned of. With data a change
//! updates, without it makes holes.

use crate::Frame;
use alloc::vec::Vec;
use messages::Invalidation;
use types::{Broken, Rule, SlotNo, SlotSet};

/// Runs of changes remembered beyond gaps for one frame. One run is enough for one change that is late, however many
/// come after it. Beyond, the oldest run is forgotten: the version then stays where it is until the page is fetched
/// again, and the vcache still proves what its slots are.
const RUNS_MAX: usize = 256;

impl Frame {
    /// Applies a change. One that the frame reflects already changes nothing, so hearing it twice does no harm.
    pub fn apply(&mut self, invalidation: &Invalidation, broken: Broken) {
        let goes_back = broken.is(Rule::NeverBack);
        if invalidation.version <= self.version && !goes_back {
            if invalidation.version == self.version {
                self.fill(invalidation);
            }
            return;
        }
        let news: SlotSet =
            invalidation.slots.iter().filter(|&slot| goes_back || self.is_news(slot, invalidation)).collect();
        self.take(&news, invalidation);
        if invalidation.prev > self.version && !broken.is(Rule::InSequence) {
            self.remember(&news, invalidation, broken);
        } else {
            self.version = self.version.max(invalidation.version);
        }
        self.join(broken);
    }

    /// Whether the change is later than what the slot has, or brings the value for a hole that the same change made.
    fn is_news(&self, slot: SlotNo, invalidation: &Invalidation) -> bool {
        match self.ahead(slot) {
            Some(known) => {
                known < invalidation.version || (known == invalidation.version && invalidation.data.is_some())
            }
            None => true,
        }
    }

    /// The change that brought the page to its version comes again, perhaps with data this time: what it finds as holes
    /// it can fill, because nothing has changed those slots since.
    fn fill(&mut self, invalidation: &Invalidation) {
        let holes: SlotSet =
            invalidation.slots.iter().filter(|&slot| self.is_hole(slot) && self.ahead(slot).is_none()).collect();
        if invalidation.data.is_some() && !holes.is_empty() {
            self.take(&holes, invalidation);
        }
    }

    /// Gives `slots` what the change has for them. Slots it has nothing for become holes, and all do if the values do
    /// not fit: a page that its master holds does, so this one has been told something else than its master knows.
    fn take(&mut self, slots: &SlotSet, invalidation: &Invalidation) {
        self.holes.union_with(slots);
        let Some(data) = &invalidation.data else { return };
        let changes: Vec<_> = data.iter().filter(|change| slots.contains(change.slot)).cloned().collect();
        let in_order = changes.windows(2).all(|pair| pair[0].slot < pair[1].slot);
        if !in_order {
            return;
        }
        if let Ok(page) = self.page.with(&changes) {
            self.page = page;
            for change in changes {
                self.holes.remove(change.slot);
            }
        }
    }

    /// Keeps a change that is out of sequence. It may be told more than once, and join up with others.
    fn remember(&mut self, slots: &SlotSet, invalidation: &Invalidation, broken: Broken) {
        if !broken.is(Rule::RememberAhead) {
            slots.iter().for_each(|slot| self.set_ahead(slot, invalidation.version));
        }
        let (mut prev, mut version) = (invalidation.prev, invalidation.version);
        // No two runs touch each other, so one look at each finds everything that the change joins.
        self.runs.retain(|run| {
            let is_apart = run.1 < prev || version < run.0;
            if !is_apart {
                (prev, version) = (prev.min(run.0), version.max(run.1));
            }
            is_apart
        });
        if self.runs.len() == RUNS_MAX {
            self.runs.remove(0);
        }
        self.runs.push((prev, version));
    }

    /// Advances the version over all runs that it has reached, and forgets what it covers then.
    pub(crate) fn join(&mut self, broken: Broken) {
        let reached = |frame: &Self| frame.runs.iter().position(|(prev, _)| *prev <= frame.version);
        while let Some(run) = reached(self).filter(|_| !broken.is(Rule::JoinUp)) {
            let (_, version) = self.runs.remove(run);
            self.version = self.version.max(version);
        }
        let version = self.version;
        self.vcache.retain(|(_, ahead)| *ahead > version);
    }
}
