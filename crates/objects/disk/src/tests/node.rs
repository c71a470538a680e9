//! A node that only uses its disk, and remembers what the disk has promised.

use crate::config::Config;
use crate::open::Opening;
use crate::real::RealDisk;
use bytes::Bytes;
use machine::Disk;
use messages::Lineage;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use store::{Checkpoint, CommitRecord, Counted, DiskDone, DiskWork, HomeImage, Position, Record, UncountedCommit};
use types::{ClientId, Delta, Incarnation, ObjectPage, PageId, SlotChange, TxnId, Version};
use vfs::Files;
use vfs::memory::{Dice, Memory};

/// Small segments, so that a short run goes round the ring; flushes are larger than the memory that they are built in.
pub(crate) const SEGMENT_BYTES: usize = 32 << 10;

pub(crate) fn config() -> Config {
    Config {
        segment_bytes: SEGMENT_BYTES,
        segments_min: 3,
        segments_max: 3,
        flush_memory_bytes: 8 << 10,
        home_cache_bytes: 1 << 20,
        readers: 1,
        ..Config::default()
    }
}

/// The records of the directory of format 1 that the tests open.
pub(crate) const RECORDS_OF_FORMAT_1: u64 = 10;

/// The record at a position: of every kind, and of every length around a block's; every 16th is longer than a segment.
pub(crate) fn record(position: u64) -> Record {
    let mut dice = Dice(position);
    let txn = TxnId { client: ClientId(dice.roll(9)), number: position };
    match dice.roll(8) {
        _ if position.is_multiple_of(16) => commit(txn, SEGMENT_BYTES + dice.roll(40_000) as usize, &mut dice),
        0 => {
            let (incarnation, lineage) = (Incarnation(position), Lineage::default());
            Record::Incarnation { incarnation, leases: None, lineage, counts: None }
        }
        1 => Record::Grant { space: 1, next: position as u32 },
        2 => Record::Counts((0..dice.roll(5)).map(|n| Counted { txn, version: Version(n) }).collect()),
        _ => {
            let bytes = dice.roll(9000) as usize;
            commit(txn, bytes, &mut dice)
        }
    }
}

fn commit(txn: TxnId, bytes: usize, dice: &mut Dice) -> Record {
    let pages = bytes as u64 / 5000 + 1;
    let value = |dice: &mut Dice| {
        let fill = dice.roll(256) as u8;
        (dice.roll(7) > 0).then(|| Bytes::from(vec![fill; bytes / pages as usize]))
    };
    let changes =
        |dice: &mut Dice| (0..=dice.roll(2) as u16).map(|slot| SlotChange { slot, value: value(dice) }).collect();
    let deltas = (0..pages).map(|n| Delta { page: PageId::new(1, n as u32), changes: changes(dice) }).collect();
    let answered = txn.number / 2;
    if txn.number <= RECORDS_OF_FORMAT_1 {
        return Record::Uncounted(UncountedCommit { txn, answered, deltas });
    }
    Record::Commit(CommitRecord { txn, counts: Version(txn.number).into(), answered, deltas })
}

/// The image of a page at a version.
pub(crate) fn image(page: PageId, version: Version) -> HomeImage {
    let mut dice = Dice(page.to_bits() ^ version.0 << 17);
    let value = Bytes::from(vec![version.0 as u8; dice.roll(9000) as usize]);
    let change = SlotChange { slot: dice.roll(9) as u16, value: Some(value) };
    let image = ObjectPage::empty().with(&[change]).expect("small enough").image().clone();
    HomeImage { page, version, image }
}

/// A page, or its place and what is wrong with it.
pub(crate) type MaybeDamaged = Result<Page, (PageId, String)>;

/// The requests to a disk, and the promises that it has made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promises {
    /// The last position that was submitted.
    pub(crate) submitted: u64,
    /// The last one that is durable.
    pub(crate) durable: u64,
    /// The log's room that was freed.
    pub(crate) freed: u64,
    /// For each page the version that is home, and the one that may be.
    pub(crate) home: BTreeMap<PageId, (Version, Version)>,
}

/// The answers of a disk that has stopped.
#[derive(Debug)]
pub(crate) struct Stopped(pub(crate) String);

/// A page that was read.
pub(crate) type Page = (PageId, Option<(Version, Bytes)>);

/// The node.
pub(crate) struct Node {
    disk: RealDisk,
    events: Receiver<Result<DiskDone, String>>,
    /// The reason for which the disk has stopped.
    stopped: OnceCell<String>,
}

impl Node {
    /// Opens a store and checks that it holds what was promised.
    pub(crate) fn open(files: &Memory, promises: &mut Promises) -> Result<Self, crate::DiskError> {
        Self::open_files(Arc::new(files.clone()), promises, &config())
    }

    /// Likewise.
    pub(crate) fn open_files(
        files: Arc<dyn Files>,
        promises: &mut Promises,
        config: &Config,
    ) -> Result<Self, crate::DiskError> {
        let mut opening = Opening::begin(files, config)?;
        let opened = opening.opened().clone();
        let (mut first, mut last) = (None, None);
        while let Some((position, found)) = opening.next_record()? {
            assert_eq!(found, record(position.0), "record {} is not what was written", position.0);
            assert!(last.is_none_or(|last| last + 1 == position.0), "{} follows {last:?}", position.0);
            first = first.or(Some(position.0));
            last = Some(position.0);
        }
        let through = last.unwrap_or(promises.durable);
        assert!(
            first.is_none_or(|first| first <= promises.freed.max(1)),
            "{first:?} is first, freed {}",
            promises.freed
        );
        assert!(through >= promises.durable, "record {} was durable, {through} is last", promises.durable);
        assert!(through <= promises.submitted, "record {through} was never written");
        assert!(last.is_some() || promises.durable < promises.freed.max(1), "{} records are gone", promises.durable);
        let disk = opening.finish()?;
        let (events, heard) = channel();
        let failures = events.clone();
        disk.on_done(Box::new(move |done| drop(events.send(Ok(done)))));
        disk.on_failed(Box::new(move |text| drop(failures.send(Err(text.to_owned())))));
        let node = Self { disk, events: heard, stopped: OnceCell::new() };
        let pages: Vec<PageId> = promises.home.keys().copied().collect();
        // A page that is damaged is refused by name, which is what was promised of it.
        for (page, found) in node.read_each(pages).unwrap_or_default().into_iter().flatten() {
            let (least, most) = promises.home[&page];
            let (version, bytes) = found.unwrap_or_else(|| (Version::ZERO, Bytes::new()));
            assert!(version == least || version == most, "{page} is home at {version}, promised {least} or {most}");
            assert!(version == Version::ZERO || bytes == image(page, version).image, "{page} at {version}");
            let listed = opened.pages.iter().find(|listed| listed.page == page);
            assert_eq!(listed.map_or(Version::ZERO, |listed| listed.version), version);
            promises.home.insert(page, (version, version));
        }
        (promises.submitted, promises.durable) = (through, through);
        Ok(node)
    }

    /// Submits so many records and has them flushed, and does not wait for that.
    pub(crate) fn submit_only(&self, promises: &mut Promises, count: u64) {
        for _ in 0..count {
            promises.submitted += 1;
            let position = promises.submitted;
            self.disk.submit(DiskWork::Append(Position(position), record(position)));
        }
        self.disk.flush(&mut |done| panic!("expected the flush to wait, got {done:?}"));
    }

    /// Appends so many records in one flush.
    pub(crate) fn append(&self, promises: &mut Promises, count: u64) -> Result<(), Stopped> {
        for _ in 0..count {
            promises.submitted += 1;
            let position = promises.submitted;
            self.disk.submit(DiskWork::Append(Position(position), record(position)));
        }
        let mut durable = None;
        self.disk.flush(&mut |done| match done {
            DiskDone::Durable { through, .. } => durable = Some(through.0),
            other => panic!("expected records to be durable, got {other:?}"),
        });
        // The disk's own thread may lead a flush for what was freed, and takes along what it finds.
        let all = promises.submitted;
        let led_by_another = |done| match done {
            DiskDone::Durable { through, .. } if through.0 >= all => Some(through.0),
            _ => None,
        };
        promises.durable = match durable {
            Some(through) => through,
            None => self.wait(led_by_another)?,
        };
        assert_eq!(promises.durable, promises.submitted);
        Ok(())
    }

    fn wait<T>(&self, mut want: impl FnMut(DiskDone) -> Option<T>) -> Result<T, Stopped> {
        // The disk reports its failure once.
        if let Some(why) = self.stopped.get() {
            return Err(Stopped(why.clone()));
        }
        loop {
            match self.events.recv().expect("the disk is there") {
                Ok(done) => {
                    if let Some(found) = want(done) {
                        return Ok(found);
                    }
                }
                Err(why) => return Err(Stopped(self.stopped.get_or_init(|| why).clone())),
            }
        }
    }

    /// Reads pages.
    pub(crate) fn read(&self, pages: Vec<PageId>) -> Result<Vec<Page>, Stopped> {
        self.disk.submit(DiskWork::Read(pages));
        self.wait(|done| match done {
            DiskDone::Pages(pages) => Some(pages),
            _ => None,
        })
    }

    /// Reads pages, and returns each or what is wrong with it, in the order of the pages.
    pub(crate) fn read_each(&self, pages: Vec<PageId>) -> Result<Vec<MaybeDamaged>, Stopped> {
        let mut missing = pages.len();
        let mut answers = Vec::new();
        self.disk.submit(DiskWork::Read(pages));
        while missing > 0 {
            let more = self.wait(|done| match done {
                DiskDone::Pages(pages) => Some(pages.into_iter().map(Ok).collect::<Vec<_>>()),
                DiskDone::Damaged(page, why) => Some(vec![Err((page, why))]),
                _ => None,
            })?;
            missing -= more.len();
            answers.extend(more);
        }
        answers.sort_by_key(|answer| answer.as_ref().map_or_else(|(page, _)| *page, |(page, _)| *page));
        Ok(answers)
    }

    /// Installs pages; says whether there was room.
    pub(crate) fn install(&self, promises: &mut Promises, pages: u32, version: Version) -> Result<bool, Stopped> {
        let images: Vec<_> = (0..pages).map(|number| image(PageId::new(1, number), version)).collect();
        let before = promises.home.clone();
        for image in &images {
            promises.home.entry(image.page).or_default().1 = version;
        }
        self.disk.submit(DiskWork::Install(images, Checkpoint { applied: version.into(), ..Checkpoint::default() }));
        let installed = self.wait(|done| match done {
            DiskDone::Installed => Some(true),
            DiskDone::HomeFull => Some(false),
            _ => None,
        })?;
        if installed {
            promises.home.values_mut().for_each(|(home, may)| *home = *may);
        } else {
            promises.home = before;
        }
        Ok(installed)
    }

    /// Frees what is before a position.
    pub(crate) fn free(&self, promises: &mut Promises, before: u64) -> Result<u64, Stopped> {
        promises.freed = promises.freed.max(before);
        self.disk.submit(DiskWork::Free(Position(before)));
        self.wait(|done| match done {
            DiskDone::Freed { log_bytes_free } => Some(log_bytes_free),
            _ => None,
        })
    }

    /// Has room made; gives how much there is.
    pub(crate) fn make_room(&self, bytes: u64) -> Result<u64, Stopped> {
        self.disk.submit(DiskWork::MakeRoom(bytes));
        self.wait(|done| match done {
            DiskDone::Freed { log_bytes_free } => Some(log_bytes_free),
            _ => None,
        })
    }

    /// Closes the disk cleanly.
    pub(crate) fn close(self) -> Result<(), Stopped> {
        self.disk.close().map_err(|error| Stopped(error.to_string()))
    }

    /// Work of all kinds, round the ring: what the tests of crashes and faults interrupt.
    pub(crate) fn work(&self, promises: &mut Promises, rounds: u64) -> Result<(), Stopped> {
        for round in 0..rounds {
            for count in [1, 3, 1] {
                self.append(promises, count)?;
            }
            let version = Version(promises.durable);
            if self.install(promises, 2 + round as u32 % 3, version)? {
                let keep = 2 + round % 3;
                self.free(promises, promises.durable.saturating_sub(keep))?;
            }
        }
        Ok(())
    }
}
