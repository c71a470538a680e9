//! The directory of a cache: whose it is, and what it is a cache of.
//!
//! | name | what |
//! |---|---|
//! | `thorp-cache` | the marker |
//! | `lock` | held by the process that has the cache open; its number |
//! | `records` | the records |
//! | `removed` | keys that must not come back with a start |

use crate::format::FORMAT;
use crc32c::crc32c;
use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;
use vfs::{Files, Lock, Locking, lock_holder, read_small, replace_small};

const MARKER: &str = "thorp-cache";
const LOCK: &str = "lock";
pub(crate) const RECORDS: &str = "records";
pub(crate) const REMOVED: &str = "removed";

const MARKER_BYTES_MAX: u64 = 4096;

/// Why a directory cannot be used.
#[derive(Debug)]
pub enum OpenError {
    /// There is none.
    NoDirectory(PathBuf),
    /// It has files of somebody else.
    NotACache {
        /// The directory.
        dir: PathBuf,
        /// One of them.
        found: String,
    },
    /// Another process has it open.
    InUse {
        /// The directory.
        dir: PathBuf,
        /// That process.
        pid: Option<u32>,
    },
    /// Its format is none that this program knows.
    Format {
        /// The marker.
        file: PathBuf,
        /// The format that it names.
        got: u32,
    },
    /// It is too small for a few of the largest records.
    TooSmall {
        /// The bytes that it may take.
        bytes: u64,
        /// The bytes that it needs.
        needed: u64,
    },
    /// The system refuses.
    Io {
        /// The file or directory that was to be used.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl OpenError {
    /// The name of the reason.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NoDirectory(_) => "no-directory",
            Self::NotACache { .. } => "not-a-cache",
            Self::InUse { .. } => "in-use",
            Self::Format { .. } => "other-format",
            Self::TooSmall { .. } => "too-small",
            Self::Io { .. } => "unreadable",
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDirectory(dir) => {
                write!(f, "there is no directory {}: make it, or name another one", dir.display())
            }
            Self::NotACache { dir, found } => write!(
                f,
                "{} is no cache: it has '{found}'; name an empty directory, or that of a cache",
                dir.display()
            ),
            Self::InUse { dir, pid } => {
                let who = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
                write!(f, "{} is in use by another proxy{who}: each needs a directory of its own", dir.display())
            }
            Self::Format { file, got } => write!(
                f,
                "{} is in format {got}, this program knows format {FORMAT}: use a newer program, or empty the directory",
                file.display()
            ),
            Self::TooSmall { bytes, needed } => {
                write!(f, "{bytes} bytes of disk are too few for the largest responses: expected {needed} at least")
            }
            Self::Io { path, source } => write!(f, "cannot use {}: {source}", path.display()),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The thing that a directory is a cache of, and how it is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// Records of another thing are of no use.
    pub(crate) of: String,
    pub(crate) segment_bytes: u64,
    /// Records of another epoch are none.
    pub(crate) epoch: u64,
    /// Counts the processes that have had it open.
    pub(crate) life: u32,
}

impl Marker {
    /// One of a new epoch.
    pub(crate) fn new(of: &str, segment_bytes: u64) -> io::Result<Self> {
        let mut epoch = [0; 8];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut epoch)?;
        Ok(Self { of: of.to_owned(), segment_bytes, epoch: u64::from_le_bytes(epoch), life: 1 })
    }

    fn text(&self) -> String {
        let Self { of, segment_bytes, epoch, life } = self;
        let text = format!("thorp cache\nformat {FORMAT}\nof {of}\nsegment {segment_bytes}\n");
        let text = format!("{text}epoch {epoch:016x}\nlife {life}\n");
        format!("{text}crc32c {:08x}\n", crc32c(text.as_bytes()))
    }

    /// Puts it in its place, durably.
    pub(crate) fn write(&self, files: &dyn Files) -> io::Result<()> {
        replace_small(files, MARKER, self.text().as_bytes())
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().skip(2);
        let of = lines.next()?.strip_prefix("of ")?.to_owned();
        let segment_bytes = lines.next()?.strip_prefix("segment ")?.parse().ok()?;
        let epoch = u64::from_str_radix(lines.next()?.strip_prefix("epoch ")?, 16).ok()?;
        let life = lines.next()?.strip_prefix("life ")?.parse().ok()?;
        let marker = Self { of, segment_bytes, epoch, life };
        (marker.text() == text).then_some(marker)
    }
}

/// Locks a directory, or says who has it. `None` stands for a marker of which nothing can be used: the cache begins
/// again.
pub(crate) fn open(files: &dyn Files) -> Result<(Lock, Option<Marker>), OpenError> {
    let failed = |path: PathBuf| move |source| OpenError::Io { path, source };
    check(files)?;
    let lock = files.lock(LOCK, Locking::Signed).map_err(failed(files.path(LOCK)))?;
    let in_use = || OpenError::InUse { dir: files.path(""), pid: lock_holder(&files.path(LOCK)) };
    let lock = lock.ok_or_else(in_use)?;
    Ok((lock, check(files)?))
}

/// Whether a directory can be that of a cache; its marker, if it has a usable one.
pub(crate) fn check(files: &dyn Files) -> Result<Option<Marker>, OpenError> {
    let names = files.list().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => OpenError::NoDirectory(files.path("")),
        _ => OpenError::Io { path: files.path(""), source },
    })?;
    if !names.iter().any(|name| name == MARKER) {
        // A lock alone is of a start that was interrupted; a file system of its own has a folder for what it finds.
        let is_own = |name: &String| name == LOCK || name == "lost+found" || name.strip_suffix(".tmp") == Some(MARKER);
        return match names.into_iter().find(|name| !is_own(name)) {
            Some(found) => Err(OpenError::NotACache { dir: files.path(""), found }),
            None => Ok(None),
        };
    }
    let failed = |source| OpenError::Io { path: files.path(MARKER), source };
    let bytes = read_small(files, MARKER, MARKER_BYTES_MAX).map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    if lines.next() != Some("thorp cache") {
        return Err(OpenError::NotACache { dir: files.path(""), found: MARKER.to_owned() });
    }
    match lines.next().and_then(|line| line.strip_prefix("format ")?.parse().ok()) {
        Some(got) if got != FORMAT => Err(OpenError::Format { file: files.path(MARKER), got }),
        _ => Ok(Marker::parse(&text)),
    }
}
