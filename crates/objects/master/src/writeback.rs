//! Write-back: installs pages in the home, so that the log can be freed.
//!
//! ```text
//!   Starting --opened--> Idle --wanted--> Reading --all images--> Installing --installed--> Idle
//!                         ^                                           |
//!                         +------------ Waiting <----- home full -----+
//! ```
//! 1. One batch at a time, atomic, of one moment. The node adds a checkpoint to it.
//! 2. A batch holds what is applied, and that is durable in the log. It waits until the node has opened write-back.
//! 3. Changes to a page that cannot be read are set aside with the batch. They neither delay other pages nor keep the
//!    log from being freed.

use crate::images::Waiter;
use crate::outputs::{Install, Output};
use crate::{HomeImage, Master, SetAside};
use alloc::vec::Vec;
use core::time::Duration;
use types::{Map, ObjectPage, PageId, Position, Rule, Time, Version};

/// How the node's log stands, as far as write-back can help it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogState {
    /// Write-back should hurry to free some of it.
    pub is_tight: bool,
    /// Requests wait for room in it.
    pub is_short: bool,
    /// A checkpoint of now would let some of it go, even one without pages.
    pub is_ahead: bool,
}

/// Without commits for this long, what waits is written back.
const IDLE: Duration = Duration::from_secs(1);

/// How long a full home is left alone before the batch is tried again.
const FULL_RETRY: Duration = Duration::from_secs(1);

/// One page of a batch.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) page: PageId,
    pub(crate) version: Version,
    pub(crate) image: ObjectPage,
}

impl Installed {
    fn to_home(&self) -> HomeImage {
        HomeImage { page: self.page, version: self.version, image: self.image.image().clone() }
    }
}

/// One install.
#[derive(Debug)]
struct Batch {
    pages: Vec<Installed>,
    /// Changes to pages that cannot be read.
    aside: Vec<SetAside>,
    /// Pages of shards that move here.
    copies: Vec<HomeImage>,
}

#[derive(Debug)]
enum Stage {
    Starting,
    Idle,
    Reading { pages: Vec<PageId>, images: Map<PageId, ObjectPage>, damaged: Vec<PageId> },
    Installing(Batch),
    Waiting { until: Time },
}

/// The state of write-back.
#[derive(Debug)]
pub(crate) struct WriteBack {
    stage: Stage,
    home_full: bool,
    last_commit: Time,
}

impl WriteBack {
    pub(crate) fn new() -> Self {
        Self { stage: Stage::Starting, home_full: false, last_commit: Time::ZERO }
    }

    /// Whether the disk had no room for the last batch.
    pub(crate) fn is_home_full(&self) -> bool {
        self.home_full
    }

    /// A commit has been applied.
    pub(crate) fn has_committed(&mut self, now: Time) {
        self.last_commit = now;
    }

    /// How many copies of pages are being installed.
    pub(crate) fn copies_installing(&self) -> usize {
        if let Stage::Installing(batch) = &self.stage { batch.copies.len() } else { 0 }
    }

    fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Idle)
    }

    /// When it wants to be called: to try again, or because nothing has happened for a while.
    pub(crate) fn next_due(&self, mob_is_empty: bool) -> Option<Time> {
        match self.stage {
            Stage::Waiting { until } => Some(until),
            Stage::Idle if !mob_is_empty => Some(self.last_commit + IDLE),
            _ => None,
        }
    }
}

impl Master {
    /// Lets write-back begin.
    pub fn open_write_back(&mut self) {
        if matches!(self.writeback.stage, Stage::Starting) {
            self.writeback.stage = Stage::Idle;
        }
    }

    /// Begins a batch if it is time to.
    pub(crate) fn write_back(&mut self, now: Time, log: LogState) {
        if let Stage::Waiting { until } = self.writeback.stage
            && until <= now
        {
            self.writeback.stage = Stage::Idle;
        }
        if self.writeback.is_idle() && self.wants_write_back(now, log) {
            self.begin_batch();
        }
    }

    /// Whether nothing is prepared, nothing is being written back, and nothing is left to write.
    pub fn is_at_rest(&self) -> bool {
        let has_prepared = self.pages.has_prepared() && !self.config.broken.is(Rule::CleanClose);
        !has_prepared && self.writeback.is_idle() && self.pages.mob().is_empty()
    }

    /// Whether nothing is prepared, and the home has no room for what is left to write.
    pub fn is_stuck(&self) -> bool {
        !self.pages.has_prepared() && matches!(self.writeback.stage, Stage::Waiting { .. })
    }

    /// The oldest position of the log that holds something which is not written back.
    pub fn oldest(&self) -> Option<Position> {
        self.pages.mob().oldest()
    }

    fn wants_write_back(&mut self, now: Time, log: LogState) -> bool {
        let leaves = self.has_leaving_pages();
        let mob = self.pages.mob();
        let pressed = self.closing || self.is_short_of_room() || log.is_short || log.is_tight;
        mob.bytes() > self.config.mob_bytes_limit / 2
            || (pressed && (!mob.is_empty() || log.is_ahead))
            || self.moves.has_copies()
            || leaves
            || (!mob.is_empty() && self.writeback.last_commit + IDLE <= now)
    }

    /// Takes the oldest pages, and reads the home images that are not in memory.
    fn begin_batch(&mut self) {
        let picked = self.pick_pages();
        let is_damaged = |page: &PageId| self.pages.damage(*page).is_some();
        let (damaged, pages) = picked.into_iter().partition::<Vec<_>, _>(is_damaged);
        let mut images = Map::default();
        let mut missing = Vec::new();
        for &page in &pages {
            match self.pages.home_image(page) {
                Some(image) => {
                    images.insert(page, image);
                }
                None => missing.push((page, Waiter::WriteBack)),
            }
        }
        self.writeback.stage = Stage::Reading { pages, images, damaged };
        self.pages.read(missing, &mut self.out);
        self.build_batch();
    }

    /// The pages with the oldest deltas, which hold the log back longest: as many as make a batch, one at least.
    fn pick_pages(&mut self) -> Vec<PageId> {
        let leaves = self.has_leaving_pages();
        let mut bytes = 0;
        let mut fits = |page: &PageId| {
            let before = bytes;
            bytes += self.pages.image_bytes_bound(*page);
            before == 0 || bytes <= self.config.limits.write_back_bytes
        };
        if leaves {
            return self.leaving_pages().take_while(|page| fits(page)).collect();
        }
        self.pages.mob().oldest_pages().take_while(|page| fits(page)).collect()
    }

    /// Takes a page that cannot be read out of the batch, and sets its changes aside.
    pub(crate) fn is_damaged_in_batch(&mut self, page: PageId) {
        if let Stage::Reading { pages, damaged, .. } = &mut self.writeback.stage
            && let Some(at) = pages.iter().position(|other| *other == page)
        {
            pages.remove(at);
            damaged.push(page);
            self.build_batch();
        }
    }

    /// A page of the batch has been read.
    pub(crate) fn has_read_for_batch(&mut self, page: PageId) {
        let Some(image) = self.pages.home_image(page) else { return };
        if let Stage::Reading { images, .. } = &mut self.writeback.stage {
            images.insert(page, image);
            self.build_batch();
        }
    }

    /// Once all home images are there: makes the pages as they are now, and sends the batch home.
    fn build_batch(&mut self) {
        let Stage::Reading { pages, images, damaged } = &self.writeback.stage else { return };
        if images.len() < pages.len() {
            return;
        }
        let as_now = |&page: &PageId| Installed {
            page,
            version: self.pages.version(page),
            image: self.pages.lay_over(page, &images[&page]),
        };
        let pages: Vec<_> = pages.iter().map(as_now).collect();
        let aside: Vec<_> = damaged.iter().map(|&page| self.pages.set_aside(page)).collect();
        let copies = self.moves.take_batch(self.config.limits.write_back_bytes);
        let mut applied = self.pages.applied().clone();
        for copy in &copies {
            applied.raise(self.config.sharding.of(copy.page), copy.version);
        }
        self.out.push(Output::Install(Install {
            pages: pages.iter().map(Installed::to_home).chain(copies.iter().cloned()).collect(),
            applied,
            next_pages: self.grants.next_pages(),
            aside: self.pages.aside_with(&pages, &aside),
        }));
        self.writeback.stage = Stage::Installing(Batch { pages, aside, copies });
    }

    /// The batch is written back.
    pub fn installed(&mut self) {
        if let Stage::Installing(batch) = core::mem::replace(&mut self.writeback.stage, Stage::Idle) {
            self.pages.installed(&batch.pages, &batch.aside);
            self.pages_are_home(batch.pages.iter().map(|installed| installed.page));
            self.copies_are_home(&batch.copies);
            self.writeback.home_full = false;
        }
    }

    /// The home had no room for the batch. Its pages stay in the MOB.
    pub fn home_full(&mut self, now: Time) {
        if let Stage::Installing(batch) = &mut self.writeback.stage {
            self.moves.put_back(core::mem::take(&mut batch.copies));
            self.writeback.home_full = true;
            self.writeback.stage = Stage::Waiting { until: now + FULL_RETRY };
        }
    }
}
