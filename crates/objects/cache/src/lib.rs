//! The page cache: frames with holes and a vcache, bounded in bytes.
//!
//! The cache decides what its frames reflect ([`Frame`]) and which of them leaves. The owner says whom that concerns,
//! running transactions or the members of a group: every operation that changes or drops a frame gives the owner what
//! it needs for that.
#![no_std]

extern crate alloc;

mod apply;
mod evict;
mod frame;
mod install;

use alloc::vec::Vec;
use evict::{Place, Places, Queues};
pub use frame::{Frame, Slot};
use messages::Invalidation;
use types::{Broken, Map, ObjectPage, PageId, SlotSet, Version};

/// The memory that a frame takes beside its image, in bytes: its entry, its share of the hash table and of the ghost
/// queue.
pub const FRAME_OVERHEAD_BYTES: usize = 256;

/// Where a frame stands, until it leaves; [`Cache::is_at`] says whether it still stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameNo(u32);

/// The cache.
#[derive(Debug)]
pub struct Cache {
    table: Table,
    free: Vec<u32>,
    index: Map<PageId, u32>,
    queues: Queues,
    bytes_limit: usize,
    broken: Broken,
}

/// A frame that has left.
#[derive(Debug)]
pub struct Evicted {
    /// Its page.
    pub page: PageId,
    /// The frame.
    pub frame: Frame,
}

/// The outcome of a page's arrival.
#[derive(Debug)]
pub enum Installed {
    /// There was no frame of the page before.
    New,
    /// It took the place of this frame.
    Over(Frame),
    /// The cache knew better.
    Refused,
}

#[derive(Debug)]
struct Entry {
    page: PageId,
    frame: Frame,
    place: Place,
    unread: bool,
}

#[derive(Debug, Default)]
struct Table(Vec<Option<Entry>>);

impl Places for Table {
    fn place(&mut self, frame: u32) -> &mut Place {
        &mut self.at_mut(frame).place
    }
}

impl Table {
    fn at(&self, frame: u32) -> &Entry {
        self.0[frame as usize].as_ref().expect("a frame number of the index or the queues")
    }

    fn at_mut(&mut self, frame: u32) -> &mut Entry {
        self.0[frame as usize].as_mut().expect("a frame number of the index or the queues")
    }
}

impl Cache {
    /// An empty cache for `bytes_limit` bytes of images and frames.
    pub fn new(bytes_limit: usize, broken: Broken) -> Self {
        Self {
            table: Table::default(),
            free: Vec::new(),
            index: Map::default(),
            queues: Queues::new(),
            bytes_limit,
            broken,
        }
    }

    /// Where the frame of `page` stands.
    #[inline]
    pub fn find(&self, page: PageId) -> Option<FrameNo> {
        self.index.get(&page).map(|&frame| FrameNo(frame))
    }

    /// Whether the frame of `page` is at `frame`: cheaper than [`Cache::find`] for a caller that remembers.
    #[inline]
    pub fn is_at(&self, frame: FrameNo, page: PageId) -> bool {
        matches!(self.table.0.get(frame.0 as usize), Some(Some(entry)) if entry.page == page)
    }

    /// The frame at `frame`.
    ///
    /// # Panics
    /// If it has left.
    #[inline]
    pub fn at(&self, frame: FrameNo) -> &Frame {
        &self.table.at(frame.0).frame
    }

    /// The frame of `page`.
    pub fn get(&self, page: PageId) -> Option<&Frame> {
        self.find(page).map(|frame| self.at(frame))
    }

    /// The page whose frame is at `frame`.
    ///
    /// # Panics
    /// If it has left.
    pub fn page_at(&self, frame: FrameNo) -> PageId {
        self.table.at(frame.0).page
    }

    /// The page was asked for ahead: nobody has needed it yet.
    ///
    /// # Panics
    /// If it has left.
    pub fn mark_unread(&mut self, frame: FrameNo) {
        self.table.at_mut(frame.0).unread = true;
    }

    /// A transaction touches the frame for the first time; says whether the page was marked as unread until now.
    ///
    /// # Panics
    /// If it has left.
    pub fn count_use(&mut self, frame: FrameNo) -> bool {
        let entry = self.table.at_mut(frame.0);
        entry.place.count_use();
        core::mem::replace(&mut entry.unread, false)
    }

    /// All frames, in no order that means anything.
    pub fn frames(&self) -> impl Iterator<Item = (PageId, &Frame)> {
        self.table.0.iter().flatten().map(|entry| (entry.page, &entry.frame))
    }

    /// How many frames there are.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The bytes that images and frames take.
    pub fn bytes(&self) -> usize {
        self.queues.bytes()
    }

    /// A page arrives; `kept` is what was learned of it while it was under way. Gives where its frame stands, and what
    /// the arrival has done there. Call [`Cache::evict`] afterwards.
    pub fn install(
        &mut self,
        page: PageId,
        version: Version,
        image: ObjectPage,
        kept: &[Invalidation],
    ) -> (FrameNo, Installed) {
        let Some(&number) = self.index.get(&page) else {
            let frame = Frame::install(version, image, None, kept, self.broken).expect("nothing here is newer");
            return (FrameNo(self.enter(page, frame)), Installed::New);
        };
        let entry = self.table.at_mut(number);
        let Some(frame) = Frame::install(version, image, Some(&entry.frame), kept, self.broken) else {
            return (FrameNo(number), Installed::Refused);
        };
        let older = core::mem::replace(&mut entry.frame, frame);
        self.weigh(number);
        (FrameNo(number), Installed::Over(older))
    }

    /// A change of a page is told. Does nothing if the page is not here.
    pub fn apply(&mut self, invalidation: &Invalidation) {
        if let Some(&number) = self.index.get(&invalidation.page) {
            self.table.at_mut(number).frame.apply(invalidation, self.broken);
            self.weigh(number);
        }
    }

    /// Makes holes in a page, if it is here.
    pub fn puncture(&mut self, page: PageId, slots: &SlotSet) {
        if let Some(&number) = self.index.get(&page) {
            self.table.at_mut(number).frame.puncture(slots);
        }
    }

    /// A pinned page does not leave. Does nothing if the page is not here.
    pub fn pin(&mut self, page: PageId, pinned: bool) {
        if let Some(frame) = self.find(page) {
            self.pin_at(frame, pinned);
        }
    }

    /// [`Cache::pin`] for a caller that knows where the frame stands.
    ///
    /// # Panics
    /// If it has left.
    pub fn pin_at(&mut self, frame: FrameNo, pinned: bool) {
        self.queues.pin(&mut self.table, frame.0, pinned);
    }

    /// A claimed page does not leave either: somebody waits for it and has not read it yet. Does nothing if the page is
    /// not here.
    pub fn claim(&mut self, page: PageId, claimed: bool) {
        if let Some(frame) = self.find(page) {
            self.claim_at(frame, claimed);
        }
    }

    /// [`Cache::claim`] for a caller that knows where the frame stands.
    ///
    /// # Panics
    /// If it has left.
    pub fn claim_at(&mut self, frame: FrameNo, claimed: bool) {
        self.queues.claim(&mut self.table, frame.0, claimed);
    }

    /// Takes a page out.
    pub fn remove(&mut self, page: PageId) -> Option<Frame> {
        let number = self.index.remove(&page)?;
        self.queues.leave(&mut self.table, number);
        self.free.push(number);
        self.table.0[number as usize].take().map(|entry| entry.frame)
    }

    /// Takes out the page that should leave next, if the cache holds more than it may. Call until it returns nothing.
    pub fn evict(&mut self) -> Option<Evicted> {
        if self.queues.bytes() <= self.bytes_limit {
            return None;
        }
        let number = self.queues.victim(&mut self.table)?;
        let page = self.table.at(number).page;
        self.queues.remember(&mut self.table, number, page);
        let frame = self.remove(page).expect("the victim is in the table");
        Some(Evicted { page, frame })
    }

    fn enter(&mut self, page: PageId, frame: Frame) -> u32 {
        let bytes = frame.page.len() + FRAME_OVERHEAD_BYTES;
        let number = self.free.pop().unwrap_or_else(|| {
            self.table.0.push(None);
            self.table.0.len() as u32 - 1
        });
        self.table.0[number as usize] = Some(Entry { page, frame, place: Place::default(), unread: false });
        self.index.insert(page, number);
        self.queues.enter(&mut self.table, number, page, bytes);
        number
    }

    fn weigh(&mut self, number: u32) {
        let bytes = self.table.at(number).frame.page.len() + FRAME_OVERHEAD_BYTES;
        self.queues.resize(&mut self.table, number, bytes);
    }
}
