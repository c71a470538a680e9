//! How a session resumes: what a client still holds is listed first, then compared by version.

use crate::Master;
use crate::sessions::Resuming;
use alloc::format;
use directory::Urgency;
use machine::Goodbye;
use messages::{Ack, Held, Invalidation, Resume, Resumed};
use types::limits::{GRANTED_PAGES_MAX, PAGES_PER_MESSAGE_MAX, TXN_PAGES_MAX};
use types::{GoodbyeReason, PageId, PageRange, Rule, SessionId, Time, Vector};

/// Pages that one resume may find useless: no cache holds more.
const DROPPED_MAX: usize = TXN_PAGES_MAX;

/// The changes of a page since a cache got it.
pub(crate) enum Comparison {
    /// It is as the cache has it.
    Current,
    /// These slots have changed.
    Changed(Invalidation),
    /// The page does not exist, or nobody knows any more which of its slots have changed.
    Unknown,
}

impl Master {
    /// A client tells what it still holds.
    ///
    /// # Errors
    /// If it says something that no client of ours would, which ends the session.
    pub fn resumed(&mut self, now: Time, from: SessionId, resume: &Resume) -> Result<(), Goodbye> {
        self.check_resume(from, resume)?;
        if let Some(resuming) = self.sessions.resuming(from) {
            resuming.horizon = resume.horizon.clone();
            resuming.claimed.extend(&resume.grants);
        }
        for held in &resume.pages {
            self.resume_page(now, from, *held, &resume.horizon);
        }
        for page in resume.grants.iter().copied().flat_map(PageRange::pages) {
            self.resume_grant(from, page, &resume.horizon);
        }
        let Some(resuming) = self.sessions.resuming(from) else { return Ok(()) };
        let (dropped, claimed) = (resuming.dropped.len(), resuming.claimed.len());
        if dropped > DROPPED_MAX {
            return Err(Goodbye::too_much(format!("expected at most {DROPPED_MAX} pages to drop, got {dropped}")));
        }
        if claimed > GRANTED_PAGES_MAX {
            return Err(Goodbye::too_much(format!("expected at most {GRANTED_PAGES_MAX} ranges, got {claimed}")));
        }
        if resume.last {
            self.join(from);
        }
        Ok(())
    }

    fn check_resume(&mut self, from: SessionId, resume: &Resume) -> Result<(), Goodbye> {
        let pages = resume.pages.len();
        let grants: u64 = resume.grants.iter().map(|range| u64::from(range.count)).sum();
        if self.sessions.resuming(from).is_none() {
            return Err(Goodbye::malformed("expected no resumption after the last one".into()));
        }
        if pages > PAGES_PER_MESSAGE_MAX || grants > GRANTED_PAGES_MAX as u64 {
            let text = format!(
                "expected at most {PAGES_PER_MESSAGE_MAX} pages and {GRANTED_PAGES_MAX} granted ones in a resumption, got \
                 {pages} and {grants}"
            );
            return Err(Goodbye::malformed(text));
        }
        self.check_versions(&resume.horizon, &resume.pages)
    }

    /// The session has applied everything through what it acknowledges.
    ///
    /// # Errors
    /// If that is more than there is.
    pub fn ack(&mut self, from: SessionId, ack: &Ack) -> Result<(), Goodbye> {
        let applied = self.pages.applied();
        if !self.shards.reach(applied, &ack.through) {
            let text = format!("expected an acknowledgement of up to {applied}, got {}", ack.through);
            return Err(Goodbye::malformed(text));
        }
        self.sessions.ack(from, &ack.through);
        if let Some(least) = self.sessions.least_acked() {
            self.pages.prune(&least);
        }
        Ok(())
    }

    /// Nobody holds what this store has not given; but for a client that knows it from before it was restored from a
    /// copy, and is about to learn of that from `Welcome`. A page can be ahead of this master if its commit is prepared
    /// here: then it is dropped.
    fn check_versions(&self, horizon: &Vector, pages: &[Held]) -> Result<(), Goodbye> {
        let (applied, mut newest) = (self.pages.applied(), horizon.clone());
        for held in pages {
            newest.raise(self.config.sharding.of(held.page), held.version);
        }
        let mut beyond = newest.counts().iter().filter(|&&(shard, count)| count > applied.of(shard));
        if beyond.any(|&(shard, _)| self.shards.serves(shard) && !self.has_unapplied(shard)) {
            let text = format!("expected versions up to {applied}, got {newest}");
            return Err(Goodbye { reason: GoodbyeReason::Done, text });
        }
        Ok(())
    }

    /// A page that the client holds: unchanged, or made known slot by slot, or to be dropped.
    fn resume_page(&mut self, now: Time, from: SessionId, held: Held, horizon: &Vector) {
        match self.compare(from, held, horizon) {
            Comparison::Current => {}
            Comparison::Changed(invalidation) => self.invalidations.push(now, from, invalidation),
            Comparison::Unknown => self.drop_page(from, held.page),
        }
    }

    /// Lists the session as a holder of the page, and then compares: whoever has the page at `held.version` and has
    /// learned of every change to it through `horizon` knows of all through the greater of the two.
    pub(crate) fn compare(&mut self, from: SessionId, held: Held, horizon: &Vector) -> Comparison {
        let Held { page, version: prev } = held;
        let known = prev.max(self.pages.count_of(page, horizon));
        let is_here = self.shards.serves(self.config.sharding.of(page));
        if !is_here || known > self.pages.applied_to(page) || !self.may_hold(from, page) {
            return Comparison::Unknown;
        }
        self.pages.directory().list(page, from);
        self.warn(from, page);
        if !self.grants.exists(page) {
            // A client that holds too many of these comes back without.
            return Comparison::Unknown;
        }
        let version = self.pages.version(page);
        if version <= known || self.config.broken.is(Rule::RevalidateOnResume) {
            return Comparison::Current;
        }
        match self.pages.changed_after(page, known) {
            Some(slots) => {
                let txn = Invalidation::SEVERAL;
                Comparison::Changed(Invalidation { page, prev, version, slots, txn, data: None })
            }
            None => Comparison::Unknown,
        }
    }

    /// A page that the client was granted and has not filled: it keeps it, unless the page is another's by now. One
    /// that was written to since, by any client, is no grant any more, and be it empty again.
    fn resume_grant(&mut self, from: SessionId, page: PageId, horizon: &Vector) {
        let Some(client) = self.sessions.client(from) else { return };
        let known = self.pages.count_of(page, horizon);
        let is_unused = self.pages.version(page) <= known && !self.pages.is_in_use(page);
        let is_here = self.shards.serves(self.config.sharding.of(page));
        let may_claim = is_unused || self.config.broken.is(Rule::ClaimUnused);
        if is_here && may_claim && self.grants.claim(client, page) {
            self.pages.directory().list(page, from);
        } else {
            self.drop_page(from, page);
        }
    }

    /// Members of a group drop a page each in its time: as long as one of them has it, the group holds it.
    fn drop_page(&mut self, from: SessionId, page: PageId) {
        if !self.sessions.is_group(from) {
            self.pages.directory().release(page, from);
        }
        if let Some(resuming) = self.sessions.resuming(from) {
            resuming.dropped.push(page);
        }
    }

    /// All is listed: the horizon moves again.
    fn join(&mut self, from: SessionId) {
        self.flush(from, Urgency::Worthwhile);
        let Resuming { dropped, claimed, .. } = self.sessions.join(from);
        if let Some(client) = self.sessions.client(from) {
            let pages = &self.pages;
            self.grants.keep_claimed(client, claimed, &|page| pages.is_in_use(page));
        }
        let through = self.pages.applied().clone();
        self.invalidations.resume(from, &through);
        self.out.send(from, Resumed { through, dropped });
    }
}
