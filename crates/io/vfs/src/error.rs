//! The errors of files, whose texts say what to do.

use crate::errno::{Call, Refused, Verdict, judge};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use types::said;

/// Why a file could not be used, or why who uses it has to stop.
#[derive(Debug)]
pub enum FileError {
    /// The operating system refused an operation.
    Io {
        /// The operation, as the message names it.
        doing: &'static str,
        /// To which file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
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
    /// A file's content is not what was written to it.
    Corrupt {
        /// The file.
        file: PathBuf,
        /// Where in the file, in bytes, as far as it is known.
        offset: u64,
        /// The content that was expected there, and the one found.
        what: String,
    },
    /// The user of the files has panicked, with this message.
    Panic(String),
}

impl FileError {
    /// Whether nothing was wrong but that the disk is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if judge(Call::Write, source) == Verdict::NoRoom)
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, file, source } if judge(Call::Open, source) == Verdict::Passes => write!(
                f,
                "cannot {doing} {}: {source}; end other programs, or allow this one more ('ulimit -n' for open files), and \
                 start again",
                file.display()
            ),
            Self::Io { doing, file, .. } if self.is_full() => {
                write!(f, "cannot {doing} {}: the disk is full; make room", file.display())
            }
            Self::Io { doing, file, source } => write!(f, "cannot {doing} {}: {source}", file.display()),
            Self::Format { file, expected, got } => write!(
                f,
                "{} is in format {got}, this program knows formats up to {expected}: use a newer program",
                file.display()
            ),
            Self::Corrupt { file, offset, what } => {
                write!(f, "{} is damaged at byte {offset}: {what}", file.display())
            }
            Self::Panic(said) => {
                write!(f, "a part of the disk panicked ('{said}'), which is an error of Thorp's own: please report it")
            }
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Runs what works with the files; a panic is a failure like any other, and ends it.
pub fn contain<T>(run: impl FnOnce() -> Result<T, FileError>) -> Result<T, FileError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(FileError::Panic(said(&*panic).to_owned())))
}

/// Returns what was being done to which file when the system refused it.
pub trait Doing<T> {
    /// Adds it to the error.
    fn doing(self, doing: &'static str, file: impl FnOnce() -> PathBuf) -> Result<T, FileError>;
}

impl<T> Doing<T> for Result<T, Refused> {
    fn doing(self, doing: &'static str, file: impl FnOnce() -> PathBuf) -> Result<T, FileError> {
        self.map_err(|refused| refused.source).doing(doing, file)
    }
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: &'static str, file: impl FnOnce() -> PathBuf) -> Result<T, FileError> {
        self.map_err(|source| FileError::Io { doing, file: file(), source })
    }
}
