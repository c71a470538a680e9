//! The rules of a watcher, each of which a test can take out to see that the checkers notice.
//!
//! Two more are others': that a home's lease ends within the watcher's (**LeaseWithinSource**) is the hub's, and that a
//! watcher is asked for each commit again (**PromiseOnce**) is the store's.

/// A rule of watching a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A commit is promised when its update is released.
    PromiseReleased,
    /// An update stays marked until the store tells that its commit is applied: that it was promised is not enough.
    UnmarkWhenVisible,
    /// Everything is marked when the session is lost, and when a lease begins that does not follow on the one before:
    /// what changes between the two, the store tells nobody.
    StarWhenLost,
    /// Everything is marked in the place of what a commit changes beyond those that are marked one by one.
    StarWhenMany,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::PromiseReleased, Self::UnmarkWhenVisible, Self::StarWhenLost, Self::StarWhenMany];
}
