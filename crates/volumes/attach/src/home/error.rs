//! The errors of homes, whose texts say what to do.

use crate::extents::BLOCK;
use crate::far::FarError;
use machines::messages::holder::Epoch;
use std::fmt;
use std::path::PathBuf;
use vfs::FileError;

/// Why a home cannot be made, looked at or used.
#[derive(Debug)]
pub enum HomeError {
    /// A file cannot be used.
    File(FileError),
    /// The path has no file's name.
    NoName(PathBuf),
    /// It is attached by another process of this machine.
    InUse(PathBuf),
    /// Its size is none that a volume can have.
    Size(PathBuf, u64),
    /// The cache at this place has writes that are not there.
    Dirty(PathBuf, String),
    /// It is on a device or a file system that cannot share blocks.
    NoShare(PathBuf),
    /// It is a device, whose size is its own affair.
    Device(PathBuf),
    /// It has this many bytes, and nobody said that it may lose some.
    Shrinks(u64),
    /// It was detached in the meantime.
    Detached(PathBuf),
    /// There is a file beside it, which is of an earlier volume of its name.
    Left(PathBuf),
    /// The files beside it are in this directory.
    Beside(PathBuf, PathBuf),
    /// It is a device, and nobody said where the files beside it are.
    NoBeside(PathBuf),
    /// The file beside it that has its mark is missing.
    NoMark(PathBuf),
    /// It is elsewhere, and does not do it.
    Far(FarError),
}

/// Says that a volume which has this many bytes would lose some.
pub(crate) fn shrinks(size: u64) -> String {
    format!(
        "the volume has {size} bytes, and loses those behind its new end: if nothing needs them any more, say --shrink"
    )
}

impl HomeError {
    /// The epoch of the host that has the volume instead, if that is why.
    pub(crate) fn ended(&self) -> Option<Epoch> {
        if let Self::Far(FarError::Ended(epoch)) = self { Some(*epoch) } else { None }
    }

    /// Whether it is not as it was left: nothing can be done with it any more.
    pub(crate) fn went_back(&self) -> bool {
        matches!(self, Self::Far(FarError::WentBack(..)))
    }
}

impl fmt::Display for HomeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Far(error) => error.fmt(f),
            Self::NoName(path) => write!(f, "{} names no file: give the volume's file or device", path.display()),
            Self::InUse(path) => {
                write!(f, "{} is attached by another process of this machine: detach it there first", path.display())
            }
            Self::Dirty(path, place) => write!(
                f,
                "not all of {} is there: the cache at {} has the rest; attach the volume there, and detach it",
                path.display(),
                place.escape_debug()
            ),
            Self::NoShare(path) => write!(
                f,
                "a snapshot shares blocks between files, which the file system of {} cannot (XFS and btrfs can), and no device \
                 can: detach the volume and copy it, or have its home on such a file system",
                path.display()
            ),
            Self::Device(path) => write!(
                f,
                "{} is a device, whose size is not the volume's to change: give the device another one while it is detached",
                path.display()
            ),
            Self::Shrinks(size) => f.write_str(&shrinks(*size)),
            Self::Detached(path) => write!(f, "{} was detached in the meantime: ask again", path.display()),
            Self::Left(path) => write!(
                f,
                "{} is left of a volume of this name, and would be taken for the new one's: remove it if nobody needs that \
                 volume any more, or choose another name",
                path.display()
            ),
            Self::Beside(path, dir) => write!(
                f,
                "the files beside {} are in {}: give that directory as --beside, or move them",
                path.display(),
                dir.display()
            ),
            Self::NoBeside(path) => write!(
                f,
                "{} is a device, beside which no files stay: give --beside with the directory that it was attached with",
                path.display()
            ),
            Self::NoMark(path) => write!(
                f,
                "{} is missing, which records how much of the cache's log was written back: bring it back; or, if it \
                 is lost, remove the .thorp file of that name, too, and attach the volume with --force",
                path.display()
            ),
            Self::Size(path, size) => write!(
                f,
                "{} has {size} bytes: expected a whole number of blocks of {BLOCK} bytes, at least one and at most {}",
                path.display(),
                u32::MAX
            ),
        }
    }
}

impl std::error::Error for HomeError {}

impl From<FarError> for HomeError {
    fn from(error: FarError) -> Self {
        Self::Far(error)
    }
}

impl From<FileError> for HomeError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}
