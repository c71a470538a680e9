//! Open files and directories.
//!
//! The kernel reads an inode in one way at a time: all of its handles are cached, or all have the same backing. It
//! counts a handle from the answer to the open until it sends the release. Here a handle counts from before the answer
//! until that release, so an inode without handles here has none there. The kernel releases each handle that was
//! answered, even if the program which opened it was killed in between.

use super::assembled::Backing;
use super::nodes::Top;
use super::private::OpenRequest;
use crate::line::lock;
use bytes::Bytes;
use fuser::FileType;
use spread::{Number, Revision};
use std::collections::HashMap;
use std::collections::hash_map;
use std::ffi::OsString;
use std::sync::{Arc, Mutex};
use tree::{Entry, Name, Piece};

/// The handles that the kernel has.
#[derive(Debug, Default)]
pub(super) struct Handles(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    last: u64,
    open: HashMap<u64, Handle>,
    files: HashMap<u64, OpenInode>,
}

/// The handles of an inode that is a file.
#[derive(Debug, Default)]
struct OpenInode {
    handles: u64,
    /// The file that the kernel reads for them, if it is not to ask.
    backing: Option<Arc<Backing>>,
}

/// An open file or directory.
#[derive(Clone, Debug)]
pub(super) enum Handle {
    File(Arc<OpenFile>),
    Directory(Arc<OpenDirectory>),
    /// `.thorp/publish`.
    Request(Arc<OpenRequest>),
}

/// An open file.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) inode: u64,
    pub(super) size: u64,
    pub(super) content: OpenContent,
    /// Whether it was opened to be written, so that its close publishes it.
    pub(super) is_written: bool,
    /// Whether it is a file of the newest revision, and not of one below `.thorp/at`.
    follows: bool,
    /// The revision that is kept while the file is open: the last one that was seen to have it.
    session: Mutex<Option<Number>>,
}

/// The content of an open file.
#[derive(Debug)]
pub(super) enum OpenContent {
    Bytes(Bytes),
    /// Chunks, each with the place in the file behind it.
    Pieces(Vec<(u64, Piece)>),
}

/// An open directory, listed when it was opened.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    pub(super) inode: u64,
    pub(super) above: u64,
    /// The revision that has its entries, if one has.
    pub(super) listed_in: Option<(Revision, Top)>,
    pub(super) entries: Vec<Listed>,
    /// The revision that is kept while the directory is open.
    pub(super) session: Option<Number>,
}

/// An entry of an open directory.
#[derive(Debug)]
pub(super) enum Listed {
    Entry(Name, Entry),
    Special(OsString, u64, FileType),
    /// A file that no revision has.
    New(Name, u64),
}

impl OpenFile {
    pub(super) fn new(inode: u64, size: u64, content: OpenContent, session: Option<Number>, follows: bool) -> Self {
        Self { inode, size, content, is_written: false, follows, session: Mutex::new(session) }
    }

    /// The file, opened to be written.
    pub(super) fn written(self) -> Self {
        Self { is_written: true, ..self }
    }

    /// The revision that is kept for it.
    pub(super) fn session(&self) -> Option<Number> {
        *lock(&self.session)
    }

    /// Ends its session, and returns the revision that was kept for it.
    fn close(&self) -> Option<Number> {
        lock(&self.session).take()
    }

    /// Moves its session from a revision to a newer one that has the same file. Returns whether there was such a
    /// session.
    pub(super) fn moved(&self, from: Number, to: Number) -> bool {
        let mut session = lock(&self.session);
        let is_of_it = self.follows && *session == Some(from);
        if is_of_it {
            *session = Some(to);
        }
        is_of_it
    }

    /// The parts of the content at an offset: what is there of `bytes` bytes.
    pub(super) fn pieces_at(pieces: &[(u64, Piece)], offset: u64, end: u64) -> impl Iterator<Item = (u64, &Piece)> {
        let first = pieces.partition_point(|(behind, _)| *behind <= offset);
        let begin = |(behind, piece): &(u64, Piece)| behind - u64::from(piece.bytes);
        pieces[first..].iter().map(move |it| (begin(it), &it.1)).take_while(move |(begin, _)| *begin < end)
    }
}

impl Handles {
    /// Opens something, and returns its number.
    pub(super) fn add(&self, handle: Handle) -> u64 {
        lock(&self.0).add(handle, None).0
    }

    /// Opens a file, and returns its number and the backing of its inode. `backing` is for an inode without handles.
    pub(super) fn add_file(&self, file: Arc<OpenFile>, backing: Option<Backing>) -> (u64, Option<Arc<Backing>>) {
        let backing = backing.map(Arc::new);
        // A backing that was not taken is dropped here, without the lock.
        lock(&self.0).add(Handle::File(file), backing.as_ref())
    }

    /// Whether the kernel reads the open handles of an inode by itself.
    pub(super) fn has_backing(&self, inode: u64) -> bool {
        lock(&self.0).files.get(&inode).is_some_and(|file| file.backing.is_some())
    }

    pub(super) fn file(&self, number: u64) -> Option<Arc<OpenFile>> {
        match lock(&self.0).open.get(&number) {
            Some(Handle::File(file)) => Some(file.clone()),
            _ => None,
        }
    }

    pub(super) fn directory(&self, number: u64) -> Option<Arc<OpenDirectory>> {
        match lock(&self.0).open.get(&number) {
            Some(Handle::Directory(directory)) => Some(directory.clone()),
            _ => None,
        }
    }

    pub(super) fn request(&self, number: u64) -> Option<Arc<OpenRequest>> {
        match lock(&self.0).open.get(&number) {
            Some(Handle::Request(request)) => Some(request.clone()),
            _ => None,
        }
    }

    /// Closes something, and returns the revision that was kept for it.
    pub(super) fn remove(&self, number: u64) -> Option<Number> {
        // The last handle of an inode drops its backing, without the lock.
        let (handle, _backing) = lock(&self.0).remove(number)?;
        match handle {
            Handle::File(file) => file.close(),
            Handle::Directory(directory) => directory.session,
            Handle::Request(request) => {
                request.close();
                None
            }
        }
    }

    /// The open files.
    pub(super) fn files(&self) -> Vec<Arc<OpenFile>> {
        let file = |handle: &Handle| match handle {
            Handle::File(file) => Some(file.clone()),
            Handle::Directory(_) | Handle::Request(_) => None,
        };
        lock(&self.0).open.values().filter_map(file).collect()
    }

    /// Whether a file is open.
    pub(super) fn has(&self, inode: u64) -> bool {
        lock(&self.0).files.contains_key(&inode)
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.0).open.len()
    }
}

impl Table {
    fn add(&mut self, handle: Handle, backing: Option<&Arc<Backing>>) -> (u64, Option<Arc<Backing>>) {
        self.last += 1;
        let taken = match &handle {
            Handle::File(file) => {
                let new = || OpenInode { handles: 0, backing: backing.cloned() };
                let open = self.files.entry(file.inode).or_insert_with(new);
                open.handles += 1;
                open.backing.clone()
            }
            Handle::Directory(_) | Handle::Request(_) => None,
        };
        self.open.insert(self.last, handle);
        (self.last, taken)
    }

    fn remove(&mut self, number: u64) -> Option<(Handle, Option<Arc<Backing>>)> {
        let handle = self.open.remove(&number)?;
        let Handle::File(file) = &handle else { return Some((handle, None)) };
        let hash_map::Entry::Occupied(mut open) = self.files.entry(file.inode) else { return Some((handle, None)) };
        open.get_mut().handles -= 1;
        let backing = if open.get().handles == 0 { open.remove().backing } else { None };
        Some((handle, backing))
    }
}
