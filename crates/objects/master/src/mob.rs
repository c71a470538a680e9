//! The MOB: committed values that are not yet in the page home.
//!
//! 1. A page served is its home image with the page's entries here laid over it.
//! 2. Per slot only the newest value is kept.
//! 3. `oldest()` is the first position of the log that holds a delta of which something is still here.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use bytes::Bytes;
use types::{Delta, Map, PageId, Position, SlotChange, SlotNo, Version};

/// The bytes of an entry beside its value.
const SLOT_OVERHEAD_BYTES: usize = 80;

/// The bytes of a page beside its entries.
const PAGE_OVERHEAD_BYTES: usize = 160;

/// One slot's newest value, and which delta brought it.
#[derive(Debug)]
struct Entry {
    slot: SlotNo,
    version: Version,
    position: Position,
    value: Option<Bytes>,
}

impl Entry {
    fn value_bytes(&self) -> usize {
        self.value.as_ref().map_or(0, Bytes::len)
    }
}

/// One page's entries, in slot order.
#[derive(Debug)]
struct Page {
    oldest: Position,
    entries: Vec<Entry>,
    value_bytes: usize,
}

impl Page {
    fn bytes(&self) -> usize {
        PAGE_OVERHEAD_BYTES + self.entries.len() * SLOT_OVERHEAD_BYTES + self.value_bytes
    }
}

/// All pages with something to write back.
#[derive(Debug, Default)]
pub(crate) struct Mob {
    pages: Map<PageId, Page>,
    by_age: BTreeSet<(Position, PageId)>,
    bytes: usize,
}

/// The bytes that a delta may add to the MOB.
pub(crate) fn bytes_bound(delta: &Delta) -> usize {
    PAGE_OVERHEAD_BYTES + delta.changes.len() * SLOT_OVERHEAD_BYTES + delta.value_bytes()
}

impl Mob {
    /// Takes a delta in; deltas of one page come in count order. Values are copied: they are slices of whole messages
    /// and would keep those alive.
    pub(crate) fn apply(&mut self, position: Position, version: Version, delta: &Delta) {
        let page = self.pages.entry(delta.page).or_insert_with(|| {
            self.by_age.insert((position, delta.page));
            self.bytes += PAGE_OVERHEAD_BYTES;
            Page { oldest: position, entries: Vec::new(), value_bytes: 0 }
        });
        let before = page.bytes();
        for change in &delta.changes {
            let value = change.value.as_ref().map(|value| Bytes::copy_from_slice(value));
            let entry = Entry { slot: change.slot, version, position, value };
            page.value_bytes += entry.value_bytes();
            match page.entries.binary_search_by_key(&change.slot, |entry| entry.slot) {
                Ok(at) => {
                    page.value_bytes -= page.entries[at].value_bytes();
                    page.entries[at] = entry;
                }
                Err(at) => page.entries.insert(at, entry),
            }
        }
        self.bytes = self.bytes - before + page.bytes();
    }

    /// The page's changes against its home image, in slot order.
    pub(crate) fn changes(&self, page: PageId) -> Vec<SlotChange> {
        let entries = self.pages.get(&page).map_or(&[][..], |page| &page.entries);
        entries.iter().map(|entry| SlotChange { slot: entry.slot, value: entry.value.clone() }).collect()
    }

    /// Whether nothing but deletions waits for the page.
    pub(crate) fn holds_nothing_of(&self, page: PageId) -> bool {
        self.pages.get(&page).is_none_or(|page| page.entries.iter().all(|entry| entry.value.is_none()))
    }

    /// The page's home image is at `version` now: deltas that it covers go.
    pub(crate) fn installed(&mut self, id: PageId, version: Version) {
        let Some(mut page) = self.pages.remove(&id) else { return };
        self.by_age.remove(&(page.oldest, id));
        self.bytes -= page.bytes();
        page.entries.retain(|entry| entry.version > version);
        let Some(oldest) = page.entries.iter().map(|entry| entry.position).min() else { return };
        page.oldest = oldest;
        page.value_bytes = page.entries.iter().map(Entry::value_bytes).sum();
        page.entries.shrink_to_fit();
        self.by_age.insert((oldest, id));
        self.bytes += page.bytes();
        self.pages.insert(id, page);
    }

    /// The oldest position of the log that is still needed for its deltas.
    pub(crate) fn oldest(&self) -> Option<Position> {
        self.by_age.first().map(|(position, _)| *position)
    }

    /// The pages, and the least version of any entry of each.
    pub(crate) fn first_versions(&self) -> impl Iterator<Item = (PageId, Version)> + '_ {
        let first = |page: &Page| page.entries.iter().map(|entry| entry.version).min();
        self.pages.iter().filter_map(move |(&id, page)| Some((id, first(page)?)))
    }

    /// The pages, those with the oldest deltas first.
    pub(crate) fn oldest_pages(&self) -> impl Iterator<Item = PageId> + '_ {
        self.by_age.iter().map(|(_, page)| *page)
    }

    /// The most that the page's entries add to the size of its home image, in bytes.
    pub(crate) fn image_bytes_bound(&self, page: PageId) -> usize {
        self.pages.get(&page).map_or(0, |page| {
            let slots = page.entries.last().map_or(0, |entry| usize::from(entry.slot) + 1);
            page.value_bytes + types::ObjectPage::cost(0) * slots
        })
    }

    /// Memory taken, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether everything is written back.
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}
