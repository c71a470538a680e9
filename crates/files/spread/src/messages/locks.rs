//! Locks of paths (the Publish paper's P): while one is held, its holder alone changes the path (**PExcludes**).
//!
//! ```text
//!   publisher                                     file server
//!     | Lock{ticket, path}, KeepLocks{asked} ------> |
//!     | <----------------- LocksKept{asked, lease}   |
//!     | <----------------- Locked{ticket, token, 17} |   behind the publishes under way, and the holders before
//!     | Switch{locks: token} ----------------------> |
//!     | <----------------- RecallLock{token}         |   another publisher waits for the lock, or for the path
//!     | Unlock{ticket} ----------------------------> |
//! ```

use super::fields::{MayBe, PathBytes, Token};
use super::publishes::Identity;
use crate::number::Number;
use alloc::string::String;
use alloc::vec::Vec;
use framing::{Rest, Text, messages};
use tree::ChunkHash;
use types::Time;
use types::limits::{LOCKS_PER_PUBLISHER_MAX, SITE_NAME_BYTES_MAX, SPACE_NAME_BYTES_MAX};

messages! {
    /// A publisher wants the lock of a path, and waits for it. A [`KeepLocks`] follows.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Lock {
        /// The publisher, and its number for the request.
        pub identity: Identity,
        /// The space of the site.
        pub space: String as Text<SPACE_NAME_BYTES_MAX>,
        /// The site.
        pub site: String as Text<SITE_NAME_BYTES_MAX>,
        /// The names of the path with slashes between them. Nothing has to be there.
        pub path: Vec<u8> as PathBytes,
    }

    /// A publisher asks for more of the lease of its locks in this session, and for those that it waits for.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct KeepLocks {
        /// When it asks, by its own clock.
        pub asked: Time,
        /// The publisher.
        pub publisher: u64,
        /// Locks of an earlier session, which continue in this one.
        pub tokens: Vec<Token> as Rest<LOCKS_PER_PUBLISHER_MAX>,
    }

    /// A publisher releases a lock, or waits for it no longer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Unlock {
        /// The identity of its [`Lock`].
        pub identity: Identity,
    }

    /// A lock is granted. It has the lease of the last [`LocksKept`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Locked {
        /// The publisher's number for the request.
        pub ticket: u64,
        /// The lock.
        pub token: Token,
        /// The newest revision. Only the holder changes the path in later revisions.
        pub number: Number,
        /// Its tree, if there is one.
        pub root: Option<ChunkHash> as MayBe,
    }

    /// The lease of a publisher's locks, but for those that were recalled.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LocksKept {
        /// When the publisher asked, by its own clock.
        pub asked: Time,
        /// The lease from then on, in milliseconds by its own clock.
        pub lease_ms: u32,
    }

    /// Another publisher waits for a lock, the lease of which is not renewed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RecallLock {
        /// The lock.
        pub token: Token,
    }

    /// A lock has ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LockOver {
        /// The lock.
        pub token: Token,
    }
}
