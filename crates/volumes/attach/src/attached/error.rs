//! Why a volume is not attached, in words that say what to do.

use super::config::{LOG_BYTES_MAX, LOG_BYTES_MIN};
use crate::cache::SLOTS_MAX;
use crate::extents::BLOCK;
use crate::home::HomeError;
use crate::takeover::TakeOverError;
use machines::{CacheWentBack, WentBack};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use vfs::FileError;

/// Why a volume is not attached.
#[derive(Debug)]
pub enum AttachError {
    /// A file of the cache cannot be used.
    File(FileError),
    /// The home cannot be used.
    Home(HomeError),
    /// The log of the cache is damaged, of a volume with this many copies.
    DamagedLog(FileError, u8),
    /// The home is a device, and no directory was given for the files beside it.
    Device(PathBuf),
    /// The cache is used by another process.
    CacheInUse(PathBuf),
    /// The room for the log is none that it can have.
    LogBytes(u64),
    /// The cache's disk has no room for the log.
    NoRoom(PathBuf, u64),
    /// The room for clean blocks is more than there can be.
    CleanBytes(u64),
    /// The cache is that of another volume.
    OtherVolume(PathBuf),
    /// There are files in the cache's directory, and no cache.
    NotEmpty(PathBuf),
    /// Another cache has writes that are not written back, at this place.
    DirtyElsewhere(String),
    /// The volume was attached elsewhere since, and this cache has this many writes that are not known to be home.
    Superseded(usize),
    /// The volume continued without its cache, and this one has this many writes of before.
    Lost(usize),
    /// Home lacks what this cache knew to be there.
    HomeWentBack(WentBack),
    /// This cache is older than home, which a newer state of it left open.
    CacheWentBack(CacheWentBack),
    /// The registry has the volume larger than its home is: so many bytes, and so many.
    Size(u64, u64),
    /// The registry has not said within this time that the volume is this host's.
    NoLease(Duration),
    /// It is not this host's.
    TakeOver(TakeOverError),
    /// A thread could not be started.
    Thread(std::io::Error),
}

impl AttachError {
    /// The log of a cache cannot be read, of a volume with this many copies.
    pub(super) fn of_log(error: FileError, copies: u8) -> Self {
        if matches!(error, FileError::Corrupt { .. }) { Self::DamagedLog(error, copies) } else { error.into() }
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Home(error) => error.fmt(f),
            Self::DamagedLog(error, 2..) => write!(
                f,
                "the log of this cache has what is not home, and {error}. It is left as it is: attach the volume with another \
                 cache, and what was promised comes home from its holders"
            ),
            Self::DamagedLog(error, _) => write!(
                f,
                "the log of this cache has what is not home, and {error}. It is left as it is, and nobody else has that: mend \
                 its disk, or restore it; or attach the volume with another cache and --force, which loses what is not home"
            ),
            Self::Device(path) => write!(
                f,
                "{} is a device, beside which nothing can be kept: give --beside a directory that lasts",
                path.display()
            ),
            Self::CacheInUse(path) => {
                write!(
                    f,
                    "the cache {} is used by another process: end that, or give another directory",
                    path.display()
                )
            }
            Self::LogBytes(bytes) => {
                write!(f, "the log cannot have {bytes} bytes: expected {LOG_BYTES_MIN} to {LOG_BYTES_MAX}")
            }
            Self::NoRoom(path, bytes) => write!(
                f,
                "the disk of {} has no room for {bytes} bytes of writes: make room, or give it less",
                path.display()
            ),
            Self::CleanBytes(bytes) => {
                write!(f, "clean blocks cannot have {bytes} bytes: expected at most {}", SLOTS_MAX * BLOCK as u64)
            }
            Self::OtherVolume(path) => write!(
                f,
                "{} is the cache of another volume, or the .thorp file beside the home is missing: give another directory; \
                 or, if this is its cache, --force to go on with it",
                path.display()
            ),
            Self::NotEmpty(path) => write!(
                f,
                "{} has files in it and is not a cache of a volume: give an empty directory, or one that is to be made",
                path.display()
            ),
            Self::DirtyElsewhere(place) => write!(
                f,
                "the cache at {place} has writes that are not home: attach the volume there and detach it, or give \
                 --force to lose them"
            ),
            Self::Superseded(writes) => write!(
                f,
                "the volume was attached elsewhere since this cache was used, and {writes} of its writes are not known to \
                 be home: give --force to drop them, or another cache to keep them aside"
            ),
            Self::Lost(writes) => write!(
                f,
                "the device of the volume's cache failed, and the volume went on without it: all of it is home. This \
                 cache has {writes} writes of before: give --force to drop them, or another cache"
            ),
            Self::HomeWentBack(back) => write!(
                f,
                "home is older than this cache has left it: {back}. Bring back the newer one; or give --force to go on with this \
                 one, which gives up what it lacks, and whatever was written behind that"
            ),
            Self::CacheWentBack(back) => write!(
                f,
                "this cache is older than its home: {back}. It was put back from an older copy, or its disk lost the \
                 end of its log. Bring back the newer cache; or give --force to attach the volume as home has it, \
                 which drops this cache and loses the writes that only the newer one has"
            ),
            Self::Size(registered, home) => {
                write!(f, "the registry says that the volume has {registered} bytes, and its home has {home}")
            }
            Self::NoLease(within) => write!(
                f,
                "the registry has not said within {} s that the volume is this host's: see whether its store is reached",
                within.as_secs()
            ),
            Self::TakeOver(error) => error.fmt(f),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for AttachError {}

impl From<HomeError> for AttachError {
    fn from(error: HomeError) -> Self {
        Self::Home(error)
    }
}

impl From<FileError> for AttachError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}
