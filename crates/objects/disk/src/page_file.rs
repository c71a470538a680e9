//! The page home: the pages that a store is master of, with their versions and the checkpoint that belongs to them.
//!
//! | to change | see |
//! |---|---|
//! | what a home must do | `page_file.rs` |
//! | how pages lie in the file | `redb.rs`, `state.rs`, `checkpoint.rs` |
//! | what redb asks of the file | `backend.rs` |

mod backend;
mod checkpoint;
mod redb;
mod state;
#[cfg(test)]
mod tests;

pub use crate::page_file::redb::{NAME, RedbHome, catches_panic};

use bytes::Bytes;
use std::fmt;
use store::{Checkpoint, HomeImage};
use types::{PageId, Version};
use vfs::FileError;

/// The result of reading one page: its version and its image; `None` if it was never installed.
pub type Read = Option<(Version, Bytes)>;

/// The outcome of reading one page. An error is damage to this page alone.
pub type Found = Result<Read, FileError>;

/// The outcome of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// It is written back.
    Done,
    /// There was no room; nothing of it was installed.
    Full,
}

/// Where pages live. Many threads may read while one installs.
pub trait Home: fmt::Debug + Send + Sync {
    /// The checkpoint that the last install left.
    fn checkpoint(&self) -> Checkpoint;

    /// The last position of the log that was durable at the last install.
    fn durable(&self) -> u64;

    /// How many installs there were. The thread that writes the log must not wait here for an install that is under
    /// way.
    fn installs(&self) -> u64;

    /// Refuses a home that is older than what the log has seen of it: a copy put back without the log that belongs to
    /// it, or damage by which an earlier install is considered the last.
    fn must_have(&self, installs: u64) -> Result<(), FileError>;

    /// Reads pages, each on its own: one that is damaged keeps no other from being read.
    ///
    /// # Errors
    /// If the home is closed, or cannot be opened again after the file has failed.
    fn read(&self, pages: &[PageId]) -> Result<Vec<(PageId, Found)>, FileError>;

    /// Installs a batch, atomically and durably. `durable`, a position of the log, is remembered with it.
    fn install(&self, images: &[HomeImage], checkpoint: Checkpoint, durable: u64) -> Result<Installed, FileError>;

    /// Remembers what is durable in the log, and ends: nothing is read or installed afterwards.
    fn close(&self, durable: u64) -> Result<(), FileError>;
}
