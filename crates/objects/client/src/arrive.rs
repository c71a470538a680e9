//! A transaction misses a page, and the page comes: into the cache, and to those who wait for it.

use crate::fetch::{AHEAD_SHARE, Arrived, Here};
use crate::nodes::Node;
use crate::{Client, TxnError, TxnHandle};
use cache::{FrameNo, Installed};
use core::time::Duration;
use machine::Goodbye;
use messages::{At, LeftOut, Page};
use types::{ObjectId, PageId, Rule, Time};

impl Client {
    /// A transaction needs a page that is not here, or that has a hole where it reads and is at `frame`.
    pub(crate) fn fault(
        &mut self,
        now: Time,
        txn: TxnHandle,
        object: ObjectId,
        frame: Option<FrameNo>,
    ) -> Result<(), TxnError> {
        let at = self.nodes.places().of(object.page);
        self.nodes[at].session.check()?;
        if let Some(why) = self.txns.get(txn).and_then(|found| found.take_damage(object.page)) {
            return Err(TxnError::Damaged(object.page, why));
        }
        self.stats.misses += 1;
        let was_ahead = self.nodes[at].fetches.wait(now, object, txn);
        self.stats.prefetch_hits += u64::from(was_ahead);
        if let Some(frame) = frame {
            self.cache.pin_at(frame, self.stays_while_under_way());
        }
        self.txns.wait(now, txn);
        self.send_fetches(now, at);
        Ok(())
    }

    fn stays_while_under_way(&self) -> bool {
        !self.config.broken.is(Rule::ReleaseAfterFetch)
    }

    /// Asks a node for the pages that transactions wait for, as many as the session may have outstanding.
    pub(crate) fn send_fetches(&mut self, now: Time, at: At) {
        while self.nodes[at].session.may_fetch() {
            let (Node { session, fetches }, places) = self.nodes.parts(at);
            let (cache, allocator, horizon, gone) = (&self.cache, &self.allocator, session.horizon(), &self.gone);
            let here = Here { cache, allocator, horizon, gone, places, at };
            let Some(fetch) = fetches.next(session.up.limits().fetches, here) else { return };
            self.stats.fetches += 1;
            self.send(now, at, fetch);
        }
    }

    /// Asks, with the first words of a session that begins with nothing, for the pages that transactions wait for
    /// already, or for the one that every application reads first.
    pub(crate) fn fetch_first(&mut self, now: Time, at: At) {
        let first = self.config.first.filter(|first| self.nodes.places().of(first.page) == at);
        self.nodes[at].fetches.want_first(first);
        self.send_fetches(now, at);
    }

    /// Asks, in one message, for those of some pages that are not here whole: somebody is about to read them and knows
    /// it. A page with holes is asked for too: the slot that is read may be one of them, and would cost a round trip of
    /// its own. Nobody waits for them yet. Returns whether there were any.
    pub fn fetch_ahead(&mut self, now: Time, pages: &[PageId]) -> bool {
        self.config.reads_ahead && self.fetch_together(now, pages)
    }

    /// The bytes that may be asked for together, of pages that one operation needs all of.
    pub fn window_bytes(&self) -> usize {
        self.config.cache_bytes_limit / AHEAD_SHARE
    }

    /// [`Client::fetch_ahead`] for one operation that is known to need all of the pages, whether the application wants to
    /// read ahead or not.
    pub fn fetch_together(&mut self, now: Time, pages: &[PageId]) -> bool {
        let mut were_any = false;
        for at in self.nodes.all() {
            let (Node { session, fetches }, places) = self.nodes.parts(at);
            let most = session.is_live().then(|| session.up.limits().fetches);
            let (cache, allocator, horizon, gone) = (&self.cache, &self.allocator, session.horizon(), &self.gone);
            let Some(fetch) = fetches.ahead(pages, most, Here { cache, allocator, horizon, gone, places, at }) else {
                continue;
            };
            for &page in &fetch.pages {
                self.cache.pin(page, self.stays_while_under_way());
            }
            self.stats.fetches += 1;
            self.send(now, at, fetch);
            were_any = true;
        }
        were_any
    }

    /// A page has arrived from a node.
    pub(crate) fn page(&mut self, now: Time, at: At, page: Page) -> Result<(), Goodbye> {
        let (Node { session, fetches }, places) = self.nodes.parts(at);
        let (cache, allocator, horizon, gone) = (&self.cache, &self.allocator, session.horizon(), &self.gone);
        let Some(arrived) = fetches.receive(page, Here { cache, allocator, horizon, gone, places, at })? else {
            return Ok(());
        };
        let Arrived { page, version, image, under_way } = arrived;
        let (frame, installed) = self.cache.install(page, version, image, &under_way.kept);
        self.stats.pages_fetched += 1;
        self.stats.pages_renewed += u64::from(!matches!(installed, Installed::New));
        self.stats.pages_prefetched += u64::from(under_way.prefetched);
        self.stats.fetch_time += under_way.wanted.map_or(Duration::ZERO, |wanted| now - wanted);
        if let Installed::Over(older) = installed {
            self.txns.doom_by_install(page, self.cache.at(frame), &older, &mut self.out);
        }
        // However small the cache is, the page that has just come is there for those who wait for it.
        self.claims.claim(frame, &under_way.waiters, &mut self.txns, &mut self.cache);
        self.cache.pin_at(frame, self.is_pinned(page));
        if under_way.waiters.is_empty() {
            self.cache.mark_unread(frame);
        }
        self.make_room(now);
        for txn in under_way.waiters {
            self.txns.wake(txn, &mut self.out);
        }
        self.send_fetches(now, at);
        Ok(())
    }

    /// Handles a page that will not come: a prefetched one, or one that is damaged in the store. A frame with holes
    /// stays, and a transaction that waits for one of its holes gets the error.
    pub(crate) fn left_out(&mut self, now: Time, at: At, left_out: &LeftOut) -> Result<(), Goodbye> {
        let page = left_out.page;
        let (Node { session, fetches }, places) = self.nodes.parts(at);
        if !fetches.expects(page, left_out.number) {
            return Ok(());
        }
        let (cache, allocator, horizon, gone) = (&self.cache, &self.allocator, session.horizon(), &self.gone);
        if let Some(why) = &left_out.damage {
            let waiters = fetches.give_up(page);
            self.cache.pin(page, self.is_pinned(page));
            self.make_room(now);
            for txn in waiters {
                if let Some(found) = self.txns.get(txn) {
                    found.learn_damage(page, why);
                }
                self.txns.wake(txn, &mut self.out);
            }
        } else if fetches.leave_out(left_out, Here { cache, allocator, horizon, gone, places, at })? {
            // The frame that we have of it serves on.
            self.cache.pin(page, self.is_pinned(page));
            self.make_room(now);
        }
        self.send_fetches(now, at);
        Ok(())
    }
}
