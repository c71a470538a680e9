//! The index of a published directory: its files and folders at that time, so that unchanged ones need not be read.
//!
//! ```text
//!   "THIX" | format u32 | root of the revision | scan began i64 | hash of the patterns that were left out
//!   bytes of files u64
//!   (path bytes u32, path, device u64, inode u64, size u64, modified i64 u32, changed i64 u32, entry) *  files
//!   (path bytes u32, path, the same numbers, entries u32, topmost node) *                                folders
//!   BLAKE3 of all of it
//! ```
//! Records of files are in the order of the scan. A file is taken as it was if its inode's numbers and times are the
//! same. Times have a grain, so a file that was written in the tick of the scan could be written again unseen: files as
//! new as the index are read (as git does with racy entries). An index counts only while the revision that it was
//! written for is kept, as the store has the chunks of that revision for sure (rule SwitchHasAll). A directory whose
//! changes were merged is no revision, so it keeps the index from before. An index that is lost, damaged or of another
//! format costs a reading of all files.
//!
//! A folder with the same numbers and times has the same names in it. If its entries are unchanged, too, the revision's
//! nodes are used for it, without reading or making them. This is sound only with the revision of the index as the
//! older one, and with the same patterns.

use bytes::{Buf, BufMut, Bytes};
use rustix::fs::Stat;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tree::{ChunkHash, Entry, Name, decode_entry, encode_entry};

const MAGIC: &[u8; 4] = b"THIX";
const FORMAT: u32 = 2;

/// Files that were changed so shortly before the scan began are read again, in seconds: the grain of the coarsest file
/// systems' times.
const GRAIN_S: i64 = 2;

/// The bytes of a record before its path, and between its path and its entry.
const BEFORE_PATH: usize = 4;
const NUMBERS: usize = 3 * 8 + 2 * (8 + 4);

/// The bytes before the records.
const HEAD: usize = MAGIC.len() + 4 + ChunkHash::BYTES + 8 + ChunkHash::BYTES + 8;

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

    fn get(from: &mut Bytes) -> Self {
        let (device, inode, size) = (from.get_u64_le(), from.get_u64_le(), from.get_u64_le());
        let modified = (from.get_i64_le(), from.get_u32_le());
        let changed = (from.get_i64_le(), from.get_u32_le());
        Self { device, inode, size, modified, changed }
    }

    fn put(self, out: &mut Vec<u8>) {
        for number in [self.device, self.inode, self.size] {
            out.put_u64_le(number);
        }
        for (seconds, nanoseconds) in [self.modified, self.changed] {
            out.put_i64_le(seconds);
            out.put_u32_le(nanoseconds);
        }
    }

    fn is_before(self, second: i64) -> bool {
        self.modified.0 < second && self.changed.0 < second
    }
}

/// A folder in the revision of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Folder {
    numbers: Numbers,
    entries: u32,
    /// The topmost of its nodes.
    pub(crate) node: ChunkHash,
}

impl Folder {
    /// A folder with this number of entries.
    pub(crate) fn new(stat: &Stat, entries: usize, node: ChunkHash) -> Self {
        Self { numbers: Numbers::of(stat), entries: u32::try_from(entries).unwrap_or(u32::MAX), node }
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
    /// Folders by their paths; none if other patterns were left out.
    folders: HashMap<Bytes, Folder>,
    /// Files and folders that were changed from here on are not trusted.
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
    /// Reads an index, if it is whole and of a revision whose root `is_kept`. Its folders count if these patterns were
    /// left out.
    pub(crate) fn read(place: &Path, patterns: ChunkHash, is_kept: impl Fn(ChunkHash) -> bool) -> Self {
        let Ok(file) = std::fs::read(place) else { return Self::default() };
        let file = Bytes::from(file);
        let Some(end) = file.len().checked_sub(ChunkHash::BYTES).filter(|end| *end >= HEAD) else {
            return Self::default();
        };
        let mut records = file.slice(..end);
        if ChunkHash::of(&records).as_bytes()[..] != file[end..] || !records.starts_with(MAGIC) {
            return Self::default();
        }
        records.advance(MAGIC.len());
        let format = records.get_u32_le();
        let root = hash(&mut records);
        let began_s = records.get_i64_le();
        let of_patterns = hash(&mut records);
        let files = usize::try_from(records.get_u64_le()).unwrap_or(usize::MAX);
        if format != FORMAT || files > records.len() || !is_kept(root) {
            return Self::default();
        }
        let folders = records.split_off(files);
        let folders = if of_patterns == patterns { read_folders(folders) } else { HashMap::new() };
        let until_s = began_s.saturating_sub(GRAIN_S);
        let mut known = Self { root: Some(root), has_changed: false, records, next: None, folders, until_s };
        known.advance();
        known
    }

    /// Returns whether there are folders, and the index is that of the revision with this root.
    pub(crate) fn has_folders_of(&self, root: ChunkHash) -> bool {
        self.root == Some(root) && !self.folders.is_empty()
    }

    /// Returns the record of a folder.
    pub(crate) fn folder(&self, inside: &Path) -> Option<&Folder> {
        self.folders.get(inside.as_os_str().as_bytes())
    }

    /// Returns whether the names in a folder are the recorded ones, given its status and the number of its entries.
    pub(crate) fn has_same_names(&self, folder: &Folder, stat: &Stat, entries: usize) -> bool {
        folder.numbers == Numbers::of(stat) && self.is_old(stat) && folder.entries as usize == entries
    }

    /// Returns whether an entry was last changed well before the scan that wrote the index.
    pub(crate) fn is_old(&self, stat: &Stat) -> bool {
        Numbers::of(stat).is_before(self.until_s)
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
        let numbers = Numbers::get(from);
        let (_, entry) = decode_entry(from).ok()?;
        bytes.truncate(bytes.len() - from.len());
        Some(Record { path, numbers, entry, bytes })
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
        (found.numbers.is_before(self.until_s) && found.numbers == Numbers::of(stat)).then_some(found)
    }

    /// Whether the index is that of a revision with this root, and each of its files was found as it was.
    fn is_still(&self, root: ChunkHash) -> bool {
        self.root == Some(root) && !self.has_changed && self.next.is_none() && self.records.is_empty()
    }
}

fn hash(from: &mut Bytes) -> ChunkHash {
    let mut hash = [0; ChunkHash::BYTES];
    from.copy_to_slice(&mut hash);
    hash.into()
}

/// The folders of an index; none behind one that cannot be read.
fn read_folders(mut from: Bytes) -> HashMap<Bytes, Folder> {
    let mut folders = HashMap::new();
    while from.len() >= BEFORE_PATH {
        let length = from.get_u32_le() as usize;
        if from.len() < length.saturating_add(NUMBERS + 4 + ChunkHash::BYTES) {
            break;
        }
        let path = from.split_to(length);
        let (numbers, entries) = (Numbers::get(&mut from), from.get_u32_le());
        folders.insert(path, Folder { numbers, entries, node: hash(&mut from) });
    }
    folders
}

/// The order of a scan: by the names in the path, each by its bytes.
fn in_order(one: &[u8], other: &[u8]) -> Ordering {
    one.split(|byte| *byte == b'/').cmp(other.split(|byte| *byte == b'/'))
}

/// The index of a scan that runs.
#[derive(Debug)]
pub(crate) struct NewIndex {
    bytes: Vec<u8>,
    folders: Vec<u8>,
    /// Whether it has a file or folder that the index before did not have so.
    has_new: bool,
}

impl NewIndex {
    /// An index of a scan that begins at this time, in seconds since 1970, and leaves these patterns out.
    pub(crate) fn begin(began_s: u64, patterns: ChunkHash) -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.put_u32_le(FORMAT);
        bytes.put_bytes(0, ChunkHash::BYTES);
        bytes.put_i64_le(began_s.cast_signed());
        bytes.put_slice(patterns.as_bytes());
        bytes.put_u64_le(0);
        Self { bytes, folders: Vec::new(), has_new: false }
    }

    /// Adds a file.
    pub(crate) fn add(&mut self, inside: &Path, stat: &Stat, name: &Name, entry: &Entry) {
        let (path, out) = (inside.as_os_str().as_bytes(), &mut self.bytes);
        self.has_new = true;
        out.put_u32_le(path.len() as u32);
        out.put_slice(path);
        Numbers::of(stat).put(out);
        encode_entry(out, name, entry);
    }

    /// Adds a folder.
    pub(crate) fn add_folder(&mut self, inside: &Path, folder: Folder, known: Option<&Folder>) {
        let (path, out) = (inside.as_os_str().as_bytes(), &mut self.folders);
        self.has_new |= known != Some(&folder);
        let Folder { numbers, entries, node } = folder;
        out.put_u32_le(path.len() as u32);
        out.put_slice(path);
        numbers.put(out);
        out.put_u32_le(entries);
        out.put_slice(node.as_bytes());
    }

    /// Adds a file that is as it was.
    pub(crate) fn add_known(&mut self, record: &Record) {
        self.bytes.extend_from_slice(&record.bytes);
    }

    /// Writes the index of a revision with this root, unless the one that is `known` is as good. It need not be
    /// durable.
    pub(crate) fn write(self, place: &Path, root: ChunkHash, known: &Known) -> io::Result<()> {
        let Self { mut bytes, folders, has_new } = self;
        if !has_new && known.is_still(root) {
            return Ok(());
        }
        let at = MAGIC.len() + 4;
        bytes[at..at + ChunkHash::BYTES].copy_from_slice(root.as_bytes());
        let files = (bytes.len() - HEAD) as u64;
        bytes[HEAD - 8..HEAD].copy_from_slice(&files.to_le_bytes());
        bytes.extend_from_slice(&folders);
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
