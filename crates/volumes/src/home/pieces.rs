//! The form in which blocks go home: pieces, each block once.

use crate::extents::Blocks;
use bytes::Bytes;
use vfs::FileError;

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

/// Gives what is to be written home piece by piece, each block once.
pub(crate) type Pieces<'a> = &'a mut dyn FnMut(&mut dyn FnMut(Piece) -> Result<(), FileError>) -> Result<(), FileError>;
