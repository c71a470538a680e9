//! The index of a directory that was published: the files as they were, so that unchanged ones need not be read.
//!
//! ```text
//!   "THIX" | format u32 | root of the revision | scan began i64
//!   (path bytes u32, path, device u64, inode u64, size u64, modified i64 u32, changed i64 u32, entry) *
//!   BLAKE3 of all of it
//! ```
//! Records are in the order of the scan. A file is taken as it was if its inode's numbers and times are the same. Times
//! have a grain, so a file that was written in the tick of the scan could be written again unseen: files as new as the
//! index are read (as git does with racy entries). An index counts only while the revision that it was written for is
//! kept, as the store has the chunks of that revision for sure (rule SwitchHasAll). A directory whose
//! changes were merged is no revision, so it keeps the index from before. An index that is lost, damaged or of another
//! format costs a reading of all files.

use bytes::{Buf, BufMut, Bytes};
use rustix::fs::Stat;
use std::cmp::Ordering;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tree::{ChunkHash, Entry, Name, decode_entry, encode_entry};

const MAGIC: &[u8; 4] = b"THIX";
const FORMAT: u32 = 1;

/// Files that were changed so shortly before the scan began are read again, in seconds: the grain of the coarsest file
/// systems' times.
const GRAIN_S: i64 = 2;

/// The bytes of a record before its path, and between its path and its entry.
const BEFORE_PATH: usize = 4;
const NUMBERS: usize = 3 * 8 + 2 * (8 + 4);

/// The place of the index of a directory for a site, in a folder.
pub(crate) fn place(folder: &Path, site: &str, dir: &Path) -> io::Result<PathBuf> {
    let hash = ChunkHash::of(dir.canonicalize()?.as_os_str().as_bytes()).to_string();
    Ok(folder.join(format!("{site}-{}", &hash[..16])))
}

/// The numbers by which a file that was not changed is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, u32),
    changed: (i64, u32),
}

impl Numbers {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size.cast_unsigned(),
            modified: (stat.st_mtime, stat.st_mtime_nsec as u32),
            changed: (stat.st_ctime, stat.st_ctime_nsec as u32),
        }
    }
}

/// The index of an earlier scan, read in the order of this one.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The root of its revision.
    root: Option<ChunkHash>,
    /// Whether a file has changed, or is gone.
    has_changed: bool,
    records: Bytes,
    /// The next record, which was read ahead.
    next: Option<Record>,
    /// Files that were changed from here on are not trusted.
    until_s: i64,
}

/// The record of a file.
#[derive(Debug)]
pub(crate) struct Record {
    path: Bytes,
    numbers: Numbers,
    pub(crate) entry: Entry,
    /// All of it, as it is in the index.
    bytes: Bytes,
}

impl Known {
    /// Reads an index, if it is whole and of a revision whose root `is_kept`.
    pub(crate) fn read(place: &Path, is_kept: impl Fn(ChunkHash) -> bool) -> Self {
        let Ok(file) = std::fs::read(place) else { return Self::default() };
        let file = Bytes::from(file);
        let head = MAGIC.len() + 4 + ChunkHash::BYTES + 8;
        let Some(end) = file.len().checked_sub(ChunkHash::BYTES).filter(|end| *end >= head) else {
            return Self::default();
        };
        let mut records = file.slice(..end);
        if ChunkHash::of(&records).as_bytes()[..] != file[end..] || !records.starts_with(MAGIC) {
            return Self::default();
        }
        records.advance(MAGIC.len());
        let format = records.get_u32_le();
        let mut root = [0; ChunkHash::BYTES];
        records.copy_to_slice(&mut root);
        let began_s = records.get_i64_le();
        if format != FORMAT || !is_kept(root.into()) {
            return Self::default();
        }
        let until_s = began_s.saturating_sub(GRAIN_S);
        let mut known = Self { root: Some(root.into()), has_changed: false, records, next: None, until_s };
        known.advance();
        known
    }

    fn advance(&mut self) {
        self.next = self.record();
    }

    /// The next record; none at the end, and behind one that cannot be read.
    fn record(&mut self) -> Option<Record> {
        if self.records.len() < BEFORE_PATH {
            return None;
        }
        let mut bytes = self.records.clone();
        let length = self.records.get_u32_le() as usize;
        if self.records.len() < length.checked_add(NUMBERS)? {
            return None;
        }
        let path = self.records.split_to(length);
        let from = &mut self.records;
        let (device, inode, size) = (from.get_u64_le(), from.get_u64_le(), from.get_u64_le());
        let modified = (from.get_i64_le(), from.get_u32_le());
        let changed = (from.get_i64_le(), from.get_u32_le());
        let (_, entry) = decode_entry(from).ok()?;
        bytes.truncate(bytes.len() - from.len());
        Some(Record { path, numbers: Numbers { device, inode, size, modified, changed }, entry, bytes })
    }

    /// The record of a file that is as it was. Paths must be asked for in the order of the scan.
    pub(crate) fn find(&mut self, inside: &Path, stat: &Stat) -> Option<Record> {
        let wanted = inside.as_os_str().as_bytes();
        let is_before = |next: &Record| next.path != wanted && in_order(&next.path, wanted) == Ordering::Less;
        while self.next.as_ref().is_some_and(is_before) {
            self.has_changed = true;
            self.advance();
        }
        let found = self.next.take_if(|next| next.path == wanted)?;
        self.advance();
        let Numbers { modified, changed, .. } = found.numbers;
        let is_old = modified.0 < self.until_s && changed.0 < self.until_s;
        (is_old && found.numbers == Numbers::of(stat)).then_some(found)
    }

    /// Whether the index is that of a revision with this root, and each of its files was found as it was.
    fn is_still(&self, root: ChunkHash) -> bool {
        self.root == Some(root) && !self.has_changed && self.next.is_none() && self.records.is_empty()
    }
}

/// The order of a scan: by the names in the path, each by its bytes.
fn in_order(one: &[u8], other: &[u8]) -> Ordering {
    one.split(|byte| *byte == b'/').cmp(other.split(|byte| *byte == b'/'))
}

/// The index of a scan that runs.
#[derive(Debug)]
pub(crate) struct NewIndex {
    bytes: Vec<u8>,
    /// Whether it has a file that the index before did not have so.
    has_new: bool,
}

impl NewIndex {
    /// An index of a scan that begins at this time, in seconds since 1970.
    pub(crate) fn begin(began_s: u64) -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.put_u32_le(FORMAT);
        bytes.put_bytes(0, ChunkHash::BYTES);
        bytes.put_i64_le(began_s.cast_signed());
        Self { bytes, has_new: false }
    }

    /// Adds a file.
    pub(crate) fn add(&mut self, inside: &Path, stat: &Stat, name: &Name, entry: &Entry) {
        let (path, out) = (inside.as_os_str().as_bytes(), &mut self.bytes);
        self.has_new = true;
        let Numbers { device, inode, size, modified, changed } = Numbers::of(stat);
        out.put_u32_le(path.len() as u32);
        out.put_slice(path);
        for number in [device, inode, size] {
            out.put_u64_le(number);
        }
        for (seconds, nanoseconds) in [modified, changed] {
            out.put_i64_le(seconds);
            out.put_u32_le(nanoseconds);
        }
        encode_entry(out, name, entry);
    }

    /// Adds a file that is as it was.
    pub(crate) fn add_known(&mut self, record: &Record) {
        self.bytes.extend_from_slice(&record.bytes);
    }

    /// Writes the index of a revision with this root, unless the one that is `known` is as good. It need not be
    /// durable.
    pub(crate) fn write(self, place: &Path, root: ChunkHash, known: &Known) -> io::Result<()> {
        let Self { mut bytes, has_new } = self;
        if !has_new && known.is_still(root) {
            return Ok(());
        }
        let at = MAGIC.len() + 4;
        bytes[at..at + ChunkHash::BYTES].copy_from_slice(root.as_bytes());
        let hash = ChunkHash::of(&bytes);
        bytes.put_slice(hash.as_bytes());
        let temporary = place.with_extension("tmp");
        std::fs::write(&temporary, &bytes)?;
        // To rename it over another file would wait for the disk.
        let _ = std::fs::remove_file(place);
        std::fs::rename(&temporary, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_in_the_order_of_a_scan() {
        let scanned: &[&[u8]] = &[b"a/b/x", b"a/b.c", b"a/c", b"a.txt", b"b"];
        let mut sorted = scanned.to_vec();
        sorted.sort_by(|one, other| in_order(one, other));
        assert_eq!(sorted, scanned);
    }
}
