//! Pages on their way: asked for once however many wait, and told of changes in the meantime.
//!
//! 1. A page is under way from the first transaction that misses it until `Page` comes, over as many sessions as that
//!    takes. One that does not exist comes as an empty page, and is notified of like any other. Only one that was to be
//!    prefetched may be left out.
//! 2. Invalidations of a page under way are kept, and applied when it arrives.
//! 3. An answer names the fetch that it answers. In a group an earlier one can come late (see `help`).
//! 4. A page that is fetched because of a hole is at least as recent as the change that made the hole.
//! 5. Pages that are asked for ahead are counted in bytes, by how large pages have been of late: a cache is never asked
//!    to take in more at once than it has room for beside the pages that are read.
//! 6. Prefetched pages come within the round trip of the page that is waited for (see `window`).
//! 7. A page that the store has follow another is under way from when that one comes, which names it, as if we had
//!    asked for it. It does not count to those that we may have outstanding.
//! 8. A page with holes that is under way does not leave the cache: its release could overtake the answer.

use crate::create::Allocator;
use crate::follow::Following;
use crate::prefetch::Prefetch;
use crate::window::Window;
use crate::{Config, TxnHandle};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use cache::{Cache, Frame};
use machine::Goodbye;
use messages::{At, Fetch, Follow, Invalidation, LeftOut, Page, Places};
use types::limits::PAGE_BYTES_TARGET;
use types::{Broken, Horizon, Map, MapEntry, ObjectId, ObjectPage, PageId, Rule, SlotNo, Time, Vector, Version};

/// Prefetched pages take no more than one part in this many of the cache. With several nodes, each has its share of
/// that part.
const PREFETCH_SHARE: usize = 4;

/// Pages that are asked for because they will be read take no more than one part in this many.
pub(crate) const AHEAD_SHARE: usize = 2;

/// A page under way.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    pub(crate) waiters: Vec<TxnHandle>,
    /// The invalidations of it that came in the meantime.
    pub(crate) kept: Vec<Invalidation>,
    sent: bool,
    /// It was asked for ahead, or follows: nobody waited for it.
    pub(crate) prefetched: bool,
    /// It follows another page: the store has it come without having been asked for it by name.
    follows: bool,
    /// The slot that the first transaction to wait for it should read there.
    slot: Option<SlotNo>,
    /// The fetch that it was last asked for by.
    number: u64,
    /// Since when a transaction waits for it.
    pub(crate) wanted: Option<Time>,
}

impl UnderWay {
    /// One that is asked for ahead by this fetch.
    fn ahead(number: u64) -> Self {
        Self { sent: true, prefetched: true, number, ..Self::default() }
    }

    /// Whether it should come by this fetch.
    fn is_by(&self, number: u64, broken: Broken) -> bool {
        self.sent && (self.number == number || broken.is(Rule::OneFetch))
    }

    /// The same to be asked for again, for those who wait.
    fn again(&mut self) -> Self {
        let waiters = core::mem::take(&mut self.waiters);
        Self { waiters, slot: self.slot, wanted: self.wanted, ..Self::default() }
    }
}

/// A page that has come and was expected.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) page: PageId,
    pub(crate) version: Version,
    pub(crate) image: ObjectPage,
    pub(crate) under_way: UnderWay,
}

/// The pages that need not be asked for: those that are here, with the horizon, and those of other nodes. Besides, how
/// recent pages were that have left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) allocator: &'a Allocator,
    pub(crate) horizon: Horizon<'a>,
    pub(crate) gone: &'a Vector,
    pub(crate) places: &'a Places,
    pub(crate) at: At,
}

impl Here<'_> {
    /// Whether the node has the page.
    fn is_at_node(&self, page: PageId) -> bool {
        self.places.of(page) == self.at
    }

    /// Whether the page is here, with holes or without.
    fn has(&self, page: PageId) -> bool {
        self.cache.find(page).is_some() || self.allocator.is_unused(page)
    }
}

/// The pages under way, and the choice of those that are asked for.
#[derive(Debug)]
pub(crate) struct Fetches {
    under_way: Map<PageId, UnderWay>,
    /// Peers' pages that are ahead of what we have heard, and through where it should be heard first.
    early: Vec<(Vector, Page)>,
    /// The number of the last fetch.
    last: u64,
    /// The last fetch that the store has answered afresh in this session; zero for none.
    fresh: u64,
    /// Pages that transactions wait for and that have not been asked for in this session.
    unsent: VecDeque<PageId>,
    /// How many invalidations are kept.
    kept: usize,
    /// How many of the pages under way follow others.
    following: usize,
    window: Window,
    prefetch: Prefetch,
    follow: Following,
    /// Whether the store is asked to have pages follow.
    follows: bool,
    cache_bytes_limit: usize,
    pages_per_message: usize,
    kept_max: usize,
    broken: Broken,
}

impl Fetches {
    pub(crate) fn new(config: &Config) -> Self {
        // Prefetched pages never crowd out a small cache.
        let prefetch_pages_limit = (config.cache_bytes_limit / (PREFETCH_SHARE * PAGE_BYTES_TARGET)) as u32;
        let prefetch_pages_max = config.prefetch_pages_max.min(prefetch_pages_limit);
        Self {
            under_way: Map::default(),
            early: Vec::new(),
            last: 0,
            fresh: 0,
            unsent: VecDeque::new(),
            kept: 0,
            following: 0,
            window: Window::new(config.cache_bytes_limit, config.first_window_bytes),
            prefetch: Prefetch::new(prefetch_pages_max),
            follow: Following::new(),
            follows: config.follows && prefetch_pages_max > 0,
            cache_bytes_limit: config.cache_bytes_limit,
            pages_per_message: config.limits.pages_per_message,
            kept_max: config.limits.kept_invalidations,
            broken: config.broken,
        }
    }

    pub(crate) fn is_under_way(&self, page: PageId) -> bool {
        self.under_way.contains_key(&page)
    }

    /// Whether the page is under way by this fetch.
    pub(crate) fn expects(&self, page: PageId, number: u64) -> bool {
        self.under_way.get(&page).is_some_and(|under_way| under_way.is_by(number, self.broken))
    }

    /// The number of the last fetch.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Whether the store has answered, in this session, a fetch later than this one.
    pub(crate) fn is_answered_after(&self, number: u64) -> bool {
        self.fresh > number
    }

    /// Keeps an invalidation for a page under way.
    pub(crate) fn keep(&mut self, invalidation: &Invalidation) {
        if self.broken.is(Rule::KeepInvalidations) {
            return;
        }
        if let Some(under_way) = self.under_way.get_mut(&invalidation.page) {
            under_way.kept.push(invalidation.clone());
            self.kept += 1;
        }
    }

    /// Refuses to continue with a store that makes us keep more invalidations than any honest one.
    pub(crate) fn check_kept(&self) -> Result<(), Goodbye> {
        if self.kept > self.kept_max {
            let text = "more invalidations of pages under way than a store sends before the pages".into();
            return Err(Goodbye::too_much(text));
        }
        Ok(())
    }

    /// A transaction waits for the page of `object`; says whether it is the first to want a page that was asked for
    /// ahead.
    pub(crate) fn wait(&mut self, now: Time, object: ObjectId, txn: TxnHandle) -> bool {
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
        if is_first {
            self.used(page);
        }
        is_first
    }

    /// A page that was asked for ahead is wanted now.
    pub(crate) fn used(&mut self, page: PageId) {
        if !self.follow.used(page) {
            self.prefetch.used(page);
        }
    }

    /// A page that every application reads first, if nothing else is waited for already.
    pub(crate) fn want_first(&mut self, first: Option<ObjectId>) {
        if let Some(first) = first.filter(|_| self.unsent.is_empty()) {
            let slot = Some(first.slot);
            self.under_way.insert(first.page, UnderWay { prefetched: true, slot, ..UnderWay::default() });
            self.unsent.push_back(first.page);
            self.prefetch.issued(1);
        }
    }

    /// The next fetch that may go out in a session that may have `most` pages outstanding: of a page that a transaction
    /// waits for, with others that are likely to be read next.
    pub(crate) fn next(&mut self, most: u32, here: Here<'_>) -> Option<Fetch> {
        if self.outstanding() >= most.max(1) as usize {
            return None;
        }
        let page = self.unsent.pop_front()?;
        let number = self.next_number();
        let under_way = self.under_way.entry(page).or_default();
        (under_way.sent, under_way.number) = (true, number);
        let slot = under_way.slot.filter(|_| self.follows && self.follow.pays());
        let at_least = self.recent_enough(page, here);
        // Pages that are referred to are likelier than those that lie beside, where there were any.
        let pages = self.with_pages_beside(page, slot.is_none() || !self.follow.has_found(), most, here);
        let follow = slot.and_then(|slot| self.follow(slot, here));
        Some(Fetch { pages, at_least, number, follow })
    }

    /// How recent a page must be to fill the holes that its frame has, and not to be older than one that has left.
    fn recent_enough(&self, page: PageId, here: Here<'_>) -> Vector {
        if self.broken.is(Rule::FetchAtLeast) {
            return Vector::new();
        }
        let Horizon { counts, sharding } = here.horizon;
        let (mut at_least, shard) = (counts.clone(), sharding.of(page));
        at_least.raise(shard, here.cache.get(page).map_or(Version::ZERO, Frame::newest));
        at_least.raise(shard, here.gone.of(shard));
        at_least
    }

    /// The page that is asked for by the last fetch, and those to be prefetched with it. They take at most half of what
    /// the session may have outstanding, so that the page which some transaction misses next does not wait for them, a
    /// quarter of the cache, and what the connection carries at once. Where none are wanted, it is only learned where
    /// pages are missed.
    ///
    /// A page beside it that has holes is here: most of it can be read, nobody has said that the holes will be, and
    /// whether a prefetch helps is judged by whether its pages are read, which these would be anyway.
    fn with_pages_beside(&mut self, page: PageId, are_wanted: bool, most: u32, here: Here<'_>) -> Vec<PageId> {
        let carried = self.window.pages_of(self.window.bytes()).saturating_sub(self.coming());
        let room = self.room_ahead(PREFETCH_SHARE, most, here).min(carried).min(self.prefetch.pages_max() as usize);
        let most = if are_wanted { room.min(self.pages_per_message - 1) } else { 0 };
        let mut pages = alloc::vec![page];
        for page in self.prefetch.fault(page) {
            if pages.len() > most {
                break;
            }
            let is_wanted = here.is_at_node(page) && !here.has(page);
            if is_wanted && self.begin(page, UnderWay::ahead(self.last)) {
                pages.push(page);
            }
        }
        self.prefetch.issued(pages.len() - 1);
        pages
    }

    /// The request that pages follow the one of which this object is read: as many as the connection carries at once
    /// beside what is under way, and a quarter of the cache takes.
    fn follow(&self, slot: SlotNo, here: Here<'_>) -> Option<Follow> {
        // Pages that follow one that has come are on the line already. When this fetch is answered it has been carried,
        // and the window has grown by it.
        let carried = self.window.bytes().saturating_add(self.window.bytes_of(self.following));
        let asked_for = self.window.bytes_of(self.outstanding() - 1);
        let taken = self.window.bytes_of(self.coming() - 1);
        let room = self.share_of_cache(PREFETCH_SHARE, here).saturating_sub(taken);
        let bytes = u32::try_from(carried.saturating_sub(asked_for).min(room)).unwrap_or(u32::MAX);
        (bytes > 0).then_some(Follow { slot, bytes })
    }

    /// A fetch of those of some pages that are not here whole, of which somebody knows that they will be read. `most`
    /// is how many a session that is live may have outstanding.
    pub(crate) fn ahead(&mut self, pages: &[PageId], most: Option<u32>, here: Here<'_>) -> Option<Fetch> {
        let room = most.map_or(0, |most| self.room_ahead(AHEAD_SHARE, most, here).min(self.pages_per_message));
        let (mut asked, mut at_least) = (Vec::new(), here.horizon.counts.clone());
        let number = self.next_number();
        for &page in pages {
            if !here.is_at_node(page) {
                continue;
            }
            let frame = here.cache.get(page);
            let is_here = frame.is_some_and(Frame::is_complete) || here.allocator.is_unused(page);
            if asked.len() < room && !is_here && self.begin(page, UnderWay::ahead(number)) {
                at_least.join(&self.recent_enough(page, here));
                asked.push(page);
            }
        }
        if asked.is_empty() {
            return None;
        }
        self.prefetch.issued(asked.len());
        Some(Fetch { pages: asked, at_least, number, follow: None })
    }

    /// How many pages more may be asked for ahead, if what is on its way should take no more than this share of the
    /// cache, and no more than half of what the session may have outstanding.
    fn room_ahead(&self, share: usize, most: u32, here: Here<'_>) -> usize {
        let room = self.window.pages_of(self.share_of_cache(share, here));
        let fetches = (most as usize / 2).saturating_sub(self.outstanding());
        room.saturating_sub(self.coming()).min(fetches)
    }

    /// The bytes of one part in this many of the cache, as far as they are for pages of this node.
    fn share_of_cache(&self, share: usize, here: Here<'_>) -> usize {
        self.cache_bytes_limit / (share * here.places.nodes())
    }

    fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Pages under way that we have asked for by name.
    fn outstanding(&self) -> usize {
        self.coming() - self.following
    }

    /// All pages under way.
    fn coming(&self) -> usize {
        self.under_way.len() - self.unsent.len()
    }

    /// A page is under way from now on; says whether it was not before.
    fn begin(&mut self, page: PageId, under_way: UnderWay) -> bool {
        self.under_way.try_insert(page, under_way).is_ok()
    }

    /// A page has come. `None` if it is not expected, or not by this fetch.
    pub(crate) fn receive(&mut self, page: Page, here: Here<'_>) -> Result<Option<Arrived>, Goodbye> {
        let Page { page, version, number, fresh, behind, image } = page;
        let MapEntry::Occupied(under_way) = self.under_way.entry(page) else { return Ok(None) };
        if !under_way.get().is_by(number, self.broken) {
            return Ok(None);
        }
        let image = ObjectPage::parse(image).map_err(|error| Goodbye::malformed(format!("page {page}: {error}")))?;
        let under_way = under_way.remove();
        self.is_over(page, &under_way);
        self.window.learn(number, image.len());
        if !under_way.follows {
            self.expect_behind(number, &behind, here);
        }
        if fresh {
            self.fresh = self.fresh.max(number);
        }
        if version > Version::ZERO {
            self.prefetch.exists(page);
        }
        Ok(Some(Arrived { page, version, image, under_way }))
    }

    /// The store has these pages follow one that has come in answer to a fetch.
    fn expect_behind(&mut self, number: u64, behind: &[PageId], here: Here<'_>) {
        self.follow.found(!behind.is_empty());
        for &page in behind {
            let is_news = here.is_at_node(page) && !here.has(page);
            if is_news && self.begin(page, UnderWay { follows: true, ..UnderWay::ahead(number) }) {
                self.following += 1;
                self.follow.issued(page);
            }
        }
    }

    /// A page that is expected was left out, as only one may be that was to be prefetched. It may have become wanted
    /// in the meantime, and is asked for again then; says whether it was not.
    pub(crate) fn leave_out(&mut self, left_out: &LeftOut, here: Here<'_>) -> Result<bool, Goodbye> {
        let page = left_out.page;
        let under_way = self.under_way.get_mut(&page).expect("it is expected");
        if !under_way.prefetched {
            return Err(Goodbye::malformed(format!("page {page} was left out, and is wanted")));
        }
        if under_way.waiters.is_empty() {
            self.take(page);
            if here.cache.find(page).is_none() {
                self.prefetch.ends_before(page);
            }
            return Ok(true);
        }
        (under_way.sent, under_way.prefetched) = (false, false);
        self.following -= usize::from(core::mem::take(&mut under_way.follows));
        self.unsent.push_back(page);
        Ok(false)
    }

    /// The page, which is expected, will not come: gives those who wait for it.
    pub(crate) fn give_up(&mut self, page: PageId) -> Vec<TxnHandle> {
        self.take(page).map(|under_way| under_way.waiters).unwrap_or_default()
    }

    /// The copy of this page on its way is of no use: the page is asked for again, before all others. The redirector
    /// may not have learned of the earlier fetch yet, and this one takes its place: so there are never more outstanding
    /// than there may be.
    pub(crate) fn begin_again(&mut self, page: PageId) {
        let Some(mut under_way) = self.take(page) else { return };
        self.under_way.insert(page, under_way.again());
        if under_way.sent {
            self.unsent.push_front(page);
        }
    }

    /// The node does not have the page. It is asked for at another one, or waits until some node knows which.
    pub(crate) fn is_elsewhere(&mut self, page: PageId) {
        let Some(mut under_way) = self.take(page) else { return };
        if !under_way.waiters.is_empty() {
            self.under_way.insert(page, under_way.again());
        }
    }

    /// Takes out the pages under way that are at another node, and asks again for those that waited to know theirs.
    pub(crate) fn take_strays(&mut self, is_there: impl Fn(PageId) -> bool) -> Vec<(PageId, UnderWay)> {
        let strays: Vec<_> = self.under_way.keys().copied().filter(|&page| !is_there(page)).collect();
        self.unsent.retain(|&page| is_there(page));
        let known: Vec<_> = self.unsent.iter().copied().collect();
        let waits = |(page, under_way): (&PageId, &UnderWay)| (!under_way.sent).then_some(*page);
        let parked = self.under_way.iter().filter_map(waits).filter(|page| is_there(*page) && !known.contains(page));
        self.unsent.extend(parked);
        strays.into_iter().filter_map(|page| Some((page, self.take(page)?.again()))).collect()
    }

    /// A page is under way from here that was asked for elsewhere.
    pub(crate) fn take_in(&mut self, page: PageId, under_way: UnderWay) {
        if under_way.waiters.is_empty() {
            return;
        }
        self.under_way.insert(page, under_way);
        self.unsent.push_back(page);
    }

    /// Whether a transaction waits for a page under way.
    pub(crate) fn is_awaited_by(&self, txn: TxnHandle) -> bool {
        self.under_way.values().any(|under_way| under_way.waiters.contains(&txn))
    }

    fn take(&mut self, page: PageId) -> Option<UnderWay> {
        let under_way = self.under_way.remove(&page)?;
        self.is_over(page, &under_way);
        Some(under_way)
    }

    /// The page, which was under way, has come or will not come.
    fn is_over(&mut self, page: PageId, under_way: &UnderWay) {
        self.kept -= under_way.kept.len();
        self.following -= usize::from(under_way.follows);
        // One that came early may never have its time: the count that it reflects is a peer's word.
        self.early.retain(|(_, early)| early.page != page);
    }

    /// Keeps a peer's page until everything has been heard through the counts that it reflects.
    pub(crate) fn keep_early(&mut self, reflects: Vector, page: Page) {
        let is_known = |(_, early): &(Vector, Page)| (early.number, early.page) == (page.number, page.page);
        if !self.early.iter().any(is_known) {
            self.early.push((reflects, page));
        }
    }

    /// A page that came early and has its time at this horizon.
    pub(crate) fn take_early(&mut self, horizon: Horizon<'_>) -> Option<Page> {
        let due = self.early.iter().position(|(reflects, _)| horizon.reaches(reflects))?;
        Some(self.early.swap_remove(due).1)
    }

    /// The pages that were asked for have to be asked for again, if anybody waits for them. Returns the pages that
    /// no request waits for.
    pub(crate) fn link_is_gone(&mut self) -> Vec<PageId> {
        (self.kept, self.fresh, self.following) = (0, 0, 0);
        self.window.link_is_gone();
        self.early.clear();
        let unwanted = self.under_way.extract_if(|_, under_way| under_way.waiters.is_empty());
        let unwanted = unwanted.map(|(page, _)| page).collect();
        for under_way in self.under_way.values_mut() {
            *under_way = under_way.again();
        }
        self.unsent = self.under_way.keys().copied().collect();
        self.unsent.make_contiguous().sort_unstable();
        unwanted
    }
}
