//! A record as users give and get it.

use crate::area::{Extent, ReadError};
use crate::format::Label;
use crate::writer::Writing;
use bytes::Bytes;
use std::sync::Arc;

/// A record without what it is found by.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its key; at most 65,535 bytes.
    pub key: Bytes,
    /// The bytes that its user keeps beside its content.
    pub head: Bytes,
    /// Its content.
    pub content: Source,
    /// Whether it is of use after a start, without its claim.
    pub is_lasting: bool,
}

impl Record {
    pub(crate) fn writing(&self, label: Label) -> Writing<'_> {
        let Self { key, head, content, is_lasting } = self;
        Writing { label, is_lasting: *is_lasting, key, head, content_bytes: content.bytes() }
    }

    /// The memory that it takes.
    pub(crate) fn memory(&self) -> u64 {
        let content = if let Source::Memory(pieces) = &self.content { bytes_of(pieces) } else { 0 };
        (self.key.len() + self.head.len()) as u64 + content
    }
}

/// A content, where it is.
#[derive(Clone, Debug)]
pub enum Source {
    /// In pieces.
    Memory(Vec<Bytes>),
    /// In a record.
    Disk(Arc<Extent>),
}

impl Source {
    /// Its size.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Memory(pieces) => bytes_of(pieces),
            Self::Disk(extent) => extent.bytes(),
        }
    }

    /// All of it, piece by piece. It may wait for the disk.
    pub fn read_all(&self) -> Box<dyn Iterator<Item = Result<Bytes, ReadError>> + '_> {
        match self {
            Self::Memory(pieces) => Box::new(pieces.iter().cloned().map(Ok)),
            Self::Disk(extent) => Box::new(extent.read_all()),
        }
    }
}

fn bytes_of(pieces: &[Bytes]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

/// A record that was read, but for a large content.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Its key, which should be compared: another may have the same hash.
    pub key: Bytes,
    /// The bytes that its user keeps beside its content.
    pub head: Bytes,
    /// Its content.
    pub content: Source,
}
