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
    /// The address of a bucket that cannot be one.
    BucketUrl {
        /// The address.
        url: String,
        /// The rule that it breaks.
        why: &'static str,
    },
    /// A bucket failed, or did not answer in time. Nothing that was stored is lost.
    Bucket {
        /// Its address.
        url: String,
        /// The operation in words: "cannot `doing` the bucket".
        doing: &'static str,
        /// Its answer, or the error on the way.
        why: String,
    },
    /// The place in a bucket has the chunks of another store.
    BucketTaken {
        /// Its address.
        url: String,
    },
    /// The place in a bucket does not have this store's marker any longer.
    BucketEmptied {
        /// Its address.
        url: String,
    },
    /// The chunks are in another bucket than the one that was named.
    OtherBucket {
        /// The directory.
        dir: PathBuf,
        /// The address of the bucket that has them.
        has: String,
        /// The address that was named.
        named: String,
    },
    /// The chunks are in a bucket, and this program was built without object storage.
    NoObjectStorage {
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
            Self::BucketUrl { .. } => "bucket-url",
            Self::Bucket { .. } => "bucket",
            Self::BucketTaken { .. } => "bucket-taken",
            Self::BucketEmptied { .. } => "bucket-emptied",
            Self::OtherBucket { .. } => "other-bucket",
            Self::NoObjectStorage { .. } => "no-object-storage",
            Self::File(FileError::Corrupt { .. }) => "damaged",
            Self::File(_) => "unusable",
        }
    }

    /// Whether a bucket cannot be used at the moment. Its chunks are neither lost nor known to be damaged.
    pub const fn is_of_bucket(&self) -> bool {
        matches!(self, Self::Bucket { .. } | Self::BucketTaken { .. } | Self::BucketEmptied { .. })
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
            Self::BucketUrl { url, why } => {
                write!(f, "'{url}' cannot be a place for chunks: {why}; expected s3://BUCKET/PREFIX")
            }
            Self::Bucket { url, doing, why } => write!(
                f,
                "cannot {doing} {url}: {why}; check the bucket, its credentials (AWS_*) and the network, and try again"
            ),
            Self::BucketTaken { url } => write!(
                f,
                "{url} has the chunks of another store, as its object thorp-chunks says: name a prefix of this store's \
                 own"
            ),
            Self::BucketEmptied { url } => write!(
                f,
                "{url} does not have this store's marker, the object thorp-chunks: it was emptied, or another bucket \
                 has taken its name; bring the objects back"
            ),
            Self::OtherBucket { dir, has, named } => write!(
                f,
                "chunks of {} are in {has}, and {named} does not have them: leave --chunks out, or copy all objects \
                 there first",
                dir.display()
            ),
            Self::NoObjectStorage { dir } => write!(
                f,
                "chunks of {} are in a bucket, and this program was built without object storage: use one that was \
                 built with the feature object-storage",
                dir.display()
            ),
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
