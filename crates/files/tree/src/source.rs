//! The places where chunks come from and go to, and the errors of reading a tree.

use crate::hash::ChunkHash;
use bytes::Bytes;
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
}

impl<S: Source + ?Sized> Source for &S {
    type Error = S::Error;

    fn chunk(&self, hash: &ChunkHash) -> Result<Bytes, S::Error> {
        (**self).chunk(hash)
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
