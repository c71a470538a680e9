//! The reads and writes of one transaction, page by page.
//!
//! 1. A slot that was written was read: it is in `reads` or in `frozen`, so validation covers it.
//! 2. While a page has slots in `reads` it is in the cache, and they have there the values that were read. When it
//!    leaves, they move to `frozen` together with their evidence at that moment.
//! 3. The cache never sees a workspace: one that is dropped leaves no trace.
//! 4. The writes of an operation can be taken back until the next one begins. Its reads stay: the application may have
//!    learned of them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;
use cache::{Frame, FrameNo};
use core::mem;
use messages::PageReads;
use types::limits::{PAGE_BYTES_GROWTH, SLOT_BYTES_MAX, TXN_BYTES_MAX, TXN_PAGES_MAX};
use types::{Delta, Horizon, Map, ObjectId, ObjectPage, PageId, SlotChange, SlotNo, SlotSet, Version};

/// Up to here a look along the pages is faster than a hash table, and most transactions end here.
const PAGES_WITHOUT_INDEX: usize = 8;

/// The bytes of a change in a commit request beside its value, and of the reads of a page with all its slots, at most:
/// so that a request of very many small changes stays within a message too.
const CHANGE_BYTES: usize = 16;
const READS_BYTES: usize = 160;

/// A short reference always fits into its slot: see `limits`.
const REFERENCE_BYTES: usize = 24;

/// The slots of an evicted page that were read, and how recent they provably were when it left.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// The version of the frame that left, as a resumption lists it.
    pub(crate) version: Version,
    reads: PageReads,
}

/// One page in a transaction's workspace.
#[derive(Debug)]
pub(crate) struct Touched {
    pub(crate) page: PageId,
    /// Where the page's frame stood when it was last touched.
    pub(crate) frame: Option<FrameNo>,
    reads: SlotSet,
    frozen: Option<Box<Frozen>>,
    /// In slot order.
    writes: Vec<SlotChange>,
    /// The bytes that the writes add to the size of the page at most; negative if they take away.
    growth: isize,
    /// No slot below this one is free for a creation.
    free_from: SlotNo,
}

#[derive(Debug, Default)]
pub(crate) struct Workspace {
    pages: Vec<Touched>,
    index: Map<PageId, u32>,
    last: usize,
    write_bytes: usize,
    /// The values that the changes of the running operation replaced, the latest last; `None` while no operation asked
    /// for that.
    replaced: Option<Vec<Replaced>>,
}

/// The value that one change replaced.
#[derive(Debug)]
struct Replaced {
    place: usize,
    slot: SlotNo,
    /// The transaction's own change of the slot before, if there was one.
    own: Option<SlotChange>,
    growth: isize,
    write_bytes: usize,
}

/// The transaction would write or read more than one may.
#[derive(Debug)]
pub(crate) struct TooLarge;

/// The page would grow beyond its limit.
#[derive(Debug)]
pub(crate) struct Full;

impl Touched {
    pub(crate) fn new(page: PageId, frame: Option<FrameNo>) -> Self {
        Self { page, frame, reads: SlotSet::new(), frozen: None, writes: Vec::new(), growth: 0, free_from: 0 }
    }

    /// The transaction's own change of `slot`.
    #[inline]
    pub(crate) fn written(&self, slot: SlotNo) -> Option<&SlotChange> {
        if self.writes.is_empty() {
            return None;
        }
        let write = self.writes.binary_search_by_key(&slot, |write| write.slot).ok()?;
        Some(&self.writes[write])
    }

    /// The transaction's changes of the page, in slot order.
    #[cfg(feature = "mutants")]
    pub(crate) fn writes(&self) -> &[SlotChange] {
        &self.writes
    }

    pub(crate) fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// The slots whose values the cache still has.
    pub(crate) fn reads(&self) -> &SlotSet {
        &self.reads
    }

    /// The slots that were read, whether the cache still has their values or not.
    pub(crate) fn all_reads(&self) -> SlotSet {
        let mut slots = self.reads.clone();
        if let Some(frozen) = self.frozen() {
            slots.union_with(&frozen.reads.slots);
        }
        slots
    }

    pub(crate) fn frozen(&self) -> Option<&Frozen> {
        self.frozen.as_deref()
    }

    /// Whether a change of `slots` to `version` takes back something that the transaction has read.
    pub(crate) fn is_hit_by(&self, slots: &SlotSet, version: Version, frame: Option<&Frame>) -> bool {
        let live = |slot| frame.is_none_or(|frame| frame.evidence(slot) < version);
        let frozen =
            |frozen: &Frozen, slot| frozen.reads.slots.contains(slot) && frozen.reads.evidence_of(slot) < version;
        let hit = |slot| self.reads.contains(slot) && live(slot) || self.frozen().is_some_and(|f| frozen(f, slot));
        (self.frozen.is_some() || self.reads.intersects(slots)) && slots.iter().any(hit)
    }

    /// The page in the cache becomes another one: freezes the evidence of the reads of it.
    pub(crate) fn freeze(&mut self, frame: &Frame, horizon: Version) {
        self.frame = None;
        if self.reads.is_empty() {
            return;
        }
        let reads = self.evidence(Some(frame), horizon);
        self.reads = SlotSet::new();
        self.frozen = Some(Box::new(Frozen { version: frame.version(), reads }));
    }

    /// The proof for everything that was read of the page, of which every change through this horizon is known.
    fn evidence(&self, frame: Option<&Frame>, horizon: Version) -> PageReads {
        let floor = frame.map_or(horizon, |frame| frame.version().max(horizon));
        let exceptions = frame.into_iter().flat_map(|frame| frame.exceptions(floor));
        let exceptions = exceptions.filter(|(slot, _)| self.reads.contains(*slot));
        let live =
            PageReads { page: self.page, slots: self.reads.clone(), evidence: floor, exceptions: exceptions.collect() };
        match self.frozen() {
            Some(frozen) => join(&frozen.reads, &live),
            None => live,
        }
    }

    /// The size of the page with the transaction's writes, in bytes, at most.
    pub(crate) fn page_bytes(&self, image: &ObjectPage) -> usize {
        image.len().saturating_add_signed(self.growth)
    }

    /// The lowest slot that a creation may take: free in the page and untouched by the transaction.
    pub(crate) fn free_slot(&mut self, frame: &Frame) -> Option<SlotNo> {
        let free =
            |slot: SlotNo| frame.page().get(slot).is_none() && !frame.is_hole(slot) && self.written(slot).is_none();
        let slot = (self.free_from..types::limits::SLOTS_MAX as SlotNo).find(|&slot| free(slot))?;
        self.free_from = slot;
        Some(slot)
    }
}

/// The reads before the page left and those since it is back, in one: the older evidence stands for everything that it
/// is about, newer versions become exceptions.
fn join(frozen: &PageReads, live: &PageReads) -> PageReads {
    let mut joined = frozen.clone();
    for slot in live.slots.iter().filter(|&slot| !frozen.slots.contains(slot)) {
        joined.slots.insert(slot);
        let evidence = live.evidence_of(slot);
        if evidence > joined.evidence {
            joined.exceptions.push((slot, evidence));
        }
    }
    joined.exceptions.sort_unstable();
    joined
}

impl Workspace {
    /// Where `page` stands, if the transaction has touched it.
    #[inline]
    pub(crate) fn find(&mut self, page: PageId) -> Option<usize> {
        if self.pages.get(self.last).is_some_and(|touched| touched.page == page) {
            return Some(self.last);
        }
        self.last = self.place(page)?;
        Some(self.last)
    }

    fn place(&self, page: PageId) -> Option<usize> {
        if self.pages.len() <= PAGES_WITHOUT_INDEX {
            return self.pages.iter().position(|touched| touched.page == page);
        }
        self.index.get(&page).map(|&place| place as usize)
    }

    pub(crate) fn at(&self, place: usize) -> &Touched {
        &self.pages[place]
    }

    pub(crate) fn at_mut(&mut self, place: usize) -> &mut Touched {
        &mut self.pages[place]
    }

    pub(crate) fn get(&self, page: PageId) -> Option<&Touched> {
        self.place(page).map(|place| &self.pages[place])
    }

    pub(crate) fn get_mut(&mut self, page: PageId) -> Option<&mut Touched> {
        self.place(page).map(|place| &mut self.pages[place])
    }

    pub(crate) fn pages(&self) -> &[Touched] {
        &self.pages
    }

    /// Takes up a page that the transaction has not touched yet.
    pub(crate) fn touch(&mut self, page: PageId, frame: Option<FrameNo>) -> Result<usize, TooLarge> {
        let bytes = self.write_bytes + self.pages.len() * READS_BYTES;
        if self.pages.len() == TXN_PAGES_MAX || bytes > TXN_BYTES_MAX {
            return Err(TooLarge);
        }
        self.last = self.pages.len();
        self.pages.push(Touched::new(page, frame));
        if self.pages.len() == PAGES_WITHOUT_INDEX + 1 {
            self.index = self.pages.iter().enumerate().map(|(place, touched)| (touched.page, place as u32)).collect();
        } else if self.pages.len() > PAGES_WITHOUT_INDEX {
            self.index.insert(page, self.last as u32);
        }
        Ok(self.last)
    }

    /// The transaction has read `slot` of the page at `place`; says whether for the first time.
    #[inline]
    pub(crate) fn mark_read(&mut self, place: usize, slot: SlotNo) -> bool {
        self.pages[place].reads.insert(slot)
    }

    /// Puts a value, or the end of an object, over the page at `place`, whose cached image is `image`.
    pub(crate) fn write(
        &mut self,
        place: usize,
        slot: SlotNo,
        value: Option<Bytes>,
        image: &ObjectPage,
    ) -> Result<Result<(), Full>, TooLarge> {
        let touched = &mut self.pages[place];
        let bytes = |value: Option<usize>| value.map_or(0, ObjectPage::cost);
        let found = touched.writes.binary_search_by_key(&slot, |write| write.slot);
        let own = found.ok().map(|write| touched.writes[write].value.as_ref().map(Bytes::len));
        let before = bytes(own.unwrap_or_else(|| image.get(slot).map(<[u8]>::len)));
        let after = bytes(value.as_ref().map(Bytes::len));
        let value_bytes = value.as_ref().map_or(0, Bytes::len);
        let growth = touched.growth + after.cast_signed() - before.cast_signed();
        let entries = (usize::from(slot) + 1).saturating_sub(image.slot_count()) * ObjectPage::cost(0);
        let grown = image.len().saturating_add_signed(growth) + entries;
        // A value of its own page may fill it.
        let is_alone = image.is_empty() && touched.writes.iter().all(|write| write.slot == slot);
        let too_big = after > before && grown > PAGE_BYTES_GROWTH && value_bytes > REFERENCE_BYTES && !is_alone;
        if too_big || value_bytes > SLOT_BYTES_MAX {
            return Ok(Err(Full));
        }
        let own_bytes = own.map_or(0, |len| CHANGE_BYTES + len.unwrap_or(0));
        let write_bytes = self.write_bytes + CHANGE_BYTES + value_bytes - own_bytes;
        if write_bytes + self.pages.len() * READS_BYTES > TXN_BYTES_MAX {
            return Err(TooLarge);
        }
        let touched = &mut self.pages[place];
        let write_bytes_before = mem::replace(&mut self.write_bytes, write_bytes);
        let growth_before = mem::replace(&mut touched.growth, growth);
        let own = match found {
            Ok(write) => Some(mem::replace(&mut touched.writes[write], SlotChange { slot, value })),
            Err(write) => {
                touched.writes.insert(write, SlotChange { slot, value });
                None
            }
        };
        if let Some(replaced) = &mut self.replaced {
            replaced.push(Replaced { place, slot, own, growth: growth_before, write_bytes: write_bytes_before });
        }
        Ok(Ok(()))
    }

    /// An operation begins to write: from here on its changes can be taken back.
    pub(crate) fn begin_operation(&mut self) {
        self.replaced.get_or_insert_default().clear();
    }

    /// Takes back the writes of the running operation.
    pub(crate) fn take_back(&mut self) {
        for replaced in self.replaced.iter_mut().flat_map(|replaced| replaced.drain(..).rev()) {
            let touched = &mut self.pages[replaced.place];
            (touched.growth, self.write_bytes) = (replaced.growth, replaced.write_bytes);
            touched.free_from = touched.free_from.min(replaced.slot);
            let found = touched.writes.binary_search_by_key(&replaced.slot, |write| write.slot);
            let write = found.expect("a change stays until it is taken back");
            match replaced.own {
                Some(own) => touched.writes[write] = own,
                None => drop(touched.writes.remove(write)),
            }
        }
    }

    /// The transaction has nothing to do with this page any more.
    pub(crate) fn disown(&mut self, page: PageId) {
        if let Some(touched) = self.get_mut(page) {
            (touched.frame, touched.reads) = (None, SlotSet::new());
        }
    }

    /// Drops everything that the transaction has written, and keeps its reads.
    pub(crate) fn drop_writes(&mut self) {
        self.write_bytes = 0;
        for touched in &mut self.pages {
            touched.writes.clear();
            touched.growth = 0;
        }
    }

    /// The transaction's own value of an object that it has written.
    pub(crate) fn own(&self, place: usize, object: ObjectId) -> Option<&Bytes> {
        self.pages[place].written(object.slot)?.value.as_ref()
    }

    /// Whether the transaction has done nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Whether the transaction has only read.
    pub(crate) fn is_read_only(&self) -> bool {
        !self.pages.iter().any(Touched::has_writes)
    }

    /// The content of a commit request: the proof of every read, and the deltas, both in page order. Takes the writes
    /// out.
    pub(crate) fn request<'a>(
        &mut self,
        frame: impl Fn(PageId) -> Option<&'a Frame>,
        horizon: Horizon<'_>,
    ) -> (Vec<PageReads>, Vec<Delta>) {
        self.pages.sort_unstable_by_key(|touched| touched.page);
        let reads = self.pages.iter().map(|touched| touched.evidence(frame(touched.page), horizon.of(touched.page)));
        let reads = reads.filter(|reads| !reads.slots.is_empty()).collect();
        let deltas = self.pages.iter_mut().filter(|touched| touched.has_writes());
        let delta = |touched: &mut Touched| Delta { page: touched.page, changes: mem::take(&mut touched.writes) };
        (reads, deltas.map(delta).collect())
    }
}
