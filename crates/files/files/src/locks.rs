//! Locks of paths, for those who change single files of a site (rule PExcludes).

use spread::LockState;
use spread::messages::Token;
use std::fmt;
use std::time::Duration;
use tree::{ChunkHash, Path};

/// The lock of a path of a site, whatever is there. While it is held, no other publisher changes the path: a publish or
/// rollback that would do so recalls the lock, and waits until it is released, or for a lease at most. Dropped, it is
/// released.
///
/// A lock can end earlier: with its lease if the server was out of reach, by a restart of the server, with its site, or
/// by a publish that ends locks. Publishes that name an ended lock are refused.
#[derive(Debug)]
pub struct Lock {
    path: Path,
    token: Token,
    head: Option<(u64, ChunkHash)>,
    place: Box<dyn LockPlace>,
}

/// The place of a lock: an own store, or a server. Dropped, it releases the lock.
pub(crate) trait LockPlace: fmt::Debug + Send + Sync {
    /// The state of the lock.
    fn state(&self) -> LockState;

    /// Waits for another state than [`LockState::Held`], at most so long.
    fn wait(&self, within: Duration) -> LockState;
}

impl Lock {
    pub(crate) fn new(
        path: Path,
        token: Token,
        head: Option<(u64, ChunkHash)>,
        place: impl LockPlace + 'static,
    ) -> Self {
        Self { path, token, head, place: Box::new(place) }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lock's name, for [`Publish::locks`](crate::Publish::locks).
    pub fn token(&self) -> Token {
        self.token
    }

    /// The number and tree of the newest revision when the lock was granted; none before the first. Later ones have the
    /// same entry at the path, unless this publisher has changed it.
    pub fn head(&self) -> Option<(u64, ChunkHash)> {
        self.head
    }

    /// The state.
    pub fn state(&self) -> LockState {
        self.place.state()
    }

    /// Whether others wait for the lock: its holder should publish and release it within the lease.
    pub fn is_recalled(&self) -> bool {
        self.state() != LockState::Held
    }

    /// Whether it has ended, so that others may change the path.
    pub fn is_over(&self) -> bool {
        self.state() == LockState::Over
    }

    /// Waits until the lock is recalled or over, or the time has passed. Returns the state of the lock.
    pub fn wait(&self, within: Duration) -> LockState {
        self.place.wait(within)
    }
}
