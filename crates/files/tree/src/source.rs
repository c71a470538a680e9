//! The places where chunks come from and go to, and the errors of reading a tree.

use crate::hash::ChunkHash;
use alloc::collections::BTreeSet;
use bytes::Bytes;
use core::cell::Cell;
use core::fmt;

/// Chunks by their names. A source verifies what it returns.
pub trait Source {
    /// The reason why a chunk cannot be read.
    type Error;

    /// The bytes of a chunk.
    ///
    /// # Errors
    /// A chunk that is missing or damaged, or a source that does not answer.
    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, Self::Error>;

    /// The bytes of a chunk, unless they are far away.
    ///
    /// # Errors
    /// As of [`Source::chunk`].
    fn chunk_at_hand(&self, hash: &ChunkHash) -> Result<Option<Bytes>, Self::Error> {
        self.chunk(hash).map(Some)
    }
}

impl<S: Source + ?Sized> Source for &S {
    type Error = S::Error;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, S::Error> {
        (**self).chunk(hash)
    }

    fn chunk_at_hand(&self, hash: &ChunkHash) -> Result<Option<Bytes>, S::Error> {
        (**self).chunk_at_hand(hash)
    }
}

/// A source that counts the chunks that are read.
pub(crate) struct Counted<'a, S> {
    source: &'a S,
    reads: Cell<usize>,
}

impl<'a, S> Counted<'a, S> {
    pub(crate) fn new(source: &'a S) -> Self {
        Self { source, reads: Cell::new(0) }
    }

    /// The chunks that were read so far.
    pub(crate) fn reads(&self) -> usize {
        self.reads.get()
    }
}

impl<S: Source> Source for Counted<'_, S> {
    type Error = S::Error;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, S::Error> {
        self.reads.set(self.reads.get() + 1);
        self.source.chunk(hash)
    }
}

/// A receiver of new chunks.
pub trait Sink {
    /// The reason why a chunk cannot be kept.
    type Error;

    /// Takes a chunk.
    ///
    /// # Errors
    /// A sink without room.
    fn add(&mut self, hash: ChunkHash, bytes: Bytes) -> Result<(), Self::Error>;
}

/// A sink for the nodes of a changed directory that drops those it had before.
pub(crate) struct NewNodes<'a, K> {
    pub(crate) nodes: &'a BTreeSet<ChunkHash>,
    pub(crate) sink: &'a mut K,
}

impl<K: Sink> Sink for NewNodes<'_, K> {
    type Error = K::Error;

    fn add(&mut self, hash: ChunkHash, bytes: Bytes) -> Result<(), K::Error> {
        if self.nodes.contains(&hash) { Ok(()) } else { self.sink.add(hash, bytes) }
    }
}

/// The reason why a tree cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadError<E> {
    /// The source of chunks failed.
    Source(E),
    /// A chunk that matches its name, and cannot be a node of a tree.
    Malformed(ChunkHash, Malformed),
}

/// The defect of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub(crate) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl<E: fmt::Display> fmt::Display for ReadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(error) => write!(f, "{error}"),
            Self::Malformed(hash, why) => write!(f, "chunk {hash} cannot be a node of a tree: {why}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for ReadError<E> {}
