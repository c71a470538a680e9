//! Which pages exist, and who may create objects in those that are still empty.
//!
//! ```text
//!   volume:   0 ............................ next ........
//!             | granted before: page exists  | never granted
//!             written | unused, owned | spare
//! ```
//! 1. `next` of a volume is in the log before a page below it is told to anyone.
//! 2. A page is owned by at most one client until it is written to.
//! 3. Spare pages are below `next`, at version zero, and nobody owns them.
//!
//! Owners are not logged. After a restart unused pages belong to whoever claims them at rejoin; when the grace is over
//! the rest is spare. A client that comes back later than that is told to drop them, and should it write to one all
//! the same, validation decides as for any page.

use crate::Checkpoint;
use alloc::vec::Vec;
use types::limits::{GRANTED_PAGES_MAX, PAGES_PER_MESSAGE_MAX};
use types::{ClientId, Map, PageId, PageRange};

/// Volumes of one store: a bound on what a peer can make grow, far beyond what anyone uses.
const VOLUMES_MAX: usize = 4096;

/// Whether a page was ever written to.
pub(crate) type Written<'a> = &'a dyn Fn(PageId) -> bool;

/// The allocation of pages.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    next: Map<u32, u32>,
    owned: Map<ClientId, Vec<PageRange>>,
    spare: Vec<PageRange>,
}

/// What a client is given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    /// The pages.
    pub(crate) ranges: Vec<PageRange>,
    /// The volume's new `next`, if it moved and must be logged first.
    pub(crate) next: Option<u32>,
}

impl Grants {
    /// Goes on with what a checkpoint holds.
    pub(crate) fn restore(next_pages: Vec<(u32, u32)>) -> Self {
        Self { next: next_pages.into_iter().collect(), ..Self::default() }
    }

    /// All pages of the volume below `next` were granted.
    pub(crate) fn granted_below(&mut self, volume: u32, next: u32) {
        let known = self.next.entry(volume).or_insert(1);
        *known = (*known).max(next);
    }

    /// Whether the page was ever granted. Page 0 of every volume exists from the volume's birth.
    pub(crate) fn exists(&self, page: PageId) -> bool {
        page.number < self.next.get(&page.volume).copied().unwrap_or(1)
    }

    /// Gives pages to a client: spare ones first, then new ones that are neighbours.
    pub(crate) fn give(&mut self, client: ClientId, volume: u32, count: u32, written: Written<'_>) -> Given {
        let mut given = Given::default();
        let mut wanted = (count as usize).min(PAGES_PER_MESSAGE_MAX).min(self.allowance(client, written)) as u32;
        if wanted == 0 || (!self.next.contains_key(&volume) && self.next.len() >= VOLUMES_MAX) {
            return given;
        }
        while wanted > 0
            && let Some(range) = self.take_spare(volume, wanted)
        {
            wanted -= range.count;
            given.ranges.push(range);
        }
        let first = self.next.get(&volume).copied().unwrap_or(1);
        let new = wanted.min(u32::MAX - first);
        if new > 0 {
            self.granted_below(volume, first + new);
            given.ranges.push(PageRange { first: PageId::new(volume, first), count: new });
            given.next = Some(first + new);
        }
        self.owned.entry(client).or_default().extend(&given.ranges);
        given
    }

    /// The client still has this page and has not filled it. Says whether it may keep it: nobody else owns it.
    pub(crate) fn claim(&mut self, client: ClientId, page: PageId) -> bool {
        let owned_by = |ranges: &Vec<PageRange>| ranges.iter().any(|range| range.contains(page));
        if self.owned.get(&client).is_some_and(owned_by) {
            return true;
        }
        let taken = self.owned.values().any(owned_by) || self.spare.iter().any(|range| range.contains(page));
        if self.exists(page) && !taken {
            push(self.owned.entry(client).or_default(), page);
            return true;
        }
        false
    }

    /// The client will not come back: what it has not used is spare.
    pub(crate) fn give_back(&mut self, client: ClientId, written: Written<'_>) {
        let pages = self.owned.remove(&client).into_iter().flatten().flat_map(PageRange::pages);
        for page in pages.filter(|&page| !written(page)) {
            push(&mut self.spare, page);
        }
    }

    /// Nobody who owned a page before the restart will come back: what is unused and unclaimed is spare.
    pub(crate) fn give_back_unclaimed(&mut self, written: Written<'_>) {
        let mut taken: Vec<PageRange> = self.owned.values().flatten().chain(&self.spare).copied().collect();
        taken.sort_unstable_by_key(|range| range.first);
        for (&volume, &next) in &self.next {
            for page in (1..next).map(|number| PageId::new(volume, number)) {
                let before = taken.partition_point(|range| range.first <= page);
                let is_taken = before > 0 && taken[before - 1].contains(page);
                if !is_taken && !written(page) {
                    push(&mut self.spare, page);
                }
            }
        }
    }

    /// Every volume's `next`, as the home keeps it.
    pub(crate) fn to_checkpoint(&self, checkpoint: &mut Checkpoint) {
        checkpoint.next_pages = self.next.iter().map(|(&volume, &next)| (volume, next)).collect();
        checkpoint.next_pages.sort_unstable();
    }

    /// How many more pages the client may own unused. Ranges that are used up are let go first.
    fn allowance(&mut self, client: ClientId, written: Written<'_>) -> usize {
        let Some(ranges) = self.owned.get_mut(&client) else { return GRANTED_PAGES_MAX };
        ranges.retain(|range| range.pages().any(|page| !written(page)));
        GRANTED_PAGES_MAX.saturating_sub(ranges.iter().map(|range| range.count as usize).sum())
    }

    /// Takes up to `count` neighbouring spare pages of a volume.
    fn take_spare(&mut self, volume: u32, count: u32) -> Option<PageRange> {
        let at = self.spare.iter().position(|range| range.first.volume == volume)?;
        let range = &mut self.spare[at];
        if range.count <= count {
            return Some(self.spare.swap_remove(at));
        }
        let taken = PageRange { first: range.first, count };
        *range = PageRange { first: range.first.after(count)?, count: range.count - count };
        Some(taken)
    }
}

/// Adds a page to ranges; neighbours that come in order share one.
fn push(ranges: &mut Vec<PageRange>, page: PageId) {
    match ranges.last_mut() {
        Some(last) if last.first.after(last.count) == Some(page) => last.count += 1,
        _ => ranges.push(PageRange { first: page, count: 1 }),
    }
}
