//! The virtual disk: a log and a page home that live through crashes, with faults in between.
//!
//! Appends wait in a queue; a flush takes some of them, in order, and makes them durable when it ends; whatever has
//! queued up in the meantime goes with the next one. Reads, installs and frees take their own time. A crash keeps what
//! is durable and a drawn prefix of the rest: a real disk may tear and reorder what was not synced, and the real log
//! cuts at the first record that does not verify, so that any prefix is what can be left, and nothing else. An install
//! is atomic: it is there or not.

use crate::drive::{Disk, Found, Operation, Started};
use crate::layout::Stored;
use crate::rng::{Delay, Rng};
use crate::violation::{Check, Violation, ensure};
use bytes::Bytes;
use machine::Opaque;
use std::collections::{BTreeMap, VecDeque};
use store::{Checkpoint, CommitRecord, DiskDone, DiskWork, HomeImage, HomePage, Opened, Position, Record};
use types::{ClusterId, Delta, Horizon, Incarnation, Life, ObjectPage, PageId, Sharding, Vector, Version};

/// The properties of one seed's disk.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) flush: Delay,
    pub(crate) read: Delay,
    pub(crate) install: Delay,
    /// The most records that one flush takes.
    pub(crate) flush_records_max: usize,
    /// Room in the log.
    pub(crate) log_bytes: u64,
    /// Records are freed in runs of this many, as a real log frees whole segments.
    pub(crate) segment_records: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct StoreDisk {
    profile: Profile,
    sharding: Sharding,
    /// Whether the log has every commit of the pages: the store has one node.
    is_alone: bool,
    /// Durable records, oldest first; the first of them has position `first`.
    log: VecDeque<Record>,
    first: Position,
    /// The first position that the store needs.
    needed: Position,
    home: BTreeMap<PageId, (Version, Bytes)>,
    checkpoint: Checkpoint,
    /// How often the store's process has opened it.
    lives: u64,
    /// How many lives have been drawn, on this disk and on those that it has taken the place of.
    drawn: u64,
    /// Appended and not durable; the first `flushing` of them are being written.
    pending: VecDeque<Record>,
    flushing: usize,
    installing: Option<(Vec<HomeImage>, Checkpoint)>,
    log_bytes_used: u64,
    /// The counts of the last durable commits.
    counts: Vector,
    /// The records that have become durable since the checkers last asked.
    pub(crate) became_durable: Vec<Record>,
    /// Installs find no room.
    pub(crate) home_full: bool,
}

impl StoreDisk {
    /// The disk of a store that one commit has founded, and that was closed since: everything is written back.
    pub(crate) fn new(profile: Profile, sharding: Sharding, founding: &CommitRecord) -> Self {
        let counts = Horizon { counts: &founding.counts, sharding };
        let image = |delta: &Delta| ObjectPage::empty().with(&delta.changes).expect("it founds small pages");
        let home = |delta: &Delta| (delta.page, (counts.of(delta.page), image(delta).image().clone()));
        // Page 0 exists in any store.
        let next_page = founding.deltas.len().max(1) as u32;
        let applied = founding.counts.clone();
        let checkpoint = Checkpoint { applied, next_pages: vec![(0, next_page)], ..Checkpoint::default() };
        let home = founding.deltas.iter().map(home).collect();
        Self::holding(profile, sharding, &Stored { home, checkpoint })
    }

    /// The disk of a store that was closed: this is home.
    pub(crate) fn holding(profile: Profile, sharding: Sharding, stored: &Stored) -> Self {
        let (home, checkpoint) = (stored.home.clone(), stored.checkpoint.clone());
        Self {
            profile,
            sharding,
            is_alone: true,
            log: VecDeque::new(),
            first: Position(1),
            needed: Position(1),
            home,
            checkpoint,
            lives: 0,
            drawn: 0,
            pending: VecDeque::new(),
            flushing: 0,
            installing: None,
            log_bytes_used: 0,
            counts: stored.checkpoint.applied.clone(),
            became_durable: Vec::new(),
            home_full: false,
        }
    }

    /// The disk of one of several nodes, whose pages others commit to, too.
    pub(crate) fn of_several(self) -> Self {
        Self { is_alone: false, ..self }
    }

    /// The pages that are home, for another disk to begin with. Those who wrote it are no longer there, and ask for
    /// no outcome.
    pub(crate) fn stored(&self) -> Stored {
        let Checkpoint { applied, next_pages, .. } = self.checkpoint.clone();
        let forgotten = applied.clone();
        let checkpoint = Checkpoint { applied, next_pages, forgotten, ..Checkpoint::default() };
        Stored { home: self.home.clone(), checkpoint }
    }

    fn append(&mut self, position: Position, record: Record) -> Check {
        let next = self.first.0 + (self.log.len() + self.pending.len()) as u64;
        ensure(position.0 == next, "disk", || format!("append at {position:?}, and the next position is {next}"))?;
        self.log_bytes_used += record.bytes_bound();
        ensure(self.log_bytes_used <= self.profile.log_bytes, "disk", || {
            format!("{} bytes in a log of {}", self.log_bytes_used, self.profile.log_bytes)
        })?;
        self.pending.push_back(record);
        Ok(())
    }

    /// A home image never replaces a newer one, and the home is never ahead of the log.
    fn check_install(&self, images: &[HomeImage], checkpoint: &Checkpoint) -> Check {
        ensure(!self.is_alone || self.counts.reaches(&checkpoint.applied), "disk", || {
            format!(
                "a checkpoint of {:?} is installed, and the log is durable through {:?}",
                checkpoint.applied, self.counts
            )
        })?;
        let back = images.iter().find(|image| self.home.get(&image.page).is_some_and(|home| home.0 > image.version));
        ensure(back.is_none(), "disk", || format!("the home goes back at {:?}", back.map(|image| image.page)))?;
        let applied = Horizon { counts: &checkpoint.applied, sharding: self.sharding };
        let ahead = images.iter().find(|image| image.version > applied.of(image.page));
        ensure(ahead.is_none(), "disk", || {
            format!(
                "{:?} is installed beyond the checkpoint's {:?}",
                ahead.map(|i| (i.page, i.version)),
                checkpoint.applied
            )
        })
    }

    fn start_flush(&mut self, rng: &mut Rng) -> Option<Started> {
        if self.flushing > 0 || self.pending.is_empty() {
            return None;
        }
        self.flushing = self.pending.len().min(self.profile.flush_records_max);
        Some(start(Operation::Flush, self.profile.flush, rng))
    }

    fn make_durable(&mut self, records: usize) -> Vec<Record> {
        let durable: Vec<Record> = self.pending.drain(..records).collect();
        self.log.extend(durable.iter().cloned());
        for record in &durable {
            if let Record::Commit(commit) = record {
                self.counts.join(&commit.counts);
            }
        }
        durable
    }

    fn find(&self, pages: Vec<PageId>) -> Vec<Found> {
        pages.into_iter().map(|page| (page, self.home.get(&page).cloned())).collect()
    }

    fn install(&mut self) -> DiskDone {
        let (images, checkpoint) = self.installing.take().expect("an install is under way");
        let grows = images.iter().any(|image| !self.home.contains_key(&image.page));
        if self.home_full && grows {
            return DiskDone::HomeFull;
        }
        self.home.extend(images.into_iter().map(|image| (image.page, (image.version, image.image))));
        self.checkpoint = checkpoint;
        DiskDone::Installed
    }

    /// Where the segment begins that this position is in.
    fn segment_of(&self, position: Position) -> Position {
        let records = self.profile.segment_records;
        Position(position.0.saturating_sub(1) / records * records + 1)
    }

    fn free(&mut self, before: Position) {
        while self.first < before && self.log.len() > 1 {
            let record = self.log.pop_front().expect("not empty");
            self.log_bytes_used -= record.bytes_bound();
            self.first.0 += 1;
        }
    }

    fn log_bytes_free(&self) -> u64 {
        self.profile.log_bytes - self.log_bytes_used
    }

    /// Records that were appended and are not durable.
    pub(crate) fn unsynced(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn is_installing(&self) -> bool {
        self.installing.is_some()
    }

    /// The power fails: the first `appends` of the unsynced records are there nevertheless, and a running install if
    /// `install`. Returns the records that became durable so.
    pub(crate) fn crash(&mut self, appends: usize, install: bool) -> Vec<Record> {
        let records = self.make_durable(appends);
        self.pending.clear();
        self.flushing = 0;
        self.log_bytes_used = self.log.iter().map(Record::bytes_bound).sum();
        if install && self.installing.is_some() {
            self.install();
        }
        self.installing = None;
        records
    }

    /// A copy of what is durable.
    pub(crate) fn copy(&self) -> Self {
        let mut copy = self.clone();
        copy.crash(0, false);
        copy
    }

    /// A copy takes the place of what is here. The disk itself is the same, and no life is drawn twice.
    pub(crate) fn put_back(&mut self, copy: &Self) {
        let Self { drawn, home_full, .. } = *self;
        *self = Self { drawn, home_full, ..copy.clone() };
    }

    /// A new life of the store's process opens the disk.
    pub(crate) fn open(&mut self) -> (Opened, Vec<(Position, Record)>) {
        (self.lives, self.drawn) = (self.lives + 1, self.drawn + 1);
        let page = |(&page, (version, image)): (&PageId, &(Version, Bytes))| HomePage {
            page,
            version: *version,
            bytes: image.len() as u32,
        };
        let opened = Opened {
            cluster: ClusterId(1),
            incarnation: Incarnation(self.lives),
            life: Life(self.drawn),
            checkpoint: self.checkpoint.clone(),
            pages: self.home.iter().map(page).collect(),
            log_bytes_free: self.log_bytes_free(),
        };
        let positions = (self.first.0..).map(Position);
        (opened, positions.zip(self.log.iter().cloned()).collect())
    }

    /// The pages that are home.
    pub(crate) fn home(&self) -> &BTreeMap<PageId, (Version, Bytes)> {
        &self.home
    }
}

impl Disk for StoreDisk {
    fn submit(&mut self, work: Opaque, rng: &mut Rng) -> Result<Option<Started>, Violation> {
        match work.open().expect("the store says what its disk should do") {
            DiskWork::Append(position, record) => {
                self.append(position, record)?;
                Ok(self.start_flush(rng))
            }
            DiskWork::Free(position) => {
                self.needed = position;
                Ok(Some(start(Operation::Free(self.segment_of(position)), self.profile.read, rng)))
            }
            // This one never grows. But a segment is full sooner where records are large, so that all before what is
            // needed is free at last, also behind a few of them.
            DiskWork::MakeRoom(_) => Ok(Some(start(Operation::Free(self.needed), self.profile.read, rng))),
            DiskWork::ReadLog => Ok(Some(start(Operation::ReadLog, self.profile.read, rng))),
            DiskWork::Read(pages) => {
                let early = rng.chance(500);
                let operation = if early { Operation::Deliver(self.find(pages)) } else { Operation::Read(pages) };
                Ok(Some(start(operation, self.profile.read, rng)))
            }
            DiskWork::Install(images, checkpoint) => {
                ensure(self.installing.is_none(), "disk", || "two installs at a time".into())?;
                self.check_install(&images, &checkpoint)?;
                self.installing = Some((images, checkpoint));
                Ok(Some(start(Operation::Install, self.profile.install, rng)))
            }
        }
    }

    fn finish(&mut self, operation: Operation, rng: &mut Rng) -> (Vec<machine::DiskDone>, Option<Started>) {
        let (done, started) = match operation {
            Operation::Flush => {
                let records = self.make_durable(self.flushing);
                self.became_durable.extend(records);
                self.flushing = 0;
                let through = Position(self.first.0 + self.log.len() as u64 - 1);
                let done = DiskDone::Durable { through, log_bytes_free: self.log_bytes_free() };
                (vec![done], self.start_flush(rng))
            }
            Operation::Read(pages) => (in_answers(self.find(pages), rng), None),
            Operation::Deliver(found) => (in_answers(found, rng), None),
            Operation::Install => (vec![self.install()], None),
            Operation::ReadLog => {
                let positions = (self.first.0..).map(Position);
                let records = positions.zip(self.log.iter().cloned()).collect();
                (vec![DiskDone::Log { records, is_last: true }], None)
            }
            Operation::Free(position) => {
                self.free(position);
                (vec![DiskDone::Freed { log_bytes_free: self.log_bytes_free() }], None)
            }
            Operation::Reopen | Operation::Beside(_) => (Vec::new(), None),
        };
        (done.into_iter().map(machine::DiskDone::new).collect(), started)
    }

    fn lose_power(&mut self, rng: &mut Rng) {
        let survive = rng.index(self.unsynced() + 1);
        self.crash(survive, rng.chance(500));
    }
}

fn start(operation: Operation, delay: Delay, rng: &mut Rng) -> Started {
    Started { after: delay.draw(rng), operation }
}

/// Pages come in one answer or in several.
fn in_answers(mut found: Vec<Found>, rng: &mut Rng) -> Vec<DiskDone> {
    let mut answers = Vec::new();
    while !found.is_empty() {
        answers.push(DiskDone::Pages(found.split_off(rng.index(found.len()))));
    }
    answers
}
