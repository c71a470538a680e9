//! A directory as a tree: its files are read, its entries sorted, and its chunks given to a sink.
//!
//! Regular files, directories and symbolic links are published, with mode, owner, time, hard links and extended
//! attributes of users. Devices, sockets and FIFOs are refused. A file is looked at before and after it is read; one
//! that was written in between is read again. An entry with the same content and attributes as in the older tree keeps
//! its time there, so a fresh checkout changes nothing.

use crate::content::read_content;
use crate::depot::Depot;
use crate::error::FilesError;
use crate::index::{Known, NewIndex, Numbers};
use crate::local::STORE_MARKER;
use crate::xattrs::Xattrs;
use bytes::Bytes;
use chunks::ChunkError;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, open, openat, readlinkat, statat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
use tree::limits::{DEPTH_MAX, TARGET_BYTES_MAX, XATTRS_BYTES_MAX};
use tree::{Attributes, ChunkHash, Content, Entry, Kind, Name, Sink, Time, Tree, write_directory};

/// A directory to be scanned.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// How often a file is read that is written during the read.
const READS_MAX: u32 = 3;

/// The time in which a write of a file ends, but for one that moves megabytes.
const FRESH: Duration = Duration::from_millis(20);

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
    pub(crate) older: &'a dyn Depot,
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
    pub(crate) xattrs: Xattrs,
    /// The index of the scan before.
    pub(crate) known: Known,
    /// The index of this scan, if it will be written.
    pub(crate) index: Option<NewIndex>,
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
    ///
    /// # Errors
    /// [`FilesError::InsideStore`], [`FilesError::StoreInside`], files that cannot be read or published, and those of
    /// the sink.
    pub(crate) fn run(&mut self, dir: &Path, older: Option<ChunkHash>) -> Result<ChunkHash, FilesError> {
        let whole = dir.canonicalize().map_err(|error| FilesError::Unreadable(dir.to_owned(), error))?;
        if let Some(store) = whole.ancestors().skip(1).find(|above| above.join(STORE_MARKER).is_file()) {
            return Err(FilesError::InsideStore(dir.to_owned(), store.to_owned()));
        }
        let opened = open(dir, DIRECTORY, Mode::empty());
        let opened = opened.map_err(|errno| FilesError::Unreadable(dir.to_owned(), errno.into()))?;
        self.directory(&opened, dir, Path::new(""), older, 0)
    }

    /// Scans an open directory. `path` is for people, and `inside` is its path in the site.
    fn directory(
        &mut self,
        dir: &OwnedFd,
        path: &Path,
        inside: &Path,
        older: Option<ChunkHash>,
        depth: usize,
    ) -> Result<ChunkHash, FilesError> {
        if depth > DEPTH_MAX {
            return Err(FilesError::TooLarge(path.to_owned(), "directories below more others"));
        }
        let before = older.map_or(Ok(HashMap::new()), |hash| self.entries(hash))?;
        let names = names(dir).map_err(|errno| FilesError::Unreadable(path.to_owned(), errno.into()))?;
        let mut entries = Vec::new();
        for name in names {
            let (path, inside) = (path.join(&name), inside.join(&name));
            if self.exclude.has(&inside) {
                continue;
            }
            let too_long = |_| FilesError::TooLarge(path.clone(), "a longer name");
            let known = Name::new(name.as_bytes()).map_err(too_long)?;
            let older = before.get(&known);
            let at = Place { dir, name: &name, path: &path, inside: &inside };
            let (stat, entry) = self.entry(&at, older.and_then(Entry::directory), depth)?;
            let entry = older.filter(|older| older.is_same_but_for_time(&entry)).cloned().unwrap_or(entry);
            if let (Kind::File { .. }, Some(index)) = (&entry.kind, &mut self.index) {
                index.add(&inside, &stat, &known, &entry);
            }
            entries.push((known, entry));
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

    fn entry(&mut self, at: &Place<'_>, older: Option<ChunkHash>, depth: usize) -> Result<(Stat, Entry), FilesError> {
        let stat = statat(at.dir, at.name, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| at.unreadable(errno))?;
        let special = |kind| Err(FilesError::Special(at.path.to_owned(), kind));
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                // The store may be another process's, or another host's on a shared disk.
                if at.name == STORE_MARKER {
                    let store = at.path.parent().unwrap_or(at.path);
                    return Err(FilesError::StoreInside(store.to_owned()));
                }
                let (stat, entry) = match self.known.entry(at.inside, &stat) {
                    Some(entry) => (stat, entry),
                    None => self.file(at)?,
                };
                self.count(&entry.kind)?;
                Ok((stat, entry))
            }
            FileType::Directory => {
                let dir = openat(at.dir, at.name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
                let dir = dir.map_err(|errno| at.unreadable(errno))?;
                let stat = fstat(&dir).map_err(|errno| at.unreadable(errno))?;
                if self.store == Some((stat.st_dev, stat.st_ino)) {
                    return Err(FilesError::StoreInside(at.path.to_owned()));
                }
                let kind = Kind::Directory(self.directory(&dir, at.path, at.inside, older, depth + 1)?);
                Ok((stat, Entry { kind, attributes: self.attributes(at, &stat, Some(dir.as_fd()))? }))
            }
            FileType::Symlink => {
                let target = readlinkat(at.dir, at.name, Vec::new()).map_err(|errno| at.unreadable(errno))?;
                if target.as_bytes().len() > TARGET_BYTES_MAX {
                    return Err(FilesError::TooLarge(at.path.to_owned(), "a longer target of a link"));
                }
                let kind = Kind::Symlink(target.into_bytes().into());
                self.count(&kind)?;
                Ok((stat, Entry { kind, attributes: self.attributes(at, &stat, None)? }))
            }
            FileType::Fifo => special("a FIFO"),
            FileType::Socket => special("a socket"),
            _ => special("a device"),
        }
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
    fn file(&mut self, at: &Place<'_>) -> Result<(Stat, Entry), FilesError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        for _ in 0..READS_MAX {
            let opened = openat(at.dir, at.name, flags, Mode::empty());
            let mut file = File::from(opened.map_err(|errno| at.unreadable(errno))?);
            let status = |file: &File| fstat(file).map_err(|errno| at.unreadable(errno));
            let before = status(&file)?;
            if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
                continue;
            }
            let (id, is_linked) = ((before.st_dev, before.st_ino), before.st_nlink > 1);
            if let Some(kind) = self.linked.get(&id).filter(|_| is_linked).cloned() {
                return Ok((before, Entry { kind, attributes: self.attributes(at, &before, Some(file.as_fd()))? }));
            }
            self.progress.files_read += 1;
            let (size, content) = self.content(at.path, &mut file)?;
            let mut after = status(&file)?;
            if is_fresh(&after) {
                // A write sets the time when it begins, so a write that is under way shows only later.
                std::thread::sleep(FRESH);
                after = status(&file)?;
            }
            if size == after.st_size.cast_unsigned() && Numbers::of(&before) == Numbers::of(&after) {
                let link = if is_linked { link_id(at.inside) } else { 0 };
                let kind = Kind::File { size, content, link };
                if is_linked {
                    self.linked.insert(id, kind.clone());
                }
                return Ok((after, Entry { kind, attributes: self.attributes(at, &after, Some(file.as_fd()))? }));
            }
        }
        Err(FilesError::Changing(at.path.to_owned()))
    }

    /// The attributes of an entry, which is open unless it is a link: links have no attributes of users.
    fn attributes(
        &mut self,
        at: &Place<'_>,
        stat: &Stat,
        opened: Option<BorrowedFd<'_>>,
    ) -> Result<Attributes, FilesError> {
        let modified = Time { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 };
        let xattrs = opened.map_or(Ok(Vec::new()), |file| self.xattrs.read(file));
        let xattrs = xattrs.map_err(|errno| at.unreadable(errno))?;
        if xattrs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > XATTRS_BYTES_MAX {
            return Err(FilesError::TooLarge(at.path.to_owned(), "more extended attributes"));
        }
        let mode = (stat.st_mode & PERMISSIONS) as u16;
        Ok(Attributes { mode, uid: stat.st_uid, gid: stat.st_gid, modified, xattrs })
    }

    fn content(&mut self, path: &Path, file: &mut File) -> Result<(u64, Content), FilesError> {
        if self.keeps_content {
            read_content(path, file, &mut self.sink)
        } else {
            read_content(path, file, &mut Forget)
        }
    }
}

/// The place of an entry. Its directory is open, so it cannot be exchanged for a link that leads elsewhere.
struct Place<'a> {
    dir: &'a OwnedFd,
    name: &'a OsStr,
    /// The path for people.
    path: &'a Path,
    /// The path in the site.
    inside: &'a Path,
}

impl Place<'_> {
    fn unreadable(&self, errno: Errno) -> FilesError {
        FilesError::Unreadable(self.path.to_owned(), errno.into())
    }
}

/// The names in a directory, sorted by their bytes.
fn names(dir: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    names.sort_unstable_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    Ok(names)
}

/// Whether a file was changed a moment ago. Programs can set the time of its content, also to a future one.
fn is_fresh(stat: &Stat) -> bool {
    let changed = Duration::new(stat.st_ctime.max(0) as u64, stat.st_ctime_nsec as u32);
    (UNIX_EPOCH + changed).elapsed().is_ok_and(|elapsed| elapsed < FRESH)
}

/// The number that all names of a file share: from the first of them, so that it stays when other files change.
fn link_id(first: &Path) -> u64 {
    let hash = ChunkHash::of(first.as_os_str().as_bytes());
    hash.as_bytes().first_chunk().map_or(1, |bytes| u64::from_le_bytes(*bytes)) | 1
}
