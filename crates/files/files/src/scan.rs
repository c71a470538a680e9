//! A directory as a tree: its files are read, its entries sorted, and its chunks given to a sink.
//!
//! Regular files, directories and symbolic links are published, with mode, owner, time, hard links and extended
//! attributes of users. Devices, sockets and FIFOs are refused. A file is looked at before and after it is read; one
//! that was written in between is read again. An entry with the same content and attributes as in the older tree keeps
//! its time there, so a fresh checkout changes nothing.

use crate::content::read_content;
use crate::error::FilesError;
use crate::index::{Known, NewIndex};
use crate::stored::Stored;
use bytes::Bytes;
use chunks::ChunkError;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use rustix::fs::{Mode, OFlags, lgetxattr, llistxattr, open};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, symlink_metadata};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;
use tree::limits::{DEPTH_MAX, TARGET_BYTES_MAX, XATTRS_BYTES_MAX};
use tree::{Attributes, ChunkHash, Content, Entry, Kind, Name, Sink, Time, Tree, write_directory};

/// How often a file is read that is written during the read.
const READS_MAX: u32 = 3;

/// The time in which a write of a file ends, but for one that moves megabytes.
const FRESH: Duration = Duration::from_millis(20);

/// The extended attributes that are published: those of users. Others belong to one system.
const XATTR_PREFIX: &[u8] = b"user.";

/// Permissions in `st_mode`.
const PERMISSIONS: u32 = 0o7777;

/// The progress of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Files and links so far.
    pub files: u64,
    /// Bytes of files so far.
    pub bytes: u64,
    /// Files whose content was read. The others were known from the index.
    pub files_read: u64,
}

/// A directory that was scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// The topmost node of its tree.
    pub root: ChunkHash,
    /// The files and bytes in it.
    pub progress: Progress,
}

/// Patterns of paths that are left out. One without a slash applies at every level, one with a slash from the top.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exclude(GlobSet);

impl Exclude {
    pub(crate) fn new(patterns: &[String]) -> Result<Self, FilesError> {
        let refused = |error: globset::Error| FilesError::Pattern(error.to_string());
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let trimmed = pattern.trim_matches('/');
            if trimmed.is_empty() || trimmed == "**" {
                return Err(FilesError::Pattern(format!("'{pattern}' leaves out everything")));
            }
            let anywhere = format!("**/{trimmed}");
            let glob = if pattern.trim_end_matches('/').contains('/') { trimmed } else { &anywhere };
            set.add(GlobBuilder::new(glob).literal_separator(true).build().map_err(refused)?);
        }
        Ok(Self(set.build().map_err(refused)?))
    }

    fn has(&self, path: &Path) -> bool {
        self.0.is_match(path)
    }
}

/// A scan of a directory into a sink.
pub(crate) struct Scan<'a, S> {
    pub(crate) older: Stored<'a>,
    pub(crate) exclude: &'a Exclude,
    /// The receiver of nodes.
    pub(crate) sink: S,
    /// Whether content is given to the sink, and not only named.
    pub(crate) keeps_content: bool,
    /// Called behind each file.
    pub(crate) on: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    pub(crate) progress: Progress,
    /// Files with several names, by device and inode.
    pub(crate) linked: HashMap<(u64, u64), Kind>,
    /// The device and inode of the store's directory, which must not be published.
    pub(crate) store: Option<(u64, u64)>,
    /// The index of the scan before.
    pub(crate) known: Known,
    /// The index of this scan.
    pub(crate) index: NewIndex,
}

/// A sink that forgets.
struct Forget;

impl Sink for Forget {
    type Error = FilesError;

    fn add(&mut self, _: ChunkHash, _: Bytes) -> Result<(), FilesError> {
        Ok(())
    }
}

impl<S: Sink<Error = FilesError>> Scan<'_, S> {
    /// Scans a directory, beside the older tree of the same site if there is one.
    pub(crate) fn run(&mut self, dir: &Path, older: Option<ChunkHash>) -> Result<ChunkHash, FilesError> {
        self.directory(dir, Path::new(""), older, 0)
    }

    /// `dir` is where the directory is, `inside` its path in the site.
    fn directory(
        &mut self,
        dir: &Path,
        inside: &Path,
        older: Option<ChunkHash>,
        depth: usize,
    ) -> Result<ChunkHash, FilesError> {
        if depth > DEPTH_MAX {
            return Err(FilesError::TooLarge(dir.to_owned(), "directories below more others"));
        }
        let before = older.map_or(Ok(HashMap::new()), |hash| self.entries(hash))?;
        let mut entries = Vec::new();
        for name in names(dir)? {
            let (path, inside) = (dir.join(&name), inside.join(&name));
            if self.exclude.has(&inside) {
                continue;
            }
            let too_long = |_| FilesError::TooLarge(path.clone(), "a longer name");
            let name = Name::new(name.as_bytes()).map_err(too_long)?;
            let older = before.get(&name);
            let (metadata, entry) = self.entry(&path, &inside, older.and_then(Entry::directory), depth)?;
            let entry = older.filter(|older| older.is_same_but_for_time(&entry)).cloned().unwrap_or(entry);
            if metadata.is_file() {
                self.index.add(&inside, &metadata, &name, &entry);
            }
            entries.push((name, entry));
        }
        write_directory(&entries, &mut self.sink)
    }

    /// The entries of a directory in the older tree. A damaged one only tells no times, and is written again.
    fn entries(&self, directory: ChunkHash) -> Result<HashMap<Name, Entry>, FilesError> {
        match Tree::new(self.older, directory).entries(directory).map_err(FilesError::from) {
            Ok(entries) => Ok(entries.into_iter().collect()),
            Err(
                FilesError::MissingChunk(_) | FilesError::Malformed(_) | FilesError::Chunks(ChunkError::Damaged { .. }),
            ) => Ok(HashMap::new()),
            Err(error) => Err(error),
        }
    }

    fn entry(
        &mut self,
        path: &Path,
        inside: &Path,
        older: Option<ChunkHash>,
        depth: usize,
    ) -> Result<(Metadata, Entry), FilesError> {
        let unreadable = |error| FilesError::Unreadable(path.to_owned(), error);
        let metadata = symlink_metadata(path).map_err(unreadable)?;
        if metadata.is_file()
            && let Some(entry) = self.known.entry(inside, &metadata)
        {
            self.count(&entry.kind)?;
            return Ok((metadata, entry));
        }
        let kind = metadata.file_type();
        let (metadata, kind) = if kind.is_dir() {
            if self.store == Some((metadata.dev(), metadata.ino())) {
                return Err(FilesError::StoreInside(path.to_owned()));
            }
            (metadata, Kind::Directory(self.directory(path, inside, older, depth + 1)?))
        } else if kind.is_symlink() {
            let target = std::fs::read_link(path).map_err(unreadable)?.into_os_string().into_vec();
            if target.len() > TARGET_BYTES_MAX {
                return Err(FilesError::TooLarge(path.to_owned(), "a longer target of a link"));
            }
            (metadata, Kind::Symlink(target.into()))
        } else if kind.is_file() {
            self.file(path, inside)?
        } else {
            let what = match kind {
                _ if kind.is_fifo() => "a FIFO",
                _ if kind.is_socket() => "a socket",
                _ => "a device",
            };
            return Err(FilesError::Special(path.to_owned(), what));
        };
        if !metadata.is_dir() {
            self.count(&kind)?;
        }
        let attributes = attributes(path, &metadata)?;
        Ok((metadata, Entry { kind, attributes }))
    }

    /// Counts a file or link.
    fn count(&mut self, kind: &Kind) -> Result<(), FilesError> {
        self.progress.files += 1;
        if let Kind::File { size, .. } = kind {
            self.progress.bytes += size;
        }
        if (self.on)(self.progress).is_break() { Err(FilesError::Interrupted) } else { Ok(()) }
    }

    /// Reads a regular file, again if it was written during the read.
    fn file(&mut self, path: &Path, inside: &Path) -> Result<(Metadata, Kind), FilesError> {
        let unreadable = |error: io::Error| FilesError::Unreadable(path.to_owned(), error);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        for _ in 0..READS_MAX {
            let mut file = File::from(open(path, flags, Mode::empty()).map_err(|errno| unreadable(errno.into()))?);
            let before = file.metadata().map_err(unreadable)?;
            if !before.is_file() {
                continue;
            }
            let (id, is_linked) = ((before.dev(), before.ino()), before.nlink() > 1);
            if let Some(kind) = self.linked.get(&id).filter(|_| is_linked) {
                return Ok((before, kind.clone()));
            }
            self.progress.files_read += 1;
            let (size, content) = self.content(path, &mut file)?;
            let mut after = file.metadata().map_err(unreadable)?;
            if is_fresh(&after) {
                // A write sets the time when it begins, so a write that is under way shows only later.
                std::thread::sleep(FRESH);
                after = file.metadata().map_err(unreadable)?;
            }
            if size == after.len() && version(&before) == version(&after) {
                let link = if is_linked { link_id(inside) } else { 0 };
                let kind = Kind::File { size, content, link };
                if is_linked {
                    self.linked.insert(id, kind.clone());
                }
                return Ok((after, kind));
            }
        }
        Err(FilesError::Changing(path.to_owned()))
    }

    fn content(&mut self, path: &Path, file: &mut File) -> Result<(u64, Content), FilesError> {
        if self.keeps_content {
            read_content(path, file, &mut self.sink)
        } else {
            read_content(path, file, &mut Forget)
        }
    }
}

/// The names in a directory, sorted by their bytes.
fn names(dir: &Path) -> Result<Vec<OsString>, FilesError> {
    let unreadable = |error| FilesError::Unreadable(dir.to_owned(), error);
    let entries = std::fs::read_dir(dir).map_err(unreadable)?;
    let mut names: Vec<OsString> =
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<_>>().map_err(unreadable)?;
    names.sort_unstable_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    Ok(names)
}

/// Whether a file was written a moment ago.
fn is_fresh(metadata: &Metadata) -> bool {
    metadata.modified().is_ok_and(|at| at.elapsed().map_or(true, |elapsed| elapsed < FRESH))
}

/// The numbers that change when a file is written.
fn version(metadata: &Metadata) -> (u64, i64, i64, i64, i64) {
    (metadata.size(), metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec())
}

/// The number that all names of a file share: from the first of them, so that it stays when other files change.
fn link_id(first: &Path) -> u64 {
    let hash = ChunkHash::of(first.as_os_str().as_bytes());
    hash.as_bytes().first_chunk().map_or(1, |bytes| u64::from_le_bytes(*bytes)) | 1
}

fn attributes(path: &Path, metadata: &Metadata) -> Result<Attributes, FilesError> {
    let modified = Time { seconds: metadata.mtime(), nanoseconds: metadata.mtime_nsec() as u32 };
    let mode = (metadata.mode() & PERMISSIONS) as u16;
    Ok(Attributes { mode, uid: metadata.uid(), gid: metadata.gid(), modified, xattrs: xattrs(path)? })
}

/// The extended attributes of users, sorted by name. A file system without any has none.
fn xattrs(path: &Path) -> Result<Vec<(Bytes, Bytes)>, FilesError> {
    let unreadable = |errno: Errno| FilesError::Unreadable(path.to_owned(), errno.into());
    let mut list = vec![0; 64 * 1024];
    let length = match llistxattr(path, &mut list[..]) {
        Ok(length) => length,
        Err(Errno::NOTSUP | Errno::NODATA) => 0,
        Err(errno) => return Err(unreadable(errno)),
    };
    let (mut xattrs, mut total) = (Vec::new(), 0);
    for name in list[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(XATTR_PREFIX)) {
        let mut value = vec![0; 64 * 1024];
        let length = match lgetxattr(path, OsStr::from_bytes(name), &mut value[..]) {
            Ok(length) => length,
            // It was removed after the list was read.
            Err(Errno::NODATA) => continue,
            Err(errno) => return Err(unreadable(errno)),
        };
        value.truncate(length);
        total += name.len() + length;
        xattrs.push((Bytes::copy_from_slice(name), value.into()));
    }
    if total > XATTRS_BYTES_MAX {
        return Err(FilesError::TooLarge(path.to_owned(), "more extended attributes"));
    }
    xattrs.sort_unstable();
    Ok(xattrs)
}
