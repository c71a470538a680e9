//! The folder of a holder: its marker, its lock, its log. Its partition's number is drawn when the folder is made, so one
//! that lost its disk and comes back empty is another partition.

use super::record::Entries;
use crate::control::CONTROL_NAME;
use crate::extents::BLOCK;
use crate::marker::Kind;
use crate::random::random;
use log::{Limits, Log, LogId, Scan, is_segment};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::{Directory, Doing, FileError, Files, Lock, make_directory};
use volume::{Holder, HolderConfig, PartitionId};

use super::places::Places;

const MARKER: Kind = Kind { title: "thorp holder", format: 1, fields: &["partition", "incarnation"] };
const MARKER_NAME: &str = "thorp-holder";
const LOCK_NAME: &str = "lock";

/// The least room of a holder, in bytes.
pub const HOLDER_ROOM_MIN: u64 = 16 << 20;

/// The most.
pub const HOLDER_ROOM_MAX: u64 = 1 << 44;

/// Why a folder is none to keep copies in.
#[derive(Debug)]
pub enum FolderError {
    /// A file in it cannot be used.
    File(FileError),
    /// Another process uses it.
    InUse(PathBuf),
    /// There are files in it, and no marker of a holder.
    NotEmpty(PathBuf),
    /// The room is none that it can have.
    Room(u64),
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::InUse(dir) => {
                write!(f, "{} is used by another process: end that, or give another directory", dir.display())
            }
            Self::NotEmpty(dir) => write!(
                f,
                "{} has files in it and is no folder of a holder: give an empty directory, or one that is to be made; if it \
                 was a holder's, its file {MARKER_NAME} is missing, and what it has cannot be used",
                dir.display()
            ),
            Self::Room(room) => {
                write!(f, "a holder cannot have {room} bytes: expected {HOLDER_ROOM_MIN} to {HOLDER_ROOM_MAX}")
            }
        }
    }
}

impl std::error::Error for FolderError {}

impl From<FileError> for FolderError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

/// A folder that is open, and what its log has.
pub(super) struct Folder {
    pub(super) holder: Holder,
    pub(super) places: Places,
    pub(super) log: Log<Entries>,
    pub(super) partition: PartitionId,
    pub(super) window: u64,
    pub(super) lock: Lock,
}

impl Folder {
    /// Opens the folder, or makes it.
    pub(super) fn open(dir: &Path, room: u64) -> Result<Self, FolderError> {
        if !(HOLDER_ROOM_MIN..=HOLDER_ROOM_MAX).contains(&room) {
            return Err(FolderError::Room(room));
        }
        make_directory(dir)?;
        Self::open_in(Arc::new(Directory::new(dir)), dir, room)
    }

    /// The same with the files of a folder that is there.
    pub(super) fn open_in(files: Arc<dyn Files>, dir: &Path, room: u64) -> Result<Self, FolderError> {
        let lock = files.lock(LOCK_NAME, true).doing("lock", || files.path(LOCK_NAME))?;
        let lock = lock.ok_or_else(|| FolderError::InUse(dir.to_owned()))?;
        let limits = limits(room);
        let mut marker = match Marker::read(&*files)? {
            Some(marker) if marker.incarnation > 0 => marker,
            unfinished => create(&*files, dir, limits, unfinished)?,
        };
        let id = LogId(marker.partition);
        let mut scan = Scan::<Entries>::begin(files.clone(), id, 0)?;
        let partition = PartitionId(marker.partition);
        let config = HolderConfig::new(partition, room / 2);
        let (mut holder, mut places) = (Holder::new(config), None);
        while let Some((position, entry)) = scan.next_record()? {
            places.get_or_insert_with(|| Places::new(position)).push(&entry);
            holder.recover(&entry);
        }
        marker.incarnation += 1;
        marker.write(&*files)?;
        let log = Log::resume(files, id, limits, marker.incarnation, &scan)?;
        let places = places.unwrap_or_else(|| Places::new(scan.next_position()));
        Ok(Self { holder, places, log, partition, window: config.window, lock })
    }
}

/// The marker of a folder, as it says.
#[derive(Clone, Copy, Debug)]
struct Marker {
    partition: u64,
    /// The number of starts; none while the folder is being made.
    incarnation: u32,
}

impl Marker {
    fn read(files: &dyn Files) -> Result<Option<Self>, FileError> {
        let Some(values) = MARKER.read(files, MARKER_NAME)? else { return Ok(None) };
        let number = |at: usize| u64::from_str_radix(&values[at], 16).ok();
        let incarnation = number(1).and_then(|incarnation| u32::try_from(incarnation).ok());
        let marker = number(0).zip(incarnation).map(|(partition, incarnation)| Self { partition, incarnation });
        let what = "a field has a value that was never written".to_owned();
        marker.map(Some).ok_or(FileError::Corrupt { file: files.path(MARKER_NAME), offset: 0, what })
    }

    fn write(&self, files: &dyn Files) -> Result<(), FileError> {
        let values = [self.partition, u64::from(self.incarnation)].map(|value| format!("{value:016x}"));
        MARKER.write(files, MARKER_NAME, &values)
    }
}

/// Makes a folder. The marker comes first: segments without one are not taken for those of an attempt that was interrupted.
fn create(files: &dyn Files, dir: &Path, limits: Limits, unfinished: Option<Marker>) -> Result<Marker, FolderError> {
    for name in files.list().doing("read", || files.path(""))? {
        let is_left = unfinished.is_some() && (is_segment(&name) || name.strip_suffix(".tmp").is_some());
        if is_left {
            files.remove(&name).doing("remove", || files.path(&name))?;
        } else if ![LOCK_NAME, MARKER_NAME, CONTROL_NAME].contains(&name.strip_suffix(".tmp").unwrap_or(&name)) {
            return Err(FolderError::NotEmpty(dir.to_owned()));
        }
    }
    let marker = Marker { partition: random()?, incarnation: 0 };
    marker.write(files)?;
    Log::<Entries>::create(files, LogId(marker.partition), limits, 2)?;
    files.sync_dir().doing("sync", || files.path(""))?;
    Ok(marker)
}

/// The files of a log with this room.
pub(super) fn limits(room: u64) -> Limits {
    let segment_bytes = (room / 32).clamp(1 << 20, 64 << 20).next_multiple_of(BLOCK as u64);
    let segments_max = (room / segment_bytes).max(2) as usize;
    Limits { segment_bytes: segment_bytes as usize, segments_max, memory_bytes: 1 << 20 }
}
