//! Pages on their way: asked for once however many wait, and told of what changes meanwhile.
//!
//! 1. A page is under way from the first transaction that misses it until `Page` comes, over as many sessions as that
//!    takes. One that does not exist comes as an empty page, and is told of like any other. Only what was to be prefetched
//!    may be left out.
//! 2. Notices of a page under way are kept, and applied when it arrives.
//! 3. An answer names the fetch that it answers. In a group an earlier one can come late (see `help`).
//! 4. A page that is fetched because of a hole is at least as recent as the change that made the hole.
//! 5. Pages that are asked for ahead are counted in bytes, by how large pages have been of late: a cache is never asked
//!    to take in more at once than it has room for beside what is read.
//! 6. Prefetched pages come within the round trip of the page that is waited for: a connection carries little at first,
//!    and what it cannot carry at once stands before the next page that is waited for. So the first window of a session
//!    is small, and grows as the connection's does: by what has come together, if that was half of it or more.
//! 7. A page that the store has follow another is under way from when that one comes, which names it, as if we had
//!    asked for it. It does not count to what we may have outstanding.
//! 8. A page with holes that is under way does not leave the cache: its release could overtake the answer.

use crate::{Client, TxnError, TxnHandle};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use cache::{Frame, Installed};
use core::time::Duration;
use protocol::{Fetch, Follow, LeftOut, Notice, Page};
use types::limits::PAGE_BYTES_TARGET;
use types::{Broken, GoodbyeReason, Map, ObjectId, ObjectPage, PageId, Rule, SlotNo, Time, Version};

/// Prefetched pages take no more than one part in so many of the cache.
const PREFETCH_SHARE: usize = 4;

/// Pages that are asked for because they will be read take no more than one part in so many.
const AHEAD_SHARE: usize = 2;

#[derive(Debug, Default)]
struct UnderWay {
    waiters: Vec<TxnHandle>,
    kept: Vec<Notice>,
    sent: bool,
    prefetched: bool,
    /// It follows another page: the store has it come without having been asked for it by name.
    follows: bool,
    /// The slot that the first transaction to wait for it is to read there.
    slot: Option<SlotNo>,
    /// The fetch that it was last asked for by.
    number: u64,
    /// Since when a transaction waits for it.
    wanted: Option<Time>,
}

#[derive(Debug, Default)]
pub(crate) struct Fetches {
    under_way: Map<PageId, UnderWay>,
    /// Neighbours' pages that are ahead of what we have heard, and through where it is to be heard first.
    early: Vec<(Version, Page)>,
    /// The number of the last fetch.
    last: u64,
    /// The last fetch that the store has answered afresh in this session; zero for none.
    fresh: u64,
    /// Pages that transactions wait for and that have not been asked for in this session.
    unsent: VecDeque<PageId>,
    /// How many notices are kept.
    kept: usize,
    /// How large the pages that came last were, in bytes: an average in which each counts a quarter.
    page_bytes: usize,
    /// The bytes that this session's connection carries in one round trip, as far as is known.
    window_bytes: usize,
    /// The pages that have come of the fetch that was answered last.
    answer: Answer,
    /// How many of the pages under way follow others.
    following: usize,
}

/// The answer to one fetch, as far as it has come.
#[derive(Debug, Default)]
struct Answer {
    number: u64,
    bytes: usize,
    /// The window before it.
    window_bytes: usize,
}

impl Fetches {
    /// Before any page has come, pages are taken to be as large as creation fills them, but no larger than a cache of
    /// this size is made for.
    pub(crate) fn new(cache_bytes: usize, window_bytes: usize) -> Self {
        let page_bytes = PAGE_BYTES_TARGET.min(cache_bytes / 8);
        Self { page_bytes, window_bytes, ..Self::default() }
    }

    pub(crate) fn is_under_way(&self, page: PageId) -> bool {
        self.under_way.contains_key(&page)
    }

    fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The number of the last fetch.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Whether the store has answered, in this session, a fetch later than this one.
    pub(crate) fn is_answered_after(&self, number: u64) -> bool {
        self.fresh > number
    }

    /// Whether the page is under way by this fetch.
    pub(crate) fn expects(&self, page: PageId, number: u64, broken: Broken) -> bool {
        let under_way = self.under_way.get(&page).filter(|under_way| under_way.sent);
        under_way.is_some_and(|under_way| under_way.number == number || broken.is(Rule::OneFetch))
    }

    /// The copy of this page on its way is of no use: the page is asked for again, before all others. The redirector
    /// may not have heard of the earlier fetch yet, and this one takes its place: so there are never more outstanding
    /// than there may be.
    pub(crate) fn begin_again(&mut self, page: PageId) {
        let Some(under_way) = self.arrive(page) else { return };
        let UnderWay { waiters, wanted, slot, .. } = under_way;
        self.under_way.insert(page, UnderWay { waiters, slot, wanted, ..UnderWay::default() });
        if under_way.sent {
            self.unsent.push_front(page);
        }
    }

    /// Keeps a neighbour's page until everything has been heard through the count that it reflects.
    pub(crate) fn keep_early(&mut self, reflects: Version, page: Page) {
        let is_known = |(_, early): &(Version, Page)| (early.number, early.page) == (page.number, page.page);
        if !self.early.iter().any(is_known) {
            self.early.push((reflects, page));
        }
    }

    /// A page that came early and has its time at this horizon.
    pub(crate) fn take_early(&mut self, horizon: Version) -> Option<Page> {
        let due = self.early.iter().position(|(reflects, _)| *reflects <= horizon)?;
        Some(self.early.swap_remove(due).1)
    }

    /// Keeps a notice for a page under way.
    pub(crate) fn keep(&mut self, notice: &Notice) {
        if let Some(under_way) = self.under_way.get_mut(&notice.page) {
            under_way.kept.push(notice.clone());
            self.kept += 1;
        }
    }

    /// Whether more notices are kept than this, which no honest store makes us keep.
    pub(crate) fn keeps_more_than(&self, limit: usize) -> bool {
        self.kept > limit
    }

    /// The page has come, or will not come.
    fn arrive(&mut self, page: PageId) -> Option<UnderWay> {
        let under_way = self.under_way.remove(&page)?;
        self.kept -= under_way.kept.len();
        self.following -= usize::from(under_way.follows);
        // One that came early may never have its time: the count that it reflects is a neighbour's word.
        self.early.retain(|(_, early)| early.page != page);
        Some(under_way)
    }

    /// The pages that were asked for have to be asked for again, if anybody waits for them. Gives the pages that nobody
    /// waits for.
    fn link_is_gone(&mut self, first_window_bytes: usize) -> Vec<PageId> {
        (self.kept, self.fresh, self.following) = (0, 0, 0);
        (self.window_bytes, self.answer) = (first_window_bytes, Answer::default());
        self.early.clear();
        let unwanted = self.under_way.extract_if(|_, under_way| under_way.waiters.is_empty());
        let unwanted = unwanted.map(|(page, _)| page).collect();
        for under_way in self.under_way.values_mut() {
            let waiters = core::mem::take(&mut under_way.waiters);
            let (wanted, slot) = (under_way.wanted, under_way.slot);
            *under_way = UnderWay { waiters, slot, wanted, ..UnderWay::default() };
        }
        self.unsent = self.under_way.keys().copied().collect();
        self.unsent.make_contiguous().sort_unstable();
        unwanted
    }

    /// `txn` waits for the page of `object`; says whether it is the first to want a page that was asked for ahead.
    fn wait(&mut self, now: Time, object: ObjectId, txn: TxnHandle) -> bool {
        let ObjectId { page, slot } = object;
        let unsent = &mut self.unsent;
        let under_way = self.under_way.entry(page).or_insert_with(|| {
            unsent.push_back(page);
            UnderWay::default()
        });
        under_way.wanted.get_or_insert(now);
        under_way.slot.get_or_insert(slot);
        let is_first = under_way.prefetched && under_way.waiters.is_empty();
        if !under_way.waiters.contains(&txn) {
            under_way.waiters.push(txn);
        }
        is_first
    }

    /// Pages under way that we have asked for by name.
    fn outstanding(&self) -> usize {
        self.coming() - self.following
    }

    /// All pages under way.
    fn coming(&self) -> usize {
        self.under_way.len() - self.unsent.len()
    }

    /// A page of so many bytes has come in answer to this fetch.
    fn learn_size(&mut self, number: u64, bytes: usize) {
        self.page_bytes = (3 * self.page_bytes + bytes) / 4;
        if self.answer.number != number {
            self.answer = Answer { number, bytes: 0, window_bytes: self.window_bytes };
        }
        self.answer.bytes += bytes;
        let Answer { bytes, window_bytes: before, .. } = self.answer;
        if bytes >= before / 2 {
            self.window_bytes = self.window_bytes.max(before.saturating_add(bytes));
        }
    }
}

impl Client {
    /// A transaction needs a page that is not here, or that has a hole where it reads.
    pub(crate) fn fault(&mut self, now: Time, txn: TxnHandle, object: ObjectId) -> Result<(), TxnError> {
        let page = object.page;
        self.session.check()?;
        self.stats.misses += 1;
        if self.fetches.wait(now, object, txn) {
            self.prefetch_was_used(page);
        }
        self.pin_while_under_way(page);
        self.wait(now, txn);
        self.send_fetches(now);
        Ok(())
    }

    fn pin_while_under_way(&mut self, page: PageId) {
        self.cache.pin(page, !self.config.broken.is(Rule::ReleaseAfterFetch));
    }

    /// The fetches of a session that is gone have no answer any more.
    pub(crate) fn fetches_are_gone(&mut self) {
        for page in self.fetches.link_is_gone(self.config.first_window_bytes) {
            self.unpin(page);
        }
    }

    /// How recent a page must be to fill the holes that we have in it.
    fn recent_enough(&self, page: PageId) -> Version {
        if self.config.broken.is(Rule::FetchAtLeast) {
            return Version::ZERO;
        }
        self.cache.get(page).map_or(Version::ZERO, Frame::newest).max(self.session.horizon())
    }

    pub(crate) fn send_fetches(&mut self, now: Time) {
        while self.session.may_fetch() && self.fetches.outstanding() < self.session.up.limits().fetches.max(1) as usize
        {
            let Some(page) = self.fetches.unsent.pop_front() else { return };
            let number = self.fetches.next_number();
            let under_way = self.fetches.under_way.entry(page).or_default();
            (under_way.sent, under_way.number) = (true, number);
            let slot = under_way.slot;
            let at_least = self.recent_enough(page);
            let mut pages = alloc::vec![page];
            let slot = slot.filter(|_| self.follows());
            // Pages that are referred to are likelier than those that lie beside, where there were any.
            self.add_neighbours(&mut pages, number, slot.is_none() || !self.following.has_found());
            let follow = slot.and_then(|slot| self.follow(slot));
            self.stats.fetches += 1;
            self.send(now, Fetch { pages, at_least, number, follow });
        }
    }

    /// Asks, with the first words of a session that begins with nothing, for what a transaction waits for already, or for
    /// what every application reads first.
    pub(crate) fn fetch_first(&mut self, now: Time) {
        if self.fetches.unsent.is_empty()
            && let Some(first) = self.config.first
        {
            let slot = Some(first.slot);
            self.fetches.under_way.insert(first.page, UnderWay { prefetched: true, slot, ..UnderWay::default() });
            self.fetches.unsent.push_back(first.page);
            self.prefetch.issued(1);
        }
        self.send_fetches(now);
    }

    /// Whether the store is to have anything follow what is fetched next.
    fn follows(&mut self) -> bool {
        self.config.follows && self.prefetch.pages_max() > 0 && self.following.pays()
    }

    /// The request that pages follow the one of which this object is read: as many as the connection carries at once
    /// beside what is under way, and a quarter of the cache takes.
    fn follow(&self, slot: SlotNo) -> Option<Follow> {
        let Fetches { page_bytes, window_bytes, following, .. } = self.fetches;
        // Pages that follow one that has come are on the line already. When this fetch is answered it has been carried,
        // and the window has grown by it.
        let carried = window_bytes.saturating_add(following * page_bytes);
        let asked_for = (self.fetches.outstanding() - 1) * page_bytes;
        let taken = (self.fetches.coming() - 1) * page_bytes;
        let room = (self.config.cache_bytes_limit / PREFETCH_SHARE).saturating_sub(taken);
        let bytes = u32::try_from(carried.saturating_sub(asked_for).min(room)).unwrap_or(u32::MAX);
        (bytes > 0).then_some(Follow { slot, bytes })
    }

    /// The store has these pages follow one that has come in answer to a fetch.
    fn expect_behind(&mut self, number: u64, behind: &[PageId]) {
        self.following.found(!behind.is_empty());
        for &page in behind {
            let here = self.cache.find(page).is_some() || self.allocator.is_unused(page);
            if !here && !self.fetches.is_under_way(page) {
                let under_way = UnderWay { sent: true, prefetched: true, follows: true, number, ..UnderWay::default() };
                self.fetches.under_way.insert(page, under_way);
                self.fetches.following += 1;
                self.following.issued(page);
            }
        }
    }

    /// Adds the pages to be prefetched with a page. They take at most half of what the session may have outstanding,
    /// so that the page which some transaction misses next does not wait for them, a quarter of the cache, and what the
    /// connection carries at once. Where none are wanted, it is only learned where pages are missed.
    ///
    /// A neighbour with holes is here: most of it can be read, nobody has said that the holes will be, and whether a
    /// prefetch helps is judged by whether its pages are read, which these would be anyway.
    fn add_neighbours(&mut self, pages: &mut Vec<PageId>, number: u64, are_wanted: bool) {
        let carried = self.pages_of(self.fetches.window_bytes).saturating_sub(self.fetches.coming());
        let room = self.room_ahead(PREFETCH_SHARE).min(carried).min(self.prefetch.pages_max() as usize);
        let most = if are_wanted { room.min(self.config.limits.pages_per_message - 1) } else { 0 };
        for page in self.prefetch.fault(pages[0]) {
            if pages.len() > most {
                break;
            }
            let here = self.cache.find(page).is_some() || self.allocator.is_unused(page);
            if !here && !self.fetches.is_under_way(page) {
                let under_way = UnderWay { sent: true, prefetched: true, number, ..UnderWay::default() };
                self.fetches.under_way.insert(page, under_way);
                pages.push(page);
            }
        }
        self.prefetch.issued(pages.len() - 1);
    }

    /// Asks, in one message, for those of some pages that are not here whole: somebody is about to read them and knows
    /// it. A page with holes is asked for too: the slot that is read may be one of them, and would cost a round trip of
    /// its own. Nobody waits for them yet. Says whether there were any.
    pub fn fetch_ahead(&mut self, now: Time, pages: &[PageId]) -> bool {
        self.config.reads_ahead && self.fetch_together(now, pages)
    }

    /// The bytes that may be asked for together, of pages that one operation needs all of.
    pub fn window_bytes(&self) -> usize {
        self.config.cache_bytes_limit / AHEAD_SHARE
    }

    /// How many pages more may be asked for ahead, if what is on its way is to take no more than this share of the cache,
    /// and no more than half of what the session may have outstanding.
    fn room_ahead(&self, share: usize) -> usize {
        let room = self.pages_of(self.config.cache_bytes_limit / share);
        let fetches = (self.session.up.limits().fetches as usize / 2).saturating_sub(self.fetches.outstanding());
        room.saturating_sub(self.fetches.coming()).min(fetches)
    }

    /// How many pages come to so many bytes.
    fn pages_of(&self, bytes: usize) -> usize {
        bytes / self.fetches.page_bytes.max(1)
    }

    /// [`Client::fetch_ahead`] for one operation that is known to need all of the pages, whether the application wants to
    /// read ahead or not.
    pub fn fetch_together(&mut self, now: Time, pages: &[PageId]) -> bool {
        let room = self.room_ahead(AHEAD_SHARE).min(self.config.limits.pages_per_message);
        let most = if self.session.is_live() { room } else { 0 };
        let (mut asked, mut at_least) = (Vec::new(), self.session.horizon());
        let number = self.fetches.next_number();
        for &page in pages {
            let here = self.cache.get(page).is_some_and(Frame::is_complete) || self.allocator.is_unused(page);
            if asked.len() < most && !here && !self.fetches.is_under_way(page) {
                let under_way = UnderWay { sent: true, prefetched: true, number, ..UnderWay::default() };
                self.fetches.under_way.insert(page, under_way);
                self.pin_while_under_way(page);
                at_least = at_least.max(self.recent_enough(page));
                asked.push(page);
            }
        }
        if asked.is_empty() {
            return false;
        }
        self.prefetch.issued(asked.len());
        self.stats.fetches += 1;
        self.send(now, Fetch { pages: asked, at_least, number, follow: None });
        true
    }

    /// A page has arrived.
    pub(crate) fn page(&mut self, now: Time, page: Page) {
        if !self.fetches.expects(page.page, page.number, self.config.broken) {
            return;
        }
        let image = match ObjectPage::parse(page.image) {
            Ok(image) => image,
            Err(error) => return self.hang_up(GoodbyeReason::Malformed, format!("page {}: {error}", page.page)),
        };
        let under_way = self.fetches.arrive(page.page).expect("just seen");
        self.fetches.learn_size(page.number, image.len());
        if !under_way.follows {
            self.expect_behind(page.number, &page.behind);
        }
        if page.fresh {
            self.fetches.fresh = self.fetches.fresh.max(page.number);
        }
        self.stats.pages_fetched += 1;
        self.stats.pages_renewed += u64::from(self.cache.find(page.page).is_some());
        self.stats.pages_prefetched += u64::from(under_way.prefetched);
        self.stats.fetch_time += under_way.wanted.map_or(Duration::ZERO, |wanted| now - wanted);
        if page.version > Version::ZERO {
            self.prefetch.exists(page.page);
        }
        let kept = &under_way.kept[..];
        if let Installed::Over(older) = self.cache.install(page.page, page.version, image, kept) {
            self.doom_by_install(page.page, &older);
        }
        // However small the cache is, the page that has just come is there for those who wait for it.
        self.claim(page.page, &under_way.waiters);
        self.unpin(page.page);
        self.make_room(now);
        if under_way.waiters.is_empty() {
            self.cache.mark_unread(page.page);
        }
        for txn in under_way.waiters {
            self.wake(txn);
        }
        self.send_fetches(now);
    }

    /// A page that was asked for ahead is wanted now.
    pub(crate) fn prefetch_was_used(&mut self, page: PageId) {
        self.stats.prefetch_hits += 1;
        if !self.following.used(page) {
            self.prefetch.used(page);
        }
    }

    /// A page that was to be prefetched was left out. It may have become wanted meanwhile.
    pub(crate) fn left_out(&mut self, now: Time, left_out: &LeftOut) {
        let page = left_out.page;
        if !self.fetches.expects(page, left_out.number, self.config.broken) {
            return;
        }
        let under_way = self.fetches.under_way.get_mut(&page).expect("it is expected");
        if !under_way.prefetched {
            let text = format!("page {page} was left out, and is wanted");
            return self.hang_up(GoodbyeReason::Malformed, text);
        }
        if under_way.waiters.is_empty() {
            self.fetches.arrive(page);
            if self.cache.find(page).is_none() {
                self.prefetch.ends_before(page);
            }
            // With what we have of it we go on.
            self.unpin(page);
            self.make_room(now);
        } else {
            (under_way.sent, under_way.prefetched) = (false, false);
            self.fetches.following -= usize::from(core::mem::take(&mut under_way.follows));
            self.fetches.unsent.push_back(page);
        }
        self.send_fetches(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_begins_small_and_grows_by_what_has_come_together() {
        let mut fetches = Fetches::new(64 << 20, 14_000);
        let mut come = |number, bytes| {
            fetches.learn_size(number, bytes);
            fetches.window_bytes
        };
        assert_eq!(come(1, 6_000), 14_000);
        assert_eq!(come(2, 8_000), 22_000);
        assert_eq!([come(3, 8_000), come(3, 8_000), come(3, 8_000)], [22_000, 38_000, 46_000]);
        assert_eq!(come(4, 8_000), 46_000, "a connection that has less to carry carries as much as before");
        fetches.link_is_gone(14_000);
        assert_eq!(fetches.window_bytes, 14_000);
    }
}
