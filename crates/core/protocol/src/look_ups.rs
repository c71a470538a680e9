//! The family of lookups: a cache of another machine reads words of a home's table.
//!
//! ```text
//!   cache                         responder, beside the home
//!     | Read{id, slots} ------------> |
//!     | <------------- Words{id, ..}  |   the words, and what says whether they count
//! ```
//! A home whose table can be read without its processor says behind its first answer where ([`Window`]).
//!
//! A cache has several of them under way, which are answered in their order. The answer has what a reader of the table
//! would have read: the lease, loaded before the words, and the home's clock, read after them. Whether a response is
//! current is decided by the cache, by these alone: its own clock has no part in it.

use crate::Goodbye;
use crate::directions::ordered_messages;
use alloc::vec::Vec;
use types::Time;

/// Asks for words of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The cache's number for the question.
    pub id: u64,
    /// The words' places.
    pub slots: Vec<u32>,
}

/// The answer to [`Read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// The cache's number for the question.
    pub id: u64,
    /// The head of the table, as it was with these words.
    pub head: Head,
    /// The words, in the order of the question.
    pub words: Vec<u64>,
}

/// Where the table can be read by libfabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The name of the home's endpoint.
    pub name: Vec<u8>,
    /// Where the table begins, as the provider counts.
    pub base: u64,
    /// The key to it.
    pub key: u64,
    /// The slots that it has.
    pub slots: u32,
}

/// The words of a table that are not of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The home's life.
    pub life: u64,
    /// The table's generation.
    pub generation: u64,
    /// When the home's lease is over, by its clock: loaded before the words.
    pub lease: Time,
    /// The time by that clock: read after the words.
    pub now: Time,
    /// The home's fill clock, for tickets; zero while none are given.
    pub fills: u64,
}

ordered_messages! {
    /// The messages of a cache to a table.
    pub enum ToTable {
        /// Wants words.
        Read(Read),
        /// Ends the session, with the reason.
        Goodbye(Goodbye),
    }
}

ordered_messages! {
    /// The messages of a table to a cache.
    pub enum FromTable {
        /// The words.
        Words(Words),
        /// Where they can be read.
        Window(Window),
        /// Ends the session, with the reason.
        Goodbye(Goodbye),
    }
}
