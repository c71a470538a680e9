//! Entries of a directory: files, directories and symbolic links, with the attributes that POSIX gives them.

use crate::hash::ChunkHash;
use alloc::vec::Vec;
use bytes::Bytes;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file, directory or link itself.
    pub kind: Kind,
    /// Permissions, owner, time and extended attributes.
    pub attributes: Attributes,
}

/// The kinds of entries. There are no devices, sockets and FIFOs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File {
        /// The size, in bytes.
        size: u64,
        /// The content.
        content: Content,
        /// A number that all hard links to the file share in this tree; 0 for a file with one name.
        link: u64,
    },
    /// A directory, by the hash of its node.
    Directory(ChunkHash),
    /// A symbolic link, by its target.
    Symlink(Bytes),
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// At most 512 bytes, in the entry itself.
    Inline(Bytes),
    /// Chunks, one behind the other.
    Pieces(Vec<Piece>),
    /// Chunks that are lists of pieces, in their order.
    Lists(Vec<ChunkHash>),
}

/// A part of a file's content that is one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The name of the chunk.
    pub hash: ChunkHash,
    /// The length, in bytes.
    pub bytes: u32,
}

/// The attributes of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The permissions: the lower twelve bits of `st_mode`.
    pub mode: u16,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The time of the last change of the content.
    pub modified: Time,
    /// Names and values of extended attributes, sorted by name.
    pub xattrs: Vec<(Bytes, Bytes)>,
}

/// A time since 1970, as file systems have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanoseconds: u32,
}

impl Entry {
    /// Whether another entry has the same content and attributes, but for its time.
    pub fn is_same_but_for_time(&self, other: &Self) -> bool {
        let timeless = |it: &Attributes| Attributes { modified: Time::default(), ..it.clone() };
        self.kind == other.kind && timeless(&self.attributes) == timeless(&other.attributes)
    }

    /// The directory's node, if the entry is a directory.
    pub fn directory(&self) -> Option<ChunkHash> {
        match self.kind {
            Kind::Directory(hash) => Some(hash),
            Kind::File { .. } | Kind::Symlink(_) => None,
        }
    }
}
