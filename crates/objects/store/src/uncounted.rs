//! The commits in a log without a count in their record. The programs of format 3 and earlier counted a commit when it
//! was durable, and logged its count with a later commit.
//!
//! ```text
//!   format 3                                         | format 4
//!   a   b   Counts{a: 1, b: 2}   c   d   Counts{c: 3} | Incarnation{4}   e 5   f 6
//!                                                d is 4
//! ```
//! The count of such a commit is
//! 1. the one that a `Counts` behind it names;
//! 2. without one, counted back from the first incarnation behind it that has a count: in the log of one node counts
//!    are consecutive, and the last commit before the incarnation has its count;
//! 3. without that either, the next one: it was not given yet.
//!
//! The store gives counts by the third rule once, before anything is written back. From then on the checkpoint may be
//! ahead of these commits, and the incarnation that was durable before tells their counts.

use crate::{CommitRecord, Counted, Position, UncountedCommit};
use alloc::collections::VecDeque;
use types::{Vector, Version};

/// The commits of a log whose counts are not known yet, in the order of the log.
#[derive(Debug, Default)]
pub struct Uncounted(VecDeque<(Position, UncountedCommit)>);

impl Uncounted {
    /// Adds the log's next commit without a count.
    pub fn push(&mut self, position: Position, commit: UncountedCommit) {
        self.0.push_back((position, commit));
    }

    /// Returns the commit that this count was given to, unless its record was freed.
    pub fn counted(&mut self, counted: Counted) -> Option<(Position, CommitRecord)> {
        let is_first = self.0.front().is_some_and(|(_, commit)| commit.txn == counted.txn);
        if is_first { self.pop(counted.version) } else { None }
    }

    /// Returns the next commit, given that the last one has this count.
    pub fn pop_through(&mut self, last: Version) -> Option<(Position, CommitRecord)> {
        let behind = self.0.len().saturating_sub(1) as u64;
        self.pop(Version(last.0.saturating_sub(behind)))
    }

    /// Returns the next commit, given its count.
    pub fn pop(&mut self, count: Version) -> Option<(Position, CommitRecord)> {
        let (position, UncountedCommit { txn, answered, deltas }) = self.0.pop_front()?;
        Some((position, CommitRecord { txn, counts: Vector::only(count), answered, deltas }))
    }
}
