//! The form in which blocks go home: pieces, each block once.

use crate::extents::{BLOCK, Blocks};
use bytes::Bytes;
use std::io;
use vfs::{File, FileError};

/// The most bytes of a [`Piece`].
pub(crate) const PIECE_BYTES_MAX: usize = 1 << 20;

/// A part of what is written home.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    /// Whole blocks from this one on.
    Bytes(u32, Bytes),
    /// Zeros, which take no room if `is_hole`.
    Zeros {
        /// Where.
        blocks: Blocks,
        /// Whether the range may become a hole.
        is_hole: bool,
    },
}

impl Piece {
    /// Its blocks.
    pub(crate) fn blocks(&self) -> Blocks {
        match self {
            Self::Bytes(first, bytes) => *first..*first + (bytes.len() / BLOCK) as u32,
            Self::Zeros { blocks, .. } => blocks.clone(),
        }
    }
}

/// Returns what should be written home piece by piece, each block once.
pub(crate) type Pieces<'a> = &'a mut dyn FnMut(&mut dyn FnMut(Piece) -> Result<(), FileError>) -> Result<(), FileError>;

/// Writes a piece to its place.
pub(crate) fn put(file: &dyn File, piece: &Piece) -> io::Result<()> {
    let at = |block: u32| u64::from(block) * BLOCK as u64;
    match piece {
        Piece::Bytes(first, bytes) => file.write_at(at(*first), bytes),
        Piece::Zeros { blocks, is_hole } => file.zero(at(blocks.start), at(blocks.end) - at(blocks.start), *is_hole),
    }
}
