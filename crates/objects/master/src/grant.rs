//! Which pages exist, and which clients may create objects in those that are empty.
//!
//! ```text
//!   space:    0 ............................ next ........
//!             | granted before: page exists  | never granted
//!             | written | owned | spare      |
//!
//!   spare --granted--> owned --written to--> written --its last object is deleted--> spare
//! ```
//! 1. `next` of a space is in the log before a page below it is told to anyone.
//! 2. A page is owned by at most one client, until it is written to by anybody.
//! 3. Spare pages are below `next` and nobody owns them; they are given only while nothing is in them, and nothing is
//!    about to be: neither at home nor in the MOB, nor prepared.
//! 4. A page keeps its version over all of its lives. So a client that is granted one again hears first of all changes
//!    that it has had: as of the receiver's horizon it is empty.
//!
//! In a store of several nodes, a node grants pages of the shards that it serves. Its `next` counts over the others.
//!
//! A page whose objects were deleted before they were home is spare at once, another one when it has been written back.
//!
//! Owners are not logged. After a restart unused pages belong to the client that claims them at resume; when the grace
//! is over the rest is spare, and is come upon as grants look for pages. A client that comes back later than that is
//! told to drop them, and should it write to one all the same, validation decides as for any page.

use crate::Master;
use crate::need::Need;
use crate::outputs::{NextPage, Output};
use crate::room::{Room, Waiting};
use crate::shards::Shards;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;
use directory::Urgency;
use machine::Goodbye;
use messages::{Grant, Granted};
use types::limits::{GRANTED_SPACES_MAX, GRANTS_PER_SESSION_MAX};
use types::{ClientId, Limits, Map, PageId, PageRange, Rule, SessionId, Sharding, Version};

/// New pages are added to spare ones only if these are less than this part of what is wanted. A client asks for more
/// when it has as much left.
const ENOUGH_PART: u32 = 4;

/// Pages that one grant looks at to see whether they are unclaimed: a millisecond's work.
const UNCLAIMED_LOOKED_AT_MAX: usize = 16 * 1024;

/// Whether something is in a page, or is about to be.
type InUse<'a> = &'a dyn Fn(PageId) -> bool;

/// The pages of the shards that the node serves.
#[derive(Clone, Copy)]
struct OwnPages<'a> {
    sharding: Sharding,
    shards: &'a Shards,
}

impl OwnPages<'_> {
    fn has(self, page: PageId) -> bool {
        self.shards.serves(self.sharding.of(page))
    }

    /// The first `count` of them, from a page on.
    fn after(self, from: PageId, mut count: u32) -> Vec<PageRange> {
        let (extent, mut ranges, mut first) = (self.sharding.extent().get(), Vec::new(), from.number);
        if self.shards.are_all() {
            count = count.min(u32::MAX - first);
            return [PageRange { first: from, count }].into_iter().filter(|range| range.count > 0).collect();
        }
        // After as many extents as there are shards, each has had its turn.
        let mut in_vain = 0;
        while count > 0 && in_vain <= self.sharding.shards().get() {
            let page = PageId::new(from.space, first);
            let Some(next) = (first / extent + 1).checked_mul(extent) else { break };
            if self.has(page) {
                let range = PageRange { first: page, count: count.min(next - first) };
                (count, in_vain) = (count - range.count, 0);
                ranges.push(range);
            } else {
                in_vain += 1;
            }
            first = next;
        }
        ranges
    }
}

/// Consecutive pages of one owner, found by the first of them.
#[derive(Clone, Copy, Debug)]
struct Run {
    count: u32,
    owner: ClientId,
}

/// The allocation of pages.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    next: Map<u32, u32>,
    /// How many pages are below a space's `next`, in all.
    count: usize,
    owned: BTreeMap<PageId, Run>,
    /// How many pages each client owns.
    owned_by: Map<ClientId, usize>,
    /// Consecutive spare pages: the first, and how many.
    spare: BTreeMap<PageId, u32>,
    /// Pages of spaces that may have been granted before the restart, unused and never claimed: those that nobody has
    /// looked at yet.
    unclaimed: Map<u32, Range<u32>>,
    limits: Limits,
}

/// The grants of a client.
#[derive(Debug, Default)]
struct Given {
    ranges: Vec<PageRange>,
    /// The space's new `next`, if it moved and must be logged first.
    next: Option<u32>,
}

impl Grants {
    /// Goes on with what a checkpoint holds.
    pub(crate) fn restore(next_pages: Vec<(u32, u32)>, limits: Limits) -> Self {
        let mut grants = Self { limits, ..Self::default() };
        for (space, next) in next_pages {
            grants.granted_below(space, next);
        }
        grants
    }

    /// All pages of the space below `next` were granted. Returns whether that is more than was known.
    pub(crate) fn granted_below(&mut self, space: u32, next: u32) -> bool {
        let known = self.next.entry(space).or_default();
        let next = next.max(*known).max(1);
        self.count += (next - *known) as usize;
        core::mem::replace(known, next) < next
    }

    /// How many pages there are, but for those of spaces in which nothing was ever granted.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// How many pages clients own.
    pub(crate) fn owned_count(&self) -> usize {
        self.owned_by.values().sum()
    }

    /// How many pages are known to be spare.
    pub(crate) fn spare_count(&self) -> usize {
        self.spare.values().map(|&count| count as usize).sum()
    }

    /// Whether the page is one of those that are counted.
    pub(crate) fn counts(&self, page: PageId) -> bool {
        self.next.get(&page.space).is_some_and(|&next| page.number < next)
    }

    /// Whether the page was ever granted. Page 0 of every space exists from the space's birth.
    pub(crate) fn exists(&self, page: PageId) -> bool {
        page.number < self.next.get(&page.space).copied().unwrap_or(1)
    }

    /// Whether the page was granted to the client, and nobody has written to it since.
    pub(crate) fn is_of(&self, client: ClientId, page: PageId) -> bool {
        self.owner(page) == Some(client)
    }

    /// The client still has this page and has not filled it. Returns whether it may keep it: nobody else owns it.
    pub(crate) fn claim(&mut self, client: ClientId, page: PageId) -> bool {
        if let Some(owner) = self.owner(page) {
            return owner == client;
        }
        let is_spare = self
            .spare
            .range(..=page)
            .next_back()
            .is_some_and(|(&first, &count)| PageRange { first, count }.contains(page));
        let is_free = self.exists(page) && page.number > 0 && !is_spare;
        let has_few = self.owned_by.get(&client).is_none_or(|&owned| owned < self.limits.granted_pages);
        if is_free && has_few {
            self.own(client, PageRange { first: page, count: 1 });
        }
        is_free && has_few
    }

    /// Something was written to the page: it is nobody's grant any more.
    fn end_grant(&mut self, page: PageId) {
        let Some((&first, &Run { count, owner })) = self.owned.range(..=page).next_back() else { return };
        if !(PageRange { first, count }).contains(page) {
            return;
        }
        self.owned.remove(&first);
        let before = page.number - first.number;
        if before > 0 {
            self.owned.insert(first, Run { count: before, owner });
        }
        if let Some(rest) = page.after(1).filter(|_| before + 1 < count) {
            self.owned.insert(rest, Run { count: count - before - 1, owner });
        }
        match self.owned_by.get_mut(&owner) {
            Some(owned) if *owned > 1 => *owned -= 1,
            _ => drop(self.owned_by.remove(&owner)),
        }
    }

    /// Ends the grants of the pages that are meant.
    pub(crate) fn end_grants(&mut self, is_meant: impl Fn(PageId) -> bool) {
        let runs = self.owned.iter().map(|(&first, run)| PageRange { first, count: run.count });
        let meant: Vec<_> = runs.flat_map(PageRange::pages).filter(|page| is_meant(*page)).collect();
        for page in meant {
            self.end_grant(page);
        }
    }

    /// Nothing is in the page any more: it is spare, unless somebody owns it.
    fn put_emptied(&mut self, page: PageId) {
        if page.number > 0 && self.exists(page) && self.owner(page).is_none() {
            self.put_spare(page, &|_| false);
        }
    }

    /// The client will not come back: its unused pages are spare.
    pub(crate) fn give_back(&mut self, client: ClientId, in_use: InUse<'_>) {
        for range in self.disown(client) {
            for page in range.pages() {
                self.put_spare(page, in_use);
            }
        }
    }

    /// Takes everything that a client owns from it.
    fn disown(&mut self, client: ClientId) -> Vec<PageRange> {
        if self.owned_by.remove(&client).is_none() {
            return Vec::new();
        }
        let of_client = self.owned.iter().filter(|(_, run)| run.owner == client);
        let ranges: Vec<_> = of_client.map(|(&first, run)| PageRange { first, count: run.count }).collect();
        for range in &ranges {
            self.owned.remove(&range.first);
        }
        ranges
    }

    /// The client has come back, and these are the unused pages that it knows of. It never learned of the others: they
    /// were granted in an answer that was lost with its session, and are spare.
    pub(crate) fn keep_claimed(&mut self, client: ClientId, mut claimed: Vec<PageRange>, in_use: InUse<'_>) {
        claimed.sort_unstable_by_key(|range| range.first);
        let is_claimed = |page| {
            let after = claimed.partition_point(|range| range.first <= page);
            after.checked_sub(1).is_some_and(|at| claimed[at].contains(page))
        };
        for range in self.disown(client) {
            for page in range.pages() {
                if is_claimed(page) {
                    self.own(client, PageRange { first: page, count: 1 });
                } else {
                    self.put_spare(page, in_use);
                }
            }
        }
    }

    /// No owner of before the restart will come back: a page that is unused and unclaimed is spare, when it is come
    /// upon.
    pub(crate) fn give_back_unclaimed(&mut self) {
        self.unclaimed = self.next.iter().map(|(&space, &next)| (space, 1..next)).collect();
    }

    /// Looks through the pages of a space that may be unclaimed, until `wanted` are spare. A space can have more pages
    /// than anybody should wait for, so a grant looks at some and leaves the others to those that follow.
    fn look_for_unclaimed(&mut self, space: u32, wanted: u32, in_use: InUse<'_>) {
        let Some(mut unclaimed) = self.unclaimed.remove(&space) else { return };
        let mut found = 0;
        for number in unclaimed.by_ref().take(UNCLAIMED_LOOKED_AT_MAX) {
            let page = PageId::new(space, number);
            if self.owner(page).is_none() && !in_use(page) {
                self.put_spare(page, in_use);
                found += 1;
            }
            if found >= wanted {
                break;
            }
        }
        if !unclaimed.is_empty() {
            self.unclaimed.insert(space, unclaimed);
        }
    }

    /// Every space's `next`, in order, as the home keeps it.
    pub(crate) fn next_pages(&self) -> Vec<(u32, u32)> {
        let mut next_pages: Vec<_> = self.next.iter().map(|(&space, &next)| (space, next)).collect();
        next_pages.sort_unstable();
        next_pages
    }

    /// Gives pages to a client: spare ones first, then new consecutive ones. A good part of what is wanted, if it
    /// is spare, is enough: the client asks again, and until then more may have become spare.
    fn give(&mut self, client: ClientId, grant: Grant, in_use: InUse<'_>, own: OwnPages<'_>) -> Given {
        let Grant { space, count } = grant;
        let mut given = Given::default();
        let mut wanted = (count as usize).min(self.limits.pages_per_message).min(self.allowance(client)) as u32;
        if wanted == 0 || (!self.next.contains_key(&space) && self.next.len() >= GRANTED_SPACES_MAX) {
            return given;
        }
        let enough = wanted.div_ceil(ENOUGH_PART);
        self.look_for_unclaimed(space, wanted, in_use);
        while wanted > 0
            && let Some(range) = self.take_spare(space, wanted)
        {
            // A client that had lost a page may have written to it all the same since it was spare.
            for page in range.pages().filter(|&page| !in_use(page)) {
                wanted -= 1;
                PageRange::append(&mut given.ranges, page);
            }
        }
        let spare: u32 = given.ranges.iter().map(|range| range.count).sum();
        let first = self.next.get(&space).copied().unwrap_or(1);
        let new = if spare < enough { own.after(PageId::new(space, first), wanted) } else { Vec::new() };
        if let Some(next) = new.last().and_then(|range| range.first.number.checked_add(range.count)) {
            self.granted_below(space, next);
            given.ranges.extend(new);
            given.next = Some(next);
        }
        for &range in &given.ranges {
            self.own(client, range);
        }
        given
    }

    fn owner(&self, page: PageId) -> Option<ClientId> {
        let (&first, run) = self.owned.range(..=page).next_back()?;
        PageRange { first, count: run.count }.contains(page).then_some(run.owner)
    }

    /// Gives pages that nobody owns an owner; consecutive ones of the same owner become one run.
    fn own(&mut self, client: ClientId, range: PageRange) {
        *self.owned_by.entry(client).or_default() += range.count as usize;
        match self.owned.range_mut(..range.first).next_back() {
            Some((first, run)) if run.owner == client && first.after(run.count) == Some(range.first) => {
                run.count += range.count;
            }
            _ => {
                self.owned.insert(range.first, Run { count: range.count, owner: client });
            }
        }
    }

    /// How many more pages the client may own.
    fn allowance(&self, client: ClientId) -> usize {
        let owned = self.owned_by.get(&client).copied().unwrap_or_default();
        self.limits.granted_pages.saturating_sub(owned)
    }

    /// Makes a page spare that nobody owns, unless it is in use.
    fn put_spare(&mut self, page: PageId, in_use: InUse<'_>) {
        if in_use(page) {
            return;
        }
        let (mut first, mut count) = (page, 1);
        if let Some((&before, &pages)) = self.spare.range(..=page).next_back() {
            if (PageRange { first: before, count: pages }).contains(page) {
                return;
            }
            if before.after(pages) == Some(page) {
                (first, count) = (before, pages + 1);
            }
        }
        // Pages come back in any order: runs that touch become one, so that they are as few as can be.
        count += page.after(1).and_then(|next| self.spare.remove(&next)).unwrap_or_default();
        self.spare.insert(first, count);
    }

    /// Takes up to `count` consecutive spare pages of a space.
    fn take_spare(&mut self, space: u32, count: u32) -> Option<PageRange> {
        let (&first, &run) = self.spare.range(PageId::new(space, 0)..).next()?;
        if first.space != space {
            return None;
        }
        self.spare.remove(&first);
        let taken = PageRange { first, count: run.min(count) };
        if let Some(rest) = first.after(taken.count)
            && run > taken.count
        {
            self.spare.insert(rest, run - taken.count);
        }
        Some(taken)
    }
}

impl Master {
    /// A client wants pages to create objects in. It waits for room like a commit: an answer without pages says that
    /// the store is full.
    pub fn grant(&mut self, from: SessionId, grant: Grant) -> Result<(), Goodbye> {
        match self.room_for_grant() {
            Room::Later | Room::Now if self.closing => {}
            Room::Now if !self.is_short_of_room() => self.give(from, grant, grant.count),
            Room::Never => self.give(from, grant, 0),
            Room::Now | Room::Later if self.parked.grants(from) >= GRANTS_PER_SESSION_MAX => {
                return Err(Goodbye::too_much(format!("expected at most {GRANTS_PER_SESSION_MAX} grants at a time")));
            }
            Room::Now | Room::Later => self.parked.push(Waiting::Grant(from, grant)),
        }
        Ok(())
    }

    /// Answers a session that there is no room for new pages.
    pub fn grant_nothing(&mut self, to: SessionId) {
        self.reply(to, Granted { ranges: Vec::new() });
    }

    /// Whether there is room for pages, which will be in the home when they are filled.
    pub(crate) fn room_for_grant(&self) -> Room {
        if self.writeback.is_home_full() {
            return Room::Never;
        }
        self.room_for(Need { mob_bytes: 0, is_new: true })
    }

    /// Answers a session that waited for room, if it is still there.
    pub(crate) fn unpark_grant(&mut self, session: SessionId, grant: Grant, room: Room) {
        // Of a store that is closing the session is about to end, and the client asks again in its next one.
        if !self.closing {
            self.give(session, grant, if room == Room::Never { 0 } else { grant.count });
        }
    }

    /// Returns a client up to `count` pages. It holds them from here on.
    fn give(&mut self, to: SessionId, grant: Grant, count: u32) {
        let Some(client) = self.sessions.client(to) else { return };
        let own = OwnPages { sharding: self.config.sharding, shards: &self.shards };
        let in_use = |page| self.pages.is_in_use(page) || !own.has(page);
        let space = grant.space;
        let given = self.grants.give(client, Grant { space, count }, &in_use, own);
        let next = given.next.map(|next| NextPage { space, next });
        let mut had_others = false;
        for page in given.ranges.iter().flat_map(|range| range.pages()) {
            self.pages.directory().list(page, to);
            had_others |= self.pages.version(page) > Version::ZERO;
        }
        if had_others && !self.config.broken.is(Rule::HearBeforeGrant) {
            self.flush(to, Urgency::All);
        }
        self.flush_for_reply(to);
        self.out.push(Output::Grant(to, Granted { ranges: given.ranges }, next));
    }

    /// The client will not come back: the pages that it was granted and has not filled are spare.
    pub fn forget(&mut self, client: ClientId) {
        let pages = &self.pages;
        self.grants.give_back(client, &|page| pages.is_in_use(page));
    }

    /// Something was written to the page: the client that was granted it learns of that, and if it has become empty it
    /// is spare.
    pub(crate) fn page_has_changed(&mut self, page: PageId) {
        self.grants.end_grant(page);
        if self.pages.is_empty(page) {
            self.grants.put_emptied(page);
        }
    }

    /// These pages are home. Those that have become empty by that are spare; but one that nobody has written to since
    /// the restart may belong to an owner who is yet to come back.
    pub(crate) fn pages_are_home(&mut self, pages: impl Iterator<Item = PageId>) {
        for page in pages {
            let is_nobodys = self.unclaimed.is_none() || self.pages.has_changed_since_start(page);
            if is_nobodys && self.pages.is_empty(page) {
                self.grants.put_emptied(page);
            }
        }
    }
}
