//! The errors of a store's directory, whose texts say what to do.

use std::fmt;
use std::path::PathBuf;
use types::ClusterId;
use vfs::FileError;

/// Why a store could not be opened, or why a running one has to stop.
#[derive(Debug)]
pub enum DiskError {
    /// Something is wrong with a file.
    File(FileError),
    /// There is no store in the directory, and none was to be created.
    NoStore(PathBuf),
    /// The directory holds something that is not a store's.
    NotAStore {
        /// The directory.
        dir: PathBuf,
        /// One of the names in it.
        found: String,
    },
    /// Another process has the store open.
    InUse {
        /// The directory.
        dir: PathBuf,
        /// That process, if it left its number.
        pid: Option<u32>,
    },
    /// The directory holds another store than the one that was named.
    OtherStore {
        /// The directory.
        dir: PathBuf,
        /// The store that was named.
        expected: ClusterId,
        /// The directory's.
        got: ClusterId,
    },
    /// The directory is one of several of a store.
    OfNode(PathBuf),
    /// A value of the configuration cannot be.
    Config(String),
}

impl DiskError {
    /// Whether nothing was wrong but that the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::File(error) if error.is_full())
    }
}

impl From<FileError> for DiskError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error @ FileError::Corrupt { .. }) => write!(
                f,
                "{error}; run 'thorp doctor' on the directory to see what is lost, and restore the directory from a copy"
            ),
            Self::File(error) => error.fmt(f),
            Self::NoStore(dir) => {
                write!(f, "there is no store in {}: name another directory, or create one there", dir.display())
            }
            Self::NotAStore { dir, found } => write!(
                f,
                "{} is not a store: it holds '{found}'; name an empty directory or an existing store",
                dir.display()
            ),
            Self::InUse { dir, pid: Some(pid) } => {
                write!(f, "{} is in use by process {pid}: stop it, or name another directory", dir.display())
            }
            Self::InUse { dir, pid: None } => {
                write!(f, "{} is in use by another process: stop it, or name another directory", dir.display())
            }
            Self::OtherStore { dir, expected, got } => write!(
                f,
                "{} belongs to store {got:?}, not to {expected:?}: name that store's directory, or an empty one",
                dir.display()
            ),
            Self::OfNode(dir) => write!(
                f,
                "{} is the directory of a node of a store of several: start the node with 'thorp serve --cluster'",
                dir.display()
            ),
            Self::Config(what) => write!(f, "the disk's configuration cannot be: {what}"),
        }
    }
}

impl std::error::Error for DiskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File(error) => error.source(),
            _ => None,
        }
    }
}
