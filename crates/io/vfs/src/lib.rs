//! The base of a log and a page home: the files of one directory, the meaning of their errors, and little-endian
//! fields.
//!
//! | to change | see |
//! |---|---|
//! | what is asked of a file system | `files.rs`, `directory.rs` |
//! | writes past the system's page cache | `directory.rs`, `aligned.rs` |
//! | what an error of the system means, and what is waited out | `errno.rs`, `patience.rs` |
//! | what an error says | `error.rs` |
//! | room kept aside for a start on a full disk | `reserve.rs` |
//! | looking without changing anything | `overlay.rs` |
//! | numbers drawn by the system | `random.rs` |
//! | numbers in what was written | `fields.rs` |
//! | checksums of it | `checksum.rs` |
//! | crashes and failures in tests | `memory.rs`, `memory/blocks.rs` |

mod aligned;
mod checksum;
mod directory;
mod errno;
mod error;
mod fields;
mod files;
#[cfg(feature = "memory")]
pub mod memory;
mod overlay;
mod patience;
mod random;
pub mod reserve;

pub use aligned::{Aligned, BLOCK};
pub use checksum::checksum;
pub use directory::{Directory, can_write, find_directory_above, lock_holder, make_directory};
pub use errno::{Call, On, Refused, Verdict, judge};
pub use error::{Doing, FileError, contain};
pub use fields::{Fields, Malformed};
pub use files::{File, Files, How, Lock, Locking, fill, read_small, replace_small};
pub use overlay::Overlay;
pub use patience::{Patience, Pause};
pub use random::random;
