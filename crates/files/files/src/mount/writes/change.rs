//! The changes that the kernel asks for.

use super::draft::Snapshot;
use crate::error::FilesError;
use crate::locks::Lock;
use bytes::Bytes;
use fuser::{RenameFlags, ReplyAttr, ReplyCreate, ReplyEmpty, ReplyEntry, ReplyOpen, TimeOrNow};
use std::ffi::OsString;

/// A change, with its answer.
#[derive(Debug)]
pub(in crate::mount) enum Change {
    /// A directory, link or empty file is made.
    Make { directory: u64, name: OsString, made: Made, owner: Owner, reply: ReplyEntry },
    /// A file is made, and opened.
    Create { directory: u64, name: OsString, mode: u16, owner: Owner, permit: Permit, reply: ReplyCreate },
    /// A name is removed.
    Remove { directory: u64, name: OsString, is_directory: bool, reply: ReplyEmpty },
    /// A name is moved to another place, or the two are exchanged.
    Rename { from: (u64, OsString), to: (u64, OsString), flags: RenameFlags, reply: ReplyEmpty },
    /// A file gets one more name.
    Link { inode: u64, directory: u64, name: OsString, reply: ReplyEntry },
    /// Attributes or the size of an inode are set.
    Set { inode: u64, asked: Asked, reply: ReplyAttr },
    /// An extended attribute is set or, without a value, removed.
    Xattr { inode: u64, name: OsString, value: Option<Bytes>, flags: i32, reply: ReplyEmpty },
    /// A file is opened to be written, or one that is being written is opened to be read.
    Open { inode: u64, permit: Permit, reply: ReplyOpen },
    /// A file was closed, with its content as it was then in the store.
    Close { inode: u64, content: Result<Snapshot, FilesError>, reply: ReplyEmpty },
    /// A file is open nowhere, if it was not opened again.
    Release { inode: u64 },
    /// The mount is over.
    End,
}

/// The permission to open a file.
#[derive(Debug)]
pub(in crate::mount) enum Permit {
    /// To read it.
    Read,
    /// To write it, under this lock of its path.
    Locked(Lock),
    /// To write it. This mount has its path locked for an earlier open.
    Held,
    /// To write it without a lock, as this mount has too many: it is only compared when it is published.
    Unlocked,
}

/// The kinds of new entries.
#[derive(Clone, Debug)]
pub(in crate::mount) enum Made {
    Directory { mode: u16 },
    File { mode: u16 },
    Symlink(Bytes),
}

/// The user and group of a program.
pub(in crate::mount) type Owner = (u32, u32);

/// The attributes of an inode that are set, and its size.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::mount) struct Asked {
    pub(in crate::mount) mode: Option<u16>,
    pub(in crate::mount) uid: Option<u32>,
    pub(in crate::mount) gid: Option<u32>,
    pub(in crate::mount) size: Option<u64>,
    pub(in crate::mount) accessed: Option<TimeOrNow>,
    pub(in crate::mount) modified: Option<TimeOrNow>,
    /// The handle by which it was asked.
    pub(in crate::mount) handle: Option<u64>,
}
