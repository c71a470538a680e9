//! Removal of unused chunks at a member.

use super::fetch::Stage;
use super::work::{State, Work};
use super::{Member, RETRY_AFTER};
use crate::rule::Way;
use alloc::string::String;
use alloc::vec::Vec;
use tree::ChunkHash;

impl Member {
    pub(super) fn begin_collection(&mut self) {
        let is_busy = self.fetch.is_some() || !self.condemned.is_idle();
        let (Some(visitor_key), false) = (self.visitor_key, is_busy) else {
            self.collect_at = Some(self.now + RETRY_AFTER);
            return;
        };
        (self.needs_room, self.collect_at) = (false, None);
        let lets_go = self.is_broken(Way::MemberLetsGo);
        let revisions = self.kept.forget(self.now);
        let roots = match self.kept.current().filter(|_| lets_go) {
            Some(current) => Vec::from([current.root]),
            None => self.kept.roots(),
        };
        if self.kept.is_visited(self.now) {
            // Revisions that visitors read are removed later.
            self.collect_at = Some(self.now + self.config.collect_after);
        }
        self.condemned.begin();
        // The record names nothing that is about to be removed.
        self.work(Work::Switch(State { revisions, visitor_key }));
        self.work(Work::Mark(roots));
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
