//! Removal of unused chunks at a member.

use super::fetch::Stage;
use super::work::{State, Work};
use super::{Member, RETRY_AFTER};
use crate::rule::Way;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use tree::{ChunkHash, Parts};

impl Member {
    pub(super) fn begin_collection(&mut self) {
        // Without a revision, everything would be removed that its first fetch can use.
        let is_first = self.parts() == Parts::Whole && self.kept.current().is_none() && !self.needs_room;
        let is_busy = self.fetch.is_some() || !self.condemned.is_idle() || is_first;
        let (Some(visitor_key), false) = (self.visitor_key, is_busy) else {
            self.collect_at = Some(self.now + RETRY_AFTER);
            return;
        };
        (self.needs_room, self.collect_at) = (false, None);
        let parts = self.parts();
        let revisions = self.kept.forget(self.now);
        let roots = match self.kept.current() {
            Some(_) if parts == Parts::Directories && self.is_broken(Way::CacheLetsGo) => Vec::new(),
            Some(current) if self.is_broken(Way::MemberLetsGo) => Vec::from([current.root]),
            _ => self.kept.roots(),
        };
        if self.kept.is_visited(self.now) {
            // Revisions that visitors read are removed later.
            self.collect_at = Some(self.now + self.config.collect_after);
        }
        self.condemned.begin();
        // The record names nothing that is about to be removed.
        let when_stale = self.when_stale;
        self.work(Work::Switch(State { parts, revisions, visitor_key, when_stale }));
        self.work(Work::Mark(parts, roots));
    }

    /// The chunks were found that the revisions do not need, or that their directories are not.
    pub(super) fn marked(&mut self, unused: Vec<(ChunkHash, u32)>) {
        let sizes = if self.parts() == Parts::Directories { unused.iter().copied().collect() } else { BTreeMap::new() };
        let unused: Vec<ChunkHash> = unused.into_iter().map(|(hash, _)| hash).collect();
        self.end_mending(&unused);
        if !self.condemned.found(unused) {
            return self.collect_again();
        }
        self.condemned.spare(self.storing.keys());
        self.condemned.spare(self.ahead.here());
        if self.parts() == Parts::Whole {
            return;
        }
        // They may be content that a reader comes back to: those that were used last stay.
        let old = self.condemned.take_found();
        self.content
            .found(old.into_iter().filter_map(|hash| sizes.get_key_value(&hash)).map(|(hash, it)| (*hash, *it)));
    }

    /// Ends a collection after an error of the disk. It is tried again in a while.
    pub(super) fn give_up_collection(&mut self, why: String) {
        self.trouble = Some(why);
        self.collect_again();
    }

    /// Ends a collection that removes nothing.
    pub(super) fn collect_again(&mut self) {
        self.condemned.give_up();
        self.collect_at.get_or_insert(self.now + RETRY_AFTER);
    }

    /// Chunks that no revision needs are not fetched again.
    pub(super) fn end_mending(&mut self, unused: &[ChunkHash]) {
        let mending = self.mending.iter().filter(|hash| unused.contains(hash));
        let ended: Vec<ChunkHash> = mending.copied().collect();
        if !ended.is_empty() && ended.len() == self.mending.len() && self.fetch.is_none() {
            self.trouble = None;
        }
        for hash in ended {
            self.mending.remove(&hash);
            if !self.fetch.as_ref().is_some_and(|fetch| fetch.lacks(&hash)) {
                self.queue.retain(|it| *it != hash);
            }
        }
    }

    pub(super) fn sweep(&mut self) {
        // The chunks a fetch relies on are known when it has looked.
        if self.fetch.as_ref().is_some_and(|fetch| fetch.stage == Stage::Descending) {
            return;
        }
        if let Some(batch) = self.condemned.next_batch() {
            self.work(Work::Sweep(batch));
        }
        self.condemned.end();
    }
}
