//! The directory of a store of chunks: its lock and its marker.
//!
//! | name | content |
//! |---|---|
//! | `thorp-chunks` | the marker, two lines of text; two more if large chunks are in a bucket |
//! | `lock` | held by the process that has the store open; its number |
//! | `small.redb` | the table |
//! | `00` to `ff` | the folders of large chunks: a file for each, named by the other 62 digits of its hash |
//! | `reserve` | room for a start or a sweep on a full disk (`vfs::reserve`) |
//! | `*.tmp` | leftovers of an interrupted write |
//!
//! The table of a new store gets its name when it is complete, and the marker follows. So a directory with a table and
//! no marker is one whose creation was interrupted, and its table is used as it is.

use crate::bucket_url::BucketUrl;
use crate::error::{ChunkError, Doing};
use crate::limits::MARKER_BYTES_MAX;
use std::io;
use vfs::{Call, Files, Lock, Locking, lock_holder, read_small, replace_small};

const MARKER: &str = "thorp-chunks";
const LOCK: &str = "lock";
/// The table's file.
pub(crate) const TABLE: &str = "small.redb";
/// The end of the name of a file that is being written.
pub(crate) const TEMPORARY: &str = ".tmp";

/// The format without a bucket, and with one.
const FORMAT: u32 = 1;
const BUCKET_FORMAT: u32 = 2;
const KIND: &str = "thorp chunks";

/// The content of a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// Where new large chunks go, if that is a bucket.
    pub(crate) bucket: Option<Home>,
}

/// A bucket, and the number by which it knows this store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) url: BucketUrl,
    pub(crate) owner: u64,
}

/// Locks a directory, and returns its marker, if it has one.
pub(crate) fn claim(files: &dyn Files) -> Result<(Lock, Option<Marker>), ChunkError> {
    // Looked at first, as the lock would be made in a directory of another program.
    check(files)?;
    let lock = lock(files, Locking::Signed)?;
    Ok((lock, check(files)?))
}

/// Locks a directory that others may read, too, and returns its marker.
pub(crate) fn claim_to_read(files: &dyn Files) -> Result<(Lock, Marker), ChunkError> {
    let missing = || ChunkError::corrupt(files.path(MARKER), "the marker of a directory of chunks is missing");
    let marker = check(files)?.ok_or_else(missing)?;
    Ok((lock(files, Locking::Shared)?, marker))
}

fn lock(files: &dyn Files, locking: Locking) -> Result<Lock, ChunkError> {
    let lock = files.lock(LOCK, locking).doing("lock", Call::Open, || files.path(LOCK))?;
    lock.ok_or_else(|| ChunkError::InUse { dir: files.path(""), pid: lock_holder(&files.path(LOCK)) })
}

/// Writes the marker, durably.
pub(crate) fn mark(files: &dyn Files, marker: &Marker) -> Result<(), ChunkError> {
    replace_small(files, MARKER, text(marker).as_bytes()).doing("write", Call::Write, || files.path(MARKER))
}

/// Removes the files that an interrupted write left in a directory.
pub(crate) fn remove_leftovers(files: &dyn Files) -> Result<(), ChunkError> {
    for name in files.list().doing("read", Call::Read, || files.path(""))? {
        if name.ends_with(TEMPORARY) {
            files.remove(&name).doing("remove", Call::Name, || files.path(&name))?;
        }
    }
    Ok(())
}

fn text(Marker { bucket }: &Marker) -> String {
    match bucket {
        None => format!("{KIND}\nformat {FORMAT}\n"),
        Some(Home { url, owner }) => format!("{KIND}\nformat {BUCKET_FORMAT}\nbucket {url}\nstore {owner:016x}\n"),
    }
}

/// Reads a marker; none if it makes no sense.
fn parse(found: &str) -> Option<Marker> {
    let mut lines = found.lines().skip(2);
    let bucket = match lines.next() {
        None => None,
        Some(line) => {
            let url = line.strip_prefix("bucket ")?.parse().ok()?;
            let owner = u64::from_str_radix(lines.next()?.strip_prefix("store ")?, 16).ok()?;
            Some(Home { url, owner })
        }
    };
    Some(Marker { bucket }).filter(|marker| text(marker) == found)
}

/// Returns the marker of a directory, if it has one; an error if it cannot be a directory of chunks.
fn check(files: &dyn Files) -> Result<Option<Marker>, ChunkError> {
    let bytes = match read_small(files, MARKER, MARKER_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return check_unmarked(files),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(not_a_store(files, MARKER)),
        Err(error) => return Err(error).doing("read", Call::Read, || files.path(MARKER)),
    };
    let found = String::from_utf8_lossy(&bytes);
    if let Some(marker) = parse(&found) {
        return Ok(Some(marker));
    }
    let mut lines = found.lines();
    if lines.next() != Some(KIND) {
        return Err(not_a_store(files, MARKER));
    }
    let got = lines.next().and_then(|line| line.strip_prefix("format ")?.parse::<u32>().ok());
    if let Some(got) = got.filter(|got| *got > BUCKET_FORMAT) {
        return Err(ChunkError::NewerFormat { file: files.path(MARKER), expected: BUCKET_FORMAT, got });
    }
    let usual = text(&Marker { bucket: None });
    let what = format!("expected the marker of a directory of chunks, such as '{}'", usual.escape_debug());
    Err(ChunkError::corrupt(files.path(MARKER), what))
}

/// A directory without a marker may have what an interrupted creation left, and the folder of a file system of its own.
fn check_unmarked(files: &dyn Files) -> Result<Option<Marker>, ChunkError> {
    let names = files.list().doing("read", Call::Read, || files.path(""))?;
    let is_own = |name: &String| {
        let name = name.strip_suffix(TEMPORARY).unwrap_or(name);
        [MARKER, LOCK, TABLE, "lost+found"].contains(&name)
    };
    match names.iter().find(|name| !is_own(name)) {
        Some(found) => Err(not_a_store(files, found)),
        None => Ok(None),
    }
}

fn not_a_store(files: &dyn Files, found: &str) -> ChunkError {
    ChunkError::NotAChunkStore { dir: files.path(""), found: found.to_owned() }
}
