//! The kernel's requests, and their answers.

use super::attributes;
use super::handles::{Listed, OpenContent, OpenDirectory, OpenFile};
use super::nodes::{Place, ROOT};
use super::requests::{GENERATION, Request, attributes_for};
use super::special;
use super::views::{Mounted, NoAnswer, Wait};
use super::waiting::Waiting;
use crate::line::lock;
use crate::origin::NotRead;
use bytes::Bytes;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, INodeNo, InitFlags, KernelConfig, LockOwner, OpenAccMode,
    OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyXattr, Request as Asked,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tree::limits::NAME_BYTES_MAX;

/// The block of `statfs`.
const BLOCK_BYTES: u32 = 4096;

/// The things that the kernel may do by itself. It does not keep the targets of links, as `.thorp/newest` changes.
const CAPABILITIES: [InitFlags; 2] = [InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_DO_READDIRPLUS];

impl Mounted {
    fn attributes(&self, inode: u64) -> Result<FileAttr, NoAnswer> {
        if inode == ROOT {
            return Ok(attributes::of_directory(inode, &self.top));
        }
        if special::is_special(inode) {
            return self.special_attributes(inode);
        }
        let place = lock(&self.nodes).get(inode).map(|node| node.place.clone()).ok_or(NoAnswer::STALE)?;
        let Place::In { directory, name, entry } = place else {
            return Ok(attributes::of_directory(inode, &self.top));
        };
        if entry.directory().is_none() {
            return Ok(attributes::of_entry(inode, &entry));
        }
        // A directory is one inode in all revisions. Its attributes are asked for again within a second, and no waiting
        // for the newest revision is worth them.
        let (directory_in, _) = self.directory(directory, Wait { since: None, is_over: true })?;
        let entry = self.entry(directory_in, &name)?.filter(|entry| entry.directory().is_some());
        Ok(attributes::of_entry(inode, &entry.ok_or(NoAnswer::STALE)?))
    }

    /// Reads an open file: fewer bytes only at its end.
    fn read(&self, file: &OpenFile, offset: u64, bytes: u32) -> Result<Bytes, NoAnswer> {
        self.reads.fetch_add(1, Relaxed);
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
            Ok(whole.slice(within(offset)..within(end)))
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
                let mut nodes = lock(&self.nodes);
                let inode = nodes.enter(revision.number, directory.inode, name.clone(), entry.clone())?;
                Some((self.known_for(revision, top), attributes::of_entry(inode, entry)))
            }
            Listed::Special(name, ..) => Some((Duration::ZERO, self.special(directory.inode, name.as_bytes()).ok()?)),
        }
    }

    fn xattrs(&self, inode: u64) -> Vec<(Bytes, Bytes)> {
        self.last_entry(inode).map(|entry| entry.attributes.xattrs).unwrap_or_default()
    }

    fn close(&self, handle: FileHandle) {
        if let Some(number) = self.handles.remove(handle.0) {
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

impl Filesystem for Kernel {
    fn init(&mut self, _: &Asked, config: &mut KernelConfig) -> io::Result<()> {
        for capability in CAPABILITIES {
            // An older kernel does without it.
            let _ = config.add_capabilities(capability);
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

    fn readlink(&self, _: &Asked, inode: INodeNo, reply: ReplyData) {
        self.waiting.answer(&self.mounted, Request::ReadLink(inode.0, reply));
    }

    fn open(&self, _: &Asked, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
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
        let Some(file) = self.mounted.handles.file(handle.0) else { return reply.error(Errno::EBADF) };
        match self.mounted.read(&file, offset, bytes) {
            Ok(bytes) => reply.data(&bytes),
            Err(why) => reply.error(why.error()),
        }
    }

    fn release(
        &self,
        _: &Asked,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.mounted.close(handle);
        reply.ok();
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
            let attr = attributes::of_directory(inode, &self.mounted.top);
            if reply.add(INodeNo(inode), place, name, &Duration::ZERO, &attr, GENERATION) {
                return reply.ok();
            }
        }
        for (place, listed) in (FIRST + 1..).zip(&directory.entries).skip(offset.saturating_sub(FIRST) as usize) {
            let Some((ttl, attr)) = self.mounted.listed(&directory, listed) else { continue };
            let name = match listed {
                Listed::Entry(name, _) => OsStr::from_bytes(name.as_bytes()),
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
        self.mounted.close(handle);
        reply.ok();
    }

    /// As large as what is here, and full.
    fn statfs(&self, _: &Asked, _: INodeNo, reply: ReplyStatfs) {
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
}

/// Answers with a value, or with its length where there is no room for it yet.
fn give_xattr(value: &[u8], room: u32, reply: ReplyXattr) {
    match room as usize {
        0 => reply.size(value.len() as u32),
        room if value.len() > room => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}
