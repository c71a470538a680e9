//! The rules of a watcher, each of which a test can take out to see that the checkers notice.
//!
//! Others belong to its partners. The hub ends a home's lease within the watcher's (**LeaseWithinSource**). The store
//! asks a watcher for each commit again (**PromiseOnce**), and a node of it that has closed a shard gives no lease
//! before it has told the shard's next place (**PlaceBeforeLease**).

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
    /// The lease of the hub is the least of the leases of all nodes that have shards, and everything stays marked until
    /// each of them has given one: a node without a lease changes its pages without a word.
    LeaseOfEveryNode,
    /// A shard that has moved needs the lease of its new node, which may never have been asked for one.
    FollowMoves,
    /// A commit on pages of several nodes has a part at each, which stays marked until that node has applied it.
    EachItsPart,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::PromiseReleased,
        Self::UnmarkWhenVisible,
        Self::StarWhenLost,
        Self::StarWhenMany,
        Self::LeaseOfEveryNode,
        Self::FollowMoves,
        Self::EachItsPart,
    ];
}
