//! The kernel's requests that may have to wait: for the newest revision, or for content that is not here.

use super::assembled::{Backing, ContentName};
use super::attributes;
use super::handles::{Handle, Listed, OpenContent, OpenDirectory, OpenFile};
use super::nodes::{NEWEST, PUBLISH, ROOT, STATUS, Top};
use super::private::OpenRequest;
use super::special;
use super::views::{Mounted, NoAnswer, Wait};
use crate::error::FilesError;
use crate::line::lock;
use bytes::Bytes;
use fuser::{Errno, FileAttr, FileHandle, FileType, FopenFlags, Generation, ReplyData, ReplyEntry, ReplyOpen};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tree::{BadName, ChunkHash, Content, Entry, Kind, Name, Tree};
use types::Time;

/// The attributes of files never change, as an inode has one content. Those of directories may.
const OF_FILES_FOR: Duration = Duration::from_secs(24 * 3600);
const OF_DIRECTORIES_FOR: Duration = Duration::from_secs(1);

/// An inode has one content for ever, so its number is not used again for another one.
pub(super) const GENERATION: Generation = Generation(0);

/// A request that may have to wait.
#[derive(Debug)]
pub(super) enum Request {
    Lookup(u64, Box<OsStr>, ReplyEntry),
    Open(u64, ReplyOpen),
    OpenWritten(u64, ReplyOpen),
    OpenDirectory(u64, ReplyOpen),
    ReadLink(u64, ReplyData),
    Read(Arc<OpenFile>, u64, u32, ReplyData),
}

/// The reason why a request has to wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum Awaits {
    /// The newest revision, since then.
    Newest(Time),
    /// Content.
    Content(ChunkHash),
}

impl Request {
    /// Answers the request, or returns it if it has to wait.
    pub(super) fn answer(self, mounted: &Arc<Mounted>, wait: Wait) -> Option<(Self, Awaits)> {
        let no_answer = match self {
            Self::Lookup(directory, name, reply) => match mounted.lookup(directory, &name, wait) {
                Ok((ttl, attr)) => {
                    reply.entry_with_ttls(&attributes_for(&attr), &ttl, &attr, GENERATION);
                    return None;
                }
                Err(why) => (Self::Lookup(directory, name, reply), why),
            },
            Self::Open(inode, reply) => match mounted.open(inode, wait, &reply) {
                Ok(opened) => {
                    opened.answer(reply);
                    return None;
                }
                Err(why) => (Self::Open(inode, reply), why),
            },
            Self::OpenWritten(inode, reply) => {
                // Other errors are those of the open.
                let Err(why @ NoAnswer::Elsewhere(_)) = mounted.see_pieces(inode) else {
                    mounted.open_written(inode, reply);
                    return None;
                };
                (Self::OpenWritten(inode, reply), why)
            }
            Self::OpenDirectory(inode, reply) => match mounted.open_directory(inode, wait) {
                Ok(handle) => {
                    reply.opened(FileHandle(handle), FopenFlags::empty());
                    return None;
                }
                Err(why) => (Self::OpenDirectory(inode, reply), why),
            },
            Self::ReadLink(inode, reply) => match mounted.target(inode, wait) {
                Ok(target) => {
                    reply.data(&target);
                    return None;
                }
                Err(why) => (Self::ReadLink(inode, reply), why),
            },
            Self::Read(file, offset, bytes, reply) => match mounted.read(&file, offset, bytes) {
                Ok(read) => {
                    reply.data(&read);
                    return None;
                }
                Err(why) => (Self::Read(file, offset, bytes, reply), why),
            },
        };
        match no_answer {
            (request, NoAnswer::Later(since)) => Some((request, Awaits::Newest(since))),
            (request, NoAnswer::Elsewhere(hash)) => Some((request, Awaits::Content(hash))),
            (request, NoAnswer::Error(error)) => {
                request.refuse(error);
                None
            }
        }
    }

    /// Answers the request with an error.
    pub(super) fn refuse(self, error: Errno) {
        match self {
            Self::Lookup(.., reply) => reply.error(error),
            Self::Open(_, reply) | Self::OpenWritten(_, reply) | Self::OpenDirectory(_, reply) => reply.error(error),
            Self::ReadLink(_, reply) | Self::Read(.., reply) => reply.error(error),
        }
    }
}

/// How long the kernel may know attributes without a question.
pub(super) fn attributes_for(attr: &FileAttr) -> Duration {
    match attr.ino.0 {
        STATUS | NEWEST | PUBLISH => Duration::ZERO,
        _ if attr.kind == FileType::Directory => OF_DIRECTORIES_FOR,
        _ => OF_FILES_FOR,
    }
}

/// A file that was opened.
struct Opened {
    handle: u64,
    flags: FopenFlags,
    /// The file that the kernel reads for it.
    backing: Option<Arc<Backing>>,
}

impl Opened {
    fn answer(self, reply: ReplyOpen) {
        let handle = FileHandle(self.handle);
        match self.backing {
            Some(backing) => reply.opened_passthrough(handle, self.flags, &backing.id),
            None => reply.opened(handle, self.flags),
        }
    }
}

impl Mounted {
    /// A name in a directory: for how long the kernel may know it, and its attributes, or those of no inode.
    fn lookup(&self, directory: u64, name: &OsStr, wait: Wait) -> Result<(Duration, FileAttr), NoAnswer> {
        if special::is_special(directory) {
            return Ok((Duration::ZERO, self.special(directory, name.as_bytes())?));
        }
        let name = Name::new(name.as_bytes()).map_err(|why| match why {
            BadName::TooLong => NoAnswer::Error(Errno::ENAMETOOLONG),
            BadName::Empty | BadName::Dots | BadName::Separator => NoAnswer::NOT_FOUND,
        })?;
        // A draft leaves its place once a revision has the file, so it is looked for before the revision is.
        let draft = self.new_at(directory, &name);
        let (directory_in, top) = self.directory(directory, wait)?;
        let revision = directory_in.revision;
        if let Some(draft) = draft {
            lock(&self.nodes).given_again(draft.inode);
            return Ok((self.known_for(revision, top), self.attributes(draft.inode)?));
        }
        let Some(entry) = self.entry(directory_in, &name)? else {
            if directory == ROOT && special::is_name(&name) {
                return Ok((Duration::ZERO, self.special(directory, name.as_bytes())?));
            }
            let nothing = attributes::of_special(0, FileType::RegularFile, 0, &self.top());
            return Ok((self.known_for(revision, top), nothing));
        };
        let inode = lock(&self.nodes).enter(revision.number, directory, name, entry.clone());
        let inode = inode.ok_or(NoAnswer::STALE)?;
        Ok((self.known_for(revision, top), self.attributes_of(inode, &entry)))
    }

    fn target(&self, inode: u64, wait: Wait) -> Result<Bytes, NoAnswer> {
        if inode == NEWEST {
            return Ok(self.newest_link(wait)?.into());
        }
        match self.last_entry(inode)?.kind {
            Kind::Symlink(target) => Ok(target),
            Kind::File { .. } | Kind::Directory(_) => Err(NoAnswer::Error(Errno::EINVAL)),
        }
    }

    /// Opens a file (rule SessionKeepsView).
    fn open(&self, inode: u64, wait: Wait, reply: &ReplyOpen) -> Result<Opened, NoAnswer> {
        self.opens.fetch_add(1, Relaxed);
        if inode == STATUS {
            let status = self.status()?;
            let file = OpenFile::new(inode, status.len() as u64, OpenContent::Bytes(status), None, false);
            let handle = self.handles.add(Handle::File(Arc::new(file)));
            return Ok(Opened { handle, flags: FopenFlags::FOPEN_DIRECT_IO, backing: None });
        }
        if inode == PUBLISH {
            let handle = self.handles.add(Handle::Request(OpenRequest::new()));
            return Ok(Opened { handle, flags: FopenFlags::FOPEN_DIRECT_IO, backing: None });
        }
        let (file, _, entry) = self.open_file(inode, wait)?;
        let file = Arc::new(file);
        let backing = self.new_backing(&file, &entry, reply);
        let (handle, backing) = self.handles.add_file(file, backing);
        if self.writes.is_some() && self.last_entry(inode).ok().as_ref() != Some(&entry) {
            // It was written and published in between.
            self.close(handle);
            return Err(NoAnswer::STALE);
        }
        // There is nothing to write at a close.
        let mut flags = FopenFlags::FOPEN_NOFLUSH;
        if backing.is_some() {
            if let Some(passthrough) = &self.passthrough {
                passthrough.opened();
            }
        } else {
            // The kernel's copy of an inode's content is never wrong.
            flags |= FopenFlags::FOPEN_KEEP_CACHE;
        }
        Ok(Opened { handle, flags, backing })
    }

    /// A backing for an inode that has none.
    fn new_backing(&self, file: &Arc<OpenFile>, entry: &Entry, reply: &ReplyOpen) -> Option<Backing> {
        let passthrough = self.passthrough.as_ref().filter(|_| !self.handles.has_backing(file.inode))?;
        passthrough.backing(ContentName::of(&entry.kind)?, file, reply)
    }

    /// Begins a session with a file.
    pub(super) fn open_file(&self, inode: u64, wait: Wait) -> Result<(OpenFile, Top, Entry), NoAnswer> {
        let (revision, top, entry) = self.found(inode, wait)?;
        let Kind::File { size, content, .. } = entry.kind.clone() else { return Err(NoAnswer::Error(Errno::EISDIR)) };
        self.origin.begin(revision.number).ok_or(NoAnswer::STALE)?;
        let content = self.open_content(size, content).inspect_err(|_| self.origin.end(revision.number))?;
        Ok((OpenFile::new(inode, size, content, Some(revision.number), top == Top::Newest), top, entry))
    }

    /// Reads the list of a file's pieces, so that an open soon after finds it in memory.
    fn see_pieces(&self, inode: u64) -> Result<(), NoAnswer> {
        let (_, _, entry) = self.found(inode, Wait { since: None, is_over: true })?;
        let Kind::File { size, content, .. } = entry.kind else { return Ok(()) };
        self.open_content(size, content).map(drop)
    }

    fn open_content(&self, size: u64, content: Content) -> Result<OpenContent, NoAnswer> {
        if let Content::Inline(bytes) = content {
            return Ok(OpenContent::Bytes(bytes));
        }
        let mut behind = 0;
        let pieces = self.reader().pieces(size, &content).map_err(|not_read| self.failed(not_read))?;
        let placed = pieces.into_iter().map(|piece| {
            behind += u64::from(piece.bytes);
            (behind, piece)
        });
        Ok(OpenContent::Pieces(placed.collect()))
    }

    /// Opens a directory: it is listed now.
    fn open_directory(&self, inode: u64, wait: Wait) -> Result<u64, NoAnswer> {
        if special::is_special(inode) {
            let (entries, above) = (self.list_special(inode)?, Self::above_special(inode));
            let directory = OpenDirectory { inode, above, listed_in: None, entries, session: None };
            return Ok(self.handles.add(Handle::Directory(Arc::new(directory))));
        }
        // Drafts before the revision, as in a lookup.
        let mut new: Vec<_> = self.writes.iter().flat_map(|writes| writes.new_in(inode)).collect();
        let (directory_in, top) = self.directory(inode, wait)?;
        self.check_fresh(directory_in)?;
        let number = directory_in.revision.number;
        // One of an older revision may be read from by its path.
        let session = (top != Top::Newest).then_some(number);
        if session.is_some() {
            self.origin.begin(number).ok_or(NoAnswer::STALE)?;
        }
        let listed = Tree::new(self.origin.source(), directory_in.revision.root).entries(directory_in.node);
        let listed = listed.map_err(|error| self.failed(FilesError::from(error).into()));
        let listed = listed.inspect_err(|_| session.into_iter().for_each(|number| self.origin.end(number)))?;
        new.retain(|(name, _)| listed.binary_search_by(|(other, _)| other.cmp(name)).is_err());
        let new = new.into_iter().map(|(name, inode)| Listed::New(name, inode));
        let entries = listed.into_iter().map(|(name, entry)| Listed::Entry(name, entry)).chain(new).collect();
        let above = lock(&self.nodes).above(inode);
        let listed_in = Some((directory_in.revision, top));
        let directory = OpenDirectory { inode, above, listed_in, entries, session };
        Ok(self.handles.add(Handle::Directory(Arc::new(directory))))
    }
}
