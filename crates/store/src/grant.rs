//! Which pages exist, and who may create objects in those that are still empty.
//!
//! ```text
//!   volume:   0 ............................ next ........
//!             | granted before: page exists  | never granted
//!             | written | owned | spare      |
//! ```
//! 1. `next` of a volume is in the log before a page below it is told to anyone.
//! 2. A page is owned by at most one client until it is written to.
//! 3. Spare pages are below `next` and nobody owns them; they are given only while they are at version zero.
//!
//! Owners are not logged. After a restart unused pages belong to whoever claims them at rejoin; when the grace is over
//! the rest is spare. A client that comes back later than that is told to drop them, and should it write to one all
//! the same, validation decides as for any page.

use crate::{Checkpoint, Record, SessionId, Store};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use protocol::{Grant, Granted, Message};
use types::limits::{GRANTED_PAGES_MAX, PAGES_PER_MESSAGE_MAX};
use types::{ClientId, Map, PageId, PageRange};

/// Volumes of one store: a bound on what a peer can make grow, far beyond what anyone uses.
const VOLUMES_MAX: usize = 4096;

/// Whether a page was ever written to, or is about to be.
type InUse<'a> = &'a dyn Fn(PageId) -> bool;

/// Neighbouring pages of one owner, found by the first of them.
#[derive(Clone, Copy, Debug)]
struct Run {
    count: u32,
    owner: ClientId,
}

/// The allocation of pages.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    next: Map<u32, u32>,
    /// How many pages are below a volume's `next`, in all.
    count: usize,
    owned: BTreeMap<PageId, Run>,
    /// How many pages each client owns, those included that it has written to since they were last counted.
    owned_by: Map<ClientId, usize>,
    /// Neighbouring spare pages: the first, and how many.
    spare: BTreeMap<PageId, u32>,
}

/// What a client is given.
#[derive(Debug, Default)]
struct Given {
    ranges: Vec<PageRange>,
    /// The volume's new `next`, if it moved and must be logged first.
    next: Option<u32>,
}

impl Grants {
    /// Goes on with what a checkpoint holds.
    pub(crate) fn restore(next_pages: Vec<(u32, u32)>) -> Self {
        let mut grants = Self::default();
        for (volume, next) in next_pages {
            grants.granted_below(volume, next);
        }
        grants
    }

    /// All pages of the volume below `next` were granted.
    pub(crate) fn granted_below(&mut self, volume: u32, next: u32) {
        let known = self.next.entry(volume).or_default();
        let next = next.max(*known).max(1);
        self.count += (next - *known) as usize;
        *known = next;
    }

    /// How many pages there are, but for those of volumes in which nothing was ever granted.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether the page is one of those that are counted.
    pub(crate) fn counts(&self, page: PageId) -> bool {
        self.next.get(&page.volume).is_some_and(|&next| page.number < next)
    }

    /// Whether the page was ever granted. Page 0 of every volume exists from the volume's birth.
    pub(crate) fn exists(&self, page: PageId) -> bool {
        page.number < self.next.get(&page.volume).copied().unwrap_or(1)
    }

    /// Whether the page was granted to the client, and nobody's since.
    pub(crate) fn is_of(&self, client: ClientId, page: PageId) -> bool {
        self.owner(page) == Some(client)
    }

    /// The client still has this page and has not filled it. Says whether it may keep it: nobody else owns it.
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
        let has_few = self.owned_by.get(&client).is_none_or(|&owned| owned < GRANTED_PAGES_MAX);
        if is_free && has_few {
            self.own(client, PageRange { first: page, count: 1 });
        }
        is_free && has_few
    }

    /// The client will not come back: what it has not used is spare.
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

    /// The client has come back, and these are the unused pages that it knows of. It never heard of the others: they
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

    /// Nobody who owned a page before the restart will come back: what is unused and unclaimed is spare.
    pub(crate) fn give_back_unclaimed(&mut self, in_use: InUse<'_>) {
        let volumes: Vec<_> = self.next.iter().map(|(&volume, &next)| (volume, next)).collect();
        for (volume, next) in volumes {
            for page in (1..next).map(|number| PageId::new(volume, number)) {
                if self.owner(page).is_none() {
                    self.put_spare(page, in_use);
                }
            }
        }
    }

    /// Every volume's `next`, as the home keeps it.
    pub(crate) fn to_checkpoint(&self, checkpoint: &mut Checkpoint) {
        checkpoint.next_pages = self.next.iter().map(|(&volume, &next)| (volume, next)).collect();
        checkpoint.next_pages.sort_unstable();
    }

    /// Gives pages to a client: spare ones first, then new ones that are neighbours.
    fn give(&mut self, client: ClientId, volume: u32, count: u32, in_use: InUse<'_>) -> Given {
        let mut given = Given::default();
        let mut wanted = (count as usize).min(PAGES_PER_MESSAGE_MAX).min(self.allowance(client, in_use)) as u32;
        if wanted == 0 || (!self.next.contains_key(&volume) && self.next.len() >= VOLUMES_MAX) {
            return given;
        }
        while wanted > 0
            && let Some(range) = self.take_spare(volume, wanted)
        {
            // Who had lost a page may have written to it all the same since it was spare.
            for page in range.pages().filter(|&page| !in_use(page)) {
                wanted -= 1;
                PageRange::append(&mut given.ranges, page);
            }
        }
        let first = self.next.get(&volume).copied().unwrap_or(1);
        let new = wanted.min(u32::MAX - first);
        if new > 0 {
            self.granted_below(volume, first + new);
            given.ranges.push(PageRange { first: PageId::new(volume, first), count: new });
            given.next = Some(first + new);
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

    /// Gives pages that nobody owns an owner; neighbours of the same owner become one run.
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

    /// How many more pages the client may own unused. When it seems to have too many, what it has used is let go.
    fn allowance(&mut self, client: ClientId, in_use: InUse<'_>) -> usize {
        let owned = self.owned_by.get(&client).copied().unwrap_or_default();
        if owned + PAGES_PER_MESSAGE_MAX <= GRANTED_PAGES_MAX {
            return PAGES_PER_MESSAGE_MAX;
        }
        let mut unused = 0;
        self.owned.retain(|&first, run| {
            let range = PageRange { first, count: run.count };
            let keep = run.owner != client || range.pages().any(|page| !in_use(page));
            unused += if keep && run.owner == client { run.count as usize } else { 0 };
            keep
        });
        self.owned_by.insert(client, unused);
        GRANTED_PAGES_MAX.saturating_sub(unused)
    }

    /// Makes a page spare that nobody owns, unless it is in use.
    fn put_spare(&mut self, page: PageId, in_use: InUse<'_>) {
        if in_use(page) {
            return;
        }
        match self.spare.range_mut(..=page).next_back() {
            Some((first, count)) if first.after(*count) == Some(page) => *count += 1,
            Some((&first, &mut count)) if (PageRange { first, count }).contains(page) => {}
            _ => {
                self.spare.insert(page, 1);
            }
        }
    }

    /// Takes up to `count` neighbouring spare pages of a volume.
    fn take_spare(&mut self, volume: u32, count: u32) -> Option<PageRange> {
        let (&first, &run) = self.spare.range(PageId::new(volume, 0)..).next()?;
        if first.volume != volume {
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

impl Store {
    /// A client wants pages to create objects in. It holds them from here on.
    pub(crate) fn grant(&mut self, from: SessionId, grant: Grant) {
        let Some(client) = self.sessions.client(from) else { return };
        // None would mean that there is no room. The session is about to end, and the client asks again in its next one.
        if self.closing {
            return;
        }
        let has_room = !self.writeback.is_home_full() && self.safe.has_room(0);
        let count = if has_room { grant.count } else { 0 };
        let in_use = |page| self.master.is_in_use(page);
        let given = self.grants.give(client, grant.volume, count, &in_use);
        let volume = grant.volume;
        let after = given.next.map(|next| self.safe.append(Record::Grant { volume, next }, &mut self.out));
        for page in given.ranges.iter().flat_map(|range| range.pages()) {
            self.master.directory().list(page, from);
        }
        self.reply(from, Message::Granted(Granted { ranges: given.ranges }), after);
    }
}
