//! Removal at a file server: revisions that are not held, and unused chunks.

use super::FileServer;
use super::site::{Site, Stage, UnderWay};
use super::work::{NotDone, Work};
use crate::condemned::Swept;
use crate::messages::Collected;
use crate::number::{Number, Revision, SiteKey};
use crate::rule::Way;
use alloc::borrow::ToOwned;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;
use machine::Port;
use tree::ChunkHash;
use types::Time;

/// How long after a publisher's last request chunks are removed, and how often they are at least.
const QUIET: Duration = Duration::from_millis(20);
const SWEEP_WITHIN: Duration = Duration::from_millis(200);

/// How soon a collection is tried again while a space moves.
const MOVED_WITHIN: Duration = Duration::from_secs(1);

impl FileServer {
    /// Schedules a collection after revisions were dropped.
    pub(super) fn collect_later(&mut self, now: Time) {
        self.collect_at.get_or_insert(now + self.config.collect_after);
    }

    pub(super) fn collect(&mut self, now: Time, port: Port, ticket: u64) {
        // A collection under way misses the chunks of revisions that were dropped since it began.
        self.next_collectors.push((port, ticket));
        self.begin_collection();
        self.bound_requests(now, port);
    }

    /// Begins a collection. A restarted server waits for a lease: publishers may come again for what they have put.
    pub(super) fn begin_collection(&mut self) {
        if !self.condemned.is_idle() {
            return;
        }
        if self.now < self.opens_at && !self.is_broken(Way::SweepAtOnce) {
            self.collect_at = Some(self.collect_at.map_or(self.opens_at, |at| at.min(self.opens_at)));
            return;
        }
        if self.spaces.are_moving() {
            let at = self.now + MOVED_WITHIN;
            self.collect_at = Some(self.collect_at.map_or(at, |before| before.min(at)));
            return;
        }
        self.collectors = mem::take(&mut self.next_collectors);
        self.condemned.begin();
        let roots = self.sites.values().flat_map(Site::roots).collect();
        self.work(Work::Mark(roots));
    }

    pub(super) fn marked(&mut self, unused: Result<Vec<ChunkHash>, NotDone>) {
        let found = unused.and_then(|unused| {
            let spoiled = || NotDone::Failed("revisions could not be dropped: collect again".to_owned());
            self.condemned.found(unused).then_some(()).ok_or_else(spoiled)
        });
        if let Err(why) = found {
            return self.give_up_collection(&why);
        }
        self.condemned.spare(self.uploads.chunks());
        self.sweep();
    }

    /// Removes the next batch, unless a check or a merge is under way, which relies on what it finds.
    pub(super) fn sweep(&mut self) {
        let is_checking =
            |site: &Site| matches!(&site.under_way, Some(UnderWay { stage: Stage::Checking | Stage::Merging, .. }));
        if self.sites.values().any(is_checking) && !self.is_broken(Way::SweepAnyway) {
            return;
        }
        if self.sweep_at().is_some_and(|at| at <= self.now)
            && let Some(batch) = self.condemned.next_batch()
        {
            self.swept_at = self.now;
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

    /// When the next batch is removed, if there is one: when no publisher has needed the disk for a moment, and under a
    /// steady load of publishes once in a while.
    pub(super) fn sweep_at(&self) -> Option<Time> {
        let at = (self.busy_at + QUIET).min(self.swept_at + SWEEP_WITHIN);
        self.condemned.has_batch().then_some(at)
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
        if !site.drops.is_empty() || is_publishing {
            return;
        }
        let drops = site.take_droppable(now, 0);
        if !drops.is_empty() {
            let numbers = drops.iter().map(|revision| revision.number).collect();
            site.drops = drops;
            self.work(Work::Drop(key.clone(), numbers));
        }
    }

    /// The disk has dropped revisions. Those it could not drop stay, and are tried again with the next publish, release
    /// or end of a lease.
    pub(super) fn dropped(&mut self, now: Time, key: &SiteKey, dropped: &[Number]) {
        self.collect_later(now);
        let Some(site) = self.sites.get_mut(key) else { return };
        let failed = |revision: &Revision| !dropped.contains(&revision.number);
        let failed: Vec<Revision> = mem::take(&mut site.drops).into_iter().filter(failed).collect();
        if failed.is_empty() {
            return self.drop_revisions(now, key);
        }
        site.put_back(failed);
        self.condemned.spoil();
    }
}
