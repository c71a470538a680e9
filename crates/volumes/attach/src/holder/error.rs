//! Why a folder is none to keep copies in.

use super::end::END_NAME;
use super::marker::MARKER_NAME;
use registry::{RegistryError, SILENCE};
use std::fmt;
use std::path::{Path, PathBuf};
use vfs::FileError;

/// The least room of a holder, in bytes.
pub const HOLDER_ROOM_MIN: u64 = 16 << 20;

/// The least room on the disk of a new holder, in bytes: eight of the smallest files of its log, of which copies have
/// three.
pub(super) const HOLDER_DISK_MIN: u64 = 8 << 20;

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
    /// Its disk has room for this many bytes, which are too few.
    SmallDisk(PathBuf, u64),
    /// Its log is damaged, or has lost its end: copies that were counted are gone.
    Log(PathBuf, FileError),
    /// It is an older state of a holder's folder, or another copy of it was started.
    Older(PathBuf),
    /// It is a copy of the folder of a holder that runs.
    Lives(PathBuf),
    /// The registry could not be asked for its life.
    Registry(RegistryError),
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
                "{} has files in it and is not a folder of a holder: give an empty directory, or one that is to be made; if it \
                 was a holder's, its file {MARKER_NAME} is missing, and what it has cannot be used",
                dir.display()
            ),
            Self::Log(dir, why) => write!(
                f,
                "the log of {dir} has lost copies that this holder had counted: {why}. It is left as it is. While their owners or \
                 other holders have them nothing is lost: start this one with --as-new, which drops its copies and makes it \
                 another holder. If only this one is left of a volume, mend its disk; where the end of the log is gone, it \
                 starts without {dir}/{END_NAME} with the copies that it has before that",
                dir = dir.display()
            ),
            Self::Older(dir) => write!(
                f,
                "{} is an older state of a holder's directory, or a copy of one that was started elsewhere since: what it has \
                 counts no more. Start the newest one; or this one with --as-new, which drops its copies and makes it another \
                 holder",
                dir.display()
            ),
            Self::Lives(dir) => write!(
                f,
                "{} is a copy of the directory of a holder that runs: end that one, and wait {} s; or start this one with \
                 --as-new, which drops its copies and makes it another holder",
                dir.display(),
                SILENCE.as_secs()
            ),
            Self::SmallDisk(dir, has) => write!(
                f,
                "the disk of {} has room for {has} bytes, and a holder needs {HOLDER_DISK_MIN}: make room there, or use \
                 a directory on another disk",
                dir.display()
            ),
            Self::Registry(error) => write!(f, "{error}: a holder starts when the registry knows of its start"),
            Self::Room(room) => {
                write!(f, "a holder cannot have {room} bytes: expected {HOLDER_ROOM_MIN} to {HOLDER_ROOM_MAX}")
            }
        }
    }
}

impl FolderError {
    /// Why a log cannot be read.
    pub(super) fn of_log(dir: &Path, why: FileError) -> Self {
        match why {
            why @ FileError::Corrupt { .. } => Self::Log(dir.to_owned(), why),
            why => Self::File(why),
        }
    }
}

impl std::error::Error for FolderError {}

impl From<FileError> for FolderError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl From<RegistryError> for FolderError {
    fn from(error: RegistryError) -> Self {
        Self::Registry(error)
    }
}
