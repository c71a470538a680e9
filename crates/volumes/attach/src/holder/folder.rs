//! The folder of a holder: its marker, its lock, its log. Its partition's number is drawn when the folder is made, so
//! one that lost its disk and comes back empty is another partition; so is one that is made again.

use super::disk::{disk_free, segment_bytes};
use super::end::{END_NAME, End};
use super::error::{FolderError, HOLDER_DISK_MIN, HOLDER_ROOM_MAX, HOLDER_ROOM_MIN};
use super::life::{self, Lives, Locked};
use super::marker::{MARKER_NAME, Marker};
use super::record::Entries;
use crate::control::CONTROL_NAME;
use crate::place::Place;
use log::{Limits, Log, LogId, Scan, is_segment};
use machines::{Holder, HolderConfig, PartitionId, is_whole};
use registry::Life;
use std::path::Path;
use std::sync::Arc;
use types::Broken;
use vfs::random;
use vfs::{Directory, Doing, FileError, Files, How, Lock, Locking, find_directory_above, make_directory};

use super::places::Places;

const LOCK_NAME: &str = "lock";

/// The segments that a log begins with: one is written, another one may have what is needed, and on a full disk the
/// last one is for what frees them.
const SEGMENTS_MIN: usize = 3;

/// The copies that a folder had when it was made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The partition that it was.
    pub partition: PartitionId,
    /// The bytes of its copies, and the volumes that they were of; `None` if its log cannot be read.
    pub copies: Option<(u64, usize)>,
}

/// A folder that is open, and what its log has.
pub(super) struct Folder {
    pub(super) holder: Holder,
    pub(super) places: Places,
    pub(super) log: Log<Entries>,
    pub(super) end: End,
    pub(super) partition: PartitionId,
    pub(super) life: Life,
    /// Whether the registry knows of that.
    pub(super) is_known: bool,
    pub(super) window: u64,
    pub(super) lock: Lock,
}

impl Folder {
    /// Whether there can be one here.
    pub(super) fn check(dir: &Path, room: u64) -> Result<(), FolderError> {
        if !(HOLDER_ROOM_MIN..=HOLDER_ROOM_MAX).contains(&room) {
            return Err(FolderError::Room(room));
        }
        Ok(find_directory_above(dir)?)
    }

    /// Opens the folder, or makes it, and begins its next life.
    pub(super) fn open(dir: &Path, room: u64, lives: Option<&mut Lives<'_>>) -> Result<Self, FolderError> {
        Self::check(dir, room)?;
        make_directory(dir)?;
        Self::open_in(Arc::new(Directory::new(dir)), dir, room, lives)
    }

    /// The same with the files of a folder that is there.
    pub(super) fn open_in(
        files: Arc<dyn Files>,
        dir: &Path,
        room: u64,
        lives: Option<&mut Lives<'_>>,
    ) -> Result<Self, FolderError> {
        let lock = lock(&*files, dir)?;
        let reach = reach(&*files, dir, room)?;
        let limits = limits(reach);
        let mut marker = match Marker::read(&*files)? {
            Some(marker) if marker.life.incarnation > 0 => marker,
            unfinished => {
                expect_room(dir, reach)?;
                create(&*files, dir, limits, unfinished.is_some())?
            }
        };
        let id = LogId(marker.partition);
        let lost = |why| FolderError::of_log(dir, why);
        let mut scan = Scan::<Entries>::begin(files.clone(), id, 0).map_err(lost)?;
        let partition = PartitionId(marker.partition);
        let is_known = lives.is_some();
        let config = HolderConfig { asks_registry: is_known, ..HolderConfig::new(partition, room / 2) };
        let (mut holder, mut places) = (Holder::new(config), None);
        while let Some((position, entry)) = scan.next_record().map_err(lost)? {
            places.get_or_insert_with(|| Places::new(position)).push(&entry);
            holder.recover(&entry);
        }
        let place = Place::of(dir, LOCK_NAME);
        let known = End::read(&*files, marker.partition);
        if !is_whole(scan.next_position().saturating_sub(1), known, Broken::NONE) {
            return Err(lost(scan.lacks(known)));
        }
        life::begin(&mut marker, Locked { files: &*files, dir, place: &place }, lives)?;
        let end = End::open(&*files, marker.partition);
        let log = Log::resume(files, id, limits, marker.life.incarnation, &scan)?;
        let places = places.unwrap_or_else(|| Places::new(scan.next_position()));
        Ok(Self { holder, places, log, end, partition, life: marker.life, is_known, window: config.window, lock })
    }

    /// Makes a folder again, under another partition's number, without the copies that it has. `drops` is notified of
    /// them before, if there is such a folder.
    pub(super) fn make_anew(dir: &Path, room: u64, drops: &mut dyn FnMut(Dropped)) -> Result<(), FolderError> {
        make_directory(dir)?;
        let files: Arc<dyn Files> = Arc::new(Directory::new(dir));
        let _lock = lock(&*files, dir)?;
        let Some(marker) = Marker::read(&*files)? else { return Ok(()) };
        let reach = reach(&*files, dir, room)?;
        expect_room(dir, reach)?;
        let partition = PartitionId(marker.partition);
        drops(Dropped { partition, copies: copies(&files, partition).ok() });
        create(&*files, dir, limits(reach), true)?;
        Ok(())
    }
}

fn lock(files: &dyn Files, dir: &Path) -> Result<Lock, FolderError> {
    let lock = files.lock(LOCK_NAME, Locking::Signed).doing("lock", || files.path(LOCK_NAME))?;
    lock.ok_or_else(|| FolderError::InUse(dir.to_owned()))
}

/// The bytes of the copies that a folder's log has, and how many volumes they are of.
fn copies(files: &Arc<dyn Files>, partition: PartitionId) -> Result<(u64, usize), FileError> {
    let mut scan = Scan::<Entries>::begin(files.clone(), LogId(partition.0), 0)?;
    let mut holder = Holder::new(HolderConfig::new(partition, 0));
    while let Some((_, entry)) = scan.next_record()? {
        holder.recover(&entry);
    }
    Ok((holder.used(), holder.volumes().count()))
}

/// Makes a folder. The marker comes first: segments without one are not taken for those of an attempt that was
/// interrupted.
fn create(files: &dyn Files, dir: &Path, limits: Limits, is_ours: bool) -> Result<Marker, FolderError> {
    let marker = Marker { partition: random()?, life: Life::default(), next: None, place: Place::default() };
    if is_ours {
        // Should this end half-way, what is left of the log is nobody's.
        marker.write(files)?;
    }
    for name in files.list().doing("read", || files.path(""))? {
        let is_left = is_ours && (is_segment(&name) || name.strip_suffix(".tmp").is_some());
        if is_left {
            files.remove(&name).doing("remove", || files.path(&name))?;
        } else if ![LOCK_NAME, MARKER_NAME, CONTROL_NAME, END_NAME]
            .contains(&name.strip_suffix(".tmp").unwrap_or(&name))
        {
            return Err(FolderError::NotEmpty(dir.to_owned()));
        }
    }
    marker.write(files)?;
    Log::<Entries>::create(files, LogId(marker.partition), limits, SEGMENTS_MIN)?;
    files.sync_dir().doing("sync", || files.path(""))?;
    Ok(marker)
}

/// The bytes that the files of a folder's log can come to: `room`, or what the disk has for them if that is less.
fn reach(files: &dyn Files, dir: &Path, room: u64) -> Result<u64, FolderError> {
    let Some(free) = disk_free(dir) else { return Ok(room) };
    let mut bytes = 0;
    for name in files.list().doing("read", || files.path(""))?.into_iter().filter(|name| is_segment(name)) {
        let file = files.open(&name, How::Read).doing("open", || files.path(&name))?;
        bytes += file.size().doing("read the length of", || files.path(&name))?;
    }
    Ok(free.saturating_add(bytes).min(room))
}

/// Refuses a disk that is too small for a new holder. A holder with copies starts on any disk: they may be the last.
fn expect_room(dir: &Path, reach: u64) -> Result<(), FolderError> {
    if reach < HOLDER_DISK_MIN { Err(FolderError::SmallDisk(dir.to_owned(), reach)) } else { Ok(()) }
}

/// The files of a log that can come to `reach` bytes. How many there may be is up to the disk's thread, as they may
/// differ in length.
fn limits(reach: u64) -> Limits {
    Limits { segment_bytes: segment_bytes(reach) as usize, segments_max: usize::MAX, memory_bytes: 1 << 20 }
}
