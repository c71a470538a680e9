//! The home of a volume: a raw file or a block device, with small files beside it. Nothing in it is Thorp's: detached,
//! it is what any other program takes for a disk.
//!
//! ```text
//!   disk.img            the volume, byte for byte
//!   disk.img.thorp      which volume this is, its epoch, and the cache that has what is not here
//!   disk.img.mark       through which write of that cache all is here (`mark.rs`)
//!   disk.img.journal    the writes of joined flush epochs, before they are installed
//!   disk.img.sums       a checksum for each block (`sums.rs`); none beside a device
//!   disk.img.beside     where these are, if they are in another directory
//! ```
//! 1. Writes of one flush epoch go to their places and are synced: a crash leaves some of them, as it would on a disk.
//! 2. Joined flush epochs, in which a later write may have taken the place of an earlier one, are installed whole or
//!    not at all: they are durable in the journal before the first of them goes to its place, and a start installs them
//!    again.

mod at;
mod beside;
mod check;
mod checked;
mod error;
mod file;
mod journal;
mod made;
mod mark;
mod ownership;
mod pieces;
mod runs;
mod sums;

pub(crate) use at::Home;
pub use beside::expect_alone;
pub(crate) use beside::{beside, is_device, leave_word, split};
pub(crate) use check::Checks;
pub use check::{CheckProgress, HomeCheck};
pub(crate) use checked::{Checked, Together};
pub use error::HomeError;
pub(crate) use error::shrinks;
pub(crate) use file::FileHome;
pub(crate) use journal::{Complete as JournalFound, Incomplete, Journal};
pub use made::{HomeStatus, SIZE_MAX, create_home, home_status, resize_home, snapshot_home};
pub(crate) use made::{check_size, is_size, open_clean};
pub(crate) use mark::{Left, MarkFile, Marked};
pub(crate) use ownership::Ownership;
pub(crate) use pieces::{PIECE_BYTES_MAX, Piece, Pieces};
pub(crate) use runs::runs;
pub(crate) use sums::Opening;
