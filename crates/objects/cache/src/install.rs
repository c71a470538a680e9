//! A page arrives: invalidations heard while it was under way are applied to it, and slots that the older frame knew
//! better stay.

use crate::Frame;
use alloc::vec::Vec;
use messages::Invalidation;
use types::{Broken, ObjectPage, Rule, SlotChange, SlotSet, Version};

impl Frame {
    /// The frame of a page that has arrived, over the `older` frame if there is one, after the invalidations that were
    /// `kept` while it was under way. `None` if the arriving page is the older of the two.
    pub fn install(
        version: Version,
        page: ObjectPage,
        older: Option<&Self>,
        kept: &[Invalidation],
        broken: Broken,
    ) -> Option<Self> {
        // Whether the older frame's holes are older than this page cannot be told, so it would fill none of them.
        if older.is_some_and(|older| older.version > version) && !broken.is(Rule::NeverBack) {
            return None;
        }
        let mut frame = Self::new(version, page);
        if let Some(older) = older.filter(|_| !broken.is(Rule::NeverBack)) {
            frame.keep_what_is_ahead(older, broken);
        }
        for invalidation in kept {
            frame.apply(invalidation, broken);
        }
        Some(frame)
    }

    /// Takes over the slots that the older frame had heard later changes of, its holes among them. A page that was
    /// asked for as `Fetch::at_least` says is never older than these: this is a second line of defence.
    fn keep_what_is_ahead(&mut self, older: &Self, broken: Broken) {
        let covered = if broken.is(Rule::InstallCovers) { Version::ZERO } else { self.version };
        self.vcache = older.exceptions(covered).collect();
        self.runs = older.runs.iter().copied().filter(|(_, version)| *version > self.version).collect();
        let ahead: SlotSet = self.vcache.iter().map(|(slot, _)| *slot).collect();
        let (holes, known): (Vec<_>, Vec<_>) = ahead.iter().partition(|&slot| older.is_hole(slot));
        let value = |slot| SlotChange { slot, value: older.page.get_shared(slot) };
        match self.page.with(&known.iter().copied().map(value).collect::<Vec<_>>()) {
            Ok(page) => self.page = page,
            Err(_) => self.holes.union_with(&ahead),
        }
        self.holes.union_with(&holes.into_iter().collect());
        self.join(broken);
    }
}
