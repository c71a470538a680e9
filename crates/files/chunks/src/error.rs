//! The errors, with their names.

use crate::limits::CHUNK_BYTES_MAX;
use std::fmt;
use std::io;
use std::path::PathBuf;
use tree::ChunkHash;
use vfs::{FileError, On, Refused, Verdict};

/// The reason why a store of chunks rejects a call.
#[derive(Debug)]
pub enum ChunkError {
    /// The directory has files of another program.
    NotAChunkStore {
        /// The directory.
        dir: PathBuf,
        /// One of the files.
        found: String,
    },
    /// Another process has the directory open.
    InUse {
        /// The directory.
        dir: PathBuf,
        /// The process, if it is known.
        pid: Option<u32>,
    },
    /// The directory was written by a newer program.
    NewerFormat {
        /// The marker.
        file: PathBuf,
        /// The newest format that this program knows.
        expected: u32,
        /// The format that the marker names.
        got: u32,
    },
    /// A chunk is larger than [`CHUNK_BYTES_MAX`].
    TooLarge {
        /// The chunk.
        hash: ChunkHash,
        /// Its length.
        bytes: usize,
    },
    /// The bytes of a chunk are not those that its name stands for.
    Mismatch {
        /// The name.
        expected: ChunkHash,
        /// The name of the bytes.
        got: ChunkHash,
    },
    /// The disk is full. The chunks of earlier calls are as they were.
    NoRoom {
        /// The file that had no room.
        path: PathBuf,
    },
    /// A chunk on the disk is damaged. Putting it again repairs it.
    Damaged {
        /// The chunk.
        hash: ChunkHash,
        /// The file that it is in.
        path: PathBuf,
    },
    /// An earlier error closed the store: it is unknown which part of the last write is durable.
    Stopped {
        /// The directory.
        dir: PathBuf,
    },
    /// A file cannot be used.
    File(FileError),
}

impl ChunkError {
    /// The name of the reason.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotAChunkStore { .. } => "not-a-chunk-store",
            Self::InUse { .. } => "in-use",
            Self::NewerFormat { .. } => "newer-format",
            Self::TooLarge { .. } => "chunk-too-large",
            Self::Mismatch { .. } => "chunk-mismatch",
            Self::NoRoom { .. } => "no-room",
            Self::Damaged { .. } => "chunk-damaged",
            Self::Stopped { .. } => "stopped",
            Self::File(FileError::Corrupt { .. }) => "damaged",
            Self::File(_) => "unusable",
        }
    }

    /// An error of the system in an operation on a file.
    pub(crate) fn refused(doing: &'static str, path: PathBuf, refused: Refused) -> Self {
        match refused.verdict() {
            Verdict::NoRoom => Self::NoRoom { path },
            Verdict::Passes | Verdict::Fails => FileError::Io { doing, file: path, source: refused.source }.into(),
        }
    }

    /// A file whose content makes no sense.
    pub(crate) fn corrupt(file: PathBuf, what: impl Into<String>) -> Self {
        FileError::Corrupt { file, offset: 0, what: what.into() }.into()
    }
}

/// Adds the operation and its file to an error of the system.
pub(crate) trait Doing<T> {
    /// `doing` is the operation in words: "cannot `doing` the file".
    fn doing(self, doing: &'static str, call: vfs::Call, path: impl FnOnce() -> PathBuf) -> Result<T, ChunkError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: &'static str, call: vfs::Call, path: impl FnOnce() -> PathBuf) -> Result<T, ChunkError> {
        self.on(call).map_err(|refused| ChunkError::refused(doing, path(), refused))
    }
}

impl From<FileError> for ChunkError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Io { ref file, .. } if error.is_full() => Self::NoRoom { path: file.clone() },
            error => Self::File(error),
        }
    }
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAChunkStore { dir, found } => write!(
                f,
                "{} is not a directory of chunks: it has '{found}'; name an empty directory, or one of chunks",
                dir.display()
            ),
            Self::InUse { dir, pid } => {
                let who = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
                write!(f, "{} is in use{who}: each process needs a directory of its own", dir.display())
            }
            Self::NewerFormat { file, expected, got } => write!(
                f,
                "{} is in format {got}, this program knows formats up to {expected}: use a newer program",
                file.display()
            ),
            Self::TooLarge { hash, bytes } => {
                write!(f, "chunk {hash} has {bytes} bytes: expected {CHUNK_BYTES_MAX} at most")
            }
            Self::Mismatch { expected, got } => {
                write!(f, "the bytes sent as chunk {expected} are those of {got}: send the chunk again")
            }
            Self::NoRoom { path } => write!(f, "cannot write {}: the disk is full; make room", path.display()),
            Self::Damaged { hash, path } => {
                write!(f, "chunk {hash} in {} is damaged: put it again to repair it", path.display())
            }
            Self::Stopped { dir } => {
                write!(f, "{} is closed after an earlier error: check the disk, and start again", dir.display())
            }
            Self::File(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ChunkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File(error) => error.source(),
            _ => None,
        }
    }
}
