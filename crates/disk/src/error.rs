//! What can go wrong with a store's directory, said so that the one who reads it knows what to do.

use crate::errno::{Call, Refused, Verdict, judge};
use node::said;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// Why a store could not be opened, or why a running one has to stop.
#[derive(Debug)]
pub enum DiskError {
    /// The operating system refused an operation.
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
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
    /// A file is in a format that this program does not know.
    Format {
        /// The file.
        file: PathBuf,
        /// The newest format that this program knows.
        expected: u32,
        /// The file's.
        got: u32,
    },
    /// What a file holds is not what was written to it.
    Corrupt {
        /// The file.
        file: PathBuf,
        /// Where in the file, in bytes, as far as it is known.
        offset: u64,
        /// What was expected there and what was found.
        what: String,
    },
    /// A value of the configuration cannot be.
    Config(String),
    /// A part of the disk has panicked, and said this.
    Panic(String),
}

impl DiskError {
    /// Whether nothing was wrong but that the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if judge(Call::Write, source) == Verdict::NoRoom)
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, file, source } if judge(Call::Open, source) == Verdict::Passes => write!(
                f,
                "cannot {doing} {}: {source}; end other programs, or allow this one more ('ulimit -n' for open files), and \
                 start again",
                file.display()
            ),
            Self::Io { doing, file, .. } if self.is_full() => {
                write!(f, "cannot {doing} {}: the disk is full; make room and start again", file.display())
            }
            Self::Io { doing, file, source } => write!(f, "cannot {doing} {}: {source}", file.display()),
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
            Self::Format { file, expected, got } => write!(
                f,
                "{} is in format {got}, this program knows formats up to {expected}: use a newer program",
                file.display()
            ),
            Self::Corrupt { file, offset, what } => write!(
                f,
                "{} is damaged at byte {offset}: {what}; run 'thorp doctor' on the directory to see what is lost, \
                 and restore the directory from a copy",
                file.display()
            ),
            Self::Config(what) => write!(f, "the disk's configuration cannot be: {what}"),
            Self::Panic(said) => {
                write!(f, "a part of the disk panicked ('{said}'), which is an error of Thorp's own: please report it")
            }
        }
    }
}

impl std::error::Error for DiskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Runs a part of the disk; a panic is a failure like any other, and ends the disk.
pub(crate) fn contain<T>(run: impl FnOnce() -> Result<T, DiskError>) -> Result<T, DiskError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(DiskError::Panic(said(&*panic).to_owned())))
}

/// Says what was being done to which file when the system refused it.
pub(crate) trait Doing<T> {
    /// Adds it to the error.
    fn doing(self, doing: &'static str, file: impl FnOnce() -> PathBuf) -> Result<T, DiskError>;
}

impl<T> Doing<T> for Result<T, Refused> {
    fn doing(self, doing: &'static str, file: impl FnOnce() -> PathBuf) -> Result<T, DiskError> {
        self.map_err(|refused| refused.source).doing(doing, file)
    }
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: &'static str, file: impl FnOnce() -> PathBuf) -> Result<T, DiskError> {
        self.map_err(|source| DiskError::Io { doing, file: file(), source })
    }
}
