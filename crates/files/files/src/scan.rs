//! A directory as a tree: its files are read, and its chunks given to a sink. A walk (`crate::walk`) lists directories
//! ahead of it.
//!
//! Regular files, directories and symbolic links are published, with mode, owner, time, hard links and extended
//! attributes of users. Devices, sockets and FIFOs are refused. A file is looked at before and after it is read; one
//! that was written in between is read again. An entry with the same content and attributes as in the older tree keeps
//! its time there, so a fresh checkout changes nothing.

use crate::content::read_content;
use crate::depot::Depot;
use crate::error::FilesError;
use crate::exclude::Exclude;
use crate::index::{Folder, Known, Links, NewIndex, Numbers};
use crate::local::STORE_MARKER;
use crate::walk::{Listed, Walk};
use crate::xattrs::Xattrs;
use bytes::Bytes;
use chunks::ChunkError;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat, readlinkat};
use rustix::io::Errno;
use std::any::Any;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};
use tree::limits::{TARGET_BYTES_MAX, XATTRS_BYTES_MAX};
use tree::{Attributes, ChunkHash, Content, Entry, Kind, Name, Sink, Time, Tree, write_directory};
use types::said;

/// How often a file is read that is written during the read.
const READS_MAX: u32 = 3;

/// The time in which a write of a file ends, but for one that moves megabytes.
const FRESH: Duration = Duration::from_millis(20);

/// Directories of the older tree that are read one by one, each in a round trip. If more are needed, all are read
/// ahead.
const NODES_READ_SINGLY: u32 = 32;

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

/// A scan of a directory into a sink.
pub(crate) struct Scan<'a, S> {
    pub(crate) older: &'a dyn Depot,
    pub(crate) exclude: &'a Exclude,
    /// The receiver of nodes.
    pub(crate) sink: S,
    /// Whether content is given to the sink, and not only named.
    pub(crate) keeps_content: bool,
    /// Whether the nodes of a directory that has not changed are given to the sink again.
    pub(crate) repeats: bool,
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
    /// Whether the older tree is that of the index, so that unchanged folders need not be read in it.
    pub(crate) trusts_folders: bool,
    /// Directories of the older tree that were read.
    pub(crate) nodes_read: u32,
    /// Starts the reader of all directories of the older tree, once.
    pub(crate) read_all: Option<Sender<()>>,
}

/// A directory of the older tree, which is read when it is needed.
enum Before {
    Unread(ChunkHash),
    Read(ChunkHash, Vec<(Name, Entry)>),
    /// There is none, or it is damaged.
    None,
}

impl Before {
    fn of(node: Option<ChunkHash>) -> Self {
        node.map_or(Self::None, Self::Unread)
    }
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
        let exclude = self.exclude;
        self.trusts_folders = older.is_some_and(|older| self.known.has_folders_of(older)) && !self.repeats;
        thread::scope(|scope| {
            let (mut walk, walker) = Walk::begin(scope, dir, exclude)?;
            let depot = self.older;
            let (begin, begun) = channel();
            let nodes = thread::Builder::new().name("older".to_owned());
            let nodes = nodes.spawn_scoped(scope, move || match older {
                Some(older) if begun.recv().is_ok() => depot.expect_nodes(older),
                _ => Ok(()),
            });
            let nodes = nodes.map_err(FilesError::Thread)?;
            self.read_all = Some(begin);
            if !self.trusts_folders {
                self.read_all_nodes();
            }
            let scanned = walk.next().and_then(|top| self.directory(&mut walk, &top, &mut At::top(dir), older));
            self.read_all = None;
            drop(walk);
            let panicked = |panic: Box<dyn Any + Send>| FilesError::Panicked(said(&*panic).to_owned());
            walker.join().map_err(panicked)?;
            let expected = nodes.join().map_err(panicked)?;
            expected.and(scanned)
        })
    }

    /// Starts to read all nodes of the older tree.
    fn read_all_nodes(&mut self) {
        if let Some(begin) = self.read_all.take() {
            // The reader waits for this or for the end of the scan.
            let _ = begin.send(());
        }
    }

    /// Scans a directory that is listed, and those below it.
    fn directory(
        &mut self,
        walk: &mut Walk,
        listed: &Listed,
        at: &mut At<'_>,
        older: Option<ChunkHash>,
    ) -> Result<ChunkHash, FilesError> {
        let known = self.known.folder(&at.inside).filter(|_| self.trusts_folders).copied();
        let count = listed.entries.len();
        let mut is_same = known.is_some_and(|known| self.known.has_same_names(&known, &listed.stat, count));
        let mut before = Before::of(older);
        let mut entries = Vec::with_capacity(count);
        let mut links = Links::default();
        for (name, stat) in &listed.entries {
            at.inside.push(OsStr::from_bytes(name.as_bytes()));
            let kind = FileType::from_raw_mode(stat.st_mode);
            let (entry, is_known) = match kind {
                FileType::Directory => self.below(walk, at, &mut before, name)?,
                _ => self.entry(&listed.dir, name, at, (stat, &mut before))?,
            };
            at.inside.pop();
            if kind == FileType::Symlink {
                is_same &= self.known.is_old(stat);
                links.add(name, stat);
            } else {
                is_same &= is_known;
            }
            entries.push((name.clone(), entry, is_known));
        }
        is_same &= known.is_some_and(|known| known.has(&links));
        let node = match known.filter(|_| is_same) {
            Some(known) => known.node,
            None => self.write(entries, &mut before)?,
        };
        if let Some(index) = &mut self.index {
            let known = self.known.folder(&at.inside);
            index.add_folder(&at.inside, Folder::new(&listed.stat, count, &links, node), known);
        }
        Ok(node)
    }

    /// Writes a directory, unless it is as in the older tree. An entry that differs from the older one by its time
    /// alone keeps the older time.
    fn write(&mut self, entries: Vec<(Name, Entry, bool)>, before: &mut Before) -> Result<ChunkHash, FilesError> {
        let mut kept = Vec::with_capacity(entries.len());
        for (name, entry, is_known) in entries {
            let entry = if is_known { entry } else { keep_time(entry, self.before(before, &name)?) };
            kept.push((name, entry));
        }
        self.read_before(before)?;
        match before {
            // Its nodes were read, so they are there.
            Before::Read(older, before) if *before == kept && !self.repeats => Ok(*older),
            _ => write_directory(&kept, &mut self.sink),
        }
    }

    /// Scans the directory that is next in the walk. Returns its entry, and whether that is known to be the older one.
    fn below(
        &mut self,
        walk: &mut Walk,
        at: &mut At<'_>,
        before: &mut Before,
        name: &Name,
    ) -> Result<(Entry, bool), FilesError> {
        let listed = walk.next()?;
        if self.store == Some((listed.stat.st_dev, listed.stat.st_ino)) {
            return Err(FilesError::StoreInside(at.path()));
        }
        let known = self.known.folder(&at.inside).filter(|_| self.trusts_folders).copied();
        let older = match known {
            Some(known) => Some(known.node),
            None => self.before(before, name)?.and_then(Entry::directory),
        };
        let node = self.directory(walk, &listed, at, older)?;
        let is_same = known.is_some_and(|known| {
            known.node == node && self.known.has_same_names(&known, &listed.stat, listed.entries.len())
        });
        let kind = Kind::Directory(node);
        Ok((Entry { kind, attributes: self.attributes(at, &listed.stat, Some(listed.dir.as_fd()))? }, is_same))
    }

    /// The entry of this name in the older tree.
    fn before<'b>(&mut self, before: &'b mut Before, name: &Name) -> Result<Option<&'b Entry>, FilesError> {
        self.read_before(before)?;
        let Before::Read(_, entries) = before else { return Ok(None) };
        let found = entries.binary_search_by(|(other, _)| other.cmp(name));
        Ok(found.ok().map(|at| &entries[at].1))
    }

    /// Reads a directory of the older tree when it is first needed.
    fn read_before(&mut self, before: &mut Before) -> Result<(), FilesError> {
        if let Before::Unread(node) = *before {
            self.nodes_read += 1;
            if self.nodes_read == NODES_READ_SINGLY {
                self.read_all_nodes();
            }
            *before = self.entries(node)?.map_or(Before::None, |entries| Before::Read(node, entries));
        }
        Ok(())
    }

    /// The entries of a directory in the older tree. A damaged one only tells no times, and is written again.
    fn entries(&self, directory: ChunkHash) -> Result<Option<Vec<(Name, Entry)>>, FilesError> {
        match Tree::new(self.older, directory).entries(directory).map_err(FilesError::from) {
            Ok(entries) => Ok(Some(entries)),
            Err(
                FilesError::MissingChunk(_) | FilesError::Malformed(_) | FilesError::Chunks(ChunkError::Damaged { .. }),
            ) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Scans a file or a symbolic link. Returns its entry, and whether that is known to be the older one.
    fn entry(
        &mut self,
        dir: &OwnedFd,
        name: &Name,
        at: &At<'_>,
        (stat, before): (&Stat, &mut Before),
    ) -> Result<(Entry, bool), FilesError> {
        let special = |kind| Err(FilesError::Special(at.path(), kind));
        let (entry, is_known) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                // The store may be another process's, or another host's on a shared disk.
                if name.as_bytes() == STORE_MARKER.as_bytes() {
                    let file = at.path();
                    return Err(FilesError::StoreInside(file.parent().unwrap_or(&file).to_owned()));
                }
                self.known_file(dir, name, at, (stat, before))?
            }
            FileType::Symlink => {
                let target = readlinkat(dir, os(name), Vec::new()).map_err(|errno| at.unreadable(errno))?;
                if target.as_bytes().len() > TARGET_BYTES_MAX {
                    return Err(FilesError::TooLarge(at.path(), "a longer target of a link"));
                }
                let kind = Kind::Symlink(target.into_bytes().into());
                (Entry { kind, attributes: self.attributes(at, stat, None)? }, false)
            }
            FileType::Fifo => return special("a FIFO"),
            FileType::Socket => return special("a socket"),
            _ => return special("a device"),
        };
        self.count(&entry.kind)?;
        Ok((entry, is_known))
    }

    /// A regular file: as it was, if it is known, and read otherwise.
    fn known_file(
        &mut self,
        dir: &OwnedFd,
        name: &Name,
        at: &At<'_>,
        (stat, before): (&Stat, &mut Before),
    ) -> Result<(Entry, bool), FilesError> {
        let known = self.known.find(&at.inside, stat);
        if let Some(known) = known.as_ref().filter(|_| self.trusts_folders) {
            if let Some(index) = &mut self.index {
                index.add_known(known);
            }
            return Ok((known.entry.clone(), true));
        }
        let (read_stat, entry) = match &known {
            Some(known) => (*stat, known.entry.clone()),
            None => self.file(dir, name, at)?,
        };
        let entry = keep_time(entry, self.before(before, name)?);
        if let Some(index) = &mut self.index {
            match known.filter(|known| known.entry == entry) {
                Some(known) => index.add_known(&known),
                None => index.add(&at.inside, &read_stat, name, &entry),
            }
        }
        Ok((entry, false))
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
    fn file(&mut self, dir: &OwnedFd, name: &Name, at: &At<'_>) -> Result<(Stat, Entry), FilesError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        for _ in 0..READS_MAX {
            let opened = openat(dir, os(name), flags, Mode::empty());
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
            let (size, content) = self.content(&at.path(), &mut file)?;
            let mut after = status(&file)?;
            if is_fresh(&after) {
                // A write sets the time when it begins, so a write that is under way shows only later.
                thread::sleep(FRESH);
                after = status(&file)?;
            }
            if size == after.st_size.cast_unsigned() && Numbers::of(&before) == Numbers::of(&after) {
                let link = if is_linked { link_id(&at.inside) } else { 0 };
                let kind = Kind::File { size, content, link };
                if is_linked {
                    self.linked.insert(id, kind.clone());
                }
                return Ok((after, Entry { kind, attributes: self.attributes(at, &after, Some(file.as_fd()))? }));
            }
        }
        Err(FilesError::Changing(at.path()))
    }

    /// The attributes of an entry, which is open unless it is a link: links have no attributes of users.
    fn attributes(
        &mut self,
        at: &At<'_>,
        stat: &Stat,
        opened: Option<BorrowedFd<'_>>,
    ) -> Result<Attributes, FilesError> {
        let modified = Time { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 };
        let xattrs = opened.map_or(Ok(Vec::new()), |file| self.xattrs.read(file));
        let xattrs = xattrs.map_err(|errno| at.unreadable(errno))?;
        if xattrs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > XATTRS_BYTES_MAX {
            return Err(FilesError::TooLarge(at.path(), "more extended attributes"));
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

/// The place of the scan.
struct At<'a> {
    /// The directory that is published.
    top: &'a Path,
    /// The path in the site.
    inside: PathBuf,
}

impl<'a> At<'a> {
    fn top(dir: &'a Path) -> Self {
        Self { top: dir, inside: PathBuf::new() }
    }

    /// The path for people.
    fn path(&self) -> PathBuf {
        self.top.join(&self.inside)
    }

    fn unreadable(&self, errno: Errno) -> FilesError {
        FilesError::Unreadable(self.path(), errno.into())
    }
}

fn os(name: &Name) -> &OsStr {
    OsStr::from_bytes(name.as_bytes())
}

/// The entry with the time that it has in the older tree, if nothing else has changed.
fn keep_time(mut entry: Entry, older: Option<&Entry>) -> Entry {
    if let Some(older) = older.filter(|older| **older != entry && older.is_same_but_for_time(&entry)) {
        entry.attributes.modified = older.attributes.modified;
    }
    entry
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
