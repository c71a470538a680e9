//! The index of a published directory: its files and folders at that time, so that unchanged ones need not be read.
//!
//! ```text
//!   "THIX" | format u32 | scan began i64 | hash of the patterns that were left out
//!   (path bytes u32, path, device u64, inode u64, size u64, modified i64 u32, changed i64 u32, entry) *  files
//!   (path bytes u32, path, the same numbers, entries u32, hash of its links, topmost node) *             folders
//!   bytes of the files' records u64 | root of the revision | BLAKE3 of all of it
//! ```
//! Records of files are in the order of the scan. A file is taken as it was if its inode's numbers and times are the
//! same. Times have a grain, so a file that was written in the tick of the scan could be written again unseen: files as
//! new as the index are read (as git does with racy entries). An index counts only while the revision that it was
//! written for is kept, as the store has the chunks of that revision for sure (rule SwitchHasAll). A directory whose
//! changes were merged differs from every revision, so the index from before stays. An index that is lost, damaged or of another
//! format costs a reading of all files.
//!
//! A folder with the same numbers, times and count of entries has the same names in it. If its entries are unchanged,
//! too, the revision's nodes are used for it, without reading or making them. Its symbolic links have no records of
//! their own, but a hash of their names, numbers and times. This is sound only with the revision of the index as the
//! older one, and with the same patterns.

use bytes::{Buf, BufMut, Bytes};
use rustix::fs::Stat;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
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

/// The bytes before the records, and behind them.
const HEAD: usize = MAGIC.len() + 4 + 8 + ChunkHash::BYTES;
const TAIL: usize = 8 + ChunkHash::BYTES;

/// The bytes of a new index that are written at a time.
const PART_BYTES: usize = 1 << 20;

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
    links: ChunkHash,
    /// The topmost of its nodes.
    pub(crate) node: ChunkHash,
}

impl Folder {
    /// A folder with this number of entries.
    pub(crate) fn new(stat: &Stat, entries: usize, links: &Links, node: ChunkHash) -> Self {
        let entries = u32::try_from(entries).unwrap_or(u32::MAX);
        Self { numbers: Numbers::of(stat), entries, links: links.hash(), node }
    }

    /// Whether these were its links.
    pub(crate) fn has(&self, links: &Links) -> bool {
        self.links == links.hash()
    }
}

/// The symbolic links of a folder.
#[derive(Debug, Default)]
pub(crate) struct Links(Vec<u8>);

impl Links {
    /// Adds the next one.
    pub(crate) fn add(&mut self, name: &Name, stat: &Stat) {
        let (name, out) = (name.as_bytes(), &mut self.0);
        out.put_u32_le(name.len() as u32);
        out.put_slice(name);
        Numbers::of(stat).put(out);
    }

    fn hash(&self) -> ChunkHash {
        ChunkHash::of(&self.0)
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
        let Some(end) = file.len().checked_sub(ChunkHash::BYTES).filter(|end| *end >= HEAD + TAIL) else {
            return Self::default();
        };
        let mut records = file.slice(..end);
        if ChunkHash::of(&records).as_bytes()[..] != file[end..] || !records.starts_with(MAGIC) {
            return Self::default();
        }
        records.advance(MAGIC.len());
        let format = records.get_u32_le();
        let began_s = records.get_i64_le();
        let of_patterns = hash(&mut records);
        let mut tail = records.split_off(records.len() - TAIL);
        let (files, root) = (usize::try_from(tail.get_u64_le()).unwrap_or(usize::MAX), hash(&mut tail));
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
        if from.len() < length.saturating_add(NUMBERS + 4 + 2 * ChunkHash::BYTES) {
            break;
        }
        let path = from.split_to(length);
        let (numbers, entries) = (Numbers::get(&mut from), from.get_u32_le());
        let (links, node) = (hash(&mut from), hash(&mut from));
        folders.insert(path, Folder { numbers, entries, links, node });
    }
    folders
}

/// The order of a scan: by the names in the path, each by its bytes.
fn in_order(one: &[u8], other: &[u8]) -> Ordering {
    one.split(|byte| *byte == b'/').cmp(other.split(|byte| *byte == b'/'))
}

/// The index of a scan that runs. It is written during the scan, once something differs from the index before.
#[derive(Debug)]
pub(crate) struct NewIndex {
    place: PathBuf,
    /// The records of files that are not written yet.
    bytes: Vec<u8>,
    /// The bytes of all records of files.
    files: u64,
    folders: Vec<u8>,
    /// Whether it has a file or folder that the index before did not have so.
    has_new: bool,
    writing: Option<Writing>,
    failed: Option<io::Error>,
}

/// A temporary file with the first part of an index. It is removed unless it takes the place of the index before.
#[derive(Debug)]
struct Writing {
    file: File,
    path: PathBuf,
    hasher: blake3::Hasher,
    is_done: bool,
}

impl Writing {
    fn begin(place: &Path) -> io::Result<Self> {
        let path = place.with_extension("tmp");
        let file = File::options().create(true).truncate(false).write(true).open(&path)?;
        // Another publish of the directory may be at it: the one that is first writes an index.
        file.try_lock()?;
        file.set_len(0)?;
        Ok(Self { file, path, hasher: blake3::Hasher::new(), is_done: false })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.file.write_all(bytes)
    }

    fn end(mut self, place: &Path) -> io::Result<()> {
        self.file.write_all(self.hasher.finalize().as_bytes())?;
        // To rename it over another file would wait for the disk.
        let _ = std::fs::remove_file(place);
        std::fs::rename(&self.path, place)?;
        self.is_done = true;
        Ok(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl NewIndex {
    /// The index at a place, of a scan that begins at this time, in seconds since 1970, and leaves these patterns out.
    pub(crate) fn begin(place: PathBuf, began_s: u64, patterns: ChunkHash) -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.put_u32_le(FORMAT);
        bytes.put_i64_le(began_s.cast_signed());
        bytes.put_slice(patterns.as_bytes());
        Self { place, bytes, files: 0, folders: Vec::new(), has_new: false, writing: None, failed: None }
    }

    /// Adds a file.
    pub(crate) fn add(&mut self, inside: &Path, stat: &Stat, name: &Name, entry: &Entry) {
        let (path, out) = (inside.as_os_str().as_bytes(), &mut self.bytes);
        let before = out.len();
        out.put_u32_le(path.len() as u32);
        out.put_slice(path);
        Numbers::of(stat).put(out);
        encode_entry(out, name, entry);
        self.has_new = true;
        self.has_added(before);
    }

    /// Adds a file that is as it was.
    pub(crate) fn add_known(&mut self, record: &Record) {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(&record.bytes);
        self.has_added(before);
    }

    fn has_added(&mut self, before: usize) {
        self.files += (self.bytes.len() - before) as u64;
        if self.has_new && self.bytes.len() >= PART_BYTES {
            self.write_part();
        }
    }

    /// Adds a folder.
    pub(crate) fn add_folder(&mut self, inside: &Path, folder: Folder, known: Option<&Folder>) {
        let (path, out) = (inside.as_os_str().as_bytes(), &mut self.folders);
        self.has_new |= known != Some(&folder);
        let Folder { numbers, entries, links, node } = folder;
        out.put_u32_le(path.len() as u32);
        out.put_slice(path);
        numbers.put(out);
        out.put_u32_le(entries);
        out.put_slice(links.as_bytes());
        out.put_slice(node.as_bytes());
    }

    /// Ends the index of a revision with this root, unless the one that is `known` is as good. It need not be durable.
    pub(crate) fn end(mut self, root: ChunkHash, known: &Known) -> io::Result<()> {
        if !self.has_new && known.is_still(root) {
            return Ok(());
        }
        self.bytes.extend_from_slice(&self.folders);
        self.bytes.put_u64_le(self.files);
        self.bytes.put_slice(root.as_bytes());
        self.write_part();
        match (self.failed, self.writing) {
            (None, Some(writing)) => writing.end(&self.place),
            (failed, _) => Err(failed.unwrap_or_else(|| io::ErrorKind::Other.into())),
        }
    }

    /// Writes the records that are not written. After a failure there will be no index.
    fn write_part(&mut self) {
        let Self { place, bytes, writing, failed, .. } = self;
        if failed.is_none() {
            let begun = match writing.take() {
                Some(writing) => Ok(writing),
                None => Writing::begin(place),
            };
            match begun.and_then(|mut writing| writing.write(bytes).map(|()| writing)) {
                Ok(begun) => *writing = Some(begun),
                Err(error) => *failed = Some(error),
            }
        }
        bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::now_s;
    use fixtures::SiteFolder;
    use std::fs;
    use tree::{Attributes, Kind};

    const FILES: u32 = 20_000;

    fn status() -> Stat {
        rustix::fs::stat(".").unwrap()
    }

    fn name(number: u32) -> String {
        format!("{number:08}")
    }

    /// An index of more files than one part holds.
    fn large(place: &Path) -> NewIndex {
        let mut index = NewIndex::begin(place.to_owned(), now_s() + 10, ChunkHash::of(b"patterns"));
        let entry = Entry { kind: Kind::Symlink(vec![b'x'; 100].into()), attributes: Attributes::default() };
        for name in (0..FILES).map(name) {
            index.add(Path::new(&name), &status(), &Name::new(name.as_bytes()).unwrap(), &entry);
        }
        index.add_folder(
            Path::new(""),
            Folder::new(&status(), FILES as usize, &Links::default(), ChunkHash::of(b"node")),
            None,
        );
        index
    }

    fn files_of(place: &Path) -> usize {
        let mut known = Known::read(place, ChunkHash::of(b"patterns"), |root| root == ChunkHash::of(b"root"));
        (0..FILES).filter(|number| known.find(Path::new(&name(*number)), &status()).is_some()).count()
    }

    #[test]
    fn an_index_that_is_written_in_parts_is_read_as_one() {
        let folder = SiteFolder::new();
        let place = folder.path().join("index");
        large(&place).end(ChunkHash::of(b"root"), &Known::default()).unwrap();
        assert!(fs::metadata(&place).unwrap().len() > 2 * PART_BYTES as u64);
        assert_eq!(files_of(&place), FILES as usize);
        let known = Known::read(&place, ChunkHash::of(b"patterns"), |_| true);
        assert_eq!(known.folder(Path::new("")).map(|folder| folder.node), Some(ChunkHash::of(b"node")));
        assert!(known.has_folders_of(ChunkHash::of(b"root")) && !known.has_folders_of(ChunkHash::of(b"other")));
        let others = Known::read(&place, ChunkHash::of(b"other patterns"), |_| true);
        assert!(others.folder(Path::new("")).is_none());
    }

    #[test]
    fn an_index_without_an_end_changes_nothing_and_leaves_no_file() {
        let folder = SiteFolder::new();
        let place = folder.path().join("index");
        large(&place).end(ChunkHash::of(b"root"), &Known::default()).unwrap();
        drop(large(&place));
        assert_eq!(files_of(&place), FILES as usize);
        assert!(!place.with_extension("tmp").exists());
    }

    #[test]
    fn of_two_publishes_at_once_one_writes_the_index() {
        let folder = SiteFolder::new();
        let place = folder.path().join("index");
        let first = large(&place);
        assert!(large(&place).end(ChunkHash::of(b"other root"), &Known::default()).is_err());
        first.end(ChunkHash::of(b"root"), &Known::default()).unwrap();
        assert_eq!(files_of(&place), FILES as usize);
    }

    #[test]
    fn paths_are_in_the_order_of_a_scan() {
        let scanned: &[&[u8]] = &[b"a/b/x", b"a/b.c", b"a/c", b"a.txt", b"b"];
        let mut sorted = scanned.to_vec();
        sorted.sort_by(|one, other| in_order(one, other));
        assert_eq!(sorted, scanned);
    }
}
