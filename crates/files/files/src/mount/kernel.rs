//! The kernel's requests, and their answers.

use super::attributes;
use super::handles::{Listed, OpenContent, OpenDirectory, OpenFile};
use super::nodes::{PUBLISH, Place, ROOT};
use super::requests::{GENERATION, Request, attributes_for};
use super::special;
use super::views::{Mounted, NoAnswer, Wait};
use super::waiting::Waiting;
use super::writes::{Asked as Set, Change, Made, Permit, Writes};
use crate::line::lock;
use crate::member::fetching::{Here, wait};
use crate::origin::NotRead;
use bytes::Bytes;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request as Asked, TimeOrNow, WriteFlags,
};
use rustix::fs::FallocateFlags;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};
use tree::Entry;
use tree::limits::NAME_BYTES_MAX;

/// The block of `statfs`.
const BLOCK_BYTES: u32 = 4096;

/// The bits of a mode that are the kind of a file, and those of a regular one.
const KIND_OF_MODE: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;

/// The things that the kernel may do by itself. It does not keep the targets of links, as `.thorp/newest` changes.
const CAPABILITIES: [InitFlags; 2] = [InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_DO_READDIRPLUS];

impl Mounted {
    /// The attributes of an inode.
    pub(super) fn attributes(&self, inode: u64) -> Result<FileAttr, NoAnswer> {
        if inode == ROOT {
            return Ok(attributes::of_directory(inode, &self.top()));
        }
        if special::is_special(inode) {
            return self.special_attributes(inode);
        }
        let node = lock(&self.nodes).get(inode).cloned().ok_or(NoAnswer::STALE)?;
        let Place::In { directory, name, entry } = node.place else {
            return Ok(attributes::of_directory(inode, &self.top()));
        };
        if let Some(draft) = self.draft(inode) {
            let (given, size, _) = draft.now();
            let links = self.count_names(&entry).unwrap_or(1);
            let attr = FileAttr { nlink: links, ..attributes::of_draft(inode, &given, size) };
            return Ok(attributes::changed(attr, given.modified, &node.own));
        }
        if entry.directory().is_none() || node.own.is_removed {
            return Ok(self.attributes_of(inode, &entry));
        }
        // A directory is one inode in all revisions. Its attributes are asked for again within a second, and no waiting
        // for the newest revision is worth them.
        let (directory_in, _) = self.directory(directory, Wait { since: None, is_over: true })?;
        let entry = self.entry(directory_in, &name)?.filter(|entry| entry.directory().is_some());
        Ok(self.attributes_of(inode, &entry.ok_or(NoAnswer::STALE)?))
    }

    /// The attributes of an inode whose entry is this one.
    pub(super) fn attributes_of(&self, inode: u64, entry: &Entry) -> FileAttr {
        let mut attr = attributes::of_entry(inode, entry);
        if self.writes.is_none() {
            return attr;
        }
        attr.nlink = self.count_names(entry).unwrap_or(attr.nlink);
        let own = lock(&self.nodes).get(inode).map(|node| node.own).unwrap_or_default();
        attributes::changed(attr, entry.attributes.modified, &own)
    }

    /// Reads an open file: fewer bytes only at its end.
    pub(super) fn read(&self, file: &OpenFile, offset: u64, bytes: u32) -> Result<Bytes, NoAnswer> {
        match self.draft(file.inode).and_then(|draft| draft.read(offset, bytes)) {
            Some(read) => Ok(read?),
            None => self.read_here(file, offset, bytes),
        }
    }

    /// Reads the content that the site has of an open file: fewer bytes only at its end.
    /// Waits on this thread for what is not here.
    pub(super) fn read_site(&self, file: &OpenFile, offset: u64, bytes: u32) -> Result<Bytes, NoAnswer> {
        self.with_content(|| self.read_here(file, offset, bytes))
    }

    /// Reads again, when content has come that is not here. Waits for it on this thread.
    pub(super) fn with_content<T>(&self, read: impl Fn() -> Result<T, NoAnswer>) -> Result<T, NoAnswer> {
        let mut here = Here::default();
        loop {
            let read = read();
            let Err(NoAnswer::Elsewhere(hash)) = read else { return read };
            let fetched = wait(self.origin.fetch(here.lack(hash)));
            here.add(fetched.map_err(|error| self.failed(error.into()))?);
        }
    }

    /// Reads the content that the site has of an open file: fewer bytes only at its end.
    fn read_here(&self, file: &OpenFile, offset: u64, bytes: u32) -> Result<Bytes, NoAnswer> {
        let end = offset.saturating_add(u64::from(bytes)).min(file.size);
        if offset >= end {
            return Ok(Bytes::new());
        }
        let pieces = match &file.content {
            OpenContent::Bytes(whole) => return Ok(whole.slice(offset as usize..end as usize)),
            OpenContent::Pieces(pieces) => pieces,
        };
        let mut parts = OpenFile::pieces_at(pieces, offset, end).map(|(begin, piece)| {
            let whole = self.reader().piece(piece).map_err(|not_read| self.not_read(file, not_read))?.bytes;
            let within = |place: u64| place.saturating_sub(begin).min(whole.len() as u64) as usize;
            Ok::<Bytes, NoAnswer>(whole.slice(within(offset)..within(end)))
        });
        let first: Bytes = parts.next().transpose()?.unwrap_or_default();
        if first.len() as u64 == end - offset {
            return Ok(first);
        }
        let mut all = Vec::with_capacity((end - offset) as usize);
        all.extend_from_slice(&first);
        for part in parts {
            all.extend_from_slice(&part?);
        }
        Ok(all.into())
    }

    /// The error of a read that failed. The revision of the file may have given way to newer ones that are read.
    fn not_read(&self, file: &OpenFile, why: NotRead) -> NoAnswer {
        match file.session() {
            Some(number) if self.origin.visit(number).is_none() => NoAnswer::STALE,
            _ => self.failed(why),
        }
    }

    /// The attributes of an entry of an open directory, whose inode the kernel is given, and for how long it may know
    /// the name.
    fn listed(&self, directory: &OpenDirectory, listed: &Listed) -> Option<(Duration, FileAttr)> {
        match listed {
            Listed::Entry(name, entry) => {
                let (revision, top) = directory.listed_in?;
                let inode = lock(&self.nodes).enter(revision.number, directory.inode, name.clone(), entry.clone())?;
                let attr = match self.draft(inode) {
                    Some(_) => self.attributes(inode).ok()?,
                    None => self.attributes_of(inode, entry),
                };
                Some((self.known_for(revision, top), attr))
            }
            Listed::New(_, inode) => {
                let attr = self.attributes(*inode).ok()?;
                lock(&self.nodes).given_again(*inode);
                Some((Duration::ZERO, attr))
            }
            Listed::Special(name, ..) => Some((Duration::ZERO, self.special(directory.inode, name.as_bytes()).ok()?)),
        }
    }

    fn xattrs(&self, inode: u64) -> Vec<(Bytes, Bytes)> {
        self.last_entry(inode).map(|entry| entry.attributes.xattrs).unwrap_or_default()
    }

    /// Closes something.
    pub(super) fn close(&self, handle: u64) {
        if let Some(number) = self.handles.remove(handle) {
            self.origin.end(number);
        }
    }
}

/// The file system, as the kernel asks it.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) mounted: Arc<Mounted>,
    pub(super) waiting: Arc<Waiting>,
}

/// The place of the first entry behind `.` and `..` in a directory.
const FIRST: u64 = 2;

impl Kernel {
    fn writes(&self) -> Result<&Writes, Errno> {
        self.mounted.writes.as_ref().ok_or(Errno::EROFS)
    }

    fn make(&self, asked: &Asked, parent: INodeNo, name: &OsStr, made: Made, reply: ReplyEntry) {
        let (directory, name) = (parent.0, name.to_owned());
        match self.writes() {
            Ok(writes) => writes.ask(Change::Make { directory, name, made, owner: owner(asked), reply }),
            Err(error) => reply.error(error),
        }
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, is_directory: bool, reply: ReplyEmpty) {
        match self.writes() {
            Ok(writes) => {
                writes.ask(Change::Remove { directory: parent.0, name: name.to_owned(), is_directory, reply });
            }
            Err(error) => reply.error(error),
        }
    }

    fn sync_changes(&self, reply: ReplyEmpty) {
        match self.mounted.writes.as_ref().map(|writes| writes.target.sync()) {
            Some(Err(error)) => reply.error(self.mounted.unsynced(&error)),
            Some(Ok(())) | None => reply.ok(),
        }
    }

    fn set_xattr(&self, inode: INodeNo, name: &OsStr, value: Option<Bytes>, flags: i32, reply: ReplyEmpty) {
        match self.writes() {
            Ok(writes) => writes.ask(Change::Xattr { inode: inode.0, name: name.to_owned(), value, flags, reply }),
            Err(error) => reply.error(error),
        }
    }
}

impl Filesystem for Kernel {
    fn init(&mut self, _: &Asked, config: &mut KernelConfig) -> io::Result<()> {
        for capability in CAPABILITIES {
            // An older kernel does without it.
            let _ = config.add_capabilities(capability);
        }
        if let Some(passthrough) = &self.mounted.passthrough {
            passthrough.ask(config);
        }
        Ok(())
    }

    fn lookup(&self, _: &Asked, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.waiting.answer(&self.mounted, Request::Lookup(parent.0, name.into(), reply));
    }

    fn forget(&self, _: &Asked, inode: INodeNo, times: u64) {
        lock(&self.mounted.nodes).forget(inode.0, times);
    }

    fn getattr(&self, _: &Asked, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.mounted.attributes(inode.0) {
            Ok(attr) => reply.attr(&attributes_for(&attr), &attr),
            Err(why) => reply.error(why.error()),
        }
    }

    fn setattr(
        &self,
        _: &Asked,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (mode, handle) = (mode.map(permissions), handle.map(|handle| handle.0));
        let asked = Set { mode, uid, gid, size, accessed, modified, handle };
        self.mounted.set(inode.0, asked, reply);
    }

    fn readlink(&self, _: &Asked, inode: INodeNo, reply: ReplyData) {
        self.waiting.answer(&self.mounted, Request::ReadLink(inode.0, reply));
    }

    fn open(&self, _: &Asked, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.acc_mode() != OpenAccMode::O_RDONLY && inode.0 != PUBLISH {
            return self.waiting.answer(&self.mounted, Request::OpenWritten(inode.0, reply));
        }
        if let Some(writes) = self.mounted.writes.as_ref().filter(|_| self.mounted.draft(inode.0).is_some()) {
            return writes.ask(Change::Open { inode: inode.0, permit: Permit::Read, reply });
        }
        self.waiting.answer(&self.mounted, Request::Open(inode.0, reply));
    }

    fn read(
        &self,
        _: &Asked,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if let Some(request) = self.mounted.handles.request(handle.0) {
            return reply.data(&request.read(offset, bytes));
        }
        let Some(file) = self.mounted.handles.file(handle.0) else { return reply.error(Errno::EBADF) };
        self.mounted.reads.fetch_add(1, Relaxed);
        self.waiting.answer(&self.mounted, Request::Read(file, offset, bytes, reply));
    }

    fn release(
        &self,
        _: &Asked,
        inode: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.mounted.close(handle.0);
        if let Some(writes) = self.mounted.writes.as_ref().filter(|_| self.mounted.draft(inode.0).is_some()) {
            writes.ask(Change::Release { inode: inode.0 });
        }
        reply.ok();
    }

    fn mknod(&self, asked: &Asked, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: u32, reply: ReplyEntry) {
        // A site has no devices, sockets and FIFOs.
        if !matches!(mode & KIND_OF_MODE, 0 | REGULAR) {
            return reply.error(Errno::EPERM);
        }
        self.make(asked, parent, name, Made::File { mode: permissions(mode) }, reply);
    }

    fn mkdir(&self, asked: &Asked, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        self.make(asked, parent, name, Made::Directory { mode: permissions(mode) }, reply);
    }

    fn symlink(&self, asked: &Asked, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = Bytes::copy_from_slice(target.as_os_str().as_bytes());
        self.make(asked, parent, name, Made::Symlink(target), reply);
    }

    fn create(&self, asked: &Asked, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: i32, reply: ReplyCreate) {
        self.mounted.create(parent.0, name.to_owned(), permissions(mode), owner(asked), reply);
    }

    fn unlink(&self, _: &Asked, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(parent, name, false, reply);
    }

    fn rmdir(&self, _: &Asked, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(parent, name, true, reply);
    }

    fn rename(
        &self,
        _: &Asked,
        parent: INodeNo,
        name: &OsStr,
        to_parent: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((parent.0, name.to_owned()), (to_parent.0, to_name.to_owned()));
        match self.writes() {
            Ok(writes) => writes.ask(Change::Rename { from, to, flags, reply }),
            Err(error) => reply.error(error),
        }
    }

    fn link(&self, _: &Asked, inode: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (inode, directory, name) = (inode.0, parent.0, name.to_owned());
        match self.writes() {
            Ok(writes) => writes.ask(Change::Link { inode, directory, name, reply }),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Asked,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if let Some(request) = self.mounted.handles.request(handle.0) {
            return match self.writes().and_then(|writes| writes.begin(&request, bytes)) {
                Ok(()) => reply.written(bytes.len() as u32),
                Err(error) => reply.error(error),
            };
        }
        let answer = move |mounted: &Mounted, bytes: &[u8]| match mounted.write(handle.0, offset, bytes) {
            Ok(()) => reply.written(bytes.len() as u32),
            Err(error) => reply.error(error),
        };
        if !self.mounted.copies(handle.0) {
            return answer(&self.mounted, bytes);
        }
        let bytes = bytes.to_vec();
        self.mounted.copying(move |mounted| answer(mounted, &bytes));
    }

    fn flush(&self, asked: &Asked, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.mounted.close_draft(handle.0, asked.pid(), reply);
    }

    fn fsync(&self, _: &Asked, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if let Some(Err(error)) = self.mounted.draft(inode.0).map(|draft| draft.sync()) {
            return reply.error(error.into());
        }
        self.sync_changes(reply);
    }

    /// A change of a name that is published is durable when it is answered.
    fn fsyncdir(&self, _: &Asked, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync_changes(reply);
    }

    fn fallocate(
        &self,
        _: &Asked,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let Some(end) = offset.checked_add(length) else { return reply.error(Errno::EFBIG) };
        let change = move |mounted: &Mounted| match FallocateFlags::from_bits(mode as u32) {
            Some(flags) if flags.is_empty() => mounted.extend(handle.0, end),
            Some(flags) if flags == FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE => {
                mounted.clear(handle.0, offset..end)
            }
            _ => Err(Errno::EOPNOTSUPP),
        };
        let answer = move |mounted: &Mounted| match change(mounted) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        };
        if self.mounted.copies(handle.0) { self.mounted.copying(answer) } else { answer(&self.mounted) }
    }

    fn opendir(&self, _: &Asked, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.waiting.answer(&self.mounted, Request::OpenDirectory(inode.0, reply));
    }

    fn readdir(&self, _: &Asked, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let Some(directory) = self.mounted.handles.directory(handle.0) else { return reply.error(Errno::EBADF) };
        let dots = [(directory.inode, "."), (directory.above, "..")];
        for (place, (inode, name)) in (1..).zip(dots).skip(offset.min(FIRST) as usize) {
            if reply.add(INodeNo(inode), place, FileType::Directory, name) {
                return reply.ok();
            }
        }
        let nodes = lock(&self.mounted.nodes);
        for (place, listed) in (FIRST + 1..).zip(&directory.entries).skip(offset.saturating_sub(FIRST) as usize) {
            let (inode, kind, name) = match listed {
                Listed::Entry(name, entry) => {
                    let number = nodes.number(directory.inode, name, entry).unwrap_or(ROOT);
                    (number, attributes::kind(entry), OsStr::from_bytes(name.as_bytes()))
                }
                Listed::Special(name, inode, kind) => (*inode, *kind, name.as_os_str()),
                Listed::New(name, inode) => (*inode, FileType::RegularFile, OsStr::from_bytes(name.as_bytes())),
            };
            if reply.add(INodeNo(inode), place, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(&self, _: &Asked, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let Some(directory) = self.mounted.handles.directory(handle.0) else { return reply.error(Errno::EBADF) };
        let dots = [(directory.inode, "."), (directory.above, "..")];
        for (place, (inode, name)) in (1..).zip(dots).skip(offset.min(FIRST) as usize) {
            // The kernel takes no attributes of these.
            let attr = attributes::of_directory(inode, &self.mounted.top());
            if reply.add(INodeNo(inode), place, name, &Duration::ZERO, &attr, GENERATION) {
                return reply.ok();
            }
        }
        for (place, listed) in (FIRST + 1..).zip(&directory.entries).skip(offset.saturating_sub(FIRST) as usize) {
            let Some((ttl, attr)) = self.mounted.listed(&directory, listed) else { continue };
            let name = match listed {
                Listed::Entry(name, _) | Listed::New(name, _) => OsStr::from_bytes(name.as_bytes()),
                Listed::Special(name, ..) => name.as_os_str(),
            };
            if reply.add(attr.ino, place, name, &ttl, &attr, GENERATION) {
                // There was no room for it.
                lock(&self.mounted.nodes).forget(attr.ino.0, 1);
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Asked, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.mounted.close(handle.0);
        reply.ok();
    }

    /// As large as what is here, and full; one that can be written is as the disk for what is being written.
    fn statfs(&self, _: &Asked, _: INodeNo, reply: ReplyStatfs) {
        if let Some(room) = self.mounted.writes.as_ref().map(Writes::room) {
            return match room {
                Ok((block, all, free)) => reply.statfs(all, free, free, 0, 0, block, NAME_BYTES_MAX as u32, block),
                Err(error) => reply.error(error.into()),
            };
        }
        let blocks = self.mounted.origin.chunks().bytes.div_ceil(u64::from(BLOCK_BYTES));
        reply.statfs(blocks, 0, 0, 0, 0, BLOCK_BYTES, NAME_BYTES_MAX as u32, BLOCK_BYTES);
    }

    fn getxattr(&self, _: &Asked, inode: INodeNo, name: &OsStr, room: u32, reply: ReplyXattr) {
        let xattrs = self.mounted.xattrs(inode.0);
        match xattrs.iter().find(|(named, _)| named == name.as_bytes()) {
            Some((_, value)) => give_xattr(value, room, reply),
            None => reply.error(Errno::NO_XATTR),
        }
    }

    fn listxattr(&self, _: &Asked, inode: INodeNo, room: u32, reply: ReplyXattr) {
        let names = self.mounted.xattrs(inode.0).into_iter().flat_map(|(name, _)| [&name[..], &[0]].concat());
        give_xattr(&names.collect::<Vec<u8>>(), room, reply);
    }

    fn setxattr(&self, _: &Asked, inode: INodeNo, name: &OsStr, value: &[u8], flags: i32, _: u32, reply: ReplyEmpty) {
        self.set_xattr(inode, name, Some(Bytes::copy_from_slice(value)), flags, reply);
    }

    fn removexattr(&self, _: &Asked, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.set_xattr(inode, name, None, 0, reply);
    }
}

/// The user and group of the program that asks.
fn owner(asked: &Asked) -> (u32, u32) {
    (asked.uid(), asked.gid())
}

/// The permissions of a mode. The kernel has taken the mask off.
fn permissions(mode: u32) -> u16 {
    (mode & 0o7777) as u16
}

/// Answers with a value, or with its length where there is no room for it yet.
fn give_xattr(value: &[u8], room: u32, reply: ReplyXattr) {
    match room as usize {
        0 => reply.size(value.len() as u32),
        room if value.len() > room => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}
