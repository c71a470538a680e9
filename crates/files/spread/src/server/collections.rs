//! Removal at a file server: revisions that are not held, and unused chunks.

use super::FileServer;
use super::site::{Site, Stage, UnderWay};
use super::work::{NotDone, Work};
use crate::condemned::Swept;
use crate::messages::Collected;
use crate::number::SiteKey;
use crate::rule::Way;
use alloc::vec::Vec;
use core::mem;
use machine::Port;
use tree::ChunkHash;
use types::Time;

impl FileServer {
    /// Schedules a collection after revisions were dropped.
    pub(super) fn collect_later(&mut self, now: Time) {
        self.collect_at.get_or_insert(now + self.config.collect_after);
    }

    pub(super) fn collect(&mut self, port: Port, ticket: u64) {
        // A collection under way misses the chunks of revisions that were dropped since it began.
        self.next_collectors.push((port, ticket));
        self.begin_collection();
    }

    pub(super) fn begin_collection(&mut self) {
        if self.condemned.is_idle() {
            self.collectors = mem::take(&mut self.next_collectors);
            self.condemned.begin();
            let roots = self.sites.values().flat_map(Site::roots).collect();
            self.work(Work::Mark(roots));
        }
    }

    pub(super) fn marked(&mut self, unused: Result<Vec<ChunkHash>, NotDone>) {
        match unused {
            Ok(unused) => {
                self.condemned.found(unused);
                self.condemned.spare(self.uploads.chunks());
                self.sweep();
            }
            Err(why) => self.give_up_collection(&why),
        }
    }

    /// Removes the next batch, unless a check is under way, which relies on what it finds.
    pub(super) fn sweep(&mut self) {
        let is_checking = |site: &Site| matches!(&site.under_way, Some(UnderWay { stage: Stage::Checking, .. }));
        if self.sites.values().any(is_checking) && !self.is_broken(Way::SweepAnyway) {
            return;
        }
        if let Some(batch) = self.condemned.next_batch() {
            self.work(Work::Sweep(batch));
        }
        if let Some(Swept { chunks, bytes }) = self.condemned.end() {
            for (port, ticket) in mem::take(&mut self.collectors) {
                self.say(port, Collected { ticket, chunks, bytes });
            }
            if !self.next_collectors.is_empty() {
                self.begin_collection();
            }
        }
    }

    /// The disk could not do its part.
    pub(super) fn give_up_collection(&mut self, why: &NotDone) {
        self.condemned.give_up();
        let collectors = mem::take(&mut self.collectors).into_iter().chain(mem::take(&mut self.next_collectors));
        for (port, ticket) in collectors.collect::<Vec<_>>() {
            self.refuse_for(port, ticket, why.clone());
        }
    }

    pub(super) fn swept(&mut self, swept: Result<Swept, NotDone>) {
        match swept {
            Ok(swept) => {
                self.condemned.removed(swept);
                self.sweep();
            }
            Err(why) => self.give_up_collection(&why),
        }
    }

    /// Drops the revisions of a site that were held when newer ones were published, and are not now.
    pub(super) fn drop_revisions(&mut self, now: Time, key: &SiteKey) {
        if now < self.opens_at && !self.is_broken(Way::SweepAtOnce) {
            return;
        }
        let Some(site) = self.sites.get_mut(key) else { return };
        let is_publishing = matches!(&site.under_way, Some(UnderWay { stage: Stage::Publishing { .. }, .. }));
        if site.drops || is_publishing {
            return;
        }
        let drops = site.take_droppable(now, 0);
        if !drops.is_empty() {
            site.drops = true;
            let drops = drops.into_iter().map(|revision| revision.number).collect();
            self.work(Work::Drop(key.clone(), drops));
        }
    }

    pub(super) fn dropped(&mut self, now: Time, key: &SiteKey) {
        if let Some(site) = self.sites.get_mut(key) {
            site.drops = false;
        }
        self.drop_revisions(now, key);
        self.collect_later(now);
    }
}
