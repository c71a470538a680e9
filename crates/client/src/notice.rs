//! Changes by others: they go to the cache, to pages under way, and to the transactions that have read them.
//!
//! Every reply is preceded by its notices, so whatever a transaction sees is as of one moment: had anything that it
//! has read been changed before what it reads now, it would have been doomed before it could read that.

use crate::txns::State;
use crate::workspace::Workspace;
use crate::{Client, TxnHandle};
use alloc::format;
use alloc::vec::Vec;
use cache::Frame;
use protocol::{Notice, Notices};
use types::{GoodbyeReason, PageId, Rule, Time, Version};

impl Client {
    /// A batch has come.
    pub(crate) fn notices(&mut self, now: Time, notices: &Notices) {
        let broken = self.config.broken.is(Rule::ShowWhole);
        for notice in notices.as_taken(if broken { Version(u64::MAX) } else { self.session.horizon() }) {
            if notice.prev >= notice.version {
                let text = format!("page {} went from {} to {}", notice.page, notice.prev, notice.version);
                return self.hang_up(GoodbyeReason::Malformed, text);
            }
            self.changed(&notice);
            self.session.told = self.session.told.max(notice.version);
        }
        if self.fetches.keeps_more_than(self.config.limits.kept_notices) {
            let text = "more notices of pages under way than a store sends before the pages".into();
            return self.hang_up(GoodbyeReason::TooMuch, text);
        }
        self.heard_through(now, notices.through);
        self.make_room(now);
    }

    /// A page has changed.
    pub(crate) fn changed(&mut self, notice: &Notice) {
        self.doom_by_notice(notice);
        if !self.config.broken.is(Rule::KeepNotices) {
            self.fetches.keep(notice);
        }
        self.cache.apply(notice);
        self.granted_page_changed(notice.page);
    }

    /// Dooms every transaction that has read what the notice takes back.
    fn doom_by_notice(&mut self, notice: &Notice) {
        if self.config.broken.is(Rule::DoomOnNotice) {
            return;
        }
        let frame = self.cache.get(notice.page);
        let hit = |workspace: &Workspace| {
            let touched = workspace.get(notice.page);
            touched.is_some_and(|touched| touched.is_hit_by(&notice.slots, notice.version, frame))
        };
        let readers = self.txns.all_running().filter(|(_, txn)| hit(&txn.workspace));
        let readers: Vec<_> = readers.map(|(txn, _)| txn).collect();
        self.doom(readers);
    }

    /// A page has taken the place of `older`: dooms every transaction that has read something else there.
    pub(crate) fn doom_by_install(&mut self, page: PageId, older: &Frame) {
        if self.config.broken.is(Rule::DoomOnInstall) {
            return;
        }
        let Some(frame) = self.cache.get(page) else { return };
        let hit =
            |workspace: &Workspace| workspace.get(page).is_some_and(|touched| frame.differs_in(older, touched.reads()));
        let readers = self.txns.all_running().filter(|(_, txn)| hit(&txn.workspace));
        let readers: Vec<_> = readers.map(|(txn, _)| txn).collect();
        self.doom(readers);
    }

    /// Drops a page of which it is not known what has changed, and dooms every transaction that has read of it.
    pub(crate) fn drop_page(&mut self, page: PageId) {
        self.cache.remove(page);
        self.session.is_unlisted(page);
        if self.config.broken.is(Rule::DoomOnDrop) {
            return;
        }
        let read = |workspace: &Workspace| {
            workspace.get(page).is_some_and(|touched| !touched.reads().is_empty() || touched.frozen().is_some())
        };
        let readers = self.txns.all_running().filter(|(_, txn)| read(&txn.workspace));
        let readers: Vec<_> = readers.map(|(txn, _)| txn).collect();
        self.doom(readers);
    }

    fn doom(&mut self, readers: Vec<TxnHandle>) {
        for txn in readers {
            if let Some(found) = self.txns.get(txn) {
                found.stop(State::Doomed);
                self.stats.doomed += 1;
            }
            self.wake(txn);
        }
    }
}
