//! Write-back: installs pages in the home and frees the log.
//!
//! ```text
//!   Starting --life is durable--> Idle --wanted--> Reading --all images--> Installing --installed--> Idle
//!                                  ^                                           |
//!                                  +------------ Waiting <----- home full -----+
//! ```
//! 1. One batch at a time, atomic, with a checkpoint of the same moment.
//! 2. A batch holds what is applied, and that is durable in the log. It waits for the first record of the life:
//!    without that, the counts of commits in the log of an earlier format would follow from the checkpoint (see
//!    `uncounted`), so the checkpoint must not be ahead of them.
//! 3. Changes to a page that cannot be read are set aside with the checkpoint. They neither delay other pages nor keep
//!    the log from being freed.
//! 4. The log is freed only up to the oldest position that is still needed: by a delta that is not written back, or by
//!    anything that the last checkpoint does not cover.

use crate::images::Waiter;
use crate::in_flight::InFlight;
use crate::log::Log;
use crate::{Checkpoint, DiskWork, HomeImage, Position, SetAside, Store};
use alloc::vec::Vec;
use core::time::Duration;
use types::{Map, ObjectPage, PageId, Rule, Time, Version};

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
    /// Everything before this position is in the checkpoint or in the MOB.
    covered: Position,
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
    /// The position that the last checkpoint covers.
    covered: Position,
    home_full: bool,
}

impl WriteBack {
    pub(crate) fn new() -> Self {
        Self { stage: Stage::Starting, covered: Position(0), home_full: false }
    }

    /// Whether the disk had no room for the last batch.
    pub(crate) fn is_home_full(&self) -> bool {
        self.home_full
    }

    fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Idle)
    }

    /// When it wants to be called: to try again, or because nothing has happened for a while.
    pub(crate) fn next_due(&self, mob_is_empty: bool, last_commit: Time) -> Option<Time> {
        match self.stage {
            Stage::Waiting { until } => Some(until),
            Stage::Idle if !mob_is_empty => Some(last_commit + IDLE),
            _ => None,
        }
    }
}

/// The position that a checkpoint taken now covers: everything before the first commit that is not durable. The last
/// record stays out, as it is never freed.
fn coverable(in_flight: &InFlight, log: &Log) -> Position {
    in_flight.first().unwrap_or(log.last()).min(log.last())
}

impl Store {
    /// Lets write-back begin once the first record of the life is durable.
    pub(crate) fn open_write_back(&mut self) {
        if matches!(self.writeback.stage, Stage::Starting) && self.log.is_durable(self.lives.first_record()) {
            self.writeback.stage = Stage::Idle;
        }
    }

    /// Begins a batch if it is time to.
    pub(crate) fn write_back(&mut self, now: Time) {
        if let Stage::Waiting { until } = self.writeback.stage
            && until <= now
        {
            self.writeback.stage = Stage::Idle;
        }
        if self.writeback.is_idle() && self.wants_write_back(now) {
            self.begin_batch(now);
        }
    }

    /// Whether write-back is at work, or would find something to do, that leaves more room than there is.
    pub(crate) fn can_make_room(&self) -> bool {
        !self.writeback.is_idle() || self.log.is_freeing() || self.has_write_back()
    }

    fn has_write_back(&self) -> bool {
        !self.master.mob().is_empty() || coverable(&self.in_flight, &self.log) > self.writeback.covered
    }

    fn wants_write_back(&self, now: Time) -> bool {
        let mob = self.master.mob();
        let pressed = self.closing || self.is_short_of_room() || self.log.is_tight();
        mob.bytes() > self.config.mob_bytes_limit / 2
            || (pressed && self.has_write_back())
            || (!mob.is_empty() && self.in_flight.last_commit() + IDLE <= now)
    }

    /// Takes the oldest pages, and reads the home images that are not in memory.
    fn begin_batch(&mut self, now: Time) {
        let is_damaged = |page: &PageId| self.master.damage(*page).is_some();
        let (damaged, pages) = self.pick_pages().into_iter().partition::<Vec<_>, _>(is_damaged);
        let mut images = Map::default();
        let mut missing = Vec::new();
        for &page in &pages {
            match self.master.home_image(page) {
                Some(image) => {
                    images.insert(page, image);
                }
                None => missing.push((page, Waiter::WriteBack)),
            }
        }
        self.writeback.stage = Stage::Reading { pages, images, damaged };
        self.master.read(missing, &mut self.out);
        self.build_batch(now);
    }

    /// The pages with the oldest deltas, which hold the log back longest: as many as make a batch, one at least.
    fn pick_pages(&self) -> Vec<PageId> {
        let mut bytes = 0;
        let mut fits = |page: &PageId| {
            let before = bytes;
            bytes += self.master.image_bytes_bound(*page);
            before == 0 || bytes <= self.config.limits.write_back_bytes
        };
        self.master.mob().oldest_pages().take_while(|page| fits(page)).collect()
    }

    /// Takes a page that cannot be read out of the batch, and sets its changes aside.
    pub(crate) fn is_damaged_in_batch(&mut self, now: Time, page: PageId) {
        if let Stage::Reading { pages, damaged, .. } = &mut self.writeback.stage
            && let Some(at) = pages.iter().position(|other| *other == page)
        {
            pages.remove(at);
            damaged.push(page);
            self.build_batch(now);
        }
    }

    /// A page of the batch has been read.
    pub(crate) fn has_read_for_batch(&mut self, now: Time, page: PageId) {
        let Some(image) = self.master.home_image(page) else { return };
        if let Stage::Reading { images, .. } = &mut self.writeback.stage {
            images.insert(page, image);
            self.build_batch(now);
        }
    }

    /// Once all home images are there: makes the pages as they are now, and sends the batch home.
    fn build_batch(&mut self, now: Time) {
        let Stage::Reading { pages, images, damaged } = &self.writeback.stage else { return };
        if images.len() < pages.len() {
            return;
        }
        let as_now = |&page: &PageId| Installed {
            page,
            version: self.master.version(page),
            image: self.master.lay_over(page, &images[&page]),
        };
        let pages: Vec<_> = pages.iter().map(as_now).collect();
        let aside: Vec<_> = damaged.iter().map(|&page| self.master.set_aside(page)).collect();
        self.log_life_again(now);
        let checkpoint = self.checkpoint(self.master.aside_with(&pages, &aside));
        let batch = Batch { pages, aside, covered: coverable(&self.in_flight, &self.log) };
        let images = batch.pages.iter().map(Installed::to_home).collect();
        self.out.disk(DiskWork::Install(images, checkpoint));
        self.writeback.stage = Stage::Installing(batch);
    }

    /// The batch is home.
    pub(crate) fn installed(&mut self) {
        if let Stage::Installing(batch) = core::mem::replace(&mut self.writeback.stage, Stage::Idle) {
            self.master.installed(&batch.pages, &batch.aside);
            self.pages_are_home(batch.pages.iter().map(|installed| installed.page));
            self.writeback.covered = batch.covered;
            self.writeback.home_full = false;
            self.free_home();
        }
    }

    /// The home had no room for the batch. Its pages stay in the MOB.
    pub(crate) fn home_full(&mut self, now: Time) {
        if let Stage::Installing(_) = self.writeback.stage {
            self.writeback.home_full = true;
            self.writeback.stage = Stage::Waiting { until: now + FULL_RETRY };
        }
    }

    /// Frees what nothing needs any more.
    pub(crate) fn free_home(&mut self) {
        let mut needed = self.writeback.covered;
        if self.config.broken.is(Rule::FreeAfterHome) {
            needed = coverable(&self.in_flight, &self.log);
        } else if let Some(oldest) = self.master.mob().oldest() {
            needed = needed.min(oldest);
        }
        needed = needed.min(self.lives.needed(|position| self.log.is_durable(position)));
        self.log.free_before(needed, &mut self.out);
    }

    /// Whether everything is written back, or there is no way to get it there, and what stays in the log is durable.
    pub(crate) fn is_written_back(&self) -> bool {
        let at_rest = matches!(self.writeback.stage, Stage::Idle) && !self.has_write_back();
        !self.master.has_prepared()
            && self.log.is_durable(self.log.last())
            && (at_rest || matches!(self.writeback.stage, Stage::Waiting { .. }))
    }

    fn checkpoint(&self, aside: Vec<SetAside>) -> Checkpoint {
        Checkpoint {
            applied: self.master.applied(),
            next_pages: self.grants.next_pages(),
            outcomes: self.coordinator.to_checkpoint(),
            forgotten: self.coordinator.forgotten(),
            aside,
        }
    }
}
