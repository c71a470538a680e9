//! Where new objects go: beside the object they are near, or on in the page that the same chain of creations last
//! filled, or into the next granted page. Granted pages are used in order, so objects that are created together lie
//! together.
//!
//! 1. A granted page is in one place: in the `pool`, or `taken` by one running transaction, or by one pending request.
//!    It comes back when these come to nothing.
//! 2. Two transactions of this client never create in the same page at a time: the second would be doomed by the first.
//! 3. A granted page is considered an empty one only while nobody here writes to it. It may have been fetched before it
//!    was granted, and be written to like any other page.
//! 4. A granted page is empty as of the horizon, whatever generations it has had before: it comes behind their changes,
//!    and with the first change that is reported of it since it is no longer a grant.

use crate::commit::Commits;
use crate::outputs::Outputs;
use crate::txns::{Txn, Txns};
use crate::workspace::Touched;
use crate::{Client, Created, TxnError, TxnHandle};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use bytes::Bytes;
use cache::{Cache, Installed};
use core::mem;
use machine::Goodbye;
use messages::{At, Grant, Granted, Places};
use types::limits::{GRANTED_PAGES_MAX, PAGE_BYTES_TARGET, SLOT_BYTES_MAX};
use types::{Horizon, Map, ObjectId, ObjectPage, PageId, PageRange, Rule, SlotNo, Time, Vector};

/// Partly filled pages remembered for one space.
const CHAINS_MAX: usize = 16;

/// Pages in the neighborhood of one: as many as an extent has, unless a store was created with another number.
const NEIGHBORS: u32 = 64;

#[derive(Debug, Default)]
struct Space {
    /// Granted pages that nothing was created in, in order. They are held like cached ones, and take no memory.
    pool: VecDeque<PageId>,
    /// Where chains of creations of ended transactions stopped.
    chains: VecDeque<(Option<PageId>, PageId)>,
    waiters: Vec<TxnHandle>,
    /// Pages that the next grant asks for; doubles with each that is answered.
    demand: u32,
    is_asked: bool,
    /// The nodes without room. They are asked again when a transaction waits.
    dry: Vec<At>,
}

impl Space {
    /// Whether each of `nodes` nodes has answered that it has no room.
    fn are_dry(&self, nodes: usize) -> bool {
        self.dry.len() >= nodes
    }
}

/// The pages that were granted, and where creations continue.
#[derive(Debug)]
pub(crate) struct Allocator {
    spaces: Map<u32, Space>,
    /// The grants that were asked for in the sessions of now: of which node, space and pages.
    asked: VecDeque<(At, u32, u32)>,
    grant_pages: u32,
    /// The most pages that one grant asks for.
    grant_pages_max: u32,
}

impl Allocator {
    pub(crate) fn new(grant_pages: u32, grant_pages_max: u32) -> Self {
        let grant_pages = grant_pages.clamp(1, grant_pages_max);
        Self { spaces: Map::default(), asked: VecDeque::new(), grant_pages, grant_pages_max }
    }

    fn space(&mut self, space: u32) -> &mut Space {
        let demand = self.grant_pages;
        self.spaces.entry(space).or_insert_with(|| Space { demand, ..Space::default() })
    }

    /// Whether a node owes us a grant.
    pub(crate) fn is_asked(&self, at: At) -> bool {
        self.asked.iter().any(|(of, ..)| *of == at)
    }

    pub(crate) fn link_is_gone(&mut self, at: At) {
        let Self { asked, spaces, .. } = self;
        asked.retain(|(of, space, _)| {
            if let Some(space) = spaces.get_mut(space).filter(|_| *of == at) {
                space.is_asked = false;
            }
            *of != at
        });
    }

    /// Whether the page is one of those that nothing was created in yet.
    pub(crate) fn is_unused(&self, page: PageId) -> bool {
        self.spaces.get(&page.space).is_some_and(|space| space.pool.binary_search(&page).is_ok())
    }

    /// All pages that nothing was created in yet, and no transaction is about to.
    pub(crate) fn unused(&self) -> impl Iterator<Item = PageId> {
        self.spaces.values().flat_map(|space| space.pool.iter().copied())
    }

    /// These pages belong to another store.
    pub(crate) fn forget(&mut self, are_meant: impl Fn(&PageId) -> bool) {
        for space in self.spaces.values_mut() {
            space.pool.retain(|page| !are_meant(page));
            space.chains.clear();
            (space.demand, space.dry) = (self.grant_pages, Vec::new());
        }
    }

    /// Takes the chain of creations near `near` out, for one transaction to continue with.
    fn check_out(&mut self, space: u32, near: Option<PageId>) -> Option<PageId> {
        let chains = &mut self.space(space).chains;
        let found = chains.iter().rposition(|(key, _)| *key == near)?;
        chains.remove(found).map(|(_, page)| page)
    }

    /// The transaction has ended: others may continue with its chains.
    pub(crate) fn check_in(&mut self, chains: Vec<(Option<PageId>, PageId)>) {
        for (near, page) in chains {
            let known = &mut self.space(page.space).chains;
            known.retain(|(key, _)| *key != near);
            known.push_back((near, page));
            if known.len() > CHAINS_MAX {
                known.pop_front();
            }
        }
    }

    /// The transaction waits for pages of this space.
    fn wait(&mut self, space: u32, txn: TxnHandle) {
        let waiters = &mut self.space(space).waiters;
        if !waiters.contains(&txn) {
            waiters.push(txn);
        }
    }

    /// Nothing was created in these pages after all.
    pub(crate) fn give_back(&mut self, pages: &[PageId], cache: &mut Cache) {
        for &page in pages {
            cache.remove(page);
            let pool = &mut self.space(page.space).pool;
            let place = pool.partition_point(|other| *other < page);
            pool.insert(place, page);
        }
    }

    /// The page is somebody else's by now; says whether it was granted and unused.
    fn lose(&mut self, page: PageId) -> bool {
        let pool = self.spaces.get_mut(&page.space).map(|space| &mut space.pool);
        pool.is_some_and(|pool| pool.binary_search(&page).is_ok_and(|unused| pool.remove(unused).is_some()))
    }

    /// Shards may have moved to other nodes, which may have room.
    pub(crate) fn shards_may_have_moved(&mut self) {
        self.spaces.values_mut().for_each(|space| space.dry.clear());
    }

    /// The grants to be asked for, of the spaces where pages run out, and of which node: of those that live the first
    /// that may have room.
    fn asks(&mut self, live: &[At], nodes: usize) -> Vec<(At, Grant)> {
        let mut asks = Vec::new();
        for (&space, state) in &mut self.spaces {
            let runs_out = state.pool.len() < state.demand as usize / 4;
            if !state.waiters.is_empty() && state.are_dry(nodes) {
                state.dry.clear();
            }
            let at = live.iter().find(|at| !state.dry.contains(at));
            if let Some(&at) = at.filter(|_| (runs_out || !state.waiters.is_empty()) && !state.is_asked) {
                state.is_asked = true;
                asks.push((at, Grant { space, count: state.demand }));
            }
        }
        asks.sort_unstable_by_key(|(_, grant)| grant.space);
        asks
    }

    /// The grant has been asked for.
    fn asked(&mut self, at: At, grant: Grant) {
        self.asked.push_back((at, grant.space, grant.count));
    }

    /// A node has answered for the grant that it was asked for first, of the same space if it has granted any pages.
    /// Returns the transactions that waited for them: if there are none, when no node has any.
    fn granted(&mut self, at: At, granted: &Granted, places: &Places) -> Result<Vec<TxnHandle>, Goodbye> {
        let of = granted.ranges.first().map(|range| range.first.space);
        let is_it = |&(asked, space, _): &(At, u32, u32)| asked == at && of.is_none_or(|of| of == space);
        let asked = self.asked.iter().position(is_it);
        let Some((_, space, count)) = asked.and_then(|asked| self.asked.remove(asked)) else {
            return Err(Goodbye::malformed("pages were granted that nobody asked for".into()));
        };
        let pages: u64 = granted.ranges.iter().map(|range| u64::from(range.count)).sum();
        let elsewhere = granted.ranges.iter().any(|range| range.first.space != space);
        let most = self.grant_pages_max;
        let state = self.space(space);
        if pages > u64::from(count) || elsewhere || state.pool.len() + pages as usize > GRANTED_PAGES_MAX {
            let text = format!("expected a grant of {count} pages of space {space}, got {:?}", granted.ranges);
            return Err(Goodbye::malformed(text));
        }
        state.is_asked = false;
        if pages > 0 {
            state.dry.clear();
        } else if !state.dry.contains(&at) && places.has_pages(at) {
            state.dry.push(at);
        }
        if pages == 0 && !state.are_dry(places.nodes()) {
            return Ok(Vec::new());
        }
        state.demand = (state.demand * 2).min(most);
        state.pool.extend(granted.ranges.iter().flat_map(|range| range.pages()));
        state.pool.make_contiguous().sort_unstable();
        Ok(mem::take(&mut state.waiters))
    }
}

/// The search for room for a new object, with the parts that it looks at and those that it changes.
struct Search<'a> {
    txn: TxnHandle,
    space: u32,
    bytes: usize,
    allocator: &'a mut Allocator,
    txns: &'a mut Txns,
    cache: &'a mut Cache,
    commits: &'a Commits,
    /// Granted pages are empty as of here.
    empty: Horizon<'a>,
    out: &'a mut Outputs,
}

impl Search<'_> {
    /// A free slot, in a page in the cache.
    fn room(&mut self, near: Option<PageId>) -> Option<(PageId, SlotNo)> {
        if 4 + ObjectPage::cost(self.bytes) > PAGE_BYTES_TARGET {
            return self.take_page(None).map(|page| (page, 0));
        }
        if let Some(room) = near.and_then(|near| self.room_in(near)) {
            return Some(room);
        }
        let chain = self.chain_of(near);
        let room = match chain.and_then(|page| self.room_in(page)) {
            Some(room) => room,
            None => (self.take_page(None)?, 0),
        };
        self.txns.get(self.txn)?.chains.push((near, room.0));
        Some(room)
    }

    /// The page that creations near `near` have last filled, taken out of where it was remembered.
    fn chain_of(&mut self, near: Option<PageId>) -> Option<PageId> {
        let chains = &mut self.txns.get(self.txn)?.chains;
        let own = chains.iter().rposition(|(key, page)| *key == near && page.space == self.space);
        match own {
            Some(own) => Some(chains.swap_remove(own).1),
            None => self.allocator.check_out(self.space, near),
        }
    }

    /// The page's lowest free slot, if it is here, has room, and no other transaction of this client writes to it or
    /// has asked to: that one may yet be refused, and give the page back. An empty page may not exist, or be for others
    /// to fill, unless this transaction has taken it; the first of a space is anybody's.
    fn room_in(&mut self, page: PageId) -> Option<(PageId, SlotNo)> {
        let frame = self.cache.get(page)?;
        if self.txns.others_write_to(page, Some(self.txn)) || self.commits.writes_to(page) {
            return None;
        }
        let Txn { workspace, taken, .. } = self.txns.get(self.txn)?;
        if frame.page().is_empty() && page.number > 0 && !taken.contains(&page) {
            return None;
        }
        let (size, slot) = match workspace.get_mut(page) {
            Some(touched) => (touched.page_bytes(frame.page()), touched.free_slot(frame)),
            None => (frame.page().len(), Touched::new(page, None).free_slot(frame)),
        };
        slot.filter(|_| size + ObjectPage::cost(self.bytes) <= PAGE_BYTES_TARGET).map(|slot| (page, slot))
    }

    /// Takes the next granted page, behind `near` if there is one in its neighborhood. The page is empty, and no
    /// transaction of this client has written to it. Its frame takes the place of one of an earlier generation, and
    /// stays.
    fn take_page(&mut self, near: Option<PageId>) -> Option<PageId> {
        let is_empty = |page| !self.commits.writes_to(page) && !self.txns.others_write_to(page, None);
        let pool = &mut self.allocator.space(self.space).pool;
        let behind = near.and_then(|near| {
            let first = pool.partition_point(|page| *page <= near);
            let neighbors = pool.iter().skip(first).take_while(|page| page.number - near.number < NEIGHBORS);
            neighbors.copied().position(is_empty).map(|at| first + at)
        });
        let next = behind.or_else(|| pool.iter().position(|&page| is_empty(page)))?;
        let page = pool.remove(next)?;
        self.txns.get(self.txn)?.taken.push(page);
        let (frame, installed) = self.cache.install(page, self.empty.of(page), ObjectPage::empty(), &[]);
        if let Installed::Over(older) = installed {
            self.txns.doom_by_install(page, self.cache.at(frame), &older, self.out);
        }
        self.cache.pin_at(frame, true);
        Some(page)
    }
}

impl Client {
    /// Creates an object, in the page of `near` if it has room, else in pages that lie close to each other.
    pub fn create(
        &mut self,
        now: Time,
        txn: TxnHandle,
        space: u32,
        near: Option<ObjectId>,
        value: Bytes,
    ) -> Result<Created, TxnError> {
        self.check_creation(txn, &value)?;
        let near = near.map(|near| near.page).filter(|near| near.space == space);
        let room = self.search(txn, space, value.len(), |search| search.room(near));
        self.create_in(now, txn, space, room, value)
    }

    /// Creates an object in the first slot of an empty page, which is behind `near` if possible. No other object is
    /// created there, unless the caller asks for one near an object of that page.
    pub fn create_apart(
        &mut self,
        now: Time,
        txn: TxnHandle,
        space: u32,
        near: Option<PageId>,
        value: Bytes,
    ) -> Result<Created, TxnError> {
        self.check_creation(txn, &value)?;
        let near = near.filter(|near| near.space == space);
        let room = self.search(txn, space, value.len(), |search| search.take_page(near).map(|page| (page, 0)));
        self.create_in(now, txn, space, room, value)
    }

    fn check_creation(&mut self, txn: TxnHandle, value: &Bytes) -> Result<(), TxnError> {
        self.txns.running(txn)?;
        self.check_writable()?;
        if value.len() > SLOT_BYTES_MAX { Err(TxnError::TooLarge) } else { Ok(()) }
    }

    /// Puts a new object where there is room, or waits for pages.
    fn create_in(
        &mut self,
        now: Time,
        txn: TxnHandle,
        space: u32,
        room: Option<(PageId, SlotNo)>,
        value: Bytes,
    ) -> Result<Created, TxnError> {
        let Some((page, slot)) = room else {
            self.nodes[At::HOME].session.check()?;
            self.txns.wait(now, txn);
            self.allocator.wait(space, txn);
            self.ask_for_grants(now);
            return Ok(Created::Wait);
        };
        let object = ObjectId::new(page, slot);
        let fits = self.txns.running(txn)?.put_over(object, Some(value), &self.cache)?;
        assert!(fits, "the page was chosen for its room");
        self.ask_for_grants(now);
        Ok(Created::Object(object))
    }

    /// Searches room for a new object of this many bytes.
    fn search<R>(&mut self, txn: TxnHandle, space: u32, bytes: usize, find: impl FnOnce(&mut Search<'_>) -> R) -> R {
        let at_horizon = !self.config.broken.is(Rule::EmptyAtHorizon);
        let Self { allocator, txns, cache, commits, out, nodes, .. } = self;
        let (zero, mut empty) = (Vector::new(), nodes.horizon());
        if !at_horizon {
            empty.counts = &zero;
        }
        find(&mut Search { txn, space, bytes, allocator, txns, cache, commits, empty, out })
    }

    /// The page, should it be granted and unused, is somebody else's by now. A transaction that has taken it is doomed
    /// already. Returns whether it was.
    pub(crate) fn lose_grant(&mut self, page: PageId) -> bool {
        self.allocator.lose(page) | self.commits.lose_taken(page) | self.txns.lose_taken(page)
    }

    /// The page has changed. Should it have been granted, we were away for too long and it is somebody else's by now,
    /// or somebody has written to it who had it in an earlier generation, or it was our own commit and its reply is
    /// still to come: it is not taken for an empty page again.
    pub(crate) fn granted_page_changed(&mut self, page: PageId) {
        if !self.config.broken.is(Rule::LoseFilled) && self.lose_grant(page) {
            self.cache.pin(page, self.is_under_way(page));
        }
    }

    /// Asks for pages where they run out.
    pub(crate) fn ask_for_grants(&mut self, now: Time) {
        let places = self.nodes.places();
        let live: Vec<_> = self.nodes.live().filter(|at| places.has_pages(*at)).collect();
        for (at, grant) in self.allocator.asks(&live, places.nodes()) {
            // The releases that are due go before it.
            self.send(now, at, grant);
            self.allocator.asked(at, grant);
        }
    }

    /// Pages were granted, or none if the store has no room.
    pub(crate) fn granted(&mut self, now: Time, at: At, granted: &Granted) -> Result<(), Goodbye> {
        let waiters = self.allocator.granted(at, granted, self.nodes.places())?;
        // A shard may have moved since its node has granted pages of it.
        let places = self.nodes.places();
        let moved = granted.ranges.iter().flat_map(|range| range.pages()).filter(|page| places.of(*page) != at);
        for page in moved.collect::<Vec<_>>() {
            self.lose_grant(page);
        }
        self.nodes[at].session.releases_may_go(now);
        if granted.ranges.iter().any(|range| range.count > 0) {
            for txn in waiters {
                self.txns.wake(txn, &mut self.out);
            }
            return Ok(());
        }
        for txn in waiters {
            self.give_up(txn, &TxnError::StoreFull);
        }
        // Another node may have room.
        self.ask_for_grants(now);
        Ok(())
    }

    /// A node's granted pages that nothing committed is in: the pool, and the pages that transactions have taken.
    pub(crate) fn unfilled_grants(&self, at: At) -> Vec<PageRange> {
        let all = self.allocator.unused().chain(self.commits.taken()).chain(self.txns.taken());
        let mut pages: Vec<_> = all.filter(|page| self.nodes.places().of(*page) == at).collect();
        pages.sort_unstable();
        PageRange::join(pages)
    }
}
