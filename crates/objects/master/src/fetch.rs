//! Fetches: a page leaves with the invalidations before it, and its receiver is listed as its holder, in one step.

use crate::Master;
use crate::images::Waiter;
use crate::queue::Ahead;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use machine::Goodbye;
use messages::{Fetch, Follow, LeftOut, Page, Released, ToClient};
use types::limits::PAGES_PER_MESSAGE_MAX;
use types::{ObjectPage, PageId, Rule, SessionId};

/// Fetches that wait for counts to be applied.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    /// In the order in which they came.
    at_least: Vec<(SessionId, Fetch)>,
    /// Some commit was applied since they were looked at last.
    may_go: bool,
    /// With [`Rule::ListHolderFirst`] taken out: the session to list when it is learned of next.
    late: Vec<(PageId, SessionId)>,
}

impl Fetches {
    /// The session is gone, and its fetches with it.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.at_least.retain(|(of, _)| *of != session);
    }

    /// Takes out what waits for counts and is meant: the session, the page, and the number of the fetch.
    pub(crate) fn take_at_least(&mut self, is_meant: impl Fn(PageId) -> bool) -> Vec<(SessionId, PageId, u64)> {
        let mut taken = Vec::new();
        for (session, fetch) in &mut self.at_least {
            taken.extend(fetch.pages.extract_if(.., |page| is_meant(*page)).map(|page| (*session, page, fetch.number)));
        }
        self.at_least.retain(|(_, fetch)| !fetch.pages.is_empty());
        taken
    }

    /// A commit was applied.
    pub(crate) fn has_applied(&mut self) {
        self.may_go = true;
    }
}

impl Master {
    /// A session wants pages.
    pub fn fetch(&mut self, from: SessionId, fetch: Fetch) -> Result<(), Goodbye> {
        let Fetch { mut pages, at_least, number, follow } = fetch;
        if pages.is_empty() || pages.len() > PAGES_PER_MESSAGE_MAX {
            let text = format!("expected a fetch of 1 to {PAGES_PER_MESSAGE_MAX} pages, got {}", pages.len());
            return Err(Goodbye::malformed(text));
        }
        let shards = self.config.sharding.shards().get();
        if at_least.counts().last().is_some_and(|&(last, _)| last.0 >= shards) {
            let text = format!("expected a fetch with counts of {shards} shards, got {at_least}");
            return Err(Goodbye::malformed(text));
        }
        let may_hold = self.check_absent(from, pages[0])?;
        let Some(outstanding) = self.sessions.fetches(from) else { return Ok(()) };
        let most = self.config.limits.fetches_per_session;
        let room = most.saturating_sub(*outstanding);
        if room == 0 {
            return Err(Goodbye::too_much(format!("expected at most {most} fetches at a time")));
        }
        let left_out = pages.split_off(if may_hold { pages.len().min(room) } else { 0 });
        *outstanding += pages.len();
        let fetch = Fetch { pages, at_least, number, follow };
        if self.reaches(&fetch) || self.config.broken.is(Rule::FetchAtLeast) {
            self.serve(from, &fetch);
        } else {
            self.fetches.at_least.push((from, fetch));
        }
        for page in left_out {
            self.reply(from, LeftOut { page, number, damage: None });
        }
        Ok(())
    }

    /// Whether the session may be listed for the page that it waits for. A client that has made up too many begins
    /// again. A group is only told, for it is behind one session with all its members.
    fn check_absent(&self, from: SessionId, page: PageId) -> Result<bool, Goodbye> {
        let may_hold = self.may_hold(from, page);
        if !may_hold && !self.sessions.is_group(from) {
            let most = self.config.limits.absent_pages;
            return Err(Goodbye::too_much(format!(
                "expected at most {most} pages that do not exist, got another, {page}"
            )));
        }
        Ok(may_hold)
    }

    /// Whether the session may be listed for the page. A reader of a page that does not exist holds it from then on
    /// like any other, so there must be a bound to those that are made up.
    pub(crate) fn may_hold(&self, session: SessionId, page: PageId) -> bool {
        self.grants.counts(page)
            || self.pages.pages_held(session) < self.grants.count() + self.config.limits.absent_pages
    }

    /// A session holds pages no longer.
    pub fn released(&mut self, from: SessionId, released: &Released) -> Result<(), Goodbye> {
        let count = released.pages.len();
        if count > PAGES_PER_MESSAGE_MAX {
            let text = format!("expected a release of at most {PAGES_PER_MESSAGE_MAX} pages, got {count}");
            return Err(Goodbye::malformed(text));
        }
        let client = self.sessions.client(from);
        for &page in &released.pages {
            self.leases.released(from, page);
            // A session that releases a page that has just been granted to it does not know of the grant yet: it means
            // an earlier generation of the page.
            let is_granted = client.is_some_and(|client| self.grants.is_of(client, page));
            if !is_granted || self.pages.is_in_use(page) || self.config.broken.is(Rule::KeepGranted) {
                self.pages.directory().release(page, from);
            }
        }
        Ok(())
    }

    /// Serves the fetches that waited for counts which have been applied.
    pub(crate) fn serve_at_least(&mut self) {
        if !mem::take(&mut self.fetches.may_go) || self.fetches.at_least.is_empty() {
            return;
        }
        let (due, waiting): (Vec<_>, Vec<_>) =
            mem::take(&mut self.fetches.at_least).into_iter().partition(|(_, fetch)| self.reaches(fetch));
        self.fetches.at_least = waiting;
        for (session, fetch) in due {
            self.serve(session, &fetch);
        }
    }

    /// Whether the counts are applied that a fetch names, of the shards that are served and of those of its pages.
    fn reaches(&self, fetch: &Fetch) -> bool {
        let applied = self.pages.applied();
        let is_there = |page: &PageId| self.pages.applied_to(*page) >= self.pages.count_of(*page, &fetch.at_least);
        self.shards.reach(applied, &fetch.at_least) && fetch.pages.iter().all(is_there)
    }

    /// Answers for what is in memory, and has the rest read. The first page is wanted at once, and empty if it does not
    /// exist. The others are prefetched: they are left out if they do not, and beyond a bound of bytes.
    fn serve(&mut self, session: SessionId, fetch: &Fetch) {
        let (number, follow, mut bytes) = (fetch.number, fetch.follow, 0);
        let Some((&first, others)) = fetch.pages.split_first() else { return };
        let behind = if let Some(image) = self.pages.image(first) {
            self.send_first(session, number, first, &image, follow)
        } else if self.pages.damage(first).is_some() {
            self.answer_damaged(session, number, first);
            Vec::new()
        } else {
            self.pages.read([(first, Waiter::Fetch(session, number, follow))], &mut self.out);
            Vec::new()
        };
        let mut ahead = Vec::with_capacity(others.len() + behind.len());
        for &page in others {
            let is_damaged = self.pages.damage(page).is_some();
            if is_damaged || !self.grants.counts(page) || bytes > self.config.limits.answer_bytes {
                self.answer(session, LeftOut { page, number, damage: None });
                continue;
            }
            let page_bytes = self.pages.image_bytes_bound(page);
            bytes += page_bytes;
            ahead.push(Ahead { page, number, follows: false, bytes: page_bytes });
        }
        ahead.extend(behind);
        self.send_ahead(session, ahead);
    }

    /// The page has been read for this session.
    pub(crate) fn serve_read(&mut self, session: SessionId, page: PageId, number: u64, follow: Option<Follow>) {
        if let Some(image) = self.pages.image(page) {
            let behind = self.send_first(session, number, page, &image, follow);
            self.send_ahead(session, behind);
        }
    }

    /// Sends the first page that a fetch names; gives what follows it, which it has announced.
    fn send_first(
        &mut self,
        session: SessionId,
        number: u64,
        page: PageId,
        image: &ObjectPage,
        follow: Option<Follow>,
    ) -> Vec<Ahead> {
        let Some(queue) = self.sessions.ahead(session) else { return Vec::new() };
        queue.pass(image.len());
        self.list_named(session, page);
        let behind = follow.map_or_else(Vec::new, |follow| self.follow(session, page, image, follow));
        self.send_page(session, number, page, image, behind.clone());
        let ahead = |page| Ahead { page, number, follows: true, bytes: self.pages.image_bytes_bound(page) };
        behind.into_iter().map(ahead).collect()
    }

    /// A page that a fetch names is about to be sent to the session, which comes to hold it.
    pub(crate) fn list_named(&mut self, session: SessionId, page: PageId) {
        if let Some(outstanding) = self.sessions.fetches(session) {
            *outstanding = outstanding.saturating_sub(1);
        }
        self.list(session, page);
    }

    /// The session comes to hold the page.
    pub(crate) fn list(&mut self, session: SessionId, page: PageId) {
        let is_listed = !self.config.broken.is(Rule::ListAbsent) || self.grants.exists(page);
        if self.config.broken.is(Rule::ListHolderFirst) {
            self.fetches.late.push((page, session));
        } else if is_listed {
            self.pages.directory().list(page, session);
        }
        self.warn(session, page);
    }

    /// Sends a page to a session that is listed for it.
    pub(crate) fn send_page(
        &mut self,
        session: SessionId,
        number: u64,
        page: PageId,
        image: &ObjectPage,
        behind: Vec<PageId>,
    ) {
        let version = self.pages.version(page);
        self.pages_sent += 1;
        let image = image.image().clone();
        self.reply(session, Page { page, version, number, fresh: true, behind, image });
    }

    /// Lists who should have been listed before: only ever has something to do when a test took the rule out.
    pub fn list_late_holders(&mut self, heard: SessionId) {
        if !self.config.broken.is(Rule::ListHolderFirst) {
            return;
        }
        for (page, session) in mem::take(&mut self.fetches.late) {
            if session == heard {
                self.pages.directory().list(page, session);
            } else {
                self.fetches.late.push((page, session));
            }
        }
    }

    /// Answers a session that waits for a damaged page.
    pub(crate) fn answer_damaged(&mut self, session: SessionId, number: u64, page: PageId) {
        let damage = self.pages.damage(page).map(String::from);
        self.answer(session, LeftOut { page, number, damage });
    }

    pub(crate) fn answer(&mut self, session: SessionId, message: impl Into<ToClient>) {
        if let Some(outstanding) = self.sessions.fetches(session) {
            *outstanding = outstanding.saturating_sub(1);
            self.reply(session, message);
        }
    }
}
